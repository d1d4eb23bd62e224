//! What became of pages: whether they are present, swapped or absent, according to the page tables.
//!
//! [`Process::page_runs`] asks for runs of like pages, by `PAGEMAP_SCAN` where there is one (Linux
//! 6.7), else from `pagemap`'s 8 bytes per page. [`Process::page_entries`] reads these 8 bytes,
//! which also tell whether a page is mapped only once, and its page frame.
//!
//! Memory of files and shared memory that was paged out has no entry left and reads as absent. A
//! page on the move to another frame reads as swapped for a moment.

use std::io;
use std::os::unix::fs::FileExt;
use std::sync::OnceLock;

use isotherm_core::AddrRange;
use isotherm_core::addr::{PAGE_SIZE, round_down, round_up};
use isotherm_host::proc::{Proc, is_gone, parse_maps};
use isotherm_host::user_end;
use isotherm_sys::pagemap::{FILE, HUGE, PRESENT, Region, SWAPPED, ZERO, scan};

use super::process::Process;

/// Runs per call.
const NR_RUNS: usize = 512;
/// Entries per read of `pagemap`.
const NR_ENTRIES: usize = 2048;

/// What is known of a run of pages.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PageKind {
    categories: u64,
}

impl PageKind {
    /// Whether they are in memory and mapped.
    #[must_use]
    pub const fn is_present(self) -> bool {
        self.categories & PRESENT != 0
    }

    /// Whether they are in swap, or in the swap cache but not mapped.
    #[must_use]
    pub const fn is_swapped(self) -> bool {
        self.categories & SWAPPED != 0
    }

    /// Whether they belong to a file or to shared memory.
    #[must_use]
    pub const fn is_file(self) -> bool {
        self.categories & FILE != 0
    }

    /// Whether a huge page maps them. Always false on kernels before 6.7.
    #[must_use]
    pub const fn is_huge(self) -> bool {
        self.categories & HUGE != 0
    }

    /// Whether it is the page of zeros that all share. Always false on kernels before 6.7.
    #[must_use]
    pub const fn is_zero(self) -> bool {
        self.categories & ZERO != 0
    }
}

/// What `pagemap` says of one page.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PageEntry(u64);

impl PageEntry {
    /// Whether it is in memory and mapped.
    #[must_use]
    pub const fn is_present(self) -> bool {
        self.0 >> 63 == 1
    }

    /// Whether it is in swap.
    #[must_use]
    pub const fn is_swapped(self) -> bool {
        self.0 >> 62 & 1 == 1
    }

    /// Whether it belongs to a file or to shared memory.
    #[must_use]
    pub const fn is_file(self) -> bool {
        self.0 >> 61 & 1 == 1
    }

    /// Whether it is mapped once only.
    #[must_use]
    pub const fn is_exclusive(self) -> bool {
        self.0 >> 56 & 1 == 1
    }

    /// The page frame; `None` if it has none, or we may not know (that takes `CAP_SYS_ADMIN`).
    #[must_use]
    pub const fn frame(self) -> Option<u64> {
        let frame = self.0 & ((1 << 55) - 1);
        if self.is_present() && frame != 0 { Some(frame) } else { None }
    }

    const fn categories(self) -> u64 {
        self.0 >> 63 << 3 | (self.0 >> 62 & 1) << 4 | (self.0 >> 61 & 1) << 2
    }
}

/// Bytes of a range by what became of them. What is neither present nor swapped is absent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct PageCount {
    /// In memory and mapped.
    pub present_bytes: u64,
    /// In swap.
    pub swapped_bytes: u64,
    /// Present and of a file or of shared memory.
    pub file_bytes: u64,
    /// Present and mapped by huge pages; 0 on kernels before 6.7.
    pub huge_bytes: u64,
}

impl Process {
    /// Calls `f` with each run of present or swapped pages that are alike, in order.
    ///
    /// # Errors
    ///
    /// What the kernel says; `NotFound` if the address space is gone.
    pub fn page_runs(
        &self,
        range: AddrRange,
        f: &mut dyn FnMut(AddrRange, PageKind),
    ) -> io::Result<()> {
        let range = whole_pages(range);
        let mut f = |range, categories| f(range, PageKind { categories });
        let found = match self.scan_runs(range, &mut f) {
            // No such call: nothing was reported yet.
            Err(e) if matches!(e.raw_os_error(), Some(libc::ENOTTY | libc::EINVAL)) => {
                return self.runs_of_entries(range, &mut f);
            }
            found => found?,
        };
        if !found && self.is_gone() { Err(io::ErrorKind::NotFound.into()) } else { Ok(()) }
    }

    /// Adds up what [`Process::page_runs`] says.
    ///
    /// # Errors
    ///
    /// As there.
    pub fn count_pages(&self, range: AddrRange) -> io::Result<PageCount> {
        let mut count = PageCount::default();
        self.page_runs(range, &mut |run, kind| {
            let bytes_if = |yes: bool| if yes { run.len() } else { 0 };
            count.present_bytes += bytes_if(kind.is_present());
            count.swapped_bytes += bytes_if(kind.is_swapped());
            count.file_bytes += bytes_if(kind.is_present() && kind.is_file());
            count.huge_bytes += bytes_if(kind.is_present() && kind.is_huge());
        })?;
        Ok(count)
    }

