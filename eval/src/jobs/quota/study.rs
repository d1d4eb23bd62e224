//! From raw files to rows: what was promised, what was seen, whether that is kept.

use serde::{Deserialize, Serialize};

use super::case::{Case, Given, Leg};
use super::deciding::Cost;
use super::events::{self, Window};
use super::gauge::{Sample, at};
use super::part;
use crate::jobs::overhead::interval;
use crate::processes::tool::Account;
use crate::stats::{Middle, to_f64};
use crate::table::{Table, number};

const MIB: f64 = 1024.0 * 1024.0;
/// What a quota may be exceeded by: one batch.
const BATCH_BYTES: u64 = 1 << 20;
/// A time quota of 10 ms may cost 12.
const TIME_FACTOR: f64 = 1.2;
/// A goal is met within so much of it.
const NEAR: f64 = 0.2;
/// How soon, in windows.
const SOON: f64 = 20.0;
/// The share of the windows after that which must be near.
const HELD: f64 = 0.9;
/// For a region: 100 us per 1000.
const DECIDING_NS: f64 = 100.0;
/// What counts as many regions.
const REGIONS: f64 = 10_000.0;
const SLICE_NS: u64 = 1_000_000_000;
/// Of a leg's start, not counted: the first looks.
const SETTLE_NS: u64 = 1_000_000_000;

/// One number that was promised.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct Row {
    pub(super) part: String,
    pub(super) case: String,
    /// What was measured, with its unit.
    pub(super) what: String,
    /// Over windows, slices or repetitions.
    pub(super) value: Option<Middle>,
    /// The one that the promise is about, if it is not the median.
    pub(super) worst: Option<f64>,
    pub(super) goal: String,
    /// Nothing: only told.
    pub(super) reached: Option<bool>,
}

/// A limit on a number.
struct Most(f64);

fn row(case: &Case, what: &str, values: &[f64], most: Option<&Most>, by_worst: bool) -> Row {
    let value = Middle::of(values);
    let worst = values.iter().copied().max_by(f64::total_cmp);
    let judged = if by_worst { worst } else { value.map(|v| v.median) };
    Row {
        part: case.part.clone(),
        case: case.name.clone(),
        what: what.into(),
        value,
        worst,
        goal: most.map_or_else(|| "-".into(), |m| format!("<= {:.1}", m.0)),
        // What was not seen is not reached.
        reached: most.map(|m| judged.is_some_and(|v| v <= m.0)),
    }
}

/// All rows of a case.
pub(super) fn case(case: &Case) -> Vec<Row> {
    let mut rows = match case.part.as_str() {
        part::SIZE => size(case),
        part::TIME | part::REGIONS => time(case),
        _ => goal(case),
    };
    if let Some(why) = &case.failed {
        let what = format!("failed: {why}");
        rows = vec![Row { reached: Some(false), ..row(case, &what, &[], None, false) }];
    }
    rows
}

fn quota_windows(case: &Case, leg: &Leg) -> Vec<Window> {
    // Half a pass of the shortest used is 25 ms.
    events::windows(&leg.acted, case.window_ns - 25_000_000)
}

fn size(case: &Case) -> Vec<Row> {
    let most = Most(to_f64(case.limit_bytes + BATCH_BYTES) / MIB);
    let (mut asked, mut swapped, mut accounts) = (Vec::new(), Vec::new(), Vec::new());
    for leg in &case.legs {
        let windows = quota_windows(case, leg);
        asked.extend(windows.iter().map(|w| to_f64(w.asked_bytes) / MIB));
        let ends = windows.iter().skip(1).map(|w| w.begin_ns);
        for (w, end) in windows.iter().zip(ends) {
            let swap = |ns| at(&leg.samples, ns, |s| s.swap_bytes);
            if let (Some(before), Some(after)) =
                (still(leg, w.begin_ns, swap), still(leg, end, swap))
            {
                swapped.push((after - before) / MIB);
            }
        }
        accounts.extend(leg.account.schemes.iter().map(|s| to_f64(s.max_window_bytes) / MIB));
    }
    vec![
        row(case, "MiB per window, events", &asked, Some(&most), true),
        row(case, "MiB per window, VmSwap", &swapped, Some(&most), true),
        row(case, "MiB, largest by account", &accounts, Some(&most), true),
    ]
}

/// At the last sample before `ns`: between two samples one would see half of what was done after.
fn still(leg: &Leg, ns: u64, f: impl Fn(u64) -> Option<f64>) -> Option<f64> {
    let i = leg.samples.partition_point(|s| s.ns <= ns).checked_sub(1)?;
    f(leg.samples[i].ns)
}

