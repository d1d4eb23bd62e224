//! Looks at whole units of 2 MiB, by a copy of their page tables.

use isotherm_core::{PageBits, UnitCheck};
use isotherm_pages::tables::{Dense, PageKey};
use isotherm_sys::clock::now;

use super::PageWalk;

impl PageWalk {
    /// Looks at whole units.
    pub(super) fn look_at_units(&mut self, batch: &mut [UnitCheck]) {
        let begin = now();
        self.places.clear();
        let mut last = None;
        for (nr, unit) in (0_u32..).zip(batch.iter_mut()) {
            let slot = match last {
                Some((target, slot)) if target == unit.target => slot,
                _ => self.tables.slot(unit.target),
            };
            last = Some((unit.target, slot));
            (unit.answered, unit.leaf_shift) = (slot.is_some(), 12);
            (unit.present, unit.young) = (PageBits::default(), PageBits::default());
            self.places.extend(slot.map(|slot| (PageKey::new(slot, unit.start), nr)));
        }
        self.look_at_places(batch);
        self.counters.unit_looks += batch.len() as u64;
        self.counters.unit_look_ns += now().since(begin);
    }

    /// Looks at the units in `places`.
    fn look_at_places(&mut self, batch: &mut [UnitCheck]) {
        let places = std::mem::take(&mut self.places);
        let looked = self.tables.tables_at(&places, &mut |nr, found| {
            let unit = &mut batch[nr as usize];
            match found {
                Dense::Table(table) => {
                    let (present, young) = table.present_and_young();
                    (unit.present, unit.young) = (PageBits(present), PageBits(young));
                }
                Dense::Huge(entry) => {
                    unit.leaf_shift = entry.leaf_shift();
                    unit.present = PageBits::ALL;
                    unit.young = if entry.is_young() { PageBits::ALL } else { PageBits::default() };
                }
            }
        });
        for (place, nr) in &places {
            let unit = &mut batch[*nr as usize];
            unit.answered = looked.is_ok();
            self.add_kept(place.slot(), unit);
        }
        self.places = places;
    }

    /// Pages that others have made old since they were touched still count as touched.
    pub(super) fn add_kept(&mut self, slot: u16, unit: &mut UnitCheck) {
        let key = |addr| PageKey::new(slot, addr);
        let kept = self.fallback(slot).between(key(unit.start), key(unit.range().end));
        if kept.is_empty() {
            return;
        }
        let mut pages = PageBits::default();
        for leaf in kept {
            let nr = (leaf.addr() - unit.start) / 4096;
            let word = usize::try_from(nr / 64).ok().and_then(|word| pages.0.get_mut(word));
            word.into_iter().for_each(|word| *word |= 1 << (nr % 64));
        }
        let pages = if unit.leaf_shift > 12 { PageBits::ALL } else { pages };
        unit.young = unit.young.or(pages.and(unit.present));
    }
}
