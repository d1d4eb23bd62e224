//! `isotherm fleet`: questions to a fleet. They are Python (`python/python/isotherm/fleet`), since
//! that is how people use the engines that answer them, DuckDB and Spark. This finds the package
//! and hands over to it.
//!
//! Absent on purpose: options. All words are passed on as they are, so the two cannot disagree.

use std::ffi::{OsStr, OsString};
use std::os::unix::process::CommandExt;
use std::process::{Command, ExitCode, Stdio};

use crate::exit;

/// Names another Python than `python3`.
const PYTHON: &str = "ISOTHERM_PYTHON";

/// Ends with 0 if the package is there, 3 if `isotherm` is not, 4 if it is without `fleet`.
const PROBE: &str = "\
import importlib.util as u, sys
sys.exit(3 if u.find_spec('isotherm') is None else 4 if u.find_spec('isotherm.fleet') is None else 0)";

const INSTALL: &str = "pip install 'isotherm[fleet]' (from a checkout: `python/README.md`), or name \
                       the Python that has it by ISOTHERM_PYTHON";

/// Arguments of `isotherm fleet`.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// What to do: `report DIR`, `compact DIR`, `simulate DIR`, and their options.
    #[arg(
        value_name = "WORDS",
        required = true,
        trailing_var_arg = true,
        allow_hyphen_values = true
    )]
    words: Vec<OsString>,
}

const EXAMPLES: &str = "Examples:
  isotherm fleet report /srv/fleet                  what is idle, who would save most, ...
  isotherm fleet report /srv/fleet --html f.html    as one page
  isotherm fleet report --help                      all options
  isotherm fleet compact /srv/fleet                 one file per table, day and host
  isotherm fleet simulate ./fleet --hosts 200       a fleet to try it on

It is Python: pip install 'isotherm[fleet]'. ISOTHERM_PYTHON names another Python than python3.";

/// Runs the subcommand. Returns only if it cannot.
pub(crate) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let python = std::env::var_os(PYTHON).filter(|name| !name.is_empty());
    let python = python.unwrap_or_else(|| "python3".into());
    probe(&python)?;
    let mut program = Command::new(&python);
    program.args(["-m", "isotherm.fleet"]).args(&args.words);
    let why = program.env("ISOTHERM_FLEET_NAME", "isotherm fleet").exec();
    Err(cannot_run(&python, &why))
}

/// Says what is missing, if anything is.
fn probe(python: &OsStr) -> anyhow::Result<()> {
    let mut probe = Command::new(python);
    let done = probe.args(["-c", PROBE]).stdin(Stdio::null()).output();
    let done = done.map_err(|err| cannot_run(python, &err))?;
    let why = match done.status.code() {
        Some(0) => return Ok(()),
        Some(3) => "this Python has no package isotherm".to_owned(),
        Some(4) => "its package isotherm is older, and cannot ask fleets".to_owned(),
        _ => {
            let told = String::from_utf8_lossy(&done.stderr);
            let last = told.lines().last().unwrap_or("it said nothing").to_owned();
            format!("its package isotherm cannot be loaded: {last}")
        }
    };
    let python = python.to_string_lossy();
    Err(exit::with(
        exit::NOT_SUPPORTED,
        format!(
            "the Python package that asks fleets is missing\n  tried: {python} -m isotherm.fleet\n  \
             why:   {why}\n  hint:  {INSTALL}"
        ),
    ))
}

fn cannot_run(python: &OsStr, err: &std::io::Error) -> anyhow::Error {
    let python = python.to_string_lossy();
    exit::with(
        exit::NOT_SUPPORTED,
        format!(
            "questions to a fleet need Python\n  tried: {python}: {err}\n  hint:  install python3, \
             then {INSTALL}"
        ),
    )
}
