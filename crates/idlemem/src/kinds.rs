//! Kinds of memory, and for how long it was idle.

use isotherm_pages::frames::Flags;
use serde::Serialize;

/// What sort of memory a folio is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    /// Anonymous.
    Anon,
    /// Of a file or shared, and mapped by a process.
    Mapped,
    /// Of a file or shared, and not mapped: read and written by system calls only.
    Unmapped,
    /// Cannot be reclaimed (locked in memory), of whatever kind. Sums of idle memory leave it out.
    Unevictable,
}

impl Kind {
    /// All kinds.
    pub const ALL: [Self; 4] = [Self::Anon, Self::Mapped, Self::Unmapped, Self::Unevictable];

    /// By the flags of a folio's first frame.
    #[must_use]
    pub const fn of(flags: Flags) -> Self {
        if flags.has(Flags::UNEVICTABLE) {
            Self::Unevictable
        } else if flags.has(Flags::ANON) {
            Self::Anon
        } else if flags.has(Flags::MMAP) {
            Self::Mapped
        } else {
            Self::Unmapped
        }
    }

    /// Its place in [`Kind::ALL`].
    #[must_use]
    pub const fn nr(self) -> usize {
        self as usize
    }
}

/// Classes of age: idle for at least 1, 2, 4, ..., 128 intervals.
pub const CLASSES: usize = 8;

/// The class of an age in whole intervals, at least 1; ages stop at 255.
#[must_use]
pub const fn class(age: u8) -> usize {
    match age.checked_ilog2() {
        Some(log) => log as usize,
        None => 0,
    }
}

/// Bytes by kind and class of age; a byte is in one class only.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Bytes {
    cells: [[f64; CLASSES]; Kind::ALL.len()],
    /// Sum of the squares of what the single places of a sample contributed; see
    /// [`Bytes::variance`].
    squares: f64,
}

impl Bytes {
    /// Adds bytes of that kind and age. `weight` is how many bytes of memory each stands for.
    pub fn add(&mut self, kind: Kind, age: u8, bytes: u64, weight: f64) {
        self.cells[kind.nr()][class(age)] += approx(bytes) * weight;
    }

    /// Notes how many bytes of idle memory one place of a sample gave. The place is one of
    /// `weight`.
    pub fn add_place(&mut self, bytes: u64, weight: f64) {
        self.squares += approx(bytes) * approx(bytes) * weight * (weight - 1.0);
    }

    /// Adds all of `other`.
    pub fn add_all(&mut self, other: &Self) {
        for (mine, theirs) in self.cells.iter_mut().flatten().zip(other.cells.iter().flatten()) {
            *mine += theirs;
        }
        self.squares += other.squares;
    }

    /// Idle bytes of a kind.
    #[must_use]
    pub fn of_kind(&self, kind: Kind) -> u64 {
        exact(self.cells[kind.nr()].iter().sum())
    }

    /// Idle bytes that can be reclaimed.
    #[must_use]
    pub fn idle(&self) -> u64 {
        exact(self.evictable().flatten().sum())
    }

    /// Idle bytes that can be reclaimed, by class: idle for at least 1, 2, 4, ... intervals.
    #[must_use]
    pub fn at_least(&self) -> [u64; CLASSES] {
        let mut out = [0.0; CLASSES];
        for cells in self.evictable() {
            let mut above = 0.0;
            for (sum, cell) in out.iter_mut().zip(cells).rev() {
                above += cell;
                *sum += above;
            }
        }
        out.map(exact)
    }

    /// The standard deviation of [`Bytes::idle`], in bytes, that comes from looking at a sample
    /// only. Places are drawn independently of each other, each with the same probability (Poisson
    /// sampling).
    #[must_use]
    pub fn deviation(&self) -> u64 {
        exact(self.squares.max(0.0).sqrt())
    }

    fn evictable(&self) -> impl Iterator<Item = &[f64; CLASSES]> {
        self.cells[..Kind::Unevictable.nr()].iter()
    }
}

#[expect(clippy::cast_precision_loss, reason = "memory sizes are far below 2^53")]
const fn approx(bytes: u64) -> f64 {
    bytes as f64
}

#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "sums of memory sizes")]
fn exact(bytes: f64) -> u64 {
    bytes.round() as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kinds_come_from_flags() {
        let bits = |flags: &[Flags]| Flags(flags.iter().map(|f| f.0).fold(0, |a, b| a | b));
        for (flags, kind) in [
            (bits(&[Flags::LRU, Flags::ANON, Flags::MMAP]), Kind::Anon),
            (bits(&[Flags::LRU, Flags::ANON]), Kind::Anon),
            (bits(&[Flags::LRU, Flags::MMAP]), Kind::Mapped),
            (bits(&[Flags::LRU]), Kind::Unmapped),
            (bits(&[Flags::LRU, Flags::ANON, Flags::MMAP, Flags::UNEVICTABLE]), Kind::Unevictable),
        ] {
            assert_eq!(Kind::of(flags), kind, "{flags}");
        }
    }

    #[test]
    fn ages_fall_into_classes_and_add_up_from_above() {
        for (age, expected) in
            [(1, 0), (2, 1), (3, 1), (4, 2), (7, 2), (8, 3), (127, 6), (128, 7), (255, 7)]
        {
            assert_eq!(class(age), expected, "age {age}");
        }
        let mut bytes = Bytes::default();
        bytes.add(Kind::Anon, 1, 100, 1.0);
        bytes.add(Kind::Mapped, 5, 10, 2.0);
        bytes.add(Kind::Unmapped, 200, 1, 1.0);
        bytes.add(Kind::Unevictable, 200, 1000, 1.0);
        assert_eq!(bytes.idle(), 121);
        assert_eq!(bytes.at_least(), [121, 21, 21, 1, 1, 1, 1, 1]);
        assert_eq!(Kind::ALL.map(|kind| bytes.of_kind(kind)), [100, 20, 1, 1000]);
        let mut twice = bytes;
        twice.add_all(&bytes);
        assert_eq!((twice.idle(), twice.of_kind(Kind::Unevictable)), (242, 2000));
    }

    #[test]
    fn a_whole_count_has_no_deviation_and_a_sample_has() {
        let mut bytes = Bytes::default();
        bytes.add_place(4096, 1.0);
        assert_eq!(bytes.deviation(), 0);
        for _ in 0..100 {
            bytes.add_place(4096, 4.0);
        }
        // 100 of 400 places drawn: sqrt(100 * 4 * 3) pages.
        assert_eq!(bytes.deviation(), 141_890);
    }
}
