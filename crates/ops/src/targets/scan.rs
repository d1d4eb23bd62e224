//! Finding the children of the targets, in what [`Listing`] has.
//!
//! A process is told to a tracker once as new. All are told again after every process was looked at
//! anew, since a parent can have become a target, or a child be another's, in between.

use std::io;
use std::sync::Arc;

use isotherm_core::Time;
use isotherm_host::proc::Proc;

use super::listing::{Listed, Listing, Process};

/// A process that may not have been there before.
pub(super) type Newcomer = Process;

/// Remembers which listing was looked through last.
#[derive(Debug)]
pub(super) struct Scan {
    listing: Arc<Listing>,
    seen: Arc<Listed>,
    /// Whether the next call looks at everything.
    is_new: bool,
}

impl Scan {
    /// Nothing was looked through yet.
    pub(super) fn new(proc: &Proc) -> Self {
        Self { listing: Listing::of(proc), seen: Arc::default(), is_new: true }
    }

    /// Puts processes that may be new since the last call into `found`, parents before children
    /// wherever pids rise.
    pub(super) fn newcomers(
        &mut self,
        proc: &Proc,
        now: Time,
        buf: &mut Vec<u8>,
        found: &mut Vec<Newcomer>,
    ) -> io::Result<()> {
        found.clear();
        let Some(listed) = self.listing.latest(proc, now, self.is_new, buf)? else {
            return Ok(());
        };
        if !self.is_new && listed.nr == self.seen.nr {
            return Ok(());
        }
        let all = self.is_new || listed.full_nr != self.seen.full_nr;
        let is_told = |process: &&Process| all || process.since > self.seen.nr;
        found.extend(listed.processes.iter().filter(is_told));
        (self.seen, self.is_new) = (listed, false);
        Ok(())
    }

    /// Whether the pid was there at the last listing.
    pub(super) fn has_seen(&self, pid: u32) -> bool {
        self.seen.get(pid).is_some()
    }

    /// Makes the next call look at everything.
    pub(super) const fn forget(&mut self) {
        self.is_new = true;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// One tracker lists, and the other gets what it found; each is told what it has not seen.
    #[test]
    fn trackers_share_listings_and_each_is_told_of_every_process() {
        let mut command = std::process::Command::new("sleep");
        let proc = Proc::default();
        let (mut first, mut second) = (Scan::new(&proc), Scan::new(&proc));
        assert!(Arc::ptr_eq(&first.listing, &second.listing));
        let (mut buf, mut found) = (Vec::new(), Vec::new());
        let mut child = command.arg("60").spawn().unwrap();
        let mut finds = |scan: &mut Scan| {
            let begin = std::time::Instant::now();
            loop {
                let now = isotherm_sys::clock::now();
                scan.newcomers(&proc, now, &mut buf, &mut found).unwrap();
                if let Some(new) = found.iter().find(|new| new.pid == child.id()) {
                    return *new;
                }
                assert!(begin.elapsed().as_secs() < 60, "the child is not found");
                std::thread::sleep(std::time::Duration::from_millis(10));
            }
        };
        let new = finds(&mut first);
        assert_eq!((new.ppid, finds(&mut second)), (std::process::id(), new));
        first.forget();
        assert_eq!(finds(&mut first), new, "everything is told again");
        assert!(first.has_seen(new.pid));
        child.kill().unwrap();
        child.wait().unwrap();
    }
}
