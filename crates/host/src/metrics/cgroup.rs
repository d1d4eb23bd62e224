//! Cgroups: where their hierarchies are mounted, and who is in them.
//!
//! A cgroup is named by its path below the mount of its hierarchy (`system.slice/redis.service`),
//! with or without a leading `/`. The full path of its directory names it as well.
//!
//! Machines come in three kinds: v2 only, v1 only, and hybrid, where v2 is mounted beside the v1
//! hierarchies, often without a controller in it. So the mounts are looked up, not assumed.

use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Component, Path, PathBuf};

use super::error::{self, MetricError, MetricKind, because};
use crate::proc::Proc;

/// The hierarchies that are mounted.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Cgroups {
    /// Where v2 is mounted.
    pub v2: Option<PathBuf>,
    /// The v1 hierarchies: their controllers (or `name=...`) and where they are mounted.
    pub v1: Vec<(String, PathBuf)>,
}

/// Lists the processes in a cgroup of this machine and in all cgroups below it, sorted.
///
/// # Errors
///
/// See [`Cgroups::procs`].
pub fn procs(path: &str) -> Result<Vec<u32>, MetricError> {
    Cgroups::mounted(&Proc::default()).procs(path)
}

impl Cgroups {
    /// Looks up what is mounted; nothing if that cannot be told.
    #[must_use]
    pub fn mounted(proc: &Proc) -> Self {
        let mut buf = Vec::new();
        match proc.read_system("self/mountinfo", &mut buf) {
            Ok(()) => Self::parse(&String::from_utf8_lossy(&buf)),
            Err(_) => Self::default(),
        }
    }

    /// From the text of a `mountinfo` file. Of several mounts of one hierarchy the first counts.
    fn parse(text: &str) -> Self {
        let mut out = Self::default();
        for line in text.lines() {
            let Some((front, back)) = line.split_once(" - ") else { continue };
            let Some(point) = front.split(' ').nth(4).map(unescape) else { continue };
            let mut back = back.split(' ');
            let (kind, options) = (back.next(), back.nth(1).unwrap_or_default());
            match kind {
                Some("cgroup2") if out.v2.is_none() => out.v2 = Some(point),
                Some("cgroup") => {
                    let mut names = options.split(',').filter(|o| !NOT_CONTROLLERS.contains(o));
                    let first = names.next().unwrap_or_default().to_owned();
                    let name = names.fold(first, |all, name| all + "," + name);
                    if out.v1.iter().all(|(known, _)| *known != name) {
                        out.v1.push((name, point));
                    }
                }
                _ => {}
            }
        }
        out
    }

    /// Where the v1 hierarchy with this controller is mounted.
    #[must_use]
    pub fn v1_of(&self, controller: &str) -> Option<&Path> {
        let mut v1 = self.v1.iter();
        v1.find(|(names, _)| names.split(',').any(|n| n == controller)).map(|(_, at)| at.as_path())
    }

    /// The directory of a v2 cgroup.
    pub(super) fn v2_dir(&self, path: &str) -> Result<PathBuf, MetricError> {
        let Some(mount) = &self.v2 else { return Err(self.no_v2()) };
        let Some(below) = below(mount, path) else { return Err(bad_path(path)) };
        let dir = mount.join(below);
        if dir.is_dir() { Ok(dir) } else { Err(self.no_cgroup(path, mount, &dir)) }
    }

    /// Lists the processes in a cgroup and in all cgroups below it, sorted. The cgroup may be of v2
    /// or of v1 hierarchies; if several have one of that name, those of all of them are listed.
    ///
    /// # Errors
    ///
    /// If there is no such cgroup, or it cannot be read.
    pub fn procs(&self, path: &str) -> Result<Vec<u32>, MetricError> {
        let mut pids = Vec::new();
        let listed = self.dirs(path).and_then(|dirs| {
            // A hierarchy in which the cgroup has no processes says nothing about the others.
            let read = |dir: &PathBuf| members(dir, true, &mut pids);
            let (read, failed): (Vec<_>, Vec<_>) = dirs.iter().map(read).partition(Result::is_ok);
            match failed.into_iter().next() {
                Some(Err(why)) if read.is_empty() => Err(why),
                _ => Ok(()),
            }
        });
        listed.map_err(|why| error::of(why, &format!("cgroup `{path}`")))?;
        pids.sort_unstable();
        pids.dedup();
        Ok(pids)
    }

    /// The number by which `/proc/kpagecgroup` tells the cgroup that memory is charged to: the
    /// inode of its directory in the hierarchy that has the memory controller (v1's, where that is
    /// mounted).
    ///
    /// # Errors
    ///
    /// If there is no such cgroup, or none that memory is charged to.
    pub fn memory_id(&self, path: &str) -> Result<u64, MetricError> {
        let found = self.memory_dir(path).and_then(|dir| {
            let stat = dir.join("memory.stat");
            if !stat.exists() {
                let why = "the memory controller is not enabled for it, so that no memory is charged to it";
                let hint = "write `+memory` to cgroup.subtree_control of the cgroup above it";
                let tried = format!("find {}", stat.display());
                return Err(because(MetricKind::NoMemoryController, tried, why, hint));
            }
            Ok(fs::metadata(&dir).map_err(|e| unreadable(&dir, e))?.ino())
        });
        found.map_err(|why| error::of(why, &format!("memory of cgroup `{path}`")))
    }

