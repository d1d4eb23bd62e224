//! What the targets did, by `/proc`: two small files per target and window.

use isotherm_core::TargetId;
use isotherm_host::proc::{Proc, ProcFile, parse_stat};

/// Files of more targets than this are opened for each look: each takes two.
const MOST_OPEN: usize = 8;

/// What a target did since the last look.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct TargetFacts {
    /// The target.
    pub id: TargetId,
    /// CPU time of all its threads, in ns. The kernel counts in clock ticks, usually of 10 ms.
    pub cpu_ns: u64,
    /// Whether the size of its mappings or of its resident memory changed.
    pub changed: bool,
}

/// Gathers [`TargetFacts`].
#[derive(Debug)]
pub struct Facts {
    proc: Proc,
    ns_per_tick: u64,
    last: Vec<Seen>,
    out: Vec<TargetFacts>,
    buf: Vec<u8>,
}

#[derive(Debug)]
struct Seen {
    id: TargetId,
    stat: ProcFile,
    statm: ProcFile,
    last: Option<Sizes>,
}

#[derive(Debug, Clone, Copy)]
struct Sizes {
    ticks: u64,
    /// `statm`: what is mapped, and what is resident.
    pages: [u64; 2],
}

impl Facts {
    /// From this `/proc`.
    #[must_use]
    pub fn new(proc: Proc) -> Self {
        let ns_per_tick = 1_000_000_000 / rustix::param::clock_ticks_per_second().max(1);
        Self { proc, ns_per_tick, last: Vec::new(), out: Vec::new(), buf: Vec::new() }
    }

    /// Looks at the targets, given with their pids. A target's first look counts as nothing done,
    /// and so does a target that is gone.
    pub fn gather(&mut self, targets: impl IntoIterator<Item = (TargetId, u32)>) -> &[TargetFacts] {
        self.out.clear();
        for (id, pid) in targets {
            let nr = self.last.iter().position(|seen| seen.id == id).unwrap_or_else(|| {
                self.last.push(Seen::new(id));
                self.last.len() - 1
            });
            let seen = &mut self.last[nr];
            let Some(now) = seen.look(&self.proc, pid, &mut self.buf) else { continue };
            let mut facts = TargetFacts { id, ..TargetFacts::default() };
            if let Some(before) = seen.last.replace(now) {
                let ticks = now.ticks.saturating_sub(before.ticks);
                facts.cpu_ns = ticks.saturating_mul(self.ns_per_tick);
                facts.changed = now.pages != before.pages;
            }
            if nr >= MOST_OPEN {
                seen.stat.close();
                seen.statm.close();
            }
            self.out.push(facts);
        }
        let out = &self.out;
        self.last.retain(|seen| out.iter().any(|facts| facts.id == seen.id));
        out
    }
}

impl Seen {
    const fn new(id: TargetId) -> Self {
        Self { id, stat: ProcFile::new("stat"), statm: ProcFile::new("statm"), last: None }
    }

    fn look(&mut self, proc: &Proc, pid: u32, buf: &mut Vec<u8>) -> Option<Sizes> {
        let stat = parse_stat(self.stat.read(proc, pid, buf)?)?;
        let ticks = stat.utime.saturating_add(stat.stime);
        let text = self.statm.read(proc, pid, buf)?;
        let mut words = std::str::from_utf8(text).ok()?.split_ascii_whitespace();
        let mut pages = || words.next()?.parse().ok();
        Some(Sizes { ticks, pages: [pages()?, pages()?] })
    }
}
