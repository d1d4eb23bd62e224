//! What was predicted, against what was done.

use serde::{Deserialize, Serialize};

use crate::stats::{Middle, to_f64};
use crate::table::{Table, number};

/// The goals: points of the saving, and the factor of the refaults.
const GOAL_POINTS: f64 = 10.0;
const GOAL_FACTOR: f64 = 2.0;
/// Fewer faults per second than this are noise of the machine, in prediction and in truth.
const FEW: f64 = 2.0;

/// An estimate with its interval, as a plan has it.
#[derive(Debug, Clone, Copy, Default, Serialize, Deserialize)]
pub(super) struct Estimate {
    lo: f64,
    mid: f64,
    hi: f64,
}

/// A row of a plan, as far as this job needs it.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
pub(super) struct Row {
    pub(super) age_s: f64,
    saved_share: Estimate,
    refaults_per_s: Estimate,
}

/// A policy played back over the record, in its second half.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
pub(super) struct Replayed {
    saved_share_late: f64,
    pages_back_per_s: f64,
}

/// One idle time of one program; `raw/cases.json` lists them.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct Case {
    pub(super) program: String,
    pub(super) age_s: u64,
    pub(super) predicted: Option<Row>,
    #[serde(default)]
    pub(super) replayed: Option<Replayed>,
    /// Mean resident memory while it was recorded, and while memory was paged out.
    pub(super) before: f64,
    pub(super) after: f64,
    /// Major faults per second, while it was recorded and while memory was paged out.
    pub(super) faults: [f64; 2],
}

impl Case {
    fn saved(&self) -> f64 {
        1.0 - self.after / self.before.max(1.0)
    }

    fn refaults(&self) -> f64 {
        (self.faults[1] - self.faults[0]).max(0.0)
    }

    /// Points by which the saving was predicted too large.
    fn points(&self) -> Option<f64> {
        Some((self.predicted?.saved_share.mid - self.saved()) * 100.0)
    }

    /// How many times as many refaults were predicted; few are as good as none.
    fn factor(&self) -> Option<f64> {
        Some(self.factor_of(self.predicted?.refaults_per_s.mid))
    }

    fn factor_of(&self, told: f64) -> f64 {
        told.max(FEW) / self.refaults().max(FEW)
    }

    /// The same of the policy that was played back.
    fn replay(&self) -> Option<(f64, f64)> {
        let told = self.replayed?;
        let points = (told.saved_share_late - self.saved()) * 100.0;
        Some((points, self.factor_of(told.pages_back_per_s)))
    }
}

/// The sums over all cases.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Summary {
    cases: usize,
    points: Option<Middle>,
    factor: Option<Middle>,
    /// Shares of the cases that reach the goals, and whose intervals hold what was done.
    points_reached: f64,
    factor_reached: f64,
    saving_held: f64,
    refaults_held: f64,
    /// Of policies that were played back: points, factor, and the shares that reach the goals.
    #[serde(default)]
    replay: Option<(Middle, Middle, f64, f64)>,
}

/// The sums.
pub(super) fn summary(cases: &[Case]) -> Summary {
    let of =
        |f: &dyn Fn(&Case) -> Option<f64>| -> Vec<f64> { cases.iter().filter_map(f).collect() };
    let share = |f: &dyn Fn(&Case) -> Option<bool>| {
        let all: Vec<bool> = cases.iter().filter_map(f).collect();
        to_f64(all.iter().filter(|yes| **yes).count() as u64) / to_f64(all.len().max(1) as u64)
    };
    let factor = |c: &Case| c.factor().map(|f| f.max(1.0 / f));
    let replay = |c: &Case| c.replay().map(|(points, f)| (points.abs(), f.max(1.0 / f)));
    let replay_middles =
        Middle::of(&of(&|c| Some(replay(c)?.0))).zip(Middle::of(&of(&|c| Some(replay(c)?.1))));
    Summary {
        cases: cases.len(),
        points: Middle::of(&of(&|c| c.points().map(f64::abs))),
        factor: Middle::of(&of(&factor)),
        points_reached: share(&|c| Some(c.points()?.abs() <= GOAL_POINTS)),
        factor_reached: share(&|c| Some(factor(c)? <= GOAL_FACTOR)),
        replay: replay_middles.map(|(points, factor)| {
            let near = share(&|c| Some(replay(c)?.0 <= GOAL_POINTS));
            (points, factor, near, share(&|c| Some(replay(c)?.1 <= GOAL_FACTOR)))
        }),
        saving_held: share(&|c| {
            let told = c.predicted?.saved_share;
            Some((told.lo - 0.01..=told.hi + 0.01).contains(&c.saved()))
        }),
        refaults_held: share(&|c| {
            let told = c.predicted?.refaults_per_s;
            Some((told.lo - FEW..=told.hi + FEW).contains(&c.refaults()))
        }),
    }
}

