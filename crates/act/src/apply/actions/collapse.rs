//! Makes huge pages of memory in use. A huge page is made only where enough of its 512 pages are
//! touched, so that it brings in little memory that is not used.

use isotherm_core::addr::round_up;
use isotherm_core::scheme::Action;
use isotherm_core::{AddrRange, Applied};

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
        for (start, seen) in state.see(look, range) {
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

/// Whether a huge page would be used by enough of its pages.
pub(in crate::apply) fn is_worth_it(seen: Seen, evidence: Evidence, min_touched_bp: u32) -> bool {
    if seen.huge || seen.present.is_empty() {
        return false;
    }
    let touched_bp = seen.present.and(seen.young).count() * 10_000 / 512;
    evidence == Evidence::Off || touched_bp >= u64::from(min_touched_bp)
}

#[cfg(test)]
mod tests {
    use super::*;

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
