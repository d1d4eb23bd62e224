//! Writes into the tree what runs has to show.
//!
//! The user can have removed directories meanwhile. Then only what is still there is written.

use super::World;
use crate::engine::Results;
use crate::tree::{Ino, STATS, Tree, TriedRegion, Value, tried_region};

/// The directories of a kdamond's schemes, in order.
fn schemes(tree: &Tree, kdamond: Ino) -> Vec<Ino> {
    let dir = tree.at(kdamond, "contexts/0/schemes");
    let numbered = dir.map(|dir| tree.numbered(dir)).unwrap_or_default();
    numbered.into_iter().map(|(_, ino)| ino).collect()
}

impl World {
    /// Writes the statistics of schemes.
    pub(super) fn show_stats(&self, kdamond: Ino, results: &Results) {
        let tree = &mut self.state().tree;
        for (dir, scheme) in schemes(tree, kdamond).into_iter().zip(&results.schemes) {
            let stats = &scheme.stats;
            let values = [
                stats.nr_tried,
                stats.sz_tried,
                stats.nr_applied,
                stats.sz_applied,
                stats.sz_ops_filter_passed,
                stats.qt_exceeds,
                stats.nr_snapshots,
            ];
            for (name, value) in STATS.iter().zip(values) {
                tree.set(dir, &format!("stats/{name}"), Value::Shown(value));
            }
        }
    }

    /// Writes what the quotas of schemes are now.
    pub(super) fn show_effective_quotas(&self, kdamond: Ino, results: &Results) {
        let tree = &mut self.state().tree;
        for (dir, scheme) in schemes(tree, kdamond).into_iter().zip(&results.schemes) {
            tree.set(dir, "quotas/effective_bytes", Value::Shown(scheme.effective_bytes));
        }
    }

    /// Writes the intervals in force, so that a later commit keeps them.
    pub(super) fn show_intervals(&self, kdamond: Ino, results: &Results) {
        let tree = &mut self.state().tree;
        let Some(dir) = tree.at(kdamond, "contexts/0/monitoring_attrs/intervals") else { return };
        tree.set(dir, "sample_us", Value::Ulong(results.sample_us, false));
        tree.set(dir, "aggr_us", Value::Ulong(results.aggr_us, false));
    }

    /// Removes the directories of tried regions.
    pub(super) fn clear_tried_regions(&self, kdamond: Ino) {
        let tree = &mut self.state().tree;
        for scheme in schemes(tree, kdamond) {
            if let Some(tried) = tree.at(scheme, "tried_regions") {
                tree.remove_numbered(tried);
                tree.set(tried, "total_bytes", Value::Shown(0));
            }
        }
    }

    /// Writes what a walk has seen: how many bytes, and if `all`, a directory per region.
    pub(super) fn show_tried_regions(&self, kdamond: Ino, seen: &[Vec<TriedRegion>], all: bool) {
        let tree = &mut self.state().tree;
        for (scheme, regions) in schemes(tree, kdamond).into_iter().zip(seen) {
            let Some(tried) = tree.at(scheme, "tried_regions") else { continue };
            let total = regions.iter().map(|region| region.end - region.start).sum();
            tree.set(tried, "total_bytes", Value::Shown(total));
            if all {
                for (index, region) in regions.iter().enumerate() {
                    tried_region(tree, tried, index, region);
                }
            }
        }
    }
}
