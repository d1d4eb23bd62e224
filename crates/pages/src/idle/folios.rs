//! Marks page frames and looks at them, whoever owns them. Targets in virtual and in physical
//! memory share this.
//!
//! The bitmap knows only the first frame of a folio, and reads 0 both for "touched" and for "cannot
//! say". So each frame is led to its folio's first frame. A 0 is believed only if
//! `/proc/kpageflags` shows that the frame can be tracked at all:
//!
//! ```text
//! mark:  frame -> kpageflags -> first frame, trackable? -> bitmap write -> Cleared | Old
//! look:  first frame -> bitmap read -> 1: Old
//!                                   -> 0: kpageflags -> Young | Unresolved | Absent
//! ```
//!
//! Invariants: `Old` is only said of a frame whose bit reads 1. `Young` is only said of a frame on
//! an LRU list that is not marked. The buffers are kept, so that no call allocates once they have
//! grown.
//!
//! Absent on purpose: where the frames come from, and what was known of them before (`records`).

use std::fs::File;
use std::{fmt, io};

use isotherm_core::{PageState, Time};
use isotherm_sys::lru::drain_lru_batches;

use super::bitmap::{Bitmap, WORD_FRAMES, Words};
use crate::frames::{self, Flags, FrameFile};

/// Not a frame: the folio's first frame has to be found.
pub const NOT_KNOWN: u64 = u64::MAX;
/// The folio is that of the question before.
const SAME: u64 = u64::MAX - 1;
/// Frames between two that one read of flags bridges. Bridging more would cost more than a call.
const BRIDGE: u64 = 6;
/// Flags read at once.
const BUF: usize = 512;
/// The most frames that a folio has (a hugetlb page of 1 GiB), as a power of two.
const MAX_ORDER: u32 = 18;
/// The shortest time between two drains. Making the kernel put pages on their LRU lists costs all
/// CPUs a little.
pub(super) const DRAIN_EVERY_NS: u64 = 5_000_000_000;

/// One question about a frame, and its answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ask {
    /// The frame, a physical address divided by 4096.
    pub frame: u64,
    /// The first frame of its folio; [`NOT_KNOWN`] to have it found.
    pub head: u64,
    /// The asker's own number for it.
    pub nr: u32,
    /// Input: whether the page table entry that maps the frame was seen accessed just now; `None`
    /// if it was not looked at.
    pub accessed: Option<bool>,
    /// Output: flags of the folio's first frame; 0 where they were not read.
    pub flags: Flags,
    /// Out: what was found.
    pub state: PageState,
}

impl Ask {
    /// A question about a frame of which nothing is known.
    #[must_use]
    pub const fn new(frame: u64, nr: u32) -> Self {
        let (flags, state) = (Flags(0), PageState::Unknown);
        Self { frame, head: NOT_KNOWN, nr, accessed: None, flags, state }
    }

    /// Whether the answer is about a user's page on no list. Most likely it was touched for the
    /// first time just now.
    #[must_use]
    pub const fn waits_for_its_list(&self) -> bool {
        waits_for_its_list(self.flags)
    }
}

/// The files, and what is kept between calls.
pub struct Folios<B = File, K = File> {
    pub(super) bitmap: Bitmap<B>,
    pub(super) flags: FrameFile<K>,
    pub(super) buf: Box<[u64]>,
    pub(super) next_drain: Time,
    /// The word that no read returns, because memory ends inside it. `None` until it was met.
    pub(super) blind_word: Option<u64>,
}

impl<B, K> fmt::Debug for Folios<B, K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Folios").field("bitmap", &self.bitmap).finish_non_exhaustive()
    }
}

impl<B: Words, K: frames::Words> Folios<B, K> {
    /// Over the bitmap and `/proc/kpageflags`.
    #[must_use]
    pub fn new(bitmap: Bitmap<B>, flags: FrameFile<K>) -> Self {
        Self { bitmap, flags, buf: vec![0; BUF].into(), next_drain: Time(0), blind_word: None }
    }

    /// The bitmap.
    pub const fn bitmap(&mut self) -> &mut Bitmap<B> {
        &mut self.bitmap
    }

    /// System calls made so far.
    #[must_use]
    pub const fn calls(&self) -> u64 {
        self.bitmap.calls() + self.flags.calls()
    }

