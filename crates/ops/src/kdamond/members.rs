//! Targets that come and go.

use isotherm_core::addr::PAGE_SIZE;
use isotherm_core::areas::Areas;
use isotherm_core::{AddrRange, TargetId};
use isotherm_damon::model::Operations;
use isotherm_damon::{DamonError, DamonKind, Feature};
use isotherm_host::error::SetError;
use isotherm_host::proc::read_monitored_ranges;

use super::slots::Slot;
use super::{Kdamond, Source, error};

impl Kdamond {
    /// Monitors a process. The first target starts the kdamond.
    ///
    /// The kernel's own rule (`vaddr`, for `strict`) leaves out only the two largest gaps between
    /// mappings. With one more gap, regions are mostly unmapped, and it takes windows to find the
    /// memory in them. So this set gives the ranges itself (`fvaddr`), and follows the mappings by
    /// commits.
    ///
    /// # Errors
    ///
    /// If the process is gone or the kernel refuses it. Nothing has changed then.
    pub fn add_target(&mut self, id: TargetId, pid: u32) -> Result<(), SetError> {
        let operations = if self.attrs.strict { Operations::Vaddr } else { Operations::Fvaddr };
        self.add(id, pid, operations, Vec::new())
    }

    /// Monitors only these ranges of a process (`fvaddr`), sorted and not overlapping. All targets
    /// must be of that kind.
    ///
    /// # Errors
    ///
    /// As [`Kdamond::add_target`], and if targets of another kind are there.
    pub fn add_ranges(
        &mut self,
        id: TargetId,
        pid: u32,
        ranges: Vec<AddrRange>,
    ) -> Result<(), SetError> {
        self.add(id, pid, Operations::Fvaddr, ranges)
    }

    /// Monitors physical memory (`paddr`), in sorted ranges. The kernel takes only one such target,
    /// and no other beside it.
    ///
    /// # Errors
    ///
    /// As [`Kdamond::add_ranges`].
    pub fn add_memory(&mut self, id: TargetId, ranges: Vec<AddrRange>) -> Result<(), SetError> {
        self.add(id, 0, Operations::Paddr, ranges)
    }

    fn add(
        &mut self,
        id: TargetId,
        pid: u32,
        operations: Operations,
        given: Vec<AddrRange>,
    ) -> Result<(), SetError> {
        let pid_there = i32::try_from(pid).map_err(|_overflow| error::gone(pid))?;
        if !self.is_alive(pid_there) {
            return Err(error::gone(pid));
        }
        // The kernel refuses a process that has ended, even if the tracker has not reported that
        // yet.
        let ended = self.forget_ended();
        let others = !self.slots.list.is_empty();
        if others && (operations != self.operations || operations == Operations::Paddr) {
            return Err(error::mixed(self.operations, operations));
        }
        let before = std::mem::replace(&mut self.operations, operations);
        let mut slot = Slot { id, pid: pid_there, given, follows: false, fresh: Vec::new() };
        if operations == Operations::Fvaddr && slot.given.is_empty() {
            slot.follows = true;
            slot.given = self.areas(pid);
        } else if operations == Operations::Vaddr && others {
            // The kernel gives a later target its first regions only after the update interval.
            slot.fresh = self.areas(pid);
        }
        self.slots.list.push(slot);
        let done = match self.pid {
            Some(_) if ended => self.shrink_or_begin_anew(),
            Some(_) => self.grow(id),
            None => self.start(),
        };
        if done.is_err() {
            self.slots.list.pop();
            self.operations = before;
        } else if let Some(walk) = &mut self.evidence {
            // One that has just ended needs no evidence.
            walk.add_target(id, pid).ok();
        }
        done
    }

    /// Takes out who has ended; whether anybody had.
    fn forget_ended(&mut self) -> bool {
        let before = self.slots.list.len();
        let slots = std::mem::take(&mut self.slots.list);
        self.slots.list = slots.into_iter().filter(|slot| self.is_alive(slot.pid)).collect();
        if self.slots.list.is_empty() && before > 0 {
            self.stop();
        }
        self.slots.list.len() < before
    }

