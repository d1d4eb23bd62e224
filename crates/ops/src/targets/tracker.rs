//! The tracker: targets in, events out.

use std::ffi::{OsStr, OsString};
use std::io;

use isotherm_core::{TargetId, Time};
use isotherm_host::proc::Proc;
use isotherm_sys::held::Held;
use rustix::process::{
    Pid, Signal, WaitId, WaitIdOptions, kill_process, set_child_subreaper, waitid,
};

use super::entry::{Entry, Life, Target, TargetEvent};
use super::error::{self, TargetError, TargetKind};
use super::memory::{Memory, MemoryKind};
use super::scan::{Newcomer, Scan};

/// How often the tracker checks whether physical memory is still there, in ns.
const MEMORY_EVERY_NS: u64 = 1_000_000_000;

/// How a command of ours ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ChildExit {
    /// With this exit code.
    Code(i32),
    /// By this signal.
    Signal(i32),
    /// It did not end when it was asked to (SIGTERM), and runs on.
    RunsOn {
        /// Its pid.
        pid: u32,
    },
    /// The command has ended, but another part of this program has taken the status.
    Unknown,
}

impl ChildExit {
    /// The exit code as in a shell's `$?`: the code, or 128 and the signal; 127 if there
    /// is none, or it is not known.
    #[must_use]
    pub const fn shell_code(self) -> i32 {
        match self {
            Self::Code(code) => code,
            Self::Signal(signal) => 128 + signal,
            Self::RunsOn { .. } | Self::Unknown => 127,
        }
    }
}

/// The command that we started.
#[derive(Debug)]
enum Child {
    /// Waits in front of its exec.
    Held {
        held: Held,
        command: String,
    },
    Running(Pid),
    Ended(ChildExit),
}

/// Keeps the targets of one context.
#[derive(Debug)]
pub struct Tracker {
    proc: Proc,
    entries: Vec<Entry>,
    scan: Scan,
    follow: bool,
    adopt: bool,
    child: Option<Child>,
    /// Physical memory that is a target, and when it is looked at next.
    memory: Option<(Target, Time)>,
    next_id: u32,
    pending: Vec<TargetEvent>,
    /// Pids that were refused, so that each is told once.
    refused: Vec<(u32, u64)>,
    found: Vec<Newcomer>,
    buf: Vec<u8>,
}

impl Tracker {
    /// A tracker without targets, over `proc`.
    #[must_use]
    pub fn new(proc: Proc, follow: bool) -> Self {
        let scan = Scan::new(&proc);
        Self {
            proc,
            entries: Vec::new(),
            scan,
            follow,
            adopt: false,
            child: None,
            memory: None,
            next_id: 0,
            pending: Vec::new(),
            refused: Vec::new(),
            found: Vec::new(),
            buf: Vec::new(),
        }
    }

    /// Takes running processes as targets. With `follow` also all their descendants, now and later.
    ///
    /// # Errors
    ///
    /// The first pid that cannot be a target.
    pub fn attach(pids: &[u32], follow: bool) -> Result<Self, TargetError> {
        let mut tracker = Self::new(Proc::default(), follow);
        for &pid in pids {
            tracker.add(pid)?;
        }
        Ok(tracker)
    }

    /// Takes physical memory as the target. It ends only if it is a node's and that is taken out.
    ///
    /// # Errors
    ///
    /// If the machine has no such memory, or does not say where it is.
    pub fn memory(memory: Memory) -> Result<Self, TargetError> {
        Self::memory_of(Proc::default(), memory)
    }

    /// As [`Tracker::memory`], over a given `/proc`.
    ///
    /// # Errors
    ///
    /// As for [`Tracker::memory`].
    pub fn memory_of(proc: Proc, memory: Memory) -> Result<Self, TargetError> {
        memory.ranges(&proc).map_err(|e| e.map_kind(TargetKind::Memory))?;
        let mut tracker = Self::new(proc, false);
        let target = Target {
            id: TargetId(0),
            pid: 0,
            ppid: 0,
            name: memory.name(),
            start_ticks: 0,
            generation: 0,
            memory: Some(memory),
        };
        tracker.next_id = 1;
        tracker.pending.push(TargetEvent::Added(target.clone()));
        tracker.memory = Some((target, Time::default()));
        Ok(tracker)
    }

