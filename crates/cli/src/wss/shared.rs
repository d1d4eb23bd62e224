//! Memory that several running targets share, counted once.

use std::collections::BTreeMap;

use isotherm::raw::agent::monitor::Monitor;
use isotherm::raw::agent::sharing::LiveSharing;
use isotherm::raw::core::{RegionInfo, Snapshot, TargetInfo, Touched};
use isotherm::raw::report::page_maps::PageMap;
use isotherm::raw::report::wss::{WorkingSet, estimate, without};

/// What is known of the targets' pages and mappings.
#[derive(Debug, Default)]
pub(super) struct Shared {
    maps: BTreeMap<u32, PageMap>,
    live: LiveSharing,
}

/// The working set of all targets.
#[derive(Debug)]
pub(super) struct Once {
    /// By regions.
    pub(super) regions: WorkingSet,
    /// By span, if the method sees single pages.
    pub(super) touched: Option<Touched>,
    /// Whether they share memory.
    pub(super) is_shared: bool,
}

impl Shared {
    /// Takes in what a snapshot tells of pages.
    pub(super) fn learn(&mut self, s: &Snapshot) {
        self.maps.retain(|id, _| s.targets.iter().any(|t| t.id.0 == *id));
        for t in &s.targets {
            let map = self.maps.entry(t.id.0).or_default();
            map.units.extend(t.units.iter().map(|unit| (unit.start, *unit)));
        }
    }

    /// The working set, by spans that end with the last window, and by regions: those of `unions`
    /// instead of the last window's, where a target has them.
    pub(super) fn once(
        &mut self,
        monitor: &mut Monitor,
        unions: &BTreeMap<u32, Vec<RegionInfo>>,
    ) -> Once {
        let pids: BTreeMap<_, _> = monitor.tracker().targets().map(|t| (t.id, t.pid)).collect();
        let s = monitor.snapshot();
        let regions = |t: &'_ TargetInfo| unions.get(&t.id.0).unwrap_or(&t.regions).clone();
        let all: Vec<(u32, Vec<RegionInfo>)> =
            s.targets.iter().map(|t| (t.id.0, regions(t))).collect();
        let apart = estimate(all.iter().flat_map(|(_, regions)| regions), s.max_nr_accesses);
        let mut once = Once { regions: apart, touched: s.touched(), is_shared: false };
        self.live.follow(s, |id| pids.get(&id).copied());
        once.is_shared = self.live.is_any();
        if !once.is_shared {
            return once;
        }
        let sharing = self.live.sharing();
        let all: Vec<(u32, RegionInfo)> = sharing.regions(all.into_iter());
        once.regions = estimate(all.iter().map(|(_, r)| r), s.max_nr_accesses);
        let again = sharing.touched_again(self.maps.iter().map(|(id, map)| (*id, &map.units)));
        for (span, again) in once.touched.iter_mut().flat_map(|t| &mut t.spans).zip(again) {
            *span = span.map(|sum| without(sum, again.min(sum.bytes)));
        }
        once
    }
}
