//! The short help, `-h`: what a new user needs, on one screen of 80 by 24. `--help` has everything.
//!
//! Which options the short help leaves out is said at each option (`hide_short_help`). What all
//! commands have in common is done here, to the finished `clap` commands: of the examples only the
//! first two stay, a third line names `--help`, and of the program's commands only those are
//! explained with which a user begins.

use clap::builder::StyledStr;
use clap::{Arg, ArgAction, Command};

/// The commands that the program's short help explains, in this order. The others are named.
const FIRST: [&str; 12] = [
    "demo", "record", "report", "wss", "top", "stat", "reclaim", "thp", "run", "idle", "export",
    "doctor",
];

/// Options of the commands that act. `stat` runs as they do, but has nothing to decide or to undo.
const OF_ACTING: [&str; 2] = ["dry_run", "undo_on_exit"];

const EXAMPLES: &str = "Examples:";

/// Arguments that `plan` has from the reports. The record is named in its examples.
const OF_REPORTS: [&str; 4] = ["record", "json", "time", "targets"];

/// The program with short helps.
pub(crate) fn shortened(program: Command) -> Command {
    let name = program.get_name().to_owned();
    // One page has no room for it.
    let program = without_acting(program)
        .mut_subcommand("report", |all| all.mut_arg("record", |arg| arg.hide_short_help(true)))
        .mut_subcommand("plan", |plan| {
            let hide = |arg: Arg| arg.hide_short_help(true);
            OF_REPORTS.into_iter().fold(plan, |plan, id| plan.mut_arg(id, hide))
        });
    // The template is the same for both helps, so the long one is made before.
    let long = program.clone().render_long_help();
    let short = overview(&program);
    program
        .help_template("{before-help}")
        .before_help(short)
        .before_long_help(long)
        .mut_subcommands(|below| with_examples(below, &name))
}

/// Without options that mean nothing to a command.
fn without_acting(program: Command) -> Command {
    program.mut_subcommand("stat", |stat| {
        OF_ACTING.into_iter().fold(stat, |stat, id| stat.mut_arg(id, |arg| arg.hide(true)))
    })
}

/// The program's commands: those that a new user needs, and the names of the others.
fn overview(program: &Command) -> StyledStr {
    let header = program.get_styles().get_header();
    let name = program.get_name();
    let about = program.get_about().map(ToString::to_string).unwrap_or_default();
    let mut text = format!(
        "{about}\n\n{header}Usage:{header:#} {name} <COMMAND>\n\n{header}Commands:{header:#}\n"
    );
    for first in FIRST {
        let about = program.find_subcommand(first).and_then(Command::get_about);
        let about = about.map(ToString::to_string).unwrap_or_default();
        text += &format!("  {first:<8} {about}\n");
    }
    let names = program.get_subcommands().map(Command::get_name);
    let others: Vec<_> = names.filter(|name| !FIRST.contains(name)).collect();
    let middle = others.len().div_ceil(2);
    let (some, rest) = others.split_at(middle);
    text += &format!(
        "\n{header}More:{header:#} {},\n      {}\n\n`{name} COMMAND -h` tells of one, `{name} --help` of all",
        some.join(", "),
        rest.join(", ")
    );
    text.into()
}

/// A command of the program `program` and all below it: two examples and `--help` end its short
/// help. The latter makes the line for `-h` needless.
fn with_examples(command: Command, program: &str) -> Command {
    let path = format!("{program} {}", command.get_name());
    let command = command.mut_subcommands(|below| with_examples(below, &path));
    let long = command.get_after_long_help().or_else(|| command.get_after_help()).cloned();
    let Some(long) = long.filter(|long| long.to_string().contains(EXAMPLES)) else {
        return command;
    };
    let short = fewer(&long.to_string(), &path);
    let help = help_flag("Print all of this; with `-h` only what is needed at first");
    let help = help.hide_short_help(true);
    let command = command.mut_subcommands(with_help).disable_help_flag(true);
    command.arg(help).after_help(short).after_long_help(long)
}

/// A command below one that has its own flag for help, which takes clap's from all of them.
fn with_help(command: Command) -> Command {
    let command = command.mut_subcommands(with_help);
    let has_help = command.get_arguments().any(|arg| arg.get_id() == "help");
    if has_help { command } else { command.arg(help_flag("Print help")) }
}

fn help_flag(about: &'static str) -> Arg {
    // Not in the group of the option before it.
    let flag = Arg::new("help").short('h').long("help").help_heading(None::<&str>);
    flag.action(ArgAction::Help).help(about)
}

