//! Keeps the whole program within its budget of CPU time.
//!
//! The census keeps to a budget of its own, but the rest costs, too: listing processes, following
//! hundreds of targets, drawing the screen. And at the beginning the census is lent what it costs
//! to see all memory once. So what the program has used is compared with what it may use, and the
//! census gets what is left over: at least a fifth, or nothing would be seen any more.

use std::collections::VecDeque;

/// How often the census' share is set anew, in ns.
const EVERY_NS: u64 = 5_000_000_000;
/// At the beginning nothing is taken away for so long, in ns: all memory is to be seen once. What
/// that costs is given back afterwards.
const GRACE_NS: u64 = 20_000_000_000;
/// What was used too much is given back within this time, in ns.
const BACK_NS: u64 = 60_000_000_000;
/// Of how long the present use is told, in ns.
const LATELY_NS: u64 = 10_000_000_000;

/// The program's account.
#[derive(Debug, Default)]
pub(crate) struct Pace {
    budget_bp: u64,
    census_bp: u64,
    /// The time and the CPU time at the beginning, and at the last changes, in ns.
    begin: Option<(u64, u64)>,
    set: (u64, u64),
    marks: VecDeque<(u64, u64)>,
}

impl Pace {
    pub(crate) const fn new(budget_bp: u64) -> Self {
        let marks = VecDeque::new();
        Self { budget_bp, census_bp: budget_bp, begin: None, set: (0, 0), marks }
    }

    /// Takes in the time and the CPU time that was used until now. Returns the share of the census
    /// if it is to be another one.
    pub(crate) fn tick(&mut self, now_ns: u64, cpu_ns: u64) -> Option<u64> {
        let begin = *self.begin.get_or_insert((now_ns, cpu_ns));
        if self.set == (0, 0) {
            self.set = begin;
        }
        self.marks.push_back((now_ns, cpu_ns));
        while self.marks.len() > 2 && now_ns.saturating_sub(self.marks[0].0) > LATELY_NS {
            self.marks.pop_front();
        }
        if now_ns.saturating_sub(begin.0) < GRACE_NS {
            self.set = (now_ns, cpu_ns);
            return None;
        }
        let (elapsed, used) =
            (now_ns.saturating_sub(self.set.0), cpu_ns.saturating_sub(self.set.1));
        if elapsed < EVERY_NS {
            return None;
        }
        self.set = (now_ns, cpu_ns);
        let used_bp = share(used, elapsed);
        // What was used too much since the beginning is given back slowly.
        let may = u128::from(now_ns.saturating_sub(begin.0)) * u128::from(self.budget_bp) / 10_000;
        let debt = u128::from(cpu_ns.saturating_sub(begin.1)).saturating_sub(may);
        let back_bp = share(u64::try_from(debt).unwrap_or(u64::MAX), BACK_NS);
        let wanted = self.budget_bp.saturating_sub(back_bp.min(self.budget_bp / 2));
        let now = self.census_bp;
        // A step of half of the difference does not swing.
        let next = if used_bp > wanted {
            now.saturating_sub((used_bp - wanted).div_ceil(2))
        } else {
            now + (wanted - used_bp) / 2
        };
        let next = next.clamp(self.budget_bp.div_ceil(5).max(1), self.budget_bp.max(1));
        (next != now).then(|| {
            self.census_bp = next;
            next
        })
    }

    /// The share of a CPU that was used lately, in hundredths of a percent.
    pub(crate) fn lately_bp(&self) -> Option<u64> {
        let (first, last) = (self.marks.front()?, self.marks.back()?);
        (last.0 > first.0).then(|| share(last.1 - first.1, last.0 - first.0))
    }

    /// The same since the beginning of the program, whose CPU time began at 0.
    pub(crate) fn mean_bp(&self) -> Option<u64> {
        let (first, last) = (self.begin?, self.marks.back()?);
        (last.0 > first.0).then(|| share(last.1, last.0 - first.0))
    }
}

fn share(part_ns: u64, whole_ns: u64) -> u64 {
    let share = u128::from(part_ns) * 10_000 / u128::from(whole_ns.max(1));
    u64::try_from(share).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Runs for a minute with what `rest` and the census use; the mean use in the last ten seconds,
    /// and the census' share.
    fn minute(rest_bp: u64, advance_ns: u64) -> (u64, u64) {
        let mut pace = Pace::new(100);
        let (mut cpu, mut census) = (0, 100);
        for s in 0..120_u64 {
            cpu += (rest_bp + census) * 100_000 + if s < 5 { advance_ns / 5 } else { 0 };
            if let Some(next) = pace.tick(s * 1_000_000_000, cpu) {
                census = next;
            }
        }
        (pace.lately_bp().unwrap(), census)
    }

    #[test]
    fn the_census_gets_what_the_rest_leaves() {
        let (used, census) = minute(40, 0);
        assert!((90..=105).contains(&used), "{used}");
        assert!((50..=65).contains(&census), "{census}");
    }

    #[test]
    fn what_was_advanced_is_given_back() {
        let (used, _) = minute(20, 300_000_000);
        assert!(used < 100, "{used}");
    }

    #[test]
    fn a_fifth_is_left_to_see_by() {
        assert_eq!(minute(300, 0).1, 20);
    }

    #[test]
    fn who_uses_little_keeps_all() {
        assert_eq!(minute(0, 0).1, 100);
    }
}
