//! The layout of a picture, which SVG and PNG share. Units are pixels from the top left.

use super::{Heatmap, Panel};

/// Width of a cell.
pub(super) const CELL_WIDTH: usize = 3;
/// Where the plots begin; addresses stand to the left.
pub(super) const LEFT: usize = 130;
/// Room for mapping names.
const RIGHT: usize = 190;
const TITLE: usize = 54;
const AXIS: usize = 52;
const FOLD: usize = 20;
const LABEL: usize = 15;
/// Distance of the address labels inside of an area.
const ADDRESS_STEP: usize = 50;
/// Height that the rows of a panel fill.
const PLOT: usize = 480;
/// Width of the colour scale.
pub(super) const LEGEND_WIDTH: usize = 192;
/// Room beside the colour scale for what its end says.
pub(super) fn legend_room(end: &str) -> usize {
    200.max(end.len() * 7 + 24)
}
/// Under the time axis.
pub(super) const TIME: &str = "time since the start";

/// A horizontal strip of a panel.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Band {
    /// Cells of row number `row`.
    Row { y: usize, height: usize, row: usize },
    /// What was left out above area number `below`.
    Fold { y: usize, height: usize, below: usize },
}

/// One panel.
#[derive(Debug, Clone)]
pub(super) struct PanelPlace {
    pub(super) title_y: usize,
    pub(super) bands: Vec<Band>,
    /// Top and height of the areas.
    pub(super) frames: Vec<(usize, usize)>,
    /// Middles of address labels, and the labels.
    pub(super) addresses: Vec<(usize, String)>,
    /// Middles of mapping names, and the names.
    pub(super) names: Vec<(usize, String)>,
    /// Where the time axis is.
    pub(super) bottom: usize,
}

/// The whole picture.
#[derive(Debug, Clone)]
pub(super) struct Layout {
    pub(super) width: usize,
    pub(super) height: usize,
    pub(super) plot_width: usize,
    pub(super) panels: Vec<PanelPlace>,
    /// Marks of the time axis.
    pub(super) times: Vec<(usize, String)>,
    pub(super) legend_y: usize,
}

impl Layout {
    pub(super) fn new(map: &Heatmap) -> Self {
        let plot_width = map.columns * CELL_WIDTH;
        let mut y = 8;
        let mut panels = Vec::new();
        for panel in &map.panels {
            let place = PanelPlace::new(panel, y);
            y = place.bottom + AXIS;
            panels.push(place);
        }
        #[expect(clippy::cast_precision_loss, reason = "pixels")]
        let width = plot_width as f64;
        let times = map
            .time_marks((plot_width / 90).max(2))
            .into_iter()
            .map(|(at, text)| (LEFT + crate::numbers::to_usize(at * width), text))
            .collect();
        let width = (LEFT + plot_width + RIGHT).max(LEFT + LEGEND_WIDTH + 500);
        Self { width, height: y + 36, plot_width, panels, times, legend_y: y + 8 }
    }
}

impl PanelPlace {
    fn new(panel: &Panel, top: usize) -> Self {
        let mut place = Self {
            title_y: top + 18,
            bands: Vec::new(),
            frames: Vec::new(),
            addresses: Vec::new(),
            names: Vec::new(),
            bottom: 0,
        };
        let height = (PLOT / panel.rows.len().max(1)).clamp(2, 24);
        let mut y = top + TITLE;
        let mut frame_top = y;
        for (i, row) in panel.rows.iter().enumerate().rev() {
            place.bands.push(Band::Row { y, height, row: i });
            if y == frame_top {
                place.addresses.push((y, format!("{:#x}", row.range.end)));
            }
            y += height;
            let below = i.checked_sub(1).map(|i| &panel.rows[i]);
            let last = below.is_none_or(|b| b.area != row.area);
            place.address(y, row.range.start, last);
            if last {
                place.frames.push((frame_top, y - frame_top));
                if let Some(below) = below {
                    place.bands.push(Band::Fold { y, height: FOLD, below: below.area });
                    y += FOLD;
                }
                frame_top = y;
            }
        }
        place.bottom = y;
        place.name_rows(panel);
        place
    }

    /// Labels the border at `y` if there is room. The lower end of an area replaces other labels.
    fn address(&mut self, y: usize, address: u64, end_of_area: bool) {
        while end_of_area && self.addresses.last().is_some_and(|(above, _)| y < above + LABEL) {
            self.addresses.pop();
        }
        if end_of_area || self.addresses.last().is_none_or(|(above, _)| y >= above + ADDRESS_STEP) {
            self.addresses.push((y, format!("{address:#x}")));
        }
    }

    /// A name in the middle of each run of rows of one mapping, as far as there is room.
    fn name_rows(&mut self, panel: &Panel) {
        let rows: Vec<(usize, usize, usize)> = self
            .bands
            .iter()
            .filter_map(|b| match *b {
                Band::Row { y, height, row } => Some((y, height, row)),
                Band::Fold { .. } => None,
            })
            .collect();
        let key = |i: usize| (panel.rows[i].area, panel.rows[i].mapping.as_str());
        let mut free = 0;
        for run in rows.chunk_by(|a, b| key(a.2) == key(b.2)) {
            let (Some(first), Some(last)) = (run.first(), run.last()) else { continue };
            let middle = usize::midpoint(first.0, last.0 + last.1);
            let name = &panel.rows[first.2].mapping;
            if middle >= free && !name.is_empty() {
                let size = run.iter().map(|r| panel.rows[r.2].range.len()).sum();
                self.names.push((middle, format!("{} {}", shortened(name), super::mib(size))));
                free = middle + LABEL;
            }
        }
    }
}

fn shortened(name: &str) -> String {
    const MOST: usize = 18;
    if name.chars().count() <= MOST {
        return name.into();
    }
    let cut: String = name.chars().take(MOST - 2).collect();
    format!("{cut}..")
}
