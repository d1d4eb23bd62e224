//! NUMA nodes: which there are, and sharing pages out between some of them.

use std::path::Path;

use super::error::{ActError, ErrorKind};
use crate::proc::Mapping;

/// The nodes of this machine that have memory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Nodes {
    with_memory: Vec<u32>,
}

impl Nodes {
    /// This machine's, read from `/sys/devices/system/node`.
    ///
    /// # Errors
    ///
    /// The kernel knows no nodes (`CONFIG_NUMA` is off).
    pub fn read() -> Result<Self, ActError> {
        Self::read_from(Path::new("/sys/devices/system/node"))
    }

    /// Those of a directory like that one.
    ///
    /// # Errors
    ///
    /// As for [`Nodes::read`].
    pub fn read_from(dir: &Path) -> Result<Self, ActError> {
        let file = dir.join("has_memory");
        let tried = format!("read {}", file.display());
        let refused = |why| {
            let hint = "a kernel with CONFIG_NUMA";
            ActError::new(ErrorKind::NotSupported, "memory nodes", tried.clone(), why, hint)
        };
        let text = std::fs::read_to_string(&file)
            .map_err(|e| refused("this kernel does not know memory nodes").with(e))?;
        match parse_list(&text) {
            Some(with_memory) if !with_memory.is_empty() => Ok(Self { with_memory }),
            _ => Err(refused("there is no list of nodes in it")),
        }
    }

    /// The node numbers that a file such as `/sys/devices/system/node/online` lists (`0-1,3`); none if it cannot
    /// be read or understood.
    #[must_use]
    pub fn list(file: &Path) -> Option<Vec<u32>> {
        parse_list(&std::fs::read_to_string(file).ok()?)
    }

    /// Their numbers, ascending.
    #[must_use]
    pub fn with_memory(&self) -> &[u32] {
        &self.with_memory
    }

    /// Whether pages can be moved to this node.
    ///
    /// # Errors
    ///
    /// There is no such node, or it has no memory; says which there are.
    pub fn check(&self, node: u32) -> Result<(), ActError> {
        if self.with_memory.contains(&node) {
            return Ok(());
        }
        let all: Vec<_> = self.with_memory.iter().map(u32::to_string).collect();
        let why = format!("node {node} does not exist or has no memory");
        let hint = format!("nodes with memory: {}", all.join(", "));
        let tried = format!("find node {node}");
        Err(ActError::new(ErrorKind::NoSuchNode, format!("node {node}"), tried, why, hint))
    }
}

/// `0-1,3` and the like.
fn parse_list(text: &str) -> Option<Vec<u32>> {
    let mut all = Vec::new();
    for part in text.trim().split(',').filter(|part| !part.is_empty()) {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        let (first, last) = (first.parse::<u32>().ok()?, last.parse::<u32>().ok()?);
        // MAX_NUMNODES is 1024 at most.
        all.extend(first..=last.min(first.saturating_add(1024)));
    }
    Some(all)
}

/// Destinations with weights: of so many neighbouring pages in a row each node gets its weight.
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

/// A page's place among its neighbours in the mapped object: the kernel's own index for interleaving,
/// `(vm_pgoff >> order) + ((addr - start) >> (12 + order))`. A large page of 2^`order` pages has one.
///
/// The kernel does not show the offset of anonymous mappings. It is that of their address, unless
/// they were moved (mremap); then the nodes alternate all the same, from another begin on.
#[must_use]
pub fn interleave_index(mapping: &Mapping<'_>, addr: u64, order: u32) -> u64 {
    let anonymous = mapping.inode == 0;
    let offset = if anonymous { mapping.range.start } else { mapping.offset };
    let shift = 12 + order.min(51);
    (offset >> shift) + (addr.saturating_sub(mapping.range.start) >> shift)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::proc::parse_maps;

    #[test]
    fn lists_of_nodes() {
        for (text, expected) in [
            ("0\n", Some(vec![0])),
            ("0-2,5\n", Some(vec![0, 1, 2, 5])),
            ("\n", Some(vec![])),
            ("x\n", None),
            ("1-x\n", None),
        ] {
            assert_eq!(parse_list(text), expected, "{text:?}");
        }
        let dir = tempfile::tempdir().unwrap();
        assert_eq!(Nodes::read_from(dir.path()).unwrap_err().kind(), ErrorKind::NotSupported);
        std::fs::write(dir.path().join("has_memory"), "0,2\n").unwrap();
        let nodes = Nodes::read_from(dir.path()).unwrap();
        assert!(nodes.check(2).is_ok());
        let error = nodes.check(1).unwrap_err();
        let expected = expect_test::expect![[r"
            cannot act on node 1
              tried: find node 1
              why:   node 1 does not exist or has no memory
              hint:  nodes with memory: 0, 2"]];
        expected.assert_eq(&error.to_string());
    }

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
