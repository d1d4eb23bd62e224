//! What this process itself costs, and how many files it may open.

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

/// Allows this process as many open files as its hard limit does. To watch hundreds of processes
/// takes some files for each. What more than the limit allows is refused later, and told there.
pub fn raise_file_limit() {
    let Rlimit { current, maximum } = getrlimit(Resource::Nofile);
    if current != maximum {
        setrlimit(Resource::Nofile, Rlimit { current: maximum, maximum }).ok();
    }
}
