//! How much room is left until the kernel has to page out what is not of a file.
//!
//! Pages of files are room: they are dropped first, and a cgroup that reads files is always at its
//! limit. So of a cgroup counts what it uses without them.
//!
//! | | limit | use | pages of files |
//! |---|---|---|---|
//! | v2, and all above | `memory.high`, `memory.max` | `memory.current` | `memory.stat` |
//! | v1, and all above | `memory.limit_in_bytes` | `memory.usage_in_bytes` | `total_*` of it |
//! | machine | `MemTotal` | all but `MemAvailable` | are in that |

use std::path::Path;

use super::{field, text_of};

/// The share of the limit that is left in a memory cgroup or one of those above it, whichever has
/// the least; 1 without a limit.
pub(super) fn of_cgroups(mount: &Path, dir: &Path, is_v1: bool) -> f64 {
    let all = dir.ancestors().take_while(|dir| dir.starts_with(mount));
    all.filter_map(|dir| of_cgroup(dir, is_v1)).fold(1.0, f64::min)
}

fn of_cgroup(dir: &Path, is_v1: bool) -> Option<f64> {
    let number = |name: &str| text_of(dir, name)?.trim().parse::<u64>().ok();
    let (limits, used, kinds) = if is_v1 {
        let kinds = ["total_active_file", "total_inactive_file"];
        (&["memory.limit_in_bytes"][..], "memory.usage_in_bytes", kinds)
    } else {
        (&["memory.high", "memory.max"][..], "memory.current", ["active_file", "inactive_file"])
    };
    // The word `max` is no limit.
    let limit = limits.iter().filter_map(|name| number(name)).min()?;
    let stat = text_of(dir, "memory.stat")?;
    let files = kinds.iter().filter_map(|name| field(&stat, name)).fold(0, u64::saturating_add);
    Some(share_left(limit, number(used)?.saturating_sub(files)))
}

/// The share of the machine's memory that is left, from the text of `meminfo`.
pub(super) fn of_machine(meminfo: &str) -> Option<f64> {
    let kib = |name: &str| {
        let line = meminfo.lines().find_map(|line| line.strip_prefix(name))?;
        line.trim().strip_suffix(" kB")?.parse::<u64>().ok()
    };
    let (total, available) = (kib("MemTotal:")?, kib("MemAvailable:")?);
    Some(share_left(total, total.saturating_sub(available)))
}

#[expect(clippy::cast_precision_loss, reason = "a ratio of two sizes")]
fn share_left(limit: u64, used: u64) -> f64 {
    limit.saturating_sub(used) as f64 / limit.max(1) as f64
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    fn near(a: f64, b: f64) -> bool {
        (a - b).abs() < 1e-9
    }

    #[test]
    fn the_least_of_all_limits_counts_and_files_are_room() {
        let dir = tempfile::tempdir().unwrap();
        let mount = dir.path();
        let write = |path: &str, text: &str| {
            let path = mount.join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        };
        write("a/b/memory.high", "max\n");
        write("a/b/memory.max", "1000\n");
        write("a/b/memory.current", "990\n");
        write("a/b/memory.stat", "anon 90\nactive_file 600\ninactive_file 290\n");
        let room = |v1| of_cgroups(mount, &mount.join("a/b"), v1);
        assert!(near(room(false), 0.9), "{}", room(false));
        write("a/memory.max", "10000\n");
        write("a/memory.high", "4000\n");
        write("a/memory.current", "3000\n");
        write("a/memory.stat", "active_file 0\ninactive_file 0\n");
        assert!(near(room(false), 0.25), "{}: that of the one above", room(false));
        assert!(near(room(true), 1.0), "no limit is known");
        write("a/b/memory.limit_in_bytes", "1000\n");
        write("a/b/memory.usage_in_bytes", "1000\n");
        write("a/b/memory.stat", "active_file 500\ntotal_active_file 40\ntotal_inactive_file 10\n");
        assert!(near(room(true), 0.05), "{}: with the cgroups below", room(true));
    }

    #[test]
    fn what_is_available_is_room_on_a_machine() {
        let text = "MemTotal:       8000 kB\nMemFree:         10 kB\nMemAvailable:   2000 kB\n";
        assert!(of_machine(text).is_some_and(|room| near(room, 0.25)));
        assert_eq!(of_machine("MemTotal:       8000 kB\n"), None);
    }
}
