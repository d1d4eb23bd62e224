//! Job `agent`: how soon an agent that was killed follows its targets again, what it leaves behind,
//! and what it costs with 50 contexts.
//!
//! 50 processes of 4 MiB, a context for each, and a policy that advises against huge pages in one
//! more, so that there is something to take back. The agent is killed with SIGKILL and started
//! again at once, 20 times: from the kill until every process is in a window of the new agent.
//! Each time its notes are read for advice that was given twice. At the end its policies are taken
//! away, and what is left is counted.

pub(crate) mod soak;
mod trend;
mod world;

use std::collections::BTreeSet;
use std::fs;

use anyhow::Context;
use isotherm_control::types;
use isotherm_sys::clock;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use self::world::{LOOK_US, PATIENCE_US, World, context};
use crate::cli::say;
use crate::dir::ResultDir;
use crate::job::{Bench, Job, Spec};
use crate::processes::child::{Child, sleep_until};
use crate::readings::procfs;
use crate::requirement::{self, Requirement};
use crate::stats::{Middle, percentile, to_f64};
use crate::table::{Table, mib, number};

const CONTEXTS: usize = 50;
/// The budget of all contexts, in percent of one CPU: the agent's default.
const BUDGET: f64 = 5.0;
const CALLS: usize = 2000;

/// The job.
#[derive(Debug)]
pub(crate) struct Agent;

/// `raw/run.json`.
#[derive(Debug, Default, Serialize, Deserialize)]
struct Raw {
    /// From each kill until all was followed again, and until the agent listened, in ns.
    followed_ns: Vec<u64>,
    listened_ns: Vec<u64>,
    /// Ranges for which advice was noted twice in one life.
    double: usize,
    /// Bytes with advice: before anything, while the agent ran, and after all.
    advised_before: u64,
    advised: u64,
    advised_after: u64,
    /// Notes, sockets and processes that were left at the end.
    left: Vec<String>,
    round_trip_ns: Vec<u64>,
    cpu_percent: f64,
    rss: u64,
    thp_always: bool,
    load: f64,
}

#[derive(Debug, Serialize, Deserialize)]
struct Result {
    followed_ms: Option<Middle>,
    slowest_ms: Option<f64>,
    listened_ms: Option<Middle>,
    double: usize,
    advised_mib: f64,
    advised_left: u64,
    left: Vec<String>,
    round_trip_us: Option<Middle>,
    round_trip_p99_us: Option<f64>,
    cpu_percent: f64,
    rss: u64,
    thp_always: bool,
    load: f64,
}

impl Job for Agent {
    fn name(&self) -> &'static str {
        "agent"
    }

    fn about(&self) -> &'static str {
        "an agent of 50 contexts: restarts after SIGKILL, round trips, CPU and memory"
    }

    fn sysreqs(&self, _: &Spec) -> Vec<Requirement> {
        requirement::measuring(2)
    }

    fn run(&self, bench: &Bench<'_>) -> anyhow::Result<()> {
        let raw = measure(bench)?;
        bench.dir.write_json("raw/run.json", &raw)
    }

    fn study(&self, dir: &ResultDir) -> anyhow::Result<Value> {
        let raw: Raw = dir.read_json("raw/run.json")?;
        let scaled =
            |ns: &[u64], by: f64| -> Vec<f64> { ns.iter().map(|ns| to_f64(*ns) / by).collect() };
        let (followed, trips) = (scaled(&raw.followed_ns, 1e6), scaled(&raw.round_trip_ns, 1e3));
        Ok(serde_json::to_value(Result {
            followed_ms: Middle::of(&followed),
            slowest_ms: followed.iter().copied().reduce(f64::max),
            listened_ms: Middle::of(&scaled(&raw.listened_ns, 1e6)),
            double: raw.double,
            advised_mib: to_f64(raw.advised.saturating_sub(raw.advised_before)) / 1_048_576.0,
            advised_left: raw.advised_after.saturating_sub(raw.advised_before),
            left: raw.left,
            round_trip_us: Middle::of(&trips),
            round_trip_p99_us: percentile(&trips, 0.99),
            cpu_percent: raw.cpu_percent,
            rss: raw.rss,
            thp_always: raw.thp_always,
            load: raw.load,
        })?)
    }

    fn format(&self, result: &Value) -> anyhow::Result<String> {
        let r: Result = serde_json::from_value(result.clone())?;
        let mut table = Table::new(["what", "median", "95 % from", "to", "n", "goal"]);
        let mut row = |what: &str, middle: Option<Middle>, digits: usize, goal: &str| {
            let part = |of: fn(&Middle) -> f64| number(middle.as_ref().map(of), digits);
            let n = middle.map_or(0, |m| m.n).to_string();
            let cells = [part(|m| m.median), part(|m| m.lo), part(|m| m.hi), n, goal.to_owned()];
            table.row(std::iter::once(what.to_owned()).chain(cells));
        };
        row("killed until all is followed, ms", r.followed_ms, 0, "2000");
        row("killed until it listens, ms", r.listened_ms, 0, "");
        row("round trip of Status, us", r.round_trip_us, 0, "1000");
        let left = if r.left.is_empty() { "nothing".to_owned() } else { r.left.join(", ") };
        Ok(table.text()
            + &format!(
                "\nslowest restart {} ms; round trip p99 {} us\n\
                 advice given to {:.1} MiB; noted twice {}; bytes left {} (advice stays where huge pages \
                 are not for all, since it has no effect there); left behind: {left}\n\
                 {CONTEXTS} contexts: {} MiB resident (goal 100; huge pages for all: {}), CPU {:.2} % \
                 (goal 1 % and the budget of {BUDGET} %), load {:.1}\n",
                number(r.slowest_ms, 0),
                number(r.round_trip_p99_us, 0),
                r.advised_mib,
                r.double,
                r.advised_left,
                mib(Some(to_f64(r.rss))),
                r.thp_always,
                r.cpu_percent,
                r.load,
            ))
    }
}

