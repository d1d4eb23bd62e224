//! What tuning has found, as text and as JSON.

use isotherm::raw::agent::tune::{Estimate, Fate, Search, Told, Trial, Verdict, Why};
use isotherm::raw::core::units::counted;
use serde_json::{Value, json};

/// Percent with one digit.
fn percent(share: f64) -> String {
    format!("{:.1}", 100.0 * share)
}

/// A line about one trial.
pub(super) fn trial(search: &Search, at: usize, told: &Told) -> String {
    let number = search.told() + 1;
    let head = format!(
        "trial {number} of at most {}: {}",
        search.limits().trials,
        search.space().show(&search.candidates()[at].point)
    );
    let measured = |trial: &Trial| {
        let (saved, slowdown) = (percent(trial.saved), percent(trial.slowdown));
        format!("saves {saved} %, slowdown {slowdown} %")
    };
    match told {
        Told::Measured(trial) => format!("{head}: {}", measured(trial)),
        Told::Broken(trial) => {
            format!("{head}: stopped, far above the limit: {}", measured(trial))
        }
        Told::Refused(text) => format!("{head}: refused: {}", text.replace('\n', " ")),
    }
}

/// A mean in percent, with its interval where that is known.
fn interval(estimate: &Estimate) -> String {
    let Estimate { low, mean, high } = estimate;
    let mean = percent(*mean);
    if low.is_finite() {
        format!("{mean} [{} .. {}]", percent(*low), percent(*high))
    } else {
        format!("{mean} [?]")
    }
}

/// Lines of cells with a common width per column; the first column is on the left.
fn aligned(rows: &[Vec<String>]) -> String {
    let columns = rows.first().map_or(0, Vec::len);
    let width =
        |column: usize| rows.iter().map(|row| row[column].chars().count()).max().unwrap_or(0);
    let widths: Vec<usize> = (0..columns).map(width).collect();
    let mut text = String::new();
    for row in rows {
        let cells = row.iter().zip(&widths).map(|(cell, width)| format!("{cell:<width$}"));
        text += cells.collect::<Vec<_>>().join("  ").trim_end();
        text.push('\n');
    }
    text
}

/// The curve and the verdict.
pub(super) fn text(search: &Search, verdict: &Verdict, stopped: Option<&str>) -> String {
    let head = ["candidate", "from", "trials", "saved %", "slowdown %", "score", ""];
    let mut rows = vec![head.map(str::to_owned).to_vec()];
    let mut order: Vec<usize> = (0..search.candidates().len()).collect();
    order.sort_by(|a, b| search.candidates()[*a].point.cmp(&search.candidates()[*b].point));
    for at in order {
        let candidate = &search.candidates()[at];
        let note = match &candidate.fate {
            Fate::OverLimit => "over the limit".to_owned(),
            Fate::Refused(text) => format!("refused: {}", text.replace('\n', " ")),
            Fate::In if verdict.best == Some(at) => match (verdict.why, stopped) {
                (Why::Named, None) => "<- winner".to_owned(),
                _ => "<- best".to_owned(),
            },
            Fate::In => String::new(),
        };
        let mut row = vec![
            search.space().show(&candidate.point),
            candidate.origin.name().to_owned(),
            candidate.trials.len().to_string(),
        ];
        match search.estimates(at) {
            Some(all) => row.extend(all.iter().map(interval)),
            None => row.extend(["-"; 3].map(str::to_owned)),
        }
        row.push(note);
        rows.push(row);
    }
    let limits = search.limits();
    let mut text = aligned(&rows);
    text += &format!(
        "score = saved - {} x slowdown, in %; limit {} %; intervals of 90 %; one trial is off by \
         {} points of slowdown\n\n",
        limits.weight,
        percent(limits.max_slowdown),
        search.noise().map_or_else(|| "an unknown number of".to_owned(), percent)
    );
    text + &verdict_text(search, verdict, stopped)
}

/// A probability, without pretending to know it better than it is known.
fn sure(p: f64) -> String {
    let percent = 100.0 * p;
    if percent > 99.0 { "more than 99 %".to_owned() } else { format!("{percent:.0} %") }
}

