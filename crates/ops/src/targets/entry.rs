//! One target: its identity, and whether it is still the same.

use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::FileExt;

use isotherm_core::TargetId;
use isotherm_host::proc::{Proc, Stat, TaskState, is_gone};
use isotherm_sys::clock;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, PidfdFlags, pidfd_open};

use super::error::{self, TargetError};
use super::memory::Memory;

/// A target as it is told to others.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Target {
    /// Its name inside this run; never used twice.
    pub id: TargetId,
    /// Process ID.
    pub pid: u32,
    /// Process ID of the parent when the target was found.
    pub ppid: u32,
    /// The command's name, as the kernel keeps it (15 bytes at most).
    pub name: String,
    /// Start of the process in clock ticks after boot. It stays the same over exec.
    pub start_ticks: u64,
    /// How many execs of this process were seen before.
    pub generation: u32,
    /// The physical memory that this target is, if it is not a process. The pid is 0 then.
    pub memory: Option<Memory>,
}

/// What changed.
#[derive(Debug)]
pub enum TargetEvent {
    /// A target is there.
    Added(Target),
    /// The process replaced its program: the old target is gone, and a new one takes its place.
    Execed {
        /// The one that is gone.
        old: TargetId,
        /// The one that took its place.
        target: Target,
    },
    /// A target is gone.
    Exited(TargetId),
    /// A child of a target cannot be one, and was left out.
    Refused(TargetError),
}

/// What a look at a target found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Life {
    Same,
    Execed,
    Gone,
}

/// A live target and what we hold to recognise it.
#[derive(Debug)]
pub(super) struct Entry {
    pub(super) target: Target,
    /// `None` under a made-up `/proc`, where only start times identify a process.
    pidfd: Option<OwnedFd>,
    /// The address space; `None` if we may not open it.
    mem: Option<File>,
    image: [u64; 3],
    /// How often it was looked at.
    looks: u32,
}

/// `stat` is read in the first looks, and then in one look out of so many.
const STAT_EVERY: u32 = 10;
/// A process that has run for so long is no child of a vfork that still waits for its exec, in
/// clock ticks, which are 10 ms.
const SETTLED_TICKS: u64 = 200;
const TICK_NS: u64 = 10_000_000;

impl Entry {
    /// Takes hold of `pid`.
    pub(super) fn open(
        proc: &Proc,
        pid: u32,
        id: TargetId,
        buf: &mut Vec<u8>,
    ) -> Result<Self, TargetError> {
        if pid == std::process::id() && proc.is_real() {
            return Err(error::myself(pid));
        }
        let pidfd = open_pidfd(proc, pid)?;
        let stat = proc.stat(pid, buf).map_err(|err| error::io(pid, "stat", err))?;
        refuse(pid, &stat)?;
        let target = Target {
            id,
            pid,
            ppid: stat.ppid,
            name: String::from_utf8_lossy(stat.comm).into_owned(),
            start_ticks: stat.starttime,
            generation: 0,
            memory: None,
        };
        let image = stat.image;
        open_maps(proc, pid)?;
        let mem = File::open(proc.path_of(pid, "mem")).ok();
        let age = (clock::since_boot().as_ns() / TICK_NS).saturating_sub(target.start_ticks);
        let looks = if age >= SETTLED_TICKS { STAT_EVERY } else { 0 };
        let entry = Self { target, pidfd, mem, image, looks };
        // We hold the pidfd since pidfd_open. If the process is gone now, the text may be of a
        // later one.
        if entry.has_exited() { Err(error::no_such_pid(pid)) } else { Ok(entry) }
    }

    /// Whether the process has ended, as far as the pidfd knows.
    pub(super) fn has_exited(&self) -> bool {
        let Some(pidfd) = &self.pidfd else { return false };
        let mut fds = [PollFd::new(pidfd, PollFlags::IN)];
        matches!(poll(&mut fds, Some(&Timespec::default())), Ok(n) if n > 0)
    }

    /// Whether the pid is still the target's, so that its children are the target's, too.
    pub(super) fn holds_pid(&self, proc: &Proc, buf: &mut Vec<u8>) -> bool {
        match self.pidfd {
            Some(_) => !self.has_exited(),
            None => proc
                .stat(self.target.pid, buf)
                .is_ok_and(|stat| stat.starttime == self.target.start_ticks),
        }
    }