    /// Marks the folios of all frames idle, after looking up the first frame of each anew. Answers
    /// `Cleared`, `Old` (it was marked, and not touched since as far as the flags and `accessed`
    /// tell), `Unresolved` (not trackable: slab, page tables, hugetlb, isolated) or `Absent` (free,
    /// or no memory). Sorts the questions.
    ///
    /// # Errors
    ///
    /// What the kernel says. The answers must not be used then.
    pub fn mark(&mut self, asks: &mut [Ask], now: Time) -> io::Result<()> {
        asks.iter_mut().for_each(|ask| ask.head = NOT_KNOWN);
        self.resolve(asks)?;
        if now >= self.next_drain && asks.iter().any(|ask| waits_for_its_list(ask.flags)) {
            self.next_drain = now + DRAIN_EVERY_NS;
            // Without it the pages stay unresolved, as they are.
            if drain_lru_batches().is_ok() {
                asks.iter_mut().for_each(|ask| ask.head = NOT_KNOWN);
                self.resolve(asks)?;
            }
        }
        for ask in asks.iter_mut() {
            ask.state = match standing(ask.flags) {
                _ if self.blind_word == Some(ask.head / WORD_FRAMES) => PageState::Unresolved,
                Standing::Marked if ask.accessed != Some(true) => PageState::Old,
                Standing::Marked | Standing::Unmarked => PageState::Cleared,
                Standing::NotTrackable => PageState::Unresolved,
                Standing::Free => PageState::Absent,
            };
        }
        // What stands marked is not marked again: to mark takes in the accessed bits of all that
        // map the page, and the access of this moment would be lost.
        let stands = |ask: &Ask| ask.state == PageState::Old;
        self.ask_again(asks)?;
        if !asks.is_sorted_by_key(|ask| (stands(ask), ask.head)) {
            asks.sort_unstable_by_key(|ask| (stands(ask), ask.head));
        }
        let to_mark = asks.partition_point(|ask| !stands(ask));
        self.bitmap.mark(&asks[..to_mark], |ask| ask.head)
    }

    /// Looks whether the folios of all frames are still idle. The only change is that accessed bits
    /// move into the marks (R§7.1). Answers `Old`, `Young`, `Unresolved`, `Absent` or, where the
    /// files contradict each other, `Unknown`. Sorts the questions.
    ///
    /// # Errors
    ///
    /// What the kernel says. The answers must not be used then.
    pub fn look(&mut self, asks: &mut [Ask]) -> io::Result<()> {
        self.resolve(asks)?;
        sort(asks, |ask| ask.head);
        self.read_marks(asks)?;
        // The frame was seen accessed, but its folio's mark stands. If it is not the folio's first
        // frame, the folio may have been split since it was found.
        let contradicts =
            |ask: &&mut Ask| ask.accessed == Some(true) && ask.state == PageState::Old;
        for ask in asks.iter_mut().filter(contradicts) {
            if ask.head != ask.frame {
                ask.head = NOT_KNOWN;
                self.resolve(std::slice::from_mut(ask))?;
                self.read_marks(std::slice::from_mut(ask))?;
            }
            // Or the kernel could not look, because the folio's lock was held. Then the time of the
            // access is unknown.
            if ask.state == PageState::Old {
                ask.state = PageState::Unknown;
            }
        }
        // 0 was read, which may only mean that nothing can be said.
        let not_idle = |ask: &Ask| ask.state == PageState::Young;
        self.read_flags(
            asks,
            |ask| not_idle(ask).then_some(ask.head),
            |ask, first, run| {
                let flags = usize::try_from(ask.head - first).ok().and_then(|nr| run.get(nr));
                ask.flags = flags.map_or(Flags::NOPAGE, |flags| Flags(*flags));
                ask.state = match standing(ask.flags) {
                    // It was the first, and is behind another now: another's page.
                    _ if !ask.flags.is_first() && !ask.flags.has(Flags::HUGE) => PageState::Unknown,
                    Standing::Unmarked => PageState::Young,
                    // The frame was isolated when the bitmap was read, or it was marked since then.
                    Standing::Marked => PageState::Unknown,
                    Standing::NotTrackable => PageState::Unresolved,
                    Standing::Free => PageState::Absent,
                };
            },
        )
    }

    /// A mark that stands by the flags may have been refuted since: they tell of accesses only once
    /// somebody has read the bitmap. Where the page's own entry tells of all accesses, because the
    /// folio is no larger, that is as good.
    fn ask_again(&mut self, asks: &mut [Ask]) -> io::Result<()> {
        let doubtful = |ask: &Ask| {
            ask.state == PageState::Old && (ask.accessed.is_none() || ask.flags.has(Flags::HEAD))
        };
        if !asks.iter().any(doubtful) {
            return Ok(());
        }
        asks.sort_unstable_by_key(|ask| (!doubtful(ask), ask.head));
        let nr = asks.partition_point(doubtful);
        self.bitmap.look(
            &mut asks[..nr],
            |ask| ask.head,
            |ask, idle| {
                if idle == Some(false) {
                    ask.state = PageState::Cleared;
                }
            },
        )
    }

    fn read_marks(&mut self, asks: &mut [Ask]) -> io::Result<()> {
        let blind_word = &mut self.blind_word;
        self.bitmap.look(
            asks,
            |ask| ask.head,
            |ask, idle| {
                ask.state = match idle {
                    Some(true) => PageState::Old,
                    Some(false) => PageState::Young,
                    // The frame is behind the last whole word of memory, so marking it again cannot
                    // help.
                    None => {
                        *blind_word = Some(ask.head / WORD_FRAMES);
                        PageState::Unresolved
                    }
                };
            },
        )
    }

