//! Addresses to frames by `/proc/PID/pagemap`, where BPF cannot be had.
//!
//! Each call takes the process's mmap lock for reading and walks down to the pages. Pages near to
//! each other share one call. Unlike the page tables, `pagemap` shows neither the leaf's size nor
//! the accessed bit.

use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::FileExt;

use isotherm_core::{Check, PageState, TargetId};
use isotherm_host::error::{SetError, SetKind};
use isotherm_host::proc::{Proc, is_denied, is_gone};
use isotherm_pages::idle::SET;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, PidfdFlags, pidfd_open};

/// Pages between two that one call bridges.
const BRIDGE: u64 = 15;
/// Entries read at once.
const BUF: u64 = 512;

/// The processes that are watched.
#[derive(Debug)]
pub(super) struct Pagemaps {
    spaces: Vec<Space>,
    bytes: Box<[u8]>,
}

#[derive(Debug)]
struct Space {
    id: TargetId,
    pid: u32,
    pidfd: OwnedFd,
    /// Pins the address space: the file reads as empty after exit or exec.
    pagemap: File,
}

impl Space {
    fn has_exited(&self) -> bool {
        let mut fds = [PollFd::new(&self.pidfd, PollFlags::IN)];
        matches!(poll(&mut fds, Some(&Timespec::default())), Ok(n) if n > 0)
    }
}

impl Pagemaps {
    pub(super) fn new() -> Self {
        Self { spaces: Vec::new(), bytes: vec![0; 8 * 512].into() }
    }

    pub(super) fn add(&mut self, id: TargetId, pid: u32) -> Result<(), SetError> {
        self.remove(id);
        let raw = i32::try_from(pid).ok().and_then(Pid::from_raw);
        let pidfd =
            raw.ok_or(rustix::io::Errno::SRCH).and_then(|p| pidfd_open(p, PidfdFlags::empty()));
        let pidfd = pidfd.map_err(|e| refused(pid, "pidfd_open", e.into()))?;
        let space = Space { id, pid, pidfd, pagemap: open(pid)? };
        if space.has_exited() {
            return Err(refused(
                pid,
                "open its pagemap",
                io::Error::from_raw_os_error(libc::ESRCH),
            ));
        }
        self.spaces.push(space);
        Ok(())
    }

    /// A target whose `pagemap` is another file, made up for a test.
    #[cfg(test)]
    pub(super) fn add_made_up(&mut self, id: TargetId, pagemap: File) {
        let this = Pid::from_raw(i32::try_from(std::process::id()).unwrap()).unwrap();
        let pidfd = pidfd_open(this, PidfdFlags::empty()).unwrap();
        self.spaces.push(Space { id, pid: std::process::id(), pidfd, pagemap });
    }

    pub(super) fn remove(&mut self, id: TargetId) {
        self.spaces.retain(|space| space.id != id);
    }

    pub(super) fn pid(&self, id: TargetId) -> Option<u32> {
        self.space(id).map(|space| space.pid)
    }

    pub(super) fn is_alive(&self, id: TargetId) -> bool {
        self.space(id).is_some_and(|space| !space.has_exited())
    }

    /// Takes hold of the address space that the target has now.
    pub(super) fn reopen(&mut self, id: TargetId) -> Result<(), SetError> {
        let space = self.spaces.iter_mut().find(|space| space.id == id);
        let Some(space) = space else {
            return Err(SetError::of_set(SET, SetKind::Gone, "follow a target", "", ""));
        };
        space.pagemap = open(space.pid)?;
        if space.has_exited() {
            let gone = io::Error::from_raw_os_error(libc::ESRCH);
            return Err(refused(space.pid, "open its pagemap", gone));
        }
        Ok(())
    }

    fn space(&self, id: TargetId) -> Option<&Space> {
        self.spaces.iter().find(|space| space.id == id)
    }

    /// Calls `each` for every mapped page of the batch, with its place in the batch and its frame.
    /// The states of the other pages become `Absent` or `Unknown`.
    pub(super) fn find(&mut self, batch: &mut [Check], mut each: impl FnMut(&mut Check, u32, u64)) {
        let mut at = 0;
        while at < batch.len() {
            let (target, first) = (batch[at].target, batch[at].addr >> 12);
            let (mut last, mut end) = (first, at + 1);
            while let Some(check) = batch.get(end).filter(|check| check.target == target) {
                let page = check.addr >> 12;
                if page < last || page - last > BRIDGE + 1 || page - first >= BUF {
                    break;
                }
                (last, end) = (page, end + 1);
            }
            let got = self.read(target, first, last - first + 1);
            let entries = self.bytes[..got].as_chunks::<8>().0;
            for (nr, check) in (at..).zip(&mut batch[at..end]) {
                check.leaf_shift = 12;
                check.state = PageState::Unknown;
                let entry = usize::try_from((check.addr >> 12) - first).ok();
                let Some(entry) = entry.and_then(|nr| entries.get(nr)) else { continue };
                let entry = u64::from_ne_bytes(*entry);
                // The frame reads 0 without CAP_SYS_ADMIN.
                match (entry >> 63 == 1, entry & ((1 << 55) - 1), u32::try_from(nr)) {
                    (false, ..) => check.state = PageState::Absent,
                    (true, frame, Ok(nr)) if frame != 0 => each(check, nr, frame),
                    _ => {}
                }
            }
            at = end;
        }
    }

    /// Reads the entries of the 512 pages from `start` on, in one call, and calls `each` with the
    /// number and the frame of every mapped one. Returns whether they could be read. Frames are 0
    /// without `CAP_SYS_ADMIN`.
    pub(super) fn unit(
        &mut self,
        target: TargetId,
        start: u64,
        mut each: impl FnMut(u16, u64),
    ) -> bool {
        let got = self.read(target, start >> 12, BUF);
        for (nr, entry) in (0..).zip(self.bytes[..got].as_chunks::<8>().0) {
            let entry = u64::from_ne_bytes(*entry);
            if entry >> 63 == 1 {
                each(nr, entry & ((1 << 55) - 1));
            }
        }
        got > 0
    }

    /// Reads entries to the buffer; how many bytes there were.
    fn read(&mut self, target: TargetId, first: u64, nr: u64) -> usize {
        let Some(space) = self.spaces.iter().find(|space| space.id == target) else { return 0 };
        let len = usize::try_from(nr).map_or(self.bytes.len(), |nr| nr * 8);
        // What cannot be read is not answered.
        let bytes = &mut self.bytes[..len];
        first.checked_mul(8).map_or(0, |at| space.pagemap.read_at(bytes, at).unwrap_or(0))
    }
}

fn open(pid: u32) -> Result<File, SetError> {
    File::open(Proc::default().path_of(pid, "pagemap"))
        .map_err(|e| refused(pid, "open its pagemap", e))
}

fn refused(pid: u32, tried: &str, e: io::Error) -> SetError {
    let (kind, why, hint) = if is_gone(&e) {
        (SetKind::Gone, "it has ended", "")
    } else if is_denied(&e) {
        (SetKind::Permission, "it is not ours to look at; that needs CAP_SYS_PTRACE", "run as root")
    } else {
        (SetKind::Io, "", "")
    };
    SetError::of_set(SET, kind, tried, why, hint).with(e).of_process(SET, pid)
}
