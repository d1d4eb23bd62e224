//! Options that say which memory is watched and by which operations set.
//!
//! [`ProcessArgs`] names processes in every way that there is, for all commands alike.
//! [`TargetArgs`] adds physical memory and the operations set, for commands that have one context.

pub(crate) mod words;

use std::collections::BTreeSet;
use std::ffi::OsString;

use isotherm::raw::agent::policy::TargetSpec;
use isotherm::raw::host::glob::is_glob;
use isotherm::raw::host::proc::{Proc, raise_file_limit};
use isotherm::raw::ops::targets::{Claim, Memory, TargetError, TargetKind, Tracker, find};

use crate::exit::{self, usage};
use crate::options::sets::{OpsArg, OpsOption};

/// The heading of the options for the targets.
const TARGET: &str = "Target";

/// What a user can do who named nothing.
const NOTHING: &str = "nothing to watch\n  hint:  give a process (-p PID), a name (--name GLOB), a cgroup (--cgroup \
                       GLOB), a systemd unit (--unit NAME), everything (-a), or a command (-- CMD ARGS)";

/// The options that name processes.
#[derive(Debug, Clone, clap::Args)]
#[command(next_help_heading = TARGET)]
pub(crate) struct ProcessArgs {
    /// Watch these processes and their children.
    #[arg(
        short,
        long = "pid",
        value_name = "PID,...",
        value_delimiter = ',',
        value_parser = pid
    )]
    pids: Vec<u32>,
    /// Watch processes whose name matches, also those to come.
    ///
    /// The command name; `*` and `?` as in a shell. As processes can come at any time, the command
    /// does not end by itself when all have ended.
    /// This is so for cgroups, units and -a as well.
    #[arg(long = "name", value_name = "GLOB")]
    names: Vec<String>,
    /// Watch processes of matching cgroups, also those to come.
    ///
    /// And of the cgroups below these. A path from the root of the hierarchy, of v1 or v2, as
    /// /system.slice/redis.service or
    /// /docker/*. Here `*` stands for any text, also for `/`.
    #[arg(long = "cgroup", value_name = "GLOB")]
    cgroups: Vec<String>,
    /// Watch the processes of a systemd unit, also those to come.
    ///
    /// A name without a type is a service, as for systemctl: `redis` is `redis.service`.
    #[arg(long = "unit", value_name = "NAME")]
    units: Vec<String>,
    /// Watch the processes of matching Kubernetes pods, also those to come.
    ///
    /// By namespace and name (shop/web-*), by name, or by uid; !shop/* leaves pods out. Names come
    /// from files on the node (/var/log/pods); no API server is asked.
    #[arg(long = "pod", value_name = "GLOB", hide_short_help = true)]
    pods: Vec<String>,
    /// Watch the processes of matching containers, also those to come.
    ///
    /// By name, by NAMESPACE/POD/NAME within Kubernetes, or by the first 12 or more digits of the
    /// id. Of containerd, CRI-O, Docker, Podman and nerdctl.
    #[arg(long = "container", value_name = "GLOB", hide_short_help = true)]
    containers: Vec<String>,
    /// Watch the processes of a user, by name or number, also those to come.
    #[arg(long = "user", value_name = "USER", hide_short_help = true)]
    users: Vec<String>,
    /// Watch what this word names, as a policy writes it: KIND:WHICH.
    ///
    /// The kinds are pid, name, cgroup, unit, pod, container, user and rss, as unit:redis.service.
    #[arg(long = "target", value_name = "KIND:WHICH", value_parser = word, hide_short_help = true)]
    targets: Vec<TargetSpec>,
    /// Watch every process that may be watched.
    #[arg(
        short,
        long,
        conflicts_with_all = ["pids", "names", "cgroups", "units", "pods", "containers", "users", "targets", "command"]
    )]
    all: bool,
    /// Do not watch the children of these processes.
    #[arg(long, hide_short_help = true)]
    no_children: bool,
    /// A process to watch, or a command to start and watch.
    ///
    /// All words behind the command are its arguments. Behind `--` a number is a command as well.
    #[arg(trailing_var_arg = true, value_name = "PID|CMD", hide_short_help = true)]
    command: Vec<OsString>,
}

