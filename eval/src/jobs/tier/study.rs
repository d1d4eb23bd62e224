//! From looks and truth to rows.

use serde::{Deserialize, Serialize};

use super::leg::{Leg, Look, Phase};
use crate::stats::to_f64;
use crate::table::{Table, number};

/// Of the best static placement, in percent.
const SHARE: f64 = 95.0;
/// Within a percent point of the goal.
const NEAR: f64 = 1.0;
/// Steady: the last part of a phase, in ns.
const STEADY_NS: u64 = 20_000_000_000;
const MOVES: f64 = 2.0;

/// One number.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct Row {
    pub(super) engine: String,
    #[serde(default)]
    pub(super) layout: String,
    pub(super) what: String,
    pub(super) value: Option<f64>,
    pub(super) goal: String,
    /// Nothing: only told.
    pub(super) reached: Option<bool>,
}

/// The share of a phase's accesses that the fast node served, and that of the best placement of as
/// many pages, both of all.
pub(super) fn served(look: &Look, phase: &Phase) -> Option<(f64, f64)> {
    let all: f64 = phase.accesses.iter().sum();
    if all <= 0.0 {
        return None;
    }
    let part = |n: &u8| f64::from(*n) / 64.0;
    let now: f64 = look.fast.iter().zip(&phase.accesses).map(|(n, a)| part(n) * a).sum();
    let mut room: f64 = look.fast.iter().map(part).sum();
    let mut sorted = phase.accesses.clone();
    sorted.sort_by(|a, b| b.total_cmp(a));
    let mut best = 0.0;
    for accesses in sorted {
        let here = room.min(1.0);
        best += accesses * here;
        room -= here;
    }
    Some((now / all, best / all))
}

/// Rows of an engine.
pub(super) fn rows(leg: &Leg) -> Vec<Row> {
    let row = |what: String, value: Option<f64>, goal: Option<(String, bool)>| Row {
        engine: leg.engine.clone(),
        layout: leg.layout.clone(),
        what,
        value,
        goal: goal.as_ref().map_or_else(|| "-".into(), |(text, _)| text.clone()),
        reached: goal.map(|(_, reached)| reached),
    };
    if let Some(why) = &leg.failed {
        return vec![row(format!("failed: {why}"), None, Some(("to run".into(), false)))];
    }
    let judged = leg.engine != "none";
    let mut rows = Vec::new();
    let ends = leg.phases.iter().skip(1).map(|p| p.begin_ns).chain([u64::MAX]);
    let mut off = [0.0_f64; 2];
    for (nr, (phase, end)) in leg.phases.iter().zip(ends).enumerate() {
        let looks: Vec<&Look> =
            leg.looks.iter().filter(|l| (phase.begin_ns..end).contains(&l.ns)).collect();
        let shares: Vec<(u64, f64)> = looks
            .iter()
            .filter_map(|l| served(l, phase).map(|(now, best)| (l.ns, now / best * 100.0)))
            .collect();
        let (first, last) = (shares.first().map(|s| s.1), shares.last().map(|s| s.1));
        rows.push(row(format!("phase {}: % of best, at its start", nr + 1), first, None));
        let goal = judged.then(|| (format!(">= {SHARE}"), last.is_some_and(|s| s >= SHARE)));
        rows.push(row(format!("phase {}: % of best, at its end", nr + 1), last, goal));
        let soon = shares.iter().find(|s| s.1 >= SHARE);
        let soon = soon.map(|(ns, _)| to_f64(ns - phase.begin_ns) / 1e9);
        let goal = judged.then(|| ("<= 60".into(), soon.is_some_and(|s| s <= 60.0)));
        rows.push(row(format!("phase {}: s until {SHARE} %", nr + 1), soon, goal));
        let steady = looks.last().map_or(0, |l| l.ns.saturating_sub(STEADY_NS));
        let (used_goal, free_goal) = goals(leg);
        for look in looks.iter().filter(|l| l.ns >= steady) {
            let free = to_f64(look.free_bp) / 100.0;
            off[0] = off[0].max((100.0 - free - used_goal).abs());
            off[1] = off[1].max((free - free_goal).abs());
        }
    }
    for (what, off) in [("used", off[0]), ("free", off[1])] {
        let goal = judged.then(|| (format!("<= {NEAR}"), off <= NEAR));
        let what = format!("% points off the goal `{what}`, at most, last 20 s of each phase");
        rows.push(row(what, Some(off), goal));
    }
    let most = leg.moves.keys().max().copied().unwrap_or(0);
    let goal = judged.then(|| (format!("<= {MOVES}"), f64::from(most) <= MOVES));
    rows.push(row("moves of a page per minute, at most".into(), Some(f64::from(most)), goal));
    let (pages, moves) =
        leg.moves.iter().fold((0, 0), |(p, m), (n, pages)| (p + pages, m + u64::from(*n) * pages));
    let mean = to_f64(moves) / to_f64(pages.max(1));
    rows.push(row("moves of a page per minute, mean".into(), Some(mean), None));
    for scheme in leg.account["schemes"].as_array().into_iter().flatten() {
        let mib = |key: &str| scheme[key].as_f64().map(|bytes| bytes / 1024.0 / 1024.0);
        let name = scheme["name"].as_str().unwrap_or("");
        rows.push(row(format!("{name}: MiB moved"), mib("done_bytes"), None));
        rows.push(row(format!("{name}: MiB refused"), mib("refused_bytes"), None));
        rows.push(row(format!("{name}: MiB ping-pong"), mib("ping_pong_bytes"), None));
    }
    let flushed = if leg.flushed { 1.0 } else { 0.0 };
    rows.push(row("TLBs dropped by `lab/run --flush` (1: yes)".into(), Some(flushed), None));
    let cpu = |key: &str| leg.account[key].as_f64();
    if let (Some(cpu), Some(all)) = (cpu("own_cpu_ns"), cpu("elapsed_ns")) {
        rows.push(row("own CPU, %".into(), Some(cpu / all * 100.0), None));
    }
    rows
}

