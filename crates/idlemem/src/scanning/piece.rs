//! One piece of memory, 128 MiB of frames: reading what stayed idle, and marking the rest again.
//!
//! A look takes four steps:
//!
//! 1. Read the bitmap where it was marked. Its bits are at first frames of folios only. Reading
//!    also brings them up to date.
//! 2. For idle frames that were not idle before, read their flags (kind, size) and their cgroup.
//!    Frames that stay idle are known ([`Known`]). For a known large folio two flags are read
//!    again, which show whether it was split. At each look, one piece in [`REFRESH`] asks for
//!    everything again. That finds changes that leave no trace: a folio that compaction moved into
//!    a frame that was idle itself, or one that was locked, mapped or unmapped.
//! 3. Add up.
//! 4. Mark all frames idle that are not. Frames that stayed idle are left alone, because their
//!    accessed bits are clear already. This step reads no flags: the kernel ignores marks at frames
//!    that are not user memory.
//!
//! Only words of 64 frames that are in the sample are marked. The sample is all words, unless the
//! budget is too small.

use std::io;

use isotherm_pages::frames::{Flags, FrameFile, Words as FrameWords, for_each_of};
use isotherm_pages::idle::{Bitmap, Words as BitmapWords};

use crate::kinds::{Bytes, Kind};
use crate::scanning::known::{Ids, Known};

/// Frames of a piece: one call of the bitmap.
pub(crate) const FRAMES: u64 = 32768;
/// Words of the bitmap for them.
const WORDS: usize = 512;
/// Frames in a word.
const WORD: u64 = 64;
/// Words of 2 MiB.
const HUGE_WORDS: u64 = 8;
/// Each piece asks for everything again at one look of so many.
pub(crate) const REFRESH: u64 = 16;
/// log2 of the frames of the largest folio that fits into a piece.
const MOST_ORDER: u32 = 15;
/// Bytes of a frame.
const FRAME_BYTES: u64 = 4096;

/// Where everything is read from.
#[derive(Debug)]
pub(crate) struct Kernel<B, F> {
    pub(crate) bitmap: Bitmap<B>,
    pub(crate) flags: FrameFile<F>,
    /// None on kernels without memory cgroups: then no memory is charged to any.
    pub(crate) cgroups: Option<FrameFile<F>>,
}

/// Which words are looked at: all, or a part drawn at random that is the same at each look.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Sample {
    /// Of 2^32; [`Sample::ALL`] for all.
    below: u64,
    seed: u64,
}

impl Sample {
    pub(crate) const ALL: Self = Self { below: 1 << 32, seed: 0 };

    /// A share of the words, at least 1 of 256.
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "0 to 2^32")]
    pub(crate) fn of(share: f64, seed: u64) -> Self {
        let below = (share.clamp(1.0 / 256.0, 1.0) * 4_294_967_296.0) as u64;
        Self { below, seed }
    }

    /// The share of the words that is in it.
    #[expect(clippy::cast_precision_loss, reason = "at most 2^32")]
    pub(crate) const fn share(self) -> f64 {
        self.below as f64 / 4_294_967_296.0
    }

    /// The frames of a word that are in the sample. A larger share contains all frames of a smaller
    /// one. First frames of 2 MiB are always in it: there are few, and each may stand for much
    /// memory.
    const fn frames(self, word: u64) -> u64 {
        if self.below >> 32 != 0 || mixed(word ^ self.seed) >> 32 < self.below {
            u64::MAX
        } else {
            word.is_multiple_of(HUGE_WORDS) as u64
        }
    }
}

/// `SplitMix64`'s finisher: every bit of the result depends on every bit given.
pub(crate) const fn mixed(x: u64) -> u64 {
    let x = x.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ (x >> 31)
}

/// Sums by cgroup: the number in [`Ids`] is the place.
pub(crate) type Sums = Vec<Bytes>;

/// What a look is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Look {
    /// Number of this round over all pieces; decides which pieces ask for everything again.
    pub(crate) round: u64,
    /// What to mark for the next look.
    pub(crate) sample: Sample,
}

