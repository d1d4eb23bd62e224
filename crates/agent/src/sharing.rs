//! Which memory running targets share.
//!
//! To read the mappings of hundreds of processes costs too much to do it for every line on a
//! screen. So they are read where a snapshot shows memory of which no mapping was read, and all of
//! them once a minute: another object may have come to the same place.

use std::collections::{BTreeMap, BTreeSet};

use isotherm_core::{MappingKind, RegionInfo, Snapshot, TargetId, Time};
use isotherm_record::Mapping;
use isotherm_record::once::Sharing;

use crate::maps::Maps;
use crate::recorder::mappings_of;

/// After this time all mappings are read again, in ns.
const AGAIN_NS: u64 = 60_000_000_000;

/// Follows the mappings of running targets.
#[derive(Debug, Default)]
pub struct LiveSharing {
    maps: Maps,
    sharing: Sharing,
    known: BTreeSet<TargetId>,
    version: u64,
    read_at: Option<Time>,
    text: Vec<u8>,
    /// By device and inode: the paths of mapped files, if these are asked for.
    paths: Option<BTreeMap<(u64, u64), String>>,
}

impl LiveSharing {
    /// Keeps the paths of mapped files from now on, also if there is only one target.
    pub(crate) fn keep_paths(&mut self) {
        if self.paths.is_none() {
            (self.paths, self.read_at) = (Some(BTreeMap::new()), None);
        }
    }

    /// The path of a mapped file, by device and inode: as the process whose mappings were read last
    /// sees it. None for memory that only has a name, and if paths are not kept.
    pub(crate) fn path_of(&self, device: u64, inode: u64) -> Option<&str> {
        self.paths.as_ref()?.get(&(device, inode)).map(String::as_str)
    }

    /// Takes in the targets of a snapshot. `pid_of` tells the processes; a target without one
    /// shares nothing. One target alone is not looked at, unless paths are kept. Returns whose
    /// mappings were read.
    pub fn follow(
        &mut self,
        s: &Snapshot,
        pid_of: impl Fn(TargetId) -> Option<u32>,
    ) -> Vec<TargetId> {
        let mut text = std::mem::take(&mut self.text);
        let mut read = |id| pid_of(id).map_or_else(Vec::new, |pid| mappings_of(pid, &mut text));
        let were_read = self.follow_with(s, &mut read);
        self.text = text;
        were_read
    }

    pub(crate) fn follow_with(
        &mut self,
        s: &Snapshot,
        read: &mut impl FnMut(TargetId) -> Vec<Mapping>,
    ) -> Vec<TargetId> {
        let ids: BTreeSet<TargetId> = s.targets.iter().map(|t| t.id).collect();
        for gone in self.known.difference(&ids) {
            self.maps.forget(*gone);
            self.sharing.forget(gone.0);
        }
        self.known = ids;
        if self.known.len() < 2 && self.paths.is_none() {
            return Vec::new();
        }
        if self.read_at.is_none_or(|at| s.end.since(at) >= AGAIN_NS) {
            self.read_at = Some(s.end);
            self.maps = Maps::default();
            if let Some(paths) = &mut self.paths {
                paths.clear();
            }
        }
        let unknown = self.maps.unknown(s);
        for id in &unknown {
            let mappings = read(*id);
            self.version += 1;
            self.maps.learn(*id, &mappings);
            self.sharing.learn(id.0, self.version, &mappings);
            if let Some(paths) = &mut self.paths {
                paths.extend(mappings.into_iter().filter_map(file));
            }
        }
        unknown
    }

    /// What is known of it.
    #[must_use]
    pub const fn sharing(&self) -> &Sharing {
        &self.sharing
    }

    /// The regions of all targets of a snapshot that was followed, with shared parts once, as in
    /// the target that accessed them most; none if they share nothing.
    #[must_use]
    pub fn regions_once(&self, s: &Snapshot) -> Option<Vec<RegionInfo>> {
        let all = s.targets.iter().map(|t| (t.id.0, t.regions.clone()));
        let once = || self.sharing.regions(all).into_iter().map(|(_, region)| region).collect();
        self.is_any().then(once)
    }

    /// Whether the targets of the last snapshot share memory.
    #[must_use]
    pub fn is_any(&self) -> bool {
        self.known.len() > 1 && self.sharing.is_any(self.known.iter().map(|id| id.0))
    }
}

/// The file of a mapping, by device and inode, and its path. A file that was deleted or replaced
/// keeps the path that it had.
fn file(mapping: Mapping) -> Option<((u64, u64), String)> {
    let is_file = matches!(mapping.kind, MappingKind::File | MappingKind::Library);
    let object = mapping.shared_object().filter(|_| is_file)?;
    let path = mapping.name.strip_suffix(" (deleted)").unwrap_or(&mapping.name);
    Some(((object.device, object.inode), path.to_owned()))
}

