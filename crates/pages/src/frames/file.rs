//! One of the files by frame, read in pieces.

use std::fmt;
use std::fs::File;
use std::io;
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::path::Path;

use super::error::{FramesError, at_file};

/// Bytes of a number.
const WORD: usize = 8;
/// The most frames that one call reads. Larger calls are not cheaper per frame.
const CALL_FRAMES: usize = 32768;

/// Which file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Which {
    /// Flags, [`Flags`](super::Flags).
    Flags,
    /// Inodes of the memory cgroups that are charged.
    Cgroup,
    /// How often each frame is mapped. For large folios it is their average on kernels without
    /// `CONFIG_PAGE_MAPCOUNT`.
    Count,
}

impl Which {
    /// Its name below `/proc`.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Flags => "kpageflags",
            Self::Cgroup => "kpagecgroup",
            Self::Count => "kpagecount",
        }
    }

    const fn option(self) -> &'static str {
        match self {
            Self::Flags | Self::Count => "CONFIG_PROC_PAGE_MONITOR",
            Self::Cgroup => "CONFIG_MEMCG",
        }
    }
}

/// Bytes at an offset: a file, or a test's.
pub trait Words {
    /// As `pread(2)`.
    ///
    /// # Errors
    ///
    /// As `pread(2)`.
    fn read_at(&self, bytes: &mut [u8], offset: u64) -> io::Result<usize>;
}

impl Words for File {
    fn read_at(&self, bytes: &mut [u8], offset: u64) -> io::Result<usize> {
        FileExt::read_at(self, bytes, offset)
    }
}

impl<W: Words + ?Sized> Words for &W {
    fn read_at(&self, bytes: &mut [u8], offset: u64) -> io::Result<usize> {
        (**self).read_at(bytes, offset)
    }
}

/// A file of 64-bit numbers by frame.
pub struct FrameFile<F = File> {
    file: F,
    bytes: Vec<u8>,
    calls: u64,
}

impl<F> fmt::Debug for FrameFile<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FrameFile").field("calls", &self.calls).finish_non_exhaustive()
    }
}

impl FrameFile {
    /// Opens it below `proc`, usually `/proc`.
    ///
    /// # Errors
    ///
    /// The kernel does not have the file, or we may not open it.
    pub fn open(proc: &Path, which: Which) -> Result<Self, FramesError> {
        let path = proc.join(which.name());
        let tried = || format!("open {}", path.display());
        File::open(&path).map(Self::new).map_err(|e| at_file(&tried(), which.option(), e))
    }
}

