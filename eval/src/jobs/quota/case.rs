//! What is left of one measurement: raw files, from which alone the study is made.

use serde::{Deserialize, Serialize};

use super::events::Acted;
use super::gauge::Sample;
use crate::processes::tool::Account;

/// The list of all cases of a run.
pub(super) const CASES: &str = "raw/cases.json";

/// The tool at work for a while.
#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub(super) struct Leg {
    /// Nothing matched: what it costs to monitor and to decide.
    pub(super) control: bool,
    pub(super) samples: Vec<Sample>,
    pub(super) acted: Vec<Acted>,
    /// Regions, each second.
    pub(super) regions: Vec<u64>,
    pub(super) account: Account,
}

/// The goal's current value: given to the tool, or what it measured itself.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub(super) struct Given {
    pub(super) ns: u64,
    /// In the goal's unit.
    pub(super) value: u64,
}

/// One measurement.
#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub(super) struct Case {
    /// `size`, `time`, `regions`, `input`, `psi`.
    pub(super) part: String,
    pub(super) name: String,
    /// Length of a quota window, as it comes out: whole passes.
    pub(super) window_ns: u64,
    /// Limits per window; 0: none.
    pub(super) limit_bytes: u64,
    pub(super) limit_ns: u64,
    /// Of a goal: KiB per second, or us per window.
    pub(super) goal: u64,
    pub(super) legs: Vec<Leg>,
    pub(super) given: Vec<Given>,
    /// For `psi`: the machine's total, in us, at times far apart.
    pub(super) totals: Vec<Given>,
    /// Why there is no more of it.
    pub(super) failed: Option<String>,
}
