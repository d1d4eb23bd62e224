//! The thread of one policy. It starts the policy, hears what its contexts tell, carries out
//! orders, and tries again after a failure.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;
use std::sync::mpsc::{Receiver, RecvTimeoutError, TryRecvError};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use isotherm_agent::policy::{ContextPolicy, Policy, Rollout, parse};
use isotherm_agent::run::{Event, Message, PagesLook, Reason, Refused, Runner, Seen, check};
use isotherm_control::error::{Kind, Refusal};
use isotherm_control::types::State;
use tracing::{info, warn};

use super::With;
use super::backoff::Backoff;
use super::order::{Answer, Ask, Order};
use super::records::Records;
use super::shown::Shown;
use super::{act_in, told, tuning};
use crate::budget::Limit;
use crate::hub;
use crate::rollout::{Held, Watch};
use crate::state::Wanted;

/// How long a message is waited for before orders are looked at.
const PATIENCE: Duration = Duration::from_millis(50);
/// Thrift leaves a context at least so many regions.
const LEAST_REGIONS: u64 = 20;
/// How long an idle thread sleeps if there is nothing to try again.
const IDLE: Duration = Duration::from_secs(3600);
/// The same while the policy is held, so that it is shown when that ends.
const HELD: Duration = Duration::from_secs(1);

/// One policy, and what runs of it.
#[derive(Debug)]
pub(super) struct Keeper {
    pub(super) name: String,
    pub(super) text: String,
    /// Why there is no text.
    unreadable: Option<String>,
    /// What the text says.
    pub(super) policy: Policy,
    pub(super) wanted: Wanted,
    /// Contexts that were paused or stopped one by one.
    pub(super) of_contexts: BTreeMap<String, Wanted>,
    /// What its contexts have to keep to, by name.
    limits: BTreeMap<String, Limit>,
    pub(super) with: With,
    shown: Arc<Mutex<Shown>>,
    /// Why it only watches; none if it does what it says.
    pub(super) held: Option<Held>,
    /// Why its limits stopped it, until somebody starts it again.
    pub(super) tripped: Option<String>,
    pub(super) watch: Watch,
    records: Records,
    pub(super) runner: Option<Runner>,
    backoff: Backoff,
    retry_at: Option<Instant>,
    /// What contexts were asked to send for followers, and when they are asked again.
    pub(super) looking: Option<Receiver<Seen>>,
    /// Whether that is every window, until nobody wants that any more.
    is_watching: bool,
    look_at: Instant,
    accounts_at: Instant,
    /// What contexts were asked to send for fleet data, and when they are asked again.
    pub(super) fleet_looking: FleetLooking,
    pub(super) fleet_look_at: Instant,
}

/// What contexts were asked to send for fleet data.
#[derive(Debug, Default)]
pub(super) struct FleetLooking {
    pub(super) snapshots: Option<Receiver<Seen>>,
    pub(super) pages: Option<Receiver<PagesLook>>,
}

/// What a keeper begins with.
#[derive(Debug)]
pub(super) struct Begin {
    pub(super) name: String,
    /// The text, or why it cannot be read.
    pub(super) text: Result<String, String>,
    pub(super) file: Option<PathBuf>,
    pub(super) wanted: Wanted,
    pub(super) contexts: BTreeMap<String, Wanted>,
    pub(super) with: With,
}

impl Keeper {
    pub(super) fn new(begin: Begin) -> (Self, Arc<Mutex<Shown>>) {
        let Begin { name, text, file, wanted, contexts, with } = begin;
        let (text, unreadable) = match text {
            Ok(text) => (text, None),
            Err(why) => (String::new(), Some(why)),
        };
        let shown = Shown { file, text: text.clone(), ..Shown::default() };
        let shown = Arc::new(Mutex::new(shown));
        let now = Instant::now();
        let this = Self {
            text,
            unreadable,
            policy: Policy::default(),
            wanted,
            of_contexts: contexts,
            limits: BTreeMap::new(),
            held: None,
            tripped: with.trips.of(&name),
            watch: Watch::new(Rollout::default(), Path::new("/proc")),
            records: Records::new(&name, with.history.clone()),
            with,
            shown: Arc::clone(&shown),
            runner: None,
            backoff: Backoff::default(),
            retry_at: None,
            looking: None,
            is_watching: false,
            look_at: now,
            accounts_at: now,
            fleet_looking: FleetLooking::default(),
            fleet_look_at: now,
            name,
        };
        (this, shown)
    }

