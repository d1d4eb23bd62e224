//! `per_cpu/cpuN/stats`: what a CPU's ring buffer took and lost since it was last emptied.

/// Counters of one CPU, or sums over CPUs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct BufferStats {
    /// Events in the buffer, not yet read.
    pub entries: u64,
    /// Events overwritten before they were read.
    pub overrun: u64,
    /// Events lost because too many were under way at once.
    pub commit_overrun: u64,
    /// Events refused because the buffer was full (only if it does not overwrite).
    pub dropped: u64,
    /// Events read.
    pub read: u64,
}

impl BufferStats {
    /// Parses a `stats` file. Unknown lines are skipped.
    #[must_use]
    pub fn parse(text: &str) -> Self {
        let mut stats = Self::default();
        for line in text.lines() {
            let Some((key, value)) = line.split_once(':') else { continue };
            let Ok(value) = value.trim().parse() else { continue };
            match key {
                "entries" => stats.entries = value,
                "overrun" => stats.overrun = value,
                "commit overrun" => stats.commit_overrun = value,
                "dropped events" => stats.dropped = value,
                "read events" => stats.read = value,
                _ => {}
            }
        }
        stats
    }

    /// Events that nobody will ever read.
    #[must_use]
    pub const fn lost(&self) -> u64 {
        self.overrun.saturating_add(self.commit_overrun).saturating_add(self.dropped)
    }

    pub(super) const fn add(&mut self, other: &Self) {
        self.entries += other.entries;
        self.overrun += other.overrun;
        self.commit_overrun += other.commit_overrun;
        self.dropped += other.dropped;
        self.read += other.read;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_captured_file() {
        // Linux 6.12.
        let text = "entries: 344\noverrun: 7\ncommit overrun: 1\nbytes: 19488\n\
            oldest event ts:    11.241107\nnow ts:    13.092875\ndropped events: 2\nread events: 638\n";
        let stats = BufferStats::parse(text);
        let expected =
            BufferStats { entries: 344, overrun: 7, commit_overrun: 1, dropped: 2, read: 638 };
        assert_eq!(stats, expected);
        assert_eq!(stats.lost(), 10);
        assert_eq!(BufferStats::parse("nonsense\nentries: x\n"), BufferStats::default());
    }
}
