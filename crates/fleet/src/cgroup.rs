//! What the kernel says of one cgroup: sizes, limits and counters (cgroup v2).
//!
//! What the kernel does not have is `None`: the root has no size, a cgroup without the memory
//! controller has nothing, older kernels have no `pswpin` in `memory.stat`, and PSI can be off.

use std::fs;
use std::path::Path;

/// Numbers of one cgroup. Sizes are bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Numbers {
    pub(crate) current: Option<u64>,
    pub(crate) anon: Option<u64>,
    pub(crate) file: Option<u64>,
    pub(crate) swap: Option<u64>,
    pub(crate) limit: Option<u64>,
    pub(crate) low: Option<u64>,
    pub(crate) min: Option<u64>,
    pub(crate) counters: Counters,
}

/// Counters, which only go up as long as the cgroup exists.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Counters {
    /// Pages.
    pub(crate) refaults: Option<u64>,
    /// Pages.
    pub(crate) pswpin: Option<u64>,
    /// Pages.
    pub(crate) pswpout: Option<u64>,
    pub(crate) psi_some_us: Option<u64>,
    pub(crate) psi_full_us: Option<u64>,
    pub(crate) oom: Option<u64>,
}

impl Counters {
    /// How much each has grown. One that is smaller now belongs to another cgroup of that name, so
    /// all of it is growth.
    pub(crate) fn since(&self, before: &Self) -> Self {
        let grown = |now: Option<u64>, before: Option<u64>| {
            let (now, before) = (now?, before?);
            Some(now.checked_sub(before).unwrap_or(now))
        };
        Self {
            refaults: grown(self.refaults, before.refaults),
            pswpin: grown(self.pswpin, before.pswpin),
            pswpout: grown(self.pswpout, before.pswpout),
            psi_some_us: grown(self.psi_some_us, before.psi_some_us),
            psi_full_us: grown(self.psi_full_us, before.psi_full_us),
            oom: grown(self.oom, before.oom),
        }
    }
}

impl Numbers {
    /// Reads them from the cgroup's directory.
    pub(crate) fn read(dir: &Path) -> Self {
        let text = |name: &str| fs::read_to_string(dir.join(name)).unwrap_or_default();
        let one = |name: &str| text(name).trim().parse().ok();
        // Protections that are not set are 0, which is no request.
        let set = |name: &str| one(name).filter(|bytes| *bytes > 0);
        let (stat, events, pressure) =
            (text("memory.stat"), text("memory.events"), text("memory.pressure"));
        let refaults = ["workingset_refault_anon", "workingset_refault_file"];
        let refaults = refaults.map(|key| value(&stat, key));
        Self {
            current: one("memory.current"),
            anon: value(&stat, "anon"),
            file: value(&stat, "file"),
            swap: one("memory.swap.current"),
            // Without a limit the file says `max`.
            limit: one("memory.max"),
            low: set("memory.low"),
            min: set("memory.min"),
            counters: Counters {
                refaults: refaults[0].zip(refaults[1]).map(|(anon, file)| anon + file),
                pswpin: value(&stat, "pswpin"),
                pswpout: value(&stat, "pswpout"),
                psi_some_us: stalled_us(&pressure, "some"),
                psi_full_us: stalled_us(&pressure, "full"),
                oom: value(&events, "oom_kill"),
            },
        }
    }
}

/// The number behind a key at the start of a line.
fn value(text: &str, key: &str) -> Option<u64> {
    let of_line = |line: &str| line.strip_prefix(key)?.strip_prefix(' ')?.trim().parse().ok();
    text.lines().find_map(of_line)
}

/// The total of a line of a pressure file, in µs.
pub(crate) fn stalled_us(text: &str, kind: &str) -> Option<u64> {
    let line = text.lines().find(|line| line.split(' ').next() == Some(kind))?;
    line.split(' ').find_map(|field| field.strip_prefix("total="))?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_of_a_cgroup_and_what_is_missing() {
        let dir = tempfile::tempdir().unwrap();
        assert_eq!(Numbers::read(dir.path()), Numbers::default());
        for (name, text) in [
            ("memory.current", "1000\n"),
            ("memory.max", "max\n"),
            ("memory.low", "0\n"),
            ("memory.min", "77\n"),
            (
                "memory.stat",
                "anon 600\nanon_thp 5\nfile 300\nworkingset_refault_anon 2\n\
                 workingset_refault_file 3\n",
            ),
            ("memory.events", "low 0\noom 9\noom_kill 4\n"),
            (
                "memory.pressure",
                "some avg10=0.00 avg60=0.00 avg300=0.00 total=12\nfull avg10=0.00 total=5\n",
            ),
        ] {
            fs::write(dir.path().join(name), text).unwrap();
        }
        let numbers = Numbers::read(dir.path());
        let sizes = (numbers.current, numbers.anon, numbers.file, numbers.swap);
        assert_eq!(sizes, (Some(1000), Some(600), Some(300), None));
        assert_eq!((numbers.limit, numbers.low, numbers.min), (None, None, Some(77)));
        let counters = Counters {
            refaults: Some(5),
            psi_some_us: Some(12),
            psi_full_us: Some(5),
            oom: Some(4),
            ..Counters::default()
        };
        assert_eq!(numbers.counters, counters);
        let before = Counters { oom: Some(1), psi_some_us: Some(50), ..Counters::default() };
        let grown = counters.since(&before);
        assert_eq!((grown.oom, grown.psi_some_us, grown.refaults), (Some(3), Some(12), None));
    }
}
