//! Heeding the guard: no action by a set whose answers cannot be true.

use isotherm_core::{TargetId, Time};
use isotherm_host::proc;
use isotherm_ops::doctor;
use isotherm_ops::guard::{Facts, Guard, Verdict};
use isotherm_ops::support::SetName;
use isotherm_sys::clock;

use crate::monitor::Monitor;

/// How often a set that went silent is tested anew, in µs.
const TEST_US: u64 = 10_000_000;

/// What came of a window.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Heeded {
    /// As before.
    Same,
    /// Actions go on after a block.
    Unblocked,
}

/// A guard, with what it needs to know.
#[derive(Debug)]
pub(crate) struct Heed {
    guard: Guard,
    facts: Facts,
    /// When to test the set anew, while it is not believed.
    test_at: Option<Time>,
}

impl Heed {
    pub(crate) fn new() -> Self {
        Self { guard: Guard::new(), facts: Facts::new(proc::Proc::default()), test_at: None }
    }

    /// Looks at a finished window; blocks the actor if the set cannot be believed, and lets it go on when the
    /// set has passed its self-test.
    pub(crate) fn window(
        &mut self,
        monitor: &mut Monitor,
        targets: impl Iterator<Item = (TargetId, u32)>,
    ) -> Heeded {
        if let Some(at) = self.test_at {
            return self.test(monitor, at);
        }
        let facts = self.facts.gather(targets);
        let mut verdict = self.guard.window(monitor.snapshot(), facts);
        if verdict == Verdict::Suspicious {
            verdict = match monitor.young_pages() {
                Some(Ok(young)) => self.guard.control(young),
                // A target that ends just now is not there to be looked at; the next window decides.
                Some(Err(err)) if proc::is_gone(&err) => Verdict::Fine,
                Some(Err(_)) => self.guard.control(0),
                // A set without pages has no actions to block.
                None => Verdict::Fine,
            };
        }
        if let Verdict::Silent(silence) = verdict {
            monitor.actor().block(&silence.to_string());
            self.test_at = Some(clock::now().plus_us(TEST_US));
        }
        Heeded::Same
    }

    /// Tests the set anew, if it is time. If what it says is still not true after that, the guard will notice
    /// as it did before.
    fn test(&mut self, monitor: &mut Monitor, at: Time) -> Heeded {
        if clock::now() < at {
            return Heeded::Same;
        }
        if doctor::choose(Some(SetName::PageWalk)).is_err() {
            self.test_at = Some(clock::now().plus_us(TEST_US));
            return Heeded::Same;
        }
        self.test_at = None;
        self.guard.passed_self_test();
        monitor.actor().unblock();
        Heeded::Unblocked
    }
}
