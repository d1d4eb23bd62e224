//! Variable-length integers: seven bits per byte, low bits first. The top bit is set if more bytes
//! follow.
//!
//! Signed differences go through the zigzag map (0, -1, 1, -2, ... to 0, 1, 2, 3, ...), computed
//! with wrapping arithmetic, so that the difference of any two 64-bit numbers exists and can be
//! added back.

/// Appends `x` to `out`, 1 to 10 bytes.
pub(crate) fn put(out: &mut Vec<u8>, mut x: u64) {
    while x >= 0x80 {
        out.push(x.to_le_bytes()[0] | 0x80);
        x >>= 7;
    }
    out.push(x.to_le_bytes()[0]);
}

/// Maps a signed number to an unsigned one; small magnitudes stay small.
pub(crate) fn zigzag(x: i64) -> u64 {
    ((x << 1) ^ (x >> 63)).cast_unsigned()
}

/// Undoes [`zigzag`].
pub(crate) fn unzigzag(x: u64) -> i64 {
    (x >> 1).cast_signed() ^ -((x & 1).cast_signed())
}

/// Appends the wrapping difference `x - base`.
pub(crate) fn put_delta(out: &mut Vec<u8>, base: u64, x: u64) {
    put(out, zigzag(x.wrapping_sub(base).cast_signed()));
}

/// Reads numbers from the front of a slice. Every method returns `None` if too few bytes are left.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Cursor<'a> {
    rest: &'a [u8],
}

impl<'a> Cursor<'a> {
    /// Starts at the front of `bytes`.
    pub(crate) fn new(bytes: &'a [u8]) -> Self {
        Self { rest: bytes }
    }

    /// Bytes that are left.
    pub(crate) fn len(&self) -> usize {
        self.rest.len()
    }

    /// One byte.
    #[inline]
    pub(crate) fn byte(&mut self) -> Option<u8> {
        let (&first, rest) = self.rest.split_first()?;
        self.rest = rest;
        Some(first)
    }

    /// The next `n` bytes.
    pub(crate) fn take(&mut self, n: usize) -> Option<&'a [u8]> {
        let (head, rest) = self.rest.split_at_checked(n)?;
        self.rest = rest;
        Some(head)
    }

    /// One variable-length number; `None` also if it would not fit 64 bits.
    #[inline]
    pub(crate) fn get(&mut self) -> Option<u64> {
        let first = self.byte()?;
        if first < 0x80 {
            return Some(u64::from(first));
        }
        let mut x = u64::from(first & 0x7f);
        let mut shift = 7;
        loop {
            let b = self.byte()?;
            let bits = u64::from(b & 0x7f);
            if shift == 63 && bits > 1 {
                return None;
            }
            x |= bits << shift;
            if b < 0x80 {
                return Some(x);
            }
            shift += 7;
            if shift > 63 {
                return None;
            }
        }
    }

    /// One number that must fit 32 bits.
    pub(crate) fn get_u32(&mut self) -> Option<u32> {
        u32::try_from(self.get()?).ok()
    }

    /// A count of items, each of which takes at least one byte of `bytes`. So a larger count is
    /// refused.
    pub(crate) fn get_count(&mut self, bytes: usize) -> Option<usize> {
        let n = usize::try_from(self.get()?).ok()?;
        (n <= bytes).then_some(n)
    }

    /// A number written by [`put_delta`] against `base`.
    #[inline]
    pub(crate) fn get_delta(&mut self, base: u64) -> Option<u64> {
        Some(base.wrapping_add(unzigzag(self.get()?).cast_unsigned()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn known_bytes() {
        for (x, bytes) in [(0u64, &[0u8][..]), (127, &[127]), (128, &[0x80, 1]), (300, &[0xac, 2])]
        {
            let mut out = Vec::new();
            put(&mut out, x);
            assert_eq!(out, bytes, "{x}");
        }
        assert_eq!(Cursor::new(&[0x80]).get(), None, "runs out");
        assert_eq!(Cursor::new(&[0xff; 11]).get(), None, "too long");
        assert_eq!(
            Cursor::new(&[0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 2]).get(),
            None
        );
    }

    proptest! {
        #[test]
        fn round_trip(x: u64, base: u64) {
            let mut out = Vec::new();
            put(&mut out, x);
            put_delta(&mut out, base, x);
            let mut c = Cursor::new(&out);
            prop_assert_eq!(c.get(), Some(x));
            prop_assert_eq!(c.get_delta(base), Some(x));
            prop_assert_eq!(c.len(), 0);
        }
    }
}
