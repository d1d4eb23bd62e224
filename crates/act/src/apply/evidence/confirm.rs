//! Arm, confirm, act: the way of pageout, cold and demotion.
//!
//! `MADV_COLD` is the only way to make pages of another process old by address, and it also puts
//! young pages on the inactive list. So for the action `cold`, arming a young page is half of the
//! action already. A page that is touched again comes back from that list. Marks of idle page
//! frames (operations set `idle`) move nothing, but TLB entries have to be dropped before the wait
//! begins.

use std::collections::BTreeMap;

use isotherm_core::addr::round_up;
use isotherm_core::{AddrRange, Applied};
use isotherm_sys::clock::now;

use crate::Outcome;
use crate::apply::evidence::armed::{MOST, Next, Rules};
use crate::apply::evidence::look::{Look, Seen};
use crate::apply::pages::{Bits, GRANULE, granules};
use crate::apply::target::{Chosen, TargetState};
use crate::apply::{Actor, Job, PASS_NS, Settings, later};

/// Young pages with no more than this many other pages between them are made old by one range. Each
/// range costs a flush of the target's TLB.
const GAP: u64 = 16;
/// The share of mistakes that evidence lets pass, in basis points.
const MAX_MISTAKES_BP: u64 = 100;

impl Actor {
    pub(in crate::apply) fn with_evidence(
        &mut self,
        look: &mut dyn Look,
        state: &mut TargetState,
        job: Job<'_>,
        confirm_us: u64,
    ) -> Applied {
        let scheme = job.request.scheme;
        let rules = rules(self.settings.get(scheme), confirm_us);
        if let Some(idle_us) = job.request.idle_us {
            let confirm_ns = rules.confirm_ns.max(idle_us.saturating_mul(1000));
            return self.with_monitored_evidence(look, state, job, Rules { confirm_ns, ..rules });
        }
        let mut next = state.evidence(scheme).next(job.request.range, MOST, rules, job.now);
        if let Next::Arm(range) = next
            && let Some(pages) = state.adopt(scheme, range, rules, job.now)
        {
            self.note_adopted(scheme, pages);
            next = state.evidence(scheme).next(job.request.range, MOST, rules, job.now);
        }
        match next {
            Next::Wait(range) => later(range.len()),
            Next::Arm(range) => self.arm(look, state, job, range),
            Next::Look(range) => self.look_and_act(look, state, job, range, rules),
        }
    }

    /// Acts on the pages of a region that is in use. The monitor makes its pages old anyway, so
    /// this only waits for those that stay so.
    fn with_monitored_evidence(
        &mut self,
        look: &mut dyn Look,
        state: &mut TargetState,
        job: Job<'_>,
        rules: Rules,
    ) -> Applied {
        let (scheme, range) = (job.request.scheme, job.request.range);
        let adopted = state.adopt_in_use(scheme, range, rules, job.now);
        self.note_adopted(scheme, adopted);
        match state.evidence(scheme).next(range, MOST, rules, job.now) {
            Next::Wait(range) | Next::Arm(range) => later(range.len()),
            Next::Look(range) => self.look_and_act(look, state, job, range, rules),
        }
    }

    /// Makes the pages of a range old, as much of it as the time allows.
    fn arm(
        &mut self,
        look: &mut dyn Look,
        state: &mut TargetState,
        job: Job<'_>,
        mut range: AddrRange,
    ) -> Applied {
        let scheme = job.request.scheme;
        let by_marks = look.marks();
        let (left_ns, ns_per_mib) = if by_marks {
            let left_ns = self.marking.left(job.now).min(PASS_NS.saturating_sub(self.pass_ns));
            (left_ns, self.mark_ns_per_mib)
        } else {
            (self.arming.left(job.now).min(job.request.max_ns), self.arm_ns_per_mib)
        };
        let bytes = armable(left_ns, ns_per_mib);
        if by_marks && bytes == 0 {
            // What is armed behind it can be looked at.
            return later(range.len());
        }
        if bytes == 0 {
            return later(job.request.range.len());
        }
        range.end = range.end.min(range.start + bytes);
        let begin = now();
        let asked = match self.arm_by_marks(look, state, scheme, range) {
            Some(asked) => asked,
            None => self.arm_by_advice(look, state, job, range),
        };
        let ns = now().since(begin);
        let (budget, ns_per_mib) = if by_marks {
            self.evidence_ns += ns;
            (&mut self.marking, &mut self.mark_ns_per_mib)
        } else {
            (&mut self.arming, &mut self.arm_ns_per_mib)
        };
        budget.spend(ns);
        // Holes take no time; a rate learned from them would promise too much.
        if let Some(rate) = ns.checked_div(asked >> 20) {
            *ns_per_mib = (*ns_per_mib * 3 + rate) / 4;
        }
        later(range.len())
    }

