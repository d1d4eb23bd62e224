//! Where in the list of units the one at some address is.
//!
//! A unit has nearly a kilobyte, and a target of gigabytes thousands of them. To search among the
//! units themselves reads ten of them for each answer, which no cache holds from one window to the
//! next. An area has all of its units, side by side, so its first one says where each is.
//!
//! Invariant: the places are those of the units that they were made of.

use alloc::vec::Vec;

use crate::unit::UNIT;

/// Runs of units without a hole: the start of the first one, and where in the list it is. Sorted.
#[derive(Debug, Default)]
pub(in crate::monitor::census) struct Places {
    runs: Vec<(u64, usize)>,
    /// The number of units, and the end of the last one.
    nr: usize,
    end: u64,
}

impl Places {
    /// Of units with these starts, which rise.
    pub(in crate::monitor::census) fn fill(&mut self, starts: impl Iterator<Item = u64>) {
        (self.nr, self.end) = (0, 0);
        self.runs.clear();
        for start in starts {
            if self.runs.is_empty() || start != self.end {
                self.runs.push((start, self.nr));
            }
            (self.nr, self.end) = (self.nr + 1, start + UNIT);
        }
    }

    /// The place of the unit at `start`; none if there is no such unit.
    pub(in crate::monitor::census) fn find(&self, start: u64) -> Option<usize> {
        let behind = self.runs.partition_point(|(first, _)| *first <= start);
        let (first, at) = *self.runs.get(behind.checked_sub(1)?)?;
        let next = self.runs.get(behind).map_or(self.nr, |(_, at)| *at);
        let at = at.checked_add(usize::try_from((start - first) / UNIT).ok()?)?;
        ((start - first).is_multiple_of(UNIT) && at < next).then_some(at)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_unit_is_found_and_nothing_else() {
        let mut places = Places::default();
        assert_eq!(places.find(0), None);
        for starts in [&[0_u64][..], &[3, 4, 5, 9, 10, 20], &[1, 3, 5, 7], &[]] {
            places.fill(starts.iter().map(|nr| nr * UNIT));
            for nr in 0..30 {
                let expected = starts.iter().position(|start| *start == nr);
                assert_eq!(places.find(nr * UNIT), expected, "{starts:?}, {nr}");
                assert_eq!(places.find(nr * UNIT + 4096), None, "{starts:?}, {nr}");
            }
        }
    }
}