/// The first two examples, and a line for `--help` in the same columns.
fn fewer(long: &str, path: &str) -> String {
    let at = long.find(EXAMPLES).unwrap_or_default();
    let examples = long.get(at..).unwrap_or_default().lines().skip(1);
    let parts = |line: &'_ str| {
        let (command, what) = line.trim().split_once("  ").unwrap_or((line.trim(), ""));
        (command.to_owned(), what.trim().to_owned())
    };
    let mut lines: Vec<_> = examples.take(2).map(parts).collect();
    lines.push((format!("{path} --help"), "all options".to_owned()));
    let width = lines.iter().map(|(command, _)| command.len()).max().unwrap_or_default();
    let lines = lines.iter().map(|(command, what)| format!("\n  {command:<width$}  {what}"));
    format!("{EXAMPLES}{}", lines.collect::<String>())
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;
    use crate::Cli;

    /// The most lines of a short help: with the prompt it fits on a screen of 24.
    const MOST: usize = 22;

    /// This command and all below it.
    fn all(command: &Command, out: &mut Vec<Command>) {
        out.push(command.clone());
        command.get_subcommands().for_each(|below| all(below, out));
    }

    /// The words before each command that has none below it.
    fn paths(command: &Command, words: &[String], out: &mut Vec<Vec<String>>) {
        let words = [words, &[command.get_name().to_owned()]].concat();
        command.get_subcommands().for_each(|below| paths(below, &words, out));
        if command.get_name() != "help" {
            out.push(words);
        }
    }

    #[test]
    fn every_command_tells_what_it_is() {
        let program = shortened(Cli::command());
        let mut commands = Vec::new();
        paths(&program, &[], &mut commands);
        assert!(commands.len() > 30, "{commands:?}");
        for flag in ["-h", "--help"] {
            for words in &commands {
                let words = words.iter().map(String::as_str).chain([flag]);
                let err = program.clone().try_get_matches_from(words.clone()).unwrap_err();
                let words: Vec<_> = words.collect();
                assert_eq!(err.kind(), clap::error::ErrorKind::DisplayHelp, "{words:?}: {err}");
            }
        }
    }

    fn commands() -> Vec<Command> {
        let mut program = shortened(Cli::command()).term_width(80);
        program.build();
        let mut commands = Vec::new();
        all(&program, &mut commands);
        commands.retain(|c| c.get_name() != "help");
        commands
    }

    #[test]
    fn every_short_help_fits_on_a_screen() {
        let commands = commands();
        assert!(commands.len() > 35, "{} commands", commands.len());
        for mut command in commands {
            let name = command.get_bin_name().unwrap_or_default().to_owned();
            let text = command.render_help().to_string();
            let lines = text.lines().count();
            assert!(lines <= MOST, "{lines} lines in the short help of {name}:\n{text}");
            assert!(text.lines().all(|line| line.chars().count() <= 80), "{name}:\n{text}");
        }
    }

    #[test]
    fn the_long_help_has_every_option_and_every_example() {
        let mut plain = without_acting(Cli::command()).term_width(80);
        plain.build();
        let mut before = Vec::new();
        all(&plain, &mut before);
        for mut command in commands() {
            let name = command.get_bin_name().unwrap_or_default().to_owned();
            let text = command.render_long_help().to_string();
            let same = before.iter_mut().find(|c| c.get_bin_name().unwrap_or_default() == name);
            let full = same.unwrap_or_else(|| panic!("no {name}")).render_long_help().to_string();
            // The help of the help is worded anew, and can change where others are broken.
            let words = |text: &str| text.split_whitespace().map(str::to_owned).collect::<Vec<_>>();
            let of_help = ["print", "help", "summary", "see", "more", "with", "-h", "--help"];
            let (have, want) = (words(&text), words(&full));
            for word in
                want.iter().filter(|w| !of_help.iter().any(|h| w.to_lowercase().contains(h)))
            {
                assert!(have.contains(word), "no `{word}` in the long help of {name}:\n{text}");
            }
        }
    }

    #[test]
    fn examples_are_two_and_the_way_to_all_options() {
        let long = "Examples:\n  x a --much    one\n  x b    two\n  x c    three";
        let want = "Examples:\n  x a --much  one\n  x b         two\n  x a --help  all options";
        assert_eq!(fewer(long, "x a"), want);
    }

    #[test]
    fn the_first_commands_exist() {
        let program = Cli::command();
        for first in FIRST {
            assert!(program.find_subcommand(first).is_some(), "{first}");
        }
    }
}
