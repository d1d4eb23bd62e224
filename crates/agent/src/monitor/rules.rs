//! Targets by rule: which processes a monitor's target specifications match now.
//!
//! A pid is looked up once, when the specifications take effect, since later the same number can be
//! another process. Names, cgroups, units and sizes are looked up again and again: processes that
//! match later are added, and processes that do not match any more are removed. This is done about
//! every second, and less often where there are so many processes that it takes long.

use std::collections::{BTreeMap, BTreeSet};

use isotherm_core::{TargetId, Time};
use isotherm_host::proc::Proc;
use isotherm_ops::targets::{TargetError, TargetEvent, Tracker, find};
use isotherm_sys::clock;

use crate::policy::TargetSpec;

/// How often processes are looked for, in ns.
const EVERY_NS: u64 = 1_000_000_000;
/// The share of one CPU that looking for processes may take is one in so many.
const SHARE: u64 = 1_000;

/// What a monitor's targets are by, and the processes that match.
#[derive(Debug, Default)]
pub(super) struct Rules {
    specs: Vec<TargetSpec>,
    /// When processes are looked for again.
    due: Time,
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
        self.specs = specs.to_vec();
        self.due = Time::default();
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
        let began_ns = clock::thread_cpu_ns();
        let refused = self.follow(tracker);
        let cost_ns = clock::thread_cpu_ns().saturating_sub(began_ns);
        let is_rule = self.more_may_come();
        let wait_ns = if is_rule { cost_ns.saturating_mul(SHARE).max(EVERY_NS) } else { u64::MAX };
        self.due = Time(now.as_ns().saturating_add(wait_ns));
        refused
    }

    /// Adds the processes that the specifications match, and removes those that they do not match
    /// any more. Returns the errors for processes that could not be added, once for each process.
    fn follow(&mut self, tracker: &mut Tracker) -> Vec<TargetError> {
        self.look_for_large();
        let meant = self.meant();
        for pid in self.found.keys().filter(|pid| !meant.contains(pid)) {
            remove(tracker, *pid);
        }
        let mut refused = Vec::new();
        self.found.clear();
        self.reported.retain(|pid, _| meant.contains(pid));
        for pid in meant {
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

    fn look_for_large(&mut self) {
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
    }

    fn meant(&self) -> BTreeSet<u32> {
        let proc = &self.proc;
        let mut meant = BTreeSet::new();
        for spec in &self.specs {
            match spec {
                TargetSpec::Pid(pid) => {
                    meant.extend(Some(*pid).filter(|pid| self.found.contains_key(pid)));
                }
                // A name or cgroup that cannot be listed now matches no process now.
                TargetSpec::Name(name) => {
                    meant.extend(find::by_name(proc, name).unwrap_or_default());
                }
                TargetSpec::Cgroup(pattern) => {
                    meant.extend(find::by_cgroup(proc, pattern).unwrap_or_default());
                }
                TargetSpec::Unit(name) => {
                    meant.extend(find::by_unit(proc, name).unwrap_or_default());
                }
                TargetSpec::Rss(_) => meant.extend(&self.large),
                TargetSpec::Command(_) | TargetSpec::Memory(_) => {}
            }
        }
        meant
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
        let mut refused = |rules: &mut Rules| rules.follow(&mut tracker).len();
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
