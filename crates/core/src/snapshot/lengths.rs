//! How long windows really took.
//!
//! A window ends late when the monitor is not scheduled in time: it was stopped, or the machine is
//! busy. Ages are counts of windows, so a time that follows from an age needs the real lengths. And
//! a window that took much longer than it should says little about most of its time: nobody looked.

use alloc::collections::VecDeque;
use core::fmt;

use crate::snapshot::Snapshot;
use crate::time::Time;
use crate::units::{show_share, span};

/// The most windows whose lengths are remembered. What is older is taken to be as asked for.
const MOST: usize = 1 << 16;
/// A window is late if it took this many times as long as it should.
const LATE: u64 = 2;
/// Less missing time is never much, in ns.
const LEAST_MISSING_NS: u64 = 1_000_000_000;
/// More of all time missing than this is much, in basis points.
const MUCH_BP: u64 = 2_000;

impl Snapshot {
    /// From when on the window was watched as it should be. That is its start, or if it took at
    /// least twice as long as it should, the aggregation interval before its end.
    #[must_use]
    pub fn watched_from(&self) -> Time {
        let should_ns = self.aggr_us.saturating_mul(1000);
        let took_ns = self.end.since(self.start);
        if should_ns == 0 || took_ns < should_ns.saturating_mul(LATE) {
            return self.start;
        }
        Time(self.end.as_ns().saturating_sub(should_ns))
    }

    /// The part of the window in which nobody looked as often as asked for, in ns. 0 unless it took
    /// at least twice as long as it should.
    #[must_use]
    pub fn missing_ns(&self) -> u64 {
        self.watched_from().since(self.start)
    }
}

/// The lengths of past windows.
#[derive(Debug, Clone, Default)]
pub struct Lengths {
    /// At the begin of the first window and the end of each: the time since the first one by the
    /// attributes, and the real one; in ns.
    ends: VecDeque<(u64, u64)>,
    /// The end of the last window.
    last: Option<Time>,
    aggr_us: u64,
}

impl Lengths {
    /// Takes in a window. Windows come in order.
    pub fn note(&mut self, snapshot: &Snapshot) {
        // What lies between two windows belongs to the later one.
        let since = self.last.filter(|last| *last <= snapshot.end).unwrap_or(snapshot.start);
        let (asked, real) = self.ends.back().copied().unwrap_or_default();
        if self.ends.is_empty() {
            self.ends.push_back((asked, real));
        }
        let asked = asked.saturating_add(snapshot.aggr_us.saturating_mul(1000));
        self.ends.push_back((asked, real.saturating_add(snapshot.end.since(since))));
        if self.ends.len() > MOST {
            self.ends.pop_front();
        }
        (self.last, self.aggr_us) = (Some(snapshot.end), snapshot.aggr_us);
    }

    /// The machine was suspended for `ns` in the last window, which its start and end do not show.
    pub fn suspended(&mut self, ns: u64) {
        if let Some(end) = self.ends.back_mut() {
            end.1 = end.1.saturating_add(ns);
        }
    }

    /// How long the last `windows` windows took, in ns. A change of the aggregation interval
    /// changes ages as well, so they are windows of the present length.
    #[must_use]
    pub fn of_last(&self, windows: u32) -> u64 {
        let asked = u64::from(windows).saturating_mul(self.aggr_us).saturating_mul(1000);
        let Some(&(all_asked, all_real)) = self.ends.back() else { return asked };
        let at = all_asked.saturating_sub(asked);
        let behind = self.nr_until(at, windows);
        // Before the first window that is remembered.
        let begin = self.ends.get(behind.saturating_sub(1)).copied().unwrap_or_default();
        let known = all_real.saturating_sub(begin.1);
        let older = asked.saturating_sub(all_asked.saturating_sub(begin.0));
        let inside = at.saturating_sub(begin.0);
        known.saturating_add(older).saturating_sub(inside)
    }