/// The options for the targets.
#[derive(Debug, clap::Args)]
#[command(next_help_heading = TARGET)]
pub(crate) struct TargetArgs {
    #[command(flatten)]
    processes: ProcessArgs,
    /// Watch physical memory, all or a part of it.
    ///
    /// A part is that of a node (node:1), or ranges of physical addresses (4G-6G,...).
    #[arg(
        long,
        value_name = "WHICH",
        num_args = 0..=1,
        require_equals = true,
        default_missing_value = "all",
        conflicts_with_all = ["pids", "names", "cgroups", "units", "pods", "containers", "users", "targets", "all", "command", "no_children"],
        hide_short_help = true
    )]
    paddr: Option<String>,
    #[command(flatten)]
    ops: OpsOption,
}

/// A word that names a target. Physical memory has an option of its own.
fn word(text: &str) -> Result<TargetSpec, String> {
    match TargetSpec::parse(text)? {
        TargetSpec::Memory(_) => Err("physical memory is --paddr".to_owned()),
        spec => Ok(spec),
    }
}

/// A pid. Who gives a name there is told the right option.
fn pid(text: &str) -> Result<u32, String> {
    match text.trim().parse() {
        Ok(pid) => Ok(pid),
        Err(_) if text.bytes().all(|byte| byte.is_ascii_digit()) => {
            Err(format!("`{text}` is no pid"))
        }
        Err(_) => Err(format!("`{text}` is a name, not a pid; use --name {text}")),
    }
}

impl ProcessArgs {
    /// Whether any process was named, in any way.
    pub(crate) fn is_empty(&self) -> bool {
        let Self { pids, command, .. } = self;
        pids.is_empty() && command.is_empty() && self.targets.is_empty() && !self.has_rules()
    }

    /// Whether processes that do not exist yet can become targets.
    pub(crate) fn has_rules(&self) -> bool {
        let Self { names, cgroups, units, pods, containers, users, targets, all, .. } = self;
        let named = [names, cgroups, units, pods, containers, users];
        *all || named.iter().any(|list| !list.is_empty()) || targets.iter().any(TargetSpec::is_rule)
    }

    /// Whether children are watched, too.
    pub(crate) const fn follow(&self) -> bool {
        !self.no_children
    }

    /// The command to start, with its arguments.
    pub(crate) fn command(&self) -> &[OsString] {
        &self.command
    }

    /// The processes, for a policy.
    pub(crate) fn specs(&self) -> anyhow::Result<Vec<TargetSpec>> {
        let mut specs: Vec<_> = self.pids.iter().copied().map(TargetSpec::Pid).collect();
        if !self.command.is_empty() {
            specs.push(TargetSpec::Command(words(&self.command)?));
        }
        if self.all {
            specs.push(TargetSpec::Name("*".to_owned()));
        }
        specs.extend(self.names.iter().map(|name| TargetSpec::Name(known_part(name).to_owned())));
        // A path begins at the root, with or without the sign for it.
        let path = |path: &String| TargetSpec::Cgroup(format!("/{}", path.trim_matches('/')));
        specs.extend(self.cgroups.iter().map(path));
        specs.extend(self.units.iter().cloned().map(TargetSpec::Unit));
        specs.extend(self.pods.iter().cloned().map(TargetSpec::Pod));
        specs.extend(self.containers.iter().cloned().map(TargetSpec::Container));
        specs.extend(self.users.iter().cloned().map(TargetSpec::User));
        specs.extend(self.targets.iter().cloned());
        Ok(specs)
    }

    /// Takes hold of the processes that were given by their pids.
    fn attach(&self) -> anyhow::Result<Tracker> {
        let words = self.targets.iter().filter_map(|spec| match spec {
            TargetSpec::Pid(pid) => Some(*pid),
            _ => None,
        });
        let pids: Vec<u32> = self.pids.iter().copied().chain(words).collect();
        Tracker::attach(&pids, self.follow()).map_err(exit::of)
    }
}

