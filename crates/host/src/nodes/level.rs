//! How full nodes are, and their watermarks.

use isotherm_core::Time;
use isotherm_sys::clock;

use crate::Roots;

/// The age at which watermarks are read again, in ns. They change when somebody changes a setting,
/// or when memory comes or goes.
const MARKS_NS: u64 = 1_000_000_000;
/// That age while memory is moved: moving changes what the CPUs keep on their lists.
const LISTS_NS: u64 = 150_000_000;
/// If a node's free memory changed by this between two looks, in bytes, memory is being moved.
const MOVING: u64 = 256 << 10;

/// How full a node is, in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Level {
    /// `MemFree`: memory in no use at all. Pages that a CPU keeps for its next allocation are
    /// neither free nor in use.
    pub free: u64,
    /// `MemTotal`.
    pub total: u64,
    /// The sum of its zones' high watermarks. The kernel's reclaim begins when less memory is free
    /// than the low watermarks (up to a third less), and works until this is reached
    /// (`balance_pgdat()`). Two more amounts are included, because that memory is free and cannot
    /// be had. Lower zones keep some from programs (`lowmem_reserve_ratio`): some 6 MiB of a node
    /// of 1.5 GiB. The kernel sets blocks aside for itself (`nr_free_highatomic`): up to 1 % of a
    /// zone, and it varies.
    pub high: u64,
    /// How much higher the watermarks are for now, because pages of different kinds had to be mixed
    /// (`watermark_boost`, Linux 5.0). It is at most 1.5 times `high`, and not part of it. An
    /// allocation that fails on this node wakes kswapd, which ends the boost. An allocation that
    /// may use another node does not.
    pub boost: u64,
    /// What CPUs keep on their lists beyond what these hold at rest. A CPU that frees many pages
    /// keeps more of them (up to an eighth of the zone; `nr_pcp_high()`, Linux 6.7) and gives them
    /// back within some ten seconds (`decay_pcp_high()`): then it adds to `free`.
    pub coming: u64,
}

/// The levels of these nodes, in their order.
///
/// # Errors
///
/// Which file could not be read or understood, for people: the node was unplugged, for one.
pub fn levels(roots: &Roots, nodes: &[u32]) -> Result<Vec<Level>, String> {
    Gauge::new(nodes).read(roots)
}

/// Reads levels often. Of the two files, the one with the watermarks is long and rarely changes.
#[derive(Debug, Default)]
pub struct Gauge {
    nodes: Vec<u32>,
    zones: Vec<Zones>,
    read_at: Option<Time>,
    last: Vec<Level>,
    moving: bool,
}

/// What the zones of a node add up to, in bytes: as in [`Level`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
struct Zones {
    high: u64,
    boost: u64,
    coming: u64,
}

impl Gauge {
    /// For these nodes.
    #[must_use]
    pub fn new(nodes: &[u32]) -> Self {
        Self { nodes: nodes.to_vec(), ..Self::default() }
    }

    /// The levels of the nodes, in their order. Watermarks and lists of CPUs are at most a second
    /// old.
    ///
    /// # Errors
    ///
    /// As for [`levels`].
    pub fn read(&mut self, roots: &Roots) -> Result<Vec<Level>, String> {
        let now = clock::now();
        let age_ns = if self.moving { LISTS_NS } else { MARKS_NS };
        if self.read_at.is_none_or(|at| now.since(at) >= age_ns) {
            let mut text = Vec::new();
            let zones = match roots.proc.read_system("zoneinfo", &mut text) {
                Ok(()) => String::from_utf8_lossy(&text),
                Err(e) => return Err(format!("cannot read /proc/zoneinfo: {e}")),
            };
            self.zones = self.nodes.iter().map(|node| zones_of(&zones, *node)).collect();
            self.read_at = Some(now);
        }
        let all = self.nodes.iter().zip(&self.zones);
        let levels: Vec<_> =
            all.map(|(node, zones)| level(roots, *node, *zones)).collect::<Result<_, _>>()?;
        let mut both = levels.iter().zip(&self.last);
        self.moving = both.any(|(new, old)| new.free.abs_diff(old.free) >= MOVING);
        self.last.clone_from(&levels);
        Ok(levels)
    }
}

fn level(roots: &Roots, node: u32, Zones { high, boost, coming }: Zones) -> Result<Level, String> {
    let file = roots.sys.join(format!("devices/system/node/node{node}/meminfo"));
    let text = std::fs::read_to_string(&file)
        .map_err(|e| format!("cannot read {}: {e}", file.display()))?;
    let field = |name: &str| kib(&text, name);
    match (field("MemFree:"), field("MemTotal:")) {
        // A node whose last memory was taken offline is still shown.
        (_, Some(0)) => Err(format!("{} says MemTotal: 0 kB, no memory is left", file.display())),
        (Some(free), Some(total)) => Ok(Level { free, total, high, boost, coming }),
        _ => Err(format!("{} has no MemFree and MemTotal", file.display())),
    }
}

/// A field of a node's `meminfo`, in bytes.
fn kib(text: &str, name: &str) -> Option<u64> {
    let line = text.lines().find(|line| line.split_whitespace().any(|word| word == name))?;
    let number = line.split_whitespace().skip_while(|word| *word != name).nth(1)?;
    number.parse::<u64>().ok()?.checked_mul(1024)
}

