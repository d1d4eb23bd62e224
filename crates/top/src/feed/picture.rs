//! What is known of targets, as rows: the same for a live monitor and for a record.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use isotherm::raw::core::{RegionInfo, TargetId, Time, Touched};
use isotherm::raw::record::Mapping;
use isotherm::raw::report::page_maps::PageMap;

use crate::model::detail::{Heat, Memory, column_of_pages, column_of_regions, joined};
use crate::model::tally::Ages;
use crate::model::{COLUMNS, Detail, Row, TREND, TREND_NS, Tiers, Watch};

/// The time between two columns of the heatmap, in ns.
const COLUMN_NS: u64 = 1_000_000_000;
/// After this time a target is counted anew although nothing was told of it, in ns: mappings that
/// went are in no unit.
const COUNT_NS: u64 = 10_000_000_000;

/// What one window tells of a target.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Seen<'a> {
    pub(crate) regions: &'a [RegionInfo],
    pub(crate) touched: Option<Touched>,
    pub(crate) map: Option<&'a PageMap>,
    /// Whether the page map is not what it was.
    pub(crate) is_new: bool,
    pub(crate) max_nr_accesses: u32,
    pub(crate) aggr_us: u64,
}

impl<'a> Seen<'a> {
    fn memory(&self) -> Memory<'a> {
        Memory { map: self.map, regions: self.regions, aggr_us: self.aggr_us }
    }
}

/// What is remembered of a target from window to window.
#[derive(Debug, Default)]
struct Known {
    tiers: Tiers,
    counted: Option<Time>,
    trend: VecDeque<u64>,
    trend_at: Option<Time>,
}

/// Makes rows, and the detail of the process that is open.
#[derive(Debug, Default)]
pub(crate) struct Picture {
    known: BTreeMap<TargetId, Known>,
    open: Option<u32>,
    detail: Arc<Detail>,
    /// When the next column of its heatmap is due.
    column_at: Option<Time>,
}

impl Picture {
    /// Looks closely at this process from now on.
    pub(crate) fn open(&mut self, pid: Option<u32>) {
        self.open = pid;
        self.column_at = None;
        let heat = Heat::every(COLUMN_NS);
        self.detail = Arc::new(Detail { pid: pid.unwrap_or(0), heat, ..Detail::default() });
    }

    /// The process that is open.
    pub(crate) const fn opened(&self) -> Option<u32> {
        self.open
    }

    pub(crate) fn detail(&self) -> Option<Arc<Detail>> {
        self.open.map(|_| Arc::clone(&self.detail))
    }

    pub(crate) fn forget(&mut self, id: TargetId) {
        self.known.remove(&id);
    }

    /// Fills a row with what a window tells.
    pub(crate) fn fill(&mut self, now: Time, id: TargetId, seen: &Seen<'_>, row: &mut Row) {
        let known = self.known.entry(id).or_default();
        row.watch = Watch::Watched;
        if let Some(touched) = seen.touched {
            row.watched = touched.watched;
            row.within.copy_from_slice(&touched.spans[COLUMNS]);
        }
        if seen.is_new || known.counted.is_none_or(|at| now.since(at) >= COUNT_NS) {
            known.counted = Some(now);
            known.tiers = match seen.map {
                Some(map) => {
                    let ranges = seen.regions.iter().map(|region| region.range);
                    Ages::of_pages(map, joined(ranges)).into()
                }
                None => Tiers::of_regions(seen.regions, seen.aggr_us),
            };
        }
        row.tiers = known.tiers;
        if known.trend_at.is_none_or(|at| now.since(at) >= TREND_NS) {
            let working_set = row.within[0].map(|within| within.bytes);
            let value = working_set.or((seen.map.is_none()).then_some(row.tiers.hot));
            if let Some(value) = value {
                known.trend_at = Some(now);
                known.trend.push_back(value);
                if known.trend.len() > TREND {
                    known.trend.pop_front();
                }
            }
        }
        row.trend = known.trend.iter().copied().collect();
    }

    /// Adds a column to the heatmap of the open process, once per second. Returns whether it did.
    pub(crate) fn add_column(&mut self, now: Time, seen: &Seen<'_>) -> bool {
        let due = self.column_at.unwrap_or(now);
        // Windows are rarely exactly as long as they should be.
        if now + COLUMN_NS / 20 < due {
            return false;
        }
        let late = now.since(due) >= COLUMN_NS;
        self.column_at = Some(if late { now } else { due } + COLUMN_NS);
        let areas = joined(seen.regions.iter().map(|region| region.range));
        Arc::make_mut(&mut self.detail).heat.push(match seen.map {
            Some(map) => column_of_pages(map, &areas),
            None => column_of_regions(seen.regions, seen.max_nr_accesses),
        });
        true
    }

    /// Tells of the open process what its mappings are like now.
    pub(crate) fn describe(&mut self, seen: &Seen<'_>, mappings: &[Mapping]) {
        seen.memory().describe(mappings, Arc::make_mut(&mut self.detail));
    }
}

#[cfg(test)]
mod tests {
    use isotherm::raw::core::{AddrRange, PageBits, SPANS, TouchedBytes, UnitInfo};

    use super::*;

    const S: u64 = 1_000_000_000;

    #[test]
    fn rows_come_from_page_maps_and_trends_grow_slowly() {
        let mut map = PageMap::default();
        let second = [None, None, Some(PageBits::page(3)), None, None];
        let unit = UnitInfo { present: PageBits::ALL, touched: second, ..UnitInfo::default() };
        map.units.insert(0, unit);
        let mut spans = [None; SPANS];
        spans[2] = Some(TouchedBytes { bytes: 4096, lo: 4096, hi: 4096, measured: 1 << 21 });
        let regions = [RegionInfo { range: AddrRange::new(0, 1 << 21), ..RegionInfo::default() }];
        let seen = Seen {
            regions: &regions,
            touched: Some(Touched { spans, watched: 1 << 21 }),
            map: Some(&map),
            is_new: true,
            max_nr_accesses: 10,
            aggr_us: 1_000_000,
        };
        let mut picture = Picture::default();
        let mut row = Row::default();
        for second in 1..=5 {
            picture.fill(Time(second * S), TargetId(1), &seen, &mut row);
        }
        assert_eq!((row.tiers.hot, row.tiers.cold), (4096, 511 << 12));
        assert_eq!(row.within[0].map(|w| w.bytes), Some(4096));
        assert_eq!(row.trend, [4096, 4096], "one sample in three seconds");

        picture.open(Some(7));
        for second in 6..=8 {
            assert!(picture.add_column(Time(second * S), &seen));
            assert!(!picture.add_column(Time(second * S + 1), &seen), "only once per second");
        }
        picture.describe(&seen, &[]);
        let detail = picture.detail().unwrap();
        assert_eq!((detail.pid, detail.heat.len(), detail.ages.touched[0]), (7, 3, 4096));
        picture.open(None);
        assert!(picture.detail().is_none());
    }
}
