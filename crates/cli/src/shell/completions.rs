//! `isotherm completions`: what a shell needs to complete commands, options and their values.

use std::io::Write;
use std::process::ExitCode;

use clap_complete::Shell;

/// Arguments of `isotherm completions`.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// The shell that the completions are for.
    #[arg(value_enum)]
    shell: Shell,
}

const EXAMPLES: &str = "Examples:
  source <(isotherm completions bash)      in this bash; put the line into ~/.bashrc to keep it
  isotherm completions zsh > ~/.zfunc/_isotherm      for a zsh with fpath=(~/.zfunc $fpath)
  isotherm completions fish > ~/.config/fish/completions/isotherm.fish";

/// Runs the subcommand over the program's whole command line.
pub(crate) fn run(args: &Args, mut program: clap::Command) -> anyhow::Result<ExitCode> {
    let mut script = Vec::new();
    let name = program.get_name().to_owned();
    clap_complete::generate(args.shell, &mut program, name, &mut script);
    let mut out = std::io::stdout().lock();
    out.write_all(&script)?;
    out.flush()?;
    Ok(ExitCode::SUCCESS)
}
