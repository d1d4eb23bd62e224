//! A verdict per goal of the issue that asked for this job (`Numbers to reach`).
//!
//! What is judged is a median over programs of paired medians, or where a goal is one over the
//! suite, the total of the sums. The interval is told beside it: where it holds the goal, the noise
//! is larger than what was to be shown, and the verdict says so. Absent: the goals of the jobs
//! `plan` and `tune`, and a machine whose CPUs are all busy, which this job does not make.

use super::configs::{CENSUS, ETHP, EVIDENCE, PLAN, PRCL, REC, THP, TUNED};
use super::study::{Study, Total};
use crate::stats::Middle;
use crate::table::Table;

/// Huge pages matter to a sum that they change by so much, and hurt a program that they make slower
/// by so much.
const MATTERS: f64 = 0.01;
const HURTS: f64 = 0.02;

/// A goal, and what became of it.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Verdict {
    pub(super) goal: String,
    /// Nothing if it was not measured, or cannot be judged.
    pub(super) reached: Option<bool>,
    pub(super) numbers: String,
}

impl Verdict {
    fn new(goal: impl Into<String>, reached: Option<bool>, numbers: impl Into<String>) -> Self {
        Self { goal: goal.into(), reached, numbers: numbers.into() }
    }

    fn missing(goal: impl Into<String>) -> Self {
        Self::new(goal, None, "not measured")
    }
}

fn percent(share: f64) -> String {
    format!("{:.2} %", share * 100.0)
}

/// `middle` is at most `most`.
fn at_most(goal: String, middle: Option<Middle>, most: f64, more: &str) -> Verdict {
    let Some(m) = middle else { return Verdict::missing(goal) };
    let noise =
        if m.n > 1 && m.lo <= most && most < m.hi { "; the interval holds the goal" } else { "" };
    let numbers =
        format!("{} [{} .. {}]{noise}{more}", percent(m.median), percent(m.lo), percent(m.hi));
    Verdict::new(goal, Some(m.median <= most), numbers)
}

/// All of them.
pub(super) fn judge(study: &Study) -> Vec<Verdict> {
    let mut all = Vec::new();
    for config in [REC, CENSUS] {
        record(study.total(config), config, &mut all);
    }
    for (config, saved, slower) in [(EVIDENCE, 0.38, 0.01), (TUNED, 0.2497, 0.0091)] {
        savings(study.total(config), config, saved, slower, &mut all);
    }
    for config in [PRCL, PLAN] {
        all.push(told(study.total(config), config));
    }
    let back = study.total(EVIDENCE).and_then(|t| t.back);
    let goal = format!("`{EVIDENCE}`: comes back, of what is paged out <= 2 %");
    all.push(at_most(goal, back, 0.02, "; at the load of this machine"));
    huge_pages(study, &mut all);
    all
}

fn record(total: Option<&Total>, config: &str, all: &mut Vec<Verdict>) {
    let of = |f: fn(&Total) -> Option<Middle>| total.and_then(f);
    let sums = total.and_then(|t| t.runtime.more());
    let sums = sums.map_or_else(String::new, |more| format!("; total {}", percent(more)));
    all.extend([
        at_most(
            format!("`{config}`: slowdown <= 0.3 % (published: 0.62 to 2.87 %)"),
            of(|t| t.slowdown),
            0.003,
            &sums,
        ),
        at_most(format!("`{config}`: own CPU <= 0.5 % of one"), of(|t| t.own_cpu), 0.005, ""),
        at_most(format!("`{config}`: system memory <= 0.2 % more"), of(|t| t.used_more), 0.002, ""),
    ]);
}

/// Over the suite, by the sums, as published.
fn savings(total: Option<&Total>, config: &str, saved: f64, slower: f64, all: &mut Vec<Verdict>) {
    let goals = [
        format!("`{config}`: total of resident memory >= {:.0} % less", saved * 100.0),
        format!("`{config}`: total of runtime <= {} more", percent(slower)),
        format!("`{config}`: no program slower than 3 %"),
    ];
    let sums = total.and_then(|t| Some((t.rss.more()?, t.runtime.more()?, t)));
    let Some((rss, runtime, t)) = sums else {
        let asked = if config == EVIDENCE { 3 } else { 2 };
        all.extend(goals.into_iter().take(asked).map(Verdict::missing));
        return;
    };
    let [first, second, third] = goals;
    let over = |m: Option<Middle>| m.map_or(f64::NAN, |m| m.median);
    let numbers = format!("{}; median {}", percent(-rss), percent(-over(t.rss_more)));
    all.push(Verdict::new(first, Some(-rss >= saved), numbers));
    let numbers = format!("{}; median {}", percent(runtime), percent(over(t.slowdown)));
    all.push(Verdict::new(second, Some(runtime <= slower), numbers));
    if config == EVIDENCE {
        all.push(match &t.worst {
            Some((program, more)) => {
                Verdict::new(third, Some(*more <= 0.03), format!("{program}: {}", percent(*more)))
            }
            None => Verdict::missing(third),
        });
    }
}

