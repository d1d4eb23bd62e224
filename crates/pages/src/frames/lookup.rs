//! The numbers and the folios of some frames.
//!
//! Frames next to each other are read together. A folio lies at a multiple of its size, which
//! bounds the search for its first frame and for its end.

use std::collections::BTreeMap;
use std::io;

use super::file::{FrameFile, Words};
use super::flags::Flags;

/// Frames at most so far apart are read in one call: a call costs as much as about so many frames.
const GAP: u64 = 8;
/// How far around a frame the rest of its folio is searched, in frames. Most folios are small.
const WINDOWS: [u64; 2] = [16, 512];

/// A folio: pages that the kernel keeps together.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Folio {
    /// Its first frame.
    pub head: u64,
    /// How many.
    pub len: u64,
    /// Flags of the first.
    pub flags: Flags,
}

/// Calls `each` with the place in `frames`, the frame and its number. `frames` must be sorted. A
/// frame behind the end of memory has the number 0.
///
/// # Errors
///
/// What the kernel says. `each` was then called for the frames before.
pub fn for_each_of<F: Words>(
    file: &mut FrameFile<F>,
    frames: &[u64],
    mut each: impl FnMut(usize, u64, u64),
) -> io::Result<()> {
    let (mut buf, mut nr) = (Vec::new(), 0);
    let mut rest = frames;
    while let Some(&first) = rest.first() {
        let near = rest.windows(2).take_while(|two| two[1] - two[0] <= GAP).count() + 1;
        let (run, behind) = rest.split_at(near);
        let last = run.last().copied().unwrap_or(first);
        buf.clear();
        buf.resize(usize::try_from(last - first + 1).unwrap_or(1), 0);
        file.read(first, &mut buf)?;
        for &frame in run {
            let word = usize::try_from(frame - first).ok().and_then(|at| buf.get(at));
            each(nr, frame, word.copied().unwrap_or(0));
            nr += 1;
        }
        rest = behind;
    }
    Ok(())
}

/// The numbers of these frames, which are sorted.
///
/// # Errors
///
/// What the kernel says.
pub fn by_frame<F: Words>(
    file: &mut FrameFile<F>,
    frames: &[u64],
) -> io::Result<BTreeMap<u64, u64>> {
    let mut found = Vec::with_capacity(frames.len());
    for_each_of(file, frames, |_, frame, word| found.push((frame, word)))?;
    Ok(found.into_iter().collect())
}

/// The folios of these frames, which must be sorted. `file` is that of the flags. Only folios whose
/// flags pass `look_closer` get their true beginning and length.
///
/// # Errors
///
/// What the kernel says.
pub fn folios_of<F: Words>(
    file: &mut FrameFile<F>,
    frames: &[u64],
    look_closer: &dyn Fn(Flags) -> bool,
) -> io::Result<BTreeMap<u64, Folio>> {
    let flags = by_frame(file, frames)?;
    let mut last: Option<Folio> = None;
    let mut found = Vec::with_capacity(flags.len());
    for (frame, flags) in flags {
        let flags = Flags(flags);
        let folio = match last {
            Some(known) if (known.head..known.head + known.len).contains(&frame) => known,
            _ if look_closer(flags) => folio_around(file, frame)?,
            _ => Folio { head: frame, len: 1, flags },
        };
        last = Some(folio);
        found.push((frame, folio));
    }
    Ok(found.into_iter().collect())
}

/// The folio of several frames that this one is part of.
fn folio_around<F: Words>(file: &mut FrameFile<F>, frame: u64) -> io::Result<Folio> {
    let mut folio = Folio { head: frame, len: 1, flags: Flags::default() };
    let mut words = [0; 512];
    for size in WINDOWS {
        let first = frame & !(size - 1);
        let flags = &mut words[..usize::try_from(size).unwrap_or(1)];
        flags.fill(0);
        file.read(first, flags)?;
        let nr = usize::try_from(frame - first).unwrap_or(0);
        let head = flags[..=nr].iter().rposition(|f| Flags(*f).has(Flags::HEAD));
        let at = head.unwrap_or(0);
        let tails = flags[at + 1..].iter().take_while(|f| Flags(**f).has(Flags::TAIL)).count();
        let (begin, len) = (at as u64, tails as u64 + 1);
        folio = Folio { head: first + begin, len, flags: Flags(flags[at]) };
        // A folio that begins inside the window also ends there, because it lies at a multiple of
        // its size.
        if head.is_some() && (at > 0 || len < size) {
            break;
        }
    }
    Ok(folio)
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::super::made_up::Table;
    use super::*;

    const ACTIVE: u64 = Flags::ACTIVE.0;
    const HEAD: u64 = Flags::HEAD.0;
    const TAIL: u64 = Flags::TAIL.0;

    /// Flags of frames 0 and up, and how often they were read.
    struct Fake {
        flags: Table,
        calls: Cell<u32>,
    }

    impl Words for Fake {
        fn read_at(&self, bytes: &mut [u8], offset: u64) -> io::Result<usize> {
            self.calls.set(self.calls.get() + 1);
            self.flags.read_at(bytes, offset)
        }
    }

    /// Folios of `len` frames at these frames; the first of each is active.
    fn fake(folios: &[(usize, usize)]) -> Fake {
        let mut flags = vec![0; 2048];
        for &(at, len) in folios {
            flags[at + 1..at + len].fill(TAIL);
            flags[at] = ACTIVE | if len > 1 { HEAD } else { 0 };
        }
        Fake { flags: Table(flags), calls: Cell::new(0) }
    }

    #[test]
    fn the_folio_of_a_frame_is_found_whole() {
        let words = fake(&[(8, 4), (12, 4), (16, 16), (32, 16), (64, 64), (512, 512), (1030, 1)]);
        let mut file = FrameFile::new(&words);
        for (frame, head, len) in [
            (0, 0, 1),
            (8, 8, 4),
            (11, 8, 4),
            (12, 12, 4),
            (16, 16, 16),
            (31, 16, 16),
            (40, 32, 16),
            (64, 64, 64),
            (127, 64, 64),
            (128, 128, 1),
            (512, 512, 512),
            (1023, 512, 512),
            (1030, 1030, 1),
        ] {
            let found = folios_of(&mut file, &[frame], &|f| f.0 & (HEAD | TAIL) != 0).unwrap();
            let folio = found[&frame];
            assert_eq!((folio.head, folio.len), (head, len), "frame {frame}");
            let active = ![0, 128].contains(&frame);
            assert_eq!(folio.flags.has(Flags::ACTIVE), active, "frame {frame}: flags of its first");
        }
    }

    #[test]
    fn near_frames_are_read_at_once() {
        let words = fake(&[(100, 1)]);
        for (frames, calls) in
            [(vec![], 0), (vec![100], 1), (vec![96, 100, 108], 1), (vec![91, 100], 2)]
        {
            words.calls.set(0);
            let found = by_frame(&mut FrameFile::new(&words), &frames).unwrap();
            assert_eq!(found.keys().copied().collect::<Vec<_>>(), frames);
            assert_eq!(found.get(&100).copied(), frames.contains(&100).then_some(ACTIVE));
            assert_eq!(words.calls.get(), calls, "{frames:?}");
        }
    }
}
