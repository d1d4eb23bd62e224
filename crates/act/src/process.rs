//! One target process, held in a way that no other process can be mistaken for it.
//!
//! The pidfd refers to this process even if another one gets the pid later. The open `pagemap`
//! belongs to the address space. After an exec it reads as empty, which shows that the program was
//! replaced.

use std::fs::File;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::FileExt;

use isotherm_host::proc::{Proc, TaskState};
use isotherm_sys::madvise::process_madvise_cold;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, PidfdFlags, pidfd_open};

use super::error::{self, ActError, ActKind};

/// What reading a process's page flags needs.
const NEEDS_PAGEMAP: &str = "CAP_SYS_PTRACE and CAP_DAC_READ_SEARCH";
/// What advising another process's memory needs.
const NEEDS_ADVICE: &str = "CAP_SYS_NICE and CAP_SYS_PTRACE";

/// A process whose memory may be acted on. Neither this process nor a thread of the kernel.
#[derive(Debug)]
pub struct Process {
    pid: u32,
    pidfd: OwnedFd,
    pagemap: File,
}

impl Process {
    /// Takes hold of the process with this pid and its present address space.
    ///
    /// # Errors
    ///
    /// The process has ended, is the calling process itself, is a thread or a kernel thread, or may
    /// not be inspected by the caller.
    pub fn open(pid: u32) -> Result<Self, ActError> {
        let proc = Proc::default();
        let tried = "open it";
        let raw = i32::try_from(pid).ok().and_then(Pid::from_raw);
        let gone = || error::gone(pid, tried);
        let mut buf = Vec::new();
        let status = proc.status(pid, &mut buf).map_err(|e| error::said(pid, tried, "", e))?;
        if status.tgid == std::process::id() {
            let why = "it is Isotherm itself: acting on its own memory would stop it while it acts";
            return Err(error::of(pid, ActKind::Myself, tried, why, "name another process"));
        }
        if status.tgid != pid {
            let why = format!("it is a thread of process {}", status.tgid);
            let hint = format!("name process {}", status.tgid);
            return Err(error::of(pid, ActKind::IsThread, tried, why, hint));
        }
        let pidfd = pidfd_open(raw.ok_or_else(gone)?, PidfdFlags::empty());
        let pidfd = pidfd.map_err(|e| error::said(pid, "pidfd_open", "", e.into()))?;
        let stat = proc.stat(pid, &mut buf).map_err(|e| error::said(pid, tried, "", e))?;
        if stat.is_kthread {
            let why = "it is a thread of the kernel, which has no memory of its own";
            return Err(error::of(pid, ActKind::KernelThread, tried, why, ""));
        }
        if stat.state != TaskState::Alive {
            return Err(gone());
        }
        let pagemap = File::open(proc.path_of(pid, "pagemap"))
            .map_err(|e| error::said(pid, "open /proc/PID/pagemap", NEEDS_PAGEMAP, e))?;
        let process = Self { pid, pidfd, pagemap };
        // The number was this process's from pidfd_open on; if it has ended, the files may be
        // another's.
        if process.is_gone() { Err(gone()) } else { Ok(process) }
    }

    /// Asks the kernel whether advice ([`Process::advise`]) is allowed, without giving any.
    ///
    /// # Errors
    ///
    /// It is not, the process has ended, or the kernel has no `process_madvise` (Linux 5.10).
    pub fn may_advise(&self) -> Result<(), ActError> {
        match process_madvise_cold(self.pidfd(), &[], &mut Vec::new()) {
            Ok(_nothing) => Ok(()),
            Err(e) => Err(error::said(self.pid, "process_madvise", NEEDS_ADVICE, e)),
        }
    }

    /// The pid. After the process has exited, another process may get this number.
    #[must_use]
    pub const fn pid(&self) -> u32 {
        self.pid
    }

    /// Whether it has ended.
    #[must_use]
    pub fn has_exited(&self) -> bool {
        let mut fds = [PollFd::new(&self.pidfd, PollFlags::IN)];
        matches!(poll(&mut fds, Some(&Timespec::default())), Ok(n) if n > 0)
    }

    /// Whether the opened address space is gone, because the process has ended or has replaced its
    /// program (exec). Costs one system call.
    #[must_use]
    pub fn is_gone(&self) -> bool {
        // Any address will do: an address without memory reads as zeros, while an address space
        // without users reads as end of file.
        !matches!(self.pagemap.read_at(&mut [0; 8], 0), Ok(8))
    }

    pub(super) fn pidfd(&self) -> BorrowedFd<'_> {
        self.pidfd.as_fd()
    }

    pub(super) const fn pagemap(&self) -> &File {
        &self.pagemap
    }
}
