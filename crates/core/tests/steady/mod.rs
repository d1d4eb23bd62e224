//! A world for measurements: one target of which nothing changes, so that after a while the monitor
//! is in its steady state with about a thousand regions.

use isotherm_core::{
    AddrRange, Applied, Attrs, Context, Observation, Observed, PageState, Scheme, TargetId, Time,
    Wish,
};

const AREA: u64 = 1 << 20;
const START: u64 = 0x7f00_0000_0000;

/// A context over a world that does not change.
pub(crate) struct Steady {
    world: World,
    context: Context,
    areas: Vec<AddrRange>,
    observed: Vec<Observed>,
    nr_windows: u32,
    now: Time,
    /// Number of times that a scheme was applied.
    pub(crate) nr_applied: u64,
}

impl Steady {
    /// Starts. With `gaps` there are as many areas as regions may be, each apart from the next, so
    /// that so many regions stay whatever is merged; each tenth is hot. Without, there are half as
    /// many and every second is hot: what a window's end splits the next one merges.
    pub(crate) fn new(attrs: Attrs, gaps: bool, schemes: Vec<Scheme>) -> Self {
        let world = World { gaps };
        let nr_areas = if gaps { attrs.max_nr_regions } else { attrs.max_nr_regions / 2 };
        let mut context = Context::new(attrs, 1).expect("valid attributes");
        context.add_target(TargetId(0));
        context.commit_schemes(schemes);
        let areas = (0..nr_areas).map(|i| world.area(i)).collect();
        let mut steady = Self {
            world,
            context,
            areas,
            observed: Vec::new(),
            nr_windows: 0,
            now: Time(0),
            nr_applied: 0,
        };
        steady.until(|wish| matches!(wish, Wish::Sleep(_)));
        steady
    }

    /// Number of regions at the end of the last window.
    pub(crate) fn nr_regions(&self) -> usize {
        self.context.snapshot().nr_regions()
    }

    /// Runs one sampling tick: from one sleep to the next. Whether it ended a window.
    pub(crate) fn tick(&mut self) -> bool {
        let before = self.context.snapshot().end;
        self.until(|wish| matches!(wish, Wish::Sleep(_)));
        self.context.snapshot().end != before
    }

    fn until(&mut self, done: impl Fn(Wish) -> bool) {
        loop {
            let wish = self.context.poll(self.now);
            match wish {
                Wish::Update => self.update(),
                Wish::Prepare => {
                    let world = self.world;
                    for check in self.context.batch_mut() {
                        check.state = if world.is_hot(check.addr) {
                            PageState::Cleared
                        } else {
                            PageState::Old
                        };
                    }
                }
                Wish::Check => {
                    let world = self.world;
                    for check in self.context.batch_mut() {
                        check.state = if world.is_hot(check.addr) {
                            PageState::Young
                        } else {
                            PageState::Old
                        };
                    }
                }
                Wish::PrepareUnits | Wish::CheckUnits => unreachable!("no unit is asked about"),
                Wish::Observe => self.observe(),
                Wish::Sleep(until) => self.now = until,
                Wish::Snapshot => {}
                Wish::Measure => {
                    for measure in self.context.measures_mut() {
                        measure.value = Some(5000);
                    }
                }
                Wish::Apply => {
                    let request = self.context.request().0;
                    let done = request.range.len().min(request.max_bytes);
                    let applied =
                        Applied { covered: done, asked: done, applied: done, ..Applied::default() };
                    self.context.applied(applied);
                    self.nr_applied += 1;
                }
                Wish::Eligible => unreachable!("no scheme takes from a node"),
                Wish::Stop => unreachable!("the target stays"),
            }
            if done(wish) {
                return;
            }
        }
    }

    /// The areas, half of them cut in two in every other window.
    fn observe(&mut self) {
        let attrs = *self.context.attrs();
        self.observed.clear();
        self.nr_windows += 1;
        for area in &self.areas {
            let cut = if self.nr_windows.is_multiple_of(2) { AREA / 2 } else { AREA / 4 };
            let hot = if self.world.is_hot(area.start) { 20 } else { 0 };
            let mid = area.start + cut;
            for range in [AddrRange::new(area.start, mid), AddrRange::new(mid, area.end)] {
                let age = self.nr_windows;
                self.observed.push(Observed { range, nr_accesses: hot, age, in_use: false });
            }
        }
        self.context.begin_observed(Observation {
            start: self.now,
            end: self.now,
            sample_us: attrs.sample_us,
            aggr_us: attrs.aggr_us,
            ..Observation::default()
        });
        self.context.observed(TargetId(0), &self.observed);
    }

    fn update(&mut self) {
        self.context.set_ranges(TargetId(0), &self.areas).expect("sorted ranges");
    }
}

/// What there is, and which of it is hot.
#[derive(Debug, Clone, Copy)]
struct World {
    gaps: bool,
}

impl World {
    /// Area `i`.
    fn area(self, i: u64) -> AddrRange {
        let start = START + i * self.stride();
        AddrRange::new(start, start + AREA)
    }

    /// Whether a page is touched in every sample interval. Only divisions by constants: this is
    /// part of what is measured.
    const fn is_hot(self, addr: u64) -> bool {
        let area = (addr - START) / AREA;
        if self.gaps { (area / 2).is_multiple_of(10) } else { area.is_multiple_of(2) }
    }

    const fn stride(self) -> u64 {
        if self.gaps { 2 * AREA } else { AREA }
    }
}
