//! The heatmap as SVG: one rectangle per run of equal cells, text as text, tooltips as `<title>`.

use std::fmt::Write;

use isotherm_core::units::percent;

use super::palette::{self, ABSENT, LEVELS, UNRESOLVED};
use super::picture::{Band, CELL_WIDTH, LEFT, LEGEND_WIDTH, Layout, PanelPlace};
use super::{Cell, Heatmap, Panel, Scale};
use crate::shown::written;

impl Heatmap {
    /// The heatmap as an SVG picture, for browsers and papers.
    #[must_use]
    pub fn to_svg(&self) -> String {
        written(|out| self.svg(out))
    }

    fn svg(&self, out: &mut String) -> std::fmt::Result {
        let layout = Layout::new(self);
        let (w, h) = (layout.width, layout.height);
        write!(
            out,
            "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{w}\" height=\"{h}\" \
             viewBox=\"0 0 {w} {h}\" font-family=\"sans-serif\" font-size=\"13\" fill=\"#222\">\n\
             <rect width=\"{w}\" height=\"{h}\" fill=\"#fff\"/>\n"
        )?;
        for (panel, place) in self.panels.iter().zip(&layout.panels) {
            text(out, LEFT, place.title_y, "start", 16, &panel.title)?;
            text(out, LEFT, place.title_y + 18, "start", 12, &panel.summary())?;
            self.panel(out, panel, place, &layout)?;
        }
        legend(out, layout.legend_y, &self.scale.end())?;
        out.push_str("</svg>\n");
        Ok(())
    }

    fn panel(
        &self,
        out: &mut String,
        panel: &Panel,
        place: &PanelPlace,
        layout: &Layout,
    ) -> std::fmt::Result {
        for band in &place.bands {
            match band {
                Band::Row { y, height, row } => {
                    let row = &panel.rows[*row];
                    cells(out, row, self.scale, *y, *height)?;
                }
                Band::Fold { y, height, below } => {
                    let middle = y + height / 2 + 4;
                    let x = LEFT + layout.plot_width / 2;
                    text(out, x, middle, "middle", 11, &panel.fold_text(*below))?;
                }
            }
        }
        for frame in &place.frames {
            writeln!(
                out,
                "<rect x=\"{LEFT}\" y=\"{}\" width=\"{}\" height=\"{}\" fill=\"none\" stroke=\"#444\"/>",
                frame.0, layout.plot_width, frame.1
            )?;
        }
        for (y, address) in &place.addresses {
            text(out, LEFT - 8, *y + 4, "end", 12, address)?;
        }
        for (y, name) in &place.names {
            text(out, LEFT + layout.plot_width + 8, *y + 4, "start", 12, name)?;
        }
        let bottom = place.bottom;
        for (x, label) in &layout.times {
            writeln!(out, "<path d=\"M{x} {bottom}v5\" stroke=\"#444\"/>")?;
            text(out, *x, bottom + 20, "middle", 12, label)?;
        }
        text(out, LEFT + layout.plot_width / 2, bottom + 38, "middle", 12, super::picture::TIME)
    }
}

fn cells(
    out: &mut String,
    row: &super::Row,
    scale: Scale,
    y: usize,
    height: usize,
) -> std::fmt::Result {
    let looks = |c: &Cell| match *c {
        Cell::Absent => None,
        Cell::Unresolved => Some(u8::MAX),
        Cell::Rate(r) => Some(palette::level(scale.share(r))),
    };
    let mut at = 0;
    while at < row.cells.len() {
        let look = looks(&row.cells[at]);
        let n = row.cells[at..].iter().take_while(|c| looks(c) == look).count();
        if let Some(level) = look {
            let (fill, what) = if level == u8::MAX {
                (UNRESOLVED, "unresolved".into())
            } else {
                (palette::rgb(level), percent(scale.rate(f64::from(level) / f64::from(LEVELS - 1))))
            };
            let name = if row.mapping.is_empty() { "unknown mapping" } else { &row.mapping };
            writeln!(
                out,
                "<rect x=\"{}\" y=\"{y}\" width=\"{}\" height=\"{height}\" fill=\"{}\">\
                 <title>{:#x}-{:#x} {}: {what}</title></rect>",
                LEFT + at * CELL_WIDTH,
                n * CELL_WIDTH,
                hex(fill),
                row.range.start,
                row.range.end,
                escaped(name),
            )?;
        }
        at += n;
    }
    Ok(())
}

fn legend(out: &mut String, y: usize, end: &str) -> std::fmt::Result {
    let step = LEGEND_WIDTH / usize::from(LEVELS);
    for level in 0..LEVELS {
        let x = LEFT + usize::from(level) * step;
        let fill = hex(palette::rgb(level));
        writeln!(
            out,
            "<rect x=\"{x}\" y=\"{y}\" width=\"{step}\" height=\"12\" fill=\"{fill}\"/>"
        )?;
    }
    let behind = LEFT + LEGEND_WIDTH;
    text(out, LEFT - 8, y + 11, "end", 12, "0 %")?;
    text(out, behind + 8, y + 11, "start", 12, end)?;
    let room = super::picture::legend_room(end);
    for (x, fill, what) in [(room, UNRESOLVED, "unresolved"), (room + 110, ABSENT, "not mapped")] {
        writeln!(
            out,
            "<rect x=\"{}\" y=\"{y}\" width=\"12\" height=\"12\" fill=\"{}\" stroke=\"#888\"/>",
            behind + x,
            hex(fill)
        )?;
        text(out, behind + x + 18, y + 11, "start", 12, what)?;
    }
    Ok(())
}

fn text(
    out: &mut String,
    x: usize,
    y: usize,
    anchor: &str,
    size: usize,
    s: &str,
) -> std::fmt::Result {
    writeln!(
        out,
        "<text x=\"{x}\" y=\"{y}\" text-anchor=\"{anchor}\" font-size=\"{size}\">{}</text>",
        escaped(s)
    )
}

fn hex([r, g, b]: [u8; 3]) -> String {
    format!("#{r:02x}{g:02x}{b:02x}")
}

/// Escapes markup and replaces control characters in a name, because names come from the target.
fn escaped(s: &str) -> String {
    let mut out = String::with_capacity(s.len());
    for c in s.chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            c if c.is_control() => out.push('\u{fffd}'),
            c => out.push(c),
        }
    }
    out
}
