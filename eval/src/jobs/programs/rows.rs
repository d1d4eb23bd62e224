//! The table of the job `programs`.

use serde::{Deserialize, Serialize};

use crate::measure::Run;
use crate::readings::sampling::mean;
use crate::stats::to_f64;
use crate::table::{Table, mib, number};

/// A program in the result.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(super) struct Row {
    program: String,
    /// Why there are no numbers.
    why: Option<String>,
    per_second: Option<f64>,
    p50_us: Option<f64>,
    p99_us: Option<f64>,
    /// In bytes: mean over the load, and the most.
    resident: Option<f64>,
    most: Option<f64>,
    swap: Option<f64>,
    cpu_percent: Option<f64>,
    seconds: Option<f64>,
}

/// Of a run.
pub(super) fn row(run: Run) -> Row {
    let Some(outcome) = run.outcome else {
        return Row { program: run.program, why: run.failed, ..Row::default() };
    };
    let elapsed = to_f64(run.elapsed_ns);
    Row {
        program: run.program,
        why: None,
        per_second: Some(outcome.per_second),
        p50_us: outcome.p50_us,
        p99_us: outcome.p99_us,
        resident: mean(&run.samples, |s| s.rss),
        most: run.samples.iter().map(|s| s.rss).max().map(to_f64),
        swap: mean(&run.samples, |s| s.swap),
        cpu_percent: Some(to_f64(run.program_cpu_ns) / elapsed * 100.0),
        seconds: Some(elapsed / 1e9),
    }
}

/// The table, and below it what has no numbers.
pub(super) fn format(rows: &[Row]) -> String {
    let mut table = Table::new([
        "program", "units/s", "p50 us", "p99 us", "RSS MiB", "most", "swap", "CPU %", "load s",
    ]);
    for r in rows.iter().filter(|r| r.why.is_none()) {
        table.row([
            r.program.clone(),
            number(r.per_second, 3),
            number(r.p50_us, 0),
            number(r.p99_us, 0),
            mib(r.resident),
            mib(r.most),
            mib(r.swap),
            number(r.cpu_percent, 0),
            number(r.seconds, 1),
        ]);
    }
    let mut text = table.text();
    for (row, why) in rows.iter().filter_map(|r| Some((r, r.why.as_ref()?))) {
        text += &format!("\n{}: {why}\n", row.program);
    }
    text + "\nUnits: requests or steps; where the work is fixed, the inverse of the runtime. RSS: mean over the load.\n"
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::programs::Outcome;
    use crate::readings::sampling::Sample;

    #[test]
    fn what_is_missing_is_named_below_the_table() {
        let sample = |rss| Sample { rss, ..Sample::default() };
        let there = Run {
            program: "redis".into(),
            outcome: Some(Outcome { per_second: 1234.5, ..Outcome::default() }),
            samples: vec![sample(1 << 20), sample(3 << 20)],
            elapsed_ns: 2_000_000_000,
            program_cpu_ns: 1_000_000_000,
            ..Run::default()
        };
        let lost = Run {
            program: "memcached".into(),
            failed: Some("left out: no memcached: apt-get install memcached".into()),
            ..Run::default()
        };
        let text = format(&[row(there), row(lost)]);
        assert!(text.contains("| redis   | 1234.500 |      - |      - |     2.0 |  3.0 |  0.0 |"));
        assert!(text.contains("\nmemcached: left out: no memcached: apt-get install memcached\n"));
    }
}
