//! Options that say which memory is watched and by which operations set.

use std::ffi::OsString;

use isotherm::raw::agent::policy::TargetSpec;
use isotherm::raw::ops::targets::{Claim, Memory, Tracker};

use crate::exit::{self, usage};
use crate::options::sets::OpsArg;

/// The options for the targets.
#[derive(Debug, clap::Args)]
pub(crate) struct TargetArgs {
    /// Watch this process and its children. May be given more than once.
    #[arg(short, long = "pid", value_name = "PID", value_delimiter = ',')]
    pids: Vec<u32>,
    /// Watch physical memory: all of it, that of a node (node:1), or ranges of physical addresses
    /// (4G-6G,...).
    #[arg(
        long,
        value_name = "WHICH",
        num_args = 0..=1,
        require_equals = true,
        default_missing_value = "all",
        conflicts_with_all = ["pids", "command", "no_children"]
    )]
    paddr: Option<String>,
    /// Do not watch the children of the given processes.
    #[arg(long)]
    no_children: bool,
    /// Which operations set looks at the memory.
    #[arg(long, value_enum, default_value_t = OpsArg::Auto)]
    ops: OpsArg,
    /// Start this command and watch it.
    #[arg(last = true, value_name = "CMD")]
    command: Vec<OsString>,
}

impl TargetArgs {
    /// Whether processes were given by their pids or as a command.
    pub(crate) fn names_processes(&self) -> bool {
        !self.pids.is_empty() || !self.command.is_empty()
    }

    /// Attaches to the pids, and starts the command but holds it before its first instruction.
    pub(crate) fn tracker(&self) -> anyhow::Result<Tracker> {
        if let Some(memory) = self.memory()? {
            return Tracker::memory(memory).map_err(exit::of);
        }
        if self.pids.is_empty() && self.command.is_empty() {
            return Err(usage(
                "nothing to watch\n  hint:  give a process (-p PID), a command (-- CMD ARGS), or --paddr for \
                 physical memory",
            ));
        }
        let mut tracker = self.attach()?;
        for &pid in &self.pids {
            Claim::check(pid).map_err(exit::of)?;
        }
        if let Some((command, args)) = self.command.split_first() {
            tracker.spawn_into(command, args).map_err(exit::of)?;
            // Otherwise a daemon that forks twice right after its start would not be found. The
            // command is our only child.
            tracker.adopt_orphans()?;
        }
        Ok(tracker)
    }

    /// Attaches to the pids.
    pub(crate) fn attach(&self) -> anyhow::Result<Tracker> {
        Tracker::attach(&self.pids, !self.no_children).map_err(exit::of)
    }

    /// The physical memory to watch, as the user wrote it.
    pub(crate) fn paddr(&self) -> Option<&str> {
        self.paddr.as_deref()
    }

    fn memory(&self) -> anyhow::Result<Option<Memory>> {
        let memory = self.paddr().map(Memory::parse).transpose();
        memory.map_err(exit::of)
    }

    /// The targets, for a policy.
    pub(crate) fn specs(&self) -> anyhow::Result<Vec<TargetSpec>> {
        let mut specs: Vec<_> = self.pids.iter().copied().map(TargetSpec::Pid).collect();
        if !self.command.is_empty() {
            specs.push(TargetSpec::Command(words(&self.command)?));
        }
        specs.extend(self.memory()?.map(TargetSpec::Memory));
        Ok(specs)
    }

    /// Whether children are watched, too.
    pub(crate) const fn follow(&self) -> bool {
        !self.no_children
    }

    /// The operations set that `--ops` asks for.
    pub(crate) const fn ops(&self) -> OpsArg {
        self.ops
    }
}

/// The command's words as UTF-8, as a policy holds them.
pub(crate) fn words(command: &[OsString]) -> anyhow::Result<Vec<String>> {
    let word = |w: &OsString| w.to_str().map(str::to_owned);
    let words: Option<Vec<_>> = command.iter().map(word).collect();
    words.ok_or_else(|| usage("the command is not UTF-8\n  hint:  put it into a script"))
}
