//! Acting on a whole region without evidence: DAMON's way, and that of the actions that need none.

use isotherm_core::scheme::Action;
use isotherm_core::{AddrRange, Applied};

use crate::apply::evidence::armed::MOST;
use crate::apply::evidence::look::{Look, Seen};
use crate::apply::pages::GRANULE;
use crate::apply::target::{Chosen, TargetState};
use crate::apply::{Actor, Job, all_of};

impl Actor {
    /// Counts the region's bytes; with ops filters, only the bytes that they let in.
    pub(in crate::apply) fn stat(
        &mut self,
        look: &mut dyn Look,
        state: &TargetState,
        job: Job<'_>,
    ) -> Applied {
        let range = job.request.range;
        let mut applied = Applied { asked: range.len(), ..all_of(job.request) };
        if !job.scheme.filters.ops.is_empty() && !job.request.bypass_filters {
            let mut passes = self.page_filter(state, job);
            for (start, seen) in state.see(look, range) {
                let pages = seen.inside(start, range);
                applied.passed += passes.of(&state.process, start, pages, seen).count() << 12;
            }
            self.tell_unknown(state, job, passes);
        }
        applied
    }

    /// Acts on all pages of the region that the filters let in.
    pub(in crate::apply) fn plain(
        &mut self,
        look: &mut dyn Look,
        state: &mut TargetState,
        job: Job<'_>,
    ) -> Applied {
        let mut range = job.request.range;
        // A piece at a time: a region can be larger than what can be looked at in one go.
        range.end = range.end.min((range.start + MOST) / GRANULE * GRANULE);
        let chosen = self.choose(look, state, job, range);
        let (did, done) = self.carry_out(look, state, job, &chosen);
        let acted_to = did.stopped_at.or(chosen.cut_at);
        let covered = acted_to.unwrap_or(range.end).saturating_sub(range.start);
        let skip = if covered == 0 { range.len() } else { 0 };
        let (asked, passed) = (did.outcome.asked_bytes, chosen.bytes);
        let no_room = did.no_room;
        Applied { covered, skip, asked, applied: done, passed, no_room, ns: 0 }
    }

    /// The pages of a region to act on.
    fn choose(
        &mut self,
        look: &mut dyn Look,
        state: &TargetState,
        job: Job<'_>,
        range: AddrRange,
    ) -> Chosen {
        let mut chosen = Chosen::default();
        let mut passes = self.page_filter(state, job);
        if job.request.action == Action::Willneed {
            // The action is about pages that are not in memory: swapped out pages.
            let mut swapped = |run: AddrRange, kind: crate::PageKind| {
                if kind.is_swapped() {
                    for (start, part) in crate::apply::pages::granules(run) {
                        let pages = crate::apply::pages::Bits::of(start, part);
                        let pages = passes.of(&state.process, start, pages, Seen::default());
                        chosen.push(start, pages, false, job.request.max_bytes);
                    }
                }
            };
            // A process that has gone has nothing swapped out.
            state.process.page_runs(range, &mut swapped).ok();
            self.tell_unknown(state, job, passes);
            return chosen;
        }
        let dry = self.settings.get(job.request.scheme).is_none_or(|s| s.dry_run);
        for (start, seen) in self.see(look, state, job.request.scheme, range) {
            let pages = passes.of(&state.process, start, seen.inside(start, range), seen);
            let pages = pages.minus(state.proof.settled(start, job.request.scheme, dry));
            chosen.push(start, pages, seen.huge, job.request.max_bytes);
        }
        self.tell_unknown(state, job, passes);
        chosen
    }
}
