//! The numbers by which the kernel tells the cgroups of pages: inodes of their directories.

use std::collections::BTreeMap;

use isotherm_core::Time;
use isotherm_host::metrics::cgroup::Cgroups;
use isotherm_host::proc::Proc;

/// How long an answer is good, in ns. A cgroup that is made anew gets another number, so a late
/// answer matches nothing.
const GOOD_NS: u64 = 1_000_000_000;

/// The numbers of the cgroups that filters name, by path.
#[derive(Debug, Default)]
pub(in super::super) struct MemcgIds {
    known: BTreeMap<String, (Time, Result<u64, String>)>,
}

impl MemcgIds {
    /// The number of the cgroup that memory is charged to; or why there is none.
    pub(in super::super) fn of(&mut self, path: &str, now: Time) -> Result<u64, String> {
        match self.known.get(path) {
            Some((at, known)) if now.since(*at) < GOOD_NS => known.clone(),
            _ => {
                let found = Cgroups::mounted(&Proc::default()).memory_id(path);
                let found = found.map_err(|why| {
                    format!("filter `memcg` cannot be answered, so it lets nothing in\n{why}")
                });
                self.known.insert(path.to_owned(), (now, found.clone()));
                found
            }
        }
    }
}
