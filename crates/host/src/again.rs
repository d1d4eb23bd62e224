//! Files that are read again and again.
//!
//! To open a file below `/proc` costs more than to read it. A file that stays open shows its new
//! text to whoever reads it from the start.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

/// Reads the whole text from the start, which is one call if `buf` is longer than the text. Else
/// `buf` grows. Returns the length of the text.
pub(crate) fn read_again(file: &File, buf: &mut Vec<u8>) -> io::Result<usize> {
    loop {
        match file.read_at(buf, 0) {
            Ok(len) if len < buf.len() => return Ok(len),
            Ok(_) => buf.resize(buf.len().saturating_mul(2).max(LEAST_ROOM), 0),
            Err(err) if err.kind() == io::ErrorKind::Interrupted => {}
            Err(err) => return Err(err),
        }
    }
}

/// Room for a line, in bytes.
const LEAST_ROOM: usize = 128;
