//! A monitor over real processes. It joins a tracker, an operations set, a context and the clock.
//!
//! ```no_run
//! use isotherm_core::Attrs;
//! use isotherm_agent::monitor::Monitor;
//!
//! let mut monitor = Monitor::of_pid(4711, Attrs::default())?;
//! while let Some(snapshot) = monitor.next_snapshot()? {
//!     println!("{} bytes in use", snapshot.in_use());
//! }
//! # Ok::<(), isotherm_agent::monitor::MonitorError>(())
//! ```
//!
//! Invariants. The operations set knows a target before the context asks about it. The context
//! drops a target before its pid can belong to another process. A target that was found by a rule
//! ([`Monitor::follow`]) is removed when the rule does not match it any more. Not here: printing,
//! files, and the decision when to stop.

mod durations;
mod rules;
mod spending;
mod turns;
mod watching;

use std::collections::VecDeque;
use std::{fmt, io};

use isotherm_act::ActError;
use isotherm_act::apply::{Acting, Actor, Settings};
use isotherm_core::scheme::{Entry, Installed, Scheme};
use isotherm_core::{
    Attrs, AttrsError, Clock, Context, Driver, Event, Late, Lengths, Method, Operations, Snapshot,
    Suspends, TargetId, Time,
};
use isotherm_host::error::{Class, SetError, SetKind};
use isotherm_host::proc::Proc;
use isotherm_host::{Machine, Roots};
use isotherm_ops::doctor::{self, NoSet};
use isotherm_ops::guard;
use isotherm_ops::kdamond::Kdamond;
use isotherm_ops::set::{OpsSet, PageView, SchemeOps};
use isotherm_ops::targets::{Claim, Target, TargetError, TargetEvent, Tracker};
use isotherm_sys::clock::{self, Wake};

pub use self::durations::{BOUNDS_US, Durations};
use self::rules::Rules;
use self::spending::{Spending, Used};
use self::turns::Turns;
pub use self::watching::Looks;
use self::watching::Watched;
use crate::others::Others;
use crate::policy::TargetSpec;

/// How often the tracker looks for forks, execs and exits, in ns.
const TRACK_EVERY_NS: u64 = 100_000_000;

/// How often it does at least in a context that is slowed, in ns. Orders to the context wait as
/// long.
const TRACK_SLOWED_NS: u64 = 400_000_000;

/// The share of one CPU that this may take is one in so many, as long as it is done this often.
const TRACK_SHARE: u64 = 500;
const TRACK_MOST_NS: u64 = 800_000_000;
/// Fewer targets than this are looked at as often as was asked for.
const TRACK_FEW: usize = 100;

/// How often it is tried to watch a target that another program watches, in ns.
const CLAIM_EVERY_NS: u64 = 1_000_000_000;
/// So many are tried at a time.
const CLAIMS: usize = 64;

/// The most processes that one look for new ones tells of one by one if they may not be watched.
const REFUSED_ALONE: usize = 3;

/// The most targets whose size is read at once. Of no more than that the files stay open.
const SIZES_PER_LOOK: usize = 16;

/// How closely a monitor follows what becomes of its targets. It costs tens of microseconds per
/// target and look, so who watches hundreds of processes follows them less closely.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Closeness {
    /// How often forks, execs and exits are looked for, in ns.
    pub track_ns: u64,
    /// Whether mappings are read again as soon as some target has grown or shrunk. Else they are
    /// read once per update interval only.
    pub follow_sizes: bool,
    /// For how long mappings may be left unread while a target maps as much as before, in ns, if
    /// it does not cost so much that they are left for longer in any case; see
    /// [`PageWalk::set_same_size_rest`]. Other sets take no notice.
    ///
    /// [`PageWalk::set_same_size_rest`]: isotherm_ops::pagewalk::PageWalk::set_same_size_rest
    pub same_size_ns: u64,
}

impl Default for Closeness {
    /// Every 100 ms, sizes are followed, and mappings read at each update if that costs little.
    fn default() -> Self {
        Self { track_ns: TRACK_EVERY_NS, follow_sizes: true, same_size_ns: 0 }
    }
}

