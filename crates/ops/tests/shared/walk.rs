//! The set `pagewalk`, opened for a test.

use isotherm_host::error::SetKind;
use isotherm_ops::pagewalk::PageWalk;

/// The set; `None`, with the reason printed, if this process may not have it. That it is not
/// supported here would mean that a kernel we promise to support does not work.
pub(crate) fn open() -> Option<PageWalk> {
    match PageWalk::new() {
        Ok(walk) => Some(walk),
        Err(e) if e.kind() == SetKind::Permission => {
            eprintln!("skipped, no permission: {e}");
            None
        }
        Err(e) => panic!("{e}"),
    }
}
