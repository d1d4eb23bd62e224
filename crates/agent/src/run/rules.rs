//! Targets by rule: which processes a context's target specifications mean now.
//!
//! Pids are meant once, when the policy takes effect: later the same number may be another process. Names and
//! cgroups are looked up again and again: who comes later is taken in, who does not fit any more is let go.

use std::collections::{BTreeMap, BTreeSet};

use isotherm_host::proc::Proc;
use isotherm_ops::targets::{TargetError, Tracker, find};

use crate::policy::TargetSpec;

/// The processes that the specifications of a context mean.
#[derive(Debug, Default)]
pub(crate) struct Rules {
    /// Those that are targets because of a specification.
    found: BTreeSet<u32>,
    /// Those that could not be taken in, and were told.
    told: BTreeSet<u32>,
}

impl Rules {
    /// Takes in who is meant by `specs` and lets go who is not any more. Returns whom it could not take in,
    /// each once.
    pub(crate) fn follow(
        &mut self,
        specs: &[TargetSpec],
        tracker: &mut Tracker,
    ) -> Vec<TargetError> {
        let meant = self.meant(specs);
        for pid in self.found.iter().filter(|pid| !meant.contains(pid)) {
            remove(tracker, *pid);
        }
        let mut refused = Vec::new();
        self.found.clear();
        for pid in meant {
            match tracker.add(pid) {
                Ok(_) => {
                    self.found.insert(pid);
                }
                // It has just ended.
                Err(TargetError::NoSuchPid { .. } | TargetError::Zombie { .. }) => {}
                Err(err) => {
                    if self.told.insert(pid) {
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
        self.told.remove(&pid);
    }

    fn meant(&self, specs: &[TargetSpec]) -> BTreeSet<u32> {
        let proc = Proc::default();
        let mut meant = BTreeSet::new();
        for spec in specs {
            match spec {
                TargetSpec::Pid(pid) => meant.extend(self.found.get(pid)),
                // What cannot be listed now has no processes now.
                TargetSpec::Name(name) => {
                    meant.extend(find::by_name(&proc, name).unwrap_or_default());
                }
                TargetSpec::Cgroup(path) => {
                    meant.extend(find::in_cgroup(&proc, path).unwrap_or_default());
                }
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
