//! The runner: starts, commits to and stops all contexts of a policy.

use std::cell::Cell;
use std::collections::{BTreeMap, VecDeque};
use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvError, RecvTimeoutError, Sender, channel};
use std::thread::JoinHandle;
use std::time::Duration;

use isotherm_act::apply::Notes;
use isotherm_host::error::{Class, Error, Kind};
use isotherm_ops::doctor::NoSet;
use isotherm_ops::support::SetName;

use super::context::{Order, acts, run_context};
use super::machine::check;
use super::message::{Envelope, Event, EventSender, Message, PagesLook, Reason, Seen};
use super::tuning::{Tuner, Values};
use crate::gauge::Unread;
use crate::groups::Wanted;
use crate::policy::{ContextPolicy, Policy, TargetSpec};
use crate::tune::Space;

/// How often the tuner has a turn, at least.
const TURN: Duration = Duration::from_millis(100);

/// How a policy is run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Options {
    /// Decide and count, but change nothing, whatever the schemes say.
    pub dry_run: bool,
    /// Take back the advice that was set in the targets when a context ends.
    pub undo_on_exit: bool,
    /// Split huge pages that schemes made when a policy without schemes is in force, and when a
    /// context ends.
    pub undo_huge: bool,
    /// Seed for the random choice of pages; none: a different one for each run.
    pub seed: Option<u64>,
    /// Tell in summaries what every cgroup uses. That takes 0.5 KiB of memory per 2 MiB watched.
    pub by_cgroup: bool,
    /// With that, also tell how long their pages were idle, and what came back.
    pub by_age: bool,
}

/// The refusal of a policy. Nothing has changed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refused {
    /// The exit code that a program should end with.
    pub code: u8,
    /// What was tried, why it was refused, and what to do; for people.
    pub text: String,
}

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl std::error::Error for Refused {}

impl<K: Kind> From<Error<K>> for Refused {
    fn from(err: Error<K>) -> Self {
        Self { code: err.exit_code(), text: err.to_string() }
    }
}

impl From<Unread> for Refused {
    fn from(Unread { code, text }: Unread) -> Self {
        Self { code, text }
    }
}

impl From<NoSet> for Refused {
    fn from(err: NoSet) -> Self {
        Self { code: err.exit_code(), text: err.to_string() }
    }
}

/// Contexts that run.
#[derive(Debug)]
pub struct Runner {
    contexts: Vec<Handle>,
    options: Options,
    notes: Option<Arc<dyn Notes>>,
    messages: Receiver<Envelope>,
    sender: Sender<Envelope>,
    /// Messages that arrived while contexts were started; they are returned next.
    early: VecDeque<Envelope>,
    /// The number of the next handle.
    next_id: u64,
    /// The processes that are watched, and their contexts.
    targets: BTreeMap<u32, String>,
    /// Tunes the policy, if it asks for that.
    tuner: Option<Tuner>,
    /// Whether the contexts are paused, or were asked to end. Nothing is tuned then.
    is_at_rest: Cell<bool>,
}

#[derive(Debug)]
struct Handle {
    /// Distinguishes its messages from those of an earlier context with the same name.
    id: u64,
    policy: ContextPolicy,
    /// Whether the context has ended, while its last message was not read yet.
    ended: bool,
    /// The name of the operations set, once the context is ready.
    ops: &'static str,
    /// Commits of the tuner that it has not told of.
    quiet: usize,
    orders: Sender<Order>,
    thread: Option<JoinHandle<()>>,
}

impl Handle {
    /// Sends an order. A context that has ended does not need it, so a failure is ignored.
    fn order(&self, order: Order) {
        self.orders.send(order).ok();
    }

    /// Asks a context to prepare a commit. If the context has ended, receiving the answer fails.
    fn prepare(&self, policy: &ContextPolicy) -> Receiver<Result<(), Refused>> {
        let (sender, answer) = channel();
        self.order(Order::Prepare(Box::new(policy.clone()), sender));
        answer
    }

    /// Waits for the end of the thread. Panics of a context were caught and sent as its end.
    fn join(&mut self) {
        if let Some(thread) = self.thread.take() {
            thread.join().ok();
        }
    }
}

impl Runner {
    /// Starts a policy as soon as all its contexts are ready.
    ///
    /// # Errors
    ///
    /// If the machine cannot do what the policy says ([`check`]), or a context cannot start.
    /// Nothing runs then.
    pub fn start(policy: Policy, options: Options) -> Result<Self, Refused> {
        Self::start_noting(policy, options, None)
    }

