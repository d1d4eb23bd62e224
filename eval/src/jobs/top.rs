//! Job `top`: what `isotherm top` costs over 200 processes, and how soon and how rightly it shows
//! them.
//!
//! 4 processes of 128 MiB, 16 of 32 MiB and 180 of 4 MiB; of the large ones half is touched ten
//! times a second, so 512 MiB are hot. Each run is a `top --batch` of one table per second; the
//! tables and the CPU time at each second stay in `raw/`.

use std::fs::{self, File};
use std::process::{Command, Stdio};

use anyhow::Context;
use isotherm_sys::clock;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::cli::say;
use crate::dir::ResultDir;
use crate::job::{Bench, Job, Spec};
use crate::processes::child::{Child, sleep_until};
use crate::readings::procfs;
use crate::requirement::{self, Requirement};
use crate::stats::to_f64;
use crate::table::{Table, number};

/// How many processes of how many MiB, and how much of each is hot.
const HERD: [(usize, usize, usize); 3] = [(4, 128, 64), (16, 32, 16), (180, 4, 0)];
/// What is hot in all, in MiB.
const HOT_MIB: f64 = 512.0;
/// All is seen where at most this share is unresolved.
const SEEN: f64 = 0.01;
/// The time between two touches of a hot page, in µs.
const TOUCH_US: u64 = 100_000;
/// Until then, in s, the beginning is told apart from the rest.
const BEGINNING: usize = 20;

/// Time to fill the memory, on a busy machine.
const PATIENCE_US: u64 = 60_000_000;
/// Bytes between two touches.
const PAGE: usize = 4096;

/// The job.
#[derive(Debug)]
pub(crate) struct Top;

/// What one run measured beside its tables; `raw/runs.json` lists them.
#[derive(Debug, Clone, Serialize, Deserialize)]
struct Run {
    /// From the start of a `top` of its own until its table with names and sizes was printed.
    first_ms: f64,
    /// CPU time since the start, at the end of each second.
    cpu_ns: Vec<u64>,
    load: f64,
}

/// What a table says of all processes, in MiB.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Sums {
    within: [Option<f64>; 3],
    rss: f64,
    unresolved: f64,
}

#[derive(Debug, Serialize, Deserialize)]
struct Row {
    first_ms: f64,
    load: f64,
    /// The share that was unresolved after 10 s, and when all was seen.
    unresolved_10s: Option<f64>,
    seen_s: Option<usize>,
    cpu_beginning: f64,
    cpu_rest: f64,
    /// Working sets over 1 s and 10 s in the last table, in MiB.
    second: Option<f64>,
    ten: Option<f64>,
}

impl Job for Top {
    fn name(&self) -> &'static str {
        "top"
    }

    fn about(&self) -> &'static str {
        "CPU, first screen, full picture and working sets of `top` over 200 processes"
    }

    fn sysreqs(&self, _: &Spec) -> Vec<Requirement> {
        requirement::measuring(4)
    }

    fn run(&self, bench: &Bench<'_>) -> anyhow::Result<()> {
        let herd = herd(bench)?;
        let pids: Vec<String> = herd.iter().map(|child| child.pid().to_string()).collect();
        let (runs, seconds) = if bench.spec.quick { (1, 12.0) } else { (3, 60.0) };
        let runs = bench.spec.pairs.unwrap_or(runs);
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "a few minutes"
        )]
        let seconds = bench.spec.seconds.unwrap_or(seconds).max(1.0) as u64;
        let mut done = Vec::new();
        for nr in 0..runs {
            say(&format!("top: run {} of {runs}", nr + 1));
            done.push(measure(bench, &pids.join(","), nr, seconds)?);
            bench.dir.write_json("raw/runs.json", &done)?;
        }
        herd.into_iter().try_for_each(Child::stop)
    }

    fn study(&self, dir: &ResultDir) -> anyhow::Result<Value> {
        let runs: Vec<Run> = dir.read_json("raw/runs.json")?;
        let mut rows = Vec::new();
        for (nr, run) in runs.iter().enumerate() {
            let text = fs::read_to_string(dir.raw(&table_name(nr))).context("read the tables")?;
            rows.push(row(run, &sums(&text)));
        }
        Ok(serde_json::to_value(rows)?)
    }

    fn format(&self, result: &Value) -> anyhow::Result<String> {
        let rows: Vec<Row> = serde_json::from_value(result.clone())?;
        let mut table = Table::new([
            "first ms",
            "unseen 10 s %",
            "all seen s",
            "CPU % 20 s",
            "CPU % later",
            "1 s MiB",
            "10 s MiB",
            "load",
        ]);
        for row in &rows {
            table.row([
                number(Some(row.first_ms), 0),
                number(row.unresolved_10s.map(|share| share * 100.0), 1),
                row.seen_s.map_or_else(|| "-".to_owned(), |s| s.to_string()),
                number(Some(row.cpu_beginning), 2),
                number(Some(row.cpu_rest), 2),
                number(row.second, 0),
                number(row.ten, 0),
                number(Some(row.load), 1),
            ]);
        }
        let goal = format!(
            "\nGoals: first screen 1000 ms, all seen within 10 s, 1 % of a CPU; {HOT_MIB} MiB are hot.\n"
        );
        Ok(table.text() + &goal)
    }
}

