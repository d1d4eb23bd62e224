//! A made-up kernel's bitmap for tests. It follows the rules of `mm/page_idle.c` one by one.

use std::cell::RefCell;
use std::io;

use super::bitmap::Words;
use crate::frames;
use crate::frames::Flags;

/// One page frame.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Frame {
    /// The frame is the first of a folio on an LRU list, and a reference to it can be taken.
    pub(super) trackable: bool,
    pub(super) idle: bool,
    /// Accessed in some page table.
    pub(super) accessed: bool,
    /// The folio's lock is held, so the kernel does not look at its page tables.
    pub(super) locked: bool,
    /// What kpageflags says of it besides `LRU` and `IDLE`.
    pub(super) flags: u64,
}

/// A folio of user pages, of `len` frames. It must be put at a multiple of `len`.
pub(super) fn folio(len: usize) -> Vec<Frame> {
    let tail = Frame { flags: Flags::TAIL.0 | Flags::THP.0, ..Frame::default() };
    let mut frames = vec![tail; len];
    let head = if len > 1 { Flags::HEAD.0 | Flags::THP.0 } else { 0 };
    let flags = head | Flags::MMAP.0 | Flags::ANON.0;
    frames[0] = Frame { trackable: true, flags, ..Frame::default() };
    frames
}

/// A frame with these flags that is not tracked.
pub(super) fn other(flags: u64) -> Frame {
    Frame { flags, ..Frame::default() }
}

/// A machine's frames; `max_pfn` is their number.
#[derive(Debug, Default)]
pub(super) struct Model {
    pub(super) frames: RefCell<Vec<Frame>>,
    /// Calls move so many bytes at most (a multiple of 8).
    pub(super) most: usize,
    /// Every so-maniest call is interrupted; 0: none.
    pub(super) interrupt_every: u64,
    pub(super) calls: RefCell<u64>,
}

impl Model {
    pub(super) fn new(frames: Vec<Frame>) -> Self {
        Self { frames: RefCell::new(frames), most: 4096, ..Self::default() }
    }

    /// Checks the rules for every call. Returns the first frame and the number of bytes that it
    /// moves.
    fn enter(&self, offset: u64, len: usize) -> io::Result<(usize, usize)> {
        let mut calls = self.calls.borrow_mut();
        *calls += 1;
        if self.interrupt_every != 0 && (*calls).is_multiple_of(self.interrupt_every) {
            return Err(io::ErrorKind::Interrupted.into());
        }
        // The file is cut to a page before the handler sees it.
        let len = len.min(self.most);
        if !offset.is_multiple_of(8) || !len.is_multiple_of(8) {
            return Err(io::Error::from_raw_os_error(libc::EINVAL));
        }
        Ok((usize::try_from(offset * 8).unwrap_or(usize::MAX), len))
    }
}

impl Frame {
    /// `page_idle_clear_pte_refs`.
    fn clear_references(&mut self) {
        if !self.locked && std::mem::take(&mut self.accessed) {
            self.idle = false;
        }
    }
}

impl Words for Model {
    fn read_at(&self, bytes: &mut [u8], offset: u64) -> io::Result<usize> {
        let (first, len) = self.enter(offset, bytes.len())?;
        let mut frames = self.frames.borrow_mut();
        if first >= frames.len() {
            return Ok(0);
        }
        let end = (first + len * 8).min(frames.len());
        let mut word = 0_u64;
        let mut done = 0;
        for nr in first..end {
            let frame = &mut frames[nr];
            if frame.trackable && frame.idle {
                frame.clear_references();
                word |= u64::from(frame.idle) << (nr % 64);
            }
            if nr % 64 == 63 {
                bytes[done..done + 8].copy_from_slice(&std::mem::take(&mut word).to_ne_bytes());
                done += 8;
            }
        }
        Ok(done)
    }

    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<usize> {
        let (first, len) = self.enter(offset, bytes.len())?;
        let mut frames = self.frames.borrow_mut();
        if first >= frames.len() {
            return Err(io::Error::from_raw_os_error(libc::ENXIO));
        }
        let end = (first + len * 8).min(frames.len());
        let mut done = 0;
        for nr in first..end {
            let word = u64::from_ne_bytes(bytes[done..done + 8].try_into().unwrap_or_default());
            let frame = &mut frames[nr];
            if word >> (nr % 64) & 1 == 1 && frame.trackable {
                frame.clear_references();
                frame.idle = true;
            }
            done += usize::from(nr % 64 == 63) * 8;
        }
        Ok(done)
    }
}

/// `/proc/kpageflags` of the same machine, as `stable_page_flags` writes it since 6.10: frames
/// behind a folio's first repeat its `LRU` and `IDLE`. Older kernels say less, and the code must
/// work with both.
#[derive(Debug)]
pub(super) struct FlagsOf<'a> {
    pub(super) model: &'a Model,
    /// Kernels before 6.10 say nothing of the folio behind its first frame.
    pub(super) old_kernel: bool,
}

impl frames::Words for FlagsOf<'_> {
    fn read_at(&self, bytes: &mut [u8], offset: u64) -> io::Result<usize> {
        assert!(offset.is_multiple_of(8) && bytes.len().is_multiple_of(8), "EINVAL");
        let frames = self.model.frames.borrow();
        let first = usize::try_from(offset / 8).unwrap_or(usize::MAX).min(frames.len());
        let nr = (bytes.len() / 8).min(frames.len() - first);
        for (at, bytes) in (first..first + nr).zip(bytes.as_chunks_mut().0) {
            let own = frames[at];
            let is_tail = own.flags & Flags::TAIL.0 != 0 && own.flags & Flags::HUGE.0 == 0;
            let from = match is_tail {
                true if self.old_kernel => Frame::default(),
                true => frames[..at]
                    .iter()
                    .rev()
                    .find(|f| f.flags & Flags::TAIL.0 == 0)
                    .copied()
                    .unwrap_or_default(),
                false => own,
            };
            let lru = if from.trackable { Flags::LRU.0 } else { 0 };
            let idle = if from.idle { Flags::IDLE.0 } else { 0 };
            *bytes = (own.flags | lru | idle).to_ne_bytes();
        }
        Ok(nr * 8)
    }
}

impl<W: Words + ?Sized> Words for &W {
    fn read_at(&self, bytes: &mut [u8], offset: u64) -> io::Result<usize> {
        (**self).read_at(bytes, offset)
    }

    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<usize> {
        (**self).write_at(bytes, offset)
    }
}
