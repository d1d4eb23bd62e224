//! A child process with private pages that it touches on command: the self-test's target.
//!
//! The child is forked and not executed, so that a library can test without a program of its own.
//! After the fork it uses only system calls, and volatile accesses to memory that it mapped itself.
//!
//! ```text
//! fence | pages (4 KiB each) | fence | other | fence | huge (one aligned 2 MiB)
//! ```

use std::io::{self, Read, Write};
use std::os::fd::AsRawFd;

use isotherm_core::AddrRange;
use isotherm_core::addr::{PAGE_SIZE, round_up};
use rustix::pipe::{PipeFlags, pipe_with};
use rustix::process::{Pid, Signal, WaitOptions, kill_process, waitpid};

use crate::child::fork::{fork, read_all, write_all};

/// Pages that can be touched one by one.
pub const NR_PAGES: u64 = 512;
/// Pages of the other mapping.
pub const NR_OTHER: u64 = 64;
const HUGE_SIZE: u64 = 2 << 20;

/// How pages are touched.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Touch {
    /// By reading a byte.
    Read,
    /// By writing a byte.
    Write,
}

/// The child. Dropping it ends it.
#[derive(Debug)]
pub struct TestChild {
    /// One by one: one bit each, from the first page on. The child ends when it is closed, so it
    /// stands before `process`, which waits for that.
    commands: std::fs::File,
    answers: std::fs::File,
    process: Process,
    pages: AddrRange,
    other: AddrRange,
    huge: AddrRange,
}

/// A command: what to do, and one bit per page.
const COMMAND_LEN: usize = 1 + (NR_PAGES / 8) as usize;

impl TestChild {
    /// Forks the child and waits until all of its pages are there.
    ///
    /// # Errors
    ///
    /// What the kernel says.
    pub fn fork() -> io::Result<Self> {
        let (command_out, command_in) = pipe_with(PipeFlags::CLOEXEC)?;
        let (answer_out, answer_in) = pipe_with(PipeFlags::CLOEXEC)?;
        let (listen, tell) = (command_out.as_raw_fd(), answer_in.as_raw_fd());
        let process = Process(fork(|| {
            close_all_but([listen, tell]);
            // A program with file capabilities is not dumpable, and its copy is not either. A
            // target must be.
            // SAFETY: sets a flag of the child itself.
            unsafe { libc::prctl(libc::PR_SET_DUMPABLE, 1, 0, 0, 0) };
            match Memory::map() {
                Some(memory) => memory.serve(listen, tell),
                None => 1,
            }
        })?);
        drop(answer_in);
        let mut answers = std::fs::File::from(answer_out);
        let mut base = [0_u8; 8];
        // Nothing comes if the child has ended.
        answers.read_exact(&mut base)?;
        let at = Layout::at(u64::from_ne_bytes(base));
        let commands = std::fs::File::from(command_in);
        Ok(Self { commands, answers, process, pages: at.pages, other: at.other, huge: at.huge })
    }

    /// Its pid.
    pub fn pid(&self) -> u32 {
        u32::try_from(self.process.0.as_raw_nonzero().get()).unwrap_or(0)
    }

    /// The pages that can be touched: one mapping, 4 KiB pages.
    pub const fn pages(&self) -> AddrRange {
        self.pages
    }

    /// A mapping of its own that is never touched after the start.
    pub const fn other(&self) -> AddrRange {
        self.other
    }

    /// One aligned 2 MiB for which a huge page was requested. The kernel decides whether there is
    /// one.
    pub const fn huge(&self) -> AddrRange {
        self.huge
    }

    /// Touches the pages for which `which` returns true, once each. Returns when that is done.
    ///
    /// # Errors
    ///
    /// What the kernel says.
    pub fn touch(&mut self, how: Touch, which: impl Fn(u64) -> bool) -> io::Result<()> {
        let mut command = [0_u8; COMMAND_LEN];
        command[0] = match how {
            Touch::Read => 1,
            Touch::Write => 2,
        };
        for (nr, bits) in (0..).zip(&mut command[1..]) {
            for bit in 0..8_u8 {
                *bits |= u8::from(which(nr * 8 + u64::from(bit))) << bit;
            }
        }
        self.tell(&command)
    }

    /// Touches one byte of the huge page.
    ///
    /// # Errors
    ///
    /// What the kernel says.
    pub fn touch_huge(&mut self) -> io::Result<()> {
        let mut command = [0_u8; COMMAND_LEN];
        command[0] = 3;
        self.tell(&command)
    }

