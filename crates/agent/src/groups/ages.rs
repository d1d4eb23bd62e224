//! For how long pages were idle, and which came back after that.
//!
//! The idea: every page has a counter of quarters of a minute in which no look found it touched.
//! The counters of the 512 pages of a unit are seven sets of pages, one per binary digit, so a unit
//! costs about 0.8 KiB and a few dozen operations on words whenever there is news of it.
//!
//! Invariants. A counter holds only time that a look has answered for: it goes up when there is
//! news of the unit (it was made old again, or looked at), by the time since the news before. What
//! a touch ends is therefore a lower bound of the idle time. A page that is not mapped, or that
//! cannot be made old, has no counter.
//!
//! Absent: pages that were taken away and came back. They begin anew, since memory that was freed
//! and mapped again looks the same; the kernel's counts of refaults tell of them.

use std::collections::BTreeMap;

use isotherm_core::unit::PageBits;
use isotherm_core::{Time, UnitInfo};

/// The idle times that are told of, in minutes.
pub const IDLE_MIN: [u64; 3] = [1, 5, 30];
/// Counters have so many digits.
const DIGITS: usize = 7;
/// The largest count.
const MOST: u64 = (1 << DIGITS) - 1;
const MINUTE_NS: u64 = 60_000_000_000;
/// So many counts are a minute.
const PER_MINUTE: u64 = 4;
/// What one count is.
const COUNT_NS: u64 = MINUTE_NS / PER_MINUTE;

/// What is known of the pages of one unit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct UnitAges {
    /// The digits of the counters, the lowest first.
    digits: [PageBits; DIGITS],
    /// Up to when was counted.
    counted_to: Time,
    /// When there was news last.
    news_at: Time,
    /// What the spans showed as touched in the last news.
    shown: PageBits,
    /// Pages with a counter.
    known: PageBits,
    /// By [`IDLE_MIN`]: pages that were touched after having been idle for so long, since this was
    /// last asked for.
    returned: [PageBits; IDLE_MIN.len()],
}

impl UnitAges {
    fn new(unit: &UnitInfo, now: Time) -> Self {
        let known = known(unit);
        let shown = shown(unit);
        Self { counted_to: now, news_at: now, shown, known, ..Self::default() }
    }

    /// Takes in news of the unit.
    fn news(&mut self, unit: &UnitInfo, now: Time) {
        let shown = shown(unit);
        // A span keeps what it showed while shorter ones are measured anew, so only what is new in
        // the spans is a touch.
        let touched = shown.minus(self.shown).or(unit.found.unwrap_or_default());
        let known = known(unit);
        let came = IDLE_MIN.map(|minutes| self.proven(minutes).and(known).and(touched));
        for (returned, came) in self.returned.iter_mut().zip(came) {
            *returned = returned.or(came);
        }
        let stays = self.known.and(known).minus(touched);
        let counts = now.since(self.counted_to) / COUNT_NS;
        for digit in &mut self.digits {
            *digit = digit.and(stays);
        }
        for _ in 0..counts.min(MOST) {
            self.count_up(stays);
        }
        self.counted_to = Time(self.counted_to.as_ns() + counts * COUNT_NS);
        (self.news_at, self.shown, self.known) = (now, shown, known);
    }

    /// Adds one to the counters of these pages, as far as they are not full.
    fn count_up(&mut self, pages: PageBits) {
        let full = self.digits.iter().fold(pages, |all, digit| all.and(*digit));
        let mut carry = pages.minus(full);
        for digit in &mut self.digits {
            let next = digit.and(carry);
            *digit = digit.or(carry).minus(next);
            carry = next;
        }
    }

    /// The pages whose counters are at least `count`.
    fn at_least(&self, count: u64) -> PageBits {
        let (mut above, mut equal) = (PageBits::default(), PageBits::ALL);
        if count > MOST {
            return above;
        }
        for (nr, digit) in self.digits.iter().enumerate().rev() {
            if count >> nr & 1 == 1 {
                equal = equal.and(*digit);
            } else {
                above = above.or(equal.and(*digit));
                equal = equal.minus(*digit);
            }
        }
        above.or(equal)
    }

    /// Pages that were idle for so many minutes when there was news last.
    pub(super) fn proven(&self, minutes: u64) -> PageBits {
        self.at_least(count_of(minutes)).and(self.known)
    }

    /// Pages that are idle for so many minutes now, if none was touched since there was news last.
    pub(super) fn likely(&self, minutes: u64, now: Time) -> PageBits {
        let more = now.since(self.counted_to) / COUNT_NS;
        self.at_least(count_of(minutes).saturating_sub(more)).and(self.known)
    }

    /// Its pages, if there was news within so many minutes.
    fn looked(&self, minutes: u64, now: Time) -> u64 {
        let is_fresh = now.since(self.news_at) < minutes * MINUTE_NS;
        if is_fresh { self.known.count() << 12 } else { 0 }
    }

    /// Pages that came back after so long, by [`IDLE_MIN`].
    pub(super) const fn returned(&self) -> [PageBits; IDLE_MIN.len()] {
        self.returned
    }
}

/// The count that proves so many minutes. The first count after a touch may have begun before it,
/// so it proves nothing.
const fn count_of(minutes: u64) -> u64 {
    minutes * PER_MINUTE + 1
}

/// Pages of which anything can be known.
fn known(unit: &UnitInfo) -> PageBits {
    unit.present.minus(unit.unresolved)
}

