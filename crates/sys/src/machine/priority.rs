//! Raised priority of the calling thread, for the length of one call.
//!
//! Some calls hold a lock of another process. If the caller loses its CPU meanwhile, that process
//! waits until the caller gets its next turn: on a busy machine for tens of milliseconds. So such a
//! call is made as a real-time thread (`SCHED_FIFO`), which no ordinary thread preempts. It must be
//! short, because nothing ordinary runs on that CPU until it ends.

use std::io;
use std::marker::PhantomData;

/// `struct sched_attr` (include/uapi/linux/sched/types.h), as of Linux 3.14.
#[repr(C)]
#[derive(Debug, Clone, Copy, Default)]
struct SchedAttr {
    size: u32,
    policy: u32,
    flags: u64,
    nice: i32,
    priority: u32,
    runtime: u64,
    deadline: u64,
    period: u64,
}

/// Its size in bytes.
const SIZE: u32 = 48;
/// `SCHED_OTHER`, `SCHED_BATCH` and `SCHED_IDLE`: threads that any real-time thread preempts.
const ORDINARY: [u32; 3] = [0, 3, 5];
const SCHED_FIFO: u32 = 1;
/// `SCHED_FLAG_RESET_ON_FORK`: a child would not inherit the priority.
const RESET_ON_FORK: u64 = 1;

/// As long as this lives, no ordinary thread preempts the calling thread. Dropping it restores what
/// was before.
#[derive(Debug)]
pub struct Raised {
    before: SchedAttr,
    /// It is about the thread that made it.
    _thread: PhantomData<*const ()>,
}

/// Raises the priority of the calling thread. `None` if the thread has a real-time priority
/// already. Needs `CAP_SYS_NICE`, or a limit `RLIMIT_RTPRIO` of at least 1.
///
/// # Errors
///
/// What the kernel says. `EPERM` also in a cgroup without real-time bandwidth.
pub fn raise() -> io::Result<Option<Raised>> {
    let before = get()?;
    if !ORDINARY.contains(&before.policy) {
        return Ok(None);
    }
    let policy = SCHED_FIFO;
    set(&SchedAttr {
        size: SIZE,
        policy,
        flags: RESET_ON_FORK,
        priority: 1,
        ..SchedAttr::default()
    })?;
    Ok(Some(Raised { before, _thread: PhantomData }))
}

impl Drop for Raised {
    fn drop(&mut self) {
        // A thread may always lower its priority, and the values are the kernel's own.
        set(&self.before).ok();
    }
}

fn get() -> io::Result<SchedAttr> {
    let mut attr = SchedAttr::default();
    let at = &raw mut attr;
    // SAFETY: thread 0 is the calling one. The kernel writes at most `SIZE` bytes, which the
    // structure has.
    let done = unsafe { libc::syscall(libc::SYS_sched_getattr, 0, at, SIZE, 0_u32) };
    if done < 0 { Err(io::Error::last_os_error()) } else { Ok(SchedAttr { size: SIZE, ..attr }) }
}

fn set(attr: &SchedAttr) -> io::Result<()> {
    let at = std::ptr::from_ref(attr);
    // SAFETY: thread 0 is the calling one. The kernel reads as many bytes as the structure says
    // that it has.
    let done = unsafe { libc::syscall(libc::SYS_sched_setattr, 0, at, 0_u32) };
    if done < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_before_is_restored() {
        assert_eq!(size_of::<SchedAttr>(), SIZE as usize);
        let before = get().unwrap();
        match raise() {
            Ok(Some(raised)) => {
                let now = get().unwrap();
                assert_eq!((now.policy, now.priority), (SCHED_FIFO, 1));
                assert!(raise().unwrap().is_none(), "it is raised already");
                assert_eq!(get().unwrap().policy, SCHED_FIFO);
                drop(raised);
            }
            Ok(None) => assert!(!ORDINARY.contains(&before.policy)),
            Err(e) => assert_eq!(e.raw_os_error(), Some(libc::EPERM)),
        }
        let after = get().unwrap();
        assert_eq!(
            (after.policy, after.nice, after.flags),
            (before.policy, before.nice, before.flags)
        );
    }
}
