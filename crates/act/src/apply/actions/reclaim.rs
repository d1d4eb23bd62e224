//! Page-out by the kernel's own choice: a cgroup is asked to reclaim as many bytes as were found
//! idle.

use std::path::{Path, PathBuf};

use isotherm_host::metrics::cgroup::Cgroups;
use isotherm_host::proc::Proc;

use crate::Cgroup;
use crate::apply::target::{Chosen, Did, TargetState};
use crate::apply::{Actor, Job, until};

/// Bytes per write: some milliseconds.
const STEP: u64 = 4 << 20;

impl Actor {
    /// Reclaims the size of what was chosen from the cgroup at `path`. The bytes by which the group
    /// shrank count as done, because the kernel chooses the pages.
    pub(in crate::apply) fn reclaim(
        &mut self,
        state: &TargetState,
        job: Job<'_>,
        chosen: &Chosen,
        path: &str,
    ) -> (Did, u64) {
        let mut did = Did::default();
        let reclaimed = Cgroup::open(directory(path))
            .and_then(|group| group.reclaim(chosen.bytes, None, STEP, &mut until(job)));
        let done = match reclaimed {
            Ok(reclaimed) => {
                let out = &mut did.outcome;
                out.asked_bytes = reclaimed.asked_bytes;
                out.accepted_bytes = reclaimed.accepted_bytes;
                out.stopped = reclaimed.stopped;
                (out.elapsed_ns, out.cpu_ns) = (reclaimed.elapsed_ns, reclaimed.cpu_ns);
                did.stopped_at = reclaimed.stopped.then(|| chosen.end_of(reclaimed.asked_bytes));
                reclaimed.shrunk_bytes.min(reclaimed.asked_bytes)
            }
            Err(error) => {
                self.trouble(job.request.scheme, state.process.pid(), &error.to_string());
                0
            }
        };
        self.note_outcome(job, state, &did.outcome);
        (did, done)
    }
}

/// The directory of a cgroup: a full path as it is, else below where version 2 is mounted.
fn directory(path: &str) -> PathBuf {
    let root = Cgroups::mounted(&Proc::default()).v2.unwrap_or_default();
    if Path::new(path).starts_with(&root) && !root.as_os_str().is_empty() {
        return PathBuf::from(path);
    }
    root.join(path.trim_start_matches('/'))
}
