//! The heatmap as PNG: the layout of the SVG at twice the size, with a palette.

use super::palette::{self, ABSENT, LEVELS, UNRESOLVED};
use super::picture::{Band, CELL_WIDTH, LEFT, LEGEND_WIDTH, Layout, PanelPlace, TIME, legend_room};
use super::{Cell, Heatmap, Panel, Scale, font};
use crate::error::Error;

/// Pixels per unit of the layout.
const SCALE: usize = 2;

/// Indices of the palette: white, grey, ink, then the steps of heat, then the steps between white
/// and ink.
const WHITE: u8 = 0;
const GREY: u8 = 1;
const INK: u8 = 2;
const HEAT: u8 = 3;
const SHADE: u8 = HEAT + LEVELS;
/// Steps from white to ink, both included.
const SHADES: u8 = 16;
/// Colour of frames and labels.
const INK_COLOR: u8 = 0x22;

/// Which point of a text its position means.
#[derive(Clone, Copy)]
enum Anchor {
    Start,
    Middle,
    End,
}

/// A picture whose pixels are indices of the palette.
struct Canvas {
    width: usize,
    pixels: Vec<u8>,
}

impl Canvas {
    fn new(width: usize, height: usize) -> Self {
        let (width, height) = (width * SCALE, height * SCALE);
        Self { width, pixels: vec![WHITE; width * height] }
    }

    /// Sets one pixel. A pixel outside of the picture is ignored.
    fn set(&mut self, x: usize, y: usize, color: u8) {
        if x < self.width
            && let Some(pixel) = self.pixels.get_mut(y * self.width + x)
        {
            *pixel = color;
        }
    }

    /// Fills a rectangle given in units of the layout.
    fn fill(&mut self, x: usize, y: usize, width: usize, height: usize, color: u8) {
        for py in y * SCALE..(y + height) * SCALE {
            for px in x * SCALE..(x + width) * SCALE {
                self.set(px, py, color);
            }
        }
    }

    /// Draws a frame around a rectangle, one pixel wide.
    fn frame(&mut self, x: usize, y: usize, width: usize, height: usize) {
        let (left, right) = (x * SCALE - 1, (x + width) * SCALE);
        let (top, bottom) = (y * SCALE - 1, (y + height) * SCALE);
        for px in left..=right {
            self.set(px, top, INK);
            self.set(px, bottom, INK);
        }
        for py in top..=bottom {
            self.set(left, py, INK);
            self.set(right, py, INK);
        }
    }

    /// Writes `text` on white; `y` is the base line.
    fn text(&mut self, x: usize, y: usize, anchor: Anchor, bold: bool, text: &str) {
        let width = text.chars().count() * font::ADVANCE;
        let left = match anchor {
            Anchor::Start => x * SCALE,
            Anchor::Middle => (x * SCALE).saturating_sub(width / 2),
            Anchor::End => (x * SCALE).saturating_sub(width),
        };
        let top = (y * SCALE).saturating_sub(font::BASE);
        font::draw(text, bold, |dx, dy, ink| match ink / SHADES {
            0 => {}
            step if step == SHADES - 1 => self.set(left + dx, top + dy, INK),
            step => self.set(left + dx, top + dy, SHADE + step - 1),
        });
    }
}

impl Heatmap {
    /// The heatmap as a PNG picture.
    ///
    /// # Errors
    ///
    /// If it is too large for the format.
    pub fn to_png(&self) -> Result<Vec<u8>, Error> {
        let layout = Layout::new(self);
        let mut canvas = Canvas::new(layout.width, layout.height);
        for (panel, place) in self.panels.iter().zip(&layout.panels) {
            canvas.text(LEFT, place.title_y, Anchor::Start, true, &panel.title);
            canvas.text(LEFT, place.title_y + 18, Anchor::Start, false, &panel.summary());
            draw_panel(&mut canvas, panel, place, &layout, self.scale);
        }
        draw_legend(&mut canvas, layout.legend_y, &self.scale.end());
        encode(&canvas, layout.height * SCALE)
    }
}

