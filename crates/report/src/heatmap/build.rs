//! The two passes that make a heatmap.

use std::collections::BTreeMap;

use isotherm_core::unit::UNIT;
use isotherm_core::{AddrRange, RegionInfo, Snapshot, TargetInfo};
use isotherm_record::{Mapping, NodeRanges, Ram, Record};

use super::areas::{self, Stretch, Weights};
use super::names::Names;
use super::pages;
use super::{Cell, Heatmap, Options, Panel, Row, Scale};
use crate::error::Error;
use crate::filter::Filter;
use crate::numbers::{to_u64, to_usize};
use crate::page_maps::PageMap;
use crate::rate::rate;
use crate::scan::Scan;
use crate::shown::float;

/// Largest number of panels.
const MAX_PANELS: usize = 16;
/// Number of panels if not all are wanted.
const FEW_PANELS: usize = 4;
/// Least number of rows of a panel, where several share the space.
const MIN_ROWS: usize = 8;
/// Addresses that were named are shown without gaps if at least this share of them is mapped.
const DENSE: f64 = 1.0 / 16.0;
/// Largest number of areas of a panel.
const MAX_AREAS: usize = 16;

impl Heatmap {
    /// Makes the heatmap of a record, which is read twice.
    ///
    /// # Errors
    ///
    /// If the record cannot be read, or no snapshot passes the filter.
    pub fn build(record: &Record, filter: &Filter, options: &Options) -> Result<Self, Error> {
        let mut surveys = Surveys::default();
        let scan = Scan::run(record, filter, |scan, s| {
            surveys.add(scan, s, filter);
            Ok(())
        })?;
        let mut grids = surveys.grids(&scan, filter, options);
        let last = Scan::run(record, filter, |scan, s| {
            grids.add(scan, s, filter);
            Ok(())
        })?;
        Ok(grids.finish(&last))
    }
}

/// The first pass: where the targets are accessed.
#[derive(Default)]
pub(crate) struct Surveys(BTreeMap<u32, Survey>);

impl Surveys {
    /// Takes in the next snapshot.
    pub(crate) fn add(&mut self, scan: &Scan, s: &Snapshot, filter: &Filter) {
        for (_, t) in scan.wanted(s) {
            self.0.entry(t.id.0).or_insert_with(Survey::new).add(filter, s, t);
        }
    }

    /// The empty grids for the second pass. `scan`: what is known after the first.
    pub(crate) fn grids(self, scan: &Scan, filter: &Filter, options: &Options) -> Grids {
        let targets = self.0.len();
        let mut order: Vec<(u32, Survey)> = self.0.into_iter().collect();
        order.sort_by(|a, b| b.1.total.total_cmp(&a.1.total));
        order.truncate(if options.all_targets { MAX_PANELS } else { FEW_PANELS });
        let rows = (options.rows / order.len().max(1)).max(MIN_ROWS).min(options.rows);
        let options = &Options { rows, ..*options };
        let panels = order.into_iter().map(|(id, survey)| {
            let panel = survey.panel(scan, id, filter, options);
            (id, Grid::new(&panel, options.columns), panel)
        });
        let panels = panels.collect();
        let (start, end) = scan.seen_ns.unwrap_or_default();
        let axis = Axis { start, len: end.saturating_sub(start).max(1), columns: options.columns };
        Grids { panels, axis, targets }
    }
}

/// The second pass: how hot the cells are.
pub(crate) struct Grids {
    panels: Vec<(u32, Grid, Panel)>,
    axis: Axis,
    targets: usize,
}