    /// Makes the young pages of a range old by advice, which flushes. Returns the bytes asked for.
    fn arm_by_advice(
        &mut self,
        look: &mut dyn Look,
        state: &mut TargetState,
        job: Job<'_>,
        range: AddrRange,
    ) -> u64 {
        let scheme = job.request.scheme;
        let (mut young, mut touched) = (Vec::new(), Vec::new());
        for (start, seen) in self.see(look, state, scheme, range) {
            let pages = seen.inside(start, range).and(seen.young);
            pages.append_to(start, GAP, &mut young);
            touched.push((start, Seen { young: pages, ..seen }));
        }
        let outcome = state.make_old(look, scheme, &touched, &young, &mut || false);
        self.note_arming(job, state, &outcome);
        // Pages that could not be made old are seen as young now, and never become evidence.
        let (seen, at) = (self.see(look, state, scheme, range), now());
        let mut waited = 0;
        for (start, part) in granules(range) {
            let seen = seen.get(&start).copied().unwrap_or_default();
            waited +=
                state.note_quiet(scheme, start, |evidence| evidence.arm(start, part, seen, at));
        }
        self.counters(scheme).waited_bytes += waited << 12;
        outcome.asked_bytes
    }

    /// Marks the pages of a range, if the set looks by marks. Returns the bytes marked.
    fn arm_by_marks(
        &mut self,
        look: &mut dyn Look,
        state: &mut TargetState,
        scheme: usize,
        range: AddrRange,
    ) -> Option<u64> {
        let mut seen = BTreeMap::new();
        let marked = state.mark_old(look, scheme, range, &mut |start, found| {
            seen.insert(start, found);
        })?;
        if marked.is_err() {
            // It has gone; nothing is known of what is left.
            seen.clear();
        }
        let (at, mut bytes, mut waited) = (now(), 0, 0);
        let there = self.settings.get(scheme).is_some_and(|s| s.only_on.is_some());
        let there = there.then(|| self.see(look, state, scheme, range));
        for (start, part) in granules(range) {
            let mut seen = seen.get(&start).copied().unwrap_or_default();
            if let Some(there) = &there {
                seen.present = there.get(&start).copied().unwrap_or_default().present;
            }
            bytes += seen.inside(start, part).minus(seen.young).count() << 12;
            waited += state.note_quiet(scheme, start, |evidence| {
                evidence.arm(start, part, seen, at);
                evidence.hold(start);
            });
        }
        self.unflushed |= bytes > 0;
        self.counters(scheme).waited_bytes += waited << 12;
        self.counters(scheme).armed_bytes += bytes;
        Some(bytes)
    }

    /// Counts the proven pages (of each granule all of them, and those that pass the filters) that
    /// are not waited for any more. The others will be proven once more.
    fn note_confirmed(&mut self, scheme: usize, proven: &[(u64, Bits, Bits)], over: &[AddrRange]) {
        let (mut confirmed, mut filtered) = (0, 0);
        for (start, all, idle) in proven {
            let over = over.iter().map(|range| Bits::of(*start, *range));
            let over = over.fold(Bits::default(), Bits::or);
            confirmed += all.and(over).count();
            filtered += all.minus(*idle).and(over).count();
        }
        let counters = self.counters(scheme);
        counters.confirmed_bytes += confirmed << 12;
        counters.filtered_bytes += filtered << 12;
    }

    /// Counts pages that were taken over from the monitor.
    fn note_adopted(&mut self, scheme: usize, pages: u64) {
        let counters = self.counters(scheme);
        counters.adopted_bytes += pages << 12;
        counters.waited_bytes += pages << 12;
    }

    fn note_arming(&mut self, job: Job<'_>, state: &TargetState, outcome: &Outcome) {
        let counters = self.counters(job.request.scheme);
        counters.armed_bytes += outcome.accepted_bytes;
        counters.action_cpu_ns += outcome.cpu_ns;
        if outcome.denied {
            let why = "the right to look at it closely was lost (permission denied)";
            self.trouble(job.request.scheme, state.process.pid(), why);
        }
    }

