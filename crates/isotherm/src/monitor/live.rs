//! A monitor over real processes or physical memory.

use std::collections::VecDeque;
use std::ffi::OsString;
use std::time::Duration;

use isotherm_act::apply::ActEvent;
use isotherm_agent::monitor::{Happened, Monitor};
use isotherm_agent::policy::{ContextPolicy, Policy, SchemePolicy, TargetSpec};
use isotherm_agent::run;
use isotherm_agent::session::{Session, Step};
use isotherm_core::{Attrs, Lengths, TargetId, Time};
use isotherm_host::error::SetError;
use isotherm_ops::support::SetName;
use isotherm_ops::targets::{self, Memory, TargetEvent, Tracker};
use isotherm_record::Mapping;
use isotherm_sys::clock;

use super::processes::{attach, identity, mappings_of};
use super::source::{Next, Source};
use crate::Bytes;
use crate::doctor::Set;
use crate::error::{Error, ErrorKind, kind_of_code};
use crate::event::Event;
use crate::scheme::Account;
use crate::snapshot::{Identities, Target};

/// What a user wants to watch, and by what.
#[derive(Debug)]
pub(super) struct Wanted {
    pub(super) specs: Vec<TargetSpec>,
    pub(super) command: Option<(OsString, Vec<OsString>)>,
    pub(super) memory: Option<Memory>,
    pub(super) children: bool,
    pub(super) set: Option<Set>,
    /// Whether no method was asked for, so that the set's usual one is taken.
    pub(super) any_method: bool,
}

impl Default for Wanted {
    fn default() -> Self {
        Self {
            specs: Vec::new(),
            command: None,
            memory: None,
            children: true,
            set: None,
            any_method: true,
        }
    }
}

/// Real targets.
#[derive(Debug)]
pub(super) struct Live {
    session: Session,
    memory: Option<Memory>,
    set: Option<SetName>,
    targets: Vec<Target>,
    queue: VecDeque<Event>,
    /// The first target that could not be watched since the last window, and why.
    not_watched: Option<(Target, SetError)>,
    /// How often in a row it was found that nothing is watched although there are targets.
    blind_looks: u8,
}

impl Live {
    /// Opens the set, takes hold of the targets and starts the command. Also gives the set's name
    /// and why it was taken.
    pub(super) fn open(
        wanted: Wanted,
        attrs: &mut Attrs,
        seed: u64,
    ) -> Result<(Self, &'static str, Vec<String>), Error> {
        let Wanted { specs, command, memory, children, set, any_method } = wanted;
        let name = set.map(Set::to_ops);
        let mut tracker = match &memory {
            Some(memory) => Tracker::memory(memory.clone())?,
            None => attach(&specs, children)?,
        };
        if let Some((program, args)) = &command {
            tracker.spawn_into(program, args)?;
        }
        let opened = if memory.is_some() {
            run::open_physical_set(name, attrs)
        } else {
            run::open_set(name, attrs)
        };
        let (ops, notes) = opened?;
        if any_method {
            attrs.method = ops.usual_method(attrs.method);
        }
        let name = ops.name();
        let mut monitor = Monitor::new(tracker, ops, *attrs, seed)?;
        monitor.tracker().start()?;
        let this = Self {
            session: Session::new(monitor, &specs),
            memory,
            set: SetName::parse(name),
            targets: Vec::new(),
            queue: VecDeque::new(),
            not_watched: None,
            blind_looks: 0,
        };
        Ok((this, name, notes))
    }

    fn happened(&mut self, happened: Happened) -> Result<Next, Error> {
        Ok(match happened {
            Happened::Snapshot => {
                self.not_watched = None;
                Next::Window
            }
            Happened::Target(event) => {
                self.target(event);
                Next::Idle
            }
            Happened::NotWatched(target, why) => {
                let target = identity(&target);
                let text = why.to_string();
                self.not_watched.get_or_insert((target.clone(), why));
                Next::Event(Event::NotWatched { target, why: text })
            }
            Happened::Watched(target) => Next::Event(Event::Watched(identity(&target))),
            Happened::NotActedOn(target, why) => {
                Next::Event(Event::NotActedOn { target: identity(&target), why: why.to_string() })
            }
            Happened::Trouble(text) => Next::Event(Event::Trouble(text)),
            Happened::Failed(why) => {
                let what = "the operations set cannot go on";
                return Err(Error::new(ErrorKind::Failed, what, &why, ""));
            }
            Happened::Waits(_) | Happened::HasTurn(_) => Next::Idle,
            Happened::Idle => {
                self.look_for_blindness()?;
                Next::Idle
            }
            Happened::Stopped => Next::Over,
        })
    }