/// Without a goal: numbers to compare with.
fn told(total: Option<&Total>, config: &str) -> Verdict {
    let goal = format!("`{config}`: no goal, to compare with");
    let numbers = total.and_then(|t| {
        let (rss, runtime) = (t.rss.more()?, t.runtime.more()?);
        Some(format!("{} saved, {} slower (totals)", percent(-rss), percent(runtime)))
    });
    numbers.map_or_else(|| Verdict::missing(goal.clone()), |n| Verdict::new(goal.clone(), None, n))
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
        None => Verdict::new(goals[0], None, "huge pages take less than 1 % more memory here"),
    });
    let kept = thp.runtime.more().zip(ethp.runtime.more());
    all.push(match kept.filter(|(gain, _)| -gain >= MATTERS) {
        Some((gain, ours)) => share(goals[1], ours / gain, -gain, "less time"),
        None => Verdict::new(goals[1], None, "huge pages gain less than 1 % here"),
    });
    all.push(unhurt(study, goals[2]));
}

fn share(goal: &str, share: f64, of: f64, what: &str) -> Verdict {
    let numbers = format!("{} of {} {what}", percent(share), percent(of));
    Verdict::new(goal, Some(share >= 0.9), numbers)
}

fn unhurt(study: &Study, goal: &str) -> Verdict {
    let slowdown = |program: &str, config| Some(study.cell(program, config)?.runtime.more?.median);
    let mut hurt = Vec::new();
    let mut is_worst = false;
    for program in &study.programs {
        let Some(always) = slowdown(program, THP).filter(|more| *more > HURTS) else { continue };
        let Some(ours) = slowdown(program, ETHP) else { continue };
        is_worst |= ours > HURTS;
        hurt.push(format!("{program}: {} against {}", percent(ours), percent(always)));
    }
    if hurt.is_empty() {
        return Verdict::new(goal, None, "`thp` makes no program 2 % slower here");
    }
    Verdict::new(goal, Some(!is_worst), hurt.join("; "))
}

pub(super) fn format(verdicts: &[Verdict]) -> String {
    let mut table = Table::new(["goal", "verdict", "numbers"]);
    for v in verdicts {
        let verdict = match v.reached {
            Some(true) => "reached",
            Some(false) => "**missed**",
            None => "-",
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
        assert!(all.iter().all(|v| v.reached.is_none() && v.numbers == "not measured"), "{all:?}");
    }

    #[test]
    fn a_record_is_judged_by_the_median_over_programs() {
        let mut runs = Vec::new();
        for (program, more) in [("a", 0.001), ("b", 0.002), ("c", 0.1)] {
            runs.push(once(program, ORIG, 0, 10.0, 1000));
            runs.push(once(program, "census", 0, 10.0 * (1.0 + more), 1000));
        }
        let slowdown = verdict(&runs, "`census`: slowdown");
        assert_eq!(slowdown.reached, Some(true));
        assert_eq!(
            slowdown.numbers,
            "0.20 % [0.10 % .. 10.00 %]; the interval holds the goal; total 3.43 %"
        );
        // 50 ms of 10 s.
        assert_eq!(verdict(&runs, "`census`: own CPU").reached, Some(true));
        assert_eq!(verdict(&runs, "`rec`: own CPU").reached, None);
    }

    #[test]
    fn savings_are_judged_by_the_sums() {
        let runs = [
            once("big", ORIG, 0, 100.0, 8000),
            once("big", "prcl+evidence", 0, 100.0, 4000),
            once("small", ORIG, 0, 10.0, 1000),
            once("small", "prcl+evidence", 0, 10.4, 1000),
        ];
        let saved = verdict(&runs, "`prcl+evidence`: total of resident");
        assert_eq!(saved.numbers, "44.44 %; median 25.00 %");
        assert_eq!(saved.reached, Some(true));
        let slower = verdict(&runs, "`prcl+evidence`: total of runtime");
        assert_eq!((slower.reached, &*slower.numbers), (Some(true), "0.36 %; median 2.00 %"));
        let worst = verdict(&runs, "`prcl+evidence`: no program");
        assert_eq!((worst.reached, &*worst.numbers), (Some(false), "small: 4.00 %"));
        assert_eq!(verdict(&runs, "`prcl+evidence`: comes back").reached, Some(true));
    }

    #[test]
    fn huge_pages_are_judged_as_published() {
        let runs = [
            once("gather", ORIG, 0, 100.0, 1000),
            once("gather", "thp", 0, 80.0, 2000),
            once("gather", "ethp", 0, 82.0, 1050),
            once("sweep", ORIG, 0, 10.0, 1000),
            once("sweep", "thp", 0, 11.0, 1000),
            once("sweep", "ethp", 0, 10.5, 1000),
        ];
        // Of 1000 KiB of bloat 50 are left.
        let removed = verdict(&runs, "`ethp`: >= 90 % of the bloat");
        assert_eq!(
            (removed.reached, &*removed.numbers),
            (Some(true), "95.00 % of 50.00 % more memory")
        );
        // 110 to 91 is all, 110 to 92.5 is kept.
        let kept = verdict(&runs, "`ethp`: >= 90 % of the speed-up");
        assert_eq!((kept.reached, &*kept.numbers), (Some(true), "92.11 % of 17.27 % less time"));
        let hurt = verdict(&runs, "`ethp`: not 2 %");
        assert_eq!((hurt.reached, &*hurt.numbers), (Some(false), "sweep: 5.00 % against 10.00 %"));
        let even = [
            runs[0].clone(),
            once("gather", "thp", 0, 100.0, 1000),
            once("gather", "ethp", 0, 90.0, 10),
        ];
        assert_eq!(verdict(&even, "`ethp`: >= 90 % of the bloat").reached, None);
    }
}
