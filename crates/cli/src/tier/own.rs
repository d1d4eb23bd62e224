//! Our own engine, driven to its end.

use std::io::{IsTerminal, Write};
use std::process::ExitCode;
use std::time::Instant;

use isotherm_agent::run::Refused;
use isotherm_agent::tier::{Hierarchy, Knobs, TierEvent, TierSummary, Whom, Work};
use isotherm_host::proc::own_cost;
use isotherm_sys::{clock, signals};

use super::Args;
use super::report::{Account, status};
use crate::exit;
use crate::stopped::Stopped;
use crate::terminal::warn;

/// Tiers until it is time to stop.
pub(super) fn run(
    args: &Args,
    hierarchy: &Hierarchy,
    knobs: &Knobs,
    whom: Whom,
    seed: Option<u64>,
) -> anyhow::Result<ExitCode> {
    signals::install()?;
    let refused = |r: Refused| exit::with(r.code, r.text);
    let mut work = Work::prepare(hierarchy, knobs, whom, seed).map_err(refused)?;
    let mut told = Told::new(args, "isotherm");
    for line in &hierarchy.why {
        told.say(line);
    }
    told.say("engine `isotherm`: page tables of processes, pages moved by move_pages");
    work.start().map_err(refused)?;
    let mut stopped = None;
    let mut failed = None;
    while stopped.is_none() {
        for event in work.turn() {
            match event {
                TierEvent::Note(line) => told.say(&line),
                TierEvent::Warning(text) => told.warn(&text),
                TierEvent::Moved(_) => {}
                TierEvent::Summary(summary) => told.summary(*summary)?,
                TierEvent::Over(why) => {
                    stopped =
                        Some(if why.is_some() { Stopped::Failed } else { Stopped::TargetsGone });
                    failed = why;
                }
            }
        }
        if stopped.is_none() {
            stopped = why_stop(args, told.started);
        }
    }
    let summary = work.summary();
    let child = work.finish();
    told.account(stopped.unwrap_or(Stopped::Signal), summary)?;
    if let Some(why) = failed {
        return Err(refused(why));
    }
    Ok(match child {
        // Our own SIGTERM is no failure of the command's.
        Some(child) if child.shell_code() != 128 + 15 => {
            ExitCode::from(u8::try_from(child.shell_code()).unwrap_or(exit::UNEXPECTED))
        }
        _ => ExitCode::SUCCESS,
    })
}

pub(super) fn why_stop(args: &Args, started: Instant) -> Option<Stopped> {
    if signals::stop_requested().is_some() {
        return Some(Stopped::Signal);
    }
    let over = args.duration.is_some_and(|d| started.elapsed() >= d);
    over.then_some(Stopped::Duration)
}

/// What is told while it runs.
pub(super) struct Told<'a> {
    engine: &'static str,
    args: &'a Args,
    pub(super) started: Instant,
    cpu_ns: u64,
    text: Vec<u8>,
    next_table: u32,
    tty: bool,
    line_open: bool,
}

impl<'a> Told<'a> {
    pub(super) fn new(args: &'a Args, engine: &'static str) -> Self {
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

    pub(super) fn summary(&mut self, summary: TierSummary) -> anyhow::Result<()> {
        let elapsed = self.started.elapsed();
        if self.tty {
            write!(std::io::stderr(), "\r\x1b[K{}", status(elapsed.as_secs_f64(), &summary)).ok();
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

    pub(super) fn account(&mut self, stopped: Stopped, summary: TierSummary) -> anyhow::Result<()> {
        self.end_line();
        let account = self.make(Some(stopped), summary);
        self.print(&account)
    }

    fn make(&mut self, stopped: Option<Stopped>, summary: TierSummary) -> Account {
        let own = own_cost(&mut self.text);
        Account {
            engine: self.engine,
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
