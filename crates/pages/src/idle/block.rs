//! Marks and looks at blocks of 512 neighbouring frames, for targets in physical memory.
//!
//! A block is eight words of the bitmap and one read of `/proc/kpageflags`. It begins at a multiple
//! of 512 frames, so every folio of at most 2 MiB lies inside of one block:
//!
//! ```text
//! mark: flags -> first frames, marked? -> read of the marked -> one write of the others
//! look: one read of the bitmap -> flags -> 1: old; 0: young, if the frame can be tracked
//! ```
//!
//! Invariants: as for single frames (`folios`). A frame behind a folio's first is what its first
//! frame is. What stands marked is not marked again, so the time of an access between the read and
//! the write is not lost.

use std::io;

use isotherm_core::{PageBits, Time};
use isotherm_sys::lru::drain_lru_batches;

use super::bitmap::{WORD_FRAMES, Words};
use super::folios::{DRAIN_EVERY_NS, Folios, Standing, standing, waits_for_its_list};
use crate::frames::heads::{Carried, fold};
use crate::frames::{self, Flags};

/// Words of the bitmap in a block.
const WORDS: usize = 8;
/// Frames of a block.
const FRAMES: usize = WORDS * 64;

/// What is known of the frames of a block.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Block {
    /// Frames with a page.
    pub present: PageBits,
    /// Those that were touched since they were marked, or never marked.
    pub young: PageBits,
    /// Those that cannot be tracked, or about which the files contradict each other.
    pub stuck: PageBits,
    /// Whether all of them are one folio.
    pub is_huge: bool,
}

/// What the flags say, a bit per frame. A folio's frames are all alike.
#[derive(Debug, Clone, Copy, Default)]
struct Stands {
    marked: PageBits,
    unmarked: PageBits,
    not_trackable: PageBits,
    /// First frames of folios.
    first: PageBits,
    /// On no list yet.
    waits: bool,
}

impl Stands {
    fn is_huge(&self) -> bool {
        self.first == PageBits::page(0)
    }
}

impl<B: Words, K: frames::Words> Folios<B, K> {
    /// Marks those folios of the block from frame `first` on that have a frame in `asked` and are
    /// not marked. Returns how the block was found.
    ///
    /// # Errors
    ///
    /// What the kernel says. Nothing is known then.
    pub fn mark_block(&mut self, first: u64, asked: PageBits, now: Time) -> io::Result<Block> {
        let mut stands = self.stands(first)?;
        if stands.waits && now >= self.next_drain {
            self.next_drain = now + DRAIN_EVERY_NS;
            if drain_lru_batches().is_ok() {
                stands = self.stands(first)?;
            }
        }
        let asked_firsts = firsts_of(asked, stands.first);
        let mut old = PageBits::default();
        if !asked_firsts.and(stands.marked).is_empty() {
            // The flags tell of accesses only after somebody has read the bitmap.
            old = self.read_block(first)?.and(stands.marked);
        }
        let blind = self.blind_frames(first);
        let to_mark = asked_firsts.and(stands.marked.or(stands.unmarked)).minus(old).minus(blind);
        self.write_block(first, to_mark)?;
        let old = spread(old, stands.first);
        let stuck = stands.not_trackable.or(blind.and(stands.marked.or(stands.unmarked)));
        let present = stands.marked.or(stands.unmarked).or(stuck);
        Ok(Block { present, young: present.minus(old), stuck, is_huge: stands.is_huge() })
    }

    /// Looks at the block from frame `first` on, without any other change than that accessed bits
    /// move into the marks.
    ///
    /// # Errors
    ///
    /// What the kernel says. Nothing is known then.
    pub fn look_block(&mut self, first: u64) -> io::Result<Block> {
        let idle = self.read_block(first)?;
        // After the bitmap: a frame that is still unmarked now was touched.
        let stands = self.stands(first)?;
        let old = spread(idle.and(stands.first), stands.first);
        let blind = self.blind_frames(first);
        let present = stands.marked.or(stands.unmarked).or(stands.not_trackable).or(old);
        // Marked since it was read, or isolated then.
        let unclear = stands.marked.minus(old);
        let stuck = stands.not_trackable.minus(old).or(unclear).or(blind.and(present));
        Ok(Block { present, young: present.minus(old), stuck, is_huge: stands.is_huge() })
    }

