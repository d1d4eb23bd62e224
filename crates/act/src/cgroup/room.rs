//! How much may be taken from a cgroup before what is protected is touched.
//!
//! `memory.low` and `memory.min` promise memory to a cgroup. The kernel keeps that promise when
//! others need memory, but not towards whoever writes to the cgroup's own `memory.reclaim`. So the
//! promises of the cgroup and of all cgroups above it are kept here.

use std::fs;
use std::path::Path;

/// Bytes that may be taken from the cgroup at `dir`, below the mount of version 2; none if that
/// cannot be told.
pub(super) fn room(dir: &Path, mount: &Path) -> Option<u64> {
    let mut least: Option<u64> = None;
    for dir in dir.ancestors().take_while(|dir| dir.starts_with(mount) && *dir != mount) {
        let Some(current) = number(&dir.join("memory.current")) else {
            // Above it the memory controller may be off.
            break;
        };
        let promised = ["memory.low", "memory.min"].map(|file| number(&dir.join(file)));
        // A file that is missing promises nothing.
        let promised = promised.into_iter().flatten().max().unwrap_or(0);
        let room = current.saturating_sub(promised);
        least = Some(least.map_or(room, |least| least.min(room)));
    }
    least
}

/// The number in a file; `max` is the largest there is.
fn number(file: &Path) -> Option<u64> {
    let text = fs::read_to_string(file).ok()?;
    match text.trim() {
        "max" => Some(u64::MAX),
        text => text.parse().ok(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn promises_of_the_cgroup_and_of_those_above_are_kept() {
        let root = tempfile::tempdir().unwrap();
        let mount = root.path();
        fs::create_dir_all(mount.join("a/b")).unwrap();
        let put = |file: &str, text: &str| fs::write(mount.join(file), text).unwrap();
        let room = || room(&mount.join("a/b"), mount);
        assert_eq!(room(), None, "no memory controller");
        put("a/b/memory.current", "1000\n");
        assert_eq!(room(), Some(1000));
        put("a/b/memory.low", "400\n");
        put("a/b/memory.min", "100\n");
        assert_eq!(room(), Some(600));
        put("a/memory.current", "1500\n");
        put("a/memory.low", "1400\n");
        assert_eq!(room(), Some(100), "taking more would take what is promised to `a`");
        put("a/memory.min", "max\n");
        assert_eq!(room(), Some(0));
        // The root's own numbers do not count.
        put("a/memory.min", "0\n");
        put("memory.current", "1\n");
        assert_eq!(room(), Some(100));
    }
}
