//! Targets by rule: which processes a monitor's target specifications match now.
//!
//! A pid is looked up once, when the specifications take effect, since later the same number can be
//! another process. Names, cgroups, units and sizes are looked up again and again: processes that
//! match later are added, and processes that do not match any more are removed. This is done
//! within every second, and less often where there are so many processes that it takes long.

use std::collections::{BTreeMap, BTreeSet};

use isotherm_core::{TargetId, Time};
use isotherm_host::proc::Proc;
use isotherm_ops::targets::roster::Roster;
use isotherm_ops::targets::{TargetError, TargetEvent, Tracker, find};
use isotherm_sys::clock;

use crate::policy::TargetSpec;

/// How often processes are looked for, in ns. The tracker is polled every 100 ms, so what has come
/// or moved is a target within a second.
const EVERY_NS: u64 = 800_000_000;
/// So many new processes at once are taken in the order of their size.
const MANY: usize = 64;
/// The share of one CPU that looking for large processes may take is one in so many.
const SHARE: u64 = 1_000;

/// What a monitor's targets are by, and the processes that match.
#[derive(Debug, Default)]
pub(super) struct Rules {
    specs: Vec<TargetSpec>,
    /// When processes are looked for again.
    due: Time,
    /// Finds what the rules name; none if there are none.
    roster: Option<Roster>,
    /// When processes are looked through for large ones again.
    large_due: Time,
    /// The processes that are targets because of a specification. A pid has no target yet until it
    /// is added.
    found: BTreeMap<u32, Option<TargetId>>,
    /// The processes that could not be added and were reported, with their start times, as a pid
    /// can be used again by another process.
    reported: BTreeMap<u32, u64>,
    proc: Proc,
    buf: Vec<u8>,
    /// The processes that were large enough once. They stay targets: a process whose memory was
    /// paged out is smaller because of us.
    large: BTreeSet<u32>,
}

impl Rules {
    /// Replaces the specifications. Takes effect when they are followed next.
    pub(super) fn set(&mut self, specs: &[TargetSpec]) {
        for spec in specs {
            if let TargetSpec::Pid(pid) = spec
                && !self.specs.contains(spec)
            {
                self.found.entry(*pid).or_default();
            }
        }
        if self.specs != specs {
            let rules: Vec<_> = specs.iter().filter_map(TargetSpec::rule).collect();
            let roster = |rules| Roster::new(self.proc.clone(), "/", rules);
            self.roster = (!rules.is_empty()).then(|| roster(rules));
        }
        self.specs = specs.to_vec();
        (self.due, self.large_due) = (Time::default(), Time::default());
    }

    /// Whether processes that do not exist yet can become targets.
    pub(super) fn more_may_come(&self) -> bool {
        self.specs.iter().any(TargetSpec::is_rule)
    }

    /// Follows the specifications if it is time for that; see [`Rules::follow`].
    pub(super) fn follow_at(&mut self, now: Time, tracker: &mut Tracker) -> Vec<TargetError> {
        if now < self.due || self.specs.is_empty() {
            return Vec::new();
        }
        let refused = self.follow(now, tracker);
        let wait_ns = if self.more_may_come() { EVERY_NS } else { u64::MAX };
        self.due = Time(now.as_ns().saturating_add(wait_ns));
        refused
    }

    /// Adds the processes that the specifications match, and removes those that they do not match
    /// any more. Returns the errors for processes that could not be added, once for each process.
    fn follow(&mut self, now: Time, tracker: &mut Tracker) -> Vec<TargetError> {
        self.look_for_large(now);
        if let Some(roster) = &mut self.roster {
            roster.poll(now);
        }
        let meant = self.meant();
        for pid in self.found.keys().filter(|pid| !meant.contains(pid)) {
            remove(tracker, *pid);
        }
        let mut refused = Vec::new();
        // One that has ended since is told by the tracker.
        self.found.retain(|pid, known| known.is_some() && meant.contains(pid));
        self.reported.retain(|pid, _| meant.contains(pid));
        let new = meant.into_iter().filter(|pid| !self.found.contains_key(pid)).collect();
        for pid in self.largest_first(new) {
            match tracker.add(pid) {
                Ok(id) => {
                    self.found.insert(pid, Some(id));
                }
                // The process has just ended.
                Err(err) if err.is_gone() => {}
                Err(err) => {
                    // A process without a start time has just ended.
                    let Ok(stat) = self.proc.stat(pid, &mut self.buf) else { continue };
                    if self.reported.insert(pid, stat.starttime) != Some(stat.starttime) {
                        refused.push(err);
                    }
                }
            }
        }
        refused
    }

