//! An agent that watches already what a command wants to see: its numbers are shown rather than
//! watched a second time. A second monitor of the same memory would make its pages old, and each
//! would miss what the other has seen.
//!
//! What was asked for is resolved to processes, by pid and by rule. If the agent has all of them,
//! all numbers are its own; if it has some, a command watches the rest and takes those.
//!
//! Invariant: nothing is made old or looked at here. Absent: memory that processes share and single
//! pages, which the agent does not tell.

mod family;
pub(crate) mod snapshot;

use std::collections::BTreeSet;
use std::path::Path;
use std::time::Duration;

use isotherm::raw::agent::policy::TargetSpec;
use isotherm::raw::core::units::counted;
use isotherm_control::client::Client;
use isotherm_control::error::CallError;
use isotherm_control::types;

pub(crate) use family::Family;

use crate::exit;

/// How long the agent may take for an answer.
const PATIENCE: Duration = Duration::from_secs(10);

/// An agent that watches processes that were asked for.
#[derive(Debug)]
pub(crate) struct Attached {
    agent: Client,
    family: Family,
}

/// What an agent watches of what was asked for: at least one process.
#[derive(Debug)]
pub(crate) struct Found {
    pub(crate) agent: Attached,
    /// What it sees now, also of other processes.
    pub(crate) snapshots: Vec<types::Snapshot>,
    /// Whether there are others, which it does not watch.
    pub(crate) is_part: bool,
}

impl Attached {
    /// Asks the agent at this socket, if one runs. `None` if it watches nothing of what was asked
    /// for, or may not be asked, or if a command or physical memory was asked for. `children`:
    /// whether those of the processes are meant, too.
    pub(crate) fn find(
        socket: &Path,
        specs: &[TargetSpec],
        children: bool,
    ) -> anyhow::Result<Option<Found>> {
        let of_itself =
            |s: &TargetSpec| matches!(s, TargetSpec::Command(_) | TargetSpec::Memory(_));
        if specs.is_empty() || specs.iter().any(of_itself) {
            return Ok(None);
        }
        let Ok(agent) = Client::connect(socket) else { return Ok(None) };
        agent.set_patience(Some(PATIENCE))?;
        let mut this = Self { agent, family: Family::new(specs, children) };
        let Ok(snapshots) = this.ask() else { return Ok(None) };
        let watched: BTreeSet<u32> = pids(&snapshots).collect();
        let any = watched.iter().any(|pid| this.family.has(*pid));
        let is_part = this.family.living().any(|pid| !watched.contains(&pid));
        Ok(any.then_some(Found { agent: this, snapshots, is_part }))
    }

    /// Which contexts these numbers are of, for people: `POLICY / CONTEXT, ...`.
    fn contexts(&mut self, snapshots: &[types::Snapshot]) -> String {
        let mut of = Vec::new();
        for s in snapshots {
            if pids(std::slice::from_ref(s)).any(|pid| self.family.has(pid)) {
                of.push(format!("{} / {}", s.policy, s.context));
            }
        }
        of.join(", ")
    }

    /// Whose numbers these are, for people.
    pub(crate) fn whose(&mut self, snapshots: &[types::Snapshot]) -> String {
        format!("the agent's ({}), which watches already", self.contexts(snapshots))
    }

    /// Of the processes that were asked for, those that these snapshots have.
    pub(crate) fn held(&mut self, snapshots: &[types::Snapshot]) -> BTreeSet<u32> {
        pids(snapshots).filter(|pid| self.family.has(*pid)).collect()
    }

    /// The error for a command that the agent's numbers are not good for. `why` they are not; what
    /// to do, beside stopping the policy.
    pub(crate) fn refused(
        &mut self,
        snapshots: &[types::Snapshot],
        why: &str,
        hint: &str,
    ) -> anyhow::Error {
        let whose = self.contexts(snapshots);
        let nr = counted(self.held(snapshots).len() as u64, "target");
        let policy = whose.split(" / ").next().unwrap_or_default();
        exit::with(
            exit::UNEXPECTED,
            format!(
                "the agent watches all of it already ({whose}), so nothing is left to watch\n  \
                 tried: watch {nr}; the agent has all\n  why:   {why}; a \
                 second monitor would make pages old that the agent waits for\n  hint:  {hint}, or \
                 `isotherm ctl stop {policy}`"
            ),
        )
    }

    /// What the agent sees now, of all processes.
    pub(crate) fn ask(&mut self) -> Result<Vec<types::Snapshot>, CallError> {
        self.family.refresh();
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

/// The processes that these snapshots have.
fn pids(snapshots: &[types::Snapshot]) -> impl Iterator<Item = u32> {
    snapshots.iter().flat_map(|s| &s.targets).filter_map(|t| u32::try_from(t.pid).ok())
}