impl Grids {
    /// The targets that have a panel, in the order of the panels.
    pub(crate) fn ids(&self) -> impl Iterator<Item = u32> + '_ {
        self.panels.iter().map(|(id, ..)| *id)
    }

    /// Takes in the next snapshot.
    pub(crate) fn add(&mut self, scan: &Scan, s: &Snapshot, filter: &Filter) {
        for (state, t) in scan.wanted(s) {
            let Some((_, grid, _)) = self.panels.iter_mut().find(|p| p.0 == t.id.0) else {
                continue;
            };
            grid.names.learn(state.mappings_version, &state.mappings);
            let is_fine = filter.address.is_some() && grid.is_finer_than_units();
            let map = scan.pages.get(t.id).filter(|_| is_fine);
            let around = map.map_or(0, |_| pages::AROUND);
            grid.add(&self.axis, s, || filter.regions_around(&t.regions, around), map);
        }
    }

    /// The heatmap. `last`: what is known after the second pass.
    pub(crate) fn finish(self, last: &Scan) -> Heatmap {
        let panels = self.panels.into_iter().map(|(id, mut grid, mut panel)| {
            // The first mappings of a short record may come after its last snapshot.
            if let Some(state) = last.targets.get(&id).filter(|_| !grid.names.is_any()) {
                grid.names.learn(state.mappings_version, &state.mappings);
            }
            grid.fill(&mut panel);
            panel
        });
        let panels: Vec<Panel> = panels.collect();
        Heatmap {
            start_ns: self.axis.start,
            end_ns: self.axis.start + self.axis.len,
            origin_ns: last.origin_ns,
            columns: self.axis.columns,
            scale: Scale::of(&panels),
            panels,
            targets: self.targets,
            damage: last.caveats(),
        }
    }
}

/// What the first pass learns about one target.
struct Survey {
    weights: Weights,
    total: f64,
    /// Where its regions were at the end, and whether they were resolved.
    last: Vec<(AddrRange, bool)>,
}

impl Survey {
    fn new() -> Self {
        Self { weights: Weights::new(), total: 0.0, last: Vec::new() }
    }

    fn add(&mut self, filter: &Filter, s: &Snapshot, t: &TargetInfo) {
        self.last.clear();
        let time = float(s.end.since(s.watched_from())) / 1e9;
        for r in filter.regions(&t.regions) {
            self.last.push((r.range, r.resolved));
            let per_byte = rate(&r, s.max_nr_accesses) * time;
            if r.resolved && per_byte > 0.0 {
                self.total += per_byte * float(r.range.len());
                self.weights.add(r.range, per_byte);
            }
        }
    }

    fn panel(self, scan: &Scan, id: u32, filter: &Filter, options: &Options) -> Panel {
        let state = scan.targets.get(&id).cloned().unwrap_or_default();
        let nodes = match &scan.ram {
            Some(ram) if state.target.memory.is_some() => nodes_of(ram),
            _ => Vec::new(),
        };
        let mut stretches = self.weights.stretches();
        let accessed = !stretches.is_empty();
        if !accessed {
            stretches.extend(
                self.last.iter().map(|&(range, _)| Stretch { range, weight: float(range.len()) }),
            );
        }
        let max_areas = MAX_AREAS.min((options.rows / 2).max(2));
        let named = filter.address.map(|_| whole(&self.last, &stretches));
        let picked = match named.filter(|all| is_dense(all, &self.last, &stretches)) {
            Some(all) => all,
            None => areas::pick(&stretches, max_areas).iter().map(|s| s.range).collect(),
        };
        let picked = split_at_nodes(&picked, &nodes);
        let inside = |s: &Stretch| picked.iter().any(|a| a.intersects(&s.range));
        let shown: f64 = stretches.iter().filter(|s| inside(s)).map(|s| s.weight).sum();
        let mut rows = Vec::new();
        for (area, (range, n)) in
            picked.iter().zip(share_rows(&picked, options.rows, options.min_rows)).enumerate()
        {
            for range in cut(*range, n) {
                // Rows of a process get their names from the second pass.
                rows.push(Row { range, mapping: name_of(&nodes, range), area, cells: vec![] });
            }
        }
        let between = |w: &[AddrRange]| {
            let gap = AddrRange::new(w[0].end, w[1].start);
            bytes(&self.last, |r, resolved| if resolved { r.overlap(&gap) } else { 0 })
        };
        Panel {
            title: state.title(),
            target: state.target.name,
            pid: state.target.pid,
            folded: picked.windows(2).map(between).collect(),
            areas: picked,
            rows,
            mapped: bytes(&self.last, |r, _| r.len()),
            unresolved: bytes(&self.last, |r, resolved| if resolved { 0 } else { r.len() }),
            left_out: if accessed { (1.0 - shown / self.total).max(0.0) } else { 0.0 },
            accessed,
        }
    }
}

