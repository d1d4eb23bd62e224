//! What this process itself costs, and how many files it may open.

use std::fs::File;
use std::os::fd::AsRawFd;

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use super::{Proc, parse_stat};

/// Cost of this process.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct OwnCost {
    /// CPU time of all threads since the start, in nanoseconds.
    pub cpu_ns: u64,
    /// Resident memory, in bytes.
    pub rss_bytes: u64,
}

/// Measures this process: CPU time by `CLOCK_PROCESS_CPUTIME_ID`, memory by `/proc/self/stat`.
///
/// `buf` is for the text. The memory is 0 if `/proc` is not mounted.
pub fn own_cost(buf: &mut Vec<u8>) -> OwnCost {
    let rss_pages = match Proc::default().read_system("self/stat", buf) {
        Ok(()) => parse_stat(buf).map_or(0, |stat| stat.rss_pages),
        Err(_) => 0,
    };
    let page = u64::try_from(rustix::param::page_size()).unwrap_or(isotherm_core::addr::PAGE_SIZE);
    OwnCost {
        cpu_ns: isotherm_sys::clock::process_cpu_ns(),
        rss_bytes: rss_pages.saturating_mul(page),
    }
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
    use super::*;

    #[test]
    fn files_that_may_be_opened_are_those_below_the_limit() {
        let limit = getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX);
        assert!(may_open(1), "{limit}");
        assert!(!may_open(limit.saturating_sub(2)) || limit == u64::MAX, "0 to 2 are open");
    }
}
