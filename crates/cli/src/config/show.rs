//! `isotherm config`: what is set, and where.

use std::ffi::OsString;
use std::io::Write;
use std::process::ExitCode;

use clap::parser::ValueSource;
use clap::{Arg, ArgMatches, Command};

use super::{Config, Setting, Source, options, with};
use crate::exit::usage;

/// Arguments of `isotherm config`.
#[derive(Debug, clap::Args)]
#[command(after_long_help = EXAMPLES)]
pub(crate) struct Args {
    /// Show all options of this command, as they would be with these arguments.
    #[arg(value_name = "COMMAND", trailing_var_arg = true, allow_hyphen_values = true)]
    command: Vec<OsString>,
}

const EXAMPLES: &str = r#"The files are /etc/isotherm/config.toml and ~/.config/isotherm/config.toml. A table is a command, a
key is the long name of an option; keys above the first table hold for all commands:

  color = "never"
  [record]
  sample = "10ms"

The command line is stronger than the environment (ISOTHERM_COLOR, ISOTHERM_RECORD_SAMPLE), that is
stronger than the user's file, and that is stronger than the file in /etc. ISOTHERM_NO_CONFIG=1
leaves out both files.

Examples:
  isotherm config                        what is set
  isotherm config record --aggr 50ms     every option of record, and where its value is from"#;

/// Runs the subcommand over the program's commands as they are built in.
pub(crate) fn run(args: &Args, program: Command) -> anyhow::Result<ExitCode> {
    let config = Config::read(&program)?;
    let text = if args.command.is_empty() {
        overview(&config)
    } else {
        of_command(&config, program, &args.command)?
    };
    let mut out = std::io::stdout().lock();
    out.write_all(text.as_bytes())?;
    out.flush()?;
    Ok(ExitCode::SUCCESS)
}

/// The files, and every setting with what overrides it.
fn overview(config: &Config) -> String {
    let mut text = String::new();
    for source in [&config.system, &config.user].into_iter().flatten() {
        text += &format!("{}\n", file(source));
    }
    if config.system.is_none() {
        text += "no file is read (ISOTHERM_NO_CONFIG)\n";
    }
    if config.settings.is_empty() {
        text += "nothing is set; every option has its built-in default\n";
    }
    let mut rows = Vec::new();
    for setting in &config.settings {
        let counts = config.find(&setting.path, &setting.key);
        let note = match counts.filter(|stronger| *stronger != setting) {
            Some(stronger) => format!(" (overridden: {})", config.told(&stronger.origin)),
            None => String::new(),
        };
        rows.push([name(setting), setting.values.join(","), config.told(&setting.origin) + &note]);
    }
    text + &aligned(&rows)
}

fn file(source: &Source) -> String {
    let note = if source.found { "" } else { " (there is none)" };
    format!("file {}{note}", source.path.display())
}

/// A setting, as the command line names it.
fn name(setting: &Setting) -> String {
    setting.path.iter().cloned().chain([format!("--{}", setting.key)]).collect::<Vec<_>>().join(" ")
}

/// Every option of a command.
fn of_command(config: &Config, program: Command, words: &[OsString]) -> anyhow::Result<String> {
    let name = OsString::from(program.get_name());
    let words: Vec<_> = [name].into_iter().chain(words.iter().cloned()).collect();
    // What would be missing to run the command is not needed to show its options.
    let program = lenient(program);
    let given = program.clone().ignore_errors(true).try_get_matches_from(&words);
    let mut command = with(config, program, given.ok().as_ref());
    let matches = command.try_get_matches_from_mut(&words).map_err(|error| {
        let text = error.to_string();
        usage(text.strip_prefix("error: ").unwrap_or(&text).trim_end().to_owned())
    })?;
    let (mut command, mut matches) = (&command, &matches);
    let mut path = Vec::new();
    while let Some((name, below)) = matches.subcommand() {
        let Some(found) = command.find_subcommand(name) else { break };
        (command, matches) = (found, below);
        path = options::below(&path, command);
    }
    let mut rows = Vec::new();
    for arg in options::of(command).filter(|arg| !arg.is_hide_set()) {
        rows.push(row(config, &path, arg, matches));
    }
    Ok(format!("isotherm {}\n{}", path.join(" "), aligned(&rows)))
}

fn row(config: &Config, path: &[String], arg: &Arg, matches: &ArgMatches) -> [String; 3] {
    let (id, key) = (arg.get_id().as_str(), arg.get_long().unwrap_or_default());
    let raw = matches.get_raw(id).into_iter().flatten();
    let values = raw.map(|value| value.to_string_lossy().into_owned()).collect::<Vec<_>>();
    let origin = match matches.value_source(id) {
        Some(ValueSource::CommandLine) => "command line".to_owned(),
        Some(_) => match config.find(path, key).filter(|setting| setting.values == values) {
            Some(setting) => config.told(&setting.origin),
            None => "built in".to_owned(),
        },
        None => "not set".to_owned(),
    };
    let values = if values.is_empty() { "-".to_owned() } else { values.join(",") };
    [format!("--{key}"), values, origin]
}

fn lenient(command: Command) -> Command {
    let command = command.subcommand_required(false).arg_required_else_help(false);
    command.mut_args(|arg| arg.required(false)).mut_subcommands(lenient)
}

fn aligned(rows: &[[String; 3]]) -> String {
    let width = |nr: usize| rows.iter().map(|row| row[nr].chars().count()).max().unwrap_or(0);
    let (first, second) = (width(0), width(1));
    let line =
        |[name, value, from]: &[String; 3]| format!("{name:<first$}  {value:<second$}  {from}\n");
    rows.iter().map(line).collect()
}
