//! Random numbers as in the kernel: its generator, and its mapping to a range.
//!
//! A run is replayed bit for bit by its seed. [`Rng::constant`] is the source under which the
//! golden traces of the reference were taken (`DAMON-REFERENCE` §8.5).

/// A source of random `u32`s.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rng(Source);

#[derive(Debug, Clone, PartialEq, Eq)]
enum Source {
    Taus113([u32; 4]),
    Constant(u32),
}

/// Shifts and masks of the four components of taus113 (`prandom_u32_state()`, `lib/random32.c`).
const TAUS: [(u32, u32, u32, u32); 4] = [
    (6, 13, 0xFFFF_FFFE, 18),
    (2, 27, 0xFFFF_FFF8, 2),
    (13, 21, 0xFFFF_FFF0, 7),
    (3, 12, 0xFFFF_FF80, 13),
];

/// Least seeds of the four components, so that none of them degenerates.
const LEAST_SEED: [u32; 4] = [2, 8, 16, 128];

impl Rng {
    /// The kernel's generator, seeded as `prandom_seed_state()` does, without warm-up.
    #[must_use]
    #[expect(
        clippy::cast_possible_truncation,
        reason = "the reference folds 64 bits into the low 32"
    )]
    pub fn seeded(seed: u64) -> Self {
        let i = ((seed >> 32) ^ (seed << 10) ^ seed) as u32;
        Self(Source::Taus113(
            LEAST_SEED.map(|least| if i < least { i.wrapping_add(least) } else { i }),
        ))
    }

    /// A source that always gives `value`.
    #[must_use]
    pub const fn constant(value: u32) -> Self {
        Self(Source::Constant(value))
    }

    /// The next random number.
    #[inline]
    pub fn next_u32(&mut self) -> u32 {
        match &mut self.0 {
            Source::Constant(value) => *value,
            Source::Taus113(state) => {
                let mut out = 0;
                for (s, (a, b, mask, d)) in state.iter_mut().zip(TAUS) {
                    *s = ((*s & mask) << d) ^ (((*s << a) ^ *s) >> b);
                    out ^= *s;
                }
                out
            }
        }
    }

    /// A random number in `[l, r)`; `l` if the range is empty (`damon_rand()`).
    ///
    /// Nothing here takes the address of the generator, so that a loop can keep its state in
    /// registers.
    #[inline]
    pub fn range(&mut self, l: u64, r: u64) -> u64 {
        let span = r.wrapping_sub(l);
        let first = u64::from(self.next_u32());
        if span <= u64::from(u32::MAX) {
            return l.wrapping_add((first * span) >> 32);
        }
        let x = (first << 32) | u64::from(self.next_u32());
        let product = u128::from(x) * u128::from(span);
        l.wrapping_add(u64::try_from(product >> 64).unwrap_or(u64::MAX))
    }
}
