//! The monitoring loop, as a state machine without I/O (R§2).
//!
//! [`Context::poll`] says what has to happen next; whoever drives it (see [`crate::driver`]) does that,
//! leaves the results in the context, and polls again. One turn of the loop is
//!
//! ```text
//! [Measure -> watermarks] -> Prepare -> Sleep -> Check -> [window over: merge, age, Snapshot]
//!         -> commits -> [pause] -> [schemes due: Measure, Apply ...]
//!         -> [window over: tune, reset, split] -> [Update] -> Prepare
//! ```
//!
//! in exactly the order of the kernel's `kdamond_fn()` (Linux 7.2). A snapshot is taken where the
//! kernel runs its callers' functions: after merging and ageing, before the reset and the split.
//!
//! # What differs from the kernel, unless [`Attrs::strict`]
//!
//! | here | the kernel | R§ |
//! |---|---|---|
//! | a tuning that changes nothing restarts no deadline; a nearer update deadline stays | both restart | 9.1.1 |
//! | switching on the intervals goal starts its period | tunes at every window until it has caught up | 9.1.2 |
//! | last number of regions (three-way split) per context | one for all contexts | 9.1.5 |
//! | a target without regions is looked at again after the window | after the update interval | 9.1.9 |
//! | samples are due at fixed times | each sleep starts when the work before it ends | 9.1.12 |
//! | `first_touch` sleeps through samples without anything due | has only `resample` | 2.1 |
//! | snapshots only of finished windows | callers see partial ones too | 9.2.17 |
//! | pages that cannot be made old give no evidence | read as accessed | 9.5.3 |
//! | gaps from 64 KiB on are left out | the two largest | 3.1 |
//!
//! [`scheme`](crate::scheme) has the table of what differs in the schemes.

pub mod first_touch;
mod observed;
mod passes;
mod resample;
mod schedule;
mod schemes;
mod tune;

use alloc::vec::Vec;
use core::mem;

pub use passes::{enforce_min_regions, merge_all, region_size_limit, split_all};
pub use schedule::{Conversion, Schedule, before};
pub use tune::{adaptation, feed, score, tuned};

use crate::addr::AddrRange;
use crate::areas::Areas;
use crate::attrs::{Attrs, AttrsError, Method};
use crate::ops::{Check, Measure, PageState, TargetId};
use crate::rng::Rng;
use crate::scheme::{Installed, Scheme, Schemes};
use crate::snapshot::{Cost, RegionInfo, Snapshot, TargetInfo};
use crate::target::{RangesError, Target};
use crate::time::Time;
use first_touch::FirstTouch;

/// What a context wants to happen next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Wish {
    /// Give [`Context::update_target`] the mappings of every target.
    Update,
    /// Make the pages of [`Context::batch_mut`] old.
    Prepare,
    /// Come back at this time.
    Sleep(Time),
    /// Look at the pages of [`Context::batch_mut`].
    Check,
    /// Tell [`Context::begin_observed`] if the set has another window, and [`Context::observed`] its
    /// regions. [`Method::Observed`] only.
    Observe,
    /// A window is over: [`Context::snapshot`] has it.
    Snapshot,
    /// Answer [`Context::measures_mut`].
    Measure,
    /// Do what [`Context::request`] says and tell [`Context::applied`] what came of it.
    Apply,
    /// There is no target left.
    Stop,
}

/// Where in the loop a context is: what the last wish was, or what comes next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    Start,
    Begin,
    /// A turn begins: watermarks.
    Turn,
    /// The free memory rate is there.
    Marks,
    Prepare,
    Prepared,
    Asleep,
    Checked,
    Calls,
    Paused,
    /// Which schemes are due.
    Schemes,
    /// The goals are measured.
    Quotas,
    /// A pass over the regions is under way.
    Pass,
    Finish,
}

/// A change that waits for the point of the loop where changes are safe.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Change {
    Attrs(Attrs),
    Schemes(Vec<Scheme>),
    Pause(bool),
    Add(TargetId, bool),
    Remove(TargetId),
    Update,
}

