//! What the quotas are measured on: a target, and `isotherm run` on it under a policy that can
//! change.

use std::fs::{self, File};
use std::path::PathBuf;
use std::process::{Command, Stdio};

use anyhow::Context;
use isotherm_sys::clock;
use rustix::process::Signal;

use crate::job::Bench;
use crate::processes::child::{Child, sleep_until};
use crate::processes::tool::Account;
use crate::processes::workload::Workload;

/// How long a target may take to fill its memory, and the tool to begin.
const PATIENCE_US: u64 = 30_000_000;

/// Where workloads map their regions. Their other memory (text, heap) is left alone, because it
/// would be counted only sometimes.
const MAPPED: &str = "allow addr 0x200000000000..0x400000000000";

/// Memory of which only 4 MiB are in use.
pub(super) fn cold(mib: u64) -> String {
    format!("c, {mib}M\nh, 4M\n\nall\n3600000\nh, 0, 4096, 1, rw, rate=2000\n")
}

/// Memory that is touched from front to back, over and over: what is paged out comes back.
pub(super) fn wanted(mib: u64, pages_per_s: u64) -> String {
    format!("m, {mib}M\n\nall\n3600000\nm, 0, 4096, 1, rw, rate={pages_per_s}\n")
}

/// Starts a target.
pub(super) fn target(bench: &Bench<'_>, name: &str, config: &str) -> anyhow::Result<Workload> {
    let path = bench.dir.raw(&format!("{name}.cfg"));
    fs::write(&path, config).with_context(|| format!("write {}", path.display()))?;
    let path = path.to_str().context("a path that is no text")?;
    Workload::start(&bench.spec.isotherm, &[path], &bench.dir.raw(&format!("{name}.truth")))
}

/// A policy of one context with one scheme.
#[derive(Debug, Clone)]
pub(super) struct Policy {
    pub(super) pid: u32,
    /// Intervals, in ms.
    pub(super) sample_ms: u64,
    pub(super) aggr_ms: u64,
    /// At least, at most.
    pub(super) regions: [u64; 2],
    /// Lines of the scheme: its pattern and evidence.
    pub(super) scheme: String,
    /// The quota, as TOML.
    pub(super) quota: String,
}

impl Policy {
    fn text(&self) -> String {
        let Self { pid, sample_ms, aggr_ms, regions: [min, max], scheme, quota } = self;
        format!(
            "[[context]]\nname = \"quota\"\nchildren = false\ntargets = [{{ pid = {pid} }}]\n\n\
             [context.intervals]\nsample = \"{sample_ms}ms\"\naggregation = \"{aggr_ms}ms\"\n\n\
             [context.regions]\nmin = {min}\nmax = {max}\n\n\
             [[context.scheme]]\nname = \"out\"\naction = \"pageout\"\nbrake = \"off\"\n{scheme}\n\
             filters = [\"{MAPPED}\"]\nquota = {quota}\n"
        )
    }
}

/// `isotherm run` at work.
#[derive(Debug)]
pub(super) struct Session {
    child: Child,
    /// Without ending.
    base: PathBuf,
}

impl Session {
    /// Starts it; what it writes are the raw files `name`.*.
    pub(super) fn start(bench: &Bench<'_>, name: &str, policy: &Policy) -> anyhow::Result<Self> {
        let base = bench.dir.raw(name);
        let toml = base.with_extension("toml");
        fs::write(&toml, policy.text()).with_context(|| format!("write {}", toml.display()))?;
        let out = base.with_extension("out");
        let file = File::create(&out).with_context(|| format!("create {}", out.display()))?;
        let mut command = Command::new(&bench.spec.isotherm);
        command.arg("run").arg(&toml).args(["--json", "--quiet", "--seed", "1", "--events"]);
        command.arg(base.with_extension("events")).stdin(Stdio::null()).stdout(file);
        let child = Child::spawn(command, &base.with_extension("log"))?;
        let mut this = Self { child, base };
        let deadline = clock::now().plus_us(PATIENCE_US);
        while !this.events().contains("\"event\":\"summary\"") {
            this.child.still_runs()?;
            anyhow::ensure!(clock::now() < deadline, "isotherm did not begin in time");
            sleep_until(clock::now().plus_us(10_000))?;
        }
        Ok(this)
    }

    pub(super) fn pid(&self) -> u32 {
        self.child.pid()
    }

    /// All events so far; the last line may be torn.
    pub(super) fn events(&self) -> String {
        fs::read_to_string(self.base.with_extension("events")).unwrap_or_default()
    }

    /// Puts another policy in force.
    pub(super) fn commit(&self, policy: &Policy) -> anyhow::Result<()> {
        let (toml, new) = (self.base.with_extension("toml"), self.base.with_extension("new"));
        // It may be read at any time: it is replaced as a whole.
        fs::write(&new, policy.text()).with_context(|| format!("write {}", new.display()))?;
        fs::rename(&new, &toml).with_context(|| format!("replace {}", toml.display()))?;
        self.child.signal(Signal::HUP)
    }

    /// Fails if it has ended.
    pub(super) fn still_runs(&mut self) -> anyhow::Result<()> {
        self.child.still_runs()
    }

    /// Ends it, and reads its account.
    pub(super) fn finish(mut self) -> anyhow::Result<Account> {
        self.child.still_runs()?;
        self.child.stop()?;
        let out = self.base.with_extension("out");
        let text = fs::read_to_string(&out).with_context(|| format!("read {}", out.display()))?;
        Account::parse(&text)
    }
}
