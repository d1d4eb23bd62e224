//! Whether the budget of the method `census` is enough, told in words.
//!
//! A budget decides how often memory is looked at and made old, and how often regions are drawn. It
//! does not decide what the program costs besides: waking up, reading what is mapped, writing. So
//! two things are told, each once:
//!
//! * after three seconds: a budget below that cost plus one look per minute at all memory, and what
//!   it would take. The cost is that of the cheapest of these seconds, since the first one starts
//!   things, and another program may disturb any of them;
//! * after two minutes: that the last minute took more CPU time than the budget. The first minute
//!   does not count, since new memory is seen in advance, and paid back.
//!
//! Time that schemes take to act is in neither.

use isotherm_core::Time;
use isotherm_core::unit::UNIT;
use isotherm_core::units::{bytes, show_share};

/// What it costs to look at a unit, in ns, for the least budget (job `accuracy`: 1.4 µs).
const LOOK_NS: u64 = 1_500;
/// In which time all memory is to be looked at, and for how long the budget may be exceeded, in ns.
const MINUTE_NS: u64 = 60_000_000_000;
/// How often and for how long each time the cost of the program itself is measured, in ns.
const MEASURES: (u32, u64) = (3, 1_000_000_000);

/// CPU time that a monitor has used until some time, in ns. Acting is left out.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Used {
    /// The time.
    pub(super) at: Time,
    /// All of it.
    pub(super) all_ns: u64,
    /// The part that the budget decides about: to look at units, to make them old, to count what
    /// was found, and to draw regions. Counting and drawing are in it only as long as
    /// [`Spending::measures`].
    pub(super) watching_ns: u64,
}

/// What was measured, and what was told.
#[derive(Debug, Default)]
pub(super) struct Spending {
    budget_bp: u32,
    /// At the end of the first window with this budget.
    begin: Option<Used>,
    /// When the present measurement of the program itself began, how many there were, and the
    /// least that was found, in basis points of one CPU.
    measured_from: Option<Used>,
    nr_measured: u32,
    least_bp: Option<u64>,
    /// What the program itself takes of one CPU, in basis points; none while that is measured.
    own_bp: Option<u64>,
    /// At the end of the last whole minute since.
    minute: Option<Used>,
    told_least: bool,
    told_minute: bool,
}

/// A share of one CPU in basis points, rounded up.
const fn share(ns: u64, of_ns: u64) -> u64 {
    let of_ns = if of_ns == 0 { 1 } else { of_ns };
    ns.saturating_mul(10_000).div_ceil(of_ns)
}

impl Spending {
    /// Whether it is being measured what the program itself takes.
    pub(super) const fn measures(&self) -> bool {
        self.own_bp.is_none()
    }

    /// Whether the end of a window at this time is of no interest. What was used until then need
    /// not be found out.
    pub(super) fn waits(&self, at: Time, budget_bp: u32) -> bool {
        let Some(begin) = self.begin.filter(|_| budget_bp == self.budget_bp) else { return false };
        let (from, ns) = match self.own_bp {
            None => (self.measured_from, MEASURES.1),
            Some(_) => (self.minute, MINUTE_NS),
        };
        at.since(from.unwrap_or(begin).at) < ns
    }

    /// Takes in the end of a window. `watched`: bytes of address space that are watched.
    /// Returns what is to be told.
    pub(super) fn note(&mut self, used: Used, budget_bp: u32, watched: u64) -> Option<String> {
        let Some(begin) = self.begin.filter(|_| budget_bp == self.budget_bp) else {
            (self.budget_bp, self.begin) = (budget_bp, Some(used));
            (self.own_bp, self.minute, self.measured_from) = (None, None, None);
            (self.nr_measured, self.least_bp) = (0, None);
            return None;
        };
        let Some(own) = self.own_bp else {
            let own = self.measured(used, self.measured_from.unwrap_or(begin))?;
            self.own_bp = Some(own);
            return self.least(own, watched);
        };
        let from = self.minute.unwrap_or(begin);
        if used.at.since(from.at) < MINUTE_NS {
            return None;
        }
        self.minute.replace(used).and_then(|from| self.over(used, from, own))
    }

    /// What the program itself takes, once that was measured often enough.
    fn measured(&mut self, used: Used, from: Used) -> Option<u64> {
        let ns = used.at.since(from.at);
        if ns < MEASURES.1 {
            return None;
        }
        let all = used.all_ns.saturating_sub(from.all_ns);
        let watching = used.watching_ns.saturating_sub(from.watching_ns);
        let own = share(all.saturating_sub(watching), ns);
        let least = self.least_bp.map_or(own, |least| least.min(own));
        (self.measured_from, self.least_bp) = (Some(used), Some(least));
        self.nr_measured += 1;
        (self.nr_measured >= MEASURES.0).then_some(least)
    }

