//! A workload's memory: mappings of known place and size, and the loops that touch them.
//!
//! A workload's speed depends on these loops, so they work on raw pointers, with one bounds check
//! per sweep batch and one per random access. Accesses are relaxed atomic bytes, so several threads
//! may touch the same memory. On every machine they compile to plain loads and stores.

use std::ffi::c_void;
use std::io;
use std::sync::atomic::{AtomicU8, Ordering};

use isotherm_core::AddrRange;
use isotherm_core::addr::round_up;
use rustix::mm::{Advice, MapFlags, ProtFlags, madvise, munmap};

const PAGE: u64 = 4096;
/// Bytes per line of [`Arena::touch_lines`].
const LINE: u64 = 64;

/// What a touch does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Touch {
    /// Loads a byte.
    Read,
    /// Stores a byte.
    Write,
    /// Loads a byte and stores it changed.
    ReadWrite,
}

/// Advice on huge pages, given as memory is mapped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HugePages {
    /// `MADV_HUGEPAGE`.
    Yes,
    /// `MADV_NOHUGEPAGE`.
    No,
    /// As the machine is set.
    AsSet,
}

/// See [`Arena::treat`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Treatment {
    /// Locked in memory (`mlock`).
    Lock,
    /// `MADV_NOHUGEPAGE`.
    NoHugePages,
    /// `MADV_HUGEPAGE`.
    HugePages,
}

/// Private anonymous memory from `base` on, of which the first `len` bytes are mapped.
///
/// The addresses up to `capacity` are not reserved. They are free because the caller leaves gaps.
/// If something is mapped there, growing fails and does not replace it.
#[derive(Debug)]
pub struct Arena {
    base: u64,
    len: u64,
    capacity: u64,
    huge: HugePages,
}

impl Arena {
    /// An arena at `base` that can grow to `capacity` bytes (rounded up to pages). Maps nothing
    /// yet.
    #[must_use]
    pub const fn new(base: u64, capacity: u64, huge: HugePages) -> Self {
        Self { base, len: 0, capacity: round_up(capacity, PAGE), huge }
    }

    /// What is mapped.
    #[must_use]
    pub const fn range(&self) -> AddrRange {
        AddrRange::new(self.base, self.base + self.len)
    }

