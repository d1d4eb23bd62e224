//! One target that is open: heat over time, mappings by heat, ages, and what could be saved.

use std::collections::VecDeque;

use isotherm::raw::core::{AddrRange, MappingKind, PageBits, RegionInfo, UnitInfo};
use isotherm::raw::record::Mapping;
use isotherm::raw::report::page_maps::PageMap;

use super::tally::{Ages, Tiers};

/// The most columns of a heatmap that are kept.
const MOST_COLUMNS: usize = 240;

/// One target, looked at closely.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Detail {
    pub(crate) pid: u32,
    pub(crate) heat: Heat,
    /// The hottest first.
    pub(crate) mappings: Vec<MappingHeat>,
    pub(crate) ages: Ages,
    /// Bytes that were not touched for a minute: in anonymous memory, and in private mappings of
    /// files.
    pub(crate) idle: [u64; 2],
}

/// The memory of all mappings of one name.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct MappingHeat {
    pub(crate) label: String,
    pub(crate) kind: &'static str,
    pub(crate) tiers: Tiers,
}

/// A stretch of memory at one time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Cell {
    pub(crate) range: AddrRange,
    /// Bytes of it that are there.
    pub(crate) bytes: u64,
    /// The share of it that is touched, of 255; none if nobody knows.
    pub(crate) level: Option<u8>,
}

/// Heat over time: a column per look, the oldest first.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Heat {
    columns: VecDeque<Vec<Cell>>,
    /// The time between two columns, in ns.
    pub(crate) step_ns: u64,
}

impl Heat {
    /// No column yet; one will come every so many ns.
    pub(crate) fn every(step_ns: u64) -> Self {
        Self { columns: VecDeque::new(), step_ns }
    }

    pub(crate) fn push(&mut self, column: Vec<Cell>) {
        if self.columns.len() == MOST_COLUMNS {
            self.columns.pop_front();
        }
        self.columns.push_back(column);
    }

    pub(crate) fn len(&self) -> usize {
        self.columns.len()
    }

    /// The last `width` columns in `height` rows of equally much memory: the first address of each
    /// row, and its levels, the oldest first.
    pub(crate) fn grid(&self, height: usize, width: usize) -> Vec<(u64, Vec<Level>)> {
        let Some(last) = self.columns.back() else { return Vec::new() };
        let total: u64 = last.iter().map(|cell| cell.bytes).sum();
        if total == 0 || height == 0 {
            return Vec::new();
        }
        let starts = borders(last, total, height);
        let skip = self.columns.len().saturating_sub(width);
        let row = |(at, start): (usize, &u64)| {
            let end = starts.get(at + 1).copied().unwrap_or(u64::MAX);
            let range = AddrRange::new(*start, end);
            (*start, self.columns.iter().skip(skip).map(|column| level(column, range)).collect())
        };
        starts.iter().enumerate().map(row).collect()
    }
}

/// What a place of the grid shows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Level {
    /// Nothing was there.
    Absent,
    /// It could not be told.
    Unknown,
    /// The share that was touched, of 255.
    Touched(u8),
}

/// Where rows of equally much memory begin.
fn borders(column: &[Cell], total: u64, height: usize) -> Vec<u64> {
    let (mut starts, mut before) = (Vec::new(), 0_u64);
    for cell in column.iter().filter(|cell| cell.bytes > 0) {
        // The next row begins in this cell as long as it holds the row's share.
        loop {
            let due = u128::from(total) * starts.len() as u128 / height as u128;
            let due = u64::try_from(due).unwrap_or(u64::MAX);
            if starts.len() == height || due >= before + cell.bytes {
                break;
            }
            let into =
                u128::from(due - before) * u128::from(cell.range.len()) / u128::from(cell.bytes);
            starts.push(cell.range.start + (u64::try_from(into).unwrap_or(0) & !4095));
        }
        before += cell.bytes;
    }
    starts.dedup();
    starts
}