    /// What a budget must be at least, if this one is less.
    fn least(&mut self, own: u64, watched: u64) -> Option<String> {
        let looks = share((watched / UNIT).saturating_mul(LOOK_NS), MINUTE_NS);
        let needed = looks.saturating_add(own);
        if self.told_least || needed <= self.budget_bp.into() {
            return None;
        }
        self.told_least = true;
        Some(format!(
            "a budget of {} is too small for {}: to look at every page once a minute takes {}, and \
             Isotherm itself (to wake up, to read what is mapped) takes {} besides; it would take a budget of at least {}",
            show_share(self.budget_bp.into()),
            bytes(watched),
            show_share(looks),
            show_share(own),
            show_share(needed),
        ))
    }

    /// By how much the budget was exceeded in a minute.
    fn over(&mut self, used: Used, from: Used, own: u64) -> Option<String> {
        let all = share(used.all_ns.saturating_sub(from.all_ns), used.at.since(from.at));
        if self.told_minute || all <= self.budget_bp.into() {
            return None;
        }
        self.told_minute = true;
        Some(format!(
            "over the last minute Isotherm has used {} of one CPU, more than its budget of {}; in \
             the beginning it took {} to wake up and to read what is mapped, which a budget hardly \
             changes",
            show_share(all),
            show_share(self.budget_bp.into()),
            show_share(own),
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const S: u64 = 1_000_000_000;
    const GIB: u64 = 1 << 30;

    /// Windows of 100 ms, in which the program uses so many µs for units and for all else.
    fn told(budget_bp: u32, seconds: u64, units_us: u64, else_us: u64) -> Vec<(u64, String)> {
        let (mut spending, mut used, mut told) = (Spending::default(), Used::default(), Vec::new());
        for window in 1..=seconds * 10 {
            used.at = Time(window * S / 10);
            used.watching_ns += units_us * 1000;
            used.all_ns += (units_us + else_us) * 1000;
            let (waits, before) = (spending.waits(used.at, budget_bp), format!("{spending:?}"));
            let text = spending.note(used, budget_bp, GIB);
            assert!(!waits || text.is_none() && before == format!("{spending:?}"), "{window}");
            told.extend(text.map(|text| (window / 10, text)));
        }
        told
    }

    #[test]
    fn a_budget_below_what_the_program_itself_takes_is_told_with_what_it_would_take() {
        // 0.1 % for units and 0.5 % for all else. One look per minute at a GiB takes 0.01 %.
        let told = told(1, 10, 100, 500);
        let [(3, text)] = told.as_slice() else { panic!("{told:?}") };
        assert_eq!(
            text,
            "a budget of 0.01% is too small for 1.00 GiB: to look at every page once a minute takes \
             0.01%, and Isotherm itself (to wake up, to read what is mapped) takes 0.5% besides; it \
             would take a budget of at least 0.51%"
        );
    }

    #[test]
    fn the_budget_that_it_would_take_is_not_too_small() {
        assert_eq!(told(51, 60, 0, 500), []);
        assert_eq!(told(50, 60, 0, 500).len(), 1);
    }

    #[test]
    fn a_minute_above_the_budget_is_told_once_and_the_first_one_does_not_count() {
        // 1.2 %, with a budget of 1 %.
        assert_eq!(told(100, 119, 800, 400), []);
        let told = told(100, 600, 800, 400);
        let [(120, text)] = told.as_slice() else { panic!("{told:?}") };
        assert!(
            text.starts_with(
                "over the last minute Isotherm has used 1.2% of one CPU, more than its budget of 1%; \
                 in the beginning it took 0.4% to wake up"
            ),
            "{text}"
        );
    }

    #[test]
    fn another_budget_is_judged_anew() {
        let mut spending = Spending::default();
        let used = |s: u64| Used { at: Time(s * S), all_ns: s * S / 100, watching_ns: 0 };
        for s in 0..90 {
            assert_eq!(spending.note(used(s), 200, GIB), None, "{s}");
        }
        for s in 90..210 {
            assert_eq!(spending.note(used(s), 102, GIB), None, "{s}");
        }
        assert_eq!(spending.note(used(210), 50, GIB), None, "it has just begun");
        assert_eq!([211, 212].map(|s| spending.note(used(s), 50, GIB)), [None, None]);
        assert!(spending.note(used(213), 50, GIB).is_some());
    }

    /// 0.5 % from the second second on; the first one takes 3 %.
    #[test]
    fn what_only_the_start_takes_makes_no_budget_too_small() {
        let mut spending = Spending::default();
        for window in 0..100 {
            let more = window.min(10) * 2500;
            let all_ns = (window * 500 + more) * 1000;
            let used = Used { at: Time(window * S / 10), all_ns, watching_ns: 0 };
            assert_eq!(spending.note(used, 60, GIB), None, "{window}");
        }
    }
}