    /// The same; what would have to be taken back after a crash is noted before it is done.
    ///
    /// # Errors
    ///
    /// As [`Self::start`].
    pub fn start_noting(
        policy: Policy,
        options: Options,
        notes: Option<Arc<dyn Notes>>,
    ) -> Result<Self, Refused> {
        let policy = dry(policy, options);
        let tuner = Tuner::of(&policy, None)?;
        let policy = tuner.as_ref().map_or_else(|| policy.clone(), |tuner| tuner.applied(&policy));
        refuse_if_impossible(&policy)?;
        let (sender, messages) = channel();
        let mut this = Self {
            contexts: Vec::new(),
            options,
            notes,
            messages,
            sender,
            early: VecDeque::new(),
            next_id: 0,
            targets: BTreeMap::new(),
            tuner,
            is_at_rest: Cell::new(false),
        };
        let added = this.prepare(policy.contexts)?;
        this.begin(added);
        Ok(this)
    }

    /// Waits for the next message, at most for `patience`. A policy that is tuned online goes on
    /// with that in here, so somebody has to ask for messages all the time, and has to wait for the
    /// line of shell that the policy may name as its measure ([`crate::gauge::PATIENCE`]).
    pub fn next(&mut self, patience: Duration) -> Option<Message> {
        self.tune();
        let patience = if self.tuner.is_some() { patience.min(TURN) } else { patience };
        let Envelope { from, message, .. } = match self.early.pop_front() {
            Some(envelope) => envelope,
            None => match self.messages.recv_timeout(patience) {
                Ok(envelope) => envelope,
                // `self` holds a sender, so the channel is never disconnected.
                Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => return None,
            },
        };
        if let Event::Ended(_) = message.event
            && let Some(at) = self.contexts.iter().position(|c| c.id == from)
        {
            self.contexts.remove(at).join();
        }
        self.note_targets(&message);
        if let Some(tuner) = &mut self.tuner {
            tuner.hear(&message);
        }
        if matches!(message.event, Event::Committed)
            && let Some(handle) = self.contexts.iter_mut().find(|c| c.id == from && c.quiet > 0)
        {
            handle.quiet -= 1;
            return None;
        }
        Some(message)
    }

    fn note_targets(&mut self, message: &Message) {
        match &message.event {
            Event::Added(target) => {
                self.targets.insert(target.pid, message.context.clone());
            }
            Event::Gone { pid, .. } => drop(self.targets.remove(pid)),
            Event::Ended(_) => self.targets.retain(|_, context| *context != message.context),
            _ => {}
        }
    }

    /// Lets the tuner go on.
    fn tune(&mut self) {
        let Some(mut tuner) = self.tuner.take() else { return };
        if self.is_at_rest.get() {
            tuner.interrupt();
        } else {
            let targets = std::mem::take(&mut self.targets);
            tuner.turn(&targets, &mut |space, point| self.commit_values(space, point));
            self.targets = targets;
        }
        let told = tuner.news().into_iter();
        let told =
            told.map(|(context, news)| Envelope::of_runner(context, Event::Tuned(Box::new(news))));
        self.early.extend(told);
        self.tuner = Some(tuner);
    }

    /// Puts values in force in the contexts that run.
    ///
    /// # Errors
    ///
    /// As [`Self::commit`], or if a context has just ended. Nothing has changed then.
    fn commit_values(&mut self, space: &Space, point: &[u64]) -> Result<(), Refused> {
        let running = self.contexts.iter().filter(|c| !c.ended);
        let contexts = running.map(|c| c.policy.clone()).collect();
        let policy = space.apply(&Policy { contexts, ..Policy::default() }, point);
        // Another try would start the context again that has ended.
        let text = "a context has just ended".to_owned();
        let ended = Err(Refused { code: Class::Gone.exit_code(), text });
        self.try_commit(policy).unwrap_or(ended)?;
        self.contexts.iter_mut().filter(|c| !c.ended).for_each(|c| c.quiet += 1);
        Ok(())
    }

    /// The present values of a policy that is tuned; none if it is not.
    #[must_use]
    pub fn tuned(&self) -> Option<Values> {
        self.tuner.as_ref().map(Tuner::values)
    }

    /// Whether all contexts have ended and all their messages were returned.
    #[must_use]
    pub fn is_over(&self) -> bool {
        self.contexts.is_empty() && self.early.is_empty()
    }

