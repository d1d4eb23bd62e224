//! `ptrace(2)` as far as the injection of a system call needs it, on x86-64.
//!
//! A [`Tracee`] belongs to the thread that seized it. When that thread ends, in whatever way, the
//! kernel releases the tracee, stopped or not. There is no other way to give up on a tracee that
//! does not stop. So tracing is done in a thread of its own.

use std::io;
use std::marker::PhantomData;

use isotherm_core::Time;

use crate::clock;

/// The registers of a thread.
pub type Registers = libc::user_regs_struct;

/// The number of a request: C libraries differ in its type.
#[cfg(not(target_env = "musl"))]
type Request = libc::c_uint;
#[cfg(target_env = "musl")]
type Request = libc::c_int;

/// The event of the stop that `PTRACE_INTERRUPT` asks for.
const EVENT_STOP: i32 = 128;
const NT_X86_XSTATE: usize = 0x202;
const NT_PRFPREG: usize = 2;
const GET_SIGMASK: Request = 0x420a;
const SET_SIGMASK: Request = 0x420b;
const GET_RSEQ: Request = 0x420f;
const GET_USER_DISPATCH: Request = 0x4211;
/// For so long, in microseconds, waiting does not sleep.
const SPIN_US: u64 = 100;

/// How a tracee has stopped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stop {
    /// Where it was interrupted, as we asked.
    Interrupted,
    /// With its whole process, by this signal.
    Group(i32),
    /// In front of or behind a system call.
    Syscall,
    /// The tracee stopped before this signal, and gets it if the next resumption passes it on.
    Signal(i32),
    /// Not at all: it has exited.
    Exited,
    /// Not yet.
    Late,
}

/// A thread of another process, seized by this thread.
#[derive(Debug)]
pub struct Tracee {
    tid: i32,
    /// Not to be sent to another thread.
    _thread: PhantomData<*const ()>,
}

impl Tracee {
    /// Seizes a thread; it runs on.
    ///
    /// # Errors
    ///
    /// What the kernel says.
    pub fn seize(tid: u32) -> io::Result<Self> {
        let tid = i32::try_from(tid).ok();
        let tid = tid.ok_or_else(|| io::Error::from_raw_os_error(libc::ESRCH))?;
        let tracee = Self { tid, _thread: PhantomData };
        let options = usize::try_from(libc::PTRACE_O_TRACESYSGOOD).unwrap_or(0);
        tracee.request(libc::PTRACE_SEIZE, 0, options)?;
        Ok(tracee)
    }

    /// Asks it to stop.
    ///
    /// # Errors
    ///
    /// What the kernel says.
    pub fn interrupt(&self) -> io::Result<()> {
        self.request(libc::PTRACE_INTERRUPT, 0, 0)
    }

    /// Lets a stopped tracee run on for good, with `signal` unless that is 0.
    ///
    /// # Errors
    ///
    /// What the kernel says.
    pub fn detach(&self, signal: i32) -> io::Result<()> {
        self.request(libc::PTRACE_DETACH, 0, usize::try_from(signal).unwrap_or(0))
    }

    /// Lets it run until the next stop, with `signal` unless that is 0.
    ///
    /// # Errors
    ///
    /// What the kernel says.
    pub fn resume(&self, signal: i32) -> io::Result<()> {
        self.request(libc::PTRACE_CONT, 0, usize::try_from(signal).unwrap_or(0))
    }

    /// Lets it run until it enters or leaves a system call, or another stop.
    ///
    /// # Errors
    ///
    /// What the kernel says.
    pub fn resume_to_syscall(&self) -> io::Result<()> {
        self.request(libc::PTRACE_SYSCALL, 0, 0)
    }

    /// The registers of the stopped thread (`PTRACE_GETREGS`).
    ///
    /// # Errors
    ///
    /// What the kernel says.
    pub fn registers(&self) -> io::Result<Registers> {
        // SAFETY: plain numbers; all zeros is a valid value.
        let mut registers: Registers = unsafe { std::mem::zeroed() };
        self.request(libc::PTRACE_GETREGS, 0, (&raw mut registers).expose_provenance())?;
        Ok(registers)
    }

    /// Sets all registers at once.
    ///
    /// # Errors
    ///
    /// What the kernel says.
    pub fn set_registers(&self, registers: &Registers) -> io::Result<()> {
        self.request(libc::PTRACE_SETREGS, 0, (&raw const *registers).expose_provenance())
    }

