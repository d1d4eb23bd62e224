//! Job `stalls`: how long a target waits for its own mmap lock while it is monitored.
//!
//! To make pages old the monitor takes the target's mmap lock. The target has two threads: one
//! touches a twelfth of the pages of 1 GiB, spread over all of it, and other ones every two
//! seconds; the other maps 64 KiB, touches its 16 pages and unmaps it, all the time. The longest
//! such round of every second is a value. On two CPUs the monitor has to share one with the target,
//! so that it can be preempted with the lock in its hands.
//!
//! The modes take turns, in slices, on one target. The monitor is started anew for each slice, so
//! that its first sweep over all memory is in there, too.

use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use anyhow::Context;
use isotherm_core::Time;
use isotherm_sys::clock;
use isotherm_sys::workload::{Arena, HugePages, Sweep, Touch};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::cli::say;
use crate::dir::ResultDir;
use crate::job::{Bench, Job, Spec};
use crate::processes::child::{Child, sleep_until};
use crate::processes::recording::{self, Cost};
use crate::requirement::{self, Requirement};
use crate::stats::{Middle, percentile, to_f64};
use crate::table::{Table, number};

/// Nobody watches; the methods of `isotherm record`.
const MODES: [&str; 3] = [CONTROL, "census", "first-touch"];
const CONTROL: &str = "none";
const ROUNDS: &str = "rounds.txt";

/// Memory of the target, in bytes.
const MEMORY: u64 = 1 << 30;
const PAGE: u64 = 4096;
/// One page in so many is touched.
const EVERY: u64 = 12;
/// For how long the same pages are touched, in ns.
const SAME_NS: u64 = 2_000_000_000;
/// What is mapped and unmapped, in bytes.
const MAPPED: u64 = 16 * PAGE;
/// Time after a start in which nothing is counted, in µs: the monitor's own tests.
const SETTLE_US: u64 = 1_000_000;

/// The job.
#[derive(Debug)]
pub(crate) struct Stalls;

/// `raw/slices.json`: one slice of one mode.
#[derive(Debug, Serialize, Deserialize)]
struct Slice {
    mode: String,
    /// Name of its record, if there is one.
    record: Option<String>,
    /// In ns.
    from: u64,
    to: u64,
}

/// One second of the target: when it began, its longest round, and the number of its rounds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Second {
    at: u64,
    longest_ns: u64,
    nr: u64,
}

/// The result of a mode: in ms, over seconds.
#[derive(Debug, Serialize, Deserialize)]
struct Row {
    mode: String,
    seconds: usize,
    median_ms: Option<f64>,
    p90_ms: Option<f64>,
    worst_ms: Option<f64>,
    rounds_per_s: Option<Middle>,
    cost: Option<Cost>,
}

impl Job for Stalls {
    fn name(&self) -> &'static str {
        "stalls"
    }

    fn about(&self) -> &'static str {
        "longest mmap, 16 faults and munmap per second of a busy target, with and without the monitor"
    }

    fn sysreqs(&self, _: &Spec) -> Vec<Requirement> {
        requirement::measuring(2)
    }

    fn run(&self, bench: &Bench<'_>) -> anyhow::Result<()> {
        let (rounds, slice_us) = if bench.spec.quick {
            (1, 4_000_000)
        } else {
            (bench.spec.pairs.unwrap_or(10), 31_000_000)
        };
        let mut target = start_target(&bench.dir.raw(ROUNDS))?;
        let mut slices = Vec::new();
        for round in 0..rounds {
            for mode in MODES.into_iter().filter(|m| bench.spec.wants(m, &MODES)) {
                say(&format!("stalls: {mode}, {} of {rounds}", round + 1));
                target.still_runs()?;
                slices.push(slice(bench, &target, mode, round, slice_us)?);
            }
        }
        bench.dir.write_json("raw/slices.json", &slices)?;
        target.stop()
    }

    fn study(&self, dir: &ResultDir) -> anyhow::Result<Value> {
        let slices: Vec<Slice> = dir.read_json("raw/slices.json")?;
        let text = std::fs::read_to_string(dir.raw(ROUNDS)).context("read the target's rounds")?;
        let seconds: Vec<Second> = text.lines().filter_map(parse).collect();
        let mut rows = Vec::new();
        for mode in MODES {
            let slices: Vec<&Slice> = slices.iter().filter(|s| s.mode == mode).collect();
            let Some(last) = slices.last() else { continue };
            let of_mode: Vec<Second> =
                slices.iter().flat_map(|slice| within(&seconds, slice)).collect();
            let longest: Vec<f64> = of_mode.iter().map(|s| to_f64(s.longest_ns) / 1e6).collect();
            let nr: Vec<f64> = of_mode.iter().map(|s| to_f64(s.nr)).collect();
            let cost = match &last.record {
                Some(name) => Cost::of(&recording::windows(&dir.raw(name))?, last.from, last.to),
                None => None,
            };
            rows.push(Row {
                mode: mode.to_owned(),
                seconds: of_mode.len(),
                median_ms: percentile(&longest, 0.5),
                p90_ms: percentile(&longest, 0.9),
                worst_ms: percentile(&longest, 1.0),
                rounds_per_s: Middle::of(&nr),
                cost,
            });
        }
        Ok(serde_json::to_value(rows)?)
    }

    fn format(&self, result: &Value) -> anyhow::Result<String> {
        let rows: Vec<Row> = serde_json::from_value(result.clone())?;
        let mut table = Table::new([
            "mode",
            "seconds",
            "median ms",
            "p90 ms",
            "worst ms",
            "rounds/s",
            "CPU %",
            "clears/s",
        ]);
        for r in rows {
            let cost = |f: fn(&Cost) -> &Middle| r.cost.as_ref().map(f).map(|m| m.median);
            table.row([
                r.mode.clone(),
                r.seconds.to_string(),
                number(r.median_ms, 2),
                number(r.p90_ms, 2),
                number(r.worst_ms, 2),
                number(r.rounds_per_s.map(|m| m.median), 0),
                number(cost(|c| &c.cpu_percent), 2),
                number(cost(|c| &c.clears_per_sec), 0),
            ]);
        }
        Ok(table.text()
            + "\nLongest round of mmap, 16 faults and munmap of each second; over seconds. CPU and \
               clears: of the last slice.\n\
               Goals, beyond `none`: p90 <= 3 ms, worst <= 10 ms.\n")
    }
}