/// A piece and what is known of it.
#[derive(Debug)]
pub(crate) struct Piece {
    /// First frame, a multiple of 64.
    first: u64,
    /// Words, up to [`WORDS`].
    words: usize,
    /// What was marked at the last look; `None` before the first.
    marked: Option<Sample>,
    /// Idle at the last look.
    idle: Box<[u64]>,
    /// By frame, valid where `idle`. Empty until something is idle.
    known: Vec<Known>,
}

/// Kept buffers of a look.
#[derive(Debug, Default)]
pub(crate) struct Buffers {
    idle: Vec<u64>,
    /// Frames to ask for, in order.
    ask: Vec<u64>,
    /// Their flags.
    flags: Vec<u64>,
    /// Their cgroups' inodes.
    inos: Vec<u64>,
    /// Bytes by cgroup in one word.
    places: Vec<(u32, u64)>,
}

impl Piece {
    /// Cuts sorted ranges of frames into pieces. A word that two ranges share is in one piece only.
    pub(crate) fn cut(ranges: &[std::ops::Range<u64>]) -> Vec<Self> {
        let mut pieces = Vec::new();
        let mut from = 0;
        for range in ranges {
            let mut at = from.max(range.start - range.start % WORD);
            let end = range.end.next_multiple_of(WORD);
            while at < end {
                // Pieces begin at multiples of their size, so that no folio lies across two.
                let behind = ((at / FRAMES + 1) * FRAMES).min(end);
                let words = usize::try_from((behind - at) / WORD).unwrap_or(WORDS);
                let idle = vec![0; words].into();
                pieces.push(Self { first: at, words, marked: None, idle, known: Vec::new() });
                at = behind;
            }
            from = from.max(end);
        }
        pieces
    }

    /// Bytes of memory.
    pub(crate) const fn bytes(&self) -> u64 {
        self.words as u64 * WORD * FRAME_BYTES
    }

    /// The share that was marked last.
    pub(crate) fn share(&self) -> f64 {
        self.marked.map_or(1.0, Sample::share)
    }

    /// Forgets everything: the next look only marks.
    pub(crate) fn forget(&mut self) {
        self.idle.fill(0);
        self.marked = None;
        self.known = Vec::new();
    }

    /// Finds what stayed idle since the last look, adds that to `sums`, and marks the rest. The
    /// first look only marks, and returns the bytes of the frames that others had marked before.
    /// Later looks return 0.
    pub(crate) fn look<B: BitmapWords, F: FrameWords>(
        &mut self,
        kernel: &mut Kernel<B, F>,
        ids: &mut Ids,
        sums: &mut Sums,
        buffers: &mut Buffers,
        look: Look,
    ) -> io::Result<u64> {
        let mut idle = std::mem::take(&mut buffers.idle);
        idle.clear();
        idle.resize(self.words, 0);
        self.read(&mut kernel.bitmap, &mut idle)?;
        let others = if self.marked.is_none() {
            let frames: u32 = idle.iter().map(|word| word.count_ones()).sum();
            u64::from(frames) * FRAME_BYTES
        } else {
            0
        };
        let result = self.take(kernel, ids, sums, buffers, &idle, look);
        buffers.idle = idle;
        result.map(|()| others)
    }

    /// Reads the bits of what was marked; at the first look, all bits. Words outside of the sample
    /// are not read: their pages may have old marks, and for each of those the kernel would walk
    /// the page tables that map it.
    fn read<B: BitmapWords>(&self, bitmap: &mut Bitmap<B>, idle: &mut [u64]) -> io::Result<()> {
        let first_word = self.first / WORD;
        let wanted =
            |nr: usize| self.marked.is_none_or(|sample| sample.frames(first_word + nr as u64) != 0);
        let mut at = 0;
        while at < idle.len() {
            if !wanted(at) {
                at += 1;
                continue;
            }
            let end = (at..idle.len()).find(|nr| !wanted(*nr)).unwrap_or(idle.len());
            let got = bitmap.read(self.first + at as u64 * WORD, &mut idle[at..end])?;
            if got < end - at {
                break;
            }
            at = end;
        }
        Ok(())
    }

