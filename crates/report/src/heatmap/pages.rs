//! Rates of single pages, for rows that are finer than a unit of 2 MiB.
//!
//! A page that was touched within a sample counts as touched in every sample, and one that was
//! touched within a window, but not within a sample, as touched in one sample of the window. So a
//! row's rate is the mean of its pages, as that of a region is.
//!
//! Where a look came too late for the sample, the shortest span that was measured tells which pages
//! were touched: a window, a second or ten. These pages share the rate of the region, each at least
//! once in the span; the others were not touched.
//!
//! Pages tell of one look, and what a region says may come from more: where memory is touched in
//! bursts, one look finds all pages of a unit or none, and pages that are waited for tell how often
//! that is. So where the mean of its pages lies outside of a region's interval, the region says how
//! much is touched. The pages still say where, if they have more than enough.

use isotherm_core::addr::{PAGE_SIZE, round_down};
use isotherm_core::unit::UNIT;
use isotherm_core::{AddrRange, PageBits, RegionInfo, SPANS, Snapshot, UnitInfo};

use crate::page_maps::PageMap;
use crate::rate::rate;
use crate::shown::float;

/// The longest span, by number, that still says where a region's rate is: 10 s.
const LONGEST: usize = 3;

/// Bytes on each side of what is shown, of which the pages are compared with what regions say.
/// Where few pages are touched, a small part of a region may hold many of them.
pub(super) const AROUND: u64 = 16 * UNIT;

/// What page maps know of some memory.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub(super) struct Known {
    /// Bytes of which they tell.
    pub(super) bytes: u64,
    /// Sum of these bytes times their rates, 0 to 1.
    pub(super) touched: f64,
}

impl Known {
    /// The mean rate of the bytes; none if there are none.
    fn mean(&self) -> Option<f64> {
        (self.bytes > 0).then(|| self.touched / float(self.bytes))
    }
}

/// What a snapshot says of a region, for pages of which less is known.
#[derive(Debug, Clone, Copy)]
pub(super) struct Region {
    range: AddrRange,
    /// Its rate, 0 to 1; 0 if it is not resolved.
    rate: f64,
    /// Sample intervals in a window.
    max: u32,
    /// The lengths of the spans, in µs.
    spans_us: [u64; SPANS],
    /// What the rates of its pages are multiplied by. None if they fall short of what the region
    /// says, so that it has to do without them.
    scale: Option<f64>,
}

impl Region {
    /// What a snapshot says of the region `r`, the pages of which a page map knows.
    pub(super) fn new(s: &Snapshot, r: &RegionInfo, map: &PageMap) -> Self {
        let max = s.max_nr_accesses.max(1);
        let rate = if r.resolved { rate(r, max) } else { 0.0 };
        let mut region =
            Self { range: r.range, rate, max, spans_us: s.spans_us(), scale: Some(1.0) };
        if let Some(mean) = known(map, r.range, &region).mean().filter(|_| r.resolved) {
            // Counts are rounded.
            let [least, most] = [r.lo - 1.0, r.hi + 1.0].map(|count| f64::from(count / max as f32));
            if mean > most {
                region.scale = Some(rate / mean);
            } else if mean < least {
                region.scale = None;
            }
        }
        region
    }
}

/// What a page map knows of `part` of a region.
pub(super) fn known(map: &PageMap, part: AddrRange, region: &Region) -> Known {
    let mut sum = Known::default();
    let Some(scale) = region.scale.filter(|_| !part.is_empty()) else { return sum };
    let once = 1.0 / f64::from(region.max);
    for (start, unit) in map.units.range(round_down(part.start, UNIT)..part.end) {
        let pages = PageBits::of(*start, part).minus(unit.unresolved);
        let bytes = |of: PageBits| float(of.and(pages).count() * PAGE_SIZE);
        if let [Some(sample), window, ..] = unit.touched {
            let seldom = window.unwrap_or_default().minus(sample);
            sum.touched += bytes(sample) + bytes(seldom) * once;
        } else if let Some((touched, rate)) = shared(unit, region) {
            sum.touched += bytes(touched) * rate;
        } else {
            continue;
        }
        sum.bytes += pages.count() * PAGE_SIZE;
    }
    sum.touched *= scale;
    sum
}