/// What the cells of a column show in a range.
fn level(column: &[Cell], range: AddrRange) -> Level {
    let (mut known, mut unknown, mut heat) = (0_u128, 0_u128, 0_u128);
    for cell in column {
        let start = cell.range.start.max(range.start);
        let end = cell.range.end.min(range.end);
        let part = u128::from(end.saturating_sub(start)) * u128::from(cell.bytes)
            / u128::from(cell.range.len().max(1));
        match cell.level {
            Some(level) => {
                known += part;
                heat += part * u128::from(level);
            }
            None => unknown += part,
        }
    }
    match (known, unknown) {
        (0, 0) => Level::Absent,
        (known, unknown) if unknown > known => Level::Unknown,
        (known, _) => {
            // Some access is never drawn as none.
            let mean = u8::try_from(heat.div_ceil(known.max(1))).unwrap_or(u8::MAX);
            Level::Touched(mean)
        }
    }
}

/// A column from the page map: the share of each unit that was touched within a second.
pub(crate) fn column_of_pages(map: &PageMap, areas: &[AddrRange]) -> Vec<Cell> {
    let mut column = Vec::new();
    for (start, unit) in &map.units {
        let end = start.saturating_add(isotherm::raw::core::unit::UNIT);
        let mapped = areas.iter().filter(|area| area.start < end && *start < area.end);
        let pages =
            mapped.fold(PageBits::default(), |all, area| all.or(PageBits::of(*start, *area)));
        let present = unit.present.and(pages);
        if !present.is_empty() {
            let level = share(unit, present);
            let range = AddrRange::new(*start, end);
            column.push(Cell { range, bytes: present.count() << 12, level });
        }
    }
    column
}

/// The share of the pages that were touched within a second, of 255.
fn share(unit: &UnitInfo, present: PageBits) -> Option<u8> {
    let known = present.minus(unit.unresolved).count();
    let planes = unit.touched[..=super::COLUMNS.start].iter().flatten();
    let touched = planes.copied().reduce(PageBits::or)?;
    let touched = touched.and(present).minus(unit.unresolved).count();
    (known > 0).then(|| u8::try_from((touched * 255).div_ceil(known)).unwrap_or(u8::MAX))
}

/// A column from regions: their rates.
pub(crate) fn column_of_regions(regions: &[RegionInfo], max: u32) -> Vec<Cell> {
    let cell = |region: &RegionInfo| {
        let rate = u64::from(region.nr_accesses) * 255;
        let rate = rate.div_ceil(u64::from(max.max(1)));
        let level = region.resolved.then(|| u8::try_from(rate).unwrap_or(u8::MAX));
        Cell { range: region.range, bytes: region.range.len(), level }
    };
    regions.iter().map(cell).collect()
}

/// What is known of a target's memory, by mapping.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Memory<'a> {
    pub(crate) map: Option<&'a PageMap>,
    pub(crate) regions: &'a [RegionInfo],
    pub(crate) aggr_us: u64,
}

impl Memory<'_> {
    /// The ages of what lies in `range`.
    pub(crate) fn ages(&self, range: AddrRange) -> Ages {
        if let Some(map) = self.map {
            return Ages::of_pages(map, [range]);
        }
        let mut ages = Ages::default();
        for region in self.regions {
            let start = region.range.start.max(range.start);
            let end = region.range.end.min(range.end);
            if start < end {
                let cut = RegionInfo { range: AddrRange::new(start, end), ..*region };
                ages.add_region(&cut, self.aggr_us);
            }
        }
        ages
    }

    /// Fills in the ages, the mappings by heat and what is idle.
    pub(crate) fn describe(&self, mappings: &[Mapping], detail: &mut Detail) {
        detail.mappings.clear();
        detail.idle = [0; 2];
        for mapping in mappings {
            let ages = self.ages(AddrRange::new(mapping.start, mapping.end));
            let tiers = Tiers::from(ages);
            if tiers.total() == 0 {
                continue;
            }
            match mapping.kind {
                MappingKind::Heap | MappingKind::Stack | MappingKind::Anonymous => {
                    detail.idle[0] += ages.minute;
                }
                MappingKind::File | MappingKind::Library => detail.idle[1] += ages.minute,
                MappingKind::Shared | MappingKind::Device | MappingKind::Special => {}
            }
            let (label, kind) = (mapping.label(), mapping.kind.name());
            let same = |heat: &&mut MappingHeat| heat.label == label && heat.kind == kind;
            match detail.mappings.iter_mut().find(same) {
                Some(heat) => heat.tiers.add(tiers),
                None => {
                    let label = label.to_owned();
                    detail.mappings.push(MappingHeat { label, kind, tiers });
                }
            }
        }
        detail.mappings.sort_by_key(|m| {
            let Tiers { hot, warm, .. } = m.tiers;
            std::cmp::Reverse((hot, warm, m.tiers.total()))
        });
        let ranges = self.regions.iter().map(|region| region.range);
        detail.ages = match self.map {
            Some(map) => Ages::of_pages(map, joined(ranges)),
            None => ranges.fold(Ages::default(), |mut all, range| {
                all.plus(&self.ages(range));
                all
            }),
        };
    }
}

