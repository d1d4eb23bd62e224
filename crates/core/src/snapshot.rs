//! Snapshots: what a context knows at the end of an aggregation window.

mod lengths;
mod suspends;
mod temperature;

use alloc::vec::Vec;

use crate::addr::AddrRange;
use crate::region::Region;
use crate::target::TargetId;
use crate::time::Time;
use crate::unit::PageBits;

pub use lengths::{Late, Lengths};
pub use suspends::Suspends;
pub use temperature::Temperature;

/// Spans of time in which the method `census` counts touched pages: a sample interval, a window,
/// 1 s, 10 s and 1 min, in this order.
pub const SPANS: usize = 5;

/// One region of a snapshot.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct RegionInfo {
    /// Where, in bytes of the target's address space.
    pub range: AddrRange,
    /// Estimated number of the window's sample intervals in which a page of this region was
    /// touched, from 0 to [`Snapshot::max_nr_accesses`].
    pub nr_accesses: u32,
    /// For how many windows the region has looked like this.
    pub age: u32,
    /// Lower end of the 90 % interval of the region's mean rate, in `nr_accesses`.
    pub lo: f32,
    /// Upper end of that interval.
    pub hi: f32,
    /// Whether the operations set could look at this region. If not, nothing is known: `lo` is 0
    /// and `hi` is the maximum.
    pub resolved: bool,
    /// How many of its pages were touched. Only the method `census` tells. A record keeps it within
    /// 0.3 % of the region.
    pub touched: Option<TouchedShare>,
}

/// Shares of a region's pages that were touched, from 0 to 1. Other than a rate of accesses, they
/// hold pages that are touched now and then.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct TouchedShare {
    /// Within a window. `None`: no look has come at the end of one yet.
    pub window: Option<f32>,
    /// Within a second.
    pub second: Option<f32>,
    /// The base-2 logarithm of the size in bytes of the page-table leaves that answered: 12, 21 or
    /// 30. The smallest, where they differ.
    pub leaf_shift: u8,
}

impl RegionInfo {
    /// The region with the ends of its interval. Its count is 0 if it is not `resolved`.
    pub(crate) const fn of(region: &Region, (lo, hi, resolved): (f32, f32, bool)) -> Self {
        let nr_accesses = if resolved { region.nr_accesses } else { 0 };
        Self { range: region.range, nr_accesses, age: region.age, lo, hi, resolved, touched: None }
    }

    /// The share of the region's bytes that is in use, from 0 to 1. Where single pages are known
    /// these are the pages that were touched within a second, or within a window until that was
    /// measured. Elsewhere it is all of the region or nothing. `max_nr_accesses`: that of the
    /// snapshot.
    ///
    /// A count of 0 does not say that a region is idle: a census tells the rate of one sample, and
    /// of memory that is gone over once a second a sample sees next to nothing.
    #[must_use]
    pub fn in_use(&self, max_nr_accesses: u32) -> f64 {
        let shares = self.touched.map(|touched| [touched.window, touched.second]);
        let Some(share) = shares.into_iter().flatten().flatten().reduce(f32::max) else {
            return f64::from(u8::from(self.nr_accesses > 0));
        };
        let in_sample = f64::from(self.nr_accesses) / f64::from(max_nr_accesses.max(1));
        f64::from(share).max(in_sample).min(1.0)
    }

    /// How many of the region's bytes are in use, and how many are not; see
    /// [`in_use`](Self::in_use).
    #[must_use]
    pub fn split_bytes(&self, max_nr_accesses: u32) -> (u64, u64) {
        let len = self.range.len();
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            clippy::cast_precision_loss,
            reason = "a share of a size"
        )]
        let used = (len as f64 * self.in_use(max_nr_accesses)) as u64;
        (used.min(len), len - used.min(len))
    }
}

impl TouchedShare {
    /// Whether a page was touched within one of the spans, as far as they were measured.
    #[must_use]
    pub fn is_any(&self) -> bool {
        [self.window, self.second].into_iter().flatten().any(|share| share > 0.0)
    }
}

impl TargetInfo {
    /// How many bytes are in use: touched within a second where single pages are known, or within a
    /// window until that was measured. Elsewhere the regions with an access, as DAMON counts.
    #[must_use]
    pub fn in_use(&self) -> u64 {
        let touched = self.touched.and_then(|touched| touched.spans[2].or(touched.spans[1]));
        touched.map_or_else(
            || self.regions.iter().filter(|r| r.nr_accesses > 0).map(|r| r.range.len()).sum(),
            |touched| touched.bytes,
        )
    }
}

