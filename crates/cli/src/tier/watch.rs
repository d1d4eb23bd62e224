//! Runs a tiering policy to its end, and prints its messages.

use std::process::ExitCode;
use std::time::Duration;

use isotherm::raw::act::apply::ActEvent;
use isotherm::raw::agent::policy::{ContextPolicy, Policy};
use isotherm::raw::agent::run::{Ended, Event, Options, Reason, Runner, Summary};
use isotherm::raw::agent::tier::{Hierarchy, links};
use isotherm::raw::host::Roots;
use isotherm::raw::host::nodes::Gauge;
use isotherm::raw::sys::signals;

use super::output::Output;
use super::report::TierSummary;
use super::{Args, Engine};
use crate::act::stopped::Stopped;
use crate::exit;
use crate::terminal::warn;

/// How long to wait for a message before signals and the duration are checked.
const PATIENCE: Duration = Duration::from_millis(50);
/// After this many seconds in a row in which the nodes cannot be read, tiering ends.
const UNREADABLE_S: u32 = 10;

/// Runs the policy until it ends, or has to stop.
pub(super) fn run(
    args: &Args,
    hierarchy: &Hierarchy,
    policy: Policy,
    engine: Engine,
) -> anyhow::Result<ExitCode> {
    signals::install()?;
    let options = Options { seed: args.seed, ..Options::default() };
    let context = policy.contexts.first().cloned().unwrap_or_default();
    let runner = Runner::start(policy, options).map_err(exit::refused)?;
    let mut output = Output::new(args, engine);
    for line in &hierarchy.why {
        output.say(line);
    }
    output.say(match engine {
        Engine::Kernel => {
            "engine `kernel`: DAMON over the physical memory of the machine, one kdamond"
        }
        Engine::Isotherm => {
            "engine `isotherm`: page tables of processes, pages moved by move_pages"
        }
    });
    let gauge = Gauge::new(&hierarchy.nodes());
    let last = TierSummary::default();
    let mut watch = Watch {
        args,
        engine,
        hierarchy,
        context,
        runner,
        output,
        gauge,
        unreadable_s: 0,
        last,
        broken: None,
    };
    let (ended, stopped) = watch.until_the_end()?;
    watch.end(ended, stopped)
}

struct Watch<'a> {
    args: &'a Args,
    engine: Engine,
    hierarchy: &'a Hierarchy,
    context: ContextPolicy,
    runner: Runner,
    output: Output<'a>,
    gauge: Gauge,
    /// Seconds in a row in which the nodes could not be read.
    unreadable_s: u32,
    last: TierSummary,
    /// Why tiering cannot go on, if it cannot.
    broken: Option<String>,
}

impl Watch<'_> {
    /// Prints the runner's messages until its context has ended. Also returns why the context was
    /// asked to end, if it was.
    fn until_the_end(&mut self) -> anyhow::Result<(Option<Ended>, Option<Stopped>)> {
        let mut stopped = None;
        let mut ended = None;
        while !self.runner.is_over() {
            if let Some(message) = self.runner.next(PATIENCE) {
                match message.event {
                    Event::Ended(end) => ended = Some(end),
                    event => self.event(event)?,
                }
            }
            if stopped.is_none() {
                stopped = self.why_stop();
                if stopped.is_some() {
                    self.runner.stop();
                }
            }
        }
        Ok((ended, stopped))
    }

    fn event(&mut self, event: Event) -> anyhow::Result<()> {
        match event {
            Event::Ready(ready) => ready.why.iter().for_each(|line| self.output.say(line)),
            Event::LeftOut { text, .. } | Event::Unrecorded { text } => self.output.warn(&text),
            Event::Act(ActEvent::Trouble { pid, text, .. }) => {
                let prefix = if pid == 0 { String::new() } else { format!("process {pid}: ") };
                self.output.warn(&format!("{prefix}{text}"));
            }
            Event::Act(ActEvent::Blocked { text, .. }) => {
                self.output.warn(&format!("nothing is moved any more: {text}"));
            }
            Event::Lost { events } | Event::Act(ActEvent::Lost { events, .. }) => {
                self.output.warn(&format!("{events} events were dropped: they came too fast"));
            }
            Event::Unblocked => self.output.say("pages are moved again"),
            Event::Summary(summary) => self.summary(*summary)?,
            Event::Added(_)
            | Event::Gone { .. }
            | Event::Act(_)
            | Event::Undone { .. }
            | Event::Committed
            | Event::Tuned(_)
            | Event::Ended(_) => {}
        }
        Ok(())
    }

    fn summary(&mut self, summary: Summary) -> anyhow::Result<()> {
        let levels = match self.gauge.read(&Roots::default()) {
            Ok(levels) => levels,
            Err(text) => {
                self.not_read(&text);
                return Ok(());
            }
        };
        self.unreadable_s = 0;
        let by_kernel = self.engine == Engine::Kernel;
        let links = links(self.hierarchy, &self.context, &summary, &levels, by_kernel);
        self.last = TierSummary { links, of: summary };
        self.output.summary(&self.last)
    }

    /// Counts a second in which the nodes could not be read. Schemes do nothing in it, since the
    /// values of their goals are not known.
    fn not_read(&mut self, text: &str) {
        self.unreadable_s += 1;
        if self.unreadable_s == 1 {
            self.output.warn(&format!("nothing is moved now: {text}"));
        }
        if self.unreadable_s == UNREADABLE_S {
            self.broken = Some(format!(
                "the hierarchy is broken\n  why:   {text}\n  hint:  was a node unplugged? start again with those \
                 that are left"
            ));
        }
    }

    fn why_stop(&self) -> Option<Stopped> {
        if self.broken.is_some() {
            return Some(Stopped::Failed);
        }
        if signals::stop_requested().is_some() {
            return Some(Stopped::Signal);
        }
        let over = self.args.duration.is_some_and(|d| self.output.started.elapsed() >= d);
        over.then_some(Stopped::Duration)
    }

    /// Prints the last account, with what the context counted until its end.
    fn end(mut self, ended: Option<Ended>, stopped: Option<Stopped>) -> anyhow::Result<ExitCode> {
        let Some(Ended { reason, accounts, child, late, missing }) = ended else {
            return Err(exit::with(exit::UNEXPECTED, "the context ended without a report"));
        };
        for account in accounts {
            let same =
                |s: &&mut isotherm::raw::agent::run::Standing| s.account.name == account.name;
            if let Some(standing) = self.last.of.schemes.iter_mut().find(same) {
                standing.account = account;
            }
        }
        let stopped = match &reason {
            Reason::Failed { .. } => Stopped::Failed,
            Reason::TargetsGone => Stopped::TargetsGone,
            Reason::Stopped => stopped.unwrap_or(Stopped::Signal),
        };
        self.output.account(stopped, &self.last)?;
        if let Some(text) = self.broken {
            return Err(exit::with(exit::NOT_SUPPORTED, text));
        }
        if let Reason::Failed { code, text } = reason {
            return Err(exit::with(code, text));
        }
        if let Some(late) = late {
            warn(&late.to_string());
            if late.is_much() {
                return Ok(ExitCode::from(exit::PARTIAL));
            }
        }
        Ok(match child {
            Some(child) => exit::of_child(child),
            None => missing.map_or(ExitCode::SUCCESS, |refused| ExitCode::from(refused.code)),
        })
    }
}
