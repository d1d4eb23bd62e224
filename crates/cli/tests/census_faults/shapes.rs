//! Targets of odd shapes: many mappings, much address space, mappings that come and go.

use isotherm::raw::core::AddrRange;
use isotherm::raw::ops::set::OpsSet;

use crate::target::{ARENA, MIB, Target, WIDE};
use crate::watch::Watch;

const HOT: u64 = 16 * MIB;

/// A target with 64 MiB of which 16 are hot, and its monitor, before its first window.
fn start() -> Option<(Target, AddrRange, Watch)> {
    let mut target = Target::start(64 * MIB)?;
    let hot = target.heat(16 * MIB, HOT);
    let mut watch = Watch::start(target.pid())?;
    watch.expect_hot(Some(hot));
    Some((target, hot, watch))
}

#[test]
fn a_hundred_thousand_mappings() {
    many_mappings("mappings");
}

#[test]
fn a_hundred_thousand_mappings_with_holes_between() {
    many_mappings("holes");
}

fn many_mappings(word: &str) {
    let limit = std::fs::read_to_string("/proc/sys/vm/max_map_count").unwrap();
    // Most machines allow 65530.
    let nr = (limit.trim().parse::<u64>().unwrap() - 200).min(100_000);
    let Some((mut target, hot, mut watch)) = start() else { return };
    target.tell(word, nr, 0);
    watch.until_hot(hot);
    // Mappings that come and go besides cost no more.
    target.tell("churn", 0, 0);
    watch.windows(50);
    watch.until_hot(hot);
    watch.assert_cheap();
}

#[test]
fn twenty_gib_of_which_little_is_there() {
    let Some((mut target, hot, mut watch)) = start() else { return };
    let (len, step) = (20 << 30, 64 * MIB);
    target.tell("sparse", len, step);
    watch.until_hot(hot);
    let sparse = AddrRange::new(WIDE, WIDE + len);
    let known = |watch: &Watch| {
        let units = watch.units.range(WIDE..WIDE + len);
        units.map(|(_, unit)| unit.present.minus(unit.unresolved).count()).sum::<u64>()
    };
    let most = len / step;
    watch.until("what is there is known", |watch| known(watch) >= most * 95 / 100);
    watch.until("it is cold", |watch| watch.cold_percent(sparse) >= 95);
    watch.assert_cheap();
    assert!(known(&watch) <= most, "more than there is");
}

#[test]
fn memory_that_comes_and_goes_a_thousand_times_per_second() {
    let Some((mut target, hot, mut watch)) = start() else { return };
    target.tell("churn", 0, 0);
    watch.until_hot(hot);
    watch.windows(20);
    watch.until_hot(hot);
    watch.assert_cheap();
}

#[test]
fn what_nobody_has_looked_at_is_not_cold() {
    let Some(target) = Target::start(512 * MIB) else { return };
    // 0.01 % of a CPU: hardly anything is looked at in the first windows.
    let Some(mut watch) = Watch::with(target.pid(), 1) else { return };
    let all = AddrRange::new(ARENA, ARENA + 512 * MIB);
    watch.window();
    for _ in 0..20 {
        let OpsSet::PageWalk(walk) = watch.monitor.ops() else { unreachable!() };
        let looked_at = walk.counters().unit_looks * 2 * MIB;
        let known = watch.known_bytes(all);
        assert!(known <= looked_at, "{known} bytes are known, {looked_at} were looked at");
        watch.window();
    }
}
