//! Memory that is absent in one target and filled in another.

use std::collections::BTreeMap;

use isotherm_core::AddrRange;

use super::Sharing;

impl Sharing {
    /// Takes out of the address space that is absent in the targets, in address order each, what
    /// is not absent in another of them.
    pub fn keep_filled(&self, absent: &mut BTreeMap<u32, Vec<AddrRange>>) {
        if absent.values().all(Vec::is_empty) || !self.is_any(absent.keys().copied()) {
            return;
        }
        // By object: the parts of it that are filled.
        let mut filled: BTreeMap<u32, Vec<AddrRange>> = BTreeMap::new();
        for (id, gaps) in &*absent {
            for part in self.parts(*id) {
                let at = |addr| part.offset + (addr - part.range.start);
                let first = gaps.partition_point(|gap| gap.end <= part.range.start);
                let there = without(&[part.range], &gaps[first..]);
                let there = there.iter().map(|r| AddrRange::new(at(r.start), at(r.end)));
                filled.entry(part.object).or_default().extend(there);
            }
        }
        filled.values_mut().for_each(join);
        for (id, gaps) in absent {
            let mut keep = Vec::new();
            for part in self.parts(*id) {
                let Some(filled) = filled.get(&part.object) else { continue };
                let behind = part.offset + part.range.len();
                let first = filled.partition_point(|r| r.end <= part.offset);
                let inside = filled[first..].iter().take_while(|r| r.start < behind);
                let at = |offset: u64| part.range.start + (offset - part.offset);
                keep.extend(
                    inside.map(|r| {
                        AddrRange::new(at(r.start.max(part.offset)), at(r.end.min(behind)))
                    }),
                );
            }
            *gaps = without(gaps, &keep);
        }
    }
}

/// What is in `ranges` and not in `others`. All are in address order and apart.
fn without(ranges: &[AddrRange], mut others: &[AddrRange]) -> Vec<AddrRange> {
    let mut out = Vec::new();
    for r in ranges {
        let skip = others.iter().take_while(|other| other.end <= r.start).count();
        others = &others[skip..];
        let mut at = r.start;
        for other in others.iter().take_while(|other| other.start < r.end) {
            if at < other.start {
                out.push(AddrRange::new(at, other.start));
            }
            at = other.end;
        }
        if at < r.end {
            out.push(AddrRange::new(at, r.end));
        }
    }
    out
}

/// Sorts ranges, and joins those that overlap or touch.
fn join(ranges: &mut Vec<AddrRange>) {
    ranges.sort_unstable_by_key(|r| r.start);
    ranges.dedup_by(|new, kept| {
        let is_near = new.start <= kept.end;
        if is_near {
            kept.end = kept.end.max(new.end);
        }
        is_near
    });
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Mapping, Object};

    fn ranges(of: &[(u64, u64)]) -> Vec<AddrRange> {
        of.iter().map(|&(start, end)| AddrRange::new(start, end)).collect()
    }

    #[test]
    fn differences_and_unions() {
        for (a, b, want) in [
            (&[(0, 10)][..], &[][..], &[(0, 10)][..]),
            (&[(0, 10)], &[(0, 10)], &[]),
            (&[(0, 10), (20, 30)], &[(5, 25)], &[(0, 5), (25, 30)]),
            (&[(0, 10)], &[(2, 3), (4, 6), (9, 50)], &[(0, 2), (3, 4), (6, 9)]),
            (&[(5, 6), (8, 9)], &[(0, 1), (6, 8)], &[(5, 6), (8, 9)]),
        ] {
            assert_eq!(without(&ranges(a), &ranges(b)), ranges(want), "{a:?} without {b:?}");
        }
        let mut all = ranges(&[(7, 9), (0, 3), (3, 4), (1, 2), (8, 12)]);
        join(&mut all);
        assert_eq!(all, ranges(&[(0, 4), (7, 12)]));
    }

    /// The first target maps 100 bytes of an object, the second the last 50 of them elsewhere. Of
    /// the third, which has the object's first 20 bytes, no page map tells anything.
    #[test]
    fn what_another_target_has_filled_is_not_absent() {
        let map = |start, len, inode, offset| {
            let object = Object { device: 1, inode, offset };
            [Mapping::new(start, start + len, "rw-s", "/x").of_object(object)]
        };
        let mut sharing = Sharing::default();
        sharing.learn(0, 1, &map(1000, 100, 5, 0));
        sharing.learn(1, 1, &map(5000, 50, 5, 50));
        sharing.learn(2, 1, &map(7000, 20, 5, 0));
        sharing.learn(3, 1, &map(9000, 100, 6, 0));
        let mut absent: BTreeMap<u32, Vec<AddrRange>> = [
            (0, ranges(&[(900, 1060), (1070, 1100)])),
            (1, ranges(&[(5000, 5005), (5020, 5040)])),
            (2, vec![]),
            (3, ranges(&[(9000, 9100)])),
        ]
        .into();
        sharing.keep_filled(&mut absent);
        let want = [
            (0, ranges(&[(900, 1000), (1020, 1055), (1070, 1090)])),
            (1, ranges(&[(5000, 5005), (5020, 5040)])),
            (2, vec![]),
            (3, ranges(&[(9000, 9100)])),
        ];
        assert_eq!(absent, want.into());
    }
}