    /// A target that has just ended cannot be watched either, which is no error: the tracker says
    /// so before the second look.
    fn look_for_blindness(&mut self) -> Result<(), Error> {
        if !self.session.watches_none() || self.session.more_may_come() {
            self.blind_looks = 0;
            return Ok(());
        }
        self.blind_looks = self.blind_looks.saturating_add(1);
        if self.blind_looks < 2 {
            return Ok(());
        }
        match self.not_watched.take() {
            Some((target, why)) => Err(Error::not_watched(&target.to_string(), why)),
            None => Ok(()),
        }
    }

    fn target(&mut self, event: TargetEvent) {
        match event {
            TargetEvent::Added(target) => self.added(&target),
            TargetEvent::Execed { old, target } => {
                self.gone(old);
                self.added(&target);
            }
            TargetEvent::Exited(id) => self.gone(id),
            TargetEvent::Refused(why) => self.queue.push_back(Event::Trouble(why.to_string())),
        }
    }

    fn added(&mut self, target: &targets::Target) {
        let target = identity(target);
        self.queue.push_back(Event::Added(target.clone()));
        self.targets.push(target);
    }

    fn gone(&mut self, id: TargetId) {
        if let Some(at) = self.targets.iter().position(|t| t.id == id) {
            self.queue.push_back(Event::Gone(self.targets.remove(at)));
        }
    }

    fn acted(&mut self) {
        for event in self.session.monitor_mut().actor().take_events() {
            self.queue.push_back(match event {
                ActEvent::Acted { scheme, pid, range, asked, done, ns, .. } => Event::Acted {
                    scheme,
                    pid,
                    range,
                    asked: Bytes(asked),
                    done: Bytes(done),
                    time: Duration::from_nanos(ns),
                },
                ActEvent::Lost { events, .. } => {
                    Event::Trouble(format!("{events} events of schemes were lost"))
                }
                ActEvent::Proved { scheme, pid, pays, text, .. } => {
                    Event::Proved { scheme, pid, pays, text }
                }
                ActEvent::Trouble { text, .. } => Event::Trouble(text),
                ActEvent::Blocked { text, .. } => Event::Blocked(text),
            });
        }
    }
}

impl Identities for Live {
    fn targets(&self) -> &[Target] {
        &self.targets
    }

    fn mappings(&self, target: &Target) -> Vec<Mapping> {
        mappings_of(target.pid)
    }
}

impl Source for Live {
    fn next(&mut self) -> Result<Next, Error> {
        if let Some(event) = self.queue.pop_front() {
            return Ok(Next::Event(event));
        }
        let next = match self.session.next() {
            Step::Monitor(happened) => self.happened(happened),
            Step::Unblocked => Ok(Next::Event(Event::Unblocked)),
        };
        self.acted();
        next
    }

    fn now(&self) -> Time {
        clock::now()
    }

    fn raw(&self) -> &isotherm_core::Snapshot {
        self.session.monitor().snapshot()
    }

    fn lengths(&self) -> &Lengths {
        self.session.monitor().lengths()
    }

    fn commit_schemes(&mut self, schemes: &[SchemePolicy]) {
        let schemes = schemes.iter().map(|s| (s.scheme.clone(), s.settings.clone()));
        self.session.commit_schemes(schemes.collect());
    }

    fn accounts(&mut self, schemes: &[SchemePolicy]) -> Vec<Account> {
        let monitor = self.session.monitor_mut();
        let entries = monitor.accounts();
        let installed = monitor.context().schemes();
        let account = |(i, policy): (usize, &SchemePolicy)| {
            let entry = entries.iter().find(|(name, _)| *name == policy.settings.name);
            let counters = entry.map(|(_, counters)| counters.clone()).unwrap_or_default();
            Account::new(policy, &counters, installed.get(i))
        };
        schemes.iter().enumerate().map(account).collect()
    }

    fn check(&mut self, scheme: &SchemePolicy) -> Result<Vec<Event>, Error> {
        // Who the processes are does not matter here, only what can be done to them.
        let target = match &self.memory {
            Some(memory) => TargetSpec::Memory(memory.clone()),
            None => TargetSpec::Name("*".to_owned()),
        };
        let context = ContextPolicy {
            name: "monitor".to_owned(),
            targets: vec![target],
            ops: self.set,
            schemes: vec![scheme.clone()],
            ..ContextPolicy::default()
        };
        let problems = run::check(&Policy { contexts: vec![context], ..Policy::default() });
        if let Some(problem) = problems.iter().find(|p| p.fatal) {
            return Err(Error::of_text(kind_of_code(problem.code), &problem.text));
        }
        Ok(problems.into_iter().map(|problem| Event::Trouble(problem.text)).collect())
    }

    fn live(&mut self) -> Option<&mut Monitor> {
        Some(self.session.monitor_mut())
    }
}