/// The pages of one unit of 2 MiB, as the method `census` has seen them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct UnitInfo {
    /// Where the unit starts: a multiple of [`UNIT`](crate::unit::UNIT).
    pub start: u64,
    /// When its pages were last made old. All spans begin at that time.
    pub since: Time,
    /// Pages that are mapped.
    pub present: PageBits,
    /// Mapped pages of which nothing can be known, since they cannot be made old.
    pub unresolved: PageBits,
    /// By span, see [`SPANS`]: the pages that were touched within it. `None`: no look has come at
    /// the end of such a span yet. A span may have been measured after an earlier arming than the
    /// shorter ones, so it need not hold all of their pages.
    pub touched: [Option<PageBits>; SPANS],
    /// Pages that were found touched since the last news of this unit, whatever the spans show:
    /// when the unit was made old, or by looks. Touches after the longest span are in nothing else.
    /// `None`: nothing was found, or it is not known.
    pub found: Option<PageBits>,
    /// When a look had seen none of these touches yet. If that was before `since`, some of `found`
    /// was touched before the unit was made old; else nothing was. 0 if it is not known.
    pub found_after: Time,
    /// The mapped pages that were touched between `since` and the last look. `None`: not known.
    pub young: Option<PageBits>,
    /// The base-2 logarithm of the size in bytes of the page-table leaves: 12, 21 or 30.
    pub leaf_shift: u8,
}

impl UnitInfo {
    /// The pages of `found` that were touched before the unit was made old, as far as that is
    /// known. Where it is not, all of them.
    #[must_use]
    pub fn found_before(&self) -> PageBits {
        let is_later = self.young.is_some() && self.found_after >= self.since;
        if is_later { PageBits::default() } else { self.found.unwrap_or_default() }
    }
}

/// How many times as long as the next shorter one a span is, at most, with usual attributes.
const LONGER: u64 = 20;

/// How much memory was touched within a span. All numbers are bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct TouchedBytes {
    /// The estimate. It counts pages that were seen, and for units of which nothing is known yet
    /// the mean of those that were taken in turn.
    pub bytes: u64,
    /// Lower end of its 90 % interval.
    pub lo: u64,
    /// Upper end of that interval.
    pub hi: u64,
    /// The part of the address space for which the span was measured.
    pub measured: u64,
}

/// The working set of one target, page by page.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Touched {
    /// By span, see [`SPANS`]. `None`: not measured anywhere yet.
    pub spans: [Option<TouchedBytes>; SPANS],
    /// Bytes of address space that are watched.
    pub watched: u64,
}

impl TouchedBytes {
    /// Both together. Their errors are independent of each other.
    #[must_use]
    pub fn with(self, other: Self) -> Self {
        #[expect(clippy::cast_precision_loss, reason = "an error is known to a few digits")]
        let both = |a: u64, b: u64| libm::hypot(a as f64, b as f64);
        let bytes = self.bytes.saturating_add(other.bytes);
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "not below 0")]
        let [down, up] = [
            both(self.bytes.saturating_sub(self.lo), other.bytes.saturating_sub(other.lo)),
            both(self.hi.saturating_sub(self.bytes), other.hi.saturating_sub(other.bytes)),
        ]
        .map(|error| libm::round(error) as u64);
        Self {
            bytes,
            lo: bytes.saturating_sub(down),
            hi: bytes.saturating_add(up),
            measured: self.measured.saturating_add(other.measured),
        }
    }

    /// The same without `again` bytes that were counted more than once. The error shrinks in
    /// proportion.
    #[must_use]
    pub fn without(self, again: u64) -> Self {
        let bytes = self.bytes.saturating_sub(again);
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            clippy::cast_precision_loss,
            reason = "a share of a size, not below 0"
        )]
        let share = |error: u64| (error as f64 * bytes as f64 / self.bytes.max(1) as f64) as u64;
        Self {
            bytes,
            lo: bytes.saturating_sub(share(self.bytes.saturating_sub(self.lo))),
            hi: bytes.saturating_add(share(self.hi.saturating_sub(self.bytes))),
            measured: self.measured,
        }
    }
}

