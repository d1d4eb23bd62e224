//! A made-up file about frames, for tests.

use std::io;

use super::Words;

/// The numbers of frames 0 and up; those behind are 0.
pub(crate) struct Table(pub(crate) Vec<u64>);

impl Words for Table {
    fn read_at(&self, bytes: &mut [u8], offset: u64) -> io::Result<usize> {
        let first = usize::try_from(offset / 8).unwrap_or(usize::MAX);
        for (nr, bytes) in (first..).zip(bytes.as_chunks_mut::<8>().0) {
            *bytes = self.0.get(nr).copied().unwrap_or(0).to_ne_bytes();
        }
        Ok(bytes.len())
    }
}