    /// Forks a child for `command`, and holds it before its exec until [`Tracker::start`]. With
    /// `follow` its descendants are targets, too.
    ///
    /// The child shares our terminal and process group, so Ctrl-C reaches both. If the tracker is
    /// dropped before the start, the child ends without having run anything. After the start the
    /// command is left alone; use [`Tracker::signal_child`] to end it.
    ///
    /// # Errors
    ///
    /// [`TargetKind::SpawnFailed`] if no process can be made.
    pub fn spawn(
        command: impl AsRef<OsStr>,
        args: &[OsString],
        follow: bool,
    ) -> Result<Self, TargetError> {
        let mut tracker = Self::new(Proc::default(), follow);
        tracker.spawn_into(command, args)?;
        Ok(tracker)
    }

    /// As [`Tracker::spawn`], beside the present targets. A tracker can have one command.
    ///
    /// # Errors
    ///
    /// [`TargetKind::SpawnFailed`].
    pub fn spawn_into(
        &mut self,
        command: impl AsRef<OsStr>,
        args: &[OsString],
    ) -> Result<(), TargetError> {
        let name = command.as_ref().to_string_lossy().into_owned();
        if self.child.is_some() {
            let err = io::Error::other("this tracker has started a command already");
            return Err(error::not_run(&name, err));
        }
        match Held::fork(command.as_ref(), args) {
            Ok(held) => self.child = Some(Child::Held { held, command: name }),
            Err(err) => return Err(error::not_run(&name, err)),
        }
        Ok(())
    }

    /// Lets the held command run, and returns when its program has replaced ours. The next
    /// [`Tracker::poll`] reports it. Does nothing if there is no held command.
    ///
    /// # Errors
    ///
    /// [`TargetKind::SpawnFailed`] if the program cannot be run.
    pub fn start(&mut self) -> Result<(), TargetError> {
        match self.child.take() {
            Some(Child::Held { held, command }) => {
                let pid = held.pid();
                held.start().map_err(|err| error::not_run(&command, err))?;
                self.child = Some(Child::Running(pid));
                // If it has already ended again, its exit status is all that is reported.
                match self.add(pid_number(pid)) {
                    Ok(_) => {}
                    Err(err) if err.is_gone() => {}
                    Err(err) => self.pending.push(TargetEvent::Refused(err)),
                }
            }
            other => self.child = other,
        }
        Ok(())
    }

    /// Makes this process the one that orphans among the command's descendants are handed to. So
    /// the tracker finds a daemon that forks twice between two polls.
    ///
    /// This is a property of the whole process. From then on, every new child of this process
    /// counts as the command's. So it is only for programs whose only child is the command.
    ///
    /// # Errors
    ///
    /// What the kernel says.
    pub fn adopt_orphans(&mut self) -> io::Result<()> {
        set_child_subreaper(Pid::from_raw(1))?;
        self.adopt = true;
        Ok(())
    }

    /// Adds a running process, which the next [`Tracker::poll`] reports. A pid that is already a
    /// target is not added again.
    ///
    /// # Errors
    ///
    /// If it cannot be a target.
    pub fn add(&mut self, pid: u32) -> Result<TargetId, TargetError> {
        if let Some(entry) = self.entries.iter().find(|e| e.target.pid == pid && !e.has_exited()) {
            return Ok(entry.target.id);
        }
        let id = TargetId(self.next_id);
        let entry = Entry::open(&self.proc, pid, id, &mut self.buf)?;
        self.next_id += 1;
        self.pending.push(TargetEvent::Added(entry.target.clone()));
        self.entries.push(entry);
        // Its children were perhaps listed before it was a target.
        self.scan.forget();
        Ok(id)
    }

    /// Removes a target that may run on. The next [`Tracker::poll`] reports it as if it had exited.
    /// Its descendants stay.
    pub fn remove(&mut self, id: TargetId) {
        if self.memory.as_ref().is_some_and(|(t, _)| t.id == id) {
            self.memory = None;
            self.pending.push(TargetEvent::Exited(id));
        }
        if let Some(at) = self.entries.iter().position(|e| e.target.id == id) {
            self.entries.remove(at);
            self.pending.push(TargetEvent::Exited(id));
        }
    }

