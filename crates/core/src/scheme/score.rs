//! Priority scores: which regions come first when a quota is too small for all (R§4.7).

use super::action::Order;
use super::quota::Weights;
use crate::attrs::Attrs;
use crate::math::mult_frac;

/// The highest score.
pub const MAX_SCORE: u32 = 99;

/// The facts of a region that a score is made of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Facts {
    /// Size, in bytes.
    pub sz: u64,
    /// Samples per window.
    pub nr_accesses: u32,
    /// Windows.
    pub age: u32,
}

/// How hot a region is, 0 to 99 (`damon_hot_score()`). The kernel ignores the weight of the size
/// (R§9.2.9), and so does `strict`. Otherwise the weight of the size lets larger regions come
/// first.
#[must_use]
pub fn hot(facts: Facts, weights: Weights, attrs: &Attrs) -> u32 {
    let max_nr = u64::from(attrs.max_nr_accesses());
    let freq = mult_frac(u64::from(facts.nr_accesses), 100, max_nr);
    let seconds = u64::from(facts.age).saturating_mul(attrs.aggr_us) / 1_000_000;
    // The kernel cuts the seconds to 32 bits.
    let seconds = u32::try_from(seconds & u64::from(u32::MAX)).unwrap_or(u32::MAX);
    let log = u64::from((u32::BITS - seconds.leading_zeros()).min(32));
    let age = if freq == 0 { (32 - log) * 100 / 32 / 2 } else { (32 + log) * 100 / 32 / 2 };
    let (wf, wa) = (u64::from(weights.nr_accesses), u64::from(weights.age));
    let ws = if attrs.strict { 0 } else { u64::from(weights.sz) };
    let sum = wf + wa + ws;
    let weighted = wf * freq + wa * age + ws * size_part(facts.sz, freq == 0);
    let score = weighted.checked_div(sum).unwrap_or(0);
    u32::try_from(score * u64::from(MAX_SCORE) / 100).unwrap_or(MAX_SCORE).min(MAX_SCORE)
}

/// Size on a scale of 0 to 100, by powers of two. For cold regions the scale is turned round,
/// because their score is the maximum minus the hot score.
fn size_part(sz: u64, cold: bool) -> u64 {
    let part = u64::from(u64::BITS - sz.leading_zeros()) * 100 / u64::from(u64::BITS);
    if cold { 100 - part } else { part }
}

/// The priority score of a region for an action of this order.
#[must_use]
pub fn score(order: Order, facts: Facts, weights: Weights, attrs: &Attrs) -> u32 {
    match order {
        Order::Any => MAX_SCORE,
        Order::HotFirst => hot(facts, weights, attrs),
        Order::ColdFirst => MAX_SCORE - hot(facts, weights, attrs),
    }
}

/// Bytes per score.
pub(crate) type Histogram = [u64; MAX_SCORE as usize + 1];

/// The lowest score that is let in. Scores are let in from the highest one down, until they have
/// `esz` bytes.
#[must_use]
pub fn min_score(histogram: &[u64], esz: u64) -> u32 {
    let mut sum = 0_u64;
    let at = histogram.iter().rposition(|bytes| {
        sum = sum.saturating_add(*bytes);
        sum != 0 && sum >= esz
    });
    at.and_then(|score| u32::try_from(score).ok()).unwrap_or(0)
}
