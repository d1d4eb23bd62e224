//! What the kernel says of page frames: `/proc/kpageflags` and `/proc/kpagecgroup`, 8 bytes each.
//!
//! Addresses lead to frames by `/proc/PID/pagemap`. Pages next to each other are often frames next
//! to each other, so frames are sorted and read in runs ([`isotherm_pages::frames`]). Flags and
//! charges belong to the first page of a folio: before Linux 6.10 the others do not repeat them.

use std::collections::BTreeMap;
use std::fs::File;
use std::io;
use std::path::Path;

use isotherm_pages::frames::{Flags, Folio, FrameFile, Which, by_frame, folios_of};

use super::{Answer, Granule, bits_where, granule_at};
use crate::PageEntry;
use crate::apply::pages::{Bits, GRANULE};

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
    flags: Option<FrameFile>,
    cgroups: Option<FrameFile>,
    entries: Option<Entries>,
}

impl Frames {
    /// Pages of files and of shared memory. All other pages in memory or in swap are known to be
    /// anonymous.
    pub(super) fn file(&mut self, here: &Granule<'_>) -> Result<Answer, String> {
        let entries = self.entries(here)?;
        Ok(Answer { is: entries.file, unknown: here.pages.minus(entries.there) })
    }

    /// Pages on an active LRU list.
    pub(super) fn active(&mut self, here: &Granule<'_>) -> Result<Answer, String> {
        let folios = self.folios(here, "active", &|flags| flags.has(Flags::TAIL))?;
        Ok(self.answer(here, &folios, |folio| folio.flags.has(Flags::ACTIVE)))
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
        let of_several = |flags: Flags| flags.has(Flags::HEAD) || flags.has(Flags::TAIL);
        let folios = self.folios(here, "hugepage_size", &of_several)?;
        Ok(self.answer(here, &folios, |folio| fits(folio.len << 12)))
    }

    /// Pages charged to the cgroup with this inode.
    pub(super) fn charged_to(&mut self, here: &Granule<'_>, inode: u64) -> Result<Answer, String> {
        let name = "memcg";
        let frames = self.frames(here, name)?;
        let file = opened(&mut self.cgroups, Which::Cgroup, name)?;
        let said = |e: io::Error| cannot(name, "read /proc/kpagecgroup", &e);
        let mut charged = by_frame(file, &frames).map_err(said)?;
        let none: Vec<u64> =
            frames.iter().copied().filter(|f| charged.get(f) == Some(&0)).collect();
        if !none.is_empty() {
            // These frames may not be the first of their folios.
            let flags = opened(&mut self.flags, Which::Flags, name)?;
            let said = |e: io::Error| cannot(name, "read /proc/kpageflags", &e);
            let folios = folios_of(flags, &none, &|flags| flags.has(Flags::TAIL)).map_err(said)?;
            let heads: Vec<u64> = none.iter().filter_map(|f| Some(folios.get(f)?.head)).collect();
            let file = opened(&mut self.cgroups, Which::Cgroup, name)?;
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

    /// The folios of the pages, by frame. Only those whose flags pass `look_closer` get a true
    /// beginning and length.
    fn folios(
        &mut self,
        here: &Granule<'_>,
        name: &str,
        look_closer: &dyn Fn(Flags) -> bool,
    ) -> Result<BTreeMap<u64, Folio>, String> {
        let frames = self.frames(here, name)?;
        let file = opened(&mut self.flags, Which::Flags, name)?;
        folios_of(file, &frames, look_closer).map_err(|e| cannot(name, "read /proc/kpageflags", &e))
    }

    /// The pages whose frame passes `is`. Pages without a frame, because they are in swap or have
    /// just gone, are unknown.
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

fn opened<'f>(
    file: &'f mut Option<FrameFile>,
    which: Which,
    filter: &str,
) -> Result<&'f mut FrameFile, String> {
    if file.is_none() {
        let path = Path::new("/proc").join(which.name());
        let opened = File::open(&path);
        let opened = opened.map_err(|e| cannot(filter, &format!("open {}", path.display()), &e));
        *file = Some(FrameFile::new(opened?));
    }
    file.as_mut().ok_or_else(String::new)
}

fn cannot(filter: &str, tried: &str, error: &io::Error) -> String {
    format!(
        "filter `{filter}` cannot be answered, so it lets nothing in\n  tried: {tried}: {error}\n  why:   page \
         frames are shown to root only, with CAP_SYS_ADMIN\n  hint:  run as root, or leave the filter out"
    )
}
