//! Chooses the thread of a target that is stopped for an injection.
//!
//! A running thread is best, because nothing is interrupted. Next comes a thread that waits in a
//! system call which the kernel restarts by itself. Last comes a thread in a call that ends with
//! `EINTR` when it is interrupted, and that the session makes the kernel restart: see
//! [`restarts_by_itself`]. The main thread wins a tie, since its stack is where the safety net is
//! put.
//!
//! Threads that cannot stop soon (uninterruptible, also a parent that waits for its vfork child) or
//! are stopped already are left out.

use std::io;

use isotherm_host::proc::Proc;

use super::super::error::{self, ActError, ActKind};

/// What is known of a thread before it is stopped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Thread {
    pub(super) tid: u32,
    /// As `/proc` says it: `R`, `S`, `D`, `T`, `t`, `Z`, `X`, `I`.
    state: u8,
    at: At,
}

/// Where a thread is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum At {
    /// On a CPU or about to be.
    Running,
    /// Waiting in the kernel: in this system call, if in one, with this stack pointer.
    Waiting { nr: Option<u64>, stack: u64 },
    /// The kernel does not say.
    Unknown,
}

/// The threads of a process.
#[derive(Debug)]
pub(super) struct Threads {
    pid: u32,
    all: Vec<Thread>,
}

/// System calls that end with `EINTR` rather than restart when a thread was interrupted and no
/// signal handler ran. Such a call has done nothing yet, so a program that got no signal expects it
/// to go on, and it can be made again. Its time limit begins anew.
const EINTR_CALLS: [libc::c_long; 15] = [
    libc::SYS_epoll_wait,
    libc::SYS_epoll_pwait,
    libc::SYS_epoll_pwait2,
    libc::SYS_rt_sigtimedwait,
    libc::SYS_semop,
    libc::SYS_semtimedop,
    libc::SYS_io_getevents,
    // io_pgetevents
    333,
    libc::SYS_io_uring_enter,
    // With a time limit on the socket.
    libc::SYS_read,
    libc::SYS_recvfrom,
    libc::SYS_recvmsg,
    libc::SYS_recvmmsg,
    libc::SYS_accept,
    libc::SYS_accept4,
];

/// Whether the kernel restarts system call `nr` after an interruption without a signal handler.
pub(super) fn restarts_by_itself(nr: u64) -> bool {
    !EINTR_CALLS.iter().any(|&call| u64::try_from(call) == Ok(nr))
}

impl Threads {
    pub(super) fn of(pid: u32) -> io::Result<Self> {
        let proc = Proc::default();
        let mut all = Vec::new();
        for task in std::fs::read_dir(proc.path_of(pid, "task"))? {
            let name = task?.file_name();
            let Some(tid) = name.to_str().and_then(|n| n.parse().ok()) else { continue };
            let read = |file: &str| std::fs::read(proc.path_of(pid, &format!("task/{tid}/{file}")));
            // It may have ended since.
            let Ok(stat) = read("stat") else { continue };
            let Some(state) = state_of(&stat) else { continue };
            let at = read("syscall").map_or(At::Unknown, |text| at_of(&text));
            all.push(Thread { tid, state, at });
        }
        Ok(Self { pid, all })
    }

    /// Whether this thread of `pid` has ended; a zombie has.
    pub(super) fn has_ended(pid: u32, tid: u32) -> bool {
        let stat = std::fs::read(Proc::default().path_of(pid, &format!("task/{tid}/stat")));
        stat.ok().and_then(|stat| state_of(&stat)).is_none_or(is_dead)
    }

    /// Whether some thread has not ended.
    pub(super) fn any_alive(&self) -> bool {
        !self.all.iter().all(|t| is_dead(t.state))
    }

    /// The best first.
    ///
    /// # Errors
    ///
    /// No thread can be stopped. The error says why.
    pub(super) fn candidates(&self) -> Result<Vec<u32>, ActError> {
        let mut ranked: Vec<_> =
            self.all.iter().filter_map(|t| Some((self.rank(t)?, t.tid))).collect();
        ranked.sort_unstable();
        if ranked.is_empty() {
            Err(self.nobody())
        } else {
            Ok(ranked.iter().map(|r| r.1).collect())
        }
    }

    /// Where the main thread's stack ends now, if it is known without stopping that thread; 0 if it
    /// has no use for its stack any more.
    pub(super) fn main_stack(&self) -> Option<u64> {
        let main = self.all.iter().find(|t| t.tid == self.pid)?;
        match (main.state, main.at) {
            (state, _) if is_dead(state) => Some(0),
            (_, At::Waiting { stack, .. }) => Some(stack),
            _ => None,
        }
    }

