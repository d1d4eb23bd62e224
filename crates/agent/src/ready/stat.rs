//! `stat`: how idle memory is, without acting on it (R§6.4).

use isotherm_act::apply::Settings;
use std::collections::BTreeMap;

use isotherm_core::scheme::{Action, Bounds, Frequency, Pattern};
use isotherm_core::{Lengths, RegionInfo, Scheme, Snapshot};

use super::{Confirm, Whose, from_age};
use crate::policy::{Policy, SchemePolicy};

/// The knobs of `stat`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Stat {
    /// Whose memory.
    pub whose: Whose,
    /// From which age on idle memory is counted, in µs.
    pub idle_min_age_us: u64,
    /// Tune the intervals for 4 % of positive samples.
    pub autotune: bool,
}

impl Default for Stat {
    /// Idle for 120 s, which is what `reclaim` would find; tuned intervals, as in the kernel.
    fn default() -> Self {
        Self { whose: Whose::default(), idle_min_age_us: 120_000_000, autotune: true }
    }
}

impl Stat {
    /// The policy: two schemes that only count, what is accessed and what is idle.
    #[must_use]
    pub fn policy(mut self) -> Policy {
        if self.autotune {
            self.whose.autotune(400);
        }
        let scheme = |name: &str, nr_accesses, min_age_us| {
            let pattern = Pattern {
                sz: Pattern::ALL.sz,
                nr_accesses: Frequency::Samples(nr_accesses),
                age: from_age(min_age_us),
            };
            let scheme = Scheme { pattern, action: Action::Stat, ..Scheme::default() };
            let evidence = Confirm::ByAge.evidence(&scheme, &self.whose.attrs);
            let name = name.to_owned();
            SchemePolicy { scheme, settings: Settings { name, evidence, ..Settings::default() } }
        };
        let schemes = vec![
            scheme("accessed", Bounds::new(1, u32::MAX), 0),
            scheme("idle", Bounds::new(0, 0), self.idle_min_age_us),
        ];
        self.whose.policy("stat", schemes)
    }
}

/// For how long each percent of the memory is idle, in ms, hottest first. Entry `n` is about the
/// byte at `n` % of all. A negative number means that the byte is being accessed, and has been for
/// that long. `lengths` are those of the windows up to this snapshot.
///
/// Where single pages are known, a part of a region may be in use and the rest idle; see
/// [`RegionInfo::in_use`].
///
/// The kernel refreshes these numbers at any sample, with counts of an unfinished window
/// (R§9.2.17). Here they are of a finished window. Regions that were not looked at yet are left
/// out. Without any memory all numbers are 0.
#[must_use]
pub fn idle_percentiles(snapshot: &Snapshot, lengths: &Lengths) -> [i64; 101] {
    let regions = snapshot.targets.iter().flat_map(|target| &target.regions);
    let mut idle: Vec<(i64, u128)> = regions
        .filter(|region| region.resolved)
        .flat_map(|region| {
            let windows = i64::from(region.age) + 1;
            let (used, rest) = region.split_bytes(snapshot.max_nr_accesses);
            [(-windows, u128::from(used)), (windows, u128::from(rest))]
        })
        .filter(|(_, bytes)| *bytes > 0)
        .collect();
    idle.sort_unstable();
    let total: u128 = idle.iter().map(|(_, bytes)| bytes).sum();
    let mut percentiles = [0; 101];
    let (mut next, mut bytes) = (0_usize, 0_u128);
    for (windows, len) in idle {
        bytes += len;
        let reached = usize::try_from(bytes * 100 / total.max(1)).unwrap_or(100).min(100);
        let long = u32::try_from(windows.unsigned_abs()).unwrap_or(u32::MAX);
        let long = i64::try_from(lengths.of_last(long) / 1_000_000).unwrap_or(i64::MAX);
        let ms = if windows < 0 { -long } else { long };
        while next <= reached {
            percentiles[next] = ms;
            next += 1;
        }
    }
    percentiles
}

/// Bytes by idle time in ms, in order of time, of what was looked at and is not in use; see
/// [`RegionInfo::in_use`]. `max_nr_accesses` is that of the regions' snapshot, and `lengths` are
/// those of the windows up to it.
#[must_use]
pub fn idle_bytes<'a>(
    regions: impl Iterator<Item = &'a RegionInfo>,
    max_nr_accesses: u32,
    lengths: &Lengths,
) -> Vec<(u64, u64)> {
    let mut by_windows: BTreeMap<u32, u64> = BTreeMap::new();
    for region in regions.filter(|region| region.resolved) {
        let (_, idle) = region.split_bytes(max_nr_accesses);
        if idle > 0 {
            *by_windows.entry(region.age).or_default() += idle;
        }
    }
    let ms = |age: u32| lengths.of_last(age.saturating_add(1)) / 1_000_000;
    by_windows.into_iter().map(|(age, bytes)| (ms(age), bytes)).collect()
}

/// An estimate of the memory bandwidth in a snapshot's window, in bytes per second, as the kernel
/// makes it: every byte of a region counts once for each sample in which the region was accessed.
#[must_use]
pub fn bandwidth(snapshot: &Snapshot) -> u64 {
    let regions = snapshot.targets.iter().flat_map(|target| &target.regions);
    let touched: u128 = regions
        .filter(|region| region.resolved)
        .map(|region| u128::from(region.range.len()) * u128::from(region.nr_accesses))
        .sum();
    let us = snapshot.end.since(snapshot.start) / 1000;
    let us = if us == 0 { snapshot.aggr_us } else { us };
    let per_second = touched * 1_000_000 / u128::from(us.max(1));
    u64::try_from(per_second).unwrap_or(u64::MAX)
}
