//! NUMA nodes: which there are.

use std::path::Path;

use crate::error::{Class, Error, Kind};

/// Why there is no such node.
pub type NodesError = Error<NodesKind>;

/// The kind of a [`NodesError`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum NodesKind {
    /// The kernel knows no nodes (`CONFIG_NUMA` is off).
    NotSupported,
    /// There is no such node, or it has no memory.
    NoSuchNode,
}

impl Kind for NodesKind {
    fn class(self) -> Class {
        match self {
            Self::NotSupported => Class::NotSupported,
            Self::NoSuchNode => Class::Usage,
        }
    }
}

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
    pub fn read() -> Result<Self, NodesError> {
        Self::read_from(Path::new("/sys/devices/system/node"))
    }

    /// Those of a directory like that one.
    ///
    /// # Errors
    ///
    /// As for [`Nodes::read`].
    pub fn read_from(dir: &Path) -> Result<Self, NodesError> {
        let file = dir.join("has_memory");
        let tried = format!("read {}", file.display());
        let refused = |why| {
            let hint = "a kernel with CONFIG_NUMA";
            NodesError::new(
                NodesKind::NotSupported,
                "this machine shows no memory nodes",
                tried.clone(),
                why,
                hint,
            )
        };
        let text = std::fs::read_to_string(&file)
            .map_err(|e| refused("this kernel does not know memory nodes").with(e))?;
        match parse_list(&text) {
            Some(with_memory) if !with_memory.is_empty() => Ok(Self { with_memory }),
            _ => Err(refused("there is no list of nodes in it")),
        }
    }

    /// The node numbers that a file such as `/sys/devices/system/node/online` lists (`0-1,3`); none
    /// if it cannot be read or understood.
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
    pub fn check(&self, node: u32) -> Result<(), NodesError> {
        if self.with_memory.contains(&node) {
            return Ok(());
        }
        let all: Vec<_> = self.with_memory.iter().map(u32::to_string).collect();
        let why = format!("node {node} does not exist or has no memory");
        let hint = format!("nodes with memory: {}", all.join(", "));
        let tried = format!("find node {node}");
        let what = format!("there is no memory on node {node}");
        Err(NodesError::new(NodesKind::NoSuchNode, what, tried, why, hint))
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

#[cfg(test)]
mod tests {
    use super::*;

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
        assert_eq!(Nodes::read_from(dir.path()).unwrap_err().kind(), NodesKind::NotSupported);
        std::fs::write(dir.path().join("has_memory"), "0,2\n").unwrap();
        let nodes = Nodes::read_from(dir.path()).unwrap();
        assert!(nodes.check(2).is_ok());
        let error = nodes.check(1).unwrap_err();
        let expected = expect_test::expect![[r"
            there is no memory on node 1
              tried: find node 1
              why:   node 1 does not exist or has no memory
              hint:  nodes with memory: 0, 2"]];
        expected.assert_eq(&error.to_string());
    }
}
