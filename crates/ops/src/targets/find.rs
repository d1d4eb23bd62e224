//! Finding targets by name, by cgroup and by size.
//!
//! The answers are pids of processes that can be targets: not ourselves, not the machine's
//! init process, no kernel thread, no zombie. They are as of now. The tracker then reports what
//! becomes of them.

use std::io;

use isotherm_host::glob::{glob, is_glob};
use isotherm_host::metrics::MetricError;
use isotherm_host::metrics::cgroup::Cgroups;
use isotherm_host::namespace::read_cgroup;
use isotherm_host::proc::{Proc, Stat, TaskState};

use super::cgroup::{in_cgroup_by, in_unit_by};

/// The kernel keeps this much of a command's name.
const COMM_MAX: usize = 15;

/// Lists the processes whose command's name is `pattern`, sorted by pid.
///
/// In a pattern `*` stands for any text and `?` for any one byte. The kernel keeps only 15 bytes of
/// a name. So of a longer pattern without `*` and `?` only the first 15 bytes are compared.
///
/// # Errors
///
/// If `/proc` cannot be listed.
pub fn by_name(proc: &Proc, pattern: &str) -> io::Result<Vec<u32>> {
    let mut found = Vec::new();
    proc.for_each_pid(|pid| found.push(pid))?;
    let mut buf = Vec::new();
    found.retain(|&pid| {
        let stat = proc.stat(pid, &mut buf);
        stat.is_ok_and(|stat| can_be_target(proc, &stat) && name_matches(stat.comm, pattern))
    });
    found.sort_unstable();
    Ok(found)
}

/// Lists the processes whose resident memory is at least so many bytes, sorted by pid.
///
/// # Errors
///
/// If `/proc` cannot be listed.
pub fn by_rss(proc: &Proc, least: u64) -> io::Result<Vec<u32>> {
    let mut found = Vec::new();
    proc.for_each_pid(|pid| found.push(pid))?;
    let mut buf = Vec::new();
    found.retain(|&pid| {
        let large = proc.read(pid, "statm", &mut buf).is_ok() && resident(&buf) >= least;
        large && proc.stat(pid, &mut buf).is_ok_and(|stat| can_be_target(proc, &stat))
    });
    found.sort_unstable();
    Ok(found)
}

/// The second number of `/proc/PID/statm`, in bytes.
fn resident(statm: &[u8]) -> u64 {
    let text = std::str::from_utf8(statm).unwrap_or_default();
    let pages = text.split_whitespace().nth(1).and_then(|n| n.parse::<u64>().ok());
    pages.unwrap_or(0).saturating_mul(4096)
}

/// Lists the processes in a cgroup and below it, sorted by pid. The path is as for
/// [`Cgroups::procs`].
///
/// # Errors
///
/// If there is no such cgroup, or it cannot be read.
pub fn in_cgroup(proc: &Proc, path: &str) -> Result<Vec<u32>, MetricError> {
    let mut found = Cgroups::mounted(proc).procs(path)?;
    let mut buf = Vec::new();
    found.retain(|&pid| proc.stat(pid, &mut buf).is_ok_and(|stat| can_be_target(proc, &stat)));
    Ok(found)
}

/// Lists the processes in cgroups that match, and in those below them, sorted by pid. The pattern
/// is as for [`in_cgroup_by`]; it may also be the full path of a cgroup's directory.
///
/// # Errors
///
/// If `/proc` cannot be listed.
pub fn by_cgroup(proc: &Proc, pattern: &str) -> io::Result<Vec<u32>> {
    let mounted = Cgroups::mounted(proc);
    let pattern = mounted.below_mount(pattern);
    // The members of one cgroup are listed in a file or two.
    if !is_glob(pattern)
        && let Ok(mut found) = mounted.procs(pattern)
    {
        let mut buf = Vec::new();
        found.retain(|&pid| proc.stat(pid, &mut buf).is_ok_and(|stat| can_be_target(proc, &stat)));
        return Ok(found);
    }
    by_cgroup_text(proc, |text| in_cgroup_by(text, pattern))
}

/// Lists the processes of a systemd unit, sorted by pid; see [`in_unit_by`].
///
/// # Errors
///
/// If `/proc` cannot be listed.
pub fn by_unit(proc: &Proc, unit: &str) -> io::Result<Vec<u32>> {
    by_cgroup_text(proc, |text| in_unit_by(text, unit))
}

fn by_cgroup_text(proc: &Proc, is_meant: impl Fn(&[u8]) -> bool) -> io::Result<Vec<u32>> {
    let mut found = Vec::new();
    proc.for_each_pid(|pid| found.push(pid))?;
    let mut buf = Vec::new();
    found.retain(|&pid| {
        let meant = read_cgroup(proc, pid, &mut buf).is_ok() && is_meant(&buf);
        meant && proc.stat(pid, &mut buf).is_ok_and(|stat| can_be_target(proc, &stat))
    });
    found.sort_unstable();
    Ok(found)
}

/// Whether a command's name (as `/proc/PID/stat` has it) matches; see [`by_name`].
#[must_use]
pub fn name_matches(comm: &[u8], pattern: &str) -> bool {
    let pattern = pattern.as_bytes();
    if pattern.iter().any(|b| matches!(b, b'*' | b'?')) {
        return glob(pattern, comm);
    }
    comm == pattern.get(..COMM_MAX).unwrap_or(pattern)
}

fn can_be_target(proc: &Proc, stat: &Stat<'_>) -> bool {
    let myself = proc.is_real() && stat.pid == std::process::id();
    !myself && !is_init(proc, stat.pid) && !stat.is_kthread && stat.state == TaskState::Alive
}

/// Whether this is the machine's init process, on which everything depends. Process 1 of a
/// container is a program like others.
#[must_use]
pub fn is_init(proc: &Proc, pid: u32) -> bool {
    /// The pid namespace that every other one is below (`PROC_PID_INIT_INO`, Linux 3.8).
    const INITIAL: &str = "pid:[4026531836]";
    pid == 1
        && std::fs::read_link(proc.path_of(pid, "ns/pid"))
            .map_or(true, |namespace| namespace.as_os_str() == INITIAL)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn resident_memory_is_the_second_number() {
        for (text, bytes) in [("100 25 3 1 0 60 0\n", 25 << 12), ("", 0), ("x y", 0)] {
            assert_eq!(resident(text.as_bytes()), bytes, "{text:?}");
        }
        let nobody = by_rss(&Proc::default(), u64::MAX).unwrap();
        assert_eq!(nobody, [] as [u32; 0]);
    }

    #[test]
    fn names() {
        for (comm, pattern, matches) in [
            ("redis-server", "redis-server", true),
            ("redis-server", "redis", false),
            ("redis-server", "redis*", true),
            ("redis-server", "*server", true),
            ("redis-server", "*s*s*r", true),
            ("redis-server", "*s*x*r", false),
            ("redis-server", "re?is-server", true),
            ("redis", "redis?", false),
            ("redis", "redis*", true),
            ("redis", "*", true),
            ("", "*", true),
            ("", "?", false),
            ("", "", true),
            ("aab", "*ab", true),
            ("postgres: write", "postgres: writer", true),
            ("postgres: write", "postgres: wri", false),
            ("a[b]", "a[b]", true),
        ] {
            assert_eq!(name_matches(comm.as_bytes(), pattern), matches, "{comm} {pattern}");
        }
    }
}
