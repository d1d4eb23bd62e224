//! Physical memory as a target: all of it, a node's, or given ranges.
//!
//! A [`Memory`] is what a user asked for. [`Memory::ranges`] is where that is now. The two are
//! separate because memory comes and goes: the ranges of a node must be read again from time to
//! time, and a node that was taken out of the machine has none.

use std::fmt;

use isotherm_core::AddrRange;
use isotherm_core::addr::PAGE_SIZE;
use isotherm_host::error::{Class, Error, Kind};
use isotherm_host::proc::Proc;
use isotherm_host::ram::{Ram, RamKind};

/// Which physical memory is a target.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Memory {
    /// All System RAM.
    All,
    /// The RAM of one node.
    Node(u32),
    /// The RAM in these ranges of physical addresses: sorted, not overlapping, in whole pages.
    Ranges(Vec<AddrRange>),
}

/// Why physical memory cannot be a target.
pub type MemoryError = Error<MemoryKind>;

/// The kind of a [`MemoryError`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum MemoryKind {
    /// The text does not say which memory.
    Text,
    /// The machine does not say where its RAM is.
    Ram(RamKind),
    /// There is no such node.
    NoSuchNode,
    /// The node is there and has no memory, or has none any more.
    NodeWithoutMemory,
    /// No part of a range is RAM.
    OutsideRam,
}

impl Kind for MemoryKind {
    fn class(self) -> Class {
        match self {
            Self::Text => Class::Usage,
            Self::Ram(kind) => kind.class(),
            Self::NodeWithoutMemory => Class::Gone,
            Self::NoSuchNode | Self::OutsideRam => Class::NotSupported,
        }
    }
}

/// The first line of every [`MemoryError`].
const WHAT: &str = "this physical memory cannot be a target";

/// How it is written; the part of an error that says what to do.
const FORMS: &str = "all, node:1, or physical addresses START-END[,START-END...] such as 4G-6G or \
                     0x100000000-0x180000000 (END is the first byte behind)";

impl Memory {
    /// Reads `all`, `node:N` or `START-END,...`. Addresses are in bytes: decimal with an optional
    /// unit (K, M, G, T: powers of 1024), or hexadecimal after `0x`. Bounds that are not multiples
    /// of the page size are refused.
    ///
    /// # Errors
    ///
    /// What is wrong with the text.
    pub fn parse(text: &str) -> Result<Self, MemoryError> {
        let wrong = |why: String| Error::new(MemoryKind::Text, WHAT, text, why, FORMS);
        if text == "all" {
            return Ok(Self::All);
        }
        if let Some(node) = text.strip_prefix("node:") {
            let node = node.parse().ok();
            return node.map(Self::Node).ok_or_else(|| wrong("that is not a node's number".into()));
        }
        let mut ranges = Vec::new();
        for part in text.split(',') {
            let Some((start, end)) = part.split_once('-') else {
                return Err(wrong(format!("`{part}` is none of these")));
            };
            let bound = |text: &str| match address(text.trim()) {
                Some(addr) if addr.is_multiple_of(PAGE_SIZE) => Ok(addr),
                Some(_) => {
                    Err(wrong(format!("{text} is not at the border of a page (4096 bytes)")))
                }
                None => Err(wrong(format!("`{text}` is not an address"))),
            };
            let range = AddrRange::new(bound(start)?, bound(end)?);
            if range.is_empty() {
                return Err(wrong(format!("`{part}` does not begin before it ends")));
            }
            ranges.push(range);
        }
        ranges.sort_unstable();
        if let Some([a, b]) = ranges.windows(2).find(|pair| pair[0].end > pair[1].start) {
            let (a, b) = (Self::Ranges(vec![*a]), Self::Ranges(vec![*b]));
            return Err(wrong(format!("{a} and {b} overlap")));
        }
        Ok(Self::Ranges(ranges))
    }

    /// Where this memory is now: sorted, not overlapping, in whole pages, never empty.
    ///
    /// # Errors
    ///
    /// If the machine has no such memory, or does not say.
    pub fn ranges(&self, proc: &Proc) -> Result<Vec<AddrRange>, MemoryError> {
        let ram = Ram::read(proc).map_err(|e| e.about(WHAT).map_kind(MemoryKind::Ram))?;
        self.ranges_in(&ram)
    }

    /// As [`Memory::ranges`], with the machine's RAM as it was read.
    ///
    /// # Errors
    ///
    /// As for [`Memory::ranges`].
    pub fn ranges_in(&self, ram: &Ram) -> Result<Vec<AddrRange>, MemoryError> {
        match self {
            Self::All => Ok(ram.ranges.clone()),
            Self::Node(node) => {
                let refused = |kind, why| {
                    let with_memory = ram.nodes.iter().filter(|n| !n.is_empty());
                    let nodes: Vec<_> = with_memory.map(|n| n.node.to_string()).collect();
                    let hint = format!("nodes with memory: {}", nodes.join(", "));
                    Err(Error::new(kind, WHAT, self.to_string(), why, hint))
                };
                match ram.nodes.iter().find(|n| n.node == *node) {
                    Some(found) if !found.is_empty() => Ok(found.ranges.clone()),
                    Some(_) => {
                        let why = format!("node {node} has no memory (any more)");
                        refused(MemoryKind::NodeWithoutMemory, why)
                    }
                    None => {
                        refused(MemoryKind::NoSuchNode, format!("the machine has no node {node}"))
                    }
                }
            }
            Self::Ranges(ranges) => {
                let outside = |r: &&AddrRange| ram.ranges.iter().all(|ram| !ram.intersects(r));
                if let Some(range) = ranges.iter().find(outside) {
                    let hint = format!("RAM is at {} (/proc/iomem)", shown(&ram.ranges));
                    let why = "no part of this range is System RAM";
                    let range = shown(&[*range]);
                    return Err(Error::new(MemoryKind::OutsideRam, WHAT, range, why, hint));
                }
                Ok(ram.within(ranges))
            }
        }
    }

