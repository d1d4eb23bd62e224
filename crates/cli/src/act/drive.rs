//! Runs a policy to its end and reports on it: warnings, a status line, the event log, and the
//! account at the end.

use std::collections::{BTreeMap, BTreeSet};
use std::io::Write;
use std::path::Path;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use isotherm::raw::act::apply::ActEvent;
use isotherm::raw::agent::policy::{Policy, print};
use isotherm::raw::agent::run::{Account, Ended, Event, Message, Options, Reason, Runner, Values};
use isotherm::raw::host::proc::own_cost;
use isotherm::raw::ops::targets::ChildExit;
use isotherm::raw::sys::{clock, signals};
use isotherm_metrics::Exporter;
use serde_json::json;

use super::account::{Final, Tuned};
use super::args::{RunArgs, WhoseArgs};
use super::events::Log;

use super::status::Status;
use super::stopped::Stopped;
use super::verdict::Plan;
use crate::exit;
use crate::files;
use crate::options::metrics::build;
use crate::terminal::warn;

/// How long to wait for the next event before signals are checked.
const PATIENCE: Duration = Duration::from_millis(50);

/// Options that only some of the commands set.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Extra<'a> {
    /// The policy's file, which is read again at a SIGHUP.
    pub(super) file: Option<&'a Path>,
    /// Where the policy with its tuned values is written at the end.
    pub(super) tuned: Option<&'a Path>,
    /// Show idle times and bandwidth on standard output, about once per second.
    pub(super) percentiles: bool,
}

/// Runs the policy of a ready-made command, or only prints it with `--print-policy`.
pub(super) fn print_or_drive(
    policy: Policy,
    whose: &WhoseArgs,
    args: &RunArgs,
    extra: Extra<'_>,
) -> anyhow::Result<ExitCode> {
    match whose.only_print(&policy)? {
        Some(done) => Ok(done),
        None => {
            whose.refuse_missing()?;
            drive(policy, args, extra)
        }
    }
}

/// Runs a policy.
pub(super) fn drive(policy: Policy, args: &RunArgs, extra: Extra<'_>) -> anyhow::Result<ExitCode> {
    signals::install()?;
    if extra.file.is_some() {
        signals::reload_at_hangup()?;
    }
    let log = Log::create(args.events.as_deref())?;
    let outlets = args.metrics.outlets()?;
    let options = Options {
        dry_run: args.dry_run,
        undo_on_exit: args.undo_on_exit,
        undo_huge: false,
        seed: args.seed,
        by_cgroup: outlets.is_any(),
        by_age: false,
    };
    let plan = Plan::of(&policy);
    let exporter = outlets.is_any().then(|| Exporter::start(outlets, build())).transpose();
    let exporter = exporter.map_err(exit::of)?;
    let mut runner = Runner::start(policy, options).map_err(exit::refused)?;
    let mut run = Run::new(args, extra, log, plan);
    if let Some(address) = exporter.as_ref().and_then(Exporter::address) {
        run.say(&format!("metrics: {address}"));
    }
    run.exporter = exporter;
    let mut stopped = None;
    while !runner.is_over() {
        if let Some(told) = runner.next(PATIENCE) {
            run.hear(told)?;
        }
        if stopped.is_none() {
            stopped = run.why_stop();
            if let Some(why) = stopped {
                run.log.write(clock::now(), None, "stopping", json!({ "why": why }));
                runner.stop();
            }
        }
        if let Some(file) = extra.file
            && stopped.is_none()
            && signals::take_reload()
        {
            run.reload(&mut runner, file);
        }
    }
    run.tuned = runner.tuned();
    run.finish(stopped)
}

/// A run in progress.
struct Run<'a> {
    args: &'a RunArgs,
    extra: Extra<'a>,
    log: Log,
    plan: Plan,
    exporter: Option<Exporter>,
    status: Status,
    started: Instant,
    cpu_ns: u64,
    rss_bytes: u64,
    text: Vec<u8>,
    accounts: Vec<Account>,
    child: Option<ChildExit>,
    failed: Option<(u8, String)>,
    /// What the policy is tuned to.
    tuned: Option<Values>,
    /// The exit code for a process that the policy names and that was never watched.
    missing: Option<u8>,
    /// Whether much of the time was not watched.
    hole: bool,
    told_to_wait: bool,
    /// Contexts for which the user was told that they have no target yet.
    alone: BTreeSet<String>,
    /// What was found out last about whether the huge pages of a scheme pay, by context and name.
    proved: BTreeMap<(String, String), String>,
    /// Whether the head of the percentiles was printed.
    has_head: bool,
}

