//! A kdamond from inside: a session, and the orders that it takes between two steps of its loop.

use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, TryRecvError};
use std::time::Duration;

use isotherm_act::apply::Settings;
use isotherm_agent::monitor::{Closeness, Happened, Monitor};
use isotherm_agent::ready::{bandwidth, idle_percentiles};
use isotherm_agent::session::{Session, Step};
use isotherm_core::TargetId;
use isotherm_core::scheme::{Counters, Scheme, Walk};
use isotherm_damon::model::Config;
use isotherm_sys::clock;
use rustix::io::Errno;

use super::watch::Watch;
use super::worker::{Order, Walked};
use super::{Log, cgroups, policy, targets};
use crate::engine::{Results, SchemeResults, Status};
use crate::trace::{Source, Trace};
use crate::tree::TriedRegion;

/// How often orders and the ends of targets are looked for, in ns. The kernel takes calls once per
/// sample interval.
const LOOK_NS: u64 = 5_000_000;

/// What a look costs more per target, in ns, so that many targets are looked at less often.
const LOOK_NS_PER_TARGET: u64 = 500_000;

/// How closely all processes of a machine are followed, as `isotherm top` does.
const EVERYONE: Closeness =
    Closeness { track_ns: 50_000_000, follow_sizes: false, same_size_ns: 60_000_000_000 };

/// Where a context tells what happens.
pub(super) struct Telling {
    pub(super) trace: Arc<Trace>,
    pub(super) from: Source,
}

/// A context that runs.
pub(super) struct Kdamond {
    session: Session,
    config: Config,
    watch: Watch,
    schemes: Vec<(Scheme, Settings)>,
    targets: targets::Targets,
    /// Who waits for the walk under way.
    walker: Option<Sender<Walked>>,
    log: Log,
    telling: Telling,
    /// The sample interval that was told last, in µs.
    told_us: u64,
    /// By scheme: the counts and the quota in bytes that were told.
    told: Vec<(Counters, u64)>,
}

impl Kdamond {
    /// Makes a context, on the thread that will run it.
    ///
    /// # Errors
    ///
    /// As [`Engine::start`](crate::Engine::start).
    pub(super) fn start(
        config: &Config,
        watch: Watch,
        log: Log,
        telling: Telling,
    ) -> Result<Self, Errno> {
        let context = &config.context;
        let refuse = |why: String| {
            log(&why);
            Errno::INVAL
        };
        policy::check(context, &log)?;
        cgroups::check(context, &log)?;
        let mut attrs = watch.attrs(context);
        let mut targets = targets::Targets::default();
        let tracker = match watch {
            Watch::Memory => targets.memory(context, &log)?,
            Watch::Processes => targets.processes(context, &log)?,
            Watch::Everyone | Watch::Nothing => targets::none(),
        };
        let set = watch.open(&mut attrs, &log)?;
        let seed = clock::now().as_ns();
        let mut monitor = Monitor::new(tracker, set, attrs, seed)
            .map_err(|why| refuse(format!("impossible attributes: {why}")))?;
        monitor.take_in_targets().map_err(|why| refuse(why.to_string()))?;
        targets.give_first_ranges(context, &mut monitor);
        let mut this = Self {
            session: Session::new(monitor, &watch.specs()),
            config: config.clone(),
            watch,
            schemes: watch.schemes(context),
            targets,
            walker: None,
            log,
            telling,
            told_us: context.intervals.sample_us,
            told: Vec::new(),
        };
        this.session.commit_schemes(this.schemes.clone());
        this.session.monitor_mut().context().pause(context.pause);
        this.follow_closely();
        Ok(this)
    }

    /// How often the targets are looked at. The kernel reads mappings by its update interval only.
    fn follow_closely(&mut self) {
        if self.watch == Watch::Everyone {
            self.session.monitor_mut().set_closeness(EVERYONE);
            return;
        }
        let nr = u64::try_from(self.config.context.targets.len()).unwrap_or(u64::MAX);
        let track_ns = LOOK_NS + nr.saturating_mul(LOOK_NS_PER_TARGET).min(20 * LOOK_NS);
        let closeness = Closeness { track_ns, follow_sizes: false, same_size_ns: 0 };
        self.session.monitor_mut().set_closeness(closeness);
    }

