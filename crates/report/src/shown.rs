//! What all reports need to become text.

use std::fmt;

/// What `f` writes, as a text. Writing to a text cannot fail.
#[must_use]
pub(crate) fn written(f: impl FnOnce(&mut String) -> fmt::Result) -> String {
    let mut out = String::new();
    f(&mut out).unwrap_or_default();
    out
}

/// A number of bytes, as MiB.
#[must_use]
pub(crate) fn mib(bytes: u64) -> String {
    isotherm_core::units::mib(float(bytes))
}

/// A size or a time as a number for people. Below 2^53 it is exact.
#[expect(clippy::cast_precision_loss, reason = "for people")]
#[must_use]
pub(crate) fn float(x: u64) -> f64 {
    x as f64
}