/// The monotonic clock, with an alarm that ends long sleeps when the tracker has to be polled.
#[derive(Debug)]
struct MonotonicClock {
    alarm: Time,
    /// The time since boot, which goes on while the machine is suspended.
    since_boot: fn() -> Time,
    suspends: Suspends,
    /// When the last sleep ended, and how long it was until the next in each case.
    woke_at: Option<Time>,
    durations: Durations,
}

impl Default for MonotonicClock {
    fn default() -> Self {
        let (suspends, durations) = (Suspends::default(), Durations::default());
        let since_boot = clock::since_boot;
        Self { alarm: Time::default(), since_boot, suspends, woke_at: None, durations }
    }
}

impl MonotonicClock {
    /// The clock, from now on.
    fn started() -> Self {
        let mut clock = Self::default();
        clock.suspended_ns();
        clock
    }

    /// For how long the machine was suspended since the last call, in ns.
    fn suspended_ns(&mut self) -> u64 {
        let (before, boot) = (clock::now(), (self.since_boot)());
        self.suspends.note(before, boot, clock::now())
    }
}

impl Clock for MonotonicClock {
    fn now(&mut self) -> Time {
        clock::now()
    }

    fn sleep_until(&mut self, deadline: Time) -> bool {
        if let Some(woke_at) = self.woke_at {
            self.durations.note(clock::now().since(woke_at));
        }
        let signal = clock::sleep_until(deadline.min(self.alarm)) == Wake::Signal;
        self.woke_at = Some(clock::now());
        signal || self.alarm < deadline
    }

    fn cpu_ns(&mut self) -> Option<u64> {
        Some(clock::thread_cpu_ns())
    }
}

/// What happened.
#[derive(Debug)]
pub enum Happened {
    /// A window is over: see [`Monitor::snapshot`].
    Snapshot,
    /// A target was added, ended, or replaced its program. The set and the context know it already.
    Target(TargetEvent),
    /// The set cannot look at this target; it is left out. If that is because another program
    /// watches it ([`SetKind::Busy`]), it is tried again.
    NotWatched(Target, SetError),
    /// This target was left out for a while ([`SetKind::Busy`]), and is watched from now on.
    Watched(Target),
    /// The set has no place for this target ([`SetKind::Full`]). It is watched in turn.
    Waits(Target),
    /// This target has waited, and is watched from now on.
    HasTurn(Target),
    /// This target is watched, but no scheme may act on it.
    NotActedOn(Target, ActError),
    /// The set had a problem and solved it. The text is for people.
    Trouble(String),
    /// The set cannot go on, and why.
    Failed(String),
    /// Nothing happened. The caller can check signals and deadlines. This or the end of a window
    /// comes about every 100 ms.
    Idle,
    /// No target is left, and none can come.
    Stopped,
}

/// Why a monitor could not start, or cannot go on.
#[derive(Debug)]
#[non_exhaustive]
pub enum MonitorError {
    /// The process cannot be a target.
    Target(TargetError),
    /// The attributes are not valid.
    Attrs(AttrsError),
    /// No operations set works here.
    NoSet(NoSet),
    /// There are targets, and the operations set can look at none of them. This is the error for
    /// the first one.
    NotWatched(Target, SetError),
    /// The operations set cannot go on, and why.
    Failed(String),
}

impl MonitorError {
    /// The exit code of a program that ends for it.
    #[must_use]
    pub fn exit_code(&self) -> u8 {
        match self {
            Self::Target(err) => err.exit_code(),
            Self::Attrs(_) => Class::Usage.exit_code(),
            Self::NoSet(err) => err.exit_code(),
            Self::NotWatched(_, err) => err.exit_code(),
            Self::Failed(_) => Class::Unexpected.exit_code(),
        }
    }
}

impl fmt::Display for MonitorError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Target(err) => err.fmt(f),
            Self::Attrs(err) => err.fmt(f),
            Self::NoSet(err) => err.fmt(f),
            Self::NotWatched(Target { pid, name, .. }, err) => {
                write!(f, "process {pid} ({name}) is not watched: {err}")
            }
            Self::Failed(why) => write!(f, "the operations set cannot go on: {why}"),
        }
    }
}

impl std::error::Error for MonitorError {}