/// As much of a command's name as the kernel keeps: 15 bytes.
fn known_part(name: &str) -> &str {
    const MOST: usize = 15;
    if is_glob(name) || name.len() <= MOST {
        return name;
    }
    let end = (0..=MOST).rev().find(|at| name.is_char_boundary(*at));
    name.get(..end.unwrap_or(0)).unwrap_or(name)
}

impl TargetArgs {
    /// Whether processes were given by their pids or as a command, and in no other way.
    pub(crate) fn names_processes_only(&self) -> bool {
        !self.processes.is_empty() && !self.processes.has_rules()
    }

    /// Whether nothing was named at all.
    pub(crate) fn is_empty(&self) -> bool {
        self.processes.is_empty() && self.paddr.is_none()
    }

    /// Attaches to the pids, and starts the command but holds it before its first instruction. What
    /// the other options name is for [`Monitor::follow`](isotherm::raw::agent::monitor::Monitor).
    ///
    /// An agent watches those that are `held`, so they need not be free.
    pub(crate) fn tracker_beside(&self, held: &BTreeSet<u32>) -> anyhow::Result<Tracker> {
        if let Some(memory) = self.memory()? {
            return Tracker::memory(memory).map_err(exit::of);
        }
        if self.is_empty() {
            return Err(usage(format!("{NOTHING}, or --paddr for physical memory")));
        }
        let mut tracker = self.attach()?;
        for &pid in self.processes.pids.iter().filter(|pid| !held.contains(pid)) {
            Claim::check(pid).map_err(exit::of)?;
        }
        if let Some((command, args)) = self.processes.command.split_first() {
            tracker.spawn_into(command, args).map_err(exit::of)?;
            // Otherwise a daemon that forks twice right after its start would not be found. The
            // command is our only child.
            tracker.adopt_orphans()?;
        }
        if self.processes.has_rules() {
            // Behind the fork: the command gets the limit that it would have without us.
            raise_file_limit();
        }
        Ok(tracker)
    }

    /// Attaches to the pids.
    pub(crate) fn attach(&self) -> anyhow::Result<Tracker> {
        self.processes.attach()
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
        let mut specs = self.processes.specs()?;
        specs.extend(self.memory()?.map(TargetSpec::Memory));
        Ok(specs)
    }

    /// Fails if nothing was named.
    pub(crate) fn require(&self) -> anyhow::Result<()> {
        if self.is_empty() {
            return Err(usage(format!("{NOTHING}, or --paddr for physical memory")));
        }
        Ok(())
    }

    /// Whether children are watched, too.
    pub(crate) const fn follow(&self) -> bool {
        self.processes.follow()
    }

    /// The operations set that `--ops` asks for.
    pub(crate) const fn ops(&self) -> OpsArg {
        self.ops.ops
    }

    /// What to tell a user who waits for processes; none if there are targets already.
    pub(crate) fn waits(&self, tracker: &Tracker) -> Option<&'static str> {
        let nobody = tracker.targets().next().is_none() && !tracker.has_command();
        nobody.then_some("no process matches yet; waiting for one")
    }
}

/// Why the command could not be run, with a tip if the word is the name of a process that runs.
pub(crate) fn not_started(err: TargetError, targets: &TargetArgs) -> anyhow::Error {
    let name = targets.processes.command.first().and_then(|word| word.to_str());
    let runs = |name: &&str| {
        let found = find::by_name(&Proc::default(), name);
        !name.is_empty() && !is_glob(name) && found.is_ok_and(|pids| !pids.is_empty())
    };
    match name.filter(|name| err.kind() == TargetKind::NoSuchCommand && runs(name)) {
        Some(name) => exit::with(
            err.exit_code(),
            format!("{err}\n  hint:  a process of this name runs: --name {name} watches it"),
        ),
        None => exit::of(err),
    }
}

/// The command's words as UTF-8, as a policy holds them.
pub(crate) fn words(command: &[OsString]) -> anyhow::Result<Vec<String>> {
    let word = |w: &OsString| w.to_str().map(str::to_owned);
    let words: Option<Vec<_>> = command.iter().map(word).collect();
    words.ok_or_else(|| usage("the command is not UTF-8\n  hint:  put it into a script"))
}
