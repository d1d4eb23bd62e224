//! Bits of a unit's pages.

use isotherm_core::{PageBits, UnitCheck};

use super::super::armed::PAGES;

/// Whether a huge page is mapped there.
pub(super) fn is_huge(unit: &UnitCheck) -> bool {
    unit.leaf_shift > 12
}

/// The pages that share a leaf with this one.
pub(super) fn leaf(unit: &UnitCheck, page: usize) -> PageBits {
    let page = u16::try_from(page).map_or_else(|_| PageBits::default(), PageBits::page);
    if is_huge(unit) { PageBits::ALL } else { page }
}

/// The pages of a unit to ask about: of a huge page, its first.
pub(super) fn numbers_asked(unit: &UnitCheck) -> impl Iterator<Item = usize> + use<> {
    let asked = if unit.pages.is_empty() { unit.pages } else { PageBits::page(0) };
    numbers(if is_huge(unit) { asked } else { unit.pages })
}

/// The numbers of these pages.
pub(super) fn numbers(bits: PageBits) -> impl Iterator<Item = usize> + use<> {
    (0..PAGES).filter(move |nr| has(bits, *nr))
}

/// Whether the page is in the set.
pub(super) fn has(bits: PageBits, nr: usize) -> bool {
    bits.0[nr / 64] >> (nr % 64) & 1 == 1
}

/// Puts the page into the set.
pub(super) fn set(bits: &mut PageBits, nr: usize) {
    bits.0[nr / 64] |= 1 << (nr % 64);
}
