//! pgbench: fills the database, and runs a transaction again and again.

use std::fs;
use std::path::Path;
use std::process::Stdio;

use anyhow::Context;
use isotherm_sys::clock;

use super::cluster::client;
use crate::processes::child::Child;
use crate::programs::Outcome;
use crate::programs::installed::output;
use crate::stats::percentile;

/// Makes pgbench's tables in the database of the server in `dir`.
pub(super) fn fill(dir: &Path, scale: u64) -> anyhow::Result<()> {
    let scale = scale.to_string();
    output(client("pgbench", dir)?.args(["-i", "-q", "-s", &scale, "postgres"])).map(drop)
}

/// Two connections in a closed loop; `nr` is unique.
pub(super) fn run(
    dir: &Path,
    transaction: &Path,
    nr: u32,
    seconds: f64,
) -> anyhow::Result<Outcome> {
    let prefix = dir.join(format!("log{nr}"));
    let seconds = seconds.max(1.0).round();
    let mut command = client("pgbench", dir)?;
    command.args(["-n", "-c", "2", "-j", "1", "-M", "prepared", "-l", "--log-prefix"]).arg(&prefix);
    command.args(["-T", &format!("{seconds:.0}"), "-f"]).arg(transaction).arg("postgres");
    let report = dir.join("bench.out");
    let file = fs::File::create(&report).context("create a file for the report")?;
    command.stdin(Stdio::null()).stdout(file);
    let mut bench = Child::spawn(command, &dir.join("bench.err"))?;
    bench.succeeds(clock::now().plus_us(120_000_000))?;
    let text = fs::read_to_string(&report).context("read what pgbench reported")?;
    let log = format!("{}.{}", prefix.display(), bench.pid());
    let latencies = latencies(&fs::read_to_string(&log).context("read pgbench's log")?);
    fs::remove_file(&log).ok();
    let per_second = tps(&text).with_context(|| format!("no tps in {text:?}"))?;
    Ok(Outcome {
        per_second,
        work: Some(per_second * seconds),
        p50_us: percentile(&latencies, 0.5),
        p99_us: percentile(&latencies, 0.99),
    })
}

/// From the report of pgbench.
fn tps(text: &str) -> Option<f64> {
    let line = text.lines().find_map(|l| l.strip_prefix("tps = "))?;
    line.split_whitespace().next()?.parse().ok()
}

/// From the log of pgbench: client, transaction, latency in us, ...
fn latencies(text: &str) -> Vec<f64> {
    text.lines().filter_map(|l| l.split(' ').nth(2)?.parse().ok()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pgbench_is_understood() {
        let report = "number of clients: 2\nlatency average = 0.05 ms\n\
                      tps = 31415.926535 (without initial connection time)\n";
        assert_eq!(tps(report), Some(31_415.926_535));
        assert_eq!(tps("nothing"), None);
        let log = "0 1 85 0 1763697000 123456\n1 1 91 0 1763697000 123460\ntorn";
        assert_eq!(latencies(log), [85.0, 91.0]);
    }
}
