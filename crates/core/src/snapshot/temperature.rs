//! How hot single pages are, by the spans in which they were touched.

use super::UnitInfo;
use crate::unit::PageBits;

/// Pages of a unit by temperature.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Temperature {
    /// Touched within a second.
    pub hot: PageBits,
    /// Touched within 10 s, as far as that span tells.
    pub ten: PageBits,
    /// The same within a minute.
    pub minute: PageBits,
    /// None of these, and measured for at least a second.
    pub cold: PageBits,
    /// All that are mapped.
    pub present: PageBits,
}

impl Temperature {
    /// Of these pages of the unit.
    #[must_use]
    pub fn of(unit: &UnitInfo, pages: PageBits) -> Self {
        let present = unit.present.and(pages);
        let known = present.minus(unit.unresolved);
        let [sample, window, second, ten, minute] = unit.touched;
        let some = |a: Option<PageBits>| a.unwrap_or_default().and(known);
        let hot = some(sample).or(some(window)).or(some(second));
        let is_measured = second.or(ten).or(minute).is_some();
        let [ten, minute] = [ten, minute].map(some);
        let rest = known.minus(hot.or(ten).or(minute));
        let cold = if is_measured { rest } else { PageBits::default() };
        Self { hot, ten, minute, cold, present }
    }
}
