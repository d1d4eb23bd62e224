//! Targets by rule: which processes a context's target specifications mean now.
//!
//! Pids are meant once, when the policy takes effect: later the same number may be another process.
//! Names and cgroups are looked up again and again: who comes later is taken in, who does not fit
//! any more is let go.

use std::collections::{BTreeMap, BTreeSet};

use isotherm_host::proc::Proc;
use isotherm_ops::targets::{TargetError, Tracker, find};

use crate::policy::TargetSpec;

/// The processes that the specifications of a context mean.
#[derive(Debug, Default)]
pub(crate) struct Rules {
    /// Those that are targets because of a specification.
    found: BTreeSet<u32>,
    /// Those that could not be taken in, and were told, with their start times: a pid can become
    /// another's.
    reported: BTreeMap<u32, u64>,
    proc: Proc,
    buf: Vec<u8>,
    /// Those that were large enough once. They stay: what was paged out or moved away does not make
    /// a process another.
    large: BTreeSet<u32>,
}

impl Rules {
    /// Takes in who is meant by `specs` and lets go who is not any more. Returns whom it could not
    /// take in, each once.
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
                // It has just ended.
                Err(err) if err.is_gone() => {}
                Err(err) => {
                    // One without a start time has just ended.
                    let Ok(stat) = self.proc.stat(pid, &mut self.buf) else { continue };
                    if self.reported.insert(pid, stat.starttime) != Some(stat.starttime) {
                        refused.push(err);
                    }
                }
            }
        }
        refused
    }

    /// A pid is a target by specification from the start.
    pub(crate) fn note(&mut self, pid: u32) {
        self.found.insert(pid);
    }

    /// Forgets a process that has ended: its pid may become another's.
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
                // What cannot be listed now has no processes now.
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

/// Lets a process go, and those of its descendants that are targets because of it.
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

    /// Puts a process into a made-up `/proc` that cannot be a target: its mappings cannot be read.
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
        // Same number, another process.
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
