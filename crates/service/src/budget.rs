//! Shares the agent's CPU time among all contexts, by need.
//!
//! A context asks for what its policy says. While all together ask for no more than there is,
//! everybody gets that. Else a context that does not use up what it has is taken to need half more
//! than it uses, and what is there is filled in evenly until everybody has what he needs (max-min
//! fairness); what is left over goes to those who asked for more. So a quiet context costs a busy
//! one little, and one that wakes up has its fair part again after two rounds.
//!
//! A budget is a request to the method of sampling. A context that uses far more than that for a
//! while is slowed: its intervals are doubled, up to eight times as long. They are halved again
//! when it has used so little for two minutes that twice as much would be within bounds.
//!
//! Many that are each within these bounds can still take more together than there is for all. Then
//! whatever uses more than it was given is slowed, until all together keep the total and half a
//! percent of a CPU. They are not made faster again while that would exceed it.

use std::collections::BTreeMap;
use std::time::Instant;

/// The least that a context gets, in basis points: with less nothing could be seen.
const LEAST_BP: u32 = 5;
/// A context that uses more than this share of what it has, in percent, needs more.
const FULL: u32 = 80;
/// A context is too costly above twice its budget and half a percent of a CPU, or its even part of
/// the total if that is less: many that are each a little too costly are so together.
const SLACK_BP: u32 = 50;
/// All together are too costly above the total and this share of a CPU, in basis points. The agent
/// itself has as much besides, so that it is no more than one percent.
const TOTAL_SLACK_BP: u32 = 50;
/// After so many rounds of being too costly it is slowed.
const PATIENCE: u32 = 3;
/// After so many rounds in which twice of what it uses is not too costly, it is slowed less.
const CALM: u32 = 24;
/// The most times that intervals are doubled.
const MOST_SLOW: u32 = 3;

/// What a context asked for, has, and uses, in basis points of one CPU.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Need {
    pub(crate) asked_bp: u32,
    pub(crate) granted_bp: u32,
    pub(crate) used_bp: u32,
}

impl Need {
    /// Of a context that is new it is not known what it uses.
    const fn is_known(&self) -> bool {
        self.used_bp != u32::MAX
    }

    fn wants(&self) -> u32 {
        let is_full = self.used_bp.saturating_mul(100) >= self.granted_bp.saturating_mul(FULL);
        let more = if is_full { u32::MAX } else { self.used_bp.saturating_mul(3) / 2 };
        more.clamp(LEAST_BP, self.asked_bp.max(LEAST_BP))
    }
}

/// Shares `total_bp`. Everybody gets at least the least, also if that is more than there is.
pub(crate) fn share(total_bp: u32, needs: &[Need]) -> Vec<u32> {
    let asked: Vec<u32> = needs.iter().map(|need| need.asked_bp.max(LEAST_BP)).collect();
    if asked.iter().map(|bp| u64::from(*bp)).sum::<u64>() <= u64::from(total_bp) {
        return asked;
    }
    let mut granted = vec![0; needs.len()];
    let wanted: Vec<u32> = needs.iter().map(Need::wants).collect();
    let left = fill(total_bp, &wanted, &mut granted);
    fill(left, &asked, &mut granted);
    granted.iter().map(|bp| (*bp).max(LEAST_BP)).collect()
}

/// Raises everybody evenly up to these limits, as far as there is something left. Returns what is
/// left then.
fn fill(mut left: u32, limits: &[u32], granted: &mut [u32]) -> u32 {
    loop {
        let open = |(limit, has): &(&u32, &u32)| has < limit;
        let nr =
            u32::try_from(limits.iter().zip(&*granted).filter(open).count()).unwrap_or(u32::MAX);
        let each = left.checked_div(nr).unwrap_or(0);
        if each == 0 {
            return left;
        }
        for (limit, has) in limits.iter().zip(&mut *granted) {
            let more = limit.saturating_sub(*has).min(each);
            *has += more;
            left -= more;
        }
    }
}

/// What a context may use from now on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Limit {
    pub(crate) budget_bp: u32,
    /// How many times its intervals are doubled.
    pub(crate) slow: u32,
}

/// A context as it is now.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Seen {
    pub(crate) asked_bp: u32,
    pub(crate) cpu_ns: u64,
}

/// The name of a policy, and that of its context.
pub(crate) type Name = (String, String);

#[derive(Debug, Clone, Copy)]
struct Known {
    cpu_ns: u64,
    at: Instant,
    limit: Limit,
    /// Rounds in a row in which it was too costly, and in which it could have been faster.
    costly: u32,
    calm: u32,
}