    /// Looks at a range that was armed long enough ago, and acts on the pages that are proven idle.
    fn look_and_act(
        &mut self,
        look: &mut dyn Look,
        state: &mut TargetState,
        job: Job<'_>,
        range: AddrRange,
        rules: Rules,
    ) -> Applied {
        let scheme = job.request.scheme;
        let dry = self.settings.get(scheme).is_none_or(|s| s.dry_run);
        let (mut chosen, mut undecided) = (Chosen::default(), None);
        let mut proven = Vec::new();
        let mut passes = self.page_filter(state, job);
        for (start, seen) in self.see(look, state, scheme, range) {
            let Some((_, part)) =
                granules(AddrRange::new(start.max(range.start), range.end)).next()
            else {
                continue;
            };
            match state.evidence(scheme).confirm(start, part, seen, rules, job.now) {
                None => {
                    undecided.get_or_insert(part.start);
                }
                // Nothing behind the limit is taken now. That part will be looked at again.
                Some(_) if chosen.cut_at.is_some() => {}
                Some(all) => {
                    let idle = passes.of(&state.process, start, all, seen);
                    proven.push((start, all, idle));
                    let idle = idle.minus(state.proof.settled(start, scheme, dry));
                    chosen.push(start, idle, seen.huge, job.request.max_bytes);
                }
            }
        }
        self.tell_unknown(state, job, passes);
        if state.evidence(scheme).is_blinded() {
            let why = "others on this machine (reclaim, the kernel's DAMON, another monitor) clear most accessed bits \
                       before they can be seen, so nothing is known to be idle: no action is taken meanwhile";
            self.trouble(scheme, state.process.pid(), why);
        }
        let refuted = state.evidence(scheme).take_refuted();
        let counters = self.counters(scheme);
        counters.refuted_bytes += refuted << 12;
        let job = if look.marks() {
            let (begin, now) = (job.now, now());
            self.marking.spend(now.since(begin));
            self.evidence_ns += now.since(begin);
            Job { now, ..job }
        } else {
            job
        };
        let (did, done) = self.carry_out(look, state, job, &chosen);
        let acted_to = did.stopped_at.or(chosen.cut_at);
        // Pages that were acted on are settled, even behind a part that is not.
        let mut over = Vec::new();
        for (start, pages) in chosen.before(acted_to.unwrap_or(u64::MAX)) {
            state.monitored.acted_on(start, pages);
            let end = (start + GRANULE).min(acted_to.unwrap_or(u64::MAX)).min(range.end);
            over.push(AddrRange::new(start.max(range.start), end));
        }
        let settled = undecided.unwrap_or(range.end).min(acted_to.unwrap_or(range.end));
        over.push(AddrRange::new(range.start, settled));
        over.iter().for_each(|range| state.evidence(scheme).forget(*range));
        self.note_confirmed(scheme, &proven, &over);
        let covered = round_up(settled.saturating_sub(range.start), 4096);
        Applied {
            covered,
            skip: if covered == 0 { range.len() } else { 0 },
            asked: did.outcome.asked_bytes,
            applied: done,
            passed: chosen.bytes,
            no_room: did.no_room,
            ns: 0,
        }
    }
}

/// How many bytes are made old in this time. While any time is left it is at least one granule,
/// however long one took before: a rate that was measured while the machine was busy is only
/// corrected by trying again. Time used beyond the budget is owed.
const fn armable(left_ns: u64, ns_per_mib: u64) -> u64 {
    if left_ns == 0 {
        return 0;
    }
    let rate = if ns_per_mib == 0 { 1 } else { ns_per_mib };
    let bytes = (left_ns / rate).saturating_mul(1 << 20);
    if bytes < GRANULE { GRANULE } else { bytes }
}

/// What evidence a scheme asks for.
pub(in crate::apply) fn rules(settings: Option<&Settings>, confirm_us: u64) -> Rules {
    let window_us = settings.map_or(0, |s| s.refault_window_us);
    Rules {
        confirm_ns: confirm_us.saturating_mul(1000),
        window_ns: window_us.saturating_mul(1000),
        max_mistakes_bp: MAX_MISTAKES_BP,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rate_from_a_busy_moment_does_not_end_arming() {
        let ms = 1_000_000;
        for (name, left_ns, ns_per_mib, bytes) in [
            ("nothing is left", 0, 100_000, 0),
            ("250 MiB", 25 * ms, 100_000, 250 << 20),
            ("a MiB took longer than there is", 25 * ms, 60 * ms, GRANULE),
            ("the least", 1, u64::MAX, GRANULE),
            ("no time at all", ms, 0, (ms << 20).max(GRANULE)),
        ] {
            assert_eq!(armable(left_ns, ns_per_mib), bytes, "{name}");
        }
    }
}
