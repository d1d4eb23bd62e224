//! What was known of pages when they were marked: each page's frame, and the first frame of its
//! folio.
//!
//! A fixed table in which each page has one place, and a later page replaces an earlier one. A page
//! that is not there is looked up again. That costs a little, and loses only the proof that its
//! frame has not changed since.

use isotherm_core::TargetId;

/// Places, a power of two: several times what a context watches at once.
const PLACES: usize = 1 << 14;
/// The page was seen without a frame.
const NOWHERE: u64 = u64::MAX;
/// No page.
const FREE: u64 = u64::MAX;

/// What is known of a page.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Record {
    /// Its frame; for a huge leaf, the leaf's first.
    pub(super) frame: u64,
    /// The first frame of its folio.
    pub(super) head: u64,
    /// log2 of the size of the leaf.
    pub(super) leaf_shift: u8,
    /// Whether the folio has several frames.
    pub(super) compound: bool,
}

impl Record {
    /// It was not mapped when last seen.
    pub(super) const ABSENT: Self =
        Self { frame: NOWHERE, head: NOWHERE, leaf_shift: 12, compound: false };
}

#[derive(Debug, Clone, Copy)]
struct Place {
    page: u64,
    target: TargetId,
    record: Record,
}

/// The table; takes memory only when it is first used.
#[derive(Debug, Default)]
pub(super) struct Records {
    places: Vec<Place>,
}

impl Records {
    /// What is known of the page at `addr`.
    pub(super) fn get(&self, target: TargetId, addr: u64) -> Option<Record> {
        let place = self.places.get(index(target, addr))?;
        (place.page == addr >> 12 && place.target == target).then_some(place.record)
    }

    /// Notes what is known of the page at `addr`.
    pub(super) fn put(&mut self, target: TargetId, addr: u64, record: Record) {
        if self.places.is_empty() {
            let free = Place { page: FREE, target: TargetId(0), record: Record::ABSENT };
            self.places.resize(PLACES, free);
        }
        self.places[index(target, addr)] = Place { page: addr >> 12, target, record };
    }

    /// Forgets a target's pages.
    pub(super) fn forget(&mut self, target: TargetId) {
        for place in self.places.iter_mut().filter(|place| place.target == target) {
            place.page = FREE;
        }
    }
}

/// Spreads pages over the places: the high bits of a product.
fn index(target: TargetId, addr: u64) -> usize {
    let key = (addr >> 12) ^ u64::from(target.0) << 45;
    let spread = key.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32;
    usize::try_from(spread).unwrap_or(0) % PLACES
}

#[cfg(test)]
mod tests {
    use super::*;

    const A: TargetId = TargetId(1);
    const B: TargetId = TargetId(2);

    fn record(frame: u64) -> Record {
        Record { frame, head: frame, leaf_shift: 12, compound: false }
    }

    #[test]
    fn remembers_by_target_and_page() {
        let mut records = Records::default();
        assert_eq!(records.get(A, 0x5000), None);
        records.put(A, 0x5000, record(7));
        records.put(B, 0x5000, record(8));
        assert_eq!(records.get(A, 0x5fff), Some(record(7)));
        assert_eq!(records.get(B, 0x5000), Some(record(8)));
        assert_eq!(records.get(A, 0x6000), None);
        records.put(A, 0x5008, Record::ABSENT);
        assert_eq!(records.get(A, 0x5000), Some(Record::ABSENT));
        records.forget(A);
        assert_eq!((records.get(A, 0x5000), records.get(B, 0x5000)), (None, Some(record(8))));
    }

    #[test]
    fn never_gives_another_pages_record_and_keeps_most() {
        let mut records = Records::default();
        let pages = 4096_u64;
        for nr in 0..pages {
            records.put(A, nr << 12, record(nr));
        }
        let kept = (0..pages).filter_map(|nr| records.get(A, nr << 12).map(|r| (nr, r)));
        let mut nr_kept = 0;
        for (nr, found) in kept {
            assert_eq!(found, record(nr));
            nr_kept += 1;
        }
        assert!(nr_kept > pages * 3 / 4, "{nr_kept}");
        assert_eq!(records.places.len(), PLACES);
    }
}
