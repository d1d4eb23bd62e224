//! The truth file there and back, and the tiles that it gives.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use isotherm_core::Time;
use isotherm_sim::config::Config;
use isotherm_sim::pattern::plans;
use isotherm_sim::truth::{Header, Line, ReadError, Truth};

const BASE: u64 = 0x2000_0000_0000;
const MB: u64 = 1 << 20;
const S: u64 = 1_000_000_000;

fn header(config: &str) -> Header {
    let config = Config::parse(config).unwrap();
    Header::new("test", &config, &plans(&config), 0, S / 10)
}

fn read(lines: &[Line]) -> Truth {
    let mut file = Vec::new();
    lines.iter().for_each(|l| l.write(&mut file).unwrap());
    Truth::read(file.as_slice()).unwrap()
}

fn map(r: usize, ns: u64, mb: u64, leaf: u64) -> Line {
    Line::Map { p: 0, r, ns, start: BASE, end: BASE + mb * MB, leaf }
}

/// Every slot of the first 2 s has these counts.
fn truth(config: &str, maps: &[Line], counts: &[(u32, u32, u64)]) -> Truth {
    let mut lines = vec![
        Line::Header(header(config)),
        Line::Process { p: 0, pid: 5, parent: None, ns: 0 },
        Line::Phase { p: 0, i: 0, ns: 0 },
    ];
    lines.extend_from_slice(maps);
    lines.extend((0..20).map(|k| Line::Slot { p: 0, k, c: counts.to_vec() }));
    lines.push(Line::End { p: 0, ns: 2 * S });
    read(&lines)
}

/// (offset and size in KiB, chance of a touch within 5 ms).
fn tiles(truth: &Truth, from: u64, to: u64) -> Vec<(u64, u64, f64)> {
    let process = truth.process(5).unwrap();
    let tiles = truth.tiles(process, Time(from), Time(to), 5000);
    tiles.iter().map(|t| ((t.range.start - BASE) >> 10, t.range.len() >> 10, t.p)).collect()
}

fn check(actual: &[(u64, u64, f64)], expected: &[(u64, u64, f64)]) {
    assert_eq!(actual.len(), expected.len(), "{actual:?}");
    for (a, e) in actual.iter().zip(expected) {
        assert!((a.0, a.1) == (e.0, e.1) && (a.2 - e.2).abs() < 1e-9, "{actual:?} {expected:?}");
    }
}

#[test]
fn small_pages() {
    let config =
        "m, 4M\n\np\n2000\nm, 1, 64, 1, wo, offset=1M, length=1M\nm, 0, 4096, 1, wo, length=2M\n";
    // 1020 random accesses per second over 256 pages; 2050 accesses per second: 4 sweeps of 512.
    let truth = truth(config, &[map(0, 0, 4, 4096)], &[(0, 0, 102), (1, 0, 205)]);
    let random = 1.0 - (-1020.0_f64 / 256.0 * 0.005).exp();
    let sweep = 2050.0 / 512.0 * 0.005;
    let both = 1.0 - (1.0 - random) * (1.0 - sweep);
    let expected = [(0, 1024, sweep), (1024, 1024, both), (2048, 2048, 0.0)];
    check(&tiles(&truth, 0, 2 * S), &expected);
    check(&tiles(&truth, S / 3, S), &expected);
}

#[test]
fn a_huge_leaf_is_as_hot_as_all_that_is_in_it() {
    let config = "m, 5M, thp=on\n\np\n2000\nm, 1, 64, 1, wo, offset=2M, length=3M, sparse=1M\n";
    // One page at 2 MiB, one at 3 MiB (the same huge leaf), one at 4 MiB (in the tail of small
    // pages).
    let truth = truth(config, &[map(0, 0, 5, 2 << 20)], &[(0, 0, 1), (0, 1, 2), (0, 2, 4)]);
    let p = |per_s: f64| 1.0 - (-per_s * 0.005).exp();
    let expected = [(0, 2048, 0.0), (2048, 2048, p(30.0)), (4096, 4, p(40.0)), (4100, 1020, 0.0)];
    check(&tiles(&truth, 0, S), &expected);
}

#[test]
fn pieces_of_a_set_are_alike() {
    let config = "m, 4M\n\np\n2000\nm, 1, 64, 1, wo, offset=1M, length=2M, pieces=256K, share=25\n\
                  m, 1, 64, 1, wo, offset=1M, length=1M\n";
    let mut header = header(config);
    assert_eq!(header.phases[0].patterns[0].cells.sets[0].len(), 2);
    // Two places whose truth is known by hand.
    header.phases[0].patterns[0].cells.sets = vec![vec![1, 6]];
    let mut lines = vec![Line::Header(header), Line::Process { p: 0, pid: 5, parent: None, ns: 0 }];
    lines.push(map(0, 0, 4, 4096));
    lines.extend((0..20).map(|k| Line::Slot { p: 0, k, c: vec![(0, 0, 64), (1, 0, 256)] }));
    let truth = read(&lines);
    // 640 accesses per second over 128 pages, and 2560 over 256.
    let p = |per_s: f64| 1.0 - (-per_s * 0.005).exp();
    let expected = [
        (0, 1024, 0.0),
        (1024, 256, p(10.0)),
        (1280, 256, p(15.0)),
        (1536, 512, p(10.0)),
        (2048, 512, 0.0),
        (2560, 256, p(5.0)),
        (2816, 1280, 0.0),
    ];
    check(&tiles(&truth, 0, S), &expected);
}

