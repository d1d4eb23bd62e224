//! One stop of one thread: interrupt, some calls, and back to where it was.
//!
//! The order of the steps is what makes it safe to be killed at any point:
//!
//! 1. the frame of the safety net is written below the stack, where no code looks;
//! 2. all registers are set at once; from here on the net catches;
//! 3. signals are blocked, so that none is taken out of its queue while the registers are not the
//!    thread's own: they wait, in order, and none is lost or doubled;
//! 4. the calls are made, the thread stopping in front of and behind each;
//! 5. the thread is interrupted once more: only in such a stop the kernel looks, when the thread
//!    goes on, whether a system call was interrupted that it has to restart;
//! 6. the blocked signals are put back, then all registers at once, and the thread let go.
//!
//! If something unforeseen happens in between (a stopping signal, a fault in the injected code),
//! the thread's registers are restored at once and it is let go with that signal.

use std::io;

use isotherm_core::{AddrRange, Time};
use isotherm_sys::clock::now;
use isotherm_sys::ptrace::{Registers, Stop, Tracee, read_memory, write_memory};

use super::super::error::{self, ActError, ActKind};
use super::code::Code;
use super::frame::{ROOM, frame};
use super::thread::{Threads, restarts_by_itself};

/// The code segment of a 64-bit program.
const CODE_64: u64 = 0x33;
/// Signals that a thread raises by what it does. The kernel would end the process if they were
/// blocked.
const FAULTS: [i32; 6] =
    [libc::SIGILL, libc::SIGTRAP, libc::SIGBUS, libc::SIGFPE, libc::SIGSEGV, libc::SIGSYS];
/// How many bytes below the stack pointer a function may use (the red zone).
const RED_ZONE: u64 = 128;
/// Free stack between a thread and the net.
const MARGIN: u64 = 16 << 10;
/// How long the session still waits for a thread that did not stop in time, in µs. A request to
/// stop cannot be taken back. If the session left, some system calls would end with `EINTR` because
/// of it.
const PATIENCE_US: u64 = 1_000_000;
/// `ERESTARTNOHAND`: make the call again, unless a signal handler runs; then it ends with `EINTR`.
const RESTART_NO_HANDLER: u64 = 514_u64.wrapping_neg();
const INTERRUPTED: u64 = 4_u64.wrapping_neg();

/// What a session needs to know.
#[derive(Debug)]
pub(super) struct Site {
    pub(super) pid: u32,
    pub(super) tid: u32,
    pub(super) code: Code,
    /// The main thread's stack.
    pub(super) stack: AddrRange,
    /// Where that stack ends now; `None` if only the stopped thread can tell.
    pub(super) main_stack: Option<u64>,
    /// How long the thread may take to stop, in µs.
    pub(super) stop_within_us: u64,
    /// How long the calls may take, in µs, before the thread is left to the net.
    pub(super) run_within_us: u64,
}

/// A stopped thread, ready for calls.
#[derive(Debug)]
pub(super) struct Session<'s> {
    site: &'s Site,
    tracee: Tracee,
    /// To be put back.
    registers: Registers,
    blocked: u64,
    /// For a call.
    call: Registers,
    stopped_at: Time,
}

/// Why a session ended early. The thread is as it was.
type Result<T> = std::result::Result<T, ActError>;

impl<'s> Session<'s> {
    /// Steps 1 to 3. The calling thread must end soon after the session, come what may.
    pub(super) fn begin(site: &'s Site) -> Result<Self> {
        let tried = "stop a thread";
        let seized = Tracee::seize(site.tid);
        let tracee = seized.map_err(|e| site.not_seized(e))?;
        tracee.interrupt().map_err(|e| site.said("PTRACE_INTERRUPT", e))?;
        let mut until = now().plus_us(site.stop_within_us);
        let mut late = false;
        loop {
            match tracee.wait(until).map_err(|e| site.said("wait for it to stop", e))? {
                Stop::Interrupted => break,
                // Came first; it is the thread's own.
                Stop::Signal(signal) => {
                    tracee.resume(signal).map_err(|e| site.said("pass a signal on", e))?;
                }
                Stop::Syscall => {
                    tracee.resume(0).map_err(|e| site.said("let it run", e))?;
                }
                Stop::Group(_) => {
                    tracee.detach(0).ok();
                    let hint = "let it go on (`kill -CONT`), then try again";
                    return Err(site.error(ActKind::Busy, tried, "it is stopped", hint));
                }
                Stop::Exited => return Err(site.ended()),
                Stop::Late if !late => {
                    late = true;
                    until = now().plus_us(PATIENCE_US);
                }
                Stop::Late => return Err(site.late()),
            }
        }
        let stopped_at = now();
        let registers = tracee.registers().map_err(|e| site.said("read its registers", e))?;
        let blocked = tracee.blocked().map_err(|e| site.said("read its signal mask", e))?;
        let call = registers;
        let mut session = Self { site, tracee, registers, blocked, call, stopped_at };
        if late {
            session.restart_if_interrupted();
            session.put_back(0);
            return Err(site.late());
        }
        match session.enter() {
            Ok(()) => Ok(session),
            Err(e) => {
                // The registers are still, or again, the thread's own.
                session.put_back(0);
                Err(e)
            }
        }
    }

