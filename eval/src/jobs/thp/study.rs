//! How much of the huge pages' speed is kept, and how much of their waste is avoided.
//!
//! With T the time per unit of work and M the resident memory, kept is (T never - T isotherm) /
//! (T never - T always), and removed is (M always - M isotherm) / (M always - M never). A share of
//! next to nothing says nothing, so it is made only where huge pages change T or M by 3 % or more.
//! Rounds are pairs: each mode's speed and memory are also divided by those of `never` in the same
//! round.

use serde::{Deserialize, Serialize};

use crate::jobs::overhead::interval;
use crate::measure::Run;
use crate::readings::sampling::mean;
use crate::stats::Middle;
use crate::table::{Table, mib, number};

pub(super) const NEVER: &str = "never";
pub(super) const ALWAYS: &str = "always";
pub(super) const ISOTHERM: &str = "isotherm";
pub(super) const UNPROVEN: &str = "unproven";
/// Modes in which Isotherm acts.
pub(super) const OURS: [&str; 2] = [UNPROVEN, ISOTHERM];
const MATTERS: f64 = 0.03;

/// A program in a mode.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct Row {
    program: String,
    mode: String,
    per_second: Option<Middle>,
    rss: Option<Middle>,
    p99_us: Option<Middle>,
    cpu_percent: Option<Middle>,
    /// Units per second and resident memory, divided by those of `never` in the same round.
    #[serde(default)]
    pace: Option<Middle>,
    #[serde(default)]
    size: Option<Middle>,
}

/// A program in all modes.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct Shares {
    program: String,
    /// Of Isotherm's.
    #[serde(default)]
    mode: String,
    /// T never / T always - 1, and M always / M never - 1.
    speed_up: Option<f64>,
    bloat: Option<f64>,
    kept: Option<f64>,
    removed: Option<f64>,
}

/// The result.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct Study {
    rows: Vec<Row>,
    shares: Vec<Shares>,
    kept: Option<Middle>,
    removed: Option<Middle>,
    /// The same of the mode `unproven`.
    #[serde(default)]
    unproven: [Option<Middle>; 2],
    failed: Vec<String>,
}

pub(super) fn study(runs: &[Run]) -> Study {
    let mut rows: Vec<Row> = Vec::new();
    for run in runs.iter().filter(|r| r.outcome.is_some()) {
        if !rows.iter().any(|r| r.program == run.program && r.mode == run.config) {
            rows.push(row(runs, &run.program, &run.config));
        }
    }
    let mut programs: Vec<&str> = rows.iter().map(|r| r.program.as_str()).collect();
    programs.dedup();
    let pairs = programs.iter().flat_map(|p| OURS.map(|mode| (p, mode)));
    let shares: Vec<Shares> = pairs.map(|(p, mode)| shares(&rows, p, mode)).collect();
    let middle = |mode: &str, f: fn(&Shares) -> Option<f64>| {
        let of = shares.iter().filter(|s| s.mode == mode);
        Middle::of(&of.filter_map(f).collect::<Vec<_>>())
    };
    let both = |mode: &str| [middle(mode, |s| s.kept), middle(mode, |s| s.removed)];
    let ([kept, removed], unproven) = (both(ISOTHERM), both(UNPROVEN));
    let failed = runs
        .iter()
        .filter_map(|r| Some(format!("{} {}: {}", r.program, r.config, r.failed.as_ref()?)));
    Study { failed: failed.collect(), shares, kept, removed, unproven, rows }
}

fn row(runs: &[Run], program: &str, mode: &str) -> Row {
    let is = |r: &&Run| r.program == program && r.config == mode && r.outcome.is_some();
    let of: Vec<&Run> = runs.iter().filter(is).collect();
    let middle = |f: &dyn Fn(&Run) -> Option<f64>| {
        Middle::of(&of.iter().filter_map(|r| f(r)).collect::<Vec<_>>())
    };
    // A run of `never` in the same round.
    let never = |round| {
        let is = |r: &&Run| r.program == program && r.config == NEVER && r.round == round;
        runs.iter().find(is)
    };
    let per_second = |r: &Run| Some(r.outcome.as_ref()?.per_second);
    let rss = |r: &Run| mean(&r.samples, |s| s.rss);
    let ratio = |f: &dyn Fn(&Run) -> Option<f64>| {
        middle(&|r: &Run| Some(f(r)? / f(never(r.round)?)?).filter(|x| x.is_finite()))
    };
    let cpu = |r: &Run| {
        let part = crate::stats::to_f64(r.tool_cpu_ns?) / crate::stats::to_f64(r.elapsed_ns.max(1));
        Some(part * 100.0)
    };
    Row {
        program: program.into(),
        mode: mode.into(),
        per_second: middle(&per_second),
        rss: middle(&rss),
        p99_us: middle(&|r| r.outcome.as_ref()?.p99_us),
        cpu_percent: middle(&cpu),
        pace: ratio(&per_second),
        size: ratio(&rss),
    }
}

