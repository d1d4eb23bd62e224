//! Targets whose ranges are given, such as physical memory: no rule of gaps applies to them.
#![expect(clippy::unwrap_used, reason = "helper functions of tests")]

use isotherm_core::monitor::Wish;
use isotherm_core::{AddrRange, Attrs, Context, TargetId, Time};

const MIB: u64 = 1 << 20;

/// RAM as in a PC, with three holes: a small one near the start, one for devices, and one above.
fn ram() -> Vec<AddrRange> {
    [(0, 1), (2, 1024), (4096, 5120), (6144, 8192)]
        .map(|(start, end)| AddrRange::new(start * MIB, end * MIB))
        .to_vec()
}

fn started(attrs: Attrs, given: bool) -> Context {
    let mut context = Context::new(attrs, 1).unwrap();
    if given {
        context.add_ranges(TargetId(0));
    } else {
        context.add_target(TargetId(0));
    }
    assert_eq!(context.poll(Time(0)), Wish::Update);
    assert!(context.update_target(TargetId(0), &ram()));
    context.poll(Time(0));
    context
}

#[test]
#[cfg_attr(miri, ignore = "a minute under Miri; the other tests here run the same code")]
fn every_gap_is_left_out_and_regions_are_even() {
    for strict in [false, true] {
        let attrs = Attrs { strict, min_nr_regions: 40, ..Attrs::default() };
        let context = started(attrs, true);
        let regions = &context.targets()[0].regions;
        let total: u64 = ram().iter().map(AddrRange::len).sum();
        assert_eq!(regions.iter().map(|r| r.len()).sum::<u64>(), total, "no gap is in a region");
        assert!(regions.len() >= 40);
        let largest = regions.iter().map(|r| r.len()).max().unwrap();
        assert!(largest <= total / 40 + 4096, "{largest} of {total}");
    }
}

#[test]
fn an_address_space_in_strict_mode_keeps_its_third_gap() {
    let context = started(Attrs { strict: true, ..Attrs::default() }, false);
    let sum: u64 = context.targets()[0].regions.iter().map(|r| r.len()).sum();
    assert!(sum > ram().iter().map(AddrRange::len).sum());
}

#[test]
fn ranges_that_are_gone_change_nothing_and_less_is_less() {
    let mut context = started(Attrs::default(), true);
    let before = context.targets()[0].clone();
    assert!(!context.update_target(TargetId(0), &[]));
    assert_eq!(context.targets()[0], before);
    assert!(context.update_target(TargetId(0), &ram()[..2]));
    assert_eq!(context.targets()[0].len(), 1023 * MIB);
}
