//! What the kernel says of page frames: `/proc/kpageflags` and `/proc/kpagecgroup`, 8 bytes each.
//!
//! Addresses lead to frames by `/proc/PID/pagemap`. Pages next to each other are often frames next to each
//! other, so frames are sorted and read in runs. Flags and charges belong to the first page of a folio:
//! before Linux 6.10 the others do not repeat them. A folio lies at a multiple of its size, which bounds
//! the search for its first page.

use std::collections::BTreeMap;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

use super::super::pages::{Bits, GRANULE};
use super::{Answer, Granule, bits_where, granule_at};
use crate::act::PageEntry;

/// `KPF_ACTIVE` and so on, include/uapi/linux/kernel-page-flags.h.
const ACTIVE: u64 = 1 << 6;
const HEAD: u64 = 1 << 15;
const TAIL: u64 = 1 << 16;
/// Frames so close to each other are read at once: a call costs as much as about so many frames.
const GAP: u64 = 8;
/// Where the rest of a folio is looked for, in frames around one: most are small.
const WINDOWS: [u64; 2] = [16, 512];

/// Numbers by frame: one of the two files, or a test's.
trait Words {
    /// Reads those of `out.len()` frames from `first` on.
    fn read(&self, first: u64, out: &mut [u64]) -> io::Result<()>;
}

impl Words for File {
    fn read(&self, first: u64, out: &mut [u64]) -> io::Result<()> {
        let mut bytes = vec![0; out.len() * 8];
        self.read_exact_at(&mut bytes, first * 8)?;
        for (word, bytes) in out.iter_mut().zip(bytes.as_chunks::<8>().0) {
            *word = u64::from_ne_bytes(*bytes);
        }
        Ok(())
    }
}

/// A folio: pages that the kernel keeps together.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Folio {
    /// Its first frame.
    head: u64,
    /// How many.
    len: u64,
    /// Flags of the first.
    flags: u64,
}

/// What `pagemap` says of a granule.
#[derive(Debug)]
struct Entries {
    start: u64,
    /// Pages in memory or in swap.
    there: Bits,
    /// Pages of files and of shared memory.
    file: Bits,
    /// Frames by page; none if there is no page, or if we may not know.
    frames: Vec<Option<u64>>,
}

/// The kernel's files about frames, opened when they are needed, and the last granule asked about.
#[derive(Debug, Default)]
pub(super) struct Frames {
    flags: Option<File>,
    cgroups: Option<File>,
    entries: Option<Entries>,
}

impl Frames {
    /// Pages of files and of shared memory; of the others in memory or in swap it is known that they are not.
    pub(super) fn file(&mut self, here: &Granule<'_>) -> Result<Answer, String> {
        let entries = self.entries(here)?;
        Ok(Answer { is: entries.file, unknown: here.pages.minus(entries.there) })
    }

    /// Pages on an active LRU list.
    pub(super) fn active(&mut self, here: &Granule<'_>) -> Result<Answer, String> {
        let folios = self.folios(here, "active", &|flags| flags & TAIL != 0)?;
        Ok(self.answer(here, &folios, |folio| folio.flags & ACTIVE != 0))
    }

    /// Pages in folios whose size in bytes passes `fits`.
    pub(super) fn sized(
        &mut self,
        here: &Granule<'_>,
        fits: impl Fn(u64) -> bool,
    ) -> Result<Answer, String> {
        // What one entry maps is as large as that; no need to ask.
        if here.seen.huge {
            let is = if fits(GRANULE) { Bits::ALL } else { Bits::default() };
            return Ok(Answer { is, ..Answer::default() });
        }
        let folios = self.folios(here, "hugepage_size", &|flags| flags & (HEAD | TAIL) != 0)?;
        Ok(self.answer(here, &folios, |folio| fits(folio.len << 12)))
    }

    /// Pages charged to the cgroup with this inode.
    pub(super) fn charged_to(&mut self, here: &Granule<'_>, inode: u64) -> Result<Answer, String> {
        let name = "memcg";
        let frames = self.frames(here, name)?;
        let file = opened(&mut self.cgroups, "kpagecgroup", name)?;
        let said = |e: io::Error| cannot(name, "read /proc/kpagecgroup", &e);
        let mut charged = by_frame(file, &frames).map_err(said)?;
        let none: Vec<u64> =
            frames.iter().copied().filter(|f| charged.get(f) == Some(&0)).collect();
        if !none.is_empty() {
            // Perhaps not the first of their folios.
            let flags = opened(&mut self.flags, "kpageflags", name)?;
            let said = |e: io::Error| cannot(name, "read /proc/kpageflags", &e);
            let folios = folios_of(flags, &none, &|flags| flags & TAIL != 0).map_err(said)?;
            let heads: Vec<u64> = none.iter().filter_map(|f| Some(folios.get(f)?.head)).collect();
            let file = opened(&mut self.cgroups, "kpagecgroup", name)?;
            let said = |e: io::Error| cannot(name, "read /proc/kpagecgroup", &e);
            let of_heads = by_frame(file, &sorted(heads)).map_err(said)?;
            for frame in none {
                let head = folios.get(&frame).map(|folio| folio.head);
                if let Some(id) = head.and_then(|head| of_heads.get(&head)) {
                    charged.insert(frame, *id);
                }
            }
        }
        Ok(self.answer(here, &charged, |id| *id == inode))
    }

