//! Units with pages that advice cannot make old: several processes map them, or they are locked.
//! They are remembered for a while, so that no time is spent on trying again at once.
//!
//! Bounded: [`MAX`] units per address space. A unit beyond that is tried again each time, which
//! costs time but gives no wrong answer. An entry ends after [`KEEP_NS`], because sharing and
//! locking end too.

use isotherm_core::{PageBits, Time};

/// Most units remembered: 8 GiB.
const MAX: usize = 4096;
/// How long a unit is not tried again, in ns.
const KEEP_NS: u64 = 30_000_000_000;
/// Clearings of all memory in a row that left a huge page young add up to this, and then no more
/// are made for it. A page in use is young again at once, so one does not prove anything. Small
/// pages are never doubted: all that a unit shows can be cleared.
const MOST_DOUBT: u8 = 12;
/// What one adds of which the result was seen at once, and one that was seen later: by then the
/// target may have touched the page again. It may be of hugetlb, which nothing clears.
const DOUBT: (u8, u8) = (4, 1);
/// Until then after the clearing, in ns, a result was seen at once.
const AT_ONCE_NS: u64 = 500_000;

/// What is known of one unit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Stuck {
    /// Pages that advice does not make old.
    pub(super) pages: PageBits,
    /// Those of them that must not be part of a range, because the kernel refuses it, or because
    /// advice would do harm.
    pub(super) cut: PageBits,
    /// How much speaks for it that the clearing of all memory does not make them old, either.
    doubt: u8,
}

impl Stuck {
    /// The same, with pages that must get no advice.
    pub(super) fn barred(self, pages: PageBits) -> Self {
        Self { pages: self.pages.or(pages), cut: self.cut.or(pages), ..self }
    }

    /// Whether the clearing of all memory may help.
    pub(super) fn has_hope(&self) -> bool {
        self.doubt < MOST_DOUBT
    }
}

#[derive(Debug, Clone, Copy)]
struct Spot {
    start: u64,
    until: Time,
    stuck: Stuck,
}

/// The units of one address space, sorted.
#[derive(Debug, Default)]
pub(super) struct StuckUnits {
    spots: Vec<Spot>,
}

impl StuckUnits {
    /// What is known of the unit at `start`.
    pub(super) fn get(&self, start: u64, now: Time) -> Stuck {
        let spot = self.find(start).ok().map(|at| &self.spots[at]);
        spot.filter(|spot| now < spot.until).map_or(Stuck::default(), |spot| spot.stuck)
    }

    /// Advice on the unit has left these pages young. None: it has worked.
    pub(super) fn tried(&mut self, start: u64, pages: PageBits, cut: PageBits, now: Time) {
        let found = self.find(start);
        if pages.is_empty() {
            if let Ok(at) = found {
                self.spots.remove(at);
            }
            return;
        }
        let fresh = Spot { start, until: now + KEEP_NS, stuck: Stuck { pages, cut, doubt: 0 } };
        match found {
            Ok(at) if now < self.spots[at].until => {
                // The time is not made longer, so that what was left out is tried again, too.
                let stuck = &mut self.spots[at].stuck;
                (stuck.pages, stuck.cut) = (pages, cut);
            }
            Ok(at) => self.spots[at] = fresh,
            Err(_) => {
                if self.spots.len() >= MAX {
                    self.spots.retain(|spot| now < spot.until);
                }
                if let Err(at) = self.find(start)
                    && self.spots.len() < MAX
                {
                    self.spots.insert(at, fresh);
                }
            }
        }
    }

    /// All memory of the process was cleared for pages of this unit, and at least one is old now.
    pub(super) fn clearing_has_worked(&mut self, start: u64) {
        if let Ok(at) = self.find(start) {
            self.spots[at].stuck.doubt = 0;
        }
    }

    /// All memory of the process was cleared for the pages of a huge one, and it was young
    /// `later_ns` afterwards.
    pub(super) fn clearing_is_doubted(
        &mut self,
        start: u64,
        pages: PageBits,
        later_ns: u64,
        now: Time,
    ) {
        let before = self.get(start, now);
        self.tried(start, before.pages.or(pages), before.cut, now);
        if let Ok(at) = self.find(start) {
            let more = if later_ns <= AT_ONCE_NS { DOUBT.0 } else { DOUBT.1 };
            self.spots[at].stuck.doubt = before.doubt.saturating_add(more);
        }
    }

    fn find(&self, start: u64) -> Result<usize, usize> {
        self.spots.binary_search_by_key(&start, |spot| spot.start)
    }
}

#[cfg(test)]
mod tests {
    use isotherm_core::unit::UNIT;

    use super::*;

    const NONE: PageBits = PageBits([0; 8]);

    #[test]
    fn remembers_for_a_while_and_forgets_what_works() {
        let mut units = StuckUnits::default();
        let (now, few) = (Time(1_000), PageBits::page(3));
        units.tried(UNIT, few, NONE, now);
        assert_eq!(units.get(UNIT, now).pages, few);
        assert_eq!(units.get(2 * UNIT, now), Stuck::default());
        assert_eq!(units.get(UNIT, now + KEEP_NS), Stuck::default());
        units.tried(UNIT, NONE, NONE, now);
        assert_eq!(units.get(UNIT, now), Stuck::default());
    }

    #[test]
    fn gives_up_after_some_tries_in_a_row_that_did_nothing() {
        let now = Time(1_000);
        let cases = [(AT_ONCE_NS, 3), (AT_ONCE_NS + 1, 12)];
        for (later_ns, tries) in cases {
            let mut units = StuckUnits::default();
            units.tried(UNIT, PageBits::ALL, NONE, now);
            let mut try_in_vain = |start, nr| {
                for _ in 0..nr {
                    assert!(units.get(start, now).has_hope());
                    units.clearing_is_doubted(start, PageBits::ALL, later_ns, now);
                    units.tried(start, PageBits::ALL, NONE, now);
                }
                units.get(start, now).has_hope()
            };
            assert!(try_in_vain(UNIT, tries - 1));
            // Also a unit that advice was never tried on.
            assert!(!try_in_vain(2 * UNIT, tries));
            units.clearing_has_worked(UNIT);
            for nr in 0..tries {
                assert!(units.get(UNIT, now).has_hope(), "{nr}");
                units.clearing_is_doubted(UNIT, PageBits::ALL, later_ns, now);
            }
            assert!(!units.get(UNIT, now).has_hope());
            assert!(units.get(UNIT, now + KEEP_NS).has_hope(), "for a while");
        }
    }

    #[test]
    fn stays_bounded_and_makes_room_when_entries_end() {
        let mut units = StuckUnits::default();
        for nr in 0..2 * MAX as u64 {
            units.tried(nr * UNIT, PageBits::ALL, NONE, Time(0));
        }
        assert_eq!(units.spots.len(), MAX);
        units.tried(1 << 46, PageBits::ALL, NONE, Time(KEEP_NS));
        assert_eq!(units.spots.len(), 1);
    }
}
