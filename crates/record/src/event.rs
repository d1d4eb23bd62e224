//! The events of a record: the values that the writer takes and the reader returns.
//!
//! Times named `t_ns` are nanoseconds of `CLOCK_MONOTONIC`. [`Header`] ties that clock to the wall
//! clock of the recording machine. Small events are stored as JSON objects, so a reader ignores
//! fields that a later minor version added.

use isotherm_core::{Attrs, Snapshot};
use serde::{Deserialize, Serialize};

use crate::cgroups::Cgroups;
use crate::frames::{Frames, Ram};
use crate::mapping::Mapping;
use crate::pages::Pages;

/// Facts about the whole record, written first.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Header {
    /// Version of Isotherm that wrote the record.
    pub isotherm: String,
    /// Host name.
    pub host: String,
    /// Kernel release, as `uname -r` prints it.
    pub kernel: String,
    /// Machine, as `uname -m` prints it.
    pub arch: String,
    /// Page size in bytes.
    pub page_size: u64,
    /// Names the boot that the monotonic clock belongs to.
    pub boot_id: String,
    /// Wall clock at the start: nanoseconds since 1970, UTC.
    pub started_unix_ns: u64,
    /// Monotonic clock at the start, in ns.
    pub started_ns: u64,
    /// Monitoring attributes.
    pub attrs: AttrsInfo,
    /// Name of the operations set.
    pub ops: String,
    /// Command line of the recorder.
    pub command: Vec<String>,
    /// What the set could do on the recording machine (for example `checks`, `clears`,
    /// `huge leaves`).
    pub capabilities: Vec<String>,
}

/// The monitoring attributes as they are stored in a record. The units are those of [`Attrs`].
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
#[expect(missing_docs, reason = "each field is documented at the field of `Attrs` that it mirrors")]
pub struct AttrsInfo {
    pub sample_us: u64,
    pub aggr_us: u64,
    pub update_us: u64,
    pub min_nr_regions: u64,
    pub max_nr_regions: u64,
    pub min_region_sz: u64,
    /// `resample`, `first_touch`, `census` or `observed`.
    pub method: String,
    pub strict: bool,
    pub clears_per_sec: u32,
    pub budget_bp: u32,
    pub goal_access_bp: u64,
    pub goal_aggrs: u64,
}

impl From<&Attrs> for AttrsInfo {
    fn from(a: &Attrs) -> Self {
        Self {
            sample_us: a.sample_us,
            aggr_us: a.aggr_us,
            update_us: a.update_us,
            min_nr_regions: a.min_nr_regions,
            max_nr_regions: a.max_nr_regions,
            min_region_sz: a.min_region_sz,
            method: a.method.name().into(),
            strict: a.strict,
            clears_per_sec: a.clears_per_sec,
            budget_bp: a.budget_bp,
            goal_access_bp: a.intervals_goal.access_bp,
            goal_aggrs: a.intervals_goal.aggrs,
        }
    }
}

/// A target came in.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Target {
    /// Its [`TargetId`](isotherm_core::TargetId); never used twice in one record.
    pub id: u32,
    /// Process id at that time. The kernel may reuse it for another target.
    pub pid: u32,
    /// Process id of the parent; 0 if unknown.
    pub ppid: u32,
    /// Name of the command.
    pub name: String,
    /// When the target was added (`CLOCK_MONOTONIC`, in ns).
    pub t_ns: u64,
    /// The physical memory (`all`, `node:1`, or ranges) if the target is not a process. Its
    /// addresses are physical then.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub memory: Option<String>,
}

/// A target executed another program, so its address space was replaced.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Exec {
    /// Which target.
    pub id: u32,
    /// Its new name.
    pub name: String,
    /// When the recorder saw it (`CLOCK_MONOTONIC`, in ns).
    pub t_ns: u64,
}

/// A target is gone.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Exit {
    /// Which target.
    pub id: u32,
    /// Exit status as a shell would show it, if known.
    pub status: Option<i32>,
    /// When the recorder saw it (`CLOCK_MONOTONIC`, in ns).
    pub t_ns: u64,
}

/// A message for readers of the record.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Note {
    /// When it was written (`CLOCK_MONOTONIC`, in ns).
    pub t_ns: u64,
    /// The text, for example why a set was not used.
    pub text: String,
    /// For how long the machine was suspended in the window before this message, in ns. The
    /// monotonic clock does not count that.
    #[serde(skip_serializing_if = "is_zero")]
    pub suspended_ns: u64,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "as serde calls it")]
const fn is_zero(ns: &u64) -> bool {
    *ns == 0
}

impl Note {
    /// The beginning of a message that says how often others cleared accessed bits, and what that
    /// may have hidden. A record has it only if that matters.
    pub const OTHERS_CLEAR: &str = "others clear accessed bits here: ";
}

/// The end mark: the recorder stopped in an orderly way.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct End {
    /// When the record ended (`CLOCK_MONOTONIC`, in ns).
    pub t_ns: u64,
    /// Why, for example `interrupted` or `every target exited`.
    pub reason: String,
    /// Snapshots written.
    pub snapshots: u64,
    /// Regions written, over all snapshots.
    pub regions: u64,
}

/// One event of a record. It is borrowed, and valid until the next call of the reader.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Event<'a> {
    /// A target was added. This event precedes the first snapshot that names the target.
    Target(&'a Target),
    /// A target executed another program.
    Exec(&'a Exec),
    /// A target is gone.
    Exit(&'a Exit),
    /// A target's mappings from `t_ns` on.
    Mappings {
        /// When they were read.
        t_ns: u64,
        /// The target that they belong to, by its number.
        target: u32,
        /// All of them, in address order.
        mappings: &'a [Mapping],
    },
    /// An aggregation window. What its targets say of single pages is in [`Event::Pages`] instead.
    Snapshot(&'a Snapshot),
    /// Working sets by span and page maps of the snapshots that follow, about a second of them.
    Pages(&'a Pages),
    /// Where the machine's RAM is.
    Ram(&'a Ram),
    /// A sample of page frames.
    Frames(&'a Frames),
    /// What cgroups used. Only an agent writes that.
    Cgroups(&'a Cgroups),
    /// A message.
    Note(&'a Note),
    /// The end mark. The record of a killed recorder has none.
    End(&'a End),
}