impl<F: Words> FrameFile<F> {
    /// The one behind `file`.
    pub const fn new(file: F) -> Self {
        Self { file, bytes: Vec::new(), calls: 0 }
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

    /// Reads the numbers of the frames from `first` on. Returns how many there were, which is fewer
    /// than asked for only where memory ends.
    ///
    /// # Errors
    ///
    /// What the kernel says.
    pub fn read(&mut self, first: u64, out: &mut [u64]) -> io::Result<usize> {
        let mut done = 0;
        while done < out.len() {
            let nr = (out.len() - done).min(CALL_FRAMES);
            let got = self.read_call(first + done as u64, nr)?;
            for (word, bytes) in out[done..].iter_mut().zip(self.bytes[..got * WORD].as_chunks().0)
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

    /// Calls `each` with the numbers of a range, some thousands at a time: the first frame, and the
    /// numbers from it on. Returns the first frame that was not reached: the end of the range, or
    /// of memory.
    ///
    /// # Errors
    ///
    /// What the kernel says.
    pub fn stream(
        &mut self,
        frames: Range<u64>,
        each: &mut dyn FnMut(u64, &[u64]),
    ) -> io::Result<u64> {
        let mut words = vec![0; CALL_FRAMES];
        let mut at = frames.start;
        while at < frames.end {
            let nr = usize::try_from(frames.end - at).map_or(CALL_FRAMES, |nr| nr.min(CALL_FRAMES));
            let got = self.read(at, &mut words[..nr])?;
            if got == 0 {
                break;
            }
            each(at, &words[..got]);
            at += got as u64;
        }
        Ok(at)
    }

    /// One call. Tries again after part of a number, which no kernel returns.
    fn read_call(&mut self, first: u64, nr: usize) -> io::Result<usize> {
        let offset = first.checked_mul(WORD as u64).filter(|o| i64::try_from(*o).is_ok());
        let Some(offset) = offset else { return Ok(0) };
        if self.bytes.len() < nr * WORD {
            self.bytes.resize(nr * WORD, 0);
        }
        loop {
            self.calls += 1;
            match self.file.read_at(&mut self.bytes[..nr * WORD], offset) {
                Ok(got) => return Ok(got / WORD),
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                Err(e) => return Err(e),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;

    /// Frame `n` has the number `n * 3`. Reads are sometimes short or interrupted.
    struct Fake {
        frames: u64,
        most: usize,
        turns: Cell<u32>,
    }

    impl Words for Fake {
        fn read_at(&self, bytes: &mut [u8], offset: u64) -> io::Result<usize> {
            assert!(offset.is_multiple_of(8) && bytes.len().is_multiple_of(8), "unaligned: EINVAL");
            self.turns.set(self.turns.get() + 1);
            if self.turns.get().is_multiple_of(3) {
                return Err(io::ErrorKind::Interrupted.into());
            }
            let left = self.frames.saturating_sub(offset / 8);
            let nr = (bytes.len() / 8).min(self.most).min(usize::try_from(left).unwrap());
            for (nr, bytes) in bytes[..nr * 8].as_chunks_mut::<8>().0.iter_mut().enumerate() {
                *bytes = ((offset / 8 + nr as u64) * 3).to_ne_bytes();
            }
            Ok(nr * 8)
        }
    }

    #[test]
    fn reads_what_there_is_however_short_the_calls_are() {
        for (frames, most, first, nr) in [
            (1000, 1 << 20, 0, 10),
            (1000, 7, 5, 100),
            (1000, 512, 990, 100),
            (1000, 512, 1000, 5),
            (1000, 512, u64::MAX / 4, 5),
            (100_000, 1 << 20, 1, 99_999),
            (0, 1, 0, 3),
        ] {
            let mut file = FrameFile::new(Fake { frames, most, turns: Cell::new(0) });
            let mut out = vec![u64::MAX; nr];
            let got = file.read(first, &mut out).unwrap();
            let expected = usize::try_from(frames.saturating_sub(first)).unwrap().min(nr);
            assert_eq!(got, expected, "{frames} frames, {nr} from {first}, {most} at most");
            for (n, word) in out.iter().enumerate() {
                let is = if n < got { (first + n as u64) * 3 } else { u64::MAX };
                assert_eq!(*word, is, "frame {first} + {n}");
            }
            let mut seen = Vec::new();
            let end = first.saturating_add(nr as u64);
            let at =
                file.stream(first..end, &mut |_, words| seen.extend_from_slice(words)).unwrap();
            assert_eq!(seen, out[..got]);
            assert_eq!(at, first + got as u64);
        }
    }

    #[test]
    fn an_error_is_passed_on() {
        struct Bad;
        impl Words for Bad {
            fn read_at(&self, _: &mut [u8], _: u64) -> io::Result<usize> {
                Err(io::Error::from_raw_os_error(libc::EINVAL))
            }
        }
        let error = FrameFile::new(Bad).read(0, &mut [0; 4]).unwrap_err();
        assert_eq!(error.raw_os_error(), Some(libc::EINVAL));
    }

    #[test]
    fn this_machines_files_are_read_or_say_why_not() {
        use crate::frames::{Flags, FramesKind};
        for which in [Which::Flags, Which::Cgroup, Which::Count] {
            match FrameFile::open(Path::new("/proc"), which) {
                Ok(mut file) => {
                    let mut words = vec![0; 4096];
                    assert_eq!(file.read(0, &mut words).unwrap(), 4096);
                    if which == Which::Flags {
                        assert!(words.iter().any(|w| !Flags(*w).has(Flags::NOPAGE)));
                    }
                    assert_eq!(file.read(1 << 50, &mut words).unwrap(), 0);
                }
                Err(e) => {
                    assert!([FramesKind::Permission, FramesKind::NotSupported].contains(&e.kind()));
                    eprintln!("skipped: {e}");
                }
            }
        }
    }
}
