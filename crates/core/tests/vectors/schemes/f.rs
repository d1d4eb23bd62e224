//! Setup F (§8.5): filters; four regions of 256 bytes, no quota, every region counted.

use isotherm_core::scheme::{Action, Filter, FilterKind, Scheme};
use isotherm_core::{AddrRange, Request};

use crate::schemes::acting::{Acting, attrs_q, match_all};

type Ranges = &'static [(u64, u64)];

const TARGET: Ranges = &[(0, 1024)];

/// A filter for addresses from 100 to 600.
fn addr(matching: bool, allow: bool) -> Filter {
    Filter { kind: FilterKind::Addr(AddrRange::new(100, 600)), matching, allow }
}

/// A scheme that counts what the filters let in.
fn scheme(filters: &[Filter]) -> Scheme {
    let mut scheme = match_all(Action::Stat);
    filters.iter().for_each(|f| scheme.filters.push(*f));
    scheme
}

fn check(filter: Filter, ranges: Ranges) -> Acting {
    let mut run = Acting::new(attrs_q(), &[TARGET], vec![scheme(&[filter])]);
    assert_eq!(run.window_ranges(), ranges, "{filter:?}");
    run
}

#[test]
fn f_reject_addr() {
    let mut run = check(addr(true, false), &[(0, 96), (592, 768), (768, 1024)]);
    // The sizes before cutting (R§9.2.1), in every pass again: what was cut is merged back.
    for pass in 1..5 {
        let stats = run.ctx.schemes()[0].stats();
        assert_eq!((stats.sz_tried, stats.sz_applied), (688 * pass, 528 * pass));
        assert_eq!((stats.nr_tried, stats.nr_applied), (3 * pass, 3 * pass));
        run.window();
    }
}

#[test]
fn f_allow_addr() {
    check(addr(true, true), &[(96, 256), (256, 512), (512, 592)]);
}

#[test]
fn f_reject_not_addr() {
    check(addr(false, false), &[(96, 256), (256, 512), (512, 592)]);
}

#[test]
fn f_allow_target() {
    let filter = Filter { kind: FilterKind::Target(1), matching: true, allow: true };
    let mut run = Acting::new(attrs_q(), &[TARGET, TARGET], vec![scheme(&[filter])]);
    for pass in 1..4 {
        let requests = run.window();
        assert!(!requests.is_empty());
        assert!(requests.iter().all(|r| r.target.0 == 1), "{requests:?}");
        assert_eq!(requests.iter().map(|r| r.range.len()).sum::<u64>(), 1024);
        assert_eq!(run.ctx.schemes()[0].stats().nr_snapshots, 2 * pass);
    }
}

#[test]
fn f_core_allow_bypasses_ops() {
    let core =
        Filter { kind: FilterKind::Addr(AddrRange::new(0, 512)), matching: true, allow: true };
    let ops = Filter { kind: FilterKind::Anon, matching: true, allow: true };
    let mut run = Acting::new(attrs_q(), &[TARGET], vec![scheme(&[core, ops])]);
    let seen: Vec<_> = run.window().iter().map(|r| (r.range.start, r.bypass_filters)).collect();
    assert_eq!(seen, [(0, true), (256, true), (512, false), (768, false)]);
}

#[test]
fn f_max_nr_snapshots() {
    let scheme = Scheme { max_nr_snapshots: 3, ..scheme(&[]) };
    let mut run = Acting::new(attrs_q(), &[TARGET, TARGET], vec![scheme]);
    let targets = |requests: Vec<Request>| {
        let mut seen: Vec<_> = requests.iter().map(|r| r.target.0).collect();
        seen.dedup();
        seen
    };
    let passes: [&[u32]; 4] = [&[0, 1], &[0], &[], &[]];
    for (i, expected) in passes.iter().enumerate() {
        assert_eq!(targets(run.window()), *expected, "in pass {}", i + 1);
    }
    assert_eq!(run.ctx.schemes()[0].stats().nr_snapshots, 3);
}
