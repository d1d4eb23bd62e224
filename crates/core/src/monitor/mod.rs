//! The monitoring loop, as a state machine without I/O (R§2).
//!
//! [`Context::poll`] returns what has to happen next. The driver (see [`crate::driver`]) does that,
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
//! | a tuning without effect restarts nothing; a nearer update stays | both restart | 9.1.1 |
//! | switching on the intervals goal starts its period | tunes until it has caught up | 9.1.2 |
//! | last number of regions (three-way split) per context | one for all contexts | 9.1.5 |
//! | a target without regions is read again after the window | after the update interval | 9.1.9 |
//! | a sample interval of 0 is 1 µs everywhere | one sample in the moving sum | 9.1.8 |
//! | samples are due at fixed times | each sleep starts when the work before it ends | 9.1.12 |
//! | what is committed while no scheme may work counts from the next sample on | one later | 2.5 |
//! | a walk is given up when no scheme may work | after the first sleep of the wait | 2.7 |
//! | a wait for watermarks follows commits, in `strict` too | does not | 2.5 |
//! | `first_touch` sleeps through samples without anything due | has only `resample` | 2.1 |
//! | snapshots only of finished windows | callers see partial ones too | 9.2.17 |
//! | pages that cannot be made old give no evidence | read as accessed | 9.5.3 |
//! | gaps from 64 KiB on are left out | the two largest | 3.1 |
//!
//! The wait for watermarks is the one defect of the kernel's that `strict` does not have. The
//! kernel remembers the shortest interval of all looks of one wait. If all schemes are removed
//! during the wait, it waits for ever, and it keeps to a shorter interval after a longer one was
//! committed.
//!
//! [`scheme`](crate::scheme) has the table of what differs in the schemes.

mod census;
mod changes;
pub(crate) mod first_touch;
mod method;
mod observed;
mod passes;
mod resample;
mod schedule;
mod schemes;
mod tune;
mod turn;

use alloc::vec::Vec;
use core::mem;

pub use passes::{enforce_min_regions, merge_all, split_all};
pub use schedule::{Conversion, Schedule};
pub use tune::{adaptation, score, tuned};

use crate::addr::AddrRange;
use crate::areas::Areas;
use crate::attrs::{Attrs, AttrsError};
use crate::ops::{Check, ClearRate, Reclaimed};
use crate::rng::Rng;
use crate::scheme::{Eligible, Measure, Schemes};
use crate::snapshot::{Cost, Snapshot};
use crate::target::{Given, RangesError, Target, TargetId, place_of};
use crate::time::Time;
use crate::unit::UnitCheck;
use changes::{Change, fill_aggr_samples};
use method::{InForce, Sampler, Scene};

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
    /// Make the units of [`Context::units_mut`] old. [`Method::Census`](crate::Method::Census)
    /// only.
    PrepareUnits,
    /// Look at the units of [`Context::units_mut`]. [`Method::Census`](crate::Method::Census) only.
    CheckUnits,
    /// If the operations set has another window, tell [`Context::begin_observed`] of it and
    /// [`Context::observed`] of its regions. [`Method::Observed`](crate::Method::Observed) only.
    Observe,
    /// A window is over: [`Context::snapshot`] has it.
    Snapshot,
    /// Answer [`Context::eligible_mut`].
    Eligible,
    /// Answer [`Context::measures_mut`].
    Measure,
    /// Do what [`Context::request`] says and give the result to [`Context::applied`].
    Apply,
    /// There is no target left.
    Stop,
}

/// Where in the loop a context is: which wish waits for its answer, or which step comes next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    Start,
    Begin,
    /// A turn begins, with the watermarks.
    Turn,
    /// The free memory rate was measured.
    Marks,
    Prepare,
    Prepared,
    Asleep,
    Checked,
    Calls,
    Paused,
    /// The schemes that are due are to be found.
    Schemes,
    /// The bytes on the source nodes of schemes are known.
    Goals,
    /// The goals are measured.
    Quotas,
    /// A pass over the regions is under way.
    Pass,
    Finish,
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
    /// Since when it is paused.
    paused_at: Option<Time>,
    changes: Vec<Change>,
    /// The method by which accesses are found, as set by the attributes.
    method: InForce,
    /// Largest size of a merged region, in bytes. It was computed at the end of the last window.
    sz_limit: u64,
    /// The deadlines when this turn began. A commit in the middle of the turn moves later deadlines
    /// only.
    turn: Schedule,
    /// The sample interval of this turn, in µs.
    turn_sample_us: u64,
    /// When the current sample is due.
    due: Time,
    /// The time at this poll.
    now: Time,
    /// Whether this turn ended a window.
    window_over: bool,
    batch: Vec<Check>,
    units: Vec<UnitCheck>,
    /// The CPU time of the driver's thread before and after the answer about units, in ns.
    units_cpu: Option<(u64, u64)>,
    areas: Vec<AddrRange>,
    snapshot: Snapshot,
    /// What the running window has cost so far.
    cost: Cost,
    window_start: Time,
    /// Length of the sleep under way, in sample intervals.
    ticks: u64,
    schemes: Schemes,
    measures: Vec<Measure>,
    /// What [`Wish::Eligible`] asks.
    eligible: Vec<Eligible>,
    /// When the watermarks are checked next. Not `strict`.
    next_marks: Time,
    /// Whether the context waits, without sampling, because the watermarks let no scheme work.
    waiting: bool,
}

