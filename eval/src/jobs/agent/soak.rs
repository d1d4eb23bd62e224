//! Job `soak`: whether an agent grows while everything around it comes and goes.
//!
//! Ten times what a busy machine does: each second one of 20 watched processes ends and another
//! begins, three clients come, one of which follows for half a minute without ever reading; every
//! ten seconds a policy is committed anew, every 20 s the files are read again with one changed,
//! and every minute a policy is made and removed. Memory, files and threads of the agent are read
//! every few seconds. The first fifth, in which it grows to its size, is left out of the slopes.

use std::collections::VecDeque;
use std::fs;
use std::path::PathBuf;

use anyhow::Context;
use isotherm_control::client::Client;
use isotherm_control::types;
use isotherm_core::Time;
use isotherm_sys::clock;
use rustix::process::Signal;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::trend::Trend;
use super::world::{World, context, entries};
use crate::cli::say;
use crate::dir::ResultDir;
use crate::job::{Bench, Job, Spec};
use crate::processes::child::{Child, sleep_until};
use crate::readings::procfs;
use crate::requirement::{self, Requirement};
use crate::stats::to_f64;
use crate::table::{Table, number};

const PROCESSES: usize = 20;
/// Clients that follow and do not read.
const SILENT: usize = 30;
const TICK_US: u64 = 1_000_000;

/// The job.
#[derive(Debug)]
pub(crate) struct Soak;

#[derive(Debug, Clone, Copy, Default, Serialize, Deserialize)]
struct Sample {
    hours: f64,
    rss: u64,
    fds: usize,
    threads: usize,
}

#[derive(Debug, Default, Serialize, Deserialize)]
struct Raw {
    samples: Vec<Sample>,
    processes: u64,
    clients: u64,
    commits: u64,
    reloads: u64,
    /// What a policy that runs and was never touched has done.
    windows: u64,
}

#[derive(Debug, Serialize, Deserialize)]
struct Row {
    what: String,
    trend: Option<Trend>,
    last: f64,
    /// The most that it may grow per hour.
    goal: f64,
}

#[derive(Debug, Serialize, Deserialize)]
struct Result {
    rows: Vec<Row>,
    hours: f64,
    processes: u64,
    clients: u64,
    commits: u64,
    reloads: u64,
    windows: u64,
}

impl Job for Soak {
    fn name(&self) -> &'static str {
        "soak"
    }

    fn about(&self) -> &'static str {
        "memory, files and threads of an agent over hours of processes, clients and commits"
    }

    fn sysreqs(&self, _: &Spec) -> Vec<Requirement> {
        requirement::measuring(1)
    }

    fn run(&self, bench: &Bench<'_>) -> anyhow::Result<()> {
        let seconds = bench.spec.seconds.unwrap_or(if bench.spec.quick { 12.0 } else { 14_400.0 });
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "hours")]
        Churn::begin(bench)?.run(bench, seconds as u64)
    }

    fn study(&self, dir: &ResultDir) -> anyhow::Result<Value> {
        let raw: Raw = dir.read_json("raw/samples.json")?;
        let later = raw.samples.get(raw.samples.len() / 5..).unwrap_or_default();
        let row = |what: &str, goal: f64, of: fn(&Sample) -> f64| {
            let values: Vec<_> = later.iter().map(|sample| (sample.hours, of(sample))).collect();
            let last = values.last().map_or(0.0, |(_, value)| *value);
            Row { what: what.to_owned(), trend: Trend::of(&values), last, goal }
        };
        #[expect(clippy::cast_precision_loss, reason = "small numbers")]
        let rows = vec![
            row("RSS, MiB", 1.0, |sample| to_f64(sample.rss) / 1_048_576.0),
            row("open files", 1.0, |sample| sample.fds as f64),
            row("threads", 1.0, |sample| sample.threads as f64),
        ];
        let Raw { samples, processes, clients, commits, reloads, windows } = raw;
        let hours = samples.last().map_or(0.0, |sample| sample.hours);
        let result = Result { rows, hours, processes, clients, commits, reloads, windows };
        Ok(serde_json::to_value(result)?)
    }

    fn format(&self, result: &Value) -> anyhow::Result<String> {
        let r: Result = serde_json::from_value(result.clone())?;
        let mut table = Table::new(["what", "mean", "last", "per hour", "95 % from", "to", "flat"]);
        for row in &r.rows {
            let part = |of: fn(&Trend) -> f64| number(row.trend.as_ref().map(of), 2);
            let flat = row.trend.map_or("unknown", |trend| match trend.lo <= row.goal {
                true if trend.hi <= row.goal => "yes",
                true => "not shown",
                false => "no",
            });
            table.row([
                row.what.clone(),
                part(|t| t.mean),
                number(Some(row.last), 1),
                part(|t| t.per_hour),
                part(|t| t.lo),
                part(|t| t.hi),
                flat.to_owned(),
            ]);
        }
        Ok(table.text()
            + &format!(
                "\n{:.2} h: {} processes, {} clients, {} commits, {} reloads; {} windows of a policy \
                 that nobody touched.\nflat: the whole interval is below 1 per hour.\n",
                r.hours, r.processes, r.clients, r.commits, r.reloads, r.windows
            ))
    }
}

