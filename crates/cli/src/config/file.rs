//! Reads a config file (TOML) and checks it against the program's commands.
//!
//! A table is a command, a key is the long name of an option. All errors are reported at once, each
//! with its line.

use std::fs::File;
use std::io::{ErrorKind, Read};
use std::ops::Range;
use std::os::fd::AsRawFd;
use std::path::Path;

use clap::Command;
use isotherm::raw::agent::text::{TextError, TextErrors, nearest, not_toml};
use toml::de::{DeTable, DeValue};

use super::{Origin, Setting, options, refused};
use crate::exit;

/// A setting without its origin, with its place in the text.
type Found = (Vec<String>, String, Vec<String>, Range<usize>);

/// The settings of a file; none if it does not exist.
pub(super) fn read(
    path: &Path,
    program: &Command,
    origin: fn(usize) -> Origin,
) -> anyhow::Result<Option<Vec<Setting>>> {
    let name = path.display().to_string();
    let text = match text_of(path) {
        Ok(text) => text,
        Err(e) if matches!(e.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => {
            return Ok(None);
        }
        Err(e) => {
            let code = match e.kind() {
                ErrorKind::InvalidData => exit::USAGE,
                _ => exit::of_io(&e),
            };
            return Err(exit::with(
                code,
                format!(
                    "cannot read the config file {name}\n  tried: read {name}: {e}\n  \
                     hint:  make it readable, or set ISOTHERM_NO_CONFIG=1 to run without"
                ),
            ));
        }
    };
    parse(&text, &name, program, origin).map(Some).map_err(refused)
}

/// The text of a file that the user, too, may read. A program with capabilities could read any
/// file, and its errors would show lines of it.
fn text_of(path: &Path) -> std::io::Result<String> {
    let mut file = File::open(path)?;
    // This asks for the real user, without capabilities, and about the file that is open.
    let opened = format!("/proc/self/fd/{}", file.as_raw_fd());
    rustix::fs::access(opened, rustix::fs::Access::READ_OK)?;
    let mut text = String::new();
    file.read_to_string(&mut text)?;
    Ok(text)
}

fn parse(
    text: &str,
    name: &str,
    program: &Command,
    origin: fn(usize) -> Origin,
) -> Result<Vec<Setting>, TextErrors> {
    let (root, broken) = DeTable::parse_recoverable(text);
    let mut errors: Vec<TextError> = broken.iter().map(|e| not_toml(e, text.len())).collect();
    let mut found = Vec::new();
    if errors.is_empty() {
        table(root.get_ref(), program, &[], &mut found, &mut errors);
    }
    if !errors.is_empty() {
        return Err(TextErrors::new(name, text, errors));
    }
    let line = |at: usize| text.get(..at).unwrap_or(text).matches('\n').count() + 1;
    let setting = |(path, key, values, span): Found| Setting {
        path,
        key,
        values,
        origin: origin(line(span.start)),
    };
    Ok(found.into_iter().map(setting).collect())
}

fn table(
    table: &DeTable<'_>,
    command: &Command,
    path: &[String],
    found: &mut Vec<Found>,
    errors: &mut Vec<TextError>,
) {
    for (key, value) in table {
        let name = key.get_ref().as_ref();
        if let DeValue::Table(inner) = value.get_ref() {
            match command.find_subcommand(name) {
                Some(below) => {
                    let path = options::below(path, below);
                    self::table(inner, below, &path, found, errors);
                }
                None => {
                    let known = command.get_subcommands().map(Command::get_name).collect();
                    errors.push(unknown(key.span(), "command", name, known));
                }
            }
            continue;
        }
        let known = options::keys(command);
        if !known.contains(name) {
            errors.push(unknown(key.span(), "key", name, known.into_iter().collect()));
            continue;
        }
        let checked = values(value.get_ref()).and_then(|values| {
            options::check(command, path, name, &values)?;
            Ok(values)
        });
        match checked {
            Ok(values) => found.push((path.to_vec(), name.to_owned(), values, key.span())),
            Err(why) => errors.push(
                TextError::new(value.span(), format!("this value does not fit `{name}`")).why(why),
            ),
        }
    }
}

fn unknown(span: Range<usize>, what: &str, word: &str, known: Vec<&str>) -> TextError {
    let hint = match nearest(word, known) {
        Some(near) => format!("did you mean `{near}`?"),
        None => "keys are the long names of options, without the dashes; a table names a command, \
                 as in [record]"
            .to_owned(),
    };
    TextError::new(span, format!("unknown {what} `{word}`")).hint(hint)
}

/// The values as the command line would have them.
fn values(value: &DeValue<'_>) -> Result<Vec<String>, String> {
    Ok(vec![match value {
        DeValue::String(text) => text.clone().into_owned(),
        DeValue::Integer(number) if number.radix() == 10 => number.as_str().to_owned(),
        DeValue::Float(number) => number.as_str().to_owned(),
        DeValue::Boolean(value) => value.to_string(),
        DeValue::Array(array) => {
            let each = array.iter().map(|value| match value.get_ref() {
                DeValue::Array(_) => Err("an array in an array".to_owned()),
                value => values(value),
            });
            return each.collect::<Result<Vec<_>, _>>().map(|values| values.concat());
        }
        other => return Err(format!("a value of type {}", other.type_str())),
    }])
}
