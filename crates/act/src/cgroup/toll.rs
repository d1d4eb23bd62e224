//! What it costs a cgroup that memory is taken from it, and how much may be taken for that.
//!
//! Two things show that too much was taken: tasks wait for memory (`memory.pressure`), and pages
//! that were taken come back (`workingset_refault_*` of `memory.stat`). Both are compared with a
//! limit about once a second. Within the limits the share of the cold memory that may be asked for
//! grows by a quarter; beyond them it is halved, and far beyond them nothing is asked for until the
//! next look.
//!
//! ```text
//! share = 10 % -> 12.5 % -> ... -> 100 %      within both limits
//!         x 1/2                               one of them exceeded
//!         0 until the next look               exceeded four times over
//! ```
//!
//! This is by cgroup. The goals and the brake of a scheme are about all of its targets together.

use std::fs;
use std::path::Path;

use isotherm_core::Time;
use isotherm_host::metrics::refaulted;

/// What a cgroup may pay for memory that is taken from it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Toll {
    /// Time in which some task waits for memory, in µs per second; 0 is no limit.
    pub pressure_us_per_s: u64,
    /// Memory that comes back, as a share of what was taken, in basis points; 0 is no limit.
    pub refaults_bp: u32,
}

impl Default for Toll {
    /// A task waits for 1 ms per second, 2 % come back.
    fn default() -> Self {
        Self { pressure_us_per_s: 1_000, refaults_bp: 200 }
    }
}

/// Costs are looked at no more often, in ns. The kernel adds up pressure every 2 s.
const EVERY_NS: u64 = 2_000_000_000;
/// The share of the cold memory that is asked for at first, in basis points.
const FIRST_BP: u64 = 1_000;
/// The least that it is halved to.
const LEAST_BP: u64 = 50;
/// All of it.
const ALL_BP: u64 = 10_000;
/// So many times over a limit is far beyond it.
const FAR: u64 = 4;
/// Of fewer bytes taken no rate of refaults is known.
const ENOUGH: u64 = 1 << 20;

/// What a cgroup's files say of costs. All are totals since its making.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Costs {
    /// Time in which some task waited, in µs; none where the kernel has no pressure.
    pub(super) stalled_us: Option<u64>,
    /// Bytes that came back.
    pub(super) refaulted: Option<u64>,
}

impl Costs {
    /// Of the cgroup at `dir`.
    pub(super) fn read(dir: &Path) -> Self {
        let text = |file: &str| fs::read_to_string(dir.join(file)).ok();
        let stalled_us = text("memory.pressure").and_then(|text| {
            let line = text.lines().find_map(|line| line.strip_prefix("some "))?;
            line.split(' ').find_map(|word| word.strip_prefix("total="))?.trim().parse().ok()
        });
        let refaulted = text("memory.stat").and_then(|text| refaulted(&text));
        Self { stalled_us, refaulted }
    }
}

/// How much may be taken from one cgroup now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Ration {
    share_bp: u64,
    /// Far beyond a limit: nothing is asked for until the next look.
    is_over: bool,
    last: Option<(Time, Costs)>,
    /// Bytes taken and come back, each halved at every look.
    taken: u64,
    back: u64,
    pub(super) used: Time,
}

impl Default for Ration {
    fn default() -> Self {
        let used = Time::default();
        Self { share_bp: FIRST_BP, is_over: false, last: None, taken: 0, back: 0, used }
    }
}

impl Ration {
    /// Whether the costs are to be read.
    pub(super) fn is_due(&self, now: Time) -> bool {
        self.last.is_none_or(|(at, _)| now.since(at) >= EVERY_NS)
    }

    /// Takes in what was taken.
    pub(super) const fn took(&mut self, bytes: u64) {
        self.taken = self.taken.saturating_add(bytes);
    }

    /// Takes in the costs.
    pub(super) fn look(&mut self, now: Time, costs: Costs, toll: Toll) {
        let Some((at, before)) = self.last.replace((now, costs)) else { return };
        let ns = now.since(at).max(1);
        let grown = |now: Option<u64>, before: Option<u64>| Some(now?.saturating_sub(before?));
        self.back = self.back.saturating_add(grown(costs.refaulted, before.refaulted).unwrap_or(0));
        let stalled = grown(costs.stalled_us, before.stalled_us).unwrap_or(0);
        let stalled = u128::from(stalled) * 1_000_000_000 / u128::from(ns);
        let stalled = u64::try_from(stalled).unwrap_or(u64::MAX);
        let refaults_bp = match self.taken {
            // What comes back without that we took it is not ours.
            taken if taken < ENOUGH => 0,
            taken => self.back.saturating_mul(10_000) / taken,
        };
        // Without a limit nothing is ever too much.
        let times = |value: u64, limit| value.saturating_mul(100).checked_div(limit).unwrap_or(0);
        let worst = times(stalled, toll.pressure_us_per_s)
            .max(times(refaults_bp, u64::from(toll.refaults_bp)));
        self.is_over = worst > FAR * 100;
        self.share_bp = if worst > 100 {
            (self.share_bp / 2).max(LEAST_BP)
        } else {
            (self.share_bp + self.share_bp.div_ceil(4)).min(ALL_BP)
        };
        self.taken /= 2;
        self.back /= 2;
    }

