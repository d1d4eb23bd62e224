//! Whatever a record holds, the sums of reports agree and no report panics.
#![expect(clippy::unwrap_used, reason = "a failing test says enough")]

use isotherm_core::unit::UNIT;
use isotherm_core::{
    AddrRange, PageBits, RegionInfo, SPANS, Snapshot, TargetId, TargetInfo, Time, Touched,
    TouchedBytes, UnitInfo,
};
use isotherm_record::{Header, Mapping, Record, Target, Writer};
use isotherm_report::heatmap::{Cell, Heatmap, Options, Style};
use isotherm_report::{Filter, ages, mappings, pages, wss};
use proptest::prelude::*;

/// Regions side by side with gaps: (gap in pages, length in pages, count, resolved).
fn regions() -> impl Strategy<Value = Vec<RegionInfo>> {
    prop::collection::vec((0u64..5000, 1u64..5000, 0u32..21, any::<bool>()), 0..12).prop_map(
        |parts| {
            let mut at = 0x1000;
            parts
                .into_iter()
                .map(|(gap, len, nr_accesses, resolved)| {
                    let start = at + gap * 4096;
                    at = start + len * 4096;
                    let range = AddrRange::new(start, at);
                    RegionInfo {
                        range,
                        nr_accesses,
                        age: 3,
                        lo: 0.0,
                        hi: 20.0,
                        resolved,
                        touched: None,
                    }
                })
                .collect()
        },
    )
}

/// Mappings, from the pages before each and in it.
fn mapped(maps: &[(u64, u64)]) -> Vec<AddrRange> {
    let mut at = 0;
    let next = |(gap, len): &(u64, u64)| {
        let start = at + gap * 4096;
        at = start + len * 4096;
        AddrRange::new(start, at)
    };
    maps.iter().map(next).collect()
}

/// What lies between mappings.
fn gaps(maps: &[(u64, u64)]) -> Vec<AddrRange> {
    mapped(maps).windows(2).map(|pair| AddrRange::new(pair[0].end, pair[1].start)).collect()
}

fn record(windows: &[(u64, Vec<RegionInfo>)], maps: &[(u64, u64)]) -> Record {
    let mut w = Writer::new(Vec::new(), &Header::default()).unwrap();
    w.target(&Target { id: 0, pid: 1, name: "x".into(), ..Target::default() }).unwrap();
    let maps = mapped(maps);
    let maps: Vec<_> = maps.iter().map(|r| Mapping::new(r.start, r.end, "rw-p", "")).collect();
    w.mappings(Time(0), TargetId(0), &maps).unwrap();
    let mut now = 0;
    for (len, regions) in windows {
        let start = Time(now);
        now += len;
        w.push_snapshot(&Snapshot {
            start,
            end: Time(now),
            aggr_us: 100_000,
            max_nr_accesses: 20,
            targets: vec![TargetInfo {
                id: TargetId(0),
                regions: regions.clone(),
                ..TargetInfo::default()
            }],
            ..Snapshot::default()
        })
        .unwrap();
    }
    Record::from_bytes(w.finish(Time(now), "over").unwrap().0).unwrap()
}

/// An address as a forged record may have it.
fn anywhere() -> impl Strategy<Value = u64> {
    prop_oneof![any::<u64>(), (0u64..3 << 20).prop_map(|back| u64::MAX - back)]
}

/// A unit as a damaged or forged record may have it: anywhere, with any planes.
fn unit() -> impl Strategy<Value = UnitInfo> {
    let start = prop_oneof![(0u64..6).prop_map(|nr| nr * UNIT), anywhere()];
    let plane = prop_oneof![Just(PageBits::ALL), any::<[u64; 8]>().prop_map(PageBits)];
    let planes = prop::collection::vec(prop::option::of(plane.clone()), SPANS);
    (start, plane.clone(), plane, planes).prop_map(|(start, present, unresolved, planes)| {
        let touched = planes.try_into().unwrap();
        UnitInfo { start, present, unresolved, touched, ..UnitInfo::default() }
    })
}

fn any_touched() -> impl Strategy<Value = Touched> {
    (any::<[u64; 4]>(), any::<u64>(), 0..SPANS).prop_map(|(numbers, watched, nr)| {
        let [bytes, lo, hi, measured] = numbers;
        let mut touched = Touched { watched, ..Touched::default() };
        touched.spans[nr] = Some(TouchedBytes { bytes, lo, hi, measured });
        touched
    })
}