/// Over all zones of a node that have pages: the high watermarks with what is kept from programs,
/// and what CPUs keep on their lists beyond their lowest limit.
fn zones_of(zoneinfo: &str, node: u32) -> Zones {
    let (mut high, mut boost, mut coming) = (0_u64, 0_u64, 0_u64);
    let (mut here, mut managed) = (false, false);
    let (mut zone, mut zone_boost, mut count) = (0_u64, 0, 0_u64);
    for line in zoneinfo.lines() {
        if let Some(rest) = line.strip_prefix("Node ") {
            here = rest.split(',').next().and_then(|n| n.parse().ok()) == Some(node);
            (managed, zone_boost) = (false, 0);
            continue;
        }
        if !here {
            continue;
        }
        // (0, 1454, 1454): what is kept from allocations that could also come from the next zone,
        // the one after that, ...
        if let Some(list) = line.trim_start().strip_prefix("protection:") {
            let last = list.trim_matches([' ', '(', ')']).rsplit(',').next();
            high += if managed { last.and_then(|n| n.trim().parse().ok()).unwrap_or(0) } else { 0 };
            continue;
        }
        let mut words = line.split_whitespace();
        match (words.next(), words.next().and_then(|n| n.parse::<u64>().ok())) {
            (Some("boost"), Some(n)) => zone_boost = n,
            (Some("high"), Some(n)) => zone = n.saturating_sub(zone_boost),
            // A zone without pages has marks all the same.
            (Some("managed"), Some(n)) => {
                managed = n > 0;
                if managed {
                    (high, boost) = (high + zone, boost + zone_boost);
                }
            }
            (Some("free_highatomic:"), Some(n)) => high += if managed { n } else { 0 },
            // These are of the lists of one CPU. Older kernels have no `high_min`, and a fixed
            // limit.
            (Some("count:"), Some(n)) => count = n,
            (Some("high_min:"), Some(n)) => coming += count.saturating_sub(n),
            _ => {}
        }
    }
    Zones { high: high * 4096, boost: boost * 4096, coming: coming * 4096 }
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
              count:    3
              high:     5
Node 0, zone    DMA32
  pages free     360277
        boost    1000
        min      1
        high     17812
        managed  372420
  reserved_highatomic: 2048
  free_highatomic:     1536
    cpu: 0
              count:    9000
              high:     9005
              high_min: 7005
    cpu: 1
              count:    6000
              high:     7005
              high_min: 7005
    cpu: 2
              count:    7015
              high:     7100
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
    fn marks_and_lists_are_summed_over_zones_with_pages() {
        for (node, high, boost, coming) in
            [(0, 174 + 1454 + 16812 + 1536, 1000, 1995 + 10), (1, 100, 0, 0), (2, 0, 0, 0)]
        {
            let expected = Zones { high: high * 4096, boost: boost * 4096, coming: coming * 4096 };
            assert_eq!(zones_of(ZONES, node), expected, "node {node}");
        }
    }

    #[test]
    fn lists_are_read_often_only_while_memory_is_moved() {
        let dir = tempfile::tempdir().unwrap();
        let roots = Roots { proc: Proc::new(dir.path()), sys: dir.path().to_owned() };
        let node = dir.path().join("devices/system/node/node0");
        std::fs::create_dir_all(&node).unwrap();
        let put = |free_kib: u64, count: u64| {
            let text = format!("Node 0 MemTotal: 1505040 kB\nNode 0 MemFree: {free_kib} kB\n");
            std::fs::write(node.join("meminfo"), text).unwrap();
            let zones = format!("Node 0, zone Normal\n count: {count}\n high_min: 0\n");
            std::fs::write(dir.path().join("zoneinfo"), zones).unwrap();
        };
        let mut gauge = Gauge::new(&[0]);
        let coming = |gauge: &mut Gauge, free_kib, count| {
            put(free_kib, count);
            gauge.read(&roots).unwrap()[0].coming / 4096
        };
        // As if read long ago.
        let older = |gauge: &mut Gauge, ns| gauge.read_at = Some(Time(clock::now().as_ns() - ns));
        assert_eq!(coming(&mut gauge, 5000, 1), 1);
        older(&mut gauge, MARKS_NS / 2);
        assert_eq!(coming(&mut gauge, 5000, 2), 1, "nothing moves");
        assert_eq!(coming(&mut gauge, 9000, 3), 1, "seen to move just now");
        assert_eq!(coming(&mut gauge, 9000, 4), 4);
        older(&mut gauge, MARKS_NS);
        assert_eq!(coming(&mut gauge, 9000, 5), 5);
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
        let level = Level {
            free: 1000 << 10,
            total: 1_505_040 << 10,
            high: 19_976 * 4096,
            boost: 1000 * 4096,
            coming: 2005 * 4096,
        };
        assert_eq!(levels(&roots, &[0]), Ok(vec![level]));
        let error = levels(&roots, &[0, 1]).unwrap_err();
        assert!(error.contains("node1/meminfo"), "{error}");
        let empty = "Node 0 MemTotal:          0 kB\nNode 0 MemFree:          0 kB\n";
        std::fs::write(node.join("meminfo"), empty).unwrap();
        let error = levels(&roots, &[0]).unwrap_err();
        assert!(error.contains("no memory is left"), "{error}");
    }
}
