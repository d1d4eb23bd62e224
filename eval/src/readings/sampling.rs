//! Memory of a tree of processes and of the machine over time.
//!
//! Resident memory of a tree is the sum of its private (anonymous) memory, plus the largest shared
//! and the largest file part that one of its processes has resident: the processes of a server map
//! the same shared memory and the same files, and a sum would count them many times.

use std::collections::BTreeSet;
use std::fs;
use std::path::PathBuf;
use std::time::Duration;

use isotherm_host::proc::Proc;
use isotherm_sys::clock;
use serde::{Deserialize, Serialize};

use crate::readings::periodic::Periodic;
use crate::readings::procfs;

const PERIOD: Duration = Duration::from_millis(250);

/// Memory at one time, in bytes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct Sample {
    /// Since the first sample.
    pub(crate) ms: u64,
    /// Resident memory of the tree.
    pub(crate) rss: u64,
    /// Its memory in swap.
    pub(crate) swap: u64,
    /// `MemAvailable`: what the swap device takes is not in it.
    pub(crate) available: u64,
    /// `MemTotal` less `MemFree`.
    pub(crate) used: u64,
    /// `Cached` and `Buffers` less `Shmem`: pages of files, which the kernel can drop.
    pub(crate) file_cache: u64,
    /// Major faults of the tree so far, those of children that were waited for included.
    pub(crate) major_faults: u64,
    /// `SwapCached`: in swap, and still in memory too.
    pub(crate) swap_cached: u64,
    /// Memory that the swap device takes.
    pub(crate) zram: u64,
}

/// Samples of the trees below `roots` until it is told to finish; `zram` is the device's directory
/// in sysfs.
pub(crate) fn sampler(roots: Vec<u32>, zram: Option<PathBuf>) -> anyhow::Result<Periodic<Sample>> {
    let begin = clock::now();
    Periodic::start(PERIOD, move || {
        let ms = clock::now().since(begin) / 1_000_000;
        Some(sample(ms, &roots, zram.as_deref()))
    })
}

/// The processes below `roots`, and these.
pub(crate) fn tree(roots: &[u32]) -> BTreeSet<u32> {
    let proc = Proc::new("/proc");
    let mut parents = Vec::new();
    let mut buf = Vec::new();
    let listed = proc.for_each_pid(|pid| {
        // A process that has just ended.
        if let Ok(stat) = proc.stat(pid, &mut buf) {
            parents.push((pid, stat.ppid));
        }
    });
    let mut tree: BTreeSet<u32> = roots.iter().copied().collect();
    let mut before = 0;
    while listed.is_ok() && tree.len() > before {
        before = tree.len();
        tree.extend(
            parents
                .iter()
                .filter(|(_, p)| tree.contains(p))
                .map(|(pid, _)| *pid)
                .collect::<Vec<_>>(),
        );
    }
    tree
}

fn sample(ms: u64, roots: &[u32], zram: Option<&std::path::Path>) -> Sample {
    let (mut anon, mut shared, mut file, mut swap, mut major_faults) = (0, 0, 0, 0, 0);
    for pid in tree(roots) {
        let faults = procfs::major_faults_and_childrens(pid);
        major_faults += faults.map_or(0, |[own, childrens]| own + childrens);
        let text = fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
        let size = |key| procfs::kib(&text, key).unwrap_or(0);
        anon += size("RssAnon");
        swap += size("VmSwap");
        shared = size("RssShmem").max(shared);
        file = size("RssFile").max(file);
    }
    let text = fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let meminfo = |key| procfs::kib(&text, key).unwrap_or(0);
    let zram = zram.and_then(|dir| fs::read_to_string(dir.join("mm_stat")).ok());
    let zram = zram.and_then(|text| text.split_whitespace().nth(2)?.parse().ok());
    Sample {
        ms,
        rss: anon + shared + file,
        swap,
        available: meminfo("MemAvailable"),
        used: meminfo("MemTotal").saturating_sub(meminfo("MemFree")),
        file_cache: (meminfo("Cached") + meminfo("Buffers")).saturating_sub(meminfo("Shmem")),
        major_faults,
        swap_cached: meminfo("SwapCached"),
        zram: zram.unwrap_or(0),
    }
}

/// Mean over time of `f`; samples are evenly spaced.
pub(crate) fn mean(samples: &[Sample], f: fn(&Sample) -> u64) -> Option<f64> {
    let sum: u64 = samples.iter().map(f).sum();
    let n = u64::try_from(samples.len()).ok().filter(|n| *n > 0)?;
    Some(crate::stats::to_f64(sum) / crate::stats::to_f64(n))
}

/// By how much `f`, which only grows, has grown; processes that have ended may take theirs away.
pub(crate) fn grown(samples: &[Sample], f: fn(&Sample) -> u64) -> u64 {
    let most = samples.iter().map(f).max().unwrap_or(0);
    most - samples.first().map_or(0, f)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn our_own_tree_is_seen() {
        let me = std::process::id();
        let mut child = std::process::Command::new("sleep").arg("100").spawn().unwrap();
        let seen = tree(&[me]);
        let running = sampler(vec![me], None).unwrap();
        std::thread::sleep(Duration::from_millis(50));
        let samples = running.finish();
        child.kill().unwrap();
        child.wait().unwrap();
        assert!(seen.contains(&me) && seen.contains(&child.id()), "{seen:?}");
        assert!(!samples.is_empty() && samples.iter().all(|s| s.rss > 0 && s.available > 0));
        assert_eq!(mean(&samples, |_| 3), Some(3.0));
        assert_eq!(mean(&[], |_| 3), None);
        assert!(samples.iter().all(|s| s.used > s.rss && s.used > s.file_cache));
        let faults = [5, 9, 2].map(|major_faults| Sample { major_faults, ..Sample::default() });
        assert_eq!((grown(&faults, |s| s.major_faults), grown(&[], |s| s.rss)), (4, 0));
    }
}
