//! Job `cgroups`: hundreds and thousands of cgroups as targets of one policy, with their metrics.
//!
//! Each cgroup has one process. 20 of them hold memory of which a known part is touched ten times a
//! second; the others sleep. What is measured: own CPU and memory, how long a scrape takes (in
//! pairs with a request that is answered without metrics), how soon a process that starts, is moved
//! between quiet cgroups, or ends shows in the events, and what the metrics say of the known
//! memory.

use std::fs;
use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::Context;
use isotherm_host::metrics::Cgroups;
use isotherm_host::proc::Proc;
use isotherm_sys::clock;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::cli::say;
use crate::dir::ResultDir;
use crate::job::{Bench, Job, Spec};
use crate::processes::child::{Child, sleep_until};
use crate::readings::procfs;
use crate::requirement::{self, Requirement};
use crate::stats::{Middle, percentile, to_f64};
use crate::table::{Table, number};

/// How many processes of how many MiB, and how much of each is hot. The rest sleep.
const HOLDERS: [(usize, usize, usize); 2] = [(4, 64, 32), (16, 16, 8)];
/// How many cgroups.
const SIZES: [usize; 2] = [500, 2000];
/// For so long, in s, nothing is measured after all targets are known, and then the CPU time is.
const REST_S: u64 = 60;
const SCRAPES: usize = 50;
const MOVES: usize = 20;
/// After that it counts as not seen, in µs.
const PATIENCE_US: u64 = 60_000_000;
const MIB: f64 = 1024.0 * 1024.0;

/// The job.
#[derive(Debug)]
pub(crate) struct ManyCgroups;

/// What one run measured; `raw/runs.json` lists them.
#[derive(Debug, Clone, Serialize, Deserialize)]
struct Run {
    cgroups: usize,
    /// From the start of `isotherm` until all processes were targets.
    known_ms: f64,
    /// CPU time of `isotherm` over [`REST_S`], as a share of one CPU.
    cpu: f64,
    rss_bytes: u64,
    scrape_ms: Vec<f64>,
    health_ms: Vec<f64>,
    scrape_bytes: usize,
    /// How soon events told, in ms.
    moved_in_ms: Vec<f64>,
    moved_out_ms: Vec<f64>,
    ended_ms: Vec<f64>,
    /// Hot bytes by the metrics and in truth, of the processes that hold memory.
    hot: Vec<(f64, f64)>,
    /// The share of their memory that was unresolved.
    unresolved: f64,
    /// The oldest knowledge who is in a cgroup, in s.
    oldest_s: f64,
    /// Processes that were not watched, for whatever reason.
    left_out: usize,
    load: f64,
}

impl Job for ManyCgroups {
    fn name(&self) -> &'static str {
        "cgroups"
    }

    fn about(&self) -> &'static str {
        "500 and 2000 cgroups as targets: own CPU, scrapes, how soon moves show, and what is said of known memory"
    }

    fn sysreqs(&self, _: &Spec) -> Vec<Requirement> {
        let mut all = requirement::measuring(4);
        all.push(requirement::root());
        all
    }

    fn run(&self, bench: &Bench<'_>) -> anyhow::Result<()> {
        let sizes: Vec<usize> = if bench.spec.quick {
            vec![60]
        } else {
            let names = SIZES.map(|nr| nr.to_string());
            let names = names.each_ref().map(String::as_str);
            SIZES.into_iter().filter(|nr| bench.spec.wants(&nr.to_string(), &names)).collect()
        };
        let mut done = Vec::new();
        for cgroups in sizes {
            say(&format!("cgroups: {cgroups}"));
            done.push(measure(bench, cgroups)?);
            bench.dir.write_json("raw/runs.json", &done)?;
        }
        Ok(())
    }

    fn study(&self, dir: &ResultDir) -> anyhow::Result<Value> {
        let runs: Vec<Run> = dir.read_json("raw/runs.json")?;
        Ok(serde_json::to_value(runs)?)
    }

    fn format(&self, result: &Value) -> anyhow::Result<String> {
        let runs: Vec<Run> = serde_json::from_value(result.clone())?;
        let mut table = Table::new(["cgroups", "what", "median", "longest"]);
        for run in &runs {
            let mut row = |what: &str, median: Option<f64>, most: Option<f64>, digits| {
                let cells = [number(median, digits), number(most, digits)];
                let [median, most] = cells;
                table.row([run.cgroups.to_string(), what.to_owned(), median, most]);
            };
            let of =
                |values: &[f64]| (Middle::of(values).map(|m| m.median), percentile(values, 1.0));
            row("all known, ms", Some(run.known_ms), None, 0);
            row("own CPU, %", Some(run.cpu * 100.0), None, 2);
            row("own memory, MiB", Some(to_f64(run.rss_bytes) / MIB), None, 1);
            #[expect(clippy::cast_precision_loss, reason = "some MiB")]
            row("scrape, KiB", Some(run.scrape_bytes as f64 / 1024.0), None, 0);
            for (what, values) in [
                ("scrape, ms", &run.scrape_ms),
                ("request without metrics, ms", &run.health_ms),
                ("seen: moved in, ms", &run.moved_in_ms),
                ("seen: moved out, ms", &run.moved_out_ms),
                ("seen: ended, ms", &run.ended_ms),
            ] {
                let (median, most) = of(values);
                row(what, median, most, 1);
            }
            let off: Vec<f64> =
                run.hot.iter().map(|(told, truth)| (told / truth - 1.0).abs() * 100.0).collect();
            let (median, most) = of(&off);
            row("hot memory of a cgroup, off by %", median, most, 1);
            row("unresolved of held memory, %", Some(run.unresolved * 100.0), None, 1);
            row("oldest list of members, s", Some(run.oldest_s), None, 1);
            #[expect(clippy::cast_precision_loss, reason = "some thousands")]
            row("processes left out", Some(run.left_out as f64), None, 0);
            row("load", Some(run.load), None, 1);
        }
        Ok(table.text()
            + "\nGoals: scrape of 500 cgroups 50 ms; moves seen within 1000 ms; budget 1 % of a CPU.\n")
    }
}