fn draw_panel(
    canvas: &mut Canvas,
    panel: &Panel,
    place: &PanelPlace,
    layout: &Layout,
    scale: Scale,
) {
    for &(top, height) in &place.frames {
        canvas.frame(LEFT, top, layout.plot_width, height);
    }
    for band in &place.bands {
        match *band {
            Band::Row { y, height, row } => {
                for (i, cell) in panel.rows[row].cells.iter().enumerate() {
                    let color = match *cell {
                        Cell::Absent => WHITE,
                        Cell::Unresolved => GREY,
                        Cell::Rate(rate) => HEAT + palette::level(scale.share(rate)),
                    };
                    canvas.fill(LEFT + i * CELL_WIDTH, y, CELL_WIDTH, height, color);
                }
            }
            Band::Fold { y, height, below } => {
                let x = LEFT + layout.plot_width / 2;
                let fold = panel.fold_text(below);
                canvas.text(x, y + height / 2 + 4, Anchor::Middle, false, &fold);
            }
        }
    }
    for (y, address) in &place.addresses {
        canvas.text(LEFT - 8, y + 4, Anchor::End, false, address);
    }
    for (y, name) in &place.names {
        canvas.text(LEFT + layout.plot_width + 8, y + 4, Anchor::Start, false, name);
    }
    for (x, label) in &layout.times {
        canvas.fill(*x, place.bottom, 1, 5, INK);
        canvas.text(*x, place.bottom + 17, Anchor::Middle, false, label);
    }
    let middle = LEFT + layout.plot_width / 2;
    canvas.text(middle, place.bottom + 34, Anchor::Middle, false, TIME);
}

fn draw_legend(canvas: &mut Canvas, y: usize, end: &str) {
    let step = LEGEND_WIDTH / usize::from(LEVELS);
    for level in 0..LEVELS {
        canvas.fill(LEFT + usize::from(level) * step, y, step, 12, HEAT + level);
    }
    let behind = LEFT + LEGEND_WIDTH;
    canvas.text(LEFT - 8, y + 10, Anchor::End, false, "0 %");
    canvas.text(behind + 8, y + 10, Anchor::Start, false, end);
    let room = legend_room(end);
    for (x, color, what) in [(room, GREY, "unresolved"), (room + 110, WHITE, "not mapped")] {
        canvas.fill(behind + x, y, 12, 12, color);
        canvas.frame(behind + x, y, 12, 12);
        canvas.text(behind + x + 18, y + 10, Anchor::Start, false, what);
    }
}

fn encode(canvas: &Canvas, height: usize) -> Result<Vec<u8>, Error> {
    let mut colors = Vec::new();
    colors.extend(ABSENT);
    colors.extend(UNRESOLVED);
    colors.extend([INK_COLOR; 3]);
    for level in 0..LEVELS {
        colors.extend(palette::rgb(level));
    }
    for step in 1..SHADES - 1 {
        colors.extend([u8::MAX - (u8::MAX - INK_COLOR) / (SHADES - 1) * step; 3]);
    }
    let failed = |e: png::EncodingError| Error::write(std::io::Error::other(e));
    let side = |n: usize| u32::try_from(n).map_err(|e| Error::write(std::io::Error::other(e)));
    let mut out = Vec::new();
    let mut encoder = png::Encoder::new(&mut out, side(canvas.width)?, side(height)?);
    encoder.set_color(png::ColorType::Indexed);
    encoder.set_depth(png::BitDepth::Eight);
    encoder.set_palette(colors);
    let mut writer = encoder.write_header().map_err(failed)?;
    writer.write_image_data(&canvas.pixels).map_err(failed)?;
    writer.finish().map_err(failed)?;
    Ok(out)
}
