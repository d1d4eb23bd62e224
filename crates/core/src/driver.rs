//! The loop that joins a context, an operations set and a clock. The same code runs over a
//! simulated world and over a real process.

use alloc::vec::Vec;

use crate::addr::AddrRange;
use crate::attrs::Method;
use crate::monitor::{Context, Wish};
use crate::ops::{Observed, Operations, UpdateError};
use crate::target::TargetId;
use crate::time::Time;
use crate::unit::UnitCheck;

/// The clock of a driver.
pub trait Clock {
    /// The time now.
    fn now(&mut self) -> Time;

    /// Sleeps until `deadline`, or returns at once if that has passed. Returns whether the sleep
    /// was cut short because the caller of [`Driver::run`] is wanted.
    fn sleep_until(&mut self, deadline: Time) -> bool;

    /// CPU time that the calling thread has used so far, in ns. `None`: this clock does not know.
    /// Methods with a budget of CPU time then take the time that has passed for it.
    fn cpu_ns(&mut self) -> Option<u64> {
        None
    }
}

/// Why [`Driver::run`] returned.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Event {
    /// A window is over: see [`Context::snapshot`].
    Snapshot,
    /// The clock's sleep was cut short. The caller can run the driver again, and nothing is lost.
    Interrupted,
    /// There is no target left.
    Stopped,
}

/// CPU time that answers and the context took, in ns, all together. 0 if the clock does not know.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Spent {
    /// To make units old and to look at them.
    pub units_ns: u64,
    /// To apply schemes.
    pub acting_ns: u64,
    /// What the context took to decide, to count and to draw regions, while
    /// [`Driver::meter_context`] is on.
    pub context_ns: u64,
}

/// A context with what it needs to run.
#[derive(Debug)]
pub struct Driver<O, C> {
    /// The context.
    pub context: Context,
    /// The operations set.
    pub ops: O,
    /// The clock.
    pub clock: C,
    ids: Vec<TargetId>,
    maps: Vec<AddrRange>,
    regions: Vec<Observed>,
    /// Number of commits of schemes of which the operations set was told.
    nr_scheme_commits: u64,
    spent: Spent,
    meters_context: bool,
    /// The CPU time when a pass of schemes asked for its first action, if nothing else was wished
    /// for since.
    acting_from: Option<u64>,
}

impl<O: Operations, C: Clock> Driver<O, C> {
    /// A driver of these three.
    pub const fn new(context: Context, ops: O, clock: C) -> Self {
        Self {
            context,
            ops,
            clock,
            ids: Vec::new(),
            maps: Vec::new(),
            regions: Vec::new(),
            nr_scheme_commits: 0,
            spent: Spent { units_ns: 0, acting_ns: 0, context_ns: 0 },
            meters_context: false,
            acting_from: None,
        }
    }

    /// Whether to measure what the context itself takes. It is asked many times per second, and two
    /// readings of the clock per question are too dear to be always on.
    pub const fn meter_context(&mut self, is_on: bool) {
        self.meters_context = is_on;
    }

    /// CPU time that answers have taken so far.
    #[must_use]
    pub const fn spent(&self) -> Spent {
        self.spent
    }

    /// Tells the operations set when a commit of schemes has taken effect. [`Driver::run`] does so
    /// before it asks for anything else. The caller does so for a commit before the first run,
    /// which takes effect at once.
    pub fn announce_schemes(&mut self) {
        let nr = self.context.nr_scheme_commits();
        if nr != self.nr_scheme_commits {
            self.nr_scheme_commits = nr;
            self.ops.schemes_committed(self.context.stats_before_commit());
        }
    }

