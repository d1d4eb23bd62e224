//! The engine at work on real processes.

use std::collections::BTreeSet;

use isotherm_act::apply::{ActEvent, Settings};
use isotherm_core::scheme::Entry;
use isotherm_core::{AddrRange, Applied, Request, Scheme, TargetId, Time};
use isotherm_host::Roots;
use isotherm_host::nodes::{Gauge, Level};
use isotherm_host::proc::Proc;
use isotherm_ops::support::SetName;
use isotherm_ops::targets::{ChildExit, Target, TargetEvent, find};
use isotherm_pages::places::Places;
use isotherm_sys::clock;

use super::engine::{Engine, Hands, LinkStanding};
use super::heat::HeatTable;
use super::hierarchy::Hierarchy;
use super::knobs::Knobs;
use crate::monitor::{Happened, Monitor};
use crate::policy::{ContextPolicy, TargetSpec};
use crate::run::{Actions, GuardWatch, Refused, Rules, end_command, open_set, tracker};

/// How often a summary is told, and targets by rule are looked for, in µs.
const SECOND_US: u64 = 1_000_000;
/// How long to wait for targets that may come, in µs.
const WAIT_US: u64 = 100_000;
/// Time that making memory old before it is demoted may take, in ns per second. It is used only while there is
/// something to exchange.
const ARM_NS_PER_S: u64 = 50_000_000;
/// While there is nothing to move, there is a step only for so many; a new window brings one at once.
const IDLE_STEPS: u64 = 5;
/// Nodes that cannot be read for so many steps in a row are gone.
const PATIENCE: u32 = 10;

/// Whose memory is tiered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Whom {
    /// Targets that are named.
    pub targets: Vec<TargetSpec>,
    /// Whether their children are targets too.
    pub children: bool,
    /// Also every process with at least so much resident memory, in bytes.
    pub min_rss: Option<u64>,
}

/// Something that happened.
#[derive(Debug)]
pub enum TierEvent {
    /// For people: how it works here.
    Note(String),
    /// For people: something is not as it should be.
    Warning(String),
    /// A scheme moved something.
    Moved(ActEvent),
    /// How everything stands; about once per second.
    Summary(Box<TierSummary>),
    /// It is over, and nothing follows: no target is left and none can come, or this error.
    Over(Option<Refused>),
}

/// How everything stands.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct TierSummary {
    /// Number of targets.
    pub nr_targets: usize,
    /// Number of regions.
    pub nr_regions: usize,
    /// The sample interval, in µs.
    pub sample_us: u64,
    /// The aggregation interval, in µs.
    pub aggr_us: u64,
    /// The links.
    pub links: Vec<LinkStanding>,
    /// Each scheme: its name and its counters.
    pub schemes: Vec<Entry>,
    /// How hot memory is, node by node.
    pub heat: HeatTable,
    /// Why nothing is moved, if so.
    pub blocked: Option<String>,
}

/// The engine, with a monitor.
#[derive(Debug)]
pub struct Work {
    engine: Engine,
    monitor: Monitor,
    places: Places,
    roots: Roots,
    gauge: Gauge,
    whom: Whom,
    rules: Rules,
    large: BTreeSet<u32>,
    targets: Vec<Target>,
    unwatched: BTreeSet<TargetId>,
    guard: GuardWatch,
    step_us: u64,
    next_step: Time,
    next_second: Time,
    /// Steps in a row without levels.
    blind: u32,
    events: Vec<TierEvent>,
    over: bool,
}

