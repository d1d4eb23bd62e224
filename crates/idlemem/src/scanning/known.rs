//! What is remembered of an idle folio from one look to the next, in 4 bytes.
//!
//! A frame that stays idle is still the same folio: the flag goes when a folio is freed, and only a
//! scanner sets it. So the folio's kind and its cgroup need not be asked for again. The few
//! exceptions are found later (see `piece`).

use std::collections::HashMap;

use crate::kinds::Kind;

/// An idle folio: age in intervals, size, kind, and the cgroup's number in [`Ids`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Known(u32);

const AGE: u32 = 8;
const ORDER: u32 = 5;
const KIND: u32 = 2;
/// Bits for the cgroup.
const ID: u32 = 32 - AGE - ORDER - KIND;

impl Known {
    pub(crate) const fn new(age: u8, order: u32, kind: Kind, id: u32) -> Self {
        let order = if order < 1 << ORDER { order } else { (1 << ORDER) - 1 };
        Self(
            age as u32 | order << AGE | (kind as u32) << (AGE + ORDER) | id << (AGE + ORDER + KIND),
        )
    }

    /// Age in intervals; it stops at 255.
    #[expect(clippy::cast_possible_truncation, reason = "the low byte is meant")]
    pub(crate) const fn age(self) -> u8 {
        self.0 as u8
    }

    /// log2 of the folio's frames.
    pub(crate) const fn order(self) -> u32 {
        self.0 >> AGE & ((1 << ORDER) - 1)
    }

    pub(crate) const fn kind(self) -> Kind {
        Kind::ALL[(self.0 >> (AGE + ORDER) & ((1 << KIND) - 1)) as usize]
    }

    pub(crate) const fn id(self) -> u32 {
        self.0 >> (AGE + ORDER + KIND)
    }

    /// One interval older.
    pub(crate) const fn older(self) -> Self {
        Self(if self.age() == u8::MAX { self.0 } else { self.0 + 1 })
    }
}

/// Small numbers for the inodes of cgroups, in the order in which they were first seen.
#[derive(Debug)]
pub(crate) struct Ids {
    inos: Vec<u64>,
    by_ino: HashMap<u64, u32>,
    /// What was asked for last: neighbours mostly have the same.
    last: Option<(u64, u32)>,
    most: usize,
    full: bool,
}

impl Default for Ids {
    fn default() -> Self {
        Self::with_most(1 << ID)
    }
}

impl Ids {
    /// Gives so many numbers at most, from 0 on.
    pub(crate) fn with_most(most: usize) -> Self {
        Self { inos: Vec::new(), by_ino: HashMap::new(), last: None, most, full: false }
    }

    /// The number for an inode; `None` if there are too many.
    pub(crate) fn of(&mut self, ino: u64) -> Option<u32> {
        if let Some((_, id)) = self.last.filter(|(last, _)| *last == ino) {
            return Some(id);
        }
        if let Some(id) = self.by_ino.get(&ino) {
            self.last = Some((ino, *id));
            return Some(*id);
        }
        let id = u32::try_from(self.inos.len()).ok().filter(|_| self.inos.len() < self.most);
        self.full |= id.is_none();
        let id = id?;
        self.inos.push(ino);
        self.by_ino.insert(ino, id);
        Some(id)
    }

    /// The inodes by number.
    pub(crate) fn inos(&self) -> &[u64] {
        &self.inos
    }

    /// Whether there was an inode that got no number.
    pub(crate) const fn is_full(&self) -> bool {
        self.full
    }

    /// Forgets all numbers.
    pub(crate) fn clear(&mut self) {
        (self.full, self.last) = (false, None);
        self.inos.clear();
        self.by_ino.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn four_bytes_hold_it_all() {
        for age in [1, 2, 254, 255] {
            for order in [0, 9, 18, 31] {
                for kind in Kind::ALL {
                    for id in [0, 1, (1 << ID) - 1] {
                        let known = Known::new(age, order, kind, id);
                        let parts = (known.age(), known.order(), known.kind(), known.id());
                        assert_eq!(parts, (age, order, kind, id));
                        let older = known.older();
                        let parts = (older.age(), older.order(), older.kind(), older.id());
                        assert_eq!(parts, (age.saturating_add(1), order, kind, id));
                    }
                }
            }
        }
    }

    #[test]
    fn ids_are_given_once_and_run_out() {
        let mut ids = Ids { most: 2, ..Ids::default() };
        assert_eq!(
            [7, 9, 7, 8, 9].map(|ino| ids.of(ino)),
            [Some(0), Some(1), Some(0), None, Some(1)]
        );
        assert_eq!(ids.inos(), [7, 9]);
        assert!(ids.is_full());
        ids.clear();
        assert_eq!((ids.of(8), ids.is_full()), (Some(0), false));
    }
}
