//! How often others clear accessed bits here: the kernel's reclaim and DAMON, other monitors.
//!
//! A few MiB of private memory of our own are touched and then only looked at. A page that was
//! young at one look and is not at the next one was cleared by somebody else, and is touched again.
//!
//! ```text
//! touch all -> look: young   -> look: still young -> ...
//!                               look: old         -> counted, touched again -> look: young -> ...
//! ```
//!
//! A page counts from the look that saw it young. Those who clear need not flush the TLB, so the
//! touch after a clear may leave no mark at first. Such a page is touched at every look until it is
//! young, and is not counted meanwhile. What is counted fades, so that the rate follows changes
//! within some minutes.
//!
//! One set per process has the memory. Others in the same process take over what it counts, since
//! it is the same for all of them: an agent with many sets would have as many times 4 MiB.
//!
//! What it cannot see: clears that are not spread over all memory. The ageing of MGLRU and reclaim
//! in the memory cgroup of a target leave the memory of this process alone; `pressure` notices them
//! by their counters. A monitor that watches only the target is not seen, either. The kernel's
//! DAMON samples a page per region, so pages in small regions are cleared more often than these.

use std::sync::{Mutex, MutexGuard, PoisonError};

use isotherm_core::{ClearRate, PageBits, TargetId, Time};
use isotherm_pages::tables::{Dense, PageKey, PageTables};
use isotherm_sys::workload::{Arena, HugePages, Sweep, Touch};

/// Where the memory is: below the places that the kernel chooses, and above those of programs and
/// their heaps.
const BASE: u64 = 0x1500_0000_0000;
/// Units of 2 MiB. In 4 MiB a clear per page and hour shows within seconds to minutes.
const UNITS: usize = 2;
const UNIT: u64 = isotherm_core::unit::UNIT;
const PAGE: u64 = isotherm_core::addr::PAGE_SIZE;
/// The shortest time between two looks, in ns.
const REST_NS: u64 = 900_000_000;
/// What was counted fades to a third in this time, in ns.
const MEMORY_NS: f64 = 120e9;
/// The name under which our own process is looked at. No target ever gets it: they are numbered
/// from 0.
const SELF: TargetId = TargetId(u32::MAX);
/// The standard normal's 95 % point: a two-sided interval of 90 %.
const Z90: f64 = 1.644_854;

/// When the set that has the memory has not told a rate for so long, another one begins, in ns.
const STALE_NS: u64 = 30_000_000_000;

/// What the set that has the memory tells the others in this process.
#[derive(Debug)]
struct Told {
    /// The number of the canary that has the memory.
    by: Option<u64>,
    /// The number of the last canary that got one.
    last: u64,
    at: Time,
    rate: ClearRate,
}

static TOLD: Mutex<Told> = Mutex::new(Told {
    by: None,
    last: 0,
    at: Time(0),
    rate: ClearRate { mean: 0.0, lo: 0.0, hi: 0.0 },
});

fn told() -> MutexGuard<'static, Told> {
    TOLD.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The memory, and what was counted on it.
#[derive(Debug, Default)]
pub(super) struct Canary {
    /// Distinguishes it from the others in this process, once it has the memory; 0 before.
    number: u64,
    /// From the first question on.
    arena: Option<Arena>,
    is_off: bool,
    /// Pages that the last look saw young.
    young: [PageBits; UNITS],
    looked: Time,
    counts: Counts,
}

impl Canary {
    /// The rate as far as it is known. The first question maps the memory. Later ones look at it,
    /// about once a second. All is 0 if it cannot be had or looked at.
    pub(super) fn rate(&mut self, tables: &mut PageTables, now: Time) -> ClearRate {
        if self.is_off {
            return ClearRate::default();
        }
        if self.arena.is_none() {
            let mut told = told();
            if told.by.is_some() && now.since(told.at) < STALE_NS {
                return told.rate;
            }
            self.arena = map(tables);
            (self.is_off, self.looked) = (self.arena.is_none(), now);
            if !self.is_off {
                self.number = told.last + 1;
                (told.by, told.last, told.at) = (Some(self.number), self.number, now);
            }
        } else if now.since(self.looked) >= REST_NS {
            self.look(tables, now);
        }
        let rate = self.counts.rate();
        let mut told = told();
        if told.by == Some(self.number) {
            (told.at, told.rate) = (now, rate);
        }
        rate
    }

