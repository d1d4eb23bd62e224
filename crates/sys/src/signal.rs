//! The handler behind [`crate::signals`].

use std::io;
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicU32, Ordering};

/// The signal that asked us to stop.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StopSignal(i32);

impl StopSignal {
    /// Its number.
    #[must_use]
    pub const fn number(self) -> i32 {
        self.0
    }
}

/// Signals that mean "stop".
const STOP: [i32; 3] = [libc::SIGINT, libc::SIGTERM, libc::SIGHUP];

static FIRST: AtomicI32 = AtomicI32::new(0);
static COUNT: AtomicU32 = AtomicU32::new(0);

/// After so many requests the default action follows.
const PATIENCE: u32 = 3;

extern "C" fn on_stop(signal: i32) {
    let seen = COUNT.fetch_add(1, Ordering::Relaxed);
    if seen == 0 {
        FIRST.store(signal, Ordering::Relaxed);
    } else if seen + 1 >= PATIENCE {
        // SAFETY: signal() is async-signal-safe; the default disposition needs no handler.
        unsafe { libc::signal(signal, libc::SIG_DFL) };
        // SAFETY: raise() is async-signal-safe; the signal arrives when this handler returns.
        unsafe { libc::raise(signal) };
    }
}

/// Makes SIGINT, SIGTERM and SIGHUP set the flag of [`stop_requested`] and interrupt sleeps.
///
/// A signal that was ignored when the program started (`nohup`) stays ignored.
///
/// # Errors
///
/// The kernel gives no error for these signals. It would be passed on all the same.
pub fn install() -> io::Result<()> {
    for signal in STOP {
        if disposition(signal)? != libc::SIG_IGN {
            handle(signal, on_stop)?;
        }
    }
    // SIGXFSZ comes when a file is at its size limit, and by default ends the process. With a
    // handler the write fails, and that is reported. The signal is not ignored, because a command
    // that we start would inherit that.
    handle(libc::SIGXFSZ, on_nothing)
}

static RELOAD: AtomicBool = AtomicBool::new(false);

extern "C" fn on_reload(_: i32) {
    RELOAD.store(true, Ordering::Relaxed);
}

/// From now on SIGHUP means "read your files again" ([`take_reload`]) and not "stop".
///
/// # Errors
///
/// As [`install`].
pub fn reload_at_hangup() -> io::Result<()> {
    // Also if the signal was ignored: a service that was started with nohup still has to read its
    // files again.
    handle(libc::SIGHUP, on_reload)
}

/// Whether a SIGHUP came since this was asked last.
pub fn take_reload() -> bool {
    RELOAD.swap(false, Ordering::Relaxed)
}

extern "C" fn on_nothing(_: i32) {}

/// What happens at `signal` now.
fn disposition(signal: i32) -> io::Result<libc::sighandler_t> {
    // SAFETY: sigaction is plain data; all zeros is a valid value of it.
    let mut old: libc::sigaction = unsafe { std::mem::zeroed() };
    // SAFETY: a null new action only reads; `old` is writable and of the right type.
    if unsafe { libc::sigaction(signal, std::ptr::null(), &raw mut old) } != 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(old.sa_sigaction)
}

/// Calls `handler` at `signal`. The handler may only do what is async-signal-safe.
fn handle(signal: i32, handler: extern "C" fn(i32)) -> io::Result<()> {
    // SAFETY: sigaction is plain data; all zeros is a valid value of it.
    let mut new: libc::sigaction = unsafe { std::mem::zeroed() };
    new.sa_sigaction = handler as *const () as libc::sighandler_t;
    // SA_RESTART is not set, because a signal has to end a sleep. The mask stays empty.
    // SAFETY: `new` holds one of the handlers of this file, which touch atomics and make
    // async-signal-safe calls at most.
    if unsafe { libc::sigaction(signal, &raw const new, std::ptr::null_mut()) } != 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(())
}

/// The first signal that asked us to stop, if any did.
#[must_use]
pub fn stop_requested() -> Option<StopSignal> {
    match FIRST.load(Ordering::Relaxed) {
        0 => None,
        signal => Some(StopSignal(signal)),
    }
}