/// The goals in percent as the tool used them.
fn goals(leg: &Leg) -> (f64, f64) {
    let link = &leg.account["links"][0];
    let of = |key: &str, or: f64| link[key].as_f64().map_or(or, |bp| bp / 100.0);
    (of("used_goal_bp", 99.7), of("free_goal_bp", 0.5))
}

/// The table.
pub(super) fn format(rows: &[Row]) -> String {
    let mut table = Table::new(["workload", "engine", "what", "value", "goal", "reached"]);
    for r in rows {
        table.row([
            r.layout.clone(),
            r.engine.clone(),
            r.what.clone(),
            number(r.value, 2),
            r.goal.clone(),
            r.reached.map_or("", |r| if r { "yes" } else { "MISSED" }).into(),
        ]);
    }
    table.text()
        + "\nbest: the placement that is best for the phase's accesses, by truth, with as many pages on the fast node.\n"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_best_placement_has_the_hottest_granules() {
        let phase = Phase { begin_ns: 0, accesses: vec![0.0, 10.0, 30.0, 60.0] };
        for (fast, now, best) in [
            ([64, 64, 0, 0], 0.1, 0.9),
            ([0, 0, 64, 64], 0.9, 0.9),
            ([32, 0, 0, 32], 0.3, 0.6),
            ([0, 0, 0, 0], 0.0, 0.0),
        ] {
            let look = Look { fast: fast.to_vec(), ..Look::default() };
            let (is, could) = served(&look, &phase).unwrap();
            assert!(
                (is - now).abs() < 1e-9 && (could - best).abs() < 1e-9,
                "{fast:?}: {is} {could}"
            );
        }
        let nobody = Phase { begin_ns: 0, accesses: vec![0.0; 4] };
        assert_eq!(served(&Look::default(), &nobody), None);
    }

    #[test]
    fn a_leg_is_judged_by_its_worst() {
        let s = 1_000_000_000;
        let look =
            |at_s: u64, fast: [u8; 2], free_bp| Look { ns: at_s * s, fast: fast.to_vec(), free_bp };
        let phase = |at_s: u64, accesses: [f64; 2]| Phase {
            begin_ns: at_s * s,
            accesses: accesses.to_vec(),
        };
        let leg = Leg {
            engine: "isotherm".into(),
            looks: vec![look(1, [0, 64], 30), look(30, [64, 0], 40), look(70, [60, 4], 180)],
            phases: vec![phase(0, [1.0, 0.0]), phase(60, [1.0, 0.0])],
            moves: [(0, 10), (3, 1)].into(),
            ..Leg::default()
        };
        let rows = rows(&leg);
        let missed: Vec<_> =
            rows.iter().filter(|r| r.reached == Some(false)).map(|r| r.what.as_str()).collect();
        let expected = [
            "phase 2: % of best, at its end",
            "phase 2: s until 95 %",
            "% points off the goal `used`, at most, last 20 s of each phase",
            "% points off the goal `free`, at most, last 20 s of each phase",
            "moves of a page per minute, at most",
        ];
        assert_eq!(missed, expected);
        let soon = rows.iter().find(|r| r.what == "phase 1: s until 95 %").unwrap();
        assert_eq!(soon.value, Some(30.0));
    }
}
