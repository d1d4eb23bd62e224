//! The operations set `kdamond`: the kernel's own DAMON looks, and tells what it saw window by window.
//!
//! One kdamond of ours with one context holds all targets; they are added and removed by commits while it runs, in the
//! order of `slots`. A context over this set has the method [`Method::Observed`](isotherm_core::Method::Observed):
//! it takes over the kernel's regions. Where they come from:
//!
//! * `traced`: the tracepoint `damon_aggregated`, if there is a tracefs: every window;
//! * `walks`: else walks over `stat` schemes: a window each, unless reading it takes longer than one.
//!
//! Schemes can be pushed down (`push`): then the kernel applies them, and its counters come back.
//!
//! Invariants: only the kdamond that was claimed (`damon`) is written to; it is stopped and given back when the set is
//! dropped. A commit that the kernel refuses leaves everything as it was. Absent: deciding about regions.

mod error;
mod kernel;
mod members;
mod push;
#[cfg(test)]
mod push_tests;
mod slots;
mod sysfs;
#[cfg(test)]
mod tests;
mod traced;
mod walks;

use std::collections::VecDeque;
use std::sync::Arc;

use isotherm_core::ops::UpdateError;
use isotherm_core::scheme::{Bounds, Pattern};
use isotherm_core::{
    AddrRange, Attrs, Check, Observation, Observed, Operations, PageState, TargetId, Time,
};

use crate::clock::now;
use crate::damon::model::{self, Config};
use crate::damon::{DamonError, Features, Kind, Root, Settings};
use crate::pagewalk::PageWalk;
use crate::proc::Proc;
pub use error::KdamondError;
pub use kernel::Counted;
use kernel::Kernel;
pub use push::{NotPushed, Pushed, push_down};
use slots::Slots;
use traced::Traced;
use walks::{Plan, Raw, Shared, Walker};

/// Windows that were read and not asked for are kept up to this number.
const MAX_QUEUED: usize = 1024;
/// A kdamond is looked after when no window came for so long, in µs, and for three windows.
const SILENT_US: u64 = 2_000_000;
/// So many times within [`RESTART_NS`] a kdamond that ended by itself is started again.
const MAX_RESTARTS: usize = 3;
const RESTART_NS: u64 = 60_000_000_000;

/// Where windows come from.
#[derive(Debug)]
enum Source {
    Trace(Box<Traced>),
    Walk(#[expect(dead_code, reason = "held to end the thread")] Walker),
}

/// Which source to take.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Prefer {
    /// The tracepoint where there is one.
    #[default]
    Best,
    /// Walks, whatever there is.
    Walk,
}

/// What was seen of the kernel's windows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Share {
    /// Windows that were given on.
    pub seen: u64,
    /// Windows that were not.
    pub lost: u64,
}

/// The operations set.
#[derive(Debug)]
pub struct Kdamond {
    // Dropped first: the thread ends before the kernel is let go.
    source: Source,
    shared: Arc<Shared>,
    slots: Slots,
    operations: model::Operations,
    attrs: Attrs,
    /// The intervals that the kernel tuned, in µs.
    tuned: Option<(u64, u64)>,
    pushed: Vec<Pushed>,
    /// What pushed schemes did before the kdamond was started anew.
    counted_before: Vec<Counted>,
    pid: Option<u32>,
    queue: VecDeque<Raw>,
    errors: VecDeque<Result<Raw, DamonError>>,
    current: Option<Raw>,
    share: Share,
    /// When the last window ended, or when the kdamond was started.
    last_end: Time,
    last_news: Time,
    restarts: VecDeque<Time>,
    windows_to_tune: u64,
    /// Whether targets map something else than the kernel was told.
    moved: bool,
    evidence: Option<Box<PageWalk>>,
    troubles: Vec<String>,
    failure: Option<String>,
    proc: Proc,
}

impl Prefer {
    /// `walk` in the environment variable `ISOTHERM_KDAMOND_WINDOWS` asks for walks.
    #[must_use]
    pub fn from_env() -> Self {
        match std::env::var_os("ISOTHERM_KDAMOND_WINDOWS") {
            Some(how) if how == "walk" => Self::Walk,
            _ => Self::Best,
        }
    }
}