/// A table, and the sums in words.
pub(super) fn format(cases: &[Case], summary: &Summary) -> String {
    let mut table = Table::new([
        "program",
        "idle s",
        "saves %",
        "told %",
        "interval",
        "refaults/s",
        "told",
        "interval",
        "points",
        "factor",
        "replay saves",
        "replay refaults",
    ]);
    let percent = |share: f64| number(Some(share * 100.0), 1);
    for c in cases {
        let told = c.predicted;
        let saving = told.map(|row| row.saved_share);
        let refaults = told.map(|row| row.refaults_per_s);
        let interval = |e: Option<Estimate>, scale: f64| {
            let shown = e.map(|e| format!("{:.1} .. {:.1}", e.lo * scale, e.hi * scale));
            shown.unwrap_or_else(|| "-".into())
        };
        table.row([
            c.program.clone(),
            c.age_s.to_string(),
            percent(c.saved()),
            saving.map_or_else(|| "-".into(), |e| percent(e.mid)),
            interval(saving, 100.0),
            number(Some(c.refaults()), 1),
            number(refaults.map(|e| e.mid), 1),
            interval(refaults, 1.0),
            number(c.points(), 1),
            number(c.factor(), 2),
            number(c.replayed.map(|r| r.saved_share_late * 100.0), 1),
            number(c.replayed.map(|r| r.pages_back_per_s), 1),
        ]);
    }
    let middle = |m: Option<Middle>, digits| number(m.map(|m| m.median), digits);
    table.text()
        + &format!(
            "\n{} cases. Saving: off by {} points (median), at most {GOAL_POINTS} in {} % of the \
             cases; the interval holds it in {} %.\nRefaults: off by a factor of {} (median), at \
             most {GOAL_FACTOR} in {} %; the interval holds them in {} %.\n",
            summary.cases,
            middle(summary.points, 1),
            percent(summary.points_reached),
            percent(summary.saving_held),
            middle(summary.factor, 2),
            percent(summary.factor_reached),
            percent(summary.refaults_held),
        )
        + &summary.replay.as_ref().map_or_else(String::new, |(points, factor, near, twice)| {
            format!(
                "Played back: saving off by {} points (median), at most {GOAL_POINTS} in {} %; refaults \
                 off by a factor of {} (median), at most {GOAL_FACTOR} in {} %.\n",
                number(Some(points.median), 1),
                percent(*near),
                number(Some(factor.median), 2),
                percent(*twice)
            )
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn case(saved: f64, done: f64, told: Option<(f64, f64)>) -> Case {
        let around = |mid: f64| Estimate { lo: mid * 0.9, mid, hi: mid * 1.1 };
        Case {
            program: "x".into(),
            age_s: 2,
            predicted: told.map(|(saved, refaults)| Row {
                age_s: 2.0,
                saved_share: around(saved),
                refaults_per_s: around(refaults),
            }),
            replayed: told.map(|(saved, refaults)| Replayed {
                saved_share_late: saved,
                pages_back_per_s: refaults,
            }),
            before: 100.0,
            after: 100.0 * (1.0 - saved),
            faults: [1.0, 1.0 + done],
        }
    }

    #[test]
    fn few_faults_are_as_good_as_none_and_too_few_count_as_too_many() {
        let factor = |done, told| case(0.5, done, Some((0.5, told))).factor().unwrap();
        assert_eq!([factor(0.0, 1.0), factor(1.0, 0.0)], [1.0, 1.0]);
        assert_eq!([factor(10.0, 40.0), factor(40.0, 10.0), factor(0.0, 8.0)], [4.0, 0.25, 4.0]);
    }

    #[test]
    fn cases_without_a_prediction_are_shown_and_not_judged() {
        let cases = [
            case(0.5, 100.0, Some((0.52, 90.0))),
            case(0.2, 10.0, Some((0.5, 40.0))),
            case(0.2, 1.0, None),
        ];
        let sums = summary(&cases);
        let shares =
            [sums.points_reached, sums.factor_reached, sums.saving_held, sums.refaults_held];
        assert_eq!((sums.cases, shares), (3, [0.5, 0.5, 0.5, 0.5]));
        let text = format(&cases, &sums);
        assert!(text.contains("| x       |      2 |    20.0 |      - |"), "{text}");
        assert!(text.contains("Played back: saving off by 16.0 points"), "{text}");
    }
}
