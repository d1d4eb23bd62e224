//! The working set over time, and from it how much comes back.
//!
//! Who pages out whatever was idle for `T` keeps what was touched within `T`: the working set
//! `w(T)`. How fast pages come back is its slope: a page that returns after more than `T` but less
//! than `T + dT` is in `w(T + dT)` and not in `w(T)`. On average over time both hold for any
//! program, steady or not (Denning and Schwartz, "Properties of the Working-Set Model", CACM 1972).
//!
//! A record knows `w` at a few spans, the *knots*. As `T` grows ever fewer pages are touched for
//! the first time, so `w` is concave, and that bounds it and its slope between the knots:
//!
//! ```text
//! bytes                    _.C      w at T: above the chord BC, below the line AB
//!   |           B___.---'''         slope at T: not above what is left of BC for its rest
//!   |      _.-'                     slope at B: between those of BC and AB
//!   |   A-'
//!   +--------------------------- T
//! ```
//!
//! The estimate within the bounds is a smooth curve through the knots, over the logarithm of `T`:
//! what programs do spreads over scales of time. Invariant: `lo <= mid <= hi`, none below 0.
//! Absent: anything behind the last knot.

use crate::price::Estimate;

/// The working set at one span.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Knot {
    /// Length of the span, in seconds.
    pub span_s: f64,
    /// Bytes that were touched within it, on average over time.
    pub bytes: Estimate,
}

impl Knot {
    /// Half of the interval.
    const fn error(&self) -> f64 {
        (self.bytes.hi - self.bytes.lo) / 2.0
    }
}

/// The working set over time.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Curve {
    /// In order of time. What a longer span has is never less.
    knots: Vec<Knot>,
    /// The slope of the smooth curve over the logarithm of time, at each knot.
    tangents: Vec<f64>,
}

impl Curve {
    /// The curve through these knots. A knot below one of a shorter span is lifted: the spans were
    /// measured at different times, and more time never has less.
    #[must_use]
    pub fn new(mut knots: Vec<Knot>) -> Self {
        knots.retain(|knot| knot.span_s > 0.0);
        knots.sort_by(|a, b| a.span_s.total_cmp(&b.span_s));
        knots.dedup_by(|a, b| a.span_s <= b.span_s);
        let mut most = Estimate::default();
        for Knot { bytes, .. } in &mut knots {
            let [lo, mid, hi] = [(bytes.lo, most.lo), (bytes.mid, most.mid), (bytes.hi, most.hi)]
                .map(|(a, b)| a.max(b));
            *bytes = Estimate { lo, mid, hi };
            most = *bytes;
        }
        let tangents = tangents(&knots);
        Self { knots, tangents }
    }

    /// The knots.
    #[must_use]
    pub fn knots(&self) -> &[Knot] {
        &self.knots
    }

    /// The two knots around a span, by the number of the first; none outside of the curve.
    fn piece(&self, span_s: f64) -> Option<usize> {
        let behind = self.knots.partition_point(|knot| knot.span_s <= span_s);
        let last = self.knots.len().checked_sub(1)?;
        match behind.checked_sub(1)? {
            at if at < last => Some(at),
            _ if span_s <= self.knots[last].span_s => last.checked_sub(1),
            _ => None,
        }
    }

    /// Bytes that are touched within so many seconds.
    #[must_use]
    pub fn within(&self, span_s: f64) -> Option<Estimate> {
        if let Some(knot) = self.knots.iter().find(|knot| is_same(knot.span_s, span_s)) {
            return Some(knot.bytes);
        }
        let at = self.piece(span_s)?;
        let (a, b) = (&self.knots[at], &self.knots[at + 1]);
        let low = a.bytes.mid + slope(a, b) * (span_s - a.span_s);
        let line = a.bytes.mid + self.slope_before(at) * (span_s - a.span_s);
        let high = line.min(b.bytes.mid).max(low);
        let mid = self.smooth(at, span_s).0;
        let mid = Estimate::new(low, mid, high);
        let error = a.error().max(b.error());
        Some(Estimate::new(mid.lo - error, mid.mid, mid.hi + error))
    }

    /// The same beyond the last knot, where it is only bounded: no less than there, and no more
    /// than on the line through the last two.
    #[must_use]
    pub fn beyond(&self, span_s: f64) -> Option<Estimate> {
        let [.., a, b] = self.knots.as_slice() else { return None };
        let more = slope(a, b) * (span_s - b.span_s).max(0.0);
        let Estimate { lo, mid, hi } = b.bytes;
        Some(Estimate::new(lo, mid + more / 2.0, hi + more))
    }

