//! The tables: those of the published evaluations, in their form, and one of paired ratios.
//!
//! In the published form a cell is the median of its rounds, with what it is more than `orig` in
//! percent in parentheses, made from the two cells. The row `total` is the sum of the cells. A
//! column whose sum lacks a program is compared with `orig` over the same programs, and says how
//! many they are.

use super::configs::ORIG;
use super::goals;
use super::seeds::{self, Published};
use super::study::{Cell, Metric, Study, Sum, Total};
use crate::jobs::overhead::interval;
use crate::stats::Middle;
use crate::table::{Table, number};

pub(super) fn format(study: &Study, left_out: &[String]) -> String {
    let mut text = String::new();
    for (what, of, sum, published) in PUBLISHED {
        text += &format!("{what}\n\n{}\n", like_published(study, *of, *sum, published));
    }
    text += "Against `orig` of the same round (medians, 95 % intervals of the medians):\n\n";
    text += &paired(study);
    text += &if study.is_smoke {
        "\nGoals are not judged: a smoke run proves only that the job works.\n".to_owned()
    } else {
        "\nGoals (medians; one that the noise hides is not decided):\n\n".to_owned()
            + &goals::format(&goals::judge(study))
    };
    for why in left_out {
        text += &format!("\nleft out: {why}");
    }
    for why in &study.failed {
        text += &format!("\nfailed: {why}");
    }
    text + NOTES
}

const NOTES: &str = "\n\nmore: less is negative. CPU: of the program, per unit of work. runtime of a program that goes on: the time for as much work as \
     `orig` does in a phase. memused: MemTotal less MemFree and less the cache of files, of the whole \
     machine. out, back: swapped out since Isotherm was started, and swapped in per page swapped out, of the \
     whole machine.\n\
     rec: DAMON's method (`--method resample`); census: the default of `isotherm record`. prcl: \
     regions and age alone, as DAMON's; prcl+evidence: the default of `isotherm reclaim` but for age \
     and quotas. Published numbers: PARSEC3 and SPLASH-2X on other machines.\n";

type Of = fn(&Cell) -> Metric;
type SumOf = fn(&Total) -> Sum;

/// The published tables: what they show, where that is in ours, and their totals.
const PUBLISHED: &[(&str, Of, SumOf, &[Published])] = &[
    ("runtime, seconds", |c| c.runtime, |t| t.runtime, &seeds::RUNTIME),
    ("memused.avg, KiB", |c| c.memused, |t| t.memused, &seeds::MEMUSED),
    ("rss.avg, KiB", |c| c.rss, |t| t.rss, &seeds::RSS),
];

/// `(1.23)`, in percent.
fn overhead(more: Option<f64>) -> String {
    more.map_or_else(|| "-".into(), |more| format!("({:.2})", more * 100.0))
}

fn like_published(study: &Study, of: Of, sum: SumOf, published: &[Published]) -> String {
    let others: Vec<&str> =
        study.configs.iter().map(String::as_str).filter(|c| *c != ORIG).collect();
    let columns = others.iter().flat_map(|name| [*name, "(overhead)"]);
    let mut table = Table::new(["program", ORIG].into_iter().chain(columns));
    let value = |program: &str, config: &str| {
        study.cell(program, config).and_then(|c| of(c).value).map(|m| m.median)
    };
    for program in &study.programs {
        let orig = value(program, ORIG);
        let mut row = vec![program.clone(), number(orig, 3)];
        for config in &others {
            let with = value(program, config);
            let more = with.zip(orig).map(|(with, orig)| with / orig - 1.0);
            row.extend([number(with, 3), overhead(more)]);
        }
        table.row(row);
    }
    let total = |config: &str| study.total(config).map(sum).unwrap_or_default();
    let orig = total(ORIG);
    let mut row = vec!["total".to_owned(), number(Some(orig.with), 3)];
    for config in &others {
        let with = total(config);
        let lacks = if with.programs < orig.programs {
            format!(" of {}", with.programs)
        } else {
            String::new()
        };
        row.extend([number(Some(with.with), 3) + &lacks, overhead(with.more())]);
    }
    table.row(row);
    let has_any = |one: &&Published| others.iter().any(|config| one.of(config).is_some());
    for one in published.iter().filter(has_any) {
        let mut row = vec![one.source.to_owned(), String::new()];
        for config in &others {
            row.extend([String::new(), overhead(one.of(config).map(|percent| percent / 100.0))]);
        }
        table.row(row);
    }
    table.text()
}

