//! How a program gets on, seen from outside: a counter of its work, and its CPU time.
//!
//! No unit of the counter has to be known, since only its rate matters. CPU time is that of
//! processes that are there at both times; what others used that ended meanwhile is not in it.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::Instant;

use isotherm::raw::host::counter::last_number;
use isotherm::raw::host::proc::Proc;

use crate::exit::{self, usage};
use crate::files;

const HINT: &str = "the program, or a loop beside it, has to write how much work it has done";

/// What counts a program's work.
#[derive(Debug, Clone)]
pub(crate) enum Counter {
    /// The last number in a file.
    File(PathBuf),
    /// The last number that a line of shell prints.
    Command(String),
}

impl Counter {
    /// In words.
    pub(crate) fn told(&self) -> String {
        match self {
            Self::File(path) => format!("work counted in {}", path.display()),
            Self::Command(command) => format!("work counted by `{command}`"),
        }
    }

    /// The number that it shows now.
    pub(crate) fn read(&self) -> anyhow::Result<f64> {
        match self {
            Self::File(path) => last_number(&files::text(path, HINT)?)
                .ok_or_else(|| usage(format!("no number in {}\n  hint:  {HINT}", path.display()))),
            Self::Command(command) => printed(command),
        }
    }
}

/// The last number that a line of shell prints.
pub(crate) fn printed(line: &str) -> anyhow::Result<f64> {
    let mut command = Command::new("sh");
    command.args(["-c", line]).stdin(Stdio::null()).stderr(Stdio::inherit());
    let output = command.output().map_err(|e| exit::with(exit::of_io(&e), format!("sh: {e}")))?;
    if !output.status.success() {
        return Err(usage(format!("`{line}` failed: {}", output.status)));
    }
    last_number(&String::from_utf8_lossy(&output.stdout))
        .ok_or_else(|| usage(format!("`{line}` printed no number")))
}

/// The CPU time of all processes, and a counter, from some time on.
#[derive(Debug)]
pub(crate) struct Watch<'a> {
    counter: Option<&'a Counter>,
    begun: Instant,
    counted: f64,
    /// Ticks of each process.
    ticks: BTreeMap<u32, u64>,
}

/// How programs got on.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Pace {
    /// How many CPUs they kept busy on average.
    pub(crate) cpus: f64,
    /// Units of work per second, where they are counted.
    pub(crate) work_per_s: Option<f64>,
}

impl<'a> Watch<'a> {
    /// Begins.
    pub(crate) fn begin(counter: Option<&'a Counter>) -> anyhow::Result<Self> {
        let counted = counter.map_or(Ok(0.0), Counter::read)?;
        Ok(Self { counter, begun: Instant::now(), counted, ticks: ticks() })
    }

    /// How these processes got on since then.
    pub(crate) fn end(self, pids: &BTreeSet<u32>) -> anyhow::Result<Pace> {
        let seconds = self.begun.elapsed().as_secs_f64().max(1e-3);
        let counted = self.counter.map(Counter::read).transpose()?;
        let used = |(pid, now): (u32, u64)| {
            let before = self.ticks.get(&pid).copied().unwrap_or(0);
            if pids.contains(&pid) { now.saturating_sub(before) } else { 0 }
        };
        let used: u64 = ticks().into_iter().map(used).sum();
        #[expect(clippy::cast_precision_loss, reason = "ticks of processes")]
        let cpus = used as f64 / rustix::param::clock_ticks_per_second().max(1) as f64 / seconds;
        Ok(Pace { cpus, work_per_s: counted.map(|counted| (counted - self.counted) / seconds) })
    }
}

/// CPU time of every process, in clock ticks.
fn ticks() -> BTreeMap<u32, u64> {
    let (proc, mut text, mut pids) = (Proc::default(), Vec::new(), Vec::new());
    // Where /proc cannot be listed, no target can be found either.
    proc.for_each_pid(&mut |pid| pids.push(pid)).ok();
    let of = |pid: u32| {
        let stat = proc.stat(pid, &mut text).ok()?;
        Some((pid, stat.utime + stat.stime))
    };
    pids.into_iter().filter_map(of).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_number_counts() {
        for (text, expected) in [
            ("12\n", Some(12.0)),
            ("ops: 1200, done 7.5e3\n", Some(7500.0)),
            ("done 5.\n", Some(5.0)),
            ("p99=0.25ms", Some(0.25)),
            ("nothing - here", None),
            ("", None),
        ] {
            assert_eq!(last_number(text), expected, "{text}");
        }
    }

    #[test]
    fn own_work_and_own_cpu_time() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("work");
        let counter = Counter::File(path.clone());
        assert!(Watch::begin(Some(&counter)).is_err(), "there is no such file yet");
        std::fs::write(&path, "done 100\n").unwrap();
        let watch = Watch::begin(Some(&counter)).unwrap();
        let (begun, mut x) = (Instant::now(), 0_u64);
        while begun.elapsed().as_millis() < 300 {
            x = std::hint::black_box(x.wrapping_add(1));
        }
        std::fs::write(&path, "done 400\n").unwrap();
        let pace = watch.end(&BTreeSet::from([std::process::id()])).unwrap();
        let work = pace.work_per_s.unwrap();
        assert!(work > 0.0 && work <= 1000.0, "{pace:?}");
        // Other tests run in other threads of this process.
        assert!(pace.cpus > 0.0, "{pace:?}");
        let others = Watch::begin(None).unwrap().end(&BTreeSet::new()).unwrap();
        assert_eq!(others, Pace { cpus: 0.0, work_per_s: None });
    }
}