/// All pages that some span shows as touched.
fn shown(unit: &UnitInfo) -> PageBits {
    unit.touched.iter().flatten().fold(PageBits::default(), |all, plane| all.or(*plane))
}

/// The ages of the pages of one target, by where their units start.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct TargetAges(pub(super) BTreeMap<u64, UnitAges>);

impl TargetAges {
    /// Takes in what a window tells of units.
    pub(super) fn learn<'a>(&mut self, units: impl Iterator<Item = &'a UnitInfo>, now: Time) {
        for unit in units {
            match self.0.get_mut(&unit.start) {
                Some(ages) => ages.news(unit, now),
                None => drop(self.0.insert(unit.start, UnitAges::new(unit, now))),
            }
        }
    }

    /// By [`IDLE_MIN`]: bytes of units of which there was news within so many minutes.
    pub(super) fn looked(&self, now: Time) -> [u64; IDLE_MIN.len()] {
        IDLE_MIN.map(|minutes| self.0.values().map(|ages| ages.looked(minutes, now)).sum())
    }

    /// Bytes of which anything is known.
    pub(super) fn known(&self) -> u64 {
        self.0.values().map(|ages| ages.known.count() << 12).sum()
    }

    /// Forgets what came back until now, after it was summed up.
    pub(super) fn counted(&mut self) {
        for ages in self.0.values_mut() {
            ages.returned = Default::default();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: u64) -> Time {
        Time(seconds * 1_000_000_000)
    }

    /// News of a unit with all pages mapped, of which these were found touched.
    fn news(armed_s: u64, found: &[u16]) -> UnitInfo {
        let found = found.iter().fold(PageBits::default(), |all, nr| all.or(PageBits::page(*nr)));
        let (present, found) = (PageBits::ALL, Some(found));
        UnitInfo { since: at(armed_s), present, found, ..UnitInfo::default() }
    }

    /// What came back, by idle time, as numbers of pages.
    fn returned(ages: &UnitAges) -> [u64; 3] {
        ages.returned().map(PageBits::count)
    }

    #[test]
    fn counters_count_and_stay_full() {
        let mut ages = UnitAges { known: PageBits::ALL, ..UnitAges::default() };
        let (odd, all) = (PageBits([0xaaaa_aaaa_aaaa_aaaa; 8]), PageBits::ALL);
        for round in 0..2 * MOST + 4 {
            for count in 0..=MOST + 1 {
                let odd_is = round.min(MOST) >= count;
                let even_is = (round / 2).min(MOST) >= count;
                let expected = u64::from(odd_is) * 256 + u64::from(even_is) * 256;
                assert_eq!(ages.at_least(count).count(), expected, "{count} after {round}");
            }
            ages.count_up(if round % 2 == 0 { odd } else { all });
        }
    }

    #[test]
    fn what_is_touched_after_long_comes_back_with_the_time_that_was_proven() {
        let mut ages = UnitAges::new(&news(0, &[]), at(0));
        // Page 1 is touched all the time, page 2 after 4 minutes, page 3 after 10, page 4 after 50.
        for minute in 1..=50 {
            let mut found = vec![1];
            found.extend([(4, 2), (10, 3), (50, 4)].iter().filter(|e| e.0 == minute).map(|e| e.1));
            ages.news(&news(minute * 60, &found), at(minute * 60));
        }
        assert_eq!(returned(&ages), [3, 2, 1], "pages 2, 3 and 4; 3 and 4; 4");
        // All but those four, page 2 and page 3 again.
        let idle = IDLE_MIN.map(|minutes| ages.proven(minutes).count());
        assert_eq!(idle, [510, 510, 510]);
    }

    #[test]
    fn time_without_news_proves_nothing() {
        let mut ages = UnitAges::new(&news(0, &[]), at(0));
        // Looked at for the first time after 40 minutes: when it was touched nobody knows.
        let later = at(40 * 60);
        assert_eq!(ages.proven(1).count(), 0);
        assert_eq!(ages.likely(30, later).count(), 512, "if nobody has touched it");
        ages.news(&news(40 * 60, &[7]), later);
        assert_eq!(returned(&ages), [0; 3]);
        assert_eq!(ages.proven(30).count(), 511);
        ages.news(&news(41 * 60, &[8]), at(41 * 60));
        assert_eq!(returned(&ages), [1; 3]);
    }

    #[test]
    fn memory_that_was_unmapped_begins_anew_and_spans_count_once() {
        let mut ages = UnitAges::new(&news(0, &[]), at(0));
        ages.news(&news(600, &[]), at(600));
        let mut gone = news(601, &[]);
        gone.present = PageBits::default();
        ages.news(&gone, at(601));
        ages.news(&news(602, &[1, 2, 3]), at(602));
        assert_eq!(returned(&ages), [0; 3], "it is new memory");
        ages.news(&news(1190, &[]), at(1190));
        let mut touched = news(1200, &[]);
        touched.touched[2] = Some(PageBits::page(9));
        ages.news(&touched, at(1200));
        assert_eq!(returned(&ages), [1, 1, 0]);
        // The same look, told again with another span, and when the unit was made old again.
        touched.touched[3] = Some(PageBits::page(9));
        touched.since = at(1390);
        ages.news(&touched, at(1400));
        assert_eq!(ages.proven(1).count(), 512, "no look found it again");
        let mut target = TargetAges(BTreeMap::from([(0, ages)]));
        target.counted();
        assert_eq!(returned(&target.0[&0]), [0; 3]);
    }
}
