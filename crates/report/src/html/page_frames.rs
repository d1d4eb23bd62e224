//! Page maps at some times of the record: for every page, the shortest span in which it was
//! touched.
//!
//! Page maps change all the time, so the page has them at a few evenly spaced times only: as many
//! as fit. They are taken more often at first, and every second one is dropped when they get too
//! many. Where one map alone is too large, several pages are one cell, which shows the hottest.

use isotherm_core::unit::UNIT;
use isotherm_core::{PageBits, SPANS, UnitInfo};
use serde::Serialize;

use super::packed::packed;
use crate::page_maps::PageMap;

/// Most cells of all maps together.
const MOST_CELLS: usize = 3 << 20;
/// Most cells of one map.
const MOST_AT_ONCE: usize = 1 << 20;
/// Most bytes of text.
const MOST_BYTES: usize = 1 << 20;
/// Most maps of a record.
const MOST_FRAMES: usize = 24;

/// What is known of a page. The numbers are those of the page's script.
const UNRESOLVED: u8 = 1;
const NOT_MEASURED: u8 = 2;
const NOT_TOUCHED: u8 = 3;
/// Touched within the longest span; each shorter span is one more.
const LONGEST: u8 = 4;
/// The first span that is long enough to call a page not touched: a second.
const LONG: usize = 2;

/// The maps of one target as the page's script reads them.
#[derive(Debug, Serialize)]
pub(super) struct Frames {
    /// Names of the spans, from the shortest.
    spans: Vec<String>,
    frames: Vec<Frame>,
}

#[derive(Debug, Serialize)]
struct Frame {
    /// Seconds since the start.
    t: f64,
    /// Pages per cell.
    grain: usize,
    /// Runs of neighbouring units: the number of the first, and how many.
    runs: Vec<(u64, u64)>,
    /// The cells of all units, from the first page of the first; packed.
    cells: String,
}

/// The map of a target at one time.
struct Shot {
    t: f64,
    grain: usize,
    runs: Vec<(u64, u64)>,
    cells: Vec<u8>,
}

/// The maps so far.
#[derive(Default)]
pub(super) struct Shots {
    shots: Vec<Shot>,
    spans_us: [u64; SPANS],
    /// Every how many calls one is taken, and the calls so far.
    every: usize,
    calls: usize,
}

impl Shots {
    /// Takes the map, unless one was taken a moment before. `t`: seconds since the start.
    pub(super) fn offer(&mut self, t: f64, map: &PageMap, spans_us: [u64; SPANS]) {
        self.calls += 1;
        if !(self.calls - 1).is_multiple_of(self.every.max(1)) {
            return;
        }
        self.spans_us = spans_us;
        self.shots.push(Shot::of(t, map));
        let cells: usize = self.shots.iter().map(|shot| shot.cells.len()).sum();
        if self.shots.len() > MOST_FRAMES || (self.shots.len() > 1 && cells > MOST_CELLS) {
            self.thin();
        }
    }

    /// Drops every second map but the first, and takes half as many from now on.
    fn thin(&mut self) {
        let mut nr = 0;
        self.shots.retain(|_| {
            nr += 1;
            nr % 2 == 1
        });
        self.every = self.every.max(1) * 2;
    }

    /// The maps, with the one at the end in any case; `None` if there are none.
    pub(super) fn finish(mut self, t: f64, last: Option<&PageMap>) -> Option<Frames> {
        if let Some(map) = last.filter(|_| self.shots.last().is_some_and(|shot| shot.t < t)) {
            self.shots.push(Shot::of(t, map));
        }
        self.shots.retain(|shot| !shot.cells.is_empty());
        if self.shots.is_empty() {
            return None;
        }
        let mut frames: Vec<Frame> = self.shots.iter().map(Shot::frame).collect();
        while frames.len() > 1 && frames.iter().map(|f| f.cells.len()).sum::<usize>() > MOST_BYTES {
            // From the end, so that the last one stays.
            let mut nr = frames.len();
            frames.retain(|_| {
                nr -= 1;
                nr.is_multiple_of(2)
            });
        }
        let spans = self.spans_us.map(crate::page_maps::span_name);
        Some(Frames { spans: spans.into(), frames })
    }
}

