//! `isotherm agent`: the service that runs policies.

mod fleet;
mod log;
mod rollout;

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use isotherm::raw::core::units::{duration, size};
use isotherm::raw::sys::signals;
use isotherm_service::agent::Checked;
use isotherm_service::history::Retention;
use isotherm_service::{Agent, Settings};

use self::fleet::FleetArgs;
use self::rollout::RolloutArgs;
use crate::exit;
use crate::options::attrs::budget_of_several;
use crate::options::metrics::{MetricsArgs, build};

/// Where policies are, unless others are given.
const POLICIES: &str = "/etc/isotherm/policies.d";

/// Arguments of `isotherm agent`.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// Policies (TOML) to run besides those of the directory.
    #[arg(value_name = "POLICY")]
    policies: Vec<PathBuf>,
    /// Run every policy (*.toml) of this directory.
    ///
    /// SIGHUP makes the agent read all files again. What is valid takes effect; of the rest, the
    /// former policy stays in force.
    #[arg(long, value_name = "DIR", default_value = POLICIES)]
    policies_dir: PathBuf,
    /// Say of each policy whether it is valid and this machine can do it, and exit.
    #[arg(long)]
    check: bool,
    /// Write the filter of system calls that the agent needs into a file, and exit.
    ///
    /// It is a profile of seccomp for container runtimes (JSON): docs/KUBERNETES.md.
    #[arg(long, value_name = "FILE", hide_short_help = true)]
    write_seccomp: Option<PathBuf>,
    /// Decide and count, but change nothing.
    #[arg(long, help_heading = "Action", hide_short_help = true)]
    dry_run: bool,
    /// Act on pods of these namespaces of Kubernetes only; elsewhere decide and count.
    ///
    /// A context acts if each of its targets is `pod:NAMESPACE/NAME` with one of these namespaces,
    /// spelled out. Can be given several times. Without it, policies act on whatever they name.
    #[arg(
        long,
        value_name = "NAMESPACE",
        value_delimiter = ',',
        help_heading = "Action",
        hide_short_help = true
    )]
    act_in: Vec<String>,
    /// The share of one CPU that all policies together may use.
    #[arg(
        long,
        value_name = "SHARE",
        default_value = "5%",
        value_parser = budget_of_several,
        help_heading = "Limits",
        hide_short_help = true
    )]
    budget: u32,
    /// The most memory that the agent should use itself; 0 for no cap.
    ///
    /// Near it, contexts get fewer regions and slow followers less room, then the policy that
    /// watches most memory has to wait. `isotherm ctl status` tells. The kernel's limit is
    /// `MemoryMax` of the unit.
    #[arg(
        long,
        value_name = "SIZE",
        default_value = "256M",
        value_parser = size,
        help_heading = "Limits",
        hide_short_help = true
    )]
    memory: u64,
    #[command(flatten)]
    socket: crate::ctl::SocketArg,
    /// Who is in this group may read from the socket.
    #[arg(
        long,
        value_name = "GROUP",
        default_value = "isotherm",
        help_heading = "Socket",
        hide_short_help = true
    )]
    readers: String,
    /// Who is in this group may act, as root may.
    #[arg(long, value_name = "GROUP", help_heading = "Socket", hide_short_help = true)]
    actors: Option<String>,
    /// Keep at most this much history of what was seen; 0 for none.
    #[arg(long, value_name = "SIZE", default_value = "1G", value_parser = size, help_heading = "History", hide_short_help = true)]
    history_size: u64,
    /// Keep history for this long.
    #[arg(
        long,
        value_name = "TIME",
        default_value = "7d",
        value_parser = duration,
        help_heading = "History", hide_short_help = true
    )]
    history_age: Duration,
    /// Keep state and history below this directory.
    #[arg(
        long,
        value_name = "DIR",
        default_value = "/var/lib/isotherm",
        help_heading = "History",
        hide_short_help = true
    )]
    state: PathBuf,
    /// Add up what every cgroup uses, for `isotherm ctl cgroups`.
    ///
    /// It takes 0.5 KiB of memory per 2 MiB watched. --metrics and --fleet do it, too.
    #[arg(long, help_heading = "Metrics", hide_short_help = true)]
    cgroups: bool,
    #[command(flatten)]
    metrics: MetricsArgs,
    #[command(flatten)]
    fleet: FleetArgs,
    #[command(flatten)]
    rollout: RolloutArgs,
}

