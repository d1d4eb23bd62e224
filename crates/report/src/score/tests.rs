//! The scorer on snapshots made by hand, whose scores are easy to compute.

use isotherm_core::{
    AddrRange, Cost, PageBits, RegionInfo, Snapshot, TargetId, TargetInfo, Time, Touched,
    TouchedBytes, UnitInfo,
};
use isotherm_record::{ChangedUnit, PageWindow, Pages};
use isotherm_sim::truth::Truth;

use super::{Options, PageScore, Score, Scorer};

const MS: u64 = 1_000_000;
const PAGE: u64 = 4096;
const BASE: u64 = 0x10_0000;
const PID: u32 = 77;

/// Eight pages at `BASE`; for 3 s the first four are hot without a pause, then for 3 s the last
/// four. The pattern of a third phase, never reached, has a rate of a touch per 10 samples.
fn truth() -> Truth {
    let cell = |offset: u64| {
        let end = offset + 4 * PAGE;
        let len = 4 * PAGE;
        format!(r#"{{"offset":{offset},"pitch":{len},"len":{len},"end":{end}}}"#)
    };
    let pattern = |id: u32, offset: u64| {
        format!(r#"{{"id":{id},"region":0,"kind":"random","cells":{}}}"#, cell(offset))
    };
    let mut text = format!(
        r#"{{"t":"header","version":1,"config":"test","seed":1,"page_size":4096,"slot_ns":100000000,"start_ns":0,"regions":[{{"name":"r","size":32768}}],"phases":[{{"name":"low","patterns":[{}]}},{{"name":"high","patterns":[{}]}}]}}"#,
        pattern(0, 0),
        pattern(1, 4 * PAGE)
    );
    text += &format!("\n{{\"t\":\"process\",\"p\":0,\"pid\":{PID},\"parent\":null,\"ns\":0}}\n");
    text += &format!(
        "{{\"t\":\"map\",\"p\":0,\"r\":0,\"ns\":0,\"start\":{BASE},\"end\":{},\"leaf\":4096}}\n",
        BASE + 8 * PAGE
    );
    text += "{\"t\":\"phase\",\"p\":0,\"i\":0,\"ns\":0}\n";
    text += "{\"t\":\"phase\",\"p\":0,\"i\":1,\"ns\":3000000000}\n";
    for k in 0..60 {
        let id = u32::from(k >= 30);
        text += &format!("{{\"t\":\"slot\",\"p\":0,\"k\":{k},\"c\":[[{id},0,1000000]]}}\n");
    }
    text += "{\"t\":\"end\",\"p\":0,\"ns\":6000000000}\n{\"t\":\"slot\",\"cut of";
    Truth::read(text.as_bytes()).unwrap()
}

/// (first page, last page + 1, `nr_accesses`, lo, hi)
type R = (u64, u64, u32, f32, f32);

fn snapshot(k: u64, regions: &[R]) -> Snapshot {
    let region = |&(a, b, nr_accesses, lo, hi): &R| RegionInfo {
        range: AddrRange::new(BASE + a * PAGE, BASE + b * PAGE),
        nr_accesses,
        age: 0,
        lo,
        hi,
        resolved: true,
        ..RegionInfo::default()
    };
    let regions = regions.iter().map(region).collect();
    Snapshot {
        seq: k,
        start: Time(k * 100 * MS),
        end: Time((k + 1) * 100 * MS),
        sample_us: 5000,
        aggr_us: 100_000,
        max_nr_accesses: 20,
        cost: Cost { checks: 200, clears: 10, cpu_ns: MS, target_ns: None },
        targets: vec![TargetInfo { id: TargetId(4), regions, ..TargetInfo::default() }],
    }
}

fn score(snapshots: impl Iterator<Item = Snapshot>) -> Score {
    let truth = truth();
    let mut scorer = Scorer::new(&truth, Options::default());
    scorer.target(TargetId(4), PID);
    snapshots.for_each(|s| scorer.snapshot(&s));
    scorer.finish()
}

fn close(a: Option<f64>, b: f64) -> bool {
    a.is_some_and(|a| (a - b).abs() < 1e-6)
}

#[test]
fn steady_state() {
    // regions, then precision, recall, working-set error, rate error, coverage
    type Case = (&'static [R], f64, f64, f64, f64, f64);
    let cases: [Case; 7] = [
        (&[(0, 4, 20, 19.0, 20.0), (4, 8, 0, 0.0, 1.0)], 1.0, 1.0, 0.0, 0.0, 1.0),
        (&[(0, 6, 20, 19.0, 20.0), (6, 8, 0, 0.0, 1.0)], 4.0 / 6.0, 1.0, 0.5, 0.25, 0.5),
        (&[(0, 3, 20, 19.0, 20.0), (3, 8, 0, 0.0, 3.0)], 1.0, 0.75, 0.25, 0.125, 0.5),
        // Half the rate is still hot, but wrong by half of the maximum on half of the bytes.
        (&[(0, 4, 10, 9.0, 11.0), (4, 8, 0, 0.0, 0.0)], 1.0, 1.0, 0.0, 0.25, 0.5),
        // Bytes without a region are not accessed.
        (&[(0, 2, 20, 20.0, 20.0)], 1.0, 0.5, 0.5, 0.25, 1.0),
        // The error bar of a region half outside of the truth is not judged. Its known bytes are.
        (&[(0, 4, 20, 20.0, 20.0), (4, 12, 0, 5.0, 6.0)], 1.0, 1.0, 0.0, 0.0, 1.0),
        // One region covers all pages. Its error bar is that of the mean.
        (&[(0, 8, 10, 10.0, 10.0)], 0.5, 1.0, 1.0, 0.5, 1.0),
    ];
    for (regions, precision, recall, wss, rate, coverage) in cases {
        let s = score((0..30).map(|k| snapshot(k, regions)));
        assert_eq!((s.windows, s.windows_left_out), (20, 10), "the first second is left out");
        assert!(close(s.precision, precision), "{regions:?}: {s:?}");
        assert!(close(s.recall, recall), "{regions:?}: {s:?}");
        assert_eq!((s.precision_clear, s.recall_clear), (s.precision, s.recall), "nothing near 1");
        assert!(close(s.wss_error_p50, wss), "{regions:?}: {s:?}");
        assert!(close(s.wss_error_p75, wss), "{regions:?}: {s:?}");
        assert!(close(s.rate_error, rate), "{regions:?}: {s:?}");
        assert!(close(s.coverage, coverage), "{regions:?}: {s:?}");
        assert!(close(s.cpu_percent, 1.0) && close(s.clears_per_sec, 100.0), "{s:?}");
    }
}

#[test]
fn delay_is_the_time_until_the_changed_bytes_are_right() {
    let low: &[R] = &[(0, 4, 20, 20.0, 20.0), (4, 8, 0, 0.0, 0.0)];
    let both: &[R] = &[(0, 8, 20, 20.0, 20.0)];
    let high: &[R] = &[(0, 4, 0, 0.0, 0.0), (4, 8, 20, 20.0, 20.0)];
    // number of windows after the edge in which the record shows the old state, then both, then the
    // new one; the delay, and that of what turned hot
    let cases = [
        (0, 0, Some(100.0), Some(100.0)),
        (3, 0, Some(400.0), Some(400.0)),
        (2, 5, Some(800.0), Some(300.0)),
        (1, 30, None, Some(200.0)),
        (30, 0, None, None),
    ];
    for (old, mixed, delay, to_hot) in cases {
        let regions = |k: u64| match k {
            k if k < 30 + old => low,
            k if k < 30 + old + mixed => both,
            _ => high,
        };
        let s = score((0..60).map(|k| snapshot(k, regions(k))));
        assert_eq!(s.detection_delay_ms, delay, "{old} {mixed}");
        // What turned cold is seen last.
        assert_eq!((s.delay_to_hot_ms, s.delay_to_cold_ms), (to_hot, delay), "{old} {mixed}");
        assert_eq!((s.changes, s.changes_missed), (1, u64::from(delay.is_none())));
    }
    let early_end = score((0..40).map(|k| snapshot(k, low)));
    assert_eq!(early_end.changes, 0, "the record ended before the change could be missed");
}

#[test]
fn what_the_truth_does_not_know_is_left_out() {
    let truth = truth();
    let mut scorer = Scorer::new(&truth, Options { all: true, ..Options::default() });
    scorer.target(TargetId(4), PID + 1);
    scorer.snapshot(&snapshot(20, &[(0, 8, 20, 0.0, 20.0)]));
    let s = scorer.finish();
    assert_eq!((s.windows, s.windows_left_out, s.precision), (0, 1, None));
    let late = score((60..80).map(|k| snapshot(k, &[(0, 8, 20, 0.0, 20.0)])));
    assert_eq!((late.windows, late.recall), (0, None), "after the process's end");
}

#[test]
fn a_part_of_the_time_is_judged_by_the_truths_clock() {
    let truth = truth();
    // (from, to) in ms, and how many of 60 windows of 100 ms lie inside. The first twenty take 10
    // ms of CPU time each, and the others 1.
    for ((from, to), windows, cpu_percent) in [
        ((0, 6000), 60, Some(4.0)),
        ((500, 6000), 55, Some(190.0 / 55.0)),
        ((0, 2000), 20, Some(10.0)),
        ((1050, 1350), 2, Some(10.0)),
        ((2000, 6000), 40, Some(1.0)),
        ((7000, 9000), 0, None),
    ] {
        let (from_ns, to_ns) = (from * MS, to * MS);
        let options = Options { all: true, from_ns, to_ns, ..Options::default() };
        let mut scorer = Scorer::new(&truth, options);
        scorer.target(TargetId(4), PID);
        for k in 0..60 {
            let mut of_window = snapshot(k, &[(0, 8, 20, 0.0, 20.0)]);
            of_window.cost.cpu_ns = if k < 20 { 10 * MS } else { MS };
            scorer.snapshot(&of_window);
        }
        let score = scorer.finish();
        assert_eq!(score.windows, windows, "{from} to {to}");
        assert_eq!(score.cpu_percent.is_none(), cpu_percent.is_none(), "{from} to {to}");
        assert!(cpu_percent.is_none_or(|cpu| close(score.cpu_percent, cpu)), "{score:?}");
    }
}

#[test]
fn the_json_object_has_the_promised_keys() {
    let s = score((0..30).map(|k| snapshot(k, &[(0, 8, 20, 0.0, 20.0)])));
    let json = serde_json::to_value(&s).unwrap();
    for key in [
        "precision",
        "recall",
        "wss_error_p50",
        "wss_error_p75",
        "rate_error",
        "detection_delay_ms",
        "delay_to_hot_ms",
        "delay_to_cold_ms",
        "coverage",
        "cpu_percent",
        "rss_bytes",
    ] {
        assert!(json.get(key).is_some(), "{key}");
    }
}

/// Thirty windows whose working set within every span but the last two is `touched` pages
/// (estimate, lower and upper end), and the pages of the first unit that were touched within each
/// span. `None`: nothing was told of the unit.
fn pages(touched: (u64, u64, u64), plane: Option<PageBits>) -> Pages {
    let (bytes, lo, hi) = touched;
    let (bytes, lo, hi) = (bytes * PAGE, lo * PAGE, hi * PAGE);
    let span = Some(TouchedBytes { bytes, lo, hi, measured: 512 * PAGE });
    let spans = [span, span, span, None, None];
    let touched = vec![(TargetId(4), Touched { spans, watched: 512 * PAGE })];
    let window = |k: u64| PageWindow {
        end: Time((k + 1) * 100 * MS),
        sample_us: 5000,
        aggr_us: 100_000,
        touched: touched.clone(),
        ..PageWindow::default()
    };
    let unit = plane.map(|plane| UnitInfo {
        present: PageBits::ALL,
        touched: [Some(plane), Some(plane), Some(plane), None, None],
        ..UnitInfo::default()
    });
    let units = unit.map(|unit| ChangedUnit { target: TargetId(4), window: 0, unit });
    Pages { windows: (0..30).map(window).collect(), units: units.into_iter().collect() }
}

/// The score, where the target has other memory of this range, too.
fn score_by_page(pages: &Pages, other: AddrRange) -> PageScore {
    let truth = truth();
    let mut scorer = Scorer::new(&truth, Options::default());
    scorer.target(TargetId(4), PID);
    scorer.pages(pages);
    for k in 0..30 {
        let mut s = snapshot(k, &[(0, 8, 10, 10.0, 10.0)]);
        let other = RegionInfo { range: other, resolved: true, ..RegionInfo::default() };
        s.targets[0].regions.insert(0, other);
        scorer.snapshot(&s);
    }
    scorer.finish().pages.unwrap()
}

#[test]
fn by_page() {
    // The workload's pages in the unit; the first four of them are hot.
    let of = |first: u64, behind: u64| {
        PageBits::of(0, AddrRange::new(BASE + first * PAGE, BASE + behind * PAGE))
    };
    let other = AddrRange::new(0, 10 * PAGE);
    let unmapped = PageBits::of(0, AddrRange::new(10 * PAGE, 15 * PAGE));
    let elsewhere = PageBits::of(0, other);
    // working set, pages touched, then precision, recall, working-set error, coverage, not measured
    type Case = ((u64, u64, u64), Option<PageBits>, Option<f64>, f64, f64, f64, f64);
    let cases: [Case; 6] = [
        ((4, 4, 4), Some(of(0, 4)), Some(1.0), 1.0, 0.0, 1.0, 0.0),
        // What was unmapped since is in the page map, and not in the working set.
        ((4, 4, 4), Some(of(0, 4).or(unmapped)), Some(1.0), 1.0, 0.0, 1.0, 0.0),
        // What is touched outside of the workload's memory is not judged.
        ((14, 13, 15), Some(of(0, 4).or(elsewhere)), Some(1.0), 1.0, 0.0, 1.0, 0.0),
        ((6, 5, 7), Some(of(0, 6)), Some(4.0 / 6.0), 1.0, 0.5, 0.0, 0.0),
        ((3, 2, 4), Some(of(1, 4)), Some(1.0), 0.75, 0.25, 1.0, 0.0),
        // Nobody looked: nothing is called hot.
        ((0, 0, 512), None, None, 0.0, 1.0, 1.0, 1.0),
    ];
    for (touched, plane, precision, recall, error, coverage, not_measured) in cases {
        let s = score_by_page(&pages(touched, plane), other);
        assert_eq!(s.precision.is_some(), precision.is_some(), "{s:?}");
        assert!(precision.is_none_or(|precision| close(s.precision, precision)), "{s:?}");
        assert!(close(s.recall, recall) && close(s.not_measured, not_measured), "{s:?}");
        assert_eq!((s.precision_clear, s.recall_clear), (s.precision, s.recall), "nothing near 1");
        // The sample's and the window's span are judged in each steady window. A second is steady
        // from 2 s on, and is judged four times per second: at 2.0, 2.3, 2.6 and 2.9 s.
        for (span, cases) in [(0, 20), (1, 20), (2, 4)] {
            let span = &s.spans[span];
            assert_eq!(span.cases, cases, "{span:?}");
            assert!(close(span.error_p50, error) && close(span.coverage, coverage), "{span:?}");
            assert!(close(span.recall, recall), "{span:?}: the four are certain to be touched");
        }
        assert_eq!((s.spans[3].span_us, s.spans[3].cases), (10_000_000, 0), "{s:?}");
    }
}

#[test]
fn without_page_maps_nothing_is_judged_by_page() {
    assert_eq!(score((0..30).map(|k| snapshot(k, &[]))).pages, None);
}

#[test]
fn what_is_touched_elsewhere_now_and_then_widens_the_interval() {
    let hot = PageBits::of(0, AddrRange::new(BASE, BASE + 4 * PAGE));
    let elsewhere = AddrRange::new(0, 10 * PAGE);
    for (page_map, coverage) in [(hot, 0.0), (hot.or(PageBits::page(1)), 1.0)] {
        // One page more was touched than the workload has, and it is not in the plane of a window.
        let mut pages = pages((5, 5, 5), Some(hot));
        pages.units[0].unit.touched[2] = Some(page_map);
        let score = score_by_page(&pages, elsewhere);
        let window = &score.spans[1];
        assert!(close(window.coverage, coverage) && close(window.error_p50, 0.25), "{window:?}");
    }
}