impl<'a> Run<'a> {
    fn new(args: &'a RunArgs, extra: Extra<'a>, log: Log, plan: Plan) -> Self {
        Self {
            args,
            extra,
            log,
            plan,
            exporter: None,
            status: Status::new(args.quiet || extra.percentiles),
            started: Instant::now(),
            cpu_ns: clock::process_cpu_ns(),
            rss_bytes: 0,
            text: Vec::new(),
            accounts: Vec::new(),
            child: None,
            failed: None,
            tuned: None,
            missing: None,
            hole: false,
            told_to_wait: false,
            alone: BTreeSet::new(),
            proved: BTreeMap::new(),
            has_head: false,
        }
    }

    /// Takes in an event of a context.
    fn hear(&mut self, told: Message) -> std::io::Result<()> {
        self.log.told(&told);
        let exporter = self.exporter.as_mut();
        if let Some(trouble) = exporter.and_then(|exporter| exporter.hear(&told.context, &told)) {
            self.warn(&trouble);
        }
        let context = told.context;
        match told.event {
            Event::Ready(ready) => ready.why.iter().for_each(|line| self.say(line)),
            Event::LeftOut { text, .. } => self.warn(&format!("{context}: {text}")),
            Event::Act(ActEvent::Trouble { scheme, pid, text, .. }) => {
                let scheme = if scheme.is_empty() { scheme } else { format!(" / {scheme}") };
                let whom = if pid == 0 { String::new() } else { format!(", process {pid}") };
                self.warn(&format!("{context}{scheme}{whom}: {text}"));
            }
            Event::Act(ActEvent::Proved { scheme, pid, text, .. }) => {
                self.say(&format!("{context} / {scheme}, process {pid}: {text}"));
                self.proved.insert((context, scheme), text);
            }
            Event::Act(ActEvent::Blocked { text, .. }) => {
                self.warn(&format!("{context}: actions are blocked from now on: {text}"));
            }
            Event::Lost { events } | Event::Act(ActEvent::Lost { events, .. }) => {
                self.warn(&format!(
                    "{context}: {events} events were dropped because they came too fast"
                ));
            }
            Event::Unrecorded { text } => self.warn(&format!("{context}: {text}")),
            Event::Unblocked => self.say(&format!("{context}: actions go on")),
            Event::Summary(summary) => {
                // The first one comes before the first window.
                if self.extra.percentiles && summary.nr_regions > 0 {
                    if !self.args.json && !std::mem::replace(&mut self.has_head, true) {
                        super::stat::head()?;
                    }
                    super::stat::show(
                        &summary,
                        self.started.elapsed().as_secs_f64(),
                        self.args.json,
                    )?;
                }
                let nobody = summary.nr_targets == 0 && summary.nr_regions == 0;
                if nobody && self.alone.insert(context.clone()) {
                    self.say(&format!("{context}: no target yet; waiting for one"));
                }
                self.status.note(&context, *summary);
                self.each_second();
            }
            Event::Undone { restored_bytes, replaced_bytes, left_bytes, .. } => {
                let text = super::status::undone(restored_bytes, replaced_bytes, left_bytes);
                self.say(&format!("{context}: huge page advice at the end: {text}"));
            }
            Event::Committed => self.say(&format!("{context}: the new policy is in force")),
            Event::Tuned(tuned) if matches!(tuned.what, "trouble" | "dropped") => {
                self.warn(&tuned.text);
            }
            Event::Tuned(tuned) => self.say(&tuned.text),
            Event::Ended(ended) => self.ended(&context, ended),
            Event::Added(_) | Event::Gone { .. } | Event::Act(ActEvent::Acted { .. }) => {}
        }
        Ok(())
    }

    fn ended(&mut self, context: &str, ended: Ended) {
        if let Reason::Failed { code, text } = ended.reason
            && self.failed.is_none()
        {
            self.failed = Some((code, text));
        }
        self.accounts.extend(ended.accounts);
        self.child = self.child.or(ended.child);
        if let Some(late) = ended.late {
            self.hole |= late.is_much();
            self.warn(&format!("{context}: {late}"));
        }
        self.missing = self.missing.or(ended.missing.map(|refused| refused.code));
    }

    fn each_second(&mut self) {
        let own = own_cost(&mut self.text);
        self.rss_bytes = self.rss_bytes.max(own.rss_bytes);
        #[expect(clippy::cast_precision_loss, reason = "shown with two digits")]
        let cpu_s = own.cpu_ns.saturating_sub(self.cpu_ns) as f64 / 1e9;
        let waits = self.status.all_wait().then(|| self.plan.waiting());
        if let Some(why) = &waits
            && !std::mem::replace(&mut self.told_to_wait, true)
        {
            self.say(&format!("waiting: {why}; `--watermarks none` acts always"));
        }
        self.status.show(self.started.elapsed().as_secs_f64(), cpu_s, waits.as_deref());
    }

