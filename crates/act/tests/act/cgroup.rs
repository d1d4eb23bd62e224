//! Reclaim from a real cgroup of version 2, and its metrics, as far as this machine lets one be
//! made.

use std::path::PathBuf;

use isotherm_act::{ActKind, Cgroup, Process};
use isotherm_core::AddrRange;
use isotherm_core::scheme::{CgroupId, Metric};
use isotherm_host::metrics::Metrics;
use isotherm_host::nodes::Nodes;
use isotherm_host::reclaim::Reclaim;

use crate::target::{ARENA, Target};
use crate::zram::swap;

const MIB: u64 = 1 << 20;

/// A memory cgroup below the test's own. When it is dropped, the processes in it move back.
struct Group {
    above: PathBuf,
    dir: PathBuf,
}

impl Group {
    /// `None` if there cannot be one, printed.
    fn new(name: &str) -> Option<Self> {
        let groups = std::fs::read_to_string("/proc/self/cgroup").unwrap();
        let Some(own) = groups.lines().find_map(|line| line.strip_prefix("0::")) else {
            eprintln!("skipped: no cgroup v2");
            return None;
        };
        let above = PathBuf::from(format!("/sys/fs/cgroup{own}"));
        let dir = above.join(format!("isotherm-{name}-{}", std::process::id()));
        if let Err(e) = std::fs::create_dir(&dir) {
            eprintln!("skipped: cannot make the cgroup {}: {e}", dir.display());
            return None;
        }
        let group = Self { above, dir };
        if !group.dir.join("memory.current").exists() {
            eprintln!("skipped: no memory controller in the cgroup");
            return None;
        }
        Some(group)
    }

    fn take(&self, pid: u32) {
        std::fs::write(self.dir.join("cgroup.procs"), pid.to_string()).unwrap();
    }

    /// A target inside, with so many MiB that are all its own.
    fn target(&self, mib: u64) -> Target {
        let mut target = Target::spawn();
        self.take(target.pid());
        target.say(&format!("map {} small", mib * MIB));
        target
    }

    fn read(&self, metric: impl Fn(CgroupId) -> Metric) -> u64 {
        let path = self.dir.to_str().unwrap().to_owned();
        Metrics::default().read(metric(CgroupId(0)), &[path]).unwrap()
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        for pid in
            std::fs::read_to_string(self.dir.join("cgroup.procs")).unwrap_or_default().lines()
        {
            // It may have ended.
            std::fs::write(self.above.join("cgroup.procs"), pid).ok();
        }
        std::fs::remove_dir(&self.dir).ok();
    }
}

/// Major and minor number of the running kernel.
fn kernel() -> (u32, u32) {
    let text = std::fs::read_to_string("/proc/sys/kernel/osrelease").unwrap();
    let mut numbers = text.split(|c: char| !c.is_ascii_digit()).map(|n| n.parse().unwrap_or(0));
    (numbers.next().unwrap(), numbers.next().unwrap())
}

#[test]
fn reclaim_takes_from_the_group_and_loses_nothing() {
    let Some(_swap) = swap(128) else { return };
    let Some(group) = Group::new("reclaim") else { return };
    let mut target = group.target(64);
    let cgroup = match Cgroup::open(&group.dir) {
        Err(e) if kernel() < (5, 19) => return eprintln!("skipped: {e}"),
        cgroup => cgroup.unwrap(),
    };
    assert!(cgroup.current_bytes().unwrap() >= 64 * MIB);
    let done = cgroup.reclaim(16 * MIB, None, 4 * MIB, &mut || false).unwrap();
    assert_eq!((done.asked_bytes, done.accepted_bytes), (16 * MIB, 16 * MIB), "{done:?}");
    // The kernel may count more than it was asked for, and slab and page tables among it.
    assert!(done.shrunk_bytes >= 12 * MIB, "{done:?}");
    assert!(!done.exhausted && !done.stopped && !done.gone, "{done:?}");
    let swapped = target.smaps("Swap:") << 10;
    assert!(swapped >= 12 * MIB, "{swapped} bytes are in swap: {done:?}");
    let mut asked = 0;
    let mut third = || {
        asked += 1;
        asked > 2
    };
    let done = cgroup.reclaim(16 * MIB, None, 2 * MIB, &mut third).unwrap();
    assert!(done.stopped && done.asked_bytes == 4 * MIB, "{done:?}");
    // The test asks for more than there is, so the kernel gives up, and the result says so.
    let done = cgroup.reclaim(1 << 30, None, 64 * MIB, &mut || false).unwrap();
    assert!(done.exhausted, "{done:?}");
    assert_eq!(target.say("wrong"), "0", "pages with another content");
}

