//! All policies of the agent. Each has a thread of its own ([`keeper`]).
//!
//! What a client asks for is kept on disk before it is done, except for the text of a commit: that
//! is kept when the policy is in force and before the client is told so. A commit of which nobody
//! was told leaves no trace after a crash.

pub(crate) mod act_in;
mod backoff;
pub(crate) mod files;
mod hold;
mod keeper;
pub(crate) mod order;
mod records;
pub(crate) mod shown;
mod single;
pub(crate) mod told;
pub(crate) mod tuning;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use isotherm_act::apply::Notes;
use isotherm_agent::run::Options;
use isotherm_control::error::{Kind, Refusal};
use isotherm_control::types;
use isotherm_fleet::Fleet;
use isotherm_metrics::Exporter;
use tracing::{info, warn};

use self::files::{PolicyFile, check_name};
use self::keeper::{Begin, Keeper};
use self::order::{Answer, Ask, Order};
use self::shown::Shown;
use crate::budget::{Balance, Limit, Seen};
use crate::history::History;
use crate::hub::Hub;
use crate::rollout::{Switch, Trips, Trust};
use crate::state::{Kept, Store, Wanted};

/// How long an answer of a policy is waited for. Starting one takes its self-tests, and a commit
/// a turn of each of its contexts.
const PATIENCE: Duration = Duration::from_secs(60);

/// Where an answer comes.
pub(crate) type Answering = Receiver<Result<Answer, Refusal>>;

/// All policies.
#[derive(Debug)]
pub(crate) struct Policies {
    inner: Mutex<Inner>,
    with: With,
}

/// What all policies are run with.
#[derive(Debug, Clone)]
pub(crate) struct With {
    pub(crate) options: Options,
    pub(crate) notes: Arc<dyn Notes>,
    pub(crate) hub: Arc<Hub>,
    pub(crate) history: Option<Arc<History>>,
    pub(crate) metrics: Option<Arc<Mutex<Exporter>>>,
    pub(crate) fleet: Option<Arc<Fleet>>,
    /// Who vouches for policies.
    pub(crate) trust: Trust,
    pub(crate) switch: Arc<Switch>,
    pub(crate) trips: Trips,
    /// What this host is called when it is chosen for a share.
    pub(crate) host: Arc<str>,
    /// How thrifty contexts are to be with memory.
    pub(crate) thrift: Arc<AtomicU32>,
    /// Where tuned values are kept.
    pub(crate) tuned_dir: Arc<Path>,
    /// The namespaces of Kubernetes in which contexts may act; none: anywhere.
    pub(crate) act_in: Option<Arc<[String]>>,
}

#[derive(Debug)]
struct Inner {
    policies: BTreeMap<String, Handle>,
    store: Store,
    /// What is wrong with the files.
    problems: Vec<String>,
}

#[derive(Debug)]
struct Handle {
    orders: Sender<Ask>,
    shown: Arc<Mutex<Shown>>,
    thread: Option<JoinHandle<()>>,
    /// Its file when that was read last.
    file: Option<PolicyFile>,
}

impl Handle {
    fn ask(&self, order: Order) -> Answering {
        let (answer, receiver) = channel();
        // If the thread has ended, receiving the answer fails.
        self.orders.send(Ask { order, answer }).ok();
        receiver
    }

