//! Acts on chosen pages, looks what became of them, and adds that to the account.

use isotherm_core::scheme::Action;
use isotherm_core::{AddrRange, Time};
use isotherm_host::proc::{Proc, parse_maps};
use isotherm_sys::clock::now;

use crate::apply::evidence::look::{Look, Seen};
use crate::apply::pages::{Bits, GRANULE, PageSet, granules};
use crate::apply::proof::taken::Back;
use crate::apply::target::{Chosen, Did, TargetState};
use crate::apply::{ActEvent, Actor, Job, until};
use crate::{Advice, Outcome, PageKind, Process};

/// Bytes per batch of what moves data: about a millisecond of zram.
const BATCH: u64 = 1 << 20;
/// What a dry run charges its time quota per batch, in ns.
const PRETENDED_NS: u64 = 1_000_000;

impl Actor {
    /// Does the request's action to the chosen pages. Returns what was asked, and the bytes done.
    pub(in crate::apply) fn carry_out(
        &mut self,
        look: &mut dyn Look,
        state: &mut TargetState,
        job: Job<'_>,
        chosen: &Chosen,
    ) -> (Did, u64) {
        if chosen.ranges.is_empty() {
            return (Did::default(), 0);
        }
        let settings = self.settings.get(job.request.scheme);
        let (did, done) = if settings.is_none_or(|s| s.dry_run) {
            self.pretend(look, state, job, chosen)
        } else {
            match (job.request.action, settings.and_then(|s| s.memory_reclaim.clone())) {
                (Action::Pageout, Some(from)) => self.reclaim(look, state, job, chosen, &from),
                (Action::Pageout, None) => self.advise(look, state, job, chosen, Advice::Pageout),
                (Action::Cold, _) => self.advise(look, state, job, chosen, Advice::Cold),
                (Action::Willneed, _) => self.advise(look, state, job, chosen, Advice::Willneed),
                _ => self.moved(state, job, chosen),
            }
        };
        self.done(state, job, chosen, &did.outcome, done);
        (did, done)
    }

    /// A dry run: counts, and watches what would have been touched again.
    fn pretend(
        &mut self,
        look: &mut dyn Look,
        state: &mut TargetState,
        job: Job<'_>,
        chosen: &Chosen,
    ) -> (Did, u64) {
        let scheme = job.request.scheme;
        let from = self.settings.get(scheme).and_then(|s| s.only_on);
        if let (Some(from), Some(to)) = (from, job.scheme.target_nid) {
            self.levels.pretend(from, to, chosen.bytes);
        }
        if job.request.action != Action::Willneed {
            watch_pretended(look, state, scheme, chosen);
        }
        self.counters(scheme).asked_bytes += chosen.bytes;
        self.pretended_ns += chosen.bytes / BATCH * PRETENDED_NS;
        (chosen.did(pretended(chosen)), chosen.bytes)
    }

    fn moved(&mut self, state: &mut TargetState, job: Job<'_>, chosen: &Chosen) -> (Did, u64) {
        let scheme = job.request.scheme;
        let did = self.migrate(state, job, chosen);
        let done = did.outcome.accepted_bytes;
        let from = self.settings.get(scheme).and_then(|s| s.only_on);
        if let (Some(from), Some(to)) = (from, job.scheme.target_nid) {
            self.note_moved(state, job, chosen, &did, (from, to));
        } else {
            watch(state, scheme, Back::Young, chosen, did.end(), now());
        }
        (did, done)
    }

    /// Remembers the pages that moved between nodes, so that they stay there for a while. Demoted
    /// pages are watched for being touched again. Promoted pages are not, because hot memory is
    /// touched wherever it is.
    fn note_moved(
        &mut self,
        state: &mut TargetState,
        job: Job<'_>,
        chosen: &Chosen,
        did: &Did,
        (from, to): (u32, u32),
    ) {
        let (scheme, at) = (job.request.scheme, now());
        let mut moved = PageSet::default();
        for (start, part) in did.moved.iter().flat_map(|range| granules(*range)) {
            moved.insert(start, Bits::of(start, part));
        }
        // A node that is full may have room again at once.
        let full = did.outcome.refused.iter().any(|refused| refused.errno == libc::ENOMEM);
        for (start, pages) in chosen.before(did.end()) {
            let moved = moved.get(start);
            if job.request.action == Action::MigrateCold {
                state.proof.add(scheme, Back::Young, start, moved, at);
            }
            if !full {
                state.moved.refused(start, pages.minus(moved), at);
            }
        }
        let back = state.moved.moved(&did.moved, from, to, at);
        self.counters(scheme).ping_pong_bytes += back << 12;
    }