    /// Lets another set of this process have the memory.
    fn resign(&self) {
        let mut told = told();
        if told.by == Some(self.number) {
            told.by = None;
        }
    }

    /// Gives it up, for good: the set itself makes the memory of this process old.
    pub(super) fn switch_off(&mut self, tables: &mut PageTables) {
        self.resign();
        tables.remove_target(SELF);
        if let Some(mut arena) = self.arena.take() {
            unmap(&mut arena);
        }
        self.is_off = true;
    }

    /// Counts what was cleared since the last look, and touches it.
    fn look(&mut self, tables: &mut PageTables, now: Time) {
        let Some(arena) = &self.arena else { return };
        let elapsed = now.since(self.looked);
        let young = young(tables, arena.range().start).unwrap_or_default();
        for (before, after) in self.young.iter().zip(&young) {
            let cleared = before.minus(*after).count();
            self.counts.add(before.count() - cleared, cleared, elapsed);
        }
        self.counts.fade(elapsed);
        for (nr, young) in (0..).zip(&young) {
            PageBits::ALL.minus(*young).runs(|first, behind| touch(arena, nr, first, behind));
        }
        (self.young, self.looked) = (young, now);
    }
}

impl Drop for Canary {
    fn drop(&mut self) {
        self.resign();
        self.arena.as_mut().into_iter().for_each(unmap);
    }
}

/// Maps the memory and touches it, and makes it known to `tables`.
fn map(tables: &mut PageTables) -> Option<Arena> {
    let size = UNITS as u64 * UNIT;
    // Two sets in one process, as in tests, have their memory apart.
    let mut arena = (0..64).find_map(|nr| {
        let mut arena = Arena::new(BASE + nr * 2 * size, size, HugePages::No);
        arena.resize(size).ok().map(|()| arena)
    })?;
    if tables.add_target(SELF, std::process::id()).is_err() {
        unmap(&mut arena);
        return None;
    }
    arena.populate(0);
    Some(arena)
}

/// Unmaps the memory. Where that fails it stays until the process ends.
fn unmap(arena: &mut Arena) {
    arena.resize(0).ok();
}

/// Touches pages of a unit.
fn touch(arena: &Arena, unit: u64, first: u64, behind: u64) {
    let (start, touches) = (unit * UNIT + first * PAGE, behind - first);
    let sweep = Sweep { start, stride: PAGE, touches, first: 0, n: touches };
    arena.touch_sweep(sweep, Touch::Read);
}

/// The pages from `start` on that are young now. `None` if that could not be seen. All are small.
fn young(tables: &mut PageTables, start: u64) -> Option<[PageBits; UNITS]> {
    let slot = tables.slot(SELF)?;
    let mut places = [(PageKey::new(slot, start), 0); UNITS];
    for (nr, place) in (0_u32..).zip(&mut places) {
        *place = (PageKey::new(slot, start + u64::from(nr) * UNIT), nr);
    }
    let mut young = [PageBits::default(); UNITS];
    let looked = tables.tables_at(&places, &mut |nr, found| {
        if let Dense::Table(table) = found {
            young[nr as usize] = PageBits(table.young());
        }
    });
    looked.is_ok().then_some(young)
}

/// Counts of the looks so far, each worth less the longer it is ago.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
struct Counts {
    /// Pages that were cleared.
    cleared: f64,
    /// The same, with the squares of their weights: the variance of `cleared`.
    variance: f64,
    /// Time in which they could have been, in pages and seconds.
    page_s: f64,
}

