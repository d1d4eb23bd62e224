//! What cgroups map together, by file and page: for who asks a few times per hour.
//!
//! The idea: the pages of a file are told apart by where they are in the file. A page is *shared*
//! if processes of two cgroups have it in their page tables, and *idle* if no process that has it
//! was seen to touch it, whatever its cgroup. For example, two cgroups map a file of 64 MiB and one
//! of them touches all of it: 64 MiB are shared in both, and none of it is idle in either.
//!
//! Invariants. A page counts once per cgroup. What no look can tell of is not idle.
//!
//! Absent: anonymous memory that is shared after a fork, and pages of private mappings that can be
//! written, which become a process's own. Processes that the context does not watch are not asked.

use std::collections::{BTreeMap, BTreeSet};

use isotherm_core::{PageBits, Snapshot, TargetId, UnitInfo};

use super::Groups;
use super::ages::IDLE_MIN;

/// What somebody wants to know of pages.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Wanted {
    /// What the cgroups share.
    pub shared: bool,
    /// Every file that is mapped. From the first time on its path is kept in memory.
    pub files: bool,
    /// Every unit of 2 MiB, if there are not more than this in the context.
    pub units: Option<usize>,
}

/// What a context knows of pages.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct PagesSeen {
    /// By cgroup: bytes of its pages that processes of other cgroups have mapped as well. A cgroup
    /// whose pages nobody sees is not in it.
    pub shared: BTreeMap<String, u64>,
    /// By cgroup and path; nothing unless it was wanted.
    pub files: Vec<FileSeen>,
    /// By target and address; nothing unless it was wanted.
    pub units: Vec<UnitSeen>,
    /// How many units were left out since they are too many.
    pub left_out: usize,
}

/// A file that processes of a cgroup map: what they can only read of it, or write for all.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct FileSeen {
    /// The cgroup.
    pub cgroup: String,
    /// The file's path, as a process sees it that maps it.
    pub path: String,
    /// Its device: the major number times 2^32, plus the minor number.
    pub device: u64,
    /// Its inode.
    pub inode: u64,
    /// How far into the file it is mapped, in bytes: its size, if its end is mapped.
    pub size: u64,
    /// Bytes of address space, in all processes of the cgroup together.
    pub mapped: u64,
    /// How many processes of the cgroup map it.
    pub mappers: u32,
    /// Bytes that processes of the cgroup have in their page tables, each page once; none if the
    /// method does not see single pages.
    pub resident: Option<u64>,
    /// By [`IDLE_MIN`]: bytes of these in which no look has found a touch by any process for so
    /// long; none until the cgroup was watched for so long.
    pub idle: [Option<u64>; IDLE_MIN.len()],
}

/// A unit of 2 MiB of a target.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UnitSeen {
    /// The target.
    pub id: TargetId,
    /// Its cgroup, if it is known.
    pub cgroup: Option<String>,
    /// Its pages.
    pub unit: UnitInfo,
    /// By [`IDLE_MIN`]: pages in which no look has found a touch for so long.
    pub idle: [u64; IDLE_MIN.len()],
}

/// The pages of 2 MiB of an object.
#[derive(Debug, Default)]
struct Pages {
    /// By [`IDLE_MIN`]: pages that some process has, and that are not known to be idle for so long.
    young: [PageBits; IDLE_MIN.len()],
    /// By cgroup: the pages that its processes have.
    by_cgroup: Vec<(usize, PageBits)>,
}

/// A file in a cgroup, while it is added up.
#[derive(Debug, Default)]
struct File {
    size: u64,
    mapped: u64,
    mappers: u32,
    resident: u64,
    idle: [u64; IDLE_MIN.len()],
}

impl Groups {
    /// What is known of pages as of the last snapshot that [`Groups::now`] was asked about. `pids`:
    /// the processes of the targets.
    pub fn pages(
        &mut self,
        s: &Snapshot,
        pids: &BTreeMap<TargetId, u32>,
        wanted: Wanted,
    ) -> PagesSeen {
        if wanted.files {
            self.sharing.keep_paths();
        }
        self.sharing.follow(s, |id| pids.get(&id).copied());
        let targets: Vec<(TargetId, &str)> = s
            .targets
            .iter()
            .filter_map(|t| Some((t.id, self.belongs.get(&t.id)?.cgroup.as_str())))
            .collect();
        let names: BTreeSet<&str> = targets.iter().map(|(_, cgroup)| *cgroup).collect();
        let names: Vec<&str> = names.into_iter().collect();
        let mut seen = PagesSeen::default();
        if wanted.shared || wanted.files {
            let objects = self.objects(&targets, &names, s, wanted.files);
            seen.shared = self.shared(&targets, &names, &objects);
            if wanted.files {
                seen.files = self.files(&targets, &names, &objects, s);
            }
        }
        if let Some(most) = wanted.units {
            let all: usize = self.units.values().map(BTreeMap::len).sum();
            if all <= most {
                seen.units = self.all_units(s);
            } else {
                seen.left_out = all;
            }
        }
        seen
    }

    /// Pages of a unit that are idle for so many minutes, as far as looks tell.
    fn idle(&self, id: u32, unit: &UnitInfo, minutes: u64, s: &Snapshot) -> PageBits {
        let ages = self.ages.as_ref().and_then(|ages| ages.get(&id)?.0.get(&unit.start));
        let known = unit.present.minus(unit.unresolved);
        ages.map_or_else(PageBits::default, |ages| ages.likely(minutes, s.end).and(known))
    }

