//! Ranges of sizes, shares and times, from Rust's ranges to the core's closed bounds.

use std::ops::{Bound, RangeBounds};
use std::time::Duration;

use isotherm_core::scheme::Bounds;

use super::basis_points;
use crate::Bytes;
use crate::units::micros;

/// Closed bounds of integers; an excluded end is one less, an excluded start one more.
fn bounds<T>(range: &impl RangeBounds<T>, number: impl Fn(&T) -> u64, most: u64) -> Bounds<u64> {
    let min = match range.start_bound() {
        Bound::Included(start) => number(start),
        Bound::Excluded(start) => number(start).saturating_add(1),
        Bound::Unbounded => 0,
    };
    match range.end_bound() {
        Bound::Included(end) => Bounds::new(min, number(end)),
        Bound::Excluded(end) => match number(end).checked_sub(1) {
            Some(max) => Bounds::new(min, max),
            // Nothing is below 0: a range that is upside down matches nothing.
            None => Bounds::new(1, 0),
        },
        Bound::Unbounded => Bounds::new(min, most),
    }
}

pub(super) fn sizes(range: &impl RangeBounds<Bytes>) -> Bounds<u64> {
    bounds(range, |size| size.0, u64::MAX)
}

pub(super) fn times(range: &impl RangeBounds<Duration>) -> Bounds<u64> {
    bounds(range, |time| micros(*time), u64::MAX)
}

pub(super) fn shares(range: &impl RangeBounds<f64>) -> Bounds<u32> {
    let wide = bounds(range, |share| basis_points(*share).into(), 10_000);
    let narrow = |bp: u64| u32::try_from(bp).unwrap_or(u32::MAX);
    Bounds::new(narrow(wide.min), narrow(wide.max))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_become_closed_bounds() {
        assert_eq!(sizes(&(Bytes(2)..Bytes(5))), Bounds::new(2, 4));
        assert_eq!(sizes(&(Bytes(2)..=Bytes(5))), Bounds::new(2, 5));
        assert_eq!(sizes(&(Bytes(2)..)), Bounds::new(2, u64::MAX));
        assert!(sizes(&(..Bytes(0))).is_upside_down());
        assert_eq!(shares(&(0.25..=0.5)), Bounds::new(2_500, 5_000));
        assert_eq!(shares(&(..0.5)), Bounds::new(0, 4_999));
        assert_eq!(shares(&(0.5..)), Bounds::new(5_000, 10_000));
        assert_eq!(shares(&(0.0..=7.0)), Bounds::new(0, 10_000));
        let s = Duration::from_secs;
        assert_eq!(times(&(s(1)..=s(2))), Bounds::new(1_000_000, 2_000_000));
    }
}
