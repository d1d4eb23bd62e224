//! A monitor for programs that watch one context by themselves. It also follows its targets by name
//! and cgroup, and it stops acting when the operations set's answers cannot be true.
//!
//! Invariants. While a scheme acts, the guard checks every window before the next one begins. A
//! target that was found by a rule is removed when the rule does not match it any more. Not here:
//! threads, commits of whole policies, and accounts over several contexts; [`crate::run`] has
//! those.

use isotherm_act::apply::Settings;
use isotherm_core::{Scheme, TargetId, Time};
use isotherm_ops::targets::{Target, TargetError, TargetEvent};
use isotherm_sys::clock;

use crate::monitor::{Happened, Monitor};
use crate::policy::TargetSpec;
use crate::run::{Actions, GuardWatch, Rules};

/// How often processes are looked for by name and cgroup, in µs.
const FOLLOW_US: u64 = 1_000_000;
/// How long to sleep while there is no target and more may come, in µs.
const WAIT_US: u64 = 100_000;

/// What happened in a session.
#[derive(Debug)]
pub enum Step {
    /// An event of the monitor.
    Monitor(Happened),
    /// A process that a rule matches cannot be a target.
    Refused(TargetError),
    /// Actions go on: the operations set has passed its self-test again.
    Unblocked,
}

/// A monitor with its rules and its guard.
#[derive(Debug)]
pub struct Session {
    monitor: Monitor,
    specs: Vec<TargetSpec>,
    rules: Rules,
    guard: GuardWatch,
    targets: Vec<Target>,
    unwatched: Vec<TargetId>,
    steps: Vec<Step>,
    follow_at: Time,
    acts: bool,
}

impl Session {
    /// Joins a monitor with the names and cgroups among `specs`. The monitor's tracker has the
    /// other targets already.
    #[must_use]
    pub fn new(monitor: Monitor, specs: Vec<TargetSpec>) -> Self {
        let mut rules = Rules::default();
        for spec in &specs {
            if let TargetSpec::Pid(pid) = spec {
                rules.note(*pid);
            }
        }
        Self {
            monitor,
            specs,
            rules,
            guard: GuardWatch::new(),
            targets: Vec::new(),
            unwatched: Vec::new(),
            steps: Vec::new(),
            follow_at: Time::default(),
            acts: false,
        }
    }

    /// The monitor.
    #[must_use]
    pub const fn monitor(&self) -> &Monitor {
        &self.monitor
    }

    /// The monitor, to change it while it runs.
    pub const fn monitor_mut(&mut self) -> &mut Monitor {
        &mut self.monitor
    }

    /// The present targets, watched or not.
    #[must_use]
    pub fn targets(&self) -> &[Target] {
        &self.targets
    }

    /// Whether there are targets and the set can look at none of them.
    #[must_use]
    pub fn watches_none(&self) -> bool {
        !self.targets.is_empty() && self.targets.iter().all(|t| self.unwatched.contains(&t.id))
    }

    /// Whether processes that do not exist yet can become targets, by a name or a cgroup.
    #[must_use]
    pub fn more_may_come(&self) -> bool {
        let by_rule = |t: &TargetSpec| matches!(t, TargetSpec::Name(_) | TargetSpec::Cgroup(_));
        self.specs.iter().any(by_rule)
    }

    /// Replaces the schemes; see [`Monitor::commit_schemes`].
    pub fn commit_schemes(&mut self, schemes: Vec<(Scheme, Settings)>) {
        self.acts = schemes.iter().any(|(scheme, _)| scheme.looks_at_pages());
        self.monitor.commit_schemes(schemes);
    }

    /// Runs until something happens. [`Happened::Stopped`] comes only when no target can come any
    /// more; [`Happened::Idle`] comes at least every 100 ms.
    #[expect(clippy::should_implement_trait, reason = "a session, not an iterator")]
    pub fn next(&mut self) -> Step {
        self.follow();
        if let Some(step) = self.steps.pop() {
            return step;
        }
        let mut happened = self.monitor.next();
        match &happened {
            Happened::Target(event) => self.note(event),
            Happened::NotWatched(target, _) => self.unwatched.push(target.id),
            Happened::Watched(target) => self.unwatched.retain(|id| *id != target.id),
            Happened::Snapshot => self.guard(),
            Happened::Stopped if self.more_may_come() => {
                clock::sleep_until(clock::now().plus_us(WAIT_US));
                happened = Happened::Idle;
            }
            _ => {}
        }
        Step::Monitor(happened)
    }

    fn note(&mut self, event: &TargetEvent) {
        match event {
            TargetEvent::Added(target) => self.targets.push(target.clone()),
            TargetEvent::Execed { old, target } => {
                self.forget(*old);
                self.targets.push(target.clone());
            }
            TargetEvent::Exited(id) => {
                if let Some(pid) = self.forget(*id) {
                    self.rules.ended(pid);
                }
            }
            TargetEvent::Refused(_) => {}
        }
    }

    fn forget(&mut self, id: TargetId) -> Option<u32> {
        self.unwatched.retain(|u| *u != id);
        let at = self.targets.iter().position(|t| t.id == id)?;
        Some(self.targets.remove(at).pid)
    }

    /// Adds and removes targets by what the rules match now.
    fn follow(&mut self) {
        let now = clock::now();
        if now < self.follow_at || !self.more_may_come() {
            return;
        }
        self.follow_at = now.plus_us(FOLLOW_US);
        let refused = self.rules.follow(&self.specs, self.monitor.tracker());
        self.steps.extend(refused.into_iter().map(Step::Refused));
    }

    /// Lets the guard check the window that has just ended, if any scheme acts or counts pages.
    fn guard(&mut self) {
        // The guard checks what page tables say, and watching physical memory uses none.
        if !self.acts || self.targets.iter().any(|t| t.memory.is_some()) {
            return;
        }
        let watched = self.targets.iter().filter(|t| !self.unwatched.contains(&t.id));
        let targets = watched.map(|t| (t.id, t.pid));
        if self.guard.window(&mut self.monitor, targets) == Actions::Unblocked {
            self.steps.push(Step::Unblocked);
        }
    }
}
