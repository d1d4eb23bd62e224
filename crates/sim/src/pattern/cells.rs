//! The stretches of a region in which accesses are counted.

use serde::{Deserialize, Serialize};

/// Equally spaced pieces of one region, and the cells in which accesses to them are counted.
///
/// Piece `i` is `[offset + i * pitch, offset + i * pitch + len)`, cut at `end`. A cell is one piece
/// or, if there are `sets`, all pieces of a set. The pieces of a set are accessed alike, so one
/// count for them says as much as a hundred thousand, and the truth stays small.
///
/// Example: pieces of 2 MiB in 1 GiB, of which the set `[3, 200]` is hot. Then cell 0 has 4 MiB: 2
/// from 6 MiB on, and 2 from 400 MiB on.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Cells {
    /// Where the first piece begins, in bytes from the region's start.
    pub offset: u64,
    /// Distance from one to the next.
    pub pitch: u64,
    /// Size of one.
    pub len: u64,
    /// Pieces are cut at this byte.
    pub end: u64,
    /// The pieces of each cell, by their numbers, which rise. Empty if every piece is a cell. In a
    /// file, each number but the first of a set is given as its distance from the one before.
    #[serde(default, skip_serializing_if = "Vec::is_empty", with = "distances")]
    pub sets: Vec<Vec<u32>>,
}

impl Cells {
    /// One cell.
    #[must_use]
    pub const fn one(offset: u64, end: u64) -> Self {
        Self { offset, pitch: end - offset, len: end - offset, end, sets: Vec::new() }
    }

    /// Neighbouring pieces of `len` bytes.
    #[must_use]
    pub const fn blocks(offset: u64, end: u64, len: u64) -> Self {
        Self { offset, pitch: len, len, end, sets: Vec::new() }
    }

    /// Number of cells.
    #[must_use]
    pub fn count(&self) -> u64 {
        if self.sets.is_empty() { self.nr_pieces() } else { self.sets.len() as u64 }
    }

    /// Number of pieces.
    #[must_use]
    pub const fn nr_pieces(&self) -> u64 {
        self.end.saturating_sub(self.offset).div_ceil(if self.pitch == 0 { 1 } else { self.pitch })
    }

    /// Bytes of the region that piece `i` covers, as (start, end).
    #[must_use]
    pub fn piece(&self, i: u64) -> (u64, u64) {
        let start = self.offset.saturating_add(i.saturating_mul(self.pitch)).min(self.end);
        (start, start.saturating_add(self.len).min(self.end))
    }

    /// Bytes of the region that cell `i` covers, piece by piece as (start, end), in address order.
    /// A cell that does not exist covers nothing.
    pub fn pieces_of(&self, i: u64) -> impl Iterator<Item = (u64, u64)> {
        let set = usize::try_from(i).ok().and_then(|i| self.sets.get(i));
        let itself = self.sets.is_empty().then_some(i);
        let of_set = set.into_iter().flatten().map(|piece| u64::from(*piece));
        itself.into_iter().chain(of_set).map(|piece| self.piece(piece))
    }

    /// Number of pages of 4 KiB that hold a byte of any piece, if pieces begin at page starts.
    #[must_use]
    pub fn pages(&self) -> u64 {
        let n = self.nr_pieces();
        let last = n.saturating_sub(1);
        let (start, end) = self.piece(last);
        last.saturating_mul(self.len.div_ceil(4096)).saturating_add((end - start).div_ceil(4096))
    }
}

/// Rising numbers as distances: a tenth of a million numbers as 3 bytes each rather than 7.
mod distances {
    use serde::de::Error as _;
    use serde::{Deserialize as _, Deserializer, Serializer};

    pub(super) fn serialize<S: Serializer>(
        sets: &[Vec<u32>],
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        let of_set = |set: &Vec<u32>| -> Vec<u32> {
            let mut last = 0;
            set.iter().map(|i| i - std::mem::replace(&mut last, *i)).collect()
        };
        serializer.collect_seq(sets.iter().map(of_set))
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<Vec<Vec<u32>>, D::Error> {
        let mut sets = Vec::<Vec<u32>>::deserialize(deserializer)?;
        for set in &mut sets {
            let mut last = 0_u32;
            for i in set {
                last =
                    last.checked_add(*i).ok_or_else(|| D::Error::custom("a piece above 2^32"))?;
                *i = last;
            }
        }
        Ok(sets)
    }
}
