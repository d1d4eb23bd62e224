//! The world as an operations set.

use isotherm_core::ops::UpdateError;
use isotherm_core::{AddrRange, Check, Operations, PageState, TargetId};

use super::World;
use super::chance::unit;
use super::memory::Bit;

impl World {
    /// Looks at a page, and makes it old if `clear` is true.
    fn ask(&mut self, check: &mut Check, clear: bool) {
        let (now, seed, faults) = (self.now(), self.options.seed, self.options.faults);
        self.counts.checks += 1;
        check.leaf_shift = 12;
        let asked = [seed, 4, u64::from(check.target.0), check.addr, now.0, u64::from(clear)];
        if faults.fail > 0.0 && unit(&asked) < faults.fail {
            check.state = PageState::Unknown;
            return;
        }
        let process = self.processes.iter_mut().find(|p| p.number == check.target.0);
        let Some(process) = process.filter(|p| p.is_alive(now)) else {
            check.state = PageState::Unknown;
            return;
        };
        let Some((region, leaf)) = process.leaf(check.addr, now) else {
            check.state = PageState::Absent;
            return;
        };
        let place = [seed, 5, u64::from(process.number), region as u64, leaf.bytes.start];
        let is_blind = faults.blind > 0.0 && unit(&place) < faults.blind;
        check.leaf_shift = leaf.shift;
        check.state = match process.look(&self.schedule, region, &leaf, now, seed) {
            Bit::Absent(_) | Bit::Fresh => PageState::Absent,
            Bit::Old(_) => PageState::Old,
            Bit::Young(_) if is_blind => PageState::Unresolved,
            Bit::Young(_) if clear => {
                *process.memory[region].bit(&leaf) = Bit::Old(now);
                self.counts.clears += 1;
                PageState::Cleared
            }
            Bit::Young(_) => PageState::Young,
        };
    }

    /// Moves the clock by the time that the operations took since the counts were `checks` and
    /// `clears`.
    fn pay(&mut self, checks: u64, clears: u64) {
        let costs = self.options.costs;
        let ns = (self.counts.checks - checks) * costs.check_ns
            + (self.counts.clears - clears) * costs.clear_ns;
        self.counts.spent_ns += ns;
        self.now.set(self.now.get() + ns);
    }

    fn ask_all(&mut self, batch: &mut [Check], clear: bool) {
        let before = self.counts;
        for check in batch {
            self.ask(check, clear);
        }
        self.pay(before.checks, before.clears);
    }
}

impl Operations for World {
    fn prepare(&mut self, batch: &mut [Check]) {
        self.ask_all(batch, true);
    }

    fn check(&mut self, batch: &mut [Check]) {
        self.ask_all(batch, false);
    }

    fn update(&mut self, target: TargetId, maps: &mut Vec<AddrRange>) -> Result<(), UpdateError> {
        let now = self.now();
        if !self.target_valid(target) {
            return Err(UpdateError::Gone);
        }
        let (seed, not_now) = (self.options.seed, self.options.faults.not_now);
        if not_now > 0.0 && unit(&[seed, 6, u64::from(target.0), now.0]) < not_now {
            return Err(UpdateError::NotNow);
        }
        maps.extend(self.mappings(target).map(|(range, _)| range));
        if maps.is_empty() { Err(UpdateError::NotNow) } else { Ok(()) }
    }

    fn target_valid(&mut self, target: TargetId) -> bool {
        let now = self.now();
        self.process(target).is_some_and(|p| p.is_alive(now))
    }
}