    fn rank(&self, thread: &Thread) -> Option<(u8, bool)> {
        let other = thread.tid != self.pid;
        if !matches!(thread.state, b'R' | b'S') || other && self.main_stack().is_none() {
            return None;
        }
        let rank = match thread.at {
            At::Running => 0,
            At::Waiting { nr: Some(nr), .. } if restarts_by_itself(nr) => 1,
            At::Waiting { .. } => 2,
            At::Unknown => 3,
        };
        Some((rank, other))
    }

    fn nobody(&self) -> ActError {
        let tried = "choose a thread to stop";
        let is = |state: u8| self.all.iter().any(|t| t.state == state);
        let (kind, why, hint) = if !self.any_alive() {
            (ActKind::Gone, "it has ended", "")
        } else if is(b'T') {
            (ActKind::Busy, "it is stopped", "let it go on (`kill -CONT`), then try again")
        } else if is(b't') {
            (ActKind::Busy, "a debugger has stopped it", "end the debugger, then try again")
        } else {
            let why = "its threads wait in the kernel in a way that cannot be interrupted (for a \
                       disk, or for a child after vfork)";
            (ActKind::Busy, why, "try again later")
        };
        error::of(self.pid, kind, tried, why, hint)
    }
}

const fn is_dead(state: u8) -> bool {
    matches!(state, b'Z' | b'X')
}

/// The letter behind the name.
fn state_of(stat: &[u8]) -> Option<u8> {
    let close = stat.iter().rposition(|&b| b == b')')?;
    stat.get(close + 2).copied()
}

/// `running`, or `-1 STACK CODE`, or `NR` with six arguments, `STACK CODE`.
fn at_of(text: &[u8]) -> At {
    let Ok(text) = std::str::from_utf8(text) else { return At::Unknown };
    let words: Vec<&str> = text.split_whitespace().collect();
    let hex = |word: &str| u64::from_str_radix(word.strip_prefix("0x")?, 16).ok();
    match words.as_slice() {
        ["running"] => At::Running,
        [nr, .., stack, _code] => match hex(stack) {
            Some(stack) => At::Waiting { nr: nr.parse().ok(), stack },
            None => At::Unknown,
        },
        _ => At::Unknown,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn thread(tid: u32, state: u8, at: At) -> Thread {
        Thread { tid, state, at }
    }

    #[test]
    fn places_are_read() {
        for (text, at) in [
            ("running\n", At::Running),
            (
                "232 0x3 0x7f 0x1 0x0 0x0 0x8 0x7ffc10 0x7f00\n",
                At::Waiting { nr: Some(232), stack: 0x7f_fc10 },
            ),
            ("-1 0x7ffc10 0x7f00\n", At::Waiting { nr: None, stack: 0x7f_fc10 }),
            ("", At::Unknown),
            ("1 2 3", At::Unknown),
        ] {
            assert_eq!(at_of(text.as_bytes()), at, "{text:?}");
        }
        assert_eq!(state_of(b"7 (a) b) S 1 2"), Some(b'S'));
        assert_eq!(state_of(b"7"), None);
    }

    #[test]
    fn the_least_disturbed_thread_is_chosen() {
        let waiting = |nr: libc::c_long| At::Waiting { nr: u64::try_from(nr).ok(), stack: 1 };
        let (futex, epoll) = (waiting(libc::SYS_futex), waiting(libc::SYS_epoll_wait));
        for (name, all, expected) in [
            ("runs", vec![(7, b'S', futex), (8, b'R', At::Running)], Some(8)),
            ("main wins a tie", vec![(8, b'S', futex), (7, b'S', futex)], Some(7)),
            ("restarts", vec![(7, b'S', epoll), (8, b'S', futex)], Some(8)),
            ("epoll at last", vec![(7, b'S', epoll)], Some(7)),
            ("main's stack unknown", vec![(7, b'R', At::Running), (8, b'S', futex)], Some(7)),
            ("main is dead", vec![(7, b'Z', At::Unknown), (8, b'S', futex)], Some(8)),
            ("stopped", vec![(7, b'T', At::Unknown)], None),
            ("vfork", vec![(7, b'D', futex)], None),
        ] {
            let all = all.into_iter().map(|(tid, state, at)| thread(tid, state, at)).collect();
            let best = Threads { pid: 7, all }.candidates().ok().map(|c| c[0]);
            assert_eq!(best, expected, "{name}");
        }
    }
}