    fn advise(
        &mut self,
        look: &mut dyn Look,
        state: &mut TargetState,
        job: Job<'_>,
        chosen: &Chosen,
        advice: Advice,
    ) -> (Did, u64) {
        let mut stop = until(job);
        let outcome = if advice == Advice::Cold {
            let before = state.see_chosen(look, chosen);
            let touched = chosen.before(u64::MAX).map(|(start, pages)| {
                let seen = before.get(&start).copied().unwrap_or_default();
                (start, Seen { young: seen.young.and(pages), ..seen })
            });
            let touched: Vec<_> = touched.collect();
            state.make_old(look, job.request.scheme, &touched, &chosen.ranges, &mut stop)
        } else {
            let batch = if chosen.huge { BATCH.max(GRANULE) } else { BATCH };
            state.process.advise(advice, &chosen.ranges, batch, &mut stop)
        };
        self.note_outcome(job, state, &outcome);
        let did = chosen.did(outcome);
        let (Advice::Pageout | Advice::Cold) = advice else {
            // Memory that was read ahead does not show in page tables, so the kernel's answer has
            // to do.
            let done = did.outcome.accepted_bytes;
            return (did, done);
        };
        let (after, at, mut done) = (state.see_chosen(look, chosen), now(), 0);
        let mut shows = Vec::new();
        for (start, pages) in chosen.before(did.end()) {
            let seen = after.get(&start).copied().unwrap_or_default();
            let pages = pages.minus(refused(&did.outcome, start));
            let shown = if advice == Advice::Pageout {
                pages.minus(seen.present)
            } else {
                pages.and(seen.present).minus(seen.young)
            };
            shows.push((start, shown));
        }
        let back = if advice == Advice::Pageout { Back::Present } else { Back::Young };
        if advice == Advice::Pageout {
            only_paged_out(&state.process, &mut shows);
        }
        for (start, pages) in shows {
            done += pages.count() << 12;
            state.proof.add(job.request.scheme, back, start, pages, at);
        }
        (did, done)
    }

    /// Adds what was done to the account, and reports it as an event.
    pub(in crate::apply) fn done(
        &mut self,
        state: &TargetState,
        job: Job<'_>,
        chosen: &Chosen,
        outcome: &Outcome,
        done: u64,
    ) {
        let (scheme, action, at) = (job.request.scheme, job.request.action, now());
        let most = outcome.asked_bytes.saturating_sub(outcome.refused_bytes);
        let dry_run = self.settings.get(scheme).is_none_or(|s| s.dry_run);
        let done = self.account(scheme).done(done.min(most), dry_run, at);
        if action == Action::Pageout && !dry_run {
            self.ledger.acted(scheme, state.id, outcome.asked_bytes, done);
        }
        if let Some(range) = chosen.span() {
            let pid = state.process.pid();
            let (asked, ns) = (outcome.asked_bytes, outcome.elapsed_ns);
            let scheme = self.name(scheme);
            self.tell(ActEvent::Acted { at, scheme, pid, action, range, asked, done, dry_run, ns });
        }
    }
}

/// The pages of the granule at `start` that the kernel refused; of many ranges only the first are
/// known.
fn refused(outcome: &Outcome, start: u64) -> Bits {
    let ranges = outcome.refused.iter().map(|refused| Bits::of(start, refused.range));
    ranges.fold(Bits::default(), Bits::or)
}

