//! The heatmap as JSON.

use serde::Serialize;

use super::{Cell, Heatmap};

#[derive(Serialize)]
struct Json<'a> {
    schema_version: u32,
    start_ns: u64,
    end_ns: u64,
    origin_ns: u64,
    columns: usize,
    panels: Vec<JsonPanel<'a>>,
}

#[derive(Serialize)]
struct JsonPanel<'a> {
    target: &'a str,
    pid: u32,
    mapped: u64,
    rows: Vec<JsonRow<'a>>,
}

/// `cells`: a rate of 0 to 1, null for not mapped, -1 for unresolved.
#[derive(Serialize)]
struct JsonRow<'a> {
    start: u64,
    end: u64,
    mapping: &'a str,
    area: usize,
    cells: Vec<Option<f32>>,
}

impl Heatmap {
    /// The heatmap as one JSON object. A cell is a rate of 0 to 1, null where nothing was mapped,
    /// or -1 where the operations set could not look. Rows are in address order, addresses in
    /// bytes.
    #[must_use]
    pub fn to_json(&self) -> String {
        let panels = self.panels.iter().map(|p| JsonPanel {
            target: &p.target,
            pid: p.pid,
            mapped: p.mapped,
            rows: p
                .rows
                .iter()
                .map(|r| JsonRow {
                    start: r.range.start,
                    end: r.range.end,
                    mapping: &r.mapping,
                    area: r.area,
                    cells: r.cells.iter().map(value).collect(),
                })
                .collect(),
        });
        let json = Json {
            schema_version: crate::SCHEMA_VERSION,
            start_ns: self.start_ns,
            end_ns: self.end_ns,
            origin_ns: self.origin_ns,
            columns: self.columns,
            panels: panels.collect(),
        };
        serde_json::to_string(&json).unwrap_or_default()
    }
}

fn value(cell: &Cell) -> Option<f32> {
    match *cell {
        Cell::Absent => None,
        Cell::Unresolved => Some(-1.0),
        Cell::Rate(rate) => Some((rate * 1e4).round() / 1e4),
    }
}
