//! `isotherm ctl`: asks and tells the agent that runs.

mod cgroups;
mod follow;
mod text;

use std::io::{IsTerminal, Read, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use isotherm_control::client::Client;
use isotherm_control::error::CallError;
use isotherm_control::{SOCKET, types};
use serde::{Deserialize, Serialize};

use crate::exit::{self, usage};
use crate::history::{self, HistoryArgs, ago};
use crate::reading::cgroups as cgroups_over;

/// Arguments of `isotherm ctl`.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES, disable_help_subcommand = true)]
pub(crate) struct Args {
    #[command(subcommand)]
    command: Command,
    #[command(flatten)]
    socket: SocketArg,
    /// Print JSON.
    #[arg(long, global = true, hide_short_help = true)]
    json: bool,
}

/// `--socket`.
#[derive(Debug, Clone, clap::Args)]
pub(crate) struct SocketArg {
    /// The agent's control socket, as a path.
    #[arg(
        long,
        value_name = "PATH",
        env = "ISOTHERM_SOCKET",
        default_value = SOCKET,
        global = true,
        help_heading = "Socket",
        hide_short_help = true
    )]
    socket: PathBuf,
}

impl SocketArg {
    pub(crate) fn path(&self) -> PathBuf {
        self.socket.clone()
    }
}

const EXAMPLES: &str = "Examples:
  isotherm ctl status                       what runs, and what it costs
  isotherm ctl pause reclaim                neither look nor act for a while
  isotherm ctl stop reclaim/web             only one of its contexts
  isotherm ctl commit reclaim p.toml        put another policy in force
  isotherm ctl follow --events              what happens, as it happens
  isotherm ctl cgroups '/system.slice/*'    what services use, and how cold it is
  isotherm ctl cgroups --since 1h           what they used in the last hour
  isotherm ctl snapshot --pid 1234 --json   the regions of a process";

#[derive(Debug, clap::Subcommand)]
enum Command {
    /// Show the agent and its policies.
    Status,
    /// List the policies with their contexts.
    List,
    /// Start a policy, or one context of it, or let it go on after a pause.
    ///
    /// A policy that waits for its next try is tried at once.
    #[command(alias = "resume")]
    Start(OfContext),
    /// Stop a policy, or one context of it.
    ///
    /// It stays stopped when the agent starts again.
    Stop {
        #[command(flatten)]
        of: OfContext,
        /// Forget it as well. Only a policy that was committed, not one of a file.
        #[arg(long)]
        forget: bool,
    },
    /// Let a policy, or one context of it, neither look nor act for a while.
    ///
    /// It keeps what it knows.
    Pause(OfContext),
    /// Put a policy in force, as a whole or not at all.
    ///
    /// A policy that runs goes on with all it has learned. A new name makes a new policy, which
    /// stays until it is forgotten (`stop --forget`).
    Commit {
        /// Its name.
        policy: String,
        /// The policy (TOML); `-` is standard input.
        file: PathBuf,
        /// Only say whether it could be in force.
        #[arg(long)]
        check: bool,
    },
    /// Print the text of a policy that is in force.
    Show(OfPolicy),
    /// Show the last windows.
    Snapshot {
        /// Only of this policy.
        policy: Option<String>,
        /// Only of this context.
        #[arg(long)]
        context: Option<String>,
        /// Only of this process.
        #[arg(long)]
        pid: Option<u32>,
    },
    /// Show what the schemes did.
    Account {
        /// Only of this policy.
        policy: Option<String>,
    },
    /// Show what cgroups use: how much of their memory is hot, warm and cold.
    ///
    /// For an agent with --cgroups, --metrics or --fleet. Memory that several processes of a cgroup
    /// share counts once. The cgroups with the most memory come first.
    Cgroups {
        /// Only cgroups whose path matches, and those below them: /system.slice/*
        #[arg(value_name = "GLOB")]
        pattern: Option<String>,
        /// Only of this policy.
        #[arg(long)]
        policy: Option<String>,
        /// Show what they used since then, as 1h or "10 min ago", from the agent's history.
        ///
        /// Working set by span, memory by idle time, what was paged out, and for how much of the
        /// time each cgroup was watched. The agent need not run.
        #[arg(long, value_name = "TIME", value_parser = ago)]
        since: Option<Duration>,
        /// Where the agent keeps its history.
        #[arg(
            long = "history",
            value_name = "DIR",
            default_value = history::DIR,
            requires = "since",
            hide_short_help = true
        )]
        dir: PathBuf,
    },
    /// Print what happens until it is stopped: one JSON object per line.
    ///
    /// With none of --snapshots, --events and --accounts: all of them.
    Follow(follow::Args),
}

#[derive(Debug, clap::Args)]
struct OfContext {
    /// The policy, or one of its contexts as POLICY/CONTEXT.
    #[arg(value_name = "POLICY[/CONTEXT]")]
    which: String,
}