/// Cgroups below one, removed at the end.
struct Tree {
    top: PathBuf,
    path: String,
}

impl Tree {
    fn make(cgroups: usize) -> anyhow::Result<Self> {
        let mounted = Cgroups::mounted(&Proc::default());
        let mount = mounted.v2.clone().or_else(|| mounted.v1_of("memory").map(Path::to_owned));
        let mount = mount.context("no cgroups are mounted")?;
        let path = format!("/isotherm-eval-{}-{cgroups}", std::process::id());
        let tree = Self { top: mount.join(path.trim_start_matches('/')), path };
        // Beside them one that does not match.
        for name in (0..cgroups).map(|nr| format!("in/g{nr}")).chain(["out".to_owned()]) {
            let dir = tree.top.join(name);
            fs::create_dir_all(&dir).with_context(|| format!("make {}", dir.display()))?;
        }
        Ok(tree)
    }

    fn put(&self, cgroup: &str, pid: u32) -> anyhow::Result<()> {
        let file = self.top.join(cgroup).join("cgroup.procs");
        fs::write(&file, pid.to_string()).with_context(|| format!("write {}", file.display()))
    }
}

impl Drop for Tree {
    fn drop(&mut self) {
        // The kernel needs a moment after the last process.
        for _ in 0..100 {
            for dir in [self.top.join("in"), self.top.clone()] {
                for entry in fs::read_dir(&dir).into_iter().flatten().flatten() {
                    fs::remove_dir(entry.path()).ok();
                }
            }
            if fs::remove_dir(&self.top).is_ok() {
                return;
            }
            clock::sleep_until(clock::now().plus_us(50_000));
        }
    }
}

/// The processes: those with memory first, each in the cgroup of its number.
fn herd(bench: &Bench<'_>, tree: &Tree, cgroups: usize) -> anyhow::Result<Vec<Child>> {
    let program = std::env::current_exe().context("find this program")?;
    let log = bench.dir.raw("herd.log");
    let mut herd = Vec::new();
    for (many, mib, hot) in HOLDERS {
        for _ in 0..many {
            let args = ["holder".to_owned(), mib.to_string(), hot.to_string()];
            herd.push(Child::start(&program, args, &log)?);
        }
    }
    while herd.len() < cgroups {
        herd.push(Child::start("sleep", ["infinity"], &log)?);
    }
    for (nr, child) in herd.iter().enumerate() {
        tree.put(&format!("in/g{nr}"), child.pid())?;
    }
    Ok(herd)
}

