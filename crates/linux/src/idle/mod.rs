//! Idle page tracking: the kernel's bitmap of idle page frames.

mod bitmap;
#[cfg(test)]
mod model;

pub use bitmap::{BITMAP, Bitmap, CALL_WORDS, WORD_FRAMES, Words};
