//! Cursors: where a scheme goes on after its quota was used up, so that every region gets its turn
//! (R§4.5).

use crate::addr::{AddrRange, round_down};
use crate::target::TargetId;

/// Where the last window stopped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Cursor {
    /// The target.
    pub target: TargetId,
    /// The address to go on at. 0 means the target's start.
    pub addr: u64,
}

/// What a cursor says about a region.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Skip {
    /// The region has its turn now.
    No,
    /// All of the region had its turn in an earlier window.
    All,
    /// This many bytes at its start had their turn. The pass cuts there and skips the left part.
    Left(u64),
}

impl Cursor {
    /// Whether a region of `target` had its turn in an earlier window
    /// (`damos_skip_charged_region()`).
    #[must_use]
    pub fn skip(&self, target: TargetId, region: AddrRange, min_sz: u64) -> Skip {
        if target != self.target {
            return Skip::All;
        }
        if self.addr == 0 || self.addr <= region.start {
            return Skip::No;
        }
        if region.end <= self.addr {
            return Skip::All;
        }
        match round_down(self.addr - region.start, min_sz) {
            0 if region.len() <= min_sz => Skip::All,
            0 => Skip::Left(min_sz),
            left => Skip::Left(left),
        }
    }
}