impl Touched {
    /// The working set of both targets together. Of a target that has not measured a span yet, a
    /// shorter span tells: at least so much was touched.
    #[must_use]
    pub fn with(self, other: Self) -> Self {
        let spans = core::array::from_fn(|nr| {
            let known = self.spans[nr].is_some() || other.spans[nr].is_some();
            let both = [self.at_least(nr), other.at_least(nr)];
            both.into_iter().flatten().reduce(TouchedBytes::with).filter(|_| known)
        });
        Self { spans, watched: self.watched.saturating_add(other.watched) }
    }

    /// How much was touched within a span. If it was not measured: as much as within the next
    /// shorter one that was, and as many times more as it is longer, at most. (In equal times ever
    /// fewer pages are touched for the first time.)
    fn at_least(&self, nr: usize) -> Option<TouchedBytes> {
        let (at, shorter) = (0..=nr).rev().find_map(|at| Some((at, self.spans[at]?)))?;
        if at == nr {
            return Some(shorter);
        }
        let times = LONGER.saturating_pow(u32::try_from(nr - at).unwrap_or(u32::MAX));
        let most = shorter.hi.saturating_mul(times).min(self.watched.max(shorter.hi));
        Some(TouchedBytes { hi: most, measured: 0, ..shorter })
    }
}

/// One target of a snapshot.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct TargetInfo {
    /// The target's id.
    pub id: TargetId,
    /// Its regions: sorted, not overlapping, not empty. Gaps are possible.
    pub regions: Vec<RegionInfo>,
    /// How much of it was touched within spans. Only the method `census` tells.
    pub touched: Option<Touched>,
    /// The units of which something has changed since the last snapshot, sorted. Only the method
    /// `census` tells.
    pub units: Vec<UnitInfo>,
}

/// What the monitoring of a window cost. The context fills the counts and the driver the time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Cost {
    /// Pages looked at.
    pub checks: u64,
    /// Accessed bits cleared.
    pub clears: u64,
    /// CPU time that the monitor's process used, in ns.
    pub cpu_ns: u64,
    /// CPU time that the targets paid, in ns: 500 for each page that was made old and touched
    /// again, since the processor has to set its accessed bit. An estimate. `None`: the method
    /// does not tell; only `census` does.
    pub target_ns: Option<u64>,
}

impl Cost {
    /// Takes in the cost of another window. What targets paid is known as soon as one window tells.
    pub fn add(&mut self, other: &Self) {
        self.checks = self.checks.saturating_add(other.checks);
        self.clears = self.clears.saturating_add(other.clears);
        self.cpu_ns = self.cpu_ns.saturating_add(other.cpu_ns);
        self.target_ns = match (self.target_ns, other.target_ns) {
            (Some(a), Some(b)) => Some(a.saturating_add(b)),
            (a, b) => a.or(b),
        };
    }
}

/// What a context knows at the end of one aggregation window.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Snapshot {
    /// Counts up by one per window, from 0. A gap means that windows were lost.
    pub seq: u64,
    /// When the window began.
    pub start: Time,
    /// When the window ended. All looks of the window were before this.
    pub end: Time,
    /// Length of one sample interval, in microseconds.
    pub sample_us: u64,
    /// Length of the aggregation window by the attributes, in microseconds.
    pub aggr_us: u64,
    /// The largest possible `nr_accesses`.
    pub max_nr_accesses: u32,
    /// What the window cost.
    pub cost: Cost,
    /// The targets, in the order in which they were added.
    pub targets: Vec<TargetInfo>,
}

impl Snapshot {
    /// The working set: bytes of all regions that were accessed at all, as DAMON counts it.
    #[must_use]
    pub fn working_set(&self) -> u64 {
        let regions = self.targets.iter().flat_map(|t| &t.regions);
        regions.filter(|r| r.nr_accesses > 0).map(|r| r.range.len()).sum()
    }

    /// How many bytes of all targets are in use; see [`TargetInfo::in_use`].
    #[must_use]
    pub fn in_use(&self) -> u64 {
        self.targets.iter().map(TargetInfo::in_use).sum()
    }

    /// How much of all targets together was touched within each span; `None` if the method does
    /// not see single pages. Targets of which a span was not measured yet are in `watched` only.
    #[must_use]
    pub fn touched(&self) -> Option<Touched> {
        self.targets.iter().filter_map(|t| t.touched).reduce(Touched::with)
    }

    /// The spans of [`Touched`] and [`UnitInfo`], in microseconds.
    #[must_use]
    pub const fn spans_us(&self) -> [u64; SPANS] {
        [self.sample_us, self.aggr_us, 1_000_000, 10_000_000, 60_000_000]
    }