    /// Calls `f` with the address and entry of every page of the range, also of absent ones.
    ///
    /// # Errors
    ///
    /// What the kernel says; `NotFound` if the address space is gone.
    pub fn page_entries(
        &self,
        range: AddrRange,
        f: &mut dyn FnMut(u64, PageEntry),
    ) -> io::Result<()> {
        let range = whole_pages(range);
        let mut buf = vec![0; NR_ENTRIES * 8];
        let mut at = range.start;
        while at < range.end {
            let left = usize::try_from((range.end - at) / PAGE_SIZE * 8).unwrap_or(usize::MAX);
            let len = buf.len().min(left);
            let got = self.pagemap().read_at(&mut buf[..len], at / PAGE_SIZE * 8)?;
            if got < 8 {
                return Err(io::ErrorKind::NotFound.into());
            }
            for entry in buf[..got].as_chunks::<8>().0 {
                f(at, PageEntry(u64::from_ne_bytes(*entry)));
                at += PAGE_SIZE;
            }
        }
        Ok(())
    }

    /// Tells whether there was any run.
    fn scan_runs(&self, range: AddrRange, f: &mut dyn FnMut(AddrRange, u64)) -> io::Result<bool> {
        let mut runs = vec![Region::default(); NR_RUNS];
        let mut at = range.start;
        let mut any = false;
        while at < range.end {
            let (nr, end) = scan(self.pagemap(), AddrRange::new(at, range.end), &mut runs)?;
            for run in &runs[..nr] {
                f(AddrRange::new(run.start, run.end), run.categories);
            }
            any |= nr > 0;
            if end <= at {
                return Err(io::ErrorKind::InvalidData.into());
            }
            at = end;
        }
        Ok(any)
    }

    /// Reads entries only where something is mapped, because an address space consists almost
    /// entirely of holes.
    fn runs_of_entries(
        &self,
        range: AddrRange,
        f: &mut dyn FnMut(AddrRange, u64),
    ) -> io::Result<()> {
        let mut text = Vec::new();
        match Proc::default().read(self.pid(), "maps", &mut text) {
            Err(e) if is_gone(&e) => return Err(io::ErrorKind::NotFound.into()),
            read => read?,
        }
        let mut run: Option<(AddrRange, u64)> = None;
        let mut note = |addr, entry: PageEntry| {
            let categories = entry.categories();
            match &mut run {
                Some((range, same)) if *same == categories && range.end == addr => {
                    range.end = addr + PAGE_SIZE;
                }
                _ => {
                    if let Some((range, categories)) =
                        run.take_if(|r| r.1 & (PRESENT | SWAPPED) != 0)
                    {
                        f(range, categories);
                    }
                    run = Some((AddrRange::new(addr, addr + PAGE_SIZE), categories));
                }
            }
        };
        let mut any = false;
        for mapping in parse_maps(&text) {
            if mapping.range.intersects(&range) {
                any = true;
                let end = mapping.range.end.min(range.end);
                let here = AddrRange::new(mapping.range.start.max(range.start), end);
                self.page_entries(here, &mut note)?;
            }
        }
        if !any && self.is_gone() {
            return Err(io::ErrorKind::NotFound.into());
        }
        if let Some((range, categories)) = run.filter(|r| r.1 & (PRESENT | SWAPPED) != 0) {
            f(range, categories);
        }
        Ok(())
    }

    /// [`Process::page_runs`] as kernels before 6.7 do it, so that a test can compare the two.
    #[doc(hidden)]
    pub fn page_runs_by_entries(
        &self,
        range: AddrRange,
        f: &mut dyn FnMut(AddrRange, PageKind),
    ) -> io::Result<()> {
        let mut f = |range, categories| f(range, PageKind { categories });
        self.runs_of_entries(whole_pages(range), &mut f)
    }
}

/// The pages that `range` touches, as far as a program can have memory there.
fn whole_pages(range: AddrRange) -> AddrRange {
    // The same for as long as the machine runs.
    static USER_END: OnceLock<u64> = OnceLock::new();
    let user_end = *USER_END.get_or_init(|| user_end(&Proc::default()));
    let end = round_up(range.end.min(user_end), PAGE_SIZE);
    AddrRange::new(round_down(range.start, PAGE_SIZE), end)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_are_read_bit_by_bit() {
        let kinds = |bits: u64| {
            let e = PageEntry(bits);
            (e.is_present(), e.is_swapped(), e.is_file(), e.is_exclusive(), e.frame())
        };
        assert_eq!(kinds(1 << 63 | 1 << 56 | 77), (true, false, false, true, Some(77)));
        assert_eq!(kinds(1 << 63 | 1 << 61), (true, false, true, false, None));
        assert_eq!(kinds(1 << 62 | 5 << 5), (false, true, false, false, None));
        assert_eq!(PageEntry(1 << 63 | 1 << 61).categories(), PRESENT | FILE);
        assert_eq!(PageEntry(1 << 62).categories(), SWAPPED);
        assert_eq!(PageEntry(0).categories(), 0);
    }
}
