//! A region's place, its size over time, and the accessed bits of its pages.

use isotherm_core::addr::PAGE_SIZE;
use isotherm_core::{AddrRange, Time};

use crate::config::{Config, Thp};
use crate::world::schedule::Schedule;

/// Size of a huge leaf.
pub(super) const HUGE: u64 = 2 << 20;
const PAGES_PER_HUGE: usize = 512;

/// What is known about the accessed bit of one leaf.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) enum Bit {
    /// Never asked about.
    #[default]
    Fresh,
    /// There was no page yet at that time.
    Absent(Time),
    /// Not touched up to that time since it was made old.
    Old(Time),
    /// Touched, and not made old since. This was known at that time.
    Young(Time),
}

impl Bit {
    /// When this was known.
    pub(super) const fn at(self) -> Option<Time> {
        match self {
            Self::Fresh => None,
            Self::Absent(t) | Self::Old(t) | Self::Young(t) => Some(t),
        }
    }
}

/// One region of a process.
#[derive(Debug, Clone)]
pub(super) struct Memory {
    base: u64,
    /// Mapped bytes from each time on; whole pages.
    sizes: Vec<(Time, u64)>,
    huge: bool,
    pub(super) populate: bool,
    huge_bits: Vec<Bit>,
    small_bits: Vec<Small>,
}

/// The bits of the 512 small leaves of 2 MiB. Terabytes are simulated, of which nearly all is never
/// touched, so leaves that are alike are kept as one.
#[derive(Debug, Clone)]
enum Small {
    Alike(Bit),
    Each(Box<[Bit; PAGES_PER_HUGE]>),
}

/// A page-table leaf of a region.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Leaf {
    /// Its bytes, from the region's start.
    pub(super) bytes: AddrRange,
    /// log2 of its size.
    pub(super) shift: u8,
    /// Since when it has been mapped.
    pub(super) since: Time,
}

impl Memory {
    /// All regions of `config` at their addresses: each on its own, with gaps between them.
    pub(super) fn map(config: &Config, schedule: &Schedule) -> Vec<Self> {
        let mut all = Vec::new();
        for (base, region) in config.bases().into_iter().zip(&config.regions) {
            let chunks = usize::try_from(region.size.div_ceil(HUGE)).unwrap_or(0);
            all.push(Self {
                base,
                sizes: vec![(Time(0), region.mapped.next_multiple_of(PAGE_SIZE))],
                huge: region.thp == Thp::On,
                populate: region.populate,
                huge_bits: vec![Bit::Fresh; chunks],
                small_bits: vec![Small::Alike(Bit::Fresh); chunks],
            });
        }
        for slice in schedule.slices(Time(0), schedule.end) {
            if slice.first_of_round {
                for (memory, region) in all.iter_mut().zip(&config.regions) {
                    memory.resize(slice.from, region.mapped);
                }
            }
            for &(region, size) in &config.phases[slice.phase].resize {
                all[region].resize(slice.from, size);
            }
        }
        all
    }

    fn resize(&mut self, at: Time, size: u64) {
        let size = size.next_multiple_of(PAGE_SIZE);
        match self.sizes.last_mut() {
            Some((_, last)) if *last == size => {}
            Some((then, last)) if *then == at => *last = size,
            _ => self.sizes.push((at, size)),
        }
    }

    /// Its changes of extent, each with its time.
    pub(super) fn extents(&self) -> impl Iterator<Item = (Time, AddrRange)> {
        self.sizes.iter().map(|&(at, size)| (at, self.range(size)))
    }

    fn range(&self, size: u64) -> AddrRange {
        AddrRange::new(self.base, self.base + size)
    }

    /// The addresses that are mapped at `now`.
    pub(super) fn mapped(&self, now: Time) -> AddrRange {
        let n = self.sizes.partition_point(|(at, _)| *at <= now);
        self.range(self.sizes[..n].last().map_or(0, |(_, size)| *size))
    }

    /// Size of the leaves of its aligned parts.
    pub(super) fn leaf_size(&self) -> u64 {
        if self.huge { HUGE } else { PAGE_SIZE }
    }

    /// The leaf that maps `addr` at `now`, if any does.
    pub(super) fn leaf(&self, addr: u64, now: Time) -> Option<Leaf> {
        let n = self.sizes.partition_point(|(at, _)| *at <= now);
        let offset = addr.checked_sub(self.base)?;
        let size = self.sizes[..n].last().map_or(0, |(_, size)| *size);
        if offset >= size {
            return None;
        }
        let is_huge = self.huge && offset / HUGE * HUGE + HUGE <= size;
        let shift = if is_huge { 21 } else { 12 };
        let start = offset >> shift << shift;
        let bytes = AddrRange::new(start, start + (1 << shift));
        // Mapped since the last time at which it was not.
        let gap = self.sizes[..n].iter().rposition(|(_, size)| *size < bytes.end);
        let since = self.sizes[gap.map_or(0, |i| i + 1)].0;
        Some(Leaf { bytes, shift, since })
    }

    /// The accessed bit of a leaf.
    pub(super) fn bit(&mut self, leaf: &Leaf) -> &mut Bit {
        let chunk = usize::try_from(leaf.bytes.start / HUGE).unwrap_or(usize::MAX);
        if leaf.shift == 21 {
            return &mut self.huge_bits[chunk];
        }
        let page = usize::try_from(leaf.bytes.start % HUGE / PAGE_SIZE).unwrap_or(0);
        let small = &mut self.small_bits[chunk];
        if let Small::Alike(bit) = *small {
            *small = Small::Each(Box::new([bit; PAGES_PER_HUGE]));
        }
        match small {
            Small::Each(bits) => &mut bits[page],
            Small::Alike(bit) => bit,
        }
    }

    /// The accessed bit that all 512 small leaves of the 2 MiB at `addr` have, and what they have
    /// in common: all of their bytes, and since when they have been mapped. `None` if they may
    /// differ.
    pub(super) fn bit_of_all(&mut self, addr: u64, now: Time) -> Option<(&mut Bit, Leaf)> {
        let offset = addr.checked_sub(self.base).filter(|at| at.is_multiple_of(HUGE))?;
        let first = self.leaf(addr, now)?;
        let last = self.leaf(addr + HUGE - PAGE_SIZE, now)?;
        if first.shift != 12 || first.since != last.since {
            return None;
        }
        let bytes = AddrRange::new(offset, offset + HUGE);
        match self.small_bits.get_mut(usize::try_from(offset / HUGE).ok()?)? {
            Small::Alike(bit) => Some((bit, Leaf { bytes, ..first })),
            Small::Each(_) => None,
        }
    }
}
