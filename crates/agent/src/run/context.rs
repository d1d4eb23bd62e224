//! Runs one context, on its own thread.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::ControlFlow;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvError, Sender, TryRecvError};

use isotherm_act::apply::{ActEvent, Notes, Undone};
use isotherm_core::scheme::Action;
use isotherm_core::{AddrRange, Attrs, TargetId, Time};
use isotherm_host::error::{Class, SetError};
use isotherm_ops::support::SetName;
use isotherm_ops::targets::{Target, TargetEvent};
use isotherm_sys::clock;

use super::account::KernelAccounts;
use super::commit::Between;
use super::ending::end_command;
use super::guard_watch::{Actions, GuardWatch};
use super::heat::{COLD_NS, HeatTable, Warmth, memory_of};
use super::machine::untried;
use super::message::{Effort, Ended, Event, EventSender, PagesLook, Ready, Reason, Seen, Summary};
use super::place::{Place, place};
use super::record::Rows;
use super::runner::{Options, Refused};
use super::set::{open_physical_set, open_set};
use super::start::{nobody, pids, tracker};
use crate::groups::{Group, Groups, Wanted};
use crate::monitor::{Happened, Monitor};
use crate::policy::{ContextPolicy, SchemePolicy};
use crate::ready::{bandwidth, idle_bytes, idle_percentiles};
use crate::recorder::Recorder;
use crate::sharing::LiveSharing;

/// Bytes by idle time in ms.
type IdleBytes = Vec<(u64, u64)>;

/// How often a summary is sent, in µs.
const SECOND_US: u64 = 1_000_000;

/// What the runner asks a context to do.
#[derive(Debug)]
pub(super) enum Order {
    /// Begin: all contexts are ready.
    Begin,
    /// Answer whether this policy can be put in force, and wait for [`Order::Commit`] or
    /// [`Order::Abort`].
    Prepare(Box<ContextPolicy>, Sender<Result<(), Refused>>),
    /// Put the prepared policy in force.
    Commit,
    /// Drop the prepared policy; the former one stays in force.
    Abort,
    /// Neither look nor act from now on, or go on with that.
    Pause(bool),
    /// Write a record to this path from now on, or none. The one before is finished.
    Record(Option<PathBuf>),
    /// Send what was seen.
    Look(Sender<Seen>),
    /// Send what is known of pages.
    LookAtPages(Sender<PagesLook>, Wanted),
    /// Send what every window shows from now on, as long as somebody receives it.
    Watch(Sender<Seen>),
    /// Stop acting and monitoring, and end the thread.
    Stop,
}

