//! What is remembered of each page frame from one look to the next, and what a look says about it.
//!
//! A leaf is an entry of some process's page table, and a page is a frame. Several leaves may lead
//! to one page, which is idle only if none of them was accessed. So what the leaves say is put
//! together by frame ([`Memory::note`]), and judged when all processes were looked at
//! ([`Memory::judge`]).
//!
//! Bounded: 2 KiB per 2 MiB of RAM that has mapped pages, which is 0.1 %. What is mapped twice
//! takes no more, and frames outside of RAM none at all.
//!
//! This module does not ask the kernel.

use isotherm_core::PageBits;

use super::past::{Past, Seen};
use crate::kinds::{Bytes, Kind};

/// Frames of a block: 2 MiB.
pub(super) const BLOCK: u64 = 512;
/// Bytes of a frame.
pub(super) const FRAME: u64 = 4096;
/// No block, in the index.
const NONE: u32 = u32::MAX;
/// The page counts for nobody, or it is not known for whom.
const NOBODY: u16 = u16::MAX;
/// The most cgroups that [`Owner`] can tell apart.
pub(super) const MOST_IDS: usize = (NOBODY >> 2) as usize;

/// What a page is and whose: its kind and the number of its cgroup.
pub(super) type Owner = (Kind, u32);

/// What one look found out about one leaf.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Leaf {
    /// Not touched since the last look, as far as this leaf tells.
    Old,
    /// Touched, and made old.
    Armed,
    /// The same, of a unit that was drawn from several.
    Drawn,
    /// Touched, and left as it was: its unit was not drawn.
    Left,
    /// Touched, and could not be made old.
    Stuck,
    /// Another program makes it old, so nothing is known.
    Watched,
}

/// One bit per frame of a block.
type Plane = [u64; 8];

/// 2 MiB of RAM.
#[derive(Debug)]
struct Block {
    first: u64,
    // Of this round, over all leaves seen so far.
    present: Plane,
    touched: Plane,
    left: Plane,
    stuck: Plane,
    watched: Plane,
    drawn: Plane,
    /// Several leaves lead there.
    shared: Plane,
    /// The same, in the round before.
    was_shared: Plane,
    past: [Past; 512],
    whose: [u16; 512],
}

/// How much memory is in which state, in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Counts {
    pub(super) mapped: u64,
    /// Its state is not known because it was not in the sample at the last look.
    pub(super) left: u64,
    /// The same, because it could not be made old.
    pub(super) stuck: u64,
    /// The same, because another program watches it.
    pub(super) watched: u64,
}

/// Frames of a block whose owner is to be asked for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Ask {
    /// All of it. If it is one folio, one answer will do.
    Whole(u64),
    /// These.
    Some(Vec<u64>),
}

/// All frames of RAM.
#[derive(Debug)]
pub(super) struct Memory {
    /// By frame number over [`BLOCK`].
    index: Vec<u32>,
    blocks: Vec<Option<Box<Block>>>,
    free: Vec<u32>,
}

impl Memory {
    /// For RAM that ends before this frame.
    pub(super) fn new(end: u64) -> Self {
        let nr = usize::try_from(end.div_ceil(BLOCK)).unwrap_or(0);
        Self { index: vec![NONE; nr], blocks: Vec::new(), free: Vec::new() }
    }

    /// Notes a leaf of one frame.
    pub(super) fn note(&mut self, frame: u64, leaf: Leaf) {
        let (word, mask) = place(frame);
        if let Some(block) = self.block(frame) {
            block.note(word, mask, leaf);
        }
    }

    /// Notes leaves that were not touched: those of `frames` that `present` has. As many calls of
    /// [`Memory::note`] would do, only faster: this is what most memory is.
    pub(super) fn note_old(&mut self, present: PageBits, frames: &[u64; 512]) {
        let (mut at, mut nr) = (u64::MAX, None);
        for (frames, mut rest) in frames.chunks_exact(64).zip(present.0) {
            while rest != 0 {
                let frame = frames[rest.trailing_zeros() as usize];
                rest &= rest - 1;
                if frame / BLOCK != at {
                    (at, nr) = (frame / BLOCK, self.slot(frame));
                }
                let block = nr.and_then(|nr| self.blocks.get_mut(nr)?.as_deref_mut());
                if let Some(block) = block {
                    let (word, mask) = place(frame);
                    block.note(word, mask, Leaf::Old);
                }
            }
        }
    }

    /// Notes a huge leaf, which maps all frames of a block.
    pub(super) fn note_huge(&mut self, frame: u64, leaf: Leaf) {
        if let Some(block) = self.block(frame) {
            (0..8).for_each(|word| block.note(word, u64::MAX, leaf));
        }
    }

    /// What was known of a frame after the last round.
    pub(super) fn past(&self, frame: u64) -> Past {
        self.known(frame).map_or(Past::GONE, |block| block.past[nr_of(frame)])
    }