fn verdict_text(search: &Search, verdict: &Verdict, stopped: Option<&str>) -> String {
    let trials = counted(u64::try_from(search.told()).unwrap_or(u64::MAX), "trial");
    if let Some(why) = stopped {
        return format!("No winner: tuning was ended by {why} after {trials}.\n");
    }
    let limit = percent(search.limits().max_slowdown);
    let Some(best) = verdict.best else {
        return format!("No winner: no candidate kept the slowdown within {limit} %.\n");
    };
    let name = search.space().show(&search.candidates()[best].point);
    let mut how = format!("better than doing nothing: {}", sure(verdict.beats_nothing));
    match verdict.beats_start {
        Some(p) => how += &format!("; better than the starting policy: {}", sure(p)),
        None => how += "; it is the starting policy",
    }
    if let Some((at, p)) = verdict.runner_up {
        let other = search.space().show(&search.candidates()[at].point);
        how += &format!("; better than the runner-up {other}: {}", sure(p));
    }
    how += &format!("; within the limit: {}", sure(verdict.within_limit));
    let head = match verdict.why {
        Why::Named => {
            let [saved, slowdown, _] = search
                .estimates(best)
                .map_or_else(|| [const { String::new() }; 3], |all| all.map(|e| interval(&e)));
            format!(
                "Winner: {name}\n  saves {saved} % of resident memory at a slowdown of {slowdown} %"
            )
        }
        Why::NotBetterThanStart => format!(
            "No winner: the noise is larger than the difference between {name} and the starting policy"
        ),
        _ => format!("No winner: the noise is larger than the effect; the best was {name}"),
    };
    format!("{head}\n  how sure: {how}; {trials}\n")
}

/// The same as one JSON object.
pub(super) fn json(
    search: &Search,
    verdict: &Verdict,
    stopped: Option<&str>,
    source: &str,
) -> Value {
    let estimate = |e: &Estimate| {
        let end = |x: f64| x.is_finite().then_some(x);
        json!({ "lo": end(e.low), "mid": e.mean, "hi": end(e.high) })
    };
    let ranges = search.space().ranges();
    let rows = search.candidates().iter().enumerate().map(|(at, candidate)| {
        let values = ranges.iter().zip(&candidate.point).map(|(range, value)| {
            (format!("{}.{}", range.scheme, range.key.name()), json!(range.key.show(*value)))
        });
        let trials = candidate.trials.iter();
        let trials = trials.map(|t| json!({ "saved": t.saved, "slowdown": t.slowdown }));
        let mut row = json!({
            "parameters": values.collect::<serde_json::Map<_, _>>(),
            "from": candidate.origin.name(),
            "trials": trials.collect::<Vec<_>>(),
            "over_limit": candidate.fate == Fate::OverLimit,
            "refused": match &candidate.fate { Fate::Refused(text) => Some(text), _ => None },
        });
        if let Some([saved, slowdown, score]) = search.estimates(at) {
            row["saved"] = estimate(&saved);
            row["slowdown"] = estimate(&slowdown);
            row["score"] = estimate(&score);
        }
        row
    });
    let why = match (stopped, verdict.why) {
        (Some(_), _) => "stopped",
        (None, Why::Named) => "named",
        (None, Why::NoneWithinLimit) => "none_within_limit",
        (None, Why::NotBetterThanNothing) => "not_better_than_nothing",
        (None, Why::NotBetterThanStart) => "not_better_than_start",
    };
    json!({
        "candidates": rows.collect::<Vec<_>>(),
        "trials": search.told(),
        "slowdown_by": source,
        "weight": search.limits().weight,
        "max_slowdown": search.limits().max_slowdown,
        "noise": search.noise(),
        "best": verdict.best,
        "winner": verdict.best.filter(|_| why == "named"),
        "why": why,
        "stopped_by": stopped,
        "beats_nothing": verdict.beats_nothing,
        "beats_start": verdict.beats_start,
        "runner_up": verdict.runner_up.map(|(at, _)| at),
        "beats_runner_up": verdict.runner_up.map(|(_, p)| p),
        "within_limit": verdict.within_limit,
    })
}
