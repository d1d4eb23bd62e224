//! `isotherm run`: runs a policy from a file until it is stopped.

use std::ffi::OsString;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use isotherm::raw::agent::policy::{Policy, TargetSpec, parse};
use isotherm::raw::agent::run::check;

use super::args::RunArgs;
use super::drive::{Extra, drive};
use crate::exit::usage;
use crate::files;
use crate::options::targets::words;
use crate::terminal::warn;

/// Arguments of `isotherm run`.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// The policy (TOML).
    ///
    /// SIGHUP makes isotherm read it again; it takes effect if all of it is valid.
    #[arg(value_name = "POLICY")]
    policy: PathBuf,
    /// Check the policy against this machine, and exit.
    #[arg(long, conflicts_with = "command")]
    check: bool,
    /// Say what the policy would have done to a recorded program, and exit.
    ///
    /// Nothing is watched or changed. Quotas, brakes and filters work as in a real run; pressure,
    /// free memory and nodes are not in a record, and it is said what that leaves out.
    #[arg(long, value_name = "RECORD", conflicts_with_all = ["check", "command", "duration", "dry_run"])]
    over: Option<PathBuf>,
    /// At the end, write the policy with its tuned values to this file.
    ///
    /// For a policy that is tuned while it runs (`online` in its table [tune]). POLICY itself is
    /// never written.
    #[arg(short, long, value_name = "FILE", help_heading = "Output", hide_short_help = true, conflicts_with_all = ["check", "over"])]
    output: Option<PathBuf>,
    #[command(flatten)]
    run: RunArgs,
    /// Start this command; it is the target of the context that names none.
    #[arg(help_heading = "Target", last = true, value_name = "CMD")]
    command: Vec<OsString>,
}

const EXAMPLES: &str = "Examples:
  isotherm reclaim --print-policy > p.toml        a policy to begin with
  isotherm run p.toml --dry-run --duration 1m     what would it do?
  isotherm run p.toml --over isotherm.data        what would it have done?
  isotherm run p.toml --check                     is it valid, and can this machine do it?";

/// Runs the subcommand.
pub(crate) fn run(args: Args) -> anyhow::Result<ExitCode> {
    let mut policy = load(&args.policy)?;
    if args.check {
        return told(&args.policy, &policy);
    }
    if let Some(record) = &args.over {
        return super::over::run(&policy, record, args.run.json);
    }
    if args.output.is_some() && policy.tuning.online.is_none() {
        return Err(usage(
            "-o without online tuning\n  why:   the policy stays as it is\n  hint:  online = true in the \
             policy's table [tune]",
        ));
    }
    add_command(&mut policy, &args.command)?;
    let extra =
        Extra { file: Some(&args.policy), tuned: args.output.as_deref(), ..Extra::default() };
    drive(policy, &args.run, extra)
}

/// Reads a policy from a file.
pub(super) fn load(path: &Path) -> anyhow::Result<Policy> {
    let text =
        files::text(path, "`isotherm reclaim --print-policy` prints a policy to begin with")?;
    let policy = parse(&text, &path.display().to_string())
        .map_err(|e| usage(format!("the policy is not valid\n{e}")))?;
    policy.deprecated().iter().for_each(|text| warn(text));
    Ok(policy)
}

/// Checks whether this machine can do what a policy asks for.
fn told(path: &Path, policy: &Policy) -> anyhow::Result<ExitCode> {
    let mut policy = policy.clone();
    for context in policy.contexts.iter_mut().filter(|c| c.targets.is_empty()) {
        warn(&format!("context `{}` needs a command as its target (-- CMD)", context.name));
        context.targets.push(TargetSpec::Command(vec!["CMD".to_owned()]));
    }
    let problems = check(&policy);
    for problem in &problems {
        if problem.fatal {
            writeln!(std::io::stderr(), "error: {}", problem.text)?;
        } else {
            warn(&problem.text);
        }
    }
    let schemes: usize = policy.contexts.iter().map(|c| c.schemes.len()).sum();
    let contexts = policy.contexts.len();
    match problems.iter().find(|p| p.fatal) {
        Some(problem) => Ok(ExitCode::from(problem.code)),
        None => {
            writeln!(
                std::io::stdout(),
                "{}: valid; contexts: {contexts}, schemes: {schemes}",
                path.display()
            )?;
            Ok(ExitCode::SUCCESS)
        }
    }
}

/// Makes the command the target of the context that has none, or of the only context.
pub(super) fn add_command(policy: &mut Policy, command: &[OsString]) -> anyhow::Result<()> {
    let empty = policy.contexts.iter().filter(|c| c.targets.is_empty()).count();
    if command.is_empty() {
        return match policy.contexts.iter().find(|c| c.targets.is_empty()) {
            Some(context) => Err(usage(format!(
                "context `{}` has no target\n  hint:  name targets in the policy, or give a command (-- CMD ARGS)",
                context.name
            ))),
            None => Ok(()),
        };
    }
    let only = policy.contexts.len() == 1;
    let command = TargetSpec::Command(words(command)?);
    match policy.contexts.iter_mut().find(|c| c.targets.is_empty() || only) {
        Some(context) if empty <= 1 => {
            context.targets.push(command);
            Ok(())
        }
        _ => Err(usage(format!(
            "it is not clear whose target the command is\n  why:   {empty} of {} contexts name no target\n  \
             hint:  leave out `targets` in one context",
            policy.contexts.len()
        ))),
    }
}