    /// Asks all contexts to neither look nor act from now on, or to go on with that. What they know
    /// stays, and their clocks stand still meanwhile.
    pub fn pause(&self, pause: bool) {
        self.is_at_rest.set(pause);
        for context in &self.contexts {
            context.order(Order::Pause(pause));
        }
    }

    /// The same for one context, if it runs.
    pub fn pause_one(&self, context: &str, pause: bool) {
        if let Some(handle) = self.running(context) {
            handle.order(Order::Pause(pause));
        }
    }

    /// Lets a context write a record to this path from now on, or none; a record that it writes
    /// already is finished. [`Event::Unrecorded`] tells if that fails.
    pub fn record(&self, context: &str, path: Option<PathBuf>) {
        if let Some(handle) = self.running(context) {
            handle.order(Order::Record(path));
        }
    }

    /// Asks every context for what it has seen by now. Each answers within a turn of its loop, and
    /// not at all if it has just ended.
    pub fn look(&self) -> Receiver<Seen> {
        let (sender, seen) = channel();
        for context in &self.contexts {
            context.order(Order::Look(sender.clone()));
        }
        seen
    }

    /// Asks every context what it knows of pages, in the same way. One without
    /// [`Options::by_cgroup`] knows nothing.
    pub fn look_at_pages(&self, wanted: Wanted) -> Receiver<PagesLook> {
        let (sender, seen) = channel();
        for context in &self.contexts {
            context.order(Order::LookAtPages(sender.clone(), wanted));
        }
        seen
    }

    /// Asks every context to send what each of its windows shows, until the receiver is dropped.
    /// Contexts that start later do not.
    pub fn watch(&self) -> Receiver<Seen> {
        let (sender, seen) = channel();
        for context in &self.contexts {
            context.order(Order::Watch(sender.clone()));
        }
        seen
    }

    /// The policies of the contexts that run, as they are in force. What is tuned online has the
    /// values of the policy that was committed, so that committing the result goes on tuning.
    #[must_use]
    pub fn policy(&self) -> Policy {
        let running = self.contexts.iter().filter(|c| !c.ended);
        let contexts = running.map(|c| c.policy.clone()).collect();
        let policy = Policy { contexts, ..Policy::default() };
        match &self.tuner {
            Some(tuner) => tuner.unapplied(policy),
            None => policy,
        }
    }

    /// Asks all contexts to end. Each sends its last account.
    pub fn stop(&self) {
        self.is_at_rest.set(true);
        for context in &self.contexts {
            context.order(Order::Stop);
        }
    }

    /// Puts another policy in force, as a whole or not at all. Contexts are matched by their names.
    /// A context that is in both policies goes on with all that it has learned and counted. A
    /// context that is new, or has ended, starts. A context that is not in the new policy ends.
    ///
    /// # Errors
    ///
    /// If the machine cannot do what the policy says, a context cannot start, a running context
    /// refuses its part, or a setting differs that cannot change while a context runs. Everything
    /// stays as it was then.
    pub fn commit(&mut self, policy: Policy) -> Result<(), Refused> {
        let policy = dry(policy, self.options);
        let tuner = self.tuner_for(&policy)?;
        let tuner_or_ours = tuner.as_ref().or(self.tuner.as_ref());
        let is_tuned = policy.tuning.online.is_some();
        let applied = match tuner_or_ours.filter(|_| is_tuned) {
            Some(tuner) => tuner.applied(&policy),
            None => policy.clone(),
        };
        self.commit_all(applied)?;
        match (tuner, &mut self.tuner) {
            (Some(tuner), _) => self.tuner = Some(tuner),
            (None, Some(tuner)) if is_tuned => tuner.adopt(&policy),
            (None, _) => self.tuner = None,
        }
        Ok(())
    }

    /// The tuner that a policy needs; none if it needs none, or if the present one will do.
    fn tuner_for(&mut self, policy: &Policy) -> Result<Option<Tuner>, Refused> {
        if let Some(tuner) = &mut self.tuner {
            // A phase in which something else changes tells nothing.
            tuner.interrupt();
            if tuner.suits(policy) {
                return Ok(None);
            }
        }
        let Some(tuner) = Tuner::of(policy, self.tuner.as_ref())? else { return Ok(None) };
        for handle in self.contexts.iter().filter(|c| !c.ended) {
            tuner.refuse_set(&handle.policy.name, handle.ops)?;
        }
        Ok(Some(tuner))
    }

