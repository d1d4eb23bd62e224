//! The lines of a truth file.

use std::io::{self, Write};

use serde::{Deserialize, Serialize};

use crate::config::Config;
use crate::pattern::{Cells, Choice, Plan};

/// Version of the format. Version 1 had no sets of pieces, and is read, too.
pub const VERSION: u32 = 2;

/// A region's name and largest size.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RegionInfo {
    /// Its name in the config.
    pub name: String,
    /// Its largest size, in bytes.
    pub size: u64,
}

/// In which order a pattern's bytes are touched.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Kind {
    /// One after another, and again from the first.
    Sweep {
        /// Distance of two accesses, in bytes.
        stride: u64,
    },
    /// At random, independently, evenly within a cell.
    Random,
}

/// One pattern.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PatternInfo {
    /// Its number, which the counts name.
    pub id: u32,
    /// Index of its region.
    pub region: usize,
    /// Order of its accesses.
    pub kind: Kind,
    /// Where it is counted.
    pub cells: Cells,
}

/// One phase.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PhaseInfo {
    /// Its name.
    pub name: String,
    /// Its patterns.
    pub patterns: Vec<PatternInfo>,
}

/// The header: facts that hold for the whole run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Header {
    /// [`VERSION`].
    pub version: u32,
    /// Name of the config.
    pub config: String,
    /// Seed of the run.
    pub seed: u64,
    /// Page size, in bytes.
    pub page_size: u64,
    /// Length of a slot.
    pub slot_ns: u64,
    /// Start of slot 0.
    pub start_ns: u64,
    /// All regions.
    pub regions: Vec<RegionInfo>,
    /// All phases.
    pub phases: Vec<PhaseInfo>,
}

impl Header {
    /// The header of a run of `config`.
    #[must_use]
    pub fn new(
        name: &str,
        config: &Config,
        plans: &[Vec<Plan>],
        start_ns: u64,
        slot_ns: u64,
    ) -> Self {
        let info = |plan: &Plan| PatternInfo {
            id: plan.id,
            region: plan.region,
            kind: match plan.choice {
                Choice::Sweep { stride } => Kind::Sweep { stride },
                _ => Kind::Random,
            },
            cells: plan.cells.clone(),
        };
        let phases = config.phases.iter().zip(plans).map(|(phase, plans)| PhaseInfo {
            name: phase.name.clone(),
            patterns: plans.iter().map(info).collect(),
        });
        let regions = config.regions.iter();
        Self {
            version: VERSION,
            config: name.to_owned(),
            seed: config.settings.seed,
            page_size: 4096,
            slot_ns,
            start_ns,
            regions: regions.map(|r| RegionInfo { name: r.name.clone(), size: r.size }).collect(),
            phases: phases.collect(),
        }
    }
}

/// One line. `p` is a process's number in the fork tree.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "t", rename_all = "lowercase")]
pub enum Line {
    /// The first line.
    Header(Header),
    /// A process begins.
    Process {
        /// Its number.
        p: u32,
        /// Its pid.
        pid: u32,
        /// The number of the process that forked it.
        parent: Option<u32>,
        /// When.
        ns: u64,
    },
    /// A region has this extent from `ns` on. An empty extent means that it is unmapped or being
    /// changed.
    Map {
        /// Process.
        p: u32,
        /// Region.
        r: usize,
        /// When.
        ns: u64,
        /// First address.
        start: u64,
        /// First address behind.
        end: u64,
        /// Size of the page-table leaves that back it: 4096, or 2 MiB for its aligned parts; 0 if
        /// some of it is huge and some is not.
        leaf: u64,
    },
    /// A phase begins.
    Phase {
        /// Process.
        p: u32,
        /// Number of the phase.
        i: usize,
        /// When.
        ns: u64,
    },
    /// The hot part of a pattern moves.
    Move {
        /// Process.
        p: u32,
        /// Pattern.
        id: u32,
        /// When.
        ns: u64,
    },
    /// Executed accesses.
    Slot {
        /// Process.
        p: u32,
        /// Number of the slot.
        k: u64,
        /// (pattern, cell, number of accesses), without zeros.
        c: Vec<(u32, u32, u64)>,
    },
    /// A process ends. Its last slot is complete up to this time.
    End {
        /// Process.
        p: u32,
        /// When.
        ns: u64,
    },
}

impl Line {
    /// Writes the line with a single call to `out`.
    ///
    /// # Errors
    ///
    /// If `out` cannot be written to.
    pub fn write(&self, out: &mut impl Write) -> io::Result<()> {
        let mut text = serde_json::to_vec(self)?;
        text.push(b'\n');
        out.write_all(&text)
    }
}
