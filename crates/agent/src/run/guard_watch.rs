//! Watches the operations set with the guard: no action is taken on answers that cannot be true.
//!
//! When the guard finds such an answer, the actor is blocked until the set has passed its self-test
//! again. The test takes up to a second. It runs on its own thread, so that sampling goes on;
//! actions stay blocked meanwhile.

use std::thread::JoinHandle;

use isotherm_core::{TargetId, Time};
use isotherm_host::proc;
use isotherm_ops::doctor;
use isotherm_ops::guard::{Facts, Guard, Verdict};
use isotherm_ops::support::SetName;
use isotherm_sys::clock;

use crate::monitor::Monitor;

/// How often a set that went silent is tested again, in µs.
const TEST_US: u64 = 10_000_000;

/// What a window changed about actions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Actions {
    /// Nothing: they are allowed or blocked as before.
    Same,
    /// Actions go on after a block.
    Unblocked,
}

/// Whether the set's answers are used.
#[derive(Debug)]
enum Belief {
    Believed,
    /// The set has to pass a test first. The next test is at this time.
    TestAt(Time),
    /// A test is running. Its thread returns whether the set passed.
    Testing(JoinHandle<bool>),
}

/// A guard, with the facts that it needs.
#[derive(Debug)]
pub(crate) struct GuardWatch {
    guard: Guard,
    facts: Facts,
    belief: Belief,
    /// Tests the set, and returns whether it passed.
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

    /// Checks a finished window. Blocks the actor if the set's answers cannot be true, and unblocks
    /// it when the set has passed its self-test.
    pub(crate) fn window(
        &mut self,
        monitor: &mut Monitor,
        targets: impl Iterator<Item = (TargetId, u32)>,
    ) -> Actions {
        if !matches!(self.belief, Belief::Believed) {
            return self.test(monitor);
        }
        let facts = if self.guard.asks(monitor.snapshot()) {
            self.facts.gather(targets)
        } else {
            self.facts.forget();
            &[]
        };
        let mut verdict = self.guard.window(monitor.snapshot(), facts);
        if verdict == Verdict::Suspicious {
            verdict = match monitor.young_pages() {
                Some(Ok(young)) => self.guard.control(young),
                // A target that is just ending cannot be read. The next window decides.
                Some(Err(err)) if proc::is_gone(&err) => Verdict::Fine,
                Some(Err(_)) => self.guard.control(0),
                // With a set that does not see pages there are no actions to block.
                None => Verdict::Fine,
            };
        }
        if let Verdict::Silent(silence) = verdict {
            monitor.actor().block(&silence.to_string());
            self.belief = Belief::TestAt(clock::now().plus_us(TEST_US));
        }
        Actions::Same
    }

    /// Starts a test when it is time, and reads its answer when there is one. If the set passes and
    /// still gives wrong answers, the guard notices it as before.
    fn test(&mut self, monitor: &mut Monitor) -> Actions {
        let now = clock::now();
        match std::mem::replace(&mut self.belief, Belief::TestAt(now.plus_us(TEST_US))) {
            Belief::TestAt(at) if now < at => self.belief = Belief::TestAt(at),
            Belief::TestAt(_) => {
                let thread = std::thread::Builder::new().name("self-test".into());
                // If no thread can be started now, the next turn tries again.
                if let Ok(thread) = thread.spawn(self.self_test) {
                    self.belief = Belief::Testing(thread);
                }
            }
            Belief::Testing(thread) if !thread.is_finished() => {
                self.belief = Belief::Testing(thread);
            }
            // A test that panicked counts as not passed.
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

    /// Held while the test of the set must not end.
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
            // The first window starts the test, which cannot end yet. A window that waited for it
            // would hang here.
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