fn shares(rows: &[Row], program: &str, ours: &str) -> Shares {
    let find = |mode: &str| rows.iter().find(|r| r.program == program && r.mode == mode);
    let of = |f: fn(&Row) -> Option<f64>| [NEVER, ALWAYS, ours].map(|m| find(m).and_then(f));
    let [t_never, t_always, t_ours] = of(|r| Some(1.0 / r.per_second?.median));
    let [m_never, m_always, m_ours] = of(|r| Some(r.rss?.median));
    let gain = |big: Option<f64>, small: Option<f64>| Some(big? / small? - 1.0);
    let speed_up = gain(t_never, t_always);
    let bloat = gain(m_always, m_never);
    let share = |matters: Option<f64>, [from, to, ours]: [Option<f64>; 3]| {
        matters.filter(|m| *m >= MATTERS)?;
        Some((from? - ours?) / (from? - to?))
    };
    Shares {
        program: program.into(),
        mode: ours.into(),
        speed_up,
        bloat,
        kept: share(speed_up, [t_never, t_always, t_ours]),
        removed: share(bloat, [m_always, m_never, m_ours]),
    }
}

pub(super) fn format(study: &Study) -> String {
    let mut runs = Table::new([
        "program",
        "mode",
        "n",
        "units/s",
        "range",
        "p99 us",
        "RSS MiB",
        "range MiB",
        "CPU %",
        "pace",
        "range",
        "size",
    ]);
    for r in &study.rows {
        runs.row([
            r.program.clone(),
            r.mode.clone(),
            r.per_second.map_or(0, |m| m.n).to_string(),
            number(r.per_second.map(|m| m.median), 3),
            interval(r.per_second, 1.0, 3),
            number(r.p99_us.map(|m| m.median), 1),
            mib(r.rss.map(|m| m.median)),
            interval(r.rss, 1.0 / f64::from(1 << 20), 1),
            number(r.cpu_percent.map(|m| m.median), 2),
            number(r.pace.map(|m| m.median), 3),
            interval(r.pace, 1.0, 3),
            number(r.size.map(|m| m.median), 3),
        ]);
    }
    let mut shares = Table::new([
        "program",
        "mode",
        "speed-up %",
        "bloat %",
        "speed-up kept %",
        "bloat removed %",
    ]);
    let percent = |x: Option<f64>| number(x.map(|x| x * 100.0), 1);
    for s in &study.shares {
        let cells = [s.speed_up, s.bloat, s.kept, s.removed].map(percent);
        shares.row([s.program.clone(), s.mode.clone()].into_iter().chain(cells));
    }
    for (mode, both) in [(UNPROVEN, study.unproven), (ISOTHERM, [study.kept, study.removed])] {
        let all = both.map(|m| percent(m.map(|m| m.median)));
        let head = ["median".into(), mode.into(), "-".into(), "-".into()];
        shares.row(head.into_iter().chain(all));
    }
    let failed: String = study.failed.iter().map(|f| format!("\nfailed: {f}\n")).collect();
    runs.text()
        + "\n"
        + &shares.text()
        + &failed
        + "\nPace and size: units/s and RSS, divided by those of `never` in the same round. \
           Shares only where the speed-up or the bloat is at least 3 %. \
           Goals: >= 90 % of the speed-up kept, >= 90 % of the bloat removed, medians over programs.\n"
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::programs::Outcome;
    use crate::readings::sampling::Sample;

    fn run(program: &str, config: &str, per_second: f64, rss: u64) -> Run {
        Run {
            program: program.into(),
            config: config.into(),
            outcome: Some(Outcome { per_second, ..Outcome::default() }),
            samples: vec![Sample { rss, ..Sample::default() }],
            ..Run::default()
        }
    }

    #[test]
    fn shares_are_of_what_matters() {
        let runs = [
            run("fast", NEVER, 1.0, 1000),
            run("fast", ALWAYS, 2.0, 1010),
            run("fast", ISOTHERM, 1.6, 1000),
            run("wasteful", NEVER, 1.0, 1000),
            run("wasteful", ALWAYS, 1.01, 3000),
            run("wasteful", ISOTHERM, 1.0, 1200),
        ];
        let study = study(&runs);
        let [fast_unproven, fast, _, wasteful] = &study.shares[..] else { panic!("{study:?}") };
        assert_eq!((fast_unproven.mode.as_str(), fast_unproven.kept), (UNPROVEN, None));
        let near = |a: Option<f64>, b: f64| assert!((a.unwrap() - b).abs() < 1e-9, "{a:?} {b}");
        near(fast.speed_up, 1.0);
        let ours = study.rows.iter().find(|r| r.program == "fast" && r.mode == ISOTHERM).unwrap();
        near(ours.pace.map(|m| m.median), 1.6);
        near(ours.size.map(|m| m.median), 1.0);
        // 1 s to 0.625 s, of 1 s to 0.5 s.
        near(fast.kept, 0.75);
        assert_eq!(fast.removed, None);
        near(wasteful.bloat, 2.0);
        near(wasteful.removed, 0.9);
        assert_eq!(wasteful.kept, None);
        assert_eq!(study.kept.unwrap().n, 1);
        assert!(format(&study).contains(" 75.0 |"));
    }
}
