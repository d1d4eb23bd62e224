//! Advice that a process can only give itself: `MADV_HUGEPAGE` and `MADV_NOHUGEPAGE`, by making one
//! of its threads call `madvise(2)`.
//!
//! One thread is stopped with ptrace for some 100 µs, makes the call, and goes on as before. The
//! kernel restarts the system call that the thread waited in. Signals that came in the meantime are
//! delivered, once each. The thread's vector registers, signal mask and code are unchanged. All
//! other threads run on. If the thread does not stop within [`InjectOptions::stop_within_us`], no
//! call is made.
//!
//! If Isotherm is killed at any point, the thread finishes the call by itself and returns to where
//! it was: see `frame`. The one difference is that the time limit of an interrupted sleep begins
//! anew.
//!
//! An injection leaves up to five pages behind, at the low end of the main thread's stack mapping.
//!
//! An injection that could do harm is refused with the reason: into a process that is being
//! debugged or is stopped, that has a seccomp policy or a shadow stack, or that runs 32-bit code.
//! Injection works on x86-64 only.
//!
//! During an injection, no thread of the *calling* process should wait for the target with
//! `waitpid`, which would report the stop.

mod code;
mod frame;
mod session;
mod thread;

use std::thread as threads;

use isotherm_core::addr::{PAGE_SIZE, round_down, round_up};
use isotherm_core::{AddrRange, MappingKind};
use isotherm_host::proc::{MappingUse, Proc, parse_maps, parse_smaps};
use isotherm_sys::clock::now;
use isotherm_sys::ptrace::sleep_exactly;

use super::error::{self, ActError, ActKind};
use super::outcome::{Outcome, Stopwatch};
use super::process::Process;
use code::Code;
use session::{Session, Site};
use thread::Threads;

/// Advice that a process can only give for its own memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HugePageAdvice {
    /// Huge pages, also under the setting that gives them only on request (`MADV_HUGEPAGE`).
    Huge,
    /// No new huge pages (`MADV_NOHUGEPAGE`).
    NoHuge,
}

/// Limits of an injection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct InjectOptions {
    /// How long the thread may take to stop, in µs. One that takes longer is left alone, but waited
    /// for up to a second more, so that a system call that it waits in does not end with `EINTR`.
    pub stop_within_us: u64,
    /// For how long after the begin of a stop further calls may begin, in µs.
    pub calls_within_us: u64,
    /// How long a call may take, in µs. Then the thread is left alone, and ends it by itself.
    pub run_within_us: u64,
    /// Inject although the process has a seccomp filter. A filter that kills on `madvise` then
    /// kills the process.
    pub despite_seccomp_filter: bool,
}

impl Default for InjectOptions {
    fn default() -> Self {
        Self {
            stop_within_us: 20_000,
            calls_within_us: 2_000,
            run_within_us: 100_000,
            despite_seccomp_filter: false,
        }
    }
}

/// What became of an injection.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Injected {
    /// As for other advice.
    pub outcome: Outcome,
    /// How often a thread was stopped.
    pub nr_stops: u32,
    /// The longest stop, from when it was noticed to when the thread was let go, in ns.
    pub longest_stop_ns: u64,
}

/// A target whose threads can be made to call `madvise`. Keeps what was found out about its code.
#[derive(Debug)]
pub struct Injector {
    pid: u32,
    code: Code,
    options: InjectOptions,
}

impl Injector {
    /// Looks whether calls can be injected into `process`. Nothing is stopped yet.
    ///
    /// # Errors
    ///
    /// Calls cannot be injected. The error says why.
    pub fn new(process: &Process, options: InjectOptions) -> Result<Self, ActError> {
        let pid = process.pid();
        if !cfg!(target_arch = "x86_64") {
            let why = "only x86-64 is known";
            return Err(error::of(pid, ActKind::NotSupported, "look at the machine", why, ""));
        }
        check_status(pid, options)?;
        let code = Code::find(pid);
        let code = code.map_err(|e| error::said(pid, "read its code", "CAP_SYS_PTRACE", e))?;
        let Some(code) = code else {
            let why = "it has no code that makes a system call and returns, or none that ends a \
                       signal handler";
            return Err(error::of(pid, ActKind::NotSupported, "look for code to use", why, ""));
        };
        Ok(Self { pid, code, options })
    }

