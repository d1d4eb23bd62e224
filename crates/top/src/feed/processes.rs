//! The processes that there are, and which of them are wanted.
//!
//! They are listed every two seconds: one file per process tells its name, parent, size and when it
//! began. It is read at once for a process that is new, and else in one listing out of four, so
//! sizes are up to eight seconds old. Kernel threads have no memory and are left out; so are we.

use std::collections::{BTreeMap, BTreeSet};
use std::io;

use isotherm::raw::agent::policy::TargetSpec;
use isotherm::raw::core::addr::PAGE_SIZE;
use isotherm::raw::host::namespace::read_cgroup;
use isotherm::raw::host::proc::{Proc, TaskState};
use isotherm::raw::ops::targets::cgroup::{cgroup_to_show, path_is_of_unit, path_matches};
use isotherm::raw::ops::targets::find::name_matches;
use isotherm::raw::ops::targets::roster::{Roster, Rule};
use isotherm::raw::sys::clock;

/// Which processes to show. Nothing means all of them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Wanted {
    /// Those that match one of these.
    pub specs: Vec<TargetSpec>,
    /// Whether their children are shown as well.
    pub children: bool,
}

impl Default for Wanted {
    /// All of them.
    fn default() -> Self {
        Self { specs: Vec::new(), children: true }
    }
}

impl Wanted {
    /// The processes that are named by their pids.
    pub(crate) fn pids(&self) -> impl Iterator<Item = u32> {
        self.specs.iter().filter_map(|spec| match spec {
            TargetSpec::Pid(pid) => Some(*pid),
            _ => None,
        })
    }

    /// Whether there are processes, and all of them are named by their pids.
    pub(crate) fn is_explicit(&self) -> bool {
        let is_pid = |spec: &TargetSpec| matches!(spec, TargetSpec::Pid(_));
        !self.specs.is_empty() && self.specs.iter().all(is_pid)
    }

    fn matches(&self, pid: u32, process: &Process) -> bool {
        self.specs.iter().any(|spec| match spec {
            TargetSpec::Pid(wanted) => *wanted == pid,
            TargetSpec::Name(pattern) => name_matches(process.name.as_bytes(), pattern),
            TargetSpec::Cgroup(pattern) => {
                process.cgroups.iter().any(|path| path_matches(path.as_bytes(), pattern))
            }
            TargetSpec::Unit(name) => {
                process.cgroups.iter().any(|path| path_is_of_unit(path.as_bytes(), name))
            }
            TargetSpec::Rss(least) => process.rss >= *least,
            // The roster knows them.
            TargetSpec::Pod(_) | TargetSpec::Container(_) | TargetSpec::User(_) => false,
            TargetSpec::Memory(_) | TargetSpec::Command(_) => false,
        })
    }
}

/// A process as it was listed.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Process {
    pub(crate) ppid: u32,
    pub(crate) name: String,
    pub(crate) start_ticks: u64,
    pub(crate) rss: u64,
    /// The cgroup to show.
    pub(crate) cgroup: String,
    /// Its effective user.
    pub(crate) uid: Option<u32>,
    /// The paths of its cgroups in all hierarchies.
    cgroups: Vec<String>,
}

/// The processes that there are.
#[derive(Debug)]
pub(crate) struct Processes {
    proc: Proc,
    wanted: Wanted,
    all: BTreeMap<u32, Process>,
    kernel_threads: BTreeSet<u32>,
    /// Finds those of pods, containers and users; none if none are wanted.
    roster: Option<Roster>,
    lists: u32,
    buf: Vec<u8>,
}

/// In one listing out of so many a process that is known is read again.
const READ_EVERY: u32 = 4;
/// After so many listings a pid that was a kernel thread is looked at again.
const FORGET_EVERY: u32 = 32;

impl Processes {
    pub(crate) fn new(proc: Proc, wanted: Wanted) -> Self {
        let (all, kernel_threads) = (BTreeMap::new(), BTreeSet::new());
        let names = |rule: &Rule| matches!(rule, Rule::Pod(_) | Rule::Container(_) | Rule::User(_));
        let rules = wanted.specs.iter().filter_map(TargetSpec::rule).filter(names);
        let rules: Vec<Rule> = rules.collect();
        let roster = (!rules.is_empty()).then(|| Roster::new(proc.clone(), "/", rules));
        Self { proc, wanted, all, kernel_threads, roster, lists: 0, buf: Vec::new() }
    }

