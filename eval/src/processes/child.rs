//! A process that a job started, and that ends with it.
//!
//! Dropping a [`Child`] ends the process by its pid, first with SIGTERM, and after two seconds with
//! SIGKILL. Every wait of a job goes through [`sleep_until`]. That fails when the job was asked to
//! stop, so no process is left behind then.

use std::ffi::OsStr;
use std::fs::{self, File};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Stdio};

use anyhow::{Context, bail};
use isotherm_core::Time;
use isotherm_sys::{clock, signals};
use rustix::process::{Pid, Signal, kill_process};

use crate::cli::say;

const POLL_US: u64 = 5_000;
const PATIENCE_US: u64 = 2_000_000;
/// The exit code of Isotherm that says: done, and a part is missing.
const PARTIAL: i32 = 6;

/// A running process.
#[derive(Debug)]
pub(crate) struct Child {
    child: std::process::Child,
    name: String,
    log: PathBuf,
}

impl Child {
    /// Starts `program`. Its standard error goes to `log`, and into the error's message if it
    /// fails.
    pub(crate) fn start(
        program: impl AsRef<OsStr>,
        args: impl IntoIterator<Item = impl AsRef<OsStr>>,
        log: &Path,
    ) -> anyhow::Result<Self> {
        let mut command = Command::new(program);
        command.args(args).stdin(Stdio::null()).stdout(Stdio::null());
        Self::spawn(command, log)
    }

    /// As [`Child::start`], with standard input and output as `command` says.
    pub(crate) fn spawn(mut command: Command, log: &Path) -> anyhow::Result<Self> {
        let file = File::create(log).with_context(|| format!("create {}", log.display()))?;
        command.stderr(file);
        let name = format!("{command:?}");
        let child = command.spawn().with_context(|| format!("start {name}"))?;
        Ok(Self { child, name, log: log.to_owned() })
    }

    /// Writes a line to its standard input, which must be a pipe.
    pub(crate) fn tell(&mut self, line: &str) -> anyhow::Result<()> {
        let pipe = self.child.stdin.as_mut().context("no pipe")?;
        pipe.write_all(format!("{line}\n").as_bytes())
            .and_then(|()| pipe.flush())
            .with_context(|| format!("write to {}{}", self.name, self.said()))
    }

    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Whether it has not ended yet.
    pub(crate) fn runs(&mut self) -> bool {
        matches!(self.child.try_wait(), Ok(None))
    }

    /// Sends a signal.
    pub(crate) fn signal(&self, signal: Signal) -> anyhow::Result<()> {
        let pid = i32::try_from(self.pid()).ok().and_then(Pid::from_raw).context("pid")?;
        kill_process(pid, signal).with_context(|| format!("signal {}", self.name))
    }

    /// Fails if the process has ended.
    pub(crate) fn still_runs(&mut self) -> anyhow::Result<()> {
        match self.child.try_wait().with_context(|| format!("wait for {}", self.name))? {
            Some(status) => bail!("{} ended too early: {status}{}", self.name, self.said()),
            None => Ok(()),
        }
    }

    /// What it said on standard error, for a message.
    fn said(&self) -> String {
        match fs::read_to_string(&self.log) {
            Ok(text) if !text.trim().is_empty() => format!(": {}", text.trim()),
            _ => String::new(),
        }
    }

    /// Waits until `deadline` for the process to end by itself, and fails if it says that it
    /// failed. Isotherm may warn that a part is missing, as some windows are on a busy machine.
    /// Then the rest is judged, and the warning is told.
    pub(crate) fn succeeds(&mut self, deadline: Time) -> anyhow::Result<()> {
        let status = self.wait(deadline)?;
        if status.code() == Some(PARTIAL) {
            say(&format!("{}{}", self.name, self.said()));
            return Ok(());
        }
        anyhow::ensure!(status.success(), "{}: {status}{}", self.name, self.said());
        Ok(())
    }

    /// Waits until `deadline` for the process to end by itself.
    fn wait(&mut self, deadline: Time) -> anyhow::Result<ExitStatus> {
        loop {
            if let Some(status) =
                self.child.try_wait().with_context(|| format!("wait for {}", self.name))?
            {
                return Ok(status);
            }
            if clock::now() > deadline {
                bail!("{} did not end in time", self.name);
            }
            sleep_until(clock::now().plus_us(POLL_US))?;
        }
    }

    /// Asks the process to stop, and waits for it.
    pub(crate) fn stop(mut self) -> anyhow::Result<()> {
        self.signal(Signal::CONT)?;
        self.signal(Signal::TERM)?;
        self.wait(clock::now().plus_us(5 * PATIENCE_US)).map(drop)
    }
}

impl Drop for Child {
    fn drop(&mut self) {
        // The pid is still ours: nobody has waited for it unless it has ended.
        if !matches!(self.child.try_wait(), Ok(None)) {
            return;
        }
        self.signal(Signal::TERM).ok();
        self.signal(Signal::CONT).ok();
        let deadline = clock::now().plus_us(PATIENCE_US);
        while clock::now() < deadline {
            if !matches!(self.child.try_wait(), Ok(None)) {
                return;
            }
            clock::sleep_until(clock::now().plus_us(POLL_US));
        }
        self.child.kill().ok();
        self.child.wait().ok();
    }
}

/// Sleeps, unless the job is asked to stop.
pub(crate) fn sleep_until(time: Time) -> anyhow::Result<()> {
    loop {
        if signals::stop_requested().is_some() {
            bail!("interrupted");
        }
        if clock::now() >= time {
            return Ok(());
        }
        clock::sleep_until(time.min(clock::now().plus_us(100_000)));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_dropped_child_is_gone() {
        let dir = tempfile::tempdir().unwrap();
        let child = Child::start("sleep", ["100"], &dir.path().join("log")).unwrap();
        let pid = child.pid();
        let cmdline = || fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        while !cmdline().starts_with(b"sleep") {}
        drop(child);
        assert!(!cmdline().starts_with(b"sleep"));
    }

    #[test]
    fn an_early_end_is_told() {
        let dir = tempfile::tempdir().unwrap();
        let log = dir.path().join("log");
        let mut child = Child::start("sh", ["-c", "echo no memory >&2; exit 3"], &log).unwrap();
        let told = child.succeeds(clock::now().plus_us(5_000_000)).unwrap_err().to_string();
        assert!(told.contains("no memory"), "{told}");
        assert!(child.still_runs().unwrap_err().to_string().contains("too early"));
    }
}
