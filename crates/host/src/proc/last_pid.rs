//! The pid that was given out last.

use std::fs::File;

use super::{Proc, scan};
use crate::again::read_again;

/// The pid that was given out last in our pid namespace (last field of `loadavg`). As long as it
/// stays the same, nothing was forked, so there is no need to look for children.
///
/// A monitor asks ten times a second, so the file stays open.
#[derive(Debug, Default)]
pub struct LastPid {
    loadavg: Option<File>,
    buf: Vec<u8>,
}

impl LastPid {
    /// The pid, in this `/proc`, which has to be the same each time; `None` if it does not say.
    pub fn read(&mut self, proc: &Proc) -> Option<u32> {
        if self.loadavg.is_none() {
            self.loadavg = File::open(proc.root().join("loadavg")).ok();
        }
        let len = read_again(self.loadavg.as_ref()?, &mut self.buf).ok()?;
        let last = self.buf[..len].trim_ascii().rsplit(|&b| b == b' ').next()?;
        scan::whole_dec(last).and_then(|n| u32::try_from(n).ok())
    }
}
