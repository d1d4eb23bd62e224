//! Evidence about frames: they are marked idle, TLB entries are dropped, and after a wait the marks
//! are read.
//!
//! Only memory that can be acted on is marked: the first frames of folios that some process maps.
//! To set a mark the kernel walks the page tables of all processes that map the frame, which takes
//! CPU time. So a budget bounds the marking. What flags say of a MiB costs a fraction of that, so
//! both have an estimate of their own: otherwise free memory would be gone over as slowly as if all
//! of it were marked. A *hand* goes round memory: memory that was marked in the last round is
//! looked at first, and marking goes on where it stopped. Without the hand,
//! memory at low addresses would be marked again and again, and memory at higher addresses never.
//! Evidence that is gathered faster than it can be looked at would also grow stale.

use std::collections::BTreeMap;
use std::ops::Range;

use isotherm_core::addr::PAGE_SIZE;
use isotherm_core::{AddrRange, Applied};
use isotherm_pages::frames::Which;
use isotherm_pages::idle::Folios;
use isotherm_sys::clock::now;

use super::view::{Seg, flags_view, granules_of};
use super::{Physical, opened, said};
use crate::apply::evidence::armed::Evidence;
use crate::apply::pages::{GRANULE, granules};
use crate::apply::{Actor, Job, later};

/// Where marking goes on, for one scheme.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Hand {
    /// All memory before this address had its turn in this round.
    at: u64,
    /// Where the last request began. A request at a lower address begins a new pass.
    last: u64,
    /// Whether something was left for want of time since the pass began.
    left: bool,
}

impl Hand {
    /// Takes in a request. A pass that left nothing ends a round.
    pub(super) const fn pass(&mut self, start: u64) {
        if start <= self.last {
            if !self.left {
                self.at = 0;
            }
            self.left = false;
        }
        self.last = start;
    }

    /// The part of a range whose turn it is.
    pub(super) fn turn(&self, range: AddrRange) -> Option<AddrRange> {
        let part = AddrRange::new(range.start.max(self.at).min(range.end), range.end);
        (!part.is_empty()).then_some(part)
    }

    /// Records that all memory before `end` had its turn.
    const fn done(&mut self, end: u64) {
        self.at = end;
    }
}

impl Actor {
    /// Marks what can be acted on in a range, as much as the time allows.
    pub(super) fn mark(
        &mut self,
        marks: &mut Folios,
        physical: &mut Physical,
        job: Job<'_>,
        range: AddrRange,
    ) -> Result<Applied, String> {
        let scheme = job.request.scheme;
        let hand = physical.hand(scheme);
        let Some(mut part) = hand.turn(range) else { return Ok(later(range.len())) };
        if part.start > range.start {
            // The rest comes as a request of its own.
            return Ok(later(part.start - range.start));
        }
        let left_ns = physical.marking.left(job.now);
        let per_mib = physical.look_ns_per_mib.max(1);
        if left_ns < per_mib {
            physical.hand(scheme).left = true;
            return Ok(later(range.len()));
        }
        let most = part.start.saturating_add((left_ns / per_mib).max(1) << 20);
        part.end = part.end.min((most / GRANULE * GRANULE).max(part.start + PAGE_SIZE));
        let begin = now();
        if physical.is_wanted_by_others(scheme) {
            // Another scheme may have marked this memory, and it may have been touched since.
            // Marking it again would hide that touch, so the other scheme's evidence is told first.
            let young = granules_of(&physical.see(marks, part)?);
            physical.others(scheme, |evidence| touched(evidence, &young));
        }
        let flags = opened(&mut physical.flags, Which::Flags)?;
        let view = |e| said("read flags of frames", &e);
        let mut folios = flags_view(flags, frames_of(part)).map_err(view)?;
        let looked = now();
        let look_ns = looked.since(begin);
        learn(&mut physical.look_ns_per_mib, look_ns, part.len());
        let most = (left_ns.saturating_sub(look_ns) / physical.mark_ns_per_mib.max(1)) << 20;
        if let Some(end) = marks_end(&folios, part.start, most).filter(|end| *end < part.end) {
            part.end = end;
            folios.retain(|folio| folio.head * PAGE_SIZE < end);
        }
        let heads: Vec<&Seg> = folios.iter().filter(|f| f.is_reachable()).collect();
        let mut seen = BTreeMap::new();
        if !heads.is_empty() {
            let bitmap = marks.bitmap();
            bitmap.mark(&heads, |f| f.head).map_err(|e| said("mark frames idle", &e))?;
            // What did not take the mark is seen as young now, and never becomes evidence.
            let marked = flags_view(flags, frames_of(part)).map_err(view)?;
            seen.extend(granules_of(&marked));
        }
        let (at, evidence) = (now(), physical.evidence(scheme));
        let mut armed = 0;
        for (start, part) in granules(part) {
            let seen = seen.get(&start).copied().unwrap_or_default();
            armed += seen.present.minus(seen.young).count() * PAGE_SIZE;
            evidence.arm(start, part, seen, at);
            evidence.hold(start);
        }
        self.unflushed |= armed > 0;
        physical.hand(scheme).done(part.end);
        physical.hand(scheme).left |= part.end < range.end;
        physical.marking.spend(at.since(begin));
        learn(&mut physical.mark_ns_per_mib, at.since(looked), armed);
        let unmapped: u64 = folios
            .iter()
            .filter(|f| f.is_movable() && !f.is_reachable())
            .map(|f| f.len * PAGE_SIZE)
            .sum();
        self.counters(scheme).armed_bytes += armed;
        self.counters(scheme).waited_bytes += armed;
        self.note_unmapped(job, unmapped);
        Ok(later(part.len()))
    }
}

