//! Shorthand for regions, and a context driven by an oracle.

use isotherm_core::{
    AddrRange, Attrs, Context, PageState, Region, Rng, Snapshot, Target, TargetId, Time, Wish,
};

/// The only target.
pub(crate) const T0: TargetId = TargetId(0);

/// Ranges from pairs.
pub(crate) fn ranges(pairs: &[(u64, u64)]) -> Vec<AddrRange> {
    pairs.iter().map(|&(start, end)| AddrRange::new(start, end)).collect()
}

/// A region with counts, as after the end of the window before.
pub(crate) fn region(start: u64, end: u64, nr: u32, last: u32, age: u32) -> Region {
    let mut r = Region::new(AddrRange::new(start, end));
    r.nr_accesses = nr;
    r.nr_accesses_bp = nr * 10_000;
    r.last_nr_accesses = last;
    r.age = age;
    r
}

/// A target with these regions.
pub(crate) fn target(regions: Vec<Region>) -> Target {
    let mut target = Target::new(T0);
    target.regions = regions;
    target
}

/// The bounds of a target's regions.
pub(crate) fn bounds(target: &Target) -> Vec<(u64, u64)> {
    target.regions.iter().map(|r| (r.range.start, r.range.end)).collect()
}

/// A context with one target, whose clock is virtual.
pub(crate) struct Run {
    pub(crate) ctx: Context,
    pub(crate) now: Time,
    /// The ranges to give at each update.
    pub(crate) maps: Vec<AddrRange>,
    /// Which addresses are accessed in every sample interval.
    pub(crate) hot: AddrRange,
    /// Number of updates asked for, the first included.
    pub(crate) nr_updates: u32,
    /// What was seen at the end of each window.
    pub(crate) snapshots: Vec<Snapshot>,
}

impl Run {
    /// A context whose random numbers are always in the middle.
    pub(crate) fn new(attrs: Attrs, maps: &[(u64, u64)], hot: (u64, u64)) -> Self {
        let mut ctx = Context::with_rng(attrs, Rng::constant(0x8000_0000)).unwrap();
        ctx.add_target(T0);
        Self {
            ctx,
            now: Time(0),
            maps: ranges(maps),
            hot: AddrRange::new(hot.0, hot.1),
            nr_updates: 0,
            snapshots: Vec::new(),
        }
    }

    /// Goes on to where the loop sleeps next; returns what the last wish was.
    pub(crate) fn go_to_sleep(&mut self) -> Wish {
        loop {
            let wish = self.ctx.poll(self.now);
            self.ctx.verify();
            match wish {
                Wish::Update => {
                    self.nr_updates += 1;
                    // A test that gives no maps wants to do without regions.
                    if !self.maps.is_empty() {
                        self.ctx.set_ranges(T0, &self.maps).unwrap();
                    }
                }
                Wish::Prepare => self.answer(PageState::Cleared),
                Wish::Check => self.answer(PageState::Young),
                Wish::PrepareUnits | Wish::CheckUnits | Wish::Observe | Wish::Eligible => {
                    unreachable!("single pages are sampled, of no node")
                }
                Wish::Snapshot => self.snapshots.push(self.ctx.snapshot().clone()),
                Wish::Sleep(_) | Wish::Stop => return wish,
                Wish::Measure | Wish::Apply => unreachable!("there is no scheme"),
            }
        }
    }

    fn answer(&mut self, hot: PageState) {
        for check in self.ctx.batch_mut() {
            check.state = if self.hot.contains(check.addr) { hot } else { PageState::Old };
        }
    }

    /// Sleeps, and goes on to the next sleep.
    pub(crate) fn tick(&mut self) {
        if let Wish::Sleep(until) = self.go_to_sleep() {
            self.now = until;
        }
        self.go_to_sleep();
    }

    /// Runs until so many sample intervals have passed.
    pub(crate) fn until_sis(&mut self, sis: u64) {
        while self.ctx.schedule().passed < sis {
            self.tick();
        }
    }

    /// The target's regions.
    pub(crate) fn regions(&self) -> &[Region] {
        &self.ctx.targets()[0].regions
    }
}