    /// Whether the run is to stop now, and why.
    fn why_stop(&self) -> Option<Stopped> {
        if self.failed.is_some() {
            // Without this context the run is no longer the policy that the user wrote.
            return Some(Stopped::Failed);
        }
        if signals::stop_requested().is_some() {
            return Some(Stopped::Signal);
        }
        let over = self.args.duration.is_some_and(|d| self.started.elapsed() >= d);
        over.then_some(Stopped::Duration)
    }

    /// Reads the policy's file again, and commits it if all of it is valid.
    fn reload(&mut self, runner: &mut Runner, file: &Path) {
        let done = super::run::load(file).and_then(|policy| {
            let plan = Plan::of(&policy);
            runner.commit(policy).map_err(exit::refused)?;
            Ok(plan)
        });
        let done = done.map(|plan| self.plan = plan);
        if let Err(err) = done {
            let text = json!({ "text": err.to_string() });
            self.log.write(clock::now(), None, "commit_refused", text);
            self.warn(&format!("the old policy stays in force: {err}"));
        }
    }

    fn say(&mut self, text: &str) {
        if !self.args.quiet {
            self.status.end();
            writeln!(std::io::stderr(), "{text}").ok();
        }
    }

    fn warn(&mut self, text: &str) {
        self.status.end();
        warn(text);
    }

    /// Prints the account, and returns the exit code.
    fn finish(mut self, stopped: Option<Stopped>) -> anyhow::Result<ExitCode> {
        self.status.end();
        let own = own_cost(&mut self.text);
        let blocked = self.accounts.iter().any(|a| a.blocked.is_some());
        let stopped = match (&self.failed, stopped) {
            (Some(_), _) => Stopped::Failed,
            (None, Some(Stopped::Duration) | None) if blocked => Stopped::Blocked,
            (None, why) => why.unwrap_or(Stopped::TargetsGone),
        };
        let explained = self.accounts.iter().map(|a| {
            let (last, waits) = (self.status.last(&a.context), self.status.waits(a));
            let whose = (a.context.clone(), a.name.clone());
            let proved = self.proved.get(&whose).map(String::as_str);
            let text = self.plan.explain(a, last, waits, self.args.dry_run, proved);
            (whose, text)
        });
        let explained = explained.collect();
        let mut has_failed = false;
        if let (Some(path), Some(values)) = (self.extra.tuned, &self.tuned)
            && let Err(err) = std::fs::write(path, print(&values.policy))
        {
            self.warn(&files::cannot_create(path, &err).to_string());
            has_failed = true;
        }
        let account = Final {
            tuned: self.tuned.take().map(Tuned::from),
            explained,
            elapsed_ns: u64::try_from(self.started.elapsed().as_nanos()).unwrap_or(u64::MAX),
            own_cpu_ns: own.cpu_ns.saturating_sub(self.cpu_ns),
            own_rss_bytes: self.rss_bytes.max(own.rss_bytes),
            stopped,
            dry_run: self.args.dry_run || is_dry(&self.accounts),
            schemes: std::mem::take(&mut self.accounts),
        };
        self.log.write(clock::now(), None, "stopped", serde_json::to_value(&account)?);
        let mut out = std::io::stdout().lock();
        if self.args.json {
            serde_json::to_writer(&mut out, &account)?;
            writeln!(out)?;
        } else if self.failed.is_none() || account.schemes.iter().any(|s| s.windows > 0) {
            write!(out, "{}", account.text())?;
        }
        if let Some((code, text)) = self.failed {
            return Err(exit::with(code, text));
        }
        let child = self.child.map(exit::of_child);
        if self.log.has_failed() || self.hole || has_failed {
            return Ok(ExitCode::from(exit::PARTIAL));
        }
        Ok(match child {
            Some(code) => code,
            None if account.schemes.iter().any(|s| s.blocked.is_some()) => {
                ExitCode::from(exit::PARTIAL)
            }
            None => self.missing.map_or(ExitCode::SUCCESS, ExitCode::from),
        })
    }
}

/// Whether there are schemes that would act, and all of them are dry runs.
fn is_dry(accounts: &[Account]) -> bool {
    let mut acting = accounts.iter().filter(|a| a.action != "stat").peekable();
    acting.peek().is_some() && acting.all(|a| a.dry_run)
}