    fn entries(&mut self, here: &Granule<'_>) -> Result<&Entries, String> {
        if self.entries.as_ref().is_none_or(|known| known.start != here.start) {
            let mut found = Vec::with_capacity(512);
            let mut note = |_addr: u64, entry: PageEntry| found.push(entry);
            here.process
                .page_entries(granule_at(here.start), &mut note)
                .map_err(|e| cannot("anon", "read /proc/PID/pagemap", &e))?;
            let of = |is: fn(&PageEntry) -> bool| bits_where(|nr| found.get(nr).is_some_and(is));
            self.entries = Some(Entries {
                start: here.start,
                there: of(|e| e.is_present() || e.is_swapped()),
                file: of(|e| e.is_file()),
                frames: found.iter().map(|e| e.frame()).collect(),
            });
        }
        self.entries.as_ref().ok_or_else(String::new)
    }

    /// The frames of the pages that are asked about, sorted.
    fn frames(&mut self, here: &Granule<'_>, name: &str) -> Result<Vec<u64>, String> {
        let entries = self.entries(here)?;
        let mut frames = Vec::with_capacity(512);
        here.pages.runs(|first, behind| {
            let nrs = usize::try_from(first).unwrap_or(0)..usize::try_from(behind).unwrap_or(0);
            frames.extend(entries.frames.get(nrs).into_iter().flatten().flatten());
        });
        // Some may have gone since they were seen, but hardly all.
        if frames.is_empty() && !here.pages.and(here.seen.present).is_empty() {
            let hidden = io::Error::other("no page frames in it");
            return Err(cannot(name, "read /proc/PID/pagemap", &hidden));
        }
        Ok(sorted(frames))
    }

    /// The folios of the pages, by frame. Only those whose flags pass `look_closer` get a true beginning and
    /// length.
    fn folios(
        &mut self,
        here: &Granule<'_>,
        name: &str,
        look_closer: &dyn Fn(u64) -> bool,
    ) -> Result<BTreeMap<u64, Folio>, String> {
        let frames = self.frames(here, name)?;
        let file = opened(&mut self.flags, "kpageflags", name)?;
        folios_of(file, &frames, look_closer).map_err(|e| cannot(name, "read /proc/kpageflags", &e))
    }

    /// The pages whose frame passes `is`. Pages without a frame, because they are in swap or have just gone,
    /// are unknown.
    fn answer<T>(
        &self,
        here: &Granule<'_>,
        known: &BTreeMap<u64, T>,
        is: impl Fn(&T) -> bool,
    ) -> Answer {
        let of = |nr: usize| known.get(&(*self.entries.as_ref()?.frames.get(nr)?)?);
        Answer {
            is: bits_where(|nr| of(nr).is_some_and(&is)),
            unknown: here.pages.minus(bits_where(|nr| of(nr).is_some())),
        }
    }
}

fn sorted(mut frames: Vec<u64>) -> Vec<u64> {
    frames.sort_unstable();
    frames.dedup();
    frames
}

fn opened<'f>(file: &'f mut Option<File>, name: &str, filter: &str) -> Result<&'f File, String> {
    if file.is_none() {
        let path = format!("/proc/{name}");
        *file = Some(File::open(&path).map_err(|e| cannot(filter, &format!("open {path}"), &e))?);
    }
    file.as_ref().ok_or_else(String::new)
}

fn cannot(filter: &str, tried: &str, error: &io::Error) -> String {
    format!(
        "filter `{filter}` cannot be answered, so it lets nothing in\n  tried: {tried}: {error}\n  why:   page \
         frames are shown to root only, with CAP_SYS_ADMIN\n  hint:  run as root, or leave the filter out"
    )
}