    /// Whether several leaves led to this frame in the last round, or do so in this one.
    pub(super) fn is_shared(&self, frame: u64) -> bool {
        let (word, mask) = place(frame);
        self.known(frame).is_some_and(|b| (b.shared[word] | b.was_shared[word]) & mask != 0)
    }

    /// The blocks, in the order of their frames, by their first frame.
    pub(super) fn blocks(&self) -> Vec<u64> {
        let nrs = self.index.iter().filter(|nr| **nr != NONE);
        nrs.filter_map(|nr| self.blocks[*nr as usize].as_ref()).map(|block| block.first).collect()
    }

    /// Ends the round for a block: adds what is in which state to `counts`, and begins the next.
    /// Returns whose owner has to be asked for: what is idle for the first time; with `all`, all
    /// that is idle.
    pub(super) fn judge(&mut self, first: u64, all: bool, counts: &mut Counts) -> Ask {
        let mut ask = Vec::new();
        let Some(block) = self.block(first) else { return Ask::Some(ask) };
        for word in 0..8 {
            if block.present[word] == 0 {
                block.past[word * 64..][..64].fill(Past::GONE);
                continue;
            }
            let is_old = block.present[word] == u64::MAX && block.is_old(word);
            for nr in word * 64..word * 64 + 64 {
                let seen = if is_old { Seen::Old } else { block.seen(nr) };
                let before = block.past[nr];
                let now = before.then(seen);
                block.past[nr] = now;
                if seen == Seen::Nothing {
                    continue;
                }
                counts.add(seen, before);
                if now.is_first() {
                    block.whose[nr] = NOBODY;
                }
                if now.is_first() || all && now.age() > 0 {
                    ask.push(first + nr as u64);
                }
            }
        }
        let whole = ask.len() == 512 && !all;
        block.next_round();
        if whole { Ask::Whole(first) } else { Ask::Some(ask) }
    }

    /// Says whose a frame is.
    pub(super) fn set_owner(&mut self, frame: u64, owner: Option<Owner>) {
        if let Some(block) = self.block(frame) {
            block.whose[nr_of(frame)] = packed(owner);
        }
    }

    /// Adds what is idle in a block to the sums, by number of cgroup. What was found by a draw
    /// stands for `weight` times as much.
    pub(super) fn add_up(&mut self, first: u64, sums: &mut [Bytes], weight: f64) {
        let Some(block) = self.block(first) else { return };
        let mut at = 0;
        while at < 512 {
            let (past, whose) = (block.past[at], block.whose[at]);
            let rest = block.past[at..].iter().zip(&block.whose[at..]);
            let run = rest.take_while(|(p, w)| **p == past && **w == whose).count();
            at += run;
            let Some((kind, id)) = unpacked(whose).filter(|_| past.age() > 0) else { continue };
            if let Some(sum) = sums.get_mut(id as usize) {
                let weight = if past.is_drawn() { weight } else { 1.0 };
                sum.add(kind, past.age(), run as u64 * FRAME, weight);
            }
        }
    }

    /// Whose an idle frame is.
    pub(super) fn owner(&self, frame: u64) -> Option<Owner> {
        self.known(frame).and_then(|block| unpacked(block.whose[nr_of(frame)]))
    }

    /// Drops a block of which nothing is mapped any more.
    pub(super) fn drop_empty(&mut self, first: u64) {
        let empty = self.known(first).is_some_and(|b| b.past.iter().all(|p| *p == Past::GONE));
        let at = usize::try_from(first / BLOCK).unwrap_or(usize::MAX);
        if let Some(nr) = self.index.get_mut(at).filter(|nr| **nr != NONE && empty) {
            self.blocks[*nr as usize] = None;
            self.free.push(std::mem::replace(nr, NONE));
        }
    }

    /// Lets all ages begin anew.
    pub(super) fn forget_ages(&mut self) {
        for past in self.blocks.iter_mut().flatten().flat_map(|block| &mut block.past) {
            *past = past.anew();
        }
    }

    fn known(&self, frame: u64) -> Option<&Block> {
        let nr = *self.index.get(usize::try_from(frame / BLOCK).ok()?)?;
        self.blocks.get(nr as usize)?.as_deref()
    }

    /// The block of a frame, a new one if there is none. `None` outside of RAM.
    fn block(&mut self, frame: u64) -> Option<&mut Block> {
        let nr = self.slot(frame)?;
        self.blocks.get_mut(nr)?.as_deref_mut()
    }

    /// Where the block of a frame is.
    fn slot(&mut self, frame: u64) -> Option<usize> {
        let nr = self.index.get_mut(usize::try_from(frame / BLOCK).ok()?)?;
        if *nr == NONE {
            let block = Some(Box::new(Block::new(frame / BLOCK * BLOCK)));
            if let Some(free) = self.free.pop() {
                *nr = free;
                self.blocks[free as usize] = block;
            } else {
                *nr = u32::try_from(self.blocks.len()).ok()?;
                self.blocks.push(block);
            }
        }
        Some(*nr as usize)
    }
}