    /// Runs until `Quit` comes, or nobody can send orders any more.
    pub(super) fn run(mut self, orders: &Receiver<Ask>) {
        self.begin();
        self.shown().tried = true;
        loop {
            self.heed();
            let ask = match &self.runner {
                Some(_) => match orders.try_recv() {
                    Ok(ask) => Some(ask),
                    Err(TryRecvError::Empty) => None,
                    Err(TryRecvError::Disconnected) => break,
                },
                None => match orders.recv_timeout(self.rest()) {
                    Ok(ask) => Some(ask),
                    Err(RecvTimeoutError::Timeout) => None,
                    Err(RecvTimeoutError::Disconnected) => break,
                },
            };
            match ask {
                Some(Ask { order: Order::Quit, answer }) => {
                    self.stop();
                    answer.send(Ok(Answer::Done)).ok();
                    return;
                }
                Some(Ask { order, answer }) => drop(answer.send(self.obey(order))),
                None => self.turn(),
            }
        }
        self.stop();
    }

    pub(super) fn shown(&self) -> MutexGuard<'_, Shown> {
        self.shown.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The first try.
    fn begin(&mut self) {
        match self.wanted {
            Wanted::Stopped => self.show(State::Stopped, None),
            Wanted::Running | Wanted::Paused => drop(self.start()),
        }
    }

    /// How long to sleep while nothing runs.
    fn rest(&self) -> Duration {
        let idle = if self.held.is_some() { HELD } else { IDLE };
        let at = self.retry_at.map(|at| at.saturating_duration_since(Instant::now()));
        at.unwrap_or(idle).min(idle)
    }

    /// One turn without an order.
    fn turn(&mut self) {
        let Some(runner) = &mut self.runner else {
            if self.retry_at.is_some_and(|at| at <= Instant::now()) {
                drop(self.start());
            }
            return;
        };
        if let Some(message) = runner.next(PATIENCE) {
            self.hear(message);
        }
        if self.runner.as_ref().is_some_and(Runner::is_over) {
            self.runner = None;
            let why = "no target is left";
            info!(policy = self.name, "{why}");
            self.failed(why.to_owned());
        }
        if let Some(runner) = &self.runner {
            self.records.turn(runner);
        }
        self.feed();
    }

    fn obey(&mut self, order: Order) -> Result<Answer, Refusal> {
        match order {
            Order::Become(wanted, None) => self.become_(wanted).map(|()| Answer::Done),
            Order::Become(wanted, Some(context)) => {
                self.context_becomes(&context, wanted).map(|()| Answer::Done)
            }
            Order::Commit { text, check } => self.commit(text, check),
            Order::Look => match &self.runner {
                Some(runner) => Ok(Answer::Looking(runner.look())),
                None => Err(self.wrong_state("look at", "it does not run")),
            },
            Order::Limit(limits) => {
                self.limit(limits);
                Ok(Answer::Done)
            }
            Order::Thrift => {
                self.limit(BTreeMap::new());
                Ok(Answer::Done)
            }
            Order::Shed => {
                if self.runner.is_some() {
                    self.stop();
                    self.failed("the agent is short of memory (`isotherm agent --memory`)".into());
                }
                Ok(Answer::Done)
            }
            Order::Quit => Ok(Answer::Done),
        }
    }

    /// Notes what a policy asks for, now that it is in force.
    fn asks(&mut self, policy: Policy) {
        let asked = policy.contexts.iter().map(|c| (c.name.clone(), c.attrs.budget_bp)).collect();
        self.shown().asked = asked;
        self.policy = policy;
    }

    /// Lets contexts keep to these limits from now on. Only those that run are committed to, since
    /// a commit would start the others again.
    fn limit(&mut self, limits: BTreeMap<String, Limit>) {
        let Some(runner) = &self.runner else { return };
        for (context, limit) in limits {
            if limit.slow > 0 {
                let times = 1 << limit.slow;
                warn!(
                    policy = self.name,
                    context, "costs too much: its intervals are {times} times as long"
                );
            }
            self.limits.insert(context, limit);
        }
        let policy = self.limited(runner.policy(), &self.policy);
        let Some(runner) = &mut self.runner else { return };
        if let Err(refused) = runner.commit(policy) {
            warn!(policy = self.name, "cannot keep to its budget: {refused}");
        }
    }

