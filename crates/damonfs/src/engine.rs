//! What runs behind the tree, as the tree sees it.
//!
//! The tree reads a configuration from its files and hands it over; an engine runs it. So the tree
//! can be tested, and fed with random writes, without a process.

use std::fmt::Debug;
use std::sync::Arc;

use isotherm_core::scheme::Counters;
use isotherm_core::snapshot::RegionInfo;
use isotherm_damon::model::{Config, Operations};
use isotherm_damon::modules::Module;
use rustix::io::Errno;

use crate::tree::TriedRegion;

/// Who asks for a context.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Asker {
    /// The files of a kdamond. Physical memory is watched where they give regions of it.
    Files,
    /// A module, which watches all of the machine's memory if no region is given.
    Module(Module),
}

/// Starts kdamonds.
pub trait Engine: Debug + Send + Sync {
    /// The operations sets that work on this machine.
    fn operations(&self) -> Vec<Operations>;

    /// Starts a context, on a thread that is named after `nr_running`, the number of those that run
    /// already. Returns when it runs.
    ///
    /// # Errors
    ///
    /// What the kernel says: EINVAL if the attributes are not valid, the operations set is not
    /// available or a target does not exist; ENOMEM if a scheme cannot be made (R§5.3).
    fn start(
        &self,
        config: &Config,
        by: Asker,
        nr_running: usize,
    ) -> Result<Arc<dyn Worker>, Errno>;
}

/// A context that runs, or has run.
///
/// A call waits for the point of the loop where the context takes calls. Each is ECANCELED if the
/// context has ended.
pub trait Worker: Debug + Send + Sync {
    /// The pid of its thread; none if it has ended.
    fn pid(&self) -> Option<i32>;

    /// Stops it, and returns when its thread has ended.
    fn stop(&self);

    /// Takes over a configuration.
    ///
    /// # Errors
    ///
    /// As [`Engine::start`]; nothing has changed then.
    fn commit(&self, config: &Config) -> Result<(), Errno>;

    /// Takes over the goals of the schemes, by index, and nothing else.
    ///
    /// # Errors
    ///
    /// As [`Engine::start`].
    fn commit_goals(&self, config: &Config) -> Result<(), Errno>;

    /// What the schemes have done and may do, and the intervals in force.
    ///
    /// # Errors
    ///
    /// ECANCELED if it has ended.
    fn results(&self) -> Result<Results, Errno>;

    /// What each scheme was tried on during its next apply interval, by scheme. Waits that long.
    ///
    /// # Errors
    ///
    /// ECANCELED if it has ended, is paused, or has no scheme that may work.
    fn walk(&self) -> Result<Vec<Vec<TriedRegion>>, Errno>;

    /// All that can be seen of it from inside.
    ///
    /// # Errors
    ///
    /// ECANCELED if it has ended.
    fn status(&self) -> Result<Status, Errno>;
}

/// A context from inside.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Status {
    /// The configuration in force. Targets that were removed are not in it.
    pub config: Config,
    /// What it shows.
    pub results: Results,
    /// The regions of each target, in the order of the targets.
    pub regions: Vec<Vec<RegionInfo>>,
}

/// What a context shows of itself.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Results {
    /// By scheme.
    pub schemes: Vec<SchemeResults>,
    /// The sample interval in force, in µs.
    pub sample_us: u64,
    /// The aggregation interval in force, in µs.
    pub aggr_us: u64,
    /// For how long each percent of the memory is idle, in ms, hottest first; negative if it is in
    /// use. Empty before the first window.
    pub idle_ms: Vec<i64>,
    /// An estimate of the memory bandwidth, in bytes per second.
    pub bandwidth: u64,
}

/// What a scheme shows of itself.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct SchemeResults {
    /// What it has done.
    pub stats: Counters,
    /// What its quota is now, in bytes (`quotas/effective_bytes`).
    pub effective_bytes: u64,
}