impl Kdamond {
    /// The running kernel's. Nothing is claimed or started before the first target.
    ///
    /// # Errors
    ///
    /// If the kernel has no DAMON.
    pub fn open(prefer: Prefer) -> Result<Self, KdamondError> {
        let kernel = sysfs::Sysfs::of(Root::default(), Settings::default())?;
        Self::over(Box::new(kernel), prefer)
    }

    fn over(kernel: Box<dyn Kernel>, prefer: Prefer) -> Result<Self, KdamondError> {
        let shared = Arc::new(Shared::new(kernel));
        let mut troubles = Vec::new();
        let traced = match prefer {
            Prefer::Best => Traced::open()
                .map_err(|err| {
                    troubles.push(format!(
                        "windows are walked, not traced, and some may be missed: {err}"
                    ));
                })
                .ok(),
            Prefer::Walk => None,
        };
        let source = match traced {
            Some(traced) => Source::Trace(Box::new(traced)),
            None => Source::Walk(Walker::start(&shared).map_err(KdamondError::Thread)?),
        };
        Ok(Self {
            source,
            shared,
            slots: Slots::default(),
            operations: model::Operations::Vaddr,
            attrs: Attrs::default(),
            tuned: None,
            pushed: Vec::new(),
            counted_before: Vec::new(),
            pid: None,
            queue: VecDeque::new(),
            errors: VecDeque::new(),
            current: None,
            share: Share::default(),
            last_end: Time::default(),
            last_news: Time::default(),
            restarts: VecDeque::new(),
            windows_to_tune: 0,
            moved: false,
            evidence: None,
            troubles,
            failure: None,
            proc: Proc::default(),
        })
    }

