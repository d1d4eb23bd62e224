//! Fork of a process that has one thread, for workloads that are trees of processes.

use std::io;

use rustix::process::{Pid, Signal, WaitOptions, kill_process, waitpid};

use crate::child::fork::started;

/// How often to check, each ms, for a joined thread to go: it stays listed until the kernel removes
/// it.
const JOINED_THREAD_TRIES: u32 = 1000;

/// A forked child.
#[derive(Debug)]
pub struct Child(Pid);

impl Child {
    /// Asks it to end (SIGTERM).
    pub fn stop(&self) {
        // It may have ended already, which is what is wanted.
        kill_process(self.0, Signal::TERM).ok();
    }

    /// Whether it has ended; reaps it then.
    #[must_use]
    pub fn has_ended(&self) -> bool {
        !matches!(waitpid(Some(self.0), WaitOptions::NOHANG), Ok(None))
    }
}

/// Forks. The child runs `child`, then exits with its value, without the destructors and exit
/// handlers of its copy of the parent. This process has no other threads, so the child may do
/// anything.
///
/// # Errors
///
/// What the kernel says. `Unsupported` if this process has more than one thread: another thread
/// could hold a lock, such as the allocator's, which would stay locked for ever in the child.
pub fn fork_alone(child: impl FnOnce() -> i32) -> io::Result<Child> {
    let mut tries = 0..JOINED_THREAD_TRIES;
    while std::fs::read_dir("/proc/self/task")?.count() != 1 {
        if tries.next().is_none() {
            return Err(io::Error::new(io::ErrorKind::Unsupported, "fork with several threads"));
        }
        std::thread::sleep(std::time::Duration::from_millis(1));
    }
    // SAFETY: there is no other thread, so the child's copy of the memory is consistent.
    match unsafe { libc::fork() } {
        0 => {
            let code = child();
            // SAFETY: _exit has no preconditions.
            unsafe { libc::_exit(code) }
        }
        pid => started(pid).map(Child),
    }
}
