//! All contexts of a policy, from the outside.

use std::collections::VecDeque;
use std::fmt;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread::JoinHandle;
use std::time::Duration;

use isotherm_ops::support::SetName;

use super::context::{Order, Post, acts, live};
use super::machine::check;
use super::told::{Event, Reason, Told};
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

/// Contexts that run.
#[derive(Debug)]
pub struct Runner {
    contexts: Vec<Handle>,
    options: Options,
    told: Receiver<Told>,
    sender: Sender<Told>,
    early: VecDeque<Told>,
}

#[derive(Debug)]
struct Handle {
    policy: ContextPolicy,
    /// The operations set, when it is ready.
    ops: &'static str,
    orders: Sender<Order>,
    thread: Option<JoinHandle<()>>,
}

impl Handle {
    /// Orders something. A context that has ended needs no orders.
    fn order(&self, order: Order) {
        self.orders.send(order).ok();
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
    /// If the machine cannot do what it says ([`check`]), or a context cannot start; nothing runs then.
    pub fn start(policy: Policy, options: Options) -> Result<Self, Refused> {
        let policy = dry(policy, options);
        refuse_if_impossible(&policy)?;
        let (sender, told) = channel();
        let mut this = Self { contexts: Vec::new(), options, told, sender, early: VecDeque::new() };
        let added = this.prepare(policy.contexts)?;
        this.begin(added);
        Ok(this)
    }

    /// Waits for something to happen, at most so long.
    pub fn next(&mut self, patience: Duration) -> Option<Told> {
        let told = match self.early.pop_front() {
            Some(told) => told,
            None => match self.told.recv_timeout(patience) {
                Ok(told) => told,
                // We hold a sender ourselves, so somebody can always speak.
                Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => return None,
            },
        };
        if let Event::Ended(_) = told.event
            && let Some(at) = self.contexts.iter().position(|c| c.policy.name == told.context)
        {
            self.contexts.remove(at).join();
        }
        Some(told)
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

    /// Puts another policy in force, as a whole or not at all. Contexts are matched by their names: what is
    /// in both goes on with all that it has learned and counted; what is new starts; what is gone ends.
    ///
    /// # Errors
    ///
    /// If the machine cannot do what it says, a new context cannot start, or something changed that cannot
    /// while a context runs. Everything stays as it was then.
    pub fn commit(&mut self, policy: Policy) -> Result<(), Refused> {
        let mut policy = dry(policy, self.options);
        for context in &mut policy.contexts {
            if let Some(old) = self.contexts.iter().find(|c| c.policy.name == context.name) {
                keep_command(&old.policy, context);
                changeable(old, context)?;
            }
        }
        refuse_if_impossible(&self.what_is_new(&policy))?;
        let is_running = |c: &ContextPolicy| self.running(&c.name).is_some();
        let (kept, new): (Vec<_>, Vec<_>) = policy.contexts.into_iter().partition(is_running);
        let added = self.prepare(new)?;
        let stay = |name: &str| kept.iter().any(|k| k.name == name);
        for gone in self.contexts.iter().filter(|c| !stay(&c.policy.name)) {
            gone.order(Order::Stop);
        }
        for policy in kept {
            if let Some(handle) = self.contexts.iter_mut().find(|c| c.policy.name == policy.name) {
                handle.policy = policy.clone();
                handle.order(Order::Commit(Box::new(policy)));
            }
        }
        self.begin(added);
        Ok(())
    }

    /// The policy of a context that runs.
    fn running(&self, name: &str) -> Option<&ContextPolicy> {
        self.contexts.iter().map(|c| &c.policy).find(|p| p.name == name)
    }

    /// The policy as it has to be asked for: a process that was a target and has ended since is no error.
    fn what_is_new(&self, policy: &Policy) -> Policy {
        let mut policy = policy.clone();
        for context in &mut policy.contexts {
            let Some(old) = self.running(&context.name) else { continue };
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
            handles.push(spawn(policy, self.options, self.sender.clone())?);
        }
        let mut ready = 0;
        while ready < handles.len() {
            let Ok(told) = self.told.recv() else { break };
            let ours = handles.iter_mut().find(|h| h.policy.name == told.context);
            match (&told.event, ours) {
                (Event::Ready(with), Some(handle)) => {
                    handle.ops = with.ops;
                    ready += 1;
                }
                (Event::Ended(ended), Some(_)) => {
                    let Reason::Failed { code, text } = &ended.reason else { continue };
                    let refused = Refused { code: *code, text: text.clone() };
                    // The others have not begun; without orders they end.
                    let names: Vec<_> = handles.iter().map(|h| h.policy.name.clone()).collect();
                    for Handle { orders, thread, .. } in handles {
                        drop(orders);
                        thread.map(JoinHandle::join);
                    }
                    while let Ok(told) = self.told.try_recv() {
                        if !names.contains(&told.context) {
                            self.early.push_back(told);
                        }
                    }
                    self.early.retain(|told| !names.contains(&told.context));
                    return Err(refused);
                }
                _ => {}
            }
            self.early.push_back(told);
        }
        Ok(handles)
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

fn spawn(policy: ContextPolicy, options: Options, sender: Sender<Told>) -> Result<Handle, Refused> {
    let (orders, receiver) = channel();
    let post = Post { context: policy.name.clone(), sender };
    let own = policy.clone();
    let thread = std::thread::Builder::new()
        .name("context".into())
        .spawn(move || live(own, options, &receiver, post))
        .map_err(|e| Refused { code: 1, text: format!("cannot start a thread: {e}") })?;
    Ok(Handle { policy, ops: "", orders, thread: Some(thread) })
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
