//! Whether the kernel is reclaiming a process's memory: counters that grow only while it looks for
//! something to take.
//!
//! | kernel's counter | where | grows when |
//! |---|---|---|
//! | `pgscan` | `memory.stat` of the v2 cgroup | pages charged to it were looked at |
//! | `memory.failcnt` | the v1 memory cgroup and those above it | a limit was reached |
//! | `pgscan_kswapd`, `pgscan_direct` | `/proc/vmstat` | the machine runs short |
//!
//! Pages that are paged out on request (`MADV_PAGEOUT`, DAMON) are in none of them (`mm/vmscan.c`,
//! Linux 6.18).

use std::path::{Path, PathBuf};

use crate::metrics::Cgroups;
use crate::proc::Proc;

/// Reads the counters of processes.
#[derive(Debug)]
pub struct Reclaim {
    proc: Proc,
    cgroups: Cgroups,
    text: Vec<u8>,
}

impl Reclaim {
    /// Of this machine.
    #[must_use]
    pub fn of_machine() -> Self {
        let proc = Proc::default();
        let cgroups = Cgroups::mounted(&proc);
        Self::new(proc, cgroups)
    }

    /// Of the machine with these files.
    #[must_use]
    pub const fn new(proc: Proc, cgroups: Cgroups) -> Self {
        Self { proc, cgroups, text: Vec::new() }
    }

    /// The sum of all counters that concern this process: pages, and reached limits. It says
    /// nothing by itself; that it grows does. It falls when the process moves to another cgroup.
    pub fn total(&mut self, pid: u32) -> u64 {
        self.of_machine_now().saturating_add(self.of_cgroup(pid).unwrap_or(0))
    }

    fn of_machine_now(&mut self) -> u64 {
        if self.proc.read_system("vmstat", &mut self.text).is_err() {
            return 0;
        }
        let text = String::from_utf8_lossy(&self.text);
        ["pgscan_kswapd", "pgscan_direct"].iter().filter_map(|name| field(&text, name)).sum()
    }

    fn of_cgroup(&mut self, pid: u32) -> Option<u64> {
        self.proc.read(pid, "cgroup", &mut self.text).ok()?;
        let text = String::from_utf8_lossy(&self.text).into_owned();
        let mut lines = text.lines().map(|line| line.splitn(3, ':'));
        // 4:memory:/a/b of v1 counts if it is there, else 0::/a/b of v2.
        let v1 = lines.clone().find_map(|mut line| {
            let is_memory = line.nth(1)?.split(',').any(|name| name == "memory");
            is_memory.then(|| line.next())?
        });
        if let (Some(path), Some(mount)) = (v1, self.cgroups.v1_of("memory")) {
            return Some(reached_limits(mount, path));
        }
        let v2 = lines.find_map(|mut line| if line.next()? == "0" { line.nth(1) } else { None })?;
        let dir = directory(self.cgroups.v2.as_deref()?, v2)?;
        field(&std::fs::read_to_string(dir.join("memory.stat")).ok()?, "pgscan")
    }
}

/// How often the limits of a v1 memory cgroup and of those above it were reached.
fn reached_limits(mount: &Path, path: &str) -> u64 {
    let Some(dir) = directory(mount, path) else { return 0 };
    let all = dir.ancestors().take_while(|dir| dir.starts_with(mount));
    let counts = all.filter_map(|dir| std::fs::read_to_string(dir.join("memory.failcnt")).ok());
    counts.filter_map(|text| text.trim().parse::<u64>().ok()).fold(0, u64::saturating_add)
}

/// A cgroup's directory. In a container the path may lie outside of what is mounted; then the
/// mount's own directory stands for it.
fn directory(mount: &Path, path: &str) -> Option<PathBuf> {
    let below = Path::new(path.strip_prefix('/')?);
    let is_plain = below.components().all(|c| matches!(c, std::path::Component::Normal(_)));
    let dir = mount.join(below);
    Some(if is_plain && dir.is_dir() { dir } else { mount.to_path_buf() })
}

/// The number behind `name ` at the begin of a line.
fn field(text: &str, name: &str) -> Option<u64> {
    let line = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '))?;
    line.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    /// A machine with one process, number 7.
    fn machine(cgroup: &str, files: &[(&str, &str)], cgroups: fn(&Path) -> Cgroups) -> u64 {
        let dir = tempfile::tempdir().unwrap();
        let write = |path: &str, text: &str| {
            let path = dir.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        };
        write("proc/7/cgroup", cgroup);
        files.iter().for_each(|(path, text)| write(path, text));
        let proc = Proc::new(dir.path().join("proc"));
        Reclaim::new(proc, cgroups(&dir.path().join("cg"))).total(7)
    }

    #[test]
    fn the_counters_that_concern_a_process_are_added_up() {
        let vmstat = ("proc/vmstat", "pgscan_kswapd 30\npgscan_direct 4\npgscan_anon 9\n");
        let v1 = |at: &Path| Cgroups {
            v1: vec![("memory".into(), at.to_path_buf())],
            ..Cgroups::default()
        };
        let v2 = |at: &Path| Cgroups { v2: Some(at.to_path_buf()), ..Cgroups::default() };
        let stat = ("cg/a/memory.stat", "anon 1\npgscan 500\npgscan_direct 7\n");
        for (name, cgroup, files, cgroups, total) in [
            ("nothing known", "", vec![], v2 as fn(&Path) -> Cgroups, 0),
            ("machine", "0::/\n", vec![vmstat], v2, 34),
            ("v2", "0::/a\n", vec![vmstat, stat], v2, 534),
            (
                "v2, outside of the container",
                "0::/../x\n",
                vec![("cg/memory.stat", "pgscan 3")],
                v2,
                3,
            ),
            (
                "v1, also above it",
                "4:cpu,memory:/a/b\n0::/\n",
                vec![
                    ("cg/a/b/memory.failcnt", "20\n"),
                    ("cg/a/memory.failcnt", "1\n"),
                    ("cg/memory.failcnt", "0\n"),
                ],
                v1,
                21,
            ),
        ] {
            assert_eq!(machine(cgroup, &files, cgroups), total, "{name}");
        }
    }
}