/// The memory of the nodes as mappings, in address order.
fn nodes_of(ram: &Ram) -> Vec<Mapping> {
    let of = |node: &NodeRanges| {
        let name = format!("node {}", node.node);
        node.ranges.iter().map(move |&(start, end)| Mapping::new(start, end, "", &name)).collect()
    };
    let mut all: Vec<Mapping> = ram.nodes.iter().flat_map::<Vec<_>, _>(of).collect();
    all.sort_by_key(|m| m.start);
    all
}

/// Cuts areas where the memory of a node ends, so that no row spans two nodes.
fn split_at_nodes(areas: &[AddrRange], nodes: &[Mapping]) -> Vec<AddrRange> {
    let another = |pair: &[Mapping]| (pair[0].name != pair[1].name).then_some(pair[1].start);
    let borders: Vec<u64> = nodes.windows(2).filter_map(another).collect();
    let mut out = Vec::new();
    for area in areas {
        let mut start = area.start;
        for &border in borders.iter().filter(|b| area.start < **b && **b < area.end) {
            out.push(AddrRange::new(start, border));
            start = border;
        }
        out.push(AddrRange::new(start, area.end));
    }
    out
}

fn bytes(regions: &[(AddrRange, bool)], f: impl Fn(&AddrRange, bool) -> u64) -> u64 {
    regions.iter().map(|(range, resolved)| f(range, *resolved)).sum()
}

/// Everything in the range as one area. It is used if the user names addresses.
fn whole(last: &[(AddrRange, bool)], stretches: &[Stretch]) -> Vec<AddrRange> {
    let all = || last.iter().map(|(r, _)| *r).chain(stretches.iter().map(|s| s.range));
    let start = all().map(|r| r.start).min();
    let end = all().map(|r| r.end).max();
    start.zip(end).map(|(start, end)| AddrRange::new(start, end)).into_iter().collect()
}

/// Whether enough of the areas is mapped or accessed to draw them without gaps. Of a range with
/// little in it nothing would be seen.
fn is_dense(areas: &[AddrRange], last: &[(AddrRange, bool)], stretches: &[Stretch]) -> bool {
    let all: f64 = areas.iter().map(|a| float(a.len())).sum();
    let accessed: f64 = stretches.iter().map(|s| float(s.range.len())).sum();
    float(bytes(last, |r, _| r.len())).max(accessed) >= all * DENSE
}

/// The number of rows of each area, by size. Every area gets at least the least number.
fn share_rows(areas: &[AddrRange], rows: usize, min_rows: usize) -> Vec<usize> {
    let total: f64 = areas.iter().map(|a| float(a.len())).sum();
    let spare = rows.saturating_sub(areas.len() * min_rows);
    areas
        .iter()
        .map(|a| {
            let share = float(a.len()) / total.max(1.0);
            min_rows.max(1) + to_usize((share * float(spare as u64)).floor())
        })
        .collect()
}

/// Cuts an area into `n` rows at page borders, or fewer if it has fewer pages.
fn cut(area: AddrRange, n: usize) -> Vec<AddrRange> {
    let pages = area.len().div_ceil(4096).max(1);
    let n = (n as u64).min(pages).max(1);
    let border = |i: u64| {
        let page = to_u64((float(pages) * float(i) / float(n)).floor());
        (area.start + page * 4096).min(area.end)
    };
    (0..n)
        .map(|i| AddrRange::new(border(i), if i + 1 == n { area.end } else { border(i + 1) }))
        .collect()
}