    /// By object and where in it: its pages. Only those that may be shared, unless `all` are asked
    /// for.
    fn objects(
        &self,
        targets: &[(TargetId, &str)],
        names: &[&str],
        s: &Snapshot,
        all: bool,
    ) -> BTreeMap<(u32, u64), Pages> {
        let sharing = self.sharing.sharing();
        let mut objects: BTreeMap<(u32, u64), Pages> = BTreeMap::new();
        for (id, cgroup) in targets {
            let Some(units) = self.units.get(&id.0) else { continue };
            let nr = names.partition_point(|name| name < cgroup);
            let planes = |unit: &UnitInfo| {
                let young = |minutes| unit.present.minus(self.idle(id.0, unit, minutes, s));
                let [one, five, thirty] = IDLE_MIN.map(young);
                [unit.present, one, five, thirty]
            };
            let units = if all {
                sharing.object_units(id.0, units, planes)
            } else {
                sharing.shared_units(id.0, units, planes)
            };
            for unit in &units {
                let pages = objects.entry((unit.object(), unit.start())).or_default();
                let [present, young @ ..] = unit.planes();
                for (sum, young) in pages.young.iter_mut().zip(young) {
                    *sum = sum.or(*young);
                }
                match pages.by_cgroup.iter_mut().find(|(of, _)| *of == nr) {
                    Some((_, own)) => *own = own.or(*present),
                    None => pages.by_cgroup.push((nr, *present)),
                }
            }
        }
        objects
    }

    /// By cgroup: what others have mapped as well.
    fn shared(
        &self,
        targets: &[(TargetId, &str)],
        names: &[&str],
        objects: &BTreeMap<(u32, u64), Pages>,
    ) -> BTreeMap<String, u64> {
        let mut sums = vec![0_u64; names.len()];
        for pages in objects.values() {
            let (mut once, mut twice) = (PageBits::default(), PageBits::default());
            for (_, own) in &pages.by_cgroup {
                twice = twice.or(once.and(*own));
                once = once.or(*own);
            }
            for (nr, own) in &pages.by_cgroup {
                sums[*nr] += own.and(twice).count() << 12;
            }
        }
        let has_pages = |name: &str| {
            targets.iter().any(|(id, cgroup)| *cgroup == name && self.units.contains_key(&id.0))
        };
        let named = names.iter().zip(sums).filter(|(name, _)| has_pages(name));
        named.map(|(name, sum)| ((*name).to_owned(), sum)).collect()
    }

    fn files(
        &self,
        targets: &[(TargetId, &str)],
        names: &[&str],
        objects: &BTreeMap<(u32, u64), Pages>,
        s: &Snapshot,
    ) -> Vec<FileSeen> {
        let mut files: BTreeMap<(usize, u32), File> = BTreeMap::new();
        let mut keys: BTreeMap<u32, (u64, u64, &str)> = BTreeMap::new();
        for (id, cgroup) in targets {
            let nr = names.partition_point(|name| name < cgroup);
            let mut counted = BTreeSet::new();
            for (object, range, of) in self.sharing.sharing().mapped(id.0) {
                let Some(path) = self.sharing.path_of(of.device, of.inode) else { continue };
                keys.insert(object, (of.device, of.inode, path));
                let file = files.entry((nr, object)).or_default();
                file.size = file.size.max(of.offset.saturating_add(range.len()));
                file.mapped = file.mapped.saturating_add(range.len());
                file.mappers += u32::from(counted.insert(object));
            }
        }
        for ((object, _), pages) in objects {
            for (nr, own) in &pages.by_cgroup {
                let Some(file) = files.get_mut(&(*nr, *object)) else { continue };
                file.resident += own.count() << 12;
                for (sum, young) in file.idle.iter_mut().zip(pages.young) {
                    *sum += own.minus(young).count() << 12;
                }
            }
        }
        let sees_pages: BTreeSet<&str> = targets
            .iter()
            .filter(|(id, _)| self.units.contains_key(&id.0))
            .map(|(_, name)| *name)
            .collect();
        let told = files.into_iter().filter_map(|((nr, object), file)| {
            let (device, inode, path) = *keys.get(&object)?;
            let cgroup = *names.get(nr)?;
            let has_pages = sees_pages.contains(cgroup);
            let since = self.returned.get(cgroup).filter(|_| has_pages).map(|(since, _)| *since);
            let watched_ns = since.map_or(0, |since| s.end.since(since));
            let is_long = |minutes: u64| watched_ns >= minutes * 60_000_000_000;
            Some(FileSeen {
                cgroup: cgroup.to_owned(),
                path: path.to_owned(),
                device,
                inode,
                size: file.size,
                mapped: file.mapped,
                mappers: file.mappers,
                resident: has_pages.then_some(file.resident),
                idle: std::array::from_fn(|at| is_long(IDLE_MIN[at]).then_some(file.idle[at])),
            })
        });
        told.collect()
    }

    fn all_units(&self, s: &Snapshot) -> Vec<UnitSeen> {
        let of = |id: &u32, unit: &UnitInfo| UnitSeen {
            id: TargetId(*id),
            cgroup: self.belongs.get(&TargetId(*id)).map(|of| of.cgroup.clone()),
            unit: *unit,
            idle: IDLE_MIN.map(|minutes| self.idle(*id, unit, minutes, s).count()),
        };
        let units = self.units.iter();
        units.flat_map(|(id, units)| units.values().map(move |unit| of(id, unit))).collect()
    }
}