impl Counts {
    /// After `ns`, so many pages were young still and so many were not any more. Those were
    /// cleared in the middle of that time, on average.
    fn add(&mut self, kept: u64, cleared: u64, ns: u64) {
        self.cleared += float(cleared);
        self.variance += float(cleared);
        self.page_s += (float(kept) + float(cleared) / 2.0) * float(ns) / 1e9;
    }

    /// A time of `ns` has passed.
    fn fade(&mut self, ns: u64) {
        let weight = (-float(ns) / MEMORY_NS).exp();
        self.cleared *= weight;
        self.variance *= weight * weight;
        self.page_s *= weight;
    }

    /// The rate with its 90 % interval: that of a Poisson distribution (E. B. Wilson and M. M.
    /// Hilferty, "The Distribution of Chi-Square", PNAS 17, 1931) for as many clears as tell as
    /// much as these weighted ones.
    fn rate(&self) -> ClearRate {
        if self.page_s <= 0.0 {
            return ClearRate::default();
        }
        let nr =
            if self.variance > 0.0 { self.cleared * self.cleared / self.variance } else { 0.0 };
        // Pages and seconds per clear that counts whole.
        let page_s = if nr > 0.0 { self.page_s * nr / self.cleared } else { self.page_s };
        let bound = |n: f64, z: f64| {
            let root = 1.0 - 1.0 / (9.0 * n) + z / (3.0 * n.sqrt());
            n * root.max(0.0).powi(3)
        };
        let lo = if nr > 0.0 { bound(nr, -Z90) } else { 0.0 };
        ClearRate { mean: nr / page_s, lo: lo / page_s, hi: bound(nr + 1.0, Z90) / page_s }
    }
}

#[expect(clippy::cast_precision_loss, reason = "pages and times of minutes")]
const fn float(n: u64) -> f64 {
    n as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: u64 = 1_000_000_000;

    #[test]
    fn rates_have_poisson_intervals() {
        assert_eq!(Counts::default().rate(), ClearRate::default(), "never looked");
        // (clears in 1000 pages and seconds, the exact 90 % interval per 1000)
        for (cleared, lo, hi) in [(0, 0.0, 2.996), (1, 0.051, 4.744), (10, 5.425, 16.962)] {
            let counts = Counts { cleared: float(cleared), variance: float(cleared), page_s: 1e3 };
            let rate = counts.rate();
            let got = [rate.mean, rate.lo, rate.hi].map(|rate| rate * 1e3);
            let near = |got: f64, want: f64| (got - want).abs() < 0.03 + 0.01 * want;
            let all = near(got[0], float(cleared)) && near(got[1], lo) && near(got[2], hi);
            assert!(all, "{cleared}: {got:?}");
        }
    }

    #[test]
    fn what_is_long_ago_counts_less() {
        let run = |seconds, cleared, counts: &mut Counts| {
            for _ in 0..seconds {
                counts.add(1000 - cleared, cleared, SECOND);
                counts.fade(SECOND);
            }
            counts.rate()
        };
        let mut counts = Counts::default();
        let steady = run(1000, 2, &mut counts);
        assert!((steady.mean - 0.002).abs() < 1e-5, "{steady:?}");
        // As many clears as count in two minutes, twice: 480 of them.
        let width = (steady.hi - steady.lo) / steady.mean;
        assert!((width - 2.0 * Z90 / 480_f64.sqrt()).abs() < 0.02, "{width}");
        let after = run(600, 0, &mut counts);
        assert!(after.mean < 0.002 * 0.01 && after.lo < after.mean, "{after:?}");
    }

    #[test]
    fn many_clears_between_two_looks_are_not_taken_for_few() {
        // Of bits that are cleared once a second, 63 % are gone after a second.
        let mut counts = Counts::default();
        counts.add(368, 632, SECOND);
        let rate = counts.rate();
        assert!((0.85..1.1).contains(&rate.mean), "{rate:?}");
    }
}
