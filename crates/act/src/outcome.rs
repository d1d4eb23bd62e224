//! What became of an action, in numbers that can be added up.

use isotherm_core::{AddrRange, Time};
use isotherm_sys::clock;
use rustix::time::{ClockId, clock_gettime};

/// The number of refused ranges that are kept. All refused bytes are counted.
pub const MAX_REFUSED: usize = 64;

/// A range that the kernel refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Refused {
    /// Its addresses.
    pub range: AddrRange,
    /// The kernel's answer (`EINVAL`: locked, hugetlb, device, huge pages forbidden; `ENOMEM`: a
    /// hole, no memory for a huge page; `EAGAIN`, `EBUSY`: not now).
    pub errno: i32,
}

/// What became of one action on some ranges.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Outcome {
    /// Bytes that the kernel was asked for; less than given if it was stopped.
    pub asked_bytes: u64,
    /// Bytes of the ranges that the kernel accepted. This proves nothing about single pages,
    /// because the kernel skips some silently.
    pub accepted_bytes: u64,
    /// Bytes of the ranges that the kernel refused.
    pub refused_bytes: u64,
    /// The first [`MAX_REFUSED`] ranges that the kernel refused.
    pub refused: Vec<Refused>,
    /// `stop` ended the action between two batches.
    pub stopped: bool,
    /// The process ended or replaced its program (exec) during the action.
    pub gone: bool,
    /// The caller lost the right to do it during the action (`EPERM`, `EACCES`).
    pub denied: bool,
    /// Time from begin to end, in nanoseconds of `CLOCK_MONOTONIC`.
    pub elapsed_ns: u64,
    /// CPU time of the acting thread, in nanoseconds.
    pub cpu_ns: u64,
}

impl Outcome {
    pub(super) fn accept(&mut self, bytes: u64) {
        self.asked_bytes += bytes;
        self.accepted_bytes += bytes;
    }

    pub(super) fn refuse(&mut self, range: AddrRange, errno: i32) {
        self.asked_bytes += range.len();
        self.refused_bytes += range.len();
        if self.refused.len() < MAX_REFUSED {
            self.refused.push(Refused { range, errno });
        }
    }

    /// Whether it ended before all ranges were asked for.
    #[must_use]
    pub const fn is_cut_short(&self) -> bool {
        self.stopped || self.gone || self.denied
    }
}

/// Time and CPU time since a begin.
#[derive(Debug)]
pub(super) struct Stopwatch {
    begin: Time,
    cpu_ns: u64,
}

impl Stopwatch {
    pub(super) fn start() -> Self {
        Self { begin: clock::now(), cpu_ns: thread_cpu_ns() }
    }

    /// Elapsed and CPU nanoseconds.
    pub(super) fn read(&self) -> (u64, u64) {
        let cpu_ns = thread_cpu_ns().saturating_sub(self.cpu_ns);
        (clock::now().since(self.begin), cpu_ns)
    }
}

/// CPU time of the calling thread, in nanoseconds.
fn thread_cpu_ns() -> u64 {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    let part = |n: i64| u64::try_from(n).unwrap_or(0);
    part(time.tv_sec) * 1_000_000_000 + part(time.tv_nsec)
}