    /// The policy with attributes that keep to the limits, when it asks for those of `asked`.
    pub(super) fn limited(&self, policy: Policy, asked: &Policy) -> Policy {
        let mut policy = self.held_back(policy);
        let thrift = self.with.thrift.load(Ordering::Relaxed);
        for context in &mut policy.contexts {
            let of_name = |asked: &&ContextPolicy| asked.name == context.name;
            let Some(asked) = asked.contexts.iter().find(of_name) else { continue };
            let attrs = &mut context.attrs;
            let fewer = (asked.attrs.max_nr_regions >> thrift).max(LEAST_REGIONS);
            let least = fewer.max(asked.attrs.min_nr_regions);
            attrs.max_nr_regions = least.min(asked.attrs.max_nr_regions);
            if let Some(limit) = self.limits.get(&context.name) {
                attrs.budget_bp = limit.budget_bp;
                attrs.sample_us = asked.attrs.sample_us << limit.slow;
                attrs.aggr_us = asked.attrs.aggr_us << limit.slow;
                attrs.update_us = asked.attrs.update_us << limit.slow;
                context.slowed = limit.slow;
            }
        }
        policy
    }

    fn wrong_state(&self, what: &str, why: &str) -> Refusal {
        let state = self.shown().state.name();
        let what = format!("cannot {what} policy `{}`", self.name);
        let hint = "`isotherm ctl list` shows the state of every policy";
        Refusal::new(Kind::WrongState, what, format!("{why} (it is {state})"), hint)
    }

    fn become_(&mut self, wanted: Wanted) -> Result<(), Refusal> {
        let state = self.shown().state;
        match (wanted, state) {
            (Wanted::Running, State::Running)
                if self.of_contexts.is_empty() && self.tripped.is_none() =>
            {
                return Err(self.wrong_state("start", "it runs already"));
            }
            (Wanted::Paused, State::Paused | State::Stopped | State::Waiting | State::Invalid) => {
                return Err(self.wrong_state("pause", "only a policy that runs can be paused"));
            }
            (Wanted::Stopped, State::Stopped) => {
                return Err(self.wrong_state("stop", "it is stopped already"));
            }
            _ => {}
        }
        if wanted == Wanted::Running && self.forgive()? && state == State::Running {
            self.heed();
        }
        // What is said of the policy is said of all its contexts.
        let single = std::mem::take(&mut self.of_contexts);
        let stopped = single.iter().filter(|(_, wanted)| **wanted == Wanted::Stopped);
        let stopped: Vec<&str> = stopped.map(|(name, _)| name.as_str()).collect();
        if wanted != Wanted::Stopped
            && !stopped.is_empty()
            && let Err(refused) = self.commit_with(&stopped, None)
        {
            self.of_contexts = single;
            return Err(Refusal::of_policy(refused.code, &refused.text));
        }
        self.wanted = wanted;
        match (wanted, &self.runner) {
            (Wanted::Stopped, _) => {
                self.stop();
                self.backoff.reset();
                self.show(State::Stopped, None);
                info!(policy = self.name, "stopped");
            }
            (_, Some(runner)) => {
                let pause = wanted == Wanted::Paused;
                runner.pause(pause);
                self.show(if pause { State::Paused } else { State::Running }, None);
                info!(policy = self.name, "{}", if pause { "paused" } else { "goes on" });
            }
            (_, None) => {
                self.backoff.reset();
                self.start()?;
            }
        }
        Ok(())
    }