/// When to look at targets, which is due at `due` and every `track_ns`, now that a window has ended
/// at `end`. `window`: how long the next one is, and how late it may end, in ns.
fn with_window(due: Time, track_ns: u64, end: Time, window: (u64, u64)) -> Time {
    let (near_ns, next_end) = (window.0.min(track_ns / 2), end + window.0.saturating_add(window.1));
    if due.since(end) <= near_ns {
        end
    } else if due < next_end && next_end.since(due) <= near_ns {
        next_end
    } else {
        due
    }
}

/// Attributes that cannot be put in force.
fn impossible(why: AttrsError) -> SetError {
    SetError::new(SetKind::Invalid, format!("impossible attributes: {why}"), "", "", "")
}

/// Monitors processes.
#[derive(Debug)]
pub struct Monitor {
    driver: Driver<Acting<OpsSet>, MonotonicClock>,
    tracker: Tracker,
    rules: Rules,
    proc: Proc,
    closeness: Closeness,
    track_at: Time,
    events: VecDeque<Happened>,
    watched: Vec<Watched>,
    /// Targets that another program watches, and when that is looked at again.
    claimed: Vec<Target>,
    claim_at: Time,
    /// Those for which the set has no place.
    turns: Turns,
    /// Whether a scheme acts.
    acts: bool,
    /// What the budget is compared with.
    spending: Spending,
    /// The share of touched pages that others hid, at the end of the last window with a target.
    hidden: f64,
    /// How long the windows took, and how many came late.
    lengths: Lengths,
    late: Late,
    /// For how long the machine was suspended in the last window.
    suspended_ns: u64,
    /// Schemes that the context does not have yet.
    commits: VecDeque<Vec<(Scheme, Settings)>>,
    /// The index of the watched target whose size is read next.
    next_size: usize,
    text: Vec<u8>,
    cpu_ns: u64,
}

impl Monitor {
    /// Monitors the targets of `tracker` with `ops`. `seed` determines the random choice of pages.
    ///
    /// # Errors
    ///
    /// If the attributes are not valid.
    pub fn new(
        tracker: Tracker,
        mut ops: OpsSet,
        mut attrs: Attrs,
        seed: u64,
    ) -> Result<Self, AttrsError> {
        attrs.method = ops.method(attrs.method);
        let context = Context::new(attrs, seed)?;
        if let Some(kdamond) = ops.kdamond() {
            kdamond.begin_with(&attrs);
        }
        if let OpsSet::PageWalk(walk) = &mut ops {
            walk.spare_same_size();
        }
        Ok(Self {
            driver: Driver::new(context, Acting::new(ops, Actor::new()), MonotonicClock::started()),
            acts: false,
            spending: Spending::default(),
            hidden: 0.0,
            lengths: Lengths::default(),
            late: Late::default(),
            suspended_ns: 0,
            commits: VecDeque::new(),
            tracker,
            rules: Rules::default(),
            proc: Proc::default(),
            closeness: Closeness::default(),
            track_at: Time::default(),
            events: VecDeque::new(),
            watched: Vec::new(),
            claimed: Vec::new(),
            claim_at: Time::default(),
            turns: Turns::default(),
            next_size: 0,
            text: Vec::new(),
            cpu_ns: clock::process_cpu_ns(),
        })
    }

    /// Monitors one process and its children with the best set that works on this machine.
    ///
    /// # Errors
    ///
    /// If the process cannot be a target, the attributes are not valid, or no set works.
    pub fn of_pid(pid: u32, attrs: Attrs) -> Result<Self, MonitorError> {
        let tracker = Tracker::attach(&[pid], true).map_err(MonitorError::Target)?;
        let choice = doctor::choose(None).map_err(MonitorError::NoSet)?;
        let seed = clock::now().as_ns();
        Self::new(tracker, choice.ops, attrs, seed).map_err(MonitorError::Attrs)
    }

    /// The last finished window.
    #[must_use]
    pub const fn snapshot(&self) -> &Snapshot {
        self.driver.context.snapshot()
    }

    /// The context, to read its attributes and targets or to commit new attributes.
    pub const fn context(&mut self) -> &mut Context {
        &mut self.driver.context
    }