/// What is known of all contexts from the rounds before.
#[derive(Debug, Default)]
pub(crate) struct Balance {
    known: BTreeMap<Name, Known>,
}

impl Balance {
    /// One round. Returns the limits that have changed.
    pub(crate) fn round(
        &mut self,
        total_bp: u32,
        now: Instant,
        seen: &BTreeMap<Name, Seen>,
    ) -> BTreeMap<Name, Limit> {
        self.known.retain(|name, _| seen.contains_key(name));
        let mut needs = Vec::new();
        for (name, seen) in seen {
            let first = Known {
                cpu_ns: seen.cpu_ns,
                at: now,
                limit: Limit { budget_bp: seen.asked_bp, slow: 0 },
                costly: 0,
                calm: 0,
            };
            let known = self.known.entry(name.clone()).or_insert(first);
            let ns = u64::try_from(now.duration_since(known.at).as_nanos()).unwrap_or(u64::MAX);
            let cpu_ns = seen.cpu_ns.saturating_sub(known.cpu_ns);
            // A context that is new is taken to need all.
            // Rounded to the nearest, since the parts of many contexts are added.
            let used = cpu_ns.saturating_mul(10_000).saturating_add(ns / 2).checked_div(ns);
            let used_bp = used.map_or(u32::MAX, |bp| u32::try_from(bp).unwrap_or(u32::MAX));
            (known.cpu_ns, known.at) = (seen.cpu_ns, now);
            needs.push(Need {
                asked_bp: seen.asked_bp,
                granted_bp: known.limit.budget_bp,
                used_bp,
            });
        }
        let shares = share(total_bp, &needs);
        let even = u32::try_from(seen.len()).ok().and_then(|nr| total_bp.checked_div(nr));
        let bounds = Bounds {
            slack: SLACK_BP.min(even.unwrap_or(0)),
            total: self.total(total_bp.saturating_add(TOTAL_SLACK_BP), &needs),
        };
        let mut changed = BTreeMap::new();
        for (((name, known), need), budget_bp) in self.known.iter_mut().zip(&needs).zip(shares) {
            let slow = known.slow(need, bounds);
            let before = known.limit;
            // A change of less than a fifth is not worth a commit.
            let differs = budget_bp.abs_diff(before.budget_bp) * 5 > before.budget_bp;
            if differs || slow != before.slow {
                known.limit = Limit { budget_bp, slow };
                changed.insert(name.clone(), known.limit);
            }
        }
        changed
    }

    /// Whether all together keep `most`, and would keep it if those that are slowed were faster.
    fn total(&self, most: u32, needs: &[Need]) -> Total {
        let known = self.known.values().zip(needs).filter(|(_, need)| need.is_known());
        let (mut used, mut faster) = (0_u32, 0_u32);
        for (known, need) in known {
            used = used.saturating_add(need.used_bp);
            let times = if known.limit.slow > 0 { 2 } else { 1 };
            faster = faster.saturating_add(need.used_bp.saturating_mul(times));
        }
        match (used > most, faster > most) {
            (true, _) => Total::Exceeded,
            (false, true) => Total::Full,
            (false, false) => Total::Free,
        }
    }
}

/// How the use of all contexts compares with the total.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Total {
    /// There is room for those that are slowed to be faster.
    Free,
    /// There is none.
    Full,
    Exceeded,
}

/// What makes a context too costly.
#[derive(Debug, Clone, Copy)]
struct Bounds {
    slack: u32,
    total: Total,
}

