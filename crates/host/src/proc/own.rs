//! What this process itself costs, and how many files it may open.

use std::fs::File;
use std::os::fd::AsRawFd;
use std::sync::OnceLock;

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use super::parse_resident;
use crate::again::read_again;

/// Cost of this process.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct OwnCost {
    /// CPU time of all threads since the start, in nanoseconds.
    pub cpu_ns: u64,
    /// Resident memory, in bytes.
    pub rss_bytes: u64,
}

/// Measures this process: CPU time by `CLOCK_PROCESS_CPUTIME_ID`, memory by `/proc/self/statm`.
///
/// Every context asks once per second. So the file stays open, for all threads; and it is not
/// `stat`, for which the kernel adds up all of them. A fork that does not exec would be told of its
/// parent; Isotherm has none that asks.
///
/// `buf` is for the text. The memory is 0 if `/proc` is not mounted.
pub fn own_cost(buf: &mut Vec<u8>) -> OwnCost {
    static STATM: OnceLock<File> = OnceLock::new();
    let rss_pages = resident_pages(&STATM, buf).unwrap_or(0);
    let page = u64::try_from(rustix::param::page_size()).unwrap_or(isotherm_core::addr::PAGE_SIZE);
    OwnCost {
        cpu_ns: isotherm_sys::clock::process_cpu_ns(),
        rss_bytes: rss_pages.saturating_mul(page),
    }
}

/// The second number of a `statm` file.
fn resident_pages(statm: &OnceLock<File>, buf: &mut Vec<u8>) -> Option<u64> {
    let file = match statm.get() {
        Some(file) => file,
        None => {
            let opened = File::open("/proc/self/statm").ok()?;
            statm.get_or_init(|| opened)
        }
    };
    let len = read_again(file, buf).ok()?;
    parse_resident(&buf[..len])
}

/// Whether this process may open so many files more.
#[must_use]
pub fn may_open(nr: u64) -> bool {
    let Some(limit) = getrlimit(Resource::Nofile).current else { return true };
    // A file has the lowest number that is free.
    let Ok(file) = File::open("/dev/null") else { return false };
    u64::try_from(file.as_raw_fd()).unwrap_or(0).saturating_add(nr) <= limit
}

/// Allows this process as many open files as its hard limit does. To watch hundreds of processes
/// takes some files for each. What more than the limit allows is refused later, and told there.
pub fn raise_file_limit() {
    let Rlimit { current, maximum } = getrlimit(Resource::Nofile);
    if current != maximum {
        setrlimit(Resource::Nofile, Rlimit { current: maximum, maximum }).ok();
    }
}

#[cfg(test)]
mod tests {
    use super::super::Proc;
    use super::*;

    #[test]
    fn own_memory_is_what_the_kernel_says_now() {
        let mut buf = Vec::new();
        let before = own_cost(&mut buf);
        // Nobody else takes so much here at once.
        let more = vec![1_u8; 128 << 20];
        let after = own_cost(&mut buf);
        assert!(after.rss_bytes > before.rss_bytes + (100 << 20), "{before:?} {after:?}");
        let stat = Proc::default().stat(std::process::id(), &mut buf).unwrap().rss_pages * 4096;
        assert!(stat.abs_diff(after.rss_bytes) < 16 << 20, "{stat} {after:?} {}", more.len());
    }

    #[test]
    fn files_that_may_be_opened_are_those_below_the_limit() {
        let limit = getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX);
        assert!(may_open(1), "{limit}");
        assert!(!may_open(limit.saturating_sub(2)) || limit == u64::MAX, "0 to 2 are open");
    }
}
