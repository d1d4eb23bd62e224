//! The targets of a context by index, as the files number them.

use isotherm_agent::monitor::Monitor;
use isotherm_core::{AddrRange, Given, TargetId};
use isotherm_damon::model::{Context, Operations, Target};
use isotherm_host::proc::Proc;
use isotherm_ops::targets::{Memory, TargetKind, Tracker};
use rustix::io::Errno;

use super::Log;

/// Which target of the monitor each index is.
#[derive(Debug, Default)]
pub(super) struct Targets {
    by_index: Vec<Known>,
}

#[derive(Debug, Clone, Copy)]
struct Known {
    pid: i32,
    /// None for a process that has ended and was not waited for. It is a target to the kernel, with
    /// no memory.
    id: Option<TargetId>,
}

/// A tracker of no process.
pub(super) fn none() -> Tracker {
    Tracker::new(Proc::default(), false)
}

/// Adds a process to a tracker.
fn add(tracker: &mut Tracker, target: &Target, log: &Log) -> Result<Known, Errno> {
    let refuse = |why: String| {
        log(&why);
        Errno::INVAL
    };
    let pid = u32::try_from(target.pid).ok().filter(|pid| *pid != 0);
    let pid = pid.ok_or_else(|| refuse(format!("there is no process {}", target.pid)))?;
    match tracker.add(pid) {
        Ok(id) => Ok(Known { pid: target.pid, id: Some(id) }),
        Err(why) if why.kind() == TargetKind::Zombie => Ok(Known { pid: target.pid, id: None }),
        Err(why) => Err(refuse(why.to_string())),
    }
}

impl Targets {
    /// A tracker of the processes that the files name.
    ///
    /// # Errors
    ///
    /// EINVAL if one of them cannot be a target.
    pub(super) fn processes(&mut self, context: &Context, log: &Log) -> Result<Tracker, Errno> {
        let mut tracker = none();
        for target in &context.targets {
            self.by_index.push(add(&mut tracker, target, log)?);
        }
        Ok(tracker)
    }

    /// A tracker of the physical memory that the files name.
    ///
    /// # Errors
    ///
    /// EINVAL if there is no target or no such memory, or if addresses are not in bytes.
    pub(super) fn memory(&mut self, context: &Context, log: &Log) -> Result<Tracker, Errno> {
        let refuse = |why: String| {
            log(&why);
            Errno::INVAL
        };
        if context.addr_unit != 1 {
            return Err(refuse("an `addr_unit` other than 1 is not supported".into()));
        }
        let regions = context.targets.first().map(|target| target.regions.as_slice());
        let memory = match regions.ok_or_else(|| refuse("`paddr` needs a target".into()))? {
            [] => Memory::All,
            ranges => Memory::Ranges(ranges.to_vec()),
        };
        Tracker::memory(memory).map_err(|why| refuse(why.to_string()))
    }

    /// The targets in the order of their indices.
    pub(super) fn ids(&self) -> Vec<Option<TargetId>> {
        self.by_index.iter().map(|known| known.id).collect()
    }

    /// Whether a target has ended while its parent has not asked how.
    pub(super) fn any_zombie(&self) -> bool {
        let (proc, mut stat) = (Proc::default(), Vec::new());
        self.by_index.iter().any(|known| {
            let Ok(pid) = u32::try_from(known.pid) else { return false };
            // The state is behind the name, which can hold any bytes.
            proc.read(pid, "stat", &mut stat).is_ok()
                && stat
                    .iter()
                    .rposition(|byte| *byte == b')')
                    .is_some_and(|at| stat[at..].starts_with(b") Z"))
        })
    }

    /// Gives the monitor the ranges to begin with. With `fvaddr` they stay.
    pub(super) fn give_first_ranges(&self, context: &Context, monitor: &mut Monitor) {
        if context.operations == Operations::Paddr {
            return;
        }
        for (known, target) in self.by_index.iter().zip(&context.targets) {
            if let Some(id) = known.id {
                give(monitor, id, &target.regions, how(context.operations, Given::First));
            }
        }
    }

    /// Takes over the targets of a commit, by index (R§2.9 step 3).
    ///
    /// # Errors
    ///
    /// EINVAL if a new process cannot be a target, or a new target is obsolete. Nothing has changed
    /// then.
    pub(super) fn commit(
        &mut self,
        context: &Context,
        monitor: &mut Monitor,
        log: &Log,
    ) -> Result<(), Errno> {
        let before: Vec<TargetId> = monitor.tracker().targets().map(|target| target.id).collect();
        let mut now = Vec::new();
        for (index, target) in context.targets.iter().enumerate() {
            let known = self.by_index.get(index).copied();
            let found = match known {
                None if target.obsolete => {
                    log(&format!("target {index} is new and obsolete"));
                    Err(Errno::INVAL)
                }
                Some(_) if target.obsolete => continue,
                Some(known) if known.pid == target.pid => Ok(known),
                _ => add(monitor.tracker(), target, log),
            };
            match found {
                Ok(found) => now.push((found, target)),
                Err(errno) => {
                    let added = now.iter().filter_map(|(known, _)| known.id);
                    let new: Vec<_> = added.filter(|id| !before.contains(id)).collect();
                    new.into_iter().for_each(|id| monitor.tracker().remove(id));
                    return Err(errno);
                }
            }
        }
        for id in self.by_index.iter().filter_map(|known| known.id) {
            if !now.iter().any(|(stays, _)| stays.id == Some(id)) {
                monitor.tracker().remove(id);
            }
        }
        for (known, target) in &now {
            let Some(id) = known.id else { continue };
            let mapped = if before.contains(&id) { Given::Now } else { Given::First };
            give(monitor, id, &target.regions, how(context.operations, mapped));
        }
        self.by_index = now.into_iter().map(|(known, _)| known).collect();
        Ok(())
    }
}

/// For how long given ranges hold: with `fvaddr` always.
fn how(operations: Operations, mapped: Given) -> Given {
    if operations == Operations::Fvaddr { Given::Always } else { mapped }
}

/// No ranges are given with `vaddr` to have them found, and in a commit to keep those in force.
fn give(monitor: &mut Monitor, id: TargetId, ranges: &[AddrRange], given: Given) {
    if !ranges.is_empty() {
        monitor.context().give_ranges(id, ranges.to_vec(), given);
    }
}
