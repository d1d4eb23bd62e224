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

    /// As many numbers as `out` has places. Numbers of one byte, which most are, are read eight at
    /// a time.
    pub(crate) fn get_all(&mut self, out: &mut [u64]) -> Option<()> {
        const LONG: u64 = 0x8080_8080_8080_8080;
        let mut out = out.iter_mut();
        while out.len() >= 8
            && let Some((eight, rest)) = self.rest.split_first_chunk::<8>()
        {
            if u64::from_le_bytes(*eight) & LONG == 0 {
                out.by_ref().zip(eight).for_each(|(x, byte)| *x = u64::from(*byte));
                self.rest = rest;
            } else {
                for x in out.by_ref().take(8) {
                    *x = self.get()?;
                }
            }
        }
        for x in out {
            *x = self.get()?;
        }
        Some(())
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
        fn all_at_once_as_one_by_one(
            xs in prop::collection::vec(prop_oneof![9 => 0u64..128, 1 => any::<u64>()], 0..60),
            cut in 0usize..3,
        ) {
            let mut bytes = Vec::new();
            xs.iter().for_each(|x| put(&mut bytes, *x));
            bytes.push(7);
            let mut all = vec![0; xs.len()];
            let mut c = Cursor::new(&bytes);
            prop_assert_eq!(c.get_all(&mut all), Some(()));
            prop_assert_eq!(&all, &xs);
            prop_assert_eq!(c.len(), 1, "what is behind is left");
            let short = &bytes[..bytes.len().saturating_sub(2 + cut)];
            let read = Cursor::new(short).get_all(&mut all);
            prop_assert_eq!(read.is_none(), !xs.is_empty());
        }

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
