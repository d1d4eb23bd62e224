//! The machine's RAM as ranges of physical addresses, by node.
//!
//! `/proc/iomem` says what is RAM, to the byte. `/proc/zoneinfo` says which page frames each node's
//! zones span, holes included. A node's RAM is what is in both. Where zones of two nodes interleave
//! (a node inside another's span), the overlap would count for both. It is given to the node whose
//! zone starts later, which is the one inside.

use isotherm_core::AddrRange;
use isotherm_core::addr::{PAGE_SIZE, round_down, round_up};

use crate::error::{Class, Error, Kind};
use crate::proc::Proc;
use crate::proc::scan::{line, split, whole_dec, whole_hex, word};

/// One node's RAM.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct NodeRam {
    /// The node.
    pub node: u32,
    /// Where its RAM is: sorted, not overlapping, in whole pages. Empty for a node without memory.
    pub ranges: Vec<AddrRange>,
}

impl NodeRam {
    /// Bytes of RAM.
    #[must_use]
    pub fn len(&self) -> u64 {
        self.ranges.iter().map(AddrRange::len).sum()
    }

    /// Whether the node has no memory.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// All RAM of the machine.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Ram {
    /// Where it is: sorted, not overlapping, in whole pages.
    pub ranges: Vec<AddrRange>,
    /// The nodes, by number.
    pub nodes: Vec<NodeRam>,
}

/// Why the machine does not say where its RAM is.
pub type RamError = Error<RamKind>;

/// The kind of a [`RamError`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RamKind {
    /// The kernel shows no addresses to us: `/proc/iomem` holds zeros without `CAP_SYS_ADMIN`.
    Hidden,
    /// A file cannot be read.
    Io,
    /// There is no RAM in the list.
    Nothing,
}

impl Kind for RamKind {
    fn class(self) -> Class {
        match self {
            Self::Hidden => Class::Permission,
            Self::Io | Self::Nothing => Class::NotSupported,
        }
    }
}

fn error(kind: RamKind, file: &str, why: &str, hint: &str) -> RamError {
    let what = "the machine does not say where its RAM is";
    Error::new(kind, what, format!("read /proc/{file}"), why, hint)
}

impl Ram {
    /// Reads where the machine's RAM is. Costs well under a millisecond.
    ///
    /// # Errors
    ///
    /// If the kernel does not say.
    pub fn read(proc: &Proc) -> Result<Self, RamError> {
        let mut text = Vec::new();
        let read = |file: &str, text: &mut Vec<u8>| {
            let unread = |e| error(RamKind::Io, file, "", "is /proc mounted?").with(e);
            proc.read_system(file, text).map_err(unread)
        };
        read("iomem", &mut text)?;
        let ranges = parse_iomem(&text)?;
        read("zoneinfo", &mut text)?;
        let nodes = nodes_of(&parse_zones(&text), &ranges);
        Ok(Self { ranges, nodes })
    }

    /// Bytes of RAM.
    #[must_use]
    pub fn len(&self) -> u64 {
        self.ranges.iter().map(AddrRange::len).sum()
    }

    /// Whether there is none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The node that an address belongs to.
    #[must_use]
    pub fn node_of(&self, addr: u64) -> Option<u32> {
        let holds = |n: &&NodeRam| n.ranges.iter().any(|r| r.contains(addr));
        self.nodes.iter().find(holds).map(|n| n.node)
    }

    /// What of `ranges` is RAM.
    #[must_use]
    pub fn within(&self, ranges: &[AddrRange]) -> Vec<AddrRange> {
        intersect(&self.ranges, ranges)
    }
}