    /// Runs until it is told to stop, or no target is left.
    pub(super) fn run(&mut self, orders: &Receiver<Order>) {
        if self.watch == Watch::Nothing {
            return self.linger(orders, |_| true);
        }
        loop {
            match self.session.next() {
                Step::Monitor(Happened::Stopped) => {
                    return self.linger(orders, targets::Targets::any_zombie);
                }
                Step::Monitor(Happened::Failed(why)) => {
                    return (self.log)(&format!("the context ends: {why}"));
                }
                Step::Monitor(Happened::Snapshot) => self.trace(),
                Step::Monitor(happened) => self.tell(&happened),
                Step::Unblocked => {}
            }
            self.session.monitor_mut().actor().take_events().into_iter().for_each(drop);
            self.trace_schemes();
            self.answer_walker();
            loop {
                match orders.try_recv() {
                    Ok(Order::Call(call)) => call(self),
                    Ok(Order::Walk(walker)) => self.begin_walk(walker),
                    Ok(Order::Stop) | Err(TryRecvError::Disconnected) => return,
                    Err(TryRecvError::Empty) => break,
                }
            }
        }
    }

    /// Takes orders while there is nothing to look at and the kernel's worker would go on all the
    /// same: where targets have ended and were not waited for by their parents, since to the kernel
    /// such a process is still there (`damon_va_target_valid()`), with no memory in use, and where
    /// there is no region of physical memory.
    fn linger(&mut self, orders: &Receiver<Order>, goes_on: fn(&targets::Targets) -> bool) {
        while goes_on(&self.targets) {
            match orders.recv_timeout(Duration::from_nanos(LOOK_NS)) {
                Ok(Order::Call(call)) => call(self),
                Ok(Order::Walk(walker)) => drop(walker.send(self.seen_nothing())),
                Ok(Order::Stop) | Err(RecvTimeoutError::Disconnected) => return,
                Err(RecvTimeoutError::Timeout) => {
                    if let Some(walker) = self.walker.take() {
                        walker.send(self.seen_nothing()).ok();
                    }
                }
            }
        }
    }

    /// What a walk finds where there is no region.
    fn seen_nothing(&self) -> Walked {
        if self.schemes.is_empty() || self.config.context.pause {
            return Err(Errno::CANCELED);
        }
        Ok(vec![Vec::new(); self.schemes.len()])
    }

    fn tell(&self, happened: &Happened) {
        match happened {
            // Of all the processes of a machine, some always end or cannot be watched.
            Happened::NotWatched(..) | Happened::NotActedOn(..)
                if self.watch == Watch::Everyone => {}
            Happened::NotWatched(target, why) => {
                (self.log)(&format!("process {} is not watched: {why}", target.pid));
            }
            Happened::NotActedOn(target, why) => {
                (self.log)(&format!("process {} is not acted on: {why}", target.pid));
            }
            Happened::Trouble(text) => (self.log)(text),
            _ => {}
        }
    }

    /// Tells of the window that is over, and of intervals that were tuned since the last.
    fn trace(&mut self) {
        let Telling { trace, from } = &self.telling;
        if !trace.is_heard() {
            return;
        }
        let snapshot = self.session.monitor().snapshot();
        if snapshot.sample_us != self.told_us {
            self.told_us = snapshot.sample_us;
            trace.tuned(from, snapshot.end, snapshot.sample_us);
        }
        trace.aggregated(from, snapshot, &self.ids());
    }

    /// Tells of what schemes were applied to, what they have counted, and what their quotas are, if
    /// anybody listens. What they were applied to is kept for that only.
    fn trace_schemes(&mut self) {
        let is_heard = self.telling.trace.is_heard();
        let applied = self.session.monitor_mut().context().log_tried(is_heard);
        if !is_heard {
            return self.told.clear();
        }
        let (at, ids) = (clock::now(), self.ids());
        let Self { telling: Telling { trace, from }, session, told, .. } = self;
        trace.before_apply(from, at, &applied, session.monitor().snapshot(), &ids);
        trace.schemes(from, at, session.monitor_mut().context().schemes(), told);
    }

    /// The targets in the order of their indices; those that cannot be watched are none.
    fn ids(&self) -> Vec<Option<TargetId>> {
        match self.watch {
            Watch::Processes => self.targets.ids(),
            _ => {
                let targets = self.session.monitor().snapshot().targets.iter();
                targets.map(|target| Some(target.id)).collect()
            }
        }
    }