fn time(case: &Case) -> Vec<Row> {
    let most = Most(to_f64(case.limit_ns) / 1e6 * TIME_FACTOR);
    let (acting, control): (Vec<&Leg>, Vec<&Leg>) = case.legs.iter().partition(|l| !l.control);
    let windows = acting.iter().flat_map(|l| quota_windows(case, l));
    let by_events: Vec<f64> = windows.map(|w| to_f64(w.ns) / 1e6).collect();
    let schemes = acting.iter().flat_map(|l| &l.account.schemes);
    let by_account: Vec<f64> = schemes.map(|s| to_f64(s.max_window_ns) / 1e6).collect();
    let cpu =
        |legs: &[&Leg]| -> Vec<f64> { legs.iter().flat_map(|l| slices(&l.samples)).collect() };
    let (with, without) = (cpu(&acting), cpu(&control));
    let base = Middle::of(&without).map_or(f64::NAN, |m| m.median);
    let beyond: Vec<f64> = with.iter().map(|ms| ms - base).collect();
    // None before the first look.
    let regions = acting.iter().flat_map(|l| &l.regions).filter(|n| **n > 0);
    let regions: Vec<f64> = regions.map(|n| to_f64(*n)).collect();
    let done: Vec<f64> = acting.iter().map(|l| done_per_s(&l.account)).collect();
    let many = (case.part == part::REGIONS).then_some(REGIONS);
    let regions = row(case, "regions", &regions, None, false);
    let regions = Row {
        goal: many.map_or_else(|| "-".into(), |n| format!(">= {n:.0}")),
        reached: many.map(|n| regions.value.is_some_and(|v| v.median >= n)),
        ..regions
    };
    vec![
        row(case, "ms per window, events", &by_events, Some(&most), false),
        row(case, "ms, longest by account", &by_account, Some(&most), true),
        row(case, "CPU ms/s beyond the control", &beyond, Some(&most), false),
        row(case, "CPU ms/s of the control", &without, None, false),
        regions,
        row(case, "MiB/s done", &done, None, false),
    ]
}

fn done_per_s(account: &Account) -> f64 {
    account.sum(|s| s.done_bytes) / MIB / (to_f64(account.elapsed_ns.max(1)) / 1e9)
}

/// CPU time of the tool, in ms, of each second.
fn slices(samples: &[Sample]) -> Vec<f64> {
    let Some(first) = samples.first() else { return Vec::new() };
    let borders = (0..).map(|i| first.ns + SETTLE_NS + i * SLICE_NS);
    let at: Vec<f64> = borders.map_while(|ns| at(samples, ns, |s| s.tool_ns)).collect();
    at.windows(2).map(|w| (w[1] - w[0]) / 1e6).collect()
}

fn goal(case: &Case) -> Vec<Row> {
    let course: Vec<f64> = case.given.iter().map(|g| to_f64(g.value) / to_f64(case.goal)).collect();
    let near = |v: &f64| (v - 1.0).abs() <= NEAR;
    let first = course.iter().position(near);
    let until = first.map(|i| to_f64(i as u64 + 1));
    let until: Vec<f64> = until.into_iter().collect();
    let after = first.map_or(&[][..], |i| &course[i + 1..]);
    let held = to_f64(after.iter().filter(|v| near(v)).count() as u64) / to_f64(after.len() as u64);
    let percent: Vec<f64> = after.iter().map(|v| v * 100.0).collect();
    let mut rows = vec![
        row(case, "windows until within 20 %", &until, Some(&Most(SOON)), true),
        Row {
            worst: (!after.is_empty()).then_some(held * 100.0),
            goal: format!(">= {:.0} within 20 %", HELD * 100.0),
            reached: Some(held >= HELD),
            ..row(case, "% of the goal after; % of windows held", &percent, None, false)
        },
    ];
    if case.part == part::PSI {
        let since = first.map_or(u64::MAX, |i| case.given[i].ns);
        let late = case.totals.iter().filter(|t| t.ns >= since).collect::<Vec<_>>();
        let rate = |w: &[&Given]| {
            let windows = to_f64(w[1].ns - w[0].ns) / to_f64(case.window_ns);
            to_f64(w[1].value - w[0].value) / windows / to_f64(case.goal) * 100.0
        };
        let rates: Vec<f64> = late.windows(2).map(rate).collect();
        rows.push(row(case, "% of the goal, spans of 5 s, by the kernel", &rates, None, false));
    }
    rows
}