    /// Finds the first frame of each folio, and its flags, where they are not known. Sorts by
    /// frame.
    fn resolve(&mut self, asks: &mut [Ask]) -> io::Result<()> {
        let unknown = |ask: &Ask| (ask.head == NOT_KNOWN).then_some(ask.frame);
        if asks.iter().all(|ask| unknown(ask).is_none()) {
            return Ok(());
        }
        sort(asks, |ask| ask.frame);
        let mut before = NOT_KNOWN;
        self.read_flags(asks, unknown, |ask, first, run| {
            let at = |frame: u64| usize::try_from(frame - first).unwrap_or(usize::MAX);
            let behind = |flags: &u64| Flags(*flags).has(Flags::TAIL);
            ask.flags = run.get(at(ask.frame)).map_or(Flags::NOPAGE, |flags| Flags(*flags));
            // No folio begins between the frame before and this one.
            let between = (first..=ask.frame).contains(&before);
            let between = between.then(|| run.get(at(before) + 1..=at(ask.frame))).flatten();
            let same = between.is_some_and(|run| run.iter().all(behind));
            ask.head = if same { SAME } else { ask.frame };
            before = ask.frame;
        })?;
        let mut last: Option<Ask> = None;
        for ask in asks {
            match last {
                Some(last) if ask.head == SAME => (ask.head, ask.flags) = (last.head, last.flags),
                // A hugetlb frame is not trackable, whatever its first frame is.
                _ if ask.flags.is_first() || ask.flags.has(Flags::HUGE) => {}
                _ => self.find_first(ask)?,
            }
            last = Some(*ask);
        }
        Ok(())
    }

    /// Leads a frame behind a folio's first one to that. A folio lies at a multiple of its size, so
    /// only a few frames can be the first. It is the nearest of them that is a first frame, because
    /// folios do not overlap.
    fn find_first(&mut self, ask: &mut Ask) -> io::Result<()> {
        let mut candidate = ask.frame;
        for order in 1..=MAX_ORDER {
            let next = ask.frame & !((1 << order) - 1);
            if next == candidate {
                continue;
            }
            candidate = next;
            let mut flags = [0];
            self.flags.read(candidate, &mut flags)?;
            let flags = Flags(flags[0]);
            if flags.has(Flags::HEAD) {
                (ask.head, ask.flags) = (candidate, flags);
                return Ok(());
            }
        }
        // Split or freed while we looked.
        ask.flags = Flags(0);
        Ok(())
    }

    /// Reads the flags of one frame of each question that `of` picks, and of those between. Gives
    /// each question the first frame that was read with it and all flags from there on. Behind the
    /// end of memory there are fewer.
    fn read_flags(
        &mut self,
        asks: &mut [Ask],
        of: impl Fn(&Ask) -> Option<u64>,
        mut tell: impl FnMut(&mut Ask, u64, &[u64]),
    ) -> io::Result<()> {
        let mut at = 0;
        while at < asks.len() {
            let Some(first) = of(&asks[at]) else {
                at += 1;
                continue;
            };
            let (mut last, mut end) = (first, at + 1);
            while let Some(ask) = asks.get(end) {
                match of(ask) {
                    Some(f) if f < last || f - last > BRIDGE + 1 || f - first >= BUF as u64 => {
                        break;
                    }
                    Some(frame) => last = frame,
                    None => {}
                }
                end += 1;
            }
            let nr = usize::try_from(last - first).map_or(BUF, |nr| nr + 1);
            let got = self.flags.read(first, &mut self.buf[..nr])?;
            for ask in asks[at..end].iter_mut().filter(|ask| of(ask).is_some()) {
                tell(ask, first, &self.buf[..got]);
            }
            at = end;
        }
        Ok(())
    }
}

/// What idle page tracking can do with a folio, by the flags of its first frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Standing {
    Marked,
    Unmarked,
    NotTrackable,
    Free,
}

pub(super) fn standing(flags: Flags) -> Standing {
    if flags.has(Flags::BUDDY) || flags.has(Flags::NOPAGE) {
        Standing::Free
    } else if !flags.has(Flags::LRU) || flags.has(Flags::HUGE) {
        Standing::NotTrackable
    } else if flags.has(Flags::IDLE) {
        Standing::Marked
    } else {
        Standing::Unmarked
    }
}

/// Whether it is a user's page on no list. Most likely it was touched for the first time just now.
pub(super) const fn waits_for_its_list(flags: Flags) -> bool {
    flags.has(Flags::MMAP) && !flags.has(Flags::LRU) && !flags.has(Flags::HUGE)
}

fn sort(asks: &mut [Ask], key: impl Fn(&Ask) -> u64) {
    if !asks.is_sorted_by_key(&key) {
        asks.sort_unstable_by_key(&key);
    }
}

#[cfg(test)]
mod tests;