/// Runs a context from its start to its last account.
pub(super) fn run_context(
    policy: ContextPolicy,
    (options, notes): (Options, Option<Arc<dyn Notes>>),
    orders: Receiver<Order>,
    mut events: EventSender,
) {
    let prepared = guarded(|| Work::prepare(policy, options, events.clone()));
    let prepared = prepared.map(|done| {
        done.map(|(mut work, ready)| {
            work.monitor.actor().set_notes(notes);
            work.monitor.actor().set_undo_huge(options.undo_huge);
            (work, ready)
        })
    });
    let (mut work, ready) = match prepared.and_then(|done| done) {
        Ok(prepared) => prepared,
        Err(Refused { code, text }) => {
            let reason = Reason::Failed { code, text };
            events.send(Event::Ended(Ended::without_account(reason)));
            return;
        }
    };
    events.send(Event::Ready(ready));
    let reason = match orders.recv() {
        Ok(Order::Begin) => guarded(|| work.run(&orders)).and_then(|done| done),
        Ok(_) | Err(_) => Ok(Reason::Stopped),
    };
    // From now on sending an order fails, so the runner sees that the context has ended.
    drop(orders);
    let reason = reason.unwrap_or_else(|Refused { code, text }| Reason::Failed { code, text });
    let failed = reason.clone();
    let ended = guarded(|| work.end(reason));
    let ended = ended.unwrap_or(Ended::without_account(failed));
    // This releases the targets.
    drop(work);
    events.send(Event::Ended(ended));
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

/// A context that runs.
#[derive(Debug)]
pub(super) struct Work {
    pub(super) policy: ContextPolicy,
    options: Options,
    pub(super) events: EventSender,
    pub(super) monitor: Monitor,
    pub(super) targets: Vec<Target>,
    /// The targets that the operations set cannot look at.
    unwatched: BTreeSet<TargetId>,
    /// Those of them that a privilege is missing for, and why for the last one.
    denied: (BTreeSet<TargetId>, Option<String>),
    /// The first process that the policy names by its pid and that was never watched, and why.
    missing: Option<Refused>,
    guard: GuardWatch,
    /// The actions of all schemes since the start, and whether each is a dry run, by the schemes'
    /// names.
    pub(super) actions: BTreeMap<String, (&'static str, bool)>,
    next_second: Time,
    /// Whether a summary was told.
    has_told: bool,
    /// Where the schemes run.
    pub(super) place: Place,
    /// What the schemes that run or ran in the kernel did.
    pub(super) kernel: KernelAccounts,
    sharing: LiveSharing,
    effort: Effort,
    /// What cgroups use, if that is asked for.
    pub(super) groups: Option<Groups>,
    pub(super) recorder: Option<Recorder>,
    pub(super) rows: Rows,
    /// Who is sent what every window shows.
    watchers: Vec<Sender<Seen>>,
    /// The physical memory of the nodes that schemes migrate to, read when it is first needed.
    node_memory: Option<Vec<Vec<AddrRange>>>,
}

impl Work {
    /// Opens all that the context needs. A command is started, but held before its first
    /// instruction.
    fn prepare(
        policy: ContextPolicy,
        options: Options,
        events: EventSender,
    ) -> Result<(Self, Ready), Refused> {
        let (tracker, missing) = tracker(&policy)?;
        let mut attrs = policy.attrs;
        let opened = if policy.memory().is_some() {
            open_physical_set(policy.ops, &mut attrs)
        } else {
            // Schemes that act need a set that sees single pages, so no other set may be chosen.
            let ops = policy.ops.or_else(|| acts(&policy).then_some(SetName::PageWalk));
            open_set(ops, &mut attrs)
        };
        let (set, mut why) = opened?;
        let ops = set.name();
        let seed = options.seed.unwrap_or_else(|| clock::now().as_ns());
        let mut monitor = Monitor::new(tracker, set, attrs, seed)
            .map_err(|e| Refused { code: 2, text: format!("impossible attributes: {e}") })?;
        let (place, line) = place(&policy, monitor.kdamond())?;
        why.extend(line);
        let nobody = nobody(&mut monitor, &policy, missing.as_ref(), &why);
        why.extend(untried(&policy));
        let ready = Ready { ops, why, nobody };
        let mut this = Self {
            place: Place::default(),
            kernel: KernelAccounts::default(),
            actions: BTreeMap::new(),
            node_memory: None,
            sharing: LiveSharing::default(),
            effort: Effort::default(),
            groups: groups(options),
            recorder: None,
            rows: Rows::default(),
            watchers: Vec::new(),
            policy,
            options,
            events,
            monitor,
            targets: Vec::new(),
            unwatched: BTreeSet::new(),
            denied: Default::default(),
            missing,
            guard: GuardWatch::new(),
            next_second: Time::default(),
            has_told: false,
        };
        let policy = this.policy.clone();
        let between = Between::of(&policy)?;
        if let Some(Refused { text, .. }) = this.missing.clone() {
            this.left_out(0, &text);
        }
        this.push(&place, &policy).map_err(|text| Refused { code: 3, text })?;
        this.install(place, &policy, between);
        this.note_actions();
        Ok((this, ready))
    }

    fn run(&mut self, orders: &Receiver<Order>) -> Result<Reason, Refused> {
        self.monitor.tracker().start()?;
        self.monitor.follow(&self.policy.targets);
        // Targets are found one by one. A summary before that would say that there is nothing to
        // watch, and the agent would be ready although it may watch none of them.
        self.next_second = clock::now().plus_us(SECOND_US);
        loop {
            let happened = self.monitor.next();
            self.record(&happened);
            match happened {
                Happened::Target(event) => self.target(event),
                Happened::NotWatched(target, err) => self.not_watched(&target, &err),
                Happened::Watched(target) => self.watched(&target),
                Happened::Waits(target) => drop(self.unwatched.insert(target.id)),
                Happened::HasTurn(target) => drop(self.unwatched.remove(&target.id)),
                Happened::NotActedOn(target, err) => self.left_out(target.pid, &err.to_string()),
                Happened::Snapshot => self.window(),
                Happened::Trouble(text) => self.left_out(0, &text),
                Happened::Failed(text) => return Err(Refused { code: 1, text }),
                Happened::Idle => {}
                Happened::Stopped => return Ok(Reason::TargetsGone),
            }
            self.pass_on();
            self.each_second();
            match orders.try_recv() {
                Ok(Order::Prepare(policy, answer)) => {
                    if self.answer(*policy, &answer, orders).is_break() {
                        return Ok(Reason::Stopped);
                    }
                }
                Ok(Order::Pause(pause)) => self.pause(pause),
                Ok(Order::Record(path)) => self.begin_record(path),
                Ok(Order::Look(whom)) => drop(whom.send(self.seen())),
                Ok(Order::LookAtPages(whom, wanted)) => drop(whom.send(self.pages(wanted))),
                Ok(Order::Watch(whom)) => self.watchers.push(whom),
                // A commit without a preparation has no effect.
                Ok(Order::Begin | Order::Commit | Order::Abort) | Err(TryRecvError::Empty) => {}
                Ok(Order::Stop) | Err(TryRecvError::Disconnected) => return Ok(Reason::Stopped),
            }
        }
    }

    /// Pauses or goes on. What cgroups used until now is recorded before a pause, since they are
    /// watched anew after it.
    fn pause(&mut self, pause: bool) {
        if pause {
            self.last_rows();
        }
        self.monitor.context().pause(pause);
    }

    /// Prepares a commit, answers whether it can be done, and waits until all contexts have
    /// answered. The context does nothing else meanwhile, so that the preparation stays valid. Each
    /// context answers within a turn of its loop. Breaks if the context has to end.
    fn answer(
        &mut self,
        policy: ContextPolicy,
        answer: &Sender<Result<(), Refused>>,
        orders: &Receiver<Order>,
    ) -> ControlFlow<()> {
        match self.prepare_commit(policy) {
            Err(refused) => drop(answer.send(Err(refused))),
            Ok(prepared) => {
                answer.send(Ok(())).ok();
                // The runner sends nothing else between the two.
                match orders.recv() {
                    Ok(Order::Commit) => self.commit(prepared),
                    Ok(Order::Stop) | Err(RecvError) => {
                        self.abort(prepared);
                        return ControlFlow::Break(());
                    }
                    Ok(_) => self.abort(prepared),
                }
            }
        }
        ControlFlow::Continue(())
    }

    /// Ends the context, whatever happened before: actions stop, then advice is taken back if that
    /// was asked for, then the command is ended.
    fn end(&mut self, reason: Reason) -> Ended {
        if self.place.is_kernel()
            && let Some(kdamond) = self.monitor.kdamond()
        {
            kdamond.stop();
        }
        if !matches!(reason, Reason::Failed { .. }) {
            self.last_rows();
            // A context of less than a second is told of as well.
            if !self.has_told {
                let summary = self.summary();
                self.events.send(Event::Summary(Box::new(summary)));
            }
        }
        self.begin_record(None);
        let accounts = self.accounts();
        self.monitor.commit_schemes(Vec::new());
        if self.options.undo_on_exit {
            self.undo();
        }
        if self.options.undo_huge {
            self.monitor.actor().split_made();
        }
        self.pass_on();
        let child = end_command(&mut self.monitor);
        self.events.send_lost();
        let (late, missing) = (self.monitor.late(), self.missing.take());
        Ended { reason, accounts, child, late, missing }
    }

    /// Takes back the advice that was set in the targets.
    fn undo(&mut self) {
        let undone = self.monitor.actor().undo();
        let Undone { restored_bytes, replaced_bytes, left_bytes, errors, .. } = undone;
        for error in &errors {
            self.left_out(0, &format!("advice could not be taken back: {error}"));
        }
        if restored_bytes + replaced_bytes + left_bytes > 0 || !errors.is_empty() {
            let failures = errors.len();
            self.events.send(Event::Undone {
                restored_bytes,
                replaced_bytes,
                left_bytes,
                failures,
            });
        }
    }

    fn target(&mut self, event: TargetEvent) {
        match event {
            TargetEvent::Added(target) => self.added(target),
            TargetEvent::Execed { old, target } => {
                self.targets.retain(|t| t.id != old);
                self.unwatched.remove(&old);
                self.denied.0.remove(&old);
                self.added(target);
            }
            TargetEvent::Exited(id) => {
                self.unwatched.remove(&id);
                self.denied.0.remove(&id);
                if let Some(at) = self.targets.iter().position(|t| t.id == id) {
                    let Target { pid, name, .. } = self.targets.remove(at);
                    self.events.send(Event::Gone { pid, name });
                }
            }
            TargetEvent::Refused(err) => self.left_out(0, &err.to_string()),
        }
    }

    fn not_watched(&mut self, target: &Target, err: &SetError) {
        self.unwatched.insert(target.id);
        let Target { pid, name, .. } = target;
        let text = format!("process {pid} ({name}) is not watched: {err}");
        self.left_out(*pid, &text);
        if err.class() == Class::Permission {
            self.denied.0.insert(target.id);
            self.denied.1 = Some(text.clone());
        }
        // Another program may let go of it later.
        if err.class() != Class::Busy && pids(&self.policy).any(|named| named == *pid) {
            self.missing.get_or_insert(Refused { code: err.exit_code(), text });
        }
    }

    fn watched(&mut self, target: &Target) {
        self.unwatched.remove(&target.id);
        self.denied.0.remove(&target.id);
        let Target { pid, name, .. } = target;
        self.left_out(*pid, &format!("process {pid} ({name}) is watched from now on"));
    }

    fn added(&mut self, target: Target) {
        self.events.send(Event::Added(target.clone()));
        self.targets.push(target);
    }

    pub(super) fn left_out(&mut self, pid: u32, text: &str) {
        self.events.send(Event::LeftOut { pid, text: text.to_owned() });
    }

    fn window(&mut self) {
        let snapshot = self.monitor.snapshot();
        self.effort.note(snapshot);
        if let Some(groups) = &mut self.groups {
            groups.learn(snapshot);
            self.rows.window(snapshot);
        }
        self.ask_guard();
        if !self.watchers.is_empty() {
            let seen = self.seen();
            self.watchers.retain(|whom| whom.send(seen.clone()).is_ok());
        }
    }

    /// Lets the guard check the last window, if any scheme acts or counts pages.
    fn ask_guard(&mut self) {
        // The guard checks what page tables say, and watching physical memory uses none.
        if !acts(&self.policy) || self.place.is_kernel() || self.policy.memory().is_some() {
            return;
        }
        let watched = self.targets.iter().filter(|t| !self.unwatched.contains(&t.id));
        let targets = watched.map(|t| (t.id, t.pid));
        if self.guard.window(&mut self.monitor, targets) == Actions::Unblocked {
            self.events.send(Event::Unblocked);
        }
    }

    /// Sends the actor's events.
    fn pass_on(&mut self) {
        for event in self.monitor.actor().take_events() {
            match &event {
                ActEvent::Lost { events, .. } => self.events.lose(*events),
                ActEvent::Acted { at, .. }
                | ActEvent::Trouble { at, .. }
                | ActEvent::Proved { at, .. }
                | ActEvent::Blocked { at, .. } => self.events.send_at(*at, Event::Act(event)),
            }
        }
    }

    fn each_second(&mut self) {
        let now = clock::now();
        if now < self.next_second {
            return;
        }
        self.next_second = now.plus_us(SECOND_US);
        self.note_paged_out();
        let summary = self.summary();
        self.record_cgroups(&summary, now, false);
        self.has_told = true;
        self.events.send_at(now, Event::Summary(Box::new(summary)));
    }

    fn seen(&mut self) -> Seen {
        Seen {
            context: self.policy.name.clone(),
            ops: self.monitor.ops().name(),
            snapshot: self.monitor.snapshot().clone(),
            targets: self.targets.clone(),
            attrs: *self.monitor.context().attrs(),
        }
    }

    pub(super) fn summary(&mut self) -> Summary {
        let blocked = self.monitor.actor().blocked().map(str::to_owned);
        let schemes = self.standings();
        let context = self.monitor.context();
        let attrs = *context.attrs();
        let heat = self.heat(&attrs);
        let (idle, idle_summed) = self.idle();
        let groups = self.groups();
        let (nr_waiting, longest_wait_ns) = self.monitor.waiting();
        let snapshot = self.monitor.snapshot();
        Summary {
            groups,
            spans_us: snapshot.spans_us(),
            effort: Effort {
                budget_bp: attrs.budget_bp,
                durations: self.monitor.durations(),
                ..self.effort
            },
            nr_targets: self.targets.len(),
            nr_waiting,
            longest_wait_ns,
            nr_denied: self.denied.0.len(),
            denied: self.denied.1.clone().filter(|_| !self.denied.0.is_empty()),
            nr_regions: snapshot.nr_regions(),
            working_set: snapshot.in_use(),
            sample_us: attrs.sample_us,
            aggr_us: attrs.aggr_us,
            idle_ms: idle_percentiles(snapshot, self.monitor.lengths()).to_vec(),
            idle,
            idle_summed,
            bandwidth: bandwidth(snapshot),
            schemes,
            blocked,
            heat,
            cpu_ns: clock::thread_cpu_ns(),
        }
    }

    fn groups(&mut self) -> Vec<Group> {
        let pids = self.pids();
        let Some(groups) = &mut self.groups else { return Vec::new() };
        let looks = self.monitor.looks();
        groups.now(self.monitor.snapshot(), self.monitor.lengths(), &pids, &looks)
    }

    /// The processes of the targets.
    fn pids(&self) -> BTreeMap<TargetId, u32> {
        self.targets.iter().filter(|t| t.memory.is_none()).map(|t| (t.id, t.pid)).collect()
    }

    fn pages(&mut self, wanted: Wanted) -> PagesLook {
        let (before, pids) = (clock::thread_cpu_ns(), self.pids());
        let snapshot = self.monitor.snapshot();
        let pages = self.groups.as_mut().map(|groups| groups.pages(snapshot, &pids, wanted));
        PagesLook {
            context: self.policy.name.clone(),
            pages: pages.unwrap_or_default(),
            targets: if wanted.units.is_some() { self.targets.clone() } else { Vec::new() },
            cost_ns: clock::thread_cpu_ns().saturating_sub(before),
        }
    }

    /// Bytes by idle time, with shared memory once if the policy pages out; and as a sum over the
    /// targets, if that is something else. What is in use in one process is not idle.
    fn idle(&mut self) -> (IdleBytes, Option<IdleBytes>) {
        let (snapshot, lengths) = (self.monitor.snapshot(), self.monitor.lengths());
        let max = snapshot.max_nr_accesses;
        let summed = idle_bytes(snapshot.targets.iter().flat_map(|t| &t.regions), max, lengths);
        if self.policy.schemes.iter().all(|s| s.scheme.action != Action::Pageout) {
            return (summed, None);
        }
        let pid_of = |id| self.targets.iter().find(|t| t.id == id).map(|t| t.pid);
        self.sharing.follow(snapshot, pid_of);
        match self.sharing.regions_once(snapshot) {
            Some(once) => (idle_bytes(once.iter(), max, lengths), Some(summed)),
            None => (summed, None),
        }
    }

    /// How hot the memory of each node is. For processes the actor knows the nodes of their pages;
    /// for physical memory the addresses say the node.
    fn heat(&mut self, attrs: &Attrs) -> Option<HeatTable> {
        let max_nr = attrs.max_nr_accesses();
        let cold_age = self.monitor.lengths().windows_in(COLD_NS);
        if let Some(placement) = self.monitor.actor().placement() {
            let (nodes, regions) = (placement.nodes(), placement.regions());
            return Some(HeatTable::new(nodes, regions.iter().map(Warmth::of), max_nr, cold_age));
        }
        self.policy.memory()?;
        let node_of = |s: &SchemePolicy| s.scheme.target_nid;
        let mut nodes: Vec<u32> = self.policy.schemes.iter().filter_map(node_of).collect();
        nodes.sort_unstable();
        nodes.dedup();
        if nodes.is_empty() {
            return None;
        }
        let memory = &*self.node_memory.get_or_insert_with(|| memory_of(&nodes));
        let regions = self.monitor.snapshot().targets.iter().flat_map(|t| &t.regions);
        let warmth = regions.map(|region| Warmth::on(region, memory));
        Some(HeatTable::new(&nodes, warmth, max_nr, cold_age))
    }
}

pub(super) fn schemes(
    policy: &ContextPolicy,
) -> Vec<(isotherm_core::Scheme, isotherm_act::apply::Settings)> {
    policy.schemes.iter().map(|s| (s.scheme.clone(), s.settings.clone())).collect()
}

/// What follows cgroups, if that is asked for.
fn groups(options: Options) -> Option<Groups> {
    let groups = options.by_cgroup.then(Groups::default)?;
    Some(if options.by_age { groups.with_ages() } else { groups })
}

/// Whether a scheme of the context acts on memory, or counts single pages.
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