impl Work {
    /// Opens all that is needed; a command is held in front of its first instruction.
    ///
    /// # Errors
    ///
    /// If the operations set does not work here, a target cannot be one, or the machine does not say where its
    /// frames are.
    pub fn prepare(
        hierarchy: &Hierarchy,
        knobs: &Knobs,
        whom: Whom,
        seed: Option<u64>,
    ) -> Result<Self, Refused> {
        let roots = Roots::default();
        let context = ContextPolicy {
            name: "tier".to_owned(),
            targets: whom.targets.clone(),
            children: whom.children,
            attrs: knobs.attrs,
            ..ContextPolicy::default()
        };
        let tracker = tracker(&context)?;
        let mut attrs = knobs.attrs;
        let (set, why) = open_set(Some(SetName::PageWalk), &mut attrs)
            .map_err(|e| Refused { code: e.exit_code(), text: e.to_string() })?;
        let places = Places::read(&roots).map_err(|why| Refused {
            code: 3,
            text: format!(
                "cannot tell on which node a page is\n  why:   {why}\n  hint:  a kernel with CONFIG_NUMA and \
                 CONFIG_MEMORY_HOTPLUG"
            ),
        })?;
        let mut gauge = Gauge::new(&hierarchy.nodes());
        gauge.read(&roots).map_err(|text| Refused { code: 3, text })?;
        let seed = seed.unwrap_or_else(|| clock::now().as_ns());
        let mut monitor = Monitor::new(tracker, set, attrs, seed)
            .map_err(|e| Refused { code: 2, text: format!("impossible attributes: {e}") })?;
        let (engine, settings) = Engine::new(hierarchy, knobs);
        monitor.actor().set_places(places.clone());
        monitor.actor().set_arming(ARM_NS_PER_S);
        monitor.act_by_hand(settings);
        let mut rules = Rules::default();
        for target in &whom.targets {
            if let TargetSpec::Pid(pid) = target {
                rules.note(*pid);
            }
        }
        Ok(Self {
            engine,
            monitor,
            places,
            roots,
            gauge,
            whom,
            rules,
            large: BTreeSet::new(),
            targets: Vec::new(),
            unwatched: BTreeSet::new(),
            guard: GuardWatch::new(),
            step_us: knobs.step_us,
            next_step: Time::default(),
            next_second: Time::default(),
            blind: 0,
            events: why.into_iter().map(TierEvent::Note).collect(),
            over: false,
        })
    }

    /// Lets a command that was started run.
    ///
    /// # Errors
    ///
    /// If it cannot.
    pub fn start(&mut self) -> Result<(), Refused> {
        let started = self.monitor.tracker().start();
        started.map_err(|e| Refused { code: e.exit_code(), text: e.to_string() })?;
        self.follow();
        Ok(())
    }

    /// Works for at most about 0.1 s, and tells what happened.
    pub fn turn(&mut self) -> Vec<TierEvent> {
        if !self.over {
            self.work();
        }
        std::mem::take(&mut self.events)
    }

    fn work(&mut self) {
        match self.monitor.next() {
            Happened::Target(event) => self.target(event),
            Happened::NotWatched(target, err) => {
                self.unwatched.insert(target.id);
                let Target { pid, name, .. } = target;
                self.warn(format!("process {pid} ({name}) is not watched: {err}"));
            }
            Happened::NotActedOn(target, err) => {
                self.warn(format!("process {} is not tiered: {err}", target.pid));
            }
            Happened::Snapshot => self.window(),
            Happened::Trouble(text) => self.warn(text),
            Happened::Failed(text) => return self.end(Some(Refused { code: 1, text })),
            Happened::Idle => {}
            Happened::Stopped if self.more_may_come() => {
                clock::sleep_until(clock::now().plus_us(WAIT_US));
            }
            Happened::Stopped => return self.end(None),
        }
        let now = clock::now();
        if now >= self.next_step && self.monitor.actor().blocked().is_none() {
            self.step();
            let pause =
                if self.engine.is_idle() { self.step_us * IDLE_STEPS } else { self.step_us };
            self.next_step = now.plus_us(pause);
        }
        self.pass_on();
        if now >= self.next_second {
            self.next_second = now.plus_us(SECOND_US);
            self.follow();
            let summary = self.summary();
            self.events.push(TierEvent::Summary(Box::new(summary)));
        }
    }

    fn window(&mut self) {
        let watched = self.targets.iter().filter(|t| !self.unwatched.contains(&t.id));
        let targets: Vec<_> = watched.map(|t| (t.id, t.pid)).collect();
        if self.guard.window(&mut self.monitor, targets.into_iter()) == Actions::Unblocked {
            self.events.push(TierEvent::Note("pages are moved again".to_owned()));
        }
        let snapshot = self.monitor.snapshot().clone();
        let attrs = *self.monitor.context().attrs();
        self.with_hands(|engine, hands| engine.snapshot(hands, &snapshot, &attrs));
        self.next_step = self.next_step.min(clock::now());
    }

