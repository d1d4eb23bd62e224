//! A verdict per goal of the issue that asked for this job (`Numbers to reach`).
//!
//! Time and system memory are noisy, and their goals small. So they are judged by all pairs of all
//! programs, or of the one that a goal is about: it is reached or missed only if the interval of
//! the median lies on one side of it, which takes five pairs at least; else nothing is decided, and
//! the numbers say how wide the noise is. Resident memory hardly varies, and is judged by its
//! total, as published. Absent: the goals of the jobs `plan` and `tune`, and a machine whose CPUs
//! are all busy, which this job does not make.

use super::configs::{CENSUS, ETHP, EVIDENCE, PLAN, PRCL, REC, THP, TUNED};
use super::study::{Study, Total};
use crate::stats::Middle;
use crate::table::Table;

/// Huge pages matter to a sum that they change by so much, and hurt a program that they make slower
/// by so much.
const MATTERS: f64 = 0.01;
const HURTS: f64 = 0.02;

/// Five values have an interval of 94 %, and fewer none that deserves the name.
const ENOUGH: usize = 5;

/// What became of a goal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Outcome {
    Reached,
    Missed,
    /// The noise is larger than what was to be shown.
    Undecided,
    /// Not measured, or nothing to judge.
    Absent,
}

impl Outcome {
    const fn of(reached: bool) -> Self {
        if reached { Self::Reached } else { Self::Missed }
    }

    /// Of what should be at most `most`.
    fn decided(m: Middle, most: f64) -> Self {
        match m {
            _ if m.n < ENOUGH => Self::Undecided,
            _ if m.hi <= most => Self::Reached,
            _ if m.lo > most => Self::Missed,
            _ => Self::Undecided,
        }
    }
}

/// A goal, and what became of it.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Verdict {
    pub(super) goal: String,
    pub(super) outcome: Outcome,
    pub(super) numbers: String,
}

impl Verdict {
    fn new(goal: impl Into<String>, outcome: Outcome, numbers: impl Into<String>) -> Self {
        Self { goal: goal.into(), outcome, numbers: numbers.into() }
    }

    fn missing(goal: impl Into<String>) -> Self {
        Self::new(goal, Outcome::Absent, "not measured")
    }
}

fn percent(share: f64) -> String {
    format!("{:.2} %", share * 100.0)
}

fn with_interval(m: Middle) -> String {
    format!("{} [{} .. {}], n = {}", percent(m.median), percent(m.lo), percent(m.hi), m.n)
}

/// A median over programs is at most `most`.
fn at_most(goal: String, middle: Option<Middle>, most: f64) -> Verdict {
    let Some(m) = middle else { return Verdict::missing(goal) };
    Verdict::new(goal, Outcome::of(m.median <= most), with_interval(m))
}

/// A median over all pairs is at most `most`.
fn decided(goal: String, pairs: Option<Middle>, most: f64) -> Verdict {
    let Some(m) = pairs else { return Verdict::missing(goal) };
    Verdict::new(goal, Outcome::decided(m, most), with_interval(m))
}

/// A slowdown is at most `most`, over all pairs.
fn slowdown(goal: String, total: Option<&Total>, most: f64) -> Verdict {
    let Some((t, pairs)) = total.and_then(|t| Some((t, t.pairs?))) else {
        return Verdict::missing(goal);
    };
    let sums =
        t.runtime.more().map_or_else(String::new, |more| format!("; total {}", percent(more)));
    let cpu = t.cpu_pairs.map_or_else(String::new, |m| format!("; of CPU {}", with_interval(m)));
    Verdict::new(goal, Outcome::decided(pairs, most), with_interval(pairs) + &sums + &cpu)
}

/// All of them.
pub(super) fn judge(study: &Study) -> Vec<Verdict> {
    let mut all = Vec::new();
    for config in [REC, CENSUS] {
        record(study.total(config), config, &mut all);
    }
    for (config, saved, slower) in [(EVIDENCE, 0.38, 0.01), (TUNED, 0.2497, 0.0091)] {
        let total = study.total(config);
        all.push(savings(total, config, saved));
        let goal = format!("`{config}`: slowdown <= {}", percent(slower));
        all.push(slowdown(goal, total, slower));
    }
    all.push(worst(study, EVIDENCE));
    let back = study.total(EVIDENCE).and_then(|t| t.back);
    all.push(at_most(format!("`{EVIDENCE}`: comes back, of what is paged out <= 2 %"), back, 0.02));
    for config in [PRCL, PLAN] {
        all.push(told(study.total(config), config));
    }
    huge_pages(study, &mut all);
    all
}

