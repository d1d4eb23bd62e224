//! What the cgroups of the targets use: working set, hot and cold memory, idle time.
//!
//! A group is all targets of one cgroup. Memory that several of them map is counted once, as hot as
//! in the process in which it is hottest (`record::once`). Cgroups share memory with each other as
//! well, so the sum over groups can be more than the machine has.
//!
//! Which cgroup a process is in is read when it becomes a target, and then in turn, so many at each
//! asking; [`Group::age_ns`] tells how old the oldest answer within a group is.
//!
//! Targets that the set has no place for are in no window, so the memory of a group leaves them
//! out. The group counts them, and [`Group::look_age_ns`] tells how old what is known of it is.
//!
//! Only census tells of single pages. With other methods all numbers are those of regions.

mod ages;
mod by;
mod shared;
mod sums;

use std::collections::{BTreeMap, BTreeSet};

use isotherm_core::unit::UNIT;
use isotherm_core::{Lengths, RegionInfo, Snapshot, TargetId, TargetInfo, Time, Touched, UnitInfo};
use isotherm_host::namespace::read_cgroup;
use isotherm_host::proc::Proc;
use isotherm_ops::targets::cgroup::cgroup_to_show;

use crate::monitor::Looks;
use crate::ready::idle_bytes;
use crate::sharing::LiveSharing;
pub use ages::IDLE_MIN;
use ages::TargetAges;
pub use by::{By, GroupNames};
pub use shared::{FileSeen, PagesSeen, UnitSeen, Wanted};
use sums::{Sums, planes};

#[cfg(test)]
mod tests;

/// So many processes are asked again for their cgroup at each asking. A process costs about 10 µs.
const TURNS: usize = 64;

/// Bytes by how long ago they were touched.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Tiers {
    /// Touched within a second; by regions: within the last window.
    pub hot: u64,
    /// Touched within a minute.
    pub warm: u64,
    /// Not touched for longer, as far as was measured.
    pub cold: u64,
    /// Nothing is known of them.
    pub unresolved: u64,
}

/// What is known of the idle times of a group's pages: bytes by [`IDLE_MIN`], shared memory once
/// and as in the process that uses it most.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Ages {
    /// Idle for so long when their units were looked at last. A lower bound.
    pub proven: [u64; IDLE_MIN.len()],
    /// Idle for so long now, if nothing was touched since its unit was looked at last.
    pub likely: [u64; IDLE_MIN.len()],
    /// Touched again after having been idle for at least so long, since the group is watched. Only
    /// goes up, until the context ends or the group is gone. Idle times are lower bounds, and pages
    /// that were taken away meanwhile are not in it.
    pub returned: [u64; IDLE_MIN.len()],
    /// Looked at within so long. Other than the rest, shared memory counts for each process.
    pub looked: [u64; IDLE_MIN.len()],
    /// All of which anything is known, in the same way.
    pub known: u64,
}

/// What the targets in one cgroup use.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Group {
    /// The cgroup's path from the root of its hierarchy, or what else makes the group ([`By`]).
    pub cgroup: String,
    /// How many targets are in it that are watched.
    pub processes: usize,
    /// How many more are in it that have no place in the set now. They are in none of the sizes.
    pub waiting: usize,
    /// Its memory, shared memory once.
    pub tiers: Tiers,
    /// By span, if the method sees single pages: how much was touched, shared memory once.
    pub touched: Option<Touched>,
    /// The working set of the last window by regions, in bytes, shared memory once.
    pub working_set: u64,
    /// Bytes by idle time in ms, in order of time, shared memory once; see [`idle_bytes`].
    pub idle: Vec<(u64, u64)>,
    /// How long ago the process that waits the longest was asked for its cgroup, in ns.
    pub age_ns: u64,
    /// How long ago its target that waits the longest was looked at, in ns: on average over the
    /// memory of one that is watched; of one without a place, since it is none or became a target.
    pub look_age_ns: u64,
    /// For how long targets of it have been watched without a break, in ns. Idle times beyond it
    /// can only be those of targets that came from another group, or were idle before the break. A
    /// pause of the context is one, if it is longer than a window.
    pub watched_ns: u64,
    /// By idle time; none if it is not asked for ([`Groups::with_ages`]), or if the method does not
    /// see single pages.
    pub ages: Option<Ages>,
}

/// The targets of a group.
#[derive(Debug, Default)]
struct Members<'a> {
    watched: Vec<&'a TargetInfo>,
    /// Those without a place.
    waiting: Vec<TargetId>,
}

/// What a target belongs to, as of some time.
#[derive(Debug, Clone, Default)]
struct Belongs {
    cgroup: String,
    /// Its effective user, where groups are users.
    uid: Option<u32>,
    asked_at: Time,
}

