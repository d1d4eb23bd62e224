//! Fetches damo from the package index of Python, and the kernel's selftests from the
//! distribution's package `linux-source`.

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
const HELPERS: [&str; 2] = ["access_memory", "access_memory_even"];

/// Programs that were fetched. They are removed when this is dropped.
#[derive(Debug)]
pub(super) struct Programs {
    dir: PathBuf,
    selftests: Option<PathBuf>,
}

impl Programs {
    /// Fetches damo, and if `all` also the selftests. What could not be fetched is said and left
    /// out; without damo there is nothing to do.
    pub(super) fn fetch(results: &ResultDir, all: bool) -> anyhow::Result<Self> {
        let dir = std::env::temp_dir().join(format!("isotherm-compat.{}", std::process::id()));
        let mut this = Self { dir, selftests: None };
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
            match this.fetch_selftests() {
                Ok(dir) => this.selftests = Some(dir),
                Err(err) => say(&format!("compat: there are no selftests: {err:#}")),
            }
        }
        let damo = output(Command::new(this.venv().join("bin/damo")).arg("version"))?;
        let source = this.selftests.as_ref().map(|dir| dir.display().to_string());
        results.write_json("raw/versions.json", &(damo.trim(), source))?;
        Ok(this)
    }

    fn fetch_selftests(&self) -> anyhow::Result<PathBuf> {
        let listed =
            output(Command::new("apt-cache").args(["search", "--names-only", "^linux-source-"]))?;
        let newest = listed.lines().filter_map(|line| line.split_whitespace().next());
        let newest = newest.max_by_key(|name| version(name)).context("no package linux-source")?;
        let dir = self.dir.join("kernel");
        fs::create_dir(&dir)?;
        output(Command::new("apt-get").args(["-q", "download", newest]).current_dir(&dir))?;
        let shell =
            |script: &str| output(Command::new("sh").args(["-c", script]).current_dir(&dir));
        shell("dpkg-deb -x *.deb . && rm *.deb")?;
        shell(&format!("tar -xf usr/src/linux-source-*.tar.xz --wildcards '*/{SELFTESTS}/*'"))?;
        let found = shell(&format!("ls -d \"$PWD\"/*/{SELFTESTS}"))?;
        let found = PathBuf::from(found.trim());
        for helper in HELPERS {
            let source = format!("{helper}.c");
            output(Command::new("cc").args(["-o", helper, &source]).current_dir(&found))?;
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

    /// The directory of the selftests, if there are any.
    pub(super) fn selftests(&self) -> Option<&Path> {
        self.selftests.as_deref()
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

/// The numbers in the name of a package, to find the newest.
fn version(name: &str) -> Vec<u32> {
    let numbers = name.split(|c: char| !c.is_ascii_digit());
    numbers.filter_map(|number| number.parse().ok()).collect()
}

#[cfg(test)]
mod tests {
    use super::version;

    #[test]
    fn the_newest_kernel_has_the_largest_number() {
        let names = ["linux-source-6.1", "linux-source-6.12", "linux-source-6.9"];
        let newest = names.into_iter().max_by_key(|name| version(name));
        assert_eq!(newest, Some("linux-source-6.12"));
    }
}
