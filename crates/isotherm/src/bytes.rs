//! Sizes of memory, in bytes.

use std::fmt;
use std::iter::Sum;
use std::ops::{Add, AddAssign, Sub};

use isotherm_core::units;

/// A size in bytes. Sums saturate at [`u64::MAX`], differences at 0.
///
/// ```
/// use isotherm::Bytes;
///
/// assert_eq!(Bytes::mib(3) + Bytes::kib(512), Bytes(3_670_016));
/// assert_eq!(Bytes::mib(3).to_string(), "3.00 MiB");
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Bytes(pub u64);

impl Bytes {
    /// So many KiB (1024 bytes).
    #[must_use]
    pub const fn kib(n: u64) -> Self {
        Self(n.saturating_mul(1 << 10))
    }

    /// So many MiB (1024 KiB).
    #[must_use]
    pub const fn mib(n: u64) -> Self {
        Self(n.saturating_mul(1 << 20))
    }

    /// So many GiB (1024 MiB).
    #[must_use]
    pub const fn gib(n: u64) -> Self {
        Self(n.saturating_mul(1 << 30))
    }

    /// The number of bytes.
    #[must_use]
    pub const fn get(self) -> u64 {
        self.0
    }
}

/// Rounded to three digits, as [`units::bytes`] writes it. Width and alignment of the format apply.
impl fmt::Display for Bytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&units::bytes(self.0))
    }
}

impl From<u64> for Bytes {
    fn from(bytes: u64) -> Self {
        Self(bytes)
    }
}

impl Add for Bytes {
    type Output = Self;
    fn add(self, more: Self) -> Self {
        Self(self.0.saturating_add(more.0))
    }
}

impl AddAssign for Bytes {
    fn add_assign(&mut self, more: Self) {
        *self = *self + more;
    }
}

impl Sub for Bytes {
    type Output = Self;
    fn sub(self, less: Self) -> Self {
        Self(self.0.saturating_sub(less.0))
    }
}

impl Sum for Bytes {
    fn sum<I: Iterator<Item = Self>>(sizes: I) -> Self {
        sizes.fold(Self(0), Add::add)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn width_and_alignment_apply() {
        assert_eq!(
            format!("{:>10}|{:<10}|", Bytes::mib(3), Bytes::kib(20)),
            "  3.00 MiB|20.0 KiB  |"
        );
    }

    #[test]
    fn sums_and_differences_saturate() {
        assert_eq!(Bytes(u64::MAX) + Bytes(1), Bytes(u64::MAX));
        assert_eq!(Bytes(1) - Bytes(2), Bytes(0));
        assert_eq!([Bytes(1), Bytes(2)].into_iter().sum::<Bytes>(), Bytes(3));
    }
}
