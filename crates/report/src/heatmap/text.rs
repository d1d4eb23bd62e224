//! The heatmap in a terminal: one character per cell.

use std::fmt::Write;

use isotherm_core::units::{span, three_digits};

use super::palette::{Color, LEVELS, Style, level};
use super::{Cell, Heatmap, Panel, Scale};
use crate::numbers::to_usize;
use crate::shown::written;

const ADDRESS: usize = 15;
/// Number of characters beside the cells: address and bars.
const BARS: usize = ADDRESS + 2;
/// Room for the name of a mapping.
const NAME: usize = 19;
/// A terminal of this width, or one that is hardly wider, has no room for names.
const NARROW: usize = 40;
/// Stands for the shades of the legend while its lines are broken.
const SHADES: &str = "<shades>";
/// The characters of the rates, from "never" to "in every sample".
const RAMP: &[u8; 9] = b".:-=+*#%@";

/// Number of cells of a line in a terminal of this width.
pub(super) fn columns(width: usize) -> usize {
    let bare = width.min(NARROW).saturating_sub(BARS);
    width.saturating_sub(BARS + NAME).max(bare)
}

/// Breaks a line at spaces, so that no part is longer than `width`. Words are not broken.
fn wrapped(line: &str, width: usize) -> String {
    let mut out = String::new();
    let mut used = 0;
    for word in line.split(' ') {
        let len = word.chars().count();
        if used > 0 && used + 1 + len > width {
            out.push_str("\n  ");
            used = 2;
        } else if used > 0 {
            out.push(' ');
            used += 1;
        }
        out.push_str(word);
        used += len;
    }
    out
}

/// A name that has room; its end says more than its beginning.
fn clipped(name: &str, room: usize) -> String {
    let len = name.chars().count();
    if len <= room {
        return name.into();
    }
    let end: String = name.chars().skip(len + 2 - room.max(2)).collect();
    format!("..{end}")
}

impl Heatmap {
    /// The width that [`Options::for_text`](super::Options::for_text) made this of, or less.
    const fn width(&self) -> usize {
        let bare = self.columns + BARS;
        if bare <= NARROW { NARROW } else { bare + NAME }
    }

    /// The heatmap as text. Without colours it is plain ASCII, except for the mappings' names.
    #[must_use]
    pub fn to_text(&self, style: &Style) -> String {
        written(|out| self.text(out, style))
    }

    fn text(&self, out: &mut String, style: &Style) -> std::fmt::Result {
        let width = self.width();
        for panel in &self.panels {
            writeln!(out, "{}", wrapped(&format!("{}: {}", panel.title, panel.summary()), width))?;
            self.panel_text(out, panel, style.color)?;
            self.time_axis(out)?;
        }
        let (shades, text) = legend(self.scale, style.color);
        // The shades are as wide as the plain ones, also with their escape codes.
        let place = "#".repeat(RAMP.len() * 2 - 1);
        let text = wrapped(&text.replace(SHADES, &place), width);
        writeln!(out, "{}", text.replacen(&place, &shades, 1))?;
        if let Some(p) = self.panels.first()
            && let Some(row) = p.rows.iter().max_by_key(|r| r.range.len())
        {
            let per_row = super::mib(row.range.len());
            let text = format!("a row is up to {per_row}, a column {}", span(self.column_ns()));
            writeln!(out, "{}", wrapped(&text, width))?;
        }
        if self.targets > self.panels.len() {
            let (shown, all) = (self.panels.len(), self.targets);
            let text = format!(
                "{shown} of {all} targets shown: the hottest; --all-targets shows more, --target PID \
                 shows one"
            );
            writeln!(out, "{}", wrapped(&text, width))?;
        }
        if !self.damage.is_empty() {
            writeln!(out, "{}", wrapped(&format!("note: {}", self.damage), width))?;
        }
        Ok(())
    }

    /// Length of a column in ns.
    pub(super) fn column_ns(&self) -> f64 {
        #[expect(clippy::cast_precision_loss, reason = "for people")]
        let (len, n) = ((self.end_ns - self.start_ns) as f64, self.columns.max(1) as f64);
        len / n
    }

    /// Places and texts of the marks on the time axis: share of the width, and seconds.
    pub(super) fn time_marks(&self, most: usize) -> Vec<(f64, String)> {
        #[expect(clippy::cast_precision_loss, reason = "for people")]
        let (from, len) = (
            self.start_ns.saturating_sub(self.origin_ns) as f64 / 1e9,
            (self.end_ns - self.start_ns) as f64 / 1e9,
        );
        let step = round_step(len, most);
        let mut marks = Vec::new();
        let mut t = (from / step).ceil() * step;
        while t <= from + len * 1.000_001 && marks.len() < 1000 {
            marks.push(((t - from) / len, seconds(t)));
            t += step;
        }
        marks
    }

