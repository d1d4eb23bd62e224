//! The heatmap of the page: one byte per cell, as fine as fits.

use serde::Serialize;

use super::packed::packed;
use crate::heatmap::{Cell, Heatmap, Panel, Scale};

/// Most bytes of text for the cells of all panels.
const MOST_BYTES: usize = 1 << 20;
/// Cell values: nothing mapped, could not be looked at, never touched, and from there the shades.
const ABSENT: u8 = 0;
const UNRESOLVED: u8 = 1;
const NEVER: u8 = 2;
/// The brightest shade. The page's script knows these four numbers as well.
const BRIGHTEST: u8 = 63;

/// The heatmap as the page's script reads it. Addresses are numbers of pages, since a script's
/// numbers are exact up to 2^53 only.
#[derive(Debug, Serialize)]
pub(super) struct Grid {
    columns: usize,
    max: f32,
    doubling: bool,
    legend: String,
    /// Number of targets that have snapshots.
    targets: usize,
    pub(super) panels: Vec<GridPanel>,
}

#[derive(Debug, Serialize)]
pub(super) struct GridPanel {
    title: String,
    summary: String,
    /// First page of each row and the page behind it, in address order.
    rows: Vec<(u64, u64)>,
    /// Runs of rows of one mapping: how many rows, and its name.
    names: Vec<(usize, String)>,
    /// What is folded: below which row, and what it is.
    folds: Vec<(usize, String)>,
    /// Rows from the first to the last, each from left to right; packed.
    cells: String,
    /// Maps of single pages; none if the record has none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) pages: Option<super::page_frames::Frames>,
}

impl Grid {
    pub(super) fn of(mut map: Heatmap) -> Self {
        let mut cells = all_cells(&map);
        // Shades of a noisy record do not compress, so fewer columns have to do.
        while map.columns > 100 && cells.iter().map(String::len).sum::<usize>() > MOST_BYTES {
            halve(&mut map);
            cells = all_cells(&map);
        }
        let (scale, columns, targets) = (map.scale, map.columns, map.targets);
        let panels = map.panels.into_iter().zip(cells).map(|(p, cells)| GridPanel::of(&p, cells));
        let panels = panels.collect();
        let Scale { max, doubling } = scale;
        Self { columns, max, doubling, legend: scale.end(), targets, panels }
    }
}

impl GridPanel {
    fn of(panel: &Panel, cells: String) -> Self {
        let page = |addr: u64| addr / 4096;
        let rows = panel.rows.iter().map(|r| (page(r.range.start), page(r.range.end)));
        let runs = panel.rows.chunk_by(|a, b| a.mapping == b.mapping && a.area == b.area);
        let names = runs.map(|run| (run.len(), run[0].mapping.clone()));
        let ends = panel.rows.windows(2).enumerate().filter(|(_, w)| w[0].area != w[1].area);
        let folds = ends.map(|(at, w)| (at + 1, panel.fold_text(w[0].area)));
        Self {
            title: panel.title.clone(),
            summary: panel.summary(),
            rows: rows.collect(),
            names: names.collect(),
            folds: folds.collect(),
            cells,
            pages: None,
        }
    }
}

fn all_cells(map: &Heatmap) -> Vec<String> {
    let byte = |cell: &Cell| match cell {
        Cell::Absent => ABSENT,
        Cell::Unresolved => UNRESOLVED,
        Cell::Rate(rate) if *rate <= 0.0 => NEVER,
        Cell::Rate(rate) => {
            let steps = f64::from(BRIGHTEST - NEVER);
            let step = crate::numbers::to_u64(f64::from(map.scale.share(*rate)) * steps).max(1);
            NEVER + u8::try_from(step).unwrap_or(BRIGHTEST - NEVER)
        }
    };
    let of = |p: &Panel| {
        let bytes: Vec<u8> = p.rows.iter().flat_map(|row| &row.cells).map(byte).collect();
        packed(&bytes)
    };
    map.panels.iter().map(of).collect()
}

/// Joins each two neighbouring columns.
fn halve(map: &mut Heatmap) {
    for row in map.panels.iter_mut().flat_map(|p| &mut p.rows) {
        row.cells = row.cells.chunks(2).map(joined).collect();
    }
    map.columns = map.columns.div_ceil(2);
}

/// A cell for both. A gap beside a rate is not shown: the rate is what is known.
fn joined(pair: &[Cell]) -> Cell {
    match *pair {
        [Cell::Rate(a), Cell::Rate(b)] => Cell::Rate(f32::midpoint(a, b)),
        [rate @ Cell::Rate(_), _] | [_, rate @ Cell::Rate(_)] => rate,
        [Cell::Unresolved, _] | [_, Cell::Unresolved] => Cell::Unresolved,
        _ => pair.first().copied().unwrap_or_default(),
    }
}