/// One run of the monitor: attributes, targets, and the state of the loop (`struct damon_ctx`).
#[derive(Debug)]
pub struct Context {
    attrs: Attrs,
    rng: Rng,
    targets: Vec<Target>,
    schedule: Schedule,
    phase: Phase,
    paused: bool,
    changes: Vec<Change>,
    /// Largest size of a merged region; computed at the end of the window before.
    sz_limit: u64,
    last_nr_regions: u64,
    /// Deadlines as they were when this turn began: a commit in its middle moves only later ones.
    turn: Schedule,
    /// When the current sample is due.
    due: Time,
    /// Largest count that any region had at the last check.
    max_nr: u32,
    batch: Vec<Check>,
    first_touch: FirstTouch,
    areas: Vec<AddrRange>,
    snapshot: Snapshot,
    /// What the running window has cost so far.
    cost: Cost,
    window_start: Time,
    /// [`Method::Observed`] only.
    taking: observed::Taking,
    /// Sample intervals that the sleep under way lasts.
    ticks: u64,
    schemes: Schemes,
    measures: Vec<Measure>,
    /// When the watermarks are looked at next. Not `strict`.
    next_marks: Time,
    /// Whether the watermarks let no scheme work, and nothing is sampled.
    waiting: bool,
}

impl Context {
    /// A context without targets. `seed` determines all that is drawn at random.
    ///
    /// # Errors
    ///
    /// If the attributes are not valid.
    pub fn new(attrs: Attrs, seed: u64) -> Result<Self, AttrsError> {
        Self::with_rng(attrs, Rng::seeded(seed))
    }

    /// As [`Context::new`], with a given source of random numbers.
    ///
    /// # Errors
    ///
    /// If the attributes are not valid.
    pub fn with_rng(mut attrs: Attrs, rng: Rng) -> Result<Self, AttrsError> {
        attrs.validate()?;
        fill_aggr_samples(&mut attrs);
        Ok(Self {
            attrs,
            rng,
            targets: Vec::new(),
            schedule: Schedule::start(&attrs),
            phase: Phase::Start,
            paused: false,
            changes: Vec::new(),
            sz_limit: 0,
            last_nr_regions: 0,
            turn: Schedule::default(),
            due: Time::default(),
            max_nr: 0,
            batch: Vec::new(),
            first_touch: FirstTouch::default(),
            areas: Vec::new(),
            snapshot: Snapshot::default(),
            cost: Cost::default(),
            window_start: Time::default(),
            taking: observed::Taking::default(),
            ticks: 1,
            schemes: Schemes::default(),
            measures: Vec::new(),
            next_marks: Time::default(),
            waiting: false,
        })
    }

    /// The attributes in force.
    #[must_use]
    pub const fn attrs(&self) -> &Attrs {
        &self.attrs
    }

    /// The targets, in the order in which they were added.
    #[must_use]
    pub fn targets(&self) -> &[Target] {
        &self.targets
    }

    /// The integer clock.
    #[must_use]
    pub const fn schedule(&self) -> &Schedule {
        &self.schedule
    }

    /// The pages that [`Wish::Prepare`] and [`Wish::Check`] speak of.
    pub fn batch_mut(&mut self) -> &mut [Check] {
        &mut self.batch
    }

    /// The last finished window. Meaningful from the first [`Wish::Snapshot`] on.
    #[must_use]
    pub const fn snapshot(&self) -> &Snapshot {
        &self.snapshot
    }

    /// The last finished window, for the driver to add what it knows: the CPU time.
    pub const fn snapshot_mut(&mut self) -> &mut Snapshot {
        &mut self.snapshot
    }

    /// Adds a target; it is watched from the next turn of the loop on. A name that is already there
    /// is ignored.
    pub fn add_target(&mut self, id: TargetId) {
        self.change(Change::Add(id, false));
    }

    /// As [`Context::add_target`], for a target whose mappings are watched exactly as they are told, such as
    /// ranges of physical memory: the rule of the largest gaps (three areas) is for address spaces.
    pub fn add_ranges(&mut self, id: TargetId) {
        self.change(Change::Add(id, true));
    }

