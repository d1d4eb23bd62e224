//! The working set over a time of the user's choice.
//!
//! Methods that see single pages measure it over a few fixed spans. Over a time between them it is
//! bounded by the spans around it. As time goes on, ever fewer pages are touched for the first
//! time, so the curve of the working set over time is never below the straight line between two of
//! its points, and behind two points never above the line through them:
//!
//! ```text
//! bytes                       ,-' line through A and B: no more than this
//!   |                      ,-'  _.C
//!   |                   ,-' _,-'
//!   |              B__-'_.-'  line between B and C: no less than this
//!   |       A__.--'
//!   +---------------------------------- span
//! ```
//!
//! The estimate is the middle of the two, and its interval has both ends in it.
//!
//! The other methods tell per window which regions were accessed. Over a longer time that is the
//! union of the windows: of each address the window in which it was accessed most.

use isotherm_core::{RegionInfo, SPANS, Touched, TouchedBytes};

/// The working set over `wanted_us`; `spans_us` are those of `touched`. `None` if nothing is known
/// of a span that is so short.
#[must_use]
pub fn over(touched: &Touched, spans_us: [u64; SPANS], wanted_us: u64) -> Option<TouchedBytes> {
    let measured = spans_us.into_iter().zip(touched.spans);
    let mut points: Vec<_> =
        measured.filter_map(|(us, within)| within.map(|within| (us, within))).collect();
    points.sort_by_key(|(us, _)| *us);
    if let Some((_, exact)) = points.iter().find(|(us, _)| *us == wanted_us) {
        return Some(*exact);
    }
    let behind = points.partition_point(|(us, _)| *us < wanted_us);
    let (before, after) = points.split_at(behind);
    let (b_us, b) = *before.last()?;
    let a = before.iter().rev().nth(1).map_or((0, 0), |(us, a)| (*us, a.bytes));
    let high = line(a, (b_us, b.bytes), wanted_us).max(b.bytes);
    let (low, high, c) = match after.first() {
        Some((c_us, c)) => {
            let low = line((b_us, b.bytes), (*c_us, c.bytes), wanted_us);
            (low, high.min(c.bytes).max(low), *c)
        }
        None => (b.bytes, high, b),
    };
    let (low, high) =
        (low.min(touched.watched.max(b.bytes)), high.min(touched.watched.max(b.bytes)));
    Some(TouchedBytes {
        bytes: low.midpoint(high),
        lo: low.saturating_sub(b.bytes.saturating_sub(b.lo)),
        hi: high.saturating_add(c.hi.saturating_sub(c.bytes)),
        measured: b.measured.min(c.measured),
    })
}

/// The height at `x` of the line through two points, not below 0.
fn line((x0, y0): (u64, u64), (x1, y1): (u64, u64), x: u64) -> u64 {
    let signed = i128::from;
    let run = signed(x1.max(1)) - signed(x0);
    let rise = (signed(y1) - signed(y0)) * (signed(x) - signed(x0)) / run.max(1);
    u64::try_from((signed(y0) + rise).max(0)).unwrap_or(u64::MAX)
}

/// The union of two lists of regions, each sorted and without overlaps. Where both have an address,
/// the region with more accesses stays.
#[must_use]
pub fn union(a: &[RegionInfo], b: &[RegionInfo]) -> Vec<RegionInfo> {
    let rank = |r: &RegionInfo| (r.resolved, r.nr_accesses);
    let mut cuts: Vec<u64> = a.iter().chain(b).flat_map(|r| [r.range.start, r.range.end]).collect();
    cuts.sort_unstable();
    cuts.dedup();
    let mut out: Vec<RegionInfo> = Vec::new();
    let (mut a, mut b) = (a.iter().peekable(), b.iter().peekable());
    for cut in cuts.windows(2) {
        let (start, end) = (cut[0], cut[1]);
        while a.next_if(|r| r.range.end <= start).is_some() {}
        while b.next_if(|r| r.range.end <= start).is_some() {}
        let here = [a.peek(), b.peek()].into_iter().flatten().filter(|r| r.range.start <= start);
        let Some(best) = here.max_by_key(|r| rank(r)) else { continue };
        match out.last_mut() {
            Some(last) if last.range.end == start && is_same(last, best) => last.range.end = end,
            _ => {
                let mut piece = **best;
                (piece.range.start, piece.range.end) = (start, end);
                out.push(piece);
            }
        }
    }
    out
}

/// Whether two regions say the same.
fn is_same(a: &RegionInfo, b: &RegionInfo) -> bool {
    RegionInfo { range: b.range, ..*a } == *b
}

#[cfg(test)]
mod tests {
    use isotherm_core::AddrRange;

    use super::*;

    const SPANS_US: [u64; SPANS] = [5_000, 100_000, 1_000_000, 10_000_000, 60_000_000];

    fn touched(bytes: [Option<u64>; SPANS]) -> Touched {
        let known = |bytes| TouchedBytes { bytes, lo: bytes - 1, hi: bytes + 2, measured: 900 };
        Touched { spans: bytes.map(|bytes| bytes.map(known)), watched: 1000 }
    }

    #[test]
    fn a_measured_span_is_told_as_it_is_and_others_are_bounded() {
        let all = touched([Some(10), Some(100), Some(190), Some(280), Some(300)]);
        let of = |us| over(&all, SPANS_US, us).map(|w| (w.lo, w.bytes, w.hi));
        assert_eq!(of(1_000_000), Some((189, 190, 192)));
        assert_eq!(of(10_000_000), Some((279, 280, 282)));
        // Between 190 + 90 * 2/9 = 210 and the smaller of 280 and 190 + 90 * 2/0.9 = 390.
        assert_eq!(of(3_000_000), Some((209, 245, 282)));
        // No less than over a minute, and no more than 300 + 20 * 60/50.
        assert_eq!(of(120_000_000), Some((299, 312, 326)));
        assert_eq!(of(1_000), None, "less than the shortest span");
    }

    #[test]
    fn a_span_that_is_not_measured_yet_is_bounded_by_shorter_ones() {
        let early = touched([Some(90), Some(91), Some(100), None, None]);
        let w = over(&early, SPANS_US, 10_000_000).unwrap();
        assert_eq!((w.lo, w.bytes, w.hi), (99, 145, 192), "100 + 9 * 9/0.9 at most");
        let steady = touched([Some(99), Some(100), Some(100), None, None]);
        let w = over(&steady, SPANS_US, 10_000_000).unwrap();
        assert_eq!((w.lo, w.bytes, w.hi), (99, 100, 102));
        // Never more than there is.
        let wild = touched([None, Some(500), None, None, None]);
        assert_eq!(over(&wild, SPANS_US, 10_000_000).unwrap().bytes, 750);
        assert_eq!(over(&touched([None; SPANS]), SPANS_US, 1_000_000), None);
    }

    #[test]
    fn of_two_windows_the_one_with_more_accesses_counts() {
        let region = |start, end, nr_accesses| RegionInfo {
            range: AddrRange::new(start, end),
            nr_accesses,
            resolved: true,
            ..RegionInfo::default()
        };
        let a = [region(0, 10, 3), region(10, 20, 0), region(30, 40, 1)];
        let b = [region(5, 15, 2), region(15, 35, 0)];
        let found: Vec<_> =
            union(&a, &b).iter().map(|r| (r.range.start, r.range.end, r.nr_accesses)).collect();
        assert_eq!(found, [(0, 10, 3), (10, 15, 2), (15, 30, 0), (30, 40, 1)]);
        assert_eq!(union(&a, &[]), a);
        assert_eq!(union(&[], &[]), []);
    }
}