    /// The flags of the block, folio by folio.
    fn stands(&mut self, first: u64) -> io::Result<Stands> {
        let got = self.flags.read(first, &mut self.buf)?;
        let mut stands = Stands::default();
        let mut carried = Carried::default();
        let decide = |frame: u64, flags: Flags| {
            set(&mut stands.first, frame - first);
            stands.waits |= waits_for_its_list(flags);
            Some(standing(flags))
        };
        let mut found = [None; FRAMES];
        fold(&mut carried, first, &self.buf[..got], decide, |frame, standing| {
            // A frame behind another block's folio: of hugetlb, or of a kind that no user has.
            let standing = standing.flatten().unwrap_or(Standing::NotTrackable);
            if let Some(found) =
                usize::try_from(frame - first).ok().and_then(|nr| found.get_mut(nr))
            {
                *found = Some(standing);
            }
        });
        for (nr, standing) in (0..).zip(found) {
            match standing {
                Some(Standing::Marked) => set(&mut stands.marked, nr),
                Some(Standing::Unmarked) => set(&mut stands.unmarked, nr),
                Some(Standing::NotTrackable) => set(&mut stands.not_trackable, nr),
                Some(Standing::Free) | None => {}
            }
        }
        Ok(stands)
    }

    /// The block's words of the bitmap.
    fn read_block(&mut self, first: u64) -> io::Result<PageBits> {
        let mut idle = PageBits::default();
        let got = self.bitmap.read(first, &mut idle.0)?;
        if got < WORDS {
            self.blind_word = Some(first / WORD_FRAMES + got as u64);
        }
        Ok(idle)
    }

    /// Marks frames of the block, from the first word with one to the last.
    fn write_block(&mut self, first: u64, frames: PageBits) -> io::Result<()> {
        let Some(from) = frames.0.iter().position(|word| *word != 0) else { return Ok(()) };
        let to = frames.0.iter().rposition(|word| *word != 0).map_or(WORDS, |last| last + 1);
        self.bitmap.write(first + from as u64 * WORD_FRAMES, &frames.0[from..to])?;
        Ok(())
    }

    /// Frames of the block that lie in the word that no read returns, and behind it.
    fn blind_frames(&self, first: u64) -> PageBits {
        let mut blind = PageBits::default();
        for (nr, word) in (first / WORD_FRAMES..).zip(&mut blind.0) {
            if self.blind_word.is_some_and(|at| nr >= at) {
                *word = u64::MAX;
            }
        }
        blind
    }
}

fn set(bits: &mut PageBits, nr: u64) {
    if let Some(word) = usize::try_from(nr / 64).ok().and_then(|word| bits.0.get_mut(word)) {
        *word |= 1 << (nr % 64);
    }
}

fn has(bits: PageBits, nr: usize) -> bool {
    bits.0[nr / 64] >> (nr % 64) & 1 == 1
}

/// The first frames of the folios that have a frame in `frames`.
fn firsts_of(frames: PageBits, firsts: PageBits) -> PageBits {
    let mut found = PageBits::default();
    let mut last = None;
    for nr in 0..FRAMES as u64 {
        let at = usize::try_from(nr).unwrap_or(0);
        if has(firsts, at) {
            last = Some(nr);
        }
        if let Some(last) = last.filter(|_| has(frames, at)) {
            set(&mut found, last);
        }
    }
    found
}

/// All frames of the folios whose first ones are given.
fn spread(of: PageBits, firsts: PageBits) -> PageBits {
    let mut found = PageBits::default();
    let mut is_in = false;
    for nr in 0..FRAMES as u64 {
        let at = usize::try_from(nr).unwrap_or(0);
        if has(firsts, at) {
            is_in = has(of, at);
        }
        if is_in {
            set(&mut found, nr);
        }
    }
    found
}

#[cfg(test)]
mod tests;
