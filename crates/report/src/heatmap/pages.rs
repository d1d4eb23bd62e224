//! Rates of single pages, for rows that are finer than a unit of 2 MiB.
//!
//! A page that was touched within a sample counts as touched in every sample, and one that was
//! touched within a window, but not within a sample, as touched in one sample of the window. So a
//! row's rate is the mean of its pages, as that of a region is.
//!
//! Where a look came too late for the sample, the shortest span that was measured tells which pages
//! were touched: a window, a second or ten. These pages share the rate of the region, each at least
//! once in the span; the others were not touched.

use isotherm_core::addr::{PAGE_SIZE, round_down};
use isotherm_core::unit::UNIT;
use isotherm_core::{AddrRange, PageBits, SPANS, UnitInfo};

use crate::page_maps::PageMap;
use crate::shown::float;

/// The longest span, by number, that still says where a region's rate is: 10 s.
const LONGEST: usize = 3;

/// What page maps know of some memory.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub(super) struct Known {
    /// Bytes of which they tell.
    pub(super) bytes: u64,
    /// Sum of these bytes times their rates, 0 to 1.
    pub(super) touched: f64,
}

/// What a snapshot says of a region, for pages of which less is known.
#[derive(Debug, Clone, Copy)]
pub(super) struct Region {
    pub(super) range: AddrRange,
    /// Its rate, 0 to 1; 0 if it is not resolved.
    pub(super) rate: f64,
    /// Sample intervals in a window.
    pub(super) max: u32,
    /// The lengths of the spans, in µs.
    pub(super) spans_us: [u64; SPANS],
}

/// What a page map knows of `part` of a region.
pub(super) fn known(map: &PageMap, part: AddrRange, region: &Region) -> Known {
    let mut sum = Known::default();
    if part.is_empty() {
        return sum;
    }
    let once = 1.0 / f64::from(region.max.max(1));
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
    sum
}

/// Of a unit whose sample was not measured: its touched pages, and the rate of each.
fn shared(unit: &UnitInfo, region: &Region) -> Option<(PageBits, f64)> {
    let mut spans = (1..=LONGEST).filter_map(|nr| Some((nr, unit.touched[nr]?)));
    let (nr, touched) = spans.next()?;
    let all = PageBits::of(unit.start, region.range).minus(unit.unresolved);
    let share = float(touched.and(all).count().max(1)) / float(all.count().max(1));
    let samples = f64::from(region.max.max(1)) * float(region.spans_us[nr])
        / float(region.spans_us[1].max(1));
    Some((touched, (region.rate / share).clamp((1.0 / samples.max(1.0)).min(1.0), 1.0)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn first(nr: u64) -> PageBits {
        PageBits::of(0, AddrRange::new(0, nr * PAGE_SIZE))
    }

    fn region(rate: f64) -> Region {
        let spans_us = [5_000, 100_000, 1_000_000, 10_000_000, 60_000_000];
        Region { range: AddrRange::new(0, 2 * UNIT), rate, max: 20, spans_us }
    }

    /// The mean rates of the first 64 pages and of the next, in units of a page; none where nothing
    /// is known.
    fn rates(touched: [Option<PageBits>; SPANS], rate: f64) -> [Option<f64>; 2] {
        let mut map = PageMap::default();
        map.units.insert(0, UnitInfo { present: PageBits::ALL, touched, ..UnitInfo::default() });
        [(0, 64), (64, 512)].map(|(from, to)| {
            let part = AddrRange::new(from * PAGE_SIZE, to * PAGE_SIZE);
            let known = known(&map, part, &region(rate));
            (known.bytes == part.len()).then(|| known.touched / float(part.len()))
        })
    }

    #[test]
    fn where_the_sample_is_missing_the_shortest_span_tells_which_pages_were_touched() {
        let hot = Some(first(64));
        let all = Some(PageBits::ALL);
        for (name, touched, rate, want) in [
            ("sample", [hot, all, all, all, all], 0.125, [Some(1.0), Some(0.05)]),
            // An eighth of the pages has all of the region's rate.
            ("window", [None, hot, all, all, all], 0.0625, [Some(0.5), Some(0.0)]),
            ("1 s", [None, None, hot, all, all], 0.125, [Some(1.0), Some(0.0)]),
            ("10 s", [None, None, None, hot, all], 0.0625, [Some(0.5), Some(0.0)]),
            ("1 min is too long", [None, None, None, None, hot], 0.125, [None; 2]),
            (
                "at least once in a window",
                [None, hot, None, None, None],
                0.0,
                [Some(0.05), Some(0.0)],
            ),
            (
                "at least once in a second",
                [None, None, hot, None, None],
                0.0,
                [Some(0.005), Some(0.0)],
            ),
            (
                "no page more than always",
                [None, hot, None, None, None],
                0.9,
                [Some(1.0), Some(0.0)],
            ),
            ("nothing touched", [None, Some(first(0)), None, None, None], 0.5, [Some(0.0); 2]),
        ] {
            let got = rates(touched, rate);
            let near = |(a, b): (&Option<f64>, &Option<f64>)| match (a, b) {
                (Some(a), Some(b)) => (a - b).abs() < 1e-9,
                (a, b) => a.is_none() && b.is_none(),
            };
            assert!(got.iter().zip(&want).all(near), "{name}: {got:?}");
        }
    }
}