/// The frames of a range of addresses.
const fn frames_of(range: AddrRange) -> Range<u64> {
    range.start / PAGE_SIZE..range.end / PAGE_SIZE
}

/// Where to end so that no more than `most` bytes are marked from `start` on: at a granule, and
/// behind the first. None if that is not more.
fn marks_end(folios: &[Seg], start: u64, most: u64) -> Option<u64> {
    let mut sum = 0;
    let over = folios.iter().filter(|folio| folio.is_reachable()).find(|folio| {
        sum += folio.len * PAGE_SIZE;
        sum > most
    })?;
    let granule = over.head * PAGE_SIZE / GRANULE * GRANULE;
    Some(granule.max(start / GRANULE * GRANULE + GRANULE))
}

/// The estimate of what a MiB takes follows the measured cost slowly.
fn learn(ns_per_mib: &mut u64, took_ns: u64, bytes: u64) {
    if let Some(per_mib) = took_ns.checked_div(bytes >> 20) {
        *ns_per_mib = (*ns_per_mib * 3 + per_mib) / 4;
    }
}

/// Tells evidence what is young, before that is lost.
fn touched(evidence: &mut Evidence, seen: &[(u64, crate::apply::evidence::look::Seen)]) {
    for (start, seen) in seen {
        let mut ranges = Vec::new();
        seen.young.append_to(*start, 0, &mut ranges);
        for range in ranges {
            evidence.touched(range.start, range.len());
        }
    }
}

#[cfg(test)]
mod tests {
    use isotherm_pages::frames::Flags;

    use super::*;

    #[test]
    fn what_the_time_allows_to_mark_ends_at_a_granule_behind_the_first() {
        let mapped = Flags(Flags::LRU.0 | Flags::MMAP.0 | Flags::ANON.0);
        let pages = |granule: u64, nr: u64, flags| {
            let first = granule * GRANULE / PAGE_SIZE;
            (0..nr).map(move |nr| Seg { head: first + nr, len: 1, flags, idle: false })
        };
        // Free memory, 16 mapped pages, 512, and 4.
        let parts = [(0, 512, Flags(0)), (1, 16, mapped), (2, 512, mapped), (4, 4, mapped)];
        let folios: Vec<Seg> =
            parts.into_iter().flat_map(|(at, nr, flags)| pages(at, nr, flags)).collect();
        for (nr_pages, end) in
            [(0, Some(1)), (15, Some(1)), (16, Some(2)), (528, Some(4)), (532, None), (999, None)]
        {
            let told = marks_end(&folios, 0, nr_pages * PAGE_SIZE);
            assert_eq!(told, end.map(|nr: u64| nr * GRANULE), "{nr_pages} pages");
        }
        // Always some of it.
        assert_eq!(marks_end(&folios[512..], GRANULE, 0), Some(2 * GRANULE));
    }

    #[test]
    fn a_hand_goes_round_memory_and_passes_over_what_had_its_turn() {
        let range = |a, b| AddrRange::new(a * GRANULE, b * GRANULE);
        let mut hand = Hand::default();
        hand.pass(0);
        assert_eq!(hand.turn(range(0, 8)), Some(range(0, 8)));
        hand.done(3 * GRANULE);
        hand.left = true;
        hand.pass(0);
        assert_eq!(hand.turn(range(0, 8)), Some(range(3, 8)), "goes on where it stopped");
        assert_eq!(hand.turn(range(0, 2)), None);
        hand.pass(5 * GRANULE);
        hand.done(8 * GRANULE);
        hand.pass(0);
        assert_eq!(hand.turn(range(0, 8)), Some(range(0, 8)), "nothing was left: a new round");
    }
}
