//! Which targets a monitor watches: of those that were found, the ones that no other program
//! watches and for which the operations set has a place.
//!
//! A target of another program is asked for again now and then. If there are more targets than
//! places, they are watched in turn; see [`turns`](super::turns).

use std::collections::BTreeMap;
use std::io;

use isotherm_core::{TargetId, Time};
use isotherm_host::error::{SetError, SetKind, too_many_files};
use isotherm_host::proc::{MappedSize, may_open};
use isotherm_ops::targets::{Claim, Target};
use isotherm_sys::clock;

use super::turns::{Place, Turn};
use super::{CLAIMS, Happened, Monitor};

/// Files that are left for everything else when no more targets are watched. Each target takes up
/// to nine, and the first eight of a context two more for the guard.
const SPARE_FILES: u64 = 64;

/// When the memory of targets was looked at.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Looks {
    /// Of those that are watched: when their memory was looked at, on average.
    pub watched: BTreeMap<TargetId, Time>,
    /// Of those that the set has no place for now: since when. They are in no snapshot.
    pub waiting: BTreeMap<TargetId, Time>,
}

/// A target that the context watches.
#[derive(Debug)]
pub(super) struct Watched {
    pub(super) id: TargetId,
    pub(super) pid: u32,
    since: Time,
    /// The right to make its pages old; none for physical memory.
    _claim: Option<Claim>,
    /// Tells how many pages it maps; and how many these were when that was last asked.
    pub(super) size: MappedSize,
    pub(super) pages: u64,
}

impl Monitor {
    /// Watches the targets that other programs do not watch any more.
    pub(super) fn claim_again(&mut self) {
        // Some of them each time, or many that a set has no room for would cost more than those
        // that it has.
        let rest = self.claimed.split_off(self.claimed.len().min(CLAIMS));
        for target in std::mem::replace(&mut self.claimed, rest) {
            match self.try_watch(&target) {
                Ok(()) => self.events.push_back(Happened::Watched(target)),
                Err(err) if err.kind() == SetKind::Busy => self.claimed.push(target),
                Err(err) if err.kind() == SetKind::Full => self.wait(target, &err),
                Err(err) => self.events.push_back(Happened::NotWatched(target, err)),
            }
        }
    }

    /// Lets others be watched if there are more targets than places. Nobody makes room while the
    /// actor has still something to do for it.
    pub(super) fn take_turns(&mut self, now: Time) {
        if self.turns.waiting().len() == 0 {
            return;
        }
        let mut watched = Vec::new();
        if self.turns.is_turn(now) {
            let actor = &self.driver.ops.actor;
            for &Watched { id, pid, since, .. } in self.watched.iter().filter(|w| !actor.owes(w.id))
            {
                let size = self.proc.stat(pid, &mut self.text).map_or(0, |stat| stat.rss_pages);
                watched.push(Place { id, since, size });
            }
        }
        let Turn { leave, enter } = self.turns.next(now, self.watched.len(), watched);
        if leave.is_empty() && enter.is_empty() {
            return;
        }
        let all: BTreeMap<TargetId, Target> =
            self.tracker.targets().map(|target| (target.id, target.clone())).collect();
        for id in leave {
            self.unwatch(id);
            if let Some(target) = all.get(&id) {
                self.wait_again(target.clone());
            }
        }
        for target in enter.iter().filter_map(|id| all.get(id)) {
            match self.try_watch(target) {
                Ok(()) => self.events.push_back(Happened::HasTurn(target.clone())),
                Err(err) if err.kind() == SetKind::Full => return self.tell_full(&err),
                Err(err) => {
                    self.turns.forget(target.id);
                    if err.kind() == SetKind::Busy {
                        self.claimed.push(target.clone());
                    }
                    self.events.push_back(Happened::NotWatched(target.clone(), err));
                }
            }
        }
    }

