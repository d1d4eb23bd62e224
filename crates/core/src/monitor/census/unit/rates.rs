//! Rates from a look that came late.
//!
//! The first look after an arming is due after one sample. It comes later if the unit was armed
//! late in its sample, or if the machine is busy. What it finds was touched within more than a
//! sample, and a rate per sample follows only if touches are assumed to come at random. Where all
//! pages were touched, that rate is no more than a lower bound: 16 of 16 pages in two samples are
//! what a rate of 0.8 shows, and a rate of 1 shows the same.
//!
//! So what is compared with an earlier level, and what the error bar is computed from, is the share
//! that was touched within the span that was really measured.
//!
//! Invariant: of a span of one sample, all of this is the plain share and its Wilson interval.

use super::JUDGED;
use super::levels::LONGER;
use crate::interval::wilson;

/// Parts of a sample in which a span is counted.
const PARTS: u8 = 8;

/// A span over which rates were measured: one sample, or the time until a late look.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub(in crate::monitor::census) struct Span(
    /// By how much it is longer than a sample, in parts.
    u8,
);

impl Span {
    /// The span until a look that came after so many samples. Later looks than those of which a
    /// rate is told count as the latest of these.
    pub(super) fn of(times: f32) -> Self {
        let parts = f32::from(PARTS);
        #[expect(clippy::cast_precision_loss, reason = "a small number")]
        let most = JUDGED as f32;
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "up to 24")]
        let longer = |times: f32| libm::ceilf((times.min(most) - 1.0) * parts) as u8;
        if times < LONGER { Self::default() } else { Self(longer(times)) }
    }

    /// How many samples it has.
    pub(in crate::monitor::census) fn times(self) -> f32 {
        1.0 + f32::from(self.0) / f32::from(PARTS)
    }
}

/// The share of pages that are touched within `times` samples, if `rate` is the share for one and
/// touches come at random.
pub(super) fn within(rate: f32, times: f32) -> f32 {
    // One sample is by far the most usual, as is memory that is idle, and a power is dear.
    if (times - 1.0).abs() < f32::EPSILON || rate == 0.0 {
        return rate;
    }
    1.0 - libm::powf((1.0 - rate).clamp(0.0, 1.0), times)
}

/// The 90 % interval of a rate that was measured over `times` samples, from so many independent
/// pages.
pub(in crate::monitor::census) fn interval(rate: f32, times: f32, pages: f32) -> (f32, f32) {
    let (lo, hi) = wilson(within(rate, times), pages);
    let per_sample = |share: f32| within(share, 1.0 / times);
    (per_sample(lo).min(rate), per_sample(hi).max(rate))
}

#[cfg(test)]
mod tests {
    use super::super::levels::per_sample;
    use super::*;

    #[test]
    fn of_a_look_in_time_the_bar_is_that_of_a_share() {
        for rate in [0.0, 0.3, 0.99, 1.0] {
            assert_eq!(interval(rate, Span::of(1.2).times(), 16.0), wilson(rate, 16.0));
        }
    }

    #[test]
    fn where_a_late_look_found_all_pages_every_sample_may_touch_them() {
        for times in [1.4, 1.8, 2.5, 4.0] {
            let span = Span::of(times);
            assert!((times..times + 0.13).contains(&span.times()), "{times}: {span:?}");
            let (lo, hi) = interval(per_sample(16, 16, times), span.times(), 16.0);
            assert!(hi == 1.0 && lo > 0.3, "{times}: {lo} to {hi}");
        }
        assert_eq!(Span::of(100.0), Span::of(4.0));
    }

    #[test]
    fn a_late_look_at_random_touches_holds_the_rate() {
        for rate in [0.1_f32, 0.4, 0.7] {
            let touched = within(rate, 2.0);
            let (lo, hi) = interval(rate, 2.0, 16.0);
            let (lo, hi) = (within(lo, 2.0), within(hi, 2.0));
            assert!(lo < touched && touched < hi, "{rate}: {lo} to {hi}");
            assert!((within(within(rate, 2.0), 0.5) - rate).abs() < 1e-5, "{rate}");
        }
    }
}
