//! How much memory a container of Kubernetes asked for, without asking the API server.
//!
//! The kubelet tells the kernel which processes to end first when memory is short, by what their
//! container requests: `oom_score_adj` is 1000 less the request in thousandths of the node's
//! memory, rounded down (`GetContainerOOMScoreAdjust`, pkg/kubelet/qos/policy.go, Kubernetes 1.6
//! and later). So the request can be read back, to half a thousandth of the node's memory.
//!
//! A guaranteed container requests what its limit is. So is every container of a critical pod told,
//! which may have asked for less. A program that sets its own `oom_score_adj` is not known.

use std::fs;
use std::path::Path;

/// Of a container without a request.
const BEST_EFFORT: i64 = 1000;
/// Of guaranteed containers, since Kubernetes 1.21 and before.
const GUARANTEED: [i64; 2] = [-997, -998];
/// The least that a container with a request gets, however large that is.
const LEAST: i64 = 3;

/// What the container of this cgroup requested, in bytes; `None` if that cannot be told. `limit`:
/// of the cgroup. `memory`: of the node, in bytes.
pub(crate) fn of_cgroup(dir: &Path, proc: &Path, limit: Option<u64>, memory: u64) -> Option<u64> {
    let pids = fs::read_to_string(dir.join("cgroup.procs")).ok()?;
    let pid = pids.lines().next()?;
    let told = fs::read_to_string(proc.join(pid).join("oom_score_adj")).ok()?;
    requested(told.trim().parse().ok()?, limit, memory)
}

/// What a container requested whose processes have this `oom_score_adj`, in bytes.
fn requested(adj: i64, limit: Option<u64>, memory: u64) -> Option<u64> {
    if GUARANTEED.contains(&adj) {
        return limit;
    }
    // The middle of what is rounded to this, in halves of a thousandth.
    let halves = match u64::try_from(BEST_EFFORT - adj).ok()? {
        0 => 0,
        // Less than a thousandth is told as one, since 1000 means none.
        1 => 2,
        thousandths if adj > LEAST => 2 * thousandths + 1,
        _ => return None,
    };
    Some((memory / 2000).saturating_mul(halves))
}

#[cfg(test)]
mod tests {
    use super::*;

    const NODE: u64 = 64 << 30;

    /// As the kubelet makes it of a request of a burstable container.
    fn adj_of(request: u64) -> i64 {
        let adj = 1000 - i64::try_from(1000 * request / NODE).unwrap();
        adj.clamp(LEAST, 999)
    }

    #[test]
    fn a_request_is_read_back_to_half_a_thousandth_of_the_node() {
        for mib in [1, 64, 100, 512, 1000, 4096, 10_000, 30_000, 65_000] {
            let request: u64 = mib << 20;
            let told = requested(adj_of(request), Some(1), NODE).unwrap();
            // Below two thousandths both ways of rounding are possible.
            let most = if request < NODE / 500 { NODE / 1000 } else { NODE / 2000 };
            assert!(told.abs_diff(request) <= most + 2000, "{mib} MiB: {told}");
        }
    }

    #[test]
    fn what_has_no_burstable_request() {
        for (adj, limit, expected) in [
            (1000, None, Some(0)),
            (-997, Some(7 << 20), Some(7 << 20)),
            (-998, Some(7 << 20), Some(7 << 20)),
            (-997, None, None),
            // Nearly all of the node, or more.
            (3, Some(1), None),
            // Not the kubelet's.
            (0, Some(1), None),
            (-500, Some(1), None),
            (1001, None, None),
        ] {
            assert_eq!(requested(adj, limit, NODE), expected, "{adj}");
        }
    }

    #[test]
    fn it_is_read_from_a_process_of_the_cgroup() {
        let dir = tempfile::tempdir().unwrap();
        let (cgroup, proc) = (dir.path().join("cgroup"), dir.path().join("proc"));
        let read = || of_cgroup(&cgroup, &proc, None, NODE);
        fs::create_dir_all(proc.join("42")).unwrap();
        fs::create_dir_all(&cgroup).unwrap();
        assert_eq!(read(), None);
        fs::write(cgroup.join("cgroup.procs"), "").unwrap();
        assert_eq!(read(), None, "no process");
        fs::write(cgroup.join("cgroup.procs"), "42\n43\n").unwrap();
        assert_eq!(read(), None, "it has ended");
        fs::write(proc.join("42/oom_score_adj"), "900\n").unwrap();
        assert_eq!(read(), Some(NODE / 2000 * 201));
    }
}
