//! From load phases to numbers: each run against the one without Isotherm of the same round.

use serde::{Deserialize, Serialize};

use super::configs::ORIG;
use crate::measure::Run;
use crate::readings::sampling::{Sample, mean};
use crate::stats::{Middle, to_f64};

/// A program under a configuration.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub(super) struct Row {
    pub(super) program: String,
    pub(super) config: String,
    /// Units of work per second.
    pub(super) per_second: Option<Middle>,
    /// CPU time of the program per unit of work, in us.
    pub(super) cpu_us: Option<Middle>,
    /// Latency, in us.
    pub(super) p99_us: Option<Middle>,
    /// Resident bytes, mean over the phase, and at its end.
    pub(super) rss: Option<Middle>,
    pub(super) rss_end: Option<Middle>,
    /// CPU time of Isotherm, in percent of a CPU.
    pub(super) cpu_percent: Option<Middle>,
    /// Against the run without: time per unit of work, more by this share.
    pub(super) slowdown: Option<Middle>,
    /// CPU time of the program per unit of work, more by this share. Less noisy than time.
    pub(super) cpu_slowdown: Option<Middle>,
    /// 99th percentile of the latency, as a ratio.
    pub(super) p99_ratio: Option<Middle>,
    /// Resident memory less, as a share, mean and at the end.
    pub(super) saved: Option<Middle>,
    pub(super) saved_end: Option<Middle>,
    /// Memory that the machine has more, in bytes, mean; what the swap device takes is taken off.
    pub(super) system_saved: Option<Middle>,
    /// Bytes paged out, as Isotherm looked; and of them the share that was touched again soon.
    pub(super) done: Option<Middle>,
    pub(super) refaulted: Option<Middle>,
    /// Pages swapped in per page swapped out, on the machine.
    pub(super) swapped_in: Option<Middle>,
    /// Slowdown in percent per GiB that was less resident.
    pub(super) slowdown_per_gib: Option<Middle>,
    /// Longest and biggest window of the account.
    pub(super) action_ms_per_s: Option<Middle>,
}

/// A comparison of one round.
#[derive(Debug, Clone, Copy)]
struct Pair<'a> {
    with: &'a Run,
    without: &'a Run,
}

impl Pair<'_> {
    fn slowdown(&self) -> Option<f64> {
        let [with, without] = [self.with, self.without].map(|r| r.outcome.as_ref());
        Some(without?.per_second / with?.per_second - 1.0)
    }

    fn cpu_slowdown(&self) -> Option<f64> {
        Some(self.with.cpu_per_work()? / self.without.cpu_per_work()? - 1.0)
    }

    fn p99_ratio(&self) -> Option<f64> {
        let [with, without] =
            [self.with, self.without].map(|r| r.outcome.as_ref().and_then(|o| o.p99_us));
        Some(with? / without?)
    }

    fn saved_bytes(&self) -> Option<f64> {
        Some(mean(&self.without.samples, |s| s.rss)? - mean(&self.with.samples, |s| s.rss)?)
    }

    fn saved(&self) -> Option<f64> {
        Some(self.saved_bytes()? / mean(&self.without.samples, |s| s.rss)?)
    }

    fn saved_end(&self) -> Option<f64> {
        let [with, without] = [self.with, self.without].map(at_end);
        Some(1.0 - with? / without?)
    }

    fn system_saved(&self) -> Option<f64> {
        let more = |run: &Run| mean(&run.samples, |s| s.available);
        Some(more(self.with)? - more(self.without)?)
    }

    fn slowdown_per_gib(&self) -> Option<f64> {
        let gib = self.saved_bytes()? / f64::from(1 << 30);
        // Nothing saved, nothing to divide by.
        (gib > 0.02).then(|| Some(self.slowdown()? * 100.0 / gib))?
    }
}

/// Resident memory over the last second.
fn at_end(run: &Run) -> Option<f64> {
    let last = run.samples.last()?.ms;
    let end: Vec<Sample> = run.samples.iter().filter(|s| s.ms + 1000 > last).copied().collect();
    mean(&end, |s| s.rss)
}

fn ratio(a: f64, b: f64) -> Option<f64> {
    (b > 0.0).then(|| a / b)
}

fn middle<T>(items: &[T], f: impl Fn(&T) -> Option<f64>) -> Option<Middle> {
    Middle::of(&items.iter().filter_map(f).collect::<Vec<_>>())
}