    /// Finds everything that changed since the last call, and notes how the command ended.
    ///
    /// Costs tens of microseconds per target, and a fraction of a millisecond when something
    /// forked. Meant to be called about every 100 ms.
    pub fn poll(&mut self, now: Time) -> Vec<TargetEvent> {
        if self.follow {
            // Must come before exits are noted: a dead parent's children cannot be found by their
            // parent.
            self.find_children(now);
        }
        self.look_at_all();
        self.look_at_memory(now);
        self.reap();
        std::mem::take(&mut self.pending)
    }

    /// The targets that are there.
    pub fn targets(&self) -> impl Iterator<Item = &Target> {
        self.entries.iter().map(|e| &e.target).chain(self.memory.iter().map(|(t, _)| t))
    }

    /// Whether no target is left and none can come, so that nothing will change any more.
    #[must_use]
    pub fn all_gone(&self) -> bool {
        self.entries.is_empty()
            && self.memory.is_none()
            && self.pending.is_empty()
            && !self.has_command()
    }

    /// Whether the command runs, as far as the last [`Tracker::poll`] knows.
    #[must_use]
    pub const fn child_is_running(&self) -> bool {
        matches!(self.child, Some(Child::Running(_)))
    }

    /// Whether there is a command that has not ended, held or running.
    #[must_use]
    pub const fn has_command(&self) -> bool {
        matches!(self.child, Some(Child::Held { .. } | Child::Running(_)))
    }

    /// How the command ended; `None` while it runs or if there is none.
    #[must_use]
    pub fn child_exit(&self) -> Option<ChildExit> {
        match self.child {
            Some(Child::Ended(exit)) => Some(exit),
            _ => None,
        }
    }

    /// The pid of the command, if it runs.
    #[must_use]
    pub fn child_pid(&self) -> Option<u32> {
        match self.child {
            Some(Child::Running(pid)) => Some(pid_number(pid)),
            _ => None,
        }
    }

    /// Sends a signal to the command, if it runs.
    ///
    /// # Errors
    ///
    /// What the kernel says.
    pub fn signal_child(&self, signal: Signal) -> io::Result<()> {
        match &self.child {
            // Not reaped yet, so the pid is still its own.
            Some(Child::Running(pid)) => Ok(kill_process(*pid, signal)?),
            _ => Ok(()),
        }
    }

    /// Adds newcomers whose parent is a target.
    fn find_children(&mut self, now: Time) {
        let mut found = std::mem::take(&mut self.found);
        // A `/proc` that cannot be listed this time will be next time.
        if self.scan.newcomers(&self.proc, now, &mut self.buf, &mut found).is_ok() {
            // Children of children: again until nothing is added.
            while self.add_children(&found) {}
            let Self { refused, scan, .. } = self;
            refused.retain(|(pid, _)| scan.has_seen(*pid));
        }
        self.found = found;
    }

    fn add_children(&mut self, found: &[Newcomer]) -> bool {
        let before = self.entries.len();
        for new in found {
            if self.is_known(new) || !self.is_child(new) {
                continue;
            }
            let id = TargetId(self.next_id);
            match Entry::open(&self.proc, new.pid, id, &mut self.buf) {
                Ok(entry) if entry.target.start_ticks == new.start_ticks => {
                    self.next_id += 1;
                    self.pending.push(TargetEvent::Added(entry.target.clone()));
                    self.entries.push(entry);
                }
                // Gone again, or the pid is another's by now.
                Ok(_) => {}
                Err(err) => match err.kind() {
                    TargetKind::NoSuchPid => {}
                    TargetKind::Zombie => self.bury(new.pid),
                    kind => {
                        self.refused.push((new.pid, new.start_ticks));
                        if kind != TargetKind::Myself {
                            self.pending.push(TargetEvent::Refused(err));
                        }
                    }
                },
            }
        }
        self.entries.len() > before
    }

    fn is_known(&self, new: &Newcomer) -> bool {
        self.entries
            .iter()
            .any(|e| e.target.pid == new.pid && e.target.start_ticks == new.start_ticks)
            || self.refused.contains(&(new.pid, new.start_ticks))
    }