    /// Stops watching a target, at the next turn of the loop.
    pub fn remove_target(&mut self, id: TargetId) {
        self.change(Change::Remove(id));
    }

    /// Asks for the mappings at the end of the next turn, rather than after the update interval.
    pub fn update_soon(&mut self) {
        self.change(Change::Update);
    }

    /// Replaces the attributes at the next turn of the loop, and keeps what was learned: counts and
    /// ages are converted. Identical attributes change nothing.
    ///
    /// # Errors
    ///
    /// If they are not valid; then nothing changes, now or later.
    pub fn commit(&mut self, mut attrs: Attrs) -> Result<(), AttrsError> {
        attrs.validate()?;
        fill_aggr_samples(&mut attrs);
        self.change(Change::Attrs(attrs));
        Ok(())
    }

    /// Pauses or resumes at the next turn of the loop: no sampling, no windows, no time passes.
    pub fn pause(&mut self, pause: bool) {
        self.change(Change::Pause(pause));
    }

    /// Tells what is mapped in a target (sorted, not overlapping): the answer to [`Wish::Update`].
    /// Returns whether there was anything to watch; if not, the regions stay as they were.
    pub fn update_target(&mut self, id: TargetId, maps: &[AddrRange]) -> bool {
        if self.observes() {
            return !maps.is_empty();
        }
        if self.targets.iter().any(|t| t.id == id && t.given) {
            return !maps.is_empty() && self.set_ranges(id, maps).is_ok();
        }
        let rule = if self.attrs.strict {
            Areas::THREE
        } else {
            Areas::for_regions(self.attrs.max_nr_regions)
        };
        let mut areas = mem::take(&mut self.areas);
        let some = rule.find(maps, self.attrs.min_region_sz, &mut areas)
            && self.set_ranges(id, &areas).is_ok();
        self.areas = areas;
        some
    }

    /// Fits a target's regions to exactly these ranges.
    ///
    /// # Errors
    ///
    /// If they are empty or overlap; the target is as before.
    pub fn set_ranges(&mut self, id: TargetId, ranges: &[AddrRange]) -> Result<(), RangesError> {
        let min_region_sz = self.attrs.min_region_sz;
        match self.targets.iter_mut().find(|t| t.id == id) {
            Some(target) => target.set_ranges(ranges, min_region_sz),
            None => Ok(()),
        }
    }

    /// Goes on to the next thing that somebody else has to do.
    pub fn poll(&mut self, now: Time) -> Wish {
        loop {
            let wish = match self.phase {
                Phase::Start => self.step(Phase::Begin, Some(Wish::Update)),
                Phase::Begin => self.begin(now),
                Phase::Turn => self.turn(now),
                Phase::Marks => self.marks(now),
                Phase::Prepare => self.prepare(),
                Phase::Prepared => self.prepared(now),
                Phase::Asleep => self.woke(now),
                Phase::Checked => self.checked(now),
                Phase::Calls => self.calls(now),
                Phase::Paused => self.step(Phase::Calls, None),
                Phase::Schemes => self.due_schemes(now),
                Phase::Quotas => self.quotas(now),
                Phase::Pass => self.pass(),
                Phase::Finish => self.finish(),
            };
            if let Some(wish) = wish {
                return wish;
            }
        }
    }

    const fn step(&mut self, next: Phase, wish: Option<Wish>) -> Option<Wish> {
        self.phase = next;
        wish
    }

    /// The regions of the first update are there.
    fn begin(&mut self, now: Time) -> Option<Wish> {
        self.sz_limit = enforce_min_regions(&mut self.targets, &self.attrs);
        self.window_start = now;
        self.due = now;
        self.reserve();
        if self.attrs.method == Method::FirstTouch {
            self.first_touch.start(&mut self.targets, &self.attrs, &mut self.rng);
        }
        self.step(if self.targets.is_empty() { Phase::Calls } else { Phase::Turn }, None)
    }

