//! How hot memory is, node by node.

use serde::Serialize;

use isotherm_act::apply::Placed;
use isotherm_core::{AddrRange, RegionInfo};
use isotherm_host::proc::Proc;
use isotherm_ops::targets::Memory;

/// A class of heat.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Heat {
    /// Accessed in at least half of the samples of the last window.
    Hot,
    /// Accessed in some of them.
    Warm,
    /// Not accessed in the last window, but less than a minute ago.
    Cool,
    /// Not accessed for a minute or longer.
    Cold,
    /// Not known yet.
    Unknown,
}

impl Heat {
    /// All, hottest first.
    pub const ALL: [Self; 5] = [Self::Hot, Self::Warm, Self::Cool, Self::Cold, Self::Unknown];

    /// The label of the class in the table.
    #[must_use]
    pub const fn text(self) -> &'static str {
        match self {
            Self::Hot => "hot (>= 50 %)",
            Self::Warm => "warm (> 0 %)",
            Self::Cool => "idle < 1 min",
            Self::Cold => "idle >= 1 min",
            Self::Unknown => "not known yet",
        }
    }

    fn of(region: &Warmth, max_nr: u32, cold_age: u32) -> Self {
        match region.nr_accesses {
            _ if !region.known => Self::Unknown,
            0 if region.age >= cold_age => Self::Cold,
            0 => Self::Cool,
            n if n.saturating_mul(2) >= max_nr => Self::Hot,
            _ => Self::Warm,
        }
    }
}

/// A region as the table needs it.
#[derive(Debug, Clone)]
pub(super) struct Warmth {
    /// Whether the region has been looked at.
    known: bool,
    nr_accesses: u32,
    age: u32,
    /// Bytes on each node.
    on: Vec<u64>,
}

impl Warmth {
    /// From a region of a process whose pages' nodes are known.
    pub(super) fn of(region: &Placed) -> Self {
        let Placed { known, nr_accesses, age, .. } = *region;
        Self { known, nr_accesses, age, on: region.on.clone() }
    }

    /// From a region of physical memory. A region can span two adjacent nodes, since regions are
    /// merged.
    pub(super) fn on(region: &RegionInfo, memory: &[Vec<AddrRange>]) -> Self {
        let here = |range: &AddrRange| range.overlap(&region.range);
        Self {
            known: region.resolved,
            nr_accesses: region.nr_accesses,
            age: region.age,
            on: memory.iter().map(|ranges| ranges.iter().map(here).sum()).collect(),
        }
    }
}

/// The physical memory of each node; empty for a node that does not exist any more.
pub(super) fn memory_of(nodes: &[u32]) -> Vec<Vec<AddrRange>> {
    let of = |node: &u32| Memory::Node(*node).ranges(&Proc::default()).unwrap_or_default();
    nodes.iter().map(of).collect()
}

/// Bytes of each class of heat on each node.
#[derive(Debug, Clone, PartialEq, Default, Serialize)]
pub struct HeatTable {
    /// The nodes.
    pub nodes: Vec<u32>,
    /// Per class, hottest first: bytes per node.
    pub bytes: [Vec<u64>; 5],
    /// The share of all accesses (by the regions' frequencies) that each node serves, in basis
    /// points; none if there was no access.
    pub accesses_bp: Vec<Option<u64>>,
}

/// Memory that was idle for so long is cold, in ns.
pub(super) const COLD_NS: u64 = 60_000_000_000;

impl HeatTable {
    /// `cold_age`: the age from which on idle memory is cold, see [`COLD_NS`].
    pub(super) fn new(
        nodes: &[u32],
        regions: impl Iterator<Item = Warmth>,
        max_nr: u32,
        cold_age: u32,
    ) -> Self {
        let none = || vec![0_u64; nodes.len()];
        let mut bytes = [none(), none(), none(), none(), none()];
        let mut weight = vec![0_u128; nodes.len()];
        for region in regions {
            let class = Heat::of(&region, max_nr, cold_age) as usize;
            for (at, here) in region.on.iter().enumerate().take(nodes.len()) {
                bytes[class][at] += here;
                let frequency = if region.known { region.nr_accesses } else { 0 };
                weight[at] += u128::from(*here) * u128::from(frequency);
            }
        }
        let all: u128 = weight.iter().sum();
        let share = |w: &u128| w.saturating_mul(10_000).checked_div(all);
        let share = |w| share(w).and_then(|bp| u64::try_from(bp).ok());
        let accesses_bp = weight.iter().map(share).collect();
        Self { nodes: nodes.to_vec(), bytes, accesses_bp }
    }

    /// The bytes that were accessed in the last window: on these nodes, and on all.
    #[must_use]
    pub fn accessed(&self, on: &[u32]) -> (u64, u64) {
        let (mut there, mut all) = (0, 0);
        for class in [Heat::Hot, Heat::Warm] {
            for (node, bytes) in self.nodes.iter().zip(&self.bytes[class as usize]) {
                all += bytes;
                there += if on.contains(node) { *bytes } else { 0 };
            }
        }
        (there, all)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn heat_is_counted_where_it_is() {
        let region = |nr_accesses, age, on: [u64; 2]| Warmth {
            known: age > 0,
            nr_accesses,
            age,
            on: on.to_vec(),
        };
        let regions = [
            region(20, 1, [300, 100]),
            region(10, 1, [0, 50]),
            region(9, 1, [10, 20]),
            region(0, 599, [5, 0]),
            region(0, 600, [0, 7]),
            region(20, 0, [8, 0]),
        ];
        let table = HeatTable::new(&[0, 1], regions.into_iter(), 20, 600);
        assert_eq!(table.bytes, [vec![300, 150], vec![10, 20], vec![5, 0], vec![0, 7], vec![8, 0]]);
        // 6090 of 8770.
        assert_eq!(table.accesses_bp, [Some(6944), Some(3055)]);
        assert_eq!(table.accessed(&[0]), (310, 480));
        let empty = HeatTable::new(&[0], std::iter::empty(), 20, 600);
        assert_eq!(empty.accesses_bp, [None]);
        // A region of physical memory that spans two nodes counts on both.
        let range = |start: u64, end: u64| AddrRange::new(start, end);
        let over = RegionInfo { range: range(4, 6), ..RegionInfo::default() };
        let memory = [vec![range(0, 3), range(4, 5)], vec![range(5, 8)]];
        assert_eq!(Warmth::on(&over, &memory).on, [1, 1]);
    }
}