    /// Whether the newcomer's parent is a target, and still the same process as it was.
    ///
    /// This is checked after the newcomer was read: if the pid is the target's now, it was then.
    fn is_child(&mut self, new: &Newcomer) -> bool {
        if self.adopt && new.ppid == std::process::id() {
            let held = match &self.child {
                Some(Child::Held { held, .. }) => Some(pid_number(held.pid())),
                _ => None,
            };
            return held != Some(new.pid);
        }
        let Self { entries, proc, buf, .. } = self;
        entries.iter().any(|e| {
            e.target.pid == new.ppid
                && e.target.start_ticks <= new.start_ticks
                && e.holds_pid(proc, buf)
        })
    }

    /// Notes exits and execs.
    fn look_at_all(&mut self) {
        let mut i = 0;
        while let Some(entry) = self.entries.get_mut(i) {
            let old = entry.target.id;
            let life = entry.look(&self.proc, &mut self.buf);
            if life == Life::Same {
                i += 1;
                continue;
            }
            if life == Life::Execed {
                let id = TargetId(self.next_id);
                match entry.reopen(&self.proc, id, &mut self.buf) {
                    Ok(()) => {
                        self.next_id += 1;
                        let target = entry.target.clone();
                        self.pending.push(TargetEvent::Execed { old, target });
                        i += 1;
                        continue;
                    }
                    Err(err) if err.is_gone() => {}
                    Err(err) => {
                        self.refused.push((entry.target.pid, entry.target.start_ticks));
                        self.pending.push(TargetEvent::Refused(err));
                    }
                }
            }
            self.pending.push(TargetEvent::Exited(old));
            let gone = self.entries.remove(i);
            self.bury(gone.target.pid);
        }
    }

    /// Notes that a node's memory was taken out of the machine.
    fn look_at_memory(&mut self, now: Time) {
        let Some((target, next)) = &mut self.memory else { return };
        if now < *next {
            return;
        }
        *next = now + MEMORY_EVERY_NS;
        let ranges = target.memory.as_ref().map(|m| m.ranges(&self.proc));
        // If the list cannot be read this time, that says nothing about the memory.
        if let Some(Err(err)) = ranges
            && !matches!(err.kind(), MemoryKind::Ram(_))
        {
            let id = target.id;
            self.memory = None;
            self.pending.push(TargetEvent::Refused(err.map_kind(TargetKind::Memory)));
            self.pending.push(TargetEvent::Exited(id));
        }
    }

    /// Asks for the exit status of the command, and of orphans handed to us.
    fn reap(&mut self) {
        if let Some(Child::Running(pid)) = self.child
            && let Some(exit) = exit_of(pid)
        {
            self.child = Some(Child::Ended(exit));
        }
    }

    /// Takes the exit status of an orphan that was handed to us. Does nothing for another's child,
    /// nor for the command, whose status is wanted.
    fn bury(&self, pid: u32) {
        let command = match self.child {
            Some(Child::Running(child)) => Some(child),
            _ => None,
        };
        if let Some(pid) = raw_pid(pid)
            && self.adopt
            && Some(pid) != command
        {
            exit_of(pid);
        }
    }
}

/// The exit status of a child of ours that has ended. This takes the status away.
fn exit_of(pid: Pid) -> Option<ChildExit> {
    let options = WaitIdOptions::EXITED | WaitIdOptions::NOHANG;
    match waitid(WaitId::Pid(pid), options) {
        Ok(Some(status)) => Some(match (status.exit_status(), status.terminating_signal()) {
            (_, Some(signal)) => ChildExit::Signal(signal),
            (Some(code), None) => ChildExit::Code(code),
            (None, None) => ChildExit::Unknown,
        }),
        Ok(None) => None,
        Err(_) => Some(ChildExit::Unknown),
    }
}

fn raw_pid(pid: u32) -> Option<Pid> {
    i32::try_from(pid).ok().and_then(Pid::from_raw)
}

fn pid_number(pid: Pid) -> u32 {
    u32::try_from(pid.as_raw_nonzero().get()).unwrap_or(0)
}
