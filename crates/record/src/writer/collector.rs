//! Collects what snapshots say of single pages, until there is enough for a frame.

use std::collections::BTreeMap;

use isotherm_core::{Snapshot, TargetId, UnitInfo};

use crate::encoding::pages;
use crate::pages::{ChangedUnit, MOST_ITEMS, PageWindow, Pages};

/// Collects what snapshots say of pages, until [`Collector::take`].
#[derive(Debug, Default)]
pub(super) struct Collector {
    windows: Vec<PageWindow>,
    nr_touched: usize,
    units: BTreeMap<(TargetId, u64), (u32, UnitInfo)>,
    /// Payloads of frames that are full.
    full: Vec<Vec<u8>>,
}

impl Collector {
    /// Takes in a snapshot. One that tells nothing of pages leaves no trace.
    pub(super) fn push(&mut self, s: &Snapshot) {
        if s.targets.iter().all(|t| t.touched.is_none() && t.units.is_empty()) {
            return;
        }
        self.open(s);
        for t in &s.targets {
            if let Some(touched) = t.touched {
                self.make_room(s);
                self.nr_touched += 1;
                if let Some(window) = self.windows.last_mut() {
                    window.touched.push((t.id, touched));
                }
            }
            for unit in &t.units {
                self.make_room(s);
                let window = u32::try_from(self.windows.len() - 1).unwrap_or(u32::MAX);
                let mut unit = *unit;
                let known = self.units.entry((t.id, unit.start)).or_insert((window, unit));
                // The last news of the frame stands, with all that was found meanwhile.
                if known.1.found.is_some_and(|found| !found.is_empty()) {
                    unit.found_after = known.1.found_after;
                }
                unit.found = match (known.1.found, unit.found) {
                    (Some(before), Some(now)) => Some(before.or(now)),
                    (before, now) => before.or(now),
                };
                *known = (window, unit);
            }
        }
    }

    fn open(&mut self, s: &Snapshot) {
        if self.windows.len() >= MOST_ITEMS {
            self.close();
        }
        self.windows.push(PageWindow {
            seq: s.seq,
            start: s.start,
            end: s.end,
            sample_us: s.sample_us,
            aggr_us: s.aggr_us,
            touched: Vec::new(),
        });
    }

    /// Closes the frame if it is full, and goes on with the same window in the next one.
    fn make_room(&mut self, s: &Snapshot) {
        if self.nr_touched.max(self.units.len()) >= MOST_ITEMS {
            self.close();
            self.open(s);
        }
    }

    fn close(&mut self) {
        if self.windows.is_empty() {
            return;
        }
        let units = std::mem::take(&mut self.units).into_iter();
        let units = units.map(|((target, _), (window, unit))| ChangedUnit { target, window, unit });
        let pages = Pages { windows: std::mem::take(&mut self.windows), units: units.collect() };
        let mut payload = Vec::new();
        pages::encode(&mut payload, &pages);
        self.full.push(payload);
        self.nr_touched = 0;
    }

    /// Whether a frame is full, so that it should be written now.
    pub(super) fn is_full(&self) -> bool {
        !self.full.is_empty()
    }

    /// The payloads of the frames to write, and starts over.
    pub(super) fn take(&mut self) -> Vec<Vec<u8>> {
        self.close();
        std::mem::take(&mut self.full)
    }
}

#[cfg(test)]
mod tests {
    use isotherm_core::TargetInfo;
    use isotherm_core::unit::UNIT;

    use super::*;

    fn snapshot(units: u64) -> Snapshot {
        let unit = |nr| UnitInfo { start: nr * UNIT, ..UnitInfo::default() };
        let target = TargetInfo { units: (0..units).map(unit).collect(), ..TargetInfo::default() };
        Snapshot { targets: vec![target], ..Snapshot::default() }
    }

    fn decode(payload: &[u8]) -> Pages {
        let mut pages = Pages::default();
        pages::decode(payload, &mut pages).unwrap();
        pages
    }

    #[test]
    fn more_than_fits_fills_several_frames_with_the_same_window() {
        let most = MOST_ITEMS as u64;
        let mut collector = Collector::default();
        for (nr, frames) in [(most, 1), (most + 1, 2), (2 * most + 5, 3)] {
            collector.push(&snapshot(nr));
            assert_eq!(collector.is_full(), frames > 1, "{nr}");
            let payloads = collector.take();
            assert_eq!(payloads.len(), frames, "{nr}");
            let all: Vec<_> = payloads.iter().map(|p| decode(p)).collect();
            assert_eq!(all.iter().map(|p| p.units.len() as u64).sum::<u64>(), nr);
            assert!(all.iter().all(|p| p.windows.len() == 1 && p.units.len() <= MOST_ITEMS));
        }
    }

    #[test]
    fn windows_without_pages_leave_no_trace() {
        let mut collector = Collector::default();
        collector.push(&snapshot(0));
        assert!(collector.take().is_empty());
        (0..MOST_ITEMS + 1).for_each(|_| collector.push(&snapshot(1)));
        let windows: Vec<_> = collector.take().iter().map(|p| decode(p).windows.len()).collect();
        assert_eq!(windows, [MOST_ITEMS, 1]);
    }
}
