//! What the terminal behind standard output can show, and warnings to the user.

use std::env::var_os;
use std::io::{IsTerminal, Write};

use isotherm::raw::report::heatmap::{Color, Style};

/// `--color`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum When {
    /// Use colours if standard output is a terminal. `NO_COLOR` and `CLICOLOR_FORCE` are honoured.
    Auto,
    /// Use colours in a pipe or a file as well.
    Always,
    /// Plain text.
    Never,
}

/// The style to write in.
pub(crate) fn style(when: When) -> Style {
    let set = |name: &str| var_os(name).is_some_and(|v| !v.is_empty() && v != "0");
    let wanted = match when {
        When::Always => true,
        When::Never => false,
        When::Auto if var_os("NO_COLOR").is_some_and(|v| !v.is_empty()) => false,
        When::Auto if set("CLICOLOR_FORCE") => true,
        When::Auto => std::io::stdout().is_terminal() && var_os("TERM").is_none_or(|t| t != "dumb"),
    };
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
