//! The world as an operations set.

use isotherm_core::ops::UpdateError;
use isotherm_core::{
    AddrRange, Check, ClearRate, Operations, PageBits, PageState, TargetId, UnitCheck,
};

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
        check.state = match process.look(&self.schedule, region, &leaf, now, (seed, faults.clear)) {
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

impl World {
    /// Answers about whole units, one after the other. The clock moves by the time that a dense
    /// look, or clearing a range, takes.
    fn ask_units(&mut self, batch: &mut [UnitCheck], clear: bool) {
        for unit in batch {
            let before = self.counts;
            if self.ask_all_pages(unit, clear).is_none() {
                self.ask_each_page(unit, clear);
            }
            let cleared = u64::from(self.counts.clears > before.clears);
            unit.made_old = clear.then(|| self.now());
            // A look at a table costs as much as 30 looks at pages. Clearing one costs twice as
            // much as clearing a page.
            let costs = self.options.costs;
            let is_whole = unit.pages.count() > 1;
            let slow_ns = if is_whole { self.options.faults.slow_ns } else { 0 };
            let ns = costs.check_ns * 30 + cleared * (costs.clear_ns * 2 + slow_ns);
            self.counts.checks = before.checks + 512;
            self.counts.spent_ns += ns;
            self.now.set(self.now.get() + ns);
        }
    }

    /// Answers about a unit of which all pages are alike, at once. `None` if they may differ.
    fn ask_all_pages(&mut self, unit: &mut UnitCheck, clear: bool) -> Option<()> {
        let (now, faults) = (self.now(), self.options.faults);
        if unit.pages != PageBits::ALL || faults.fail + faults.blind + faults.clear > 0.0 {
            return None;
        }
        let process = self.processes.iter_mut().find(|p| p.number == unit.target.0);
        let process = process.filter(|p| p.is_alive(now))?;
        let bit = process.look_at_all(&self.schedule, unit.start, now)?;
        (unit.present, unit.young) = match *bit {
            Bit::Absent(_) | Bit::Fresh => Default::default(),
            Bit::Old(_) => (PageBits::ALL, PageBits::default()),
            Bit::Young(_) => (PageBits::ALL, PageBits::ALL),
        };
        if clear && matches!(bit, Bit::Young(_)) {
            *bit = Bit::Old(now);
            self.counts.clears += PageBits::ALL.count();
        }
        (unit.answered, unit.leaf_shift) = (true, 12);
        Some(())
    }

    fn ask_each_page(&mut self, unit: &mut UnitCheck, clear: bool) {
        unit.answered = false;
        for nr in 0..512_u16 {
            let page = PageBits::page(nr);
            if page.and(unit.pages).is_empty() {
                continue;
            }
            let mut check = Check::new(unit.target, unit.start + u64::from(nr) * 4096, 0);
            self.ask(&mut check, clear);
            unit.leaf_shift = check.leaf_shift;
            unit.answered |= check.state != PageState::Unknown;
            match check.state {
                PageState::Unknown | PageState::Absent => continue,
                PageState::Old => {}
                PageState::Young | PageState::Cleared => unit.young = unit.young.or(page),
                PageState::Unresolved => {
                    unit.young = unit.young.or(page);
                    unit.stuck = unit.stuck.or(page);
                }
            }
            unit.present = unit.present.or(page);
        }
    }
}

impl Operations for World {
    fn prepare(&mut self, batch: &mut [Check]) {
        self.ask_all(batch, true);
    }

    fn check(&mut self, batch: &mut [Check]) {
        self.ask_all(batch, false);
    }

    fn has_units(&self) -> bool {
        true
    }

    fn prepare_units(&mut self, batch: &mut [UnitCheck]) {
        self.ask_units(batch, true);
    }

    fn check_units(&mut self, batch: &mut [UnitCheck]) {
        self.ask_units(batch, false);
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

    fn others_clear(&mut self) -> ClearRate {
        let rate = self.options.faults.clear;
        ClearRate { mean: rate, lo: rate, hi: rate }
    }

    fn target_valid(&mut self, target: TargetId) -> bool {
        let now = self.now();
        self.process(target).is_some_and(|p| p.is_alive(now))
    }
}