fn record(total: Option<&Total>, config: &str, all: &mut Vec<Verdict>) {
    let of = |f: fn(&Total) -> Option<Middle>| total.and_then(f);
    all.extend([
        slowdown(
            format!("`{config}`: slowdown <= 0.3 % (published: 0.45 to 2.87 %)"),
            total,
            0.003,
        ),
        at_most(format!("`{config}`: own CPU <= 0.5 % of one"), of(|t| t.own_cpu), 0.005),
        decided(format!("`{config}`: system memory <= 0.2 % more"), of(|t| t.used_pairs), 0.002),
    ]);
}

/// Over the suite, by the sums, as published.
fn savings(total: Option<&Total>, config: &str, saved: f64) -> Verdict {
    let goal = format!("`{config}`: total of resident memory >= {:.0} % less", saved * 100.0);
    let Some((rss, t)) = total.and_then(|t| Some((t.rss.more()?, t))) else {
        return Verdict::missing(goal);
    };
    let median = t.rss_more.map_or(f64::NAN, |m| -m.median);
    let numbers = format!("{}; median {}", percent(-rss), percent(median));
    Verdict::new(goal, Outcome::of(-rss >= saved), numbers)
}

/// The slowdown of a program.
fn slower(study: &Study, program: &str, config: &str) -> Option<Middle> {
    study.cell(program, config)?.runtime.more
}

/// No program is slower than 3 %: each by its own rounds.
fn worst(study: &Study, config: &str) -> Verdict {
    let goal = format!("`{config}`: no program slower than 3 %");
    let all = study.programs.iter().filter_map(|p| Some((p, slower(study, p, config)?)));
    let all: Vec<(&String, Middle)> = all.collect();
    let outcomes: Vec<Outcome> = all.iter().map(|(_, m)| Outcome::decided(*m, 0.03)).collect();
    let Some((program, most)) = all.iter().max_by(|a, b| a.1.median.total_cmp(&b.1.median)) else {
        return Verdict::missing(goal);
    };
    Verdict::new(goal, all_of(&outcomes), format!("{program}: {}", with_interval(*most)))
}

/// One that missed is enough to miss; all have to reach.
fn all_of(outcomes: &[Outcome]) -> Outcome {
    if outcomes.contains(&Outcome::Missed) {
        Outcome::Missed
    } else if outcomes.contains(&Outcome::Undecided) {
        Outcome::Undecided
    } else {
        Outcome::Reached
    }
}

/// Without a goal: numbers to compare with.
fn told(total: Option<&Total>, config: &str) -> Verdict {
    let goal = format!("`{config}`: no goal, to compare with");
    let numbers = total.and_then(|t| {
        let (rss, runtime) = (t.rss.more()?, t.runtime.more()?);
        Some(format!("{} saved, {} slower (totals)", percent(-rss), percent(runtime)))
    });
    numbers.map_or_else(
        || Verdict::missing(goal.clone()),
        |n| Verdict::new(goal.clone(), Outcome::Absent, n),
    )
}

fn huge_pages(study: &Study, all: &mut Vec<Verdict>) {
    let goals = [
        "`ethp`: >= 90 % of the bloat removed (published: 81 %)",
        "`ethp`: >= 90 % of the speed-up kept (published: 63 %)",
        "`ethp`: not 2 % slower where `thp` is",
    ];
    let (Some(thp), Some(ethp)) = (study.total(THP), study.total(ETHP)) else {
        all.extend(goals.map(Verdict::missing));
        return;
    };
    // Of the totals, as published: 1 - 3.06 / 12.48, and 2.61 / 4.16.
    let removed = thp.rss.more().zip(ethp.rss.more());
    all.push(match removed.filter(|(bloat, _)| *bloat >= MATTERS) {
        Some((bloat, left)) => share(goals[0], 1.0 - left / bloat, bloat, "more memory"),
        None => Verdict::new(
            goals[0],
            Outcome::Absent,
            "huge pages take less than 1 % more memory here",
        ),
    });
    let kept = thp.runtime.more().zip(ethp.runtime.more());
    all.push(match (kept, thp.pairs) {
        (Some((gain, ours)), Some(m)) if Outcome::decided(m, -MATTERS) == Outcome::Reached => {
            share(goals[1], ours / gain, -gain, "less time")
        }
        (_, Some(m)) => {
            let numbers = format!("`thp` is no 1 % faster for sure: {}", with_interval(m));
            Verdict::new(goals[1], Outcome::Undecided, numbers)
        }
        _ => Verdict::missing(goals[1]),
    });
    all.push(unhurt(study, goals[2]));
}