    /// When the thread stopped.
    pub(super) const fn stopped_at(&self) -> Time {
        self.stopped_at
    }

    fn enter(&mut self) -> Result<()> {
        let site = self.site;
        let tried = "look where it stopped";
        if self.registers.cs != CODE_64 {
            let why = "it runs 32-bit code, which is not supported";
            return Err(site.error(ActKind::NotSupported, tried, why, ""));
        }
        if self.tracee.dispatches_syscalls() {
            let why = "its system calls go to a handler of its own (syscall user dispatch)";
            return Err(site.error(ActKind::Unsafe, tried, why, ""));
        }
        self.restart_if_interrupted();
        self.leave_critical_section();
        let at = self.net_place()?;
        let state = self.tracee.vector_state();
        let state = state.map_err(|e| site.said("read its vector registers", e))?;
        let bytes = frame(at, site.code.sigreturn, &self.registers, self.blocked, &state);
        write_memory(site.pid, at, &bytes).map_err(|e| site.said("write below its stack", e))?;
        self.call =
            Registers { rip: site.code.call, rsp: at, orig_rax: u64::MAX, ..self.registers };
        // Nothing is called yet. If Isotherm were killed now, the thread would call getpid.
        self.call.rax = u64::try_from(libc::SYS_getpid).unwrap_or(0);
        let set = |r: &Registers| self.tracee.set_registers(r);
        set(&self.call).map_err(|e| site.said("set its registers", e))?;
        let faults = FAULTS.iter().fold(0_u64, |set, signal| set | 1 << (signal - 1));
        let all = self.blocked | !faults;
        self.tracee.set_blocked(all).map_err(|e| site.said("block its signals", e))
    }

    /// Lets the kernel restart a system call that ends with `EINTR` only because of this
    /// interruption.
    fn restart_if_interrupted(&mut self) {
        let r = &mut self.registers;
        let in_syscall = r.orig_rax.cast_signed() >= 0;
        if in_syscall && r.rax == INTERRUPTED && !restarts_by_itself(r.orig_rax) {
            r.rax = RESTART_NO_HANDLER;
        }
    }

    /// A thread that was stopped inside of a restartable sequence has to go on at its abort
    /// handler. The kernel does that when it returns to the program, but it cannot recognise the
    /// sequence by the registers of an injected call.
    fn leave_critical_section(&mut self) {
        let word = |at: u64| {
            let mut bytes = [0; 8];
            let read = read_memory(self.site.pid, at, &mut bytes);
            read.is_ok_and(|n| n == 8).then(|| u64::from_ne_bytes(bytes))
        };
        let area = self.tracee.rseq_address();
        // struct rseq: the section is at 8. struct rseq_cs: start at 8, length at 16, abort at 24.
        let Some(section) = word(area + 8).filter(|&at| area != 0 && at != 0) else { return };
        let (Some(start), Some(len)) = (word(section + 8), word(section + 16)) else { return };
        if self.registers.rip.wrapping_sub(start) < len
            && let Some(abort) = word(section + 24)
        {
            self.registers.rip = abort;
        }
    }

    /// The low end of the main thread's stack mapping, if the main thread is far from it.
    fn net_place(&self) -> Result<u64> {
        let (site, sp) = (self.site, self.registers.rsp);
        let low = site.stack.start;
        let known = if site.tid == site.pid { Some(sp) } else { site.main_stack };
        // A main thread that runs on a stack elsewhere has left this one further up.
        let deep = known.map(|sp| if site.stack.contains(sp) { sp } else { site.stack.end });
        let room = deep.map_or(0, |sp| sp.saturating_sub(low));
        if room < ROOM + RED_ZONE + MARGIN {
            let why = "its main thread's stack has no room for the way back";
            return Err(site.error(ActKind::Busy, "look at its stack", why, "try again later"));
        }
        Ok(low)
    }

