//! Operations set `smaps`: the last resort, per mapping.
//!
//! It needs nothing but the same user ID: accessed bits are cleared with `/proc/PID/clear_refs` and
//! looked at with `Referenced` in `/proc/PID/smaps`.
//!
//! **It answers per mapping, not per page.** A page reads as young when *anything* in its mapping
//! was touched: a mapping of 2 GiB with one hot page reads as 2 GiB of hot memory. The only finer
//! number is the share of the mapping's resident memory that was touched ([`SmapsOps::share`]).
//!
//! **It is expensive for the target.** Clearing walks the whole process under its mmap write lock
//! (9 to 16 ms per GiB) and makes it set every accessed bit again (about 0.5 us per page that it
//! touches). So a target may not be larger than [`Limits::max_rss_bytes`], and it is cleared once
//! per [`Limits::clear_every_us`] and looked at once per [`Limits::look_every_us`], not more often.
//! A question that would need more is answered with [`PageState::Unknown`]. Give the context a
//! sample interval of that length ([`Limits::sample_us`]).
//!
//! **It may miss touches right after a clear**, because `clear_refs` does not flush the TLB.
//!
//! A clear covers the whole process, so the `prepare` of one page would erase what happened to all
//! others. Therefore the set looks before every clear and counts clears as epochs. It remembers per
//! mapping the last epoch in which that was touched, and per page the epoch in which that was made
//! old.

mod error;
mod state;

use std::fs::OpenOptions;
use std::io;

use isotherm_core::ops::UpdateError;
use isotherm_core::{AddrRange, Check, Operations, PageState, TargetId, Time};

use isotherm_host::error::SetError;
use isotherm_host::proc::{Proc, TaskState, is_gone, parse_smaps, read_monitored_ranges};
use isotherm_pages::clear_refs::clear_accessed;
use isotherm_sys::clock::now;

use state::AddressSpace;

/// Bounds on what the set may do to a target.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Largest resident memory of a target, in bytes.
    pub max_rss_bytes: u64,
    /// Time between two clears of a target, in µs: a clear may come early by half of it, not more.
    pub clear_every_us: u64,
    /// Time between two looks at a target, in µs, in the same way.
    pub look_every_us: u64,
}

impl Default for Limits {
    /// 1 GiB; 100 ms; 100 ms.
    fn default() -> Self {
        Self { max_rss_bytes: 1 << 30, clear_every_us: 100_000, look_every_us: 100_000 }
    }
}

impl Limits {
    /// The same without a limit on the size: the user insists.
    #[must_use]
    pub fn forced(self) -> Self {
        Self { max_rss_bytes: u64::MAX, ..self }
    }

    /// The shortest sample interval for which every question is answered, in µs.
    #[must_use]
    pub fn sample_us(&self) -> u64 {
        self.clear_every_us.max(self.look_every_us)
    }
}

/// The operations set.
#[derive(Debug)]
pub struct SmapsOps {
    proc: Proc,
    limits: Limits,
    targets: Vec<Watched>,
    buf: Vec<u8>,
}

/// A target of the set.
#[derive(Debug)]
struct Watched {
    id: TargetId,
    pid: u32,
    start_ticks: u64,
    space: AddressSpace,
    cleared_at: Option<Time>,
    looked_at: Option<Time>,
}

impl SmapsOps {
    /// A set without targets.
    #[must_use]
    pub fn new(proc: Proc, limits: Limits) -> Self {
        Self { proc, limits, targets: Vec::new(), buf: Vec::new() }
    }

    /// The bounds that it keeps.
    #[must_use]
    pub const fn limits(&self) -> Limits {
        self.limits
    }

    /// Takes process `pid` as target `id`.
    ///
    /// # Errors
    ///
    /// If it is too large, or its accessed bits cannot be cleared or looked at.
    pub fn add_target(&mut self, id: TargetId, pid: u32) -> Result<(), SetError> {
        let rss_bytes = self
            .proc
            .status(pid, &mut self.buf)
            .map_err(|e| error::io(pid, "status", e))?
            .rss_bytes;
        if rss_bytes > self.limits.max_rss_bytes {
            return Err(error::too_large(pid, rss_bytes, self.limits.max_rss_bytes));
        }
        let stat = self.proc.stat(pid, &mut self.buf);
        let start_ticks = stat.map_err(|e| error::io(pid, "stat", e))?.starttime;
        self.proc.read(pid, "smaps", &mut self.buf).map_err(|e| error::io(pid, "smaps", e))?;
        // Opening for writing is the permission check; it changes nothing yet.
        self.open_clear_refs(pid).map_err(|e| error::io(pid, "clear_refs", e))?;
        let space = AddressSpace::default();
        self.targets.push(Watched {
            id,
            pid,
            start_ticks,
            space,
            cleared_at: None,
            looked_at: None,
        });
        Ok(())
    }

    /// Forgets a target.
    pub fn remove_target(&mut self, id: TargetId) {
        self.targets.retain(|t| t.id != id);
    }

    /// The share of the resident memory of the mapping at `addr` that was touched between the last
    /// clear and the last look; `None` if that is not known.
    #[must_use]
    pub fn share(&self, id: TargetId, addr: u64) -> Option<f64> {
        self.targets.iter().find(|t| t.id == id)?.space.share(addr)
    }

    fn open_clear_refs(&self, pid: u32) -> io::Result<std::fs::File> {
        OpenOptions::new().write(true).open(self.proc.path_of(pid, "clear_refs"))
    }