    /// All that can be seen of the context from inside.
    pub(super) fn status(&mut self) -> Status {
        let mut results = self.results();
        if self.watch == Watch::Nothing {
            // What was committed takes effect in a loop that never turns here.
            let intervals = &self.config.context.intervals;
            (results.sample_us, results.aggr_us) = (intervals.sample_us, intervals.aggr_us);
        }
        let snapshot = self.session.monitor().snapshot();
        let regions_of = |id: Option<TargetId>| {
            let target = snapshot.targets.iter().find(|target| Some(target.id) == id);
            target.map(|target| target.regions.clone()).unwrap_or_default()
        };
        let regions = self.ids().into_iter().map(regions_of).collect();
        Status { config: self.config.clone(), results, regions }
    }

    fn begin_walk(&mut self, walker: Sender<Walked>) {
        match self.session.monitor_mut().context().begin_walk() {
            Ok(()) => self.walker = Some(walker),
            Err(_busy) => drop(walker.send(Err(Errno::BUSY))),
        }
    }

    /// Answers who waits for a walk, if that is over.
    fn answer_walker(&mut self) {
        let Some(walker) = self.walker.take() else { return };
        let seen = match self.session.monitor_mut().context().walk() {
            Walk::Running { .. } => {
                self.walker = Some(walker);
                return;
            }
            Walk::Done(seen) => seen,
            Walk::None | Walk::Cancelled => {
                walker.send(Err(Errno::CANCELED)).ok();
                return;
            }
        };
        let nr_probes = self.config.context.probes.len();
        let mut by_scheme = vec![Vec::new(); self.schemes.len()];
        for tried in seen {
            let region = TriedRegion {
                start: tried.range.start,
                end: tried.range.end,
                nr_accesses: tried.nr_accesses,
                age: tried.age,
                sz_filter_passed: tried.passed,
                // Probes look at physical memory only, and there `idle` has none.
                probe_hits: vec![0; nr_probes],
            };
            if let Some(regions) = by_scheme.get_mut(tried.scheme) {
                regions.push(region);
            }
        }
        walker.send(Ok(by_scheme)).ok();
    }

    /// Takes over a configuration (R§2.9).
    ///
    /// # Errors
    ///
    /// EINVAL or ENOMEM; nothing has changed then.
    pub(super) fn commit(&mut self, config: &Config) -> Result<(), Errno> {
        let context = &config.context;
        policy::check(context, &self.log)?;
        if context.operations != self.config.context.operations {
            (self.log)("the operations set cannot change while the context runs");
            return Err(Errno::INVAL);
        }
        let has_regions = context.targets.iter().any(|target| !target.regions.is_empty());
        if matches!(self.watch, Watch::Nothing | Watch::Everyone) && has_regions {
            (self.log)("regions of physical memory cannot be given to a context that runs without");
            return Err(Errno::INVAL);
        }
        cgroups::check(context, &self.log)?;
        let monitor = self.session.monitor_mut();
        if self.watch == Watch::Processes {
            self.targets.commit(context, monitor, &self.log)?;
        }
        let attrs = self.watch.attrs(context);
        if self.watch.attrs(&self.config.context) != attrs {
            monitor.commit_attrs(attrs).map_err(|why| {
                (self.log)(&why.to_string());
                Errno::INVAL
            })?;
        }
        monitor.context().pause(context.pause);
        self.config = config.clone();
        self.config.context.targets.retain(|target| !target.obsolete);
        self.schemes = self.watch.schemes(context);
        self.session.commit_schemes(self.schemes.clone());
        self.follow_closely();
        Ok(())
    }

    /// Takes over the goals of schemes, by index.
    pub(super) fn commit_goals(&mut self, config: &Config) {
        for ((scheme, settings), told) in self.schemes.iter_mut().zip(&config.context.schemes) {
            scheme.quota.goals = policy::goals(&told.quota.goals, settings);
        }
        self.session.commit_schemes(self.schemes.clone());
    }

    /// What the context shows of itself.
    pub(super) fn results(&mut self) -> Results {
        let monitor = self.session.monitor();
        let idle_ms = idle_percentiles(monitor.snapshot(), monitor.lengths()).to_vec();
        let bandwidth = bandwidth(monitor.snapshot());
        let context = self.session.monitor_mut().context();
        let of = |scheme: &isotherm_core::scheme::Installed| SchemeResults {
            stats: scheme.stats().clone(),
            effective_bytes: scheme.quota().esz,
        };
        let (sample_us, aggr_us) = (context.attrs().sample_us, context.attrs().aggr_us);
        let schemes = context.schemes().iter().map(of).collect();
        Results { schemes, sample_us, aggr_us, idle_ms, bandwidth }
    }
}
