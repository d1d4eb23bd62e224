//! Which pages of a process are in swap, over time, as its pagemap says.

use std::fs::File;
use std::os::unix::fs::FileExt;

use anyhow::Context;
use isotherm_core::AddrRange;
use isotherm_sys::clock;
use serde::{Deserialize, Serialize};

const PAGE: u64 = 4096;
/// Bits of a pagemap entry.
const SWAPPED: u64 = 1 << 62;
const PRESENT: u64 = 1 << 63;
/// Entries per read.
const CHUNK: u64 = 1 << 15;

/// Time between two looks.
pub(crate) const PERIOD_US: u64 = 200_000;

/// Neighbouring pages that went to swap, or came back.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Change {
    /// When it was seen.
    pub(crate) ns: u64,
    /// First address.
    pub(crate) start: u64,
    /// Number of pages.
    pub(crate) pages: u64,
    /// Whether they went.
    pub(crate) out: bool,
}

/// Watches fixed ranges.
#[derive(Debug)]
pub(crate) struct Watch {
    pagemap: File,
    ranges: Vec<(AddrRange, Vec<bool>)>,
    /// All that was seen.
    pub(crate) changes: Vec<Change>,
}

impl Watch {
    /// Of `ranges` (whole pages) of a process, of which nothing is in swap yet.
    pub(crate) fn open(pid: u32, ranges: &[AddrRange]) -> anyhow::Result<Self> {
        let path = format!("/proc/{pid}/pagemap");
        let pagemap = File::open(&path).with_context(|| format!("open {path}"))?;
        let pages = |r: &AddrRange| usize::try_from(r.len() / PAGE).unwrap_or(0);
        let ranges = ranges.iter().map(|r| (*r, vec![false; pages(r)])).collect();
        Ok(Self { pagemap, ranges, changes: Vec::new() })
    }

    /// Looks once. An error means, as a rule, that the process has ended.
    pub(crate) fn look(&mut self) -> std::io::Result<()> {
        let mut buf = Vec::new();
        for (range, states) in &mut self.ranges {
            let first = range.start / PAGE;
            for (chunk, states) in (0..).zip(states.chunks_mut(1 << 15)) {
                buf.resize(states.len() * 8, 0);
                let at = first + chunk * CHUNK;
                self.pagemap.read_exact_at(&mut buf, at * 8)?;
                compare(clock::now().as_ns(), at * PAGE, &buf, states, &mut self.changes);
            }
        }
        Ok(())
    }
}

fn compare(ns: u64, start: u64, entries: &[u8], states: &mut [bool], changes: &mut Vec<Change>) {
    let entries = entries.as_chunks::<8>().0.iter().map(|e| u64::from_ne_bytes(*e));
    for ((address, entry), state) in (start..).step_by(4096).zip(entries).zip(states) {
        let out = entry & SWAPPED != 0;
        // A page that is neither has not come back: its process has just ended.
        if out == *state || !out && entry & PRESENT == 0 {
            continue;
        }
        *state = out;
        match changes.last_mut() {
            Some(c) if c.ns == ns && c.out == out && c.start + c.pages * PAGE == address => {
                c.pages += 1;
            }
            _ => changes.push(Change { ns, start: address, pages: 1, out }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn changes_are_joined() {
        let entries: Vec<u8> = [0, SWAPPED, SWAPPED | 5, PRESENT, 0]
            .iter()
            .flat_map(|e: &u64| e.to_ne_bytes())
            .collect();
        let mut states = [false, false, false, true, true];
        let mut changes = Vec::new();
        compare(7, 0x10_000, &entries, &mut states, &mut changes);
        let change = |start, pages, out| Change { ns: 7, start, pages, out };
        assert_eq!(changes, [change(0x11_000, 2, true), change(0x13_000, 1, false)]);
        assert_eq!(states, [false, true, true, false, true]);
        compare(8, 0x10_000, &entries, &mut states, &mut changes);
        assert_eq!(changes.len(), 2);
    }

    #[test]
    fn our_own_pages_are_seen() {
        let page = Box::new([1u8; 8192]);
        let start = (page.as_ptr() as u64).next_multiple_of(PAGE);
        let range = AddrRange::new(start, start + PAGE);
        let mut watch = Watch::open(std::process::id(), &[range]).unwrap();
        watch.look().unwrap();
        assert!(page[0] == 1 && watch.changes.len() <= 1);
    }
}