    fn commit_all(&mut self, policy: Policy) -> Result<(), Refused> {
        // Every turn without an answer means that one more context has ended, so the loop is
        // finite.
        loop {
            if let Some(done) = self.try_commit(policy.clone()) {
                return done;
            }
        }
    }

    /// Commits in two phases. First every context that stays answers whether it can have its new
    /// policy. Then all get it, or none. Returns `None` if one of them has ended, so that its part
    /// has to be started as a new context.
    fn try_commit(&mut self, mut policy: Policy) -> Option<Result<(), Refused>> {
        for context in &mut policy.contexts {
            if let Some(old) = self.running(&context.name) {
                keep_command(&old.policy, context);
                if let Err(refused) = changeable(old, context) {
                    return Some(Err(refused));
                }
            }
        }
        if let Err(refused) = refuse_if_impossible(&self.what_is_new(&policy)) {
            return Some(Err(refused));
        }
        let is_running = |c: &ContextPolicy| self.running(&c.name).is_some();
        let (kept, new): (Vec<_>, Vec<_>) = policy.contexts.into_iter().partition(is_running);
        let added = match self.prepare(new) {
            Ok(added) => added,
            Err(refused) => return Some(Err(refused)),
        };
        if let Err(refused) = self.ask(&kept) {
            self.discard(added);
            return refused.map(Err);
        }
        for handle in self.contexts.iter_mut().filter(|c| !c.ended) {
            match kept.iter().find(|k| k.name == handle.policy.name) {
                Some(policy) => {
                    handle.policy = policy.clone();
                    handle.order(Order::Commit);
                }
                None => handle.order(Order::Stop),
            }
        }
        self.begin(added);
        Some(Ok(()))
    }

    /// The first phase: asks all contexts that stay whether they can have their new policies. If
    /// one cannot, none has changed.
    ///
    /// # Errors
    ///
    /// The first refusal, or `None` if a context has ended.
    fn ask(&mut self, kept: &[ContextPolicy]) -> Result<(), Option<Refused>> {
        let mut asked = Vec::new();
        for policy in kept {
            let at = self.contexts.iter().position(|c| !c.ended && c.policy.name == policy.name);
            asked.extend(at.map(|at| (at, self.contexts[at].prepare(policy))));
        }
        let mut refusal = None;
        let mut prepared = Vec::new();
        for (at, answer) in asked {
            match answer.recv() {
                Ok(Ok(())) => prepared.push(at),
                Ok(Err(refused)) => refusal = refusal.or(Some(Some(refused))),
                Err(RecvError) => {
                    self.contexts[at].ended = true;
                    refusal = refusal.or(Some(None));
                }
            }
        }
        let Some(refusal) = refusal else { return Ok(()) };
        for at in prepared {
            self.contexts[at].order(Order::Abort);
        }
        Err(refusal)
    }

    /// The running context of this name.
    fn running(&self, name: &str) -> Option<&Handle> {
        self.contexts.iter().find(|c| !c.ended && c.policy.name == name)
    }

    /// The part of the policy that the machine has to be asked about. A process that is a target
    /// already is left out, since it is no error if it has ended.
    fn what_is_new(&self, policy: &Policy) -> Policy {
        let mut policy = policy.clone();
        for context in &mut policy.contexts {
            let Some(old) = self.running(&context.name).map(|c| &c.policy) else { continue };
            let known = |t: &TargetSpec| matches!(t, TargetSpec::Pid(_)) && old.targets.contains(t);
            if context.targets.iter().any(|t| !known(t)) {
                context.targets.retain(|t| !known(t));
            }
        }
        policy
    }