    /// Step 2: which pages to make old.
    fn prepare(&mut self) -> Option<Wish> {
        self.batch.clear();
        match self.attrs.method {
            Method::Resample => {
                resample::prepare(&mut self.targets, &mut self.rng, &mut self.batch);
            }
            Method::FirstTouch => {
                self.first_touch.prepare(&self.targets, self.schedule.passed, &mut self.batch);
            }
            Method::Observed => {}
        }
        let wish = (!self.batch.is_empty()).then_some(Wish::Prepare);
        self.step(Phase::Prepared, wish)
    }

    /// Step 3: sleep one sample interval.
    fn prepared(&mut self, now: Time) -> Option<Wish> {
        let nr_cleared = match self.attrs.method {
            Method::Resample => {
                resample::prepared(&mut self.targets, self.attrs.strict, &self.batch)
            }
            Method::FirstTouch => {
                self.first_touch.prepared(&mut self.targets, &self.batch, now, self.schedule.passed)
            }
            Method::Observed => return self.await_window(now),
        };
        self.cost.clears += nr_cleared;
        self.ticks = if self.sleeps_through() { self.ticks_to_sleep() } else { 1 };
        let us = self.attrs.sample_us.saturating_mul(self.ticks);
        let on_time = self.due.plus_us(us);
        self.due = if self.attrs.strict || on_time < now { now.plus_us(us) } else { on_time };
        self.step(Phase::Asleep, Some(Wish::Sleep(self.due)))
    }

    /// Whether samples at which there is nothing to do are slept through.
    const fn sleeps_through(&self) -> bool {
        matches!(self.attrs.method, Method::FirstTouch) && !self.attrs.strict
    }

    /// Samples until something is due.
    fn ticks_to_sleep(&self) -> u64 {
        let passed = self.schedule.passed;
        let turn = [self.turn.next_aggregation, self.turn.next_update];
        let schemes =
            self.schemes.installed.iter().filter(|s| s.is_active()).map(Installed::next_apply);
        let due =
            turn.into_iter().chain(schemes).fold(FirstTouch::next_due(&self.targets), u64::min);
        due.saturating_sub(passed).max(1)
    }

    /// Steps 4 and 5: which pages to look at.
    fn woke(&mut self, now: Time) -> Option<Wish> {
        if now < self.due {
            return Some(Wish::Sleep(self.due));
        }
        self.schedule.passed = self.schedule.passed.wrapping_add(self.ticks);
        match self.attrs.method {
            // The pages are those that were made old; what was found then is no answer now.
            Method::Resample => {
                for check in &mut self.batch {
                    if check.state != PageState::Unresolved {
                        check.state = PageState::Unknown;
                    }
                }
            }
            Method::FirstTouch => {
                let (passed, last) = (self.schedule.passed, self.window_over());
                self.batch.clear();
                self.first_touch.check(&self.targets, passed, last, &mut self.batch);
            }
            Method::Observed => return self.ask_window(),
        }
        self.cost.checks += self.batch.len() as u64;
        let wish = (!self.batch.is_empty()).then_some(Wish::Check);
        self.step(Phase::Checked, wish)
    }

    const fn window_over(&self) -> bool {
        if self.observes() {
            return self.taking.window.is_some();
        }
        self.schedule.passed >= self.turn.next_aggregation
    }

    /// Steps 5 and 7: count; at the end of a window merge and age.
    fn checked(&mut self, now: Time) -> Option<Wish> {
        self.max_nr = match self.attrs.method {
            Method::Resample => resample::checked(&mut self.targets, &self.batch, &self.attrs),
            Method::FirstTouch => {
                let passed = self.schedule.passed;
                self.first_touch.checked(&mut self.targets, &self.batch, &self.attrs, now, passed);
                0
            }
            Method::Observed => return self.end_observed(now),
        };
        if !self.window_over() {
            return self.step(Phase::Calls, None);
        }
        match self.attrs.method {
            Method::Resample => resample::mark_unresolved(&mut self.targets, &self.attrs),
            Method::FirstTouch => {
                self.max_nr = self.first_touch.estimate(&mut self.targets, &self.attrs);
            }
            Method::Observed => {}
        }
        merge_all(&mut self.targets, &self.attrs, self.max_nr / 10, self.sz_limit);
        self.sz_limit = enforce_min_regions(&mut self.targets, &self.attrs);
        self.take_snapshot(now);
        self.step(Phase::Calls, Some(Wish::Snapshot))
    }

