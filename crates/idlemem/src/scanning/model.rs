//! A made-up machine for tests: folios in frames, and the kernel's three files over them.

use std::cell::RefCell;
use std::io;
use std::rc::Rc;

use isotherm_pages::frames::{Flags, Words as FrameWords};
use isotherm_pages::idle::Words as BitmapWords;

/// A folio.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Folio {
    pub(crate) order: u32,
    /// Bits of `kpageflags` besides those of large folios.
    pub(crate) flags: u64,
    /// Inode of the cgroup.
    pub(crate) ino: u64,
    pub(crate) idle: bool,
    /// In a page table, or for unmapped files: read.
    pub(crate) accessed: bool,
}

/// A machine's folios by first frame, and its habits.
#[derive(Debug, Default)]
pub(crate) struct Machine {
    pub(crate) frames: Vec<Option<Folio>>,
    /// Whether frames behind a folio's first repeat its flags and cgroup (Linux 6.10 and later).
    pub(crate) repeats: bool,
    /// Numbers read from `kpageflags` and `kpagecgroup` so far.
    pub(crate) read: u64,
    /// Idle folios whose page tables had to be walked for a read of the bitmap so far: most of the
    /// cost.
    pub(crate) walked: u64,
}

impl Machine {
    /// The folio that a frame is in, and its first frame.
    fn folio(&self, frame: usize) -> Option<(usize, Folio)> {
        let at = (0..=frame)
            .rev()
            .take(1 << 10)
            .find(|at| self.frames.get(*at).is_some_and(Option::is_some))?;
        let folio = self.frames[at]?;
        (frame < at + (1 << folio.order)).then_some((at, folio))
    }

    fn flags(&self, frame: usize) -> u64 {
        let Some((head, folio)) = self.folio(frame) else { return Flags::BUDDY.0 };
        let large = if folio.order > 0 { Flags::THP.0 } else { 0 };
        let idle = if folio.idle { Flags::IDLE.0 } else { 0 };
        match (frame == head, self.repeats) {
            (true, _) if folio.order > 0 => folio.flags | idle | large | Flags::HEAD.0,
            (true, _) => folio.flags | idle,
            (false, true) => folio.flags | idle | large | Flags::TAIL.0,
            (false, false) => Flags::TAIL.0,
        }
    }

    fn ino(&self, frame: usize) -> u64 {
        match self.folio(frame) {
            Some((head, folio)) if head == frame || self.repeats => folio.ino,
            _ => 0,
        }
    }

    /// Calls `f` with each folio and its number.
    pub(crate) fn each(&mut self, mut f: impl FnMut(usize, &mut Folio)) {
        self.frames.iter_mut().enumerate().for_each(|(nr, folio)| {
            if let Some(folio) = folio {
                f(nr, folio);
            }
        });
    }
}

/// A file of the machine.
#[derive(Debug, Clone)]
pub(crate) struct Face {
    pub(crate) machine: Rc<RefCell<Machine>>,
    pub(crate) cgroup: bool,
}

impl FrameWords for Face {
    fn read_at(&self, bytes: &mut [u8], offset: u64) -> io::Result<usize> {
        let mut machine = self.machine.borrow_mut();
        let first = usize::try_from(offset / 8).unwrap_or(usize::MAX);
        let nr = (bytes.len() / 8).min(machine.frames.len().saturating_sub(first));
        for (frame, bytes) in (first..first + nr).zip(bytes.as_chunks_mut::<8>().0) {
            let word = if self.cgroup { machine.ino(frame) } else { machine.flags(frame) };
            *bytes = word.to_ne_bytes();
        }
        machine.read += nr as u64;
        Ok(nr * 8)
    }
}

impl BitmapWords for Face {
    fn read_at(&self, bytes: &mut [u8], offset: u64) -> io::Result<usize> {
        let machine = &mut *self.machine.borrow_mut();
        let first = usize::try_from(offset * 8).unwrap_or(usize::MAX);
        // The last word, if it is not whole, is not delivered.
        let words = (machine.frames.len().saturating_sub(first) / 64).min(bytes.len() / 8).min(512);
        for (nr, bytes) in bytes.as_chunks_mut::<8>().0.iter_mut().take(words).enumerate() {
            let mut word = 0_u64;
            for bit in 0..64 {
                if let Some(folio) = &mut machine.frames[first + nr * 64 + bit] {
                    let tracked = folio.flags & Flags::LRU.0 != 0;
                    if tracked && folio.idle {
                        machine.walked += 1;
                        folio.idle = !std::mem::take(&mut folio.accessed);
                        word |= u64::from(folio.idle) << bit;
                    }
                }
            }
            *bytes = word.to_ne_bytes();
        }
        Ok(words * 8)
    }

    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<usize> {
        let mut machine = self.machine.borrow_mut();
        let first = usize::try_from(offset * 8).unwrap_or(usize::MAX);
        let words = (machine.frames.len().saturating_sub(first) / 64).min(bytes.len() / 8).min(512);
        if first >= machine.frames.len() {
            return Err(io::Error::from_raw_os_error(libc::ENXIO));
        }
        for (nr, bytes) in bytes.as_chunks::<8>().0.iter().take(words).enumerate() {
            let word = u64::from_ne_bytes(*bytes);
            for bit in (0..64).filter(|bit| word >> bit & 1 == 1) {
                let folio = &mut machine.frames[first + nr * 64 + bit];
                if let Some(folio) = folio.as_mut().filter(|f| f.flags & Flags::LRU.0 != 0) {
                    (folio.accessed, folio.idle) = (false, true);
                }
            }
        }
        Ok(words * 8)
    }
}