    /// Number of regions of all targets.
    #[must_use]
    pub fn nr_regions(&self) -> usize {
        self.targets.iter().map(|t| t.regions.len()).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_target_without_a_span_adds_what_it_has_of_a_shorter_one() {
        let known = |bytes| Some(TouchedBytes { bytes, lo: bytes, hi: bytes, measured: 100 });
        let of = |spans, watched| Touched { spans, watched };
        let all = of([known(1), known(2), known(3), known(4), None], 1000);
        let some = of([None, known(10), None, None, None], 2500);
        for both in [all.with(some), some.with(all)] {
            let of = |nr: usize| both.spans[nr].map(|w| (w.bytes, w.lo, w.hi, w.measured));
            assert_eq!(of(0), Some((1, 1, 1, 100)), "nothing is known of a shorter span");
            assert_eq!(of(1), Some((12, 12, 12, 200)));
            // Up to 20 times 10 bytes, and 400 times, but no more than there is.
            assert_eq!(of(2), Some((13, 13, 203, 100)));
            assert_eq!(of(3), Some((14, 14, 2504, 100)));
            assert_eq!(of(4), None, "neither has measured it");
            assert_eq!(both.watched, 3500);
        }
    }

    #[test]
    fn what_was_touched_within_a_second_is_in_use_whatever_a_sample_saw() {
        // nr_accesses of 20; shares touched within a window and a second; the share in use
        let cases = [
            (0, None, 0.0),
            (5, None, 1.0),
            (0, Some((None, None)), 0.0),
            (5, Some((None, None)), 1.0),
            (0, Some((Some(0.1), None)), 0.1),
            (0, Some((Some(0.1), Some(1.0))), 1.0),
            // Measured in different turns.
            (10, Some((Some(0.25), Some(0.0))), 0.5),
            (2, Some((Some(0.1), Some(0.1))), 0.1),
        ];
        for (nr_accesses, shares, want) in cases {
            let touched = shares.map(|(window, second)| TouchedShare {
                window,
                second,
                ..TouchedShare::default()
            });
            let range = AddrRange::new(0, 1000);
            let r = RegionInfo { range, nr_accesses, touched, ..RegionInfo::default() };
            assert!((r.in_use(20) - want).abs() < 1e-6, "{r:?}: {}", r.in_use(20));
            let (used, idle) = r.split_bytes(20);
            assert_eq!(used + idle, 1000);
        }
        let span = |bytes| Some(TouchedBytes { bytes, ..TouchedBytes::default() });
        let touched = |spans| Some(Touched { spans, watched: 9 });
        let regions = alloc::vec![RegionInfo {
            range: AddrRange::new(0, 100),
            nr_accesses: 1,
            ..RegionInfo::default()
        }];
        let of =
            |touched| TargetInfo { touched, regions: regions.clone(), ..TargetInfo::default() };
        let targets = alloc::vec![
            of(None),
            of(touched([span(1), span(2), None, None, None])),
            of(touched([span(1), span(2), span(4), span(8), None])),
        ];
        let got: Vec<u64> = targets.iter().map(TargetInfo::in_use).collect();
        assert_eq!(got, [100, 2, 4]);
        assert_eq!(Snapshot { targets, ..Snapshot::default() }.in_use(), 106);
    }

    #[test]
    fn working_sets_of_targets_add_up_and_their_errors_in_quadrature() {
        let of = |bytes, lo, hi| TouchedBytes { bytes, lo, hi, measured: 200 };
        let (a, b) = (of(100, 97, 103), of(50, 46, 54));
        assert_eq!(a.with(b), TouchedBytes { bytes: 150, lo: 145, hi: 155, measured: 400 });
        let one = Touched { spans: [Some(a), None, None, None, None], watched: 300 };
        let two = Touched { spans: [Some(b), Some(b), None, None, None], watched: 200 };
        let target = |touched| TargetInfo { touched, ..TargetInfo::default() };
        let targets = alloc::vec![target(Some(one)), target(None), target(Some(two))];
        let both = Snapshot { targets, ..Snapshot::default() }.touched().unwrap();
        let at_least = TouchedBytes { hi: 300, measured: 0, ..a };
        assert_eq!(both.spans, [Some(a.with(b)), Some(at_least.with(b)), None, None, None]);
        assert_eq!((both.watched, Snapshot::default().touched()), (500, None));
    }
}