/// Starts the target, and waits until its memory is there.
fn start_target(rounds: &Path) -> anyhow::Result<Child> {
    let own = std::env::current_exe().context("find this program")?;
    let out =
        std::fs::File::create(rounds).with_context(|| format!("create {}", rounds.display()))?;
    let mut command = Command::new(own);
    command.arg("stall-target").stdin(Stdio::null()).stdout(out);
    let mut child = Child::spawn(command, &rounds.with_extension("log"))?;
    let deadline = clock::now().plus_us(60_000_000);
    while std::fs::read_to_string(rounds)?.is_empty() {
        child.still_runs()?;
        anyhow::ensure!(clock::now() < deadline, "the target did not begin in time");
        sleep_until(clock::now().plus_us(20_000))?;
    }
    Ok(child)
}

/// One slice: the target under a monitor, or alone.
fn slice(
    bench: &Bench<'_>,
    target: &Child,
    mode: &str,
    round: usize,
    slice_us: u64,
) -> anyhow::Result<Slice> {
    let record = (mode != CONTROL).then(|| format!("{mode}-{round}.iso"));
    let monitor = match &record {
        Some(name) => {
            let isotherm = &bench.spec.isotherm;
            let output = bench.dir.raw(name);
            Some(recording::start(isotherm, target.pid(), &output, "pagewalk", mode, &[])?)
        }
        None => None,
    };
    let from = clock::now().plus_us(SETTLE_US);
    let to = from.plus_us(slice_us.saturating_sub(SETTLE_US));
    sleep_until(to)?;
    if let Some(monitor) = monitor {
        monitor.stop()?;
    }
    Ok(Slice { mode: mode.to_owned(), record, from: from.as_ns(), to: to.as_ns() })
}

/// The seconds that lie in a slice.
fn within(seconds: &[Second], slice: &Slice) -> Vec<Second> {
    let inside = |s: &&Second| s.at >= slice.from && s.at + 1_000_000_000 <= slice.to;
    seconds.iter().filter(inside).copied().collect()
}

fn parse(line: &str) -> Option<Second> {
    let mut words = line.split(' ').map(str::parse);
    let mut next = || words.next()?.ok();
    Some(Second { at: next()?, longest_ns: next()?, nr: next()? })
}

/// The target itself, until it is ended: prints a line per second.
pub(crate) fn target() -> anyhow::Result<()> {
    isotherm_sys::signals::install().context("set up signal handlers")?;
    let mut memory = Arena::new(0x2000_0000_0000, MEMORY, HugePages::No);
    memory.resize(MEMORY).context("map the memory")?;
    memory.populate(0);
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !stop.load(Ordering::Relaxed) {
                touch(&memory, clock::now());
            }
        });
        let done = map_and_unmap();
        stop.store(true, Ordering::Relaxed);
        done
    })
}

/// One sweep over the pages that are touched now.
fn touch(memory: &Arena, now: Time) {
    let touches = MEMORY / PAGE / EVERY;
    let start = now.as_ns() / SAME_NS % EVERY * PAGE;
    let sweep = Sweep { start, stride: EVERY * PAGE, touches, first: 0, n: touches };
    memory.touch_sweep(sweep, Touch::Read);
}

/// Rounds, until the process is asked to stop.
fn map_and_unmap() -> anyhow::Result<()> {
    let mut small = Arena::new(0x3000_0000_0000, MAPPED, HugePages::No);
    let mut second = Second { at: clock::now().as_ns(), longest_ns: 0, nr: 0 };
    while isotherm_sys::signals::stop_requested().is_none() {
        let begin = clock::now();
        small.resize(MAPPED).context("map")?;
        small.populate(0);
        small.resize(0).context("unmap")?;
        let end = clock::now();
        second.longest_ns = second.longest_ns.max(end.since(begin));
        second.nr += 1;
        if end.as_ns() - second.at >= 1_000_000_000 {
            let Second { at, longest_ns, nr } = second;
            crate::cli::print(&format!("{at} {longest_ns} {nr}\n"))?;
            second = Second { at: clock::now().as_ns(), longest_ns: 0, nr: 0 };
        }
        // Not more than half of a CPU, so that it is scheduled as an interactive thread is.
        std::thread::sleep(Duration::from_nanos(end.since(begin).min(1_000_000)));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_whole_seconds_of_a_slice_count() {
        let text = "1000000000 5 10\n2000000000 7 11\n3000000000 9 12\nbroken\n4 4\n";
        let seconds: Vec<Second> = text.lines().filter_map(parse).collect();
        assert_eq!(seconds.len(), 3);
        let slice = Slice {
            mode: CONTROL.to_owned(),
            record: None,
            from: 1_500_000_000,
            to: 3_900_000_000,
        };
        assert_eq!(within(&seconds, &slice), [Second { at: 2_000_000_000, longest_ns: 7, nr: 11 }]);
    }
}
