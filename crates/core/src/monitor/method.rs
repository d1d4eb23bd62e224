//! The interface between the loop and the methods that find accesses.
//!
//! The loop decides when something happens, and a [`Sampler`] decides what: which pages are made
//! old, which are looked at, what a region's count becomes at the end of a window, and where
//! regions are split. The loop does the merging, ageing, schemes, watermarks and snapshots, in the
//! same way for every method.

use alloc::boxed::Box;
use alloc::vec::Vec;

use super::census::Census;
use super::first_touch::FirstTouch;
use super::observed::Observer;
use super::resample::Resample;
use super::{Schedule, Wish};
use crate::attrs::{Attrs, Method};
use crate::ops::{Check, ClearRate, Reclaimed};
use crate::rng::Rng;
use crate::snapshot::{RegionInfo, TargetInfo};
use crate::target::{Target, TargetId};
use crate::time::Time;
use crate::unit::UnitCheck;

/// What a method sees of its context.
#[derive(Debug)]
pub(crate) struct Scene<'a> {
    /// What is watched.
    pub(crate) targets: &'a mut [Target],
    /// The attributes in force.
    pub(crate) attrs: &'a Attrs,
    /// The context's random numbers.
    pub(crate) rng: &'a mut Rng,
    /// The pages that are asked about.
    pub(crate) batch: &'a mut Vec<Check>,
    /// The units that are asked about.
    pub(crate) units: &'a mut Vec<UnitCheck>,
    /// The CPU time of the driver's thread before and after the answer about them, in ns, if that
    /// is known.
    pub(crate) units_cpu: Option<(u64, u64)>,
    /// Sample intervals since the start.
    pub(crate) passed: u64,
    /// The deadlines of this turn.
    pub(crate) turn: &'a Schedule,
    /// The time at this poll.
    pub(crate) now: Time,
}

impl Scene<'_> {
    /// Whether the window is over by the clock.
    pub(crate) const fn window_over(&self) -> bool {
        self.passed >= self.turn.next_aggregation
    }
}

/// The end of a window, as a method sees it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Ended {
    /// The largest count of any region, from which the threshold for merging follows. `None`:
    /// regions are not merged.
    pub(crate) max_nr: Option<u32>,
    /// When the window began.
    pub(crate) start: Time,
    /// When it ended.
    pub(crate) end: Time,
    /// Number of windows before this one that were lost.
    pub(crate) lost: u64,
}

/// A method that finds accesses. The functions are in the order in which the loop calls them.
pub(crate) trait Sampler: core::fmt::Debug {
    /// Starts the method: after the first update, or when a commit has chosen it.
    fn start(&mut self, scene: &mut Scene<'_>);

    /// Adapts to a new sample interval. It was `old_us`, in µs, and the attributes have the new
    /// one.
    fn rescale(&mut self, scene: &mut Scene<'_>, old_us: u64);

    /// Step 2: fills the batch with the pages to make old.
    fn prepare(&mut self, scene: &mut Scene<'_>);

    /// Takes in the results of the batch. Returns the number of accessed bits that were cleared.
    fn prepared(&mut self, scene: &mut Scene<'_>) -> u64;

    /// Step 3: the sample at which the method has something to do next. It is no later than the
    /// window's end.
    fn next_due(&self, scene: &Scene<'_>) -> u64;

    /// Step 4: the time before which the looks that are due at a sample would come too early, since
    /// it took long to make pages old. The loop sleeps until then, and its later samples stay as
    /// they were planned.
    fn not_before(&self, _scene: &Scene<'_>, _passed: u64) -> Time {
        Time(0)
    }

    /// Steps 4 and 5: fills the batch with the pages to look at. Returns the wish that answers it,
    /// if there is any.
    fn check(&mut self, scene: &mut Scene<'_>) -> Option<Wish>;

    /// Takes in what was found about the pages of the batch.
    fn checked(&mut self, scene: &mut Scene<'_>);

    /// Step 7: sets each region's count to that of the window, which began at `start`. `None`: the
    /// window is not over yet, even if it is by the clock.
    fn end_window(&mut self, scene: &mut Scene<'_>, start: Time) -> Option<Ended>;

    /// Step 13d: splits regions. The window took `window_ns`, in ns.
    fn split(&mut self, scene: &mut Scene<'_>, window_ns: u64);

    /// Step 13b: the sample at which the next window ends.
    fn next_aggregation(&self, scene: &Scene<'_>) -> u64 {
        let sample_us = scene.attrs.sample_us.max(1);
        scene.turn.next_aggregation.wrapping_add(scene.attrs.aggr_us / sample_us)
    }

    /// Appends a target's regions with the 90 % intervals of their counts.
    fn interval(&mut self, target: &Target, max_nr_accesses: u32, out: &mut Vec<RegionInfo>);

    /// The kernel is reclaiming this of a target's memory.
    fn reclaimed(&mut self, _target: TargetId, _reclaimed: Reclaimed<'_>, _now: Time) {}

    /// Others clear accessed bits this often.
    fn set_others_clear(&mut self, _rate: ClearRate) {}

    /// The largest share of the touched pages, over all spans, that others may have hidden by
    /// clearing their accessed bits before the look.
    fn hidden(&self) -> f64 {
        0.0
    }

    /// When the units of each target were last looked at, on average. Targets of which no unit was
    /// looked at are left out; all are, if the method has no units.
    fn looks(&self) -> Vec<(TargetId, Time)> {
        Vec::new()
    }

    /// CPU time that the targets have paid for being watched since this was asked last, in ns; none
    /// if the method does not know.
    fn take_target_ns(&mut self) -> Option<u64> {
        None
    }

    /// Tells a snapshot what is known of a target's single pages, for methods that see them.
    fn pages(&mut self, _target: &Target, _info: &mut TargetInfo) {}
}

/// The method in force, with its state.
#[derive(Debug)]
pub(super) enum InForce {
    Resample(Resample),
    FirstTouch(FirstTouch),
    Census(Box<Census>),
    Observed(Observer),
}

impl InForce {
    /// A method that has not started yet.
    pub(super) fn new(method: Method) -> Self {
        match method {
            Method::Resample => Self::Resample(Resample::default()),
            Method::FirstTouch => Self::FirstTouch(FirstTouch::default()),
            Method::Census => Self::Census(Box::default()),
            Method::Observed => Self::Observed(Observer::default()),
        }
    }

    /// The method behind its interface.
    pub(super) fn sampler(&mut self) -> &mut dyn Sampler {
        match self {
            Self::Resample(method) => method,
            Self::FirstTouch(method) => method,
            Self::Census(method) => &mut **method,
            Self::Observed(method) => method,
        }
    }
}
