//! The truth of one process over one window, as tiles of memory with the same probability of a
//! touch.

use std::collections::BTreeMap;

use isotherm_core::addr::{round_down, round_up};
use isotherm_core::{AddrRange, Time};

use super::rate::CellRate;
use super::{Extent, PatternInfo, ProcessTruth, Truth};

const PAGE: u64 = 4096;

/// A stretch of memory whose granules all have the same chance of being touched.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Tile {
    /// Where.
    pub range: AddrRange,
    /// Probability that one of its granules is touched within one sample interval.
    pub p: f64,
}

/// A piece of a cell with accesses. There may be hundreds of thousands, so it is small.
struct Touched {
    /// Its addresses.
    bytes: AddrRange,
    /// Its cell, as an index.
    cell: usize,
}

/// A cell with accesses.
struct Cell {
    rate: CellRate,
    sample_s: f64,
    /// Chance that a whole page of it is touched within a sample interval.
    page: f64,
}

impl ProcessTruth {
    /// The regions that had one extent for the whole window and one leaf size.
    #[must_use]
    pub fn mapped_throughout(&self, start: Time, end: Time) -> BTreeMap<usize, Extent> {
        let mut known: BTreeMap<usize, Extent> = BTreeMap::new();
        for event in self.maps.iter().filter(|e| e.at < end) {
            // If an extent changes inside the window, the region's truth is not known for the
            // window.
            let changed = event.at > start && known.get(&event.region) != Some(&event.extent);
            let extent = if changed { Extent::default() } else { event.extent };
            known.insert(event.region, extent);
        }
        known.retain(|_, e| !e.range.is_empty() && e.leaf != 0);
        known
    }

    /// Accesses by (pattern, cell) in `[start, end)`. A slot that is partly inside counts in
    /// proportion.
    fn counts(&self, truth: &Truth, start: Time, end: Time) -> BTreeMap<(u32, u32), f64> {
        let (slot_ns, zero) = (truth.header.slot_ns.max(1), Time(truth.header.start_ns));
        let first = start.since(zero) / slot_ns;
        let last = end.since(zero).div_ceil(slot_ns).max(first);
        let mut counts = BTreeMap::new();
        for (&k, cells) in self.slots.range(first..last) {
            let slot = AddrRange::new(zero.0 + k * slot_ns, zero.0 + (k + 1) * slot_ns);
            let inside = slot.overlap(&AddrRange::new(start.0, end.0));
            let share = to_f64(inside) / to_f64(slot_ns);
            for &(id, cell, count) in cells {
                *counts.entry((id, cell)).or_insert(0.0) += to_f64(count) * share;
            }
        }
        counts
    }
}

impl Truth {
    /// The process with this pid.
    #[must_use]
    pub fn process(&self, pid: u32) -> Option<&ProcessTruth> {
        self.processes.values().find(|p| p.pid == pid)
    }

    /// All memory of `process` about which the truth is known for the whole window `[start, end)`,
    /// in address order, with the chance of a touch within `sample_us`. Times outside the
    /// process's life give nothing.
    #[must_use]
    pub fn tiles(
        &self,
        process: &ProcessTruth,
        start: Time,
        end: Time,
        sample_us: u64,
    ) -> Vec<Tile> {
        if start < process.start || end > process.end || end <= start {
            return Vec::new();
        }
        let known = process.mapped_throughout(start, end);
        let counts = process.counts(self, start, end);
        let seconds = to_f64(end.since(start)) / 1e9;
        let sample_s = to_f64(sample_us) / 1e6;
        let mut cells: Vec<Cell> = Vec::new();
        let mut touched: BTreeMap<usize, Vec<Touched>> = BTreeMap::new();
        for pattern in self.header.phases.iter().flat_map(|p| &p.patterns) {
            let Some(extent) = known.get(&pattern.region) else { continue };
            let base = extent.range.start;
            let touched = touched.entry(pattern.region).or_default();
            for (&(_, i), &count) in counts.range((pattern.id, 0)..=(pattern.id, u32::MAX)) {
                let (i, cell) = (u64::from(i), cells.len());
                cells.push(Cell::new(pattern, i, count, seconds, sample_s));
                touched.extend(pattern.cells.pieces_of(i).map(|(start, end)| {
                    let bytes = AddrRange::new(base + start, base + end);
                    Touched { bytes, cell }
                }));
            }
        }
        let mut tiles = Vec::new();
        for (region, extent) in known {
            let touched = touched.remove(&region).unwrap_or_default();
            tile_extent(extent, touched, &cells, &mut tiles);
        }
        tiles.sort_unstable_by_key(|t| t.range.start);
        tiles
    }
}

