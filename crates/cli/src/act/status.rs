//! The status line on the terminal: the state of the run.

use std::collections::BTreeMap;
use std::io::{IsTerminal, Write};

use isotherm::raw::agent::run::{Account, Summary};

use isotherm::raw::core::units::{bytes, counted};

/// What became of the huge page advice that was set, for people.
pub(super) fn undone(restored: u64, replaced: u64, left: u64) -> String {
    let parts = [
        (restored, "is as it was before"),
        (
            replaced,
            "had none and now refuses huge pages (`nh` in smaps): the kernel cannot remove advice, \
             only replace it, and under the machine's setting this is the same as none",
        ),
        (
            left,
            "keeps it: the kernel cannot remove advice, and under the machine's setting it changes \
             nothing",
        ),
    ];
    let parts = parts.into_iter().filter(|(part, _)| *part > 0);
    let parts: Vec<_> = parts.map(|(part, text)| format!("{} {text}", bytes(part))).collect();
    if parts.is_empty() { "nothing could be taken back".into() } else { parts.join("; ") }
}

/// The status line.
#[derive(Debug)]
pub(super) struct Status {
    tty: bool,
    shown: bool,
    contexts: BTreeMap<String, Summary>,
    full: BTreeMap<String, Summary>,
}

impl Status {
    pub(super) fn new(quiet: bool) -> Self {
        let tty = !quiet && std::io::stderr().is_terminal();
        Self { tty, shown: false, contexts: BTreeMap::new(), full: BTreeMap::new() }
    }

    /// Whether the watermarks did not let a scheme work when it was last heard of.
    pub(super) fn waits(&self, a: &Account) -> bool {
        let schemes = self.contexts.get(&a.context).map(|context| &context.schemes);
        schemes.into_iter().flatten().any(|s| s.account.name == a.name && !s.active)
    }

    /// The last state of a context in which it had regions.
    pub(super) fn last(&self, context: &str) -> Option<&Summary> {
        self.full.get(context)
    }

    /// Takes in the state of a context.
    pub(super) fn note(&mut self, context: &str, summary: Summary) {
        if summary.nr_regions > 0 {
            self.full.insert(context.to_owned(), summary.clone());
        }
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

    /// Draws the line again. `waits`: why no scheme works now.
    pub(super) fn show(&mut self, elapsed_s: f64, cpu_s: f64, waits: Option<&str>) {
        if !self.tty {
            return;
        }
        self.shown = true;
        write!(std::io::stderr(), "\r\x1b[K{}", self.line(elapsed_s, cpu_s, waits)).ok();
    }

    fn line(&self, elapsed_s: f64, cpu_s: f64, waits: Option<&str>) -> String {
        let all = || self.contexts.values();
        let sum = |f: fn(&isotherm::raw::agent::run::Standing) -> u64| -> u64 {
            all().flat_map(|c| &c.schemes).map(f).sum()
        };
        let targets = counted(all().map(|c| c.nr_targets as u64).sum(), "target");
        let begin = format!("{elapsed_s:6.1} s  {targets}");
        let blocked = if all().any(|c| c.blocked.is_some()) { "  BLOCKED" } else { "" };
        if let Some(why) = waits {
            return format!("{begin}  waits: {why}{blocked}");
        }
        let done = if self.is_dry() {
            format!("would be done {}", bytes(sum(|s| s.account.pretended_bytes)))
        } else {
            let done = sum(|s| s.account.done_bytes - s.account.pretended_bytes);
            format!("done {}", bytes(done))
        };
        format!(
            "{begin}  working set {}  {done}  touched again {}  own cpu {:.2} %{blocked}",
            bytes(all().map(|c| c.working_set).sum()),
            bytes(sum(|s| s.account.refaulted_bytes)),
            cpu_s * 100.0 / elapsed_s.max(1e-9),
        )
    }

    /// Clears the status line, so that another line can be printed.
    pub(super) fn end(&mut self) {
        if std::mem::take(&mut self.shown) {
            writeln!(std::io::stderr()).ok();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_says_what_is_done_or_why_nothing_is() {
        let mut status = Status::new(true);
        let summary = Summary { nr_targets: 2, working_set: 3 << 20, ..Summary::default() };
        status.note("c", summary);
        let line = status.line(2.0, 0.02, None);
        for part in ["2.0 s", "2 targets", "working set 3.00 MiB", "own cpu 1.00 %"] {
            assert!(line.contains(part), "{line}");
        }
        let line = status.line(2.0, 0.02, Some("83 % of memory is free"));
        assert_eq!(line.trim(), "2.0 s  2 targets  waits: 83 % of memory is free");
    }

    #[test]
    fn what_could_not_be_restored_is_said() {
        assert_eq!(undone(4 << 20, 0, 0), "4.00 MiB is as it was before");
        let text = undone(0, 2 << 20, 6 << 20);
        let said = ["2.00 MiB had none and now", "cannot remove", "; 6.00 MiB keeps it"];
        assert!(said.iter().all(|part| text.contains(part)), "{text}");
        assert_eq!(undone(0, 0, 0), "nothing could be taken back");
    }
}