    /// Gives the engine the hands that move real pages.
    fn with_hands<R>(&mut self, f: impl FnOnce(&mut Engine, &mut Real<'_>) -> R) -> R {
        let nodes = self.engine.nodes().to_vec();
        let mut hands = Real {
            monitor: &mut self.monitor,
            places: &self.places,
            roots: &self.roots,
            gauge: &mut self.gauge,
            nodes: &nodes,
        };
        f(&mut self.engine, &mut hands)
    }

    fn step(&mut self) {
        match self.with_hands(|engine, hands| engine.step(hands)) {
            Ok(()) => self.blind = 0,
            Err(text) => {
                self.blind += 1;
                if self.blind == 1 {
                    self.warn(format!("nothing is moved now: {text}"));
                }
                if self.blind == PATIENCE {
                    let text = format!(
                        "the hierarchy is broken\n  why:   {text}\n  hint:  was a node unplugged? start again with \
                         those that are left"
                    );
                    self.end(Some(Refused { code: 3, text }));
                }
            }
        }
    }

    fn target(&mut self, event: TargetEvent) {
        match event {
            TargetEvent::Added(target) => self.targets.push(target),
            TargetEvent::Execed { old, target } => {
                self.targets.retain(|t| t.id != old);
                self.unwatched.remove(&old);
                self.targets.push(target);
            }
            TargetEvent::Exited(id) => {
                self.unwatched.remove(&id);
                if let Some(at) = self.targets.iter().position(|t| t.id == id) {
                    let Target { pid, .. } = self.targets.remove(at);
                    self.rules.ended(pid);
                    self.large.remove(&pid);
                }
            }
            TargetEvent::Refused(err) => self.warn(err.to_string()),
        }
    }

    /// Takes in who is meant by now.
    fn follow(&mut self) {
        for err in self.rules.follow(&self.whom.targets, self.monitor.tracker()) {
            self.warn(err.to_string());
        }
        let Some(least) = self.whom.min_rss else { return };
        for pid in find::by_rss(&Proc::default(), least).unwrap_or_default() {
            // Who has just ended, or may not be watched, is left out; the latter is told once.
            if self.large.insert(pid)
                && let Err(err) = self.monitor.tracker().add(pid)
                && !matches!(err.exit_code(), 5)
            {
                self.warn(err.to_string());
            }
        }
    }

    fn more_may_come(&self) -> bool {
        let by_rule = |t: &TargetSpec| matches!(t, TargetSpec::Name(_) | TargetSpec::Cgroup(_));
        self.whom.min_rss.is_some() || self.whom.targets.iter().any(by_rule)
    }

    fn pass_on(&mut self) {
        for event in self.monitor.actor().take_events() {
            match event {
                ActEvent::Acted { .. } => self.events.push(TierEvent::Moved(event)),
                ActEvent::Trouble { pid, text, .. } => {
                    let whom = if pid == 0 { String::new() } else { format!("process {pid}: ") };
                    self.warn(format!("{whom}{text}"));
                }
                ActEvent::Lost { events, .. } => {
                    self.warn(format!("{events} events were dropped: there were too many at once"));
                }
                ActEvent::Blocked { text, .. } => {
                    self.warn(format!("nothing is moved any more: {text}"));
                }
            }
        }
    }

    fn warn(&mut self, text: String) {
        self.events.push(TierEvent::Warning(text));
    }

    fn end(&mut self, why: Option<Refused>) {
        self.over = true;
        self.events.push(TierEvent::Over(why));
    }

    /// How everything stands.
    pub fn summary(&mut self) -> TierSummary {
        let attrs = *self.monitor.context().attrs();
        let nr_regions = self.monitor.snapshot().nr_regions();
        let actor = self.monitor.actor();
        let names = actor.settings().iter().map(|s: &Settings| s.name.clone());
        let counters = actor.accounts().iter().map(|a| a.counters.clone());
        let schemes = names.zip(counters).collect();
        TierSummary {
            nr_targets: self.targets.len(),
            nr_regions,
            sample_us: attrs.sample_us,
            aggr_us: attrs.aggr_us,
            links: self.engine.standing(),
            schemes,
            heat: self.engine.heat(),
            blocked: actor.blocked().map(str::to_owned),
        }
    }

    /// Ends: nothing is moved any more, and a command that was started is ended.
    pub fn finish(mut self) -> Option<ChildExit> {
        self.monitor.act_by_hand(Vec::new());
        end_command(&mut self.monitor)
    }
}

/// Hands that move real pages.
#[derive(Debug)]
struct Real<'a> {
    monitor: &'a mut Monitor,
    places: &'a Places,
    roots: &'a Roots,
    gauge: &'a mut Gauge,
    nodes: &'a [u32],
}

impl Hands for Real<'_> {
    fn levels(&mut self) -> Result<Vec<Level>, String> {
        self.gauge.read(self.roots)
    }

    fn bytes_on(&mut self, target: TargetId, range: AddrRange, bytes: &mut Vec<u64>) {
        // A target that has gone has nothing anywhere.
        if self.monitor.bytes_on(target, range, self.places, self.nodes, bytes).is_err() {
            bytes.iter_mut().for_each(|b| *b = 0);
        }
    }

    fn act(&mut self, request: &Request, scheme: &Scheme) -> Applied {
        self.monitor.act(request, scheme)
    }

    fn now(&self) -> Time {
        clock::now()
    }
}
