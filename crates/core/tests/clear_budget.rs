//! The budget of clears: how many `first_touch` may do per second, for any budget, and from when on
//! it holds.

use isotherm_core::{AddrRange, Attrs, Context, Method, PageState, TargetId, Time, Wish};

const MIB: u64 = 1 << 20;

/// A context over one target, and what it did so far.
struct Run {
    context: Context,
    now: Time,
    hot: AddrRange,
    nr_clears: u64,
}

impl Run {
    fn new(attrs: Attrs, size: u64) -> Self {
        let mut context = Context::new(attrs, 1).expect("valid attributes");
        context.add_target(TargetId(0));
        context.set_ranges(TargetId(0), &[AddrRange::new(0, size)]).expect("one range");
        Self { context, now: Time(0), hot: AddrRange::new(0, size), nr_clears: 0 }
    }

    /// Runs until so many samples have passed; returns the number of pages armed in the last turn.
    fn until_sis(&mut self, sis: u64) -> usize {
        let mut armed = 0;
        loop {
            match self.context.poll(self.now) {
                Wish::Prepare => {
                    armed = self.context.batch_mut().len();
                    self.nr_clears += self.answer(PageState::Cleared);
                }
                Wish::Check => drop(self.answer(PageState::Young)),
                Wish::Sleep(_) if self.context.schedule().passed >= sis => return armed,
                Wish::Sleep(until) => {
                    armed = 0;
                    self.now = until;
                }
                Wish::Update | Wish::Snapshot => {}
                wish => panic!("{wish:?} without a scheme"),
            }
        }
    }

    /// Answers for every page; returns the number of hot ones.
    fn answer(&mut self, state: PageState) -> u64 {
        let mut nr_hot = 0;
        for check in self.context.batch_mut() {
            let is_hot = self.hot.contains(check.addr);
            check.state = if is_hot { state } else { PageState::Old };
            nr_hot += u64::from(is_hot);
        }
        nr_hot
    }
}

/// Twenty thousand regions that are always touched want more clears than any budget here.
#[test]
fn more_clears_per_second_than_65535() {
    let rate = |clears_per_sec| {
        let nr = 20_000;
        let attrs =
            Attrs { min_nr_regions: nr, max_nr_regions: nr, clears_per_sec, ..Attrs::default() };
        let mut run = Run::new(attrs, nr * MIB);
        // The first seconds have a bucket of three seconds' worth.
        run.until_sis(1000);
        let before = run.nr_clears;
        run.until_sis(1200);
        run.nr_clears - before
    };
    let (less, more) = (rate(60_000), rate(120_000));
    assert!((54_000..=61_000).contains(&less), "{less} clears per second");
    assert!((90_000..=122_000).contains(&more), "{more} clears per second");
}

/// Another method runs in between. Pages are then drawn anew, and what was seen of the old pages is
/// no evidence any more.
#[test]
fn back_to_first_touch_with_fresh_pages() {
    let attrs = Attrs { method: Method::FirstTouch, ..Attrs::default() };
    let resample = Attrs { method: Method::Resample, ..attrs };
    let mut run = Run::new(attrs, 64 * MIB);
    run.hot = AddrRange::new(0, 0);
    run.until_sis(1000);
    run.context.commit(resample).expect("valid attributes");
    // Now all memory is hot. The pages watched before were cold for a long time.
    run.hot = AddrRange::new(0, 64 * MIB);
    run.until_sis(3000);
    run.context.commit(attrs).expect("valid attributes");
    // The plan is for the samples to come: not all of it is due at once.
    let armed = run.until_sis(3001);
    let nr_regions = run.context.targets()[0].regions.len();
    assert!(armed <= 12 * nr_regions * 2 / 3, "{armed} pages of {nr_regions} regions at once");
    run.until_sis(3050);
    for region in &run.context.snapshot().targets[0].regions {
        assert!(region.nr_accesses >= 15, "{region:?}");
    }
}