    /// Makes the mapped part `len` bytes long (rounded up to pages): maps behind its end, or unmaps
    /// there.
    ///
    /// # Errors
    ///
    /// What the kernel says: `EEXIST` if something else is mapped there, or `ENOMEM`. `EINVAL` for
    /// a size above the capacity.
    pub fn resize(&mut self, len: u64) -> io::Result<()> {
        let len = round_up(len, PAGE);
        if len > self.capacity {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        if len < self.len {
            // SAFETY: this part of the mapping is ours alone, `&mut self` says that no touch is
            // under way, and no reference into the memory is ever given out.
            unsafe { munmap(self.at(len), to_usize(self.len - len)) }?;
        } else if len > self.len {
            let (start, size) = (self.at(self.len), to_usize(len - self.len));
            let flags = MapFlags::PRIVATE | MapFlags::NORESERVE | MapFlags::FIXED_NOREPLACE;
            let prot = ProtFlags::READ | ProtFlags::WRITE;
            // SAFETY: NOREPLACE: the kernel refuses if anything is mapped there.
            let got = unsafe { rustix::mm::mmap_anonymous(start, size, prot, flags) }?;
            debug_assert_eq!(got, start, "kernels since 4.17 keep to the address");
            self.advise(start, size);
        }
        self.len = len;
        Ok(())
    }

    /// Kernels without huge pages refuse the advice, which then has no meaning.
    fn advise(&self, start: *mut c_void, size: usize) {
        let advice = match self.huge {
            HugePages::Yes => Advice::LinuxHugepage,
            HugePages::No => Advice::LinuxNoHugepage,
            HugePages::AsSet => return,
        };
        // SAFETY: the range was just mapped, and this advice does not change its content.
        let advised = unsafe { madvise(start, size, advice) };
        advised.ok();
    }

    /// Writes a byte of every page from `from` on, so that each page exists and is private.
    ///
    /// Not by `MADV_POPULATE_WRITE`, which is faster: in a memory cgroup at its limit, with swap to
    /// spare, that ended in the OOM killer (Linux 6.18).
    pub fn populate(&self, from: u64) {
        let from = round_up(from, PAGE);
        self.touch_sweep(
            Sweep { start: from, stride: PAGE, touches: 0, first: 0, n: 0 }.all(self.len),
            Touch::Write,
        );
    }

    /// Copies `bytes` to `offset`; what does not fit is left out.
    pub fn fill(&self, offset: u64, bytes: &[u8]) {
        for (i, byte) in (offset..self.len).zip(bytes) {
            self.byte(i).store(*byte, Ordering::Relaxed);
        }
    }

    /// The `N` bytes from `offset` on; `None` if they are not all mapped.
    #[must_use]
    pub fn bytes<const N: usize>(&self, offset: u64) -> Option<[u8; N]> {
        let end = offset.checked_add(N as u64)?;
        let mut at = offset;
        (end <= self.len).then(|| {
            [(); N].map(|()| {
                at += 1;
                self.byte(at - 1).load(Ordering::Relaxed)
            })
        })
    }

    /// Gives the kernel other advice or orders for a part of the mapping, to make targets with
    /// unusual parts.
    ///
    /// # Errors
    ///
    /// What the kernel says; `EINVAL` if the part is not all mapped.
    pub fn treat(&mut self, offset: u64, len: u64, how: Treatment) -> io::Result<()> {
        let end = offset.checked_add(len).filter(|end| *end <= self.len);
        end.ok_or(io::ErrorKind::InvalidInput)?;
        let (at, len) = (self.at(offset), to_usize(len));
        match how {
            // SAFETY: the part is inside our live mapping; its content does not change.
            Treatment::Lock => unsafe { rustix::mm::mlock(at, len) }?,
            // SAFETY: as above.
            Treatment::NoHugePages => unsafe { madvise(at, len, Advice::LinuxNoHugepage) }?,
            // SAFETY: as above.
            Treatment::HugePages => unsafe { madvise(at, len, Advice::LinuxHugepage) }?,
        }
        Ok(())
    }

    /// Touches one byte per line of 64 bytes; lines that are not mapped are left out.
    pub fn touch_lines(&self, lines: &[u32], touch: Touch) {
        let limit = self.len / LINE;
        let lines = lines.iter().map(|&l| u64::from(l)).filter(|&l| l < limit);
        match touch {
            Touch::Read => lines.for_each(|l| read(self.byte(l * LINE))),
            Touch::Write => lines.for_each(|l| write(self.byte(l * LINE))),
            Touch::ReadWrite => lines.for_each(|l| read_write(self.byte(l * LINE))),
        }
    }

    /// Touches evenly spaced bytes in order, again and again. Does nothing if the sweep is not all
    /// mapped.
    pub fn touch_sweep(&self, sweep: Sweep, touch: Touch) {
        match touch {
            Touch::Read => self.sweep(sweep, read),
            Touch::Write => self.sweep(sweep, write),
            Touch::ReadWrite => self.sweep(sweep, read_write),
        }
    }

    fn sweep(&self, s: Sweep, touch: impl Fn(&AtomicU8)) {
        let last = s.touches.checked_sub(1).and_then(|t| t.checked_mul(s.stride));
        let last = last.and_then(|l| l.checked_add(s.start));
        if last.is_none_or(|l| l >= self.len) {
            return;
        }
        let (mut left, mut at) = (s.n, s.first % s.touches);
        while left > 0 {
            let run = left.min(s.touches - at);
            let mut offset = s.start + at * s.stride;
            for _ in 0..run {
                touch(self.byte(offset));
                offset += s.stride;
            }
            left -= run;
            at = 0;
        }
    }

    /// The byte at `offset`, which must be below `self.len`: callers have checked.
    #[inline]
    fn byte(&self, offset: u64) -> &AtomicU8 {
        debug_assert!(offset < self.len, "touch outside of the arena");
        // SAFETY: the byte is inside our live mapping, which only `&mut self` can shrink; all
        // accesses to it are atomic, and every bit pattern is a valid u8.
        unsafe { AtomicU8::from_ptr(self.at(offset).cast()) }
    }

    fn at(&self, offset: u64) -> *mut c_void {
        std::ptr::with_exposed_provenance_mut(to_usize(self.base + offset))
    }

    /// Bytes of the arena that huge pages back, by `/proc/self/smaps`.
    ///
    /// # Errors
    ///
    /// If the file cannot be read.
    pub fn huge_bytes(&self) -> io::Result<u64> {
        let text = std::fs::read_to_string("/proc/self/smaps")?;
        Ok(bytes_of("AnonHugePages:", &text, self.range()))
    }
}

impl Drop for Arena {
    fn drop(&mut self) {
        if self.len > 0 {
            // SAFETY: the mapping is ours, and nothing borrows it any more.
            let unmapped = unsafe { munmap(self.at(0), to_usize(self.len)) };
            debug_assert!(unmapped.is_ok(), "unmapping our own memory");
        }
    }
}

/// Evenly spaced touches: byte `start + ((first + k) % touches) * stride`, for k below `n`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Sweep {
    /// First byte.
    pub start: u64,
    /// Touches before it begins again.
    pub touches: u64,
    /// Distance of two touches.
    pub stride: u64,
    /// Where in the sweep to begin.
    pub first: u64,
    /// Number of touches.
    pub n: u64,
}

impl Sweep {
    /// One whole sweep up to `end`.
    fn all(self, end: u64) -> Self {
        let touches = end.saturating_sub(self.start).div_ceil(self.stride);
        Self { touches, first: 0, n: touches, ..self }
    }
}