    /// Makes the thread call `madvise`. The inner result is the call's.
    pub(super) fn madvise(&mut self, range: AddrRange, advice: i32) -> Result<io::Result<()>> {
        let site = self.site;
        let mut call = self.call;
        call.rax = u64::try_from(libc::SYS_madvise).unwrap_or(0);
        (call.rdi, call.rsi, call.rdx) =
            (range.start, range.len(), u64::try_from(advice).unwrap_or(0));
        self.tracee.set_registers(&call).map_err(|e| site.said("set its registers", e))?;
        // In front of the call and behind it.
        for _ in 0..2 {
            self.tracee.resume_to_syscall().map_err(|e| site.said("let it call madvise", e))?;
            self.expect(Stop::Syscall)?;
        }
        let result = self.tracee.registers().map_err(|e| site.said("read its registers", e))?.rax;
        if result == call.rax {
            // A seccomp filter has taken the call back. Its signal comes next, and must not stay.
            self.tracee.resume_to_syscall().map_err(|e| site.said("let it run", e))?;
            self.expect(Stop::Syscall)?;
        }
        let errno = i32::try_from(result.cast_signed().wrapping_neg()).ok().filter(|&e| e > 0);
        Ok(errno.map_or(Ok(()), |errno| Err(io::Error::from_raw_os_error(errno))))
    }

    /// Steps 5 and 6.
    pub(super) fn end(mut self) -> Result<()> {
        let site = self.site;
        self.tracee.interrupt().map_err(|e| site.said("PTRACE_INTERRUPT", e))?;
        self.tracee.resume(0).map_err(|e| site.said("let it run", e))?;
        self.expect(Stop::Interrupted)?;
        self.put_back(0);
        Ok(())
    }

    /// Waits for this stop. At any other the thread is put back and let go.
    fn expect(&mut self, stop: Stop) -> Result<()> {
        let site = self.site;
        let tried = "let it call madvise";
        let until = now().plus_us(site.run_within_us);
        let got = self.tracee.wait(until).map_err(|e| site.said("wait for it", e))?;
        match got {
            got if got == stop => Ok(()),
            // The interruption can only come in a later stop than this one.
            Stop::Interrupted | Stop::Syscall => {
                let why = "it stopped where it should not";
                Err(site.error(ActKind::Io, tried, why, ""))
            }
            Stop::Group(_) => {
                self.put_back(0);
                Err(site.error(ActKind::Busy, tried, "it was stopped meanwhile", ""))
            }
            Stop::Signal(signal) => {
                // A fault of the injected code; a person's signals have codes up to 0.
                let ours =
                    FAULTS.contains(&signal) && self.tracee.signal_code().is_ok_and(|c| c > 0);
                self.put_back(if ours { 0 } else { signal });
                Err(if !ours {
                    site.error(ActKind::Busy, tried, "a signal came between", "try again")
                } else if signal == libc::SIGSYS {
                    let why = "its seccomp filter does not allow madvise";
                    site.error(ActKind::Unsafe, tried, why, "")
                } else {
                    let why = format!("signal {signal}: its code has changed");
                    site.error(ActKind::Busy, tried, &why, "try again")
                })
            }
            Stop::Exited => Err(error::gone(site.pid, tried)),
            Stop::Late => {
                let why = format!(
                    "the call took longer than {} us, so it was left to end by itself",
                    site.run_within_us
                );
                Err(site.error(ActKind::Busy, tried, &why, "try again later"))
            }
        }
    }

    /// Makes the thread what it was, and lets it go. If a step fails it has died, or the net
    /// catches it.
    fn put_back(&mut self, signal: i32) {
        let done = self.tracee.set_blocked(self.blocked);
        let done = done.and_then(|()| self.tracee.set_registers(&self.registers));
        done.and_then(|()| self.tracee.detach(signal)).ok();
    }
}

impl Site {
    fn error(&self, kind: ActKind, tried: &str, why: &str, hint: &str) -> ActError {
        error::of(self.pid, kind, tried, why, hint)
    }

    fn late(&self) -> ActError {
        let why = format!("it did not stop within {} us", self.stop_within_us);
        self.error(ActKind::Busy, "stop a thread", &why, "try again later")
    }

    fn said(&self, tried: &str, err: io::Error) -> ActError {
        error::said(self.pid, tried, "CAP_SYS_PTRACE", err)
    }

    /// A thread that has ended since it was chosen is refused like one that is not ours: with
    /// `EPERM`.
    fn not_seized(&self, err: io::Error) -> ActError {
        if Threads::has_ended(self.pid, self.tid) {
            self.ended()
        } else {
            self.said("PTRACE_SEIZE", err)
        }
    }

    /// The thread has ended: the process too, or it has others to try.
    fn ended(&self) -> ActError {
        let tried = "stop a thread";
        if Threads::of(self.pid).is_ok_and(|threads| threads.any_alive()) {
            let why = "the thread that was chosen has ended meanwhile";
            self.error(ActKind::Busy, tried, why, "try again")
        } else {
            error::gone(self.pid, tried)
        }
    }
}
