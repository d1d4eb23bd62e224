//! What pages out after an idle time, played back over the record: all idle times at once.
//!
//! Each idle time is a scheme, and schemes see nothing of what the others have taken. So one pass
//! over the record tells of all of them.
//!
//! Absent: errors of a replay, which nobody knows. What a plan bounds is its curve.

use isotherm_record::Record;

use super::Price;
use crate::error::Error;
use crate::filter::Filter;
use crate::replay::{self, Replayed, What};

/// The scheme that pages out after an idle time, in µs, without quota and brake.
pub type AfterIdle<'a> = &'a dyn Fn(u64) -> What;

/// What became of the memory in the second half of the record.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Played {
    /// The share of resident memory that was out, on average.
    pub(super) saved_share: f64,
    pub(super) pages_back_per_s: f64,
}

/// By idle time, in seconds, as they are given.
pub(super) fn back(
    record: &Record,
    filter: &Filter,
    ages_s: &[f64],
    after: AfterIdle<'_>,
) -> Result<Vec<Played>, Error> {
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "idle times")]
    let schemes: Vec<What> = ages_s.iter().map(|age_s| after((age_s * 1e6) as u64)).collect();
    let context = Replayed { name: "plan", schemes: &schemes };
    // What it costs is reckoned elsewhere.
    let price = Price::assumed();
    let report = replay::Report::build(record, filter, &context, &|_| true, price)?;
    let played = report.schemes.iter().map(|scheme| Played {
        saved_share: scheme.saved_share_late,
        pages_back_per_s: scheme.pages_back_per_s,
    });
    Ok(played.collect())
}
