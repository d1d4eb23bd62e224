//! What time a sweep should take, and how the measured times grow with the size.

use super::{BUDGET_PERCENT, GIB, Line};
use crate::stats::to_f64;

/// Looks at a unit after it was armed: at the ends of the five spans.
const LOOKS: u64 = 5;
/// Bytes of a unit.
const UNIT: f64 = 2_097_152.0;

/// Seconds for a sweep over `gib`, at what this run had left for arming: its budget without what
/// the core took, and without looks in turn.
pub(super) fn sweep_s(line: &Line, gib: u64) -> f64 {
    let units = to_f64(gib) * GIB / UNIT;
    // What is found old is only looked at.
    let each_ns = if line.clean { line.look_ns } else { line.arm_ns + LOOKS * line.look_ns };
    let after_arming = if line.clean { 0.0 } else { line.armed_per_s * to_f64(LOOKS) };
    let in_turn_per_s = (line.looked_per_s - after_arming).max(0.0);
    let turns_percent = if line.clean { 0.0 } else { in_turn_per_s * to_f64(line.look_ns) / 1e7 };
    let left_percent = (BUDGET_PERCENT - line.core_percent - turns_percent).max(0.01);
    units * to_f64(each_ns) / 1e9 / (left_percent / 100.0)
}

/// A power law through the two largest sizes that were measured.
#[derive(Debug, Clone, Copy)]
pub(super) struct Fit {
    small: (f64, f64),
    large: (f64, f64),
    /// 1: the time grows as the size does.
    pub(super) exponent: f64,
}

impl Fit {
    /// Of points of size and time, sizes rising. `None` if there are fewer than two.
    pub(super) fn of(points: &[(f64, f64)]) -> Option<Self> {
        let [.., small, large] = *points else { return None };
        let exponent = (large.1 / small.1).ln() / (large.0 / small.0).ln();
        exponent.is_finite().then_some(Self { small, large, exponent })
    }

    /// The time for a size, if it grows from the largest one on in proportion: the budget stays
    /// the same. A power law with the exponent of sizes that the advance of the first minute still
    /// helps would be too high or too low.
    pub(super) fn at(&self, size: f64) -> f64 {
        let per_size = (self.large.1 - self.small.1) / (self.large.0 - self.small.0);
        self.large.1 + per_size * (size - self.large.0)
    }

    /// The sizes, for people.
    pub(super) fn sizes(&self) -> String {
        format!("{}, {}", self.small.0, self.large.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_grow_as_the_sizes_do() {
        // 10 s less than in proportion, by an advance.
        let fit = Fit::of(&[(1.0, 5.0), (100.0, 90.0), (400.0, 390.0)]).unwrap();
        assert!((fit.at(1000.0) - 990.0).abs() < 1e-9 && (1.0..1.1).contains(&fit.exponent));
        assert!(Fit::of(&[(1.0, 5.0)]).is_none());
    }
}
