//! Pages that NUMA balancing has marked, on kernels whose `move_pages` cannot see them.
//!
//! Automatic NUMA balancing makes entries inaccessible, so that the next touch tells who uses the
//! page. From Linux 6.1 to 6.5 `follow_page()` passes over such entries
//! (`gup_can_follow_protnone()`; `FOLL_HONOR_NUMA_FAULT` mended it in 6.6): a query calls the page
//! absent, and a move refuses it, ENOENT. So one byte of it is read, which is the touch that the
//! mark waits for, and the mark goes. That sets the page's accessed bit too, as the program's own
//! touch would.
//!
//! Only pages that are in memory are read: reading an absent one would bring it there.

use isotherm_core::AddrRange;
use isotherm_host::Version;
use isotherm_sys::ptrace::read_memory;

use crate::Process;

/// Whether this kernel's `move_pages` passes over marked pages.
pub(super) fn are_passed_over() -> bool {
    passes_over(&rustix::system::uname().release().to_string_lossy())
}

fn passes_over(release: &str) -> bool {
    let affected = Version::new(6, 1)..Version::new(6, 6);
    Version::parse(release).is_some_and(|version| affected.contains(&version))
}

/// Touches those of `pages` that were called absent (`status`) and are not; whether there were any.
pub(super) fn touch(process: &Process, pages: &[u64], status: &[i32]) -> bool {
    let absent = pages.iter().zip(status).filter(|(_, is)| **is == -libc::ENOENT);
    let mut touched = false;
    for (&addr, _) in absent {
        let mut present = false;
        let page = AddrRange::new(addr, addr + 4096);
        // It may have gone, which the next call notices.
        let found = process.page_runs(page, &mut |_, kind| present |= kind.is_present());
        touched |= found.is_ok()
            && present
            && read_memory(process.pid(), addr, &mut [0]).is_ok_and(|bytes| bytes == 1);
    }
    touched
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kernels_that_pass_over_marked_pages() {
        for (release, expected) in [
            ("5.15.0-100-generic", false),
            ("6.0.9", false),
            ("6.1.0-56-cloud-amd64", true),
            ("6.5.13", true),
            ("6.6.0", false),
            ("6.12.48+deb13-cloud-amd64", false),
            ("7.3-cloud-amd64", false),
            ("what", false),
        ] {
            assert_eq!(passes_over(release), expected, "{release}");
        }
    }
}