impl Touched {
    /// The pages that hold its bytes.
    fn pages(&self) -> AddrRange {
        AddrRange::new(round_down(self.bytes.start, PAGE), round_up(self.bytes.end, PAGE))
    }
}

impl Cell {
    /// Cell `i` of `pattern`, which had `count` accesses in `seconds`.
    fn new(pattern: &PatternInfo, i: u64, count: f64, seconds: f64, sample_s: f64) -> Self {
        let rate = CellRate {
            kind: pattern.kind,
            cell_len: to_f64(pattern.cells.pieces_of(i).map(|(start, end)| end - start).sum()),
            part_len: to_f64(pattern.cells.end - pattern.cells.offset),
            count,
            seconds,
        };
        Self { rate, sample_s, page: rate.touched_within(to_f64(PAGE), sample_s) }
    }

    /// Chance that one of so many bytes of a granule is touched within a sample interval.
    fn touched(&self, bytes: u64) -> f64 {
        if bytes == PAGE {
            return self.page;
        }
        self.rate.touched_within(to_f64(bytes), self.sample_s)
    }
}

/// Tiles one region. Each huge leaf is one tile; all other memory is cut where cells begin and end.
fn tile_extent(extent: Extent, mut touched: Vec<Touched>, cells: &[Cell], tiles: &mut Vec<Tile>) {
    let range = extent.range;
    touched.retain(|t| t.pages().intersects(&range));
    // Stable sorts are fast here, since the pieces of each cell are sorted already.
    touched.sort_by_key(|t| t.bytes.start);
    let huge = if extent.leaf > PAGE {
        let start = round_up(range.start, extent.leaf).min(range.end);
        AddrRange::new(start, round_down(range.end, extent.leaf).max(start))
    } else {
        AddrRange::new(range.end, range.end)
    };
    let mut cuts = vec![range.start, range.end, huge.start, huge.end];
    let mut leaf = huge.start;
    while leaf < huge.end {
        cuts.push(leaf);
        leaf += extent.leaf;
    }
    let ends = touched.iter().flat_map(|t| [t.pages().start, t.pages().end]);
    cuts.extend(ends.filter(|c| range.contains(*c) && !huge.contains(*c)));
    cuts.sort();
    cuts.dedup();
    let mut next = touched.iter().peekable();
    let mut active: Vec<&Touched> = Vec::new();
    for pair in cuts.windows(2) {
        let tile = AddrRange::new(pair[0], pair[1]);
        while let Some(t) = next.next_if(|t| t.pages().start < tile.end) {
            active.push(t);
        }
        active.retain(|t| t.pages().end > tile.start);
        let granule = if huge.contains(tile.start) { tile } else { page_of(tile) };
        let none: f64 =
            active.iter().map(|t| 1.0 - cells[t.cell].touched(t.bytes.overlap(&granule))).product();
        tiles.push(Tile { range: tile, p: 1.0 - none });
    }
}

/// The first page of a tile of small pages. All other pages of the tile have the same probability.
fn page_of(tile: AddrRange) -> AddrRange {
    AddrRange::new(tile.start, tile.end.min(tile.start + PAGE))
}

#[expect(clippy::cast_precision_loss, reason = "sizes, counts and times far below 2^52")]
fn to_f64(x: u64) -> f64 {
    x as f64
}
