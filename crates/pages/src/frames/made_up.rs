//! A made-up file about frames, for tests of this crate and of those above it.

use std::io;

use super::Words;

/// The numbers of frames 0 and up; those behind are 0.
#[derive(Debug, Clone, Default)]
pub struct Table(pub Vec<u64>);

impl Words for Table {
    fn read_at(&self, bytes: &mut [u8], offset: u64) -> io::Result<usize> {
        let first = usize::try_from(offset / 8).unwrap_or(usize::MAX);
        for (nr, bytes) in (first..).zip(bytes.as_chunks_mut::<8>().0) {
            *bytes = self.0.get(nr).copied().unwrap_or(0).to_ne_bytes();
        }
        Ok(bytes.len())
    }
}