    /// Lists them anew.
    pub(crate) fn list(&mut self) -> io::Result<()> {
        let mut pids = Vec::new();
        self.proc.for_each_pid(|pid| pids.push(pid))?;
        self.lists = self.lists.wrapping_add(1);
        if let Some(roster) = &mut self.roster {
            roster.poll(clock::now());
        }
        if self.lists.is_multiple_of(FORGET_EVERY) {
            self.kernel_threads.clear();
        }
        let mut before = std::mem::take(&mut self.all);
        for pid in pids {
            if self.kernel_threads.contains(&pid) || pid == std::process::id() {
                continue;
            }
            if !pid.wrapping_add(self.lists).is_multiple_of(READ_EVERY)
                && let Some(old) = before.remove(&pid)
            {
                self.all.insert(pid, old);
                continue;
            }
            let Ok(stat) = self.proc.stat(pid, &mut self.buf) else { continue };
            if stat.is_kthread {
                self.kernel_threads.insert(pid);
                continue;
            }
            if stat.state != TaskState::Alive && stat.num_threads <= 1 {
                continue;
            }
            let mut process = Process {
                ppid: stat.ppid,
                name: String::from_utf8_lossy(stat.comm).into_owned(),
                start_ticks: stat.starttime,
                rss: stat.rss_pages.saturating_mul(PAGE_SIZE),
                ..Process::default()
            };
            let same = before.get(&pid).filter(|old| old.start_ticks == process.start_ticks);
            // A process that has just been started is often moved to its cgroup.
            match same {
                Some(old) if self.lists % FORGET_EVERY >= READ_EVERY => {
                    process.cgroup.clone_from(&old.cgroup);
                    process.cgroups.clone_from(&old.cgroups);
                    process.uid = old.uid;
                }
                _ => {
                    (process.cgroup, process.cgroups) = self.cgroups(pid);
                    let status = self.proc.status(pid, &mut self.buf);
                    process.uid = status.ok().map(|status| status.euid);
                }
            }
            self.all.insert(pid, process);
        }
        Ok(())
    }

    /// The path of the process's cgroup to show: of v2 if it is in one, else of the memory
    /// controller, else systemd's name of it. Then those of all hierarchies, once each.
    fn cgroups(&mut self, pid: u32) -> (String, Vec<String>) {
        if read_cgroup(&self.proc, pid, &mut self.buf).is_err() {
            return (String::new(), Vec::new());
        }
        let text = String::from_utf8_lossy(&self.buf);
        let paths = text.lines().filter_map(|line| line.splitn(3, ':').nth(2));
        let paths: BTreeSet<&str> = paths.collect();
        (cgroup_to_show(&text).to_owned(), paths.into_iter().map(str::to_owned).collect())
    }

    /// The wanted ones, the largest first.
    pub(crate) fn wanted(&self) -> Vec<(u32, &Process)> {
        let is_all = self.wanted.specs.is_empty();
        let mut found: BTreeSet<u32> = BTreeSet::new();
        let matching = self.all.iter().filter(|(pid, p)| is_all || self.wanted.matches(**pid, p));
        found.extend(matching.map(|(pid, _)| *pid));
        let by_roster = self.roster.iter().flat_map(Roster::members);
        found.extend(by_roster.filter(|pid| self.all.contains_key(pid)));
        let with_children = !is_all && self.wanted.children;
        loop {
            let children = self
                .all
                .iter()
                .filter(|(pid, process)| !found.contains(pid) && found.contains(&process.ppid));
            let children: Vec<u32> = children.map(|(pid, _)| *pid).collect();
            if !with_children || children.is_empty() {
                break;
            }
            found.extend(children);
        }
        let mut out: Vec<_> =
            found.iter().filter_map(|pid| Some((*pid, self.all.get(pid)?))).collect();
        out.sort_by_key(|(pid, process)| (std::cmp::Reverse(process.rss), *pid));
        out
    }