/// The top-level `System RAM` resources. A `System RAM` line below another one lies inside of it.
fn parse_iomem(text: &[u8]) -> Result<Vec<AddrRange>, RamError> {
    let (mut ranges, mut hidden) = (Vec::<AddrRange>::new(), false);
    let mut rest = text;
    while let Some(line) = line(&mut rest) {
        let Some((addrs, name)) = split(line, b':') else { continue };
        // Memory of a device that was handed to the kernel (CXL by kmem) stands below the device's
        // line.
        if !name.trim_ascii().starts_with(b"System RAM") {
            continue;
        }
        let bounds = split(addrs.trim_ascii(), b'-');
        let Some((Some(start), Some(last))) = bounds.map(|(a, b)| (whole_hex(a), whole_hex(b)))
        else {
            continue;
        };
        hidden |= last == 0;
        let range = AddrRange::new(
            round_up(start, PAGE_SIZE),
            round_down(last.saturating_add(1), PAGE_SIZE),
        );
        if !range.is_empty() {
            ranges.push(range);
        }
    }
    ranges.sort_unstable();
    ranges.dedup_by(|next, prev| {
        let joins = next.start <= prev.end;
        if joins {
            prev.end = prev.end.max(next.end);
        }
        joins
    });
    match (ranges.is_empty(), hidden) {
        (false, _) => Ok(ranges),
        (true, true) => Err(error(
            RamKind::Hidden,
            "iomem",
            "/proc/iomem shows zeros for addresses: CAP_SYS_ADMIN is missing",
            "run as root, or grant CAP_SYS_ADMIN",
        )),
        (true, false) => {
            let why = "/proc/iomem lists no `System RAM`";
            Err(error(RamKind::Nothing, "iomem", why, "is /proc mounted?"))
        }
    }
}

/// The span of one zone.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Zone {
    node: u32,
    span: AddrRange,
}

/// The spans of the zones. A zone without pages is in the list with an empty span, so that its node
/// is known.
fn parse_zones(text: &[u8]) -> Vec<Zone> {
    let (mut zones, mut spanned, mut present) = (Vec::<Zone>::new(), 0_u64, 0_u64);
    let mut rest = text;
    while let Some(mut line) = line(&mut rest) {
        match word(&mut line) {
            Some(b"Node") => {
                let node = word(&mut line).and_then(|n| n.strip_suffix(b","));
                let node = node.and_then(whole_dec).and_then(|n| u32::try_from(n).ok());
                let Some(node) = node else { continue };
                zones.push(Zone { node, span: AddrRange::default() });
                (spanned, present) = (0, 0);
            }
            Some(b"spanned") => spanned = number(&mut line),
            Some(b"present") => present = number(&mut line),
            Some(b"start_pfn:") if present > 0 => {
                let start = number(&mut line).saturating_mul(PAGE_SIZE);
                let end = start.saturating_add(spanned.saturating_mul(PAGE_SIZE));
                if let Some(zone) = zones.last_mut() {
                    zone.span = AddrRange::new(start, end);
                }
            }
            _ => {}
        }
    }
    zones
}

fn number(line: &mut &[u8]) -> u64 {
    word(line).and_then(whole_dec).unwrap_or(0)
}

/// The nodes' parts of `ram`.
fn nodes_of(zones: &[Zone], ram: &[AddrRange]) -> Vec<NodeRam> {
    let mut nodes: Vec<NodeRam> = Vec::new();
    for zone in zones {
        let at = nodes.iter().position(|n| n.node == zone.node).unwrap_or_else(|| {
            nodes.push(NodeRam { node: zone.node, ranges: Vec::new() });
            nodes.len() - 1
        });
        let mut mine = vec![zone.span];
        for other in zones {
            let inside = other.node != zone.node && other.span.start > zone.span.start;
            if inside && !other.span.is_empty() {
                mine = subtract(&mine, other.span);
            }
        }
        nodes[at].ranges.extend(intersect(ram, &mine));
    }
    for node in &mut nodes {
        node.ranges.sort_unstable();
        node.ranges.dedup_by(|next, prev| {
            let joins = next.start <= prev.end;
            if joins {
                prev.end = prev.end.max(next.end);
            }
            joins
        });
    }
    nodes.sort_unstable_by_key(|n| n.node);
    nodes
}

/// What is in both lists; `a` and `b` are sorted.
pub(crate) fn intersect(a: &[AddrRange], b: &[AddrRange]) -> Vec<AddrRange> {
    let mut both = Vec::new();
    for x in a {
        for y in b {
            let range = AddrRange::new(x.start.max(y.start), x.end.min(y.end));
            if !range.is_empty() {
                both.push(range);
            }
        }
    }
    both.sort_unstable();
    both
}

