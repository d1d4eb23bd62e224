//! Fields of `/proc/meminfo`, and of a node's `meminfo`. Nothing here allocates.

/// A field of `/proc/meminfo` (`MemFree:`) or of a node's `meminfo` (`Node 0 MemFree:`), in KiB.
#[must_use]
pub fn meminfo_kib(text: &str, field: &str) -> Option<u64> {
    text.lines().find_map(|line| {
        let mut words = line.split_ascii_whitespace();
        words.find(|word| *word == field)?;
        words.next()?.parse().ok()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields() {
        let machine = "MemTotal:       24684084 kB\nMemFree:         9107612 kB\nActive:  42 kB\n\
                       Active(anon):   960 kB\nHugePages_Total:     0\n";
        let node = "Node 0 MemTotal:       24684084 kB\nNode 0 MemFree:   7 kB\n";
        for (text, field, kib) in [
            (machine, "MemFree:", Some(9_107_612)),
            (machine, "Active:", Some(42)),
            (machine, "HugePages_Total:", Some(0)),
            (machine, "Inactive:", None),
            (node, "MemFree:", Some(7)),
            ("MemFree:\n", "MemFree:", None),
            ("MemFree: -1 kB\n", "MemFree:", None),
        ] {
            assert_eq!(meminfo_kib(text, field), kib, "{field}");
        }
    }
}
