//! Isotherm at work beside a program: a ready-made scheme (`reclaim`, `thp`) or a policy (`run`),
//! with its final account, or a recorder (`record`), which has none.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::Context;
use serde::{Deserialize, Serialize};

use crate::processes::child::Child;
use crate::readings::procfs;
use crate::stats::to_f64;

/// The subcommand without an account.
pub(crate) const RECORD: &str = "record";

/// What the last line of `--json` says. What it does not say stays zero.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct Account {
    /// From start to end.
    pub(crate) elapsed_ns: u64,
    /// CPU time of Isotherm.
    pub(crate) own_cpu_ns: u64,
    /// Its resident memory.
    pub(crate) own_rss_bytes: u64,
    /// Why it stopped.
    pub(crate) stopped: String,
    /// Per scheme.
    pub(crate) schemes: Vec<SchemeAccount>,
}

/// One scheme of an [`Account`].
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct SchemeAccount {
    /// Its name.
    pub(crate) name: String,
    /// Its action.
    pub(crate) action: String,
    /// What it was tried on.
    pub(crate) tried_bytes: u64,
    /// What the kernel was asked to act on.
    pub(crate) asked_bytes: u64,
    /// What looked done afterwards.
    pub(crate) done_bytes: u64,
    /// What of that was touched again soon.
    pub(crate) refaulted_bytes: u64,
    /// What was done, as the quota counts it.
    pub(crate) applied_bytes: u64,
    /// What the kernel refused.
    pub(crate) failed_bytes: u64,
    /// How often the quota was full.
    pub(crate) quota_exceeds: u64,
    /// Time spent in actions.
    pub(crate) action_ns: u64,
    /// Windows in which it was applied.
    pub(crate) windows: u64,
    /// The most that one window did.
    pub(crate) max_window_bytes: u64,
    /// The longest that one window took.
    pub(crate) max_window_ns: u64,
}

impl Account {
    /// From all that the command printed.
    pub(crate) fn parse(text: &str) -> anyhow::Result<Self> {
        let last = text.lines().rfind(|l| !l.trim().is_empty()).context("no final account")?;
        serde_json::from_str(last).with_context(|| format!("understand the account `{last}`"))
    }

    /// A sum over schemes.
    pub(crate) fn sum(&self, f: fn(&SchemeAccount) -> u64) -> f64 {
        to_f64(self.schemes.iter().map(f).sum())
    }
}

/// A running command.
#[derive(Debug)]
pub(crate) struct Tool {
    child: Child,
    out: PathBuf,
    has_account: bool,
}

impl Tool {
    /// Starts `isotherm SUBCOMMAND` on `pids`. `log` is where its files go, without ending.
    pub(crate) fn start(
        isotherm: &Path,
        subcommand: &str,
        pids: impl IntoIterator<Item = u32>,
        args: &[String],
        log: &Path,
    ) -> anyhow::Result<Self> {
        // What follows a dot in the name of a configuration is no ending.
        let beside = |ending: &str| PathBuf::from(format!("{}.{ending}", log.display()));
        let out = beside("out");
        let has_account = subcommand != RECORD;
        let mut command = Command::new(isotherm);
        command.arg(subcommand).arg(if has_account { "--json" } else { "--quiet" });
        for pid in pids {
            command.args(["-p", &pid.to_string()]);
        }
        let file = File::create(&out).with_context(|| format!("create {}", out.display()))?;
        command.args(args).stdin(Stdio::null()).stdout(file);
        Ok(Self { child: Child::spawn(command, &beside("log"))?, out, has_account })
    }

    /// Fails if it has ended with a failure; it may end by itself when its targets are gone.
    pub(crate) fn check(&mut self) -> anyhow::Result<()> {
        if self.child.runs() {
            return Ok(());
        }
        self.child.succeeds(isotherm_sys::clock::now())
    }

    /// Its CPU time up to now. It may have ended by itself: until it is waited for, by
    /// [`Tool::check`], the kernel knows, in ticks of 10 ms.
    pub(crate) fn cpu_ns(&self) -> Option<u64> {
        let pid = self.child.pid();
        let ended = procfs::cpu_and_childrens_ns(pid).ok().map(|[own, _]| own);
        ended.max(procfs::cpu_ns(pid).ok())
    }

    /// Its resident memory now; none once it has ended.
    pub(crate) fn rss(&self) -> Option<u64> {
        procfs::status_bytes(self.child.pid(), "VmRSS").ok()
    }

    /// Ends it, and reads its account, if it has one.
    pub(crate) fn finish(mut self) -> anyhow::Result<Option<Account>> {
        self.check()?;
        if self.child.runs() {
            self.child.stop()?;
        }
        if !self.has_account {
            return Ok(None);
        }
        let text = fs::read_to_string(&self.out).context("read the account")?;
        Account::parse(&text).map(Some)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SAMPLE: &str = r#"{"event":"window","n":1}
{"elapsed_ns":15000000000,"own_cpu_ns":400000000,"own_rss_bytes":9000000,"stopped":"signal","new":[1],"schemes":[{"name":"reclaim","action":"pageout","tried_bytes":900,"asked_bytes":800,"done_bytes":700,"refaulted_bytes":7,"more":0},{"done_bytes":300}]}

"#;

    #[test]
    fn the_last_line_is_the_account() {
        let account = Account::parse(SAMPLE).unwrap();
        assert_eq!(account.stopped, "signal");
        assert_eq!(account.own_cpu_ns, 400_000_000);
        assert_eq!(account.sum(|s| s.done_bytes), 1000.0);
        assert_eq!(account.sum(|s| s.refaulted_bytes), 7.0);
        assert_eq!(account.sum(|s| s.max_window_ns), 0.0);
        for text in ["", "\n\n", "{\"elapsed_ns\":1", "done"] {
            assert!(Account::parse(text).is_err(), "{text:?}");
        }
    }

    #[test]
    fn a_command_that_fails_is_told() {
        let dir = tempfile::tempdir().unwrap();
        let log = dir.path().join("tool");
        let tool = Tool::start(Path::new("/bin/false"), "reclaim", [1], &[], &log).unwrap();
        assert!(tool.finish().is_err());
    }

    #[test]
    fn each_subcommand_gets_what_it_takes() {
        let dir = tempfile::tempdir().unwrap();
        let log = dir.path().join("prcl.5");
        for (subcommand, line, has_account) in [
            ("reclaim", "reclaim --json -p 7 -p 8 x", true),
            (RECORD, "record --quiet -p 7 -p 8 x", false),
        ] {
            let echo = Path::new("/bin/echo");
            let mut tool = Tool::start(echo, subcommand, [7, 8], &["x".into()], &log).unwrap();
            tool.child.succeeds(isotherm_sys::clock::now().plus_us(5_000_000)).unwrap();
            let said = fs::read_to_string(dir.path().join("prcl.5.out")).unwrap();
            assert_eq!((said.trim(), tool.has_account), (line, has_account));
        }
    }
}
