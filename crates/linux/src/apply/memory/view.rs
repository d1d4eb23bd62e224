//! What is seen of a range of frames: folios with their flags and marks.

use std::io;
use std::ops::Range;

use isotherm_core::AddrRange;
use isotherm_core::addr::PAGE_SIZE;

use super::super::look::Seen;
use super::super::pages::{Bits, GRANULE};
use crate::frames::{Flags, FrameFile, Words};
use crate::idle;
use crate::paddr::FrameKind;

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
    /// Whether somebody's data is in it that the kernel could take away or move.
    pub(super) const fn is_movable(&self) -> bool {
        let kind = FrameKind::of(self.flags);
        let data = matches!(
            kind,
            FrameKind::Anon | FrameKind::File | FrameKind::UnmappedFile | FrameKind::Shared
        );
        data && self.flags.has(Flags::LRU) && !self.flags.has(Flags::UNEVICTABLE)
    }
}

/// The folios of a range of frames, ascending. Frames in front of the first head are left out: their folio begins
/// outside.
pub(super) fn view<B: idle::Words, F: Words>(
    bitmap: &mut idle::Bitmap<B>,
    flags: &mut FrameFile<F>,
    frames: Range<u64>,
) -> io::Result<Vec<Seg>> {
    let nr = usize::try_from(frames.end.saturating_sub(frames.start)).unwrap_or(0);
    // The bitmap first: reading it brings the marks up to date (R§7.1).
    let first = frames.start / 64 * 64;
    let mut marks = vec![0; nr / 64 + 2];
    let got = bitmap.read(first, &mut marks)?;
    marks.truncate(got);
    let is_idle = |frame: u64| {
        let at = usize::try_from((frame - first) / 64).unwrap_or(usize::MAX);
        marks.get(at).is_some_and(|word| word >> (frame % 64) & 1 == 1)
    };
    let mut words = vec![0; nr];
    let got = flags.read(frames.start, &mut words)?;
    let mut folios: Vec<Seg> = Vec::new();
    let mut open = false;
    for (frame, word) in (frames.start..).zip(&words[..got]) {
        let flags = Flags(*word);
        if flags.is_first() {
            folios.push(Seg { head: frame, len: 1, flags, idle: is_idle(frame) });
            open = flags.has(Flags::HEAD);
        } else if let Some(folio) = folios.last_mut().filter(|_| open) {
            folio.len += 1;
        }
    }
    Ok(folios)
}

/// The folios as granules of physical addresses: what can be acted on, and what of that was touched.
pub(super) fn granules_of(folios: &[Seg]) -> Vec<(u64, Seen)> {
    let mut out: Vec<(u64, Seen)> = Vec::new();
    for folio in folios.iter().filter(|f| f.is_movable()) {
        let range = AddrRange::new(folio.head * PAGE_SIZE, (folio.head + folio.len) * PAGE_SIZE);
        for (start, part) in super::super::pages::granules(range) {
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
