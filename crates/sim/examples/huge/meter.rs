//! A world and a clock that charge the core for the CPU time that it takes.

use std::cell::Cell;
use std::rc::Rc;

use isotherm_core::ops::UpdateError;
use isotherm_core::{AddrRange, Check, Clock, Operations, TargetId, Time, UnitCheck};
use isotherm_sim::world::{VirtualClock, World};
use isotherm_sys::clock::thread_cpu_ns;

/// Tells the CPU time of the core from that of the simulation around it.
#[derive(Debug, Clone, Default)]
pub(crate) struct Meter {
    /// CPU time of this thread that is not the core's, in ns.
    outside: Rc<Cell<u64>>,
    /// What the operations have cost, in virtual ns.
    spent: Rc<Cell<u64>>,
}

impl Meter {
    /// The core's time begins now.
    pub(crate) fn start(&self) {
        self.outside.set(thread_cpu_ns());
    }

    /// CPU time of the core so far, in ns.
    pub(crate) fn core_ns(&self) -> u64 {
        thread_cpu_ns().saturating_sub(self.outside.get())
    }

    /// Does what neither the time nor the allocations of which are the core's.
    pub(crate) fn outside(&self, work: impl FnOnce()) {
        let begun = thread_cpu_ns();
        allocation_counter::opt_out(work);
        self.outside.set(self.outside.get() + thread_cpu_ns() - begun);
    }
}

/// The virtual clock, which the core's CPU time moves, too.
#[derive(Debug)]
pub(crate) struct MeteredClock {
    clock: VirtualClock,
    meter: Meter,
    /// The core's time up to which the virtual clock was moved.
    charged_ns: u64,
}

impl MeteredClock {
    pub(crate) const fn new(clock: VirtualClock, meter: Meter) -> Self {
        Self { clock, meter, charged_ns: 0 }
    }
}

impl Clock for MeteredClock {
    fn now(&mut self) -> Time {
        let core_ns = self.meter.core_ns();
        let now = self.clock.now() + core_ns.saturating_sub(self.charged_ns);
        self.charged_ns = core_ns;
        self.clock.sleep_until(now);
        now
    }

    fn sleep_until(&mut self, deadline: Time) -> bool {
        self.now();
        self.clock.sleep_until(deadline)
    }

    fn cpu_ns(&mut self) -> Option<u64> {
        Some(self.meter.core_ns() + self.meter.spent.get())
    }
}

/// The world, whose answers cost the core nothing but virtual time.
#[derive(Debug)]
pub(crate) struct MeteredWorld {
    pub(crate) world: World,
    meter: Meter,
    /// Units that were armed, and looked at.
    pub(crate) armed: u64,
    pub(crate) looked: u64,
}

impl MeteredWorld {
    pub(crate) const fn new(world: World, meter: Meter) -> Self {
        Self { world, meter, armed: 0, looked: 0 }
    }

    fn answer(&mut self, work: impl FnOnce(&mut World)) {
        let Self { world, meter, .. } = self;
        meter.outside(|| work(world));
        meter.spent.set(world.counts().spent_ns);
    }
}

impl Operations for MeteredWorld {
    fn prepare(&mut self, batch: &mut [Check]) {
        self.answer(|world| world.prepare(batch));
    }

    fn check(&mut self, batch: &mut [Check]) {
        self.answer(|world| world.check(batch));
    }

    fn has_units(&self) -> bool {
        self.world.has_units()
    }

    fn prepare_units(&mut self, batch: &mut [UnitCheck]) {
        self.armed += batch.len() as u64;
        self.answer(|world| world.prepare_units(batch));
    }

    fn check_units(&mut self, batch: &mut [UnitCheck]) {
        self.looked += batch.len() as u64;
        self.answer(|world| world.check_units(batch));
    }

    fn update(&mut self, target: TargetId, maps: &mut Vec<AddrRange>) -> Result<(), UpdateError> {
        self.world.update(target, maps)
    }

    fn target_valid(&mut self, target: TargetId) -> bool {
        self.world.target_valid(target)
    }
}
