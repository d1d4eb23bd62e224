//! `isotherm`: shows which memory of a process is hot and which is cold.
//!
//! This is the only crate that prints. Each subcommand is a module with its `Args` and a `run`.
//! Results go to standard output, messages about the run itself to standard error.

mod act;
mod agent;
mod attach;
mod config;
mod ctl;
mod damonfs;
mod demo;
mod doctor;
mod exit;
mod files;
mod history;
mod idle;
mod kernel_module;
mod options;
mod progress;
mod reading;
mod record;
mod replayed;
mod shell;
mod sim;
mod terminal;
mod tier;
mod top;
mod workload;
mod wss;

use std::io::Write;
use std::process::ExitCode;

use clap::{CommandFactory, FromArgMatches, Parser, Subcommand};

/// Shows which memory of a process is hot and which is cold.
#[derive(Debug, Parser)]
#[command(
    name = "isotherm",
    version,
    long_version = shell::version::LONG.as_str(),
    max_term_width = 100
)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Record a known workload for half a minute, and score the result.
    Demo(demo::Args),
    /// Watch processes and write a record of their accesses to a file.
    Record(record::Args),
    /// Show a record: heatmap, working set, regions, mappings, ages.
    Report(reading::report::Args),
    /// Say how much memory could be saved, at what price, and by which policy.
    ///
    /// From a record, or from processes that it watches for a while.
    Plan(reading::plan::Args),
    /// Print the working set of running processes, live.
    Wss(wss::Args),
    /// Show live which processes use which memory.
    ///
    /// In the terminal; or a record, with time travel.
    Top(top::Args),
    /// Run a policy from a file: contexts, targets and schemes.
    ///
    /// Until it is stopped.
    Run(act::run::Args),
    /// Find the best numbers of a policy by trials on a program that runs.
    Tune(act::tune::Args),
    /// Run policies as a service, and answer on a control socket.
    Agent(agent::Args),
    /// Ask and tell the agent that runs: status, start, stop, commit, follow.
    Ctl(ctl::Args),
    /// Page out memory that was idle for long.
    Reclaim(act::ready::reclaim::Args),
    /// Make huge pages where memory is hot.
    Thp(act::ready::thp::Args),
    /// Make cold memory the first to be reclaimed.
    LruSort(act::ready::lru_sort::Args),
    /// Keep hot memory on fast NUMA nodes and cold memory on slow ones.
    Tier(tier::Args),
    /// Show live for how long memory is idle, without acting on it.
    Stat(act::stat::Args),
    /// Run schemes in one of DAMON's historic text formats.
    Schemes(act::schemes::Args),
    /// Show idle memory of the whole machine, by cgroup.
    Idle(idle::Args),
    /// Test what this machine can do, and show how to fix what it cannot.
    Doctor(doctor::Args),
    /// List, show, enable, disable or tune the kernel's own DAMON modules.
    KernelModule(kernel_module::Args),
    /// Serve the files of the kernel's DAMON, for programs that use DAMON.
    Damonfs(damonfs::Args),
    /// Ask many machines, by the Parquet of their agents.
    ///
    /// What is idle, who would save most, what a rollout did. It is Python, over DuckDB or Spark.
    Fleet(reading::fleet::Args),
    /// Convert a record for other tools.
    ///
    /// To Parquet, Arrow, JSON lines, CSV, or a record of damo.
    Export(reading::export::Args),
    /// Make a record of one that damo or perf wrote.
    ///
    /// Reports read those also as they are.
    Import(reading::export::ImportArgs),
    /// Compare a record with the truth of the workload that was recorded.
    Score(reading::score::Args),
    /// Run the monitor over a simulated workload: no privileges, hours in seconds.
    Sim(sim::Args),
    /// Run a process with a known access pattern, and write what it really accessed.
    Workload(workload::Args),
    /// Show which defaults are set by config files and the environment, and where.
    Config(config::show::Args),
    /// Print completions for a shell.
    Completions(shell::completions::Args),
    /// Show a manual page, or write all of them into a directory.
    Man(shell::man::Args),
}

fn main() -> ExitCode {
    let as_another = damonfs::as_another();
    let done = as_another.unwrap_or_else(as_isotherm);
    done.unwrap_or_else(|error| {
        if exit::is_broken_pipe(&error) {
            return ExitCode::SUCCESS;
        }
        // A failure to print the error cannot be reported anywhere.
        writeln!(std::io::stderr(), "error: {}", told(&error)).ok();
        exit::code_of(&error)
    })
}

/// Runs the command that the arguments name.
fn as_isotherm() -> anyhow::Result<ExitCode> {
    config::applied(Cli::command()).and_then(|program| {
        let words = std::env::args_os().collect();
        let words = options::targets::words::with_pids(&program, words);
        let matches = shell::help::shortened(program).get_matches_from(words);
        // The commands were made from the same types, so this cannot fail.
        let cli = Cli::from_arg_matches(&matches).unwrap_or_else(|error| error.exit());
        run(cli.command)
    })
}

fn run(command: Command) -> anyhow::Result<ExitCode> {
    match command {
        Command::Demo(args) => demo::run(args),
        Command::Record(args) => record::run(args),
        Command::Report(args) => reading::report::run(args),
        Command::Plan(args) => reading::plan::run(args),
        Command::Wss(args) => wss::run(args),
        Command::Top(args) => top::run(args),
        Command::Run(args) => act::run::run(args),
        Command::Tune(args) => act::tune::run(args),
        Command::Agent(args) => agent::run(args),
        Command::Ctl(args) => ctl::run(args),
        Command::Reclaim(args) => act::ready::reclaim::run(args),
        Command::Thp(args) => act::ready::thp::run(args),
        Command::LruSort(args) => act::ready::lru_sort::run(args),
        Command::Tier(args) => tier::run(args),
        Command::Stat(args) => act::stat::run(args),
        Command::Schemes(args) => act::schemes::run(args),
        Command::Idle(args) => idle::run(args),
        Command::Doctor(args) => doctor::run(args),
        Command::KernelModule(args) => kernel_module::run(args),
        Command::Damonfs(args) => damonfs::run(args),
        Command::Fleet(args) => reading::fleet::run(&args),
        Command::Export(args) => reading::export::run(args),
        Command::Import(args) => reading::export::import(args),
        Command::Score(args) => reading::score::run(args),
        Command::Sim(args) => sim::run(args),
        Command::Workload(args) => workload::run(args),
        Command::Config(args) => config::show::run(&args, Cli::command()),
        Command::Completions(args) => shell::completions::run(&args, Cli::command()),
        Command::Man(args) => shell::man::run(&args, Cli::command()),
    }
}

/// The message and its causes. A cause that the message already contains is left out.
fn told(error: &anyhow::Error) -> String {
    let mut text = error.to_string();
    for cause in error.chain().skip(1).map(ToString::to_string) {
        if !text.contains(&cause) {
            text = format!("{text}: {cause}");
        }
    }
    text
}
