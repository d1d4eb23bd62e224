//! The plan as an SVG picture: what is saved and what comes back, by idle time.

use std::fmt::Write;

use isotherm_core::units::{percent, span, three_digits};

use super::{Report, Row};
use crate::price::Estimate;
use crate::shown::written;

const WIDTH: f64 = 760.0;
const HEIGHT: f64 = 230.0;
const LEFT: f64 = 70.0;
const TOP: f64 = 46.0;
/// Height of a plot with its axis and title.
const EACH: f64 = HEIGHT + 74.0;
/// Powers of ten that the lower plot shows at most.
const DECADES: f64 = 6.0;

/// One of the two plots.
struct Plot<'a> {
    title: &'a str,
    top: f64,
    color: &'a str,
    of: &'a dyn Fn(&Row) -> Estimate,
    /// The height of a value, from 0 to 1.
    at: &'a dyn Fn(f64) -> f64,
    ticks: Vec<(f64, String)>,
}

impl Report {
    /// The plan as an SVG picture, for browsers and papers.
    #[must_use]
    pub fn to_svg(&self) -> String {
        written(|out| self.svg(out))
    }

    fn svg(&self, out: &mut String) -> std::fmt::Result {
        let (w, h) = (WIDTH + LEFT + 30.0, TOP + 2.0 * EACH);
        write!(
            out,
            "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{w}\" height=\"{h}\" \
             viewBox=\"0 0 {w} {h}\" font-family=\"sans-serif\" font-size=\"13\" fill=\"#222\">\n\
             <rect width=\"{w}\" height=\"{h}\" fill=\"#fff\"/>\n"
        )?;
        text(out, LEFT, 20.0, "start", &format!("plan for {}", self.title))?;
        let share = |value: f64| value;
        let shares = [0.0, 0.25, 0.5, 0.75, 1.0].map(|share| (share, percent(share)));
        self.plot(
            out,
            &Plot {
                title: "saved, of what is resident",
                top: TOP + 20.0,
                color: "#1b7837",
                of: &|row| row.saved_share,
                at: &share,
                ticks: shares.to_vec(),
            },
        )?;
        let most = self.rows.iter().map(|row| row.refaults_per_s.hi).fold(1.0, f64::max);
        let top = most.log10().ceil();
        let bottom = top - DECADES;
        let log = |value: f64| ((value.max(1e-9).log10() - bottom) / DECADES).clamp(0.0, 1.0);
        let decades = (0..=6).map(|nr| 10_f64.powf(bottom + f64::from(nr)));
        self.plot(
            out,
            &Plot {
                title: "pages that come back per second",
                top: TOP + EACH + 20.0,
                color: "#b2182b",
                of: &|row| row.refaults_per_s,
                at: &log,
                ticks: decades.map(|value| (value, three_digits(value))).collect(),
            },
        )?;
        out.push_str("</svg>\n");
        Ok(())
    }

    /// Where an idle time is. Rows are as far from each other as their logarithms.
    fn x(&self, age_s: f64) -> f64 {
        let of = |row: Option<&Row>| row.map_or(1.0, |row| row.age_s).ln();
        let (from, to) = (of(self.rows.first()), of(self.rows.last()));
        let width = (to - from).max(1e-9);
        LEFT + WIDTH * ((age_s.ln() - from) / width).clamp(0.0, 1.0)
    }

    fn plot(&self, out: &mut String, plot: &Plot<'_>) -> std::fmt::Result {
        let y = |value: f64| plot.top + HEIGHT * (1.0 - (plot.at)(value));
        text(out, LEFT, plot.top - 8.0, "start", plot.title)?;
        for (value, name) in &plot.ticks {
            let at = y(*value);
            writeln!(out, "<path d=\"M{LEFT} {at:.1}h{WIDTH}\" stroke=\"#ddd\"/>")?;
            text(out, LEFT - 8.0, at + 4.0, "end", name)?;
        }
        let point = |row: &Row, value: f64| format!("{:.1},{:.1}", self.x(row.age_s), y(value));
        let upper = self.rows.iter().map(|row| point(row, (plot.of)(row).hi));
        let lower = self.rows.iter().rev().map(|row| point(row, (plot.of)(row).lo));
        let band: Vec<_> = upper.chain(lower).collect();
        let color = plot.color;
        writeln!(
            out,
            "<polygon points=\"{}\" fill=\"{color}\" fill-opacity=\"0.18\"/>",
            band.join(" ")
        )?;
        let line: Vec<_> = self.rows.iter().map(|row| point(row, (plot.of)(row).mid)).collect();
        writeln!(
            out,
            "<polyline points=\"{}\" fill=\"none\" stroke=\"{color}\" stroke-width=\"2\"/>",
            line.join(" ")
        )?;
        if let Some(row) = self.chosen() {
            let (x, top) = (self.x(row.age_s), plot.top);
            writeln!(
                out,
                "<path d=\"M{x:.1} {top}v{HEIGHT}\" stroke=\"#222\" stroke-dasharray=\"4 3\">\
                 <title>recommended</title></path>"
            )?;
        }
        let bottom = plot.top + HEIGHT;
        writeln!(
            out,
            "<rect x=\"{LEFT}\" y=\"{}\" width=\"{WIDTH}\" height=\"{HEIGHT}\" fill=\"none\" \
             stroke=\"#444\"/>",
            plot.top
        )?;
        for row in &self.rows {
            text(out, self.x(row.age_s), bottom + 18.0, "middle", &span(row.age_s * 1e9))?;
        }
        text(out, LEFT + WIDTH / 2.0, bottom + 36.0, "middle", "paged out after this idle time")
    }
}

fn text(out: &mut String, x: f64, y: f64, anchor: &str, text: &str) -> std::fmt::Result {
    let text = crate::html::escaped(text);
    writeln!(out, "<text x=\"{x:.1}\" y=\"{y:.1}\" text-anchor=\"{anchor}\">{text}</text>")
}
