//! Touches that are lost because others clear accessed bits, too.
//!
//! A page that is touched once between two looks, and whose bit somebody else clears before the
//! second one, looks as if nobody had touched it. Others clear the bit of a page at random times,
//! `rate` times a second. A touch at a random time between two looks that are `gap` apart survives
//! until the second one with the mean chance
//!
//! ```text
//! kept(x) = (1 - exp(-x)) / x,   x = rate * gap       (x / 2 is lost while x is small)
//! ```
//!
//! So where `n` pages were found, up to `n * (1 / kept(x) - 1)` more were touched. That is the mean
//! if each page is touched once. Of pages that are touched again and again less is lost, and
//! nothing of hot ones: the next touch sets the bit again. How often a page was touched is not
//! known. So this widens the upper bar, and does not move the estimate.
//!
//! It is the time between looks that counts, not the span: what an earlier look has found stays
//! found. For the rate of a region that is one sample: at one clear per page and 100 s, 0.003 % of
//! the touches in 5 ms are lost, and 1.3 % in huge pages.
//!
//! A huge page has one bit. Whoever samples physical memory, as the kernel's DAMON, clears it
//! when any of its 512 pages comes up, so as often as those of 512 small pages together (measured:
//! 370 to 410 times as often as that of one). Reclaim clears it no more often than that of a small
//! page. The larger one is assumed of what was measured; what was not seen, and is only not
//! excluded, counts once.
//!
//! Absent: pages of which some are cleared far more often than others, and touches before a look
//! that found nothing at all: no number of pages follows from none.

use super::planes::EXPOSED_NS;
use super::unit::Unit;
use crate::interval::float;
use crate::ops::ClearRate;

/// Pages that share the bit of a huge page.
const HUGE_PAGES: f64 = 512.0;

/// Pages that were found, and how long their bits could have been cleared before.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
struct Kind {
    pages: u64,
    /// Their times between the look that found them and the one before, added up, in
    /// [`EXPOSED_NS`].
    exposed: u64,
}

/// The pages that were found within one span, of small pages and of huge ones.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Exposed {
    small: Kind,
    huge: Kind,
}

/// Pages that were touched and not found.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub(super) struct Lost {
    pub(super) pages: f64,
    /// The variance of that, by chance.
    pub(super) variance: f64,
}

impl Exposed {
    /// What a unit adds to a span.
    pub(super) fn of(unit: &Unit, span: usize, pages: u64) -> Self {
        let kind = Kind { pages, exposed: unit.planes().exposed(span) };
        if unit.is_huge() {
            Self { huge: kind, ..Self::default() }
        } else {
            Self { small: kind, ..Self::default() }
        }
    }

    /// All numbers of both, one after the other.
    pub(super) fn pairs<'a>(
        &'a mut self,
        other: &'a Self,
    ) -> impl Iterator<Item = (&'a mut u64, u64)> {
        let kinds = [(&mut self.small, other.small), (&mut self.huge, other.huge)];
        kinds.into_iter().flat_map(|(a, b)| [(&mut a.pages, b.pages), (&mut a.exposed, b.exposed)])
    }

    /// What is lost at most if others clear at the upper end of `rate`.
    pub(super) fn most(&self, rate: &ClearRate) -> Lost {
        self.at(rate.hi, of_huge(rate))
    }

    /// What is lost if others clear as often as `rate` says.
    pub(super) fn mean(&self, rate: &ClearRate) -> Lost {
        self.at(rate.mean, rate.mean * HUGE_PAGES)
    }

    fn at(&self, small: f64, huge: f64) -> Lost {
        let (small, huge) = (self.small.lost(small), self.huge.lost(huge));
        Lost { pages: small + huge, variance: small + huge * HUGE_PAGES }
    }
}

impl Kind {
    /// The pages that are lost if each bit is cleared `rate` times a second.
    fn lost(self, rate: f64) -> f64 {
        let seconds = float(self.exposed) * float(EXPOSED_NS) / 1e9;
        float(self.pages) * more(rate * seconds / float(self.pages.max(1)))
    }
}

/// The upper end of the interval of a region's rate: the share of its pages that are touched within
/// a sample of `sample_us`, of which `share` was found and `hi` was the end so far.
pub(super) fn widened(
    hi: f32,
    share: f32,
    sample_us: u64,
    leaf_shift: u8,
    rate: &ClearRate,
) -> f32 {
    let per_leaf = if leaf_shift > 12 { of_huge(rate) } else { rate.hi };
    #[expect(clippy::cast_possible_truncation, reason = "a share")]
    let more = more(per_leaf * float(sample_us) / 1e6) as f32;
    (hi + share * more).min(1.0)
}

/// How often the bit of a huge page is cleared per second, at most.
fn of_huge(rate: &ClearRate) -> f64 {
    rate.hi.max(rate.mean * HUGE_PAGES)
}

/// How many times as many pages were lost as found, if `x` clears are expected between two looks.
fn more(x: f64) -> f64 {
    // Below that the exact formula loses its digits.
    if x < 1e-4 { x / 2.0 } else { x / -libm::expm1(-x) - 1.0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_lost_follows_from_the_time_between_looks() {
        for (x, expected) in [(0.0, 0.0), (1e-5, 5e-6), (1e-3, 5e-4), (0.5, 0.2707), (20.0, 19.0)] {
            assert!((more(x) - expected).abs() <= 1e-3 * expected, "{x}: {}", more(x));
        }
        // 1000 pages, found after 10 s without a look.
        let kind = Kind { pages: 1000, exposed: 1000 * 1000 };
        let rate = ClearRate { mean: 0.001, lo: 0.0, hi: 0.01 };
        for (name, exposed, mean, most) in [
            ("small", Exposed { small: kind, ..Exposed::default() }, 5.0, 50.8),
            // Its bit is cleared about 5 times in these 10 s.
            ("huge", Exposed { huge: kind, ..Exposed::default() }, 4151.0, 4151.0),
            ("nothing", Exposed::default(), 0.0, 0.0),
        ] {
            let got = [exposed.mean(&rate), exposed.most(&rate)].map(|lost| lost.pages);
            let near = |got: f64, expected: f64| (got - expected).abs() <= 0.01 * expected;
            assert!(near(got[0], mean) && near(got[1], most), "{name}: {got:?}");
        }
        let huge = Exposed { huge: kind, ..Exposed::default() };
        assert_eq!(huge.most(&ClearRate::default()), Lost::default(), "nobody clears");
        // Nothing was cleared yet, and the measurement is short.
        let unseen = ClearRate { mean: 0.0, lo: 0.0, hi: 0.001 };
        assert!((huge.most(&unseen).pages - 5.0).abs() < 0.1);
    }

    #[test]
    fn rates_of_regions_are_widened_by_one_sample() {
        let rate = ClearRate { mean: 0.001, lo: 0.0, hi: 0.002 };
        for (name, sample_us, leaf_shift, expected) in [
            ("small", 5_000, 12, 0.4),
            ("huge", 5_000, 21, 0.4004),
            ("huge, long samples", 1_000_000, 21, 0.4834),
            ("an hour", 3_600_000_000, 12, 1.0),
        ] {
            let hi = widened(0.4, 0.3, sample_us, leaf_shift, &rate);
            assert!((hi - expected).abs() < 1e-4, "{name}: {hi}");
        }
        assert_eq!(widened(0.4, 0.3, 1_000_000, 21, &ClearRate::default()), 0.4);
    }
}