    /// Steps 8 to 11: what others asked for.
    fn calls(&mut self, now: Time) -> Option<Wish> {
        self.run_changes();
        if self.targets.is_empty() {
            self.schemes.walk.cancel();
            return Some(Wish::Stop);
        }
        if self.paused {
            self.schemes.walk.cancel();
            let until = now.plus_us(self.attrs.sample_us.max(1));
            return self.step(Phase::Paused, Some(Wish::Sleep(until)));
        }
        self.step(Phase::Schemes, None)
    }

    fn run_changes(&mut self) {
        for change in mem::take(&mut self.changes) {
            self.apply(change);
        }
    }

    /// Steps 12 to 14: the second half of the end of a window, and the update.
    fn finish(&mut self) -> Option<Wish> {
        let window_over = self.window_over();
        let mut updating = self.schedule.passed >= self.turn.next_update;
        if window_over {
            self.tune();
            let sample = self.attrs.sample_us.max(1);
            self.schedule.next_aggregation = if self.observes() {
                self.next_observed()
            } else {
                self.turn.next_aggregation.wrapping_add(self.attrs.aggr_us / sample)
            };
            for region in self.targets.iter_mut().flat_map(|t| t.regions.iter_mut()) {
                region.reset_aggregated();
            }
            self.split();
            self.taking.window = None;
        }
        // Whatever ended it: a commit of another method comes between the end and here.
        self.window_start = self.window_start.max(self.snapshot.end);
        if updating {
            let sample = self.attrs.sample_us.max(1);
            self.schedule.next_update =
                self.turn.next_update.wrapping_add(self.attrs.update_us / sample);
        }
        let empty = |targets: &[Target]| targets.iter().any(Target::is_empty);
        updating |= !self.attrs.strict && !self.observes() && window_over && empty(&self.targets);
        self.step(Phase::Turn, updating.then_some(Wish::Update))
    }

    fn split(&mut self) {
        match self.attrs.method {
            Method::Resample => {
                split_all(&mut self.targets, &self.attrs, &mut self.last_nr_regions, &mut self.rng);
            }
            Method::FirstTouch => {
                let passed = self.schedule.passed;
                let window_ns = self.snapshot.end.since(self.snapshot.start);
                let targets = &mut self.targets;
                self.first_touch.replan(targets, &self.attrs, passed, window_ns, &mut self.rng);
            }
            Method::Observed => {}
        }
    }

    /// Step 13a.
    fn tune(&mut self) {
        let goal = self.attrs.intervals_goal;
        let due = !before(self.schedule.passed, self.schedule.next_tune);
        if goal.aggrs == 0 || !due || self.observes() {
            return;
        }
        self.schedule.next_aggregation = self.turn.next_aggregation;
        let period = self.attrs.aggr_samples.wrapping_mul(goal.aggrs);
        self.schedule.next_tune = self.schedule.next_tune.wrapping_add(period);
        let score = score(&self.attrs, passes::all(&self.targets));
        if let Some(attrs) = tuned(&self.attrs, score) {
            self.set_attrs(attrs);
        }
    }

    /// Puts new, valid attributes in force (`damon_set_attrs()`).
    fn set_attrs(&mut self, attrs: Attrs) {
        let old = mem::replace(&mut self.attrs, attrs);
        let aggregating = self.schedule.aggregating();
        self.schedule.restart(&attrs);
        if let Some(conversion) = Conversion::between(&old, &attrs) {
            for region in self.targets.iter_mut().flat_map(|t| t.regions.iter_mut()) {
                conversion.region(region, aggregating);
            }
        }
        if !attrs.strict && old.intervals_goal != attrs.intervals_goal {
            let period = attrs.aggr_samples.wrapping_mul(attrs.intervals_goal.aggrs);
            self.schedule.next_tune = self.schedule.next_aggregation.wrapping_add(period);
        }
        if attrs.method == Method::FirstTouch && old.sample_us != attrs.sample_us {
            FirstTouch::rescale(&mut self.targets, old.sample_us, attrs.sample_us);
        }
        for scheme in &mut self.schemes.installed {
            scheme.set_attrs(&attrs, self.schedule.passed);
        }
        if attrs.method == Method::FirstTouch && old.method != attrs.method {
            self.first_touch.start(&mut self.targets, &self.attrs, &mut self.rng);
        }
        self.reserve();
    }

