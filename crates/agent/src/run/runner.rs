//! All contexts of a policy, from the outside.

use std::collections::VecDeque;
use std::fmt;
use std::sync::mpsc::{Receiver, RecvError, RecvTimeoutError, Sender, channel};
use std::thread::JoinHandle;
use std::time::Duration;

use isotherm_host::error::{Error, Kind};
use isotherm_ops::doctor::NoSet;
use isotherm_ops::support::SetName;

use super::context::{Order, acts, run_context};
use super::machine::check;
use super::message::{Envelope, Event, EventSender, Message, Reason};
use crate::policy::{ContextPolicy, Policy, TargetSpec};

/// How a policy is run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Options {
    /// Decide and count, but do nothing, whatever the schemes say.
    pub dry_run: bool,
    /// Take back what was set in the targets when a context ends.
    pub undo_on_exit: bool,
    /// Which pages are drawn; none: others each time.
    pub seed: Option<u64>,
}

/// A policy was refused, with nothing changed.
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
    messages: Receiver<Envelope>,
    sender: Sender<Envelope>,
    /// What came while contexts were started, to be told next.
    early: VecDeque<Envelope>,
    /// The number of the next handle.
    next_id: u64,
}

#[derive(Debug)]
struct Handle {
    /// Tells its messages from those of a context that had the same name.
    id: u64,
    policy: ContextPolicy,
    /// Whether it has ended and its end was not told yet.
    ended: bool,
    /// The operations set, when it is ready.
    ops: &'static str,
    orders: Sender<Order>,
    thread: Option<JoinHandle<()>>,
}

impl Handle {
    /// Orders something that a context which has ended needs not.
    fn order(&self, order: Order) {
        self.orders.send(order).ok();
    }

    /// Asks a context to prepare a commit. The answer never comes if it has ended.
    fn prepare(&self, policy: &ContextPolicy) -> Receiver<Result<(), Refused>> {
        let (sender, answer) = channel();
        self.order(Order::Prepare(Box::new(policy.clone()), sender));
        answer
    }

    /// Waits for the end of the thread. It cannot panic, or has told so.
    fn join(&mut self) {
        if let Some(thread) = self.thread.take() {
            thread.join().ok();
        }
    }
}

impl Runner {
    /// Starts a policy, when all its contexts are ready for it.
    ///
    /// # Errors
    ///
    /// If the machine cannot do what it says ([`check`]), or a context cannot start; nothing runs
    /// then.
    pub fn start(policy: Policy, options: Options) -> Result<Self, Refused> {
        let policy = dry(policy, options);
        refuse_if_impossible(&policy)?;
        let (sender, messages) = channel();
        let mut this = Self {
            contexts: Vec::new(),
            options,
            messages,
            sender,
            early: VecDeque::new(),
            next_id: 0,
        };
        let added = this.prepare(policy.contexts)?;
        this.begin(added);
        Ok(this)
    }

    /// Waits for something to happen, at most so long.
    pub fn next(&mut self, patience: Duration) -> Option<Message> {
        let Envelope { from, message, .. } = match self.early.pop_front() {
            Some(envelope) => envelope,
            None => match self.messages.recv_timeout(patience) {
                Ok(envelope) => envelope,
                // We hold a sender ourselves, so somebody can always speak.
                Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => return None,
            },
        };
        if let Event::Ended(_) = message.event
            && let Some(at) = self.contexts.iter().position(|c| c.id == from)
        {
            self.contexts.remove(at).join();
        }
        Some(message)
    }

    /// Whether all contexts have ended, and all was told.
    #[must_use]
    pub fn is_over(&self) -> bool {
        self.contexts.is_empty() && self.early.is_empty()
    }

    /// Asks all contexts to end; each tells its last account.
    pub fn stop(&self) {
        for context in &self.contexts {
            context.order(Order::Stop);
        }
    }

    /// Puts another policy in force, as a whole or not at all. Contexts are matched by their names:
    /// what is in both goes on with all that it has learned and counted; what is new, or has ended,
    /// starts; what is gone ends.
    ///
    /// # Errors
    ///
    /// If the machine cannot do what it says, a context cannot start, a context that runs cannot
    /// have it, or something changed that cannot while a context runs. Everything stays as it was
    /// then.
    pub fn commit(&mut self, policy: Policy) -> Result<(), Refused> {
        let policy = dry(policy, self.options);
        // Each time round without an answer one more context is known to have ended.
        loop {
            if let Some(done) = self.try_commit(policy.clone()) {
                return done;
            }
        }
    }

    /// Commits in two phases: every context that stays says whether it can have the new policy;
    /// then all have it, or none. `None`: one of them has ended, so what was to be committed to it
    /// has to be started anew.
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

    /// The first phase: whether all contexts that stay can have their new policies. If one cannot,
    /// none has changed.
    ///
    /// # Errors
    ///
    /// The first refusal; none: a context has ended.
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

    /// A context that runs.
    fn running(&self, name: &str) -> Option<&Handle> {
        self.contexts.iter().find(|c| !c.ended && c.policy.name == name)
    }

    /// The policy as it has to be asked for: a process that was a target and has ended since is no
    /// error.
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

    /// Starts threads for contexts, and waits until all are ready.
    fn prepare(&mut self, contexts: Vec<ContextPolicy>) -> Result<Vec<Handle>, Refused> {
        let mut handles = Vec::new();
        for policy in contexts {
            match spawn(self.next_id, policy, self.options, self.sender.clone()) {
                Ok(handle) => handles.push(handle),
                Err(refused) => {
                    self.discard(handles);
                    return Err(refused);
                }
            }
            self.next_id += 1;
        }
        let mut ready = 0;
        while ready < handles.len() {
            // We hold a sender ourselves, so this waits until one of them speaks.
            let Ok(envelope) = self.messages.recv() else { break };
            let ours = handles.iter_mut().find(|h| h.id == envelope.from);
            match (&envelope.message.event, ours) {
                (Event::Ready(with), Some(handle)) => {
                    handle.ops = with.ops;
                    ready += 1;
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
        Ok(handles)
    }

    /// Ends contexts that have not begun, as if they had never been.
    fn discard(&mut self, handles: Vec<Handle>) {
        let ids: Vec<u64> = handles.iter().map(|h| h.id).collect();
        for Handle { orders, thread, .. } in handles {
            // Without orders they end.
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
    options: Options,
    sender: Sender<Envelope>,
) -> Result<Handle, Refused> {
    let (orders, receiver) = channel();
    let events = EventSender::new(id, &policy.name, sender);
    let own = policy.clone();
    let thread = std::thread::Builder::new()
        .name(format!("context {}", policy.name.replace('\0', "")))
        .spawn(move || run_context(own, options, receiver, events))
        .map_err(|e| Refused { code: 1, text: format!("cannot start a thread: {e}") })?;
    Ok(Handle { id, policy, ended: false, ops: "", orders, thread: Some(thread) })
}

/// The policy as it is run.
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

/// A command comes from the command line, so a file that is read again cannot name it.
fn keep_command(old: &ContextPolicy, new: &mut ContextPolicy) {
    let command = old.targets.iter().find(|t| matches!(t, TargetSpec::Command(_)));
    new.targets.extend(command.cloned());
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
