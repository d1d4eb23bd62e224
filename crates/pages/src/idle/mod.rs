//! The bitmap of idle page tracking (`CONFIG_IDLE_PAGE_TRACKING`): one bit per frame, and what a
//! mark means for the folio that a frame belongs to.
//!
//! Invariant: one user of marks per machine ([`Lock`]).
//!
//! Absent: whose pages these are (the operations set `idle`), and the scan of a whole machine
//! (`isotherm-idlemem`).

mod bitmap;
mod block;
mod error;
mod folios;
mod lock;
#[cfg(test)]
mod model;

use std::path::Path;

use isotherm_host::error::SetError;

pub use bitmap::{BITMAP, Bitmap, CALL_WORDS, WORD_FRAMES, Words};
pub use block::Block;
pub use error::SET;
pub use folios::{Ask, Folios, NOT_KNOWN};
pub use lock::{LOCK, Lock};

use self::error::of_file;
use crate::frames::{FrameFile, FramesError, Which};

/// Opens the bitmap and the frames' flags, and takes the machine's lock for them.
///
/// # Errors
///
/// The kernel has no bitmap, it may not be opened, or another program uses it.
pub fn open() -> Result<(Folios, Lock), SetError> {
    let bitmap = Bitmap::open(Path::new(BITMAP))
        .map_err(|e| of_file(BITMAP, "CONFIG_IDLE_PAGE_TRACKING", e))?;
    let flags = FrameFile::open(Path::new("/proc"), Which::Flags).map_err(of_frames)?;
    let lock = Lock::take(Path::new(LOCK))?;
    Ok((Folios::new(bitmap, flags), lock))
}

/// The same failure in this set's words.
fn of_frames(e: FramesError) -> SetError {
    let text = e.to_string();
    let said = e.into_said().unwrap_or_else(|| std::io::Error::other(text));
    of_file("/proc/kpageflags", "CONFIG_PROC_PAGE_MONITOR", said)
}