    /// Makes the process advise these ranges (widened to whole pages), in as many stops as that
    /// takes; `stop` is asked before each. Parts that are not mapped count as refused.
    ///
    /// # Errors
    ///
    /// A thread could not be stopped or had to be let go early ([`ActKind::Busy`]), the process may
    /// no longer be traced, or has ended. What was done up to then is lost from the account; advice
    /// may be given again.
    pub fn madvise(
        &self,
        process: &Process,
        advice: HugePageAdvice,
        ranges: &[AddrRange],
        stop: &mut dyn FnMut() -> bool,
    ) -> Result<Injected, ActError> {
        let watch = Stopwatch::start();
        let advice = match advice {
            HugePageAdvice::Huge => libc::MADV_HUGEPAGE,
            HugePageAdvice::NoHuge => libc::MADV_NOHUGEPAGE,
        };
        let mut done = Injected::default();
        let maps = self.maps()?;
        let parts = mapped_parts(&maps, ranges, &mut done.outcome);
        let mut next = 0;
        let mut tracer_cpu_ns = 0;
        while next < parts.len() {
            if stop() {
                done.outcome.stopped = true;
                break;
            }
            if process.is_gone() {
                return Err(error::gone(self.pid, "inject a call"));
            }
            // In a thread of its own: its end frees the target, whatever happens.
            let tracer = || {
                let watch = Stopwatch::start();
                let result = self.one_stop(&maps, advice, &parts[next..], &mut done);
                result.map(|nr| (nr, watch.read().1))
            };
            let joined = threads::scope(|scope| scope.spawn(tracer).join());
            let (nr, cpu_ns) = match joined {
                Ok(result) => result?,
                Err(panic) => std::panic::resume_unwind(panic),
            };
            next += nr;
            tracer_cpu_ns += cpu_ns;
        }
        let (elapsed_ns, cpu_ns) = watch.read();
        done.outcome.elapsed_ns = elapsed_ns;
        done.outcome.cpu_ns = cpu_ns + tracer_cpu_ns;
        Ok(done)
    }

    /// Gives advice on the first ranges in one stop; returns how many, at least one.
    fn one_stop(
        &self,
        maps: &Maps,
        advice: i32,
        ranges: &[AddrRange],
        done: &mut Injected,
    ) -> Result<usize, ActError> {
        sleep_exactly();
        let pid = self.pid;
        check_status(pid, self.options)?;
        if !self.code.is_there(pid) {
            return Err(error::gone(pid, "look for the code that was there before"));
        }
        let said = |e| error::said(pid, "list its threads", "CAP_SYS_PTRACE", e);
        let all = Threads::of(pid).map_err(said)?;
        let candidates = all.candidates()?;
        let site = Site {
            pid,
            tid: candidates[0],
            code: self.code,
            stack: maps.stack,
            main_stack: all.main_stack(),
            stop_within_us: self.options.stop_within_us,
            run_within_us: self.options.run_within_us,
        };
        let mut session = Session::begin(&site)?;
        let stopped_at = session.stopped_at();
        let until = stopped_at.plus_us(self.options.calls_within_us);
        let mut nr = 0;
        for range in ranges {
            match session.madvise(*range, advice)? {
                Ok(()) => done.outcome.accept(range.len()),
                Err(e) => done.outcome.refuse(*range, e.raw_os_error().unwrap_or(libc::EIO)),
            }
            nr += 1;
            if now() >= until {
                break;
            }
        }
        session.end()?;
        done.nr_stops += 1;
        done.longest_stop_ns = done.longest_stop_ns.max(now().since(stopped_at));
        Ok(nr)
    }

    fn maps(&self) -> Result<Maps, ActError> {
        // The file is read in pieces. If the process ends between two of them, the stack, which
        // comes near the end, is missing, and a second reading is empty.
        for _ in 0..2 {
            let mut text = Vec::new();
            let tried = "read /proc/PID/maps";
            let read = Proc::default().read(self.pid, "maps", &mut text);
            read.map_err(|e| error::said(self.pid, tried, "CAP_SYS_PTRACE", e))?;
            let all: Vec<_> = parse_maps(&text).map(|m| m.range).collect();
            if all.is_empty() {
                return Err(error::gone(self.pid, tried));
            }
            let stack = parse_maps(&text).find(|m| m.kind() == MappingKind::Stack);
            if let Some(stack) = stack.map(|m| m.range) {
                let stack = self.with_parts_below(stack, &all)?;
                return Ok(Maps { all, stack });
            }
        }
        let why = "it has no main stack: it has unmapped it";
        Err(error::of(self.pid, ActKind::NotSupported, "look for its stack", why, ""))
    }

    /// The main thread's stack as a whole. Advice about a part of it splits the mapping, and only
    /// the highest part is called a stack after that. The thread may run in a lower one, where what
    /// it has in the highest is in use.
    fn with_parts_below(&self, stack: AddrRange, all: &[AddrRange]) -> Result<AddrRange, ActError> {
        // The kernel leaves a gap below a stack, so this is rare.
        if all.iter().all(|m| m.end != stack.start) {
            return Ok(stack);
        }
        let mut text = Vec::new();
        let read = Proc::default().read(self.pid, "smaps", &mut text);
        read.map_err(|e| error::said(self.pid, "read /proc/PID/smaps", "CAP_SYS_PTRACE", e))?;
        let parts: Vec<_> = parse_smaps(&text).collect();
        Ok(with_parts(stack, &parts))
    }
}

