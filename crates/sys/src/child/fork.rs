//! Fork, for children that run only async-signal-safe code.

use std::io;

use rustix::process::Pid;

/// Forks. The child runs `child` and exits with its value; it never returns to the caller's code.
///
/// The caller may have threads. A fork copies only the calling thread, so another thread's locks
/// stay locked for ever in the child. `child` must therefore not allocate, panic or take a lock. It
/// may only use system calls and memory that was prepared before.
///
/// # Errors
///
/// `EAGAIN`, `ENOMEM`: too many processes, too little memory.
pub(crate) fn fork(child: impl FnOnce() -> i32) -> io::Result<Pid> {
    // SAFETY: fork has no preconditions; what the child may do is the contract above, which all
    // callers (in this folder) keep.
    match unsafe { libc::fork() } {
        0 => {
            let code = child();
            // SAFETY: _exit ends the process at once; no destructor and no exit handler of the
            // parent's copy runs.
            unsafe { libc::_exit(code) }
        }
        pid => started(pid),
    }
}

/// The child, from what fork returned to its parent. A failure is -1. That must not become a `Pid`:
/// a signal to -1 goes to every process of the machine.
pub(crate) fn started(pid: i32) -> io::Result<Pid> {
    let pid = Some(pid).filter(|pid| *pid > 0).and_then(Pid::from_raw);
    pid.ok_or_else(io::Error::last_os_error)
}

/// Reads one byte, through interruptions; `None` at the end of the pipe or on an error.
pub(crate) fn read_byte(fd: i32) -> Option<u8> {
    let mut byte = [0];
    read_all(fd, &mut byte).then_some(byte[0])
}

/// Fills `bytes`, through interruptions. Returns whether it did: not at the end of the pipe, and
/// not on an error.
pub(crate) fn read_all(fd: i32, bytes: &mut [u8]) -> bool {
    let mut rest = bytes;
    while !rest.is_empty() {
        // SAFETY: the pointer and the length are those of a live slice that may be written.
        let n = unsafe { libc::read(fd, rest.as_mut_ptr().cast(), rest.len()) };
        match usize::try_from(n) {
            Ok(n @ 1..) => rest = rest.get_mut(n..).unwrap_or_default(),
            Err(_) if errno() == libc::EINTR => {}
            _ => return false,
        }
    }
    true
}

/// Writes all of `bytes` as one piece (a pipe takes up to 4096 bytes at once). Returns whether it
/// did.
pub(crate) fn write_all(fd: i32, bytes: &[u8]) -> bool {
    loop {
        // SAFETY: the pointer and the length are those of a live slice.
        let n = unsafe { libc::write(fd, bytes.as_ptr().cast(), bytes.len()) };
        if n < 0 && errno() == libc::EINTR {
            continue;
        }
        return usize::try_from(n) == Ok(bytes.len());
    }
}

/// The calling thread's errno; async-signal-safe, as `std::io::Error` would be too.
pub(crate) fn errno() -> i32 {
    // SAFETY: gives the address of the calling thread's own errno.
    let location = unsafe { libc::__errno_location() };
    // SAFETY: that address is valid and aligned as long as the thread runs.
    unsafe { *location }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fork_that_failed_has_no_child() {
        assert!(started(-1).is_err() && started(0).is_err());
        assert_eq!(started(7).unwrap().as_raw_nonzero().get(), 7);
    }
}
