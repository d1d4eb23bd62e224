//! `report heatmap`: how hot memory was, by time (left to right) and address (bottom to top).
//!
//! A heatmap takes two passes over the record. The first finds the areas worth showing (see
//! `areas`). The second fills a grid of cells with the mean rate of access, weighted by bytes and
//! time, and names the rows (see `names`). The memory needed is that of the grid, however long the
//! record is and however often mappings change. A cell says that nothing was mapped, that the
//! operations set could not look, or gives a rate of 0 to 1 (1: touched in every sample). Where the
//! user names addresses and rows are finer than 2 MiB, page maps say the rates if the record has
//! them (see `pages`), and regions only say the rest.

mod areas;
mod build;
mod font;
mod json;
mod names;
mod pages;
mod palette;
mod picture;
mod png;
mod svg;
mod text;

use isotherm_core::AddrRange;

use crate::shown::mib;
use isotherm_core::units::percent;

pub(crate) use build::Surveys;
pub use palette::{Color, Scale, Style};

/// If at least this share of the accesses is not shown, the heatmap says so.
const WORTH_SAYING: f64 = 0.005;

/// The resolution of a heatmap, and how many targets it shows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Options {
    /// Cells from left to right.
    pub columns: usize,
    /// Cells from bottom to top, for all areas of a panel together.
    pub rows: usize,
    /// Least number of rows of an area.
    pub min_rows: usize,
    /// A panel for every target (up to 16), not only for the four with the most accesses.
    pub all_targets: bool,
}

impl Options {
    /// The resolution for a terminal of this width in characters.
    #[must_use]
    pub fn for_text(width: usize) -> Self {
        let columns = text::columns(width).clamp(20, 200);
        Self { columns, rows: 24, min_rows: 1, all_targets: false }
    }

    /// The resolution for a picture.
    #[must_use]
    pub fn for_picture() -> Self {
        Self { columns: 240, rows: 120, min_rows: 4, all_targets: false }
    }
}

/// What is known about one range of addresses in one span of time.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub enum Cell {
    /// Nothing was mapped, or nothing was recorded.
    #[default]
    Absent,
    /// Mapped, but the operations set could not look.
    Unresolved,
    /// Mean rate of access: 0 never, 1 in every sample.
    Rate(f32),
}

/// One row of a panel.
#[derive(Debug, Clone, PartialEq)]
pub struct Row {
    /// Its addresses.
    pub range: AddrRange,
    /// Name of the mapping that covered most of it at any time; empty if unknown.
    pub mapping: String,
    /// Index of its area.
    pub area: usize,
    /// Cells, from left to right.
    pub cells: Vec<Cell>,
}

/// One target's picture.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Panel {
    /// Name and pid of the target, as text.
    pub title: String,
    /// Name of the target.
    pub target: String,
    /// Its process; 0 for physical memory.
    pub pid: u32,
    /// What is shown, in address order. In physical memory an area ends where its node does.
    pub areas: Vec<AddrRange>,
    /// In address order; drawn from the last to the first.
    pub rows: Vec<Row>,
    /// Bytes of all its regions at the end.
    pub mapped: u64,
    /// Bytes of those that could not be looked at.
    pub unresolved: u64,
    /// Resolved bytes between each two neighbouring areas; one item less than areas.
    pub folded: Vec<u64>,
    /// Share of all accesses that are outside of the areas.
    pub left_out: f64,
    /// Whether any access was seen.
    pub accessed: bool,
}

/// Heat over time and addresses.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Heatmap {
    /// Left end, in ns of the record's clock.
    pub start_ns: u64,
    /// Right end.
    pub end_ns: u64,
    /// Time 0 of the axis, in ns of the record's clock.
    pub origin_ns: u64,
    /// Number of columns of every row.
    pub columns: usize,
    /// Which rate gets which shade. [`Heatmap::build`] chooses it; it may be changed.
    pub scale: Scale,
    /// One per target shown.
    pub panels: Vec<Panel>,
    /// Number of targets that have snapshots.
    pub targets: usize,
    /// What could not be read; empty if nothing.
    pub damage: String,
}

impl Panel {
    /// Bytes that are shown.
    #[must_use]
    pub fn shown(&self) -> u64 {
        self.areas.iter().map(AddrRange::len).sum()
    }

    /// A text that says what is between an area and the one above it.
    pub(crate) fn fold_text(&self, below: usize) -> String {
        match self.folded.get(below).copied().unwrap_or(0) {
            0 if self.areas.get(below).map(|a| a.end)
                == self.areas.get(below + 1).map(|a| a.start) =>
            {
                "another node".into()
            }
            0 => "not mapped".into(),
            mapped => format!("{} hardly accessed", mib(mapped)),
        }
    }

    pub(crate) fn summary(&self) -> String {
        let shown = format!(
            "{} in {} area{}",
            mib(self.shown()),
            self.areas.len(),
            if self.areas.len() == 1 { "" } else { "s" }
        );
        let mut out = format!("{shown}; at the end {} mapped", mib(self.mapped));
        if self.unresolved > 0 {
            out += &format!(", {} unresolved", mib(self.unresolved));
        }
        if !self.accessed {
            out += "; no access was seen";
        } else if self.left_out >= WORTH_SAYING {
            out += &format!("; {} of the accesses elsewhere", percent(self.left_out));
        }
        out
    }
}