    /// Steps 2 to 4, with the bits that were read.
    fn take<B: BitmapWords, F: FrameWords>(
        &mut self,
        kernel: &mut Kernel<B, F>,
        ids: &mut Ids,
        sums: &mut Sums,
        buffers: &mut Buffers,
        read: &[u64],
        look: Look,
    ) -> io::Result<()> {
        let (first_word, last) = (self.first / WORD, self.marked);
        let mine = |word: u64| last.map_or(0, |last| last.frames(word));
        // What was not marked by us does not say since when it is idle.
        let mut now: Vec<u64> =
            (first_word..).zip(read).map(|(nr, bits)| bits & mine(nr)).collect();
        let refresh = (self.first / FRAMES + look.round).is_multiple_of(REFRESH);
        self.ask(kernel, ids, buffers, &mut now, refresh)?;
        self.add_up(sums, &mut buffers.places, &now);
        self.idle.copy_from_slice(&now);
        // Frames that another program marked, or we before the sample grew. Their ages begin anew.
        for ((nr, word), bits) in (first_word..).zip(&mut now).zip(read) {
            *word = look.sample.frames(nr) & !(bits & mine(nr));
        }
        kernel.bitmap.write(self.first, &now)?;
        self.marked = Some(look.sample);
        Ok(())
    }

    /// Reads what unknown idle folios are, and makes known ones older. Frames that are not an idle
    /// folio of a user are taken out of `now`.
    fn ask<B, F: FrameWords>(
        &mut self,
        kernel: &mut Kernel<B, F>,
        ids: &mut Ids,
        buffers: &mut Buffers,
        now: &mut [u64],
        refresh: bool,
    ) -> io::Result<()> {
        if now.iter().all(|word| *word == 0) {
            return Ok(());
        }
        self.known.resize(self.words * 64, Known::default());
        let Buffers { ask, flags, inos, .. } = buffers;
        ask.clear();
        // Only large folios can have been split, so without any there is nothing to look for.
        let mut large = false;
        for_each_bit(&self.idle, |nr| large |= self.known[nr].order() > 0);
        for_each_bit(now, |nr| {
            let stayed = self.idle[nr / 64] >> (nr % 64) & 1 == 1;
            if stayed {
                self.known[nr] = self.known[nr].older();
            } else {
                let age = if large { self.age_of_whole(nr, now) } else { 1 };
                self.known[nr] = Known::new(age, 0, Kind::Anon, 0);
            }
            if !stayed || refresh {
                ask.push(self.first + nr as u64);
            }
        });
        if !refresh {
            self.ask_about_splits(&mut kernel.flags, now, ask)?;
        }
        flags.clear();
        flags.resize(ask.len(), 0);
        for_each_of(&mut kernel.flags, ask, |at, _, word| flags[at] = word)?;
        inos.clear();
        inos.resize(ask.len(), 0);
        if let Some(cgroups) = &mut kernel.cgroups {
            for_each_of(cgroups, ask, |at, _, word| inos[at] = word)?;
        }
        for ((&frame, &word), &ino) in ask.iter().zip(flags.iter()).zip(inos.iter()) {
            let nr = usize::try_from(frame - self.first).unwrap_or(usize::MAX);
            let word = Flags(word);
            // Freed, or made part of a larger folio, in this moment.
            let Some(id) = ids.of(ino).filter(|_| word.is_first() && word.has(Flags::LRU)) else {
                now[nr / 64] &= !(1 << (nr % 64));
                continue;
            };
            let order = if word.has(Flags::HEAD) { order_at(&mut kernel.flags, frame)? } else { 0 };
            self.known[nr] = Known::new(self.known[nr].age(), order, Kind::of(word), id);
        }
        Ok(())
    }

    /// The age of a frame that is idle and was not before: 1. If it was part of a large folio that
    /// was split (the parts inherit the flag), it is that folio's age.
    fn age_of_whole(&self, nr: usize, now: &[u64]) -> u8 {
        for order in 1..=MOST_ORDER {
            // A folio lies at a multiple of its size, a piece need not.
            let head = (self.first + nr as u64) >> order << order;
            let Some(head) = head.checked_sub(self.first) else { break };
            let head = usize::try_from(head).unwrap_or(nr);
            let was_idle = head != nr && self.idle[head / 64] >> (head % 64) & 1 == 1;
            if was_idle && self.known[head].order() == order {
                // If it is idle still it was made older already, being first.
                let is_idle = now[head / 64] >> (head % 64) & 1 == 1;
                let known = self.known[head];
                return if is_idle { known.age() } else { known.older().age() };
            }
        }
        1
    }