    /// Makes the child drop all its cached translations, on the CPU where it runs.
    ///
    /// # Errors
    ///
    /// What the kernel says.
    pub fn flush_tlb(&mut self) -> io::Result<()> {
        let mut command = [0_u8; COMMAND_LEN];
        command[0] = 4;
        self.tell(&command)
    }

    fn tell(&mut self, command: &[u8; COMMAND_LEN]) -> io::Result<()> {
        self.commands.write_all(command)?;
        self.answers.read_exact(&mut [0_u8])
    }
}

/// A child's process, which nobody has waited for: its pid is still its own. Dropping it ends it.
#[derive(Debug)]
struct Process(Pid);

impl Drop for Process {
    fn drop(&mut self) {
        // A filter of system calls may forbid this, as that of our chart does. Then the child ends
        // because it has nothing more to read.
        kill_process(self.0, Signal::KILL).ok();
        while matches!(waitpid(Some(self.0), WaitOptions::empty()), Err(rustix::io::Errno::INTR)) {}
    }
}

/// Closes all of the child's own copies of descriptors but two. Another thread may have forked a
/// child of its own at the same time. If each child held the other's pipe open, none would see that
/// the parent has closed its end, or has ended.
fn close_all_but(mut keep: [i32; 2]) {
    keep.sort_unstable();
    let mut from = 0;
    for fd in keep {
        close_range(from, fd - 1);
        from = fd + 1;
    }
    close_range(from, i32::MAX);
}

/// Closes all descriptors from `from` to `to`, both included. Linux before 5.9 leaves them open.
fn close_range(from: i32, to: i32) {
    if from <= to {
        // SAFETY: the child's own copies, which nobody uses after it.
        unsafe { libc::syscall(libc::SYS_close_range, from, to, 0) };
    }
}

/// Where everything lies, from the start of the child's mapping.
#[derive(Debug, Clone, Copy)]
struct Layout {
    pages: AddrRange,
    other: AddrRange,
    huge: AddrRange,
}

impl Layout {
    /// Room for all parts, fences, and aligning the huge page.
    const SIZE: u64 = (NR_PAGES + NR_OTHER + 3) * PAGE_SIZE + 2 * HUGE_SIZE;

    fn at(base: u64) -> Self {
        let part = |start: u64, nr: u64| AddrRange::new(start, start + nr * PAGE_SIZE);
        let pages = part(base + PAGE_SIZE, NR_PAGES);
        let other = part(pages.end + PAGE_SIZE, NR_OTHER);
        let huge = round_up(other.end + PAGE_SIZE, HUGE_SIZE);
        Self { pages, other, huge: AddrRange::new(huge, huge + HUGE_SIZE) }
    }
}

/// The child's side.
struct Memory {
    base: u64,
    layout: Layout,
}

impl Memory {
    fn map() -> Option<Self> {
        let size = usize::try_from(Layout::SIZE).ok()?;
        let (none, flags) = (libc::PROT_NONE, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS);
        // SAFETY: a new mapping at an address of the kernel's choice replaces nothing.
        let base = unsafe { libc::mmap(std::ptr::null_mut(), size, none, flags, -1, 0) };
        if base == libc::MAP_FAILED {
            return None;
        }
        let base = base.expose_provenance() as u64;
        let layout = Layout::at(base);
        let parts = [
            (layout.pages, libc::MADV_NOHUGEPAGE),
            (layout.other, libc::MADV_NOHUGEPAGE),
            (layout.huge, libc::MADV_HUGEPAGE),
        ];
        for (range, advice) in parts {
            let (at, len) = (pointer(range.start), usize::try_from(range.len()).ok()?);
            // SAFETY: the range is inside the mapping that was just made, which is ours alone.
            if unsafe { libc::mprotect(at, len, libc::PROT_READ | libc::PROT_WRITE) } != 0 {
                return None;
            }
            // The kernel refuses this if it has no huge pages. Nothing depends on it then.
            // SAFETY: advice about pages that hold nothing yet.
            unsafe { libc::madvise(at, len, advice) };
            for addr in (range.start..range.end).step_by(4096) {
                write(addr);
            }
        }
        Some(Self { base, layout })
    }

