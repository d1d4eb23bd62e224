//! The idle page bitmap: one bit per page frame of the machine, `/sys/kernel/mm/page_idle/bitmap`.
//!
//! Frame `i` is bit `i % 64` of the native-endian word at byte `i / 64 * 8`. As `mm/page_idle.c`
//! has it (Linux 4.3 to 7.2):
//!
//! * Offsets and lengths are multiples of 8 (else `EINVAL`), and one call moves 4096 bytes at most.
//! * **Writing** acts on the bits that are set, and only on *trackable* frames: the first frame of
//!   a folio that is on an LRU list. The kernel clears its accessed bits in all page tables, and
//!   makes it idle. Other bits do nothing, without an error.
//! * **Reading** looks at trackable frames that are idle. The kernel collects the accessed bits
//!   from the page tables, and a frame that was touched is no longer idle. So a read is a true
//!   check, and it changes nothing for pages that are not marked.
//! * Frames behind a folio's first, slab, page tables, hugetlb and isolated pages read 0. **0 does
//!   not mean touched.**
//! * Memory ends at `max_pfn`: reading gives 0 bytes there, and writing `ENXIO`. If `max_pfn` is
//!   inside a word, the kernel acts on that word but does not count it in its result, so no read
//!   ever returns it.
//! * The TLB is not flushed: a page in constant use can look idle for as long as its translation
//!   stays cached.
//!
//! Cost: a write walks the page tables that map each marked frame. A read takes and drops a
//! reference of each of the 64 frames of a word. So a write may bridge a few words to save a call,
//! and a read may not.
//!
//! Absent on purpose: which frames are worth asking about (`frames`), and locks against other users
//! (`lock`).

use std::fmt;
use std::fs::File;
use std::io;
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::path::Path;

/// Where the kernel shows it. The series of 2015 had it at `/proc/kpageidle`, with the same
/// content.
pub const BITMAP: &str = "/sys/kernel/mm/page_idle/bitmap";
/// Frames in a word.
pub const WORD_FRAMES: u64 = 64;
/// Words that one call moves at most.
pub const CALL_WORDS: usize = 512;
/// Bytes of a word.
const WORD: usize = 8;
/// Words between two frames that one write bridges: a zero word costs less than a call.
const WRITE_BRIDGE: u64 = 8;
/// Words that one read bridges: none, because each costs as much as a call.
const READ_BRIDGE: u64 = 0;

/// What a bitmap is read from and written to: a file, or a made-up kernel.
pub trait Words {
    /// As `pread(2)`.
    ///
    /// # Errors
    ///
    /// As `pread(2)`.
    fn read_at(&self, bytes: &mut [u8], offset: u64) -> io::Result<usize>;

    /// As `pwrite(2)`.
    ///
    /// # Errors
    ///
    /// As `pwrite(2)`; `ENXIO` at the end of memory.
    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<usize>;
}

impl Words for File {
    fn read_at(&self, bytes: &mut [u8], offset: u64) -> io::Result<usize> {
        FileExt::read_at(self, bytes, offset)
    }

    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<usize> {
        FileExt::write_at(self, bytes, offset)
    }
}

/// The bitmap, open.
pub struct Bitmap<F = File> {
    file: F,
    bytes: Box<[u8]>,
    calls: u64,
}

impl<F> fmt::Debug for Bitmap<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Bitmap").field("calls", &self.calls).finish_non_exhaustive()
    }
}

impl Bitmap {
    /// Opens the bitmap at `path`, usually [`BITMAP`], to read and write.
    ///
    /// # Errors
    ///
    /// `NotFound`: the kernel has no `CONFIG_IDLE_PAGE_TRACKING`; `PermissionDenied`: the file is
    /// for root.
    pub fn open(path: &Path) -> io::Result<Self> {
        File::options().read(true).write(true).open(path).map(Self::new)
    }
}

impl<F: Words> Bitmap<F> {
    /// The bitmap behind `file`.
    pub fn new(file: F) -> Self {
        Self { file, bytes: vec![0; CALL_WORDS * WORD].into(), calls: 0 }
    }

    /// What it is read from.
    pub const fn file(&self) -> &F {
        &self.file
    }

    /// System calls made so far.
    #[must_use]
    pub const fn calls(&self) -> u64 {
        self.calls
    }

