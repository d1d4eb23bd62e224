//! Makes huge pages of memory in use. A huge page is made only where enough of its 512 pages are
//! touched, so that it brings in little memory that is not used.
//!
//! In a region that matches, pages count that were touched since they were made old, whenever that
//! was. In one that is touched less often (`Request::by_use`), units count that the monitor made
//! old a short time ago: a program that accesses a table at random touches few pages in a sample,
//! and most of each unit within some seconds.

use std::collections::BTreeMap;

use isotherm_core::addr::round_up;
use isotherm_core::scheme::{Action, Counters};
use isotherm_core::{AddrRange, Applied, Time};

use crate::Advice;
use crate::apply::actions::carry_out::pretended;
use crate::apply::evidence::armed::MOST;
use crate::apply::evidence::look::{Look, Seen};
use crate::apply::pages::{Bits, GRANULE};
use crate::apply::target::{Chosen, TargetState};
use crate::apply::{Actor, Evidence, Job, all_of, until};

/// CPU time that a dry run takes a huge page to cost, in ns.
const PRETENDED_NS: u64 = 1_000_000;

impl Actor {
    pub(in crate::apply) fn collapse(
        &mut self,
        look: &mut dyn Look,
        state: &mut TargetState,
        job: Job<'_>,
    ) -> Applied {
        let scheme = job.request.scheme;
        let whole = job.request.range;
        // Regions end anywhere. A huge page that begins in this region belongs to it, up to the end
        // of the huge page.
        let (first, last) = (round_up(whole.start, GRANULE), round_up(whole.end, GRANULE));
        let mut range = AddrRange::new(first, last.min(first + MOST));
        if range.is_empty() {
            return all_of(job.request);
        }
        let Some(settings) = self.settings.get(scheme) else { return all_of(job.request) };
        let (dry_run, evidence, min_touched_bp) =
            (settings.dry_run, settings.evidence, settings.min_touched_bp);
        let (prove, pid) = (settings.prove, state.process.pid());
        let mut passes = self.page_filter(state, job);
        let mut chosen = Chosen::default();
        let all = see(look, state, job, range, prove);
        let densest = state.densest.entry(scheme).or_default();
        densest.note_all(&all, min_touched_bp, self.counters(scheme));
        for (start, seen) in all {
            let wanted = is_worth_it(seen, evidence, min_touched_bp)
                && !state.refused_collapse(start, job.now)
                && !(dry_run && state.pretended.get(&start) == Some(&Action::Collapse))
                && state.proof.settled(start, scheme, dry_run).is_empty()
                && !passes.of(&state.process, start, seen.present, seen).is_empty();
            if wanted && (!prove || state.proving.may_collapse(scheme, pid, start, job.now)) {
                chosen.push(start, Bits::ALL, true, job.request.max_bytes);
            }
        }
        self.tell_unknown(state, job, passes);
        let outcome = if dry_run {
            self.counters(scheme).asked_bytes += chosen.bytes;
            for (start, _) in chosen.before(u64::MAX) {
                state.pretended.insert(start, Action::Collapse);
                state.proving.made(scheme, start, PRETENDED_NS, job.now, true);
            }
            pretended(&chosen)
        } else {
            let mut stop = until(job);
            let outcome =
                state.process.advise(Advice::Collapse, &chosen.ranges, GRANULE, &mut stop);
            self.note_outcome(job, state, &outcome);
            outcome
        };
        let asked_to = chosen.end_of(outcome.asked_bytes);
        let done = if dry_run {
            chosen.bytes
        } else {
            let after = chosen.span().map(|span| state.see(look, span)).unwrap_or_default();
            let mut done = 0;
            let cpu_ns = outcome.cpu_ns * GRANULE / outcome.asked_bytes.max(GRANULE);
            for (start, _) in chosen.before(asked_to) {
                if after.get(&start).is_some_and(|seen| seen.huge) {
                    done += GRANULE;
                    state.proving.made(scheme, start, cpu_ns, job.now, false);
                } else {
                    state.note_refused_collapse(start, job.now);
                }
            }
            done
        };
        self.done(state, job, &chosen, &outcome, done);
        if outcome.is_cut_short() {
            range.end = asked_to;
        } else if let Some(cut_at) = chosen.cut_at {
            range.end = cut_at;
        }
        let covered = range.end.min(whole.end).saturating_sub(whole.start);
        let (asked, skip) = (outcome.asked_bytes, if covered == 0 { whole.len() } else { 0 });
        Applied { covered, skip, asked, applied: done, passed: chosen.bytes, ..Applied::default() }
    }
}

/// What is seen in the granules of `range` that can be decided about.
fn see(
    look: &mut dyn Look,
    state: &TargetState,
    job: Job<'_>,
    range: AddrRange,
    prove: bool,
) -> BTreeMap<u64, Seen> {
    if !job.request.by_use {
        return state.see(look, range);
    }
    let within_ns = WITHIN_NS[usize::from(prove)];
    state.see_fresh(look, range, Time(job.now.0.saturating_sub(within_ns)))
}

