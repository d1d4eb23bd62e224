//! What schemes ask of the operations set, and what it answers.

use super::{Action, Metric, NodeLevel};
use crate::addr::AddrRange;
use crate::target::TargetId;

/// What a scheme wants done to one region.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Request {
    /// Index of the scheme in the context.
    pub scheme: usize,
    /// What to do.
    pub action: Action,
    /// To whose memory.
    pub target: TargetId,
    /// Where.
    pub range: AddrRange,
    /// The region's samples per window.
    pub nr_accesses: u32,
    /// The region's age in windows, or the windows since the last action if those are fewer.
    pub age: u32,
    /// If the region does not match, but pages of it may ([`Scheme::by_page`](super::Scheme)): for
    /// how long a page must have been idle to be acted on, in µs. `None`: the region matches.
    pub idle_us: Option<u64>,
    /// Whether the region does not match because too little of it is touched in one sample, but
    /// units of 2 MiB of it may be in use ([`Scheme::by_page`](super::Scheme)): only those of which
    /// enough pages are touched within some seconds are to be acted on.
    pub by_use: bool,
    /// Whether a core filter let the region in, so that the ops filters are skipped.
    pub bypass_filters: bool,
    /// What the quota is charged, in bytes. `strict` only.
    pub charged: u64,
    /// The most bytes to ask the kernel for. No limit with `strict`, where the range is short
    /// enough.
    pub max_bytes: u64,
    /// The time after which to stop between two batches, in ns.
    pub max_ns: u64,
}

/// The result of a [`Request`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Applied {
    /// Bytes from the start of the range that are settled. 0: nothing was done, because there is no
    /// evidence yet or no time was left, and the next pass asks again. Not `strict`.
    pub covered: u64,
    /// With `covered` 0: bytes at the start to leave alone for now. The same pass asks about the
    /// bytes behind them, if there are any. Not `strict`.
    pub skip: u64,
    /// Bytes that the kernel was asked to act on. The quota is charged for these. Not `strict`.
    pub asked: u64,
    /// Bytes acted on.
    pub applied: u64,
    /// Bytes that the ops filters let in.
    pub passed: u64,
    /// Bytes that were refused because the destination had no room.
    pub no_room: u64,
    /// Time that the request took, in ns.
    pub ns: u64,
}

/// One fact about the machine that a context wants to know.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Measure {
    /// Index of the scheme that wants it.
    pub scheme: usize,
    /// What to measure. A total may count from any start.
    pub metric: Metric,
    /// The answer. `None`: the value is not known now.
    pub value: Option<u64>,
    /// For a metric on all of a node's memory, the level of that node. `None`: it is not known, or
    /// the metric is not about a node.
    pub level: Option<NodeLevel>,
}

impl Measure {
    /// A question that is not answered yet.
    #[must_use]
    pub const fn new(scheme: usize, metric: Metric) -> Self {
        Self { scheme, metric, value: None, level: None }
    }
}

/// A region that a scheme could act on, of which the context wants to know how much is on the
/// scheme's node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Eligible {
    /// Index of the scheme that wants it.
    pub scheme: usize,
    /// Whose memory.
    pub target: TargetId,
    /// Where.
    pub range: AddrRange,
    /// The node.
    pub nid: u32,
    /// The answer: an estimate, in bytes. It is preset to the size of the range.
    pub bytes: u64,
}
