//! Which options the program's commands have, and whether a value is valid for one.

use std::collections::BTreeSet;

use clap::error::ErrorKind;
use clap::{Arg, ArgAction, Command};

/// Whether a config file may set this argument: an option with a long name that is not a command in
/// itself, as `--help` is.
pub(super) fn may_be_set(arg: &Arg) -> bool {
    let acts = matches!(
        arg.get_action(),
        ArgAction::Help | ArgAction::HelpShort | ArgAction::HelpLong | ArgAction::Version
    );
    arg.get_long().is_some() && !acts
}

/// The names of a command below the one at `path`.
pub(super) fn below(path: &[String], command: &Command) -> Vec<String> {
    path.iter().cloned().chain([command.get_name().to_owned()]).collect()
}

/// The options of a command.
pub(super) fn of(command: &Command) -> impl Iterator<Item = &Arg> {
    command.get_arguments().filter(|arg| may_be_set(arg))
}

/// The long names of the options of a command and of all below it.
pub(super) fn keys(command: &Command) -> BTreeSet<&str> {
    let mut keys: BTreeSet<&str> = of(command).filter_map(Arg::get_long).collect();
    for below in command.get_subcommands() {
        keys.extend(self::keys(below));
    }
    keys
}

/// Calls `f` for the command at `path` and all below it.
pub(super) fn each(command: &Command, path: &[String], f: &mut impl FnMut(&Command, &[String])) {
    f(command, path);
    for command in command.get_subcommands() {
        each(command, &below(path, command), f);
    }
}

/// Whether an option takes no value.
pub(super) fn is_flag(arg: &Arg) -> bool {
    matches!(arg.get_action(), ArgAction::SetTrue | ArgAction::SetFalse)
}

/// Whether an option can be given more than once.
fn is_list(arg: &Arg) -> bool {
    matches!(arg.get_action(), ArgAction::Append) || arg.get_value_delimiter().is_some()
}

/// Whether `values` are valid for the option `key`, for the command and all below it that have the
/// option. The error is for people, with the command's name.
pub(super) fn check(
    command: &Command,
    path: &[String],
    key: &str,
    values: &[String],
) -> Result<(), String> {
    let mut result = Ok(());
    each(command, path, &mut |command, path| {
        let arg = of(command).find(|arg| arg.get_long() == Some(key));
        if let (Some(arg), Ok(())) = (arg, &result) {
            let checked = check_one(command, arg, key, values);
            result = checked.map_err(|why| format!("isotherm {}: {why}", path.join(" ")));
        }
    });
    result
}

fn check_one(command: &Command, arg: &Arg, key: &str, values: &[String]) -> Result<(), String> {
    if is_flag(arg) {
        return match values {
            [value] if value == "true" || value == "false" => Ok(()),
            _ => Err(format!("`{key}` is true or false")),
        };
    }
    if matches!(arg.get_action(), ArgAction::Count) {
        return match values {
            [value] if value.parse::<u8>().is_ok() => Ok(()),
            _ => Err(format!("`{key}` is a number")),
        };
    }
    if values.len() != 1 && !is_list(arg) {
        return Err(format!("`{key}` takes one value, not {}", values.len()));
    }
    // The command itself reads the values, so every rule for them holds.
    let name = command.get_name().to_owned();
    let words = values.iter().map(|value| format!("--{key}={value}"));
    let read = command.clone().try_get_matches_from([name].into_iter().chain(words));
    match read {
        Err(error) if is_about_value(error.kind()) => Err(reason(&error)),
        // Something else may be missing, which the command line can still give.
        _ => Ok(()),
    }
}

const fn is_about_value(kind: ErrorKind) -> bool {
    matches!(
        kind,
        ErrorKind::InvalidValue
            | ErrorKind::ValueValidation
            | ErrorKind::TooManyValues
            | ErrorKind::TooFewValues
            | ErrorKind::WrongNumberOfValues
            | ErrorKind::NoEquals
    )
}

/// What an error says, without the usage that belongs to a command line.
fn reason(error: &clap::Error) -> String {
    let text = error.to_string();
    let text = text.strip_prefix("error: ").unwrap_or(&text);
    let lines = text.lines().map(str::trim).filter(|line| !line.is_empty());
    let lines = lines.take_while(|line| {
        !line.starts_with("Usage:") && !line.starts_with("For more information")
    });
    lines.collect::<Vec<_>>().join("; ")
}