fn measure(bench: &Bench<'_>) -> anyhow::Result<Raw> {
    let quick = bench.spec.quick;
    let restarts = bench.spec.pairs.unwrap_or(if quick { 2 } else { 20 });
    let program = std::env::current_exe().context("find this program")?;
    let mut children = Vec::new();
    for nr in 0..=CONTEXTS {
        let log = bench.dir.raw(&format!("target-{nr}.log"));
        children.push(Child::start(&program, ["holder", "4", "1"], &log)?);
    }
    let advised = children.last().context("no process")?.pid();
    let mut world = World::new(bench, &[])?;
    world.write("many", &many(&children))?;
    world.write("advise", &advise(advised))?;
    let thp = fs::read_to_string("/sys/kernel/mm/transparent_hugepage/enabled");
    let mut raw = Raw {
        advised_before: flagged(advised)?,
        thp_always: thp.is_ok_and(|text| text.contains("[always]")),
        ..Raw::default()
    };
    kill_again_and_again(&mut world, restarts, &children, &mut raw)?;
    cost(&mut world, bench, &mut raw)?;

    // Killed once more, and nobody wants anything of the next one.
    world.kill()?;
    for name in ["many", "advise"] {
        fs::remove_file(world.path(&format!("policies.d/{name}.toml")))?;
    }
    world.spawn()?;
    drop(world.connect()?);
    world.stop()?;
    raw.advised_after = flagged(advised)?;
    raw.left = left_behind(&world)?;
    children.into_iter().try_for_each(Child::stop)?;
    Ok(raw)
}

/// A policy with a context for each of these processes but the last.
fn many(children: &[Child]) -> String {
    let contexts = children.iter().take(CONTEXTS).enumerate();
    let context = |(nr, child): (usize, &Child)| {
        context(&format!("c{nr}"), &format!("{{ pid = {} }}", child.pid()), "1s")
    };
    contexts.map(context).collect()
}

/// Kills the agent so many times, and each time waits until it follows everything again.
fn kill_again_and_again(
    world: &mut World,
    restarts: usize,
    children: &[Child],
    raw: &mut Raw,
) -> anyhow::Result<()> {
    let pids: BTreeSet<u64> = children.iter().map(|child| u64::from(child.pid())).collect();
    let advised = children.last().context("no process")?.pid();
    let begin = clock::now();
    world.spawn()?;
    world.followed(&pids, begin)?;
    raw.advised = wait_for_advice(advised, raw)?;
    for nr in 0..restarts {
        say(&format!("agent: restart {} of {restarts}", nr + 1));
        raw.double += noted_twice(world)?;
        let killed = clock::now();
        world.kill()?;
        world.spawn()?;
        drop(world.connect()?);
        raw.listened_ns.push(clock::now().since(killed));
        raw.followed_ns.push(world.followed(&pids, killed)?.since(killed));
        wait_for_advice(advised, raw)?;
        sleep_until(clock::now().plus_us(500_000))?;
    }
    raw.double += noted_twice(world)?;
    Ok(())
}

