//! A monitor for programs that watch one context by themselves. It stops acting when the operations
//! set's answers cannot be true.
//!
//! Invariant. While a scheme acts, the guard checks every window before the next one begins. Not
//! here: threads, commits of whole policies, and accounts over several contexts; [`crate::run`] has
//! those.

use isotherm_act::apply::Settings;
use isotherm_core::{Scheme, TargetId};
use isotherm_ops::targets::{Target, TargetEvent};

use crate::monitor::{Happened, Monitor};
use crate::policy::TargetSpec;
use crate::run::{Actions, GuardWatch};

/// What happened in a session.
#[derive(Debug)]
pub enum Step {
    /// An event of the monitor.
    Monitor(Happened),
    /// Actions go on: the operations set has passed its self-test again.
    Unblocked,
}

/// A monitor with its guard.
#[derive(Debug)]
pub struct Session {
    monitor: Monitor,
    guard: GuardWatch,
    targets: Vec<Target>,
    unwatched: Vec<TargetId>,
    steps: Vec<Step>,
    acts: bool,
}

impl Session {
    /// Joins a monitor with the names and cgroups among `specs`. The monitor's tracker has the
    /// other targets already.
    #[must_use]
    pub fn new(mut monitor: Monitor, specs: &[TargetSpec]) -> Self {
        monitor.follow(specs);
        Self {
            monitor,
            guard: GuardWatch::new(),
            targets: Vec::new(),
            unwatched: Vec::new(),
            steps: Vec::new(),
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
        self.monitor.more_may_come()
    }

    /// Replaces the schemes; see [`Monitor::commit_schemes`].
    pub fn commit_schemes(&mut self, schemes: Vec<(Scheme, Settings)>) {
        self.acts = schemes.iter().any(|(scheme, _)| scheme.looks_at_pages());
        self.monitor.commit_schemes(schemes);
    }

    /// Runs until something happens. [`Happened::Stopped`] comes only when no target can come any
    /// more; [`Happened::Idle`] or the end of a window comes about every 100 ms.
    #[expect(clippy::should_implement_trait, reason = "a session, not an iterator")]
    pub fn next(&mut self) -> Step {
        if let Some(step) = self.steps.pop() {
            return step;
        }
        let happened = self.monitor.next();
        match &happened {
            Happened::Target(event) => self.note(event),
            Happened::NotWatched(target, _) | Happened::Waits(target) => {
                self.unwatched.push(target.id);
            }
            Happened::Watched(target) | Happened::HasTurn(target) => {
                self.unwatched.retain(|id| *id != target.id);
            }
            Happened::Snapshot => self.guard(),
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
            TargetEvent::Exited(id) => self.forget(*id),
            TargetEvent::Refused(_) => {}
        }
    }

    fn forget(&mut self, id: TargetId) {
        self.unwatched.retain(|u| *u != id);
        self.targets.retain(|t| t.id != id);
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