impl Context {
    /// A context without targets. `seed` determines all random numbers.
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
            paused_at: None,
            changes: Vec::new(),
            method: InForce::new(attrs.method),
            sz_limit: 0,
            turn: Schedule::default(),
            turn_sample_us: attrs.sample_us,
            due: Time::default(),
            now: Time::default(),
            window_over: false,
            batch: Vec::new(),
            units: Vec::new(),
            units_cpu: None,
            areas: Vec::new(),
            snapshot: Snapshot::default(),
            cost: Cost::default(),
            window_start: Time::default(),
            ticks: 1,
            schemes: Schemes::default(),
            measures: Vec::new(),
            eligible: Vec::new(),
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

    /// The clock of the context, in sample intervals, with its deadlines.
    #[must_use]
    pub const fn schedule(&self) -> &Schedule {
        &self.schedule
    }

    /// The pages that [`Wish::Prepare`] and [`Wish::Check`] are about.
    pub fn batch_mut(&mut self) -> &mut [Check] {
        &mut self.batch
    }

    /// The units that [`Wish::PrepareUnits`] and [`Wish::CheckUnits`] are about.
    pub fn units_mut(&mut self) -> &mut [UnitCheck] {
        &mut self.units
    }

    /// Says what CPU time, in ns, the driver's thread had used before and after the answer about
    /// the units, without what schemes did, which has limits of its own. `None`: that is not known.
    pub const fn set_units_cpu(&mut self, cpu_ns: Option<(u64, u64)>) {
        self.units_cpu = cpu_ns;
    }

    /// Says what the kernel is reclaiming of this target's memory now. The method `census` then
    /// makes little of that old, for ten seconds from the last time on. Other methods take no
    /// notice.
    pub fn set_reclaimed(&mut self, target: TargetId, reclaimed: Reclaimed<'_>) {
        self.method.sampler().reclaimed(target, reclaimed, self.now);
    }

    /// Says how often others clear accessed bits. The method `census` then widens its bars by what
    /// is lost that way. Other methods take no notice.
    pub fn set_others_clear(&mut self, rate: ClearRate) {
        self.method.sampler().set_others_clear(rate);
    }

    /// The largest share of the touched pages, over the spans of the last window's working sets,
    /// that others have probably hidden by clearing accessed bits before the look: from 0 to 1. The
    /// bars hold what is hidden.
    pub fn hidden(&mut self) -> f64 {
        self.method.sampler().hidden()
    }

    /// When the memory of each target was last looked at, on average over its units. It says how
    /// old [`TargetInfo::touched`](crate::TargetInfo::touched) is. Targets of which nothing was
    /// looked at yet are left out; all are, if the method has no units.
    ///
    /// The cost is some nanoseconds per unit: meant to be called about once a second.
    pub fn looks(&mut self) -> Vec<(TargetId, Time)> {
        self.method.sampler().looks()
    }

    /// The last finished window. Meaningful from the first [`Wish::Snapshot`] on.
    #[must_use]
    pub const fn snapshot(&self) -> &Snapshot {
        &self.snapshot
    }

    /// The last finished window. The driver adds the CPU time to it.
    pub const fn snapshot_mut(&mut self) -> &mut Snapshot {
        &mut self.snapshot
    }

    /// Takes the mappings of a target (sorted, not overlapping), as the answer to [`Wish::Update`].
    /// Returns whether there was anything to watch. If not, the regions stay as they were.
    pub fn update_target(&mut self, id: TargetId, maps: &[AddrRange]) -> bool {
        if self.observes() {
            return !maps.is_empty();
        }
        let Some(target) = self.target_mut(id) else { return !maps.is_empty() };
        if let Some(given) = target.kept {
            if given == Given::First {
                target.kept = None;
            }
            return true;
        }
        if target.given {
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
    /// If a range is empty or two overlap. The target then stays as it was.
    pub fn set_ranges(&mut self, id: TargetId, ranges: &[AddrRange]) -> Result<(), RangesError> {
        let min_region_sz = self.attrs.min_region_sz;
        match self.target_mut(id) {
            Some(target) => target.set_ranges(ranges, min_region_sz),
            None => Ok(()),
        }
    }

    pub(super) fn target_mut(&mut self, id: TargetId) -> Option<&mut Target> {
        place_of(&self.targets, id, |target| target.id).map(|at| &mut self.targets[at])
    }

    /// Runs the loop until the driver has something to do, and returns what that is.
    pub fn poll(&mut self, now: Time) -> Wish {
        self.now = now;
        loop {
            let wish = match self.phase {
                Phase::Start => self.step(Phase::Begin, Some(Wish::Update)),
                Phase::Begin => self.begin(now),
                Phase::Turn => self.turn(now),
                Phase::Marks => self.marks(now),
                Phase::Prepare => self.prepare(),
                Phase::Prepared => self.prepared(now),
                Phase::Asleep => self.woke(now),
                Phase::Checked => self.checked(),
                Phase::Calls => self.calls(now),
                Phase::Paused => self.step(Phase::Calls, None),
                Phase::Schemes => self.due_schemes(),
                Phase::Goals => self.goals(now),
                Phase::Quotas => self.quotas(now),
                Phase::Pass => self.pass(),
                Phase::Finish => self.finish(),
            };
            if let Some(wish) = wish {
                return wish;
            }
        }
    }

    /// The method in force, and what it sees of the context.
    fn scene(&mut self) -> (&mut dyn Sampler, Scene<'_>) {
        let scene = Scene {
            targets: &mut self.targets,
            attrs: &self.attrs,
            rng: &mut self.rng,
            batch: &mut self.batch,
            units: &mut self.units,
            units_cpu: self.units_cpu,
            passed: self.schedule.passed,
            turn: &self.turn,
            now: self.now,
        };
        (self.method.sampler(), scene)
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
            }
            target.watches.verify(&target.regions);
            for pair in target.regions.windows(2) {
                let (a, b) = (pair[0].range, pair[1].range);
                assert!(a.end <= b.start, "regions {a:?} and {b:?} overlap");
            }
        }
    }
}
