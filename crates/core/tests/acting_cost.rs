//! What a scheme's actions cost is no part of the budget by which memory is seen.

use std::cell::Cell;
use std::rc::Rc;

use isotherm_core::ops::UpdateError;
use isotherm_core::scheme::{Action, Applied, Pattern, Request, Scheme};
use isotherm_core::unit::UNIT;
use isotherm_core::{
    AddrRange, Attrs, Check, Clock, Context, Driver, Event, Method, Operations, PageBits, TargetId,
    Time, UnitCheck,
};

const MS: u64 = 1_000_000;
const NR_UNITS: u64 = 256;

/// The time, and the CPU time of the thread, in ns.
#[derive(Debug, Clone, Default)]
struct Clocks {
    now: Rc<Cell<u64>>,
    cpu: Rc<Cell<u64>>,
}

impl Clock for Clocks {
    fn now(&mut self) -> Time {
        Time(self.now.get())
    }

    fn sleep_until(&mut self, deadline: Time) -> bool {
        self.now.set(deadline.as_ns());
        false
    }

    fn cpu_ns(&mut self) -> Option<u64> {
        Some(self.cpu.get())
    }
}

/// Memory that is touched all the time. A unit costs 40 us to arm and 2 us to look at; a request
/// of a scheme costs `action_ns`.
struct Hot {
    clocks: Clocks,
    action_ns: u64,
    nr_armed: u64,
}

impl Hot {
    fn answer(&self, batch: &mut [UnitCheck], each_ns: u64) {
        for unit in batch {
            (unit.answered, unit.present, unit.young) = (true, PageBits::ALL, unit.pages);
            self.clocks.cpu.set(self.clocks.cpu.get() + each_ns);
        }
    }
}

impl Operations for Hot {
    fn prepare(&mut self, _: &mut [Check]) {}

    fn check(&mut self, _: &mut [Check]) {}

    fn has_units(&self) -> bool {
        true
    }

    fn prepare_units(&mut self, batch: &mut [UnitCheck]) {
        self.nr_armed += batch.iter().filter(|unit| unit.pages == PageBits::ALL).count() as u64;
        self.answer(batch, 40_000);
    }

    fn check_units(&mut self, batch: &mut [UnitCheck]) {
        self.answer(batch, 2_000);
    }

    fn update(&mut self, _: TargetId, maps: &mut Vec<AddrRange>) -> Result<(), UpdateError> {
        maps.push(AddrRange::new(1 << 30, (1 << 30) + NR_UNITS * UNIT));
        Ok(())
    }

    fn target_valid(&mut self, _: TargetId) -> bool {
        true
    }

    fn apply(&mut self, request: &Request, _: &Scheme) -> Applied {
        self.clocks.cpu.set(self.clocks.cpu.get() + self.action_ns);
        let len = request.range.len();
        Applied { covered: len, asked: len, applied: len, ..Applied::default() }
    }
}

/// How many units were armed within a minute after the first ten seconds, and the CPU time of all
/// actions.
fn armed(action_ns: u64) -> (u64, u64) {
    let clocks = Clocks::default();
    clocks.now.set(1);
    let attrs = Attrs { method: Method::Census, ..Attrs::default() };
    let mut context = Context::new(attrs, 1).expect("valid attributes");
    context.add_target(TargetId(0));
    let pattern = Pattern::ALL;
    context.commit_schemes([Scheme { pattern, action: Action::Pageout, ..Scheme::default() }]);
    let ops = Hot { clocks: clocks.clone(), action_ns, nr_armed: 0 };
    let mut driver = Driver::new(context, ops, clocks);
    let mut before = 0;
    for window in 0..700 {
        assert_eq!(driver.run(), Event::Snapshot);
        if window == 100 {
            before = driver.ops.nr_armed;
        }
    }
    (driver.ops.nr_armed - before, driver.spent().acting_ns)
}

#[test]
fn a_scheme_that_costs_much_does_not_keep_memory_from_being_seen() {
    let (free, _) = armed(0);
    let (dear, acting_ns) = armed(2 * MS);
    assert!(acting_ns > 1000 * MS, "acting took {acting_ns} ns");
    assert!(free > NR_UNITS, "{free} units");
    assert!(dear * 10 >= free * 9, "{dear} units were armed, {free} where actions cost nothing");
}