    fn memory_dir(&self, path: &str) -> Result<PathBuf, MetricError> {
        let Some(mount) = self.v1_of("memory") else { return self.v2_dir(path) };
        let Some(below) = below(mount, path) else { return Err(bad_path(path)) };
        let dir = mount.join(below);
        if dir.is_dir() { Ok(dir) } else { Err(self.no_cgroup(path, mount, &dir)) }
    }

    /// `path` below the mount of its hierarchy, if it is the full path of a cgroup's directory.
    #[must_use]
    pub fn below_mount<'p>(&self, path: &'p str) -> &'p str {
        let mut mounts = self.v2.iter().chain(self.v1.iter().map(|(_, at)| at));
        let mut below = |mount: &PathBuf| path.strip_prefix(mount.to_str()?);
        let found =
            mounts.by_ref().filter_map(&mut below).find(|b| b.is_empty() || b.starts_with('/'));
        found.unwrap_or(path)
    }

    /// The directories of a cgroup, one for each hierarchy that has it; v2's comes first.
    fn dirs(&self, path: &str) -> Result<Vec<PathBuf>, MetricError> {
        let memory = self.v1_of("memory");
        let mut dirs = Vec::new();
        for mount in self.v2.iter().chain(self.v1.iter().map(|(_, at)| at)) {
            let Some(below) = below(mount, path) else { return Err(bad_path(path)) };
            let dir = mount.join(below);
            if dir.is_dir() {
                dirs.push(dir);
            }
        }
        if !dirs.is_empty() {
            return Ok(dirs);
        }
        match self.v2.as_deref().or(memory) {
            Some(mount) => Err(self.no_cgroup(path, mount, &mount.join(path.trim_matches('/')))),
            None => Err(self.no_v2()),
        }
    }

    fn no_v2(&self) -> MetricError {
        let why = match self.v1.as_slice() {
            [] => "no cgroups are mounted".to_owned(),
            [(_, at), ..] => format!("only cgroup v1 is mounted ({})", at.display()),
        };
        because(
            MetricKind::NoCgroup2,
            "find cgroup2 in /proc/self/mountinfo",
            why,
            "boot with systemd.unified_cgroup_hierarchy=1, or `mkdir /sys/fs/cgroup/unified && mount -t \
             cgroup2 none /sys/fs/cgroup/unified`",
        )
    }

    fn no_cgroup(&self, path: &str, mount: &Path, dir: &Path) -> MetricError {
        let elsewhere = self.v1.iter().find_map(|(name, at)| {
            let dir = at.join(below(at, path)?);
            (dir != *at && dir.is_dir()).then(|| format!("{name} ({})", dir.display()))
        });
        let why = elsewhere.map_or_else(
            || "there is no such cgroup; it may have just been removed".to_owned(),
            |v1| format!("it is a cgroup of v1's hierarchy {v1}, not of v2"),
        );
        let near = dir.ancestors().find(|dir| dir.is_dir()).unwrap_or(mount);
        let mut names = children(near);
        names.sort_unstable();
        let names = if names.is_empty() { "none".to_owned() } else { some_of(&names) };
        let hint = format!(
            "give its path below {}; below {} there are: {names}",
            mount.display(),
            near.display()
        );
        because(MetricKind::NoCgroup, format!("open {}", dir.display()), why, hint)
    }
}

/// Mount options of v1 that are no controllers.
const NOT_CONTROLLERS: [&str; 8] =
    ["rw", "ro", "noprefix", "clone_children", "xattr", "favordynmods", "cpuset_v2_mode", ""];

/// `path` as a path below `mount`: names only. `None` if it tries to leave it.
fn below<'p>(mount: &Path, path: &'p str) -> Option<&'p Path> {
    let path = Path::new(path);
    let path = match path.strip_prefix(mount) {
        Ok(below) => below,
        Err(_) => path.strip_prefix("/").unwrap_or(path),
    };
    let names_only =
        path.components().all(|c| matches!(c, Component::Normal(_) | Component::CurDir));
    names_only.then_some(path)
}

fn bad_path(path: &str) -> MetricError {
    because(
        MetricKind::NoCgroup,
        format!("find `{path}`"),
        "a cgroup's path has no `..` in it",
        "give its path below the mount, as `0::/...` in /proc/PID/cgroup",
    )
}

/// The first few names.
fn some_of(names: &[String]) -> String {
    const MAX: usize = 8;
    let more = if names.len() > MAX { ", ..." } else { "" };
    names.iter().take(MAX).map(String::as_str).collect::<Vec<_>>().join(", ") + more
}