/// The name of the mapping that covers most of `range`; empty if none does.
fn name_of(mappings: &[Mapping], range: AddrRange) -> String {
    let first = mappings.partition_point(|m| m.end <= range.start);
    let inside = mappings[first..].iter().take_while(|m| m.start < range.end);
    let most = inside.max_by_key(|m| AddrRange::new(m.start, m.end).overlap(&range));
    most.map(|m| m.label().to_owned()).unwrap_or_default()
}

/// The axis of time, from left to right.
struct Axis {
    start: u64,
    len: u64,
    columns: usize,
}

impl Axis {
    /// The columns that a window falls into. A window that is shorter than a column falls into one.
    fn columns(&self, start: u64, end: u64) -> std::ops::Range<usize> {
        let column = |t: u64| {
            float(t.saturating_sub(self.start)) * float(self.columns as u64) / float(self.len)
        };
        let (a, b) = (column(start), column(end));
        let last = self.columns.saturating_sub(1);
        if b - a <= 1.0 {
            let middle = to_usize(((a + b) / 2.0).floor()).min(last);
            return middle..middle + 1;
        }
        let first = to_usize(a.floor()).min(last);
        first..to_usize((b - 1e-6).ceil()).clamp(first + 1, self.columns.max(1))
    }
}

/// What the second pass learns about one target: sums of the cells, and names of the rows.
struct Grid {
    rows: Vec<AddrRange>,
    names: Names,
    columns: usize,
    sums: Vec<Sum>,
}

#[derive(Clone, Copy, Default)]
struct Sum {
    rate: f64,
    resolved: f64,
    unresolved: f64,
}

impl Grid {
    fn new(panel: &Panel, columns: usize) -> Self {
        let rows: Vec<_> = panel.rows.iter().map(|r| r.range).collect();
        let sums = vec![Sum::default(); rows.len() * columns];
        Self { names: Names::new(rows.iter().copied()), rows, columns, sums }
    }

    /// Whether no row holds a whole unit.
    fn is_finer_than_units(&self) -> bool {
        self.rows.iter().all(|row| row.len() < UNIT)
    }

    fn add<I: Iterator<Item = RegionInfo>>(
        &mut self,
        axis: &Axis,
        s: &Snapshot,
        regions: impl Fn() -> I,
        map: Option<&PageMap>,
    ) {
        if s.missing_ns() > 0 {
            self.add_gap(axis, s, &regions().collect::<Vec<_>>());
        }
        let from = s.watched_from();
        let columns = axis.columns(from.0, s.end.0);
        let time = float(s.end.since(from).max(1)) / 1e9;
        let mut first = 0;
        for r in regions() {
            let of_region = rate(&r, s.max_nr_accesses);
            while self.rows.get(first).is_some_and(|row| row.end <= r.range.start) {
                first += 1;
            }
            if self.rows.get(first).is_none_or(|row| row.start >= r.range.end) {
                continue;
            }
            let known_by = map.map(|map| (map, pages::Region::new(s, &r, map)));
            for (i, row) in self.rows.iter().enumerate().skip(first) {
                if row.start >= r.range.end {
                    break;
                }
                let part = AddrRange::new(row.start.max(r.range.start), row.end.min(r.range.end));
                let known = known_by.map(|(map, region)| pages::known(map, part, &region));
                let known = known.unwrap_or_default();
                let rest = float(part.len().saturating_sub(known.bytes)) * time;
                let rate = rest * of_region;
                for sum in &mut self.sums[i * self.columns..][columns.clone()] {
                    sum.rate += known.touched * time;
                    sum.resolved += float(known.bytes) * time;
                    if r.resolved {
                        sum.rate += rate;
                        sum.resolved += rest;
                    } else {
                        sum.unresolved += rest;
                    }
                }
            }
        }
    }

