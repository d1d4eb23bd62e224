//! Sets of pages that are nearly always the same: all pages, or none.
//!
//! All pages of nearly every unit are mapped, and can be made old. Four sets of 64 bytes that say
//! so would be a quarter of what is kept for a unit, so only other sets are kept, on the heap.
//!
//! Invariants: what was set is read back. All pages, and none, are not on the heap.

use alloc::boxed::Box;
use core::ops::Deref;

use crate::unit::PageBits;

/// A set of pages that is small if it holds all of them, or none.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(in super::super) enum Usual {
    /// No page.
    #[default]
    Empty,
    /// All pages.
    All,
    /// These pages, which are some.
    Some(Box<PageBits>),
}

impl Usual {
    /// These pages.
    pub(super) fn new(pages: PageBits) -> Self {
        match pages {
            PageBits::ALL => Self::All,
            _ if pages.is_empty() => Self::Empty,
            _ => Self::Some(Box::new(pages)),
        }
    }

    /// Makes it these pages.
    pub(in super::super) fn set(&mut self, pages: PageBits) {
        match self {
            Self::Some(kept) if pages != PageBits::ALL && !pages.is_empty() => **kept = pages,
            _ => *self = Self::new(pages),
        }
    }
}

impl Deref for Usual {
    type Target = PageBits;

    #[inline]
    fn deref(&self) -> &PageBits {
        match self {
            Self::Empty => &PageBits([0; 8]),
            Self::All => &PageBits::ALL,
            Self::Some(pages) => pages,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_set_is_read_back_and_the_usual_sets_are_not_on_the_heap() {
        let pages = [PageBits::ALL, PageBits::default(), PageBits::page(0), PageBits::page(511)];
        for first in pages {
            let mut kept = Usual::new(first);
            assert_eq!(*kept, first);
            for then in pages {
                kept.set(then);
                assert_eq!((*kept, &kept), (then, &Usual::new(then)));
                let is_usual = then == PageBits::ALL || then.is_empty();
                assert_eq!(matches!(kept, Usual::Some(_)), !is_usual);
            }
        }
    }
}
