//! One context at work, on a thread of its own.

use std::collections::BTreeSet;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::mpsc::{Receiver, Sender, TryRecvError};

use isotherm_act::apply::ActEvent;
use isotherm_core::{TargetId, Time};
use isotherm_ops::kdamond::Counted;
use isotherm_ops::set::AttachError;
use isotherm_ops::support::SetName;
use isotherm_ops::targets::{Target, TargetEvent, Tracker};
use isotherm_sys::clock;

use super::account::{Account, Standing};
use super::ending::end_command;
use super::heed::{Heed, Heeded};
use super::place::{Place, place};
use super::rules::Rules;
use super::runner::{Options, Refused};
use super::set::{fit, open_physical_set, open_set};
use super::told::{Ended, Event, Ready, Reason, Summary, Told};
use crate::monitor::{Happened, Monitor};
use crate::policy::{ContextPolicy, TargetSpec};
use crate::ready::{bandwidth, idle_percentiles};

/// How often a summary is told, and targets by name are looked for.
const SECOND_US: u64 = 1_000_000;
/// How long to wait for targets that may come, in µs.
const WAIT_US: u64 = 100_000;

/// What a context is told to do.
#[derive(Debug)]
pub(super) enum Order {
    /// Begin; everybody is ready.
    Begin,
    /// This policy is in force from now on.
    Commit(Box<ContextPolicy>),
    /// End.
    Stop,
}

/// Where a context tells what happens.
#[derive(Debug)]
pub(super) struct Post {
    pub(super) context: String,
    pub(super) sender: Sender<Told>,
}

impl Post {
    fn tell(&self, event: Event) {
        self.tell_at(clock::now(), event);
    }

    fn tell_at(&self, at: Time, event: Event) {
        // Nobody who listens is nobody who could be told.
        self.sender.send(Told { context: self.context.clone(), at, event }).ok();
    }
}

/// A context's life, from its start to its last account.
pub(super) fn live(policy: ContextPolicy, options: Options, orders: &Receiver<Order>, post: Post) {
    let prepared = guarded(|| Work::prepare(policy, options, post.sender.clone()));
    let (mut work, ready) = match prepared.and_then(|done| done) {
        Ok(prepared) => prepared,
        Err(Refused { code, text }) => {
            let reason = Reason::Failed { code, text };
            post.tell(Event::Ended(Ended { reason, accounts: Vec::new(), child: None }));
            return;
        }
    };
    post.tell(Event::Ready(ready));
    let reason = match orders.recv() {
        Ok(Order::Begin) => guarded(|| work.run(orders)).and_then(|done| done),
        Ok(Order::Commit(_) | Order::Stop) | Err(_) => Ok(Reason::Stopped),
    };
    let reason = reason.unwrap_or_else(|Refused { code, text }| Reason::Failed { code, text });
    let failed = reason.clone();
    let ended = guarded(AssertUnwindSafe(|| work.end(reason)));
    let ended = ended.unwrap_or(Ended { reason: failed, accounts: Vec::new(), child: None });
    // Lets go of the targets.
    drop(work);
    post.tell(Event::Ended(ended));
}

/// Runs something, and turns a panic into an error.
fn guarded<T>(f: impl FnOnce() -> T) -> Result<T, Refused> {
    catch_unwind(AssertUnwindSafe(f)).map_err(|panic| {
        let said = panic.downcast_ref::<&str>().map(|s| (*s).to_owned());
        let said = said.or_else(|| panic.downcast_ref::<String>().cloned());
        let said = said.unwrap_or_else(|| "no message".to_owned());
        Refused { code: 1, text: format!("internal error: {said}") }
    })
}

/// A context at work.
#[derive(Debug)]
struct Work {
    policy: ContextPolicy,
    options: Options,
    post: Post,
    monitor: Monitor,
    targets: Vec<Target>,
    /// Those of them that the set cannot look at.
    unwatched: BTreeSet<TargetId>,
    rules: Rules,
    heed: Heed,
    /// What schemes did before a commit moved one of them or took it away.
    past: Vec<Account>,
    /// What the places among the schemes had counted then.
    before: Vec<Account>,
    next_second: Time,
    /// Where the schemes run.
    place: Place,
    /// What the kernel counted last, of schemes that run there.
    counted: Vec<Counted>,
}

