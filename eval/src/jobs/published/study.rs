//! From load phases to numbers.
//!
//! A *cell* is a program under a configuration. It has the medians of its rounds, as the published
//! tables have their means, and the ratios to `orig`, each of one round, with the 95 % interval of
//! their median. A *total* is made in both ways: as published, from the sums of the cells over
//! programs, and as the median over programs of the paired medians. Only programs that have both
//! the configuration and `orig` count for a total, so a cell that is missing shifts nothing.
//!
//! Runtime: of a program with fixed work its own. Of one that goes on, the time that it would take
//! for as much work as `orig` does in a load phase (median), so that slower is longer for both.

use serde::{Deserialize, Serialize};

use super::configs::ORIG;
use crate::measure::Run;
use crate::readings::sampling::mean;
use crate::stats::{Middle, to_f64};

/// A number of a cell, and what it is against `orig`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub(super) struct Metric {
    /// Of the rounds.
    pub(super) value: Option<Middle>,
    /// Of the rounds: more than `orig` of the same round, by this share.
    pub(super) more: Option<Middle>,
}

/// A program under a configuration.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub(super) struct Cell {
    pub(super) program: String,
    pub(super) config: String,
    /// Seconds.
    pub(super) runtime: Metric,
    /// CPU time of the program per unit of work, in us.
    pub(super) cpu: Metric,
    /// `MemTotal` less `MemFree` and the cache of files, mean over the phase, in KiB.
    pub(super) memused: Metric,
    /// Mean over the phase, in KiB.
    pub(super) rss: Metric,
    /// In us.
    pub(super) p99: Metric,
    /// Major faults per second.
    pub(super) faults: Option<Middle>,
    /// Swapped out on the whole machine since Isotherm was started, in MiB.
    pub(super) out_mib: Option<Middle>,
    /// Swapped in per page swapped out, on the whole machine.
    pub(super) back: Option<Middle>,
    /// CPU time of Isotherm, as a share of one CPU; and its resident memory in MiB.
    pub(super) own_cpu: Option<Middle>,
    pub(super) own_mib: Option<Middle>,
}

/// A sum over programs, and that of `orig` over the same programs.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub(super) struct Sum {
    pub(super) programs: usize,
    pub(super) orig: f64,
    pub(super) with: f64,
}

impl Sum {
    /// More than `orig`, by this share.
    pub(super) fn more(&self) -> Option<f64> {
        (self.programs > 0 && self.orig > 0.0).then(|| self.with / self.orig - 1.0)
    }
}

/// A configuration over all programs.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub(super) struct Total {
    pub(super) config: String,
    pub(super) runtime: Sum,
    pub(super) memused: Sum,
    pub(super) rss: Sum,
    /// Over programs, of what the cells have as medians.
    pub(super) slowdown: Option<Middle>,
    pub(super) cpu_more: Option<Middle>,
    pub(super) used_more: Option<Middle>,
    pub(super) rss_more: Option<Middle>,
    pub(super) p99_more: Option<Middle>,
    pub(super) back: Option<Middle>,
    pub(super) own_cpu: Option<Middle>,
    pub(super) own_mib: Option<Middle>,
    /// Over all pairs of all programs: of the slowdown, of the CPU time per unit of work, and of
    /// system memory. There are enough for an interval of 95 %.
    pub(super) pairs: Option<Middle>,
    pub(super) cpu_pairs: Option<Middle>,
    pub(super) used_pairs: Option<Middle>,
}

/// The result.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub(super) struct Study {
    pub(super) programs: Vec<String>,
    pub(super) configs: Vec<String>,
    pub(super) cells: Vec<Cell>,
    pub(super) totals: Vec<Total>,
    pub(super) failed: Vec<String>,
    /// A smoke run, which proves nothing about a goal.
    pub(super) is_smoke: bool,
}

impl Study {
    pub(super) fn cell(&self, program: &str, config: &str) -> Option<&Cell> {
        self.cells.iter().find(|c| c.program == program && c.config == config)
    }

    pub(super) fn total(&self, config: &str) -> Option<&Total> {
        self.totals.iter().find(|t| t.config == config)
    }
}

