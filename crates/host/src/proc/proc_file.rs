//! A small file of one process that is read again and again.

use std::fs::File;

use super::Proc;
use crate::again::read_again;

/// A file below `/proc/PID`, which stays open: to open it costs more than to read it.
///
/// An open file follows the process through an exec, and never shows another process that has got
/// the same pid.
#[derive(Debug)]
pub struct ProcFile {
    name: &'static str,
    file: Option<File>,
}

impl ProcFile {
    /// The file of this name. It is opened when it is read.
    #[must_use]
    pub const fn new(name: &'static str) -> Self {
        Self { name, file: None }
    }

    /// Its text, using `buf`. The process and `proc` have to be the same each time. `None` if the
    /// process has ended, or no file can be opened.
    pub fn read<'b>(&mut self, proc: &Proc, pid: u32, buf: &'b mut Vec<u8>) -> Option<&'b [u8]> {
        if self.file.is_none() {
            self.file = File::open(proc.path_of(pid, self.name)).ok();
        }
        let len = read_again(self.file.as_ref()?, buf).ok()?;
        Some(&buf[..len])
    }

    /// Closes the file until it is read again.
    pub fn close(&mut self) {
        self.file = None;
    }
}
