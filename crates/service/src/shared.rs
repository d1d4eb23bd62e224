//! What all parts of the agent share.

use std::os::unix::net::UnixStream;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Instant;

use isotherm_fleet::Fleet;
use isotherm_metrics::Exporter;

use crate::history::History;
use crate::hub::Hub;
use crate::policy::Policies;
use crate::settings::Settings;

/// What all parts of the agent share.
#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) settings: Settings,
    pub(crate) policies: Policies,
    pub(crate) metrics: Option<Arc<Mutex<Exporter>>>,
    pub(crate) hub: Arc<Hub>,
    pub(crate) history: Option<Arc<History>>,
    pub(crate) fleet: Option<Arc<Fleet>>,
    pub(crate) clients: Arc<Clients>,
    /// What the agent does since it is short of memory; none if it is not.
    pub(crate) short: Mutex<Option<String>>,
    pub(crate) started: Instant,
}

/// The clients that are served now.
#[derive(Debug, Default)]
pub(crate) struct Clients {
    pub(crate) served: AtomicUsize,
    pub(crate) refused: AtomicUsize,
    pub(crate) next: AtomicUsize,
    pub(crate) stopping: AtomicBool,
    /// To hang up on them at the end.
    pub(crate) streams: Mutex<Vec<(usize, UnixStream)>>,
}

impl Clients {
    /// How many are served.
    pub(crate) fn served(&self) -> usize {
        self.served.load(Ordering::Relaxed)
    }

    pub(crate) fn is_stopping(&self) -> bool {
        self.stopping.load(Ordering::Relaxed)
    }
}
