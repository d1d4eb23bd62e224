//! What the set needs of the kernel's DAMON: one kdamond of ours. It is a trait, so that tests can
//! use a made-up one.

use isotherm_core::Observed;
use isotherm_core::scheme::Counters;
use isotherm_damon::model::Config;
use isotherm_damon::{DamonError, Feature, Features, TunedIntervals};

/// What a pushed-down scheme did, by the kernel's count since the kdamond was started.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Counted {
    /// The kernel's counters.
    pub counters: Counters,
    /// The quota of this window in bytes; `None` before 6.9.
    pub esz: Option<u64>,
}

/// What a walk saw.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct Walked {
    /// Regions by scheme.
    pub(super) schemes: Vec<Vec<Observed>>,
    /// Bytes that the first of them has tried since the kdamond was started.
    pub(super) sz_tried: u64,
}

/// One kdamond of ours.
pub(super) trait Kernel: std::fmt::Debug + Send {
    /// Starts it; returns its thread's pid.
    fn start(&mut self, config: &Config) -> Result<u32, DamonError>;

    /// Commits to the running kdamond. If that fails, the kdamond and its files stay as they were.
    fn commit(&mut self, config: &Config) -> Result<(), DamonError>;

    /// Commits the goals of its schemes, and nothing else.
    fn commit_goals(&mut self, config: &Config) -> Result<(), DamonError>;

    /// Stops it. Nothing happens if it does not run.
    fn stop(&mut self) -> Result<(), DamonError>;

    /// Whether it runs.
    fn is_running(&self) -> Result<bool, DamonError>;

    /// Waits until the schemes were applied once, and returns the regions of `nr` schemes from
    /// number `first` on. Calls `end` when the window is over, before it reads the regions.
    fn walk(
        &mut self,
        first: usize,
        nr: usize,
        end: &mut dyn FnMut(),
    ) -> Result<Walked, DamonError>;

    /// Counters of the first `nr` schemes.
    fn counted(&mut self, nr: usize) -> Result<Vec<Counted>, DamonError>;

    /// The intervals as they are now.
    fn intervals(&mut self) -> Result<TunedIntervals, DamonError>;

    /// Whether the kernel has something.
    fn has(&self, feature: Feature) -> bool;

    /// What the kernel has.
    fn features(&self) -> &Features;
}