    /// How many of the remembered ends are at most `at`, which is `windows` windows ago. Their
    /// number says it if the interval was always the same, so a search is rare.
    fn nr_until(&self, at: u64, windows: u32) -> usize {
        let is_until = |nr: usize| self.ends.get(nr).is_some_and(|end| end.0 <= at);
        let windows = usize::try_from(windows).unwrap_or(usize::MAX);
        let guess = self.ends.len().saturating_sub(windows);
        if !is_until(guess) && guess.checked_sub(1).is_none_or(is_until) {
            return guess;
        }
        self.ends.partition_point(|end| end.0 <= at)
    }

    /// The least number of windows that together took at least `ns`.
    #[must_use]
    pub fn windows_in(&self, ns: u64) -> u32 {
        let (mut low, mut high) = (0_u32, u32::MAX);
        while low < high {
            let middle = low.midpoint(high);
            if self.of_last(middle) >= ns {
                high = middle;
            } else {
                low = middle.saturating_add(1);
            }
        }
        low
    }
}

/// How many windows came late, and how much time was not watched because of that.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Late {
    /// All windows.
    pub windows: u64,
    /// Those that took at least twice as long as they should.
    pub late: u64,
    /// The part of the late ones in which nobody looked as often as asked for, in ns.
    pub missing_ns: u64,
    /// The length of all windows, in ns.
    pub all_ns: u64,
    /// For how long the machine was suspended meanwhile, in ns. It is part of the two above.
    pub suspended_ns: u64,
}

impl Late {
    /// Takes in a window.
    pub fn note(&mut self, snapshot: &Snapshot) {
        let missing_ns = snapshot.missing_ns();
        self.windows = self.windows.saturating_add(1);
        self.late = self.late.saturating_add(u64::from(missing_ns > 0));
        self.missing_ns = self.missing_ns.saturating_add(missing_ns);
        self.all_ns = self.all_ns.saturating_add(snapshot.end.since(snapshot.start));
    }

    /// The machine was suspended for `ns` in the last window, which makes it a late one.
    pub fn suspended(&mut self, ns: u64) {
        if ns > 0 {
            self.late = self.late.saturating_add(1).min(self.windows);
            self.missing_ns = self.missing_ns.saturating_add(ns);
            self.all_ns = self.all_ns.saturating_add(ns);
            self.suspended_ns = self.suspended_ns.saturating_add(ns);
        }
    }

    /// Whether a user should be told.
    #[must_use]
    pub const fn is_worth_telling(&self) -> bool {
        self.late > 0 && self.missing_ns >= LEAST_MISSING_NS / 4
    }

    /// Whether so much is missing that the result is only a part of what was asked for: a second
    /// and a fifth of the time.
    #[must_use]
    pub const fn is_much(&self) -> bool {
        self.missing_ns >= LEAST_MISSING_NS && self.missing_bp() > MUCH_BP
    }

    const fn missing_bp(&self) -> u64 {
        let bp = self.missing_ns.saturating_mul(10_000).checked_div(self.all_ns);
        if let Some(bp) = bp { bp } else { 0 }
    }
}

impl fmt::Display for Late {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { windows, late, missing_ns, suspended_ns, .. } = *self;
        #[expect(clippy::cast_precision_loss, reason = "shown with three digits")]
        let [missing, suspended] = [missing_ns, suspended_ns].map(|ns| span(ns as f64));
        write!(
            f,
            "{late} of {windows} windows took at least twice as long as they should, so {missing} ({} of \
             the time) were not watched: ",
            show_share(self.missing_bp()),
        )?;
        if suspended_ns > 0 {
            write!(f, "the machine was suspended for {suspended}")?;
        }
        if suspended_ns == missing_ns {
            return Ok(());
        }
        let or = if suspended_ns > 0 { ", and " } else { "" };
        write!(f, "{or}isotherm was stopped, or the machine was too busy to run it")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    /// A window of 100 ms by the attributes, from and to a time in ms.
    fn window(start: u64, end: u64) -> Snapshot {
        Snapshot {
            start: Time(start * MS),
            end: Time(end * MS),
            aggr_us: 100_000,
            ..Snapshot::default()
        }
    }

