//! Targets by rule: which processes a context's target specifications match now.
//!
//! A pid is looked up once, when the policy takes effect, since later the same number can be
//! another process. Names, cgroups and sizes are looked up again and again: processes that match
//! later are added, and processes that do not match any more are removed.

use std::collections::{BTreeMap, BTreeSet};

use isotherm_host::proc::Proc;
use isotherm_ops::targets::{TargetError, Tracker, find};

use crate::policy::TargetSpec;

/// The processes that the specifications of a context match.
#[derive(Debug, Default)]
pub(crate) struct Rules {
    /// The processes that are targets because of a specification.
    found: BTreeSet<u32>,
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
    /// Adds the processes that `specs` match, and removes those that they do not match any more.
    /// Returns the errors for processes that could not be added, once for each process.
    pub(crate) fn follow(
        &mut self,
        specs: &[TargetSpec],
        tracker: &mut Tracker,
    ) -> Vec<TargetError> {
        self.look_for_large(specs);
        let meant = self.meant(specs);
        for pid in self.found.iter().filter(|pid| !meant.contains(pid)) {
            remove(tracker, *pid);
        }
        let mut refused = Vec::new();
        self.found.clear();
        self.reported.retain(|pid, _| meant.contains(pid));
        for pid in meant {
            match tracker.add(pid) {
                Ok(_) => {
                    self.found.insert(pid);
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

    /// Notes a pid that a specification names.
    pub(crate) fn note(&mut self, pid: u32) {
        self.found.insert(pid);
    }

    /// Forgets a process that has ended, since its pid can be used again.
    pub(crate) fn ended(&mut self, pid: u32) {
        self.found.remove(&pid);
        self.large.remove(&pid);
        self.reported.remove(&pid);
    }

    fn look_for_large(&mut self, specs: &[TargetSpec]) {
        let proc = Proc::default();
        let least = specs.iter().filter_map(|spec| match spec {
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

    fn meant(&self, specs: &[TargetSpec]) -> BTreeSet<u32> {
        let proc = &self.proc;
        let mut meant = BTreeSet::new();
        for spec in specs {
            match spec {
                TargetSpec::Pid(pid) => meant.extend(self.found.get(pid)),
                // A name or cgroup that cannot be listed now matches no process now.
                TargetSpec::Name(name) => {
                    meant.extend(find::by_name(proc, name).unwrap_or_default());
                }
                TargetSpec::Cgroup(path) => {
                    meant.extend(find::in_cgroup(proc, path).unwrap_or_default());
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
        let mut refused = |rules: &mut Rules| {
            rules.follow(&[TargetSpec::Name("worker".into())], &mut tracker).len()
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
