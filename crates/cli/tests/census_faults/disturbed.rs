//! Targets whose memory changes under the looks: forks, execs, locks, huge pages.

use isotherm::raw::core::AddrRange;

use crate::target::{MIB, Target};
use crate::watch::Watch;

/// A target with 64 MiB of which 16 are hot, and a monitor that has found them.
fn start() -> Option<(Target, AddrRange, Watch)> {
    let mut target = Target::start(64 * MIB)?;
    let hot = target.heat(16 * MIB, 16 * MIB);
    let mut watch = Watch::start(target.pid())?;
    watch.expect_hot(Some(hot));
    watch.until_hot(hot);
    Some((target, hot, watch))
}

#[test]
fn forks_under_the_looks() {
    let Some((mut target, hot, mut watch)) = start() else { return };
    target.tell("forks", 0, 0);
    watch.windows(20);
    watch.until_hot(hot);
    watch.assert_cheap();
}

#[test]
fn a_child_that_shares_everything() {
    let Some((mut target, hot, mut watch)) = start() else { return };
    target.tell("child", 0, 0);
    watch.windows(20);
    watch.until_hot(hot);
    // The other memory is cold, or nothing is known of it, but it is not hot.
    let rest = AddrRange::new(hot.end, hot.end + 16 * MIB);
    watch.until("cold memory", |w| w.hot_percent(rest) == 0 && w.cold_percent(rest) >= 90);
    watch.assert_cheap();
}

#[test]
fn a_program_that_replaces_itself() {
    let Some((mut target, _, mut watch)) = start() else { return };
    for _ in 0..3 {
        watch.expect_hot(None);
        target.tell("exec", 0, 0);
        target.tell("arena", 64 * MIB, 0);
        // At the same addresses, other memory is hot.
        let hot = target.heat(40 * MIB, 16 * MIB);
        watch.expect_hot(Some(hot));
        watch.until_hot(hot);
        let before = AddrRange::new(hot.start - 24 * MIB, hot.start - 8 * MIB);
        watch.until("cold memory", |w| w.cold_percent(before) >= 90);
    }
    watch.assert_cheap();
}

#[test]
fn memory_that_is_locked_and_unlocked() {
    let Some((mut target, hot, mut watch)) = start() else { return };
    for _ in 0..3 {
        // Half of it is hot.
        target.tell("lock", 24 * MIB, 16 * MIB);
        watch.windows(5);
        watch.until_hot(hot);
        target.tell("unlock", 24 * MIB, 16 * MIB);
        watch.windows(5);
        watch.until_hot(hot);
    }
    // Locked memory that was cold all the time is not called hot.
    let cold = AddrRange::new(hot.end, hot.end + 16 * MIB);
    watch.until("cold memory", |w| w.hot_percent(cold) == 0 && w.cold_percent(cold) >= 90);
    watch.assert_cheap();
}

#[test]
fn huge_pages_that_come_and_go() {
    let Some((mut target, hot, mut watch)) = start() else { return };
    // Half of it is hot.
    let said = target.ask("collapse", 24 * MIB, 16 * MIB);
    if said != "ready" {
        return eprintln!("skipped: this machine makes no huge pages on demand: {said}");
    }
    watch.until("huge pages", |w| w.units.values().any(|unit| unit.leaf_shift == 21));
    watch.windows(30);
    watch.until_hot(hot);
    watch.assert_cheap();
}