fn pairs<'a>(runs: &'a [Run], of: &[&'a Run]) -> Vec<Pair<'a>> {
    let same = |with: &Run, r: &Run| {
        r.config == ORIG && r.program == with.program && r.round == with.round
    };
    let pair = |with: &&'a Run| Some(Pair { with, without: runs.iter().find(|r| same(with, r))? });
    of.iter().filter_map(pair).collect()
}

fn row(program: &str, config: &str, of: &[&Run], pairs: &[Pair<'_>]) -> Row {
    let outcome = |f: fn(&crate::programs::Outcome) -> Option<f64>| {
        middle(of, |r| r.outcome.as_ref().and_then(f))
    };
    let account = |f: fn(&crate::processes::tool::Account) -> Option<f64>| {
        middle(of, |r| r.account.as_ref().and_then(f))
    };
    let mut row = Row {
        program: program.into(),
        config: config.into(),
        per_second: outcome(|o| Some(o.per_second)),
        cpu_us: middle(of, |r| Some(r.cpu_per_work()? / 1e3)),
        p99_us: outcome(|o| o.p99_us),
        rss: middle(of, |r| mean(&r.samples, |s| s.rss)),
        rss_end: middle(of, |r| at_end(r)),
        cpu_percent: middle(of, |r| ratio(to_f64(r.tool_cpu_ns?) * 100.0, to_f64(r.elapsed_ns))),
        done: account(|a| Some(a.sum(|s| s.done_bytes))),
        refaulted: account(|a| ratio(a.sum(|s| s.refaulted_bytes), a.sum(|s| s.done_bytes))),
        action_ms_per_s: account(|a| ratio(a.sum(|s| s.action_ns) * 1e3, to_f64(a.elapsed_ns))),
        swapped_in: middle(of, |r| ratio(to_f64(r.swapped[0]), to_f64(r.swapped[1]))),
        ..Row::default()
    };
    if config != ORIG {
        row.slowdown = middle(pairs, Pair::slowdown);
        row.cpu_slowdown = middle(pairs, Pair::cpu_slowdown);
        row.p99_ratio = middle(pairs, Pair::p99_ratio);
        row.saved = middle(pairs, Pair::saved);
        row.saved_end = middle(pairs, Pair::saved_end);
        row.system_saved = middle(pairs, Pair::system_saved);
        row.slowdown_per_gib = middle(pairs, Pair::slowdown_per_gib);
    }
    row
}

/// One row per program and configuration, in the order of the first runs.
pub(super) fn rows(runs: &[Run]) -> Vec<Row> {
    let mut keys: Vec<(&str, &str)> = Vec::new();
    for run in runs.iter().filter(|r| r.outcome.is_some()) {
        let key = (run.program.as_str(), run.config.as_str());
        if !keys.contains(&key) {
            keys.push(key);
        }
    }
    let make = |(program, config): (&str, &str)| {
        let is = |r: &&Run| r.program == program && r.config == config && r.outcome.is_some();
        let of: Vec<&Run> = runs.iter().filter(is).collect();
        row(program, config, &of, &pairs(runs, &of))
    };
    keys.into_iter().map(make).collect()
}

/// One row per configuration of the headline, over the pairs of all programs.
pub(super) fn all_programs(runs: &[Run]) -> Vec<Row> {
    let mut configs: Vec<&str> = Vec::new();
    for run in runs.iter().filter(|r| r.config != ORIG && !r.config.contains('/')) {
        if !configs.contains(&run.config.as_str()) {
            configs.push(&run.config);
        }
    }
    let make = |config: &str| {
        let of: Vec<&Run> =
            runs.iter().filter(|r| r.config == config && r.outcome.is_some()).collect();
        Row { per_second: None, ..row("all", config, &of, &pairs(runs, &of)) }
    };
    configs.into_iter().map(make).collect()
}

/// What failed, and why.
pub(super) fn failures(runs: &[Run]) -> Vec<String> {
    let why = |r: &Run| {
        let why = r.failed.as_ref()?;
        Some(format!("{} {}, round {}: {why}", r.program, r.config, r.round + 1))
    };
    runs.iter().filter_map(why).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::processes::tool::{Account, SchemeAccount};
    use crate::programs::Outcome;

    const GIB: u64 = 1 << 30;

    fn run(config: &str, round: usize, per_second: f64, rss: [u64; 2]) -> Run {
        let samples = rss.iter().enumerate().map(|(i, rss)| Sample {
            ms: 2000 * i as u64,
            rss: *rss,
            available: 8 * GIB - rss,
            ..Sample::default()
        });
        let scheme = SchemeAccount { done_bytes: 200, refaulted_bytes: 3, ..Default::default() };
        let account = Account { schemes: vec![scheme], ..Account::default() };
        Run {
            program: "p".into(),
            config: config.into(),
            round,
            outcome: Some(Outcome {
                per_second,
                work: Some(per_second),
                p50_us: None,
                p99_us: Some(1000.0 / per_second),
            }),
            samples: samples.collect(),
            account: (config != ORIG).then_some(account),
            tool_cpu_ns: Some(20_000_000),
            elapsed_ns: 2_000_000_000,
            program_cpu_ns: 1_000_000,
            swapped: [5, 100],
            ..Run::default()
        }
    }

    #[test]
    fn a_round_is_compared_with_itself() {
        let mut runs = vec![
            run(ORIG, 0, 100.0, [2 * GIB, 2 * GIB]),
            run("evidence", 0, 80.0, [2 * GIB, GIB]),
            // A slow round is slow for both.
            run("evidence", 1, 40.0, [2 * GIB, GIB]),
            run(ORIG, 1, 50.0, [2 * GIB, 2 * GIB]),
        ];
        runs.push(Run {
            outcome: None,
            failed: Some("no".into()),
            ..run("evidence", 2, 1.0, [1, 1])
        });
        let rows = rows(&runs);
        assert_eq!(rows.len(), 2);
        let row = &rows[1];
        let is = |m: Option<Middle>, expected: f64| {
            let m = m.unwrap();
            assert!((m.median - expected).abs() < 1e-9, "{m:?} {expected}");
        };
        is(row.slowdown, 0.25);
        assert_eq!(row.slowdown.unwrap().n, 2);
        is(row.cpu_slowdown, 0.25);
        is(row.p99_ratio, 1.25);
        is(row.saved, 0.25);
        is(row.saved_end, 0.5);
        is(row.system_saved, GIB as f64 / 2.0);
        is(row.slowdown_per_gib, 50.0);
        is(row.cpu_percent, 1.0);
        is(row.refaulted, 0.015);
        is(row.swapped_in, 0.05);
        assert!(rows[0].slowdown.is_none());
        assert_eq!(failures(&runs).len(), 1);
        assert_eq!(all_programs(&runs).len(), 1);
    }
}