    /// Puts other attributes in force, in the context and in a set that looks by itself.
    ///
    /// # Errors
    ///
    /// If they are not valid, or the kernel refuses them; nothing changes then.
    pub fn commit_attrs(&mut self, mut attrs: Attrs) -> Result<(), SetError> {
        attrs.method = self.ops().method(attrs.method);
        attrs.validate().map_err(impossible)?;
        if let Some(kdamond) = self.driver.ops.set.kdamond() {
            kdamond.set_attrs(&attrs)?;
        }
        self.driver.context.commit(attrs).map_err(impossible)
    }

    /// The operations set, if it is the kernel's DAMON (`kdamond`).
    pub const fn kdamond(&mut self) -> Option<&mut Kdamond> {
        self.driver.ops.set.kdamond()
    }

    /// The operations set in use.
    #[must_use]
    pub const fn ops(&self) -> &OpsSet {
        &self.driver.ops.set
    }

    /// The operations set, to look at memory independently of the context.
    pub const fn set(&mut self) -> &mut OpsSet {
        &mut self.driver.ops.set
    }

    /// The actor, which acts on the targets.
    pub const fn actor(&mut self) -> &mut Actor {
        &mut self.driver.ops.actor
    }

    /// Counts the young pages of all targets, for [`isotherm_ops::guard::Guard::control`]; none if
    /// the set does not see pages.
    ///
    /// # Errors
    ///
    /// The error of the kernel.
    pub fn young_pages(&mut self) -> Option<io::Result<u64>> {
        let ids: Vec<TargetId> = self.watched.iter().map(|w| w.id).collect();
        let pages = self.driver.ops.set.page_view().and_then(PageView::tables)?;
        Some(guard::young_pages(pages.tables(), &ids))
    }

    /// Replaces the schemes at the next turn of the loop, by index; see
    /// [`Context::commit_schemes`]. Their settings change at the same point. If this is called
    /// again before that, the second commit takes effect one turn later.
    pub fn commit_schemes(&mut self, mut schemes: Vec<(Scheme, Settings)>) {
        let sees_pages = self.driver.context.attrs().method != Method::Observed;
        for (scheme, settings) in &mut schemes {
            settings.only_on = scheme.source_nid;
            scheme.by_page = sees_pages && settings.acts_by_page(scheme.action);
        }
        let acted = self.acts;
        self.acts = schemes.iter().any(|(scheme, _)| scheme.looks_at_pages());
        self.commits.push_back(schemes);
        self.commit_next();
        if self.acts && !acted {
            self.begin_acting();
        }
    }

    /// Gives the next schemes to the context, if the ones before are in force.
    fn commit_next(&mut self) {
        if self.driver.ops.is_committing() {
            return;
        }
        let Some(schemes) = self.commits.pop_front() else { return };
        let (schemes, settings): (Vec<_>, Vec<_>) = schemes.into_iter().unzip();
        self.driver.ops.commit_settings(settings);
        self.driver.context.commit_schemes(schemes);
        self.driver.announce_schemes();
    }

    /// What every scheme of this monitor did, by name. Removed schemes come first; the schemes in
    /// force follow in their order. The names are those of [`Settings::name`].
    #[must_use]
    pub fn accounts(&self) -> Vec<Entry> {
        self.driver.ops.accounts(self.driver.context.schemes().iter().map(Installed::stats))
    }

    /// Attaches to all present targets.
    fn begin_acting(&mut self) {
        self.driver.ops.set.keep_evidence();
        let targets: Vec<_> = self.tracker.targets().cloned().collect();
        for target in targets {
            if self.watched.iter().any(|w| w.id == target.id) {
                self.act_on(target);
            }
        }
    }

    /// Follows the targets more, or less, closely from now on. [`Happened::Idle`] comes as often as
    /// they are looked at.
    pub fn set_closeness(&mut self, closeness: Closeness) {
        if let OpsSet::PageWalk(walk) = &mut self.driver.ops.set {
            walk.set_same_size_rest(closeness.same_size_ns);
        }
        self.closeness = closeness;
    }

