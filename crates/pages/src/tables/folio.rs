//! Large folios: pieces of memory between 4 KiB and 2 MiB that the kernel keeps together (mTHP,
//! Linux 6.8).
//!
//! Page tables show them as single pages, but advice on a part of one makes the kernel split it for
//! good. Large folios of anonymous memory exist only after an administrator has enabled a size.
//! From then on, a page that may be part of one is cleared together with the whole piece around it.
//! The frame number tells which piece that may be, because a piece lies at a multiple of its size
//! both in physical memory and in the address space.

use std::path::{Path, PathBuf};

use isotherm_core::{AddrRange, Time};

use super::look::Query;

/// Where the sizes are set.
pub(super) const SETTINGS: &str = "/sys/kernel/mm/transparent_hugepage";

/// Time until the settings are read again, in ns. They are a dozen small files.
const READ_AGAIN_NS: u64 = 5_000_000_000;

/// The largest size that is enabled, read now and then: an administrator can enable one at any
/// time.
#[derive(Debug)]
pub(super) struct Largest {
    settings: PathBuf,
    read: Time,
    bytes: u64,
}

impl Largest {
    /// Reads the settings below this directory.
    pub(super) fn of(settings: &Path, now: Time) -> Self {
        let bytes = largest_enabled(settings);
        Self { settings: settings.to_owned(), read: now, bytes }
    }

    /// Bytes of the largest piece that there may be. Memory that was given out while a size was
    /// enabled stays as it is when that is switched off, so the size only grows.
    pub(super) fn bytes(&mut self, now: Time) -> u64 {
        if now.since(self.read) >= READ_AGAIN_NS {
            self.read = now;
            self.bytes = self.bytes.max(largest_enabled(&self.settings));
        }
        self.bytes
    }
}

/// The largest size below 2 MiB that is enabled for anonymous memory, in bytes; 4096 if none is.
fn largest_enabled(settings: &Path) -> u64 {
    let chosen = |file: &Path| {
        let text = std::fs::read_to_string(file).unwrap_or_default();
        let after = text.split('[').nth(1).and_then(|rest| rest.split(']').next());
        after.unwrap_or("never").to_owned()
    };
    let global = chosen(&settings.join("enabled")) != "never";
    let sizes = std::fs::read_dir(settings).into_iter().flatten().flatten();
    let enabled = sizes.filter_map(|entry| {
        let name = entry.file_name();
        let kib = name.to_str()?.strip_prefix("hugepages-")?.strip_suffix("kB")?;
        let kib: u64 = kib.parse().ok()?;
        let on = match chosen(&entry.path().join("enabled")).as_str() {
            "never" => false,
            "inherit" => global,
            _ => true,
        };
        (on && kib < 2048 && kib.is_power_of_two()).then_some(kib << 10)
    });
    enabled.max().unwrap_or(4096).max(4096)
}

/// What to clear for a young page, where pieces of up to `largest` bytes exist.
pub(super) fn range_to_clear(query: &Query, largest: u64) -> AddrRange {
    let leaf = query.leaf_range();
    let inside = largest - 1;
    let together =
        leaf.len() < largest && (query.entry.frame() ^ leaf.start) & inside & !0xfff == 0;
    if !together {
        return leaf;
    }
    let start = leaf.start & !inside;
    AddrRange::new(start, start + largest)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tables::entry::Entry;
    use crate::tables::look::PageKey;

    #[test]
    fn finds_the_largest_enabled_size() {
        for (global, sizes, expected) in [
            (
                "always [madvise] never",
                [(64, "always [inherit] madvise never"), (2048, "[always]")],
                64 << 10,
            ),
            (
                "always madvise [never]",
                [(64, "always [inherit] madvise never"), (2048, "[always]")],
                4096,
            ),
            (
                "[always] madvise never",
                [(64, "always inherit madvise [never]"), (32, "[always]")],
                32 << 10,
            ),
        ] {
            let dir = tempfile::tempdir().unwrap();
            std::fs::write(dir.path().join("enabled"), global).unwrap();
            for (kib, text) in sizes {
                let dir = dir.path().join(format!("hugepages-{kib}kB"));
                std::fs::create_dir(&dir).unwrap();
                std::fs::write(dir.join("enabled"), text).unwrap();
            }
            assert_eq!(largest_enabled(dir.path()), expected, "{global}, {sizes:?}");
        }
        assert_eq!(largest_enabled(Path::new("/nonexistent")), 4096);
    }

    #[test]
    fn a_size_that_is_enabled_later_is_found() {
        let dir = tempfile::tempdir().unwrap();
        let size = dir.path().join("hugepages-64kB");
        std::fs::create_dir(&size).unwrap();
        let set = |text: &str| std::fs::write(size.join("enabled"), text).unwrap();
        set("always inherit madvise [never]");
        let s = |s: u64| Time(s * 1_000_000_000);
        let mut largest = Largest::of(dir.path(), s(10));
        assert_eq!(largest.bytes(s(20)), 4096);
        set("[always] inherit madvise never");
        assert_eq!(largest.bytes(s(24)), 4096, "not every time");
        assert_eq!(largest.bytes(s(25)), 64 << 10);
        set("always inherit madvise [never]");
        assert_eq!(largest.bytes(s(30)), 64 << 10, "what was given out is still there");
    }

    #[test]
    fn clears_the_piece_that_a_page_may_be_part_of() {
        let (young, small, huge) = (1 | 1 << 5, 1 << 56, 2 << 56 | 1 << 7);
        for (name, addr, entry, largest, expected) in [
            ("none enabled", 0x5000, 0x5000 | young | small, 4096, (0x5000, 0x6000)),
            (
                "same place in both",
                0x1_5000,
                0x7_5000 | young | small,
                0x1_0000,
                (0x1_0000, 0x2_0000),
            ),
            ("another place", 0x1_5000, 0x7_6000 | young | small, 0x1_0000, (0x1_5000, 0x1_6000)),
            ("huge", 0x20_5000, 0x40_0000 | young | huge, 0x1_0000, (0x20_0000, 0x40_0000)),
        ] {
            let query = Query { page: PageKey::new(0, addr), nr: 0, entry: Entry(entry) };
            let (start, end) = expected;
            assert_eq!(range_to_clear(&query, largest), AddrRange::new(start, end), "{name}");
        }
    }
}