    /// Takes in what became of a target. A process that has ended is forgotten, since its pid can
    /// be used again.
    pub(super) fn note(&mut self, event: &TargetEvent) {
        match event {
            TargetEvent::Added(target) => {
                if let Some(known @ None) = self.found.get_mut(&target.pid) {
                    *known = Some(target.id);
                }
            }
            TargetEvent::Execed { old, target } => {
                let known = self.found.values_mut().filter(|known| **known == Some(*old));
                known.for_each(|known| *known = Some(target.id));
            }
            TargetEvent::Exited(id) => {
                let Self { found, large, reported, .. } = self;
                found.retain(|pid, known| {
                    let stays = *known != Some(*id);
                    if !stays {
                        large.remove(pid);
                        reported.remove(pid);
                    }
                    stays
                });
            }
            TargetEvent::Refused(_) => {}
        }
    }

    /// A set holds so many processes and no more, so the large ones have to come first.
    fn largest_first(&mut self, mut pids: Vec<u32>) -> Vec<u32> {
        if pids.len() > MANY {
            let Self { proc, buf, .. } = self;
            let mut size = |pid: u32| proc.stat(pid, buf).map_or(0, |stat| stat.rss_pages);
            pids.sort_by_cached_key(|pid| std::cmp::Reverse(size(*pid)));
        }
        pids
    }

    fn look_for_large(&mut self, now: Time) {
        if now < self.large_due {
            return;
        }
        let began_ns = clock::thread_cpu_ns();
        let proc = Proc::default();
        let least = self.specs.iter().filter_map(|spec| match spec {
            TargetSpec::Rss(least) => Some(*least),
            _ => None,
        });
        match least.min() {
            Some(least) => self.large.extend(find::by_rss(&proc, least).unwrap_or_default()),
            None => self.large.clear(),
        }
        let lives = |pid: &u32| proc.stat(*pid, &mut Vec::new()).is_ok();
        self.large.retain(lives);
        let cost_ns = clock::thread_cpu_ns().saturating_sub(began_ns);
        let wait_ns = cost_ns.saturating_mul(SHARE).max(EVERY_NS);
        self.large_due = Time(now.as_ns().saturating_add(wait_ns));
    }

    fn meant(&self) -> BTreeSet<u32> {
        let pids = self.specs.iter().filter_map(|spec| match spec {
            TargetSpec::Pid(pid) => Some(*pid).filter(|pid| self.found.contains_key(pid)),
            _ => None,
        });
        let by_rule = self.roster.iter().flat_map(Roster::members);
        pids.chain(by_rule).chain(self.large.iter().copied()).collect()
    }
}

/// Removes a process, and its descendants that are targets because of it.
fn remove(tracker: &mut Tracker, pid: u32) {
    let all: BTreeMap<u32, _> = tracker.targets().map(|t| (t.pid, (t.id, t.ppid))).collect();
    let mut gone = vec![pid];
    while let Some(pid) = gone.pop() {
        if let Some((id, _)) = all.get(&pid) {
            tracker.remove(*id);
            gone.extend(all.iter().filter(|(_, (_, ppid))| *ppid == pid).map(|(pid, _)| *pid));
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::Path;

    use super::*;

    /// Adds a process to a made-up `/proc` whose mappings cannot be read, so it cannot be a target.
    fn put(root: &Path, pid: u32, start: u64) {
        let dir = root.join(pid.to_string());
        fs::create_dir_all(&dir).unwrap();
        let stat = format!(
            "{pid} (worker) S 1 1 1 0 -1 64 9 0 0 0 5 6 0 0 20 0 1 0 {start} 8 9 10 1 1 1 0 \
             0 0 0 0 0 0 0 0 17 0 0\n"
        );
        fs::write(dir.join("stat"), stat).unwrap();
        if !dir.join("maps").is_symlink() {
            std::os::unix::fs::symlink("maps", dir.join("maps")).unwrap();
        }
    }

    #[test]
    fn each_process_that_cannot_be_a_target_is_told_once() {
        let root = tempfile::tempdir().unwrap();
        let root = root.path();
        fs::write(root.join("loadavg"), "0.00 0.02 0.00 1/86 1\n").unwrap();
        let mut tracker = Tracker::new(Proc::new(root), true);
        let mut rules = Rules { proc: Proc::new(root), ..Rules::default() };
        rules.set(&[TargetSpec::Name("worker".into())]);
        let mut now = Time::default();
        let mut refused = |rules: &mut Rules| {
            now = now.plus_us(10_000_000);
            rules.follow(now, &mut tracker).len()
        };
        put(root, 100, 500);
        assert_eq!((refused(&mut rules), refused(&mut rules)), (1, 0));
        // The same pid, but another process.
        put(root, 100, 900);
        assert_eq!((refused(&mut rules), refused(&mut rules)), (1, 0));
        for pid in 101..200 {
            fs::remove_dir_all(root.join((pid - 1).to_string())).unwrap();
            put(root, pid, 1000);
            assert_eq!((refused(&mut rules), refused(&mut rules)), (1, 0), "{pid}");
        }
        assert_eq!(rules.reported.len(), 1, "those that have ended are forgotten");
    }
}