fn measure(bench: &Bench<'_>, cgroups: usize) -> anyhow::Result<Run> {
    let tree = Tree::make(cgroups)?;
    let mut herd = herd(bench, &tree, cgroups)?;
    let policy = format!(
        "[[context]]\nname = \"herd\"\ntargets = [\"cgroup:{}/in/*\"]\nchildren = false\nbudget = \"1%\"\n\
         [context.intervals]\nsample = \"100ms\"\naggregation = \"1s\"\nupdate = \"10s\"\n\
         [[context.scheme]]\naction = \"stat\"\n",
        tree.path
    );
    let name = format!("policy-{cgroups}.toml");
    bench.dir.write_text(&format!("raw/{name}"), &policy)?;
    let events = bench.dir.raw(&format!("events-{cgroups}.jsonl"));
    // The path of a socket has at most 107 bytes, and that of results may have more.
    let socket = std::env::temp_dir().join(format!("isotherm-eval-{}.sock", std::process::id()));
    let mut command = Command::new(&bench.spec.isotherm);
    command.arg("run").arg(bench.dir.raw(&name)).arg("--metrics").arg(&socket);
    command.arg("--events").arg(&events).stdin(Stdio::null()).stdout(Stdio::null());
    let begin = clock::now();
    let mut isotherm = Child::spawn(command, &bench.dir.raw(&format!("isotherm-{cgroups}.log")))?;
    let many = |events: &str| events.matches("\"event\":\"target_added\"").count();
    wait(&mut isotherm, || Ok(many(&read(&events)) >= cgroups))?;
    let known_ms = since_ms(begin);
    let seconds = if bench.spec.quick { 2 } else { REST_S };
    sleep_until(clock::now().plus_us(seconds * 1_000_000))?;
    let (from, before) = (clock::now(), procfs::cpu_ns(isotherm.pid())?);
    sleep_until(from.plus_us(seconds * 1_000_000))?;
    let used = procfs::cpu_ns(isotherm.pid())? - before;
    let cpu = to_f64(used) / to_f64(clock::now().since(from));
    let rss_bytes = procfs::status_bytes(isotherm.pid(), "VmRSS")?;
    let (mut scrape_ms, mut health_ms, mut text) = (Vec::new(), Vec::new(), String::new());
    for _ in 0..SCRAPES {
        for (path, times) in [("/metrics", &mut scrape_ms), ("/healthz", &mut health_ms)] {
            let begin = clock::now();
            let answer = ask(&socket, path)?;
            times.push(since_ms(begin));
            if path == "/metrics" {
                text = answer;
            }
        }
        sleep_until(clock::now().plus_us(20_000))?;
    }
    bench.dir.write_text(&format!("raw/metrics-{cgroups}.txt"), &text)?;
    let (hot, unresolved) = held(&text);
    let oldest_s = values(&text, "isotherm_cgroup_age_seconds", "").map(|(_, s)| s);
    let oldest_s = oldest_s.fold(0.0, f64::max);
    let left_out = read(&events).matches("\"event\":\"left_out\"").count();
    let [moved_in_ms, moved_out_ms, ended_ms] =
        moves(bench, &tree, &mut herd, &mut isotherm, &events)?;
    let load = procfs::load_average()?;
    isotherm.stop()?;
    fs::remove_file(&socket).ok();
    drop(herd);
    let scrape_bytes = text.len();
    Ok(Run {
        cgroups,
        known_ms,
        cpu,
        rss_bytes,
        scrape_ms,
        health_ms,
        scrape_bytes,
        moved_in_ms,
        moved_out_ms,
        ended_ms,
        hot,
        unresolved,
        oldest_s,
        left_out,
        load,
    })
}

/// Moves sleeping processes out of quiet cgroups and into others, at odd times, and ends them.
fn moves(
    bench: &Bench<'_>,
    tree: &Tree,
    herd: &mut Vec<Child>,
    isotherm: &mut Child,
    events: &Path,
) -> anyhow::Result<[Vec<f64>; 3]> {
    let times = if bench.spec.quick { 3 } else { MOVES };
    let [mut moved_in, mut moved_out, mut ended] = [const { Vec::new() }; 3];
    let holders: usize = HOLDERS.iter().map(|(many, ..)| many).sum();
    let step = (herd.len() - holders) / (times + 1);
    for nr in 0..times {
        let from = holders + nr * step;
        let pid = herd.get(from).context("too few processes")?.pid();
        let mut seen = |what: &str, count: usize, to: Option<&str>| -> anyhow::Result<f64> {
            let begin = clock::now();
            match to {
                Some(to) => tree.put(to, pid)?,
                None => drop(herd.remove(from)),
            }
            // What an ended process did before it was waited for counts as well.
            wait(isotherm, || Ok(told(&read(events), what, pid) >= count))?;
            Ok(since_ms(begin))
        };
        moved_out.push(seen("target_gone", 1, Some("out"))?);
        // At any time within the second of a poll.
        sleep_until(clock::now().plus_us(137_000 * (nr as u64 % 7)))?;
        moved_in.push(seen("target_added", 2, Some(&format!("in/g{}", from + step / 2)))?);
        sleep_until(clock::now().plus_us(113_000 * (nr as u64 % 7)))?;
        ended.push(seen("target_gone", 2, None)?);
    }
    Ok([moved_in, moved_out, ended])
}

/// How many events of this kind there are of a process.
fn told(events: &str, what: &str, pid: u32) -> usize {
    let (kind, pid) = (format!("\"event\":\"{what}\""), format!("\"pid\":{pid},"));
    events.lines().filter(|line| line.contains(&kind) && line.contains(&pid)).count()
}