    /// Where windows come from, for people.
    #[must_use]
    pub const fn source(&self) -> &'static str {
        match self.source {
            Source::Trace(_) => "the tracepoint damon_aggregated",
            Source::Walk(_) => "walks over a stat scheme",
        }
    }

    /// What was seen of the kernel's windows so far.
    #[must_use]
    pub const fn share(&self) -> Share {
        self.share
    }

    /// Counts the share anew.
    pub(crate) fn reset_share(&mut self) {
        self.share = Share::default();
    }

    /// What went wrong since this was asked last, and was dealt with.
    pub fn take_troubles(&mut self) -> Vec<String> {
        std::mem::take(&mut self.troubles)
    }

    /// Why no window will come any more, if so.
    #[must_use]
    pub fn failure(&self) -> Option<&str> {
        self.failure.as_deref()
    }

    /// What the kernel's DAMON knows.
    #[must_use]
    pub fn features(&self) -> Features {
        self.shared.kernel().features().clone()
    }

    /// What kind of address space the targets are.
    #[must_use]
    pub const fn operations(&self) -> model::Operations {
        self.operations
    }

    /// The thread of the kernel that does the work, while it runs.
    #[must_use]
    pub const fn pid(&self) -> Option<u32> {
        self.pid
    }

    /// What looks at single pages for evidence and proof, if [`Kdamond::look_at_pages`] succeeded.
    pub fn pages(&mut self) -> Option<&mut PageWalk> {
        self.evidence.as_deref_mut()
    }

    /// Also opens page tables: for schemes of ours that want evidence.
    pub fn look_at_pages(&mut self) {
        if self.evidence.is_some() || self.operations == model::Operations::Paddr {
            return;
        }
        match PageWalk::new() {
            Ok(mut walk) => {
                walk.set_fallback_limit(0);
                for slot in &self.slots.list {
                    // One that has just ended needs no evidence.
                    walk.add_target(slot.id, slot.pid.unsigned_abs()).ok();
                }
                self.evidence = Some(Box::new(walk));
            }
            Err(err) => self.troubles.push(format!("no evidence about single pages: {err}")),
        }
    }

    fn is_traced(&self) -> bool {
        matches!(self.source, Source::Trace(_))
    }

    /// The configuration that the kernel should have.
    fn config(&self) -> Config {
        let attrs = &self.attrs;
        let (sample_us, aggr_us) = self.tuned.unwrap_or((attrs.sample_us, attrs.aggr_us));
        let in_force = Attrs { sample_us, aggr_us, ..*attrs };
        // The kernel keeps counters by index. So those that come and go with the targets stand last.
        let mut schemes: Vec<_> = self.pushed.iter().map(|p| p.model(&in_force)).collect();
        if !self.is_traced() {
            let nr = self.slots.list.len();
            schemes.extend((0..nr).map(|i| stat_of(i, nr)));
        }
        Config {
            refresh_ms: 0,
            context: model::Context {
                operations: self.operations,
                intervals: model::Intervals {
                    sample_us,
                    aggr_us,
                    update_us: attrs.update_us,
                    goal: attrs.intervals_goal,
                },
                nr_regions: Bounds::new(attrs.min_nr_regions, attrs.max_nr_regions),
                targets: self.slots.targets(),
                schemes,
                ..model::Context::default()
            },
        }
    }

    /// What to walk, if windows are walked.
    fn plan(&self) -> Plan {
        Plan { first: self.pushed.len(), targets: self.slots.ids() }
    }

    /// Starts the kdamond with what there is.
    fn start(&mut self) -> Result<(), KdamondError> {
        let config = self.config();
        let mut kernel = self.shared.kernel();
        let pid = kernel.start(&config)?;
        self.slots.settled();
        let (ids, plan) = (self.slots.ids(), self.plan());
        match &mut self.source {
            Source::Trace(traced) => {
                if let Err(err) = traced.listen(pid, ids) {
                    kernel.stop().ok();
                    return Err(err.into());
                }
            }
            Source::Walk(_) => self.shared.walk(Some(plan)),
        }
        drop(kernel);
        self.pid = Some(pid);
        self.last_end = now();
        self.last_news = self.last_end;
        Ok(())
    }

    /// Stops the kdamond. What was pushed down does nothing any more; windows that were read stay.
    pub fn stop(&mut self) {
        if self.pid.is_none() {
            return;
        }
        self.gather();
        self.remember_counts();
        let mut kernel = self.shared.kernel();
        self.shared.walk(None);
        if let Err(err) = kernel.stop() {
            self.troubles.push(err.to_string());
        }
        self.pid = None;
    }

    /// Commits what there is to the kdamond that runs.
    fn commit(&mut self) -> Result<(), KdamondError> {
        if self.pid.is_none() {
            return Ok(());
        }
        let (config, plan) = (self.config(), self.plan());
        let mut kernel = self.shared.kernel();
        kernel.commit(&config)?;
        if !self.is_traced() {
            self.shared.walk(Some(plan));
        }
        drop(kernel);
        self.slots.settled();
        Ok(())
    }

    /// The attributes as they were given.
    #[must_use]
    pub const fn attrs(&self) -> Attrs {
        self.attrs
    }

    /// Puts attributes in force before anything runs.
    pub const fn begin_with(&mut self, attrs: &Attrs) {
        self.attrs = *attrs;
    }

    /// Puts other attributes in force.
    ///
    /// # Errors
    ///
    /// If the kernel refuses them; those before stay then.
    pub fn set_attrs(&mut self, attrs: &Attrs) -> Result<(), KdamondError> {
        let same = |a: &Attrs, b: &Attrs| {
            let key = |a: &Attrs| {
                let regions = (a.min_nr_regions, a.max_nr_regions);
                (a.sample_us, a.aggr_us, a.update_us, regions, a.intervals_goal)
            };
            key(a) == key(b)
        };
        if same(&self.attrs, attrs) {
            return Ok(());
        }
        let before = (self.attrs, self.tuned.take());
        self.attrs = *attrs;
        self.commit().inspect_err(|_| (self.attrs, self.tuned) = before)
    }

    /// Lets the kernel apply these schemes from now on, and none else.
    ///
    /// # Errors
    ///
    /// If the kernel refuses one; those before stay then.
    pub fn push(&mut self, schemes: Vec<Pushed>) -> Result<(), KdamondError> {
        let moves = schemes.len() != self.pushed.len() && !self.is_traced() && self.pid.is_some();
        let before = std::mem::replace(&mut self.pushed, schemes);
        if !moves {
            if let Err(err) = self.commit() {
                self.pushed = before;
                return Err(err);
            }
            self.counted_before.truncate(self.pushed.len());
            return Ok(());
        }
        // The stat schemes behind them would get the counters of others, and others theirs.
        let new = std::mem::replace(&mut self.pushed, before);
        self.stop();
        let before = std::mem::replace(&mut self.pushed, new);
        if let Err(err) = self.start() {
            self.pushed = before;
            self.start()?;
            return Err(err);
        }
        self.counted_before.truncate(self.pushed.len());
        Ok(())
    }

    /// What the pushed schemes did so far; as of the last time that could be asked.
    pub fn counted(&mut self) -> Vec<Counted> {
        let mut counted = match (self.pid, self.pushed.len()) {
            (_, 0) => return Vec::new(),
            (None, n) => vec![Counted::default(); n],
            (Some(_), n) => match self.shared.kernel().counted(n) {
                Ok(counted) => counted,
                Err(_) => vec![Counted::default(); n],
            },
        };
        for (now, before) in counted.iter_mut().zip(&self.counted_before) {
            add(now, before);
        }
        counted
    }

    /// Keeps the counts over a stop: a new kdamond begins at 0.
    fn remember_counts(&mut self) {
        if !self.pushed.is_empty() {
            self.counted_before = self.counted();
        }
    }

    /// Reads what the source has.
    fn gather(&mut self) {
        match &mut self.source {
            Source::Trace(traced) => {
                if let Err(err) = traced.take(&mut self.queue) {
                    self.trouble(err.to_string());
                }
            }
            Source::Walk(_) => {
                self.shared.take(&mut self.errors);
                for walked in std::mem::take(&mut self.errors) {
                    match walked {
                        Ok(raw) => self.queue.push_back(raw),
                        Err(err) => self.walk_failed(&err),
                    }
                }
            }
        }
        while self.queue.len() > MAX_QUEUED {
            let gone = self.queue.pop_front().map_or(0, |raw| raw.lost + 1);
            if let Some(next) = self.queue.front_mut() {
                next.lost += gone;
            }
        }
        if let Some(last) = self.queue.back() {
            self.last_news = self.last_news.max(last.end);
        }
    }

    fn walk_failed(&mut self, err: &DamonError) {
        match err.kind() {
            Kind::NotRunning => self.last_news = Time::default(),
            Kind::NotOurs => self.failure = Some(err.to_string()),
            _ => {
                self.trouble(err.to_string());
                self.shared.walk(Some(self.plan()));
            }
        }
    }

    /// Says something once.
    fn trouble(&mut self, text: String) {
        if !self.troubles.contains(&text) {
            self.troubles.push(text);
        }
    }

    /// Looks after a kdamond of which nothing was heard: if it ended by itself although there is somebody to
    /// watch, it is started again, or given up.
    fn look_after(&mut self, now: Time) {
        let (_, aggr_us) = self.intervals();
        let patience = SILENT_US.max(aggr_us.saturating_mul(3));
        if self.pid.is_none() || now < self.last_news.plus_us(patience) {
            return;
        }
        self.last_news = now;
        let Some(kernel) = self.shared.kernel_now() else { return };
        let running = kernel.is_running();
        drop(kernel);
        match running {
            Ok(true) => return,
            Ok(false) => {}
            Err(err) => {
                self.failure = Some(err.to_string());
                return;
            }
        }
        self.pid = None;
        if !self.slots.list.iter().any(|slot| self.is_alive(slot.pid)) {
            // As it should: there is nobody to watch. The tracker will say so.
            return;
        }
        self.restarts.retain(|at| now.since(*at) < RESTART_NS);
        let text =
            "the kernel's kdamond ended by itself (somebody turned it off, or a commit broke it)";
        if self.restarts.len() >= MAX_RESTARTS {
            self.failure = Some(format!(
                "{text} {} times within a minute\n  hint:  see who else drives DAMON (isotherm doctor), or \
                 use another operations set",
                MAX_RESTARTS + 1
            ));
            return;
        }
        self.restarts.push_back(now);
        match self.start() {
            Ok(()) => self.troubles.push(format!("{text}; it was started again")),
            Err(err) => self.failure = Some(format!("{text}, and cannot be started again: {err}")),
        }
    }

    fn is_alive(&self, pid: i32) -> bool {
        pid == 0 || self.proc.path_of(pid.unsigned_abs(), "stat").exists()
    }

    /// The intervals in force, in µs.
    fn intervals(&self) -> (u64, u64) {
        self.tuned.unwrap_or((self.attrs.sample_us, self.attrs.aggr_us))
    }

    /// Tells the kernel of other mappings. One that refuses keeps what it has; the next change is another try.
    fn tell_moved(&mut self) {
        if std::mem::take(&mut self.moved)
            && let Err(err) = self.commit()
        {
            // A target that has just ended is no target any more: the tracker will say so.
            if self.slots.list.iter().all(|slot| self.is_alive(slot.pid)) {
                self.trouble(err.to_string());
            }
        }
    }

    /// Asks for the tuned intervals once per period of the tuning.
    fn follow_tuning(&mut self) {
        let period = self.attrs.intervals_goal.aggrs;
        if period == 0 {
            return;
        }
        self.windows_to_tune = self.windows_to_tune.saturating_add(1);
        if self.windows_to_tune < period {
            return;
        }
        self.windows_to_tune = 0;
        // Behind a walk this waits for a window, once per period.
        let asked = self.shared.kernel().intervals();
        let Ok(intervals) = asked else { return };
        let tuned = (intervals.sample_us, intervals.aggr_us);
        if tuned == self.intervals() {
            return;
        }
        self.tuned = Some(tuned);
        // Age and frequency in time and percent follow the intervals.
        if self.pushed.iter().any(Pushed::follows_intervals)
            && let Err(err) = self.commit()
        {
            self.trouble(err.to_string());
        }
    }
}