/// Of pages that are no longer mapped, keeps those that were paged out. The others are gone because
/// the process unmapped or dropped them, or has ended.
///
/// Anonymous memory that was paged out has an entry that says so. Memory of files and shared memory
/// has none; it is believed as long as its mapping is there.
fn only_paged_out(process: &Process, gone: &mut [(u64, Bits)]) {
    let mut swapped = PageSet::default();
    let mut note = |run: AddrRange, kind: PageKind| {
        for (start, part) in granules(run).filter(|_| kind.is_swapped()) {
            swapped.insert(start, Bits::of(start, part));
        }
    };
    for (start, _) in gone.iter().filter(|(_, pages)| !pages.is_empty()) {
        let granule = AddrRange::new(*start, start + GRANULE);
        // What cannot be looked at any more has gone with its process.
        process.page_runs(granule, &mut note).ok();
    }
    let of_files = if gone.iter().all(|(start, pages)| pages.minus(swapped.get(*start)).is_empty())
    {
        Vec::new()
    } else {
        file_mappings(process)
    };
    for (start, pages) in gone {
        let whole = AddrRange::new(*start, *start + GRANULE);
        let first = of_files.partition_point(|range| range.end <= whole.start);
        let here = of_files[first..].iter().take_while(|range| range.start < whole.end);
        let of_files = here.fold(Bits::default(), |bits, range| bits.or(Bits::of(*start, *range)));
        *pages = pages.and(swapped.get(*start).or(of_files));
    }
}

/// The mappings of files and of shared memory that a process has now, in address order; none if it
/// has ended.
fn file_mappings(process: &Process) -> Vec<AddrRange> {
    let mut text = Vec::new();
    let read = Proc::default().read(process.pid(), "maps", &mut text);
    if read.is_err() || process.is_gone() {
        return Vec::new();
    }
    parse_maps(&text).filter(|mapping| mapping.inode != 0).map(|mapping| mapping.range).collect()
}

/// Watches the chosen pages before `end` for coming back.
fn watch(state: &mut TargetState, scheme: usize, back: Back, chosen: &Chosen, end: u64, at: Time) {
    for (start, pages) in chosen.before(end) {
        state.proof.add(scheme, back, start, pages, at);
    }
}

/// Watches what a dry run would have acted on.
fn watch_pretended(look: &mut dyn Look, state: &mut TargetState, scheme: usize, chosen: &Chosen) {
    let (seen, at) = (state.see_chosen(look, chosen), now());
    for (start, pages) in chosen.before(u64::MAX) {
        // Pages that are still young were not made old for this action, so their being young does
        // not show a later touch.
        let young = pages.and(seen.get(&start).copied().unwrap_or_default().young);
        state.proof.add(scheme, Back::PretendedYoung, start, young, at);
        state.proof.add(scheme, Back::Pretended, start, pages.minus(young), at);
    }
}

/// The outcome of a dry run.
pub(in crate::apply) fn pretended(chosen: &Chosen) -> Outcome {
    Outcome { asked_bytes: chosen.bytes, accepted_bytes: chosen.bytes, ..Outcome::default() }
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;

    /// Which of these pages, that are no longer mapped, count as paged out.
    fn paged_out(process: &Process, range: AddrRange) -> u64 {
        let mut gone: Vec<_> =
            granules(range).map(|(start, part)| (start, Bits::of(start, part))).collect();
        only_paged_out(process, &mut gone);
        gone.iter().map(|(_, pages)| pages.count() << 12).sum()
    }

    #[test]
    fn what_a_process_dropped_or_took_with_it_was_not_paged_out() {
        let mut child = Command::new("sleep").arg("60").spawn().unwrap();
        // Until it has replaced this program by its own, and mapped that. It has another address
        // space before, and for a moment an empty one.
        let program = format!("/proc/{}/exe", child.id());
        let (process, file) = loop {
            let is_sleep = std::fs::read_link(&program).is_ok_and(|at| at.ends_with("sleep"));
            let process = Process::open(child.id()).unwrap();
            match file_mappings(&process).first() {
                Some(file) if is_sleep => break (process, *file),
                _ => std::thread::yield_now(),
            }
        };
        let none = AddrRange::new(1 << 40, (1 << 40) + 2 * GRANULE);
        assert_eq!(paged_out(&process, none), 0, "nothing is mapped there");
        assert_eq!(paged_out(&process, file), file.len(), "the file is mapped still");
        child.kill().unwrap();
        child.wait().unwrap();
        assert_eq!(paged_out(&process, file), 0, "it has ended");
    }
}
