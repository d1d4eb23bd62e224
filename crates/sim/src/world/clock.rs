//! A virtual clock, which a sleep moves forward at once.

use std::cell::Cell;
use std::rc::Rc;

use isotherm_core::{Clock, Time};

use super::chance::{exponential, unit};
use super::faults::Faults;

/// The virtual time, shared by a world and its clock.
pub(super) type Now = Rc<Cell<Time>>;

/// A virtual clock: sleeping costs nothing, and time passes only by sleeping and by the costs of
/// the world's operations.
#[derive(Debug)]
pub struct VirtualClock {
    now: Now,
    seed: u64,
    faults: Faults,
    nr_sleeps: u64,
    /// For how long it has slept, in ns. The rest of the time is CPU time of the monitor.
    slept_ns: u64,
}

impl VirtualClock {
    pub(super) const fn new(now: Now, seed: u64, faults: Faults) -> Self {
        Self { now, seed, faults, nr_sleeps: 0, slept_ns: 0 }
    }
}

impl Clock for VirtualClock {
    fn now(&mut self) -> Time {
        self.now.get()
    }

    fn sleep_until(&mut self, deadline: Time) -> bool {
        self.nr_sleeps += 1;
        let mut wake = deadline;
        if self.faults.late > 0.0 && unit(&[self.seed, 1, self.nr_sleeps]) < self.faults.late {
            let late_us = exponential(&[self.seed, 2, self.nr_sleeps]) * self.faults.late_us;
            #[expect(
                clippy::cast_possible_truncation,
                clippy::cast_sign_loss,
                reason = "a time from 0 on; `as` saturates"
            )]
            let late_ns = (late_us * 1e3) as u64;
            wake = wake + late_ns;
        }
        let (before, woken) = (self.now.get(), self.now.get().max(wake));
        self.slept_ns += woken.since(before);
        self.now.set(woken + self.faults.busy_ns);
        false
    }

    /// Known only where the monitor itself takes time. Else it would seem to cost no more than its
    /// questions.
    fn cpu_ns(&mut self) -> Option<u64> {
        (self.faults.busy_ns > 0).then(|| self.now.get().0.saturating_sub(self.slept_ns))
    }
}
