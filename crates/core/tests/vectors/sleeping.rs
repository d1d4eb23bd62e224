//! `first_touch` sleeps through samples at which nothing is due.

use isotherm_core::{Attrs, Method, Time, Wish};

use crate::run::Run;

const MIB: u64 = 1 << 20;

fn started(method: Method) -> Run {
    let attrs = Attrs { method, ..Attrs::default() };
    let mut run = Run::new(attrs, &[(0x10_0000, 0x10_0000 + 64 * MIB)], (0, 0));
    run.until_sis(1000);
    run
}

fn sleeps_in(run: &mut Run, windows: u64) -> u64 {
    let end = run.ctx.schedule().passed + 20 * windows;
    let mut sleeps = 0;
    while run.ctx.schedule().passed < end {
        run.tick();
        sleeps += 1;
    }
    sleeps
}

#[test]
fn nothing_touched_is_few_wake_ups_and_as_many_windows() {
    for (method, expected) in [(Method::Resample, 200..=200), (Method::FirstTouch, 10..=100)] {
        let mut run = started(method);
        let before = run.snapshots.len();
        let sleeps = sleeps_in(&mut run, 10);
        assert!(expected.contains(&sleeps), "{method:?}: {sleeps}");
        assert_eq!(run.snapshots.len() - before, 10, "{method:?}");
    }
}

#[test]
fn a_machine_that_is_late_lengthens_windows_less() {
    // How many microseconds each wake-up is late, and how long 40 windows of 100 ms may take then.
    for (method, late_us, expected_ms) in [
        (Method::FirstTouch, 0, 3950..=4100),
        (Method::FirstTouch, 7_000, 4000..=7500),
        // Each sample is waited for.
        (Method::Resample, 7_000, 9_000..=11_000),
    ] {
        let mut run = started(method);
        let (begin, windows) = (run.now, run.snapshots.len() + 40);
        while run.snapshots.len() < windows {
            if let Wish::Sleep(until) = run.go_to_sleep() {
                run.now = Time(until.as_ns() + late_us * 1000);
            }
        }
        let ms = run.now.since(begin) / 1_000_000;
        assert!(expected_ms.contains(&ms), "{method:?} {late_us} us late: {ms} ms");
    }
}

#[test]
fn strict_wakes_up_for_every_sample() {
    let attrs = Attrs { strict: true, ..Attrs::default() };
    let mut run = Run::new(attrs, &[(0x10_0000, 0x10_0000 + 64 * MIB)], (0, 0));
    run.until_sis(100);
    assert_eq!(sleeps_in(&mut run, 5), 100);
}
