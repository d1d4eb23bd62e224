//! The loop that joins a context, an operations set and a clock: the same lines over a simulated
//! world and over a real process.

use alloc::vec::Vec;

use crate::addr::AddrRange;
use crate::monitor::{Context, Wish};
use crate::ops::{Observed, Operations, TargetId};
use crate::time::Time;

/// A clock to run by.
pub trait Clock {
    /// The time now.
    fn now(&mut self) -> Time;

    /// Sleeps until `deadline`; returns at once if that has passed. Returns whether the sleep was
    /// cut short because somebody wants the driver's caller to look up.
    fn sleep_until(&mut self, deadline: Time) -> bool;
}

/// Why [`Driver::run`] returned.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Event {
    /// A window is over: see [`Context::snapshot`].
    Snapshot,
    /// The clock's sleep was cut short. Running on loses nothing.
    Interrupted,
    /// There is no target left.
    Stopped,
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
    /// Commits of schemes that the operations set was told of.
    nr_scheme_commits: u64,
}

impl<O: Operations, C: Clock> Driver<O, C> {
    /// Joins the three.
    pub const fn new(context: Context, ops: O, clock: C) -> Self {
        Self {
            context,
            ops,
            clock,
            ids: Vec::new(),
            maps: Vec::new(),
            regions: Vec::new(),
            nr_scheme_commits: 0,
        }
    }

    /// Tells the operations set when a commit of schemes has taken effect. [`Driver::run`] does
    /// that before it asks for anything else; a commit before the first run takes effect at once,
    /// and nobody else would tell.
    pub fn announce_schemes(&mut self) {
        let nr = self.context.nr_scheme_commits();
        if nr != self.nr_scheme_commits {
            self.nr_scheme_commits = nr;
            self.ops.schemes_committed(self.context.stats_before_commit());
        }
    }

    /// Runs until something is there for the caller.
    pub fn run(&mut self) -> Event {
        loop {
            let now = self.clock.now();
            let wish = self.context.poll(now);
            self.announce_schemes();
            match wish {
                Wish::Update => self.update(),
                Wish::Prepare => self.ops.prepare(self.context.batch_mut()),
                Wish::Check => self.ops.check(self.context.batch_mut()),
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

    fn apply(&mut self) {
        let (request, scheme) = self.context.request();
        let applied = self.ops.apply(&request, scheme);
        self.context.applied(applied);
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
                Err(crate::ops::UpdateError::Gone) => self.context.remove_target(*id),
                Err(crate::ops::UpdateError::NotNow) => {}
            }
        }
    }
}
