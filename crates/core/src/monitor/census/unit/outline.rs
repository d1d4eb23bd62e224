//! What a drawing of regions needs of a unit of which all cells look the same.
//!
//! A unit has nearly a kilobyte, and a terabyte half a million units. To go over all of them for a
//! drawing takes 0.1 to 0.2 s, more than ten seconds' worth of a budget of 1 %. Nearly all are
//! uniform and have not changed since the drawing before, so 12 bytes of each are kept side by
//! side.
//!
//! Invariant: equal outlines of neighbours mean that one run stands for both.

use super::levels::FULL;
use super::rates::Span;
use super::{TICK_NS, Unit, tick};
use crate::snapshot::TouchedShare;
use crate::time::Time;
use crate::unit::PageBits;

/// The outline of a uniform unit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::monitor::census) struct Outline {
    /// Since when it has looked like this, in ticks; meaningless if it may be in use now.
    steady: u32,
    level: u8,
    leaf_shift: u8,
    span: Span,
    /// Whether all or none of its pages were touched within a window, and within a second.
    window: Option<bool>,
    second: Option<bool>,
    is_in_use: bool,
    pub(in crate::monitor::census) known: bool,
    pub(in crate::monitor::census) sure: bool,
}

impl Outline {
    /// The share of pages that were touched within one sample.
    pub(in crate::monitor::census) fn rate(self) -> f32 {
        f32::from(self.level) / FULL
    }

    /// Over how many samples that was measured.
    pub(in crate::monitor::census) fn times(self) -> f32 {
        self.span.times()
    }

    /// The shares of its mapped pages that were touched within a window and within a second.
    pub(in crate::monitor::census) fn touched(self) -> TouchedShare {
        let share = |all: Option<bool>| all.map(|all| f32::from(u8::from(all)));
        TouchedShare {
            window: share(self.window),
            second: share(self.second),
            leaf_shift: self.leaf_shift,
        }
    }

    /// Since when it has looked like this, in ns before `now`.
    pub(in crate::monitor::census) fn steady_ns(self, now: Time) -> u64 {
        if self.is_in_use {
            return 0;
        }
        u64::from(tick(now).saturating_sub(self.steady)).saturating_mul(TICK_NS)
    }
}

impl Unit {
    /// The outline, if all of its cells look the same.
    pub(in crate::monitor::census) fn outline(&self) -> Option<Outline> {
        let all_or_none = |bits: PageBits| bits.is_empty() || bits == PageBits::ALL;
        let is_uniform = self.stuck.is_empty()
            && all_or_none(*self.present)
            && all_or_none(self.young)
            && all_or_none(self.plane(1))
            && all_or_none(self.plane(2))
            && self.levels == [self.levels[0]; super::CELLS]
            && self.steady == [self.steady[0]; super::CELLS];
        let touched = |span| self.planes.get(span).map(|_| !self.plane(span).is_empty());
        is_uniform.then(|| Outline {
            steady: self.steady[0],
            level: self.levels[0],
            leaf_shift: self.leaf_shift,
            span: self.span,
            window: touched(1),
            second: touched(2),
            is_in_use: self.levels[0] == 0 && !self.young.is_empty(),
            known: self.known && self.armed,
            sure: self.is_sure(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::target::TargetId;
    use crate::unit::{UNIT, UnitCheck};

    const SPANS_NS: [u64; 5] = [5_000_000, 100_000_000, 1 << 30, 10 << 30, 60 << 30];

    #[test]
    fn an_outline_says_what_every_cell_of_its_unit_says() {
        let half = PageBits([0x0000_ffff_0000_ffff; 8]);
        let (mut nr_some, mut nr_none) = (0, 0);
        for young in [PageBits::default(), PageBits::ALL, half] {
            let mut unit = Unit::new(UNIT, PageBits::ALL, Time(0));
            let check = UnitCheck {
                answered: true,
                present: PageBits::ALL,
                young: PageBits::ALL,
                ..UnitCheck::new(TargetId(1), UNIT, PageBits::ALL)
            };
            unit.was_armed(&check, Time(1_000_000_000));
            for ms in [1005, 1100, 2100, 3000] {
                let look = UnitCheck { young, ..check };
                unit.was_looked_at(&look, Time(ms * 1_000_000), &SPANS_NS, false);
                let Some(outline) = unit.outline() else {
                    nr_none += 1;
                    continue;
                };
                nr_some += 1;
                let now = Time(5_000_000_000);
                for cell in 0..super::super::CELLS {
                    assert_eq!(
                        (outline.rate(), outline.touched(), outline.steady_ns(now)),
                        (unit.rate(cell), unit.touched(cell), unit.steady_ns(cell, now))
                    );
                }
                assert!(outline.known && outline.sure == unit.is_sure());
            }
        }
        assert!(nr_some == 8 && nr_none == 4, "{nr_some} uniform, {nr_none} not");
        assert_eq!(size_of::<Option<Outline>>(), 12);
    }
}