/// Rows of the part `deciding`.
pub(super) fn costs(costs: &[Cost]) -> Vec<Row> {
    let mut rows: Vec<Row> = Vec::new();
    for c in costs {
        let name = format!("{} regions, {}", c.regions, c.scheme);
        if rows.iter().any(|r| r.case == name) {
            continue;
        }
        let same = costs.iter().filter(|d| (d.regions, &d.scheme) == (c.regions, &c.scheme));
        let values: Vec<f64> = same.map(|d| d.ns_per_region).collect();
        let case = Case { part: part::DECIDING.into(), name, ..Case::default() };
        let most = Most(DECIDING_NS);
        let most = (c.scheme != "none").then_some(&most);
        rows.push(row(&case, "ns per region", &values, most, false));
    }
    rows
}

/// The table.
pub(super) fn format(rows: &[Row]) -> String {
    let mut table =
        Table::new(["part", "case", "what", "median", "95 %", "n", "worst", "goal", "reached"]);
    for r in rows {
        table.row([
            r.part.clone(),
            r.case.clone(),
            r.what.clone(),
            number(r.value.map(|v| v.median), 1),
            interval(r.value, 1.0, 1),
            r.value.map_or(0, |v| v.n).to_string(),
            number(r.worst, 1),
            r.goal.clone(),
            r.reached.map_or("", |r| if r { "yes" } else { "MISSED" }).into(),
        ]);
    }
    table.text()
        + "\nsize: the worst window counts, with one batch of 1 MiB allowed. time, regions: ms per window by \
           events and CPU time beyond the control count by their median, the account by its worst window; the \
           control monitors and decides the same and matches nothing.\n\
           input, psi: windows of 0.5 s and 1 s; the value of each window after the first that is near.\n\
           deciding: from a snapshot to the next sample; `none` is the end of a window without a scheme.\n"
}

#[cfg(test)]
mod tests {
    use super::super::events::Acted;
    use super::*;

    const MS: u64 = 1_000_000;

    #[test]
    fn a_loop_is_near_then_held() {
        for (name, values, until, held, reached) in [
            ("at once", &[100, 95, 119, 81][..], Some(1.0), 100.0, [true, true]),
            ("late", &[0, 50, 79, 80, 100, 100], Some(4.0), 100.0, [true, true]),
            ("swings", &[0, 100, 150, 100, 50], Some(2.0), 100.0 / 3.0, [true, false]),
            ("never", &[0, 10, 300], None, f64::NAN, [false, false]),
            ("too late", &[&[1; 20][..], &[100, 100]].concat(), Some(21.0), 100.0, [false, true]),
        ] {
            let given = values.iter().map(|v| Given { ns: 0, value: *v }).collect();
            let part = part::INPUT.into();
            let rows = case(&Case { part, goal: 100, given, ..Case::default() });
            assert_eq!(rows[0].worst, until, "{name}");
            assert!(rows[1].worst.is_none_or(|w| (w - held).abs() < 1e-9), "{name}");
            assert_eq!([rows[0].reached, rows[1].reached], reached.map(Some), "{name}");
        }
    }

    #[test]
    fn a_window_with_too_much_is_a_miss() {
        for (bytes, reached) in [(10 << 20, true), (11 << 20, true), ((11 << 20) + 4096, false)] {
            let act = |i: u64, asked_bytes| Acted {
                end_ns: (i * 1000 + 10) * MS,
                ns: 5 * MS,
                asked_bytes,
                done_bytes: asked_bytes,
            };
            let acted = vec![act(1, 10 << 20), act(2, bytes), act(3, 10 << 20)];
            let sample = |ms: u64, mib: u64| Sample {
                ns: ms * MS,
                swap_bytes: mib << 20,
                ..Sample::default()
            };
            let samples = vec![sample(990, 0), sample(1990, 10), sample(2990, 20)];
            let legs = vec![Leg { acted, samples, ..Leg::default() }];
            let (part, window_ns) = (part::SIZE.into(), 1000 * MS);
            let rows =
                case(&Case { part, window_ns, limit_bytes: 10 << 20, legs, ..Case::default() });
            assert_eq!(rows[0].reached, Some(reached), "{bytes}");
            assert_eq!(rows[1].value.map(|v| (v.median, v.n)), Some((10.0, 2)), "{bytes}");
            // Without an account nothing is promised.
            assert_eq!(rows[2].reached, Some(false));
        }
    }

    #[test]
    fn slices_are_of_a_second() {
        let samples: Vec<Sample> = (0..=40)
            .map(|i| Sample { ns: i * 100 * MS, tool_ns: i * MS, ..Sample::default() })
            .collect();
        let slices = slices(&samples);
        assert_eq!(slices.len(), 3);
        assert!(slices.iter().all(|ms| (ms - 10.0).abs() < 1e-6), "{slices:?}");
    }
}