/// A scheme that only counts, all of the target at this index.
fn stat_of(index: usize, nr_targets: usize) -> model::Scheme {
    let all = Pattern::ALL.resolve(&Attrs::default());
    let target = u32::try_from(index).unwrap_or(u32::MAX);
    let other =
        model::Filter { kind: model::FilterKind::Target(target), matching: false, allow: false };
    model::Scheme {
        pattern: all,
        core_filters: if nr_targets > 1 { vec![other] } else { Vec::new() },
        ..model::Scheme::default()
    }
}

fn add(sum: &mut Counted, more: &Counted) {
    let (sum, more) = (&mut sum.stats, &more.stats);
    sum.nr_tried += more.nr_tried;
    sum.sz_tried += more.sz_tried;
    sum.nr_applied += more.nr_applied;
    sum.sz_applied += more.sz_applied;
    sum.sz_ops_filter_passed += more.sz_ops_filter_passed;
    sum.qt_exceeds += more.qt_exceeds;
    sum.nr_snapshots += more.nr_snapshots;
}

impl Drop for Kdamond {
    fn drop(&mut self) {
        self.stop();
    }
}

impl Operations for Kdamond {
    /// Nobody asks: the kernel draws the pages.
    fn prepare(&mut self, batch: &mut [Check]) {
        self.check(batch);
    }