fn subtract(from: &[AddrRange], what: AddrRange) -> Vec<AddrRange> {
    let parts = from.iter().flat_map(|r| {
        [
            AddrRange::new(r.start, r.end.min(what.start)),
            AddrRange::new(r.start.max(what.end), r.end),
        ]
    });
    parts.filter(|r| !r.is_empty()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const IOMEM: &[u8] = b"00000000-00000fff : Reserved\n00001000-0009fbff : System RAM\n\
        0009fc00-000fffff : Reserved\n00100000-7fffffff : System RAM\n  01000000-02209987 : Kernel code\n\
        100000000-17fffffff : System RAM\n180000000-1ffffffff : CXL Window 0\n  \
        180000000-1bfffffff : dax0.0\n    180000000-1bfffffff : System RAM (kmem)\n";

    fn mib(a: u64, b: u64) -> AddrRange {
        AddrRange::new(a << 20, b << 20)
    }

    #[test]
    fn ram_is_whole_pages_of_system_ram() {
        let ram = parse_iomem(IOMEM).unwrap();
        let low = AddrRange::new(0x1000, 0x9f000);
        assert_eq!(ram, [low, mib(1, 2048), mib(4096, 7168)]);
    }

    #[test]
    fn zeros_are_a_missing_right_and_no_ram_is_told() {
        let hidden = b"00000000-00000000 : Reserved\n00000000-00000000 : System RAM\n";
        let kind = |text: &[u8]| parse_iomem(text).unwrap_err().kind();
        assert_eq!(kind(hidden), RamKind::Hidden);
        assert_eq!(kind(b"00000000-00000fff : Reserved\n"), RamKind::Nothing);
        assert_eq!(kind(b"\xff: \n-:\nSystem RAM"), RamKind::Nothing);
    }

    fn zones(list: &[(u32, u64, u64, u64)]) -> Vec<Zone> {
        let text: String = list
            .iter()
            .map(|(node, start, spanned, present)| {
                format!(
                    "Node {node}, zone   Normal\n  pages free     1\n        spanned  {spanned}\n        \
                     present  {present}\n        managed  1\n  start_pfn:           {start}\n"
                )
            })
            .collect();
        parse_zones(text.as_bytes())
    }

    #[test]
    fn nodes_have_the_ram_in_their_zones() {
        let pages = |mib: u64| mib << 8;
        // Node 1 lies inside the span of node 0, node 2 has no memory.
        let zones = zones(&[
            (0, 1, pages(2048) - 1, 100),
            (0, pages(4096), pages(3072), 100),
            (1, pages(5120), pages(1024), 100),
            (2, 0, 0, 0),
        ]);
        let nodes = nodes_of(&zones, &[mib(1, 2048), mib(4096, 7168)]);
        let ranges: Vec<_> = nodes.iter().map(|n| (n.node, n.ranges.clone())).collect();
        let expected = vec![
            (0, vec![mib(1, 2048), mib(4096, 5120), mib(6144, 7168)]),
            (1, vec![mib(5120, 6144)]),
            (2, vec![]),
        ];
        assert_eq!(ranges, expected);
        let ram = Ram { ranges: vec![mib(1, 2048), mib(4096, 7168)], nodes };
        assert_eq!(ram.node_of(5500 << 20), Some(1));
        assert_eq!(ram.node_of(3000 << 20), None);
        assert_eq!(ram.within(&[mib(0, 3), mib(2000, 5000)]).len(), 3);
    }

    #[test]
    fn this_machine_has_ram_and_it_belongs_to_nodes() {
        let ram = match Ram::read(&Proc::default()) {
            Ok(ram) => ram,
            Err(err) if err.kind() != RamKind::Nothing => {
                eprintln!("skipped: {err}");
                return;
            }
            Err(err) => panic!("{err}"),
        };
        let of_nodes: u64 = ram.nodes.iter().map(NodeRam::len).sum();
        assert_eq!(of_nodes, ram.len(), "{ram:?}");
    }
}
