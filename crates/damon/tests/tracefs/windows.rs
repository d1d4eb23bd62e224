//! Grouping to windows: several kdamonds, several targets, holes.

use isotherm_core::{AddrRange, Time};
use isotherm_damon::tracefs::{AggregatedRegion, Event, Item, Loss, Record, Torn, Window, Windows};

/// The region that covers page `i` of `n`, told by `pid` at `ms`.
fn region(ms: u64, pid: u32, target: u64, i: u64, n: u32) -> Item {
    let range = AddrRange::new(i * 4096, (i + 1) * 4096);
    let event = Event::Aggregated(AggregatedRegion {
        target,
        nr_regions: n,
        range,
        ..AggregatedRegion::default()
    });
    Item::Event(Record { at: Time(ms * 1_000_000), cpu: 0, pid, event })
}

fn lost(since_ms: u64, until_ms: u64, events: Option<u64>) -> Item {
    let [since, until] = [since_ms, until_ms].map(|ms| Time(ms * 1_000_000));
    Item::Lost(Loss { cpu: 0, events, since, until })
}

/// What comes out, as `kdamond:regions per target` or `kdamond:torn SEEN`.
fn told(windows: &mut Windows) -> Vec<String> {
    let mut out = Vec::new();
    while let Some(window) = windows.next() {
        out.push(match window {
            Ok(Window { kdamond, targets, .. }) => {
                let counts: Vec<_> =
                    targets.iter().map(|t| format!("{}x{}", t.target, t.regions.len())).collect();
                format!("{kdamond}:{}", counts.join("+"))
            }
            Err(Torn { kdamond, seen, .. }) => format!("{kdamond}:torn {seen}"),
        });
    }
    out
}

fn run(items: &[Item]) -> Vec<String> {
    let mut windows = Windows::new();
    for item in items {
        windows.push(item);
    }
    windows.settle(Time(10_000_000_000));
    told(&mut windows)
}

#[test]
fn windows_of_two_kdamonds_are_told_apart() {
    let items = [
        region(100, 7, 0, 0, 2),
        region(100, 8, 0, 0, 1),
        region(100, 7, 0, 1, 2),
        region(100, 8, 2, 5, 1),
        region(200, 7, 0, 0, 1),
        region(300, 7, 0, 0, 1),
    ];
    assert_eq!(run(&items), ["7:0x2", "8:0x1+2x1", "7:0x1", "7:0x1"]);
}

#[test]
fn a_window_ends_where_the_next_begins_even_without_silence() {
    // As with an aggregation interval of a millisecond.
    let items: Vec<_> = (0..6).map(|i| region(i, 7, 0, i % 2, 2)).collect();
    assert_eq!(run(&items), ["7:0x2", "7:0x2", "7:0x2"]);
}

#[test]
fn a_known_number_of_targets_ends_it_at_once() {
    let mut windows = Windows::new();
    windows.expect(7, 2);
    for (item, expected) in [
        (region(1, 7, 0, 0, 1), &[][..]),
        (region(1, 7, 1, 0, 2), &[]),
        (region(1, 7, 1, 1, 2), &["7:0x1+1x2"]),
        (region(3, 7, 0, 0, 1), &[]),
        // A target without regions: silence ends it.
        (region(50, 7, 0, 0, 1), &["7:0x1"]),
    ] {
        windows.push(&item);
        assert_eq!(told(&mut windows), expected);
    }
}

#[test]
fn what_a_hole_touches_is_torn() {
    for (name, items, expected) in [
        (
            "a line is missing",
            vec![region(1, 7, 0, 0, 2), region(9, 7, 0, 0, 1)],
            &["7:torn 1", "7:0x1"][..],
        ),
        (
            "a hole in it",
            vec![region(1, 7, 0, 0, 2), lost(1, 3, Some(9)), region(4, 7, 0, 1, 2)],
            &["7:torn 2"],
        ),
        // The kernel may have told of target 1 in the hole.
        ("a hole behind it", vec![region(1, 7, 0, 0, 1), lost(1, 3, None)], &["7:torn 1"]),
        ("a hole before it", vec![lost(1, 5, None), region(4, 7, 0, 0, 1)], &["7:torn 1"]),
        (
            "a hole long after it",
            vec![region(1, 7, 0, 0, 1), lost(100, 150, None), region(200, 7, 0, 0, 1)],
            &["7:0x1", "7:0x1"],
        ),
    ] {
        assert_eq!(run(&items), expected, "{name}");
    }
    let mut windows = Windows::new();
    windows.push(&lost(1, 2, Some(5)));
    windows.push(&lost(3, 4, None));
    assert_eq!(windows.lost(), (2, 5));
}

/// With probes the kernel tells each region twice; a window has it once, with the hits.
#[test]
fn probes_are_joined() {
    let with_hits = |item: Item| match item {
        Item::Event(Record { at, cpu, pid, event: Event::Aggregated(region) }) => {
            let region = AggregatedRegion { probe_hits: Some([1, 2, 0, 0]), ..region };
            Item::Event(Record { at, cpu, pid, event: Event::Aggregated(region) })
        }
        other => other,
    };
    for (n, expect) in [(1, None), (2, None), (1, Some(1)), (2, Some(1))] {
        let mut windows = Windows::new();
        if let Some(expect) = expect {
            windows.expect(7, expect);
        }
        for ms in [1, 101] {
            for i in 0..u64::from(n) {
                let line = region(ms, 7, 0, i, n);
                windows.push(&line);
                windows.push(&with_hits(line));
            }
        }
        windows.settle(Time(1_000_000_000));
        for _ in 0..2 {
            let window = windows.next().unwrap().unwrap();
            assert_eq!(window.nr_regions(), n as usize);
            assert!(window.targets[0].regions.iter().all(|r| r.probe_hits == Some([1, 2, 0, 0])));
        }
        assert_eq!(windows.next(), None, "{n} regions, expect {expect:?}");
    }
}