/// What the agent costs by itself, and how soon it answers.
fn cost(world: &mut World, bench: &Bench<'_>, raw: &mut Raw) -> anyhow::Result<()> {
    let quick = bench.spec.quick;
    // What all contexts together take is brought down to the budget within 40 s.
    sleep_until(clock::now().plus_us(if quick { 500_000 } else { 60_000_000 }))?;
    let pid = world.pid()?;
    let seconds = bench.spec.seconds.unwrap_or(if quick { 2.0 } else { 60.0 });
    let (cpu, from) = (procfs::cpu_ns(pid)?, clock::now());
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a few minutes")]
    sleep_until(from.plus_us((seconds * 1e6) as u64))?;
    let used = procfs::cpu_ns(pid)?.saturating_sub(cpu);
    raw.cpu_percent = to_f64(used) * 100.0 / to_f64(clock::now().since(from));
    raw.rss = procfs::status_bytes(pid, "VmRSS")?;
    raw.round_trip_ns = round_trips(world, if quick { 200 } else { CALLS })?;
    raw.load = procfs::load_average()?;
    Ok(())
}

/// A policy that advises against huge pages.
fn advise(pid: u32) -> String {
    format!(
        "[[context]]\nname = \"c\"\ntargets = [{{ pid = {pid} }}]\n[[context.scheme]]\n\
         name = \"advise\"\naction = \"nohugepage\"\ninject = true\nevidence = \"off\"\n"
    )
}

/// Bytes of a process that were advised against huge pages.
fn flagged(pid: u32) -> anyhow::Result<u64> {
    let text = fs::read_to_string(format!("/proc/{pid}/smaps")).context("read smaps")?;
    let (mut size, mut sum) = (0, 0);
    for line in text.lines() {
        if let Some(kib) = line.strip_prefix("Size:") {
            size = kib.trim().trim_end_matches("kB").trim().parse::<u64>().unwrap_or(0) << 10;
        }
        let flags = line.strip_prefix("VmFlags:");
        if flags.is_some_and(|flags| flags.split_whitespace().any(|flag| flag == "nh")) {
            sum += size;
        }
    }
    Ok(sum)
}

/// Waits until advice was given. There is none where it would have no effect.
fn wait_for_advice(pid: u32, raw: &Raw) -> anyhow::Result<u64> {
    let deadline = clock::now().plus_us(PATIENCE_US);
    while raw.thp_always && flagged(pid)? <= raw.advised_before {
        anyhow::ensure!(clock::now() < deadline, "no advice is given");
        sleep_until(clock::now().plus_us(LOOK_US))?;
    }
    flagged(pid)
}

/// How many ranges the notes of the agent that runs have more than once.
fn noted_twice(world: &World) -> anyhow::Result<usize> {
    let path = world.path("state/state/advice.jsonl");
    let text = fs::read_to_string(&path).with_context(|| format!("read {}", path.display()))?;
    let (mut seen, mut twice) = (BTreeSet::new(), 0);
    for line in text.lines() {
        // A last line that is cut short was never finished.
        let Ok(line) = serde_json::from_str::<Value>(line) else { continue };
        if line.get("taken_back").is_some() {
            seen.clear();
        }
        let given = &line["given"];
        for granule in given["granules"].as_array().into_iter().flatten() {
            twice += usize::from(!seen.insert((given["whose"].to_string(), granule.as_u64())));
        }
    }
    Ok(twice)
}

/// How long calls take, one after another.
fn round_trips(world: &mut World, calls: usize) -> anyhow::Result<Vec<u64>> {
    let mut client = world.connect()?;
    let mut all = Vec::with_capacity(calls);
    for _ in 0..calls {
        let from = clock::now();
        let _status: types::Status = client.call("Status", &types::NoArguments {})?;
        all.push(clock::now().since(from));
        sleep_until(clock::now().plus_us(1000))?;
    }
    Ok(all)
}

/// What an agent that has ended should not leave.
fn left_behind(world: &World) -> anyhow::Result<Vec<String>> {
    let mut left = Vec::new();
    if world.path("s.sock").exists() {
        left.push("the socket".to_owned());
    }
    if fs::metadata(world.path("state/state/advice.jsonl"))?.len() > 0 {
        left.push("notes of advice".to_owned());
    }
    let state = fs::read_dir(world.path("state/state"))?;
    let known = ["lock", "state.json", "advice.jsonl"];
    let names = state.flatten().map(|entry| entry.file_name().to_string_lossy().into_owned());
    left.extend(names.filter(|name| !known.contains(&name.as_str())));
    Ok(left)
}
