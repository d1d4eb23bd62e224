//! Phases on a program that runs: untouched ones, and ones with a candidate in force.
//!
//! ```text
//! untouched A A untouched B B untouched ...      A, B: candidates, after they have settled
//! ```
//!
//! One runner stays for the whole time. In untouched phases its contexts have no schemes, but go on
//! watching, so a candidate finds memory that was idle for long at once. Watching itself is in both
//! phases, and so not in the slowdown. Before a phase counts as untouched, all that trials have
//! paged out is brought back ([`Process::bring_back`]): left to itself, cold memory would stay in
//! swap, and the next candidate would be credited with it. What was brought back is as idle as it
//! was. So only the first candidates wait until memory has been watched for long enough.
//!
//! Invariants: however tuning ends, [`Lab::put_back`] leaves no scheme in force and nothing in swap
//! that was not there by the kernel's own doing. Huge pages that a candidate made are split when it
//! is no longer in force, so that no later phase has them. Before Linux 6.12, the memory that they
//! had brought in stays.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use isotherm::raw::act::Process;
use isotherm::raw::act::apply::ActEvent;
use isotherm::raw::agent::gauge::{Gauge, Phase, Source, Unread};
use isotherm::raw::agent::policy::{Policy, SchemePolicy, confirm_us, min_age_us};
use isotherm::raw::agent::run::{Event, Options, Reason, Refused, Runner};
use isotherm::raw::agent::tune::{Brake, Trial};
use isotherm::raw::core::scheme::{Action, Watermarks};
use isotherm::raw::ops::targets::ChildExit;
use isotherm::raw::report::plan::LATEST;
use isotherm::raw::sys::signals;

use crate::exit;
use crate::terminal::warn;

const PATIENCE: Duration = Duration::from_millis(20);
const SAMPLE: Duration = Duration::from_millis(200);
/// After a change, before anything counts.
const SETTLE: Duration = Duration::from_secs(1);
/// A candidate settles for longer while more than this share of memory leaves in a slice.
const MOVES: f64 = 0.01;
/// But for no more than so many slices.
const MORE: u32 = 8;

/// Why there are no more phases.
#[derive(Debug)]
pub(super) enum Halt {
    /// The user asked for it.
    Signal,
    /// No target is left.
    TargetsGone,
    /// A context, or a measurement, failed.
    Failed(anyhow::Error),
}

impl From<anyhow::Error> for Halt {
    fn from(err: anyhow::Error) -> Self {
        Self::Failed(err)
    }
}

impl From<Unread> for Halt {
    fn from(unread: Unread) -> Self {
        Self::Failed(exit::unread(unread))
    }
}

impl From<Refused> for Halt {
    fn from(refused: Refused) -> Self {
        Self::Failed(exit::refused(refused))
    }
}

type Result<T> = std::result::Result<T, Halt>;

/// What became of a candidate's phase.
#[derive(Debug)]
pub(super) enum Done {
    /// It was measured to its end.
    Measured(Phase),
    /// It was stopped, since the program was far too slow.
    Broken(Phase),
    /// It could not be put in force.
    Refused(Refused),
}

/// A program that is tried.
#[derive(Debug)]
pub(super) struct Lab {
    runner: Runner,
    source: Source,
    phase: Duration,
    /// The policy without schemes.
    untouched: Policy,
    pids: BTreeSet<u32>,
    /// Since when targets are watched.
    watched_since: Instant,
    warned: BTreeSet<String>,
    child: Option<ChildExit>,
    ended: Option<Ended>,
}

#[derive(Debug)]
enum Ended {
    TargetsGone,
    Failed { code: u8, text: String },
}

impl Lab {
    /// Starts watching; nothing is done to the targets.
    pub(super) fn start(
        policy: &Policy,
        source: Source,
        phase: Duration,
        seed: Option<u64>,
    ) -> std::result::Result<Self, Refused> {
        let mut untouched = policy.clone();
        untouched.contexts.iter_mut().for_each(|context| context.schemes.clear());
        untouched.tuning.online = None;
        // The schemes are checked by the machine before anything is begun.
        if let Some(problem) =
            isotherm::raw::agent::run::check(policy).into_iter().find(|problem| problem.fatal)
        {
            return Err(Refused { code: problem.code, text: problem.text });
        }
        let options = Options { seed, undo_on_exit: true, undo_huge: true, ..Options::default() };
        let runner = Runner::start(untouched.clone(), options)?;
        Ok(Self {
            runner,
            source,
            phase,
            untouched,
            pids: BTreeSet::new(),
            watched_since: Instant::now(),
            warned: BTreeSet::new(),
            child: None,
            ended: None,
        })
    }

