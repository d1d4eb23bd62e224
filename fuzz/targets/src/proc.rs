//! Texts of `/proc`.

use isotherm_host::proc::{monitored_ranges, parse_maps, parse_smaps, parse_stat, parse_status};

/// What is to be monitored is sorted, apart, and a part of what is mapped.
pub(crate) fn maps(data: &[u8]) {
    let mut ranges = Vec::new();
    monitored_ranges(parse_maps(data), &mut ranges);
    assert!(ranges.iter().all(|range| !range.is_empty()), "{ranges:?}");
    for pair in ranges.windows(2) {
        assert!(pair[0].end < pair[1].start, "sorted, and apart: {pair:?}");
    }
    for mapping in parse_maps(data) {
        assert!(!mapping.kind().name().is_empty(), "{mapping:?}");
    }
}

/// No more mappings than lines of a maps file, and sizes in whole KiB.
pub(crate) fn smaps(data: &[u8]) {
    assert!(parse_smaps(data).count() <= parse_maps(data).count(), "each has a heading");
    for mapping in parse_smaps(data) {
        let whole = |bytes: u64| bytes.is_multiple_of(1024) || bytes == u64::MAX;
        assert!(whole(mapping.rss_bytes) && whole(mapping.referenced_bytes), "{mapping:?}");
    }
}

/// `stat` and `status` of a process.
pub(crate) fn stat(data: &[u8]) {
    if let Some(stat) = parse_stat(data) {
        assert!(stat.comm.len() < data.len(), "{stat:?}");
    }
    let status = parse_status(data);
    assert!(status.rss_bytes.is_multiple_of(1024) || status.rss_bytes == u64::MAX, "{status:?}");
}