    /// Does what it is told until the parent goes.
    fn serve(&self, listen: i32, tell: i32) -> i32 {
        if !write_all(tell, &self.base.to_ne_bytes()) {
            return 1;
        }
        loop {
            let mut command = [0_u8; COMMAND_LEN];
            if !read_all(listen, &mut command) {
                return 0;
            }
            let [what, bits @ ..] = command;
            match what {
                3 => read(self.layout.huge.start),
                4 => flush_tlb(),
                _ => self.touch(what == 2, &bits),
            }
            if !write_all(tell, &[what]) {
                return 0;
            }
        }
    }

    fn touch(&self, writes: bool, bits: &[u8]) {
        let mut addr = self.layout.pages.start;
        for bits in bits {
            for bit in 0..8 {
                if bits >> bit & 1 != 0 {
                    if writes { write(addr) } else { read(addr) }
                }
                addr += PAGE_SIZE;
            }
        }
    }
}

/// Drops the TLB: if more pages are unmapped than the kernel flushes one by one (33 on x86), it
/// flushes all of the process.
fn flush_tlb() {
    const LEN: usize = 64 * 4096;
    let (rw, flags) = (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS);
    // SAFETY: a new mapping at an address of the kernel's choice replaces nothing.
    let at = unsafe { libc::mmap(std::ptr::null_mut(), LEN, rw, flags, -1, 0) };
    if at == libc::MAP_FAILED {
        return;
    }
    let base = at.expose_provenance() as u64;
    for addr in (base..base + LEN as u64).step_by(4096) {
        write(addr);
    }
    // SAFETY: the mapping was just made here, and nothing refers to it.
    unsafe { libc::munmap(at, LEN) };
}

fn pointer(addr: u64) -> *mut libc::c_void {
    // Isotherm runs on 64-bit machines only.
    std::ptr::with_exposed_provenance_mut(usize::try_from(addr).unwrap_or(0))
}

fn read(addr: u64) {
    // SAFETY: callers give addresses inside the child's own mapped and readable pages.
    unsafe { pointer(addr).cast::<u8>().read_volatile() };
}

fn write(addr: u64) {
    // SAFETY: callers give addresses inside the child's own mapped and writable pages, which
    // nothing else refers to.
    unsafe { pointer(addr).cast::<u8>().write_volatile(1) };
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn touches_what_it_is_told() {
        let mut child = TestChild::fork().unwrap();
        let maps = std::fs::read_to_string(format!("/proc/{}/maps", child.pid())).unwrap();
        let parse = |line: &str| {
            let (start, end) = line.split(' ').next()?.split_once('-')?;
            let hex = |x: &str| u64::from_str_radix(x, 16).ok();
            Some(AddrRange::new(hex(start)?, hex(end)?))
        };
        for range in [child.pages(), child.other(), child.huge()] {
            let of = |line: &&str| parse(line).is_some_and(|r| r.contains(range.start));
            let found = maps.lines().find(of).unwrap();
            assert!(found.contains(" rw"), "{found}");
            assert!(parse(found).unwrap().end >= range.end, "{found}");
        }
        assert_eq!(child.huge().start % HUGE_SIZE, 0);
        child.touch(Touch::Read, |nr| nr % 2 == 0).unwrap();
        child.touch(Touch::Write, |nr| nr == NR_PAGES - 1).unwrap();
        child.touch_huge().unwrap();
        child.flush_tlb().unwrap();
        let pid = child.pid();
        drop(child);
        assert!(std::fs::read_to_string(format!("/proc/{pid}/stat")).is_err());
    }

    #[test]
    fn it_ends_when_its_commands_do() {
        let first = TestChild::fork().unwrap();
        let second = TestChild::fork().unwrap();
        for child in [&first, &second] {
            let open = std::fs::read_dir(format!("/proc/{}/fd", child.pid())).unwrap().count();
            assert_eq!(open, 2);
        }
        let pid = first.pid();
        let TestChild { commands, process, .. } = first;
        drop(commands);
        // Dead, and not waited for yet.
        let state = || std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
        let end = std::time::Instant::now() + std::time::Duration::from_secs(60);
        while !state().contains(") Z ") {
            assert!(std::time::Instant::now() < end, "{}", state());
            std::thread::sleep(std::time::Duration::from_millis(1));
        }
        drop(process);
        assert!(std::fs::read_to_string(format!("/proc/{pid}/stat")).is_err());
        drop(second);
    }
}
