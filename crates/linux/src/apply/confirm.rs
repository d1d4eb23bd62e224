//! Arm, confirm, act: the way of pageout, cold and demotion.
//!
//! The only way to make pages of another process old is `MADV_COLD`, so for the action `cold` arming a young
//! page is half of the action already: it is put on the inactive list. Touched again, it comes back from there.

use isotherm_core::addr::round_up;
use isotherm_core::{AddrRange, Applied};

use super::evidence::{MOST, Next, Rules};
use super::held::{Chosen, Held};
use super::look::Look;
use super::pages::{GRANULE, granules};
use super::{Actor, Job, Settings, later};
use crate::act::{Advice, Outcome};
use crate::clock::now;

/// Young pages with no more than so many others between them are made old by one range: each range costs a
/// flush of the target's TLB.
const GAP: u64 = 16;
/// The share of mistakes that evidence lets pass, in basis points.
const MAX_MISTAKES_BP: u64 = 100;

impl Actor {
    pub(super) fn with_evidence(
        &mut self,
        look: &mut dyn Look,
        held: &mut Held,
        job: Job<'_>,
        confirm_us: u64,
    ) -> Applied {
        let scheme = job.request.scheme;
        let rules = rules(self.settings.get(scheme), confirm_us);
        match held.evidence(scheme).next(job.request.range, MOST, rules, job.now) {
            Next::Wait(range) => later(range.len()),
            Next::Arm(range) => self.arm(look, held, job, range),
            Next::Look(range) => self.look_and_act(look, held, job, range, rules),
        }
    }

    /// Makes the pages of a range old, as much of it as the time allows.
    fn arm(
        &mut self,
        look: &mut dyn Look,
        held: &mut Held,
        job: Job<'_>,
        mut range: AddrRange,
    ) -> Applied {
        let scheme = job.request.scheme;
        let left_ns = self.arming.left(job.now).min(job.request.max_ns);
        let bytes = (left_ns / self.arm_ns_per_mib.max(1)) << 20;
        if bytes == 0 {
            return later(job.request.range.len());
        }
        range.end = range.end.min(range.start + bytes.max(GRANULE));
        let begin = now();
        let mut young = Vec::new();
        for (start, seen) in self.see(look, held, scheme, range) {
            seen.inside(start, range).and(seen.young).append_to(start, GAP, &mut young);
        }
        let batch = Advice::Cold.default_batch_bytes();
        let outcome = held.process.advise(Advice::Cold, &young, batch, &mut || false);
        self.note_arming(job, held, &outcome);
        // What could not be made old is seen as young now, and never becomes evidence.
        let (seen, at) = (self.see(look, held, scheme, range), now());
        for (start, part) in granules(range) {
            let seen = seen.get(&start).copied().unwrap_or_default();
            held.evidence(scheme).arm(start, part, seen, at);
        }
        let ns = now().since(begin);
        self.arming.spend(ns);
        // Holes take no time; a rate learned from them would promise too much.
        if let Some(rate) = ns.checked_div(outcome.asked_bytes >> 20) {
            self.arm_ns_per_mib = (self.arm_ns_per_mib * 3 + rate) / 4;
        }
        later(range.len())
    }

    fn note_arming(&mut self, job: Job<'_>, held: &Held, outcome: &Outcome) {
        let account = self.account(job.request.scheme);
        account.armed_bytes += outcome.accepted_bytes;
        account.action_cpu_ns += outcome.cpu_ns;
        if outcome.denied {
            let why = "the right to look at it closely was lost (permission denied)";
            self.trouble(job.request.scheme, held.process.pid(), why);
        }
    }

    /// Looks at a range that was armed long enough ago, and acts on what is proven idle.
    fn look_and_act(
        &mut self,
        look: &mut dyn Look,
        held: &mut Held,
        job: Job<'_>,
        range: AddrRange,
        rules: Rules,
    ) -> Applied {
        let scheme = job.request.scheme;
        let dry = self.settings.get(scheme).is_none_or(|s| s.dry_run);
        let (mut chosen, mut undecided) = (Chosen::default(), None);
        let mut passes = self.page_filter(held, job);
        for (start, seen) in self.see(look, held, scheme, range) {
            let Some((_, part)) =
                granules(AddrRange::new(start.max(range.start), range.end)).next()
            else {
                continue;
            };
            match held.evidence(scheme).confirm(start, part, seen, rules, job.now) {
                None => {
                    undecided.get_or_insert(part.start);
                }
                Some(idle) => {
                    let idle = passes.of(&held.process, start, idle, seen);
                    let idle = idle.minus(held.proof.settled(start, scheme, dry));
                    chosen.push(start, idle, seen.huge, job.request.max_bytes);
                }
            }
        }
        self.tell_unknown(held, job, passes);
        let (did, done) = self.carry_out(look, held, job, &chosen);
        let acted_to = did.stopped_at.or(chosen.cut_at);
        // What was acted on is settled even behind a part that is not.
        let evidence = held.evidence(scheme);
        for (start, _) in chosen.before(acted_to.unwrap_or(u64::MAX)) {
            let end = (start + GRANULE).min(acted_to.unwrap_or(u64::MAX)).min(range.end);
            evidence.forget(AddrRange::new(start.max(range.start), end));
        }
        let settled = undecided.unwrap_or(range.end).min(acted_to.unwrap_or(range.end));
        evidence.forget(AddrRange::new(range.start, settled));
        let covered = round_up(settled.saturating_sub(range.start), 4096);
        Applied {
            covered,
            skip: if covered == 0 { range.len() } else { 0 },
            asked: did.outcome.asked_bytes,
            applied: done,
            passed: chosen.bytes,
            ns: 0,
        }
    }
}

/// What evidence a scheme asks for.
pub(super) fn rules(settings: Option<&Settings>, confirm_us: u64) -> Rules {
    let window_us = settings.map_or(0, |s| s.refault_window_us);
    Rules {
        confirm_ns: confirm_us.saturating_mul(1000),
        window_ns: window_us.saturating_mul(1000),
        max_mistakes_bp: MAX_MISTAKES_BP,
    }
}