    /// Bytes that come back per second, if what was idle for so many seconds is paged out.
    #[must_use]
    pub fn returns(&self, span_s: f64) -> Option<Estimate> {
        let at = self.piece(span_s)?;
        let (a, b) = (&self.knots[at], &self.knots[at + 1]);
        let (gone, left) = (span_s - a.span_s, b.span_s - span_s);
        let (here, error) = (slope(a, b), error(a, b));
        let before = self.slope_before(at);
        let after = self.slope_after(at);
        // The slope never rises. What is left of the piece after `gone` is at least what the slope
        // before allows to be gone, and at most all of it.
        let rise = b.bytes.mid - a.bytes.mid;
        let on_knot = |length: f64| length < 1e-6 * span_s;
        let most = if on_knot(gone) { before } else { before.min(rise / gone) };
        let least = match (on_knot(left), on_knot(gone)) {
            (true, _) => after,
            (_, true) => here,
            _ => after.max((rise - before * gone) / left),
        };
        let least = least.min(most);
        let mid = self.smooth(at, span_s).1;
        let mid = Estimate::new(least, mid, most.max(least));
        Some(Estimate::new(mid.lo - error, mid.mid, mid.hi + error))
    }

    /// The slope of the piece before this one, in bytes per second; at the beginning that of a line
    /// from 0.
    fn slope_before(&self, at: usize) -> f64 {
        let here = slope(&self.knots[at], &self.knots[at + 1]);
        let before = match at.checked_sub(1) {
            Some(before) => slope(&self.knots[before], &self.knots[at]),
            None => self.knots[0].bytes.mid / self.knots[0].span_s,
        };
        before.max(here)
    }

    /// The slope of the piece behind this one; 0 at the end.
    fn slope_after(&self, at: usize) -> f64 {
        let here = slope(&self.knots[at], &self.knots[at + 1]);
        let after = self.knots.get(at + 2).map_or(0.0, |c| slope(&self.knots[at + 1], c));
        after.min(here)
    }

    /// The smooth curve at a span: its height, and its slope in bytes per second.
    fn smooth(&self, at: usize, span_s: f64) -> (f64, f64) {
        let (a, b) = (&self.knots[at], &self.knots[at + 1]);
        let (from, to) = (a.span_s.ln(), b.span_s.ln());
        let width = to - from;
        let x = ((span_s.ln() - from) / width).clamp(0.0, 1.0);
        let (y0, y1) = (a.bytes.mid, b.bytes.mid);
        let (d0, d1) = (self.tangents[at] * width, self.tangents[at + 1] * width);
        // The cubic with these heights and slopes at its ends.
        let (c2, c3) = (3.0 * (y1 - y0) - 2.0 * d0 - d1, 2.0 * (y0 - y1) + d0 + d1);
        let height = y0 + x * (d0 + x * (c2 + x * c3));
        let rise = (d0 + x * (2.0 * c2 + x * 3.0 * c3)) / width;
        (height, (rise / span_s).max(0.0))
    }
}

fn is_same(a: f64, b: f64) -> bool {
    (a - b).abs() < 1e-9 * b
}

/// Bytes per second between two knots.
fn slope(a: &Knot, b: &Knot) -> f64 {
    (b.bytes.mid - a.bytes.mid) / (b.span_s - a.span_s)
}

/// By how much that may be wrong. Both ends were mostly measured in the same units at the same
/// times, so the error of the sum is common to them, and what counts is by how much the errors
/// differ.
fn error(a: &Knot, b: &Knot) -> f64 {
    let rise = b.bytes.mid - a.bytes.mid;
    let share = (b.error() / b.bytes.mid.max(1.0)).min(1.0);
    let apart = (b.error() - a.error()).abs();
    (rise * share).hypot(apart) / (b.span_s - a.span_s)
}