    /// Starts a thread for each context, and waits until all are ready.
    fn prepare(&mut self, contexts: Vec<ContextPolicy>) -> Result<Vec<Handle>, Refused> {
        let mut handles = Vec::new();
        for policy in contexts {
            let with = (self.options, self.notes.clone());
            match spawn(self.next_id, policy, with, self.sender.clone()) {
                Ok(handle) => handles.push(handle),
                Err(refused) => {
                    self.discard(handles);
                    return Err(refused);
                }
            }
            self.next_id += 1;
        }
        let (mut ready, mut nobody) = (0, Vec::new());
        while ready < handles.len() {
            // `self` holds a sender, so this waits for a message and cannot fail.
            let Ok(envelope) = self.messages.recv() else { break };
            let ours = handles.iter_mut().find(|h| h.id == envelope.from);
            match (&envelope.message.event, ours) {
                (Event::Ready(with), Some(handle)) => {
                    handle.ops = with.ops;
                    ready += 1;
                    nobody.extend(with.nobody.clone());
                }
                (Event::Ended(ended), Some(_)) => {
                    let Reason::Failed { code, text } = &ended.reason else { continue };
                    let refused = Refused { code: *code, text: text.clone() };
                    self.discard(handles);
                    return Err(refused);
                }
                _ => {}
            }
            self.early.push_back(envelope);
        }
        if nobody.len() == handles.len()
            && let Some(refused) = nobody.into_iter().next()
        {
            self.discard(handles);
            return Err(refused);
        }
        let tuner = self.tuner.as_ref();
        let check = |h: &Handle| tuner.map_or(Ok(()), |t| t.refuse_set(&h.policy.name, h.ops));
        if let Err(refused) = handles.iter().try_for_each(check) {
            self.discard(handles);
            return Err(refused);
        }
        Ok(handles)
    }

    /// Ends contexts that have not begun, and drops their messages.
    fn discard(&mut self, handles: Vec<Handle>) {
        let ids: Vec<u64> = handles.iter().map(|h| h.id).collect();
        for Handle { orders, thread, .. } in handles {
            // A context ends when its channel of orders is closed.
            drop(orders);
            thread.map(JoinHandle::join);
        }
        self.early.extend(self.messages.try_iter());
        self.early.retain(|envelope| !ids.contains(&envelope.from));
    }

    fn begin(&mut self, handles: Vec<Handle>) {
        for handle in handles {
            handle.order(Order::Begin);
            self.contexts.push(handle);
        }
    }
}

impl Drop for Runner {
    fn drop(&mut self) {
        self.stop();
        self.contexts.iter_mut().for_each(Handle::join);
    }
}

fn spawn(
    id: u64,
    policy: ContextPolicy,
    (options, notes): (Options, Option<Arc<dyn Notes>>),
    sender: Sender<Envelope>,
) -> Result<Handle, Refused> {
    let (orders, receiver) = channel();
    let events = EventSender::new(id, &policy.name, sender);
    let own = policy.clone();
    let thread = std::thread::Builder::new()
        .name(format!("context {}", policy.name.replace('\0', "")))
        .spawn(move || run_context(own, (options, notes), receiver, events))
        .map_err(|e| Refused { code: 1, text: format!("cannot start a thread: {e}") })?;
    let thread = Some(thread);
    Ok(Handle { id, policy, ended: false, ops: "", quiet: 0, orders, thread })
}

/// The policy with `dry_run` of the options applied to every scheme.
fn dry(mut policy: Policy, options: Options) -> Policy {
    for scheme in policy.contexts.iter_mut().flat_map(|c| &mut c.schemes) {
        scheme.settings.dry_run |= options.dry_run;
    }
    policy
}

fn refuse_if_impossible(policy: &Policy) -> Result<(), Refused> {
    match check(policy).into_iter().find(|problem| problem.fatal) {
        Some(problem) => Err(Refused { code: problem.code, text: problem.text }),
        None => Ok(()),
    }
}

/// A command comes from the command line. A file that is read again cannot name it, so it is kept.
fn keep_command(old: &ContextPolicy, new: &mut ContextPolicy) {
    let is_command = |t: &&TargetSpec| matches!(t, TargetSpec::Command(_));
    if !new.targets.iter().any(|t| is_command(&t)) {
        new.targets.extend(old.targets.iter().find(is_command).cloned());
    }
}

/// Refuses changes that cannot be made while a context runs.
fn changeable(handle: &Handle, new: &ContextPolicy) -> Result<(), Refused> {
    let name = &new.name;
    let refuse = |what: &str| {
        let text = format!(
            "context `{name}` cannot change its {what} while it runs\n  hint:  restart isotherm, or \
             give the context another name"
        );
        Err(Refused { code: 2, text })
    };
    let old = &handle.policy;
    let sees = [SetName::PageWalk, SetName::Idle, SetName::Kdamond]
        .map(SetName::name)
        .contains(&handle.ops);
    let blind = acts(new) && !sees && new.memory().is_none();
    if old.ops != new.ops || blind {
        return refuse("operations set");
    }
    if old.children != new.children {
        return refuse("`children`");
    }
    Ok(())
}