#[derive(Debug, clap::Args)]
struct OfPolicy {
    /// The policy.
    policy: String,
}

/// Runs the subcommand.
pub(crate) fn run(args: Args) -> anyhow::Result<ExitCode> {
    let json = args.json;
    if let Command::Cgroups { pattern, policy, since: Some(since), dir } = args.command {
        let history = HistoryArgs::new(policy, dir);
        let report = cgroups_over::of_history(&history, since, pattern.as_deref())?;
        cgroups_over::show(&report, json, &mut std::io::stdout().lock())?;
        return Ok(ExitCode::SUCCESS);
    }
    let agent = &mut connect(&args.socket.path())?;
    match args.command {
        Command::Status => show(agent, json, "Status", &types::NoArguments {}, text::status),
        Command::List => show(agent, json, "List", &types::NoArguments {}, text::list),
        Command::Start(of) => act(agent, json, "Start", of, "started"),
        Command::Stop { of, forget: false } => act(agent, json, "Stop", of, "stopped"),
        Command::Stop { of: OfContext { which }, forget: true } => {
            let said = format!("{which}: removed\n");
            let of = types::OfPolicy { policy: which };
            show(agent, json, "Remove", &of, |_: &types::Nothing| said)
        }
        Command::Pause(of) => act(agent, json, "Pause", of, "paused"),
        Command::Commit { policy, file, check } => {
            let text = read(&file)?;
            let done = if check { "could be in force" } else { "in force" };
            let head = format!("{policy}: {done}");
            let check = check.then_some(true);
            let arguments = types::Commit { policy, text, check };
            show(agent, json, "Commit", &arguments, |c: &types::Committed| {
                format!("{head}; contexts: {}, schemes: {}\n", c.contexts, c.schemes)
            })
        }
        Command::Show(OfPolicy { policy }) => {
            show(agent, json, "Show", &types::OfPolicy { policy }, |t: &types::Text| {
                format!("{}\n", t.text.trim_end())
            })
        }
        Command::Snapshot { policy, context, pid } => {
            let which = types::Which { policy, context, pid };
            show(agent, json, "Snapshot", &which, text::snapshots)
        }
        Command::Account { policy } => {
            show(agent, json, "Account", &types::OfAny { policy }, text::accounts)
        }
        Command::Cgroups { pattern, policy, .. } => {
            let which = types::WhichCgroups { policy, pattern };
            show(agent, json, "Cgroups", &which, cgroups::table)
        }
        Command::Follow(args) => follow::run(agent, args),
    }
}

/// Connects to the agent.
pub(crate) fn connect(socket: &Path) -> anyhow::Result<Client> {
    let client = Client::connect(socket).map_err(told)?;
    client.set_patience(Some(Duration::from_secs(90)))?;
    Ok(client)
}

/// A failed call, with its exit code.
#[expect(clippy::needless_pass_by_value, reason = "the argument of `map_err`")]
pub(crate) fn told(err: CallError) -> anyhow::Error {
    exit::with(err.refusal().code, err.to_string())
}

/// Calls a method, and prints its reply as text or JSON.
fn show<R: Serialize + for<'a> Deserialize<'a>>(
    agent: &mut Client,
    json: bool,
    method: &str,
    arguments: &impl Serialize,
    text: impl FnOnce(&R) -> String,
) -> anyhow::Result<ExitCode> {
    let reply: R = agent.call(method, arguments).map_err(told)?;
    let mut out = std::io::stdout().lock();
    if json {
        writeln!(out, "{}", serde_json::to_string(&reply)?)?;
    } else {
        out.write_all(text(&reply).as_bytes())?;
    }
    Ok(ExitCode::SUCCESS)
}

/// Calls a method that only does something.
fn act(
    agent: &mut Client,
    json: bool,
    method: &str,
    OfContext { which }: OfContext,
    done: &str,
) -> anyhow::Result<ExitCode> {
    let said = format!("{which}: {done}\n");
    // No policy has a `/` in its name.
    let of = match which.split_once('/') {
        Some((policy, context)) => {
            types::OfContext { policy: policy.to_owned(), context: Some(context.to_owned()) }
        }
        None => types::OfContext { policy: which, context: None },
    };
    show(agent, json, method, &of, |_: &types::Nothing| said)
}

/// Reads the text of a policy.
fn read(file: &Path) -> anyhow::Result<String> {
    if file.as_os_str() != "-" {
        return crate::files::text(
            file,
            "`isotherm reclaim --print-policy` prints a policy to begin with",
        );
    }
    let mut text = String::new();
    let mut input = std::io::stdin();
    if input.is_terminal() {
        writeln!(std::io::stderr(), "type the policy, and end it with Ctrl-D")?;
    }
    input
        .read_to_string(&mut text)
        .map_err(|e| usage(format!("cannot read standard input: {e}")))?;
    Ok(text)
}
