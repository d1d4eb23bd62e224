//! An agent of a job's own: its policies, its state, its socket, and processes that it watches.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::Context;
use isotherm_control::client::Client;
use isotherm_control::error::CallError;
use isotherm_control::types;
use isotherm_core::Time;
use isotherm_sys::clock;
use rustix::process::Signal;

use crate::job::Bench;
use crate::processes::child::{Child, sleep_until};

/// How long anything may take on a busy machine.
pub(crate) const PATIENCE_US: u64 = 120_000_000;
/// The time between two looks, where something is waited for.
pub(crate) const LOOK_US: u64 = 10_000;

/// An agent of a job's own.
#[derive(Debug)]
pub(crate) struct World {
    isotherm: PathBuf,
    /// Below the machine's directory for temporary files, since a socket's path is short.
    dir: PathBuf,
    log: PathBuf,
    args: Vec<String>,
    agent: Option<Child>,
}

impl World {
    /// No agent runs yet. `args`: options of the agent, besides those that say where it is.
    pub(crate) fn new(bench: &Bench<'_>, args: &[&str]) -> anyhow::Result<Self> {
        let dir = std::env::temp_dir().join(format!("isotherm-eval-{}", std::process::id()));
        fs::create_dir_all(dir.join("policies.d"))
            .with_context(|| format!("create {}", dir.display()))?;
        Ok(Self {
            isotherm: bench.spec.isotherm.clone(),
            dir,
            log: bench.dir.raw("agent.log"),
            args: args.iter().map(|arg| (*arg).to_owned()).collect(),
            agent: None,
        })
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.dir.join(name)
    }

    /// Writes a policy's file.
    pub(crate) fn write(&self, name: &str, text: &str) -> anyhow::Result<()> {
        let path = self.path(&format!("policies.d/{name}.toml"));
        fs::write(&path, text).with_context(|| format!("write {}", path.display()))
    }

    /// Starts the agent, and does not wait for anything.
    pub(crate) fn spawn(&mut self) -> anyhow::Result<()> {
        let mut args = vec!["agent".to_owned()];
        for (option, name) in
            [("--policies-dir", "policies.d"), ("--socket", "s.sock"), ("--state", "state")]
        {
            args.extend([option.to_owned(), self.path(name).display().to_string()]);
        }
        args.extend(self.args.iter().cloned());
        self.agent = Some(Child::start(&self.isotherm, args, &self.log)?);
        Ok(())
    }

    pub(crate) fn agent(&mut self) -> anyhow::Result<&mut Child> {
        self.agent.as_mut().context("no agent runs")
    }

    pub(crate) fn pid(&mut self) -> anyhow::Result<u32> {
        Ok(self.agent()?.pid())
    }

    /// Kills the agent, and waits until it is gone.
    pub(crate) fn kill(&mut self) -> anyhow::Result<()> {
        let agent = self.agent()?;
        agent.signal(Signal::KILL)?;
        while agent.runs() {
            sleep_until(clock::now().plus_us(1000))?;
        }
        self.agent = None;
        Ok(())
    }

    /// Asks the agent to end, and waits for that.
    pub(crate) fn stop(&mut self) -> anyhow::Result<()> {
        self.agent.take().map_or(Ok(()), Child::stop)
    }

    /// A connection to the agent, as soon as it listens.
    pub(crate) fn connect(&mut self) -> anyhow::Result<Client> {
        let deadline = clock::now().plus_us(PATIENCE_US);
        let path = self.path("s.sock");
        loop {
            self.agent()?.still_runs()?;
            if let Ok(client) = Client::connect(&path) {
                client.set_patience(Some(Duration::from_secs(60)))?;
                return Ok(client);
            }
            anyhow::ensure!(clock::now() < deadline, "the agent does not listen");
            sleep_until(clock::now().plus_us(LOOK_US / 5))?;
        }
    }

    /// Waits until these processes are in windows that began after `since`. Returns when that was.
    pub(crate) fn followed(&mut self, pids: &BTreeSet<u64>, since: Time) -> anyhow::Result<Time> {
        let deadline = clock::now().plus_us(PATIENCE_US);
        let mut client = self.connect()?;
        loop {
            let which = types::Which::default();
            let all: types::Snapshots = match client.call("Snapshot", &which) {
                Ok(all) => all,
                // A policy that is being started cannot be looked at yet.
                Err(CallError::Refused(_)) => types::Snapshots::default(),
                Err(err) => return Err(err.into()),
            };
            let fresh = all.snapshots.iter().filter(|s| s.start_ns >= since.as_ns());
            let targets = fresh.flat_map(|s| &s.targets).filter(|t| !t.regions.is_empty());
            let seen: BTreeSet<u64> = targets.map(|target| target.pid).collect();
            if pids.is_subset(&seen) {
                return Ok(clock::now());
            }
            let missing = pids.difference(&seen).count();
            anyhow::ensure!(clock::now() < deadline, "{missing} processes are not followed");
            self.agent()?.still_runs()?;
            sleep_until(clock::now().plus_us(LOOK_US))?;
        }
    }
}

impl Drop for World {
    fn drop(&mut self) {
        self.agent = None;
        fs::remove_dir_all(&self.dir).ok();
    }
}

/// A context that looks at these targets and counts what is idle.
pub(crate) fn context(name: &str, target: &str, age: &str) -> String {
    format!(
        "[[context]]\nname = \"{name}\"\ntargets = [{target}]\n[[context.scheme]]\nname = \"idle\"\n\
         action = \"stat\"\nage = \"{age}..\"\n"
    )
}

/// How many entries a directory of `/proc` has.
pub(crate) fn entries(pid: u32, of: &str) -> anyhow::Result<usize> {
    let path = format!("/proc/{pid}/{of}");
    Ok(fs::read_dir(Path::new(&path)).with_context(|| format!("read {path}"))?.count())
}
