//! Paths of cgroups from the root of the machine's hierarchy, also in a cgroup namespace.
//!
//! In a container `/proc/PID/cgroup` tells paths from the container's own cgroup: another pod is at
//! `/../../kubepods-podUID.slice/cri-containerd-ID.scope`, and what both paths have in common is
//! missing. A container that has the node's cgroups mounted, and sees its own pid there, can find
//! where it is itself. With that, the paths of all others are known.
//!
//! Only the hierarchy of version 2 is resolved: runtimes of containers make no cgroup namespace
//! where version 1 is in use.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use crate::metrics::Cgroups;
use crate::proc::Proc;

/// The cgroup namespace that a machine starts with (`PROC_CGROUP_INIT_INO`, Linux 4.6).
const INITIAL: &str = "cgroup:[4026531835]";
/// More cgroups than this are not searched.
const MOST: usize = 100_000;

/// Reads `/proc/PID/cgroup` into `buf`, which is emptied first. Its path of version 2 is the one
/// from the root of the machine's hierarchy, as far as that can be told.
///
/// # Errors
///
/// If the file cannot be read.
pub fn read_cgroup(proc: &Proc, pid: u32, buf: &mut Vec<u8>) -> io::Result<()> {
    proc.read(pid, "cgroup", buf)?;
    if proc.is_real()
        && let Some(root) = own_root()
    {
        *buf = absolute(buf, root);
    }
    Ok(())
}

/// The path of the cgroup that is the root of our own namespace, without a `/` at either end.
/// `None` if that is the machine's root, or cannot be told. It is looked up once: a process that
/// does not ask for it never comes to another cgroup namespace.
fn own_root() -> Option<&'static str> {
    static ROOT: OnceLock<Option<String>> = OnceLock::new();
    ROOT.get_or_init(|| root_of(&Proc::default(), std::process::id())).as_deref()
}

/// The same for the process `pid` of this `/proc`, whose `self` is that process.
fn root_of(proc: &Proc, pid: u32) -> Option<String> {
    let namespace = fs::read_link(proc.root().join("self/ns/cgroup")).ok()?;
    if namespace.as_os_str() == INITIAL {
        return None;
    }
    let text = fs::read_to_string(proc.root().join("self/cgroup")).ok()?;
    let inner = text.lines().find_map(|line| line.strip_prefix("0::/"))?;
    let mount = Cgroups::mounted(proc).v2?;
    let holder = holder_of(&mount, pid)?;
    let path = holder.strip_prefix(&mount).ok()?.to_str()?;
    let root = path.strip_suffix(inner)?.trim_end_matches('/');
    (!root.is_empty()).then(|| root.to_owned())
}

/// The cgroup below `mount` that the process is in.
fn holder_of(mount: &Path, pid: u32) -> Option<PathBuf> {
    let mut left = vec![mount.to_path_buf()];
    let mut seen = 0;
    while let Some(dir) = left.pop() {
        let members = fs::read_to_string(dir.join("cgroup.procs")).unwrap_or_default();
        if members.lines().any(|line| line.parse() == Ok(pid)) {
            return Some(dir);
        }
        seen += 1;
        if seen > MOST {
            return None;
        }
        let entries = fs::read_dir(&dir).into_iter().flatten().flatten();
        let below = entries.filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()));
        left.extend(below.map(|entry| entry.path()));
    }
    None
}

/// The text of a `/proc/PID/cgroup` with the path of version 2 from the machine's root, if `root`
/// is that of the namespace it was read in. A path from outside of what `root` tells stays as it
/// is.
fn absolute(text: &[u8], root: &str) -> Vec<u8> {
    let mut out = Vec::with_capacity(text.len() + root.len());
    for line in text.split_inclusive(|byte| *byte == b'\n') {
        let path = line.strip_prefix(b"0::/").and_then(|rest| std::str::from_utf8(rest).ok());
        match path.and_then(|path| from_root(path.trim_end_matches('\n'), root)) {
            Some(path) => {
                out.extend_from_slice(b"0::/");
                out.extend_from_slice(path.as_bytes());
                out.extend(line.ends_with(b"\n").then_some(b'\n'));
            }
            None => out.extend_from_slice(line),
        }
    }
    out
}

/// A path of the namespace, without its first `/`, from the machine's root.
fn from_root(path: &str, root: &str) -> Option<String> {
    let (mut above, mut below) = (root, path);
    loop {
        let (first, rest) = below.split_once('/').unwrap_or((below, ""));
        match first {
            ".." if above.is_empty() => return None,
            ".." => (above, below) = (above.rsplit_once('/').map_or("", |(front, _)| front), rest),
            _ => break,
        }
    }
    Some(match (above, below) {
        ("", path) | (path, "") => path.to_owned(),
        _ => format!("{above}/{below}"),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const OWN: &str = "kubepods/burstable/podA/ID";

    #[test]
    fn paths_of_a_namespace_become_those_of_the_machine() {
        for (path, expected) in [
            ("0::/\n", "0::/kubepods/burstable/podA/ID\n"),
            ("0::/inner\n", "0::/kubepods/burstable/podA/ID/inner\n"),
            ("0::/../ID2\n", "0::/kubepods/burstable/podA/ID2\n"),
            ("0::/../../podB/ID\n", "0::/kubepods/burstable/podB/ID\n"),
            ("0::/..x/y\n", "0::/kubepods/burstable/podA/ID/..x/y\n"),
            ("0::/../../../podC\n", "0::/kubepods/podC\n"),
            ("0::/../../../../init.scope\n", "0::/init.scope\n"),
            ("0::/../../../..\n", "0::/\n"),
            ("0::/../../../../../x\n", "0::/../../../../../x\n"),
            ("4:memory:/../x\n0::/../y", "4:memory:/../x\n0::/kubepods/burstable/podA/y"),
            ("", ""),
            ("nonsense\n", "nonsense\n"),
        ] {
            let found = absolute(path.as_bytes(), OWN);
            assert_eq!(String::from_utf8_lossy(&found), expected, "{path}");
        }
    }

    #[test]
    fn our_own_place_is_found_by_our_pid() {
        let dir = tempfile::tempdir().unwrap();
        let at = |path: &str| dir.path().join(path);
        let put = |path: &str, text: &str| {
            fs::create_dir_all(at(path).parent().unwrap()).unwrap();
            fs::write(at(path), text).unwrap();
        };
        let mount = at("cg").display().to_string();
        put(
            "proc/self/mountinfo",
            &format!("25 1 0:22 /../../.. {mount} rw - cgroup2 cgroup2 rw\n"),
        );
        put("proc/self/cgroup", "4:memory:/x\n0::/inner\n");
        put("cg/cgroup.procs", "1\n");
        put("cg/kubepods/podB/ID/cgroup.procs", "770\n");
        put("cg/kubepods/podA/ID/inner/cgroup.procs", "69\n77\n");
        let proc = Proc::new(at("proc"));
        let named = |name: &str| {
            fs::create_dir_all(at("proc/self/ns")).unwrap();
            fs::remove_file(at("proc/self/ns/cgroup")).ok();
            std::os::unix::fs::symlink(name, at("proc/self/ns/cgroup")).unwrap();
        };
        named("cgroup:[4026532000]");
        assert_eq!(root_of(&proc, 77).as_deref(), Some("kubepods/podA/ID"));
        assert_eq!(root_of(&proc, 78), None, "it is in none of the mounted cgroups");
        assert_eq!(root_of(&proc, 1), None, "the mount shows no more than our own cgroup");
        named(INITIAL);
        assert_eq!(root_of(&proc, 77), None, "paths are the machine's already");
    }
}