/// A stack with the parts below it, if they are mappings that grow down.
fn with_parts(stack: AddrRange, parts: &[MappingUse]) -> AddrRange {
    let mut start = stack.start;
    for part in parts.iter().rev().filter(|part| part.grows_down) {
        if part.range.end == start {
            start = part.range.start;
        }
    }
    AddrRange::new(start, stack.end)
}

/// A target's mappings.
#[derive(Debug)]
struct Maps {
    all: Vec<AddrRange>,
    stack: AddrRange,
}

/// The parts of the ranges that are mapped, one per mapping; the rest is refused.
fn mapped_parts(maps: &Maps, ranges: &[AddrRange], out: &mut Outcome) -> Vec<AddrRange> {
    let mut parts = Vec::new();
    for range in ranges.iter().filter(|r| !r.is_empty()) {
        let (mut at, end) = (round_down(range.start, PAGE_SIZE), round_up(range.end, PAGE_SIZE));
        let first = maps.all.partition_point(|m| m.end <= at);
        for mapping in maps.all[first..].iter().take_while(|m| m.start < end) {
            if at < mapping.start {
                out.refuse(AddrRange::new(at, mapping.start), libc::ENOMEM);
                at = mapping.start;
            }
            let part = AddrRange::new(at, mapping.end.min(end));
            at = part.end;
            parts.push(part);
        }
        if at < end {
            out.refuse(AddrRange::new(at, end), libc::ENOMEM);
        }
    }
    parts
}

/// Refuses what would go wrong, by what `/proc/PID/status` says.
fn check_status(pid: u32, options: InjectOptions) -> Result<(), ActError> {
    let tried = "read /proc/PID/status";
    let mut text = Vec::new();
    let read = Proc::default().read(pid, "status", &mut text);
    read.map_err(|e| error::said(pid, tried, "", e))?;
    let text = String::from_utf8_lossy(&text);
    let refuse = |kind, why: &str, hint: &str| Err(error::of(pid, kind, tried, why, hint));
    let field = |name: &str| {
        let value = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
        value.unwrap_or_default().trim()
    };
    let tracer = field("TracerPid");
    if !matches!(tracer, "" | "0") {
        let why = format!("process {tracer} traces it already, and there can be one only");
        return refuse(ActKind::Busy, &why, "end that debugger or tracer");
    }
    match field("Seccomp") {
        "1" => {
            let why = "it is in seccomp's strict mode, which kills it for an madvise";
            return refuse(ActKind::Unsafe, why, "");
        }
        "2" if !options.despite_seccomp_filter => {
            let why = "it has a seccomp filter, which may kill it for an madvise";
            let hint = "if you know that its filter allows madvise, allow it in the options";
            return refuse(ActKind::Unsafe, why, hint);
        }
        _ => {}
    }
    if field("x86_Thread_features").split_whitespace().any(|feature| feature == "shstk") {
        let why = "it has a shadow stack, on which there would be no way back if we were killed";
        return refuse(ActKind::NotSupported, why, "");
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stack_that_advice_has_split_is_one() {
        let part = |from: u64, to: u64, grows_down| MappingUse {
            range: AddrRange::new(from, to),
            grows_down,
            ..MappingUse::default()
        };
        let stack = AddrRange::new(90, 100);
        for (below, start) in [
            (vec![], 90),
            (vec![part(80, 90, true)], 80),
            (vec![part(60, 80, true), part(80, 90, true)], 60),
            // Memory that was mapped right below, and a stack that is not next to this one.
            (vec![part(80, 90, false)], 90),
            (vec![part(60, 80, true), part(80, 90, false)], 90),
            (vec![part(60, 80, true), part(85, 90, true)], 85),
        ] {
            let mut all = below.clone();
            all.push(part(90, 100, true));
            assert_eq!(with_parts(stack, &all), AddrRange::new(start, 100), "{below:?}");
        }
    }

    #[test]
    fn holes_are_refused_and_mappings_asked_for_one_by_one() {
        let range = |a: u64, b: u64| AddrRange::new(a << 12, b << 12);
        let maps = Maps { all: vec![range(2, 4), range(4, 6), range(8, 9)], stack: range(8, 9) };
        for (given, parts, refused) in [
            (range(2, 4), vec![range(2, 4)], 0),
            (range(3, 5), vec![range(3, 4), range(4, 5)], 0),
            (range(0, 20), vec![range(2, 4), range(4, 6), range(8, 9)], 15),
            (range(6, 8), vec![], 2),
            (range(10, 12), vec![], 2),
            (range(3, 3), vec![], 0),
        ] {
            let mut out = Outcome::default();
            assert_eq!(mapped_parts(&maps, &[given], &mut out), parts, "{given:?}");
            assert_eq!(out.refused_bytes, refused << 12, "{given:?}");
        }
    }
}