/// Two targets whose mappings and pages are anything.
fn record_of_pages(units: &[UnitInfo], touched: Touched, maps: &[(u64, u64)]) -> Record {
    let mut w = Writer::new(Vec::new(), &Header::default()).unwrap();
    let maps: Vec<_> = maps.iter().map(|&(a, b)| Mapping::new(a, b, "rw-p", "")).collect();
    w.mappings(Time(0), TargetId(0), &maps).unwrap();
    let target = |id| TargetInfo {
        id: TargetId(id),
        touched: Some(touched),
        units: units.to_vec(),
        ..TargetInfo::default()
    };
    let targets = vec![target(0), target(1)];
    w.push_snapshot(&Snapshot { end: Time(5), targets, ..Snapshot::default() }).unwrap();
    Record::from_bytes(w.finish(Time(5), "over").unwrap().0).unwrap()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn sums_are_kept(
        windows in prop::collection::vec((1u64..300_000_000, regions()), 1..12),
        maps in prop::collection::vec((0u64..4000, 1u64..9000), 0..6),
        columns in 1usize..40,
        rows in 1usize..30,
    ) {
        let record = record(&windows, &maps);
        let all = Filter::default();

        // Mean bytes of all mappings are the mean bytes of all regions, without gaps between
        // mappings.
        let bytes = |rs: &[RegionInfo]| rs.iter().map(|r| r.range.len() as f64).sum::<f64>();
        let gaps = gaps(&maps);
        let in_gaps = |r: &RegionInfo| gaps.iter().map(|gap| r.range.overlap(gap)).sum::<u64>();
        let in_gaps = |rs: &[RegionInfo]| rs.iter().map(|r| in_gaps(r) as f64).sum::<f64>();
        // Of a window that took at least twice as long as it should, the end counts.
        let watched = |len: u64| if len < 200_000_000 { len as f64 } else { 1e8 };
        let time: f64 = windows.iter().map(|(len, _)| watched(*len)).sum();
        let mean = |of: &dyn Fn(&[RegionInfo]) -> f64| {
            windows.iter().map(|(len, rs)| watched(*len) * of(rs)).sum::<f64>() / time
        };
        let (whole, empty) = (mean(&bytes), mean(&in_gaps));
        let near = |got: f64, want: f64| (got - want).abs() <= 20.0 + want * 1e-9;
        let report = mappings::Report::build(&record, &all).unwrap();
        let by_mapping: f64 = report.lines.iter().map(|l| l.heat.bytes()).sum();
        prop_assert!(near(by_mapping, whole - empty), "{} {} {}", by_mapping, whole, empty);
        let by_kind: f64 = report.kinds.iter().map(|(_, h, _)| h.bytes()).sum();
        prop_assert!(near(by_kind, whole - empty));
        let report = ages::Report::build(&record, &all).unwrap();
        let by_age: u64 = report.classes.iter().map(|c| c.mean_bytes).sum();
        prop_assert!(near((by_age + report.mean_unresolved) as f64, whole));

        let report = wss::Report::build(&record, &all).unwrap();
        for (p, (_, rs)) in report.points.iter().zip(&windows) {
            prop_assert!(p.wss.lo <= p.wss.bytes && p.wss.bytes <= p.wss.hi);
            prop_assert_eq!(p.wss.mapped as f64, bytes(rs));
        }

        let options = Options { columns, rows, min_rows: 1, all_targets: true };
        let map = Heatmap::build(&record, &all, &options).unwrap();
        for panel in &map.panels {
            prop_assert!(panel.areas.windows(2).all(|w| w[0].end <= w[1].start));
            for row in &panel.rows {
                prop_assert_eq!(row.cells.len(), columns);
                let fine = |c: &Cell| !matches!(c, Cell::Rate(r) if !(0.0..=1.0).contains(r));
                prop_assert!(row.cells.iter().all(fine));
            }
        }
        prop_assert!(map.to_text(&Style::default()).contains("x (pid 1)"));
        prop_assert!(map.to_svg().ends_with("</svg>\n"));
        prop_assert!(map.to_png().is_ok());
    }

    /// Whatever page maps say, no report panics, and parts are not more than the whole.
    #[test]
    fn pages_are_counted_once(
        mut units in prop::collection::vec(unit(), 1..6),
        touched in any_touched(),
        maps in prop::collection::vec((anywhere(), anywhere()), 0..4),
        pages_in in (0u64..3000, 0u64..3000),
    ) {
        units.sort_by_key(|unit| unit.start);
        let (from, len) = pages_in;
        let near = (from * 4096, (from + len) * 4096);
        let maps: Vec<_> = maps.into_iter().chain([near]).collect();
        let record = record_of_pages(&units, touched, &maps);
        let all = Filter::default();
        let report = pages::Report::build(&record, &all).unwrap();
        for l in &report.lines {
            let s = &l.sums;
            prop_assert!(s.unresolved <= s.present && s.cold + s.hot() <= s.present, "{s:?}");
            for span in s.touched {
                prop_assert!(span.bytes <= span.measured, "{s:?}");
                prop_assert!(span.measured <= s.present - s.unresolved, "{s:?}");
            }
        }
        prop_assert!(report.to_text().contains("all") && !report.units_text().is_empty());
        prop_assert!(serde_json::from_str::<serde_json::Value>(&report.to_json(true)).is_ok());
        prop_assert!(mappings::Report::build(&record, &all).unwrap().to_text().contains("by kind"));
        let profile = wss::Report::build(&record, &all).unwrap();
        prop_assert!(profile.profile_text(wss::Order::Size).is_some());
        let address = Some(AddrRange::new(near.0, near.1 + 4096));
        let zoomed = Filter { address, ..Filter::default() };
        let options = Options { columns: 3, rows: 9, min_rows: 1, all_targets: true };
        Heatmap::build(&record, &zoomed, &options).unwrap();
        pages::Report::build(&record, &zoomed).unwrap();
    }

    /// Regions that pass a filter lie inside it, and nothing inside is lost.
    #[test]
    fn the_address_filter_cuts(rs in regions(), from in 0u64..20_000, len in 1u64..20_000) {
        let range = AddrRange::new(from * 4096, (from + len) * 4096);
        let filter = Filter { address: Some(range), ..Filter::default() };
        let got: u64 = filter.regions(&rs).map(|r| r.range.len()).sum();
        let want: u64 = rs.iter().map(|r| r.range.overlap(&range)).sum();
        prop_assert_eq!(got, want);
        prop_assert!(filter.regions(&rs).all(|r| r.range.start >= range.start && r.range.end <= range.end));
    }
}
