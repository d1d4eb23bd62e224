//! Page-out by the kernel's own choice: a cgroup is asked to reclaim as many bytes as were found
//! idle, or fewer if that costs it too much.

use isotherm_sys::clock::now;

use crate::apply::evidence::look::Look;
use crate::apply::proof::taken::Back;
use crate::apply::settings::{Reclaim, ReclaimFrom};
use crate::apply::target::{Chosen, Did, TargetState};
use crate::apply::{Actor, Job, until};

/// Bytes per write: some milliseconds.
const STEP: u64 = 4 << 20;

impl Actor {
    /// Reclaims at most the size of what was chosen. The bytes by which the group shrank count as
    /// done, because the kernel chooses the pages; or the chosen pages that are gone afterwards, if
    /// these are more, since the group may have grown meanwhile. Those are watched for coming back.
    pub(in crate::apply) fn reclaim(
        &mut self,
        look: &mut dyn Look,
        state: &mut TargetState,
        job: Job<'_>,
        chosen: &Chosen,
        reclaim: &Reclaim,
    ) -> (Did, u64) {
        let scheme = job.request.scheme;
        let (mut did, pid) = (Did::default(), state.process.pid());
        let from = match &reclaim.from {
            ReclaimFrom::Own => None,
            ReclaimFrom::Path(path) => Some(path.as_str()),
        };
        let groups = &mut self.own_cgroups;
        let done = groups.allow(pid, from, chosen.bytes, reclaim.toll, now()).and_then(|allowed| {
            if allowed.bytes == 0 {
                did.stopped_at = Some(chosen.end_of(0));
                return Ok(0);
            }
            let reclaimed = groups.reclaim(&allowed, STEP, &mut until(job))?;
            let out = &mut did.outcome;
            out.asked_bytes = reclaimed.asked_bytes;
            out.accepted_bytes = reclaimed.accepted_bytes;
            out.stopped = reclaimed.stopped;
            (out.elapsed_ns, out.cpu_ns) = (reclaimed.elapsed_ns, reclaimed.cpu_ns);
            let is_all = reclaimed.asked_bytes >= chosen.bytes;
            did.stopped_at = (!is_all).then(|| chosen.end_of(reclaimed.asked_bytes));
            Ok(reclaimed.shrunk_bytes)
        });
        let shrunk = match done {
            Ok(shrunk) => shrunk,
            Err(error) => {
                self.trouble(scheme, pid, &error.to_string());
                return (did, 0);
            }
        };
        self.note_outcome(job, state, &did.outcome);
        if did.outcome.asked_bytes == 0 {
            return (did, 0);
        }
        let gone = watch_gone(look, state, scheme, chosen);
        let done = shrunk.max(gone).min(did.outcome.asked_bytes);
        (did, done)
    }
}

/// Watches those of the chosen pages that are gone, and returns their bytes.
fn watch_gone(look: &mut dyn Look, state: &mut TargetState, scheme: usize, chosen: &Chosen) -> u64 {
    let (after, at, mut bytes) = (state.see_chosen(look, chosen), now(), 0);
    for (start, pages) in chosen.before(u64::MAX) {
        let gone = pages.minus(after.get(&start).copied().unwrap_or_default().present);
        bytes += gone.count() << 12;
        state.proof.add(scheme, Back::Present, start, gone, at);
    }
    bytes
}
