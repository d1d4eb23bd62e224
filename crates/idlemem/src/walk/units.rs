//! Units of 2 MiB: which of their pages are asked about, which are drawn, and what is noted of
//! them.

use isotherm_core::unit::UNIT;
use isotherm_core::{AddrRange, PageBits, UnitCheck};
use isotherm_pages::tables::Dense;

use super::memory::{Leaf, Memory};
use super::past::Past;
use crate::scanning::piece::mixed;

/// Why a touched unit is made old or not.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum How {
    /// It was drawn. With a share of 1 all are, and stand for no others.
    Drawn,
    /// It is a huge page.
    Huge,
    /// Several processes map pages of it.
    Shared,
    Left,
    /// It was in vain the last times.
    InVain,
    Watched,
}

/// Part of a draw: the pages of a unit that stayed idle, by one of their frames.
#[derive(Debug, Clone, Copy)]
pub(super) struct Place {
    pub(super) frame: u64,
    pub(super) pages: u64,
}

/// What a round needs and finds beside the pages.
#[derive(Debug, Default)]
pub(super) struct Round {
    pub(super) share: f64,
    pub(super) seed: u64,
    /// Whether units were drawn in the round before.
    pub(super) drew: bool,
    pub(super) places: Vec<Place>,
    /// CPU time spent on making units old, in ns.
    pub(super) arm_ns: u64,
    /// Units made old: those subject to a draw, and others, without huge pages.
    pub(super) drawn: u64,
    pub(super) taken: u64,
    /// Accessed bits that programs had to set again.
    pub(super) set_again: u64,
}

/// The frames of a unit's pages.
pub(super) struct Pages([u64; 512]);

impl Pages {
    /// Reads them, and writes into `unit` which of the pages that are asked about are mapped and
    /// young.
    pub(super) fn of(unit: &mut UnitCheck, found: &Dense<'_>) -> Self {
        let mut frames = [0; 512];
        match found {
            Dense::Huge(entry) => {
                frames[0] = entry.frame() >> 12;
                unit.leaf_shift = entry.leaf_shift();
                unit.present = PageBits::ALL;
                unit.young = if entry.is_young() { PageBits::ALL } else { PageBits::default() };
            }
            Dense::Table(table) => {
                let (present, young) = table.present_and_young();
                unit.present = PageBits(present).and(unit.pages);
                unit.young = PageBits(young).and(unit.pages);
                for (frame, entry) in frames.iter_mut().zip(table.entries()) {
                    *frame = entry.frame() >> 12;
                }
            }
        }
        Self(frames)
    }

    /// Whether several leaves lead to one of the young pages.
    pub(super) fn are_shared(&self, unit: &UnitCheck, memory: &Memory) -> bool {
        let mut shared = false;
        unit.young.runs(|first, behind| {
            shared = shared || (first..behind).any(|nr| memory.is_shared(self.frame(nr)));
        });
        shared
    }

    fn frame(&self, nr: u64) -> u64 {
        usize::try_from(nr).ok().and_then(|nr| self.0.get(nr)).copied().unwrap_or(u64::MAX)
    }
}

impl Round {
    /// Whether a touched unit is made old in this round.
    pub(super) fn draws(&self, unit: &UnitCheck) -> bool {
        is_drawn(u64::from(unit.target.0), unit.start, self.share, self.seed)
    }

    /// Notes what is known of the pages of a unit.
    pub(super) fn note(&mut self, unit: &UnitCheck, how: How, pages: &Pages, memory: &mut Memory) {
        if unit.leaf_shift > 12 {
            return self.note_huge(unit, how, pages, memory);
        }
        if how != How::Watched && unit.young.is_empty() && !self.drew {
            return memory.note_old(unit.present, &pages.0);
        }
        let (mut last, mut idle) = (0, 0);
        unit.present.runs(|first, behind| {
            for nr in first..behind {
                let (word, bit) = ((nr / 64) as usize, 1 << (nr % 64));
                let has = |bits: &PageBits| bits.0[word] & bit != 0;
                let leaf = self.leaf(how, has(&unit.young), has(&unit.stuck));
                let frame = pages.frame(nr);
                let past = memory.past(frame);
                if leaf == Leaf::Old && past == Past::DRAWN {
                    (last, idle) = (frame, idle + 1);
                }
                self.set_again += u64::from(has(&unit.young) && past.was_old());
                memory.note(frame, leaf);
            }
        });
        if idle > 0 {
            self.places.push(Place { frame: last, pages: idle });
        }
    }