    /// Calls `f` for every target that the batch asks about, with the questions about it.
    fn each_target(
        &mut self,
        batch: &mut [Check],
        f: impl Fn(&mut Self, usize, &mut dyn Iterator<Item = &mut Check>),
    ) {
        for check in batch.iter_mut() {
            check.state = PageState::Unknown;
        }
        for i in 0..self.targets.len() {
            let Some(id) = self.targets.get(i).map(|t| t.id) else { continue };
            if batch.iter().any(|c| c.target == id) {
                f(self, i, &mut batch.iter_mut().filter(|c| c.target == id));
            }
        }
    }

    /// Reads `smaps` of target `i` into its address space. Returns whether it did.
    fn look(&mut self, i: usize) -> bool {
        let Some(target) = self.targets.get_mut(i) else { return false };
        // Unchecked, the number could be another process's by now.
        if !is_same(&self.proc, target.pid, target.start_ticks, &mut self.buf)
            || self.proc.read(target.pid, "smaps", &mut self.buf).is_err()
        {
            return false;
        }
        target.space.looked(parse_smaps(&self.buf).filter(|m| m.is_monitored));
        target.looked_at = Some(now());
        true
    }

    /// Clears all accessed bits of target `i`; tells whether it did.
    fn clear(&mut self, i: usize) -> bool {
        let Some(target) = self.targets.get(i) else { return false };
        let (pid, start_ticks) = (target.pid, target.start_ticks);
        // The process may have grown since it became a target. Then its questions stay unanswered.
        if target.space.rss_bytes() > self.limits.max_rss_bytes {
            return false;
        }
        // The open file belongs to the process, even if the pid is reused after the check.
        let Ok(mut file) = self.open_clear_refs(pid) else { return false };
        if !is_same(&self.proc, pid, start_ticks, &mut self.buf)
            || clear_accessed(&mut file).is_err()
        {
            return false;
        }
        if let Some(target) = self.targets.get_mut(i) {
            target.space.cleared();
            target.cleared_at = Some(now());
        }
        true
    }
}

impl Operations for SmapsOps {
    fn prepare(&mut self, batch: &mut [Check]) {
        self.each_target(batch, |set, i, checks| {
            let Some(target) = set.targets.get(i) else { return };
            let due = Due::of(target.cleared_at, set.limits.clear_every_us);
            // Looking first is part of the clear, because it keeps what a clear would erase. The
            // core checks just before it prepares, so mostly the look was already made.
            let cleared = match due {
                Due::JustDone => true,
                Due::Now => {
                    let looked_at = target.looked_at;
                    (Due::of(looked_at, 0) == Due::JustDone || set.look(i)) && set.clear(i)
                }
                Due::Later => false,
            };
            let Some(target) = set.targets.get_mut(i) else { return };
            for check in checks {
                check.state =
                    if cleared { target.space.arm(check.addr) } else { PageState::Unknown };
            }
        });
    }

    fn check(&mut self, batch: &mut [Check]) {
        self.each_target(batch, |set, i, checks| {
            let Some(target) = set.targets.get(i) else { return };
            let looked = match Due::of(target.looked_at, set.limits.look_every_us) {
                Due::JustDone => true,
                Due::Now => set.look(i),
                Due::Later => false,
            };
            let Some(target) = set.targets.get(i) else { return };
            for check in checks {
                let state = target.space.state(check.addr);
                // "Touched" stays true from then on. "Untouched" was true when it was
                // looked at.
                let holds = looked || state == PageState::Young;
                check.state = if holds { state } else { PageState::Unknown };
            }
        });
    }

    fn update(&mut self, id: TargetId, maps: &mut Vec<AddrRange>) -> Result<(), UpdateError> {
        let target = self.targets.iter().find(|t| t.id == id).ok_or(UpdateError::Gone)?;
        if !is_same(&self.proc, target.pid, target.start_ticks, &mut self.buf) {
            return Err(UpdateError::Gone);
        }
        match read_monitored_ranges(&self.proc, target.pid, &mut self.buf, maps) {
            Ok(()) if maps.is_empty() => Err(UpdateError::NotNow),
            Ok(()) => Ok(()),
            Err(err) if is_gone(&err) => Err(UpdateError::Gone),
            Err(_) => Err(UpdateError::NotNow),
        }
    }

    fn target_valid(&mut self, id: TargetId) -> bool {
        let Some(target) = self.targets.iter().find(|t| t.id == id) else { return false };
        is_same(&self.proc, target.pid, target.start_ticks, &mut self.buf)
    }
}

/// Whether something that may not be done often may be done.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Due {
    /// The batch before this one did it a moment ago, which is recent enough.
    JustDone,
    Now,
    Later,
}

impl Due {
    /// What happens between two batches of one tick is lost. That is a small part of a tick.
    const JUST_NS: u64 = 1_000_000;

    /// Ticks keep a schedule, so the tick after a late one comes early. It counts as due: else its
    /// questions would find no answer. Over time the schedule still keeps the bound.
    fn of(at: Option<Time>, every_us: u64) -> Self {
        let Some(at) = at else { return Self::Now };
        match now().since(at) {
            passed if passed < Self::JUST_NS => Self::JustDone,
            passed if passed >= every_us.saturating_mul(500) => Self::Now,
            _ => Self::Later,
        }
    }
}

/// Whether `pid` is still the process that started at `start_ticks`, and alive.
fn is_same(proc: &Proc, pid: u32, start_ticks: u64, buf: &mut Vec<u8>) -> bool {
    proc.stat(pid, buf)
        .is_ok_and(|stat| stat.starttime == start_ticks && stat.state == TaskState::Alive)
}
