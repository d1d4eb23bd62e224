//! Huge page advice, which only the process itself can give. The process is made to call `madvise`,
//! if the policy allows that.
//!
//! Advice stays with the memory after Isotherm has ended. Given advice is remembered, so that it is
//! not given twice and can be taken back, see `undo`. Memory that the program itself gave that
//! advice about is left alone.

use std::collections::BTreeSet;

use isotherm_core::addr::round_up;
use isotherm_core::scheme::Action;
use isotherm_core::{AddrRange, Applied};

use crate::apply::actions::carry_out::pretended;
use crate::apply::actions::collapse::is_worth_it;
use crate::apply::evidence::armed::MOST;
use crate::apply::evidence::look::Look;
use crate::apply::pages::{Bits, GRANULE};
use crate::apply::target::{Chosen, TargetState};
use crate::apply::{Actor, Job, all_of, later, until};
use crate::{ActError, ActKind, HugePageAdvice, InjectOptions, Injector, Outcome};

impl Actor {
    pub(in crate::apply) fn hint(
        &mut self,
        look: &mut dyn Look,
        state: &mut TargetState,
        job: Job<'_>,
    ) -> Applied {
        let (scheme, action) = (job.request.scheme, job.request.action);
        let Some(settings) = self.settings.get(scheme) else { return all_of(job.request) };
        let (dry_run, evidence, min_touched_bp) =
            (settings.dry_run, settings.evidence, settings.min_touched_bp);
        if !settings.inject {
            let why = "huge page advice needs the process's own hand, and the policy does not allow to \
                       stop it for that\n  hint: `inject = true`, or action `collapse`";
            self.trouble(scheme, 0, why);
            return all_of(job.request);
        }
        let whole = job.request.range;
        // As with collapse, a huge page that begins in the region belongs to it.
        let (first, last) = (round_up(whole.start, GRANULE), round_up(whole.end, GRANULE));
        let range = AddrRange::new(first, last.min(first + MOST));
        let mut chosen = Chosen::default();
        let huge = action == Action::Hugepage;
        let mut opposed = BTreeSet::new();
        let mut passes = self.page_filter(state, job);
        for (start, seen) in state.see(look, range) {
            let wanted = !huge || is_worth_it(seen, evidence, min_touched_bp);
            if wanted
                && state.hinted.get(&start) != Some(&action)
                && !(dry_run && state.pretended.get(&start) == Some(&action))
                && !state.is_advised(start, huge, job.now)
                && !passes.of(&state.process, start, seen.present, seen).is_empty()
            {
                chosen.push(start, Bits::ALL, true, job.request.max_bytes);
                if state.is_advised(start, !huge, job.now) {
                    opposed.insert(start);
                }
            }
        }
        self.tell_unknown(state, job, passes);
        let gives = !dry_run && !chosen.ranges.is_empty();
        if gives && !self.note(state, job, &chosen, &opposed) {
            return later(whole.len());
        }
        let outcome = match (dry_run, chosen.ranges.is_empty()) {
            (_, true) => Outcome::default(),
            (true, _) => pretended(&chosen),
            _ => match self.inject(state, action, &chosen.ranges, &mut until(job)) {
                Ok(outcome) => outcome,
                Err(error) => {
                    self.trouble(scheme, state.process.pid(), &error.to_string());
                    return if error.kind() == ActKind::Busy {
                        later(whole.len())
                    } else {
                        all_of(job.request)
                    };
                }
            },
        };
        if dry_run {
            self.counters(scheme).asked_bytes += chosen.bytes;
        } else {
            self.note_outcome(job, state, &outcome);
        }
        let given = chosen.before(chosen.end_of(outcome.asked_bytes)).map(|(start, _)| start);
        remember(state, action, dry_run, given, &opposed);
        let done = outcome.accepted_bytes;
        self.done(state, job, &chosen, &outcome, done);
        let end = if outcome.is_cut_short() {
            chosen.end_of(outcome.asked_bytes)
        } else {
            chosen.cut_at.unwrap_or(range.end)
        };
        let covered = end.min(whole.end).saturating_sub(whole.start);
        let (asked, skip) = (outcome.asked_bytes, if covered == 0 { whole.len() } else { 0 });
        Applied { covered, skip, asked, applied: done, passed: chosen.bytes, ..Applied::default() }
    }

    pub(super) fn inject(
        &mut self,
        state: &mut TargetState,
        action: Action,
        ranges: &[AddrRange],
        stop: &mut dyn FnMut() -> bool,
    ) -> Result<Outcome, ActError> {
        if state.injector.is_none() {
            state.injector = Some(Injector::new(&state.process, InjectOptions::default())?);
        }
        let advice = match action {
            Action::Hugepage => HugePageAdvice::Huge,
            _ => HugePageAdvice::NoHuge,
        };
        match &state.injector {
            Some(injector) => Ok(injector.madvise(&state.process, advice, ranges, stop)?.outcome),
            None => Ok(Outcome::default()),
        }
    }
}

/// Remembers what was given, or what a dry run pretended.
fn remember(
    state: &mut TargetState,
    action: Action,
    dry_run: bool,
    given: impl Iterator<Item = u64>,
    opposed: &BTreeSet<u64>,
) {
    for start in given {
        // What had the opposite advice gets that again at the end.
        if !dry_run && !state.hinted.contains_key(&start) && opposed.contains(&start) {
            state.opposed.insert(start);
        }
        // Only what was really given may be taken back.
        let given = if dry_run { &mut state.pretended } else { &mut state.hinted };
        given.insert(start, action);
    }
}