impl Work {
    /// Opens all that is needed; the command is held in front of its first instruction.
    fn prepare(
        policy: ContextPolicy,
        options: Options,
        sender: Sender<Told>,
    ) -> Result<(Self, Ready), Refused> {
        let tracker = tracker(&policy)?;
        let mut attrs = policy.attrs;
        let opened = if policy.memory().is_some() {
            open_physical_set(policy.ops, &mut attrs)
        } else {
            // What acts has to see single pages; nothing less will do in its stead.
            let ops = policy.ops.or_else(|| acts(&policy).then_some(SetName::PageWalk));
            open_set(ops, &mut attrs)
        };
        let (set, mut why) =
            opened.map_err(|e| Refused { code: e.exit_code(), text: e.to_string() })?;
        let ops = set.name();
        let seed = options.seed.unwrap_or_else(|| clock::now().as_ns());
        let mut monitor = Monitor::new(tracker, set, attrs, seed)
            .map_err(|e| Refused { code: 2, text: format!("impossible attributes: {e}") })?;
        let (place, line) = place(&policy, monitor.kdamond())?;
        why.extend(line);
        let ready = Ready { ops, why };
        let post = Post { context: policy.name.clone(), sender };
        let (targets, next_second) = (Vec::new(), Time::default());
        let (past, before, mut rules) = (Vec::new(), Vec::new(), Rules::default());
        pids(&policy).for_each(|pid| rules.note(pid));
        let heed = Heed::new();
        let mut this = Self {
            place: Place::default(),
            counted: Vec::new(),
            policy,
            options,
            post,
            monitor,
            targets,
            unwatched: BTreeSet::new(),
            rules,
            heed,
            past,
            before,
            next_second,
        };
        let policy = this.policy.clone();
        this.put(place, &policy).map_err(|text| Refused { code: 3, text })?;
        Ok((this, ready))
    }

    fn run(&mut self, orders: &Receiver<Order>) -> Result<Reason, Refused> {
        self.monitor
            .tracker()
            .start()
            .map_err(|e| Refused { code: e.exit_code(), text: e.to_string() })?;
        self.follow();
        loop {
            match self.monitor.next() {
                Happened::Target(event) => self.target(event),
                Happened::NotWatched(target, err) => self.not_watched(&target, &err),
                Happened::NotActedOn(target, err) => self.left_out(target.pid, &err.to_string()),
                Happened::Snapshot => self.heed(),
                Happened::Trouble(text) => self.left_out(0, &text),
                Happened::Failed(text) => return Err(Refused { code: 1, text }),
                Happened::Idle => {}
                Happened::Stopped if self.more_may_come() => {
                    clock::sleep_until(clock::now().plus_us(WAIT_US));
                }
                Happened::Stopped => return Ok(Reason::TargetsGone),
            }
            self.pass_on();
            self.each_second();
            match orders.try_recv() {
                Ok(Order::Commit(policy)) => self.commit(*policy),
                Ok(Order::Begin) | Err(TryRecvError::Empty) => {}
                Ok(Order::Stop) | Err(TryRecvError::Disconnected) => return Ok(Reason::Stopped),
            }
        }
    }

    /// Ends in good order, whatever happened: no action any more, then what was set is undone, then the
    /// command ends.
    fn end(&mut self, reason: Reason) -> Ended {
        if self.place.is_kernel()
            && let Some(kdamond) = self.monitor.kdamond()
        {
            kdamond.stop();
        }
        let accounts = self.accounts();
        self.monitor.commit_schemes(Vec::new());
        if self.options.undo_on_exit {
            self.undo();
        }
        self.pass_on();
        let child = end_command(&mut self.monitor);
        Ended { reason, accounts, child }
    }

    /// Takes back what was set in the targets.
    fn undo(&mut self) {
        let (bytes, errors) = self.monitor.actor().undo();
        for error in &errors {
            self.left_out(0, &format!("advice could not be taken back: {error}"));
        }
        if bytes > 0 || !errors.is_empty() {
            self.post.tell(Event::Undone { bytes, failures: errors.len() });
        }
    }

    fn target(&mut self, event: TargetEvent) {
        match event {
            TargetEvent::Added(target) => self.added(target),
            TargetEvent::Execed { old, target } => {
                self.targets.retain(|t| t.id != old);
                self.unwatched.remove(&old);
                self.added(target);
            }
            TargetEvent::Exited(id) => {
                self.unwatched.remove(&id);
                if let Some(at) = self.targets.iter().position(|t| t.id == id) {
                    let Target { pid, name, .. } = self.targets.remove(at);
                    self.rules.ended(pid);
                    self.post.tell(Event::Gone { pid, name });
                }
            }
            TargetEvent::Refused(err) => self.left_out(0, &err.to_string()),
        }
    }

    fn not_watched(&mut self, target: &Target, err: &AttachError) {
        self.unwatched.insert(target.id);
        let Target { pid, name, .. } = target;
        self.left_out(*pid, &format!("process {pid} ({name}) is not watched: {err}"));
    }

    fn added(&mut self, target: Target) {
        self.post.tell(Event::Added(target.clone()));
        self.targets.push(target);
    }

    fn left_out(&self, pid: u32, text: &str) {
        self.post.tell(Event::LeftOut { pid, text: text.to_owned() });
    }

