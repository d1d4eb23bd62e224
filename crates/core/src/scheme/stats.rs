//! What a scheme did so far (R§4.10).

/// Counters of a scheme, over its whole life (`struct damos_stat`, Linux 7.2, and more).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Stats {
    /// Regions that the action was tried on.
    pub nr_tried: u64,
    /// Their bytes.
    pub sz_tried: u64,
    /// Regions of which some part was acted on.
    pub nr_applied: u64,
    /// Bytes acted on.
    pub sz_applied: u64,
    /// Bytes that the ops filters let in.
    pub sz_ops_filter_passed: u64,
    /// Windows in which the quota was used up.
    pub qt_exceeds: u64,
    /// Passes over all regions; with `strict`, over a target's.
    pub nr_snapshots: u64,
    /// Bytes that the kernel was asked to act on. Not in the kernel.
    pub sz_asked: u64,
    /// Times that a region matched and nothing was done yet, for lack of evidence. Not in the kernel.
    pub nr_deferred: u64,
    /// Time that applying took, in ns. Not in the kernel.
    pub action_ns: u64,
    /// The most bytes charged in one quota window. Not in the kernel.
    pub max_window_sz: u64,
    /// The most time used in one quota window, in ns. Not in the kernel.
    pub max_window_ns: u64,
}