    /// Starts the policy. If that fails, it is tried again later.
    pub(super) fn start(&mut self) -> Result<(), Refusal> {
        self.retry_at = None;
        self.show(State::Starting, None);
        let policy = match self.read() {
            Ok(policy) => policy,
            Err(refused) => {
                warn!(policy = self.name, "{refused}");
                self.show(State::Invalid, Some(refused.text.clone()));
                return Err(Refusal::of_policy(refused.code, &refused.text));
            }
        };
        for text in policy.deprecated() {
            warn!(policy = self.name, "{text}");
        }
        self.hold_for(&policy);
        // Who starts again asks for its share anew.
        self.limits.clear();
        let begun = self.chosen(policy.clone());
        match Runner::start_noting(
            self.limited(begun, &policy),
            self.with.options,
            Some(Arc::clone(&self.with.notes)),
        ) {
            Ok(runner) => {
                self.backoff.started(Instant::now());
                self.asks(policy);
                self.runner = Some(runner);
                self.pause_as_wanted();
                let paused = self.wanted == Wanted::Paused;
                self.show(if paused { State::Paused } else { State::Running }, None);
                info!(policy = self.name, "started");
                self.tell_fleet();
                Ok(())
            }
            Err(refused) => {
                let refusal = Refusal::of_policy(refused.code, &refused.text);
                self.failed(refused.text);
                Err(refusal)
            }
        }
    }

    fn read(&self) -> Result<Policy, Refused> {
        match &self.unreadable {
            Some(why) => Err(Refused { code: 2, text: why.clone() }),
            None => self.parsed(&self.text),
        }
    }

    /// What a text says, with the place where its tuned values are kept.
    fn parsed(&self, text: &str) -> Result<Policy, Refused> {
        let mut policy = read(&self.name, text)?;
        tuning::keep(&mut policy, &self.with.tuned_dir, &self.name)?;
        for held in act_in::hold_back(&mut policy, self.with.act_in.as_deref()) {
            info!(policy = self.name, "{held}");
        }
        Ok(policy)
    }

    /// Notes a failure, and when the policy is tried again.
    pub(super) fn failed(&mut self, why: String) {
        let now = Instant::now();
        let at = self.backoff.failed(now);
        self.retry_at = Some(at);
        let tries = self.backoff.tries();
        // A policy that waits for its targets for days must not fill the log.
        if tries <= 3 || tries.is_power_of_two() {
            let wait = (at - now).as_secs();
            warn!(policy = self.name, "does not run, tried again in {wait} s: {why}");
        }
        self.show(State::Waiting, Some(why));
    }

    /// Stops what runs, and hears it to its end.
    pub(super) fn stop(&mut self) {
        self.retry_at = None;
        self.looking = None;
        if let Some(runner) = &self.runner {
            runner.stop();
        }
        while let Some(runner) = &mut self.runner {
            if runner.is_over() {
                break;
            }
            if let Some(message) = runner.next(PATIENCE) {
                self.hear(message);
            }
        }
        self.runner = None;
    }

    fn commit(&mut self, text: String, only_check: bool) -> Result<Answer, Refusal> {
        let of = |refused: Refused| Refusal::of_policy(refused.code, &refused.text);
        let policy = self.parsed(&text).map_err(of)?;
        let contexts = policy.contexts.len();
        let schemes = policy.contexts.iter().map(|c| c.schemes.len()).sum();
        let committed = Answer::Committed { contexts, schemes };
        if only_check {
            return match check(&policy).into_iter().find(|problem| problem.fatal) {
                Some(problem) => Err(Refusal::of_policy(problem.code, &problem.text)),
                None => Ok(committed),
            };
        }
        self.undo_if_held_by(&policy)?;
        if self.runner.is_some() {
            let rollout = self.policy.rollout.clone();
            self.hold_for(&policy);
            let limited = self.limited(self.chosen(policy.clone()), &policy);
            let done = self.runner.as_mut().map_or(Ok(()), |runner| runner.commit(limited));
            if let Err(refused) = done {
                self.hold_for(&Policy { rollout, ..Policy::default() });
                return Err(of(refused));
            }
            // A context that is new is asked as well, next time.
            self.looking = None;
            self.asks(policy);
            self.pause_as_wanted();
            self.text = text;
        } else {
            let before = std::mem::replace(&mut self.text, text);
            let unreadable = self.unreadable.take();
            if self.wanted != Wanted::Stopped
                && let Err(refusal) = self.start()
            {
                // The former text failed as well, or it would run. It is tried again as before.
                (self.text, self.unreadable) = (before, unreadable);
                return Err(refusal);
            }
        }
        let mut shown = self.shown();
        shown.text.clone_from(&self.text);
        shown.commits += 1;
        if self.policy.tuning.online.is_none() {
            shown.tuned = None;
        }
        drop(shown);
        self.tell_fleet();
        info!(policy = self.name, "committed");
        Ok(committed)
    }

