//! What is remembered about an address space between looks and clears.
//!
//! Time is counted in **epochs**: an epoch begins with a clear. A mapping keeps the last epoch in
//! which a look found it touched; a page keeps the epoch that its `prepare` began. The page was
//! touched since then exactly if the mapping's number is not smaller (per mapping, as all here).

use std::collections::BTreeMap;

use isotherm_core::addr::{PAGE_SIZE, round_down};
use isotherm_core::{AddrRange, PageState};
use isotherm_host::proc::MappingUse;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Seen {
    range: AddrRange,
    rss_bytes: u64,
    referenced_bytes: u64,
    /// Last epoch in which it was found touched; 0 for never.
    touched: u64,
}

/// The mappings of one target, and the pages that were made old.
#[derive(Debug)]
pub(super) struct AddressSpace {
    /// The epoch that runs; the first, before any clear, is 1.
    epoch: u64,
    mappings: Vec<Seen>,
    old: Vec<Seen>,
    /// Epoch of the last `prepare` of a page.
    armed: BTreeMap<u64, u64>,
}

impl Default for AddressSpace {
    fn default() -> Self {
        Self { epoch: 1, mappings: Vec::new(), old: Vec::new(), armed: BTreeMap::new() }
    }
}

/// Limit for remembered pages. A context watches a few pages per region, thousands at most. It has
/// given up older ones.
const MAX_ARMED: usize = 1 << 16;

impl AddressSpace {
    /// Takes in what a look found, in address order.
    pub(super) fn looked(&mut self, found: impl Iterator<Item = MappingUse>) {
        std::mem::swap(&mut self.mappings, &mut self.old);
        self.mappings.clear();
        for mapping in found {
            // A mapping that grew, shrank or was cut in two inherits from the old one.
            let before = overlapping(&self.old, mapping.range).map(|m| m.touched).max();
            let touched =
                if mapping.referenced_bytes > 0 { self.epoch } else { before.unwrap_or(0) };
            self.mappings.push(Seen {
                range: mapping.range,
                rss_bytes: mapping.rss_bytes,
                referenced_bytes: mapping.referenced_bytes,
                touched,
            });
        }
    }

    /// Notes that everything was made old.
    pub(super) fn cleared(&mut self) {
        self.epoch += 1;
        if self.armed.len() > MAX_ARMED {
            let oldest = self.epoch.saturating_sub(1);
            self.armed.retain(|_, epoch| *epoch >= oldest);
        }
    }

    /// Records that the clear just done made the page old, and returns the page's state before it.
    pub(super) fn arm(&mut self, addr: u64) -> PageState {
        let (state, epoch) = match self.find(addr) {
            None => return PageState::Absent,
            Some(m) if m.rss_bytes == 0 => (PageState::Absent, self.epoch),
            Some(m) if m.referenced_bytes > 0 => (PageState::Cleared, self.epoch),
            Some(_) => (PageState::Old, self.epoch),
        };
        self.armed.insert(round_down(addr, PAGE_SIZE), epoch);
        state
    }

    /// Whether the page was touched since it was made old, by the last look.
    pub(super) fn state(&self, addr: u64) -> PageState {
        let Some(mapping) = self.find(addr) else { return PageState::Absent };
        if mapping.rss_bytes == 0 {
            return PageState::Absent;
        }
        // The page was never made old. The answer is since the last clear, as the hardware would
        // give it.
        let since = self.armed.get(&round_down(addr, PAGE_SIZE)).copied().unwrap_or(self.epoch);
        if mapping.touched >= since { PageState::Young } else { PageState::Old }
    }

    /// Resident memory by the last look, in bytes.
    pub(super) fn rss_bytes(&self) -> u64 {
        self.mappings.iter().map(|m| m.rss_bytes).sum()
    }

    pub(super) fn share(&self, addr: u64) -> Option<f64> {
        let mapping = self.find(addr).filter(|m| m.rss_bytes > 0)?;
        let kib = |bytes: u64| u32::try_from(bytes / 1024).map_or(f64::from(u32::MAX), f64::from);
        Some(kib(mapping.referenced_bytes) / kib(mapping.rss_bytes).max(1.0))
    }

    fn find(&self, addr: u64) -> Option<&Seen> {
        let behind = self.mappings.partition_point(|m| m.range.end <= addr);
        self.mappings.get(behind).filter(|m| m.range.contains(addr))
    }
}

fn overlapping(mappings: &[Seen], range: AddrRange) -> impl Iterator<Item = &Seen> {
    let first = mappings.partition_point(|m| m.range.end <= range.start);
    mappings.get(first..).unwrap_or_default().iter().take_while(move |m| m.range.start < range.end)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn used(start: u64, end: u64, rss_kib: u64, referenced_kib: u64) -> MappingUse {
        MappingUse {
            range: AddrRange::new(start, end),
            rss_bytes: rss_kib * 1024,
            referenced_bytes: referenced_kib * 1024,
            is_monitored: true,
            huge_advice: None,
            grows_down: false,
        }
    }

    /// The clear for one page must not erase an earlier touch of another page.
    #[test]
    fn a_touch_before_somebody_elses_clear_is_kept() {
        let mut space = AddressSpace::default();
        space.looked([used(0x1000, 0x9000, 32, 0), used(0xa000, 0xb000, 4, 4)].into_iter());
        space.cleared();
        assert_eq!(space.arm(0x1000), PageState::Old);
        assert_eq!(space.arm(0xa123), PageState::Cleared);
        // The first mapping is touched; then another page is prepared, which clears everything.
        space.looked([used(0x1000, 0x9000, 32, 4), used(0xa000, 0xb000, 4, 0)].into_iter());
        space.cleared();
        assert_eq!(space.arm(0x2000), PageState::Cleared);
        space.looked([used(0x1000, 0x9000, 32, 0), used(0xa000, 0xb000, 4, 0)].into_iter());
        assert_eq!(space.state(0x1fff), PageState::Young);
        assert_eq!(space.state(0x2000), PageState::Old);
        assert_eq!(space.state(0xa000), PageState::Old);
    }

    #[test]
    fn holes_and_empty_mappings_are_absent() {
        let mut space = AddressSpace::default();
        space.looked([used(0x1000, 0x2000, 0, 0), used(0x3000, 0x4000, 4, 4)].into_iter());
        for (addr, state) in [
            (0x0fff, PageState::Absent),
            (0x1000, PageState::Absent),
            (0x2000, PageState::Absent),
            (0x3fff, PageState::Young),
            (0x4000, PageState::Absent),
        ] {
            assert_eq!(space.state(addr), state, "{addr:#x}");
        }
    }

    #[test]
    fn a_mapping_that_grows_keeps_its_history() {
        let mut space = AddressSpace::default();
        space.looked([used(0x1000, 0x3000, 8, 8)].into_iter());
        space.looked([used(0x1000, 0x8000, 28, 0)].into_iter());
        assert_eq!(space.state(0x7000), PageState::Young);
        assert_eq!(space.share(0x7000), Some(0.0));
        space.looked([used(0x1000, 0x8000, 28, 7)].into_iter());
        assert_eq!(space.share(0x7000), Some(0.25));
    }
}