    /// How much of so much cold memory may be asked for now, in bytes.
    pub(super) fn of(&self, cold: u64) -> u64 {
        if self.is_over {
            return 0;
        }
        let share = u128::from(cold) * u128::from(self.share_bp) / u128::from(ALL_BP);
        // At least some, so that small cgroups are not forgotten.
        u64::try_from(share).unwrap_or(u64::MAX).max(64 << 10).min(cold)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const G: u64 = 1 << 30;

    /// The shares, in percent, after looks with so much (stalled µs, bytes back), while
    /// 100 MiB are taken before each.
    fn shares(looks: &[(u64, u64)]) -> Vec<u64> {
        let (mut ration, mut total) = (Ration::default(), Costs::default());
        (total.stalled_us, total.refaulted) = (Some(0), Some(0));
        ration.look(Time(0), total, Toll::default());
        let mut out = Vec::new();
        for (nr, (stalled, back)) in looks.iter().enumerate() {
            ration.took(100 << 20);
            total.stalled_us = total.stalled_us.map(|us| us + stalled);
            total.refaulted = total.refaulted.map(|bytes| bytes + back);
            let at = Time((nr as u64 + 1) * EVERY_NS);
            assert!(ration.is_due(at) && !ration.is_due(Time(at.as_ns() - EVERY_NS)));
            ration.look(at, total, Toll::default());
            out.push(if ration.of(G) == 0 { 0 } else { ration.share_bp / 100 });
        }
        out
    }

    #[test]
    fn what_costs_nothing_is_taken_faster_and_what_costs_is_taken_slower() {
        assert_eq!(Ration::default().of(G), G / 10, "a tenth at first");
        assert_eq!(shares(&[(0, 0); 12])[11], 100);
        assert_eq!(shares(&[(0, 0), (0, 0), (0, 0)]), [12, 15, 19]);
        // 2.5 ms/s of pressure is over the limit of 1 ms/s.
        assert_eq!(shares(&[(0, 0), (5_000, 0), (0, 0)]), [12, 6, 7]);
        // 3 MiB of 100 MiB are over the limit of 2 %.
        assert_eq!(shares(&[(0, 3 << 20), (0, 0)]), [5, 6]);
        // 10 ms/s are far over it: nothing for now, and slowly again then.
        assert_eq!(shares(&[(20_000, 0), (0, 0)]), [0, 6]);
        assert_eq!(shares(&[(3_000, 0); 20])[19], 0, "never below half a percent");
    }

    #[test]
    fn limits_can_be_off_and_files_missing() {
        let mut ration = Ration::default();
        let none = Toll { pressure_us_per_s: 0, refaults_bp: 0 };
        for s in 0..3 {
            let costs = Costs { stalled_us: Some(s * 9_000_000), refaulted: Some(s * G) };
            ration.took(G);
            ration.look(Time(s * EVERY_NS), costs, none);
        }
        assert!(ration.of(G) > G / 8);
        let mut unknown = Ration::default();
        for s in 0..3 {
            unknown.took(G);
            unknown.look(Time(s * EVERY_NS), Costs::default(), Toll::default());
        }
        assert!(unknown.of(G) > G / 8, "what is not known does not count");
        assert_eq!(Ration::default().of(4096), 4096, "never more than is cold");
    }

    #[test]
    fn costs_are_read_from_old_and_new_kernels() {
        let dir = tempfile::tempdir().unwrap();
        assert_eq!(Costs::read(dir.path()), Costs::default());
        let put = |file: &str, text: &str| fs::write(dir.path().join(file), text).unwrap();
        put("memory.pressure", "some avg10=0.00 avg60=0.00 avg300=0.00 total=31\nfull total=7\n");
        put("memory.stat", "anon 5\nworkingset_refault_anon 2\nworkingset_refault_file 3\n");
        assert_eq!(
            Costs::read(dir.path()),
            Costs { stalled_us: Some(31), refaulted: Some(5 << 12) }
        );
        put("memory.stat", "workingset_refault 4\n");
        assert_eq!(Costs::read(dir.path()).refaulted, Some(4 << 12));
    }
}
