//! The heatmap as a new user sees it: several targets, any width, any rate, any range.
#![expect(clippy::unwrap_used, reason = "a failing test says enough")]

use isotherm_core::{AddrRange, RegionInfo, Snapshot, TargetId, TargetInfo, Time};
use isotherm_record::{Header, Mapping, Record, Target, Writer};
use isotherm_report::Filter;
use isotherm_report::heatmap::{Cell, Heatmap, Options, Scale, Style};

const MIB: u64 = 1 << 20;
const WINDOW: u64 = 100_000_000;
const LOW: u64 = 0x5555_0000_0000;
const HIGH: u64 = 0x7f00_0000_0000;

/// Ten windows of targets that use 16 MiB at a low address and 4 MiB at a high one, each byte in
/// `nr` samples of 1000.
fn record(nr_targets: u32, nr: u32) -> Record {
    let mut w = Writer::new(Vec::new(), &Header::default()).unwrap();
    let region = |start, mib: u64, nr_accesses| RegionInfo {
        range: AddrRange::new(start, start + mib * MIB),
        nr_accesses,
        hi: 1000.0,
        resolved: true,
        ..RegionInfo::default()
    };
    for id in 0..nr_targets {
        let name = "a_server_with_a_long_name".into();
        w.target(&Target { id, pid: 4_000_000 + id, name, ..Target::default() }).unwrap();
        let file = "/usr/lib/x86_64-linux-gnu/libwith_a_very_long_name_indeed.so.6.0.30";
        let maps = [
            Mapping::new(LOW, LOW + 16 * MIB, "rw-p", "[heap]"),
            Mapping::new(HIGH, HIGH + 8 * MIB, "r--p", file),
        ];
        w.mappings(Time(0), TargetId(id), &maps).unwrap();
    }
    for seq in 0..10 {
        let regions = vec![region(LOW, 16, nr), region(HIGH, 4, nr), region(HIGH + 4 * MIB, 4, 0)];
        let target =
            |id| TargetInfo { id: TargetId(id), regions: regions.clone(), ..TargetInfo::default() };
        let (start, end) = (Time(seq * WINDOW), Time((seq + 1) * WINDOW));
        let targets = (0..nr_targets).map(target).collect();
        let max_nr_accesses = 1000;
        let s = Snapshot { seq, start, end, max_nr_accesses, targets, ..Snapshot::default() };
        w.push_snapshot(&s).unwrap();
    }
    Record::from_bytes(w.finish(Time(10 * WINDOW), "enough").unwrap().0).unwrap()
}

fn build(record: &Record, filter: &Filter, options: &Options) -> Heatmap {
    Heatmap::build(record, filter, options).unwrap()
}

#[test]
fn no_line_is_longer_than_the_terminal_is_wide() {
    for width in [40, 50, 80, 120, 200] {
        let mut map = build(&record(3, 20), &Filter::default(), &Options::for_text(width));
        let folded = map.panels.iter_mut().flat_map(|panel| &mut panel.folded);
        folded.for_each(|bytes| *bytes = 123 * MIB);
        let text = map.to_text(&Style::default());
        assert!(text.contains("~ 123 MiB hardly accessed"), "{text}");
        let longest = text.lines().map(|line| line.chars().count()).max().unwrap();
        assert!(longest <= width, "{longest} of {width}:\n{text}");
        assert!(width < 60 || longest > width * 3 / 4, "{longest} of {width}:\n{text}");
        assert_eq!(text.contains("[heap]"), width >= 60, "{text}");
    }
}

/// With one scale for all, memory that is touched in 2 % of the samples is one shade.
#[test]
fn the_scale_fits_the_record_and_the_legend_says_so() {
    for (nr, end) in [(1000, "@ 100 % of samples;"), (20, "@ 2 % of samples or more;")] {
        let mut map = build(&record(1, nr), &Filter::default(), &Options::for_text(100));
        let text = map.to_text(&Style::default());
        assert!(text.contains(end) && text.contains("|@@@@"), "{text}");
        map.scale = Scale::default();
        let text = map.to_text(&Style::default());
        assert_eq!(text.contains("|@@@@"), nr == 1000, "{text}");
    }
}

#[test]
fn several_processes_have_a_panel_each() {
    for (targets, all_targets, panels) in
        [(1, false, 1), (3, false, 3), (9, false, 4), (9, true, 9)]
    {
        let options = Options { all_targets, ..Options::for_text(100) };
        let map = build(&record(targets, 20), &Filter::default(), &options);
        assert_eq!(map.panels.len(), panels);
        let text = map.to_text(&Style::default());
        assert_eq!(text.contains("4 of 9 targets shown"), (targets, all_targets) == (9, false));
    }
}

/// 42 TiB with 20 MiB in them: rows of a TiB would be one shade.
#[test]
fn a_wide_range_of_addresses_is_folded_where_nothing_is() {
    let address = Some(AddrRange::new(0, 1 << 47));
    let wide = Filter { address, ..Filter::default() };
    let map = build(&record(1, 500), &wide, &Options::for_text(100));
    let panel = &map.panels[0];
    assert!(panel.shown() <= 32 * MIB, "{} bytes are shown", panel.shown());
    assert!(panel.areas.len() >= 2, "{:?}", panel.areas);
    let hot = |cell: &Cell| matches!(cell, Cell::Rate(rate) if *rate > 0.4);
    assert!(panel.rows.iter().any(|row| row.cells.iter().all(hot)), "{panel:?}");
    // A range that is full is shown as it was named.
    let address = Some(AddrRange::new(HIGH, HIGH + 8 * MIB));
    let map = build(&record(1, 500), &Filter { address, ..wide }, &Options::for_text(100));
    assert_eq!(map.panels[0].areas, [AddrRange::new(HIGH, HIGH + 8 * MIB)]);
}
