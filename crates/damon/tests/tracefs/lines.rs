//! Lines of `trace_pipe`, captured on 6.12 and 7.2, and lines that are none.

use isotherm_core::{AddrRange, Time};
use isotherm_damon::tracefs::{AggregatedRegion, Event, EventKind, Line, Record, parse_line};

/// Captured on 6.12.117 (Debian 13) and 7.2.13 (Debian sid), with the event, the CPU, the thread
/// and the time in µs.
const CAPTURED: [(&str, EventKind, u32, u32, u64); 6] = [
    (
        "       kdamond.0-198     [000] .....     6.810665: damon_aggregated: target_id=0 nr_regions=11 4194304-104890368: 0 1",
        EventKind::Aggregated,
        0,
        198,
        6_810_665,
    ),
    (
        "       kdamond.0-198     [000] .....     6.920776: damos_before_apply: ctx_idx=0 scheme_idx=0 target_idx=0 nr_regions=17 4194304-34402304: 0 2",
        EventKind::BeforeApply,
        0,
        198,
        6_920_776,
    ),
    (
        "       kdamond.0-164     [001] .l...     6.262661: damos_stat_after_apply_interval: ctx_idx=0 scheme_idx=0 nr_tried=108 sz_tried=2612105216 nr_applied=0 sz_applied=0 sz_ops_filter_passed=0 qt_exceeds=0 nr_snapshots=7",
        EventKind::Stats,
        1,
        164,
        6_262_661,
    ),
    (
        "       kdamond.1-1164    [011] .....  9906.262661: damon_region_aggregated: target_id=2 nr_regions=3 0-4096: 20 4294967295 probe_hits=00 14 ff 01",
        EventKind::RegionAggregated,
        11,
        1164,
        9_906_262_661,
    ),
    (
        "       kdamond.0-164     (    164) [001] .l...     6.262661: damos_esz: ctx_idx=0 scheme_idx=3 esz=18446744073709551615",
        EventKind::Esz,
        1,
        164,
        6_262_661,
    ),
    (
        "   odd: [3] n-m-164     [001] .l...     6.262661: damon_monitor_intervals_tune: sample_us=10000",
        EventKind::Tuned,
        1,
        164,
        6_262_661,
    ),
];

#[test]
fn captured_lines_are_read_and_written_alike() {
    for (text, kind, cpu, pid, us) in CAPTURED {
        let Some(Line::Event(record)) = parse_line(text) else { panic!("not read: {text}") };
        assert_eq!((record.cpu, record.pid, record.at), (cpu, pid, Time(us * 1000)), "{text}");
        assert_eq!(record.event.kind(), kind, "{text}");
        let told = text.rsplit_once(&format!("{}: ", kind.name())).unwrap().1;
        assert_eq!(record.event.to_string(), told);
    }
    let Some(Line::Event(Record { event: Event::Aggregated(region), .. })) =
        parse_line(CAPTURED[3].0)
    else {
        panic!("no region")
    };
    let expected = AggregatedRegion {
        target: 2,
        nr_regions: 3,
        range: AddrRange::new(0, 4096),
        nr_accesses: 20,
        age: u32::MAX,
        probe_hits: Some([0, 20, 255, 1]),
    };
    assert_eq!(region, expected);
}

#[test]
fn holes_are_read() {
    for (text, expected) in [
        ("CPU:1 [LOST 42 EVENTS]", Some(Line::Lost { cpu: 1, events: Some(42) })),
        ("CPU:12 [LOST EVENTS]", Some(Line::Lost { cpu: 12, events: None })),
        ("CPU:x [LOST 42 EVENTS]", None),
    ] {
        assert_eq!(parse_line(text), expected, "{text}");
    }
}

#[test]
fn what_is_no_event_is_left_out() {
    let line = CAPTURED[0].0;
    // A line that lost its end or one byte is refused or is another well-formed line: it never
    // panics.
    let cut = (0..line.len()).map(|i| line[..i].to_owned());
    let thinned = (0..line.len()).map(|i| format!("{}{}", &line[..i], &line[i + 1..]));
    let read = cut.chain(thinned).filter(|text| parse_line(text).is_some()).count();
    assert!(read < 100, "{read} of {} damaged lines were read", 2 * line.len());
    for text in [
        "",
        "# tracer: nop",
        "bash-1 [000] ..... 1.000000: sched_switch: prev=1",
        "kdamond.0-198 [000] ..... 6.81: damon_aggregated: target_id=0 nr_regions=11 1-2: 0 1",
        "kdamond.0-198 [000] ..... 6.810665: damon_aggregated: target_id=0 nr_regions=11 1-2: 0",
        "kdamond.0-198 [000] ..... 6.810665: damon_aggregated: target=0 nr_regions=11 1-2: 0 1",
        "kdamond.0-198 [000] ..... 6.810665: damon_aggregated: target_id=-1 nr_regions=11 1-2: 0 1",
        "198 [000] ..... 6.810665: damon_aggregated: target_id=0 nr_regions=11 1-2: 0 1",
    ] {
        assert_eq!(parse_line(text), None, "{text}");
    }
}