/// Slopes over the logarithm of time that let the curve rise everywhere (Fritsch and Butland 1984).
fn tangents(knots: &[Knot]) -> Vec<f64> {
    let pieces: Vec<_> = knots
        .windows(2)
        .map(|pair| {
            let width = (pair[1].span_s / pair[0].span_s).ln();
            (width, (pair[1].bytes.mid - pair[0].bytes.mid) / width)
        })
        .collect();
    (0..knots.len())
        .map(|nr| {
            let before = nr.checked_sub(1).and_then(|before| pieces.get(before));
            match (before, pieces.get(nr)) {
                (Some((w0, s0)), Some((w1, s1))) if *s0 > 0.0 && *s1 > 0.0 => {
                    let (a, b) = (2.0 * w1 + w0, w1 + 2.0 * w0);
                    (a + b) / (a / s0 + b / s1)
                }
                (Some(_), Some(_)) | (None, None) => 0.0,
                (Some((_, s)), None) | (None, Some((_, s))) => *s,
            }
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const SPANS: [f64; 6] = [0.1, 1.0, 10.0, 60.0, 120.0, 300.0];
    const ALL: f64 = 1e9;

    type Truth = Box<dyn Fn(f64) -> (f64, f64)>;

    fn curve(within: impl Fn(f64) -> f64) -> Curve {
        let knot = |span_s| {
            let bytes = within(span_s);
            Knot { span_s, bytes: Estimate::new(bytes * 0.99, bytes, bytes * 1.01) }
        };
        Curve::new(SPANS.into_iter().map(knot).collect())
    }

    /// Programs whose working set is known: its share of all, and the share that comes back per
    /// second.
    fn programs() -> Vec<(&'static str, Truth)> {
        let random = |rate: f64| move |t: f64| (1.0 - (-rate * t).exp(), rate * (-rate * t).exp());
        let sweep = |period: f64| {
            move |t: f64| if t < period { (t / period, 1.0 / period) } else { (1.0, 0.0) }
        };
        // Each page at a rate of its own, 1000 of them, as keys under a Zipf law.
        let zipf = |t: f64| {
            let (mut w, mut m) = (0.0, 0.0);
            for rank in 1..=1000 {
                let rate = 20.0 / f64::from(rank);
                w += (1.0 - (-rate * t).exp()) / 1000.0;
                m += rate * (-rate * t).exp() / 1000.0;
            }
            (w, m)
        };
        vec![
            ("once a second at random", Box::new(random(1.0))),
            ("once in 30 s at random", Box::new(random(1.0 / 30.0))),
            ("once in 10 minutes at random", Box::new(random(1.0 / 600.0))),
            ("gone over in 5 s", Box::new(sweep(5.0))),
            ("gone over in 40 s", Box::new(sweep(40.0))),
            ("gone over in 200 s", Box::new(sweep(200.0))),
            ("a table under zipf keys", Box::new(zipf)),
        ]
    }

    #[test]
    fn bounds_hold_the_truth_of_known_programs() {
        for (name, of) in programs() {
            let curve = curve(|t| of(t).0 * ALL);
            for nr in 0..400 {
                let t = 0.1 * 3000.0_f64.powf(f64::from(nr) / 400.0);
                let (w, m) = of(t);
                let (within, returns) = (curve.within(t).unwrap(), curve.returns(t).unwrap());
                let holds = |e: Estimate, truth: f64| {
                    e.lo <= truth * (1.0 + 1e-9) + 1e-6 && truth <= e.hi * (1.0 + 1e-9) + 1e-6
                };
                assert!(holds(within, w * ALL), "{name} at {t} s: {within:?} {}", w * ALL);
                assert!(holds(returns, m * ALL), "{name} at {t} s: {returns:?} {}", m * ALL);
            }
        }
    }

    #[test]
    fn where_use_spreads_over_scales_of_time_the_estimate_is_near() {
        let (_, of) = programs().pop().unwrap();
        let curve = curve(|t| of(t).0 * ALL);
        for t in [0.5, 1.0, 2.0, 5.0, 10.0, 20.0] {
            let (w, m) = of(t);
            let (within, returns) = (curve.within(t).unwrap(), curve.returns(t).unwrap());
            assert!((within.mid / (w * ALL) - 1.0).abs() < 0.2, "{t}: {within:?} {}", w * ALL);
            let ratio = returns.mid / (m * ALL);
            assert!((0.5..2.0).contains(&ratio), "{t}: {returns:?} {}", m * ALL);
        }
    }

    #[test]
    fn outside_of_the_knots_nothing_is_said() {
        let curve = curve(|t| t);
        for t in [0.0, 0.09, 300.1] {
            assert_eq!((curve.within(t), curve.returns(t)), (None, None), "{t}");
        }
        assert!(curve.within(300.0).is_some() && curve.returns(300.0).is_some());
        let empty = Curve::new(Vec::new());
        assert_eq!((empty.within(1.0), empty.returns(1.0)), (None, None));
        let one = Curve::new(vec![Knot { span_s: 1.0, bytes: Estimate::new(1.0, 1.0, 1.0) }]);
        assert_eq!((one.within(1.0).map(|e| e.mid), one.returns(1.0)), (Some(1.0), None));
    }

    #[test]
    fn errors_of_a_product_add_up_as_independent_ones() {
        let product = Estimate::new(7.0, 10.0, 13.0).by(Estimate::new(1.6, 2.0, 2.8));
        assert_eq!((product.lo, product.mid), (20.0 - 6.0_f64.hypot(4.0), 20.0));
        assert!((product.hi - 30.0).abs() < 1e-9, "3 * 2 and 0.8 * 10: {product:?}");
        let wide = Estimate::new(0.0, 1.0, 9.0).by(Estimate::new(1.0, 1.0, 1.0));
        assert_eq!(wide, Estimate::new(0.0, 1.0, 9.0));
    }

    #[test]
    fn beyond_the_knots_there_are_bounds() {
        for (name, of) in programs() {
            let curve = curve(|t| of(t).0 * ALL);
            for t in [300.0, 400.0, 1000.0] {
                let (told, truth) = (curve.beyond(t).unwrap(), of(t).0 * ALL);
                assert!(told.lo <= truth && truth <= told.hi, "{name} at {t} s: {told:?} {truth}");
            }
        }
    }

    #[test]
    fn a_longer_span_never_has_less() {
        let knot =
            |span_s, mid: f64| Knot { span_s, bytes: Estimate::new(mid - 1.0, mid, mid + 1.0) };
        let curve = Curve::new(vec![knot(10.0, 80.0), knot(1.0, 100.0), knot(60.0, 90.0)]);
        let mids: Vec<_> = curve.knots().iter().map(|knot| knot.bytes.mid).collect();
        assert_eq!(mids, [100.0; 3]);
        assert!(curve.returns(10.0).unwrap().mid.abs() < 1e-9);
    }
}