    /// Reads words, beginning with that of frame `first` (rounded down to a word). Returns how many
    /// there were, which is fewer than asked for where memory ends.
    ///
    /// # Errors
    ///
    /// What the kernel says.
    pub fn read(&mut self, first: u64, words: &mut [u64]) -> io::Result<usize> {
        let mut done = 0;
        while done < words.len() {
            let nr = (words.len() - done).min(CALL_WORDS);
            let got = self.read_call(first / WORD_FRAMES + done as u64, nr)?;
            for (word, bytes) in
                words[done..].iter_mut().zip(self.bytes[..got * WORD].as_chunks().0)
            {
                *word = u64::from_ne_bytes(*bytes);
            }
            done += got;
            if got == 0 {
                break;
            }
        }
        Ok(done)
    }

    /// Writes words, beginning with that of frame `first` (rounded down to a word). Returns how
    /// many were counted, which is fewer than given where memory ends.
    ///
    /// # Errors
    ///
    /// What the kernel says. The end of memory is no error.
    pub fn write(&mut self, first: u64, words: &[u64]) -> io::Result<usize> {
        let mut done = 0;
        for call in words.chunks(CALL_WORDS) {
            for (bytes, word) in self.bytes.as_chunks_mut().0.iter_mut().zip(call) {
                *bytes = word.to_ne_bytes();
            }
            let got = self.write_call(first / WORD_FRAMES + done as u64, call.len())?;
            done += got;
            if got < call.len() {
                break;
            }
        }
        Ok(done)
    }

    /// Marks all frames of the range idle. Returns the first frame that was not reached: the
    /// range's end, or where the last whole word of memory ends.
    ///
    /// # Errors
    ///
    /// What the kernel says. Frames before the error are marked.
    pub fn mark_range(&mut self, frames: Range<u64>) -> io::Result<u64> {
        let mut at = frames.start;
        while at < frames.end {
            let first = at / WORD_FRAMES;
            let nr = words_up_to(first, frames.end);
            for (nr, bytes) in (first..).zip(self.bytes[..nr * WORD].as_chunks_mut().0) {
                *bytes = bits_of(nr, &frames).to_ne_bytes();
            }
            let got = self.write_call(first, nr)?;
            at = ((first + got as u64) * WORD_FRAMES).clamp(at, frames.end);
            if got < nr {
                break;
            }
        }
        Ok(at)
    }

    /// Calls `each` with the first frame and the bits of every word that has frames of the range;
    /// bits of other frames are 0. Returns the first frame that was not reached, as
    /// [`Bitmap::mark_range`] does.
    ///
    /// # Errors
    ///
    /// What the kernel says.
    pub fn read_range(
        &mut self,
        frames: Range<u64>,
        each: &mut dyn FnMut(u64, u64),
    ) -> io::Result<u64> {
        let mut at = frames.start;
        while at < frames.end {
            let first = at / WORD_FRAMES;
            let got = self.read_call(first, words_up_to(first, frames.end))?;
            for (nr, bytes) in (first..).zip(self.bytes[..got * WORD].as_chunks().0) {
                each(nr * WORD_FRAMES, u64::from_ne_bytes(*bytes) & bits_of(nr, &frames));
            }
            at = ((first + got as u64) * WORD_FRAMES).clamp(at, frames.end);
            if got == 0 {
                break;
            }
        }
        Ok(at)
    }

    /// Marks the frame of each item idle. Items sorted by frame share words and calls; unsorted
    /// ones only cost more. Frames behind the end of memory are skipped, and so are frames that are
    /// not trackable.
    ///
    /// # Errors
    ///
    /// What the kernel says. The items before the error are marked.
    pub fn mark<T>(&mut self, items: &[T], frame: impl Fn(&T) -> u64) -> io::Result<()> {
        let mut rest = items;
        while let Some((first, words, len)) = run(rest, &frame, WRITE_BRIDGE) {
            let (items, others) = rest.split_at(len);
            rest = others;
            self.bytes[..words * WORD].fill(0);
            let bytes = self.bytes.as_chunks_mut::<WORD>().0;
            for frame in items.iter().map(&frame) {
                #[expect(clippy::cast_possible_truncation, reason = "less than CALL_WORDS")]
                let bytes = &mut bytes[(frame / WORD_FRAMES - first) as usize];
                *bytes = (u64::from_ne_bytes(*bytes) | 1 << (frame % WORD_FRAMES)).to_ne_bytes();
            }
            self.write_call(first, words)?;
        }
        Ok(())
    }

