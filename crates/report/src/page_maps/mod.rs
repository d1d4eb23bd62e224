//! What a record has told of single pages until the present point of a pass.
//!
//! Page maps reach a record about once a second, before the snapshots of that second. They are kept
//! back here until the snapshot of their window, so that a report sees what was known at its end.
//! A unit that changed several times within such a second is up to a second behind.

mod armed;
mod idle;
mod sums;
mod within;

use std::collections::{BTreeMap, VecDeque};

use isotherm_core::units::show_interval;
use isotherm_core::{SPANS, Snapshot, TargetId, Time, Touched, UnitInfo};
use isotherm_record::Pages;

pub(crate) use self::armed::Armed;
pub use self::armed::KnownAge;
pub(crate) use self::idle::{CELLS, Idle, IdleUnit, learn};
use self::within::Within;
pub(crate) use sums::Brief;
pub use sums::{PageSums, SpanSum};

/// Windows that are kept back at most. A writer puts about ten into one frame; if the snapshots of
/// more were lost, the oldest are taken in without them.
const MOST_WAITING: usize = 1 << 15;

/// The pages of one target.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct PageMap {
    /// Its units, by where they start. Memory of which nothing was told has none.
    pub units: BTreeMap<u64, UnitInfo>,
    /// Its working set in the present window.
    pub touched: Option<Touched>,
}

/// What one window has told.
#[derive(Debug, Clone, Default)]
struct Waiting {
    end: Time,
    spans_us: [u64; SPANS],
    touched: Vec<(TargetId, Touched)>,
    units: Vec<(TargetId, UnitInfo)>,
}

/// The pages of all targets.
#[derive(Debug, Clone, Default)]
pub struct PageMaps {
    targets: BTreeMap<TargetId, PageMap>,
    within: BTreeMap<TargetId, Within>,
    waiting: VecDeque<Waiting>,
    spans_us: [u64; SPANS],
    changed: Vec<(TargetId, u64)>,
}

impl PageMaps {
    /// Takes in an event of the record. It shows once [`PageMaps::advance`] comes to its windows.
    pub fn learn(&mut self, pages: &Pages) {
        let first = self.waiting.len();
        self.waiting.extend(pages.windows.iter().map(|window| {
            let (sample_us, aggr_us) = (window.sample_us, window.aggr_us);
            let spans_us = Snapshot { sample_us, aggr_us, ..Snapshot::default() }.spans_us();
            let touched = window.touched.clone();
            Waiting { end: window.end, spans_us, touched, units: Vec::new() }
        }));
        for changed in &pages.units {
            let nr = usize::try_from(changed.window).unwrap_or(usize::MAX);
            if let Some(window) = self.waiting.get_mut(first.saturating_add(nr)) {
                window.units.push((changed.target, changed.unit));
            }
        }
        while self.waiting.len() > MOST_WAITING {
            self.next_window(None);
        }
    }

    /// Goes on to the window that ends at `now`.
    pub fn advance(&mut self, now: Time) {
        self.changed.clear();
        self.targets.values_mut().for_each(|map| map.touched = None);
        while self.waiting.front().is_some_and(|window| window.end <= now) {
            self.next_window(Some(now));
        }
    }

    /// Takes in the oldest window that was kept back.
    fn next_window(&mut self, now: Option<Time>) {
        let Some(window) = self.waiting.pop_front() else { return };
        self.spans_us = window.spans_us;
        for (target, touched) in window.touched {
            let map = self.targets.entry(target).or_default();
            map.touched = (now == Some(window.end)).then_some(touched);
        }
        for (target, unit) in window.units {
            self.changed.push((target, unit.start));
            self.targets.entry(target).or_default().units.insert(unit.start, unit);
        }
    }

    /// Forgets a target's pages, since its address space was replaced.
    pub fn forget(&mut self, target: TargetId) {
        self.targets.remove(&target);
        self.within.remove(&target);
    }

    /// Tells the regions of a snapshot of an older record how many of their pages were touched
    /// within the window and within a second; see [`Within`].
    pub(crate) fn tell(&mut self, s: &mut Snapshot) {
        for target in &mut s.targets {
            let Some(map) = self.targets.get(&target.id) else { continue };
            let within = self.within.entry(target.id).or_default();
            within.refresh(s.end.0, map);
            within.tell(target);
        }
    }

    /// What is known of a target's pages.
    #[must_use]
    pub fn get(&self, target: TargetId) -> Option<&PageMap> {
        self.targets.get(&target)
    }

    /// The units that [`PageMaps::advance`] has changed, by target and start.
    #[must_use]
    pub fn changed(&self) -> &[(TargetId, u64)] {
        &self.changed
    }

    /// The lengths of the spans, in microseconds; see [`SPANS`].
    #[must_use]
    pub const fn spans_us(&self) -> [u64; SPANS] {
        self.spans_us
    }
}

/// The name of a span of `us` microseconds, such as `5ms` or `1min`.
#[must_use]
pub fn span_name(us: u64) -> String {
    // An interval is counted in seconds up to two minutes.
    if us == 60_000_000 { "1min".into() } else { show_interval(us) }
}

#[cfg(test)]
mod tests {
    use isotherm_core::PageBits;
    use isotherm_core::unit::UNIT;
    use isotherm_record::{ChangedUnit, PageWindow};

    use super::*;

    fn window(end: u64) -> PageWindow {
        let touched = vec![(TargetId(0), Touched { watched: end, ..Touched::default() })];
        PageWindow { end: Time(end), sample_us: 5, aggr_us: 100, touched, ..PageWindow::default() }
    }

    fn changed(window: u32, page: u16) -> ChangedUnit {
        let unit = UnitInfo { start: UNIT, present: PageBits::page(page), ..UnitInfo::default() };
        ChangedUnit { target: TargetId(0), window, unit }
    }

    #[test]
    fn a_window_shows_when_its_snapshot_comes() {
        let mut maps = PageMaps::default();
        maps.learn(&Pages { windows: vec![window(10)], units: vec![changed(0, 1)] });
        maps.learn(&Pages { windows: vec![window(20), window(30)], units: vec![changed(1, 2)] });
        let seen = |maps: &PageMaps| {
            let map = maps.get(TargetId(0))?;
            let page = map.units.get(&UNIT).and_then(|unit| unit.present.nth(0));
            Some((map.touched.map(|t| t.watched), page))
        };
        for (now, want) in [
            (9, None),
            (10, Some((Some(10), Some(1)))),
            (20, Some((Some(20), Some(1)))),
            (29, Some((None, Some(1)))),
            (31, Some((None, Some(2)))),
        ] {
            maps.advance(Time(now));
            assert_eq!(seen(&maps), want, "at {now}");
        }
        assert_eq!(maps.spans_us(), [5, 100, 1_000_000, 10_000_000, 60_000_000]);
        maps.forget(TargetId(0));
        assert_eq!(seen(&maps), None);
    }

    #[test]
    fn windows_without_snapshots_do_not_pile_up() {
        let mut maps = PageMaps::default();
        (0..4).for_each(|_| {
            maps.learn(&Pages { windows: vec![window(10); 10_000], units: vec![changed(0, 1)] });
        });
        assert!(maps.waiting.len() <= MOST_WAITING);
        assert!(maps.get(TargetId(0)).is_some_and(|map| map.touched.is_none()));
    }
}