fn share(goal: &str, share: f64, of: f64, what: &str) -> Verdict {
    let numbers = format!("{} of {} {what}", percent(share), percent(of));
    Verdict::new(goal, Outcome::of(share >= 0.9), numbers)
}

fn unhurt(study: &Study, goal: &str) -> Verdict {
    let (mut hurt, mut outcomes) = (Vec::new(), Vec::new());
    for program in &study.programs {
        let pair = slower(study, program, THP).zip(slower(study, program, ETHP));
        let Some((always, ours)) = pair else { continue };
        if Outcome::decided(always, HURTS) == Outcome::Missed {
            outcomes.push(Outcome::decided(ours, HURTS));
            let [ours, always] = [ours, always].map(with_interval);
            hurt.push(format!("{program}: {ours} against {always}"));
        }
    }
    if hurt.is_empty() {
        return Verdict::new(goal, Outcome::Absent, "`thp` makes no program 2 % slower for sure");
    }
    Verdict::new(goal, all_of(&outcomes), hurt.join("; "))
}

pub(super) fn format(verdicts: &[Verdict]) -> String {
    let mut table = Table::new(["goal", "verdict", "numbers"]);
    for v in verdicts {
        let verdict = match v.outcome {
            Outcome::Reached => "reached",
            Outcome::Missed => "**missed**",
            Outcome::Undecided => "not decided",
            Outcome::Absent => "-",
        };
        table.row([v.goal.clone(), verdict.into(), v.numbers.clone()]);
    }
    table.text()
}

#[cfg(test)]
mod tests {
    use super::super::configs::ORIG;
    use super::super::study::study;
    use super::super::study::tests::once;
    use super::*;
    use crate::measure::Run;

    fn verdict(runs: &[Run], goal: &str) -> Verdict {
        let all = judge(&study(runs));
        let found = all.iter().find(|v| v.goal.starts_with(goal));
        found.unwrap_or_else(|| panic!("{goal} in {all:?}")).clone()
    }

    #[test]
    fn nothing_measured_is_nothing_judged() {
        let all = judge(&study(&[once("gcc", ORIG, 0, 30.0, 3000)]));
        assert_eq!(all.len(), 17);
        let absent = |v: &Verdict| v.outcome == Outcome::Absent && v.numbers == "not measured";
        assert!(all.iter().all(absent), "{all:?}");
    }

    /// Six pairs that are slower by these shares.
    fn six(more: [f64; 6]) -> Vec<Run> {
        let pair = |(round, more): (usize, f64)| {
            let orig = once("a", ORIG, round, 10.0, 1000);
            [orig, once("a", "census", round, 10.0 * (1.0 + more), 1000)]
        };
        more.into_iter().enumerate().flat_map(pair).collect()
    }

    #[test]
    fn a_slowdown_is_decided_by_its_interval() {
        for (more, expected) in [
            ([0.001, 0.002, 0.002, 0.002, 0.002, 0.0025], Outcome::Reached),
            ([0.004, 0.005, 0.006, 0.02, 0.03, 0.05], Outcome::Missed),
            ([-0.2, 0.001, 0.001, 0.001, 0.001, 0.004], Outcome::Undecided),
        ] {
            let slowdown = verdict(&six(more), "`census`: slowdown");
            assert_eq!(slowdown.outcome, expected, "{slowdown:?}");
        }
        let four = &six([0.0; 6])[..8];
        let few = verdict(four, "`census`: slowdown");
        assert_eq!(few.outcome, Outcome::Undecided);
        assert_eq!(
            few.numbers,
            "0.00 % [0.00 % .. 0.00 %], n = 4; total 0.00 %; of CPU 0.00 % [0.00 % .. 0.00 %], n = 4"
        );
        // 50 ms of 10 s.
        assert_eq!(verdict(four, "`census`: own CPU").outcome, Outcome::Reached);
        assert_eq!(verdict(four, "`rec`: own CPU").outcome, Outcome::Absent);
        assert_eq!(verdict(four, "`census`: system memory").outcome, Outcome::Undecided);
        assert_eq!(verdict(&six([0.0; 6]), "`census`: system memory").outcome, Outcome::Reached);
    }