/// Follows the cgroups of targets, and their pages.
#[derive(Debug, Default)]
pub struct Groups {
    belongs: BTreeMap<TargetId, Belongs>,
    by: By,
    names: GroupNames,
    units: BTreeMap<u32, BTreeMap<u64, UnitInfo>>,
    /// By target, if that is asked for.
    ages: Option<BTreeMap<u32, TargetAges>>,
    /// By group that is watched: since when, and what came back so far, if ages are followed.
    returned: BTreeMap<String, (Time, [u64; IDLE_MIN.len()])>,
    /// When the last window ended.
    seen_to: Option<Time>,
    sharing: LiveSharing,
    proc: Proc,
    buf: Vec<u8>,
}

impl Groups {
    /// With the processes of this `/proc`.
    #[must_use]
    pub fn new(proc: Proc, by: By) -> Self {
        Self { proc, by, ..Self::default() }
    }

    /// Follows the idle times of pages as well. That takes 0.8 KiB more per 2 MiB watched.
    #[must_use]
    pub fn with_ages(mut self) -> Self {
        self.ages = Some(BTreeMap::new());
        self
    }

    /// Takes in what a window tells of pages. Every snapshot has to come here.
    pub fn learn(&mut self, s: &Snapshot) {
        self.note_break(s);
        let of_units = || s.targets.iter().filter(|t| t.touched.is_some());
        // Mostly these are the targets of the window before.
        if !self.units.keys().copied().eq(of_units().map(|t| t.id.0)) {
            let ids: BTreeSet<u32> = s.targets.iter().map(|t| t.id.0).collect();
            self.units.retain(|id, _| ids.contains(id));
            for t in of_units() {
                self.units.entry(t.id.0).or_default();
            }
            if let Some(ages) = &mut self.ages {
                ages.retain(|id, _| self.units.contains_key(id));
            }
        }
        for t in of_units().filter(|t| !t.units.is_empty()) {
            let known = self.units.entry(t.id.0).or_default();
            known.extend(t.units.iter().map(|unit| (unit.start, *unit)));
            if let Some(ages) = &mut self.ages {
                ages.entry(t.id.0).or_default().learn(t.units.iter(), s.end);
            }
        }
    }

    /// After a time in which nobody looked, all groups are watched since the end of that.
    fn note_break(&mut self, s: &Snapshot) {
        let window_ns = s.aggr_us.saturating_mul(1000);
        let before = self.seen_to.replace(s.end);
        if before.is_some_and(|before| s.start.since(before) > window_ns) {
            self.returned.values_mut().for_each(|(since, _)| *since = s.start);
        }
    }

    /// Forgets pages that are not mapped any more.
    fn forget(&mut self, s: &Snapshot) {
        for t in &s.targets {
            let Some(known) = self.units.get_mut(&t.id.0) else { continue };
            let Some((first, last)) = t.regions.first().zip(t.regions.last()) else { continue };
            let all = first.range.start..last.range.end;
            known.retain(|start, unit| {
                *start < all.end
                    && start.saturating_add(UNIT) > all.start
                    && !unit.present.is_empty()
            });
            if let Some(ages) = self.ages.as_mut().and_then(|ages| ages.get_mut(&t.id.0)) {
                ages.0.retain(|start, _| known.contains_key(start));
            }
        }
    }

    /// The groups as of the last window, by path. `pids`: the processes of the targets; `looks`:
    /// when these were looked at, and who has no place.
    pub fn now(
        &mut self,
        s: &Snapshot,
        lengths: &Lengths,
        pids: &BTreeMap<TargetId, u32>,
        looks: &Looks,
    ) -> Vec<Group> {
        let seen: BTreeSet<TargetId> = s.targets.iter().map(|t| t.id).collect();
        let waiting = || looks.waiting.keys().filter(|id| !seen.contains(id)).copied();
        self.forget(s);
        self.ask(s.end, seen.iter().copied().chain(waiting()).collect(), pids);
        self.sharing.follow(s, |id| pids.get(&id).copied());
        if self.by != By::Cgroup && self.by != By::Unit {
            self.names.refresh(s.end);
        }
        let mut members: BTreeMap<String, Members<'_>> = BTreeMap::new();
        for target in &s.targets {
            if let Some(name) = self.name_of(target.id) {
                members.entry(name).or_default().watched.push(target);
            }
        }
        for id in waiting() {
            if let Some(name) = self.name_of(id) {
                members.entry(name).or_default().waiting.push(id);
            }
        }
        let members = members.into_iter();
        let mut groups: Vec<Group> =
            members.map(|(name, of)| self.group(name, &of, s, lengths, looks)).collect();
        self.sum_up(&mut groups, s.end);
        groups
    }

    /// Tells since when each group is watched, and adds what came back since the last time to what
    /// had come back before.
    fn sum_up(&mut self, groups: &mut [Group], now: Time) {
        self.ages.iter_mut().flat_map(BTreeMap::values_mut).for_each(TargetAges::counted);
        let before = std::mem::take(&mut self.returned);
        for group in groups.iter_mut().filter(|group| group.processes > 0) {
            let (since, mut so_far) = before.get(&group.cgroup).copied().unwrap_or((now, [0; 3]));
            group.watched_ns = now.since(since);
            if let Some(ages) = &mut group.ages {
                for (sum, before) in ages.returned.iter_mut().zip(so_far) {
                    *sum = sum.saturating_add(before);
                }
                so_far = ages.returned;
            }
            self.returned.insert(group.cgroup.clone(), (since, so_far));
        }
    }

