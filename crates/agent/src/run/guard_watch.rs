//! Watching the set with the guard: no action by a set whose answers cannot be true.
//!
//! Once the guard says so, the actor is blocked until the set has passed its self-test anew. The
//! test takes up to a second and runs on a thread of its own, so that sampling goes on meanwhile;
//! acting stays blocked.

use std::thread::JoinHandle;

use isotherm_core::{TargetId, Time};
use isotherm_host::proc;
use isotherm_ops::doctor;
use isotherm_ops::guard::{Facts, Guard, Verdict};
use isotherm_ops::support::SetName;
use isotherm_sys::clock;

use crate::monitor::Monitor;

/// How often a set that went silent is tested anew, in µs.
const TEST_US: u64 = 10_000_000;

/// Whether actions may be taken, after a window.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Actions {
    /// As before.
    Same,
    /// Actions go on after a block.
    Unblocked,
}

/// Whether the set is believed.
#[derive(Debug)]
enum Belief {
    Believed,
    /// Not before it has passed a test; the next one is at this time.
    TestAt(Time),
    /// Not yet: a test is under way, which says whether it was passed.
    Testing(JoinHandle<bool>),
}

/// A guard, with what it needs to know.
#[derive(Debug)]
pub(crate) struct GuardWatch {
    guard: Guard,
    facts: Facts,
    belief: Belief,
    /// Tests the set; whether it passed.
    self_test: fn() -> bool,
}

impl GuardWatch {
    pub(crate) fn new() -> Self {
        Self {
            guard: Guard::new(),
            facts: Facts::new(proc::Proc::default()),
            belief: Belief::Believed,
            self_test: || doctor::choose(Some(SetName::PageWalk)).is_ok(),
        }
    }

    /// Looks at a finished window; blocks the actor if the set cannot be believed, and lets it go
    /// on when the set has passed its self-test.
    pub(crate) fn window(
        &mut self,
        monitor: &mut Monitor,
        targets: impl Iterator<Item = (TargetId, u32)>,
    ) -> Actions {
        if !matches!(self.belief, Belief::Believed) {
            return self.test(monitor);
        }
        let facts = self.facts.gather(targets);
        let mut verdict = self.guard.window(monitor.snapshot(), facts);
        if verdict == Verdict::Suspicious {
            verdict = match monitor.young_pages() {
                Some(Ok(young)) => self.guard.control(young),
                // A target that ends just now is not there to be looked at; the next window
                // decides.
                Some(Err(err)) if proc::is_gone(&err) => Verdict::Fine,
                Some(Err(_)) => self.guard.control(0),
                // A set without pages has no actions to block.
                None => Verdict::Fine,
            };
        }
        if let Verdict::Silent(silence) = verdict {
            monitor.actor().block(&silence.to_string());
            self.belief = Belief::TestAt(clock::now().plus_us(TEST_US));
        }
        Actions::Same
    }

    /// Starts a test if it is time, and takes in its answer when it is there. If what the set says
    /// is still not true after a test that it passed, the guard will notice as it did before.
    fn test(&mut self, monitor: &mut Monitor) -> Actions {
        let now = clock::now();
        match std::mem::replace(&mut self.belief, Belief::TestAt(now.plus_us(TEST_US))) {
            Belief::TestAt(at) if now < at => self.belief = Belief::TestAt(at),
            Belief::TestAt(_) => {
                let thread = std::thread::Builder::new().name("self-test".into());
                // Without a thread now there will be one at the next try.
                if let Ok(thread) = thread.spawn(self.self_test) {
                    self.belief = Belief::Testing(thread);
                }
            }
            Belief::Testing(thread) if !thread.is_finished() => {
                self.belief = Belief::Testing(thread);
            }
            // A test that panicked was not passed.
            Belief::Testing(thread) => {
                if thread.join().unwrap_or(false) {
                    self.belief = Belief::Believed;
                    self.guard.passed_self_test();
                    monitor.actor().unblock();
                    return Actions::Unblocked;
                }
            }
            Belief::Believed => self.belief = Belief::Believed,
        }
        Actions::Same
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;
    use std::sync::atomic::{AtomicBool, Ordering};

    use isotherm_core::Attrs;
    use isotherm_host::proc::Proc;
    use isotherm_ops::set::OpsSet;
    use isotherm_ops::smaps::{Limits, SmapsOps};
    use isotherm_ops::targets::Tracker;

    use super::*;

    /// Held while the test of the set is not to end.
    static GATE: Mutex<()> = Mutex::new(());
    static PASSES: AtomicBool = AtomicBool::new(false);

    fn gated() -> bool {
        drop(GATE.lock());
        PASSES.load(Ordering::SeqCst)
    }

    #[test]
    fn windows_go_on_while_the_set_is_tested() {
        let ops = OpsSet::Smaps(Box::new(SmapsOps::new(Proc::default(), Limits::default())));
        let tracker = Tracker::new(Proc::default(), false);
        let mut monitor = Monitor::new(tracker, ops, Attrs::default(), 1).unwrap();
        monitor.actor().block("it went silent");
        let mut watch = GuardWatch { self_test: gated, ..GuardWatch::new() };
        for passes in [false, true] {
            PASSES.store(passes, Ordering::SeqCst);
            let gate = GATE.lock().unwrap();
            watch.belief = Belief::TestAt(clock::now());
            // The first starts the test, which cannot end yet: a window that waited for it would
            // hang here.
            for _ in 0..3 {
                assert_eq!(watch.window(&mut monitor, std::iter::empty()), Actions::Same);
                assert!(monitor.actor().blocked().is_some(), "nothing is done meanwhile");
            }
            assert!(matches!(watch.belief, Belief::Testing(_)), "{watch:?}");
            drop(gate);
            while matches!(&watch.belief, Belief::Testing(thread) if !thread.is_finished()) {
                std::thread::yield_now();
            }
            let actions = watch.window(&mut monitor, std::iter::empty());
            assert_eq!(actions, if passes { Actions::Unblocked } else { Actions::Same });
            assert_eq!(monitor.actor().blocked().is_none(), passes);
            assert_eq!(matches!(watch.belief, Belief::Believed), passes, "{watch:?}");
        }
    }
}