    /// Runs until there is an event for the caller.
    pub fn run(&mut self) -> Event {
        loop {
            let now = self.clock.now();
            let wish = self.poll(now);
            self.announce_schemes();
            if !matches!(wish, Wish::Apply) {
                self.end_acting();
            }
            match wish {
                Wish::Update => self.update(),
                Wish::Prepare => self.ops.prepare(self.context.batch_mut()),
                Wish::Check => self.ops.check(self.context.batch_mut()),
                Wish::PrepareUnits => self.units(O::prepare_units),
                Wish::CheckUnits => self.units(O::check_units),
                Wish::Observe => self.observe(),
                Wish::Eligible => self.ops.eligible(self.context.eligible_mut()),
                Wish::Measure => self.ops.measure(self.context.measures_mut()),
                Wish::Apply => self.apply(),
                Wish::Snapshot => return Event::Snapshot,
                Wish::Stop => return Event::Stopped,
                Wish::Sleep(until) => {
                    if self.clock.sleep_until(until) {
                        return Event::Interrupted;
                    }
                }
            }
        }
    }

    fn poll(&mut self, now: Time) -> Wish {
        if !self.meters_context {
            return self.context.poll(now);
        }
        let before = self.clock.cpu_ns();
        let wish = self.context.poll(now);
        let took = before.zip(self.clock.cpu_ns());
        self.spent.context_ns = self.spent.context_ns.saturating_add(length(took));
        wish
    }

    /// Asks about units, and measures what that costs.
    fn units(&mut self, ask: fn(&mut O, &mut [UnitCheck])) {
        let before = self.clock.cpu_ns();
        ask(&mut self.ops, self.context.units_mut());
        let took = before.zip(self.clock.cpu_ns());
        // What schemes do has limits of its own. If it counted here, a scheme that pages out much
        // would leave nothing to see by what is cold.
        let acted_ns = self.spent.acting_ns;
        let without = |ns: u64| ns.saturating_sub(acted_ns);
        self.context.set_units_cpu(took.map(|(before, after)| (without(before), without(after))));
        self.spent.units_ns = self.spent.units_ns.saturating_add(length(took));
    }

    /// Asks for an action, and measures what that costs. To read the clock is a system call, and a
    /// pass of schemes asks for hundreds of actions, of thousands of targets for ten thousands. So
    /// it is read when a pass begins and when it ends: to choose the next action counts as acting,
    /// too.
    fn apply(&mut self) {
        if self.acting_from.is_none() {
            self.acting_from = self.clock.cpu_ns();
        }
        let (request, scheme) = self.context.request();
        let applied = self.ops.apply(&request, scheme);
        self.context.applied(applied);
        // What the context takes is measured by itself then.
        if self.meters_context {
            self.end_acting();
        }
    }

    fn end_acting(&mut self) {
        if let Some(from) = self.acting_from.take() {
            let took = self.clock.cpu_ns().map(|to| (from, to));
            self.spent.acting_ns = self.spent.acting_ns.saturating_add(length(took));
        }
    }

    fn observe(&mut self) {
        let Some(window) = self.ops.next_window() else { return };
        self.context.begin_observed(window);
        self.ids.clear();
        self.ids.extend(self.context.targets().iter().map(|t| t.id));
        for id in &self.ids {
            self.regions.clear();
            self.ops.observe(*id, &mut self.regions);
            self.context.observed(*id, &self.regions);
        }
    }

    fn update(&mut self) {
        self.ids.clear();
        self.ids.extend(self.context.targets().iter().map(|t| t.id));
        for id in &self.ids {
            self.maps.clear();
            match self.ops.update(*id, &mut self.maps) {
                Ok(()) => {
                    self.context.update_target(*id, &self.maps);
                }
                Err(UpdateError::Gone) => {
                    self.context.remove_target(*id);
                    continue;
                }
                Err(UpdateError::NotNow) => {}
            }
            if self.context.attrs().method == Method::Census {
                self.context.set_reclaimed(*id, self.ops.reclaimed(*id));
            }
        }
        if self.context.attrs().method == Method::Census {
            self.context.set_others_clear(self.ops.others_clear());
        }
    }
}

/// What passed between two readings, in ns; 0 if they are not known.
fn length(between: Option<(u64, u64)>) -> u64 {
    between.map_or(0, |(before, after)| after.saturating_sub(before))
}