fn table_name(nr: usize) -> String {
    format!("run-{nr}.txt")
}

/// Starts the processes, and waits until all have their memory.
fn herd(bench: &Bench<'_>) -> anyhow::Result<Vec<Child>> {
    let program = std::env::current_exe().context("find this program")?;
    let mut herd = Vec::new();
    for (many, mib, hot) in HERD {
        for nr in 0..many {
            let args = ["holder".to_owned(), mib.to_string(), hot.to_string()];
            let log = bench.dir.raw(&format!("{mib}-{nr}.log"));
            herd.push((mib, Child::start(&program, args, &log)?));
        }
    }
    let deadline = clock::now().plus_us(PATIENCE_US);
    for (mib, child) in &mut herd {
        while procfs::status_bytes(child.pid(), "VmRSS")? < (*mib as u64) << 20 {
            child.still_runs()?;
            anyhow::ensure!(clock::now() < deadline, "the processes did not fill their memory");
            sleep_until(clock::now().plus_us(10_000))?;
        }
    }
    Ok(herd.into_iter().map(|(_, child)| child).collect())
}

/// Holds so many MiB, and touches the first `hot` of them ten times a second until it is ended.
pub(crate) fn hold(mib: usize, hot: usize) -> anyhow::Result<()> {
    let mut memory = vec![0_u8; mib << 20];
    memory.iter_mut().step_by(PAGE).for_each(|byte| *byte = 1);
    loop {
        let next = clock::now().plus_us(if hot > 0 { TOUCH_US } else { 10 * TOUCH_US });
        let hot = memory.iter_mut().take(hot << 20);
        hot.step_by(PAGE).for_each(|byte| *byte = byte.wrapping_add(1));
        std::hint::black_box(&mut memory);
        sleep_until(next)?;
    }
}

fn top(bench: &Bench<'_>, pids: &str, args: &[&str], out: File) -> Command {
    let mut command = Command::new(&bench.spec.isotherm);
    command.args(["top", "--batch", "--color", "never", "-p", pids]).args(args);
    command.stdin(Stdio::null()).stdout(out);
    command
}

fn measure(bench: &Bench<'_>, pids: &str, nr: usize, seconds: u64) -> anyhow::Result<Run> {
    let create = |name: &str| {
        let path = bench.dir.raw(name);
        File::create(&path).with_context(|| format!("create {}", path.display()))
    };
    let begin = clock::now();
    let mut first =
        top(bench, pids, &["-n", "1", "-d", "1ms"], create(&format!("first-{nr}.txt"))?);
    anyhow::ensure!(first.status().context("start top")?.success(), "top --batch -n 1 failed");
    let first_ms = to_f64(clock::now().since(begin)) / 1e6;
    let count = seconds.to_string();
    let command = top(bench, pids, &["-d", "1s", "-n", &count], create(&table_name(nr))?);
    let begin = clock::now();
    let mut child = Child::spawn(command, &bench.dir.raw(&format!("run-{nr}.log")))?;
    let mut cpu_ns = Vec::new();
    for second in 1..seconds {
        sleep_until(begin.plus_us(second * 1_000_000))?;
        child.still_runs()?;
        cpu_ns.push(procfs::cpu_ns(child.pid())?);
    }
    let load = procfs::load_average()?;
    child.stop()?;
    Ok(Run { first_ms, cpu_ns, load })
}