/// The numbers of these frames, which are sorted.
fn by_frame(words: &dyn Words, frames: &[u64]) -> io::Result<BTreeMap<u64, u64>> {
    let mut found = Vec::with_capacity(frames.len());
    let mut buf = Vec::new();
    let mut rest = frames;
    while let Some(&first) = rest.first() {
        let near = rest.windows(2).take_while(|two| two[1] - two[0] <= GAP).count() + 1;
        let (run, behind) = rest.split_at(near);
        let last = run.last().copied().unwrap_or(first);
        buf.clear();
        buf.resize(usize::try_from(last - first + 1).unwrap_or(1), 0);
        words.read(first, &mut buf)?;
        let at = |frame: u64| usize::try_from(frame - first).ok().and_then(|nr| buf.get(nr));
        found.extend(run.iter().filter_map(|&frame| Some((frame, *at(frame)?))));
        rest = behind;
    }
    Ok(found.into_iter().collect())
}

/// The folios of these frames, which are sorted.
fn folios_of(
    words: &dyn Words,
    frames: &[u64],
    look_closer: &dyn Fn(u64) -> bool,
) -> io::Result<BTreeMap<u64, Folio>> {
    let flags = by_frame(words, frames)?;
    let mut last: Option<Folio> = None;
    let mut found = Vec::with_capacity(flags.len());
    for (frame, flags) in flags {
        let folio = match last {
            Some(known) if (known.head..known.head + known.len).contains(&frame) => known,
            _ if look_closer(flags) => folio_around(words, frame)?,
            _ => Folio { head: frame, len: 1, flags },
        };
        last = Some(folio);
        found.push((frame, folio));
    }
    Ok(found.into_iter().collect())
}

/// The folio of several frames that this one is part of.
fn folio_around(words: &dyn Words, frame: u64) -> io::Result<Folio> {
    let mut folio = Folio { head: frame, len: 1, flags: 0 };
    for size in WINDOWS {
        let first = frame & !(size - 1);
        let mut flags = vec![0; usize::try_from(size).unwrap_or(1)];
        words.read(first, &mut flags)?;
        let nr = usize::try_from(frame - first).unwrap_or(0);
        let head = flags[..=nr].iter().rposition(|f| f & HEAD != 0);
        let at = head.unwrap_or(0);
        let tails = flags[at + 1..].iter().take_while(|f| *f & TAIL != 0).count();
        let (begin, len) = (u64::try_from(at).unwrap_or(0), u64::try_from(tails).unwrap_or(0) + 1);
        folio = Folio { head: first + begin, len, flags: flags[at] };
        // One that begins inside ends inside, for it lies at a multiple of its size.
        if head.is_some() && (at > 0 || len < size) {
            break;
        }
    }
    Ok(folio)
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;

    /// Flags of frames 0 and up, and how often they were read.
    struct Fake {
        flags: Vec<u64>,
        calls: Cell<u32>,
    }

    impl Words for Fake {
        fn read(&self, first: u64, out: &mut [u64]) -> io::Result<()> {
            self.calls.set(self.calls.get() + 1);
            for (nr, word) in (first..).zip(out) {
                *word = self.flags.get(usize::try_from(nr).unwrap()).copied().unwrap_or(0);
            }
            Ok(())
        }
    }

    /// Folios of `len` frames at these frames; the first of each is active.
    fn fake(folios: &[(usize, usize)]) -> Fake {
        let mut flags = vec![0; 2048];
        for &(at, len) in folios {
            flags[at + 1..at + len].fill(TAIL);
            flags[at] = ACTIVE | if len > 1 { HEAD } else { 0 };
        }
        Fake { flags, calls: Cell::new(0) }
    }

    #[test]
    fn the_folio_of_a_frame_is_found_whole() {
        let words = fake(&[(8, 4), (12, 4), (16, 16), (32, 16), (64, 64), (512, 512), (1030, 1)]);
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
            let found = folios_of(&words, &[frame], &|f| f & (HEAD | TAIL) != 0).unwrap();
            let folio = found[&frame];
            assert_eq!((folio.head, folio.len), (head, len), "frame {frame}");
            let active = ![0, 128].contains(&frame);
            assert_eq!(folio.flags & ACTIVE != 0, active, "frame {frame}: flags of its first");
        }
    }

    #[test]
    fn near_frames_are_read_at_once() {
        let words = fake(&[(100, 1)]);
        for (frames, calls) in
            [(vec![], 0), (vec![100], 1), (vec![96, 100, 108], 1), (vec![91, 100], 2)]
        {
            words.calls.set(0);
            let found = by_frame(&words, &frames).unwrap();
            assert_eq!(found.keys().copied().collect::<Vec<_>>(), frames);
            assert_eq!(found.get(&100).copied(), frames.contains(&100).then_some(ACTIVE));
            assert_eq!(words.calls.get(), calls, "{frames:?}");
        }
    }
}
