//! The status line on the terminal: the state of the run.

use std::collections::BTreeMap;
use std::io::{IsTerminal, Write};

use isotherm::raw::agent::run::Summary;

use isotherm::raw::core::units::bytes;

/// The status line.
#[derive(Debug)]
pub(super) struct Status {
    tty: bool,
    shown: bool,
    contexts: BTreeMap<String, Summary>,
}

impl Status {
    pub(super) fn new(quiet: bool) -> Self {
        let tty = !quiet && std::io::stderr().is_terminal();
        Self { tty, shown: false, contexts: BTreeMap::new() }
    }

    /// Takes in the state of a context.
    pub(super) fn note(&mut self, context: &str, summary: Summary) {
        self.contexts.insert(context.to_owned(), summary);
    }

    /// Whether every scheme that acts waits for its watermarks.
    pub(super) fn all_wait(&self) -> bool {
        let mut schemes = self.contexts.values().flat_map(|c| &c.schemes).peekable();
        schemes.peek().is_some() && schemes.all(|s| !s.active)
    }

    /// Whether no scheme does anything but count.
    fn is_dry(&self) -> bool {
        self.contexts.values().flat_map(|c| &c.schemes).all(|s| s.account.dry_run)
    }

    /// Draws the line again.
    pub(super) fn show(&mut self, elapsed_s: f64, cpu_s: f64) {
        if !self.tty {
            return;
        }
        self.shown = true;
        let all = || self.contexts.values();
        let sum = |f: fn(&isotherm::raw::agent::run::Standing) -> u64| -> u64 {
            all().flat_map(|c| &c.schemes).map(f).sum()
        };
        let wait = if self.all_wait() { "  waiting (watermarks)" } else { "" };
        let blocked = if all().any(|c| c.blocked.is_some()) { "  BLOCKED" } else { "" };
        write!(
            std::io::stderr(),
            "\r\x1b[K{elapsed_s:6.1} s  {} targets  working set {}  {} {}  touched again {}  own cpu \
             {:.2} %{wait}{blocked}",
            all().map(|c| c.nr_targets).sum::<usize>(),
            bytes(all().map(|c| c.working_set).sum()),
            if self.is_dry() { "would be done" } else { "done" },
            bytes(sum(if self.is_dry() {
                |s| s.account.pretended_bytes
            } else {
                |s| s.account.done_bytes - s.account.pretended_bytes
            })),
            bytes(sum(|s| s.account.refaulted_bytes)),
            cpu_s * 100.0 / elapsed_s.max(1e-9),
        )
        .ok();
    }

    /// Clears the status line, so that another line can be printed.
    pub(super) fn end(&mut self) {
        if std::mem::take(&mut self.shown) {
            writeln!(std::io::stderr()).ok();
        }
    }
}
