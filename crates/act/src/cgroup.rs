//! Reclaim from a whole cgroup, by version 2's `memory.reclaim` (Linux 5.19), in steps.
//!
//! The kernel chooses the pages, the least used first. The difference of `memory.current` before
//! and after tells how much was reclaimed. Memory that the group allocated in the meantime makes
//! this difference smaller. What the kernel looks at for that is noted as ours
//! ([`note_ours`]), so that no monitor takes it for a machine that runs short.

mod guard;
mod own;
mod room;
mod toll;

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use isotherm_host::reclaim::{note_ours, scanned};

use super::error::{self, ActError, ActKind};
use super::outcome::Stopwatch;

pub(crate) use own::OwnCgroups;
pub use toll::Toll;

/// A cgroup whose memory may be reclaimed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Cgroup {
    dir: PathBuf,
}

/// What became of a reclaim.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Reclaimed {
    /// Bytes that the kernel was asked for.
    pub asked_bytes: u64,
    /// Bytes that it says it has reclaimed in full steps.
    pub accepted_bytes: u64,
    /// By how much the group's memory shrank, in bytes; 0 if it grew.
    pub shrunk_bytes: u64,
    /// The kernel gave up on a step (`EAGAIN`), because there was less to reclaim than the step
    /// asked for.
    pub exhausted: bool,
    /// `stop` ended the reclaim between two steps.
    pub stopped: bool,
    /// The group was removed during the reclaim.
    pub gone: bool,
    /// Time from begin to end, in nanoseconds of `CLOCK_MONOTONIC`.
    pub elapsed_ns: u64,
    /// CPU time of the calling thread, in nanoseconds: the kernel reclaims in it.
    pub cpu_ns: u64,
}

impl Cgroup {
    /// The cgroup at this directory, if it can be asked to reclaim.
    ///
    /// # Errors
    ///
    /// The cgroup is of version 1, it has no memory controller, or the kernel is older than 5.19.
    /// The error says which.
    pub fn open(dir: impl Into<PathBuf>) -> Result<Self, ActError> {
        let group = Self { dir: dir.into() };
        let has = |file: &str| group.dir.join(file).exists();
        let refuse = |kind, tried: &str, why: &str, hint: &str| {
            Err(error::about(&group.subject(), kind, tried, why, hint))
        };
        if !group.dir.is_dir() {
            return refuse(ActKind::Gone, "open its directory", "there is no such cgroup", "");
        }
        if has("memory.limit_in_bytes") || has("cgroup.clone_children") {
            let why = "it is of cgroup version 1, which cannot reclaim a given amount";
            let hint = "boot with systemd.unified_cgroup_hierarchy=1, or name processes instead";
            return refuse(ActKind::NotSupported, "look for memory.reclaim", why, hint);
        }
        if !has("cgroup.controllers") {
            let why = "it is no cgroup";
            return refuse(ActKind::NotSupported, "look for cgroup.controllers", why, "");
        }
        if !has("memory.current") {
            let why = "it has no memory controller (the root of all cgroups never has)";
            let hint = "write `+memory` to cgroup.subtree_control of its parent";
            return refuse(ActKind::NotSupported, "look for memory.current", why, hint);
        }
        if !has("memory.reclaim") {
            let why = "this kernel has no such file";
            return refuse(ActKind::NotSupported, "look for memory.reclaim", why, "Linux 5.19");
        }
        Ok(group)
    }

    /// Its directory.
    #[must_use]
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// Memory that it uses, in bytes (`memory.current`).
    ///
    /// # Errors
    ///
    /// If the file cannot be read.
    pub fn current_bytes(&self) -> Result<u64, ActError> {
        let text = fs::read_to_string(self.dir.join("memory.current"));
        let text = text.map_err(|e| self.said("read memory.current", e))?;
        text.trim().parse().map_err(|e| {
            self.said("read memory.current", io::Error::new(io::ErrorKind::InvalidData, e))
        })
    }

    /// Reclaims `bytes` in steps of at most `step_bytes`; `stop` is asked before each. `swappiness`
    /// (0 to 200, Linux 6.10) says how much to swap rather than drop pages of files.
    ///
    /// # Errors
    ///
    /// No permission, or an option that this kernel does not know. That there is too little to
    /// reclaim is in the result.
    pub fn reclaim(
        &self,
        bytes: u64,
        swappiness: Option<u8>,
        step_bytes: u64,
        stop: &mut dyn FnMut() -> bool,
    ) -> Result<Reclaimed, ActError> {
        let watch = Stopwatch::start();
        let before = self.current_bytes()?;
        let mut out = Reclaimed::default();
        while out.asked_bytes < bytes && !out.exhausted && !out.gone {
            if stop() {
                out.stopped = true;
                break;
            }
            let step = step_bytes.max(4096).min(bytes - out.asked_bytes);
            let text = match swappiness {
                Some(value) => format!("{step} swappiness={value}"),
                None => step.to_string(),
            };
            out.asked_bytes += step;
            match self.ask(&text) {
                Ok(()) => out.accepted_bytes += step,
                Err(e) => match e.raw_os_error() {
                    Some(libc::EAGAIN) => out.exhausted = true,
                    // A signal came: part of it is done.
                    Some(libc::EINTR) => {}
                    Some(libc::ENOENT | libc::ENODEV) => out.gone = true,
                    Some(libc::EINVAL) if swappiness.is_some() => return Err(self.no_swappiness(e)),
                    _ => return Err(self.said(&format!("write `{text}` to memory.reclaim"), e)),
                },
            }
        }
        match self.current_bytes() {
            Ok(now) => out.shrunk_bytes = before.saturating_sub(now),
            Err(_) => out.gone = true,
        }
        (out.elapsed_ns, out.cpu_ns) = watch.read();
        Ok(out)
    }

