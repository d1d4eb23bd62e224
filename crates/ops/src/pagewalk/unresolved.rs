//! Pages whose accessed bit could not be cleared. They are remembered for a while, so that no time
//! is spent on trying again at once, and so that their bit is not taken for evidence of an access.
//!
//! Bounded: the list holds [`MAX`] pages at most. When it is full, further pages are not
//! remembered. They are tried again, which costs time but gives no wrong answer. An entry ends
//! after [`KEEP_NS`], because sharing and locking end too.

use isotherm_core::Time;

use isotherm_pages::tables::PageKey;

/// Most pages remembered.
const MAX: usize = 4096;
/// How long a page is left alone, in ns.
const KEEP_NS: u64 = 5_000_000_000;
/// A page of a file counts as impossible to clear when this many tries in a row left it young.
const TRIES: u8 = 3;

/// One leaf, by its first page, and what is known of it.
#[derive(Debug, Clone, Copy)]
struct Spot {
    page: PageKey,
    until: Time,
    fails: u8,
}

/// The list, sorted by page.
#[derive(Debug, Default)]
pub(super) struct Unresolved {
    spots: Vec<Spot>,
}

impl Unresolved {
    /// Whether the page is known to be impossible to clear.
    pub(super) fn contains(&self, page: PageKey, now: Time) -> bool {
        self.find(page).is_ok_and(|at| {
            let spot = &self.spots[at];
            spot.fails >= TRIES && now < spot.until
        })
    }

    /// The page cannot be cleared, for a known reason.
    pub(super) fn insert(&mut self, page: PageKey, now: Time) {
        self.note(page, now, TRIES);
    }

    /// Counts a try that left the page young, which may be due to a new access. Returns whether
    /// that has happened too often.
    pub(super) fn failed(&mut self, page: PageKey, now: Time) -> bool {
        self.note(page, now, 1)
    }

    /// A try has worked.
    pub(super) fn cleared(&mut self, page: PageKey) {
        if let Ok(at) = self.find(page) {
            self.spots.remove(at);
        }
    }

    /// Forgets an address space; `of` says which pages are its own.
    pub(super) fn forget(&mut self, of: impl Fn(PageKey) -> bool) {
        self.spots.retain(|spot| !of(spot.page));
    }

    fn find(&self, page: PageKey) -> Result<usize, usize> {
        self.spots.binary_search_by_key(&page, |spot| spot.page)
    }

    fn note(&mut self, page: PageKey, now: Time, fails: u8) -> bool {
        let until = now + KEEP_NS;
        match self.find(page) {
            Ok(at) => {
                let spot = &mut self.spots[at];
                // The old entry has expired, so this counts as the first failure.
                let before = if now < spot.until { spot.fails } else { 0 };
                *spot = Spot { page, until, fails: before.saturating_add(fails) };
                spot.fails >= TRIES
            }
            Err(_) => {
                if self.spots.len() >= MAX {
                    self.spots.retain(|spot| now < spot.until);
                }
                if let Err(at) = self.find(page)
                    && self.spots.len() < MAX
                {
                    self.spots.insert(at, Spot { page, until, fails });
                }
                fails >= TRIES
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn page(nr: u64) -> PageKey {
        PageKey::new(0, nr << 12)
    }

    #[test]
    fn remembers_for_a_while_and_counts_failures_in_a_row() {
        let mut list = Unresolved::default();
        let now = Time(1_000);
        list.insert(page(7), now);
        assert!(list.contains(page(7), now) && !list.contains(page(8), now));
        assert!(!list.contains(page(7), now + KEEP_NS));

        assert!(!list.failed(page(9), now));
        assert!(!list.failed(page(9), now));
        list.cleared(page(9));
        assert!(
            !list.failed(page(9), now)
                && !list.failed(page(9), now)
                && !list.contains(page(9), now)
        );
        assert!(list.failed(page(9), now) && list.contains(page(9), now));

        list.forget(|of| of == page(9));
        assert!(!list.contains(page(9), now) && list.contains(page(7), now));
    }

    #[test]
    fn stays_bounded_and_makes_room_when_entries_end() {
        let mut list = Unresolved::default();
        for nr in 0..2 * MAX as u64 {
            list.insert(page(nr), Time(0));
        }
        assert_eq!(list.spots.len(), MAX);
        list.insert(page(1 << 40), Time(KEEP_NS));
        assert!(list.contains(page(1 << 40), Time(KEEP_NS)) && list.spots.len() == 1);
    }
}
