//! Prints lines, reports and the account of `isotherm tier`.

use std::io::{IsTerminal, Write};
use std::time::Instant;

use isotherm::raw::host::proc::own_cost;
use isotherm::raw::sys::clock;

use super::report::{Account, TierSummary, status};
use super::{Args, Engine};
use crate::act::stopped::Stopped;
use crate::terminal::warn;

/// What has to be known to print: the options, when it started, and what is on the terminal.
pub(super) struct Output<'a> {
    engine: Engine,
    args: &'a Args,
    pub(super) started: Instant,
    cpu_ns: u64,
    text: Vec<u8>,
    next_table: u32,
    tty: bool,
    line_open: bool,
}

impl<'a> Output<'a> {
    pub(super) fn new(args: &'a Args, engine: Engine) -> Self {
        Self {
            engine,
            args,
            started: Instant::now(),
            cpu_ns: clock::process_cpu_ns(),
            text: Vec::new(),
            next_table: 1,
            tty: !args.quiet && std::io::stderr().is_terminal(),
            line_open: false,
        }
    }

    fn end_line(&mut self) {
        if std::mem::take(&mut self.line_open) {
            writeln!(std::io::stderr()).ok();
        }
    }

    pub(super) fn say(&mut self, line: &str) {
        if !self.args.quiet {
            self.end_line();
            writeln!(std::io::stderr(), "isotherm: {line}").ok();
        }
    }

    pub(super) fn warn(&mut self, text: &str) {
        self.end_line();
        warn(text);
    }

    pub(super) fn summary(&mut self, summary: &TierSummary) -> anyhow::Result<()> {
        let elapsed = self.started.elapsed();
        if self.tty {
            write!(std::io::stderr(), "\r\x1b[K{}", status(elapsed.as_secs_f64(), summary)).ok();
            self.line_open = true;
        }
        if let Some(every) = self.args.every
            && elapsed >= every.saturating_mul(self.next_table)
        {
            self.next_table += 1;
            let account = self.make(None, summary);
            self.print(&account)?;
        }
        Ok(())
    }

    pub(super) fn account(
        &mut self,
        stopped: Stopped,
        summary: &TierSummary,
    ) -> anyhow::Result<()> {
        self.end_line();
        let account = self.make(Some(stopped), summary);
        self.print(&account)
    }

    fn make(&mut self, stopped: Option<Stopped>, summary: &TierSummary) -> Account {
        let own = own_cost(&mut self.text);
        Account {
            engine: if self.engine == Engine::Kernel { "kernel" } else { "isotherm" },
            elapsed_ns: u64::try_from(self.started.elapsed().as_nanos()).unwrap_or(u64::MAX),
            own_cpu_ns: own.cpu_ns.saturating_sub(self.cpu_ns),
            own_rss_bytes: own.rss_bytes,
            stopped,
            dry_run: self.args.dry_run,
            ..Account::of(summary)
        }
    }

    fn print(&self, account: &Account) -> anyhow::Result<()> {
        let mut out = std::io::stdout().lock();
        if self.args.json {
            serde_json::to_writer(&mut out, account)?;
            writeln!(out)?;
        } else {
            write!(out, "{}", account.text())?;
        }
        out.flush()?;
        Ok(())
    }
}