    #[test]
    fn an_age_is_as_long_as_its_windows_were() {
        let mut lengths = Lengths::default();
        assert_eq!(lengths.of_last(3), 0, "nothing is known");
        for (start, end) in [(0, 100), (100, 10_100), (10_100, 10_200), (10_200, 10_310)] {
            lengths.note(&window(start, end));
        }
        for (age, ms) in [(0, 0), (1, 110), (2, 210), (3, 10_210), (4, 10_310), (14, 11_310)] {
            assert_eq!(lengths.of_last(age), ms * MS, "{age} windows");
        }
        for (ns, windows) in [(0, 0), (110 * MS, 1), (111 * MS, 2), (10_000 * MS, 3)] {
            assert_eq!(lengths.windows_in(ns), windows, "{ns} ns");
        }
        // The interval is halved, and ages count such windows.
        lengths.note(&Snapshot { aggr_us: 50_000, ..window(10_310, 10_360) });
        for (age, ms) in [(1, 50), (3, 160), (5, 260), (7, 10_260)] {
            assert_eq!(lengths.of_last(age), ms * MS, "{age} short windows");
        }
    }

    #[test]
    fn a_suspend_makes_ages_longer() {
        let mut lengths = Lengths::default();
        for start in [0, 100, 200] {
            lengths.note(&window(start, start + 100));
        }
        lengths.suspended(5_000 * MS);
        lengths.note(&window(300, 400));
        for (age, ms) in [(1, 100), (2, 5_200), (4, 5_400)] {
            assert_eq!(lengths.of_last(age), ms * MS, "{age} windows");
        }
        assert_eq!(lengths.windows_in(5_000 * MS), 2);
    }

    #[test]
    fn many_windows_do_not_cost_memory() {
        let mut lengths = Lengths::default();
        for nr in 0..MOST as u64 + 100 {
            lengths.note(&window(nr * 100, nr * 100 + 100));
        }
        assert_eq!(lengths.ends.len(), MOST);
        let all = u32::try_from(MOST).unwrap() + 1000;
        assert_eq!(lengths.of_last(all), u64::from(all) * 100 * MS);
    }

    #[test]
    fn late_windows_are_counted_and_what_they_miss() {
        let mut late = Late::default();
        for nr in 0..40 {
            late.note(&window(nr * 100, nr * 100 + 130));
        }
        assert_eq!((late.late, late.missing_ns, late.is_worth_telling()), (0, 0, false));
        late.note(&window(4_000, 14_000));
        assert_eq!((late.windows, late.late, late.missing_ns), (41, 1, 9_900 * MS));
        assert!(late.is_worth_telling() && late.is_much());
        let text = alloc::format!("{late}");
        assert!(text.starts_with("1 of 41 windows") && text.contains("not watched"), "{text}");
        // A suspend does not show in the windows' starts and ends.
        late.note(&window(14_000, 14_100));
        late.suspended(0);
        assert_eq!((late.late, late.suspended_ns), (1, 0));
        late.note(&window(14_100, 14_200));
        late.suspended(3_600_000 * MS);
        assert_eq!((late.windows, late.late, late.missing_ns), (43, 2, 3_609_900 * MS));
        let text = alloc::format!("{late}");
        assert!(
            text.contains("suspended for 60.0 min") && text.contains("isotherm was stopped"),
            "{text}"
        );
        let mut only = Late::default();
        only.note(&window(0, 100));
        only.suspended(60_000 * MS);
        assert!(only.is_much() && !alloc::format!("{only}").contains("stopped"), "{only}");
        // A short moment is no reason for an exit code.
        let mut short = Late::default();
        short.note(&window(0, 300));
        assert!(short.late == 1 && !short.is_worth_telling() && !short.is_much());
        assert_eq!(window(0, 300).watched_from(), Time(200 * MS));
        assert_eq!(window(0, 199).watched_from(), Time(0));
    }
}