/// Of all runs; a phase may be there twice, failed first and then done.
pub(super) fn study(runs: &[Run]) -> Study {
    let done: Vec<&Run> = runs.iter().filter(|r| r.outcome.is_some()).collect();
    let programs = distinct(done.iter().map(|r| r.program.as_str()));
    let found = distinct(done.iter().map(|r| r.config.as_str()));
    // In the order of the tables, whatever was measured first.
    let known = super::configs::ALL.iter().map(|c| c.name.to_owned());
    let configs: Vec<String> = known.filter(|name| found.contains(name)).collect();
    let mut cells = Vec::new();
    for program in &programs {
        let of_program: Vec<&Run> =
            done.iter().filter(|r| r.program == *program).copied().collect();
        cells.extend(configs.iter().filter_map(|config| cell(&of_program, config)));
    }
    let mut totals: Vec<Total> = configs.iter().map(|config| total(&cells, config)).collect();
    for t in &mut totals {
        let pairs = pairs(&done, &t.config);
        // The work of a phase cancels: time per unit of work.
        let time = |r: &Run| Some(1.0 / r.outcome.as_ref()?.per_second);
        t.pairs = middle(pairs.iter().filter_map(|p| more(*p, &time)));
        t.cpu_pairs = middle(pairs.iter().filter_map(|p| more(*p, &Run::cpu_per_work)));
        t.used_pairs = middle(pairs.iter().filter_map(|p| more(*p, &used)));
    }
    let failed = failures(runs, &done);
    Study { programs, configs, totals, cells, failed, is_smoke: false }
}

/// Of each program and round the run under the configuration, and the one without Isotherm.
fn pairs<'a>(runs: &[&'a Run], config: &str) -> Vec<(&'a Run, &'a Run)> {
    let is_same = |with: &Run, r: &Run| {
        r.config == ORIG && r.program == with.program && r.round == with.round
    };
    let pair = |with: &&'a Run| {
        Some((*with, *runs.iter().find(|r| is_same(with, r))?)).filter(|_| with.config == config)
    };
    runs.iter().filter_map(pair).collect()
}

/// By which share a number is more than without Isotherm.
fn more((with, orig): (&Run, &Run), f: &dyn Fn(&Run) -> Option<f64>) -> Option<f64> {
    Some(f(with)? / f(orig).filter(|v| *v > 0.0)? - 1.0)
}

fn distinct<'a>(names: impl Iterator<Item = &'a str>) -> Vec<String> {
    let mut seen: Vec<String> = Vec::new();
    for name in names {
        if !seen.iter().any(|s| s == name) {
            seen.push(name.to_owned());
        }
    }
    seen
}

fn failures(runs: &[Run], done: &[&Run]) -> Vec<String> {
    let later = |r: &Run| {
        done.iter().any(|d| (&d.program, &d.config, d.round) == (&r.program, &r.config, r.round))
    };
    let told = |r: &Run| {
        let why = r.failed.as_ref()?;
        Some(format!("{} {}, round {}: {why}", r.program, r.config, r.round + 1))
    };
    let mut all: Vec<String> =
        runs.iter().filter(|r| r.outcome.is_none() && !later(r)).filter_map(told).collect();
    all.dedup();
    all
}

fn cell(of_program: &[&Run], config: &str) -> Option<Cell> {
    let of = |config: &str| -> Vec<&Run> {
        of_program.iter().filter(|r| r.config == config).copied().collect()
    };
    let (with, orig) = (of(config), of(ORIG));
    let (first, pairs) = (with.first()?, pairs(of_program, config));
    let work = work(&orig);
    let kib = |bytes: Option<f64>| Some(bytes? / 1024.0);
    let of_all = |f: &dyn Fn(&Run) -> Option<f64>| middle(with.iter().filter_map(|r| f(r)));
    let metric = |f: &dyn Fn(&Run) -> Option<f64>| Metric {
        value: of_all(f),
        more: middle(pairs.iter().filter_map(|p| more(*p, f))),
    };
    let seconds = |r: &Run| to_f64(r.elapsed_ns.max(1)) / 1e9;
    Some(Cell {
        program: first.program.clone(),
        config: config.to_owned(),
        runtime: metric(&|r| runtime(r, work)),
        cpu: metric(&|r| Some(r.cpu_per_work()? / 1e3)),
        memused: metric(&|r| kib(used(r))),
        rss: metric(&|r| kib(mean(&r.samples, |s| s.rss))),
        p99: metric(&|r| r.outcome.as_ref()?.p99_us),
        faults: of_all(&|r| Some(to_f64(r.major_faults) / seconds(r))),
        out_mib: of_all(&|r| Some(to_f64(r.swapped[1]) / 256.0)),
        back: of_all(&|r| (r.swapped[1] > 0).then(|| to_f64(r.swapped[0]) / to_f64(r.swapped[1]))),
        own_cpu: of_all(&|r| Some(to_f64(r.tool_cpu_ns?) / 1e9 / seconds(r))),
        own_mib: of_all(&|r| Some(to_f64(r.tool_rss?) / f64::from(1 << 20))),
    })
}

