//! The engine over real processes: a session of `isotherm-agent` per kdamond.
//!
//! A context here is not one of a policy's: it takes calls in the middle of its loop, and shows
//! what it does region by region. So each has a thread of its own, which is named as the kernel
//! names its workers.
//!
//! Absent on purpose: evidence before actions, a brake, and everything else that DAMON does not
//! have. A user of these files who wants them uses `isotherm run`.

mod cgroups;
mod kdamond;
mod policy;
mod targets;
mod worker;

use std::fmt;
use std::sync::{Arc, OnceLock};

use isotherm_damon::model::{Config, Operations};
use isotherm_ops::doctor::choose_physical;
use isotherm_ops::support::SetName;
use rustix::io::Errno;

use crate::engine::{Engine, Worker};
use crate::trace::Trace;

/// Takes lines that tell people why something was refused or left out.
pub type Log = Arc<dyn Fn(&str) + Send + Sync>;

/// Runs kdamonds over the processes of this machine.
pub struct Live {
    log: Log,
    trace: Arc<Trace>,
    operations: OnceLock<Vec<Operations>>,
}

impl fmt::Debug for Live {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Live").field("operations", &self.operations).finish_non_exhaustive()
    }
}

impl Live {
    /// An engine that tells `log` what an errno cannot say, and `trace` what happens.
    #[must_use]
    pub fn new(log: Log, trace: Arc<Trace>) -> Self {
        Self { log, trace, operations: OnceLock::new() }
    }
}

impl Engine for Live {
    fn operations(&self) -> Vec<Operations> {
        let find = || {
            let mut found = vec![Operations::Vaddr, Operations::Fvaddr];
            // The set `kdamond` sees physical memory too, but it is the kernel's DAMON, which must
            // be left alone here.
            match choose_physical(Some(SetName::Idle)) {
                Ok(_) => found.push(Operations::Paddr),
                Err(why) => (self.log)(&format!("`paddr` is not available: {why}")),
            }
            found
        };
        self.operations.get_or_init(find).clone()
    }

    fn start(&self, config: &Config, nr_running: usize) -> Result<Arc<dyn Worker>, Errno> {
        if !self.operations().contains(&config.context.operations) {
            return Err(Errno::INVAL);
        }
        let name = format!("kdamond.{nr_running}");
        let (log, trace) = (Arc::clone(&self.log), Arc::clone(&self.trace));
        Ok(Arc::new(worker::LiveWorker::start(name, config.clone(), log, trace)?))
    }
}