    /// The group that a target is in.
    pub(crate) fn name_of(&self, id: TargetId) -> Option<String> {
        let Belongs { cgroup, uid, .. } = self.belongs.get(&id)?;
        Some(self.names.of(self.by, cgroup, *uid))
    }

    /// Asks new targets for their cgroups, and some of the others again.
    fn ask(&mut self, now: Time, ids: BTreeSet<TargetId>, pids: &BTreeMap<TargetId, u32>) {
        self.belongs.retain(|id, _| ids.contains(id));
        let new = ids.iter().filter(|id| !self.belongs.contains_key(id)).copied();
        let mut asked: Vec<TargetId> = new.collect();
        let mut oldest: Vec<(Time, TargetId)> =
            self.belongs.iter().map(|(id, of)| (of.asked_at, *id)).collect();
        oldest.sort_unstable();
        asked.extend(oldest.into_iter().take(TURNS).map(|(_, id)| id));
        for id in asked {
            let Some(pid) = pids.get(&id) else { continue };
            // A process that has just ended stays where it was until it is gone.
            if read_cgroup(&self.proc, *pid, &mut self.buf).is_ok() {
                let cgroup = cgroup_to_show(&String::from_utf8_lossy(&self.buf)).to_owned();
                let status = || self.proc.status(*pid, &mut self.buf).ok();
                let uid = (self.by == By::User).then(status).flatten().map(|status| status.euid);
                self.belongs.insert(id, Belongs { cgroup, uid, asked_at: now });
            }
        }
    }

    fn group(
        &self,
        cgroup: String,
        members: &Members<'_>,
        s: &Snapshot,
        lengths: &Lengths,
        looks: &Looks,
    ) -> Group {
        let Members { watched: targets, waiting } = members;
        let sharing = self.sharing.sharing();
        let all = || targets.iter().map(|t| (t.id.0, t.regions.clone()));
        let regions: Vec<RegionInfo> = if targets.len() > 1 {
            sharing.regions(all()).into_iter().map(|(_, region)| region).collect()
        } else {
            all().flat_map(|(_, regions)| regions).collect()
        };
        let maps = || targets.iter().filter_map(|t| Some((t.id.0, self.units.get(&t.id.0)?)));
        let planes_of = |id: u32| {
            let ages = self.ages.as_ref().and_then(|ages| ages.get(&id));
            move |unit: &UnitInfo| {
                planes(unit, ages.and_then(|ages| ages.0.get(&unit.start)), s.end)
            }
        };
        let mut sums = Sums::default();
        maps().for_each(|(id, units)| sums.add_units(units.values().map(planes_of(id))));
        if targets.len() > 1 {
            let shared =
                maps().flat_map(|(id, units)| sharing.shared_units(id, units, planes_of(id)));
            sums.take_off(&shared.collect::<Vec<_>>());
        }
        let by_pages = maps().next().is_some();
        let touched = targets.iter().filter_map(|t| t.touched).reduce(Touched::with);
        let touched = touched.map(|mut touched| {
            for (span, again) in touched.spans.iter_mut().zip(sums.again()) {
                *span = span.map(|sum| sum.without(again.min(sum.bytes)));
            }
            touched
        });
        let tiers = if by_pages { sums.tiers() } else { Tiers::of_regions(&regions, lengths) };
        let used = regions.iter().filter(|region| region.resolved && region.nr_accesses > 0);
        let ids = || targets.iter().map(|t| t.id).chain(waiting.iter().copied());
        let asked_at = ids().filter_map(|id| self.belongs.get(&id)).map(|of| of.asked_at);
        let looked = ids().filter_map(|id| looks.waiting.get(&id).or(looks.watched.get(&id)));
        Group {
            cgroup,
            processes: targets.len(),
            waiting: waiting.len(),
            tiers,
            touched,
            working_set: used.map(|region| region.range.len()).sum(),
            idle: idle_bytes(regions.iter(), s.max_nr_accesses, lengths),
            age_ns: asked_at.min().map_or(0, |at| s.end.since(at)),
            look_age_ns: looked.min().map_or(0, |at| s.end.since(*at)),
            watched_ns: 0,
            ages: self.ages.as_ref().filter(|_| by_pages).map(|ages| {
                let mut told = sums.ages();
                for ages in targets.iter().filter_map(|t| ages.get(&t.id.0)) {
                    let looked = ages.looked(s.end);
                    told.looked.iter_mut().zip(looked).for_each(|(sum, more)| *sum += more);
                    told.known += ages.known();
                }
                told
            }),
        }
    }
}
