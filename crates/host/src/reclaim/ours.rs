//! What this program itself has asked cgroups to reclaim (`memory.reclaim`).
//!
//! The kernel counts that as `pgscan` of the cgroup, as it does reclaim of its own. Linux 6.15
//! counts it apart (`pgscan_proactive`), but together with that of other programs, and they need
//! accessed bits as much as the kernel does. So whoever asks tells how much the counter has grown
//! meanwhile. One book for the whole program is enough, since a cgroup is the same for all.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

/// Pages that were looked at for us since the program began, by the directory of the cgroup asked.
static BOOK: Mutex<BTreeMap<PathBuf, u64>> = Mutex::new(BTreeMap::new());
/// Cgroups in the book at most. If there are more it begins anew, and one look takes ours for the
/// kernel's.
const MANY: usize = 4096;

/// Pages that the kernel has looked at to reclaim memory of the v2 cgroup at `dir` and below it,
/// for whatever reason, since the cgroup was made. `None` if it does not tell.
#[must_use]
pub fn scanned(dir: &Path) -> Option<u64> {
    super::field(&std::fs::read_to_string(dir.join("memory.stat")).ok()?, "pgscan")
}

/// Notes that so many pages of the cgroup at `dir`, or below it, were looked at because this
/// program asked for that.
pub fn note_ours(dir: &Path, pages: u64) {
    if pages == 0 {
        return;
    }
    let mut book = BOOK.lock().unwrap_or_else(PoisonError::into_inner);
    if book.len() >= MANY && !book.contains_key(dir) {
        book.clear();
    }
    let noted = book.entry(dir.to_path_buf()).or_default();
    *noted = noted.saturating_add(pages);
}

/// All that was noted of the cgroup at `dir` and of those above it. Of what was asked of one above,
/// this cgroup has paid no more than all.
pub(super) fn of(dir: &Path) -> u64 {
    let book = BOOK.lock().unwrap_or_else(PoisonError::into_inner);
    dir.ancestors().filter_map(|dir| book.get(dir)).fold(0, |sum, pages| sum.saturating_add(*pages))
}
