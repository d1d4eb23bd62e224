//! The values of fields that a policy leaves out. They limit what a scheme can do, and avoid harm
//! to the targets.

use isotherm_act::apply::Evidence;
use isotherm_core::scheme::{Action, Age, Brake, Pattern, Quota, Weights};
use isotherm_core::{Attrs, Method};
use isotherm_ops::support::SetName;

use super::ContextPolicy;

/// The shortest sample interval, in µs. To wake up and look takes tens of microseconds, so a
/// shorter one could not be kept, and the monitor would do nothing else.
pub const LEAST_SAMPLE_US: u64 = 100;

/// The attributes: those of [`Attrs::default`], but a census, which sees single pages. A set that
/// has no units samples in its usual way instead.
#[must_use]
pub fn attrs() -> Attrs {
    Attrs { method: Method::Census, ..Attrs::default() }
}

/// The method of a context for which none is given. A census by marks of idle pages takes long, so
/// over that set, and over physical memory, some pages are watched. Only `first_touch` counts
/// single clears, and `strict` is to do as the kernel does.
#[must_use]
pub fn method(context: &ContextPolicy) -> Method {
    let usual = Attrs::default();
    let ContextPolicy { ops, attrs, .. } = context;
    let by_marks = *ops == Some(SetName::Idle) || context.memory().is_some();
    let is_single = attrs.strict || attrs.clears_per_sec != usual.clears_per_sec;
    if by_marks || is_single { usual.method } else { Method::Census }
}

/// Length of a quota window, in ms.
pub(crate) const QUOTA_INTERVAL_MS: u64 = 1000;

/// Whether an action takes memory away from its process.
#[must_use]
pub const fn takes_away(action: Action) -> bool {
    matches!(action, Action::Pageout | Action::Cold | Action::MigrateCold)
}

/// Whether an action moves or writes memory. Such schemes have a quota unless the policy says
/// `none`.
const fn moves(action: Action) -> bool {
    matches!(action, Action::Pageout | Action::MigrateCold | Action::MigrateHot)
}

/// Whether the evidence settings change anything for an action.
#[must_use]
pub const fn uses_evidence(action: Action) -> bool {
    takes_away(action) || matches!(action, Action::Collapse)
}

/// The quota of a scheme that has none: for actions that move memory, 128 MiB and 10 ms per second,
/// as `DAMON_RECLAIM` has them.
#[must_use]
pub fn quota(action: Action) -> Quota {
    if !moves(action) {
        return Quota::default();
    }
    Quota {
        reset_interval_ms: QUOTA_INTERVAL_MS,
        ms: 10,
        sz: 128 << 20,
        weights: weights(action),
        ..Quota::default()
    }
}

/// The weights of regions. Cold memory is ordered by age alone, since its frequency is the same;
/// other memory by frequency and age.
#[must_use]
pub const fn weights(action: Action) -> Weights {
    Weights { sz: 0, nr_accesses: if takes_away(action) { 0 } else { 1 }, age: 1 }
}

/// The brake of a scheme.
#[must_use]
pub fn brake(action: Action) -> Option<Brake> {
    takes_away(action).then(Brake::default)
}

/// The evidence of a scheme. Pages are confirmed for as long as the scheme's least age, but at
/// least 1 s and at most 60 s.
#[must_use]
pub fn evidence(pattern: &Pattern, attrs: &Attrs) -> Evidence {
    let us = match pattern.age {
        Age::Micros(bounds) => bounds.min,
        Age::Windows(bounds) => u64::from(bounds.min).saturating_mul(attrs.aggr_us),
    };
    Evidence::Confirm(us.clamp(1_000_000, 60_000_000))
}
