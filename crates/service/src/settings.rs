//! How the agent runs.

use std::path::PathBuf;

use isotherm_metrics::Outlets;

use crate::history::Retention;
use crate::rollout::Rollout;

/// How the agent runs.
#[derive(Debug, Clone, PartialEq)]
pub struct Settings {
    /// The directory of policies; every `*.toml` in it is one. It need not exist.
    pub policies_dir: Option<PathBuf>,
    /// Policies that are given one by one.
    pub policies: Vec<PathBuf>,
    /// Where the socket is.
    pub socket: PathBuf,
    /// Where the state and the history are.
    pub state_dir: PathBuf,
    /// The group whose members may read.
    pub readers: String,
    /// The group whose members may act; none: only root may.
    pub actors: Option<String>,
    /// The share of one CPU that all contexts together may use, in basis points.
    pub budget_bp: u32,
    /// The most memory that the agent should use itself, in bytes; 0 for no cap.
    pub most_memory: u64,
    /// How long records of what contexts saw are kept; none: none are written.
    pub history: Option<Retention>,
    /// Where metrics of all policies are wanted.
    pub metrics: Outlets,
    /// Whether what cgroups use is added up for clients, also if nothing else asks for it.
    pub cgroups: bool,
    /// What is written for questions about many hosts; none: nothing.
    pub fleet: Option<isotherm_fleet::Settings>,
    /// How policies come to this host.
    pub rollout: Rollout,
    /// Decide and count, but change nothing, whatever the policies say.
    pub dry_run: bool,
    /// The namespaces of Kubernetes in whose pods policies may act. Contexts with other targets
    /// only decide and count. None: policies act on whatever they name.
    pub act_in: Option<Vec<String>>,
    /// The version of the program.
    pub version: String,
    /// The commit that it was built from.
    pub commit: String,
}

impl Settings {
    /// Whether contexts add up what cgroups use. Metrics and fleet data have it, too.
    pub(crate) fn adds_up_cgroups(&self) -> bool {
        self.cgroups || self.metrics.is_any() || self.fleet.is_some()
    }
}