    /// The runner, to record with.
    pub(super) const fn runner(&self) -> &Runner {
        &self.runner
    }

    /// What tells of progress.
    pub(super) const fn source(&self) -> &Source {
        &self.source
    }

    /// Takes in what contexts have to say, for a moment.
    fn listen(&mut self) {
        let Some(told) = self.runner.next(PATIENCE) else { return };
        let context = told.context;
        match told.event {
            Event::Added(target) => drop(self.pids.insert(target.pid)),
            Event::Gone { pid, .. } => drop(self.pids.remove(&pid)),
            Event::LeftOut { text, .. } => self.warn_once(format!("{context}: {text}")),
            Event::Act(ActEvent::Trouble { scheme, text, .. }) => {
                self.warn_once(format!("{context} / {scheme}: {text}"));
            }
            Event::Act(ActEvent::Blocked { text, .. }) => {
                self.warn_once(format!("{context}: actions are blocked: {text}"));
            }
            Event::Ended(ended) => {
                self.child = self.child.or(ended.child);
                match ended.reason {
                    Reason::Failed { code, text } => {
                        self.ended = Some(Ended::Failed { code, text });
                    }
                    Reason::TargetsGone => {
                        self.ended = self.ended.take().or(Some(Ended::TargetsGone));
                    }
                    Reason::Stopped => {}
                }
            }
            _ => {}
        }
    }

    fn warn_once(&mut self, text: String) {
        if self.warned.len() < 100 && !self.warned.contains(&text) {
            warn(&text);
            self.warned.insert(text);
        }
    }

    /// Fails if tuning cannot go on.
    fn go_on(&self) -> Result<()> {
        if signals::stop_requested().is_some() {
            return Err(Halt::Signal);
        }
        match &self.ended {
            Some(Ended::Failed { code, text }) => {
                Err(Halt::Failed(exit::with(*code, text.clone())))
            }
            Some(Ended::TargetsGone) => Err(Halt::TargetsGone),
            None if self.runner.is_over() => Err(Halt::TargetsGone),
            None => Ok(()),
        }
    }

    /// Lets time pass.
    pub(super) fn wait(&mut self, time: Duration) -> Result<()> {
        let until = Instant::now() + time;
        loop {
            self.listen();
            self.go_on()?;
            if Instant::now() >= until {
                return Ok(());
            }
        }
    }

    /// Waits until there is a target with memory.
    pub(super) fn wait_for_targets(&mut self) -> Result<()> {
        while self.pids.is_empty() {
            self.listen();
            self.go_on()?;
        }
        self.wait(SETTLE)
    }

    /// Measures for a while. With a brake it stops as soon as the program is far too slow compared
    /// with `off`; returns whether it did.
    fn measure(&mut self, time: Duration, brake: Option<(&Phase, Brake)>) -> Result<(Phase, bool)> {
        let source = self.source.clone();
        let mut gauge = Gauge::begin(&source, &self.pids)?;
        let begun = Instant::now();
        let (mut sampled, mut checked) = (begun, begun);
        while begun.elapsed() < time {
            self.listen();
            self.go_on()?;
            if sampled.elapsed() >= SAMPLE {
                gauge.sample(&self.pids)?;
                sampled = Instant::now();
            }
            let Some((off, brake)) = brake else { continue };
            if checked.elapsed() < SETTLE {
                continue;
            }
            checked = Instant::now();
            let so_far = gauge.read(&self.pids)?;
            let share = begun.elapsed().as_secs_f64() / self.phase.as_secs_f64();
            if brake.stops(so_far.slowdown(off, &source), share) {
                return Ok((so_far, true));
            }
        }
        Ok((gauge.read(&self.pids)?, false))
    }

    /// Puts everything back, and measures an untouched phase.
    pub(super) fn untouched(&mut self, time: Duration) -> Result<Phase> {
        self.go_on()?;
        self.bring_back()?;
        self.wait(SETTLE)?;
        Ok(self.measure(time, None)?.0)
    }

