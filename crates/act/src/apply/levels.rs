//! How full the nodes are that schemes move memory between, as their goals see it.
//!
//! A dry run moves nothing, so the bytes that it pretends to have moved are counted here. Otherwise
//! promotion would find a full node full without end, and a dry run would never show what promotion
//! would do.

use std::collections::BTreeMap;

use isotherm_core::scheme::{Metric, NodeLevel};

use isotherm_host::Roots;
use isotherm_host::nodes::{Gauge, Level};

/// Levels of nodes.
#[derive(Debug, Default)]
pub(super) struct Levels {
    roots: Roots,
    nodes: Vec<u32>,
    gauge: Gauge,
    /// As last read, in the order of the nodes.
    last: Vec<Level>,
    /// Bytes that dry runs have moved to each node; less than 0: from it.
    pretended: BTreeMap<u32, i64>,
}

impl Levels {
    /// Reads the levels of the nodes that these metrics are about.
    ///
    /// # Errors
    ///
    /// Says which file could not be read. No level is known then.
    pub(super) fn read(&mut self, metrics: impl Iterator<Item = Metric>) -> Result<(), String> {
        let mut nodes: Vec<u32> = metrics.filter_map(node).collect();
        nodes.sort_unstable();
        nodes.dedup();
        self.last.clear();
        if nodes.is_empty() {
            return Ok(());
        }
        if nodes != self.nodes {
            self.gauge = Gauge::new(&nodes);
            self.nodes = nodes;
        }
        self.last = self.gauge.read(&self.roots)?;
        Ok(())
    }

    /// The level of the node that a metric is about, as of the last read.
    pub(super) fn of(&self, metric: Metric) -> Option<NodeLevel> {
        let node = node(metric)?;
        let at = self.nodes.iter().position(|n| *n == node)?;
        let Level { free, total, high, coming, .. } = *self.last.get(at)?;
        let pretended = self.pretended.get(&node).copied().unwrap_or(0);
        let free = free.saturating_add_signed(pretended.saturating_neg()).min(total);
        Some(NodeLevel { free, total, high, coming })
    }

    /// Records how many bytes a dry run would have moved.
    pub(super) fn pretend(&mut self, from: u32, to: u32, bytes: u64) {
        let bytes = i64::try_from(bytes).unwrap_or(i64::MAX);
        for (node, more) in [(from, bytes.saturating_neg()), (to, bytes)] {
            let sum = self.pretended.entry(node).or_default();
            *sum = sum.saturating_add(more);
        }
    }
}

/// The node whose memory a metric is a share of.
fn node(metric: Metric) -> Option<u32> {
    match metric {
        Metric::NodeMemUsedBp(node) | Metric::NodeMemFreeBp(node) => u32::try_from(node).ok(),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use isotherm_host::proc::Proc;

    #[test]
    fn what_a_dry_run_moved_counts_as_moved() {
        let dir = tempfile::tempdir().unwrap();
        let roots = Roots { proc: Proc::new(dir.path()), sys: dir.path().to_owned() };
        std::fs::write(dir.path().join("zoneinfo"), "").unwrap();
        for node in [0, 1] {
            let at = dir.path().join(format!("devices/system/node/node{node}"));
            std::fs::create_dir_all(&at).unwrap();
            let text = format!("Node {node} MemTotal: 1000 kB\nNode {node} MemFree: 100 kB\n");
            std::fs::write(at.join("meminfo"), text).unwrap();
        }
        let mut levels = Levels { roots, ..Levels::default() };
        let metrics = [Metric::NodeMemUsedBp(0), Metric::NodeMemFreeBp(1), Metric::ActiveMemBp];
        levels.read(metrics.into_iter()).unwrap();
        let free = |levels: &Levels| metrics.map(|m| levels.of(m).map(|level| level.free >> 10));
        assert_eq!(free(&levels), [Some(100), Some(100), None]);
        levels.pretend(0, 1, 60 << 10);
        assert_eq!(free(&levels), [Some(160), Some(40), None]);
        // More than there is room for: a dry run's estimate, not the machine's memory.
        levels.pretend(0, 1, 2000 << 10);
        assert_eq!(free(&levels), [Some(1000), Some(0), None]);
        std::fs::remove_dir_all(dir.path().join("devices/system/node/node1")).unwrap();
        assert!(levels.read(metrics.into_iter()).is_err(), "a node is gone");
        assert_eq!(free(&levels), [None, None, None]);
    }
}