/// Of a unit whose sample was not measured: its touched pages, and the rate of each.
fn shared(unit: &UnitInfo, region: &Region) -> Option<(PageBits, f64)> {
    let mut spans = (1..=LONGEST).filter_map(|nr| Some((nr, unit.touched[nr]?)));
    let (nr, touched) = spans.next()?;
    let all = PageBits::of(unit.start, region.range).minus(unit.unresolved);
    let share = float(touched.and(all).count().max(1)) / float(all.count().max(1));
    let samples =
        f64::from(region.max) * float(region.spans_us[nr]) / float(region.spans_us[1].max(1));
    Some((touched, (region.rate / share).clamp((1.0 / samples.max(1.0)).min(1.0), 1.0)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn first(nr: u64) -> PageBits {
        PageBits::of(0, AddrRange::new(0, nr * PAGE_SIZE))
    }

    /// A region of two units with this count of 20, between these.
    fn region(nr_accesses: u32, [lo, hi]: [f32; 2]) -> RegionInfo {
        let range = AddrRange::new(0, 2 * UNIT);
        RegionInfo { range, nr_accesses, lo, hi, resolved: true, ..RegionInfo::default() }
    }

    /// The mean rates of the first 64 pages and of the next; none where nothing is known.
    fn rates(touched: [Option<PageBits>; SPANS], region: &RegionInfo) -> [Option<f64>; 2] {
        let mut map = PageMap::default();
        map.units.insert(0, UnitInfo { present: PageBits::ALL, touched, ..UnitInfo::default() });
        let s = Snapshot {
            sample_us: 5_000,
            aggr_us: 100_000,
            max_nr_accesses: 20,
            ..Snapshot::default()
        };
        let region = Region::new(&s, region, &map);
        [(0, 64), (64, 512)].map(|(from, to)| {
            let part = AddrRange::new(from * PAGE_SIZE, to * PAGE_SIZE);
            let known = known(&map, part, &region);
            known.mean().filter(|_| known.bytes == part.len())
        })
    }

    fn are_near(got: [Option<f64>; 2], want: [Option<f64>; 2]) -> bool {
        got.iter().zip(&want).all(|(a, b)| match (a, b) {
            (Some(a), Some(b)) => (a - b).abs() < 1e-6,
            (a, b) => a.is_none() && b.is_none(),
        })
    }

    #[test]
    fn where_the_sample_is_missing_the_shortest_span_tells_which_pages_were_touched() {
        let hot = Some(first(64));
        let all = Some(PageBits::ALL);
        for (name, touched, nr, want) in [
            ("sample", [hot, all, all, all, all], 2, [Some(1.0), Some(0.05)]),
            // An eighth of the pages has all of the region's rate.
            ("window", [None, hot, all, all, all], 1, [Some(0.4), Some(0.0)]),
            ("1 s", [None, None, hot, all, all], 2, [Some(0.8), Some(0.0)]),
            ("10 s", [None, None, None, hot, all], 1, [Some(0.4), Some(0.0)]),
            ("1 min is too long", [None, None, None, None, hot], 2, [None; 2]),
            (
                "at least once in a window",
                [None, hot, None, None, None],
                0,
                [Some(0.05), Some(0.0)],
            ),
            (
                "at least once in a second",
                [None, None, hot, None, None],
                0,
                [Some(0.005), Some(0.0)],
            ),
            ("no page more than always", [None, hot, None, None, None], 18, [Some(1.0), Some(0.0)]),
            ("nothing touched", [None, Some(first(0)), None, None, None], 10, [Some(0.0); 2]),
        ] {
            let got = rates(touched, &region(nr, [0.0, 20.0]));
            assert!(are_near(got, want), "{name}: {got:?}");
        }
    }

    #[test]
    fn the_region_says_how_much_where_its_pages_contradict_it() {
        let (all, hot) = (Some(PageBits::ALL), Some(first(64)));
        for (name, touched, nr, interval, want) in [
            ("a burst that the look has met", all, 4, [3.0, 5.0], [Some(0.2), Some(0.2)]),
            ("of some pages", hot, 1, [0.0, 1.0], [Some(0.4), Some(0.0)]),
            ("cold by now", all, 0, [0.0, 0.0], [Some(0.0), Some(0.0)]),
            ("a burst that it has missed", Some(first(0)), 4, [3.0, 5.0], [None, None]),
            ("counts are rounded", hot, 2, [2.0, 2.0], [Some(1.0), Some(0.0)]),
            ("a wide interval", all, 4, [0.0, 20.0], [Some(1.0), Some(1.0)]),
        ] {
            let got = rates([touched, touched, None, None, None], &region(nr, interval));
            assert!(are_near(got, want), "{name}: {got:?}");
        }
        let unresolved = RegionInfo { resolved: false, ..region(0, [0.0, 20.0]) };
        let got = rates([all, all, None, None, None], &unresolved);
        assert!(are_near(got, [Some(1.0), Some(1.0)]), "{got:?}");
    }
}