    /// Commits no schemes, and brings back what was paged out.
    fn bring_back(&mut self) -> Result<()> {
        let committed = self.runner.commit(self.untouched.clone());
        committed?;
        for pid in self.pids.clone() {
            // A process that has ended has nothing in swap.
            let Ok(process) = Process::open(pid) else { continue };
            match process.bring_back(&mut || signals::stop_requested().is_some()) {
                Ok(restored) if restored.failed_bytes > 0 => self.warn_once(format!(
                    "process {pid}: some of its memory could not be brought back from swap"
                )),
                Err(err) if !process.is_gone() => {
                    self.warn_once(format!("memory stays in swap until it is used: {err}"));
                }
                _ => {}
            }
        }
        Ok(())
    }

    /// Puts a candidate in force, lets it settle, and measures.
    pub(super) fn candidate(&mut self, policy: &Policy, off: &Phase, brake: Brake) -> Result<Done> {
        self.go_on()?;
        let mut policy = policy.clone();
        policy.tuning.online = None;
        for scheme in policy.contexts.iter_mut().flat_map(|c| &mut c.schemes) {
            // Tuning is about when memory is short.
            scheme.scheme.watermarks = Watermarks::default();
            // Whether huge pages pay is what the phases show. A trial within a trial would take
            // longer than a phase.
            scheme.settings.prove = false;
            scheme.settings.progress = None;
        }
        if let Err(refused) = self.runner.commit(policy.clone()) {
            return Ok(Done::Refused(refused));
        }
        let until =
            (self.watched_since + watching(&policy)).max(Instant::now() + settling(&policy));
        let (mut before, mut more) = (f64::NAN, MORE);
        loop {
            let left = until.saturating_duration_since(Instant::now());
            let slice = self.phase.max(2 * SETTLE).min(left.max(SETTLE));
            let (phase, broken) = self.measure(slice, Some((off, brake)))?;
            if broken {
                return Ok(Done::Broken(phase));
            }
            // Quotas let memory leave slowly.
            let moved = (phase.swapped - before) / off.resident;
            before = phase.swapped;
            if Instant::now() >= until {
                more -= 1;
                if more == 0 || moved < MOVES {
                    break;
                }
            }
        }
        let (phase, broken) = self.measure(2 * self.phase, Some((off, brake)))?;
        Ok(if broken { Done::Broken(phase) } else { Done::Measured(phase) })
    }

    /// Takes the schemes out of force, brings memory back, and ends.
    pub(super) fn put_back(mut self) -> Option<ChildExit> {
        if self.ended.is_none() && !self.runner.is_over() {
            // The second request to stop ends what the first one began.
            let committed = self.runner.commit(self.untouched.clone());
            if committed.is_ok() {
                for pid in self.pids.clone() {
                    if let Ok(process) = Process::open(pid) {
                        process.bring_back(&mut || false).ok();
                    }
                }
            }
        }
        self.runner.stop();
        while !self.runner.is_over() {
            self.listen();
        }
        self.child
    }
}

/// The largest of what `of` says of the schemes that page out, by their ages.
fn largest(policy: &Policy, of: impl Fn(Duration, &SchemePolicy) -> Duration) -> Duration {
    let all = policy.contexts.iter().flat_map(|context| {
        let takes = context.schemes.iter().filter(|s| s.scheme.action == Action::Pageout);
        let of = &of;
        takes.map(move |scheme| of(Duration::from_micros(min_age_us(context, scheme)), scheme))
    });
    all.max().unwrap_or_default()
}

/// For how long targets have to be watched until it is known of all memory whether it is old
/// enough, as `plan` found it ([`LATEST`]).
pub(super) fn watching(policy: &Policy) -> Duration {
    largest(policy, |age, _| age.mul_f64(LATEST.0) + Duration::from_secs_f64(LATEST.1))
}

/// How long it takes at least until what is old enough has left: twice the time in which pages are
/// watched once more.
pub(super) fn settling(policy: &Policy) -> Duration {
    SETTLE + largest(policy, |_, scheme| Duration::from_micros(2 * confirm_us(scheme)))
}

/// A trial from the phases before, during and after.
pub(super) fn trial(before: &Phase, during: &Phase, after: &Phase, source: &Source) -> Trial {
    let off = before.mean(after);
    Trial { saved: during.saved(&off), slowdown: during.slowdown(&off, source) }
}
