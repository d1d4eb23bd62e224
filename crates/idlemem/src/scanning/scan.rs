//! The scan of a machine: runs rounds at their times, and reports.

use std::path::Path;
use std::time::Duration;

use isotherm_core::Time;
use isotherm_host::metrics::Cgroups;
use isotherm_host::proc::Proc;
use isotherm_host::ram::{Ram, RamError};
use isotherm_pages::frames::groups::Ancestry;
use isotherm_pages::frames::{self, FrameFile, FramesError, FramesKind, Groups, Which};
use isotherm_pages::idle::{BITMAP, Bitmap, LOCK, Lock};
use isotherm_sys::clock::{now, process_cpu_ns, sleep_until};

use crate::report::{Method, Report};
use crate::scanning::piece::Kernel;
use crate::scanning::scanner::Scanner;
use crate::table;

/// How a scan goes about it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Options {
    /// The time from a mark to the look that reads it, and between two reports.
    pub interval: Duration,
    /// The part of the interval that a round over all memory is spread over, above 0 and up to 1.
    pub spread: f64,
    /// CPU time that the scan may take, as a part of one CPU. If it needs more, it looks at a
    /// sample of memory.
    pub cpu: f64,
}

/// CPU time that a scan may take by default: 0.5 % of a CPU per 24 GiB, and not less than 0.1 %.
#[must_use]
pub fn default_cpu(memory_bytes: u64) -> f64 {
    #[expect(clippy::cast_precision_loss, reason = "a size of memory")]
    let gib = memory_bytes as f64 / f64::from(1 << 30);
    (0.005 * gib / 24.0).max(0.001)
}

/// A scan by the bitmap of idle pages.
#[derive(Debug)]
pub struct Scan {
    scanner: Scanner<std::fs::File, std::fs::File>,
    options: Options,
    cgroups: Cgroups,
    ancestry: Ancestry,
    /// When each piece was marked last.
    marked: Vec<Time>,
    begin: Time,
    rounds: u64,
    memory: u64,
    _lock: Lock,
}

impl Scan {
    /// Opens what it needs.
    ///
    /// # Errors
    ///
    /// The kernel has no bitmap ([`FramesKind::NotSupported`]), or we may not open it.
    pub fn open(options: Options) -> Result<Self, FramesError> {
        let proc = Proc::default();
        let tried = format!("open {BITMAP}");
        let bitmap = Bitmap::open(Path::new(BITMAP))
            .map_err(|e| frames::at_file(&tried, "CONFIG_IDLE_PAGE_TRACKING", e))?;
        let flags = FrameFile::open(proc.root(), Which::Flags)?;
        let lock = lock()?;
        let cgroups = match FrameFile::open(proc.root(), Which::Cgroup) {
            Ok(file) => Some(file),
            Err(e) if e.kind() == FramesKind::NotSupported => None,
            Err(e) => return Err(e),
        };
        let ram = Ram::read(&proc).map_err(no_ram)?;
        let frames: Vec<_> = ram.ranges.iter().map(|r| r.start / 4096..r.end / 4096).collect();
        #[expect(clippy::cast_precision_loss, reason = "a time below days")]
        let budget = options.interval.as_nanos() as f64 * options.cpu;
        let seed = now().as_ns();
        let scanner = Scanner::new(Kernel { bitmap, flags, cgroups }, &frames, budget, seed);
        Ok(Self {
            marked: vec![now(); scanner.pieces()],
            memory: scanner.bytes(),
            scanner,
            options,
            cgroups: Cgroups::mounted(&proc),
            ancestry: Ancestry::default(),
            begin: now(),
            rounds: 0,
            _lock: lock,
        })
    }

    /// Bytes of memory that are looked at.
    #[must_use]
    pub const fn memory(&self) -> u64 {
        self.memory
    }

    /// Runs the next round and reports. The first call runs two rounds, because nothing is marked
    /// before the first. `stop` is called often. If it returns true, there is no report.
    ///
    /// # Errors
    ///
    /// What the kernel says.
    pub fn next(&mut self, stop: &mut dyn FnMut() -> bool) -> Result<Option<Report>, FramesError> {
        let mut others = 0;
        if self.rounds == 0 {
            self.begin = now();
            let Some(first) = self.round(stop)? else { return Ok(None) };
            others = first.others;
        }
        let Some(mut report) = self.round(stop)? else { return Ok(None) };
        report.others = others;
        Ok(Some(report))
    }

    fn round(&mut self, stop: &mut dyn FnMut() -> bool) -> Result<Option<Report>, FramesError> {
        let interval = u64::try_from(self.options.interval.as_nanos()).unwrap_or(u64::MAX);
        let spread = self.options.interval.mul_f64(self.options.spread.clamp(0.01, 1.0));
        let spread = u64::try_from(spread.as_nanos()).unwrap_or(interval);
        let begin = self.begin + interval.saturating_mul(self.rounds);
        let pieces = self.scanner.pieces().max(1) as u64;
        if let Some(groups) = Groups::read(&self.cgroups) {
            self.ancestry.note(&groups);
        }
        let (mut shortest, mut longest) = (u64::MAX, 0);
        let cpu = process_cpu_ns();
        let marked = &mut self.marked;
        let mut last: Option<usize> = None;
        let wait = |nr: usize| {
            // What was looked at before was marked until now at the latest.
            if let Some(last) = last {
                marked[last] = now();
            }
            last = Some(nr);
            if !sleep_to(begin + spread / pieces * nr as u64, stop) {
                return false;
            }
            let since = now().since(marked[nr]);
            (shortest, longest) = (shortest.min(since), longest.max(since));
            true
        };
        let found = self.scanner.round(wait, process_cpu_ns).map_err(|e| {
            frames::error(FramesKind::Io, "read the frames' files and mark frames idle", "", "")
                .with(e)
        })?;
        let Some(found) = found else { return Ok(None) };
        if let Some(last) = last {
            marked[last] = now();
        }
        self.rounds += 1;
        let rows = Groups::read(&self.cgroups).map(|groups| {
            self.ancestry.note(&groups);
            table::rows(&groups, &self.ancestry, &found.sums)
        });
        Ok(Some(Report {
            method: Method::Bitmap,
            round: self.rounds - 1,
            rows: rows.unwrap_or_else(|| table::whole(&found.sums)),
            share: found.share,
            shortest_ns: shortest,
            longest_ns: longest,
            cpu_ns: process_cpu_ns().saturating_sub(cpu),
            memory: self.memory,
            others: found.others,
            unknown: None,
        }))
    }
}

/// Checks that no other scanner of ours runs: what one of them marks looks idle to the other.
pub(crate) fn lock() -> Result<Lock, FramesError> {
    Lock::take(Path::new(LOCK)).map_err(|e| e.about(frames::WHAT).by_class())
}

/// Sleeps until then, in short sleeps; `false` if `stop` says so.
pub(crate) fn sleep_to(until: Time, stop: &mut dyn FnMut() -> bool) -> bool {
    const NAP_NS: u64 = 100_000_000;
    loop {
        if stop() {
            return false;
        }
        let at = now();
        if at >= until {
            return true;
        }
        sleep_until(until.min(at + NAP_NS));
    }
}

pub(crate) fn no_ram(error: RamError) -> FramesError {
    error.about(frames::WHAT).by_class()
}