impl Shot {
    fn of(t: f64, map: &PageMap) -> Self {
        let mut grain = 1;
        while map.units.len().saturating_mul(512) / grain > MOST_AT_ONCE && grain < 512 {
            grain *= 2;
        }
        let mut runs: Vec<(u64, u64)> = Vec::new();
        let mut cells = Vec::with_capacity(map.units.len() * 512 / grain);
        let mut pages = [0; 512];
        for (start, unit) in &map.units {
            let nr = start / UNIT;
            match runs.last_mut() {
                Some((first, n)) if *first + *n == nr => *n += 1,
                _ => runs.push((nr, 1)),
            }
            classes(unit, &mut pages);
            cells.extend(pages.chunks(grain).map(|c| c.iter().copied().max().unwrap_or(0)));
        }
        Self { t, grain, runs, cells }
    }

    fn frame(&self) -> Frame {
        let Self { t, grain, ref runs, ref cells } = *self;
        Frame { t, grain, runs: runs.clone(), cells: packed(cells) }
    }
}

/// What is known of each page of a unit; 0 where there is none.
fn classes(unit: &UnitInfo, out: &mut [u8; 512]) {
    out.fill(0);
    let mut set = |pages: PageBits, class: u8| {
        pages.runs(|first, behind| {
            let nr = |page: u64| usize::try_from(page).unwrap_or(512).min(512);
            out[nr(first)..nr(behind)].fill(class);
        });
    };
    let is_long = unit.touched[LONG..].iter().any(Option::is_some);
    set(unit.present, if is_long { NOT_TOUCHED } else { NOT_MEASURED });
    for (class, plane) in (LONGEST..).zip(unit.touched.iter().rev()) {
        set(plane.unwrap_or_default().and(unit.present), class);
    }
    set(unit.unresolved.and(unit.present), UNRESOLVED);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_shows_the_shortest_span_in_which_it_was_touched() {
        let page = PageBits::page;
        let unit = UnitInfo {
            present: page(0).or(page(1)).or(page(2)).or(page(3)),
            unresolved: page(3),
            touched: [Some(page(0)), None, Some(page(0).or(page(1)).or(page(9))), None, None],
            ..UnitInfo::default()
        };
        let mut out = [9; 512];
        classes(&unit, &mut out);
        assert_eq!(out[..10], [8, 6, NOT_TOUCHED, UNRESOLVED, 0, 0, 0, 0, 0, 0]);
        classes(&UnitInfo { present: page(7), ..UnitInfo::default() }, &mut out);
        assert_eq!((out[7], out[8]), (NOT_MEASURED, 0));
    }

    #[test]
    fn as_many_maps_as_fit_and_always_the_last() {
        let mut map = PageMap::default();
        (0..512).for_each(|nr| {
            let unit = UnitInfo { start: nr * UNIT, present: PageBits::ALL, ..UnitInfo::default() };
            map.units.insert(unit.start, unit);
        });
        let mut shots = Shots::default();
        (0..1000_u32).for_each(|n| shots.offer(f64::from(n), &map, [0; SPANS]));
        let cells: usize = shots.shots.iter().map(|shot| shot.cells.len()).sum();
        assert!(cells <= MOST_CELLS, "{cells}");
        let frames = shots.finish(1000.0, Some(&map)).unwrap();
        let times: Vec<f64> = frames.frames.iter().map(|f| f.t).collect();
        assert!(times.len() > 5 && times.last() == Some(&1000.0), "{times:?}");
        assert_eq!(frames.frames[0].runs, [(0, 512)]);
        assert!(Shots::default().finish(0.0, None).is_none());
    }
}
