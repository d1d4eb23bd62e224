//! Random numbers without state: each depends only on the seed and on what is asked.

/// A random number in [0, 1) that depends only on `keys`.
pub(super) fn unit(keys: &[u64]) -> f64 {
    let mut h = 0x243f_6a88_85a3_08d3_u64;
    for key in keys {
        h = mix(h ^ *key);
    }
    // The upper 53 bits, which an f64 holds exactly.
    super::lane::to_f64(h >> 11) / super::lane::to_f64(1 << 53)
}

/// An exponentially distributed number with mean 1.
pub(super) fn exponential(keys: &[u64]) -> f64 {
    -(1.0 - unit(keys)).ln()
}

/// The finalizer of `SplitMix64`: every input bit moves every output bit.
const fn mix(x: u64) -> u64 {
    let x = x.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ (x >> 31)
}
