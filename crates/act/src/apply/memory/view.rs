//! What is seen of a range of frames: folios with their flags and marks.

use std::io;
use std::ops::Range;

use isotherm_core::AddrRange;
use isotherm_core::addr::PAGE_SIZE;
use isotherm_pages::frames::{Flags, FrameFile, Words};
use isotherm_pages::idle;
use isotherm_pages::paddr::FrameKind;

use crate::apply::evidence::look::Seen;
use crate::apply::pages::{Bits, GRANULE};

/// A folio, or the part of it that lies in the range.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Seg {
    /// Its first frame.
    pub(super) head: u64,
    /// Frames.
    pub(super) len: u64,
    /// Flags of the first.
    pub(super) flags: Flags,
    /// Marked, and not touched since.
    pub(super) idle: bool,
}

impl Seg {
    /// Whether it holds data that the kernel could reclaim or move.
    pub(super) const fn is_movable(&self) -> bool {
        let kind = FrameKind::of(self.flags);
        let data = matches!(
            kind,
            FrameKind::Anon | FrameKind::File | FrameKind::UnmappedFile | FrameKind::Shared
        );
        data && self.flags.has(Flags::LRU) && !self.flags.has(Flags::UNEVICTABLE)
    }

    /// Whether some process maps it, so that it can be acted on.
    pub(super) const fn is_reachable(&self) -> bool {
        self.is_movable() && self.flags.has(Flags::MMAP)
    }

    /// Its addresses.
    pub(super) const fn range(&self) -> AddrRange {
        AddrRange::new(self.head * PAGE_SIZE, (self.head + self.len) * PAGE_SIZE)
    }
}

/// The folios that lie in a range of frames as a whole, ascending, and whether their marks stand.
/// This is the true check: reading the bitmap takes the accessed bits into account (R§7.1).
pub(super) fn view<B: idle::Words, F: Words>(
    bitmap: &mut idle::Bitmap<B>,
    flags: &mut FrameFile<F>,
    frames: Range<u64>,
) -> io::Result<Vec<Seg>> {
    let nr = usize::try_from(frames.end.saturating_sub(frames.start)).unwrap_or(0);
    // The bitmap first: reading it brings the marks up to date.
    let first = frames.start / 64 * 64;
    let mut marks = vec![0; nr / 64 + 2];
    let got = bitmap.read(first, &mut marks)?;
    marks.truncate(got);
    let is_idle = |frame: u64| {
        let at = usize::try_from((frame - first) / 64).unwrap_or(usize::MAX);
        marks.get(at).is_some_and(|word| word >> (frame % 64) & 1 == 1)
    };
    let mut folios = flags_view(flags, frames)?;
    folios.iter_mut().for_each(|folio| folio.idle = is_idle(folio.head));
    Ok(folios)
}

/// As above, but by the flags alone, which cost a fraction. A mark that the flags show may be out
/// of date, because the page may have been touched since. What is on no list of the kernel's
/// reclaim, as free memory, is left out: most frames of many machines.
pub(super) fn flags_view<F: Words>(
    flags: &mut FrameFile<F>,
    frames: Range<u64>,
) -> io::Result<Vec<Seg>> {
    let nr = usize::try_from(frames.end.saturating_sub(frames.start)).unwrap_or(0);
    // One more, to see whether the last folio ends here.
    let mut words = vec![0; nr + 1];
    let got = flags.read(frames.start, &mut words)?;
    let mut folios: Vec<Seg> = Vec::new();
    let mut open = false;
    for (frame, word) in (frames.start..).zip(&words[..got]) {
        let flags = Flags(*word);
        if frame == frames.end {
            if open && !flags.is_first() {
                folios.pop();
            }
        } else if flags.is_first() {
            let is_listed = flags.has(Flags::LRU);
            if is_listed {
                folios.push(Seg { head: frame, len: 1, flags, idle: flags.has(Flags::IDLE) });
            }
            open = is_listed && flags.has(Flags::HEAD);
        } else if let Some(folio) = folios.last_mut().filter(|_| open) {
            folio.len += 1;
        }
    }
    Ok(folios)
}

/// The folios as granules of physical addresses: which pages can be acted on, and which of those
/// were touched.
pub(super) fn granules_of(folios: &[Seg]) -> Vec<(u64, Seen)> {
    let mut out: Vec<(u64, Seen)> = Vec::new();
    for folio in folios.iter().filter(|f| f.is_reachable()) {
        for (start, part) in crate::apply::pages::granules(folio.range()) {
            if out.last().is_none_or(|(last, _)| *last != start) {
                out.push((start, Seen::default()));
            }
            let Some((_, seen)) = out.last_mut() else { continue };
            let bits = Bits::of(start, part);
            seen.present = seen.present.or(bits);
            if !folio.idle {
                seen.young = seen.young.or(bits);
            }
            seen.huge = folio.len * PAGE_SIZE >= GRANULE;
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use isotherm_pages::frames::made_up::Table;

    #[test]
    fn only_whole_folios_that_somebody_maps_can_be_acted_on() {
        let page = Flags::LRU.0 | Flags::ANON.0 | Flags::MMAP.0;
        let mut flags = vec![0; 2048];
        flags[510..515].fill(Flags::TAIL.0 | page);
        flags[510] = Flags::HEAD.0 | page | Flags::IDLE.0;
        flags[515] = page;
        flags[516] = Flags::LRU.0; // page cache that nobody maps
        flags[517] = page | Flags::UNEVICTABLE.0;
        let mut file = FrameFile::new(Table(flags));
        for (name, frames, expected) in [
            ("all", 0..1024, vec![(0, 2, 0), (GRANULE, 4, 1)]),
            ("the end is cut", 0..512, vec![]),
            ("the begin is cut", 512..1024, vec![(GRANULE, 1, 1)]),
            ("ends with the folio", 0..515, vec![(0, 2, 0), (GRANULE, 3, 0)]),
        ] {
            let folios = flags_view(&mut file, frames).unwrap();
            let seen: Vec<_> = granules_of(&folios)
                .iter()
                .map(|(start, seen)| (*start, seen.present.count(), seen.young.count()))
                .collect();
            assert_eq!(seen, expected, "{name}");
        }
    }
}
