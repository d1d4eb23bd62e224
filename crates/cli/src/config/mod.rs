//! Defaults of options from config files and the environment.
//!
//! The command line is stronger than the environment, which is stronger than the user's file, which
//! is stronger than the machine's. Nothing here names an option: what may be set, and which values
//! are valid, comes from the program's `clap` commands. A setting becomes the default of its
//! option, so that all rules for options hold as if it were built in. Among the settings of one
//! source the one for the nearest command wins: `[report.heatmap]`, then `[report]`,
//! then the top of the file.
//!
//! A setting does not apply where the command line names an option that contradicts it. A file with
//! an error is refused as a whole, and no command runs with a part of it.

mod environment;
mod file;
mod options;
pub(crate) mod show;

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::path::PathBuf;

use clap::{ArgMatches, Command, parser::ValueSource};

use crate::exit::usage;
use crate::terminal::warn;

/// Where a setting is from; the strongest last.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
enum Origin {
    System { line: usize },
    User { line: usize },
    Environment { variable: String },
}

/// The value of an option, for a command and all below it.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Setting {
    /// The names of the command, without the program's; none: for all commands.
    path: Vec<String>,
    /// The option's long name.
    key: String,
    values: Vec<String>,
    origin: Origin,
}

/// A config file.
#[derive(Debug)]
struct Source {
    path: PathBuf,
    /// Whether it exists.
    found: bool,
}

/// All settings, with the files that were looked for.
#[derive(Debug, Default)]
struct Config {
    system: Option<Source>,
    user: Option<Source>,
    settings: Vec<Setting>,
}

impl Config {
    /// Reads the files and the environment. `program`: all commands as they are built in.
    fn read(program: &Command) -> anyhow::Result<Self> {
        let mut config = Self::default();
        let mut read = |path: Option<PathBuf>, origin: fn(usize) -> Origin| {
            let Some(path) = path else { return anyhow::Ok(None) };
            let settings = file::read(&path, program, origin)?;
            let found = settings.is_some();
            config.settings.extend(settings.into_iter().flatten());
            Ok(Some(Source { path, found }))
        };
        config.system = read(environment::system_file(), |line| Origin::System { line })?;
        config.user = read(environment::user_file(), |line| Origin::User { line })?;
        config.settings.extend(environment::settings(program)?);
        Ok(config)
    }

    /// The setting that counts for an option of the command `path`.
    fn find(&self, path: &[String], key: &str) -> Option<&Setting> {
        let fit = self.settings.iter().filter(|s| s.key == key && path.starts_with(&s.path));
        fit.max_by_key(|s| (strength(&s.origin), s.path.len()))
    }

    /// Where a setting is from, for people.
    fn told(&self, origin: &Origin) -> String {
        let name = |source: &Option<Source>| {
            source.as_ref().map(|s| s.path.display().to_string()).unwrap_or_default()
        };
        match origin {
            Origin::System { line } => format!("{}:{line}", name(&self.system)),
            Origin::User { line } => format!("{}:{line}", name(&self.user)),
            Origin::Environment { variable } => format!("environment, {variable}"),
        }
    }

    /// Makes the settings defaults of `command`, which has the names `path`, and of all below. The
    /// options in `contradicted` keep their own.
    fn apply(
        &self,
        command: Command,
        path: &[String],
        contradicted: &BTreeSet<(Vec<String>, String)>,
    ) -> Command {
        let command = command.mut_args(|arg| match arg.get_long() {
            Some(key) if options::may_be_set(&arg) => {
                let is_contradicted = contradicted.contains(&(path.to_vec(), key.to_owned()));
                match self.find(path, key).filter(|_| !is_contradicted) {
                    Some(setting) => arg.default_values(setting.values.clone()),
                    None => arg,
                }
            }
            _ => arg,
        });
        command.mut_subcommands(|below| {
            let path = options::below(path, &below);
            self.apply(below, &path, contradicted)
        })
    }
}

/// Sources by strength, whatever they hold.
const fn strength(origin: &Origin) -> u8 {
    match origin {
        Origin::System { .. } => 0,
        Origin::User { .. } => 1,
        Origin::Environment { .. } => 2,
    }
}

/// The program's commands, with the settings as defaults.
pub(crate) fn applied(program: Command) -> anyhow::Result<Command> {
    let args: Vec<OsString> = std::env::args_os().collect();
    let given = program.clone().ignore_errors(true).try_get_matches_from(&args);
    match Config::read(&program) {
        Ok(config) => {
            for unknown in environment::unknown(&program) {
                warn(&unknown);
            }
            Ok(with(&config, program, given.ok().as_ref()))
        }
        // Help and version need no settings, and may be what is missing to mend the file.
        Err(_) if given.is_err() => Ok(program),
        Err(error) => Err(error),
    }
}

fn with(config: &Config, program: Command, given: Option<&ArgMatches>) -> Command {
    let mut contradicted = BTreeSet::new();
    if let Some(given) = given {
        contradictions(&program, given, &[], &mut contradicted);
    }
    config.apply(program, &[], &contradicted)
}

/// Collects the options that something on the command line contradicts.
fn contradictions(
    command: &Command,
    given: &ArgMatches,
    path: &[String],
    found: &mut BTreeSet<(Vec<String>, String)>,
) {
    let is_given = |arg: &clap::Arg| {
        let id = arg.get_id().as_str();
        matches!(given.try_contains_id(id), Ok(true))
            && given.value_source(id) == Some(ValueSource::CommandLine)
    };
    for arg in command.get_arguments() {
        let conflicts = command.get_arg_conflicts_with(arg);
        let long = |arg: &clap::Arg| arg.get_long().map(|key| (path.to_vec(), key.to_owned()));
        if is_given(arg) {
            found.extend(conflicts.iter().filter_map(|other| long(other)));
        } else if conflicts.iter().any(|other| is_given(other)) {
            found.extend(long(arg));
        }
    }
    if let Some((name, given)) = given.subcommand()
        && let Some(command) = command.find_subcommand(name)
    {
        contradictions(command, given, &options::below(path, command), found);
    }
}

/// The error for a text that says what is wrong with a setting.
fn refused(what: impl std::fmt::Display) -> anyhow::Error {
    usage(format!("the configuration is not valid, so nothing was run\n{what}"))
}
