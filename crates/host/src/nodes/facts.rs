//! Which NUMA nodes there are, and what tells fast ones from slow ones.

use std::path::Path;

use super::list::{Nodes, NodesError};
use crate::Roots;

/// What is known of a node.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct NodeFacts {
    /// Its number.
    pub node: u32,
    /// Whether it has CPUs.
    pub has_cpu: bool,
    /// Whether it has memory.
    pub has_memory: bool,
    /// Its memory tier (`/sys/devices/virtual/memory_tiering`, Linux 6.1): the lower, the faster.
    pub tier: Option<u32>,
    /// Its distance to each node that is online, in the order of their numbers; 10 is itself.
    pub distances: Vec<u32>,
    /// Read latency from its nearest CPUs, in ns, if the firmware tells (HMAT).
    pub latency_ns: Option<u32>,
}

/// The nodes of a machine.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Facts {
    /// All that are online, by number.
    pub nodes: Vec<NodeFacts>,
}

impl Facts {
    /// Those of the machine that shows itself at `roots`.
    ///
    /// # Errors
    ///
    /// The kernel knows no nodes (`CONFIG_NUMA` is off).
    pub fn read(roots: &Roots) -> Result<Self, NodesError> {
        let dir = roots.sys.join("devices/system/node");
        let with_memory = Nodes::read_from(&dir)?;
        let list = |file: &str| Nodes::list(&dir.join(file)).unwrap_or_default();
        let (online, with_cpu) = (list("online"), list("has_cpu"));
        let tiers = tiers(&roots.sys.join("devices/virtual/memory_tiering"));
        let nodes = online.iter().map(|&node| {
            let at = dir.join(format!("node{node}"));
            NodeFacts {
                node,
                has_cpu: with_cpu.contains(&node),
                has_memory: with_memory.with_memory().contains(&node),
                tier: tiers.iter().find(|(_, all)| all.contains(&node)).map(|(tier, _)| *tier),
                distances: numbers(&at.join("distance")),
                latency_ns: numbers(&at.join("access0/initiators/read_latency")).first().copied(),
            }
        });
        Ok(Self { nodes: nodes.collect() })
    }

    /// What is known of a node that is online.
    #[must_use]
    pub fn of(&self, node: u32) -> Option<&NodeFacts> {
        self.nodes.iter().find(|n| n.node == node)
    }

    /// The distance between two nodes, if the firmware tells.
    #[must_use]
    pub fn distance(&self, from: u32, to: u32) -> Option<u32> {
        let at = self.nodes.iter().position(|n| n.node == to)?;
        self.of(from)?.distances.get(at).copied()
    }
}

/// Whether the kernel's own reclaim demotes pages to slower nodes
/// (`/sys/kernel/mm/numa/demotion_enabled`, Linux 6.0); none: this kernel cannot.
#[must_use]
pub fn demotion_by_reclaim(roots: &Roots) -> Option<bool> {
    let text = std::fs::read_to_string(roots.sys.join("kernel/mm/numa/demotion_enabled")).ok()?;
    Some(text.trim() == "true")
}

/// Each memory tier with its nodes.
fn tiers(dir: &Path) -> Vec<(u32, Vec<u32>)> {
    let entries = std::fs::read_dir(dir).into_iter().flatten().flatten();
    let tier = |entry: std::fs::DirEntry| {
        let name = entry.file_name();
        let number = name.to_str()?.strip_prefix("memory_tier")?.parse().ok()?;
        Some((number, Nodes::list(&entry.path().join("nodelist"))?))
    };
    let mut tiers: Vec<_> = entries.filter_map(tier).collect();
    tiers.sort_unstable();
    tiers
}

/// The numbers in a file; none if it is not there.
fn numbers(file: &Path) -> Vec<u32> {
    let text = std::fs::read_to_string(file).unwrap_or_default();
    text.split_whitespace().filter_map(|n| n.parse().ok()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_kernel_says_of_its_nodes() {
        let dir = tempfile::tempdir().unwrap();
        let roots = Roots { sys: dir.path().to_owned(), ..Roots::default() };
        assert!(Facts::read(&roots).is_err(), "a kernel without nodes");
        assert_eq!(demotion_by_reclaim(&roots), None);
        let put = |path: &str, text: &str| {
            let path = dir.path().join(path);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        };
        put("devices/system/node/has_memory", "0,2\n");
        put("devices/system/node/has_cpu", "0-1\n");
        put("devices/system/node/online", "0-2\n");
        put("devices/system/node/node0/distance", "10 20 40\n");
        put("devices/system/node/node2/distance", "40 50 10\n");
        put("devices/system/node/node2/access0/initiators/read_latency", "300\n");
        put("devices/virtual/memory_tiering/memory_tier4/nodelist", "0\n");
        put("devices/virtual/memory_tiering/memory_tier54/nodelist", "2\n");
        put("devices/virtual/memory_tiering/power/nodelist", "7\n");
        put("kernel/mm/numa/demotion_enabled", "true\n");
        let facts = Facts::read(&roots).unwrap();
        let brief: Vec<_> = facts
            .nodes
            .iter()
            .map(|n| (n.node, n.has_cpu, n.has_memory, n.tier, n.latency_ns))
            .collect();
        let expected = [
            (0, true, true, Some(4), None),
            (1, true, false, None, None),
            (2, false, true, Some(54), Some(300)),
        ];
        assert_eq!(brief, expected);
        assert_eq!(facts.distance(0, 2), Some(40));
        assert_eq!(facts.distance(1, 2), None);
        assert_eq!(demotion_by_reclaim(&roots), Some(true));
    }
}
