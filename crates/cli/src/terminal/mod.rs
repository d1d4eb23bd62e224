//! What the terminal behind standard output can show: colours, width, long text; and warnings.

pub(crate) mod pager;

use std::env::var_os;
use std::ffi::OsString;
use std::io::{IsTerminal, Write};

use isotherm::raw::report::heatmap::{Color, Style};

/// `--color`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum When {
    /// Use colours if standard output is a terminal. `NO_COLOR`, `CLICOLOR` and
    /// `CLICOLOR_FORCE` are honoured.
    Auto,
    /// Use colours in a pipe or a file as well.
    Always,
    /// Plain text.
    Never,
}

/// `--color`, for every command that has colours.
#[derive(Debug, Clone, Copy, clap::Args)]
pub(crate) struct ColorArg {
    /// When to use colours.
    #[arg(
        long = "color",
        value_name = "WHEN",
        value_enum,
        default_value_t = When::Auto,
        help_heading = "Output",
        hide_short_help = true
    )]
    when: When,
}

impl ColorArg {
    /// The style to write in.
    pub(crate) fn style(self) -> Style {
        style(self.when)
    }

    /// Whether to use colours at all.
    pub(crate) fn is_on(self) -> bool {
        self.style().color != Color::None
    }
}

/// Whether colours are wanted. `value` gives a variable of the environment.
fn wanted(when: When, is_terminal: bool, value: impl Fn(&str) -> Option<OsString>) -> bool {
    let given = |name: &str| value(name).filter(|v| !v.is_empty());
    match when {
        When::Always => true,
        When::Never => false,
        When::Auto if given("NO_COLOR").is_some() => false,
        When::Auto if given("CLICOLOR_FORCE").is_some_and(|v| v != "0") => true,
        When::Auto if given("CLICOLOR").is_some_and(|v| v == "0") => false,
        When::Auto => is_terminal && value("TERM").is_none_or(|term| term != "dumb"),
    }
}

/// The style to write in.
pub(crate) fn style(when: When) -> Style {
    let wanted = wanted(when, std::io::stdout().is_terminal(), |name| var_os(name));
    let has =
        |name: &str, what: &str| var_os(name).is_some_and(|v| v.to_string_lossy().contains(what));
    let color = if !wanted {
        Color::None
    } else if has("COLORTERM", "truecolor") || has("COLORTERM", "24bit") {
        Color::True
    } else if has("TERM", "256") {
        Color::Ansi256
    } else {
        Color::Ansi16
    };
    Style { color }
}

/// Width in characters: COLUMNS, else the terminal's, else 100.
pub(crate) fn width() -> usize {
    let columns = var_os("COLUMNS").and_then(|v| v.to_str()?.parse().ok());
    let own = || rustix::termios::tcgetwinsize(std::io::stdout()).ok().map(|w| w.ws_col.into());
    columns.or_else(own).filter(|&w| w > 0).unwrap_or(100)
}

/// Prints a warning. A failure is ignored, because standard error may be closed.
pub(crate) fn warn(text: &str) {
    writeln!(std::io::stderr(), "warning: {text}").ok();
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn colours_follow_the_option_then_the_environment() {
        let colours = |when, is_terminal, environment: &[(&str, &str)]| {
            wanted(when, is_terminal, |name| {
                let set = environment.iter().find(|(known, _)| *known == name);
                set.map(|(_, value)| OsString::from(value))
            })
        };
        for (environment, in_terminal, in_pipe) in [
            (&[][..], true, false),
            (&[("NO_COLOR", "1")], false, false),
            (&[("NO_COLOR", "")], true, false),
            (&[("CLICOLOR", "0")], false, false),
            (&[("CLICOLOR", "1")], true, false),
            (&[("CLICOLOR_FORCE", "1")], true, true),
            (&[("CLICOLOR_FORCE", "0")], true, false),
            (&[("CLICOLOR_FORCE", "1"), ("CLICOLOR", "0")], true, true),
            (&[("CLICOLOR_FORCE", "1"), ("NO_COLOR", "1")], false, false),
            (&[("TERM", "dumb")], false, false),
        ] {
            assert_eq!(colours(When::Auto, true, environment), in_terminal, "{environment:?}");
            assert_eq!(colours(When::Auto, false, environment), in_pipe, "{environment:?}");
            for is_terminal in [true, false] {
                assert!(colours(When::Always, is_terminal, environment), "{environment:?}");
                assert!(!colours(When::Never, is_terminal, environment), "{environment:?}");
            }
        }
    }
}