    fn note_huge(&mut self, unit: &UnitCheck, how: How, pages: &Pages, memory: &mut Memory) {
        let young = !unit.young.is_empty();
        let leaf = self.leaf(how, young, !unit.stuck.is_empty());
        let first = pages.frame(0);
        self.set_again += u64::from(young && memory.past(first).was_old());
        for block in (first..).step_by(512).take(1 << (unit.leaf_shift - 21)) {
            memory.note_huge(block, leaf);
        }
    }

    fn leaf(&self, how: How, young: bool, stuck: bool) -> Leaf {
        match how {
            How::Watched => Leaf::Watched,
            _ if !young => Leaf::Old,
            How::InVain => Leaf::Stuck,
            _ if stuck => Leaf::Stuck,
            How::Left => Leaf::Left,
            How::Drawn if self.share < 1.0 => Leaf::Drawn,
            How::Drawn | How::Huge | How::Shared => Leaf::Armed,
        }
    }
}

/// Whether a unit is in a sample of this share. With another seed it is another sample.
pub(super) fn is_drawn(target: u64, start: u64, share: f64, seed: u64) -> bool {
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "0 to 2^32")]
    let below = (share * 4_294_967_296.0) as u64;
    mixed((start / UNIT) ^ mixed(target ^ seed)) >> 32 < below
}

/// The units of some sorted ranges, as whole units, each once.
pub(super) fn whole_units(maps: &[AddrRange]) -> Vec<AddrRange> {
    let mut out: Vec<AddrRange> = Vec::new();
    for range in maps {
        let (start, end) = (range.start & !(UNIT - 1), range.end.next_multiple_of(UNIT));
        match out.last_mut() {
            Some(last) if start <= last.end => last.end = last.end.max(end),
            _ => out.push(AddrRange::new(start, end)),
        }
    }
    out
}

/// The pages of a unit that lie in some sorted ranges.
pub(super) fn pages_in(maps: &[AddrRange], start: u64) -> PageBits {
    let first = maps.partition_point(|range| range.end <= start);
    let of_unit = maps[first..].iter().take_while(|range| range.start < start + UNIT);
    of_unit.fold(PageBits::default(), |bits, range| bits.or(PageBits::of(start, *range)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pages(first: u64, behind: u64) -> AddrRange {
        AddrRange::new(first * 4096, behind * 4096)
    }

    #[test]
    fn units_are_whole_and_come_once() {
        for (name, maps, expected) in [
            ("nothing", vec![], vec![]),
            ("two mappings in a unit", vec![pages(3, 5), pages(9, 10)], vec![pages(0, 512)]),
            ("one over a border", vec![pages(500, 513)], vec![pages(0, 1024)]),
            ("neighbours", vec![pages(0, 512), pages(512, 513)], vec![pages(0, 1024)]),
            (
                "far apart",
                vec![pages(3, 5), pages(1024, 5000)],
                vec![pages(0, 512), pages(1024, 5120)],
            ),
        ] {
            assert_eq!(whole_units(&maps), expected, "{name}");
        }
    }

    #[test]
    fn only_pages_of_the_mappings_are_asked_about() {
        let maps = [pages(3, 5), pages(500, 513), pages(1024, 5000)];
        for (unit, expected) in [(0, 14), (1, 1), (2, 512), (9, 392), (10, 0)] {
            assert_eq!(pages_in(&maps, unit * UNIT).count(), expected, "unit {unit}");
        }
    }
}
