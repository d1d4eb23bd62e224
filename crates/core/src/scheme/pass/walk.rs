//! Walks: a record of what every scheme does to each region during one apply interval (R§2.7).

use alloc::vec::Vec;

use crate::addr::AddrRange;
use crate::target::TargetId;

/// One application that a walk saw.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Tried {
    /// Index of the scheme.
    pub scheme: usize,
    /// Whose memory.
    pub target: TargetId,
    /// Where: the range after the cuts for quota and filters.
    pub range: AddrRange,
    /// Samples per window.
    pub nr_accesses: u32,
    /// Age in windows, before the action resets it.
    pub age: u32,
    /// Bytes that the ops filters let in.
    pub passed: u64,
}

/// The state of a walk.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum Walk {
    /// No walk was asked for.
    #[default]
    None,
    /// The walk is under way: some scheme has not completed its apply interval.
    Running {
        /// What was seen so far.
        tried: Vec<Tried>,
        /// By scheme: whether its interval is complete.
        done: Vec<bool>,
    },
    /// Complete.
    Done(Vec<Tried>),
    /// The walk was given up: there is no scheme, no scheme is active, or the context is paused or
    /// stopped.
    Cancelled,
}

/// A walk is under way already.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WalkBusy;

impl Walk {
    /// Begins a walk.
    ///
    /// # Errors
    ///
    /// If a walk is under way.
    pub fn begin(&mut self) -> Result<(), WalkBusy> {
        if matches!(self, Self::Running { .. }) {
            return Err(WalkBusy);
        }
        *self = Self::Running { tried: Vec::new(), done: Vec::new() };
        Ok(())
    }

    /// Gives up a walk that is under way.
    pub(crate) fn cancel(&mut self) {
        if matches!(self, Self::Running { .. }) {
            *self = Self::Cancelled;
        }
    }

    pub(crate) fn see(&mut self, seen: Tried) {
        if let Self::Running { tried, done } = self
            && !done.get(seen.scheme).copied().unwrap_or(false)
        {
            tried.push(seen);
        }
    }

    /// The intervals of these schemes (by index) are complete.
    pub(crate) fn completed(&mut self, due: impl Iterator<Item = bool>) {
        if let Self::Running { tried, done } = self {
            let mut all = true;
            for (i, due) in due.enumerate() {
                if done.len() <= i {
                    done.push(false);
                }
                done[i] |= due;
                all &= done[i];
            }
            if all {
                *self = Self::Done(core::mem::take(tried));
            }
        }
    }
}