const EXAMPLES: &str = "Examples:
  isotherm agent                      run all policies of /etc/isotherm/policies.d
  isotherm agent --check              are they valid, and can this machine do them?
  isotherm agent --dry-run p.toml     what would they do, and this one besides?
  isotherm ctl status                 ask the agent that runs
  systemctl reload isotherm           read the files again";

/// The filter of system calls for container runtimes.
const SECCOMP: &str = include_str!("seccomp.json");

/// Runs the subcommand.
pub(crate) fn run(args: Args) -> anyhow::Result<ExitCode> {
    if let Some(file) = &args.write_seccomp {
        return write_seccomp(file);
    }
    let built = build();
    let settings = Settings {
        policies_dir: Some(args.policies_dir),
        policies: args.policies,
        socket: args.socket.path(),
        state_dir: args.state,
        readers: args.readers,
        actors: args.actors,
        budget_bp: args.budget,
        most_memory: args.memory,
        history: (args.history_size > 0)
            .then_some(Retention { most_bytes: args.history_size, most_age: args.history_age }),
        metrics: args.metrics.outlets()?,
        cgroups: args.cgroups,
        fleet: args.fleet.settings(&built, args.budget)?,
        rollout: args.rollout.settings(),
        dry_run: args.dry_run,
        act_in: (!args.act_in.is_empty()).then_some(args.act_in),
        version: built.version,
        commit: built.commit,
    };
    refuse_missing(&settings.policies)?;
    if args.check {
        return told(&Agent::check(&settings));
    }
    log::start()?;
    signals::install()?;
    signals::reload_at_hangup()?;
    let agent = Agent::start(settings).map_err(|failed| exit::with(failed.code, failed.text))?;
    agent.run();
    Ok(ExitCode::SUCCESS)
}

/// Writes the filter of system calls. The file is there as a whole or not at all: a kubelet may
/// read it at any time.
fn write_seccomp(file: &Path) -> anyhow::Result<ExitCode> {
    let mut new = file.as_os_str().to_owned();
    new.push(".new");
    let new = PathBuf::from(new);
    let written = std::fs::write(&new, SECCOMP).and_then(|()| std::fs::rename(&new, file));
    written.map_err(|err| {
        let shown = file.display();
        exit::with(
            1,
            format!("cannot write the filter of system calls\n  tried: write {shown}: {err}"),
        )
    })?;
    Ok(ExitCode::SUCCESS)
}

/// A file that is named and does not exist is a mistake on the command line.
fn refuse_missing(policies: &[PathBuf]) -> anyhow::Result<()> {
    match policies.iter().find(|path| !path.exists()) {
        Some(path) => Err(exit::usage(format!(
            "there is no policy {}\n  hint:  `isotherm reclaim --print-policy` prints one to begin with",
            Path::display(path)
        ))),
        None => Ok(()),
    }
}

/// Says what was found, and returns the first exit code of what is wrong.
fn told(checked: &[Checked]) -> anyhow::Result<ExitCode> {
    let mut code = None;
    for Checked { name, problem } in checked {
        match problem {
            None => writeln!(std::io::stdout(), "{name}: valid")?,
            Some((of_problem, text)) => {
                code = code.or(Some(*of_problem));
                writeln!(std::io::stderr(), "error: {name}: {text}")?;
            }
        }
    }
    if checked.is_empty() {
        writeln!(std::io::stdout(), "there is no policy")?;
    }
    Ok(code.map_or(ExitCode::SUCCESS, ExitCode::from))
}