    #[test]
    fn savings_are_judged_by_the_sums() {
        let runs = [
            once("big", ORIG, 0, 100.0, 8000),
            once("big", "prcl+evidence", 0, 100.0, 4000),
            once("small", ORIG, 0, 10.0, 1000),
            once("small", "prcl+evidence", 0, 10.4, 1000),
        ];
        let of = |goal: &str| {
            let verdict = verdict(&runs, goal);
            (verdict.outcome, verdict.numbers)
        };
        let saved = (Outcome::Reached, "44.44 %; median 25.00 %".to_owned());
        assert_eq!(of("`prcl+evidence`: total of resident"), saved);
        let worst = "small: 4.00 % [4.00 % .. 4.00 %], n = 1".to_owned();
        assert_eq!(of("`prcl+evidence`: no program"), (Outcome::Undecided, worst));
        assert_eq!(of("`prcl+evidence`: comes back").0, Outcome::Reached);
        let slower = of("`prcl+evidence`: slowdown");
        assert_eq!(slower.0, Outcome::Undecided);
        assert!(slower.1.contains("total 0.36 %"), "{}", slower.1);
    }

    #[test]
    fn one_program_that_is_slower_is_enough_to_miss() {
        let five = |program: &str, seconds: f64| -> Vec<Run> {
            let both = |round| {
                let orig = once(program, ORIG, round, 10.0, 1000);
                [orig, once(program, "prcl+evidence", round, seconds, 1000)]
            };
            (0..5).flat_map(both).collect()
        };
        let judged = |runs: &[Run]| verdict(runs, "`prcl+evidence`: no program").outcome;
        let (fast, slow) = (five("fast", 10.2), five("slow", 10.4));
        assert_eq!(judged(&fast), Outcome::Reached);
        assert_eq!(judged(&[&fast[..], &slow].concat()), Outcome::Missed);
        // What two rounds say is not sure.
        assert_eq!(judged(&[&fast[..], &slow[..4]].concat()), Outcome::Undecided);
    }

    #[test]
    fn huge_pages_are_judged_as_published() {
        let rounds = |sweep: f64, n| -> Vec<Run> {
            let all = move |round| {
                [
                    once("gather", ORIG, round, 100.0, 1000),
                    once("gather", "thp", round, 80.0, 2000),
                    once("gather", "ethp", round, 82.0, 1050),
                    once("sweep", ORIG, round, 10.0, 1000),
                    once("sweep", "thp", round, sweep, 1000),
                    once("sweep", "ethp", round, 10.5, 1000),
                ]
            };
            (0..n).flat_map(all).collect()
        };
        let of = |runs: &[Run], goal: &str| {
            let verdict = verdict(runs, goal);
            (verdict.outcome, verdict.numbers)
        };
        // Both are faster: 110 to 89 is all, and 110 to 92.5 is kept. Of 1000 KiB 50 are left.
        let runs = rounds(9.0, 5);
        let removed = (Outcome::Reached, "95.00 % of 50.00 % more memory".to_owned());
        assert_eq!(of(&runs, "`ethp`: >= 90 % of the bloat"), removed);
        let kept = (Outcome::Missed, "83.33 % of 19.09 % less time".to_owned());
        assert_eq!(of(&runs, "`ethp`: >= 90 % of the speed-up"), kept);
        assert_eq!(of(&runs, "`ethp`: not 2 %").0, Outcome::Absent);
        // One is slower: five rounds are sure of that, and two are of nothing.
        let runs = rounds(11.0, 5);
        let hurt =
            "sweep: 5.00 % [5.00 % .. 5.00 %], n = 5 against 10.00 % [10.00 % .. 10.00 %], n = 5";
        assert_eq!(of(&runs, "`ethp`: not 2 %"), (Outcome::Missed, hurt.to_owned()));
        assert_eq!(of(&runs, "`ethp`: >= 90 % of the speed-up").0, Outcome::Undecided);
        assert_eq!(of(&rounds(11.0, 2), "`ethp`: not 2 %").0, Outcome::Absent);
    }
}