fn row(run: &Run, sums: &[Sums]) -> Row {
    let share = |sums: &Sums| sums.unresolved / sums.rss.max(1.0);
    // Before anything was looked at, nothing is known to be unresolved either.
    let is_seen = |sums: &Sums| sums.within[0].is_some() && share(sums) <= SEEN;
    let at = |second: usize| run.cpu_ns.get(second.wrapping_sub(1)).copied().map_or(0.0, to_f64);
    let all = run.cpu_ns.len();
    let middle = BEGINNING.min(all);
    let percent = |from: usize, to: usize| {
        #[expect(clippy::cast_precision_loss, reason = "a few minutes")]
        let s = (to - from).max(1) as f64;
        (at(to) - at(from)) / s / 1e7
    };
    let last = sums.last();
    Row {
        first_ms: run.first_ms,
        load: run.load,
        unresolved_10s: sums.get(9).map(share),
        seen_s: sums.iter().position(is_seen).map(|at| at + 1),
        cpu_beginning: percent(0, middle),
        cpu_rest: percent(middle, all),
        second: last.and_then(|sums| sums.within[0]),
        ten: last.and_then(|sums| sums.within[1]),
    }
}

/// The sums of all tables.
fn sums(text: &str) -> Vec<Sums> {
    text.lines().filter_map(sums_of).collect()
}

/// `working set 1s ~516M  10s -  1m -  of 3.61G, unresolved 3.18G`.
fn sums_of(line: &str) -> Option<Sums> {
    let mut words = line.strip_prefix("working set ")?.split_whitespace();
    let mut behind = |name: &str| words.find(|word| *word == name).and_then(|_| words.next());
    let within = ["1s", "10s", "1m"].map(&mut behind);
    let rss = mib_of(behind("of")?.trim_end_matches(','))?;
    let unresolved = mib_of(behind("unresolved")?)?;
    Some(Sums { within: within.map(|text| text.and_then(mib_of)), rss, unresolved })
}

/// A size as the view shows it, in MiB.
fn mib_of(text: &str) -> Option<f64> {
    let text = text.trim_start_matches('~');
    let number = text.trim_end_matches(['K', 'M', 'G', 'T']);
    let factor = match text.get(number.len()..)? {
        "T" => 1024.0 * 1024.0,
        "G" => 1024.0,
        "M" => 1.0,
        "K" => 1.0 / 1024.0,
        _ => 1.0 / 1024.0 / 1024.0,
    };
    Some(number.parse::<f64>().ok()? * factor)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_herd_is_as_the_head_says() {
        let sum = |of: fn(&(usize, usize, usize)) -> usize| HERD.iter().map(of).sum::<usize>();
        let [many, hot] = [sum(|(many, ..)| *many), sum(|(many, _, hot)| many * hot)];
        assert_eq!((many, hot), (200, 512));
        assert!((to_f64(hot as u64) - HOT_MIB).abs() < 1e-9);
    }

    #[test]
    fn tables_tell_when_all_was_seen_and_what_it_cost() {
        let text = "isotherm top  2 processes\n\
                    working set 1s -  10s -  1m -  of 2.00G, unresolved 0\n\
                    working set 1s ~500M  10s -  1m -  of 2.00G, unresolved 1.00G\n\
                    working set 1s 512M  10s 513M  1m -  of 2.00G, unresolved 4.0M\n";
        let sums = sums(text);
        assert_eq!(sums.len(), 3);
        assert_eq!(sums[1].within, [Some(500.0), None, None]);
        let cpu_ns = vec![10_000_000, 30_000_000, 40_000_000];
        let row = row(&Run { first_ms: 1.0, cpu_ns, load: 0.0 }, &sums);
        assert_eq!((row.seen_s, row.second, row.ten), (Some(3), Some(512.0), Some(513.0)));
        assert!((row.cpu_beginning - 40.0 / 30.0).abs() < 1e-9, "{}", row.cpu_beginning);
    }
}