/// The kernel counts both alike, and a monitor is to spare memory only because of the one.
#[test]
fn what_we_reclaim_is_told_from_what_the_kernel_does() {
    let Some(_swap) = swap(128) else { return };
    let Some(group) = Group::new("ours") else { return };
    let target = group.target(64);
    let cgroup = match Cgroup::open(&group.dir) {
        Err(e) if kernel() < (5, 19) => return eprintln!("skipped: {e}"),
        cgroup => cgroup.unwrap(),
    };
    let mut reclaim = Reclaim::of_machine();
    let mut at = |s: u64| reclaim.counted(target.pid(), s * 1_000_000_000);
    let begin = at(1);
    let done = cgroup.reclaim(16 * MIB, None, 4 * MIB, &mut || false).unwrap();
    assert_eq!(done.accepted_bytes, 16 * MIB, "{done:?}");
    let asked = at(2);
    let (all, ours) = (asked.all - begin.all, asked.ours - begin.ours);
    let pages = 16 * MIB / 4096;
    assert!(ours >= pages / 2, "{ours} pages of {pages} are ours: {done:?}");
    assert!(all <= ours + ours / 4 + 255, "{ours} pages of {all} are ours");
    // Now the kernel has to.
    let limit = cgroup.current_bytes().unwrap() - 16 * MIB;
    std::fs::write(group.dir.join("memory.max"), limit.to_string()).unwrap();
    let limited = at(3);
    assert!(limited.all - asked.all >= pages / 2, "{limited:?} after {asked:?}");
    assert_eq!(limited.ours, asked.ours, "the kernel's own is not ours");
}

#[test]
fn swappiness_is_used_or_refused_by_name() {
    let Some(_swap) = swap(128) else { return };
    let Some(group) = Group::new("swappiness") else { return };
    let target = group.target(32);
    let cgroup = Cgroup::open(&group.dir).unwrap();
    let all = cgroup.reclaim(8 * MIB, Some(200), 4 * MIB, &mut || false);
    if kernel() < (6, 10) {
        let error = all.unwrap_err();
        assert_eq!(error.kind(), ActKind::NotSupported, "{error}");
        assert!(error.to_string().contains("swappiness"), "{error}");
        assert_eq!(target.smaps("Swap:"), 0);
        return;
    }
    assert_eq!(all.unwrap().accepted_bytes, 8 * MIB);
    let swapped = target.smaps("Swap:");
    assert!(swapped << 10 >= 6 * MIB, "{swapped} KiB");
}

#[test]
fn a_group_that_is_removed_is_told() {
    let Some(group) = Group::new("removed") else { return };
    let cgroup = Cgroup::open(&group.dir).unwrap();
    std::fs::remove_dir(&group.dir).unwrap();
    let error = cgroup.reclaim(MIB, None, MIB, &mut || false).unwrap_err();
    assert_eq!(error.kind(), ActKind::Gone, "{error}");
    assert_eq!(Cgroup::open(&group.dir).unwrap_err().kind(), ActKind::Gone);
}

#[test]
fn what_a_group_uses_is_told_by_node() {
    let Some(group) = Group::new("nodes") else { return };
    let nodes = match Nodes::read() {
        Ok(nodes) => nodes,
        Err(e) => return eprintln!("skipped: {e}"),
    };
    if !group.dir.join("memory.numa_stat").exists() {
        return eprintln!("skipped: no memory.numa_stat in the cgroup");
    }
    let mut target = group.target(128);
    let process = Process::open(target.pid()).unwrap();
    let range = [AddrRange::new(ARENA, ARENA + 128 * MIB)];
    for &node in nodes.with_memory() {
        let to = &mut |_| Some(node);
        let done = process.migrate(&nodes, &range, to, false, &mut || false).unwrap();
        assert_eq!(done.already_bytes + done.outcome.accepted_bytes, 128 * MIB, "{done:?}");
        let id = i32::try_from(node).unwrap();
        let meminfo = format!("/sys/devices/system/node/node{node}/meminfo");
        let meminfo = std::fs::read_to_string(meminfo).unwrap();
        let total = meminfo.lines().find(|line| line.contains("MemTotal:")).unwrap();
        let total: u64 = total.split_whitespace().nth(3).unwrap().parse().unwrap();
        let share = (128 << 10) * 10_000 / total;
        // What is charged per CPU is flushed every 2 s only.
        let mut used = 0;
        for _ in 0..100 {
            used = group.read(|group| Metric::NodeMemcgUsedBp(id, group));
            if used >= share * 9 / 10 {
                break;
            }
            std::thread::sleep(std::time::Duration::from_millis(100));
        }
        assert!((share * 9 / 10..share * 2).contains(&used), "node {node}: {used} of {share} bp");
        let numa_maps = std::fs::read_to_string(format!("/proc/{}/numa_maps", target.pid()));
        let here: u64 = numa_maps
            .unwrap()
            .lines()
            .filter(|line| line.starts_with(&format!("{ARENA:x} ")))
            .filter_map(|line| {
                line.split(' ').find_map(|word| word.strip_prefix(&format!("N{node}=")))
            })
            .map(|pages| pages.parse::<u64>().unwrap())
            .sum();
        assert_eq!(here, 128 * MIB / 4096, "numa_maps says so");
    }
    assert_eq!(target.say("wrong"), "0", "pages with another content");
}