    /// Looks at the targets less often, if the intervals were doubled so many times to save CPU
    /// time: a wake-up for nothing but that look costs as much as one for a sample.
    pub fn set_slowed(&mut self, times: u32) {
        let track_ns = TRACK_EVERY_NS << times.min(8);
        self.closeness.track_ns = track_ns.min(TRACK_SLOWED_NS);
    }

    /// Watches what these specifications match from now on, instead of those given before:
    /// processes that match later are added, and processes that do not match any more are removed.
    /// While one of them is a rule, the monitor does not stop by itself. A pid counts only if it
    /// was not given before; commands and physical memory are the tracker's.
    pub fn follow(&mut self, specs: &[TargetSpec]) {
        self.rules.set(specs);
        self.track_at = Time::default();
    }

    /// How many targets other programs watch now, if this one watches none; otherwise 0.
    #[must_use]
    pub fn of_others(&self) -> usize {
        if self.watched.is_empty() { self.claimed.len() } else { 0 }
    }

    /// Whether processes that do not exist yet can become targets by a rule.
    #[must_use]
    pub fn more_may_come(&self) -> bool {
        self.rules.more_may_come()
    }

    /// The tracker.
    pub const fn tracker(&mut self) -> &mut Tracker {
        &mut self.tracker
    }

    /// Runs to the end of the next window. Returns `None` when no target is left and none can come.
    /// Targets are added and removed meanwhile. A target that cannot be watched is left out as long
    /// as others can.
    ///
    /// # Errors
    ///
    /// If there are targets and none of them can be watched, or the operations set cannot go on.
    /// After [`MonitorError::NotWatched`] another call tries again.
    pub fn next_snapshot(&mut self) -> Result<Option<&Snapshot>, MonitorError> {
        loop {
            match self.next() {
                Happened::Snapshot => return Ok(Some(self.snapshot())),
                Happened::Stopped => return Ok(None),
                Happened::Failed(why) => return Err(MonitorError::Failed(why)),
                Happened::Idle if self.watched.is_empty() => self.watch_any()?,
                Happened::Target(_)
                | Happened::NotWatched(..)
                | Happened::Watched(_)
                | Happened::Waits(_)
                | Happened::HasTurn(_)
                | Happened::NotActedOn(..)
                | Happened::Trouble(_)
                | Happened::Idle => {}
            }
        }
    }

    /// Takes in the targets that are there now, before the first window.
    ///
    /// # Errors
    ///
    /// If there are targets and none of them can be watched, now or later: the first error.
    pub fn take_in_targets(&mut self) -> Result<(), MonitorError> {
        self.track(clock::now());
        if !self.watched.is_empty() || !self.claimed.is_empty() || self.tracker.has_command() {
            return Ok(());
        }
        let of_one = |event: &Happened| {
            let refused = matches!(event, Happened::Target(TargetEvent::Refused(_)));
            refused || matches!(event, Happened::NotWatched(..))
        };
        match self.events.iter().position(of_one).and_then(|at| self.events.remove(at)) {
            Some(Happened::NotWatched(target, err)) => Err(MonitorError::NotWatched(target, err)),
            Some(Happened::Target(TargetEvent::Refused(err))) => Err(MonitorError::Target(err)),
            _ => Ok(()),
        }
    }

    /// Tries again to watch the targets, when none is watched.
    fn watch_any(&mut self) -> Result<(), MonitorError> {
        let targets: Vec<Target> = self.tracker.targets().cloned().collect();
        let mut first = None;
        for target in targets {
            match self.try_watch(&target) {
                Ok(()) => return Ok(()),
                Err(err) => first = first.or(Some((target, err))),
            }
        }
        let Some((target, err)) = first else { return Ok(()) };
        // A target that has just ended cannot be watched either, which is no error.
        self.track(clock::now());
        if self.tracker.targets().any(|t| t.id == target.id) && self.watched.is_empty() {
            return Err(MonitorError::NotWatched(target, err));
        }
        Ok(())
    }