/// An agent, and what comes and goes around it.
struct Churn {
    world: World,
    program: PathBuf,
    log: PathBuf,
    processes: VecDeque<Child>,
    silent: VecDeque<Client>,
    raw: Raw,
}

impl Churn {
    fn begin(bench: &Bench<'_>) -> anyhow::Result<Self> {
        let world = World::new(bench, &["--history-size", "4M"])?;
        // The kernel keeps 15 bytes of a name; this one is nobody else's.
        let name = format!("soak{}", std::process::id());
        let program = world.path(&name);
        let own = std::env::current_exe().context("find this program")?;
        fs::copy(&own, &program).with_context(|| format!("copy {}", own.display()))?;
        let target = format!("{{ name = \"{name}\" }}");
        world.write("still", &context("c", &target, "1s"))?;
        world.write("touched", &touched(0))?;
        let log = bench.dir.raw("process.log");
        let mut this = Self {
            world,
            program,
            log,
            processes: VecDeque::new(),
            silent: VecDeque::new(),
            raw: Raw::default(),
        };
        for _ in 0..PROCESSES {
            this.process()?;
        }
        this.world.spawn()?;
        drop(this.world.connect()?);
        Ok(this)
    }

    fn run(mut self, bench: &Bench<'_>, seconds: u64) -> anyhow::Result<()> {
        let begin = clock::now();
        let every = (seconds / 1000).max(1);
        for second in 1..=seconds {
            self.second(second)?;
            if second % every == 0 {
                self.sample(begin)?;
            }
            if second % 60 == 0 {
                bench.dir.write_json("raw/samples.json", &self.raw)?;
                say(&format!("soak: {second} of {seconds} s"));
            }
            sleep_until(begin.plus_us(second * TICK_US))?;
        }
        let mut client = self.world.connect()?;
        let of = types::OfAny { policy: Some("still".to_owned()) };
        let accounts: types::Accounts = client.call("Account", &of)?;
        self.raw.windows = accounts.schemes.iter().map(|scheme| scheme.windows).sum();
        bench.dir.write_json("raw/samples.json", &self.raw)?;
        self.silent.clear();
        self.world.stop()
    }

    fn second(&mut self, second: u64) -> anyhow::Result<()> {
        if let Some(oldest) = self.processes.pop_front() {
            oldest.stop()?;
        }
        self.process()?;
        self.clients()?;
        if second.is_multiple_of(10) {
            let text = touched(second);
            let commit = types::Commit { policy: "touched".into(), text, check: None };
            let mut client = self.world.connect()?;
            let _done: types::Committed = client.call("Commit", &commit)?;
            self.raw.commits += 1;
        }
        if second.is_multiple_of(20) {
            self.world.write("read", &touched(second))?;
            self.world.agent()?.signal(Signal::HUP)?;
            self.raw.reloads += 1;
        }
        if second.is_multiple_of(60) {
            let mut client = self.world.connect()?;
            let text = touched(second);
            let commit = types::Commit { policy: "brief".into(), text, check: None };
            let _done: types::Committed = client.call("Commit", &commit)?;
            let of = types::OfPolicy { policy: "brief".into() };
            let _done: types::Nothing = client.call("Remove", &of)?;
            self.raw.commits += 1;
        }
        self.world.agent()?.still_runs()
    }

    fn process(&mut self) -> anyhow::Result<()> {
        self.processes.push_back(Child::start(&self.program, ["holder", "1", "1"], &self.log)?);
        self.raw.processes += 1;
        Ok(())
    }

    fn clients(&mut self) -> anyhow::Result<()> {
        let mut client = self.world.connect()?;
        let _status: types::Status = client.call("Status", &types::NoArguments {})?;
        let mut client = self.world.connect()?;
        let _all: types::Snapshots = client.call("Snapshot", &types::Which::default())?;
        let mut silent = self.world.connect()?;
        silent.call_more("Follow", &types::Follow { every_ms: Some(0), ..Default::default() })?;
        self.silent.push_back(silent);
        if self.silent.len() > SILENT {
            self.silent.pop_front();
        }
        self.raw.clients += 3;
        Ok(())
    }

    fn sample(&mut self, begin: Time) -> anyhow::Result<()> {
        let pid = self.world.pid()?;
        self.raw.samples.push(Sample {
            hours: to_f64(clock::now().since(begin)) / 3.6e12,
            rss: procfs::status_bytes(pid, "VmRSS")?,
            fds: entries(pid, "fd")?,
            threads: entries(pid, "task")?,
        });
        Ok(())
    }
}

/// A policy of which each text differs, and that finds no process.
fn touched(nr: u64) -> String {
    context("c", "{ name = \"isotherm-nobody\" }", &format!("{}ms", 1000 + nr % 5000))
}
