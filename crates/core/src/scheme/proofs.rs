//! Harnesses for the model checker Kani. They prove for all values of a domain what
//! `tests/arith.rs` tests.
//!
//! `ci/kani` runs them where Kani is installed, with Kani's own compiler. They are built under
//! `cfg(kani)` only. A domain is small where a division would otherwise take the solver hours.

use super::quota::{FailCharge, Quota, QuotaState};
use crate::math::feed;

const ONE: u64 = 10_000;

#[kani::proof]
fn feed_moves_towards_the_goal() {
    let (last, score): (u64, u64) = (kani::any(), kani::any());
    kani::assume(ONE <= last && last < 1 << 24 && score < 1 << 16);
    let next = feed(last, score);
    assert!(ONE <= next && next <= 2 * last);
    assert!(if score <= ONE { next >= last } else { next <= last });
}

/// Nothing overflows, whatever the state and the score.
#[kani::proof]
fn feed_is_total() {
    let _next = feed(kani::any(), kani::any());
}

#[kani::proof]
fn charge_is_no_more_than_tried() {
    let (tried, applied): (u32, u32) = (kani::any(), kani::any());
    let (num, denom): (u8, u8) = (kani::any(), kani::any());
    kani::assume(num <= denom);
    let charge = FailCharge { num: num.into(), denom: denom.into() };
    assert!(charge.charge(tried.into(), applied.into()) <= tried.into());
}

/// The effective size is no larger than a size limit, with and without a time limit.
#[kani::proof]
fn esz_is_below_the_limit() {
    let (ms, sz): (u16, u32) = (kani::any(), kani::any());
    let quota = Quota { ms: ms.into(), sz: sz.into(), ..Quota::default() };
    let mut state = QuotaState::default();
    state.set_effective(&quota, 4096, kani::any());
    assert!(sz == 0 || state.esz <= sz.into());
}
