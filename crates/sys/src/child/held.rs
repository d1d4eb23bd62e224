//! A command that is forked, but held before its exec until the monitor is ready.

use std::ffi::{CString, OsStr, OsString};
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;

use rustix::pipe::{PipeFlags, pipe_with};
use rustix::process::{Pid, Signal, WaitOptions, kill_process, waitpid};

use crate::child::fork::{errno, fork, read_byte, write_all};

/// A child that waits for [`Held::start`]. Dropping it ends the child.
#[derive(Debug)]
pub struct Held {
    pid: Pid,
    /// `None` once the child was let go.
    go: Option<OwnedFd>,
    result: OwnedFd,
}

impl Held {
    /// Forks a child for `command`, looked up in `PATH`, with our environment, files and terminal.
    ///
    /// It stays in our process group, so that a Ctrl-C at the terminal reaches it and us.
    ///
    /// # Errors
    ///
    /// What the kernel says.
    pub fn fork(command: &OsStr, args: &[OsString]) -> io::Result<Self> {
        let argv = std::iter::once(command)
            .chain(args.iter().map(OsString::as_os_str))
            .map(|arg| CString::new(arg.as_bytes()))
            .collect::<Result<Vec<_>, _>>()?;
        let mut pointers: Vec<_> = argv.iter().map(|arg| arg.as_ptr()).collect();
        pointers.push(std::ptr::null());
        let (go_out, go_in) = pipe_with(PipeFlags::CLOEXEC)?;
        let (result_out, result_in) = pipe_with(PipeFlags::CLOEXEC)?;
        let (wait, go, result) = (go_out.as_raw_fd(), go_in.as_raw_fd(), result_in.as_raw_fd());
        let pid = fork(|| {
            // Our copy of the writing end would keep us from seeing that the parent has closed its
            // own.
            // SAFETY: closes the child's own copy of a descriptor that nobody uses after it.
            unsafe { libc::close(go) };
            if read_byte(wait).is_none() {
                return 127;
            }
            exec(&pointers);
            write_all(result, &errno().to_ne_bytes());
            127
        })?;
        Ok(Self { pid, go: Some(go_in), result: result_out })
    }

    /// Its pid.
    pub const fn pid(&self) -> Pid {
        self.pid
    }

    /// Lets the child continue, and returns once the program runs.
    ///
    /// # Errors
    ///
    /// The error of exec. The child is gone then.
    pub fn start(mut self) -> io::Result<()> {
        if let Some(go) = self.go.take() {
            rustix::io::write(&go, &[1])?;
        }
        // A successful exec closes the other end. Before that, only a failure is written.
        let mut code = [0_u8; 4];
        let mut len = 0;
        while len < code.len() {
            match rustix::io::read(&self.result, &mut code[len..]) {
                Ok(0) => return Ok(()),
                Ok(n) => len += n,
                Err(rustix::io::Errno::INTR) => {}
                Err(err) => return Err(err.into()),
            }
        }
        wait(self.pid);
        Err(io::Error::from_raw_os_error(i32::from_ne_bytes(code)))
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        // Closing the pipe would end the child too, unless another child has inherited our end. The
        // child has run nothing, so nothing is cut short. Nobody has waited for it, so the pid is
        // still its own.
        if self.go.is_some() && kill_process(self.pid, Signal::KILL).is_ok() {
            wait(self.pid);
        }
    }
}

fn wait(pid: Pid) {
    while matches!(waitpid(Some(pid), WaitOptions::empty()), Err(rustix::io::Errno::INTR)) {}
}

/// Replaces the child's program; returns only on failure, with the reason in errno.
fn exec(argv: &[*const libc::c_char]) {
    let mut none = std::mem::MaybeUninit::<libc::sigset_t>::uninit();
    // SAFETY: sigemptyset writes the whole set.
    unsafe { libc::sigemptyset(none.as_mut_ptr()) };
    // SAFETY: the set was just written. The child has one thread, so this is its whole mask.
    unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, none.as_ptr(), std::ptr::null_mut()) };
    // Rust programs ignore SIGPIPE; an ignored signal stays ignored over exec.
    // SAFETY: setting a default disposition has no preconditions.
    unsafe { libc::signal(libc::SIGPIPE, libc::SIG_DFL) };
    let Some(&program) = argv.first() else { return };
    // SAFETY: `argv` ends with a null pointer, and the strings behind it outlive the call (the
    // parent's vector was copied by fork).
    unsafe { libc::execvp(program, argv.as_ptr()) };
}