/// Within which time the pages of a unit have to be touched, in ns, in a region that is touched
/// less often than the scheme asks for: if huge pages need not pay, and if they have to. A trial
/// finds out by itself how fast the program touches them, so it is enough that the unit is used.
const WITHIN_NS: [u64; 2] = [1_000_000_000, 10_000_000_000];

/// The most units of which a scheme remembers what was seen, per target: 128 GiB of them.
const MOST_NOTED: usize = 1 << 16;

/// What looks at units have found, for the account of a scheme.
#[derive(Debug, Default)]
pub(in crate::apply) struct Densest {
    /// By start: the largest share of its pages that was touched, in basis points. That of a huge
    /// page is none.
    units: BTreeMap<u64, Option<u64>>,
}

impl Densest {
    /// Counts a look at these units, by start.
    fn note_all(&mut self, all: &BTreeMap<u64, Seen>, least_bp: u32, counters: &mut Counters) {
        all.iter().for_each(|(start, seen)| self.note(*start, *seen, least_bp.into(), counters));
    }

    /// Counts a look at a unit. `least_bp`: the share from which on it is dense.
    fn note(&mut self, start: u64, seen: Seen, least_bp: u64, counters: &mut Counters) {
        if seen.present.is_empty() || self.units.len() >= MOST_NOTED {
            return;
        }
        let touched_bp = (!seen.huge).then(|| touched_bp(seen));
        let before = self.units.insert(start, touched_bp);
        let most = touched_bp.max(before.flatten());
        self.units.insert(start, most);
        let is_dense = |bp: Option<u64>| bp.is_some_and(|bp| bp >= least_bp);
        counters.looked_bytes += if before.is_none() { GRANULE } else { 0 };
        counters.huge_bytes += if before.is_none() && seen.huge { GRANULE } else { 0 };
        counters.dense_bytes +=
            if is_dense(most) && !is_dense(before.flatten()) { GRANULE } else { 0 };
        counters.most_touched_bp = counters.most_touched_bp.max(touched_bp.unwrap_or(0));
    }
}

/// The share of a unit's pages that were touched, in basis points.
fn touched_bp(seen: Seen) -> u64 {
    seen.present.and(seen.young).count() * 10_000 / 512
}

/// Whether a huge page would be used by enough of its pages.
pub(in crate::apply) fn is_worth_it(seen: Seen, evidence: Evidence, min_touched_bp: u32) -> bool {
    if seen.huge || seen.present.is_empty() {
        return false;
    }
    evidence == Evidence::Off || touched_bp(seen) >= u64::from(min_touched_bp)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_unit_is_counted_once_by_its_best_look() {
        let half = Bits([u64::MAX, u64::MAX, u64::MAX, u64::MAX, 0, 0, 0, 0]);
        let of = |young, huge| Seen { present: Bits::ALL, young, huge };
        let (mut densest, mut counters) = (Densest::default(), Counters::default());
        for (start, seen) in [
            (0, of(Bits::page(1), false)),
            (0, of(half, false)),
            (0, of(Bits::default(), false)),
            (GRANULE, of(half, true)),
            (2 * GRANULE, of(Bits::page(1), false)),
            (3 * GRANULE, Seen::default()),
            (0, of(half, false)),
        ] {
            densest.note(start, seen, 5_000, &mut counters);
        }
        let Counters { looked_bytes, dense_bytes, huge_bytes, most_touched_bp, .. } = counters;
        assert_eq!([looked_bytes, dense_bytes, huge_bytes].map(|b| b / GRANULE), [3, 1, 1]);
        assert_eq!(most_touched_bp, 5_000);
    }

    #[test]
    fn enough_of_the_pages_must_be_touched() {
        let half = Bits([u64::MAX, u64::MAX, u64::MAX, u64::MAX, 0, 0, 0, 0]);
        let of = |present, young, huge| Seen { present, young, huge };
        let confirm = Evidence::Confirm(1);
        for (name, seen, evidence, expected) in [
            ("all touched", of(Bits::ALL, Bits::ALL, false), confirm, true),
            ("huge already", of(Bits::ALL, Bits::ALL, true), confirm, false),
            ("half touched, half asked for", of(Bits::ALL, half, false), confirm, true),
            ("none touched", of(Bits::ALL, Bits::default(), false), confirm, false),
            (
                "none touched, no evidence wanted",
                of(half, Bits::default(), false),
                Evidence::Off,
                true,
            ),
            ("nothing there", Seen::default(), Evidence::Off, false),
        ] {
            assert_eq!(is_worth_it(seen, evidence, 5_000), expected, "{name}");
        }
    }
}
