//! Distribution of pages over nodes by weight.

use isotherm_host::proc::Mapping;

/// Destination nodes with weights. Of as many neighbouring pages as the weights add up to, each
/// node gets as many as its weight.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WeightedNodes {
    all: Vec<(u32, u32)>,
    sum: u64,
}

impl WeightedNodes {
    /// These nodes with these weights.
    #[must_use]
    pub fn new(all: &[(u32, u32)]) -> Self {
        let sum = all.iter().map(|(_, weight)| u64::from(*weight)).sum();
        Self { all: all.to_vec(), sum }
    }

    /// The node for the page with this [`interleave_index`]; `None` if all weights are zero.
    #[must_use]
    pub fn node_of(&self, index: u64) -> Option<u32> {
        let mut x = index.checked_rem(self.sum)?;
        for &(node, weight) in &self.all {
            match x.checked_sub(u64::from(weight)) {
                Some(rest) => x = rest,
                None => return Some(node),
            }
        }
        None
    }
}

/// A page's place among its neighbours in the mapped object: the kernel's own index for
/// interleaving, `(vm_pgoff >> order) + ((addr - start) >> (12 + order))`. A large page of
/// 2^`order` pages has one.
///
/// The kernel does not show `vm_pgoff` of anonymous mappings. It follows from their address unless
/// they were moved (mremap). Pages of a moved mapping alternate between the nodes all the same, but
/// the sequence begins elsewhere.
#[must_use]
pub fn interleave_index(mapping: &Mapping<'_>, addr: u64, order: u32) -> u64 {
    let anonymous = mapping.inode == 0;
    let offset = if anonymous { mapping.range.start } else { mapping.offset };
    let shift = 12 + order.min(51);
    (offset >> shift) + (addr.saturating_sub(mapping.range.start) >> shift)
}

#[cfg(test)]
mod tests {
    use isotherm_host::proc::parse_maps;

    use super::*;

    #[test]
    fn weights_share_pages_out() {
        for (weights, expected) in [
            (&[(0, 1)][..], [Some(0); 6]),
            (&[(0, 2), (1, 1)], [Some(0), Some(0), Some(1), Some(0), Some(0), Some(1)]),
            (&[(3, 0), (1, 1)], [Some(1); 6]),
            (&[(0, 0)], [None; 6]),
            (&[], [None; 6]),
        ] {
            let nodes = WeightedNodes::new(weights);
            assert_eq!([0, 1, 2, 3, 4, 5].map(|i| nodes.node_of(i)), expected, "{weights:?}");
        }
    }

    #[test]
    fn neighbours_have_neighbouring_indexes() {
        let text = b"10000-20000 rw-p 00000000 00:00 0 \n20000-30000 r--p 00003000 08:01 9 /f\n";
        let maps: Vec<_> = parse_maps(text).collect();
        for (nr, addr, order, expected) in [
            (0, 0x10000, 0, 0x10),
            (0, 0x13000, 0, 0x13),
            (0, 0x13000, 1, 0x9),
            (1, 0x20000, 0, 3),
            (1, 0x25000, 0, 8),
        ] {
            assert_eq!(interleave_index(&maps[nr], addr, order), expected, "{addr:#x} {order}");
        }
    }
}