    fn change(&mut self, change: Change) {
        if self.phase == Phase::Start {
            self.apply(change);
        } else {
            self.changes.push(change);
        }
    }

    fn apply(&mut self, change: Change) {
        match change {
            Change::Attrs(attrs) if self.phase == Phase::Start => {
                self.attrs = attrs;
                self.schedule = Schedule::start(&attrs);
                for scheme in &mut self.schemes.installed {
                    scheme.set_attrs(&attrs, 0);
                }
            }
            Change::Attrs(attrs) if attrs != self.attrs => self.set_attrs(attrs),
            Change::Attrs(_) => {}
            Change::Schemes(schemes) => {
                self.schemes.commit(&schemes, &self.attrs, self.schedule.passed);
            }
            Change::Pause(pause) => self.paused = pause,
            Change::Add(id, given) => {
                if self.targets.iter().all(|t| t.id != id) {
                    let mut target = Target::new(id);
                    target.given = given;
                    self.targets.push(target);
                    // An update at the end of this turn gives it its first regions.
                    self.turn.next_update = self.schedule.passed;
                }
            }
            Change::Remove(id) => {
                self.targets.retain(|t| t.id != id);
                self.schemes.forget(id);
            }
            Change::Update => self.turn.next_update = self.schedule.passed,
        }
    }

    /// Makes room for as many regions as a steady state can have.
    fn reserve(&mut self) {
        let n = usize::try_from(self.attrs.max_nr_regions.min(1 << 16)).unwrap_or(0) * 2;
        if let [only] = self.targets.as_mut_slice() {
            only.reserve(n);
        }
        self.batch.reserve(n.saturating_sub(self.batch.len()));
    }

    fn take_snapshot(&mut self, now: Time) {
        let (max, method) = (self.attrs.max_nr_accesses(), self.attrs.method);
        let snapshot = &mut self.snapshot;
        snapshot.seq = if snapshot.max_nr_accesses == 0 { 0 } else { snapshot.seq + 1 };
        snapshot.start = self.window_start;
        snapshot.end = now;
        snapshot.sample_us = self.attrs.sample_us;
        snapshot.aggr_us = self.attrs.aggr_us;
        snapshot.max_nr_accesses = max;
        snapshot.cost = mem::take(&mut self.cost);
        snapshot.targets.resize_with(self.targets.len(), TargetInfo::default);
        for (info, target) in snapshot.targets.iter_mut().zip(&self.targets) {
            info.id = target.id;
            info.regions.clear();
            info.regions.extend(target.regions.iter().map(|r| {
                let (lo, hi, resolved) = match method {
                    Method::Resample | Method::Observed => resample::estimate(r, max),
                    Method::FirstTouch => first_touch::interval(r, max),
                };
                let nr_accesses = if resolved { r.nr_accesses } else { 0 };
                RegionInfo { range: r.range, nr_accesses, age: r.age, lo, hi, resolved }
            }));
        }
    }

    /// Checks what must always hold: regions are sorted, do not overlap, and none is empty.
    ///
    /// # Panics
    ///
    /// If it does not hold.
    pub fn verify(&self) {
        for target in &self.targets {
            for region in &target.regions {
                assert!(!region.is_empty(), "empty region {:?}", region.range);
                region.watch.verify(region.range);
            }
            for pair in target.regions.windows(2) {
                let (a, b) = (pair[0].range, pair[1].range);
                assert!(a.end <= b.start, "regions {a:?} and {b:?} overlap");
            }
        }
    }
}

/// Computes the number of samples per aggregation, which only the tuner carries over.
const fn fill_aggr_samples(attrs: &mut Attrs) {
    let sample = if attrs.sample_us == 0 { 1 } else { attrs.sample_us };
    attrs.aggr_samples = attrs.aggr_us / sample;
}
