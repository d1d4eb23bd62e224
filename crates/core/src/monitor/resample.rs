//! `resample`: DAMON's method. In every sample interval every region has one page, drawn at random,
//! made old at the start and looked at after the end (R§3.2).
//!
//! The estimate is unbiased whatever the program does. The method has no memory: a hot region costs
//! 20 clears in each window.

use alloc::vec::Vec;

use super::Wish;
use super::method::{Ended, Sampler, Scene};
use super::passes::split_all;
use crate::interval::{CountIntervals, count};
use crate::math::Divisor;
use crate::ops::{Check, PageState};
use crate::region::Region;
use crate::snapshot::RegionInfo;
use crate::target::{Target, TargetId};
use crate::time::Time;

/// The state of the method in one context.
#[derive(Debug, Default)]
pub(crate) struct Resample {
    /// Largest count that any region had at the end of the last window.
    max_nr: u32,
    /// Number of regions at the last split.
    last_nr_regions: u64,
    /// Whether some page gave no evidence in the sample interval before.
    any_blind: bool,
    intervals: CountIntervals,
}

impl Sampler for Resample {
    fn start(&mut self, _: &mut Scene<'_>) {}

    fn rescale(&mut self, _: &mut Scene<'_>, _: u64) {}

    /// Draws a page for every region and asks for it to be made old.
    fn prepare(&mut self, scene: &mut Scene<'_>) {
        let nr_regions = scene.targets.iter().map(|t| t.regions.len()).sum();
        scene.batch.resize(nr_regions, Check::new(TargetId::default(), 0, 0));
        let mut checks = scene.batch.as_mut_slice();
        // A copy that no closure borrows, so that its state is in registers.
        let mut rng = scene.rng.clone();
        for target in scene.targets.iter_mut() {
            let (own, rest) = checks.split_at_mut(target.regions.len());
            checks = rest;
            let id = target.id;
            for (region, check) in target.regions.iter_mut().zip(own) {
                let addr = rng.range(region.range.start, region.range.end);
                region.sampling_addr = addr;
                *check = Check::new(id, addr, 0);
            }
        }
        *scene.rng = rng;
    }

    /// Notes which pages could not be made old: a look at them would say nothing. The kernel does
    /// not know this, and reads such a page as accessed for ever (R§9.5.3); so does `strict`. What
    /// was found at any other page is no answer to the look that follows.
    fn prepared(&mut self, scene: &mut Scene<'_>) -> u64 {
        let strict = scene.attrs.strict;
        let (mut nr_cleared, mut any_blind) = (0, false);
        for check in scene.batch.iter_mut() {
            nr_cleared += u64::from(check.state == PageState::Cleared);
            check.state = if !no_evidence(check.state) {
                PageState::Unknown
            } else if strict {
                check.state
            } else {
                any_blind = true;
                PageState::Unresolved
            };
        }
        // Rare: the regions need not be gone through for it.
        if any_blind || self.any_blind {
            let regions = scene.targets.iter_mut().flat_map(|t| t.regions.iter_mut());
            for (region, check) in regions.zip(&*scene.batch) {
                region.blind = any_blind && check.state == PageState::Unresolved;
            }
        }
        self.any_blind = any_blind;
        nr_cleared
    }

    fn next_due(&self, scene: &Scene<'_>) -> u64 {
        scene.passed.wrapping_add(1)
    }

    /// The pages are those that were made old.
    fn check(&mut self, scene: &mut Scene<'_>) -> Option<Wish> {
        (!scene.batch.is_empty()).then_some(Wish::Check)
    }

    /// Counts. At the end of a window marks the regions of which it says nothing: less than half of
    /// the samples gave evidence.
    fn checked(&mut self, scene: &mut Scene<'_>) {
        if scene.attrs.strict {
            self.count(scene, |_, state| {
                let young = matches!(state, PageState::Young | PageState::Unresolved);
                (young, !no_evidence(state))
            });
        } else if self.any_blind {
            self.count(scene, |region, state| {
                let evidence = !region.blind & !no_evidence(state);
                (evidence & (state == PageState::Young), evidence)
            });
        } else {
            self.count(scene, |_, state| (state == PageState::Young, !no_evidence(state)));
        }
    }

    fn end_window(&mut self, scene: &mut Scene<'_>, start: Time) -> Option<Ended> {
        let ended = Ended { max_nr: Some(self.max_nr), start, end: scene.now, lost: 0 };
        scene.window_over().then_some(ended)
    }

    fn split(&mut self, scene: &mut Scene<'_>, _: u64) {
        split_all(scene.targets, scene.attrs, &mut self.last_nr_regions, scene.rng);
    }

    fn interval(&mut self, target: &Target, max_nr_accesses: u32, out: &mut Vec<RegionInfo>) {
        describe(target, max_nr_accesses, &mut self.intervals, out);
    }
}

impl Resample {
    /// Counts one sample of every region. `look` says, of a region and what was found at its page,
    /// whether it was accessed, and whether that is evidence.
    #[inline]
    fn count(&mut self, scene: &mut Scene<'_>, look: impl Fn(&Region, PageState) -> (bool, bool)) {
        let strict = scene.attrs.strict;
        let nr_samples = scene.attrs.max_nr_accesses();
        // The kernel's moving sum takes a sample interval of 0 for a window of one sample
        // (R§9.1.8).
        let summed = if strict && scene.attrs.sample_us == 0 { 1 } else { nr_samples };
        let summed = Divisor::new(summed);
        let most_unresolved = if strict { u32::MAX } else { nr_samples / 2 };
        let window_over = scene.window_over();
        let mut max_nr = 0;
        let mut checks = scene.batch.as_slice();
        for target in scene.targets.iter_mut() {
            let (own, rest) = checks.split_at(target.regions.len().min(checks.len()));
            checks = rest;
            for (region, check) in target.regions.iter_mut().zip(own) {
                let (accessed, evidence) = look(region, check.state);
                region.count_sample(accessed, summed);
                if !evidence {
                    region.nr_unresolved += 1;
                }
                if window_over {
                    region.unresolved = region.nr_unresolved > most_unresolved;
                    max_nr = max_nr.max(region.nr_accesses);
                }
            }
        }
        self.max_nr = max_nr;
    }
}

/// Appends a target's regions. The interval of a count follows from the samples that gave evidence.
pub(super) fn describe(
    target: &Target,
    max_nr_accesses: u32,
    intervals: &mut CountIntervals,
    out: &mut Vec<RegionInfo>,
) {
    intervals.prepare(max_nr_accesses);
    out.extend(target.regions.iter().map(|r| {
        let known = if r.unresolved {
            (0.0, count(max_nr_accesses), false)
        } else {
            let nr_evidence = max_nr_accesses.saturating_sub(r.nr_unresolved);
            let (lo, hi) = intervals.of(r.nr_accesses, nr_evidence);
            (lo, hi, true)
        };
        RegionInfo::of(r, known)
    }));
}

const fn no_evidence(state: PageState) -> bool {
    matches!(state, PageState::Unresolved | PageState::Unknown)
}
