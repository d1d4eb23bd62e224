//! The tables of the job `reclaim`.

use serde_json::Value;

use super::study::Row;
use super::truth::Score;
use crate::jobs::overhead::interval;
use crate::stats::Middle;
use crate::table::{Table, mib, number};

pub(super) fn format(result: &Value) -> anyhow::Result<String> {
    let part = |key: &str| result.get(key).cloned().unwrap_or(Value::Null);
    let rows: Vec<Row> = serde_json::from_value(part("rows"))?;
    let all: Vec<Row> = serde_json::from_value(part("all"))?;
    let truth: Vec<Score> = serde_json::from_value(part("truth"))?;
    let failed: Vec<String> = serde_json::from_value(part("failed"))?;
    let (orig, with): (Vec<&Row>, Vec<&Row>) =
        rows.iter().partition(|r| r.config == super::configs::ORIG);
    let (grid, headline): (Vec<&Row>, Vec<&Row>) =
        with.into_iter().partition(|r| r.config.contains('/'));
    let mut text = String::from("Without Isotherm:\n\n") + &alone(&orig);
    if !headline.is_empty() {
        let rows: Vec<&Row> = headline.into_iter().chain(&all).collect();
        text += "\nUnder `isotherm reclaim`, against the same round without (medians, 95 %):\n\n";
        text += &against(&rows);
    }
    if !grid.is_empty() {
        text += "\nEvidence / time quota per second / prioritization:\n\n";
        text += &against(&grid);
    }
    if !truth.is_empty() {
        text += "\nGenerated workloads, by their truth and pagemap:\n\n";
        text += &scores(&truth);
    }
    for why in failed {
        text += &format!("\nfailed: {why}\n");
    }
    Ok(text
        + "\nSlowdown: more time per unit of work; of CPU: more CPU time of the program per unit of work. Saved: less resident memory, mean over the phase and at \
           its end. System: more available memory; what zram takes is taken off. Refaulted: of the bytes paged out, \
           touched again soon (account). In/out: pages swapped in per page swapped out (vmstat).\n\
           Goals: slowdown <= 1 % median over programs; cold bytes gone >= 90 %; wrong <= 1 %.\n")
}

fn median(m: Option<Middle>, factor: f64, digits: usize) -> String {
    number(m.map(|m| m.median * factor), digits)
}

fn alone(rows: &[&Row]) -> String {
    let mut table = Table::new([
        "program",
        "n",
        "units/s",
        "range",
        "CPU us/unit",
        "range",
        "p99 us",
        "range",
        "RSS MiB",
        "at end",
    ]);
    for r in rows {
        table.row([
            r.program.clone(),
            r.per_second.map_or(0, |m| m.n).to_string(),
            median(r.per_second, 1.0, 3),
            interval(r.per_second, 1.0, 3),
            median(r.cpu_us, 1.0, 3),
            interval(r.cpu_us, 1.0, 3),
            median(r.p99_us, 1.0, 1),
            interval(r.p99_us, 1.0, 1),
            mib(r.rss.map(|m| m.median)),
            mib(r.rss_end.map(|m| m.median)),
        ]);
    }
    table.text()
}

fn against(rows: &[&Row]) -> String {
    let mut table = Table::new([
        "program",
        "configuration",
        "n",
        "slowdown %",
        "95 %",
        "of CPU %",
        "95 %",
        "p99 x",
        "95 %",
        "saved %",
        "at end %",
        "system MiB",
        "out MiB",
        "refaulted %",
        "in/out %",
        "CPU %",
        "action ms/s",
        "% per GiB",
    ]);
    for r in rows {
        table.row([
            r.program.clone(),
            r.config.clone(),
            r.slowdown.map_or(0, |m| m.n).to_string(),
            median(r.slowdown, 100.0, 2),
            interval(r.slowdown, 100.0, 2),
            median(r.cpu_slowdown, 100.0, 2),
            interval(r.cpu_slowdown, 100.0, 2),
            median(r.p99_ratio, 1.0, 2),
            interval(r.p99_ratio, 1.0, 2),
            median(r.saved, 100.0, 1),
            median(r.saved_end, 100.0, 1),
            mib(r.system_saved.map(|m| m.median)),
            mib(r.done.map(|m| m.median)),
            median(r.refaulted, 100.0, 2),
            median(r.swapped_in, 100.0, 2),
            median(r.cpu_percent, 1.0, 2),
            median(r.action_ms_per_s, 1.0, 1),
            median(r.slowdown_per_gib, 1.0, 2),
        ]);
    }
    table.text()
}

fn scores(scores: &[Score]) -> String {
    let mut table = Table::new([
        "workload",
        "configuration",
        "cold MiB",
        "gone %",
        "out MiB",
        "wrong %",
        "unfounded %",
        "RSS MiB first",
        "least",
        "last",
        "vmstat out",
        "in",
    ]);
    for s in scores {
        let percent = |x: Option<f64>| number(x.map(|x| x * 100.0), 2);
        let rss = s.rss.map(|b| mib(Some(crate::stats::to_f64(b))));
        let [first, least, last] = rss;
        table.row([
            s.workload.clone(),
            s.config.clone(),
            mib(Some(s.cold_bytes)),
            percent(s.gone),
            mib(Some(s.out_bytes)),
            percent(s.wrong),
            percent(s.unfounded),
            first,
            least,
            last,
            mib(Some(s.machine_out)),
            mib(Some(s.machine_in)),
        ]);
        if let Some(why) = &s.failed {
            table.row([format!("failed: {why}")]);
        }
    }
    table.text()
}
