//! The limits of the file format, which the frames keep and the errors name.

/// Format version that this crate writes, and the newest that it reads.
pub const VERSION: u32 = 3;
/// The largest payload in bytes, compressed or not. This bounds the reader's memory.
pub const MAX_PAYLOAD: usize = 64 << 20;
