//! The parsers of `/proc` files: no bytes make them panic, and what was printed is read back.

use isotherm_core::AddrRange;
use isotherm_host::proc::{
    LastPid, Proc, monitored_ranges, parse_maps, parse_smaps, parse_stat, parse_status,
};
use proptest::prelude::*;

/// Bytes that look a little like the real thing, so that more than the first check is reached.
fn almost() -> impl Strategy<Value = Vec<u8>> {
    let piece = prop_oneof![
        any::<u8>().prop_map(|b| vec![b]),
        "[0-9a-f]{1,17}".prop_map(String::into_bytes),
        prop::sample::select(vec![
            "-",
            ":",
            " ",
            "\n",
            "rw-p",
            "00:00",
            "(",
            ")",
            "Rss:",
            "Referenced:",
            " kB\n",
            "Uid:\t",
            "VmRSS:",
            "CapEff:",
            "18446744073709551615",
            "[heap]",
            "S",
            "1000-2000 rw-p 0 0:0 0 \n",
        ])
        .prop_map(|s| s.as_bytes().to_vec()),
    ];
    prop::collection::vec(piece, 0..200).prop_map(|pieces| pieces.concat())
}

#[test]
fn what_a_process_maps_is_read_from_statm() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::create_dir(dir.path().join("7")).unwrap();
    let (proc, mut buf) = (Proc::new(dir.path()), Vec::new());
    let mut mapped = |text: &str| {
        std::fs::write(dir.path().join("7/statm"), text).unwrap();
        proc.mapped_pages(7, &mut buf).ok()
    };
    assert_eq!(mapped("1853 420 300 7 0 111 0\n"), Some([1853, 7, 111]));
    for text in ["", "1853 420 300 7 0", "1853 x 300 7 0 -1 0\n"] {
        assert_eq!(mapped(text), None, "{text:?}");
    }
}

proptest! {
    #[test]
    fn never_panic(text in almost()) {
        let mut ranges = Vec::new();
        monitored_ranges(parse_maps(&text), &mut ranges);
        for pair in ranges.windows(2) {
            prop_assert!(pair[0].end < pair[1].start, "sorted, and apart: {pair:?}");
        }
        prop_assert!(ranges.iter().all(|r| !r.is_empty()));
        for mapping in parse_maps(&text) {
            prop_assert!(!mapping.kind().name().is_empty());
        }
        prop_assert!(parse_smaps(&text).count() <= parse_maps(&text).count());
        if let Some(stat) = parse_stat(&text) {
            prop_assert!(stat.comm.len() < text.len());
        }
        let rss = parse_status(&text).rss_bytes;
        prop_assert!(rss.is_multiple_of(1024) || rss == u64::MAX);
    }

    #[test]
    fn maps_round_trip(
        start in 0_u64..1 << 40, pages in 1_u64..1 << 20, offset: u64, major in 0_u32..4096,
        minor in 0_u32..1 << 20, inode: u64, name in "(/[a-zA-Z0-9 .:()]{0,30}[a-z])?",
    ) {
        let range = AddrRange::new(start << 12, (start + pages) << 12);
        let text = format!(
            "{:x}-{:x} r-xs {offset:08x} {major:02x}:{minor:02x} {inode} {name}\n",
            range.start, range.end
        );
        let mut maps = parse_maps(text.as_bytes());
        let got = maps.next().unwrap();
        prop_assert_eq!(got.range, range);
        prop_assert_eq!((got.offset, got.dev, got.inode), (offset, (major, minor), inode));
        prop_assert_eq!(got.name, name.as_bytes());
        prop_assert!(got.perms.read && !got.perms.write && got.perms.exec && got.perms.shared);
        prop_assert!(maps.next().is_none());
    }

    #[test]
    fn stat_round_trip(pid in 1_u32..1 << 22, comm in "[ -~]{0,15}", ppid: u32, start: u64) {
        let text = format!(
            "{pid} ({comm}) S {ppid} 1 1 0 -1 64 9 0 0 0 5 6 0 0 20 0 3 0 {start} 8 9 10 11 12 13\n"
        );
        let stat = parse_stat(text.as_bytes()).unwrap();
        prop_assert_eq!((stat.pid, stat.ppid, stat.starttime), (pid, ppid, start));
        prop_assert_eq!(stat.comm, comm.as_bytes());
        prop_assert_eq!((stat.utime, stat.stime, stat.num_threads), (5, 6, 3));
    }
}

/// The real files of this very process.
#[test]
fn reads_the_kernels_own_text() {
    let proc = Proc::default();
    let mut buf = Vec::new();
    let pid = std::process::id();
    proc.read(pid, "maps", &mut buf).unwrap();
    let lines = buf.iter().filter(|b| **b == b'\n').count();
    assert_eq!(parse_maps(&buf).count(), lines, "no line was skipped");
    let here = std::ptr::from_ref(&lines) as u64;
    assert!(parse_maps(&buf).any(|m| m.range.contains(here)));

    proc.read(pid, "smaps", &mut buf).unwrap();
    assert!(parse_smaps(&buf).count() > 5);
    let rss: u64 = parse_smaps(&buf).map(|m| m.rss_bytes).sum();
    assert!(rss > 100 << 10, "{rss}");

    let stat = proc.stat(pid, &mut buf).unwrap();
    assert_eq!(stat.pid, pid);
    assert!(stat.starttime > 0);
    let status = proc.status(pid, &mut buf).unwrap();
    assert_eq!(status.tgid, pid);
    assert!(status.rss_bytes > 100 << 10);
    assert!(LastPid::default().read(&proc).unwrap() > 0);
    assert!(proc.uptime_cs(&mut buf).unwrap() > 0);
    assert_eq!(proc.boot_id().unwrap().len(), 36);
    assert!(isotherm_host::proc::own_cost(&mut buf).rss_bytes > 100 << 10);
}
