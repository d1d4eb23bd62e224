//! Bars per program and configuration: runtime and resident memory as multiples of `orig`, as SVG.
//!
//! A bar is the median of the paired ratios, with its interval as a line. What goes beyond the
//! scale is cut off, and its number written at its end. No library: a chart of rectangles is
//! shorter than the code that would call one, and `isotherm report` writes its pictures so, too.

use std::fmt::Write;
use std::fs;

use anyhow::Context;

use super::configs::ORIG;
use super::study::{Cell, Metric, Study};
use crate::dir::ResultDir;
use crate::stats::{Middle, to_f64};

const BAR: f64 = 9.0;
const GAP: f64 = 16.0;
const LEFT: f64 = 52.0;
const TOP: f64 = 64.0;
const HEIGHT: f64 = 240.0;
const BOTTOM: f64 = 34.0;
/// Multiples of `orig` that fit.
const MOST: f64 = 1.6;
/// Of the configurations, in their order; told apart also without red and green.
const COLORS: [&str; 9] = [
    "#9ecae1", "#3182bd", "#fdae6b", "#e6550d", "#bcbddc", "#756bb1", "#08519c", "#31a354",
    "#a1d99b",
];

type Of = fn(&Cell) -> Metric;

/// Draws both into the directory.
pub(super) fn bars(dir: &ResultDir, study: &Study) -> anyhow::Result<()> {
    let charts: [(&str, &str, Of); 2] = [
        ("published-runtime.svg", "runtime, multiples of orig", |c| c.runtime),
        ("published-rss.svg", "resident memory, multiples of orig", |c| c.rss),
    ];
    for (name, title, of) in charts {
        let path = dir.picture(name)?;
        fs::write(&path, svg(study, title, of))
            .with_context(|| format!("write {}", path.display()))?;
    }
    Ok(())
}

fn svg(study: &Study, title: &str, of: Of) -> String {
    let others: Vec<&str> =
        study.configs.iter().map(String::as_str).filter(|c| *c != ORIG).collect();
    let group = to_f64(others.len().max(1) as u64) * BAR + GAP;
    let all = to_f64(study.programs.len() as u64) * group;
    let (width, height) =
        (LEFT + all.max(110.0 * to_f64(others.len() as u64)) + 20.0, TOP + HEIGHT + BOTTOM);
    let mut out = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{width:.0}\" height=\"{height:.0}\" \
         font-family=\"sans-serif\" font-size=\"12\" fill=\"#222\">\n\
         <rect width=\"{width:.0}\" height=\"{height:.0}\" fill=\"#fff\"/>\n"
    );
    text(&mut out, LEFT, 18.0, "start", title);
    for (i, config) in others.iter().enumerate() {
        let x = LEFT + 110.0 * to_f64(i as u64);
        line(
            &mut out,
            &format!(
                "<rect x=\"{x:.1}\" y=\"30\" width=\"10\" height=\"10\" fill=\"{}\"/>",
                color(i)
            ),
        );
        text(&mut out, x + 14.0, 39.0, "start", config);
    }
    for tick in [0.0, 0.25, 0.5, 0.75, 1.0, 1.25, 1.5] {
        let (y, stroke) = (y(tick), if tick == 1.0 { "#222" } else { "#ddd" });
        line(&mut out, &format!("<path d=\"M{LEFT} {y:.1}h{all:.1}\" stroke=\"{stroke}\"/>"));
        text(&mut out, LEFT - 6.0, y + 4.0, "end", &format!("{tick:.2}"));
    }
    for (p, program) in study.programs.iter().enumerate() {
        let left = LEFT + to_f64(p as u64) * group + GAP / 2.0;
        for (i, config) in others.iter().enumerate() {
            if let Some(more) = study.cell(program, config).and_then(|c| of(c).more) {
                bar(
                    &mut out,
                    left + to_f64(i as u64) * BAR,
                    i,
                    more,
                    &format!("{program} {config}"),
                );
            }
        }
        let middle = left + (group - GAP) / 2.0;
        text(&mut out, middle, TOP + HEIGHT + 18.0, "middle", program);
    }
    out + "</svg>\n"
}

fn bar(out: &mut String, x: f64, nr: usize, more: Middle, name: &str) {
    let [lo, at, hi] = [more.lo, more.median, more.hi].map(|more| y(1.0 + more));
    let (inner, middle) = (BAR - 1.5, x + BAR / 2.0 - 0.75);
    let tall = TOP + HEIGHT - at;
    line(
        out,
        &format!(
            "<rect x=\"{x:.1}\" y=\"{at:.1}\" width=\"{inner}\" height=\"{tall:.1}\" fill=\"{}\">\
             <title>{} {:+.1} %</title></rect>",
            color(nr),
            escaped(name),
            more.median * 100.0
        ),
    );
    line(
        out,
        &format!("<path d=\"M{middle:.1} {lo:.1}V{hi:.1}\" stroke=\"#222\" stroke-width=\"0.8\"/>"),
    );
    if 1.0 + more.median > MOST {
        text(out, middle, TOP - 4.0, "middle", &format!("{:.1}", 1.0 + more.median));
    }
}

fn color(nr: usize) -> &'static str {
    COLORS[nr % COLORS.len()]
}

/// Where a multiple of `orig` is.
fn y(multiple: f64) -> f64 {
    TOP + HEIGHT * (1.0 - multiple.clamp(0.0, MOST) / MOST)
}

fn text(out: &mut String, x: f64, y: f64, anchor: &str, text: &str) {
    line(
        out,
        &format!(
            "<text x=\"{x:.1}\" y=\"{y:.1}\" text-anchor=\"{anchor}\">{}</text>",
            escaped(text)
        ),
    );
}

fn line(out: &mut String, text: &str) {
    // Writing to a string cannot fail.
    writeln!(out, "{text}").ok();
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;")
}

#[cfg(test)]
mod tests {
    use super::super::study::study;
    use super::super::study::tests::once;
    use super::*;
    use crate::job::Spec;

    #[test]
    fn a_bar_is_as_high_as_its_ratio() {
        let runs = [
            once("gcc", ORIG, 0, 30.0, 3000),
            once("gcc", "thp", 0, 15.0, 3000),
            once("gcc", "prcl", 0, 90.0, 3000),
            once("a<b", "thp", 0, 15.0, 3000),
        ];
        let out = tempfile::tempdir().unwrap();
        let dir = ResultDir::create(out.path(), &Spec::of_test("published")).unwrap();
        bars(&dir, &study(&runs)).unwrap();
        let svg = fs::read_to_string(dir.picture("published-runtime.svg").unwrap()).unwrap();
        // Half of what `orig` needs: 0.5 of 1.6 of 240.
        assert!(svg.contains("y=\"229.0\" width=\"7.5\" height=\"75.0\""), "{svg}");
        assert!(svg.contains("<title>gcc thp -50.0 %</title>"), "{svg}");
        // Three times as long is cut off, with its number above.
        assert!(svg.contains("height=\"240.0\" fill=\"#3182bd\""), "{svg}");
        assert!(svg.contains(">3.0</text>") && svg.contains(">a&lt;b</text>"), "{svg}");
        // A cell without `orig` has no bar: two bars, two squares of the legend, the ground.
        assert_eq!(svg.matches("<rect").count(), 5);
        let rss = fs::read_to_string(dir.picture("published-rss.svg").unwrap()).unwrap();
        assert!(rss.contains("<title>gcc prcl +0.0 %</title>") && svg.len() < 100 << 10);
    }
}
