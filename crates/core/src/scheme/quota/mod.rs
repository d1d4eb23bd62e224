//! Quotas: how much a scheme may do per window of wall-clock time (R§4.4).
//!
//! The *effective size* is the least of three numbers of bytes: the size limit, the time limit
//! times the measured throughput, and what the tuner computes from the goals. It is computed when a
//! window begins. Within the window, bytes are charged against it.
//!
//! Unless `strict`, the defects R§9.2.4 to R§9.2.7 are not reproduced. A new quota does not count
//! what was charged before it was set. The throughput follows the last windows. The tuner's memory
//! is bounded by the limits and starts at one region. The time used is a limit by itself, whatever
//! the throughput predicted.

mod brake;
pub mod follow;
pub mod goal;
pub mod rest;

use alloc::vec::Vec;

use crate::addr::round_down;
use crate::math::mult_frac;
use crate::time::Time;

pub use brake::Brake;
use brake::Braked;
pub(crate) use brake::Totals;
use goal::{Goal, Tuner};

/// The weights of the parts of a region's priority. Only their ratio matters.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Weights {
    /// Size; ignored by the kernel.
    pub sz: u32,
    /// Access frequency.
    pub nr_accesses: u32,
    /// Age.
    pub age: u32,
}

/// The share of failed bytes that is charged.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct FailCharge {
    /// Numerator.
    pub num: u32,
    /// Denominator. 0: failed bytes are charged in full.
    pub denom: u32,
}

impl FailCharge {
    /// Bytes to charge when `applied` of `tried` bytes succeeded.
    #[must_use]
    pub fn charge(self, tried: u64, applied: u64) -> u64 {
        if self.denom == 0 || applied > tried {
            return tried;
        }
        applied.saturating_add(mult_frac(tried - applied, self.num.into(), self.denom.into()))
    }
}

/// A quota (`struct damos_quota`, Linux 7.2).
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
pub struct Quota {
    /// Length of a window, in ms. 0: each application has its own window.
    pub reset_interval_ms: u64,
    /// The most time to use per window, in ms. 0: no limit.
    pub ms: u64,
    /// The most bytes per window. 0: no limit.
    pub sz: u64,
    /// The goals that the quota is tuned for.
    pub goals: Vec<Goal>,
    /// How the quota follows its goals.
    pub tuner: Tuner,
    /// The share of failed bytes that is charged.
    pub fail_charge: FailCharge,
    /// The weights of the priority score.
    pub weights: Weights,
    /// When the scheme slows down by itself. Not in the kernel.
    pub brake: Option<Brake>,
}

impl Quota {
    /// Whether there is any limit.
    #[must_use]
    pub const fn is_set(&self) -> bool {
        self.ms != 0 || self.sz != 0 || !self.goals.is_empty()
    }

    /// The score of the goals, in basis points: that of the goal that is reached best. Goals
    /// without a target do not count.
    #[must_use]
    pub fn score(&self) -> Option<u64> {
        self.goals.iter().filter_map(Goal::score).max()
    }

    /// Whether the quota follows what the goals lack, at every application ([`Tuner::Exact`]).
    #[must_use]
    pub fn is_exact(&self) -> bool {
        self.tuner == Tuner::Exact && !self.goals.is_empty()
    }

    /// Bytes that are missing to the nearest goal. 0 while the level of any goal is not known.
    #[must_use]
    pub fn lack(&self) -> u64 {
        self.goals.iter().map(|goal| goal.lack().unwrap_or(0)).min().unwrap_or(0)
    }
}

/// The throughput that is assumed before any was measured, in bytes per ms.
const FIRST_THROUGHPUT: u64 = 4 << 20;

/// The running state of a scheme's quota.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct QuotaState {
    /// Effective size: bytes that this window may use.
    pub esz: u64,
    /// The tuner's memory: bytes times 10,000.
    pub esz_bp: u64,
    /// Bytes charged in this window.
    pub charged_sz: u64,
    /// When this window began.
    pub charged_from: Option<Time>,
    /// Bytes charged in all windows before this one.
    pub total_charged_sz: u64,
    /// Time used in all windows, this one included, in ns.
    pub total_charged_ns: u64,
    /// Time used in this window, in ns.
    pub window_ns: u64,
    /// The lowest score of a region that the scheme acts on.
    pub min_score: u32,
    /// Throughput of the last windows that measured one, in bytes per ms. 0: none was measured. Not
    /// `strict`.
    throughput: u64,
    pub(crate) braked: Braked,
}

impl QuotaState {
    /// Whether the user or the brake limits bytes at all.
    #[must_use]
    pub const fn is_limited(&self, quota: &Quota) -> bool {
        self.esz != 0 || quota.is_set() || self.braked.cap.is_some()
    }

    /// Whether the quota of this window is used up.
    #[must_use]
    pub const fn is_full(&self, quota: &Quota, min_region_sz: u64, strict: bool) -> bool {
        if !self.is_limited(quota) {
            return false;
        }
        let out_of_time =
            !strict && quota.ms != 0 && self.window_ns >= quota.ms.saturating_mul(1_000_000);
        out_of_time || self.charged_sz >= self.esz || self.esz - self.charged_sz < min_region_sz
    }

    /// Bytes left in this window, in whole `min_region_sz`.
    #[must_use]
    pub const fn left(&self, min_region_sz: u64) -> u64 {
        round_down(self.esz.saturating_sub(self.charged_sz), min_region_sz)
    }