    fn panel_text(&self, out: &mut String, panel: &Panel, color: Color) -> std::fmt::Result {
        let room = self.width().saturating_sub(self.columns + BARS + 1);
        let mut above: Option<(usize, &str)> = None;
        for row in panel.rows.iter().rev() {
            if let Some((area, _)) = above
                && area != row.area
            {
                let fold = panel.fold_text(row.area);
                let indent = ADDRESS.min(self.width().saturating_sub(fold.len() + 2));
                writeln!(out, "{:indent$}~ {fold}", "")?;
                above = None;
            }
            let name = match above {
                Some((_, name)) if name == row.mapping => "",
                _ => &row.mapping,
            };
            let name = if room < NAME / 2 { String::new() } else { clipped(name, room) };
            let mut line = format!("{:>#ADDRESS$x}|", row.range.start);
            cells(&mut line, &row.cells, self.scale, color);
            writeln!(out, "{}", format!("{line}| {name}").trim_end())?;
            above = Some((row.area, &row.mapping));
        }
        Ok(())
    }

    fn time_axis(&self, out: &mut String) -> std::fmt::Result {
        let mut line = vec![b'-'; self.columns];
        let mut labels = vec![b' '; self.width().saturating_sub(ADDRESS + 1)];
        let mut free = 0;
        #[expect(clippy::cast_precision_loss, reason = "a number of columns")]
        let width = self.columns as f64;
        for (at, text) in self.time_marks((self.columns / 10).max(2)) {
            let at = to_usize((at * width).floor()).min(self.columns.saturating_sub(1));
            line[at] = b'+';
            if at >= free && at + text.len() <= labels.len() {
                labels[at..at + text.len()].copy_from_slice(text.as_bytes());
                free = at + text.len() + 1;
            }
        }
        let pad = " ".repeat(ADDRESS);
        writeln!(out, "{pad}+{}+", String::from_utf8_lossy(&line))?;
        writeln!(out, "{pad} {}", String::from_utf8_lossy(&labels).trim_end())
    }
}

fn cells(line: &mut String, cells: &[Cell], scale: Scale, color: Color) {
    let mut last = None;
    for cell in cells {
        let (step, c) = match *cell {
            Cell::Absent => (None, ' '),
            Cell::Unresolved => (None, '?'),
            Cell::Rate(rate) if color == Color::None => (None, ramp(scale.share(rate))),
            Cell::Rate(rate) => (Some(level(scale.share(rate))), ' '),
        };
        if step != last {
            line.push_str(color.reset());
            if let Some(step) = step {
                line.push_str(&color.background(step));
            }
            last = step;
        }
        line.push(c);
    }
    if last.is_some() {
        line.push_str(color.reset());
    }
}

fn ramp(share: f32) -> char {
    let top = RAMP.len() - 1;
    if share <= 0.0 {
        return char::from(RAMP[0]);
    }
    #[expect(clippy::cast_precision_loss, reason = "8")]
    let at = to_usize((f64::from(share) * top as f64).ceil()).clamp(1, top);
    char::from(RAMP[at])
}

/// What the shades mean. With colours, `shades` stands in for them while lines are broken.
fn legend(scale: Scale, color: Color) -> (String, String) {
    let mut shades = String::new();
    if color == Color::None {
        let ramp: Vec<_> = RAMP.iter().map(|c| char::from(*c).to_string()).collect();
        shades += &ramp.join(" ");
    } else {
        for step in (0..LEVELS).step_by(4) {
            shades += &format!("{} ", color.background(step));
        }
        shades += color.reset();
    }
    let end = scale.end();
    (shades, format!("accessed in 0 % {SHADES} {end}; blank: not mapped; ?: unresolved"))
}

/// A step of 1, 2 or 5 times a power of ten (or of a minute's usual parts) for about `most` marks.
fn round_step(len: f64, most: usize) -> f64 {
    #[expect(clippy::cast_precision_loss, reason = "a small number")]
    let least = len / most.max(1) as f64;
    for step in [0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 20.0] {
        if step >= least {
            return step;
        }
    }
    for step in [30.0, 60.0, 120.0, 300.0, 600.0, 1200.0, 1800.0, 3600.0, 7200.0, 21_600.0] {
        if step >= least {
            return step;
        }
    }
    (least / 86_400.0).ceil() * 86_400.0
}

fn seconds(t: f64) -> String {
    if t == 0.0 {
        return "0 s".into();
    }
    if t >= 10.0 || t.fract() == 0.0 {
        format!("{t:.0} s")
    } else {
        format!("{} s", three_digits(t))
    }
}
