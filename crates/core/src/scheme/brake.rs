//! The brake: a scheme slows down by itself when what it acted on is touched again too soon.
//!
//! Not in the kernel. The cap begins at the most that a window did lately. When the refault rate is above the limit it
//! is cut by as much as that, to between a half and a sixteenth; then it waits until what was done before can no longer
//! count. With every window below the limit it grows by a quarter, until it limits nothing.

use crate::math::mult_frac;
use crate::time::Time;

/// When to brake.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Brake {
    /// The largest tolerated share of acted-on memory that is touched again soon, in basis points.
    pub max_refault_bp: u32,
    /// How long what was done counts in that share, in ms: so long after the cap was cut it is not cut
    /// again.
    pub settle_ms: u64,
    /// The least that a window may always do, in bytes.
    pub floor: u64,
}

impl Default for Brake {
    /// 2 %, 10 s, 1 MiB.
    fn default() -> Self {
        Self { max_refault_bp: 200, settle_ms: 10_000, floor: 1 << 20 }
    }
}

/// The state of a brake.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Braked {
    /// Bytes per window, while braking.
    pub(crate) cap: Option<u64>,
    /// The last measured rate, not used yet.
    pub(crate) refault_bp: Option<u64>,
    /// The most that a window did, forgotten by a sixteenth per window.
    pub(crate) peak: u64,
    /// When it was cut last.
    pub(crate) cut: Option<Time>,
}

impl Braked {
    /// A window that did `done` bytes is over.
    pub(crate) fn window_over(&mut self, brake: Option<Brake>, done: u64, least: u64, now: Time) {
        let Some(brake) = brake else {
            *self = Self::default();
            return;
        };
        let least = least.max(brake.floor);
        self.peak = done.max(self.peak - self.peak / 16);
        let (rate, limit) = (self.refault_bp.take().unwrap_or(0), u64::from(brake.max_refault_bp));
        let too_many = rate > limit;
        let settled = self.cut.is_none_or(|at| now.since(at) / 1_000_000 >= brake.settle_ms);
        if too_many {
            if settled {
                let cap = self.cap.unwrap_or(self.peak);
                let cut = mult_frac(cap, limit, rate).clamp(cap / 16, cap / 2);
                self.cap = Some(cut.max(least));
                self.cut = Some(now);
            }
            return;
        }
        self.cap = match self.cap {
            // Growing beyond what the scheme makes use of means that it is free again.
            Some(cap) if cap / 4 > self.peak.max(16 * least) => None,
            Some(cap) => Some(cap + (cap / 4).max(least)),
            None => None,
        };
    }
}