    /// The set of signals that the thread blocks, as a bit mask.
    ///
    /// # Errors
    ///
    /// What the kernel says.
    pub fn blocked(&self) -> io::Result<u64> {
        let mut set = 0_u64;
        self.request(GET_SIGMASK, 8, (&raw mut set).expose_provenance())?;
        Ok(set)
    }

    /// Sets which signals the thread blocks, as a bit mask (`PTRACE_SETSIGMASK`).
    ///
    /// # Errors
    ///
    /// What the kernel says.
    pub fn set_blocked(&self, set: u64) -> io::Result<()> {
        self.request(SET_SIGMASK, 8, (&raw const set).expose_provenance())
    }

    /// How the signal at which it stopped was sent: `si_code`.
    ///
    /// # Errors
    ///
    /// What the kernel says.
    pub fn signal_code(&self) -> io::Result<i32> {
        // SAFETY: plain numbers; all zeros is a valid value.
        let mut info: libc::siginfo_t = unsafe { std::mem::zeroed() };
        self.request(libc::PTRACE_GETSIGINFO, 0, (&raw mut info).expose_provenance())?;
        Ok(info.si_code)
    }

    /// Its floating point and vector registers, as XSAVE writes them; on a CPU without XSAVE
    /// (`ENODEV`) the 512 bytes that FXSAVE writes.
    ///
    /// # Errors
    ///
    /// What the kernel says.
    pub fn vector_state(&self) -> io::Result<Vec<u8>> {
        let no_xsave = |e: &io::Error| e.raw_os_error() == Some(libc::ENODEV);
        match self.register_set(NT_X86_XSTATE) {
            Err(e) if no_xsave(&e) => self.register_set(NT_PRFPREG),
            state => state,
        }
    }

    fn register_set(&self, note: usize) -> io::Result<Vec<u8>> {
        let mut state = vec![0_u8; 16 << 10];
        let mut iovec = libc::iovec { iov_base: state.as_mut_ptr().cast(), iov_len: state.len() };
        let at = (&raw mut iovec).expose_provenance();
        self.request(libc::PTRACE_GETREGSET, note, at)?;
        state.truncate(iovec.iov_len);
        Ok(state)
    }

    /// The address of its restartable sequences; 0 if it has registered none, or the kernel does
    /// not tell.
    pub fn rseq_address(&self) -> u64 {
        // struct ptrace_rseq_configuration: address, size, signature, flags, padding.
        let mut config = [0_u64; 3];
        let at = (&raw mut config).expose_provenance();
        self.request(GET_RSEQ, size_of_val(&config), at).map_or(0, |()| config[0])
    }

    /// Whether its system calls are sent to a signal handler of its own
    /// (`PR_SET_SYSCALL_USER_DISPATCH`).
    pub fn dispatches_syscalls(&self) -> bool {
        // struct ptrace_sud_config: mode, selector, offset, length.
        let mut config = [0_u64; 4];
        let at = (&raw mut config).expose_provenance();
        self.request(GET_USER_DISPATCH, size_of_val(&config), at).is_ok() && config[0] != 0
    }

    /// Waits for the next stop, at most until `until`. Takes no exit status from anybody: the
    /// kernel sorts that out when the tracing thread ends.
    ///
    /// # Errors
    ///
    /// What the kernel says.
    pub fn wait(&self, until: Time) -> io::Result<Stop> {
        let begin = clock::now();
        loop {
            // A tracee's stop is reported whether asked for or not, so this looks before it takes
            // the report.
            match self.poll(libc::WSTOPPED | libc::WEXITED | libc::WNOWAIT)? {
                Some((libc::CLD_TRAPPED | libc::CLD_STOPPED, _)) => {
                    if let Some((_, status)) = self.poll(libc::WSTOPPED)? {
                        return Ok(stop_of(status));
                    }
                }
                Some(_) => return Ok(Stop::Exited),
                None => {}
            }
            let now = clock::now();
            if now >= until {
                return Ok(Stop::Late);
            }
            if now.since(begin) < SPIN_US * 1000 {
                std::thread::yield_now();
            } else {
                std::thread::sleep(std::time::Duration::from_micros(50));
            }
        }
    }