    pub(super) fn show(&self, state: State, why: Option<String>) {
        let mut shown = self.shown();
        shown.state = state;
        shown.why = why;
        shown.tries = self.backoff.tries();
        shown.retry_at = self.retry_at;
        shown.of_contexts.clone_from(&self.of_contexts);
        if !matches!(state, State::Running | State::Paused) {
            shown.contexts.clear();
            shown.watched.clear();
            shown.denied.clear();
            shown.tuned = None;
        }
        drop(shown);
        self.tell_fleet();
    }

    fn hear(&mut self, message: Message) {
        if let Some(exporter) = &self.with.metrics {
            let mut exporter = exporter.lock().unwrap_or_else(PoisonError::into_inner);
            let name = format!("{}/{}", self.name, message.context);
            if let Some(trouble) = exporter.hear(&name, &message) {
                warn!("{trouble}");
            }
        }
        if let Some(fleet) = &self.with.fleet {
            fleet.hear(&self.name, &message);
        }
        self.watch_limits(&message);
        let Message { context, at, event } = message;
        told::log(&self.name, &context, &event);
        self.with.hub.send(hub::Kind::Event, &self.name, &context, || {
            told::event(&self.name, &context, at, &event)
        });
        match event {
            Event::Ready(ready) => {
                let mut shown = self.shown();
                ready.ops.clone_into(&mut shown.context(&context).ops);
                drop(shown);
                self.records.wanted(&context);
            }
            Event::Unrecorded { text } => self.records.failed(&context, &text),
            Event::Tuned(tuned) if !tuned.values.is_empty() => {
                self.shown().tuned = Some(tuned.values);
            }
            Event::Summary(summary) => self.shown().note(&self.name, &context, &summary),
            Event::Ended(ended) => {
                self.shown().forget(&context);
                self.records.ended(&context);
                if let Reason::Failed { text, .. } = ended.reason {
                    // Without this context the rest is no longer the policy that was asked for.
                    self.stop();
                    self.failed(format!("context `{context}`: {text}"));
                }
            }
            _ => {}
        }
    }

    /// Sends followers what they want to have from time to time.
    fn feed(&mut self) {
        let now = Instant::now();
        self.feed_fleet(now);
        if let Some(looking) = self.looking.take() {
            loop {
                match looking.try_recv() {
                    Ok(seen) => {
                        let text = || told::snapshot(&self.name, &seen);
                        self.with.hub.send(hub::Kind::Snapshot, &self.name, &seen.context, text);
                    }
                    Err(TryRecvError::Empty) => {
                        self.looking = Some(looking);
                        break;
                    }
                    Err(TryRecvError::Disconnected) => break,
                }
            }
        }
        let every = self.with.hub.every(hub::Kind::Snapshot, &self.name);
        let wants_all = every == Some(Duration::ZERO);
        if self.is_watching && !wants_all {
            self.looking = None;
        }
        if self.looking.is_none()
            && (now >= self.look_at || wants_all)
            && let Some(every) = every
        {
            let look = if wants_all { Runner::watch } else { Runner::look };
            self.looking = self.runner.as_ref().map(look);
            self.is_watching = wants_all;
            self.look_at = now + every;
        }
        if now >= self.accounts_at
            && let Some(every) = self.with.hub.every(hub::Kind::Accounts, &self.name)
        {
            let accounts = self.shown().accounts.clone();
            self.with.hub.send(hub::Kind::Accounts, &self.name, "", || told::accounts(accounts));
            self.accounts_at = now + every.max(hub::LEAST);
        }
    }
}

/// Reads the text of a policy that has to name its targets itself.
fn read(name: &str, text: &str) -> Result<Policy, Refused> {
    let policy = parse(text, name).map_err(|errors| Refused {
        code: 2,
        text: format!("policy `{name}` is not valid\n{errors}"),
    })?;
    match policy.contexts.iter().find(|c| c.targets.is_empty()) {
        Some(context) => Err(Refused {
            code: 2,
            text: format!(
                "policy `{name}`: context `{}` has no target\n  why:   an agent starts no command\n  \
                 hint:  name targets in the policy",
                context.name
            ),
        }),
        None => Ok(policy),
    }
}
