//! The engine over real processes: a session of `isotherm-agent` per kdamond.
//!
//! A context here is not one of a policy's: it takes calls in the middle of its loop, and shows
//! what it does region by region. So each has a thread of its own, which is named as the kernel
//! names its workers.
//!
//! Absent on purpose: evidence before actions, a brake, and everything else that DAMON does not
//! have. A user of these files who wants them uses `isotherm run`. Modules are an exception where
//! they watch all processes (see `watch`).

mod cgroups;
mod kdamond;
mod listed;
mod policy;
mod targets;
mod watch;
mod worker;

use std::fmt;
use std::sync::{Arc, OnceLock};

use isotherm_damon::model::{Config, Operations};
use isotherm_ops::doctor::choose_physical;
use isotherm_ops::support::SetName;
use rustix::io::Errno;

use self::watch::Watch;
use crate::engine::{Asker, Engine, Worker};
use crate::trace::Trace;

/// Takes lines that tell people why something was refused or left out.
pub type Log = Arc<dyn Fn(&str) + Send + Sync>;

/// Runs kdamonds over the processes of this machine.
pub struct Live {
    log: Log,
    trace: Arc<Trace>,
    /// Why there is no `paddr`; none if there is.
    no_paddr: OnceLock<Option<String>>,
}

impl fmt::Debug for Live {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Live").field("no_paddr", &self.no_paddr).finish_non_exhaustive()
    }
}

impl Live {
    /// An engine that tells `log` what an errno cannot say, and `trace` what happens.
    #[must_use]
    pub fn new(log: Log, trace: Arc<Trace>) -> Self {
        Self { log, trace, no_paddr: OnceLock::new() }
    }

    /// Why there is no `paddr`. The set `kdamond` sees physical memory too, but it is the kernel's
    /// DAMON, which must be left alone here.
    fn no_paddr(&self) -> Option<&str> {
        let find = || choose_physical(Some(SetName::Idle)).err().map(|why| why.to_string());
        self.no_paddr.get_or_init(find).as_deref()
    }
}

impl Engine for Live {
    fn operations(&self) -> Vec<Operations> {
        let physical = self.no_paddr().is_none().then_some(Operations::Paddr);
        [Operations::Vaddr, Operations::Fvaddr].into_iter().chain(physical).collect()
    }

    fn start(
        &self,
        config: &Config,
        by: Asker,
        nr_running: usize,
    ) -> Result<Arc<dyn Worker>, Errno> {
        let no_paddr = || self.no_paddr().map(str::to_owned);
        let watch = Watch::of(&config.context, by, no_paddr, &self.log)?;
        let name = format!("kdamond.{nr_running}");
        let (log, trace) = (Arc::clone(&self.log), Arc::clone(&self.trace));
        Ok(Arc::new(worker::LiveWorker::start(name, config.clone(), watch, log, trace)?))
    }
}
