//! Intervals of a share that was estimated from a sample.

/// The standard normal's 95 % point: a two-sided interval of 90 %.
pub const Z90: f32 = 1.644_854;

/// The Wilson score interval, at 90 %, of a share estimated as `p` from `n` independent observations
/// (E. B. Wilson, "Probable Inference, the Law of Succession, and Statistical Inference", JASA 22,
/// 1927), widened by half an observation on either side: pages and samples come in whole numbers, so
/// 19 of 20 does not rule out all (R. G. Newcombe, Statistics in Medicine 17, 1998, method 4, in its
/// simplest form). `n` may be fractional (an effective number). Unlike the normal interval it stays
/// inside `[0, 1]` and is honest at both ends: 0 of 4 gives `(0, 0.53)`.
///
/// Nothing observed gives `(0, 1)`.
#[must_use]
pub fn wilson(p: f32, n: f32) -> (f32, f32) {
    if n <= 0.0 {
        return (0.0, 1.0);
    }
    let z2n = Z90 * Z90 / n;
    let scale = 1.0 / (1.0 + z2n);
    let mid = (p + z2n / 2.0) * scale;
    let variance = (p * (1.0 - p)).max(0.0) / n + z2n / (4.0 * n);
    let half = Z90 * libm::sqrtf(variance) * scale + 0.5 / n;
    ((mid - half).clamp(0.0, p), (mid + half).clamp(p, 1.0))
}
