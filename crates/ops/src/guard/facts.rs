//! What the targets did, by `/proc`: two small files per target and window.

use isotherm_core::TargetId;
use isotherm_host::proc::Proc;

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
    ticks: u64,
    /// `statm`: the sizes.
    sizes: [u64; 2],
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
            let Some(now) = look(&self.proc, id, pid, &mut self.buf) else { continue };
            let mut facts = TargetFacts { id, ..TargetFacts::default() };
            match self.last.iter_mut().find(|seen| seen.id == id) {
                Some(seen) => {
                    let ticks = now.ticks.saturating_sub(seen.ticks);
                    facts.cpu_ns = ticks.saturating_mul(self.ns_per_tick);
                    facts.changed = now.sizes != seen.sizes;
                    *seen = now;
                }
                None => self.last.push(now),
            }
            self.out.push(facts);
        }
        let out = &self.out;
        self.last.retain(|seen| out.iter().any(|facts| facts.id == seen.id));
        out
    }
}

fn look(proc: &Proc, id: TargetId, pid: u32, buf: &mut Vec<u8>) -> Option<Seen> {
    let stat = proc.stat(pid, buf).ok()?;
    let ticks = stat.utime.saturating_add(stat.stime);
    proc.read(pid, "statm", buf).ok()?;
    let mut words = std::str::from_utf8(buf).ok()?.split_ascii_whitespace();
    let mut size = || words.next()?.parse().ok();
    Some(Seen { id, ticks, sizes: [size()?, size()?] })
}