    /// Adds the part of a late window in which nobody looked. What is mapped is unknown then.
    fn add_gap(&mut self, axis: &Axis, s: &Snapshot, regions: &[RegionInfo]) {
        let missing = s.missing_ns();
        let columns = axis.columns(s.start.0, s.watched_from().0);
        let time = float(missing) / 1e9 / float(columns.len().max(1) as u64);
        for (i, row) in self.rows.iter().enumerate() {
            let here: u64 = regions.iter().map(|r| r.range.overlap(row)).sum();
            for sum in &mut self.sums[i * self.columns..][columns.clone()] {
                sum.unresolved += float(here) * time;
            }
        }
    }

    fn fill(self, panel: &mut Panel) {
        let cells = self.sums.chunks(self.columns.max(1));
        for ((row, cells), name) in panel.rows.iter_mut().zip(cells).zip(self.names.labels()) {
            row.cells = cells.iter().map(Sum::cell).collect();
            // Rows of physical memory already have the name of their node.
            if row.mapping.is_empty() {
                row.mapping = name;
            }
        }
    }
}

impl Sum {
    fn cell(&self) -> Cell {
        if self.resolved == 0.0 && self.unresolved == 0.0 {
            Cell::Absent
        } else if self.unresolved > self.resolved {
            Cell::Unresolved
        } else {
            #[expect(clippy::cast_possible_truncation, reason = "a rate for display")]
            let rate = (self.rate / self.resolved) as f32;
            Cell::Rate(rate.clamp(0.0, 1.0))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_tile_the_areas() {
        for (len, n, want) in [(10 << 12, 4, 4), (2 << 12, 9, 2), (1, 3, 1), (1 << 30, 24, 24)] {
            let area = AddrRange::new(1 << 20, (1 << 20) + len);
            let rows = cut(area, n);
            assert_eq!(rows.len(), want);
            assert_eq!((rows[0].start, rows[want - 1].end), (area.start, area.end));
            assert!(rows.windows(2).all(|w| w[0].end == w[1].start && !w[0].is_empty()));
        }
    }

    #[test]
    fn areas_end_where_a_node_does() {
        let node = |node, ranges: &[(u64, u64)]| NodeRanges { node, ranges: ranges.to_vec() };
        let nodes = vec![node(1, &[(100, 200), (300, 400)]), node(0, &[(0, 100), (200, 300)])];
        let nodes = nodes_of(&Ram { t_ns: 0, nodes });
        for (area, want) in [
            ((0, 400), vec![(0, 100), (100, 200), (200, 300), (300, 400)]),
            ((10, 90), vec![(10, 90)]),
            ((100, 150), vec![(100, 150)]),
            ((150, 250), vec![(150, 200), (200, 250)]),
        ] {
            let got = split_at_nodes(&[AddrRange::new(area.0, area.1)], &nodes);
            let got: Vec<_> = got.iter().map(|a| (a.start, a.end)).collect();
            assert_eq!(got, want);
            let names: Vec<_> =
                want.iter().map(|&(a, b)| name_of(&nodes, AddrRange::new(a, b))).collect();
            let node = |at: u64| format!("node {}", (at / 100) % 2);
            assert_eq!(names, want.iter().map(|w| node(w.0)).collect::<Vec<_>>());
        }
        assert_eq!(split_at_nodes(&[AddrRange::new(0, 9)], &[]), [AddrRange::new(0, 9)]);
    }

    #[test]
    fn windows_fall_into_columns() {
        let axis = Axis { start: 1000, len: 100, columns: 10 };
        for (start, end, want) in [
            (1000, 1001, 0..1),
            (1009, 1011, 1..2),
            (1000, 1100, 0..10),
            (1015, 1035, 1..4),
            (1095, 1100, 9..10),
        ] {
            assert_eq!(axis.columns(start, end), want, "{start}..{end}");
        }
    }
}
