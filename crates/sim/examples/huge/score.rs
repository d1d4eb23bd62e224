//! What is known of the hot memory, page by page, held against the truth.

use std::collections::{HashMap, HashSet};

use isotherm_core::unit::UNIT;
use isotherm_core::{AddrRange, Snapshot, Time, UnitInfo};
use isotherm_sim::config::Config;
use isotherm_sim::pattern::plans;
use isotherm_sim::world::World;
use serde::Serialize;

use crate::to_f64;

/// Shares of the hot bytes, in percent, of which it is told when they were known.
const SHARES: [u64; 4] = [10, 50, 90, 95];
/// Pages of a unit.
const PAGES: u64 = UNIT / 4096;

/// When a share of the hot bytes was known.
#[derive(Debug, Clone, Copy, Serialize)]
pub(crate) struct Moment {
    percent: u64,
    /// Virtual seconds from the start.
    s: f64,
    /// The share of the bytes called hot that are hot, then.
    precision: f64,
}

/// Pages are called hot that were touched in the last window for which their unit was measured, by
/// the page maps that snapshots tell. Regions cannot say it: 512 pieces are more than 1000 regions
/// can tell apart.
#[derive(Debug)]
pub(crate) struct Score {
    /// Units of which all pages are hot, by their starts; the others have no hot page.
    hot: HashSet<u64>,
    /// By unit: pages that are called hot.
    called: HashMap<u64, u64>,
    nr_called: u64,
    nr_right: u64,
    moments: Vec<Moment>,
}

impl Score {
    pub(crate) fn new(config: &Config, world: &World) -> Self {
        let plans = plans(config);
        let base = world.processes().next().map(|process| process.id);
        let base = base.and_then(|id| world.mappings(id).next()).map_or(0, |(map, _)| map.start);
        let mut hot = HashSet::new();
        for cells in plans.iter().flatten().map(|plan| &plan.cells) {
            for (from, to) in cells.sets.iter().flatten().map(|i| cells.piece(u64::from(*i))) {
                hot.extend((base + from..base + to).step_by(2 << 20));
            }
        }
        Self { hot, called: HashMap::new(), nr_called: 0, nr_right: 0, moments: Vec::new() }
    }

    pub(crate) fn add(&mut self, snapshot: &Snapshot) {
        for unit in snapshot.targets.iter().flat_map(|target| &target.units) {
            self.add_unit(unit);
        }
        let recall = self.recall();
        while let Some(&percent) = SHARES.get(self.moments.len()) {
            if recall * 100.0 < to_f64(percent) {
                break;
            }
            let moment = Moment { percent, s: seconds(snapshot.end), precision: self.precision() };
            self.moments.push(moment);
        }
    }

    fn add_unit(&mut self, unit: &UnitInfo) {
        // The second span is a window.
        let Some(pages) = unit.touched[1] else { return };
        let now = pages.count();
        let before = if now == 0 {
            self.called.remove(&unit.start)
        } else {
            self.called.insert(unit.start, now)
        };
        let before = before.unwrap_or(0);
        self.nr_called = self.nr_called + now - before;
        if self.hot.contains(&unit.start) {
            self.nr_right = self.nr_right + now - before;
        }
    }

    /// Whether all moments were seen.
    pub(crate) const fn is_complete(&self) -> bool {
        self.moments.len() == SHARES.len()
    }

    pub(crate) fn moments(&self) -> &[Moment] {
        &self.moments
    }

    /// The share of the hot bytes that is known.
    pub(crate) fn recall(&self) -> f64 {
        to_f64(self.nr_right) / to_f64((self.hot.len() as u64 * PAGES).max(1))
    }

    /// The share of the bytes called hot that are hot; 1 if there are none.
    pub(crate) fn precision(&self) -> f64 {
        if self.nr_called == 0 { 1.0 } else { to_f64(self.nr_right) / to_f64(self.nr_called) }
    }

    /// Precision and recall of the bytes in regions of at least half of the largest count.
    pub(crate) fn of_regions(&self, snapshot: &Snapshot) -> (f64, f64) {
        let regions = snapshot.targets.iter().flat_map(|target| &target.regions);
        let (mut called, mut right) = (0, 0);
        for region in
            regions.filter(|r| r.resolved && r.nr_accesses * 2 >= snapshot.max_nr_accesses)
        {
            called += region.range.len();
            for start in self.hot.iter().filter(|at| **at + UNIT > region.range.start) {
                right += region.range.overlap(&AddrRange::new(*start, start + UNIT));
            }
        }
        let hot = (self.hot.len() as u64 * UNIT).max(1);
        (
            if called == 0 { 1.0 } else { to_f64(right) / to_f64(called) },
            to_f64(right) / to_f64(hot),
        )
    }
}

fn seconds(time: Time) -> f64 {
    to_f64(time.0) / 1e9
}