    /// Runs until something happens.
    #[expect(clippy::should_implement_trait, reason = "a lending loop, not an iterator")]
    pub fn next(&mut self) -> Happened {
        loop {
            if let Some(event) = self.events.pop_front() {
                return event;
            }
            let now = clock::now();
            if now >= self.track_at {
                let began_ns = self.has_many().then(clock::thread_cpu_ns);
                self.track(now);
                self.ask_set();
                self.track_at = now + self.track_after(began_ns);
                self.driver.clock.alarm = self.track_at;
                continue;
            }
            if self.watched.is_empty() {
                if self.tracker.all_gone() && !self.more_may_come() {
                    return Happened::Stopped;
                }
                // There is nothing to watch yet: the command is between fork and exec, or a child
                // may still come.
                self.driver.clock.sleep_until(self.track_at);
                return Happened::Idle;
            }
            self.commit_next();
            match self.driver.run() {
                Event::Snapshot => {
                    let cpu_ns = clock::process_cpu_ns();
                    let cost = &mut self.driver.context.snapshot_mut().cost;
                    cost.cpu_ns = cpu_ns.saturating_sub(self.cpu_ns);
                    self.cpu_ns = cpu_ns;
                    self.lengths.note(self.driver.context.snapshot());
                    self.late.note(self.driver.context.snapshot());
                    self.suspended_ns = self.driver.clock.suspended_ns();
                    self.lengths.suspended(self.suspended_ns);
                    self.late.suspended(self.suspended_ns);
                    self.check_budget();
                    if self.driver.context.snapshot().touched().is_some() {
                        self.hidden = self.driver.context.hidden();
                    }
                    self.driver.ops.sweep();
                    self.driver.ops.place(self.driver.context.snapshot());
                    self.track_with_window();
                    return Happened::Snapshot;
                }
                Event::Interrupted => return Happened::Idle,
                // The set saw the end of the last target before the tracker did.
                Event::Stopped => {
                    self.watched.clear();
                    self.track_at = Time::default();
                }
            }
        }
    }

    /// A window has ended, and the program is awake. Targets that are to be looked at near the end
    /// of a window, this one or the next, are looked at with it, since a wake-up of its own costs
    /// more than that look.
    fn track_with_window(&mut self) {
        let (end, attrs) = (self.driver.context.snapshot().end, self.driver.context.attrs());
        let ns = |us: u64| us.saturating_mul(1000);
        // The next window may end a little late.
        let window = (ns(attrs.aggr_us), ns(attrs.sample_us));
        self.track_at = with_window(self.track_at, self.closeness.track_ns, end, window);
        self.driver.clock.alarm = self.track_at;
    }

    /// Whether so many targets are watched that to look at them must not cost too much.
    const fn has_many(&self) -> bool {
        self.watched.len() >= TRACK_FEW
    }

    /// After what time targets are looked at again, if this look began when the thread had used so
    /// much CPU time: the later the more it has cost where there are hundreds, but within a second.
    /// Few are looked at as often whatever it costs, since a child that nobody has seen begin is
    /// not followed.
    fn track_after(&self, began_ns: Option<u64>) -> u64 {
        let Some(began_ns) = began_ns.filter(|_| self.has_many()) else {
            return self.closeness.track_ns;
        };
        let cost_ns = clock::thread_cpu_ns().saturating_sub(began_ns);
        let most_ns = TRACK_MOST_NS.max(self.closeness.track_ns);
        cost_ns.saturating_mul(TRACK_SHARE).clamp(self.closeness.track_ns, most_ns)
    }

    /// Tells if the budget of the method `census` is too small, or exceeded.
    fn check_budget(&mut self) {
        let Some(touched) = self.driver.context.snapshot().touched() else { return };
        let at = self.driver.context.snapshot().end;
        let budget_bp = self.driver.context.attrs().budget_bp;
        if self.spending.waits(at, budget_bp) {
            return;
        }
        let spent = self.driver.spent();
        let used = Used {
            at,
            all_ns: clock::thread_cpu_ns().saturating_sub(spent.acting_ns),
            watching_ns: spent.units_ns.saturating_add(spent.context_ns),
        };
        let text = self.spending.note(used, budget_bp, touched.watched);
        self.events.extend(text.map(Happened::Trouble));
        self.driver.meter_context(self.spending.measures());
    }

    /// How long the windows so far really took, for times that follow from ages.
    #[must_use]
    pub const fn lengths(&self) -> &Lengths {
        &self.lengths
    }

