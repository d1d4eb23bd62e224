//! The address space of one target: the files that are held open to read it, and to know that it is
//! still the same one.
//!
//! An open `/proc/PID/mem` pins the address space's `mm_struct` and with it the top page table, so
//! its address stays good for as long as we hold the file, whatever becomes of the process: after
//! exit or exec it leads to nothing. Opening it is also where the kernel checks that we may look.

use std::fs::File;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::FileExt;

use isotherm_host::error::{SetError, SetKind};
use isotherm_host::proc::{Proc, is_denied, is_gone};
use isotherm_sys::madvise::process_madvise_cold;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, PidfdFlags, pidfd_open};

use super::error::{SET, SETCAP};
use super::program::kernel::{Kernel, Resolved};

/// One target's address space.
#[derive(Debug)]
pub struct Space {
    pid: u32,
    pidfd: OwnedFd,
    pub(super) resolved: Resolved,
    /// Held for what it pins.
    mem: File,
    /// Flags of single pages; opened with the same right as `mem`.
    pagemap: Option<File>,
}

/// What `/proc/PID/pagemap` says of a page, as far as clearing is concerned.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PageFlags {
    /// Mapped once only.
    pub exclusive: bool,
    /// Belongs to a file or to shared memory.
    pub file: bool,
}

impl Space {
    /// Takes hold of process `pid`'s present address space. `file_ops` tells a `mem` file from
    /// others.
    pub(super) fn open(kernel: &mut Kernel, file_ops: u64, pid: u32) -> Result<Self, SetError> {
        let raw = i32::try_from(pid).ok().and_then(Pid::from_raw);
        let pidfd =
            raw.ok_or(rustix::io::Errno::SRCH).and_then(|p| pidfd_open(p, PidfdFlags::empty()));
        let pidfd = pidfd.map_err(|e| refused(pid, "pidfd_open", "", e.into()))?;
        let (mem, resolved) = open_mem(kernel, file_ops, pid)?;
        let pagemap = File::open(Proc::default().path_of(pid, "pagemap")).ok();
        let space = Self { pid, pidfd, resolved, mem, pagemap };
        // No range at all: asks only whether we may.
        process_madvise_cold(space.pidfd.as_fd(), &[], &mut Vec::new()).map_err(|e| {
            refused(pid, "process_madvise(MADV_COLD)", "CAP_SYS_NICE and CAP_SYS_PTRACE", e)
        })?;
        // The number was this process's from pidfd_open on; if it has ended, the files may be
        // another's.
        if space.has_exited() { Err(gone(pid)) } else { Ok(space) }
    }

    /// The process.
    #[must_use]
    pub const fn pid(&self) -> u32 {
        self.pid
    }

    /// Whether the process has ended.
    #[must_use]
    pub fn has_exited(&self) -> bool {
        let mut fds = [PollFd::new(&self.pidfd, PollFlags::IN)];
        matches!(poll(&mut fds, Some(&Timespec::default())), Ok(n) if n > 0)
    }

    /// Whether nobody uses the address space any more, after an exit or an exec. Address 0 is never
    /// mapped, so reading there gives an error as long as somebody does, and then no bytes.
    #[must_use]
    pub fn is_left(&self) -> bool {
        matches!(self.mem.read_at(&mut [0_u8], 0), Ok(0))
    }

    /// Looks whether the process still has this address space, and takes hold of the new one if
    /// not. Returns whether it changed.
    pub(super) fn follow_exec(
        &mut self,
        kernel: &mut Kernel,
        file_ops: u64,
    ) -> Result<bool, SetError> {
        let (mem, resolved) = open_mem(kernel, file_ops, self.pid)?;
        if self.has_exited() {
            return Err(gone(self.pid));
        }
        if resolved.mm == self.resolved.mm {
            return Ok(false);
        }
        self.mem = mem;
        self.resolved = resolved;
        self.pagemap = File::open(Proc::default().path_of(self.pid, "pagemap")).ok();
        Ok(true)
    }

    /// What pagemap says of the page at `addr`. `None` if the page is not mapped or pagemap cannot
    /// be read.
    #[must_use]
    pub fn page_flags(&self, addr: u64) -> Option<PageFlags> {
        let mut bytes = [0; 8];
        let nr = self.pagemap.as_ref()?.read_at(&mut bytes, (addr >> 12) * 8).ok()?;
        let flags = u64::from_ne_bytes(bytes);
        let present = nr == 8 && flags >> 63 == 1;
        present.then_some(PageFlags { exclusive: flags >> 56 & 1 == 1, file: flags >> 61 & 1 == 1 })
    }

    /// Those of these pages of the 2 MiB at `start` that are mapped, and mapped elsewhere, too. One
    /// bit per page, the first in the lowest bit of the first word. `None` if pagemap cannot be
    /// read.
    ///
    /// For each page that it tells about, the kernel reads what it keeps of the page's frame, which
    /// is rarely in a cache. So only words with a page that is asked about are read.
    #[must_use]
    pub fn shared_pages(&self, start: u64, asked: [u64; 8]) -> Option<[u64; 8]> {
        let pagemap = self.pagemap.as_ref()?;
        let mut shared = [0; 8];
        let words = shared.iter_mut().zip(asked).zip((start >> 12..).step_by(64));
        for ((word, asked), page) in words.filter(|((_, asked), _)| *asked != 0) {
            let mut bytes = [0; 8 * 64];
            pagemap.read_exact_at(&mut bytes, page * 8).ok()?;
            for (nr, entry) in bytes.as_chunks::<8>().0.iter().enumerate() {
                let flags = u64::from_ne_bytes(*entry);
                *word |= (flags >> 63 & !(flags >> 56) & 1) << nr;
            }
            *word &= asked;
        }
        Some(shared)
    }

    /// A descriptor of the process, for calls on its memory.
    #[must_use]
    pub fn pidfd(&self) -> BorrowedFd<'_> {
        self.pidfd.as_fd()
    }
}

fn open_mem(kernel: &mut Kernel, file_ops: u64, pid: u32) -> Result<(File, Resolved), SetError> {
    let mem = File::open(Proc::default().path_of(pid, "mem"));
    let mem = mem.map_err(|e| {
        refused(pid, "open /proc/PID/mem", "CAP_SYS_PTRACE and CAP_DAC_READ_SEARCH", e)
    })?;
    let found =
        kernel.resolve(mem.as_fd()).map_err(|e| refused(pid, "find its page tables", "", e))?;
    // Nothing but a `mem` file leads from here to page tables: the address of its operations was
    // proven by our own one, whose memory we recognised.
    match found {
        Some(found) if found.file_ops == file_ops => Ok((mem, found)),
        _ => Err(gone(pid)),
    }
}

fn gone(pid: u32) -> SetError {
    let why = "it has ended, or never had memory of its own";
    SetError::of_set(SET, SetKind::Gone, "find its memory", why, "").of_process(SET, pid)
}

fn refused(pid: u32, tried: &str, needs: &str, e: io::Error) -> SetError {
    let (kind, why, hint) = if is_gone(&e) {
        (SetKind::Gone, "it has ended".to_owned(), String::new())
    } else if is_denied(&e) {
        let why = format!("it is not ours to look at; that needs {needs}");
        (SetKind::Permission, why, format!("run as root, or `{SETCAP} FILE`"))
    } else {
        (SetKind::Io, String::new(), String::new())
    };
    SetError::of_set(SET, kind, tried, why, hint).with(e).of_process(SET, pid)
}
