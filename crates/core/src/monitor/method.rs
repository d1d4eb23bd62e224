//! The seam between the loop and the ways to learn of accesses.
//!
//! The loop knows when something happens, a [`Sampler`] what: which pages are made old, which are
//! looked at, what a region's count becomes at the end of a window, and where regions are split.
//! Merging, ageing, schemes, watermarks and snapshots are the loop's, and the same for every
//! method.

use alloc::vec::Vec;

use super::first_touch::FirstTouch;
use super::observed::Observer;
use super::resample::Resample;
use super::{Schedule, Wish};
use crate::attrs::{Attrs, Method};
use crate::ops::Check;
use crate::rng::Rng;
use crate::snapshot::RegionInfo;
use crate::target::Target;
use crate::time::Time;

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
    /// Sample intervals since the start.
    pub(crate) passed: u64,
    /// The deadlines of this turn.
    pub(crate) turn: &'a Schedule,
    /// The time at this poll.
    pub(crate) now: Time,
}

impl Scene<'_> {
    /// Whether the window's last sample is here, by the clock.
    pub(crate) const fn window_over(&self) -> bool {
        self.passed >= self.turn.next_aggregation
    }
}

/// The end of a window, as a method sees it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Ended {
    /// The largest count of any region, from which the threshold for merging follows. `None`: the
    /// regions are to stay as they are.
    pub(crate) max_nr: Option<u32>,
    /// When the window began.
    pub(crate) start: Time,
    /// When it ended.
    pub(crate) end: Time,
    /// Windows before this one that nobody saw.
    pub(crate) lost: u64,
}

/// One way to learn of accesses, in the order in which the loop asks.
pub(crate) trait Sampler: core::fmt::Debug {
    /// The first regions are there, or a commit made this the method.
    fn start(&mut self, scene: &mut Scene<'_>);

    /// The sample interval was `old_us` before; the attributes have the new one.
    fn rescale(&mut self, scene: &mut Scene<'_>, old_us: u64);

    /// Step 2: fills the batch with the pages to make old.
    fn prepare(&mut self, scene: &mut Scene<'_>);

    /// The batch says what came of that. The number of accessed bits that were cleared.
    fn prepared(&mut self, scene: &mut Scene<'_>) -> u64;

    /// Step 3: the sample at which there is something to do next; no later than the window's end.
    fn next_due(&self, scene: &Scene<'_>) -> u64;

    /// Steps 4 and 5: fills the batch with the pages to look at, and says what to do with it, if
    /// anything.
    fn check(&mut self, scene: &mut Scene<'_>) -> Option<Wish>;

    /// The batch says what was found.
    fn checked(&mut self, scene: &mut Scene<'_>);

    /// Step 7: makes each region's count that of the window. The window began at `start`. `None`:
    /// it is not over yet, although the clock may say so.
    fn end_window(&mut self, scene: &mut Scene<'_>, start: Time) -> Option<Ended>;

    /// Step 13d: splits regions. The window took `window_ns`.
    fn split(&mut self, scene: &mut Scene<'_>, window_ns: u64);

    /// Step 13b: the sample at which the next window ends.
    fn next_aggregation(&self, scene: &Scene<'_>) -> u64 {
        let sample_us = scene.attrs.sample_us.max(1);
        scene.turn.next_aggregation.wrapping_add(scene.attrs.aggr_us / sample_us)
    }

    /// Appends a target's regions with the 90 % intervals of their counts.
    fn interval(&mut self, target: &Target, max_nr_accesses: u32, out: &mut Vec<RegionInfo>);
}

/// The method in force, with its state.
#[derive(Debug)]
pub(super) enum InForce {
    Resample(Resample),
    FirstTouch(FirstTouch),
    Observed(Observer),
}

impl InForce {
    /// A method that has not started yet.
    pub(super) fn new(method: Method) -> Self {
        match method {
            Method::Resample => Self::Resample(Resample::default()),
            Method::FirstTouch => Self::FirstTouch(FirstTouch::default()),
            Method::Observed => Self::Observed(Observer::default()),
        }
    }

    /// The method, whichever it is.
    pub(super) fn sampler(&mut self) -> &mut dyn Sampler {
        match self {
            Self::Resample(method) => method,
            Self::FirstTouch(method) => method,
            Self::Observed(method) => method,
        }
    }
}