/// Hundreds of thousands of pages are told in a few bytes each, and read back as they were.
#[test]
fn sets_are_small_in_a_file() {
    let config = "m, 1G\n\np\n2000\nm, 1, 64, 1, wo, pieces=4K, share=10\n\
                  m, 1, 64, 1, wo, zipf=1, block=4K, scatter=yes\n";
    let header = header(config);
    let mut file = Vec::new();
    Line::Header(header.clone()).write(&mut file).unwrap();
    let pages: usize =
        header.phases[0].patterns.iter().flat_map(|p| &p.cells.sets).map(Vec::len).sum();
    assert_eq!(pages, 26_214 + 262_144);
    assert!(file.len() < 5 * pages, "{} bytes of {pages} pages", file.len());
    assert_eq!(Truth::read(file.as_slice()).unwrap().header, header);
    // A number that no piece has.
    let text = String::from_utf8(file).unwrap();
    let broken = text.replacen("\"sets\":[[", "\"sets\":[[4294967295,", 1);
    assert!(matches!(Truth::read(broken.as_bytes()), Err(ReadError::NotTruth)));
}

#[test]
fn only_what_was_mapped_throughout_is_known() {
    let config = "m, 4M\n\np\n2000\nm, 1, 64, 1\n";
    let gone = Line::Map { p: 0, r: 0, ns: S, start: 0, end: 0, leaf: 0 };
    let truth = truth(config, &[map(0, 0, 4, 4096), gone, map(0, S + S / 2, 2, 4096)], &[]);
    let known = |from, to| tiles(&truth, from, to).iter().map(|t| t.1 >> 10).sum::<u64>();
    assert_eq!(known(0, S), 4);
    assert_eq!(known(S / 2, S + 1), 0, "unmapped inside the window");
    assert_eq!(known(S, S + S / 4), 0);
    assert_eq!(known(S + S / 4, 2 * S), 0, "mapped inside the window");
    assert_eq!(known(S + S / 2, 2 * S), 2);
    assert_eq!(known(S + S / 2, 2 * S + 1), 0, "behind the process's end");
}

#[test]
fn a_mapping_of_mixed_leaves_is_not_judged() {
    let config = "m, 4M, thp=on\n\np\n2000\nm, 1, 64, 1\n";
    let truth = truth(config, &[map(0, 0, 4, 0), map(0, S, 4, 4096)], &[(0, 0, 10)]);
    assert_eq!(tiles(&truth, 0, S), []);
    assert_eq!(tiles(&truth, S, 2 * S).len(), 1);
}

#[test]
fn files_that_are_no_truth() {
    let mut good = Vec::new();
    Line::Header(header("a, 4K\n\np\n10\n")).write(&mut good).unwrap();
    let text = String::from_utf8(good).unwrap();
    let read = |text: &str| Truth::read(text.as_bytes());
    assert!(matches!(read(""), Err(ReadError::NotTruth)));
    assert!(matches!(read("PAR1\n"), Err(ReadError::NotTruth)));
    let of_version = |v| text.replacen("\"version\":2", &format!("\"version\":{v}"), 1);
    assert!(matches!(read(&of_version(3)), Err(ReadError::Version(3))));
    assert!(matches!(read(&of_version(0)), Err(ReadError::Version(0))));
    assert_eq!(read(&of_version(1)).unwrap().header.version, 1, "no sets of pieces yet");
    for second in ["nonsense\n", text.as_str(), "{\"t\":\"phase\"}\n"] {
        let result = read(&format!("{text}{second}"));
        assert!(matches!(result, Err(ReadError::Line { line: 2, .. })), "{second}");
    }
    let region = r#"{"t":"map","p":0,"r":1,"ns":0,"start":0,"end":0,"leaf":0}"#;
    let result = read(&format!("{text}{region}\n"));
    assert!(matches!(result, Err(ReadError::Line { line: 2, .. })), "an unknown region");
    let torn = read(&format!("{text}{{\"t\":\"end\",\"p\":0")).unwrap();
    assert_eq!(torn.processes.len(), 0, "a torn tail is dropped");
}

#[test]
fn processes_write_to_one_file() {
    let truth = read(&[
        Line::Header(header("a, 4K\n\np\n10\n")),
        Line::Process { p: 0, pid: 5, parent: None, ns: 1 },
        Line::Process { p: 1, pid: 6, parent: Some(0), ns: 2 },
        Line::Slot { p: 1, k: 3, c: vec![(0, 0, 4)] },
        Line::Move { p: 0, id: 0, ns: 9 },
        Line::Phase { p: 0, i: 0, ns: 7 },
        Line::Slot { p: 1, k: 3, c: vec![(0, 0, 5)] },
    ]);
    let child = truth.process(6).unwrap();
    assert_eq!((child.parent, child.start, child.end), (Some(0), Time(2), Time(4 * S / 10)));
    assert_eq!(child.slots[&3], [(0, 0, 4), (0, 0, 5)], "both parts of a slot that was cut in two");
    assert_eq!(truth.process(5).unwrap().edges, [Time(7), Time(9)]);
    assert_eq!(truth.process(7), None);
}