    /// Tells each item whether its frame is idle; `None` behind the end of memory. Sorted items
    /// cost less, as in [`Bitmap::mark`].
    ///
    /// # Errors
    ///
    /// What the kernel says. The items from there on are not told.
    pub fn look<T>(
        &mut self,
        items: &mut [T],
        frame: impl Fn(&T) -> u64,
        mut tell: impl FnMut(&mut T, Option<bool>),
    ) -> io::Result<()> {
        let mut rest = items;
        while let Some((first, words, len)) = run(rest, &frame, READ_BRIDGE) {
            let (items, others) = rest.split_at_mut(len);
            rest = others;
            let mut got = 0;
            while got < words {
                let at = got * WORD;
                match self.read_some(first + got as u64, at, words - got)? {
                    0 => break,
                    nr => got += nr,
                }
            }
            let bytes = self.bytes[..got * WORD].as_chunks().0;
            for item in items {
                let frame = frame(item);
                let word = usize::try_from(frame / WORD_FRAMES - first).ok();
                let word = word.and_then(|nr| bytes.get(nr)).map(|b| u64::from_ne_bytes(*b));
                tell(item, word.map(|word| word >> (frame % WORD_FRAMES) & 1 == 1));
            }
        }
        Ok(())
    }

    /// Reads up to `nr` words to the beginning of the buffer. Returns whole words only.
    fn read_call(&mut self, word: u64, nr: usize) -> io::Result<usize> {
        self.read_some(word, 0, nr)
    }

    fn read_some(&mut self, word: u64, at: usize, nr: usize) -> io::Result<usize> {
        let Some(offset) = offset_of(word) else { return Ok(0) };
        loop {
            self.calls += 1;
            match self.file.read_at(&mut self.bytes[at..at + nr * WORD], offset) {
                Ok(got) => return Ok(got / WORD),
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                Err(e) => return Err(e),
            }
        }
    }

    /// Writes `nr` words of the buffer, and continues after short counts. Returns how many were
    /// counted.
    fn write_call(&mut self, word: u64, nr: usize) -> io::Result<usize> {
        let mut done = 0;
        while done < nr {
            let Some(offset) = offset_of(word + done as u64) else { break };
            self.calls += 1;
            match self.file.write_at(&self.bytes[done * WORD..nr * WORD], offset) {
                // The last word of memory, which is not whole: the kernel acted on it, but did not
                // count it.
                Ok(got) if got < WORD => break,
                Ok(got) => done += got / WORD,
                Err(e) if e.raw_os_error() == Some(libc::ENXIO) => break,
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                Err(e) => return Err(e),
            }
        }
        Ok(done)
    }
}

/// A word's place in the file; files end at 2^63.
fn offset_of(word: u64) -> Option<u64> {
    word.checked_mul(WORD as u64).filter(|offset| *offset <= i64::MAX as u64 - 4096)
}

/// Words from `first` on that have frames before `end`, as far as one call goes.
fn words_up_to(first: u64, end: u64) -> usize {
    let left = end.div_ceil(WORD_FRAMES) - first;
    usize::try_from(left).map_or(CALL_WORDS, |left| left.min(CALL_WORDS))
}

/// The bits of word `nr` whose frames are in the range.
fn bits_of(nr: u64, frames: &Range<u64>) -> u64 {
    let first = nr * WORD_FRAMES;
    let below = |end: u64| match end.saturating_sub(first) {
        nr if nr >= WORD_FRAMES => u64::MAX,
        nr => (1 << nr) - 1,
    };
    below(frames.end) & !below(frames.start)
}

/// The items at the begin that one call reaches: its first word, how many words, how many items.
fn run<T>(items: &[T], frame: impl Fn(&T) -> u64, bridge: u64) -> Option<(u64, usize, usize)> {
    let first = frame(items.first()?) / WORD_FRAMES;
    let (mut last, mut len) = (first, 0);
    for item in items {
        let word = frame(item) / WORD_FRAMES;
        if word < last || word - last > bridge + 1 || word - first >= CALL_WORDS as u64 {
            break;
        }
        (last, len) = (word, len + 1);
    }
    let words = usize::try_from(last - first).map_or(CALL_WORDS, |nr| nr + 1);
    Some((first, words, len))
}

#[cfg(test)]
mod tests;
