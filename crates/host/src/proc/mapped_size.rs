//! How much a process maps, asked again and again.

use std::fs::File;

use super::Proc;
use crate::again::read_again;

/// The size of one process's address space (first field of `statm`). A change says that its
/// mappings have changed, for a fraction of what reading them costs.
///
/// A monitor asks ten times a second, so the file stays open. An open file follows the process
/// through an exec, and never shows another process that has got the same pid.
#[derive(Debug, Default)]
pub struct MappedSize {
    statm: Option<File>,
}

impl MappedSize {
    /// The size in pages, using `buf`. The process and `proc` have to be the same each time.
    /// `None` if the process has ended, or no file can be opened.
    pub fn pages(&mut self, proc: &Proc, pid: u32, buf: &mut Vec<u8>) -> Option<u64> {
        if self.statm.is_none() {
            self.statm = File::open(proc.path_of(pid, "statm")).ok();
        }
        let len = read_again(self.statm.as_ref()?, buf).ok()?;
        let mut digits = buf[..len].iter().take_while(|byte| byte.is_ascii_digit());
        let pages = |n: u64, digit: &u8| n.checked_mul(10)?.checked_add(u64::from(digit & 15));
        digits.try_fold(0, pages).filter(|_| len > 0)
    }

    /// Closes the file until it is asked again.
    pub fn close(&mut self) {
        self.statm = None;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_read_anew_each_time_and_ends_with_the_process() {
        let mut child = std::process::Command::new("sleep").arg("60").spawn().unwrap();
        let (proc, mut buf) = (Proc::default(), Vec::new());
        let (mut of_child, mut own) = (MappedSize::default(), MappedSize::default());
        assert!(of_child.pages(&proc, child.id(), &mut buf).is_some_and(|pages| pages > 0));
        let before = own.pages(&proc, std::process::id(), &mut buf).unwrap();
        // Nobody else maps so much here at once.
        let more = vec![1_u8; 256 << 20];
        let after = own.pages(&proc, std::process::id(), &mut buf).unwrap();
        assert!(after >= before + (200 << 20) / 4096, "{before} {after} {}", more.len());
        let [direct, ..] = proc.mapped_pages(std::process::id(), &mut buf).unwrap();
        assert!(direct.abs_diff(after) < (100 << 20) / 4096, "{direct} {after}");
        child.kill().unwrap();
        child.wait().unwrap();
        assert_eq!(of_child.pages(&proc, child.id(), &mut buf), None);
        of_child.close();
        assert_eq!(of_child.pages(&proc, child.id(), &mut buf), None);
    }
}
