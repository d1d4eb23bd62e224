//! A context with schemes, driven by an oracle that also acts and keeps every request.

use isotherm_core::scheme::{Action, Bounds, Metric, Pattern, Scheme};
use isotherm_core::{
    AddrRange, Applied, Attrs, Context, Measure, PageState, Request, Rng, TargetId, Time, Wish,
};

/// Windows of 5 samples; four regions of setup Q's target are half of the most.
pub(crate) fn attrs_q() -> Attrs {
    Attrs {
        sample_us: 5000,
        aggr_us: 25_000,
        min_nr_regions: 4,
        max_nr_regions: 8,
        min_region_sz: 16,
        ..Attrs::reference()
    }
}

/// A scheme for every region.
pub(crate) fn match_all(action: Action) -> Scheme {
    Scheme { pattern: Pattern::ALL, action, ..Scheme::default() }
}

/// A pattern of frequencies and ages, of any size.
pub(crate) fn pattern(nr: (u32, u32), age: (u32, u32)) -> Pattern {
    Pattern {
        nr_accesses: isotherm_core::scheme::Frequency::Samples(Bounds::new(nr.0, nr.1)),
        age: isotherm_core::scheme::Age::Windows(Bounds::new(age.0, age.1)),
        ..Pattern::ALL
    }
}

/// Acts on all of the range, in no time.
pub(crate) fn all_of(request: &Request) -> Applied {
    let len = request.range.len();
    // Unless `strict`, the operations set has to keep the limit of the request.
    let done = len.min(request.max_bytes);
    Applied { covered: done, asked: done, applied: done, passed: done, ..Applied::default() }
}

type Apply = Box<dyn FnMut(&Request) -> Applied>;
/// The function that answers measurements.
pub(crate) type Answer = Box<dyn FnMut(&Measure) -> Option<u64>>;

/// The context, its clock, and what it asked for.
pub(crate) struct Acting {
    pub(crate) ctx: Context,
    pub(crate) now: Time,
    /// By target: the ranges to give at each update.
    pub(crate) maps: Vec<Vec<AddrRange>>,
    /// Which addresses are accessed in every sample interval.
    pub(crate) hot: AddrRange,
    pub(crate) apply: Apply,
    pub(crate) measure: Answer,
    /// The requests since the test looked last.
    pub(crate) requests: Vec<Request>,
    /// Number of pages that were looked at.
    pub(crate) nr_checks: usize,
    /// How pages answer that cannot be looked at or made old, if any.
    pub(crate) blind: Option<PageState>,
}

impl Acting {
    /// As [`crate::run::Run`]: random numbers are always in the middle.
    pub(crate) fn new(attrs: Attrs, maps: &[&[(u64, u64)]], schemes: Vec<Scheme>) -> Self {
        let mut ctx = Context::with_rng(attrs, Rng::constant(0x8000_0000)).unwrap();
        for i in 0..maps.len() {
            ctx.add_target(TargetId(u32::try_from(i).unwrap()));
        }
        ctx.commit_schemes(schemes);
        Self {
            ctx,
            now: Time(0),
            maps: maps.iter().map(|pairs| crate::run::ranges(pairs)).collect(),
            hot: AddrRange::new(0, 0),
            apply: Box::new(all_of),
            measure: Box::new(|_| None),
            requests: Vec::new(),
            nr_checks: 0,
            blind: None,
        }
    }

    /// Setup Q: one target of 1024 bytes that nobody touches.
    pub(crate) fn q(scheme: Scheme) -> Self {
        Self::new(attrs_q(), &[&[(0, 1024)]], vec![scheme])
    }

    /// The next wish. Checks that the regions are sound.
    pub(crate) fn poll(&mut self) -> Wish {
        let wish = self.ctx.poll(self.now);
        self.ctx.verify();
        wish
    }

    /// Does what [`Wish::Apply`] wants.
    pub(crate) fn act(&mut self) {
        let request = self.ctx.request().0;
        self.requests.push(request);
        let applied = (self.apply)(&request);
        self.ctx.applied(applied);
    }

    /// Runs until the loop sleeps next. Returns the end of that sleep.
    pub(crate) fn go_to_sleep(&mut self) -> Option<Time> {
        loop {
            match self.poll() {
                Wish::Update => {
                    for (i, maps) in (0..).zip(&self.maps) {
                        self.ctx.set_ranges(TargetId(i), maps).unwrap();
                    }
                }
                Wish::Prepare => self.answer(PageState::Cleared),
                Wish::Check => {
                    self.nr_checks += self.ctx.batch_mut().len();
                    self.answer(PageState::Young);
                }
                Wish::PrepareUnits | Wish::CheckUnits | Wish::Observe | Wish::Eligible => {
                    unreachable!("single pages are sampled, of no node")
                }
                Wish::Snapshot => {}
                Wish::Measure => {
                    for measure in self.ctx.measures_mut() {
                        measure.value = (self.measure)(measure);
                    }
                }
                Wish::Apply => self.act(),
                Wish::Sleep(until) => return Some(until),
                Wish::Stop => return None,
            }
        }
    }

    fn answer(&mut self, hot: PageState) {
        for check in self.ctx.batch_mut() {
            let state = if self.hot.contains(check.addr) { hot } else { PageState::Old };
            check.state = self.blind.unwrap_or(state);
        }
    }

    /// Sleeps, and goes on to the next sleep.
    pub(crate) fn tick(&mut self) {
        if let Some(until) = self.go_to_sleep() {
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

    /// The requests of the next window of five samples.
    pub(crate) fn window(&mut self) -> Vec<Request> {
        self.requests.clear();
        self.until_sis((self.ctx.schedule().passed / 5 + 1) * 5);
        std::mem::take(&mut self.requests)
    }

    /// As [`Acting::window`], but only the ranges.
    pub(crate) fn window_ranges(&mut self) -> Vec<(u64, u64)> {
        self.window().iter().map(|r| (r.range.start, r.range.end)).collect()
    }
}

/// Answers the free memory rate.
pub(crate) fn free_rate(permil: u64) -> Answer {
    Box::new(move |measure| (measure.metric == Metric::FreeMemRate).then_some(permil))
}