#[cfg(test)]
mod tests {
    use isotherm_core::{AddrRange, Lengths, TargetInfo};
    use isotherm_record::Object;

    use super::*;
    use crate::ready::idle_bytes;

    const M: u64 = 1 << 20;

    /// Targets with one region of so many MiB each.
    fn snapshot(at_s: u64, targets: &[(u32, u64)]) -> Snapshot {
        let target = |&(id, mib): &(u32, u64)| {
            let range = AddrRange::new(0, mib * M);
            let regions = vec![RegionInfo { range, ..RegionInfo::default() }];
            TargetInfo { id: TargetId(id), regions, ..TargetInfo::default() }
        };
        let end = Time(at_s * 1_000_000_000);
        Snapshot { end, targets: targets.iter().map(target).collect(), ..Snapshot::default() }
    }

    /// Follows a snapshot of processes that all map 8 MiB of one object; which of them were read.
    fn follow(live: &mut LiveSharing, s: &Snapshot) -> Vec<u32> {
        let object = Object { device: 1, inode: 2, offset: 0 };
        let maps = vec![Mapping::new(0, 8 * M, "rw-s", "/x").of_object(object)];
        let read = live.follow_with(s, &mut |_| maps.clone());
        read.into_iter().map(|id| id.0).collect()
    }

    #[test]
    fn mappings_are_read_of_what_is_new_and_of_all_once_a_minute() {
        let mut live = LiveSharing::default();
        assert_eq!(follow(&mut live, &snapshot(1, &[(1, 8)])), [0; 0], "one alone shares nothing");
        assert!(!live.is_any());
        assert_eq!(follow(&mut live, &snapshot(2, &[(1, 8), (2, 4)])), [1, 2]);
        assert!(live.is_any());
        assert_eq!(follow(&mut live, &snapshot(3, &[(1, 8), (2, 8)])), [0; 0], "it was known");
        assert_eq!(follow(&mut live, &snapshot(4, &[(1, 9), (2, 8)])), [1], "it has grown");
        assert_eq!(follow(&mut live, &snapshot(5, &[(1, 9), (2, 8), (3, 8)])), [3]);
        assert_eq!(follow(&mut live, &snapshot(63, &[(1, 9), (3, 8)])), [1, 3]);
        let bytes = |s| live.regions_once(&s).unwrap().iter().map(|r| r.range.len()).sum::<u64>();
        assert_eq!(bytes(snapshot(64, &[(1, 8), (3, 8)])), 8 * M);
        assert_eq!(bytes(snapshot(64, &[(1, 8), (2, 8)])), 16 * M, "2 has gone");
    }

    #[test]
    fn paths_are_those_of_files_and_kept_only_if_asked_for() {
        let of = |inode, perms, name: &str| {
            let object = Object { device: 1, inode, offset: 0 };
            Mapping::new(inode * 8 * M, inode * 8 * M + M, perms, name).of_object(object)
        };
        let maps = [
            of(1, "r-xp", "/lib/libx.so"),
            of(2, "r--s", "/srv/data (deleted)"),
            of(3, "rw-s", "/memfd:x (deleted)"),
            of(4, "rw-p", "/srv/written"),
        ];
        let one = snapshot(1, &[(1, 8)]);
        let mut live = LiveSharing::default();
        assert_eq!(live.follow_with(&one, &mut |_| maps.to_vec()), []);
        live.keep_paths();
        assert_eq!(live.follow_with(&one, &mut |_| maps.to_vec()), [TargetId(1)]);
        let paths = [1, 2, 3, 4].map(|inode| live.path_of(1, inode));
        assert_eq!(paths, [Some("/lib/libx.so"), Some("/srv/data"), None, None]);
    }

    /// Three processes map 8 MiB; two of them have 4 MiB of their own behind that.
    #[test]
    fn shared_memory_is_idle_once_and_only_if_nobody_uses_it() {
        let idle = |uses: [u32; 3]| {
            let mut s = snapshot(1, &[(1, 8), (2, 12), (3, 12)]);
            for (target, nr_accesses) in s.targets.iter_mut().zip(uses) {
                let region = &mut target.regions[0];
                (region.resolved, region.age, region.nr_accesses) = (true, 9, nr_accesses);
            }
            let mut live = LiveSharing::default();
            follow(&mut live, &s);
            let once = live.regions_once(&s).unwrap();
            let bytes = |regions: &mut dyn Iterator<Item = &RegionInfo>| {
                let idle = idle_bytes(regions, 20, &Lengths::default());
                idle.iter().map(|(_, bytes)| bytes / M).sum::<u64>()
            };
            let summed = bytes(&mut s.targets.iter().flat_map(|t| &t.regions));
            (bytes(&mut once.iter()), summed)
        };
        assert_eq!(idle([0, 0, 0]), (16, 32));
        assert_eq!(idle([1, 0, 0]), (8, 24), "their own memory is idle all the same");
        assert_eq!(idle([0, 0, 3]), (4, 20));
    }
}
