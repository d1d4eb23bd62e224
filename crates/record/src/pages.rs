//! What a method that sees single pages says, collected over about a second of windows.
//!
//! The working set by span is kept for each window. Of a unit that changed several times within one
//! frame, only the last change is kept. So page maps are exact at the end of a frame, and at most
//! one frame old before.

use isotherm_core::{TargetId, Time, Touched, UnitInfo};

/// The most windows, working sets and units of one frame, each. It bounds the memory of writers and
/// readers to some MiB.
pub(crate) const MOST_ITEMS: usize = 1 << 14;

/// One window in which a method told of single pages.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct PageWindow {
    /// The number of its snapshot.
    pub seq: u64,
    /// When the window began.
    pub start: Time,
    /// When it ended.
    pub end: Time,
    /// Length of one sample interval, in microseconds: the first span.
    pub sample_us: u64,
    /// Length of the aggregation window by the attributes, in microseconds: the second span.
    pub aggr_us: u64,
    /// The working sets of the targets, in the snapshot's order.
    pub touched: Vec<(TargetId, Touched)>,
}

/// A unit that has changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ChangedUnit {
    /// Whose memory.
    pub target: TargetId,
    /// The index of the window at whose end the unit looked like this, in [`Pages::windows`].
    pub window: u32,
    /// The unit.
    pub unit: UnitInfo,
}

/// Working sets and page maps of about a second. The event precedes the snapshots of its windows.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Pages {
    /// The windows, in the order of the snapshots. A window whose data fill several events is in
    /// each of them.
    pub windows: Vec<PageWindow>,
    /// The units that changed in these windows, by target and address. Each has its last state.
    pub units: Vec<ChangedUnit>,
}