    /// Asks for one step, and notes what was looked at for it.
    fn ask(&self, text: &str) -> io::Result<()> {
        let before = scanned(&self.dir);
        let answer = fs::write(self.dir.join("memory.reclaim"), text);
        if let Some((before, after)) = before.zip(scanned(&self.dir)) {
            note_ours(&self.dir, after.saturating_sub(before));
        }
        answer
    }

    fn no_swappiness(&self, err: io::Error) -> ActError {
        let tried = "write an amount with `swappiness=` to memory.reclaim";
        let why = "this kernel does not know that option";
        let hint = "leave it out, or Linux 6.10";
        error::about(&self.subject(), ActKind::NotSupported, tried, why, hint).with(err)
    }

    fn said(&self, tried: &str, err: io::Error) -> ActError {
        let needs = "the right to write the cgroup's files (root, or its owner)";
        let (kind, why) = match err.kind() {
            io::ErrorKind::NotFound => (ActKind::Gone, "the cgroup was removed".to_owned()),
            io::ErrorKind::PermissionDenied => {
                (ActKind::Permission { needs }, format!("that needs {needs}"))
            }
            _ => (ActKind::Io, String::new()),
        };
        error::about(&self.subject(), kind, tried, why, "").with(err)
    }

    fn subject(&self) -> String {
        format!("cgroup {}", self.dir.display())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn group(files: &[(&str, &str)]) -> tempfile::TempDir {
        let dir = tempfile::tempdir().unwrap();
        for (name, text) in files {
            fs::write(dir.path().join(name), text).unwrap();
        }
        dir
    }

    const WHOLE: [(&str, &str); 3] = [
        ("cgroup.controllers", "memory\n"),
        ("memory.current", "8388608\n"),
        ("memory.reclaim", ""),
    ];

    #[test]
    fn says_why_a_group_cannot_reclaim() {
        for (files, part) in [
            (vec![("memory.limit_in_bytes", "0")], "version 1"),
            (vec![("cgroup.clone_children", "0")], "version 1"),
            (vec![], "no cgroup"),
            (vec![WHOLE[0]], "no memory controller"),
            (vec![WHOLE[0], WHOLE[1]], "no such file"),
        ] {
            let dir = group(&files);
            let error = Cgroup::open(dir.path()).unwrap_err();
            assert_eq!(error.kind(), ActKind::NotSupported);
            assert!(error.why().contains(part), "{error}");
        }
        assert_eq!(Cgroup::open("/nonexistent").unwrap_err().kind(), ActKind::Gone);
    }

    #[test]
    fn reclaims_in_steps_until_told_to_stop() {
        let dir = group(&WHOLE);
        let cgroup = Cgroup::open(dir.path()).unwrap();
        let mut asked = Vec::new();
        let mut stop = || {
            asked.push(fs::read_to_string(dir.path().join("memory.reclaim")).unwrap());
            fs::write(dir.path().join("memory.current"), "6291456\n").unwrap();
            asked.len() == 3
        };
        let out = cgroup.reclaim(5 << 20, Some(60), 2 << 20, &mut stop).unwrap();
        assert_eq!(asked, ["", "2097152 swappiness=60", "2097152 swappiness=60"]);
        assert!(out.stopped && !out.exhausted && !out.gone);
        assert_eq!(
            (out.asked_bytes, out.accepted_bytes, out.shrunk_bytes),
            (4 << 20, 4 << 20, 2 << 20)
        );
        let out = cgroup.reclaim(5 << 20, None, 4 << 20, &mut || false).unwrap();
        assert_eq!((out.asked_bytes, out.shrunk_bytes), (5 << 20, 0));
        assert_eq!(fs::read_to_string(dir.path().join("memory.reclaim")).unwrap(), "1048576");
    }

    #[test]
    fn a_group_that_goes_or_fails_is_told() {
        let dir = group(&WHOLE);
        let cgroup = Cgroup::open(dir.path()).unwrap();
        let mut steps = 0;
        let mut stop = || {
            steps += 1;
            if steps == 2 {
                fs::remove_dir_all(dir.path()).unwrap();
            }
            false
        };
        let out = cgroup.reclaim(8 << 20, None, 1 << 20, &mut stop).unwrap();
        assert!(out.gone && !out.stopped, "{out:?}");
        assert_eq!(cgroup.current_bytes().unwrap_err().kind(), ActKind::Gone);
        let dir = group(&WHOLE[..2]);
        std::os::unix::fs::symlink("/dev/full", dir.path().join("memory.reclaim")).unwrap();
        let error = Cgroup::open(dir.path()).unwrap().reclaim(4096, None, 4096, &mut || false);
        assert_eq!(error.unwrap_err().kind(), ActKind::Io);
    }
}