/// Memory of the machine in use, in bytes.
fn used(run: &Run) -> Option<f64> {
    mean(&run.samples, |s| s.used.saturating_sub(s.file_cache))
}

/// What a program that goes on does in a load phase without Isotherm.
fn work(orig: &[&Run]) -> Option<f64> {
    let work = |r: &&Run| Some(r.outcome.as_ref()?.per_second * to_f64(r.elapsed_ns) / 1e9);
    Some(middle(orig.iter().filter_map(work))?.median)
}

fn runtime(run: &Run, work: Option<f64>) -> Option<f64> {
    let per_second = run.outcome.as_ref()?.per_second;
    let work = if run.lasts { work? } else { 1.0 };
    (per_second > 0.0).then(|| work / per_second)
}

fn middle(values: impl Iterator<Item = f64>) -> Option<Middle> {
    Middle::of(&values.collect::<Vec<_>>())
}

fn total(cells: &[Cell], config: &str) -> Total {
    let of: Vec<&Cell> = cells.iter().filter(|c| c.config == config).collect();
    let orig = |c: &Cell| cells.iter().find(|o| o.program == c.program && o.config == ORIG);
    let sum = |f: fn(&Cell) -> Metric| {
        let mut sum = Sum::default();
        for c in &of {
            let pair = (f(c).value, orig(c).and_then(|o| f(o).value));
            if let (Some(with), Some(without)) = pair {
                sum.programs += 1;
                sum.with += with.median;
                sum.orig += without.median;
            }
        }
        sum
    };
    let over =
        |f: fn(&Cell) -> Option<Middle>| middle(of.iter().filter_map(|c| Some(f(c)?.median)));
    Total {
        config: config.to_owned(),
        runtime: sum(|c| c.runtime),
        memused: sum(|c| c.memused),
        rss: sum(|c| c.rss),
        slowdown: over(|c| c.runtime.more),
        cpu_more: over(|c| c.cpu.more),
        used_more: over(|c| c.memused.more),
        rss_more: over(|c| c.rss.more),
        p99_more: over(|c| c.p99.more),
        back: over(|c| c.back),
        own_cpu: over(|c| c.own_cpu),
        own_mib: over(|c| c.own_mib),
        pairs: None,
        cpu_pairs: None,
        used_pairs: None,
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use crate::programs::Outcome;
    use crate::readings::sampling::Sample;

    /// A run of a program that goes on, with so much work per second and so much memory in KiB.
    pub(in super::super) fn run(
        program: &str,
        config: &str,
        round: usize,
        per_second: f64,
        rss: u64,
    ) -> Run {
        let sample = |rss: u64| Sample {
            rss: rss << 10,
            used: (rss + 1500) << 10,
            file_cache: 500 << 10,
            ..Sample::default()
        };
        Run {
            program: program.into(),
            config: config.into(),
            round,
            lasts: true,
            outcome: Some(Outcome {
                per_second,
                work: Some(2.0),
                p99_us: Some(1000.0 / per_second),
                ..Outcome::default()
            }),
            // The mean counts.
            samples: vec![sample(rss / 2), sample(rss + rss / 2)],
            elapsed_ns: 10_000_000_000,
            program_cpu_ns: rss * 1000,
            tool_cpu_ns: (config != ORIG).then_some(50_000_000),
            tool_rss: (config != ORIG).then_some(8 << 20),
            major_faults: 40,
            swapped: [10, 1000],
            ..Run::default()
        }
    }

    /// Runs once to its end, in so many seconds.
    pub(in super::super) fn once(
        program: &str,
        config: &str,
        round: usize,
        seconds: f64,
        rss: u64,
    ) -> Run {
        Run { lasts: false, ..run(program, config, round, 1.0 / seconds, rss) }
    }

    fn near(a: Option<f64>, b: f64) {
        assert!(a.is_some_and(|a| (a - b).abs() < 1e-9), "{a:?} {b}");
    }

    fn median(m: Option<Middle>) -> Option<f64> {
        m.map(|m| m.median)
    }

    #[test]
    fn a_round_is_compared_with_itself() {
        let runs = [
            run("redis", ORIG, 0, 100.0, 1000),
            run("redis", "prcl", 0, 80.0, 500),
            // The machine is slow in this round, and in the next one only `orig` was measured.
            run("redis", "prcl", 1, 40.0, 600),
            run("redis", ORIG, 1, 50.0, 1000),
            run("redis", ORIG, 2, 100.0, 1000),
        ];
        let study = study(&runs);
        let [orig, prcl] = &study.cells[..] else { panic!("{study:?}") };
        // 100 per second for 10 s, in the median.
        near(median(orig.runtime.value), 10.0);
        near(median(prcl.runtime.value), (12.5 + 25.0) / 2.0);
        // Of each round a quarter more, not what the medians' ratio of 1.875 says.
        near(median(prcl.runtime.more), 0.25);
        assert_eq!((prcl.runtime.more.unwrap().n, orig.runtime.more.unwrap().n), (2, 3));
        near(median(prcl.rss.value), 550.0);
        near(median(prcl.rss.more), -0.45);
        // 1000 KiB more than the program has, without the cache of files.
        near(median(prcl.memused.value), 1550.0);
        near(median(prcl.memused.more), -0.225);
        near(median(prcl.p99.more), 0.25);
        // Half of it in one round, 0.6 of it in the other.
        near(median(prcl.cpu.more), -0.45);
        near(median(prcl.cpu.value), 275.0);
        near(median(prcl.own_cpu), 0.005);
        near(median(prcl.own_mib), 8.0);
        near(median(prcl.faults), 4.0);
        near(median(prcl.back), 0.01);
        assert!(orig.own_cpu.is_none());
    }

    #[test]
    fn totals_are_sums_and_medians_over_programs() {
        let runs = [
            once("gcc", ORIG, 0, 30.0, 3000),
            once("gcc", "prcl", 0, 33.0, 1000),
            run("redis", ORIG, 0, 100.0, 1000),
            run("redis", "prcl", 0, 50.0, 800),
            once("numpy", ORIG, 0, 20.0, 500),
            once("numpy", "prcl", 0, 20.0, 500),
        ];
        let study = study(&runs);
        let total = study.total("prcl").unwrap();
        // 30 + 10 + 20 against 33 + 20 + 20.
        let expected = Sum { programs: 3, orig: 60.0, with: 73.0 };
        assert!((total.runtime.with - expected.with).abs() < 1e-9, "{total:?}");
        near(total.runtime.more(), 73.0 / 60.0 - 1.0);
        near(total.rss.more(), 2300.0 / 4500.0 - 1.0);
        near(median(total.slowdown), 0.1);
        near(median(total.rss_more), -0.2);
        assert_eq!(study.total(ORIG).unwrap().runtime.more(), Some(0.0));
        assert_eq!(total.pairs.map(|m| (m.n, m.lo)), Some((3, 0.0)));
        near(median(total.pairs), 0.1);
        near(median(total.cpu_pairs), -0.2);
        // 1800 of 2000 KiB in the middle.
        near(median(total.used_pairs), -0.1);
    }

    #[test]
    fn a_missing_cell_shifts_no_total() {
        let runs = [
            once("gcc", ORIG, 0, 30.0, 3000),
            once("gcc", "rec", 0, 33.0, 3000),
            once("numpy", ORIG, 0, 1000.0, 9000),
            // Never without Isotherm: shown, and in no total.
            once("jvm", "rec", 0, 5.0, 100),
        ];
        let study = study(&runs);
        let rec = study.total("rec").unwrap();
        assert_eq!((rec.runtime.programs, rec.runtime.orig), (1, 30.0));
        near(rec.runtime.more(), 0.1);
        let jvm = study.cell("jvm", "rec").unwrap();
        near(median(jvm.runtime.value), 5.0);
        assert_eq!(jvm.runtime.more, None);
        assert!(study.cell("numpy", "rec").is_none());
        assert_eq!(Sum::default().more(), None);
    }

    #[test]
    fn only_failures_that_were_not_made_good_are_told() {
        let failed = |program: &str, round, why: &str| Run {
            outcome: None,
            failed: Some(why.into()),
            ..run(program, "rec", round, 1.0, 1)
        };
        let runs = [
            failed("redis", 0, "no memory"),
            failed("redis", 1, "no swap"),
            failed("redis", 1, "no swap"),
            run("redis", "rec", 0, 1.0, 1),
        ];
        let study = study(&runs);
        assert_eq!(study.failed, ["redis rec, round 2: no swap"]);
        assert_eq!(study.cell("redis", "rec").unwrap().rss.value.unwrap().n, 1);
    }
}
