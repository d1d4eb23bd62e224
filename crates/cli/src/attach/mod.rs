//! An agent that watches already what a command wants to see: its numbers are shown rather than
//! watched a second time. A second monitor of the same memory would make its pages old, and each
//! would miss what the other has seen.
//!
//! Invariant: nothing is made old or looked at here. Absent: memory that processes share and single
//! pages, which the agent does not tell.

pub(crate) mod snapshot;

use std::path::Path;
use std::time::Duration;

use isotherm::raw::agent::policy::TargetSpec;
use isotherm::raw::host::proc::{Proc, TaskState};
use isotherm_control::client::Client;
use isotherm_control::error::CallError;
use isotherm_control::types;

/// How long the agent may take for an answer.
const PATIENCE: Duration = Duration::from_secs(10);

/// An agent that watches all processes that were asked for.
#[derive(Debug)]
pub(crate) struct Attached {
    agent: Client,
    family: Family,
}

impl Attached {
    /// Asks the agent at this socket, if one runs; also returns what it sees. `None` if the
    /// processes were not given by their pids, or the agent does not watch all of them, or may not
    /// be asked. `children`: whether theirs are asked for, too.
    pub(crate) fn find(
        socket: &Path,
        specs: &[TargetSpec],
        children: bool,
    ) -> anyhow::Result<Option<(Self, Vec<types::Snapshot>)>> {
        let mut pids = Vec::new();
        for spec in specs {
            let TargetSpec::Pid(pid) = spec else { return Ok(None) };
            pids.push(*pid);
        }
        if pids.is_empty() {
            return Ok(None);
        }
        let Ok(agent) = Client::connect(socket) else { return Ok(None) };
        agent.set_patience(Some(PATIENCE))?;
        let family = Family { pids, children, proc: Proc::default(), buf: Vec::new() };
        let mut this = Self { agent, family };
        let Ok(snapshots) = this.ask() else { return Ok(None) };
        let all = this.family.pids.iter().all(|pid| is_watched(&snapshots, *pid));
        Ok(all.then_some((this, snapshots)))
    }

    /// Whose numbers these are, for people.
    pub(crate) fn whose(&mut self, snapshots: &[types::Snapshot]) -> String {
        let mut of = Vec::new();
        for s in snapshots {
            let pids = s.targets.iter().filter_map(|t| u32::try_from(t.pid).ok());
            if pids.into_iter().any(|pid| self.family.has(pid)) {
                of.push(format!("{} / {}", s.policy, s.context));
            }
        }
        format!("the agent's ({}), which watches already", of.join(", "))
    }

    /// What the agent sees now, of all processes.
    pub(crate) fn ask(&mut self) -> Result<Vec<types::Snapshot>, CallError> {
        let which = types::Which { policy: None, context: None, pid: None };
        self.agent.call("Snapshot", &which).map(|all: types::Snapshots| all.snapshots)
    }

    /// The connection, and the processes that were asked for.
    pub(crate) fn parts(self) -> (Client, Family) {
        (self.agent, self.family)
    }

    /// The processes that were asked for.
    pub(crate) const fn family(&mut self) -> &mut Family {
        &mut self.family
    }
}

/// The processes that were asked for, and their children if these were, too.
#[derive(Debug)]
pub(crate) struct Family {
    pids: Vec<u32>,
    children: bool,
    proc: Proc,
    buf: Vec<u8>,
}

impl Family {
    /// The pids that were named.
    pub(crate) fn pids(&self) -> &[u32] {
        &self.pids
    }

    /// Whether a process is one of those asked for, or a child of one.
    pub(crate) fn has(&mut self, pid: u32) -> bool {
        /// Deeper than processes are nested.
        const MOST: usize = 64;
        let mut pid = pid;
        for _ in 0..MOST {
            if self.pids.contains(&pid) {
                return true;
            }
            match self.proc.stat(pid, &mut self.buf) {
                Ok(stat) if self.children && stat.ppid > 1 => pid = stat.ppid,
                _ => return false,
            }
        }
        false
    }

    /// Whether a process runs still.
    pub(crate) fn is_alive(&mut self, pid: u32) -> bool {
        self.proc.stat(pid, &mut self.buf).is_ok_and(|stat| stat.state == TaskState::Alive)
    }

    /// The parent of a process; 0 if it is not known.
    pub(crate) fn parent(&mut self, pid: u32) -> u32 {
        self.proc.stat(pid, &mut self.buf).map_or(0, |stat| stat.ppid)
    }
}

/// Whether one of the snapshots has this process.
pub(crate) fn is_watched(snapshots: &[types::Snapshot], pid: u32) -> bool {
    snapshots.iter().flat_map(|s| &s.targets).any(|t| t.pid == u64::from(pid))
}
