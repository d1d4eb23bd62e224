//! `isotherm man`: manual pages, one for the program and one for every subcommand.

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::Command;
use clap_mangen::Man;

use crate::exit::usage;
use crate::files::cannot_create;
use crate::terminal::pager::{Pager, Paging};

/// Arguments of `isotherm man`.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// The command whose page is shown. Without one: the page of the program.
    command: Vec<String>,
    /// Write all pages into this directory instead, which is made if it does not exist.
    #[arg(short, long = "output", value_name = "DIR", conflicts_with = "command")]
    output: Option<PathBuf>,
}

const EXAMPLES: &str = "Examples:
  isotherm man report heatmap                       reads a page
  isotherm man -o /usr/local/share/man/man1         installs all pages";

/// Runs the subcommand over the program's whole command line.
pub(crate) fn run(args: &Args, program: Command) -> anyhow::Result<ExitCode> {
    let mut program = program.disable_help_subcommand(true);
    program.build();
    if let Some(dir) = &args.output {
        fs::create_dir_all(dir).map_err(|e| cannot_create(dir, &e))?;
        write_pages(&program, dir)?;
        return Ok(ExitCode::SUCCESS);
    }
    let mut command = &program;
    for word in &args.command {
        command = command.find_subcommand(word).ok_or_else(|| {
            let known = command.get_subcommands().map(Command::get_name).collect::<Vec<_>>();
            let hint =
                if known.is_empty() { "it has no commands".to_owned() } else { known.join(", ") };
            usage(format!(
                "no page: `{}` has no command `{word}`\n  hint:  {hint}",
                command.get_bin_name().unwrap_or_default()
            ))
        })?;
    }
    let text = page(command)?;
    let mut out = Paging::start(Pager::manual());
    let written = out.write_all(&text);
    out.finish()?;
    written?;
    Ok(ExitCode::SUCCESS)
}

/// A page in roff.
fn page(command: &Command) -> anyhow::Result<Vec<u8>> {
    let mut text = Vec::new();
    of(command).render(&mut text)?;
    Ok(mended(&String::from_utf8(text)?).into_bytes())
}

/// Mends what the generator gets wrong: an empty date is left out, which shifts the fields after
/// it; breaks are doubled; and what follows the options in the help is filled, though it has
/// columns.
fn mended(page: &str) -> String {
    let mut text = String::new();
    let mut is_verbatim = false;
    let mut lines = page.lines().peekable();
    while let Some(line) = lines.next() {
        if is_verbatim && line.starts_with(".SH") {
            text += ".fi\n";
            is_verbatim = false;
        }
        let is_gap = |line: &str| line.is_empty() || line == ".sp";
        if line.starts_with(".TH ") {
            text += &line.replacen("  ", concat!(" \"", env!("ISOTHERM_BUILT_DATE"), "\" "), 1);
        } else if line == ".br"
            && (text.ends_with(".sp\n") || lines.peek().is_some_and(|l| is_gap(l)))
        {
            continue;
        } else if is_gap(line) && !is_verbatim {
            text += ".sp";
        } else if line == ".SH EXTRA" {
            is_verbatim = true;
            let is_examples = lines.next_if_eq(&"Examples:").is_some();
            text += if is_examples { ".SH EXAMPLES\n.nf" } else { ".SH NOTES\n.nf" };
        } else {
            text += line;
        }
        text += "\n";
    }
    text + if is_verbatim { ".fi\n" } else { "" }
}

fn of(command: &Command) -> Man {
    let source = concat!("isotherm ", env!("CARGO_PKG_VERSION"));
    Man::new(command.clone()).source(source).manual("Isotherm")
}

fn write_pages(command: &Command, dir: &Path) -> anyhow::Result<()> {
    for below in command.get_subcommands().filter(|below| !below.is_hide_set()) {
        write_pages(below, dir)?;
    }
    let path = dir.join(of(command).get_filename());
    fs::write(&path, page(command)?).map_err(|e| cannot_create(&path, &e))
}