    /// Checks whether the target is still what it was.
    ///
    /// Mostly this takes two system calls: the pidfd shows an exit, and the open address space
    /// shows an exec. A child made by vfork shares its parent's address space, so its exec shows
    /// only in `stat`. Such a child replaces its program at once, so the first looks at a young
    /// process read `stat`.
    pub(super) fn look(&mut self, proc: &Proc, buf: &mut Vec<u8>) -> Life {
        if self.has_exited() {
            return Life::Gone;
        }
        self.looks = self.looks.saturating_add(1);
        let over = self.mem.as_ref().map(is_over);
        if over == Some(false)
            && self.pidfd.is_some()
            && self.looks > STAT_EVERY
            && !self.looks.is_multiple_of(STAT_EVERY)
        {
            return Life::Same;
        }
        let stat = match proc.stat(self.target.pid, buf) {
            Ok(stat) => stat,
            // A short lack of memory or descriptors on our side says nothing about the target.
            Err(err) if self.pidfd.is_some() && !is_gone(&err) => return Life::Same,
            Err(_) => return Life::Gone,
        };
        if stat.starttime != self.target.start_ticks || !lives(&stat) {
            return Life::Gone;
        }
        // An exit first gives up the address space, and taking a large one down takes long. The
        // pidfd shows when the exit is over. Until then this is no exec.
        if over == Some(true) && stat.is_exiting {
            return Life::Same;
        }
        // The addresses are hidden, or read in the middle of an exec, which sets them one by one.
        let is_known = |image: [u64; 3]| image.iter().all(|&addr| addr > 1);
        let moved = stat.image != self.image && is_known(stat.image);
        if over == Some(true) || moved && is_known(self.image) {
            return Life::Execed;
        }
        if moved {
            self.image = stat.image;
            self.target.name = String::from_utf8_lossy(stat.comm).into_owned();
        }
        Life::Same
    }

    /// Takes hold of the address space that replaced the old one.
    pub(super) fn reopen(
        &mut self,
        proc: &Proc,
        id: TargetId,
        buf: &mut Vec<u8>,
    ) -> Result<(), TargetError> {
        let pid = self.target.pid;
        let stat = proc.stat(pid, buf).map_err(|err| error::io(pid, "stat", err))?;
        if stat.starttime != self.target.start_ticks {
            return Err(error::no_such_pid(pid));
        }
        refuse(pid, &stat)?;
        self.image = stat.image;
        self.target.ppid = stat.ppid;
        self.target.name = String::from_utf8_lossy(stat.comm).into_owned();
        self.target.id = id;
        self.target.generation += 1;
        self.looks = 0;
        open_maps(proc, pid)?;
        self.mem = File::open(proc.path_of(pid, "mem")).ok();
        Ok(())
    }
}

/// Whether we may look at the process. The kernel decides that when the file is opened. A process
/// that we may not read cannot be monitored by any set.
fn open_maps(proc: &Proc, pid: u32) -> Result<(), TargetError> {
    let opened = File::open(proc.path_of(pid, "maps"));
    opened.map(drop).map_err(|err| error::io(pid, "maps", err))
}

/// Whether the address space behind an open `mem` file has no user left.
///
/// Address 0 is never mapped, so reading there gives an error in a live address space and no bytes
/// in a dead one. In a made-up `/proc` the file is an ordinary one. Tests make it empty to mean a
/// dead one.
fn is_over(mem: &File) -> bool {
    matches!(mem.read_at(&mut [0_u8], 0), Ok(0))
}

/// The pid's pidfd; `None` where pids are made up.
fn open_pidfd(proc: &Proc, pid: u32) -> Result<Option<OwnedFd>, TargetError> {
    if !proc.is_real() {
        return Ok(None);
    }
    let raw = i32::try_from(pid).ok().and_then(Pid::from_raw);
    let raw = raw.ok_or_else(|| error::no_such_pid(pid))?;
    match pidfd_open(raw, PidfdFlags::empty()) {
        Ok(fd) => Ok(Some(fd)),
        Err(err) => {
            let err = io::Error::from(err);
            // The number of a thread that is not its process's first has a directory, too.
            match isotherm_host::proc::thread_group(proc, pid) {
                Some(tgid) if tgid != pid => Err(error::is_thread(pid, tgid)),
                _ => Err(error::io(pid, "pidfd", err)),
            }
        }
    }
}

/// Whether some thread of the process runs. If only the first thread has ended, the process shows
/// as a zombie with other threads, and its memory is still in use.
const fn lives(stat: &Stat<'_>) -> bool {
    match stat.state {
        TaskState::Alive => true,
        TaskState::Zombie => stat.num_threads > 1,
        TaskState::Dead => false,
    }
}

/// Refuses what has no address space to monitor.
fn refuse(pid: u32, stat: &Stat<'_>) -> Result<(), TargetError> {
    if stat.is_kthread {
        return Err(error::kernel_thread(pid, &String::from_utf8_lossy(stat.comm)));
    }
    match stat.state {
        TaskState::Alive => Ok(()),
        TaskState::Zombie => Err(error::zombie(pid, stat.ppid)),
        TaskState::Dead => Err(error::no_such_pid(pid)),
    }
}
