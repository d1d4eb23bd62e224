//! What the environment says: where the config files are, and single settings.
//!
//! `ISOTHERM_RECORD_SAMPLE` sets `--sample` of `isotherm record`, and `ISOTHERM_COLOR` sets
//! `--color` of all commands that have it.

use std::collections::BTreeMap;
use std::env::{var_os, vars_os};
use std::path::PathBuf;

use clap::Command;
use isotherm::raw::agent::text::nearest;

use super::{Origin, Setting, options, refused};

/// If it is set and not empty, no config file is read.
const NO_FILES: &str = "ISOTHERM_NO_CONFIG";
/// Names another file for the machine's settings.
const SYSTEM_FILE: &str = "ISOTHERM_SYSTEM_CONFIG";

fn given(name: &str) -> Option<PathBuf> {
    var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from)
}

/// The machine's config file.
pub(super) fn system_file() -> Option<PathBuf> {
    let file = given(SYSTEM_FILE).unwrap_or_else(|| PathBuf::from("/etc/isotherm/config.toml"));
    given(NO_FILES).is_none().then_some(file)
}

/// The user's config file. A relative `XDG_CONFIG_HOME` is not valid, says the XDG standard.
pub(super) fn user_file() -> Option<PathBuf> {
    let home = || Some(given("HOME")?.join(".config"));
    let dir = given("XDG_CONFIG_HOME").filter(|dir| dir.is_absolute()).or_else(home)?;
    given(NO_FILES).is_none().then(|| dir.join("isotherm/config.toml"))
}

/// The name of the variable for an option of the command `path`.
fn variable(path: &[String], key: &str) -> String {
    let words = ["isotherm"].into_iter().chain(path.iter().map(String::as_str)).chain([key]);
    words.collect::<Vec<_>>().join("_").replace('-', "_").to_uppercase()
}

/// Every variable that sets something, with the command and the option.
fn variables(program: &Command) -> BTreeMap<String, (Vec<String>, String)> {
    let mut known = BTreeMap::new();
    options::each(program, &[], &mut |command, path| {
        for key in options::keys(command) {
            known.insert(variable(path, key), (path.to_vec(), key.to_owned()));
        }
    });
    known
}

/// The settings in the environment.
pub(super) fn settings(program: &Command) -> anyhow::Result<Vec<Setting>> {
    let mut settings = Vec::new();
    for (variable, (path, key)) in variables(program) {
        let Some(value) = var_os(&variable).filter(|value| !value.is_empty()) else { continue };
        let Ok(value) = value.into_string() else {
            return Err(refused(format!("{variable} is not UTF-8")));
        };
        let mut command = program;
        for name in &path {
            command = command.find_subcommand(name).unwrap_or(command);
        }
        let values = [value];
        options::check(command, &path, &key, &values)
            .map_err(|why| refused(format!("{variable}={}: {why}", values[0])))?;
        let values = values.into();
        settings.push(Setting { path, key, values, origin: Origin::Environment { variable } });
    }
    Ok(settings)
}

/// Warnings of variables that name a command, but no option of it.
pub(super) fn unknown(program: &Command) -> Vec<String> {
    let known = variables(program);
    let commands = program.get_subcommands().map(|c| variable(&[c.get_name().to_owned()], ""));
    let commands: Vec<String> = commands.collect();
    let mut names: Vec<String> =
        vars_os().filter_map(|(name, _)| name.into_string().ok()).collect();
    names.sort_unstable();
    let stray = names.iter().filter(|name| {
        commands.iter().any(|command| name.starts_with(command)) && !known.contains_key(*name)
    });
    let warning = |name: &String| {
        let mut text = format!("{name} in the environment names no option, and is ignored");
        // The comparison is without case, for words in small letters.
        let names: Vec<String> = known.keys().map(|known| known.to_lowercase()).collect();
        if let Some(near) = nearest(name, names.iter().map(String::as_str)) {
            text = format!("{text}\n  hint:  did you mean {}?", near.to_uppercase());
        }
        text
    };
    stray.map(warning).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn variables_are_named_after_commands_and_options() {
        let path = |names: &[&str]| names.iter().map(|&n| n.to_owned()).collect::<Vec<_>>();
        assert_eq!(variable(&[], "color"), "ISOTHERM_COLOR");
        assert_eq!(variable(&path(&["record"]), "sample"), "ISOTHERM_RECORD_SAMPLE");
        let name = variable(&path(&["report", "heatmap"]), "all-targets");
        assert_eq!(name, "ISOTHERM_REPORT_HEATMAP_ALL_TARGETS");
    }
}