#[inline]
fn read(byte: &AtomicU8) {
    std::hint::black_box(byte.load(Ordering::Relaxed));
}

#[inline]
fn write(byte: &AtomicU8) {
    byte.store(1, Ordering::Relaxed);
}

#[inline]
fn read_write(byte: &AtomicU8) {
    byte.store(byte.load(Ordering::Relaxed).wrapping_add(1), Ordering::Relaxed);
}

/// Never cuts: addresses and sizes come from this machine's kernel, or were accepted by it.
fn to_usize(x: u64) -> usize {
    usize::try_from(x).unwrap_or(usize::MAX)
}

/// Sums a field of `smaps` over the mappings that lie inside `range`, in bytes.
fn bytes_of(field: &str, smaps: &str, range: AddrRange) -> u64 {
    let (mut inside, mut sum) = (false, 0);
    for line in smaps.lines() {
        if let Some(rest) = line.strip_prefix(field) {
            let kib = rest.trim().trim_end_matches("kB").trim().parse().unwrap_or(0);
            sum += if inside { kib << 10 } else { 0 };
        } else if !line.starts_with(|c: char| c.is_ascii_uppercase()) {
            let addresses = line.split(' ').next().and_then(|a| a.split_once('-'));
            let parse = |x: &str| u64::from_str_radix(x, 16).ok();
            let both = addresses.and_then(|(a, b)| Some(AddrRange::new(parse(a)?, parse(b)?)));
            inside = both.is_some_and(|r| range.overlap(&r) == r.len());
        }
    }
    sum
}

#[cfg(test)]
mod tests {
    use super::*;

    const BASE: u64 = 0x3000_0000_0000;

    fn resident(range: AddrRange) -> u64 {
        bytes_of("Rss:", &std::fs::read_to_string("/proc/self/smaps").unwrap(), range)
    }

    #[test]
    fn maps_grows_shrinks_and_unmaps_where_told() {
        let mut arena = Arena::new(BASE, 10 << 20, HugePages::No);
        for (mb, expected) in [(2_u64, 2_u64), (10, 10), (1, 1), (0, 0), (3, 3)] {
            arena.resize(mb << 20).unwrap();
            arena.populate(0);
            assert_eq!(arena.range(), AddrRange::new(BASE, BASE + (expected << 20)));
            assert_eq!(resident(AddrRange::new(BASE, BASE + (32 << 20))), expected << 20);
        }
        assert!(arena.resize(11 << 20).is_err());
        drop(arena);
        assert_eq!(resident(AddrRange::new(BASE, BASE + (32 << 20))), 0);
    }

    #[test]
    fn never_replaces_a_mapping() {
        let base = BASE + (1 << 32);
        let mut first = Arena::new(base, 1 << 20, HugePages::No);
        first.resize(4096).unwrap();
        let mut second = Arena::new(base, 1 << 20, HugePages::No);
        assert!(second.resize(1 << 20).is_err());
        first.fill(0, b"kept");
        assert_eq!(first.byte(3).load(Ordering::Relaxed), b't');
    }

    #[test]
    fn touches_exactly_what_was_asked() {
        let mut arena = Arena::new(BASE + (2 << 32), 8 * 4096, HugePages::No);
        arena.resize(8 * 4096).unwrap();
        let touched = |arena: &Arena| -> Vec<u64> {
            (0..8 * 4096).filter(|&i| arena.byte(i).load(Ordering::Relaxed) != 0).collect()
        };
        let clear = |arena: &Arena| arena.fill(0, &[0; 8 * 4096]);
        arena.touch_lines(&[0, 3, 511, 512, 9999], Touch::Write);
        assert_eq!(touched(&arena), [0, 192, 511 * 64]);
        clear(&arena);
        let sweep = Sweep { start: 4096, touches: 3, stride: 5000, first: 2, n: 2 };
        arena.touch_sweep(sweep, Touch::ReadWrite);
        assert_eq!(touched(&arena), [4096, 14096]);
        clear(&arena);
        arena.touch_sweep(Sweep { touches: 7, ..sweep }, Touch::Write);
        assert_eq!(touched(&arena), [], "a sweep past the end");
        arena.touch_sweep(sweep, Touch::Read);
        assert_eq!(touched(&arena), [], "reads do not write");
    }

    #[test]
    fn huge_bytes_are_those_of_our_mappings() {
        let smaps = "1000-3000 rw-p 00000000 00:00 0 \nRss: 8 kB\nAnonHugePages:      2048 kB\n\
                     3000-5000 rw-p 00000000 00:00 0 \nAnonHugePages:      4096 kB\nVmFlags: rd\n";
        let of = |start, end| bytes_of("AnonHugePages:", smaps, AddrRange::new(start, end));
        assert_eq!(of(0x1000, 0x3000), 2048 << 10);
        assert_eq!(of(0x1000, 0x5000), 6144 << 10);
        assert_eq!(of(0x2000, 0x5000), 4096 << 10);
        assert_eq!(of(0x6000, 0x7000), 0);
    }
}
