//! One window: compares the truth's tiles with the record's regions.

use isotherm_core::RegionInfo;
use isotherm_sim::truth::Tile;

use super::{ratio, to_f64};

/// Bytes that are hot in the truth, in the record, and in both.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub(super) struct Hot {
    both: u64,
    record_only: u64,
    truth_only: u64,
}

impl Hot {
    pub(super) fn add(&mut self, bytes: u64, truly: bool, estimated: bool) {
        match (truly, estimated) {
            (true, true) => self.both += bytes,
            (true, false) => self.truth_only += bytes,
            (false, true) => self.record_only += bytes,
            (false, false) => {}
        }
    }

    pub(super) fn precision(&self) -> Option<f64> {
        ratio(to_f64(self.both), to_f64(self.in_record()))
    }

    pub(super) fn recall(&self) -> Option<f64> {
        ratio(to_f64(self.both), to_f64(self.in_truth()))
    }

    const fn in_truth(&self) -> u64 {
        self.both + self.truth_only
    }

    const fn in_record(&self) -> u64 {
        self.both + self.record_only
    }
}

/// Sums over windows, in bytes unless said otherwise.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub(super) struct Tally {
    /// All hot bytes.
    pub(super) all: Hot,
    /// Only bytes whose true rate is far from the limit.
    pub(super) clear: Hot,
    /// All judged bytes.
    pub(super) bytes: u64,
    /// Judged bytes in regions that could not be resolved.
    pub(super) unresolved: u64,
    /// Sum over bytes of |estimated - true|, as a share of the maximum.
    pub(super) error: f64,
    /// Regions whose error bar was judged.
    pub(super) bars: u64,
    /// Sum of the widths of these bars, as shares of the maximum.
    pub(super) bars_width: f64,
    /// Regions whose error bar contained the truth.
    pub(super) covered: u64,
}

impl Tally {
    /// Judges one window. Returns the hot bytes in truth and in the record.
    pub(super) fn window(
        &mut self,
        tiles: &[Tile],
        regions: &[RegionInfo],
        max: u32,
        hot: f64,
    ) -> (u64, u64) {
        let max = f64::from(max.max(1));
        let before = *self;
        let mut first = 0;
        for tile in tiles {
            let truly = tile.p * max;
            while regions.get(first).is_some_and(|r| r.range.end <= tile.range.start) {
                first += 1;
            }
            let mut left = tile.range.len();
            for region in &regions[first..] {
                let bytes = region.range.overlap(&tile.range);
                if bytes == 0 {
                    break;
                }
                left -= bytes;
                self.bytes(bytes, truly, f64::from(region.nr_accesses), max, hot);
                self.unresolved += if region.resolved { 0 } else { bytes };
            }
            self.bytes(left, truly, 0.0, max, hot);
        }
        self.bars(tiles, regions, max);
        let new = |f: fn(&Hot) -> u64| f(&self.all) - f(&before.all);
        (new(Hot::in_truth), new(Hot::in_record))
    }

    fn bytes(&mut self, bytes: u64, truly: f64, estimated: f64, max: f64, hot: f64) {
        self.all.add(bytes, truly >= hot, estimated >= hot);
        if truly >= hot * 2.0 || truly < hot / 2.0 {
            self.clear.add(bytes, truly >= hot, estimated >= hot);
        }
        self.bytes += bytes;
        self.error += to_f64(bytes) * (estimated - truly).abs() / max;
    }

    /// Judges the error bars of regions of which at least 90 % is known to the truth.
    fn bars(&mut self, tiles: &[Tile], regions: &[RegionInfo], max: f64) {
        let mut first = 0;
        for region in regions.iter().filter(|r| r.resolved) {
            while tiles.get(first).is_some_and(|t| t.range.end <= region.range.start) {
                first += 1;
            }
            let (mut known, mut sum) = (0, 0.0);
            for tile in &tiles[first..] {
                if tile.range.start >= region.range.end {
                    break;
                }
                let bytes = tile.range.overlap(&region.range);
                known += bytes;
                sum += to_f64(bytes) * tile.p * max;
            }
            if known == 0 || known < region.range.len() / 10 * 9 {
                continue;
            }
            let truly = sum / to_f64(known);
            // The truth is computed in floating point and the bounds are rounded, so both may be
            // off a little.
            let slack = 1e-4 * max;
            let inside =
                f64::from(region.lo) - slack <= truly && truly <= f64::from(region.hi) + slack;
            self.bars_width += f64::from(region.hi - region.lo) / max;
            self.bars += 1;
            self.covered += u64::from(inside);
        }
    }
}

#[cfg(test)]
mod tests {
    use isotherm_core::AddrRange;

    use super::*;

    /// Four stretches of 100 bytes have true rates of 0.2, 0.8, 1.2 and 2 of 20. The record says 1
    /// for the first half and 0 for the second. All of it is wrong, but only half of it is far from
    /// the limit.
    #[test]
    fn bytes_near_the_limit_do_not_count_as_clear() {
        let tile = |i: u64, p| Tile { range: AddrRange::new(i * 100, (i + 1) * 100), p };
        let tiles = [tile(0, 0.01), tile(1, 0.04), tile(2, 0.06), tile(3, 0.1)];
        let region = |start, end, nr_accesses| RegionInfo {
            range: AddrRange::new(start, end),
            nr_accesses,
            resolved: true,
            ..RegionInfo::default()
        };
        let mut tally = Tally::default();
        let hot = tally.window(&tiles, &[region(0, 200, 1), region(200, 400, 0)], 20, 1.0);
        assert_eq!(hot, (200, 200));
        assert_eq!(tally.all, Hot { both: 0, record_only: 200, truth_only: 200 });
        assert_eq!(tally.clear, Hot { both: 0, record_only: 100, truth_only: 100 });
        assert!((tally.error - (80.0 + 20.0 + 120.0 + 200.0) / 20.0).abs() < 1e-9);
    }
}