    /// Code and status of a change of its state, if there is any.
    fn poll(&self, what: i32) -> io::Result<Option<(i32, i32)>> {
        // SAFETY: plain numbers; all zeros is a valid value.
        let mut info: libc::siginfo_t = unsafe { std::mem::zeroed() };
        let options = what | libc::WNOHANG | libc::__WALL | libc::__WNOTHREAD;
        let id = libc::id_t::try_from(self.tid).unwrap_or(0);
        // SAFETY: `info` is writable and of the right type.
        if unsafe { libc::waitid(libc::P_PID, id, &raw mut info, options) } != 0 {
            let err = io::Error::last_os_error();
            return match err.raw_os_error() {
                Some(libc::EINTR) => Ok(None),
                // Its parent was faster.
                Some(libc::ECHILD) => Ok(Some((libc::CLD_EXITED, 0))),
                _ => Err(err),
            };
        }
        // SAFETY: waitid has filled in the fields of a child's state, or left zeros.
        let pid = unsafe { info.si_pid() };
        // SAFETY: as above.
        let status = unsafe { info.si_status() };
        Ok((pid == self.tid).then_some((info.si_code, status)))
    }

    fn request(&self, request: Request, addr: usize, data: usize) -> io::Result<()> {
        // SAFETY: what `data` points to, for the requests of this file that read or write there, is
        // a live object of the caller with the size that the kernel knows from the request, or that
        // `addr` or the iovec says. The effect is on the tracee.
        match unsafe { libc::ptrace(request, self.tid, addr, data) } {
            -1 => Err(io::Error::last_os_error()),
            _ => Ok(()),
        }
    }
}

/// What waitid's status means.
const fn stop_of(status: i32) -> Stop {
    match (status & 0xff, status >> 8) {
        (libc::SIGTRAP, EVENT_STOP) => Stop::Interrupted,
        (signal, EVENT_STOP) => Stop::Group(signal),
        (signal, _) if signal == libc::SIGTRAP | 0x80 => Stop::Syscall,
        (signal, _) => Stop::Signal(signal),
    }
}

/// Lets this thread's sleeps be as short as asked for.
pub fn sleep_exactly() {
    // SAFETY: sets a number of the calling thread.
    unsafe { libc::prctl(libc::PR_SET_TIMERSLACK, 1_usize) };
}

/// Reads another process's memory, as much of `bytes` as there is. Returns how much that was.
///
/// # Errors
///
/// What the kernel says.
pub fn read_memory(pid: u32, addr: u64, bytes: &mut [u8]) -> io::Result<usize> {
    let ours = libc::iovec { iov_base: bytes.as_mut_ptr().cast(), iov_len: bytes.len() };
    let theirs = remote(addr, bytes.len());
    let pid = i32::try_from(pid).unwrap_or(i32::MAX);
    // SAFETY: writes into `bytes` only, which lives across the call and is as long as said.
    let done = unsafe { libc::process_vm_readv(pid, &raw const ours, 1, &raw const theirs, 1, 0) };
    usize::try_from(done).map_err(|_negative| io::Error::last_os_error())
}

/// Writes all of `bytes` into another process's memory, where that process could write itself.
///
/// # Errors
///
/// What the kernel says.
pub fn write_memory(pid: u32, addr: u64, bytes: &[u8]) -> io::Result<()> {
    let ours = libc::iovec { iov_base: bytes.as_ptr().cast_mut().cast(), iov_len: bytes.len() };
    let theirs = remote(addr, bytes.len());
    let pid = i32::try_from(pid).unwrap_or(i32::MAX);
    // SAFETY: only reads from `bytes`, which lives across the call and is as long as said.
    let done = unsafe { libc::process_vm_writev(pid, &raw const ours, 1, &raw const theirs, 1, 0) };
    match usize::try_from(done) {
        Ok(n) if n == bytes.len() => Ok(()),
        Ok(_short) => Err(io::Error::from_raw_os_error(libc::EFAULT)),
        Err(_negative) => Err(io::Error::last_os_error()),
    }
}

fn remote(addr: u64, len: usize) -> libc::iovec {
    let addr = usize::try_from(addr).unwrap_or(usize::MAX);
    libc::iovec { iov_base: std::ptr::without_provenance_mut(addr), iov_len: len }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stops_are_told_apart() {
        for (status, stop) in [
            (libc::SIGTRAP | 128 << 8, Stop::Interrupted),
            (libc::SIGSTOP | 128 << 8, Stop::Group(libc::SIGSTOP)),
            (libc::SIGTRAP | 0x80, Stop::Syscall),
            (libc::SIGUSR1, Stop::Signal(libc::SIGUSR1)),
            (libc::SIGTRAP, Stop::Signal(libc::SIGTRAP)),
        ] {
            assert_eq!(stop_of(status), stop, "{status:#x}");
        }
    }
}
