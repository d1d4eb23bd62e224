//! A monitor over a simulated workload.

use isotherm_agent::policy::SchemePolicy;
use isotherm_core::{Attrs, Clock, Context, Driver, Event as Ran, Lengths, Time};
use isotherm_record::Mapping;
use isotherm_sim::world::{ProcessInfo, VirtualClock};

use super::source::{Next, Source};
use crate::Error;
use crate::event::Event;
use crate::scheme::Account;
use crate::sim::{Acting, Workload};
use crate::snapshot::{Identities, Target};

/// A simulated world, its clock and a context.
#[derive(Debug)]
pub(super) struct Simulated {
    driver: Driver<Acting, VirtualClock>,
    lengths: Lengths,
    targets: Vec<Target>,
    /// Processes below this number (in order of start) were made targets.
    admitted: usize,
}

impl Simulated {
    pub(super) fn new(workload: &Workload, attrs: Attrs, seed: u64) -> Result<Self, Error> {
        let world = workload.world(seed);
        let clock = world.clock();
        let context = Context::new(attrs, seed)?;
        let driver = Driver::new(context, Acting::new(world), clock);
        Ok(Self { driver, lengths: Lengths::default(), targets: Vec::new(), admitted: 0 })
    }

    /// Makes a target of the next process that has started by `now`, or notices the next that has
    /// ended.
    fn change(&mut self, now: Time) -> Option<Event> {
        let world = &self.driver.ops.world;
        let is_over = |t: &Target| world.processes().any(|p| p.id == t.id && p.end <= now);
        if let Some(at) = self.targets.iter().position(is_over) {
            return Some(Event::Gone(self.targets.remove(at)));
        }
        let next = world.processes().nth(self.admitted).filter(|p| p.start <= now)?;
        self.admitted += 1;
        self.driver.context.add_target(next.id);
        let target = target(&next);
        self.targets.push(target.clone());
        Some(Event::Added(target))
    }
}

fn target(process: &ProcessInfo) -> Target {
    let (id, pid) = (process.id, process.pid);
    let parent = process.parent_pid.unwrap_or(0);
    Target { id, pid, parent, name: "workload".to_owned(), memory: None }
}

impl Identities for Simulated {
    fn targets(&self) -> &[Target] {
        &self.targets
    }

    fn mappings(&self, target: &Target) -> Vec<Mapping> {
        let mappings = self.driver.ops.world.mappings(target.id);
        mappings.map(|(range, name)| Mapping::new(range.start, range.end, "rw-p", name)).collect()
    }
}

impl Source for Simulated {
    fn next(&mut self) -> Result<Next, Error> {
        let now = self.driver.ops.world.now();
        if now >= self.driver.ops.world.end() {
            return Ok(Next::Over);
        }
        if let Some(event) = self.change(now) {
            return Ok(Next::Event(event));
        }
        match self.driver.run() {
            Ran::Snapshot => {
                self.driver.ops.sweep();
                self.lengths.note(self.driver.context.snapshot());
                Ok(Next::Window)
            }
            Ran::Interrupted => Ok(Next::Idle),
            Ran::Stopped => {
                // Somebody may still be forked.
                let Some(next) = self.driver.ops.world.processes().nth(self.admitted) else {
                    return Ok(Next::Over);
                };
                self.driver.clock.sleep_until(next.start);
                Ok(Next::Idle)
            }
        }
    }

    fn now(&self) -> Time {
        self.driver.ops.world.now()
    }

    fn raw(&self) -> &isotherm_core::Snapshot {
        self.driver.context.snapshot()
    }

    fn lengths(&self) -> &Lengths {
        &self.lengths
    }

    fn commit_schemes(&mut self, schemes: &[SchemePolicy]) {
        self.driver.ops.set_schemes(schemes.iter().map(|s| s.settings.clone()).collect());
        let schemes: Vec<_> = schemes.iter().map(|s| s.scheme.clone()).collect();
        self.driver.context.commit_schemes(schemes);
    }

    fn accounts(&mut self, schemes: &[SchemePolicy]) -> Vec<Account> {
        let installed = self.driver.context.schemes();
        let account = |(i, policy): (usize, &SchemePolicy)| {
            let installed = installed.get(i);
            let mut counters = installed.map(|i| i.stats().clone()).unwrap_or_default();
            counters.add(&self.driver.ops.counters(i));
            Account { dry_run: true, ..Account::new(policy, &counters, installed) }
        };
        schemes.iter().enumerate().map(account).collect()
    }
}
