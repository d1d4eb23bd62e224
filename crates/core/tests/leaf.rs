//! Pages that share a huge leaf share one accessed bit, so making one page old hides touches of the
//! others. The estimates must stay correct all the same.

use isotherm_core::{
    AddrRange, Attrs, Check, Clock, Context, Driver, Event, Operations, PageState, TargetId, Time,
};

/// One target: huge leaves, each touched every `every`-th sample interval.
struct Leaves {
    maps: AddrRange,
    every_ns: u64,
    now: std::rc::Rc<std::cell::Cell<u64>>,
    /// When each leaf was last made old.
    cleared: Vec<Option<u64>>,
}

const SHIFT: u8 = 21;

impl Leaves {
    fn leaf(&self, addr: u64) -> usize {
        usize::try_from((addr - self.maps.start) >> SHIFT).expect("few leaves")
    }

    fn young(&self, addr: u64) -> bool {
        match self.cleared[self.leaf(addr)] {
            None => true,
            Some(at) => self.now.get() / self.every_ns > at / self.every_ns,
        }
    }
}

impl Operations for Leaves {
    fn prepare(&mut self, batch: &mut [Check]) {
        for check in batch {
            check.leaf_shift = SHIFT;
            check.state = if self.young(check.addr) { PageState::Cleared } else { PageState::Old };
            let leaf = self.leaf(check.addr);
            self.cleared[leaf] = Some(self.now.get());
        }
    }

    fn check(&mut self, batch: &mut [Check]) {
        for check in batch {
            check.leaf_shift = SHIFT;
            check.state = if self.young(check.addr) { PageState::Young } else { PageState::Old };
        }
    }

    fn update(
        &mut self,
        _: TargetId,
        maps: &mut Vec<AddrRange>,
    ) -> Result<(), isotherm_core::ops::UpdateError> {
        maps.push(self.maps);
        Ok(())
    }

    fn target_valid(&mut self, _: TargetId) -> bool {
        true
    }
}

struct Virtual(std::rc::Rc<std::cell::Cell<u64>>);

impl Clock for Virtual {
    fn now(&mut self) -> Time {
        Time(self.0.get())
    }

    fn sleep_until(&mut self, deadline: Time) -> bool {
        self.0.set(deadline.as_ns());
        false
    }
}

#[test]
fn pages_of_one_leaf_do_not_hide_touches_from_each_other() {
    // (touched every so many samples, least and largest believable mean count of 20)
    for (every, lo, hi) in [
        (1_u64, 19.0, 20.0),
        (2, 9.0, 13.0),
        (4, 4.0, 7.5),
        (16, 0.8, 2.0),
        (1_000_000_000, 0.0, 0.1),
    ] {
        let now = std::rc::Rc::new(std::cell::Cell::new(1));
        // Three regions at least, so two leaves each: all of a region's pages are in two leaves.
        let maps = AddrRange::new(1 << 30, (1 << 30) + (6 << SHIFT));
        let every_ns = every * 5_000_000;
        let ops = Leaves { maps, every_ns, now: now.clone(), cleared: vec![None; 6] };
        let attrs = Attrs { min_nr_regions: 3, clears_per_sec: 400, ..Attrs::default() };
        let mut context = Context::new(attrs, 1).unwrap();
        context.add_target(TargetId(0));
        let mut driver = Driver::new(context, ops, Virtual(now));
        let (mut sum, mut n) = (0.0, 0.0);
        for window in 0..200 {
            assert_eq!(driver.run(), Event::Snapshot);
            driver.context.verify();
            for r in driver.context.snapshot().targets[0].regions.iter().filter(|_| window > 50) {
                sum += f64::from(r.nr_accesses);
                n += 1.0;
            }
        }
        let mean = sum / n;
        assert!((lo..=hi).contains(&mean), "every {every}: mean count {mean}, expected {lo}..{hi}");
    }
}