    /// Time left in this window, in ns.
    #[must_use]
    pub const fn ns_left(&self, quota: &Quota) -> u64 {
        if quota.ms == 0 {
            return u64::MAX;
        }
        quota.ms.saturating_mul(1_000_000).saturating_sub(self.window_ns)
    }

    /// Whether adjusting now would begin a new window, for which the goals have to be measured.
    #[must_use]
    pub const fn wants_window(&self, quota: &Quota, now: Time) -> bool {
        match self.charged_from {
            None => true,
            Some(from) => now.since(from) >= quota.reset_interval_ms.saturating_mul(1_000_000),
        }
    }

    /// Begins the first window, or a new window if the last one is over. Returns whether the window
    /// that ended was full (`damos_adjust_quota()`, its first half).
    ///
    /// The kernel does not return after it began the first window. Without a reset interval that
    /// window is over at once, and a second one begins. Here that takes a second call.
    pub fn adjust(&mut self, quota: &Quota, now: Time, min_region_sz: u64, strict: bool) -> bool {
        if self.charged_from.is_none() {
            self.charged_from = Some(now);
            self.set_effective(quota, min_region_sz, strict);
            return false;
        }
        if !self.wants_window(quota, now) {
            if quota.is_exact() {
                self.follow_lack(quota);
            }
            return false;
        }
        let was_full = self.is_full(quota, min_region_sz, strict);
        self.learn_throughput();
        self.total_charged_sz = self.total_charged_sz.wrapping_add(self.charged_sz);
        self.braked.window_over(quota.brake, self.charged_sz, min_region_sz, now);
        self.charged_from = Some(now);
        self.charged_sz = 0;
        self.window_ns = 0;
        self.set_effective(quota, min_region_sz, strict);
        was_full
    }

    /// Adds the time that an application took, in ns.
    pub const fn spend(&mut self, ns: u64) {
        self.window_ns = self.window_ns.saturating_add(ns);
        self.total_charged_ns = self.total_charged_ns.saturating_add(ns);
    }

    /// Forgets what was charged while nothing was limited (R§9.2.4).
    pub const fn start_limiting(&mut self) {
        *self = Self { braked: self.braked, ..Self::NEW };
    }

    const NEW: Self = Self {
        esz: 0,
        esz_bp: 0,
        charged_sz: 0,
        charged_from: None,
        total_charged_sz: 0,
        total_charged_ns: 0,
        window_ns: 0,
        min_score: 0,
        throughput: 0,
        braked: Braked::NEW,
    };

    const fn learn_throughput(&mut self) {
        // A throughput from less than 10 µs is mostly noise, and one from no bytes is unknown.
        if self.window_ns < 10_000 || self.charged_sz == 0 {
            return;
        }
        let now = mult_frac(self.charged_sz, 1_000_000, self.window_ns);
        self.throughput = if self.throughput == 0 { now } else { self.throughput / 2 + now / 2 };
    }

    /// Computes the effective size (`damos_set_effective_quota()`).
    pub fn set_effective(&mut self, quota: &Quota, min_region_sz: u64, strict: bool) {
        if quota.is_exact() {
            return self.follow_lack(quota);
        }
        self.esz = if quota.ms == 0 && quota.goals.is_empty() {
            quota.sz
        } else {
            let mut esz = u64::MAX;
            if let Some(score) = quota.score() {
                if !strict && quota.tuner == Tuner::Consist {
                    // The tuner starts at one region, because less cannot be acted on (R§9.2.7).
                    self.esz_bp = self.esz_bp.max(min_region_sz.saturating_mul(10_000) / 2);
                }
                self.esz_bp = quota.tuner.next(self.esz_bp, score, quota.sz);
                esz = self.esz_bp / 10_000;
            } else if !quota.goals.is_empty() && strict {
                esz = self.esz_bp / 10_000;
            }
            if quota.ms != 0 {
                let by_time = self.throughput(strict).saturating_mul(quota.ms).max(min_region_sz);
                esz = esz.min(by_time);
            }
            if quota.sz != 0 {
                esz = esz.min(quota.sz);
            }
            esz
        };
        if strict {
            return;
        }
        if quota.tuner == Tuner::Consist && !quota.goals.is_empty() {
            // The tuner remembers no more than the scheme can use. Otherwise coming down would take
            // many windows (R§9.2.6).
            self.esz_bp = self.esz_bp.min(self.esz.saturating_mul(10_000));
        }
        if let Some(cap) = self.braked.cap {
            self.esz = if quota.is_set() { self.esz.min(cap) } else { cap };
        }
    }

    /// With [`Tuner::Exact`], sets the effective size to what was charged in this window plus what
    /// the goals lack now. A time limit is not converted to bytes here, because most of the time is
    /// spent on looking at pages. It still ends the window by itself.
    fn follow_lack(&mut self, quota: &Quota) {
        let most = if quota.sz == 0 { u64::MAX } else { quota.sz };
        let most = most.min(self.braked.cap.unwrap_or(u64::MAX));
        self.esz = self.charged_sz.saturating_add(quota.lack()).min(most);
    }

    /// The throughput that a time limit is converted with, in bytes per ms.
    const fn throughput(&self, strict: bool) -> u64 {
        if !strict {
            return if self.throughput == 0 { FIRST_THROUGHPUT } else { self.throughput };
        }
        if self.total_charged_ns == 0 {
            FIRST_THROUGHPUT
        } else {
            mult_frac(self.total_charged_sz, 1_000_000, self.total_charged_ns)
        }
    }
}