    /// There is no place for this target, and this is why.
    fn wait(&mut self, target: Target, full: &SetError) {
        self.tell_full(full);
        self.wait_again(target);
    }

    fn tell_full(&mut self, full: &SetError) {
        self.turns.is_full(self.watched.len(), full.why(), full.hint());
    }

    fn wait_again(&mut self, target: Target) {
        self.turns.wait(target.id, clock::now());
        self.events.push_back(Happened::Waits(target));
    }

    /// How many targets the set has no place for now, and for how long the first of them was not
    /// watched, in ns.
    #[must_use]
    pub fn waiting(&self) -> (usize, u64) {
        let mut all = self.turns.waiting();
        let now = clock::now();
        (all.len(), all.by_ref().map(|(_, since)| now.since(since)).max().unwrap_or(0))
    }

    /// When the memory of all targets was looked at.
    #[must_use]
    pub fn looks(&mut self) -> Looks {
        let end = self.snapshot().end;
        // A method without units looks at everything in every window.
        let mut watched: BTreeMap<_, _> = self.watched.iter().map(|w| (w.id, end)).collect();
        watched.extend(self.driver.context.looks());
        Looks { watched, waiting: self.turns.waiting().collect() }
    }

    /// Since when a target waits for a place; `None` if it does not.
    #[must_use]
    pub fn waits_since(&self, id: TargetId) -> Option<Time> {
        self.turns.since(id)
    }

    pub(super) fn watch(&mut self, target: Target) {
        if let Err(err) = self.try_watch(&target) {
            if err.kind() == SetKind::Full {
                self.wait(target, &err);
                return;
            }
            if err.kind() == SetKind::Busy {
                self.claimed.push(target.clone());
            }
            self.events.push_back(Happened::NotWatched(target, err));
        }
    }

    pub(super) fn try_watch(&mut self, target: &Target) -> Result<(), SetError> {
        let is_process = target.memory.is_none();
        if is_process && !self.watched.is_empty() && !may_open(SPARE_FILES) {
            return Err(no_files(self.ops().name(), target.pid));
        }
        // A scan holds it for a moment only. If that did not help with another target, it is held
        // by a program that watches, and the windows of the others should not be late.
        let take = if self.claimed.is_empty() { Claim::wait } else { Claim::take };
        let claim = is_process.then(|| take(&self.proc, target.pid)).transpose()?;
        self.driver.ops.set.attach(target)?;
        self.claimed.retain(|other| other.id != target.id);
        self.turns.forget(target.id);
        if target.memory.is_some() {
            self.driver.context.add_ranges(target.id);
        } else {
            self.driver.context.add_target(target.id);
        }
        self.watched.push(Watched {
            id: target.id,
            pid: target.pid,
            since: clock::now(),
            _claim: claim,
            size: MappedSize::default(),
            pages: 0,
        });
        if self.acts {
            self.act_on(target.clone());
        }
        Ok(())
    }

    pub(super) fn act_on(&mut self, target: Target) {
        if target.memory.is_some() {
            self.driver.ops.actor.add_memory(target.id);
            return;
        }
        if let Err(err) = self.driver.ops.actor.add_target(target.id, target.pid) {
            self.events.push_back(Happened::NotActedOn(target, err));
        }
    }

    pub(super) fn unwatch(&mut self, id: TargetId) {
        self.driver.ops.set.detach(id);
        self.driver.ops.actor.remove_target(id);
        self.driver.context.remove_target(id);
        self.watched.retain(|w| w.id != id);
        self.claimed.retain(|target| target.id != id);
        self.turns.forget(id);
    }
}

/// No file could be opened for one more target.
fn no_files(set: &str, pid: u32) -> SetError {
    let said = io::Error::from_raw_os_error(rustix::io::Errno::MFILE.raw_os_error());
    let (why, hint) = too_many_files(&said).unwrap_or_default();
    SetError::of_set(set, SetKind::Full, "add a target", why, hint).of_process(set, pid)
}