    /// A process, if it was there at the last listing.
    pub(crate) fn get(&self, pid: u32) -> Option<&Process> {
        self.all.get(&pid)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A process `(pid, ppid, name, pages, cgroup)` below a made-up `/proc`.
    fn made_up(processes: &[(u32, u32, &str, u64, &str)]) -> (tempfile::TempDir, Proc) {
        let dir = tempfile::tempdir().unwrap();
        for (pid, ppid, name, pages, cgroup) in processes {
            let at = dir.path().join(pid.to_string());
            std::fs::create_dir(&at).unwrap();
            let stat = format!(
                "{pid} ({name}) S {ppid} 1 1 0 -1 4194304 1 0 0 0 1 1 0 0 20 0 1 0 77 1000000 {pages} \
                 18446744073709551615 1 2 3 4 5 0 0 0 0 0 0 0 17 0 0 0 0 0 0 6 7 8 9 10 11 12 0\n"
            );
            std::fs::write(at.join("stat"), stat).unwrap();
            std::fs::write(at.join("cgroup"), format!("0::{cgroup}\n")).unwrap();
        }
        let proc = Proc::new(dir.path());
        (dir, proc)
    }

    fn found(wanted: Wanted) -> Vec<u32> {
        let (_dir, proc) = made_up(&[
            (10, 1, "init", 1, "/"),
            (20, 10, "postgres", 100, "/system.slice/postgresql.service"),
            (21, 20, "postgres", 300, "/system.slice/postgresql.service/inner"),
            (30, 10, "sshd", 5, "/system.slice/ssh.service"),
            (31, 30, "bash", 7, "/user.slice"),
        ]);
        let mut processes = Processes::new(proc, wanted);
        processes.list().unwrap();
        processes.wanted().iter().map(|(pid, _)| *pid).collect()
    }

    #[test]
    fn what_is_wanted_comes_largest_first_with_its_children() {
        let of = |spec, children| found(Wanted { specs: vec![spec], children });
        let name = |text: &str| TargetSpec::Name(text.to_owned());
        let unit = |text: &str| TargetSpec::Unit(text.to_owned());
        let cgroup = |text: &str| TargetSpec::Cgroup(text.to_owned());
        assert_eq!(found(Wanted::default()), [21, 20, 31, 30, 10]);
        assert_eq!(of(TargetSpec::Pid(30), true), [31, 30]);
        assert_eq!(of(TargetSpec::Pid(30), false), [30]);
        assert_eq!(of(name("post*"), true), [21, 20]);
        assert_eq!(of(unit("postgresql"), true), [21, 20]);
        assert_eq!(of(unit("ssh.service"), false), [30]);
        assert_eq!(of(cgroup("/system.slice"), false), [21, 20, 30]);
        assert_eq!(of(cgroup("*/postgresql.service"), false), [21, 20]);
        assert_eq!(of(cgroup("system"), false), [0; 0]);
    }

    #[test]
    fn what_has_ended_is_gone_and_what_has_grown_shows_soon() {
        let (dir, proc) = made_up(&[(10, 1, "a", 1, "/"), (11, 1, "b", 2, "/")]);
        let mut processes = Processes::new(proc, Wanted::default());
        processes.list().unwrap();
        std::fs::remove_dir_all(dir.path().join("11")).unwrap();
        let stat = dir.path().join("10/stat");
        let text = std::fs::read_to_string(&stat).unwrap();
        std::fs::write(&stat, text.replace("1000000 1 ", "1000000 7 ")).unwrap();
        (0..READ_EVERY).for_each(|_| processes.list().unwrap());
        let left: Vec<_> = processes.wanted().iter().map(|(pid, p)| (*pid, p.rss >> 12)).collect();
        assert_eq!(left, [(10, 7)]);
    }

    #[test]
    fn a_cgroup_is_of_v2_or_of_the_memory_controller() {
        for (text, path) in [
            ("0::/a/b\n", "/a/b"),
            ("5:cpu,cpuacct:/x\n4:memory:/m:n\n1:name=systemd:/s\n0::/\n", "/m:n"),
            ("1:name=systemd:/s\n0::/\n", "/s"),
            ("0::/\n", "/"),
            ("", "/"),
        ] {
            assert_eq!(cgroup_to_show(text), path);
        }
    }
}
