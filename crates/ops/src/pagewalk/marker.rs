//! A way to make single pages old that cannot be cleared by address, because several processes map
//! them or because they are locked.
//!
//! Where the kernel has idle page tracking, [`SharedMarks`](super::SharedMarks) does it by frame.
//! The operations set works with or without a [`Marker`]. A marker takes the accessed bits out of
//! the page tables of all processes that map the frame. So if a page is watched in two targets at
//! once, one of them can miss a touch.

use std::collections::HashSet;
use std::fmt::Debug;
use std::io;

use isotherm_core::{Check, PageState};

use super::PageWalk;
use isotherm_pages::tables::Query;

/// Makes frames old.
pub trait Marker: Debug + Send {
    /// Takes the accessed bits of frames (physical address / 4096, and the asker's number for it)
    /// out of all page tables that map them, without effect on reclaim, and calls `done` for each
    /// that it could reach. The TLB is not flushed: a page in constant use can look old for a few
    /// milliseconds longer.
    ///
    /// # Errors
    ///
    /// No frame could be reached now, for example because another program holds the machine's lock.
    fn mark(&mut self, frames: &[(u64, u32)], done: &mut dyn FnMut(u64, u32)) -> io::Result<()>;
}

impl PageWalk {
    /// Gives the set a way to make pages old that it cannot clear itself, such as those that
    /// several processes map. Without one they are cleared with all others of the process, where
    /// that is allowed ([`PageWalk::set_fallback_limit`]), or `Unresolved`.
    pub fn set_marker(&mut self, marker: Option<Box<dyn Marker>>) {
        self.marker = marker;
    }

    /// Makes old what it can of the pages that could not be cleared; leaves the others.
    pub(super) fn mark_stuck(&mut self, stuck: &mut Vec<Query>, batch: &mut [Check]) {
        let Some(marker) = &mut self.marker else { return };
        let frame = |query: &Query| (query.entry.frame() >> 12, query.nr);
        let asked: Vec<(u64, u32)> = stuck.iter().map(frame).collect();
        let mut reached = HashSet::with_capacity(asked.len());
        let mut done = |frame, nr| {
            reached.insert((frame, nr));
        };
        if marker.mark(&asked, &mut done).is_err() || self.tables.look_again(stuck).is_err() {
            return;
        }
        stuck.retain(|query| {
            // If the page was moved in the meantime, the mark went to a frame that is no longer its
            // own.
            if !query.entry.is_present() || !reached.contains(&frame(query)) {
                return true;
            }
            if let Some(fallback) = self.fallbacks.get_mut(usize::from(query.page.slot())) {
                fallback.take(query.leaf());
            }
            self.unresolved.cleared(query.leaf());
            self.counters.marks += 1;
            batch[query.nr as usize].state = PageState::Cleared;
            false
        });
    }
}
