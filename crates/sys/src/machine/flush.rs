//! Makes every CPU forget the translations of all programs' memory.
//!
//! No call does that: who clears accessed bits through another process's page tables may flush only
//! what it finds young. But an x86 CPU holds translations of six address spaces at most
//! (`TLB_NR_DYN_ASIDS`, arch/x86/mm/tlb.c, Linux 4.14 to 7.2), and gives the places away in turn;
//! without PCID it drops all at every change of the address space. So some children that share no
//! memory visit every CPU once, one system call per visit. After that, a program's next access to
//! any page walks its page tables, and sets the accessed bit.
//!
//! Absent: address spaces with a place of their own on all CPUs (AMD's INVLPGB, Linux 6.15), see
//! the caller.

use std::io;
use std::os::fd::AsRawFd;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::pipe::{PipeFlags, pipe_with};
use rustix::process::{Signal, WaitOptions, kill_process, waitpid};

use crate::child::fork::{fork, write_all};

/// Address spaces that visit each CPU: more than the six that it remembers.
const VISITORS: usize = 8;
/// How long they may take: a CPU can be busy with tasks of higher priority.
const PATIENCE: Duration = Duration::from_secs(3);

/// Makes the CPUs with these numbers forget.
///
/// # Errors
///
/// Not all were reached: one is forbidden to us (a cpuset), or too busy. They may still know
/// translations then.
pub fn flush_translations(cpus: &[usize]) -> io::Result<()> {
    let sets = sets(cpus)?;
    let (read, write) = pipe_with(PipeFlags::CLOEXEC | PipeFlags::NONBLOCK)?;
    let fd = write.as_raw_fd();
    let mut visitors = Vec::with_capacity(VISITORS);
    for _ in 0..VISITORS {
        visitors.push(fork(|| visit(&sets, fd)));
    }
    drop(write);
    let arrived = count(&read);
    let mut all_there = true;
    for visitor in visitors {
        let Ok(pid) = visitor else {
            all_there = false;
            continue;
        };
        if arrived < VISITORS {
            // It may have ended already.
            kill_process(pid, Signal::KILL).ok();
        }
        // Somebody who waits for all children may have been faster.
        waitpid(Some(pid), WaitOptions::empty()).ok();
    }
    if all_there && arrived == VISITORS {
        return Ok(());
    }
    Err(io::Error::new(io::ErrorKind::TimedOut, "not every CPU could be visited"))
}

/// A set of one for each CPU.
fn sets(cpus: &[usize]) -> io::Result<Vec<libc::cpu_set_t>> {
    let most = 8 * size_of::<libc::cpu_set_t>();
    if cpus.is_empty() || cpus.iter().any(|cpu| *cpu >= most) {
        return Err(io::Error::new(io::ErrorKind::Unsupported, "not a number of a CPU"));
    }
    let set = |cpu: &usize| {
        // SAFETY: the set is plain bits, for which zero is a value.
        let mut set: libc::cpu_set_t = unsafe { std::mem::zeroed() };
        // SAFETY: the number is below the set's size, as was just seen.
        unsafe { libc::CPU_SET(*cpu, &mut set) };
        set
    };
    Ok(cpus.iter().map(set).collect())
}

/// The life of a visitor: only system calls, as [`fork`] demands. 0 if it was everywhere.
fn visit(sets: &[libc::cpu_set_t], fd: i32) -> i32 {
    // The kernel's `struct sched_param`. The C library's differs, and musl's call always fails.
    let priority: libc::c_int = 1;
    // SAFETY: the number is a live one. Without the right to this, it waits for its turn.
    unsafe {
        libc::syscall(libc::SYS_sched_setscheduler, 0, libc::SCHED_FIFO, &raw const priority)
    };
    for set in sets {
        // When the call returns, this runs on that CPU, with its own page table.
        // SAFETY: the pointer and the size are those of a live set.
        if unsafe { libc::sched_setaffinity(0, size_of::<libc::cpu_set_t>(), set) } != 0 {
            return 1;
        }
    }
    i32::from(!write_all(fd, &[1]))
}

/// How many visitors were everywhere.
fn count(read: &std::os::fd::OwnedFd) -> usize {
    let begin = Instant::now();
    let mut arrived = 0;
    while arrived < VISITORS && begin.elapsed() < PATIENCE {
        let mut fds = [PollFd::new(read, PollFlags::IN)];
        let step = Timespec { tv_sec: 0, tv_nsec: 50_000_000 };
        // Interrupted: looks again.
        poll(&mut fds, Some(&step)).ok();
        let mut bytes = [0; VISITORS];
        match rustix::io::read(read, &mut bytes) {
            // All have ended.
            Ok(0) => break,
            Ok(nr) => arrived += nr,
            Err(_) => {}
        }
    }
    arrived
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn our_cpus_are_visited_and_no_others() {
        let may: Vec<usize> = {
            let set = rustix::thread::sched_getaffinity(None).unwrap();
            (0..1024).filter(|cpu| set.is_set(*cpu)).collect()
        };
        let begin = Instant::now();
        flush_translations(&may).unwrap();
        eprintln!("{} CPUs in {:?}", may.len(), begin.elapsed());
        for (name, cpus) in
            [("not there", vec![may[0], 1023]), ("none", vec![]), ("no number", vec![9999])]
        {
            assert!(flush_translations(&cpus).is_err(), "{name}");
        }
        let after = rustix::thread::sched_getaffinity(None).unwrap();
        assert!(may.iter().all(|cpu| after.is_set(*cpu)), "we ourselves stay where we are");
    }
}
