//! Processes that can clear accessed bits at this moment, by the files that they hold open.
//!
//! Two files of the kernel clear accessed bits when they are written or read:
//! `/proc/PID/clear_refs` and the bitmap of idle page tracking. Which process has one of them open
//! is known from its directory of open files. A tool that opens the file, writes and closes it is
//! seen only in that moment. `/proc/PID/pagemap` is left out, since it shows pages and clears
//! nothing.
//!
//! To look at every open file of a machine takes milliseconds to tens of them, so only `isotherm
//! doctor` does so.

use std::fs;

use crate::Roots;

/// How many open files are looked at, at most.
const MOST_FILES: usize = 200_000;
/// The bitmap, wherever sysfs is mounted.
const BITMAP: &str = "/kernel/mm/page_idle/bitmap";

/// Who has such a file open, for people: name, pid and file. This process and other Isotherms are
/// left out, and so are processes whose open files may not be seen.
///
/// Units: none.   Shape: sorted by pid, one per process.   Errors: none; what cannot be read is
/// left out.
#[must_use]
pub fn open_elsewhere(roots: &Roots) -> Vec<String> {
    let mut pids = Vec::new();
    if roots.proc.for_each_pid(|pid| pids.push(pid)).is_err() {
        return Vec::new();
    }
    pids.sort_unstable();
    let (mut left, mut found) = (MOST_FILES, Vec::new());
    for pid in pids.into_iter().filter(|pid| *pid != std::process::id()) {
        let Ok(files) = fs::read_dir(roots.proc.path_of(pid, "fd")) else { continue };
        let mut targets = files.flatten().take(left).filter_map(|file| {
            left = left.saturating_sub(1);
            Some(fs::read_link(file.path()).ok()?.to_string_lossy().into_owned())
        });
        let Some(file) = targets.find(|target| clears(target)) else { continue };
        let name = fs::read(roots.proc.path_of(pid, "comm")).unwrap_or_default();
        let name = String::from_utf8_lossy(&name).trim_end().to_owned();
        if name != "isotherm" {
            found.push(format!("{name} (process {pid}, with {file} open)"));
        }
    }
    found
}

/// Whether to write or to read this file clears accessed bits.
fn clears(path: &str) -> bool {
    path.ends_with(BITMAP) || (path.starts_with("/proc/") && path.ends_with("/clear_refs"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::proc::Proc;

    #[test]
    fn who_has_a_file_open_that_clears_is_told() {
        let dir = tempfile::tempdir().unwrap();
        let open = |pid: u32, comm: &str, files: &[&str]| {
            let of = dir.path().join(format!("proc/{pid}"));
            fs::create_dir_all(of.join("fd")).unwrap();
            fs::write(of.join("comm"), format!("{comm}\n")).unwrap();
            for (nr, file) in files.iter().enumerate() {
                std::os::unix::fs::symlink(file, of.join(format!("fd/{nr}"))).unwrap();
            }
        };
        let bitmap = "/sys/kernel/mm/page_idle/bitmap";
        let roots = Roots { proc: Proc::new(dir.path().join("proc")), sys: dir.path().into() };
        assert!(open_elsewhere(&roots).is_empty(), "nothing can be read");
        open(12, "wss", &["/dev/null", "/proc/7/clear_refs", "/proc/7/clear_refs"]);
        open(9, "idled", &["socket:[12]", bitmap]);
        open(10, "isotherm", &[bitmap]);
        open(11, "reader", &["/proc/7/pagemap", "/home/x/clear_refs", "pipe:[3]"]);
        assert_eq!(
            open_elsewhere(&roots),
            [
                format!("idled (process 9, with {bitmap} open)"),
                "wss (process 12, with /proc/7/clear_refs open)".to_owned()
            ]
        );
    }
}