fn median(m: Option<Middle>, factor: f64, digits: usize) -> String {
    number(m.map(|m| m.median * factor), digits)
}

fn paired(study: &Study) -> String {
    let mut table = Table::new([
        "program",
        "configuration",
        "n",
        "slowdown %",
        "95 %",
        "CPU more %",
        "95 %",
        "p99 more %",
        "95 %",
        "rss more %",
        "95 %",
        "memused more %",
        "95 %",
        "major faults/s",
        "out MiB",
        "back %",
        "own CPU %",
        "own MiB",
    ]);
    for c in study.cells.iter().filter(|c| c.config != ORIG) {
        let n = c.runtime.more.map_or(0, |m| m.n).to_string();
        let mut row = vec![c.program.clone(), c.config.clone(), n];
        let ratios = [(c.runtime, 2), (c.cpu, 2), (c.p99, 1), (c.rss, 1), (c.memused, 1)];
        for (metric, digits) in ratios {
            row.push(median(metric.more, 100.0, digits));
            row.push(interval(metric.more, 100.0, digits));
        }
        row.extend([
            median(c.faults, 1.0, 1),
            median(c.out_mib, 1.0, 1),
            median(c.back, 100.0, 2),
            median(c.own_cpu, 100.0, 2),
            median(c.own_mib, 1.0, 1),
        ]);
        table.row(row);
    }
    for t in study.totals.iter().filter(|t| t.config != ORIG) {
        let n = t.slowdown.map_or(0, |m| m.n).to_string();
        let mut row = vec!["median of programs".to_owned(), t.config.clone(), n];
        let ratios =
            [(t.slowdown, 2), (t.cpu_more, 2), (t.p99_more, 1), (t.rss_more, 1), (t.used_more, 1)];
        for (more, digits) in ratios {
            row.push(median(more, 100.0, digits));
            row.push(interval(more, 100.0, digits));
        }
        row.extend([
            "-".into(),
            "-".into(),
            median(t.back, 100.0, 2),
            median(t.own_cpu, 100.0, 2),
            median(t.own_mib, 1.0, 1),
        ]);
        table.row(row);
    }
    table.text()
}

#[cfg(test)]
mod tests {
    use super::super::study::study;
    use super::super::study::tests::{once, run};
    use super::*;

    #[test]
    fn the_form_is_that_of_the_published_tables() {
        let runs = [
            once("gcc", ORIG, 0, 30.0, 3000),
            once("gcc", "prcl", 0, 33.0, 1500),
            run("redis", ORIG, 0, 100.0, 1000),
            run("redis", "prcl", 0, 50.0, 500),
            run("redis", "rec", 0, 100.0, 1000),
        ];
        let text = format(&study(&runs), &["prec: no idle page tracking".into()]);
        let lines: Vec<String> = text
            .lines()
            .map(|l| l.split('|').map(str::trim).collect::<Vec<_>>().join("|"))
            .collect();
        for expected in [
            "|program|orig|rec|(overhead)|prcl|(overhead)|",
            "|gcc|30.000|-|-|33.000|(10.00)|",
            "|redis|10.000|10.000|(0.00)|20.000|(100.00)|",
            // 10 against 10 of redis alone; 53 against 40.
            "|total|40.000|10.000 of 1|(0.00)|53.000|(32.50)|",
            "|published, v20|||(2.87)||(11.22)|",
            "|total|4000.000|1000.000 of 1|(0.00)|2000.000|(-50.00)|",
            "|published, KS 2021|||-||(-38.46)|",
            "left out: prec: no idle page tracking",
        ] {
            assert!(lines.iter().any(|l| l == expected), "{expected} in\n{text}");
        }
    }

    #[test]
    fn what_failed_is_told_and_nothing_at_all_is_a_table() {
        let failed = crate::measure::Run {
            outcome: None,
            failed: Some("no memory".into()),
            ..run("redis", "rec", 2, 1.0, 1)
        };
        let text = format(&study(&[failed]), &[]);
        assert!(text.contains("failed: redis rec, round 3: no memory"), "{text}");
        assert!(text.contains("| total ") && text.contains("| goal "), "{text}");
        let smoke = Study { is_smoke: true, ..study(&[]) };
        let text = format(&smoke, &[]);
        assert!(text.contains("not judged") && !text.contains("| goal "), "{text}");
    }
}
