//! How much a process maps, asked again and again.

use super::proc_file::ProcFile;
use super::{Proc, parse_resident, parse_statm};

/// The size of one process's address space (first field of `statm`). A change says that its
/// mappings have changed, for a fraction of what reading them costs.
///
/// A monitor asks ten times a second, so the file stays open.
#[derive(Debug)]
pub struct MappedSize {
    statm: ProcFile,
}

impl Default for MappedSize {
    fn default() -> Self {
        Self { statm: ProcFile::new("statm") }
    }
}

impl MappedSize {
    /// The size in pages, using `buf`. The process and `proc` have to be the same each time.
    /// `None` if the process has ended, or no file can be opened.
    pub fn pages(&mut self, proc: &Proc, pid: u32, buf: &mut Vec<u8>) -> Option<u64> {
        let text = self.statm.read(proc, pid, buf)?;
        let mut digits = text.iter().take_while(|byte| byte.is_ascii_digit());
        let pages = |n: u64, digit: &u8| n.checked_mul(10)?.checked_add(u64::from(digit & 15));
        digits.try_fold(0, pages).filter(|_| !text.is_empty())
    }

    /// The same as [`Proc::mapped_pages`]: all, code, and data with stacks.
    pub fn parts(&mut self, proc: &Proc, pid: u32, buf: &mut Vec<u8>) -> Option<[u64; 3]> {
        parse_statm(self.statm.read(proc, pid, buf)?)
    }

    /// How much of it is resident, in pages.
    pub fn resident(&mut self, proc: &Proc, pid: u32, buf: &mut Vec<u8>) -> Option<u64> {
        parse_resident(self.statm.read(proc, pid, buf)?)
    }

    /// Closes the file until it is asked again.
    pub fn close(&mut self) {
        self.statm.close();
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
        // Other tests run in this process. Each of their threads may map 128 MiB.
        let before = own.pages(&proc, std::process::id(), &mut buf).unwrap();
        let more = vec![0_u8; 2 << 30];
        let after = own.pages(&proc, std::process::id(), &mut buf).unwrap();
        assert!(after >= before + (1 << 30) / 4096, "{before} {after} {}", more.len());
        assert!(own.resident(&proc, std::process::id(), &mut buf).is_some_and(|pages| pages > 0));
        // One that sleeps maps nothing more, once it has begun to.
        let mut last = [0; 3];
        loop {
            let parts = of_child.parts(&proc, child.id(), &mut buf).unwrap();
            if parts == last {
                break;
            }
            last = parts;
            std::thread::sleep(std::time::Duration::from_millis(100));
        }
        assert_eq!(proc.mapped_pages(child.id(), &mut buf).unwrap(), last);
        assert_eq!(of_child.pages(&proc, child.id(), &mut buf), Some(last[0]));
        assert!(last[2] > 0 && last[0] > last[2], "{last:?}");
        let stat = proc.stat(child.id(), &mut buf).unwrap().rss_pages;
        let resident = of_child.resident(&proc, child.id(), &mut buf).unwrap();
        assert!(resident > 0 && resident <= last[0] && stat <= last[0], "{resident} {stat}");
        child.kill().unwrap();
        child.wait().unwrap();
        assert_eq!(of_child.parts(&proc, child.id(), &mut buf), None);
        assert_eq!(of_child.pages(&proc, child.id(), &mut buf), None);
        of_child.close();
        assert_eq!(of_child.pages(&proc, child.id(), &mut buf), None);
    }
}