/// Ranges that touch, as one. A page on a border would count for neither else.
pub(crate) fn joined(ranges: impl IntoIterator<Item = AddrRange>) -> Vec<AddrRange> {
    let mut out: Vec<AddrRange> = Vec::new();
    for range in ranges {
        match out.last_mut() {
            Some(last) if last.end == range.start => last.end = range.end,
            _ => out.push(range),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cell(start: u64, end: u64, level: Option<u8>) -> Cell {
        Cell { range: AddrRange::new(start << 20, end << 20), bytes: (end - start) << 20, level }
    }

    #[test]
    fn rows_hold_equally_much_and_nothing_known_is_lost() {
        let mut heat = Heat::default();
        heat.push(vec![cell(0, 2, Some(255))]);
        heat.push(vec![cell(0, 2, Some(255)), cell(100, 102, None), cell(200, 204, Some(0))]);
        let grid = heat.grid(4, 80);
        let starts: Vec<_> = grid.iter().map(|(start, _)| start >> 20).collect();
        assert_eq!(starts, [0, 100, 200, 202]);
        use Level::{Absent, Touched, Unknown};
        let levels: Vec<_> = grid.into_iter().map(|(_, levels)| levels).collect();
        assert_eq!(levels[0], [Touched(255), Touched(255)]);
        assert_eq!(levels[1], [Absent, Unknown]);
        assert_eq!(levels[2], [Absent, Touched(0)]);
        assert_eq!(heat.grid(4, 1)[0].1, [Touched(255)]);
        assert_eq!(heat.grid(0, 80), []);
        // A little heat in much memory shows.
        heat.push(vec![cell(0, 1, Some(1)), cell(1, 1000, Some(0))]);
        assert_eq!(heat.grid(1, 1)[0].1, [Touched(1)]);
    }

    #[test]
    fn old_columns_are_dropped() {
        let mut heat = Heat::default();
        (0..MOST_COLUMNS + 5).for_each(|_| heat.push(Vec::new()));
        assert_eq!(heat.len(), MOST_COLUMNS);
        assert_eq!(heat.grid(3, 3), []);
    }

    #[test]
    fn mappings_come_hottest_first_and_tell_what_is_idle() {
        let region = |start: u64, end: u64, nr_accesses, age| RegionInfo {
            range: AddrRange::new(start << 20, end << 20),
            nr_accesses,
            age,
            resolved: true,
            ..RegionInfo::default()
        };
        let regions = [region(0, 8, 0, 700), region(8, 10, 20, 0), region(20, 24, 0, 700)];
        let mapping =
            |start: u64, end: u64, name| Mapping::new(start << 20, end << 20, "rw-p", name);
        let mappings =
            [mapping(0, 8, ""), mapping(8, 10, "[heap]"), mapping(20, 24, "/lib/libc.so.6")];
        let mut detail = Detail::default();
        let memory = Memory { map: None, regions: &regions, aggr_us: 100_000 };
        memory.describe(&mappings, &mut detail);
        let labels: Vec<_> = detail.mappings.iter().map(|m| m.label.as_str()).collect();
        assert_eq!(labels, ["[heap]", "[anon]", "libc.so.6"]);
        assert_eq!(detail.idle, [8 << 20, 4 << 20]);
        assert_eq!((detail.ages.touched[0], detail.ages.minute), (2 << 20, 12 << 20));
    }
}
