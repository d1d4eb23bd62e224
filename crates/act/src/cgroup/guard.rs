//! Which cgroups nothing is taken from.
//!
//! * The root of all cgroups: that would be the whole machine.
//! * One that holds the machine's init process, or that is above one that does.
//! * One that holds us: we would page out what we need to act.

use std::path::{Path, PathBuf};

use isotherm_host::namespace::read_cgroup;
use isotherm_host::proc::Proc;
use isotherm_ops::targets::find::is_init;

use crate::error::{self, ActError, ActKind};

/// Why nothing may be taken from the cgroup at `dir`; `mount` is where version 2 is mounted.
///
/// # Errors
///
/// The cgroup is one that has to be left alone. The error says which.
pub(super) fn check(dir: &Path, mount: &Path, proc: &Proc) -> Result<(), ActError> {
    let refuse = |why: &str, hint: &str| {
        let subject = format!("cgroup {}", dir.display());
        Err(error::about(&subject, ActKind::Unsafe, "", why, hint))
    };
    if dir == mount || !dir.starts_with(mount) {
        return refuse("it is the root of all cgroups", "name cgroups below it");
    }
    let holds = |pid: u32| cgroup_of(pid, mount, proc).is_some_and(|of| of.starts_with(dir));
    if is_init(proc, 1) && holds(1) {
        let hint = "name cgroups of services, such as system.slice/*.service";
        return refuse("the machine's init process is in it, or below it", hint);
    }
    if holds(std::process::id()) {
        return refuse("Isotherm itself is in it, or below it", "run Isotherm in another cgroup");
    }
    Ok(())
}

/// The directory of a process's cgroup of version 2; `None` if that cannot be told.
pub(super) fn cgroup_of(pid: u32, mount: &Path, proc: &Proc) -> Option<PathBuf> {
    let mut text = Vec::new();
    read_cgroup(proc, pid, &mut text).ok()?;
    let text = String::from_utf8_lossy(&text);
    let path = text.lines().find_map(|line| line.strip_prefix("0::"))?;
    // Within a cgroup namespace that is not ours the path begins with `/..`.
    let is_outside = path.split('/').any(|part| part == "..");
    (!is_outside).then(|| mount.join(path.trim_matches('/')))
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn the_root_init_and_our_own_are_left_alone() {
        let root = tempfile::tempdir().unwrap();
        let (proc, mount) = (Proc::new(root.path().join("proc")), root.path().join("cg"));
        let put = |pid: u32, path: &str| {
            let dir = root.path().join(format!("proc/{pid}"));
            fs::create_dir_all(&dir).unwrap();
            fs::write(dir.join("cgroup"), format!("4:memory:/x\n0::{path}\n")).unwrap();
        };
        put(1, "/init.scope");
        put(std::process::id(), "/system.slice/isotherm.service");
        put(70, "/../outside");
        for (dir, part) in [
            ("", "root"),
            ("init.scope", "init process"),
            ("system.slice", "Isotherm itself"),
            ("system.slice/isotherm.service", "Isotherm itself"),
        ] {
            let refused = check(&mount.join(dir), &mount, &proc).unwrap_err();
            assert_eq!(refused.kind(), ActKind::Unsafe);
            assert!(refused.why().contains(part), "{dir}: {refused}");
        }
        assert!(check(root.path(), &mount, &proc).is_err(), "it is no cgroup of this mount");
        for dir in ["system.slice/redis.service", "system.slice/isotherm.service2", "init.scope2"] {
            assert!(check(&mount.join(dir), &mount, &proc).is_ok(), "{dir}");
        }
        assert_eq!(cgroup_of(1, &mount, &proc), Some(mount.join("init.scope")));
        assert_eq!(cgroup_of(70, &mount, &proc), None);
        assert_eq!(cgroup_of(71, &mount, &proc), None);
    }
}