    fn check(&mut self, batch: &mut [Check]) {
        batch.iter_mut().for_each(|check| check.state = PageState::Unknown);
    }

    /// Takes in what is mapped, where the kernel does not follow it by itself. The core gets whole regions, and needs none of it.
    fn update(&mut self, target: TargetId, _: &mut Vec<AddrRange>) -> Result<(), UpdateError> {
        if !self.target_valid(target) {
            return Err(UpdateError::Gone);
        }
        self.follow(target);
        Err(UpdateError::NotNow)
    }

    fn target_valid(&mut self, target: TargetId) -> bool {
        let slot = self.slots.list.iter().find(|slot| slot.id == target);
        slot.is_some_and(|slot| self.is_alive(slot.pid))
    }

    fn next_window(&mut self) -> Option<Observation> {
        let now = now();
        self.gather();
        self.look_after(now);
        let raw = self.queue.pop_front()?;
        self.tell_moved();
        self.follow_tuning();
        self.share.seen += 1;
        self.share.lost += raw.lost;
        let (sample_us, aggr_us) = self.intervals();
        // What was lost took its time, too.
        let start = match raw.lost {
            0 => self.last_end,
            lost => {
                let each = raw.end.since(self.last_end) / (lost + 1);
                Time(raw.end.0.saturating_sub(each))
            }
        };
        self.last_end = raw.end;
        let more = !self.queue.is_empty();
        let observation =
            Observation { start, end: raw.end, lost: raw.lost, more, sample_us, aggr_us };
        self.current = Some(raw);
        Some(observation)
    }

    fn observe(&mut self, target: TargetId, regions: &mut Vec<Observed>) {
        let Some(raw) = &self.current else { return };
        if let Some((_, found)) = raw.targets.iter().find(|(id, _)| *id == target) {
            regions.extend_from_slice(found);
        }
    }
}