    fn shown(&self) -> MutexGuard<'_, Shown> {
        self.shown.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Policies {
    pub(crate) fn new(store: Store, with: With) -> Self {
        let inner = Inner { policies: BTreeMap::new(), store, problems: Vec::new() };
        Self { inner: Mutex::new(inner), with }
    }

    fn inner(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Starts what the files and the state say. Called again, it puts in force what has changed in
    /// the files since. Returns how many of the files are not in force.
    pub(crate) fn read(&self, mut found: files::Found) -> usize {
        found.refuse_unvouched(&self.with.trust);
        let mut inner = self.inner();
        for problem in &found.problems {
            warn!("{problem}");
        }
        inner.problems.clone_from(&found.problems);
        let mut refused = found.problems.len();
        let mut answers = Vec::new();
        for (name, file) in &found.files {
            match inner.policies.get_mut(name) {
                Some(handle) => {
                    answers.extend(reread(name, handle, file).map(|answer| (name, answer)));
                    continue;
                }
                None => self.begin(&mut inner, name, Some(file.clone())),
            }
        }
        let committed: Vec<String> = inner.store.policies().keys().cloned().collect();
        for name in committed.into_iter().filter(|name| !found.files.contains_key(name)) {
            let kept = inner.store.of(&name);
            let is_own = kept.text.is_some() && kept.over.is_none();
            if is_own && !inner.policies.contains_key(&name) {
                self.begin(&mut inner, &name, None);
            }
        }
        let gone = |(name, handle): (&String, &Handle)| {
            (handle.file.is_some() && !found.files.contains_key(name)).then(|| name.clone())
        };
        let gone: Vec<String> = inner.policies.iter().filter_map(gone).collect();
        for name in gone {
            info!(policy = name, "its file is gone, so it is stopped");
            let handle = inner.policies.remove(&name);
            forget(&mut inner.store, &name);
            end(handle);
            self.gone(&name);
        }
        drop(inner);
        for (name, answer) in answers {
            let done = wait(name, &answer);
            if let Err(refusal) = &done {
                warn!(policy = name, "the former policy stays in force: {refusal}");
                refused += 1;
            }
            self.note_file(name, done.err().map(|refusal| refusal.to_string()));
        }
        refused
    }

    /// Begins a policy with the text of its file, or with the one that was committed over it.
    fn begin(&self, inner: &mut Inner, name: &str, file: Option<PolicyFile>) {
        let kept = inner.store.of(name);
        let of_file = file.as_ref().map(|file| file.text.clone());
        let vouched =
            |text: &String| self.with.trust.check(name, text, None).map(|()| text.clone());
        let text = match (&kept.text, &of_file) {
            (Some(text), None) => vouched(text),
            (Some(text), Some(Ok(now))) if kept.over.as_ref() == Some(now) => vouched(text),
            (_, Some(text)) => text.clone(),
            (None, None) => return,
        };
        let path = file.as_ref().map(|file| file.path.clone());
        let handle = self.spawn(name, text, path, (kept.wanted, kept.contexts));
        match handle {
            Ok(mut handle) => {
                handle.file = file;
                inner.policies.insert(name.to_owned(), handle);
            }
            Err(err) => warn!(policy = name, "cannot start a thread: {err}"),
        }
    }

    fn spawn(
        &self,
        name: &str,
        text: Result<String, String>,
        file: Option<PathBuf>,
        (wanted, contexts): (Wanted, BTreeMap<String, Wanted>),
    ) -> std::io::Result<Handle> {
        let (orders, receiver) = channel();
        let (keeper, shown) = Keeper::new(Begin {
            name: name.to_owned(),
            text,
            file,
            wanted,
            contexts,
            with: self.with.clone(),
        });
        let thread = std::thread::Builder::new().name(format!("policy {name}"));
        let thread = thread.spawn(move || keeper.run(&receiver))?;
        Ok(Handle { orders, shown, thread: Some(thread), file: None })
    }

    /// Shows why the file of a policy is not in force, while the former text is.
    fn note_file(&self, name: &str, why: Option<String>) {
        if let Some(handle) = self.inner().policies.get(name) {
            let mut shown = handle.shown();
            if let Some(why) = why {
                shown.why = Some(format!("the file is not in force: {why}"));
            } else if shown.why.as_ref().is_some_and(|w| w.starts_with("the file is not")) {
                shown.why = None;
            }
        }
    }

    /// Whether every policy was tried.
    pub(crate) fn all_tried(&self) -> bool {
        self.inner().policies.values().all(|handle| handle.shown().tried)
    }

    /// What keeps the agent from doing all that it is to do, for people; none: nothing does.
    pub(crate) fn lacking(&self) -> Option<String> {
        let inner = self.inner();
        let of_policies = inner.policies.iter().filter_map(|(n, h)| h.shown().lacking(n));
        let mut all: Vec<String> = inner.problems.iter().cloned().chain(of_policies).collect();
        if inner.policies.is_empty() && all.is_empty() {
            all.push("the agent has no policy\n  hint:  `--policies-dir DIR` has them".to_owned());
        }
        (!all.is_empty()).then(|| all.join("\n"))
    }

    /// All policies, by name.
    pub(crate) fn list(&self) -> Vec<types::Policy> {
        self.inner().policies.iter().map(|(name, handle)| handle.shown().policy(name)).collect()
    }

    /// What is wrong with the files.
    pub(crate) fn problems(&self) -> Vec<String> {
        self.inner().problems.clone()
    }

    /// Shares the CPU time among all contexts that run.
    pub(crate) fn balance(&self, balance: &mut Balance, total_bp: u32) {
        let inner = self.inner();
        let mut seen = BTreeMap::new();
        for (name, handle) in &inner.policies {
            let shown = handle.shown();
            if shown.state != types::State::Running {
                continue;
            }
            // Without a window nothing is known, and its method may have no budget.
            for context in shown.contexts.iter().filter(|c| c.cpu_ns > 0) {
                let asked_bp = shown.asked.get(&context.name).copied().unwrap_or(0);
                let of = Seen { asked_bp, cpu_ns: context.cpu_ns };
                seen.insert((name.clone(), context.name.clone()), of);
            }
        }
        let mut of_policies: BTreeMap<String, BTreeMap<String, Limit>> = BTreeMap::new();
        for ((policy, context), limit) in balance.round(total_bp, Instant::now(), &seen) {
            of_policies.entry(policy).or_default().insert(context, limit);
        }
        for (name, limits) in of_policies {
            if let Some(handle) = inner.policies.get(&name) {
                drop(handle.ask(Order::Limit(limits)));
            }
        }
    }

    /// Lets all contexts be as thrifty as this with memory.
    pub(crate) fn set_thrift(&self, level: u32) {
        self.with.thrift.store(level, Ordering::Relaxed);
        self.with.hub.set_thrift(level);
        for handle in self.inner().policies.values() {
            drop(handle.ask(Order::Thrift));
        }
    }

    /// Puts the policy that watches most memory to wait. Returns its name; none if none runs.
    pub(crate) fn shed(&self) -> Option<String> {
        let inner = self.inner();
        let watched = |handle: &Handle| handle.shown().watched.values().sum::<u64>();
        let running = inner.policies.iter().filter(|(_, handle)| {
            matches!(handle.shown().state, types::State::Running | types::State::Paused)
        });
        let (name, handle) = running.max_by_key(|(_, handle)| watched(handle))?;
        drop(handle.ask(Order::Shed));
        Some(name.clone())
    }

    /// The accounts of one policy, or of all.
    pub(crate) fn accounts(&self, only: Option<&str>) -> Result<Vec<types::Account>, Refusal> {
        let inner = self.inner();
        if let Some(name) = only {
            return Ok(of(&inner, name)?.shown().accounts.clone());
        }
        Ok(inner.policies.values().flat_map(|handle| handle.shown().accounts.clone()).collect())
    }

    /// What the cgroups of one policy use, or those of all.
    pub(crate) fn cgroups(&self, only: Option<&str>) -> Result<Vec<types::Cgroup>, Refusal> {
        let inner = self.inner();
        let flat = |shown: &Shown| shown.cgroups.values().flatten().cloned().collect::<Vec<_>>();
        if let Some(name) = only {
            return Ok(flat(&of(&inner, name)?.shown()));
        }
        Ok(inner.policies.values().flat_map(|handle| flat(&handle.shown())).collect())
    }

    /// The text of a policy, and its file.
    pub(crate) fn text(&self, name: &str) -> Result<types::Text, Refusal> {
        let inner = self.inner();
        let shown = of(&inner, name)?.shown();
        let file = shown.file.as_ref().map(|path| path.display().to_string());
        Ok(types::Text { text: shown.text.clone(), file })
    }

    /// Lets a policy, or one of its contexts, run, pause or stop, also after a restart of the
    /// agent.
    pub(crate) fn become_(
        &self,
        name: &str,
        context: Option<String>,
        wanted: Wanted,
    ) -> Result<(), Refusal> {
        let mut inner = self.inner();
        let before = inner.store.of(name);
        let answer = {
            of(&inner, name)?;
            let mut kept = before.clone();
            match (&context, wanted) {
                // What is said of the policy is said of all its contexts.
                (None, _) => (kept.wanted, kept.contexts) = (wanted, BTreeMap::new()),
                (Some(context), Wanted::Running) => drop(kept.contexts.remove(context)),
                (Some(context), _) => drop(kept.contexts.insert(context.clone(), wanted)),
            }
            inner.store.keep(name, kept).map_err(|err| not_kept(&err.to_string()))?;
            of(&inner, name)?.ask(Order::Become(wanted, context.clone()))
        };
        drop(inner);
        let done = wait(name, &answer);
        // A policy that cannot start is tried again; a context that cannot is not.
        let is_undone = |refusal: &Refusal| refusal.kind == Kind::WrongState || context.is_some();
        if matches!(&done, Err(refusal) if is_undone(refusal)) {
            let mut inner = self.inner();
            if let Err(err) = inner.store.keep(name, before) {
                warn!(policy = name, "{err}");
            }
        }
        done.map(drop)
    }

    /// Puts a text in force. A new name makes a new policy.
    pub(crate) fn commit(
        &self,
        name: &str,
        text: &str,
        check: bool,
    ) -> Result<types::Committed, Refusal> {
        check_name(name).map_err(|why| {
            Refusal::new(Kind::Refused, format!("cannot commit policy `{name}`"), why, "")
        })?;
        let vouched = self.with.trust.check(name, text, None);
        vouched.map_err(|text| Refusal::of_policy(2, &text))?;
        let mut inner = self.inner();
        let is_new = !inner.policies.contains_key(name);
        if is_new {
            let spawned =
                self.spawn(name, Ok(String::new()), None, (Wanted::Stopped, BTreeMap::new()));
            let handle = spawned.map_err(|err| {
                Refusal::new(Kind::Failed, "cannot start a thread", err.to_string(), "")
            })?;
            inner.policies.insert(name.to_owned(), handle);
        }
        let handle = of(&inner, name)?;
        let over = handle.file.as_ref().and_then(|file| file.text.clone().ok());
        let answer = handle.ask(Order::Commit { text: text.to_owned(), check });
        let started = (is_new && !check).then(|| handle.ask(Order::Become(Wanted::Running, None)));
        drop(inner);
        let mut done = wait(name, &answer);
        if let (Ok(_), Some(started)) = (&done, started)
            && let Err(refusal) = wait(name, &started)
        {
            done = Err(refusal);
        }
        let mut inner = self.inner();
        if is_new && (check || done.is_err()) {
            let handle = inner.policies.remove(name);
            drop(inner);
            end(handle);
        } else if !check && done.is_ok() {
            let kept = Kept { text: Some(text.to_owned()), over, ..inner.store.of(name) };
            inner.store.keep(name, kept).map_err(|err| Refusal {
                what: format!("policy `{name}` is in force, but a restart would forget it"),
                ..not_kept(&err.to_string())
            })?;
        }
        match done? {
            Answer::Committed { contexts, schemes } => {
                Ok(types::Committed { contexts: contexts as u64, schemes: schemes as u64 })
            }
            Answer::Done | Answer::Looking(_) => Ok(types::Committed::default()),
        }
    }

    /// Stops a policy that was committed, and forgets it.
    pub(crate) fn remove(&self, name: &str) -> Result<(), Refusal> {
        let mut inner = self.inner();
        if let Some(file) = &of(&inner, name)?.file {
            let what = format!("cannot remove policy `{name}`");
            let why = format!("it comes from {}", file.path.display());
            let hint = "remove the file and reload the agent, or `isotherm ctl stop`";
            return Err(Refusal::new(Kind::WrongState, what, why, hint));
        }
        let kept = inner.store.keep(name, Kept::default());
        kept.map_err(|err| not_kept(&err.to_string()))?;
        let handle = inner.policies.remove(name);
        drop(inner);
        end(handle);
        tuning::forget(&self.with.tuned_dir, name);
        self.gone(name);
        if let Err(err) = self.with.trips.forget(name) {
            warn!(policy = name, "that its limits stopped it cannot be forgotten: {err}");
        }
        Ok(())
    }

    /// Forgets a policy where it was told of.
    fn gone(&self, name: &str) {
        self.with.switch.forget(name);
        if let Some(fleet) = &self.with.fleet {
            fleet.policy(name, None);
        }
        if let Some(exporter) = &self.with.metrics {
            exporter.lock().unwrap_or_else(PoisonError::into_inner).hold(name, None);
        }
    }

    /// Asks one policy, or all, for what they see. Policies that do not run see nothing.
    pub(crate) fn look(&self, only: Option<&str>) -> Result<Vec<(String, Answering)>, Refusal> {
        let inner = self.inner();
        if let Some(name) = only {
            return Ok(vec![(name.to_owned(), of(&inner, name)?.ask(Order::Look))]);
        }
        let all = inner.policies.iter();
        Ok(all.map(|(name, handle)| (name.clone(), handle.ask(Order::Look))).collect())
    }

    /// Stops all policies, all at once. They run again when the agent starts again.
    pub(crate) fn quit(&self) {
        let policies = std::mem::take(&mut self.inner().policies);
        let asked: Vec<_> = policies.values().map(|handle| handle.ask(Order::Quit)).collect();
        drop(asked);
        for (_, mut handle) in policies {
            handle.thread.take().map(JoinHandle::join);
        }
    }
}

/// Commits the text of a file that has changed. None if it has not.
fn reread(name: &str, handle: &mut Handle, file: &PolicyFile) -> Option<Answering> {
    let is_same = handle.file.as_ref().is_some_and(|before| before.text == file.text);
    if is_same && handle.shown().state != types::State::Invalid {
        return None;
    }
    handle.file = Some(file.clone());
    handle.shown().file = Some(file.path.clone());
    match &file.text {
        Ok(text) => Some(handle.ask(Order::Commit { text: text.clone(), check: false })),
        Err(why) => {
            warn!(policy = name, "the former policy stays in force: {why}");
            None
        }
    }
}

fn of<'a>(inner: &'a Inner, name: &str) -> Result<&'a Handle, Refusal> {
    inner.policies.get(name).ok_or_else(|| {
        let known: Vec<&str> = inner.policies.keys().map(String::as_str).collect();
        let hint = match isotherm_agent::text::nearest(name, known.iter().copied()) {
            Some(near) => format!("did you mean `{near}`?"),
            None if known.is_empty() => "`isotherm ctl commit NAME FILE` makes one".to_owned(),
            None => format!("one of {}", known.join(", ")),
        };
        let what = format!("there is no policy `{name}`");
        Refusal::new(Kind::NoSuchPolicy, what, "the agent runs none of this name", hint)
    })
}

fn not_kept(why: &str) -> Refusal {
    Refusal::new(Kind::Failed, "nothing was done, since it could not be kept", why, "")
}

fn forget(store: &mut Store, name: &str) {
    if let Err(err) = store.keep(name, Kept::default()) {
        warn!(policy = name, "{err}");
    }
}

/// Ends the thread of a policy, and waits for that.
fn end(handle: Option<Handle>) {
    if let Some(mut handle) = handle {
        drop(handle.ask(Order::Quit));
        handle.thread.take().map(JoinHandle::join);
    }
}

fn wait(name: &str, answer: &Answering) -> Result<Answer, Refusal> {
    answer.recv_timeout(PATIENCE).unwrap_or_else(|err| {
        let why = match err {
            RecvTimeoutError::Timeout => "it did not answer in time",
            RecvTimeoutError::Disconnected => "its thread has ended",
        };
        let hint = "the agent's log says more: `journalctl -u isotherm`";
        Err(Refusal::new(Kind::Failed, format!("no answer of policy `{name}`"), why, hint))
    })
}
