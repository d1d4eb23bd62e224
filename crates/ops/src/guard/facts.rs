//! What the targets did, by `/proc`: two small files per target and window.

use std::collections::BTreeMap;

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
    last: BTreeMap<TargetId, Seen>,
    /// Counts the looks. What was seen before the number `since` is forgotten.
    nr: u64,
    since: u64,
    out: Vec<TargetFacts>,
    buf: Vec<u8>,
}

#[derive(Debug)]
struct Seen {
    stat: ProcFile,
    statm: ProcFile,
    last: Option<Sizes>,
    /// The number of that look.
    nr: u64,
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
        let (last, out, buf) = (BTreeMap::new(), Vec::new(), Vec::new());
        Self { proc, ns_per_tick, last, nr: 0, since: 0, out, buf }
    }

    /// Looks at the targets, given with their pids. A target's first look counts as nothing done,
    /// and so does a target that is gone.
    pub fn gather(&mut self, targets: impl IntoIterator<Item = (TargetId, u32)>) -> &[TargetFacts] {
        self.out.clear();
        self.nr += 1;
        let (nr, since) = (self.nr, self.since);
        for (id, pid) in targets {
            let keeps_open = self.out.len() < MOST_OPEN;
            let seen = self.last.entry(id).or_default();
            let Some(now) = seen.look(&self.proc, pid, &mut self.buf) else { continue };
            let mut facts = TargetFacts { id, ..TargetFacts::default() };
            let is_told = std::mem::replace(&mut seen.nr, nr) > since;
            if let Some(before) = seen.last.replace(now).filter(|_| is_told) {
                let ticks = now.ticks.saturating_sub(before.ticks);
                facts.cpu_ns = ticks.saturating_mul(self.ns_per_tick);
                facts.changed = now.pages != before.pages;
            }
            if !keeps_open {
                seen.stat.close();
                seen.statm.close();
            }
            self.out.push(facts);
        }
        self.last.retain(|_, seen| seen.nr == nr);
        &self.out
    }

    /// What the targets did before the next look counts as nothing. Cheap, for windows in which
    /// nobody asks.
    pub const fn forget(&mut self) {
        self.since = self.nr;
    }
}

impl Default for Seen {
    fn default() -> Self {
        Self { stat: ProcFile::new("stat"), statm: ProcFile::new("statm"), last: None, nr: 0 }
    }
}

impl Seen {
    fn look(&mut self, proc: &Proc, pid: u32, buf: &mut Vec<u8>) -> Option<Sizes> {
        let stat = parse_stat(self.stat.read(proc, pid, buf)?)?;
        let ticks = stat.utime.saturating_add(stat.stime);
        let text = self.statm.read(proc, pid, buf)?;
        let mut words = std::str::from_utf8(text).ok()?.split_ascii_whitespace();
        let mut pages = || words.next()?.parse().ok();
        Some(Sizes { ticks, pages: [pages()?, pages()?] })
    }
}