    /// Adds known large folios that were split meanwhile to `ask`. If a folio of 2^n frames was
    /// split, however unevenly, a first frame of another folio is in its middle.
    fn ask_about_splits<F: FrameWords>(
        &self,
        file: &mut FrameFile<F>,
        now: &[u64],
        ask: &mut Vec<u64>,
    ) -> io::Result<()> {
        let mut middles = Vec::new();
        for_each_bit(now, |nr| {
            let order = self.known[nr].order();
            if order > 0 {
                middles.push(self.first + nr as u64 + (1 << (order - 1)));
            }
        });
        let before = ask.len();
        let mut split = Vec::new();
        for_each_of(file, &middles, |_, frame, word| {
            if !Flags(word).has(Flags::TAIL) {
                split.push(frame);
            }
        })?;
        for middle in split {
            // The first frame is the closest large one before it.
            let nr = usize::try_from(middle - self.first).unwrap_or(usize::MAX);
            let head = (0..nr).rev().find(|nr| {
                let half = 1_u64.checked_shl(self.known[*nr].order()).unwrap_or(0) / 2;
                self.known[*nr].order() > 0
                    && now[nr / 64] >> (nr % 64) & 1 == 1
                    && self.first + *nr as u64 + half == middle
            });
            ask.extend(head.map(|nr| self.first + nr as u64));
        }
        if ask.len() > before {
            ask.sort_unstable();
            ask.dedup();
        }
        Ok(())
    }

    fn add_up(&self, sums: &mut Sums, places: &mut Vec<(u32, u64)>, now: &[u64]) {
        let weight = 1.0 / self.share();
        for (nr, word) in now.iter().enumerate().filter(|(_, word)| **word != 0) {
            places.clear();
            for_each_bit(std::slice::from_ref(word), |bit| {
                let known = self.known[nr * 64 + bit];
                let id = known.id() as usize;
                if sums.len() <= id {
                    sums.resize(id + 1, Bytes::default());
                }
                let bytes = FRAME_BYTES << known.order();
                // See `Sample::frames`.
                let always = bit == 0 && (self.first / WORD + nr as u64).is_multiple_of(HUGE_WORDS);
                let weight = if always { 1.0 } else { weight };
                sums[id].add(known.kind(), known.age(), bytes, weight);
                if weight > 1.0 && known.kind() != Kind::Unevictable {
                    match places.iter_mut().find(|(other, _)| *other == known.id()) {
                        Some((_, sum)) => *sum += bytes,
                        None => places.push((known.id(), bytes)),
                    }
                }
            });
            for (id, bytes) in places.iter() {
                sums[*id as usize].add_place(*bytes, weight);
            }
        }
    }
}

/// Calls `f` with the number of each bit that is set, in order.
fn for_each_bit(words: &[u64], mut f: impl FnMut(usize)) {
    for (nr, &word) in words.iter().enumerate() {
        let mut rest = word;
        while rest != 0 {
            f(nr * 64 + rest.trailing_zeros() as usize);
            rest &= rest - 1;
        }
    }
}

/// log2 of the frames of the folio that begins at `frame`: as many as have the flag of a tail. A
/// folio lies at a multiple of its size, so only a few sizes are possible.
fn order_at<F: FrameWords>(file: &mut FrameFile<F>, frame: u64) -> io::Result<u32> {
    let most = if frame == 0 { 9 } else { frame.trailing_zeros().min(MOST_ORDER) };
    let mut order = 0;
    let mut at = [0];
    // The folio is twice as large if the frame in the middle of that is a tail. So only one frame
    // per possible size is checked.
    while order < most {
        at[0] = 0;
        file.read(frame + (1 << order), &mut at)?;
        if !Flags(at[0]).has(Flags::TAIL) {
            break;
        }
        order += 1;
    }
    Ok(order)
}