fn children(dir: &Path) -> Vec<String> {
    let entries = fs::read_dir(dir).into_iter().flatten().flatten();
    let dirs = entries.filter(|e| e.file_type().is_ok_and(|t| t.is_dir()));
    dirs.map(|e| e.file_name().to_string_lossy().into_owned()).collect()
}

/// Adds the members of `dir` and below. Below `top`, cgroups that are gone again or that have only
/// threads (their processes are counted above) are passed over.
fn members(dir: &Path, top: bool, pids: &mut Vec<u32>) -> Result<(), MetricError> {
    let file = dir.join("cgroup.procs");
    match fs::read_to_string(&file) {
        // 0 stands for a process that cannot be seen from our pid namespace.
        Ok(text) => {
            pids.extend(text.lines().filter_map(|l| l.parse::<u32>().ok()).filter(|&pid| pid != 0));
        }
        Err(err) if top => return Err(unreadable(&file, err)),
        Err(_) => {}
    }
    children(dir).iter().try_for_each(|name| members(&dir.join(name), false, pids))
}

fn unreadable(file: &Path, err: io::Error) -> MetricError {
    let tried = format!("read {}", file.display());
    let reason = match err.kind() {
        io::ErrorKind::PermissionDenied => {
            because(MetricKind::Permission, tried, "the file is not for everybody", "run as root")
        }
        io::ErrorKind::NotFound => because(
            MetricKind::NoCgroup,
            tried,
            "this directory is no cgroup",
            "/proc/PID/cgroup names those of a process",
        ),
        _ if is_not_supported(&err) => because(
            MetricKind::NoCgroup,
            tried,
            "this cgroup has threads, not processes",
            "give the cgroup above it that has the processes",
        ),
        _ => because(
            MetricKind::Unexpected,
            tried,
            "the kernel gave an answer that was not expected",
            "",
        ),
    };
    reason.with(err)
}

/// EOPNOTSUPP.
pub(super) fn is_not_supported(err: &io::Error) -> bool {
    err.raw_os_error() == Some(rustix::io::Errno::OPNOTSUPP.raw_os_error())
}

/// A path out of `mountinfo`, where blanks and backslashes are octal numbers.
fn unescape(text: &str) -> PathBuf {
    let mut out = String::new();
    let mut rest = text;
    while let Some((front, back)) = rest.split_once('\\') {
        out.push_str(front);
        match back.get(..3).and_then(|octal| u8::from_str_radix(octal, 8).ok()) {
            Some(byte) => {
                out.push(char::from(byte));
                rest = back.get(3..).unwrap_or_default();
            }
            None => {
                out.push('\\');
                rest = back;
            }
        }
    }
    out.push_str(rest);
    PathBuf::from(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mounts() {
        let v2 = "25 1 0:22 / /sys/fs/cgroup rw,nosuid shared:4 - cgroup2 cgroup2 rw,nsdelegate\n";
        let hybrid = "31 23 0:28 / /sys/fs/cgroup rw - tmpfs tmpfs rw,mode=755\n\
                      32 31 0:29 / /sys/fs/cgroup/cpu,cpuacct rw - cgroup cgroup rw,cpu,cpuacct\n\
                      35 31 0:32 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n\
                      40 31 0:37 / /sys/fs/cgroup/systemd rw - cgroup cgroup rw,xattr,name=systemd\n\
                      41 31 0:38 / /sys/fs/cgroup/uni\\040fied rw - cgroup2 cgroup2 rw\n";
        assert_eq!(Cgroups::parse(v2).v2, Some("/sys/fs/cgroup".into()));
        assert_eq!(Cgroups::parse(v2).v1, []);
        let found = Cgroups::parse(hybrid);
        assert_eq!(found.v2, Some("/sys/fs/cgroup/uni fied".into()));
        let names: Vec<_> = found.v1.iter().map(|(names, _)| names.as_str()).collect();
        assert_eq!(names, ["cpu,cpuacct", "memory", "name=systemd"]);
        assert_eq!(found.v1_of("memory"), Some(Path::new("/sys/fs/cgroup/memory")));
        assert_eq!(found.v1_of("cpuacct"), Some(Path::new("/sys/fs/cgroup/cpu,cpuacct")));
        assert_eq!(found.v1_of("pids"), None);
        assert_eq!(Cgroups::parse("nonsense\n - \n"), Cgroups::default());
    }

    #[test]
    fn paths() {
        let mount = Path::new("/sys/fs/cgroup");
        for (path, found) in [
            ("", Some("")),
            ("/", Some("")),
            ("a/b", Some("a/b")),
            ("/a/b/", Some("a/b/")),
            ("/sys/fs/cgroup/a", Some("a")),
            ("/sys/fs/cgroup", Some("")),
            ("../a", None),
            ("/a/../../b", None),
        ] {
            assert_eq!(below(mount, path), found.map(Path::new), "{path}");
        }
    }
}
