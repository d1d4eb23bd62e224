//! The monotonic clock, and sleeping until an instant of it.
//!
//! All instants are nanoseconds of `CLOCK_MONOTONIC`, so that they can be compared with a
//! workload's truth and with the kernel's own time stamps. A sleep is until an absolute time, so a
//! late tick does not delay the next one.

use std::io;

use isotherm_core::Time;
use rustix::time::{ClockId, Timespec};

/// What time it is.
#[must_use]
pub fn now() -> Time {
    Time(to_ns(rustix::time::clock_gettime(ClockId::Monotonic)))
}

/// How long it is since boot (`CLOCK_BOOTTIME`). Other than [`now`], it goes on while the machine
/// is suspended.
#[must_use]
pub fn since_boot() -> Time {
    Time(to_ns(rustix::time::clock_gettime(ClockId::Boottime)))
}

/// CPU time of all threads of this process since it started, in nanoseconds.
#[must_use]
pub fn process_cpu_ns() -> u64 {
    to_ns(rustix::time::clock_gettime(ClockId::ProcessCPUTime))
}

/// CPU time of all threads that a process has had so far, in nanoseconds.
///
/// # Errors
///
/// There is no process with this pid.
#[expect(unsafe_code, reason = "libc calls")]
pub fn process_cpu_ns_of(pid: u32) -> io::Result<u64> {
    let pid =
        libc::pid_t::try_from(pid).map_err(|_none| io::Error::from_raw_os_error(libc::ESRCH))?;
    let mut clock = 0;
    // SAFETY: `clock` is a valid place for the answer.
    match unsafe { libc::clock_getcpuclockid(pid, &raw mut clock) } {
        0 => {}
        errno => return Err(io::Error::from_raw_os_error(errno)),
    }
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `time` is a valid place for the answer.
    if unsafe { libc::clock_gettime(clock, &raw mut time) } != 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(to_ns(Timespec { tv_sec: time.tv_sec, tv_nsec: time.tv_nsec }))
}

/// CPU time of the calling thread since it started, in nanoseconds.
#[must_use]
pub fn thread_cpu_ns() -> u64 {
    to_ns(rustix::time::clock_gettime(ClockId::ThreadCPUTime))
}

/// How well the clock of the day is kept, by what the kernel was told.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ClockSync {
    /// Whether somebody (NTP, PTP) keeps it.
    pub is_synced: bool,
    /// By how many ns the clock is fast, as far as whoever keeps it has said and the kernel has not
    /// corrected yet; below zero if it is slow. It means nothing if nobody keeps the clock.
    pub fast_ns: i64,
}

/// How well the clock of the day is kept; `None` if the kernel does not tell.
#[must_use]
#[expect(unsafe_code, reason = "a libc call")]
pub fn sync() -> Option<ClockSync> {
    // SAFETY: all zeros is a valid `timex`; no mode is set, so nothing is changed.
    let mut told: libc::timex = unsafe { std::mem::zeroed() };
    // SAFETY: `told` is a valid place for the answer.
    if unsafe { libc::adjtimex(&raw mut told) } < 0 {
        return None;
    }
    let is_synced = told.status & libc::STA_UNSYNC == 0;
    // What is to be added to the clock, in µs, unless it is told in ns.
    let unit = if told.status & libc::STA_NANO == 0 { 1000 } else { 1 };
    Some(ClockSync { is_synced, fast_ns: told.offset.saturating_mul(-unit) })
}

/// Why a sleep ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Wake {
    /// The time has come.
    Due,
    /// A signal was handled; it may be too early.
    Signal,
}

/// Sleeps until `time`. Returns at once if it has passed, and early when a signal was handled.
///
/// A signal that arrives just before the call does not shorten the sleep. So check
/// [`crate::signals::stop_requested`] after every sleep, and keep sleeps as short as a sample
/// interval.
pub fn sleep_until(time: Time) -> Wake {
    let Ok(tv_sec) = i64::try_from(time.as_ns() / NS_PER_S) else { return Wake::Due };
    let Ok(tv_nsec) = i64::try_from(time.as_ns() % NS_PER_S) else { return Wake::Due };
    let until = Timespec { tv_sec, tv_nsec };
    // The only other errors are about arguments that we do not make.
    match rustix::thread::clock_nanosleep_absolute(ClockId::Monotonic, &until) {
        Err(rustix::io::Errno::INTR) => Wake::Signal,
        _ => Wake::Due,
    }
}

const NS_PER_S: u64 = 1_000_000_000;

/// Clocks that we ask never go below zero.
fn to_ns(t: Timespec) -> u64 {
    let part = |n: i64| u64::try_from(n).unwrap_or(0);
    part(t.tv_sec).saturating_mul(NS_PER_S).saturating_add(part(t.tv_nsec))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sleeps_until_an_instant_and_not_for_one_that_passed() {
        let until = now().plus_us(2_000);
        // Another test's signal may cut one sleep short, not all.
        while sleep_until(until) == Wake::Signal {}
        assert!(now() >= until);
        assert_eq!(sleep_until(Time(1)), Wake::Due);
        assert_eq!(sleep_until(Time(u64::MAX - u64::MAX % NS_PER_S - 1).min(now())), Wake::Due);
    }

    #[test]
    fn the_clock_since_boot_is_never_behind() {
        let before = now();
        let boot = since_boot();
        assert!(boot >= before, "{boot:?} {before:?}");
        assert!(since_boot() >= boot);
    }

    #[test]
    fn cpu_time_grows_with_work() {
        let before = process_cpu_ns();
        let mut x = 1_u64;
        while process_cpu_ns() < before + 1_000_000 {
            x = std::hint::black_box(x.wrapping_mul(3));
        }
        assert!(process_cpu_ns() > before);
    }
}