    /// For how long the machine was suspended in the last finished window, in ns. The monotonic
    /// clock stands still then, so the window's start and end do not show it.
    #[must_use]
    pub const fn suspended_ns(&self) -> u64 {
        self.suspended_ns
    }

    /// How many windows came late, if that is worth telling.
    #[must_use]
    pub fn late(&self) -> Option<Late> {
        Some(self.late).filter(Late::is_worth_telling)
    }

    /// How long samples took.
    #[must_use]
    pub const fn durations(&self) -> Durations {
        self.driver.clock.durations
    }

    /// What others hide by clearing accessed bits, if that is worth telling.
    pub fn others(&mut self) -> Option<Others> {
        let hidden = self.hidden;
        Others::is_worth_telling(hidden).then(|| Others {
            rate: self.driver.ops.others_clear(),
            hidden,
            who: Machine::read(&Roots::default()).clearers,
        })
    }

    /// Reports problems of the set.
    fn ask_set(&mut self) {
        if let OpsSet::PageWalk(walk) = &mut self.driver.ops.set {
            self.events.extend(walk.take_troubles().into_iter().map(Happened::Trouble));
        }
        let Some(kdamond) = self.driver.ops.set.kdamond() else { return };
        kdamond.follow_marks();
        self.events.extend(kdamond.take_troubles().into_iter().map(Happened::Trouble));
        if let Some(why) = kdamond.failure() {
            self.events.push_back(Happened::Failed(why.to_owned()));
        }
    }

    /// Polls the tracker, and gives the set and the context its changes.
    fn track(&mut self, now: Time) {
        self.look_for_more(now);
        for event in self.tracker.poll(now) {
            self.rules.note(&event);
            match &event {
                TargetEvent::Added(target) => self.watch(target.clone()),
                TargetEvent::Execed { old, target } => {
                    // The process stays claimed meanwhile.
                    let claim = Claim::take(&self.proc, target.pid);
                    self.unwatch(*old);
                    self.watch(target.clone());
                    drop(claim);
                }
                TargetEvent::Exited(id) => self.unwatch(*id),
                TargetEvent::Refused(_) => {}
            }
            self.events.push_back(Happened::Target(event));
        }
        if let Some(text) = self.turns.news() {
            self.events.push_back(Happened::Trouble(text));
        }
        if self.closeness.follow_sizes && self.has_resized() {
            self.driver.context.update_soon();
        }
        if now >= self.claim_at {
            self.claim_at = now + CLAIM_EVERY_NS;
            self.claim_again();
            self.take_turns(now);
        }
    }

    /// Adds and removes targets by the rules. Of many that may not be watched, as those of another
    /// user, only the first is told.
    fn look_for_more(&mut self, now: Time) {
        let mut refused = self.rules.follow_at(now, &mut self.tracker).into_iter();
        let alone = if refused.len() > REFUSED_ALONE { 1 } else { REFUSED_ALONE };
        let told = refused.by_ref().take(alone).map(TargetEvent::Refused).map(Happened::Target);
        self.events.extend(told);
        if refused.len() > 0 {
            let text = format!("{} more processes that match cannot be targets", refused.len());
            self.events.push_back(Happened::Trouble(text));
        }
    }

    /// Whether a target maps more or less than before. Mappings are read once per update interval,
    /// which is late for new memory. The size is one number, and reading it costs a few µs.
    fn has_resized(&mut self) -> bool {
        let mut resized = false;
        let keeps_open = self.watched.len() <= SIZES_PER_LOOK;
        for _ in 0..self.watched.len().min(SIZES_PER_LOOK) {
            self.next_size = (self.next_size + 1) % self.watched.len();
            let watched = &mut self.watched[self.next_size];
            let pages = watched.size.pages(&self.proc, watched.pid, &mut self.text);
            if !keeps_open {
                watched.size.close();
            }
            // If the process has just ended, the tracker will report it.
            let Some(pages) = pages else { continue };
            resized |= watched.pages != pages && watched.pages != 0;
            watched.pages = pages;
        }
        resized
    }
}

#[cfg(test)]
mod tests;
