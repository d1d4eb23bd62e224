//! Fetches damo from the package index of Python, and the kernel's selftests from packages
//! `linux-source`: that of Debian's unstable suite, by the lab's way to other suites, which has the
//! newest, and that of this machine's, which can be old enough to have those for debugfs.

use std::ffi::OsString;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::Context;

use crate::cli::say;
use crate::dir::ResultDir;
use crate::jobs::output;

/// Where the selftests are in the kernel's sources.
const SELFTESTS: &str = "tools/testing/selftests/damon";
/// Programs in C that the selftests start.
const HELPERS: [&str; 4] = [
    "access_memory",
    "access_memory_even",
    "huge_count_read_write",
    "debugfs_target_ids_read_before_terminate_race",
];

/// Downloads the newest `linux-source` that this machine's apt knows.
const OWN: &str = "apt-get -q download \"$(apt-cache search --names-only '^linux-source-[0-9.]+$' | cut -d' ' -f1 \
     | sort -V | tail -n 1)\"";
/// The same of Debian unstable, without touching this machine's apt.
const UNSTABLE: &str = ". \"$LAB/lib/archive.sh\" && archive_open sid && apt-get \"${APT[@]}\" download \"$(apt-cache \
     \"${APT[@]}\" search --names-only '^linux-source-[0-9.]+$' | cut -d' ' -f1 | sort -V | tail -n 1)\"";

/// Programs that were fetched. They are removed when this is dropped.
#[derive(Debug)]
pub(super) struct Programs {
    dir: PathBuf,
    /// Newest first.
    selftests: Vec<PathBuf>,
}

impl Programs {
    /// Fetches damo, and if `all` also the selftests. What could not be fetched is said and left
    /// out; without damo there is nothing to do.
    pub(super) fn fetch(results: &ResultDir, all: bool) -> anyhow::Result<Self> {
        let dir = std::env::temp_dir().join(format!("isotherm-compat.{}", std::process::id()));
        let mut this = Self { dir, selftests: Vec::new() };
        fs::create_dir_all(this.work()).context("make a directory for the programs")?;
        say("compat: fetch damo from PyPI");
        output(Command::new("python3").args(["-m", "venv"]).arg(this.venv()))?;
        output(Command::new(this.venv().join("bin/pip")).args(["install", "-q", "damo"]))?;
        // One selftest clears the log of the machine to find its own lines in it. Nothing that it
        // does here can write to that log.
        let dmesg = this.venv().join("bin/dmesg");
        fs::write(&dmesg, "#!/bin/sh\nexit 0\n").context("make a `dmesg` that does nothing")?;
        fs::set_permissions(&dmesg, fs::Permissions::from_mode(0o755))?;
        if all {
            say("compat: fetch the kernel's selftests (linux-source)");
            for (name, script) in [("unstable", UNSTABLE), ("own", OWN)] {
                match this.fetch_selftests(name, script) {
                    Ok(dir) => this.selftests.push(dir),
                    Err(err) => say(&format!("compat: no selftests ({name}): {err:#}")),
                }
            }
        }
        let damo = output(Command::new(this.venv().join("bin/damo")).arg("version"))?;
        let sources: Vec<_> = this.selftests.iter().map(|dir| dir.display().to_string()).collect();
        results.write_json("raw/versions.json", &(damo.trim(), sources))?;
        Ok(this)
    }

    fn fetch_selftests(&self, name: &str, script: &str) -> anyhow::Result<PathBuf> {
        let dir = self.dir.join(name);
        fs::create_dir(&dir)?;
        let lab = std::env::current_dir()?.join("lab");
        let cache = std::env::var_os("ISOTHERM_LAB_CACHE")
            .map(PathBuf::from)
            .or_else(|| Some(PathBuf::from(std::env::var_os("HOME")?).join(".cache/isotherm-lab")));
        let shell = |script: &str| {
            let mut command = Command::new("bash");
            command.args(["-c", script]).current_dir(&dir).env("LAB", &lab);
            if let Some(cache) = &cache {
                command.env("LAB_CACHE", cache);
            }
            output(&mut command)
        };
        shell(script)?;
        shell("dpkg-deb -x *.deb . && rm *.deb")?;
        shell(&format!(
            "tar -xf usr/src/linux-source-*.tar.xz --wildcards '*/{SELFTESTS}/*' && rm -r usr"
        ))?;
        let found = shell(&format!("ls -d \"$PWD\"/*/{SELFTESTS}"))?;
        let found = PathBuf::from(found.trim());
        for helper in HELPERS {
            let source = format!("{helper}.c");
            if found.join(&source).exists() {
                output(Command::new("cc").args(["-o", helper, &source]).current_dir(&found))?;
            }
        }
        Ok(found)
    }

    fn venv(&self) -> PathBuf {
        self.dir.join("venv")
    }

    /// A directory for what the programs write.
    pub(super) fn work(&self) -> PathBuf {
        self.dir.join("work")
    }

    /// The directory of a selftest, in the newest kernel that has it.
    pub(super) fn selftest(&self, name: &str) -> Option<&Path> {
        self.selftests.iter().find(|dir| dir.join(name).exists()).map(PathBuf::as_path)
    }

    /// The search path with the programs in front.
    pub(super) fn search_path(&self) -> OsString {
        let mut path = self.venv().join("bin").into_os_string();
        path.push(":");
        path.push(std::env::var_os("PATH").unwrap_or_default());
        path
    }
}

impl Drop for Programs {
    fn drop(&mut self) {
        fs::remove_dir_all(&self.dir).ok();
    }
}
