//! How full nodes are, and their watermarks.

use isotherm_core::Time;

use crate::clock;
use crate::support::Roots;

/// Watermarks are read anew after so long, in ns: they change when somebody changes a setting, or memory comes or goes.
const MARKS_NS: u64 = 1_000_000_000;

/// How full a node is, in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Level {
    /// `MemFree`: in no use at all. Pages that a CPU keeps at hand for its next allocation are neither.
    pub free: u64,
    /// `MemTotal`.
    pub total: u64,
    /// The sum of its zones' high watermarks: with less free memory than the low ones (up to a third less), the
    /// kernel's reclaim begins, and works until this is reached (`balance_pgdat()`). With what lower zones keep from
    /// programs (`lowmem_reserve_ratio`): of a node of 1.5 GiB some 6 MiB, which are free and cannot be had.
    pub high: u64,
}

/// The levels of these nodes, in their order.
///
/// # Errors
///
/// Which file could not be read or understood, for people: the node was unplugged, for one.
pub fn levels(roots: &Roots, nodes: &[u32]) -> Result<Vec<Level>, String> {
    Gauge::new(nodes).read(roots)
}

/// Reads levels often: of the two files the one with the watermarks is long, and rarely says something new.
#[derive(Debug)]
pub struct Gauge {
    nodes: Vec<u32>,
    high: Vec<u64>,
    marked: Option<Time>,
}

impl Gauge {
    /// For these nodes.
    #[must_use]
    pub fn new(nodes: &[u32]) -> Self {
        Self { nodes: nodes.to_vec(), high: Vec::new(), marked: None }
    }

    /// The levels of the nodes, in their order. Watermarks are at most a second old.
    ///
    /// # Errors
    ///
    /// As for [`levels`].
    pub fn read(&mut self, roots: &Roots) -> Result<Vec<Level>, String> {
        let now = clock::now();
        if self.marked.is_none_or(|at| now.since(at) >= MARKS_NS) {
            let mut text = Vec::new();
            let zones = match roots.proc.read_system("zoneinfo", &mut text) {
                Ok(()) => String::from_utf8_lossy(&text),
                Err(e) => return Err(format!("cannot read /proc/zoneinfo: {e}")),
            };
            self.high = self.nodes.iter().map(|node| high(&zones, *node)).collect();
            self.marked = Some(now);
        }
        let all = self.nodes.iter().zip(&self.high);
        all.map(|(node, high)| level(roots, *node, *high)).collect()
    }
}

fn level(roots: &Roots, node: u32, high: u64) -> Result<Level, String> {
    let file = roots.sys.join(format!("devices/system/node/node{node}/meminfo"));
    let text = std::fs::read_to_string(&file)
        .map_err(|e| format!("cannot read {}: {e}", file.display()))?;
    let field = |name: &str| kib(&text, name);
    match (field("MemFree:"), field("MemTotal:")) {
        // A node whose last memory was taken offline is still shown.
        (_, Some(0)) => Err(format!("{} says MemTotal: 0 kB, no memory is left", file.display())),
        (Some(free), Some(total)) => Ok(Level { free, total, high }),
        _ => Err(format!("{} has no MemFree and MemTotal", file.display())),
    }
}

/// A field of a node's `meminfo`, in bytes.
fn kib(text: &str, name: &str) -> Option<u64> {
    let line = text.lines().find(|line| line.split_whitespace().any(|word| word == name))?;
    let number = line.split_whitespace().skip_while(|word| *word != name).nth(1)?;
    number.parse::<u64>().ok()?.checked_mul(1024)
}

/// The high watermarks of all zones of a node that have pages, and what these keep from programs, in bytes.
fn high(zoneinfo: &str, node: u32) -> u64 {
    let (mut pages, mut here, mut managed) = (0_u64, false, false);
    let (mut zone, mut boost) = (0_u64, 0);
    for line in zoneinfo.lines() {
        if let Some(rest) = line.strip_prefix("Node ") {
            here = rest.split(',').next().and_then(|n| n.parse().ok()) == Some(node);
            boost = 0;
            continue;
        }
        // (0, 1454, 1454): from allocations that could also be had from the next zone, the one after that, ..
        if let (true, Some(list)) = (here, line.trim_start().strip_prefix("protection:")) {
            let last = list.trim_matches([' ', '(', ')']).rsplit(',').next();
            pages +=
                if managed { last.and_then(|n| n.trim().parse().ok()).unwrap_or(0) } else { 0 };
            continue;
        }
        let mut words = line.split_whitespace();
        match (here, words.next(), words.next().and_then(|n| n.parse::<u64>().ok())) {
            (true, Some("boost"), Some(n)) => boost = n,
            // A boost lasts for moments, after pages of different kinds had to be mixed (Linux 5.0).
            (true, Some("high"), Some(n)) => zone = n.saturating_sub(boost),
            // A zone without pages has marks all the same.
            (true, Some("managed"), Some(n)) => {
                managed = n > 0;
                pages += if managed { zone } else { 0 };
            }
            _ => {}
        }
    }
    pages * 4096
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::proc::Proc;

    const ZONES: &str = "\
Node 0, zone      DMA
  pages free     3712
        high     174
        managed  3840
        protection: (0, 1454, 1454)
    cpu: 0
              high:     5
Node 0, zone    DMA32
  pages free     360277
        boost    1000
        min      1
        high     17812
        managed  372420
    cpu: 0
              high:     7005
              high_min: 7005
Node 0, zone  Movable
        high     32
        managed  0
        protection: (0, 9, 9)
Node 1, zone   Normal
        high     100
        managed  1000
";

    #[test]
    fn marks_are_summed_over_zones_with_pages() {
        for (node, pages) in [(0, 174 + 1454 + 16812), (1, 100), (2, 0)] {
            assert_eq!(high(ZONES, node), pages * 4096, "node {node}");
        }
    }

    #[test]
    fn a_node_that_went_away_is_told() {
        let dir = tempfile::tempdir().unwrap();
        let roots = Roots { proc: Proc::new(dir.path()), sys: dir.path().to_owned() };
        let node = dir.path().join("devices/system/node/node0");
        std::fs::create_dir_all(&node).unwrap();
        std::fs::write(dir.path().join("zoneinfo"), ZONES).unwrap();
        let text = "Node 0 MemTotal:    1505040 kB\nNode 0 MemFree:     1000 kB\n";
        std::fs::write(node.join("meminfo"), text).unwrap();
        let level = Level { free: 1000 << 10, total: 1_505_040 << 10, high: 18_440 * 4096 };
        assert_eq!(levels(&roots, &[0]), Ok(vec![level]));
        let error = levels(&roots, &[0, 1]).unwrap_err();
        assert!(error.contains("node1/meminfo"), "{error}");
        let empty = "Node 0 MemTotal:          0 kB\nNode 0 MemFree:          0 kB\n";
        std::fs::write(node.join("meminfo"), empty).unwrap();
        let error = levels(&roots, &[0]).unwrap_err();
        assert!(error.contains("no memory is left"), "{error}");
    }
}