impl Known {
    /// How many times the intervals are to be doubled from now on.
    fn slow(&mut self, need: &Need, bounds: Bounds) -> u32 {
        let most =
            need.granted_bp.saturating_mul(2).max(need.granted_bp.saturating_add(bounds.slack));
        let counted = |holds: bool, before: u32| if holds { before + 1 } else { 0 };
        let is_most = bounds.total == Total::Exceeded && need.used_bp > need.granted_bp;
        let is_costly = need.used_bp > most || is_most;
        let is_calm = need.used_bp.saturating_mul(2) <= most && bounds.total == Total::Free;
        self.costly = counted(need.is_known() && is_costly, self.costly);
        self.calm = counted(need.is_known() && is_calm, self.calm);
        if self.costly >= PATIENCE {
            self.costly = 0;
            return (self.limit.slow + 1).min(MOST_SLOW);
        }
        if self.calm >= CALM {
            self.calm = 0;
            return self.limit.slow.saturating_sub(1);
        }
        self.limit.slow
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use proptest::prelude::*;

    use super::*;

    fn need(asked_bp: u32, granted_bp: u32, used_bp: u32) -> Need {
        Need { asked_bp, granted_bp, used_bp }
    }

    #[test]
    fn shares_follow_need() {
        for (total, needs, shares) in [
            // Enough for all.
            (300, vec![need(100, 100, 0), need(200, 200, 200)], vec![100, 200]),
            // All want all they asked for: the same for all.
            (100, vec![need(100, 50, 50), need(100, 50, 50)], vec![50, 50]),
            // One is quiet: what it does not need goes to the other.
            (100, vec![need(100, 50, 10), need(100, 50, 50)], vec![15, 85]),
            // What nobody needs is left to those who asked for it.
            (100, vec![need(100, 50, 10), need(100, 50, 10)], vec![50, 50]),
            // A small one has all it asked for.
            (100, vec![need(10, 10, 10), need(500, 50, 50)], vec![10, 90]),
            (100, vec![], vec![]),
            (3, vec![need(100, 1, 1), need(100, 1, 1)], vec![LEAST_BP, LEAST_BP]),
        ] {
            assert_eq!(share(total, &needs), shares, "{total} {needs:?}");
        }
    }

    proptest! {
        #[test]
        fn nobody_gets_more_than_asked_and_all_no_more_than_there_is(
            total in 1_u32..5000,
            needs in prop::collection::vec((0_u32..10_000, 0_u32..10_000, 0_u32..20_000), 0..60),
        ) {
            let needs: Vec<Need> = needs.into_iter().map(|(a, g, u)| need(a, g, u)).collect();
            let shares = share(total, &needs);
            prop_assert_eq!(shares.len(), needs.len());
            for (share, need) in shares.iter().zip(&needs) {
                prop_assert!(*share >= LEAST_BP && *share <= need.asked_bp.max(LEAST_BP));
            }
            let least = LEAST_BP * u32::try_from(needs.len()).unwrap();
            prop_assert!(shares.iter().sum::<u32>() <= total.max(least) + least);
        }
    }

    #[test]
    fn what_uses_far_too_much_is_slowed_for_a_while() {
        let mut balance = Balance::default();
        let name = ("p".to_owned(), "c".to_owned());
        let (mut now, mut cpu_ns) = (Instant::now(), 0);
        let mut slow = Vec::new();
        // A tenth of a CPU, of which it may use a hundredth; then nearly nothing.
        for (rounds, used_ns) in [(14, 1_000_000_000), (80, 1_000_000), (14, 120_000_000)] {
            for _ in 0..rounds {
                let seen = BTreeMap::from([(name.clone(), Seen { asked_bp: 100, cpu_ns })]);
                let changed = balance.round(500, now, &seen);
                slow.extend(changed.get(&name).map(|limit| limit.slow));
                now += Duration::from_secs(10);
                cpu_ns += used_ns;
            }
        }
        assert_eq!(slow, [1, 2, 3, 2, 1, 0]);
    }

    /// Fifty contexts that may use 5 % of a CPU together. Each uses so much of it, in basis points,
    /// and half as much whenever its intervals are doubled. Returns how many were slowed once more
    /// and how many once less.
    fn fifty(used_bp: u64, rounds: usize) -> (usize, usize) {
        let mut balance = Balance::default();
        let mut now = Instant::now();
        let mut contexts: BTreeMap<Name, (u64, u32)> =
            (0..50).map(|nr: u32| (("p".to_owned(), nr.to_string()), (0, 0))).collect();
        let (mut slowed, mut hastened) = (0, 0);
        for _ in 0..rounds {
            let seen = contexts
                .iter()
                .map(|(name, (cpu_ns, _))| (name.clone(), Seen { asked_bp: 100, cpu_ns: *cpu_ns }));
            for (name, limit) in balance.round(500, now, &seen.collect()) {
                let slow = &mut contexts.get_mut(&name).unwrap().1;
                slowed += usize::from(limit.slow > *slow);
                hastened += usize::from(limit.slow < *slow);
                *slow = limit.slow;
            }
            now += Duration::from_secs(5);
            for (cpu_ns, slow) in contexts.values_mut() {
                *cpu_ns += (used_bp * 500_000) >> *slow;
            }
        }
        (slowed, hastened)
    }

    #[test]
    fn many_that_are_each_a_little_too_costly_are_slowed_and_stay_so() {
        for (used_bp, expected) in [
            // Each a quarter of a percent: two and a half times as much as all may use, and still
            // too much when slowed once.
            (25, (100, 0)),
            // Each within its own bounds of twice its tenth of a percent, but not all together.
            (17, (50, 0)),
            // All together 5.5 %: within the total and half a percent.
            (11, (0, 0)),
        ] {
            assert_eq!(fifty(used_bp, 100), expected, "{used_bp}");
        }
    }
}