fn read(events: &Path) -> String {
    fs::read_to_string(events).unwrap_or_default()
}

fn since_ms(begin: isotherm_core::Time) -> f64 {
    to_f64(clock::now().since(begin)) / 1e6
}

/// Waits until something is so, while `isotherm` runs.
fn wait(
    isotherm: &mut Child,
    mut is_so: impl FnMut() -> anyhow::Result<bool>,
) -> anyhow::Result<()> {
    let deadline = clock::now().plus_us(PATIENCE_US);
    while !is_so()? {
        isotherm.still_runs()?;
        anyhow::ensure!(clock::now() < deadline, "nothing was told within a minute");
        sleep_until(clock::now().plus_us(5_000))?;
    }
    Ok(())
}

/// What the server answers, without its head.
fn ask(socket: &Path, path: &str) -> anyhow::Result<String> {
    let mut stream = UnixStream::connect(socket).context("connect to the metrics")?;
    let request =
        format!("GET {path} HTTP/1.1\r\nHost: x\r\nAccept: application/openmetrics-text\r\n\r\n");
    stream.write_all(request.as_bytes()).context("ask for metrics")?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).context("read the metrics")?;
    let (head, body) = answer.split_once("\r\n\r\n").context("an answer without a head")?;
    anyhow::ensure!(head.starts_with("HTTP/1.1 200"), "{path}: {head}");
    Ok(body.to_owned())
}

/// The samples of a metric whose labels have `label` in them, with the number of the cgroup.
fn values<'a>(
    text: &'a str,
    name: &'a str,
    label: &'a str,
) -> impl Iterator<Item = (Option<usize>, f64)> + 'a {
    let samples = text.lines().filter_map(move |line| line.strip_prefix(name)?.strip_prefix('{'));
    samples.filter(move |line| line.contains(label)).filter_map(|line| {
        let (labels, value) = line.rsplit_once("} ")?;
        let cgroup = labels.split("cgroup=\"").nth(1)?.split('"').next()?;
        let nr = cgroup.rsplit("/g").next().and_then(|nr| nr.parse().ok());
        Some((nr, value.parse().ok()?))
    })
}

/// Of the cgroups with memory: hot bytes as told and in truth; and the share that is unresolved.
fn held(text: &str) -> (Vec<(f64, f64)>, f64) {
    let truth: Vec<usize> =
        HOLDERS.iter().flat_map(|(many, _, hot)| std::iter::repeat_n(*hot, *many)).collect();
    let of = |tier: &str| -> Vec<(usize, f64)> {
        let label = format!("tier=\"{tier}\"");
        let all = values(text, "isotherm_target_bytes", &label);
        all.filter_map(|(nr, bytes)| Some((nr?, bytes)))
            .filter(|(nr, _)| *nr < truth.len())
            .collect()
    };
    #[expect(clippy::cast_precision_loss, reason = "some MiB")]
    let hot = of("hot").into_iter().map(|(nr, bytes)| (bytes, truth[nr] as f64 * MIB)).collect();
    let sum = |tier: &str| of(tier).iter().map(|(_, bytes)| bytes).sum::<f64>();
    let unresolved = sum("unresolved");
    let all = unresolved + sum("hot") + sum("warm") + sum("cold");
    (hot, if all > 0.0 { unresolved / all } else { 0.0 })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn samples_of_known_cgroups_are_found() {
        let line = |nr: u32, tier: &str, bytes: f64| {
            format!(
                "isotherm_target_bytes{{context=\"herd\",cgroup=\"/x/in/g{nr}\",unit=\"\",tier=\"{tier}\"}} {bytes}\n"
            )
        };
        let text = line(0, "hot", 33.0 * MIB)
            + &line(0, "cold", 30.0 * MIB)
            + &line(0, "unresolved", 1.0 * MIB)
            + &line(4, "hot", 8.0 * MIB)
            + &line(20, "hot", 5.0);
        let (hot, unresolved) = held(&text);
        assert_eq!(hot, [(33.0 * MIB, 32.0 * MIB), (8.0 * MIB, 8.0 * MIB)]);
        assert!((unresolved - 1.0 / 72.0).abs() < 1e-9, "{unresolved}");
    }

    #[test]
    fn events_are_counted_by_process() {
        let events = "{\"event\":\"target_added\",\"pid\":12,\"x\":1}\n\
                      {\"event\":\"target_gone\",\"pid\":12,\"x\":1}\n\
                      {\"event\":\"target_gone\",\"pid\":123,\"x\":1}\n";
        assert_eq!(told(events, "target_gone", 12), 1);
        assert_eq!(told(events, "target_added", 123), 0);
    }
}