    /// Reads the present mappings of a process. The kernel is told of them with the next window.
    pub(super) fn follow(&mut self, id: TargetId) {
        let Some(slot) = self.slots.list.iter().find(|slot| slot.id == id && slot.follows) else {
            return;
        };
        let areas = self.areas(slot.pid.unsigned_abs());
        self.moved |= self.slots.set_ranges(id, &areas);
    }

    /// Tells a kdamond that runs of a new target at the end.
    fn grow(&mut self, id: TargetId) -> Result<(), SetError> {
        let (config, plan) = (self.config(), self.plan());
        let mut kernel = self.shared.kernel();
        kernel.commit(&config).map_err(error::of_damon)?;
        match &mut self.source {
            Source::Trace(traced) => traced.append(id),
            Source::Walk(_) => self.shared.walk(Some(plan)),
        }
        drop(kernel);
        self.slots.settled();
        Ok(())
    }

    /// Lets a target go. The last one stops the kdamond.
    pub fn remove_target(&mut self, id: TargetId) {
        if let Some(walk) = &mut self.evidence {
            walk.remove_target(id);
        }
        self.gather();
        let Some(at) = self.slots.remove(id) else { return };
        if self.slots.list.is_empty() {
            self.stop();
            self.queue.clear();
            return;
        }
        if self.pid.is_none() {
            return;
        }
        if !self.shared.kernel().has(Feature::ObsoleteTarget) {
            // The targets behind it begin anew there, and would have no regions for an update
            // interval.
            for behind in at..self.slots.list.len() {
                let slot = &self.slots.list[behind];
                if slot.given.is_empty() {
                    self.slots.list[behind].fresh = self.areas(slot.pid.unsigned_abs());
                }
            }
        }
        if let Err(err) = self.shrink_or_begin_anew() {
            // Probably more targets have ended. Starting anew is right even if none has.
            self.stop();
            if !self.forget_ended() {
                self.trouble(err.to_string());
            }
            if let Err(err) = self.start_with_the_living() {
                self.failure = Some(err.to_string());
            }
        }
    }

    /// Starts the kdamond for the targets that have not ended. If none is left it stays off, and
    /// the tracker reports that.
    pub(super) fn start_with_the_living(&mut self) -> Result<(), SetError> {
        loop {
            self.forget_ended();
            if self.slots.list.is_empty() {
                return Ok(());
            }
            match self.start() {
                // A target ended just now, and the kernel refuses ended ones.
                Err(_) if !self.slots.list.iter().all(|slot| self.is_alive(slot.pid)) => {}
                done => return done,
            }
        }
    }

    /// Removes targets. Kernels before 6.19 cannot remove the first one alone, so there all begin
    /// anew.
    fn shrink_or_begin_anew(&mut self) -> Result<(), SetError> {
        match self.shrink() {
            Err(err) if err.kind() == DamonKind::NotInTheKernel => {
                self.stop();
                self.start()
            }
            done => done.map_err(error::of_damon),
        }
    }

    fn shrink(&mut self) -> Result<(), DamonError> {
        let (config, plan) = (self.config(), self.plan());
        let mut kernel = self.shared.kernel();
        kernel.commit(&config)?;
        match &mut self.source {
            Source::Trace(traced) => traced.reorder(self.slots.ids()),
            Source::Walk(_) => self.shared.walk(Some(plan)),
        }
        drop(kernel);
        self.slots.settled();
        Ok(())
    }

    /// The areas of a process to watch: as the kernel would find them, or with more gaps left out.
    /// Empty if they cannot be read now.
    fn areas(&self, pid: u32) -> Vec<AddrRange> {
        let rule = match self.operations {
            Operations::Vaddr => Areas::THREE,
            _ => Areas::for_regions(self.attrs.max_nr_regions),
        };
        let (mut text, mut maps, mut areas) = (Vec::new(), Vec::new(), Vec::new());
        if read_monitored_ranges(&self.proc, pid, &mut text, &mut maps).is_ok() {
            rule.find(&maps, PAGE_SIZE, &mut areas);
        }
        areas
    }
}
