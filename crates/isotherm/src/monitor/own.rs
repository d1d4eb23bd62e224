//! A monitor over the user's own operations set.

use std::fmt;

use isotherm_agent::policy::SchemePolicy;
use isotherm_core::ops::UpdateError;
use isotherm_core::scheme::Counters;
use isotherm_core::{
    AddrRange, Applied, Attrs, Check, ClearRate, Clock, Context, Driver, Event as Ran, Lengths,
    Measure, Observation, Observed, Operations, Reclaimed, Request, TargetId, Time, UnitCheck,
};
use isotherm_record::Mapping;

use super::source::{Next, Source};
use crate::Error;
use crate::event::Event;
use crate::scheme::Account;
use crate::snapshot::{Identities, Target};

/// Any operations set, and what schemes did by it.
pub(super) struct AnySet {
    set: Box<dyn Operations>,
    /// What the set says of itself, by index of the scheme: nobody looks again.
    counters: Vec<Counters>,
}

impl AnySet {
    pub(super) fn new(set: impl Operations + 'static) -> Self {
        Self { set: Box::new(set), counters: Vec::new() }
    }
}

/// Any clock.
pub(super) struct AnyClock(pub(super) Box<dyn Clock>);

impl fmt::Debug for AnySet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AnySet").field("counters", &self.counters).finish_non_exhaustive()
    }
}

impl fmt::Debug for AnyClock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("AnyClock")
    }
}

impl Clock for AnyClock {
    fn now(&mut self) -> Time {
        self.0.now()
    }

    fn sleep_until(&mut self, deadline: Time) -> bool {
        self.0.sleep_until(deadline)
    }

    fn cpu_ns(&mut self) -> Option<u64> {
        self.0.cpu_ns()
    }
}

impl Operations for AnySet {
    fn prepare(&mut self, batch: &mut [Check]) {
        self.set.prepare(batch);
    }

    fn check(&mut self, batch: &mut [Check]) {
        self.set.check(batch);
    }

    fn has_units(&self) -> bool {
        self.set.has_units()
    }

    fn prepare_units(&mut self, batch: &mut [UnitCheck]) {
        self.set.prepare_units(batch);
    }

    fn check_units(&mut self, batch: &mut [UnitCheck]) {
        self.set.check_units(batch);
    }

    fn reclaimed(&mut self, target: TargetId) -> Reclaimed<'_> {
        self.set.reclaimed(target)
    }

    fn others_clear(&mut self) -> ClearRate {
        self.set.others_clear()
    }

    fn update(&mut self, target: TargetId, maps: &mut Vec<AddrRange>) -> Result<(), UpdateError> {
        self.set.update(target, maps)
    }

    fn target_valid(&mut self, target: TargetId) -> bool {
        self.set.target_valid(target)
    }

    fn next_window(&mut self) -> Option<Observation> {
        self.set.next_window()
    }

    fn observe(&mut self, target: TargetId, regions: &mut Vec<Observed>) {
        self.set.observe(target, regions);
    }

    fn apply(&mut self, request: &Request, scheme: &isotherm_core::Scheme) -> Applied {
        let applied = self.set.apply(request, scheme);
        if self.counters.len() <= request.scheme {
            self.counters.resize_with(request.scheme + 1, Counters::default);
        }
        let counters = &mut self.counters[request.scheme];
        counters.asked_bytes += applied.asked;
        counters.done_bytes += applied.applied;
        counters.action_ns += applied.ns;
        applied
    }

    fn measure(&mut self, measures: &mut [Measure]) {
        self.set.measure(measures);
    }
}

/// An operations set of the user's, a clock and a context.
#[derive(Debug)]
pub(super) struct Own {
    driver: Driver<AnySet, AnyClock>,
    lengths: Lengths,
    targets: Vec<Target>,
    /// Targets that were added and are not told yet.
    added: Vec<Target>,
    started: Time,
}

impl Own {
    pub(super) fn new(
        set: AnySet,
        mut clock: AnyClock,
        targets: &[(TargetId, String)],
        attrs: Attrs,
        seed: u64,
    ) -> Result<Self, Error> {
        let context = Context::new(attrs, seed)?;
        let started = clock.now();
        let driver = Driver::new(context, set, clock);
        let lengths = Lengths::default();
        let mut this = Self { driver, lengths, targets: Vec::new(), added: Vec::new(), started };
        for (id, name) in targets {
            this.add_target(*id, name);
        }
        Ok(this)
    }

    /// The next target that came or went.
    fn change(&mut self) -> Option<Event> {
        if let Some(target) = self.added.pop() {
            return Some(Event::Added(target));
        }
        // One that was added joins the context at its next turn, so a target is gone when the set
        // says so.
        let at = self.targets.iter().position(|t| !self.driver.ops.target_valid(t.id))?;
        let target = self.targets.remove(at);
        self.driver.context.remove_target(target.id);
        Some(Event::Gone(target))
    }
}

impl Identities for Own {
    fn targets(&self) -> &[Target] {
        &self.targets
    }

    fn mappings(&self, _: &Target) -> Vec<Mapping> {
        Vec::new()
    }
}

impl Source for Own {
    fn next(&mut self) -> Result<Next, Error> {
        if let Some(event) = self.change() {
            return Ok(Next::Event(event));
        }
        Ok(match self.driver.run() {
            Ran::Snapshot => {
                self.lengths.note(self.driver.context.snapshot());
                Next::Window
            }
            Ran::Interrupted => Next::Idle,
            Ran::Stopped => Next::Over,
        })
    }

    fn now(&self) -> Time {
        self.driver.context.snapshot().end.max(self.started)
    }

    fn raw(&self) -> &isotherm_core::Snapshot {
        self.driver.context.snapshot()
    }

    fn lengths(&self) -> &Lengths {
        &self.lengths
    }

    fn commit_schemes(&mut self, schemes: &[SchemePolicy]) {
        let schemes: Vec<_> = schemes.iter().map(|s| s.scheme.clone()).collect();
        self.driver.context.commit_schemes(schemes);
    }

    fn accounts(&mut self, schemes: &[SchemePolicy]) -> Vec<Account> {
        let installed = self.driver.context.schemes();
        let account = |(i, policy): (usize, &SchemePolicy)| {
            let installed = installed.get(i);
            let mut counters = installed.map(|i| i.stats().clone()).unwrap_or_default();
            if let Some(by_set) = self.driver.ops.counters.get(i) {
                counters.add(by_set);
            }
            Account::new(policy, &counters, installed)
        };
        schemes.iter().enumerate().map(account).collect()
    }

    fn add_target(&mut self, id: TargetId, name: &str) -> bool {
        let target = Target { id, pid: 0, parent: 0, name: name.to_owned(), memory: None };
        self.driver.context.add_target(id);
        self.targets.push(target.clone());
        self.added.push(target);
        true
    }
}
