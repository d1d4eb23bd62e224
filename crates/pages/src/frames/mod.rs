//! What the kernel says of page frames: `/proc/kpageflags`, `/proc/kpagecgroup`,
//! `/proc/kpagecount`.
//!
//! Each file is an array of 64-bit numbers, one per page frame, at byte `8 * frame`
//! (fs/proc/page.c):
//!
//! * Offsets and lengths are multiples of 8 (else `EINVAL`). Reading at or behind the end gives 0
//!   bytes; a call may give less than was asked for. Frames that do not exist read 0, or `NOPAGE`
//!   in the flags.
//! * Only root reads them: the files have mode 0400, and on a locked-down kernel not even root.
//! * **Decide at the head.** Flags, charge and idleness belong to a folio, that is, to its first
//!   frame. Kernels before 6.10 say little or nothing at the frames behind it (marked
//!   `COMPOUND_TAIL`); since then they repeat the folio's flags there. Whoever adds up per frame
//!   and believes each entry counts wrongly on one or the other. [`heads::fold`] looks at the first
//!   frame only and carries its answer over the tails.
//! * `kpagecgroup` holds the inode of the cgroup that a folio is charged to, or of its closest
//!   ancestor that is online; 0 for none. It is the very cgroup, not one above it: sums over a
//!   hierarchy are the reader's.
//!
//! Cost, measured on 6.18 for 24 GiB read once in calls of 256 KiB: flags 45, cgroup 27, count 40
//! ns per frame. So a whole pass over two of them takes 0.47 s of CPU: read what is needed, not
//! everything.
//!
//! Absent on purpose: where RAM is (`paddr::Ram`), which frames are idle (`idle::Bitmap`), and any
//! opinion about them.

mod error;
mod file;
mod flags;
pub mod groups;
pub mod heads;
mod lookup;
#[doc(hidden)]
pub mod made_up;

pub use error::{ErrorKind, FramesError};
pub use file::{FrameFile, Which, Words};
pub use flags::{Flags, NAMES};
pub use groups::{Group, Groups, Version};
pub use lookup::{Folio, by_frame, folios_of, for_each_of};
