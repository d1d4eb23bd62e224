//! A memory cgroup that a job makes, and that goes with it.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::Context;
use isotherm_host::metrics::Cgroups;
use isotherm_host::proc::Proc;
use isotherm_sys::clock;

/// A memory cgroup, of v1 where that is mounted.
#[derive(Debug)]
pub(crate) struct Group {
    dir: PathBuf,
    path: String,
    is_v1: bool,
}

impl Group {
    /// Makes it. `name` is unique in this job.
    pub(crate) fn new(name: &str) -> anyhow::Result<Self> {
        let cgroups = Cgroups::mounted(&Proc::default());
        let v1 = cgroups.v1_of("memory");
        let mount = match (v1, &cgroups.v2) {
            (Some(v1), _) => v1.to_owned(),
            (None, Some(v2)) => {
                // It may be on already; where it cannot be, the cgroup has no memory.stat.
                fs::write(v2.join("cgroup.subtree_control"), "+memory").ok();
                v2.clone()
            }
            (None, None) => anyhow::bail!("no cgroups of memory are mounted"),
        };
        let path = format!("/isotherm-eval-{}-{name}", std::process::id());
        let dir = mount.join(path.trim_start_matches('/'));
        fs::create_dir(&dir).with_context(|| format!("make {}", dir.display()))?;
        let group = Self { dir, path, is_v1: v1.is_some() };
        anyhow::ensure!(
            group.dir.join("memory.stat").exists(),
            "{} has no memory controller",
            group.dir.display()
        );
        Ok(group)
    }

    /// The most memory that its processes may have resident, in bytes.
    pub(crate) fn limit(&self, bytes: u64) -> anyhow::Result<()> {
        let name = if self.is_v1 { "memory.limit_in_bytes" } else { "memory.max" };
        let path = self.dir.join(name);
        fs::write(&path, bytes.to_string()).with_context(|| format!("write {}", path.display()))
    }

    /// A command that runs `program` in the cgroup, before it has any memory.
    pub(crate) fn command(&self, program: &Path) -> Command {
        let mut command = Command::new("/bin/sh");
        command.args(["-c", "echo $$ > \"$0\"/cgroup.procs && exec \"$@\""]).arg(&self.dir);
        command.arg(program);
        command
    }

    /// Its path below the mount.
    pub(crate) fn path(&self) -> &str {
        &self.path
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        // The kernel needs a moment after the last process.
        for _ in 0..50 {
            if fs::remove_dir(&self.dir).is_ok() {
                return;
            }
            clock::sleep_until(clock::now().plus_us(20_000));
        }
    }
}