    /// Whether targets may come that are not there yet.
    fn more_may_come(&self) -> bool {
        let by_rule = |t: &TargetSpec| matches!(t, TargetSpec::Name(_) | TargetSpec::Cgroup(_));
        self.policy.targets.iter().any(by_rule)
    }

    /// Asks the guard about the last window, if anything is done at all.
    fn heed(&mut self) {
        // The guard counts reads and clears of page tables, which physical memory needs none of.
        if !acts(&self.policy) || self.place.is_kernel() || self.policy.memory().is_some() {
            return;
        }
        let watched = self.targets.iter().filter(|t| !self.unwatched.contains(&t.id));
        let targets = watched.map(|t| (t.id, t.pid));
        if self.heed.window(&mut self.monitor, targets) == Heeded::Unblocked {
            self.post.tell(Event::Unblocked);
        }
    }

    /// Takes in who is meant by now.
    fn follow(&mut self) {
        for err in self.rules.follow(&self.policy.targets, self.monitor.tracker()) {
            self.left_out(0, &err.to_string());
        }
    }

    /// Tells what the actor did.
    fn pass_on(&mut self) {
        for event in self.monitor.actor().take_events() {
            let (ActEvent::Acted { at, .. }
            | ActEvent::Trouble { at, .. }
            | ActEvent::Lost { at, .. }
            | ActEvent::Blocked { at, .. }) = &event;
            self.post.tell_at(*at, Event::Act(event));
        }
    }

    fn each_second(&mut self) {
        let now = clock::now();
        if now < self.next_second {
            return;
        }
        self.next_second = now.plus_us(SECOND_US);
        if self.more_may_come() {
            self.follow();
        }
        let summary = self.summary();
        self.post.tell_at(now, Event::Summary(summary));
    }

    fn summary(&mut self) -> Summary {
        let accounts = self.now();
        let blocked = self.monitor.actor().blocked().map(str::to_owned);
        let context = self.monitor.context();
        let schemes = if self.place.is_kernel() {
            let told = self.policy.schemes.iter().zip(&self.counted);
            let both = accounts.into_iter().zip(told);
            both.map(|(account, (s, c))| Standing::of_kernel(account, &s.scheme, c)).collect()
        } else {
            let schemes = accounts.into_iter().zip(context.schemes());
            schemes.map(|(account, scheme)| Standing::new(account, scheme)).collect()
        };
        let attrs = *context.attrs();
        let snapshot = self.monitor.snapshot();
        Summary {
            nr_targets: self.targets.len(),
            nr_regions: snapshot.nr_regions(),
            working_set: snapshot.working_set(),
            sample_us: attrs.sample_us,
            aggr_us: attrs.aggr_us,
            idle_ms: idle_percentiles(snapshot).to_vec(),
            bandwidth: bandwidth(snapshot),
            schemes,
            blocked,
        }
    }

    /// What each place among the schemes counted, over all schemes that were there.
    fn places(&mut self) -> Vec<Account> {
        if self.place.is_kernel()
            && let Some(kdamond) = self.monitor.kdamond()
        {
            self.counted = kdamond.counted();
            let schemes = self.policy.schemes.iter().zip(&self.counted);
            return schemes.map(|(s, c)| Account::of_kernel(&self.policy.name, s, c)).collect();
        }
        let actor = self.monitor.actor();
        let (done, blocked) = (actor.accounts().to_vec(), actor.blocked().map(str::to_owned));
        let installed = self.monitor.context().schemes();
        let schemes = self.policy.schemes.iter().enumerate();
        schemes
            .map(|(i, scheme)| Account {
                blocked: blocked.clone(),
                ..Account::new(&self.policy.name, scheme, installed.get(i), done.get(i))
            })
            .collect()
    }

    /// What the schemes that there are did.
    fn now(&mut self) -> Vec<Account> {
        let mut accounts = self.places();
        for (account, before) in accounts.iter_mut().zip(&self.before) {
            account.subtract(before);
        }
        for account in &mut accounts {
            for past in &self.past {
                if past.name == account.name {
                    account.add(past);
                }
            }
        }
        accounts
    }

    /// What all schemes that there ever were did.
    fn accounts(&mut self) -> Vec<Account> {
        let now = self.now();
        let gone = self.past.iter().filter(|p| now.iter().all(|a| a.name != p.name));
        let gone: Vec<_> = gone.cloned().collect();
        gone.into_iter().chain(now).collect()
    }

    /// Puts another policy in force. What can be refused was refused before.
    fn commit(&mut self, policy: ContextPolicy) {
        if let Err(text) = self.try_commit(&policy) {
            return self.left_out(0, &format!("everything stays as it is: {text}"));
        }
        for target in &policy.targets {
            if let TargetSpec::Pid(pid) = target
                && !self.policy.targets.contains(target)
            {
                self.rules.note(*pid);
            }
        }
        self.policy = policy;
        self.follow();
        self.post.tell(Event::Committed);
    }

