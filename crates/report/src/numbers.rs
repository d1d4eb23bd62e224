//! Conversions from floating point to whole numbers.

/// Rounds to the nearest whole number. Saturates; NaN gives 0.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "`as` saturates, which is meant"
)]
#[must_use]
pub(crate) fn to_u64(x: f64) -> u64 {
    x.round() as u64
}

/// [`to_u64`] for indices.
#[must_use]
pub(crate) fn to_usize(x: f64) -> usize {
    usize::try_from(to_u64(x)).unwrap_or(usize::MAX)
}
