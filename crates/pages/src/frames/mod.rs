//! What the kernel says of page frames: `/proc/kpageflags`, `/proc/kpagecgroup`,
//! `/proc/kpagecount`.
//!
//! Each file is an array of 64-bit numbers, one per page frame, at byte `8 * frame`
//! (fs/proc/page.c):
//!
//! * Offsets and lengths are multiples of 8 (else `EINVAL`). Reading at or behind the end gives 0
//!   bytes. A call may give less than was asked for. Frames that do not exist read 0, or `NOPAGE`
//!   in the flags.
//! * Only root can read them: the files have mode 0400. On a locked-down kernel root cannot either.
//! * **Decide at the head.** Flags, charge and idleness belong to a folio, that is, to its first
//!   frame. Kernels before 6.10 say little or nothing at the frames behind it (marked
//!   `COMPOUND_TAIL`). Later ones repeat the folio's flags there. A sum that believes each frame's
//!   entry is wrong on one or the other. [`heads::fold`] looks at the first frame only, and applies
//!   its answer to the tails.
//! * `kpagecgroup` holds the inode of the cgroup that a folio is charged to, or of its closest
//!   ancestor that is online; 0 for none. Memory of cgroups below is not included: the reader adds
//!   up the hierarchy.
//!
//! Cost, measured on 6.18 for 24 GiB read once in calls of 256 KiB: flags 45, cgroup 27, count 40
//! ns per frame. A whole pass over two of them takes 0.47 s of CPU, so a reader should read only
//! what it needs.
//!
//! Absent on purpose: where RAM is (`paddr::Ram`), which frames are idle (`idle::Bitmap`), and what
//! follows from these facts.

mod error;
mod file;
mod flags;
pub mod groups;
pub mod heads;
mod lookup;
#[doc(hidden)]
pub mod made_up;

pub use error::{FramesError, FramesKind, WHAT, at_file, error};
pub use file::{FrameFile, Which, Words};
pub use flags::{Flags, NAMES};
pub use groups::{Group, Groups, Version};
pub use lookup::{Folio, by_frame, folios_of, for_each_of};