    /// The part of a commit that a kernel can refuse.
    fn try_commit(&mut self, policy: &ContextPolicy) -> Result<(), String> {
        let placed = place(policy, self.monitor.kdamond()).map_err(|refused| refused.text)?;
        let (place, line) = placed;
        if policy.attrs != self.policy.attrs {
            self.commit_attrs(policy)?;
        }
        let moves = place.is_kernel() != self.place.is_kernel();
        if policy.schemes != self.policy.schemes || moves {
            let names = |p: &ContextPolicy| -> Vec<String> {
                p.schemes.iter().map(|s| s.settings.name.clone()).collect()
            };
            let (old, new) = (names(&self.policy), names(policy));
            if old.iter().zip(&new).any(|(old, new)| old != new) || new.len() < old.len() {
                // The counters go on by index. What was counted so far is the old names'.
                self.past = self.accounts();
                self.before = self.places();
            }
            if moves {
                self.past = self.accounts();
                self.before.clear();
            }
            if let Err(text) = self.put(place, policy) {
                let old = self.policy.clone();
                self.commit_attrs(&old).ok();
                return Err(text);
            }
            if moves && let Some(line) = line {
                self.left_out(0, &line);
            }
        }
        Ok(())
    }

    fn commit_attrs(&mut self, policy: &ContextPolicy) -> Result<(), String> {
        let mut attrs = policy.attrs;
        fit(self.monitor.ops(), &mut attrs);
        self.monitor.commit_attrs(attrs).map_err(|e| format!("the attributes are refused: {e}"))
    }

    /// Puts the schemes of a policy where they belong, and takes them away from where they were.
    fn put(&mut self, place: Place, policy: &ContextPolicy) -> Result<(), String> {
        match (&place, self.monitor.kdamond()) {
            (Place::Kernel(pushed), Some(kdamond)) => {
                kdamond.push(pushed.clone()).map_err(|e| e.to_string())?;
                self.monitor.commit_schemes(Vec::new());
            }
            (_, kdamond) => {
                if let Some(kdamond) = kdamond
                    && self.place.is_kernel()
                {
                    kdamond.push(Vec::new()).map_err(|e| e.to_string())?;
                }
                self.monitor.commit_schemes(schemes(policy));
            }
        }
        self.place = place;
        Ok(())
    }
}

/// The pids that a policy names.
fn pids(policy: &ContextPolicy) -> impl Iterator<Item = u32> {
    policy.targets.iter().filter_map(|target| match target {
        TargetSpec::Pid(pid) => Some(*pid),
        _ => None,
    })
}

/// The targets that a policy names, with the command held.
pub(crate) fn tracker(policy: &ContextPolicy) -> Result<Tracker, Refused> {
    let refuse = |e: isotherm_ops::targets::TargetError| Refused {
        code: e.exit_code(),
        text: e.to_string(),
    };
    if let Some(memory) = policy.memory() {
        return Tracker::memory(memory.clone()).map_err(refuse);
    }
    let pids: Vec<u32> = pids(policy).collect();
    let mut tracker = Tracker::attach(&pids, policy.children).map_err(refuse)?;
    for target in &policy.targets {
        if let TargetSpec::Command(command) = target
            && let Some((program, args)) = command.split_first()
        {
            let args: Vec<_> = args.iter().map(Into::into).collect();
            tracker.spawn_into(program, &args).map_err(refuse)?;
            // A daemon that forks twice at once would be lost otherwise; the command is our only child.
            let adopted = tracker.adopt_orphans();
            adopted.map_err(|e| Refused { code: 1, text: format!("cannot adopt orphans: {e}") })?;
        }
    }
    Ok(tracker)
}

fn schemes(policy: &ContextPolicy) -> Vec<(isotherm_core::Scheme, isotherm_act::apply::Settings)> {
    policy.schemes.iter().map(|s| (s.scheme.clone(), s.settings.clone())).collect()
}

/// Whether a context does anything to memory, or counts single pages of it.
pub(super) fn acts(policy: &ContextPolicy) -> bool {
    policy.schemes.iter().any(|s| s.scheme.looks_at_pages())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_panic_becomes_an_error_with_its_message() {
        for said in [guarded(|| panic!("out of {}", "luck")), guarded(|| panic!("out of luck"))] {
            let said: Result<(), Refused> = said;
            let refused = said.expect_err("it panicked");
            assert_eq!((refused.code, refused.text.as_str()), (1, "internal error: out of luck"));
        }
        assert_eq!(guarded(|| 7), Ok(7));
    }
}
