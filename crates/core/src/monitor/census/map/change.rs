//! Memory that begins to be used at random, and memory of which that use may have ended.
//!
//! What begins shows: later looks find more of its pages touched, and the unit is made old out of
//! turn. What ends does not: all of its pages were touched since its last turn, so a look finds
//! nothing that is new, and no page of it is touched in every sample, so it has no sentinel. Only
//! its next turn tells. Where turns are rare, sums would grow by all that begins, and shrink only
//! much later. So for each unit that is measured out of turn since it may have begun, one that may
//! have ended has its turn: the one that has waited for longest.
//!
//! Until all of them had a turn since, the lower end of what is told is without as many of them as
//! have begun. And the upper end is with what waits to be measured.

use super::Map;
use crate::addr::PAGE_SIZE;
use crate::snapshot::{SPANS, Touched};
use crate::time::Time;

/// After this time without anything that begins, in ns, what begins is another change.
const OVER_NS: u64 = 60_000_000_000;

/// What has begun to be used.
#[derive(Debug, Clone, Copy, Default)]
pub(in super::super) struct Change {
    /// Units that are to have their turn.
    pub(in super::super) to_retest: usize,
    /// When the first unit of this change was seen, and the last one; and how many were.
    since: Time,
    last: Time,
    nr: u64,
}

impl Change {
    /// A unit was seen to have begun.
    pub(in super::super) fn begin(&mut self, now: Time) {
        if self.nr == 0 || now.since(self.last) >= OVER_NS {
            (self.since, self.nr) = (now, 0);
        }
        self.last = now;
        self.nr += 1;
    }
}

/// Pages by span that may be touched besides what was counted, and that may not be touched.
#[derive(Debug, Clone, Copy, Default)]
pub(in super::super) struct Doubt {
    more: [u64; SPANS],
    less: [u64; SPANS],
}

impl Doubt {
    pub(in super::super) fn widen(&self, touched: &mut Touched) {
        let spans = touched.spans.iter_mut().zip(self.more.iter().zip(&self.less));
        for (span, (more, less)) in spans {
            let Some(told) = span else { continue };
            told.hi = told.hi.saturating_add(more * PAGE_SIZE).min(touched.watched);
            told.lo = told.lo.saturating_sub(less * PAGE_SIZE);
        }
    }
}

impl Map {
    /// The unit of which the use may have ended that has waited for its turn for longest, if one is
    /// to have it. Its last turn was before this time.
    pub(in super::super) fn next_to_retest(&mut self, before: Time) -> Option<usize> {
        self.change.to_retest = self.change.to_retest.checked_sub(1)?;
        let units = self.units.iter().enumerate();
        let old = units.filter(|(_, unit)| unit.turned_before(before) && unit.may_have_ended());
        old.min_by_key(|(_, unit)| unit.turn_at()).map(|(at, _)| at)
    }

    /// What is not known of these units, which wait to be measured, and of those of which the use
    /// may have ended.
    pub(in super::super) fn may_be_touched(&self, waiting: impl Iterator<Item = u64>) -> Doubt {
        let mut doubt = Doubt::default();
        for unit in waiting.filter_map(|start| Some(&self.units[self.find(start)?])) {
            let size = unit.size() - unit.nr_stuck();
            for (nr, more) in doubt.more.iter_mut().enumerate() {
                *more += size.saturating_sub(unit.planes().counted(nr).unwrap_or(0));
            }
        }
        if self.change.nr == 0 {
            return doubt;
        }
        let (mut nr_old, mut pages) = (0, [0; SPANS]);
        let is_old =
            |unit: &&super::Unit| unit.turned_before(self.change.since) && unit.may_have_ended();
        for unit in self.units.iter().filter(is_old) {
            nr_old += 1;
            for (nr, pages) in pages.iter_mut().enumerate() {
                *pages += unit.planes().counted(nr).unwrap_or(0);
            }
        }
        for (less, pages) in doubt.less.iter_mut().zip(pages) {
            *less = (pages * self.change.nr.min(nr_old)).checked_div(nr_old).unwrap_or(0);
        }
        doubt
    }
}
