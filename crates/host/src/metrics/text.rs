//! The few numbers that are taken out of the kernel's texts. Nothing here allocates.

/// The total of a pressure file's line `some` or `full`, in µs since boot.
pub(crate) fn pressure_total(text: &str, line: &str) -> Option<u64> {
    let mut words = text.lines().map(str::split_ascii_whitespace);
    let mut words = words.find_map(|mut words| (words.next() == Some(line)).then_some(words))?;
    words.find_map(|word| word.strip_prefix("total="))?.parse().ok()
}

/// What `memory.stat` of a cgroup or `/proc/vmstat` tells of memory that came back after it was
/// reclaimed, in bytes. `None` if it does not tell.
pub fn refaulted(text: &str) -> Option<u64> {
    // One counter until Linux 5.8, two since.
    let is_it = |name| {
        ["workingset_refault", "workingset_refault_anon", "workingset_refault_file"].contains(&name)
    };
    let named = text.lines().filter_map(|line| line.split_once(' '));
    let pages = named.filter_map(|(name, pages)| is_it(name).then(|| pages.trim().parse().ok())?);
    pages.reduce(u64::saturating_add).map(|pages| pages.saturating_mul(4096))
}

/// What a cgroup's `memory.numa_stat` says about `kind` on a node, in bytes.
pub(super) fn on_node(text: &str, kind: &str, node: i32) -> Option<u64> {
    let mut words = text.lines().map(str::split_ascii_whitespace);
    let mut words = words.find_map(|mut words| (words.next() == Some(kind)).then_some(words))?;
    words.find_map(|word| {
        let (nid, bytes) = word.strip_prefix('N')?.split_once('=')?;
        if nid.parse() == Ok(node) { bytes.parse().ok() } else { None }
    })
}

/// The numbers of a list such as `0,2-3`, with what is in between.
pub(super) fn list(text: &str) -> Vec<u32> {
    let mut out = Vec::new();
    for part in text.trim().split(',') {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        if let (Ok(first), Ok(last)) = (first.parse::<u32>(), last.parse::<u32>()) {
            // No machine has more nodes than the kernel's 1024.
            out.extend((first..=last).take(1024));
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pressure() {
        let text = "some avg10=0.00 avg60=1.05 avg300=0.00 total=1001181\n\
                    full avg10=0.00 avg60=0.00 avg300=0.00 total=740313\n";
        for (text, line, total) in [
            (text, "some", Some(1_001_181)),
            (text, "full", Some(740_313)),
            (text, "half", None),
            ("some avg10=0.00\n", "some", None),
            ("some total=x\n", "some", None),
            ("", "some", None),
        ] {
            assert_eq!(pressure_total(text, line), total, "{line} in {text}");
        }
    }

    #[test]
    fn refaults_of_old_and_new_kernels() {
        for (text, bytes) in [
            ("anon 5\nworkingset_refault_anon 2\nworkingset_refault_file 3\n", Some(5 << 12)),
            ("workingset_refault 4\nworkingset_activate 9\n", Some(4 << 12)),
            ("workingset_refault_anon 0\n", Some(0)),
            ("anon 5\nworkingset_refaults 7\nworkingset_refault_anon x\n", None),
            ("", None),
        ] {
            assert_eq!(refaulted(text), bytes, "{text}");
        }
    }

    #[test]
    fn nodes_of_a_cgroup() {
        let text = "anon N0=1 N1=2\nactive_anon N0=4096 N1=8192\ninactive_anon N0=5 N1=x\n";
        for (kind, node, bytes) in [
            ("active_anon", 0, Some(4096)),
            ("active_anon", 1, Some(8192)),
            ("active_anon", 2, None),
            ("active_anon", -1, None),
            ("inactive_anon", 1, None),
            ("active_file", 0, None),
        ] {
            assert_eq!(on_node(text, kind, node), bytes, "{kind} {node}");
        }
    }

    #[test]
    fn lists() {
        for (text, nodes) in
            [("0\n", vec![0]), ("0,2-4\n", vec![0, 2, 3, 4]), ("\n", vec![]), ("3-1,x,7", vec![7])]
        {
            assert_eq!(list(text), nodes, "{text}");
        }
    }
}
