//! Schemes: what to do with the memory that matches a pattern (DAMOS; R§4).
//!
//! [`Scheme`] is what the user asks for. [`Installed`] is a scheme at work in a context, with its
//! state. `pass` has the pass over all regions. Each part of a scheme has a module: `pattern`,
//! `quota`, `goal`, `score`, `watermark`, `filter`, `cursor`. These are plain functions of their
//! inputs.
//!
//! To act, the context returns [`Wish::Apply`](crate::Wish::Apply). The driver carries out the
//! [`Request`] and reports the result.
//!
//! # What differs from the kernel, unless `strict`
//!
//! | here | the kernel | R§ |
//! |---|---|---|
//! | a region is charged at its size after address filters cut it | at the size before | 9.2.1 |
//! | what the filters refuse is not cut | cut into pieces of what is left of the quota | 4.3 |
//! | a quota filled by the last region goes on with the next target | wastes one window | 9.2.2 |
//! | `nr_snapshots` counts passes over all targets | per target, unless the quota is full | 9.2.3 |
//! | a quota that is set later starts empty | starts full | 9.2.4 |
//! | throughput of the last windows, and time is a limit by itself | lifetime mean | 9.2.5 |
//! | the tuner remembers no more than can be used | winds up | 9.2.6 |
//! | the tuner starts at one region | at one byte: twelve windows of nothing | 9.2.7 |
//! | the weight of the size counts | ignored | 9.2.9 |
//! | a commit leaves a scheme that the watermarks stopped as it is | switches it on | 9.2.13 |
//! | the first look at a pressure total counts from now | from 0 | 9.2.14 |
//! | so does the first look at one that comes back after another goal | from where it was | 2.9 |
//! | the first quota window is as long as others | over at once, tuned twice | 4.4 |
//! | without a quota regions are not sorted | once more when it was removed | 4.4 |
//! | what was asked of the kernel is charged | the region's size, with holes | 9.2.15 |
//! | filters cut regions once, when they are applied | in the histogram too | 9.2.18 |
//! | a scheme is asked once about each byte of a pass | again about what was cut off | 4.2 |
//! | the age stays true; an action has its own clock | age restarts, even if all failed | 9.2.20 |
//! | a nearer deadline of a scheme stays when attributes change | all restart | 9.1.1 |
//! | age and frequency in time and percent follow the intervals | stretch with them | 9.1.4 |
//! | a region about which nothing is known is never acted on | reads as accessed | 9.5.3 |
//! | no access at all is asked for: pages in use do not match | a count of 0 is enough | 4.1 |
//! | watermarks are looked at once per aggregation window | every sample | 2.5 |
//!
//! Two properties are kept as in the kernel. The last score class may be larger than the quota. It
//! is then cut in address order, which the cursor makes fair (9.2.8). Ages below a second are alike
//! in the score (9.2.9).

pub mod action;
mod counters;
pub mod filter;
mod installed;
mod ledger;
mod pass;
pub mod pattern;
#[cfg(kani)]
mod proofs;
pub mod quota;
mod refaults;
mod request;
pub mod score;
mod watermark;

use alloc::vec::Vec;

pub use action::{Action, Order};
pub use counters::Counters;
pub use filter::{Filter, FilterKind, Filters, Verdict};
pub use follow::{Follow, NodeLevel, Room, Stand};
pub use goal::{CgroupId, Goal, Metric, Tuner};
pub use installed::Installed;
pub use ledger::{Entry, Ledger};
pub use pass::{Cursor, Skip, Tried, Walk, WalkBusy};
pub(crate) use pass::{Schemes, Step};
pub use pattern::{Age, Bounds, Frequency, Pattern, Resolved};
pub(crate) use quota::Totals;
pub use quota::{Brake, FailCharge, Quota, QuotaState, Weights, follow, goal, rest};
pub use refaults::Refaults;
pub use request::{Applied, Eligible, Measure, Request};
pub use rest::Rest;
pub use watermark::{WatermarkMetric, Watermarks};

/// A destination of a migration, with its share.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Destination {
    /// The node.
    pub nid: u32,
    /// Its share of the sum of all weights.
    pub weight: u32,
}

/// A scheme as the user asks for it (`struct damos`, Linux 7.2).
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
pub struct Scheme {
    /// The regions that the scheme matches.
    pub pattern: Pattern,
    /// What to do with the memory.
    pub action: Action,
    /// Time between applications, in µs. 0: the aggregation interval.
    pub apply_interval_us: u64,
    /// How much the scheme may do.
    pub quota: Quota,
    /// When the scheme is at work.
    pub watermarks: Watermarks,
    /// Which memory the scheme leaves alone.
    pub filters: Filters,
    /// Act on memory of this node only. None: of all nodes. Not in the kernel, where address
    /// filters are used for this.
    pub source_nid: Option<u32>,
    /// How long to do nothing when the destination has no room. None: the scheme tries again at
    /// once. Not in the kernel.
    pub rest: Option<Rest>,
    /// Node to migrate to, unless there are destinations. None: nothing is migrated.
    pub target_nid: Option<u32>,
    /// Nodes to migrate to, by weight.
    pub dests: Vec<Destination>,
    /// Stop after this many snapshots. 0: never.
    pub max_nr_snapshots: u64,
    /// For memory that was idle for long: also act within regions that do not match, on those of
    /// their pages that were idle for so long by themselves (see [`Request::idle_us`]). For memory
    /// in use: also within regions that are touched less often, on units of 2 MiB of which enough
    /// pages are touched within some seconds (see [`Request::by_use`]). Only the
    /// method `census` sees such pages, or whoever plays back what it saw. Not in the kernel, where
    /// a region stands for its pages.
    pub by_page: bool,
}

impl Scheme {
    /// Whether the scheme has to look at single pages. Only `stat` without page filters does not,
    /// because it counts whole regions.
    #[must_use]
    pub fn looks_at_pages(&self) -> bool {
        self.action != Action::Stat || !self.filters.ops.is_empty()
    }
}
