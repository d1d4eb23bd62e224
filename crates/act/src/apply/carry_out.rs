//! Acting on chosen pages, seeing what became of them, and taking that into the account.

use isotherm_core::Time;
use isotherm_core::scheme::Action;
use isotherm_sys::clock::now;

use super::held::{Chosen, Did, Held};
use super::look::Look;
use super::pages::{Bits, GRANULE, PageSet, granules};
use super::proof::Back;
use super::{ActEvent, Actor, Job, until_after_one};
use crate::{Advice, Outcome};

/// Bytes per batch of what moves data: about a millisecond of zram.
const BATCH: u64 = 1 << 20;
/// What a dry run charges its time quota per batch, in ns.
const PRETENDED_NS: u64 = 1_000_000;

impl Actor {
    /// Does the request's action to the chosen pages. Returns what was asked, and the bytes done.
    pub(super) fn carry_out(
        &mut self,
        look: &mut dyn Look,
        held: &mut Held,
        job: Job<'_>,
        chosen: &Chosen,
    ) -> (Did, u64) {
        if chosen.ranges.is_empty() {
            return (Did::default(), 0);
        }
        let settings = self.settings.get(job.request.scheme);
        let (did, done) = if settings.is_none_or(|s| s.dry_run) {
            self.pretend(look, held, job, chosen)
        } else {
            match (job.request.action, settings.and_then(|s| s.memory_reclaim.clone())) {
                (Action::Pageout, Some(path)) => self.reclaim(held, job, chosen, &path),
                (Action::Pageout, None) => self.advise(look, held, job, chosen, Advice::Pageout),
                (Action::Cold, _) => self.advise(look, held, job, chosen, Advice::Cold),
                (Action::Willneed, _) => self.advise(look, held, job, chosen, Advice::Willneed),
                _ => self.moved(held, job, chosen),
            }
        };
        self.done(held, job, chosen, &did.outcome, done);
        (did, done)
    }

    /// A dry run: counts, and watches what would have been touched again.
    fn pretend(
        &mut self,
        look: &mut dyn Look,
        held: &mut Held,
        job: Job<'_>,
        chosen: &Chosen,
    ) -> (Did, u64) {
        let scheme = job.request.scheme;
        if job.request.action != Action::Willneed {
            watch_pretended(look, held, scheme, chosen);
        }
        self.account(scheme).asked_bytes += chosen.bytes;
        self.pretended_ns += chosen.bytes / BATCH * PRETENDED_NS;
        (chosen.did(pretended(chosen)), chosen.bytes)
    }

    fn moved(&mut self, held: &mut Held, job: Job<'_>, chosen: &Chosen) -> (Did, u64) {
        let scheme = job.request.scheme;
        let did = self.migrate(held, job, chosen);
        let done = did.outcome.accepted_bytes;
        let between_two = self.settings.get(scheme).is_some_and(|s| s.only_on.is_some());
        if let (true, Some(to)) = (between_two, job.scheme.target_nid) {
            self.note_moved(held, job, chosen, &did, to);
        } else {
            watch(held, scheme, Back::Young, chosen, did.end(), now());
        }
        (did, done)
    }

    /// Remembers what went from one node to the other, so that it stays there for a while; what was demoted is
    /// watched for being touched again. Hot memory will be, wherever it is.
    fn note_moved(&mut self, held: &mut Held, job: Job<'_>, chosen: &Chosen, did: &Did, to: u32) {
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
                held.proof.add(scheme, Back::Young, start, moved, at);
            }
            if !full {
                held.moved.refused(start, pages.minus(moved), at);
            }
        }
        let back = held.moved.moved(&did.moved, to, at);
        self.account(scheme).ping_pong_bytes += back << 12;
    }

    fn advise(
        &mut self,
        look: &mut dyn Look,
        held: &mut Held,
        job: Job<'_>,
        chosen: &Chosen,
        advice: Advice,
    ) -> (Did, u64) {
        let batch = match advice {
            Advice::Cold => advice.default_batch_bytes(),
            _ if chosen.huge => BATCH.max(GRANULE),
            _ => BATCH,
        };
        let outcome = held.process.advise(advice, &chosen.ranges, batch, &mut until_after_one(job));
        self.note_outcome(job, held, &outcome);
        let did = chosen.did(outcome);
        let (Advice::Pageout | Advice::Cold) = advice else {
            // What was read ahead does not show in page tables; the kernel's word is what there is.
            let done = did.outcome.accepted_bytes;
            return (did, done);
        };
        let (after, at, mut done) = (held.see_chosen(look, chosen), now(), 0);
        for (start, pages) in chosen.before(did.end()) {
            let seen = after.get(&start).copied().unwrap_or_default();
            let (shows, back) = if advice == Advice::Pageout {
                (pages.minus(seen.present), Back::Present)
            } else {
                (pages.and(seen.present).minus(seen.young), Back::Young)
            };
            done += shows.count() << 12;
            held.proof.add(job.request.scheme, back, start, shows, at);
        }
        (did, done)
    }

    /// Takes into the account what was done, and tells it.
    pub(super) fn done(
        &mut self,
        held: &Held,
        job: Job<'_>,
        chosen: &Chosen,
        outcome: &Outcome,
        done: u64,
    ) {
        let (scheme, action, at) = (job.request.scheme, job.request.action, now());
        self.account(scheme).done(done, at);
        if let Some(range) = chosen.span() {
            let pid = held.process.pid();
            let (asked, ns) = (outcome.asked_bytes, outcome.elapsed_ns);
            self.tell(ActEvent::Acted { at, scheme, pid, action, range, asked, done, ns });
        }
    }
}

/// Watches the chosen pages before `end` for coming back.
fn watch(held: &mut Held, scheme: usize, back: Back, chosen: &Chosen, end: u64, at: Time) {
    for (start, pages) in chosen.before(end) {
        held.proof.add(scheme, back, start, pages, at);
    }
}

/// Watches what a dry run would have acted on.
fn watch_pretended(look: &mut dyn Look, held: &mut Held, scheme: usize, chosen: &Chosen) {
    let (seen, at) = (held.see_chosen(look, chosen), now());
    for (start, pages) in chosen.before(u64::MAX) {
        // Pages that are young still were not made old for this: being young says nothing of what is to come.
        let young = pages.and(seen.get(&start).copied().unwrap_or_default().young);
        held.proof.add(scheme, Back::PretendedYoung, start, young, at);
        held.proof.add(scheme, Back::Pretended, start, pages.minus(young), at);
    }
}

/// The outcome of a dry run.
pub(super) fn pretended(chosen: &Chosen) -> Outcome {
    Outcome { asked_bytes: chosen.bytes, accepted_bytes: chosen.bytes, ..Outcome::default() }
}
