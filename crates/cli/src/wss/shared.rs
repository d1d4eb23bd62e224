//! Memory that several running targets share, counted once.

use std::collections::BTreeMap;

use isotherm::raw::agent::monitor::Monitor;
use isotherm::raw::agent::recorder::mappings_of;
use isotherm::raw::core::{RegionInfo, Snapshot, TargetInfo, Touched};
use isotherm::raw::report::once::Sharing;
use isotherm::raw::report::page_maps::PageMap;
use isotherm::raw::report::wss::{WorkingSet, estimate, without};

/// What is known of the targets' pages and mappings.
#[derive(Debug, Default)]
pub(super) struct Shared {
    maps: BTreeMap<u32, PageMap>,
    text: Vec<u8>,
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
        let pids: Vec<_> = monitor.tracker().targets().map(|t| (t.id.0, t.pid)).collect();
        let s = monitor.snapshot();
        let regions = |t: &'_ TargetInfo| unions.get(&t.id.0).unwrap_or(&t.regions).clone();
        let all: Vec<(u32, Vec<RegionInfo>)> =
            s.targets.iter().map(|t| (t.id.0, regions(t))).collect();
        let apart = estimate(all.iter().flat_map(|(_, regions)| regions), s.max_nr_accesses);
        let mut once = Once { regions: apart, touched: s.touched(), is_shared: false };
        let mut sharing = Sharing::default();
        if s.targets.len() > 1 {
            for (id, pid) in pids {
                sharing.learn(id, 1, &mappings_of(pid, &mut self.text));
            }
        }
        once.is_shared = sharing.is_any(s.targets.iter().map(|t| t.id.0));
        if !once.is_shared {
            return once;
        }
        let all: Vec<(u32, RegionInfo)> = sharing.regions(all.into_iter());
        once.regions = estimate(all.iter().map(|(_, r)| r), s.max_nr_accesses);
        let again = sharing.counted_again(self.maps.iter().map(|(id, map)| (*id, map)));
        for (span, again) in once.touched.iter_mut().flat_map(|t| &mut t.spans).zip(again) {
            *span = span.map(|sum| without(sum, again.min(sum.bytes)));
        }
        once
    }
}