    /// The target's name: `memory`, `node1`, or `ranges`.
    #[must_use]
    pub fn name(&self) -> String {
        match self {
            Self::All => "memory".to_owned(),
            Self::Node(node) => format!("node{node}"),
            Self::Ranges(_) => "ranges".to_owned(),
        }
    }
}

impl fmt::Display for Memory {
    /// As [`Memory::parse`] reads it.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::All => f.write_str("all"),
            Self::Node(node) => write!(f, "node:{node}"),
            Self::Ranges(ranges) => f.write_str(&shown(ranges)),
        }
    }
}

impl std::str::FromStr for Memory {
    type Err = MemoryError;

    fn from_str(text: &str) -> Result<Self, MemoryError> {
        Self::parse(text)
    }
}

fn shown(ranges: &[AddrRange]) -> String {
    let parts: Vec<_> = ranges.iter().map(|r| format!("{:#x}-{:#x}", r.start, r.end)).collect();
    parts.join(",")
}

/// A whole number of bytes.
fn address(text: &str) -> Option<u64> {
    if let Some(hex) = text.strip_prefix("0x") {
        // `from_str_radix` alone would take a sign.
        return hex
            .bytes()
            .all(|b| b.is_ascii_hexdigit())
            .then(|| u64::from_str_radix(hex, 16).ok())?;
    }
    let at = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let (number, unit) = text.split_at(at);
    let shift = match unit {
        "" | "B" => 0,
        "K" | "KiB" => 10,
        "M" | "MiB" => 20,
        "G" | "GiB" => 30,
        "T" | "TiB" => 40,
        _ => return None,
    };
    number.parse::<u64>().ok()?.checked_mul(1 << shift)
}

#[cfg(test)]
mod tests {
    use super::*;
    use isotherm_host::ram::NodeRam;

    fn gib(a: u64, b: u64) -> AddrRange {
        AddrRange::new(a << 30, b << 30)
    }

    #[test]
    fn texts_are_read_and_written_back() {
        for (text, shown) in [
            ("all", "all"),
            ("node:3", "node:3"),
            ("4G-6G", "0x100000000-0x180000000"),
            ("0x2000-0x3000,0-4096", "0x0-0x1000,0x2000-0x3000"),
        ] {
            let memory = Memory::parse(text).expect(text);
            assert_eq!(memory.to_string(), shown);
            assert_eq!(Memory::parse(shown).expect(shown), memory);
        }
    }

    #[test]
    fn bad_texts_are_refused_with_the_reason() {
        for (text, why) in [
            ("", "none of these"),
            ("everything", "none of these"),
            ("node:x", "number"),
            ("node:-1", "number"),
            ("6G-4G", "does not begin before it ends"),
            ("4G-4G", "does not begin before it ends"),
            ("0-100", "border of a page"),
            ("0x+1000-0x2000", "not an address"),
            ("0-99999999999T", "not an address"),
            ("0-8G,4G-12G", "overlap"),
            ("4G", "none of these"),
        ] {
            let err = Memory::parse(text).expect_err(text);
            assert!(err.to_string().contains(why), "{text}: {err}");
            assert_eq!(err.exit_code(), 2);
        }
    }

    #[test]
    fn ranges_are_ram_of_the_machine() {
        let node = |node, ranges: &[AddrRange]| NodeRam { node, ranges: ranges.to_vec() };
        let ram = Ram {
            ranges: vec![gib(0, 3), gib(4, 8)],
            nodes: vec![node(0, &[gib(0, 3), gib(4, 6)]), node(1, &[gib(6, 8)]), node(2, &[])],
        };
        let ranges = |text: &str| Memory::parse(text).expect(text).ranges_in(&ram);
        assert_eq!(ranges("all").unwrap(), ram.ranges);
        assert_eq!(ranges("node:1").unwrap(), [gib(6, 8)]);
        assert_eq!(ranges("2G-5G").unwrap(), [gib(2, 3), gib(4, 5)]);
        for (text, code, said) in [
            ("node:2", 5, "has no memory"),
            ("node:7", 3, "nodes with memory: 0, 1"),
            ("3G-4G", 3, "no part of this range"),
            ("0-1G,8G-9G", 3, "0x200000000-0x240000000"),
        ] {
            let err = ranges(text).expect_err(text);
            assert_eq!(err.exit_code(), code, "{err}");
            assert!(err.to_string().contains(said), "{err}");
        }
    }
}
