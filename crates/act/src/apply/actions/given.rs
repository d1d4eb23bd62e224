//! Notes of huge page advice, made before the advice is given.
//!
//! Advice outlives Isotherm. If Isotherm is killed, nobody remembers what to take back. So whoever
//! runs it for long keeps notes on disk ([`Notes`]), and takes back what a former run left with
//! [`Actor::take_back_left`].
//!
//! Invariant. Only memory that still has the advice, of the same program in the same process, is
//! touched: a pid that belongs to another process by now, a program that was replaced (exec), and
//! memory that the program has advised itself since are left alone.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::io;

use isotherm_core::TargetId;
use isotherm_core::scheme::Action;
use isotherm_host::proc::Proc;
use isotherm_sys::clock;
use serde::{Deserialize, Serialize};

use crate::Process;
use crate::apply::actions::undo::Undone;
use crate::apply::target::{Chosen, TargetState};
use crate::apply::{Actor, Job};

/// A process, and the program in it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Whose {
    /// The pid.
    pub pid: u32,
    /// When it was started, in clock ticks since boot (`/proc/PID/stat`).
    pub start_ticks: u64,
    /// A hash of what the kernel told the program when it began (`/proc/PID/auxv`). Another program
    /// in the same process has another one, since addresses are random.
    pub program: u64,
}

impl Whose {
    /// The process that has this pid now; none if there is none.
    #[must_use]
    pub fn of(pid: u32) -> Option<Self> {
        let (proc, mut text) = (Proc::default(), Vec::new());
        let start_ticks = proc.stat(pid, &mut text).ok()?.starttime;
        proc.read(pid, "auxv", &mut text).ok()?;
        // FNV-1a.
        let program = text.iter().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
            (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3)
        });
        Some(Self { pid, start_ticks, program })
    }
}

/// Huge page advice for some memory of a process.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Given {
    /// Whose memory.
    pub whose: Whose,
    /// Whether it is `MADV_HUGEPAGE`; else `MADV_NOHUGEPAGE`.
    pub huge: bool,
    /// The addresses of the 2 MiB that get it.
    pub granules: Vec<u64>,
    /// Those of them that had the opposite advice before.
    pub opposed: Vec<u64>,
}

/// Keeps notes. It is asked by the threads that act.
pub trait Notes: fmt::Debug + Send + Sync {
    /// Keeps a note. The advice is given when this has returned.
    ///
    /// # Errors
    ///
    /// If it cannot be kept. The advice is not given then.
    fn keep(&self, given: &Given) -> io::Result<()>;

    /// All advice to this process was taken back.
    fn forget(&self, whose: Whose);
}

/// What notes say already of the 2 MiB of a process: the advice, and whether they had the opposite
/// before. A target that is busy is tried again, maybe for hours, and notes lie on a disk.
#[derive(Debug, Default)]
pub(in crate::apply) struct Noted {
    whose: Option<Whose>,
    granules: BTreeMap<u64, (Action, bool)>,
}

impl Actor {
    /// Notes what is about to be given. Returns whether it may be given.
    pub(super) fn note(
        &mut self,
        state: &mut TargetState,
        job: Job<'_>,
        chosen: &Chosen,
        opposed: &BTreeSet<u64>,
    ) -> bool {
        let kept = self.try_note(state, job.request.action, chosen, opposed);
        if let Err(err) = &kept {
            let why = format!("no advice is given, since it could not be noted before: {err}");
            self.trouble(job.request.scheme, 0, &why);
        }
        kept.is_ok()
    }

    fn try_note(
        &self,
        state: &mut TargetState,
        action: Action,
        chosen: &Chosen,
        opposed: &BTreeSet<u64>,
    ) -> io::Result<()> {
        let Some(notes) = &self.notes else { return Ok(()) };
        let Some(whose) = Whose::of(state.process.pid()) else {
            return Err(io::Error::from(io::ErrorKind::NotFound));
        };
        let TargetState { hinted, noted, .. } = state;
        if noted.whose != Some(whose) {
            *noted = Noted { whose: Some(whose), granules: BTreeMap::new() };
        }
        let note = |start| (action, opposed.contains(&start) && !hinted.contains_key(&start));
        let all = chosen.before(chosen.end_of(chosen.bytes)).map(|(start, _)| (start, note(start)));
        let new: Vec<_> =
            all.filter(|(start, note)| noted.granules.get(start) != Some(note)).collect();
        if new.is_empty() {
            return Ok(());
        }
        notes.keep(&Given {
            whose,
            huge: action == Action::Hugepage,
            granules: new.iter().map(|(start, _)| *start).collect(),
            opposed: new.iter().filter(|(_, (_, opposed))| *opposed).map(|(at, _)| *at).collect(),
        })?;
        noted.granules.extend(new);
        Ok(())
    }

    /// Takes back the advice that a former run of Isotherm has left, as its notes say. In the order
    /// of the notes, a later one about the same memory replaces an earlier one.
    #[must_use]
    pub fn take_back_left(notes: &[Given]) -> Undone {
        let mut by_process: BTreeMap<Whose, Vec<&Given>> = BTreeMap::new();
        for given in notes {
            by_process.entry(given.whose).or_default().push(given);
        }
        let mut actor = Self::new();
        let (mut errors, mut unfinished) = (Vec::new(), Vec::new());
        for (number, (whose, notes)) in (0..).zip(by_process) {
            if Whose::of(whose.pid) != Some(whose) {
                continue;
            }
            let process = match Process::open(whose.pid) {
                Ok(process) => process,
                Err(err) => {
                    errors.push(err);
                    unfinished.push(whose);
                    continue;
                }
            };
            let id = TargetId(number);
            let mut state = TargetState::new(id, process);
            for given in notes {
                let action = if given.huge { Action::Hugepage } else { Action::Nohugepage };
                for start in &given.granules {
                    if state.is_advised(*start, given.huge, clock::now()) {
                        state.hinted.insert(*start, action);
                    }
                }
                state.opposed.extend(&given.opposed);
            }
            actor.targets.insert(id, state);
        }
        let mut undone = actor.undo();
        undone.errors.extend(errors);
        undone.unfinished.extend(unfinished);
        undone
    }
}