impl Block {
    const fn new(first: u64) -> Self {
        const NO: Plane = [0; 8];
        Self {
            first,
            present: NO,
            touched: NO,
            left: NO,
            stuck: NO,
            watched: NO,
            drawn: NO,
            shared: NO,
            was_shared: NO,
            past: [Past::GONE; 512],
            whose: [NOBODY; 512],
        }
    }

    const fn note(&mut self, word: usize, mask: u64, leaf: Leaf) {
        self.shared[word] |= self.present[word] & mask;
        self.present[word] |= mask;
        if !matches!(leaf, Leaf::Old | Leaf::Watched) {
            self.touched[word] |= mask;
        }
        match leaf {
            Leaf::Old | Leaf::Armed => {}
            Leaf::Drawn => self.drawn[word] |= mask,
            Leaf::Left => self.left[word] |= mask,
            Leaf::Stuck => self.stuck[word] |= mask,
            Leaf::Watched => self.watched[word] |= mask,
        }
    }

    /// What all leaves of a frame say together.
    const fn seen(&self, nr: usize) -> Seen {
        let (word, mask) = (nr / 64, 1 << (nr % 64));
        if self.present[word] & mask == 0 {
            Seen::Nothing
        } else if self.watched[word] & mask != 0 {
            Seen::Watched
        } else if self.stuck[word] & mask != 0 {
            Seen::Stuck
        } else if self.shared[word] & (self.drawn[word] | self.left[word]) & mask != 0 {
            // A draw says nothing about a page that is in several units. From the next round on,
            // such units are not drawn but taken.
            Seen::Stuck
        } else if self.left[word] & mask != 0 {
            Seen::Left
        } else if self.drawn[word] & mask != 0 {
            Seen::Drawn
        } else if self.touched[word] & mask != 0 {
            Seen::Armed
        } else {
            Seen::Old
        }
    }

    /// Whether no leaf of 64 frames says anything but that it is old.
    const fn is_old(&self, word: usize) -> bool {
        let said = self.touched[word] | self.watched[word];
        said == 0
    }

    const fn next_round(&mut self) {
        const NO: Plane = [0; 8];
        (self.present, self.touched, self.left, self.stuck) = (NO, NO, NO, NO);
        (self.watched, self.drawn, self.was_shared, self.shared) = (NO, NO, self.shared, NO);
    }
}

impl Counts {
    fn add(&mut self, seen: Seen, before: Past) {
        self.mapped += FRAME;
        let part = match before {
            _ if seen == Seen::Watched => &mut self.watched,
            Past::WATCHED => &mut self.watched,
            Past::STUCK => &mut self.stuck,
            Past::LEFT => &mut self.left,
            _ => return,
        };
        *part += FRAME;
    }

    /// The part of the memory that could be looked at and was; 1 for all of it.
    #[expect(clippy::cast_precision_loss, reason = "a size of memory")]
    pub(super) fn share(&self) -> f64 {
        let could = self.mapped - self.stuck - self.watched;
        if could == 0 { 1.0 } else { (could - self.left) as f64 / could as f64 }
    }
}

const fn packed(owner: Option<Owner>) -> u16 {
    #[expect(clippy::cast_possible_truncation, reason = "ids are below MOST_IDS")]
    match owner {
        Some((kind, id)) if (id as usize) < MOST_IDS => (id as u16) << 2 | kind as u16,
        _ => NOBODY,
    }
}

fn unpacked(whose: u16) -> Option<Owner> {
    (whose != NOBODY).then(|| (Kind::ALL[usize::from(whose & 3)], u32::from(whose >> 2)))
}

const fn nr_of(frame: u64) -> usize {
    (frame % BLOCK) as usize
}

const fn place(frame: u64) -> (usize, u64) {
    let nr = nr_of(frame);
    (nr / 64, 1 << (nr % 64))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_takes_a_thousandth_of_what_is_watched_at_most() {
        assert!(size_of::<Block>() as u64 * 1000 <= BLOCK * FRAME, "{}", size_of::<Block>());
        // What is not mapped takes 4 bytes per 2 MiB.
        assert_eq!(Memory::new(1 << 30).index.len(), 1 << 21);
    }

    #[test]
    fn two_bytes_hold_an_owner() {
        for kind in Kind::ALL {
            for id in [0, 1, 4096, MOST_IDS - 1] {
                let owner = u32::try_from(id).ok().map(|id| (kind, id));
                assert_eq!(unpacked(packed(owner)), owner);
            }
        }
        assert_eq!(unpacked(packed(None)), None);
        assert_eq!(packed(Some((Kind::Anon, u32::MAX))), NOBODY);
    }
}
