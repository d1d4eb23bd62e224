//! Setup C (§8.5) as far as it is about monitoring, commits (§2.9), pause (§2.10), and the defects
//! of scheduling (§9.1) with and without `strict`.

use isotherm_core::attrs::IntervalsGoal;
use isotherm_core::{Attrs, AttrsError, Context, Method, Snapshot, TargetId, Wish};

use crate::run::{Run, T0, bounds, ranges};

/// Windows of 5 samples over [0, 1024), of which [256, 512) is always accessed. None of the four
/// regions is split, because four is more than half of the largest number, seven.
fn setup_c(strict: bool) -> Run {
    let attrs = Attrs {
        sample_us: 5000,
        aggr_us: 25_000,
        min_nr_regions: 4,
        max_nr_regions: 7,
        min_region_sz: 16,
        strict,
        ..Attrs::reference()
    };
    Run::new(attrs, &[(0, 1024)], (256, 512))
}

/// Counts while the loop sleeps, after the end of the window.
#[test]
fn c_counts() {
    let mut run = setup_c(true);
    run.go_to_sleep();
    let seen: Vec<_> = (0..7)
        .map(|_| {
            run.tick();
            run.regions()[1].nr_accesses
        })
        .collect();
    assert_eq!(seen, [1, 2, 3, 4, 0, 1, 2]);
    assert_eq!(run.snapshots[0].targets[0].regions[1].nr_accesses, 5);
}

#[test]
fn c_identical() {
    for strict in [true, false] {
        let mut run = setup_c(strict);
        run.until_sis(6);
        let attrs = *run.ctx.attrs();
        run.ctx.commit(attrs).unwrap();
        run.until_sis(7);
        assert_eq!(run.ctx.schedule().next_aggregation, 10);
        assert_eq!(run.regions()[1].nr_accesses, 2, "the window goes on");
    }
}

#[test]
fn c_longer_windows() {
    for strict in [true, false] {
        let mut run = setup_c(strict);
        run.until_sis(6);
        let attrs = Attrs { aggr_us: 50_000, ..*run.ctx.attrs() };
        run.ctx.commit(attrs).unwrap();
        assert_eq!(run.ctx.attrs().aggr_us, 25_000, "not before the loop is ready for it");
        run.until_sis(7);
        run.ctx.set_ranges(T0, &ranges(&[(128, 700)])).unwrap();
        assert_eq!(bounds(&run.ctx.targets()[0]), [(128, 256), (256, 512), (512, 704)]);
        assert_eq!(run.ctx.schedule().next_aggregation, 17);
        let hot = &run.regions()[1];
        let fields = (hot.nr_accesses, hot.last_nr_accesses, hot.nr_accesses_bp, hot.age);
        assert_eq!(fields, (0, 10, 100_000, 0));
        run.until_sis(17);
        assert_eq!(run.snapshots.len(), 2);
        assert_eq!(run.snapshots[1].max_nr_accesses, 10);
    }
}

/// A commit in the last iteration of a window: the window is finished with the new attributes.
#[test]
fn c_at_window_end() {
    let mut run = setup_c(true);
    run.until_sis(4);
    let attrs = Attrs { aggr_us: 50_000, ..*run.ctx.attrs() };
    run.ctx.commit(attrs).unwrap();
    run.until_sis(5);
    assert_eq!(run.ctx.schedule().next_aggregation, 15);
    // A count of 5 of 5 becomes 10 of 10, and is the last window's count now.
    assert_eq!((run.regions()[1].nr_accesses, run.regions()[1].last_nr_accesses), (0, 10));
}

/// A commit that is not valid changes nothing.
#[test]
fn commit_refused() {
    let mut run = setup_c(true);
    run.until_sis(3);
    let before = *run.ctx.attrs();
    let bad = Attrs { sample_us: 1000, aggr_us: 999, ..before };
    assert_eq!(run.ctx.commit(bad), Err(AttrsError::Intervals));
    run.until_sis(5);
    assert_eq!(*run.ctx.attrs(), before);
    assert_eq!(run.ctx.schedule().next_aggregation, 10);
    assert_eq!(run.snapshots.len(), 1);
}

/// Committing what is in force changes nothing at all, at whatever moment.
#[test]
fn commit_noop() {
    for method in [Method::Resample, Method::FirstTouch] {
        let attrs = Attrs { method, strict: false, ..Attrs::reference() };
        let run = |noop: bool| {
            let mut run = Run::new(attrs, &[(0, 64 << 20)], (8 << 20, 16 << 20));
            for _ in 0..400 {
                if noop {
                    let same = *run.ctx.attrs();
                    run.ctx.commit(same).unwrap();
                }
                run.tick();
            }
            (run.snapshots, *run.ctx.schedule())
        };
        assert_eq!(run(true), run(false), "{method:?}");
    }
}

#[test]
fn pause_freezes() {
    for strict in [true, false] {
        let mut run = setup_c(strict);
        run.until_sis(7);
        run.ctx.pause(true);
        run.tick();
        let (schedule, regions) = (*run.ctx.schedule(), run.regions().to_vec());
        assert_eq!(schedule.passed, 8);
        for _ in 0..100 {
            assert!(matches!(run.go_to_sleep(), Wish::Sleep(until) if until > run.now));
            run.tick();
            assert_eq!((*run.ctx.schedule(), run.regions()), (schedule, &regions[..]));
        }
        assert_eq!(run.snapshots.len(), 1);
        run.ctx.pause(false);
        run.until_sis(10);
        // The window that the pause interrupted has all its samples.
        assert_eq!(run.snapshots.len(), 2);
        let nrs: Vec<_> =
            run.snapshots[1].targets[0].regions.iter().map(|r| r.nr_accesses).collect();
        assert_eq!(nrs, [0, 5, 0, 0]);
        // Nor is it longer for that.
        let [before, after] = &run.snapshots[..] else { panic!("there are two") };
        assert_eq!(after.end.since(after.start), 25_000_000);
        assert!(
            after.start.since(before.end) >= 100 * 5_000_000,
            "{} {}",
            before.end.0,
            after.start.0
        );
    }
}

/// A pause that begins in a window's last iteration holds the second half of the window's end.
#[test]
fn pause_at_window_end() {
    let mut run = setup_c(true);
    run.until_sis(4);
    run.ctx.pause(true);
    run.tick();
    assert_eq!((run.snapshots.len(), run.ctx.schedule().passed), (1, 5));
    run.tick();
    assert_eq!(run.regions()[1].nr_accesses, 5, "not reset yet");
    assert_eq!(run.ctx.schedule().next_aggregation, 5);
    run.ctx.pause(false);
    run.until_sis(6);
    assert_eq!((run.regions()[1].nr_accesses, run.regions()[1].last_nr_accesses), (1, 5));
    assert_eq!((run.snapshots.len(), run.ctx.schedule().next_aggregation), (1, 10));
}

/// Commits and new targets take effect during a pause. The pause ends when the last target is
/// removed.
#[test]
fn pause_takes_changes() {
    let mut run = setup_c(false);
    run.until_sis(7);
    run.ctx.pause(true);
    run.tick();
    let attrs = Attrs { max_nr_regions: 8, ..*run.ctx.attrs() };
    run.ctx.commit(attrs).unwrap();
    run.ctx.add_target(TargetId(1));
    run.tick();
    assert_eq!((run.ctx.attrs().max_nr_regions, run.ctx.targets().len()), (8, 2));
    run.ctx.remove_target(T0);
    run.ctx.remove_target(TargetId(1));
    if let Wish::Sleep(until) = run.go_to_sleep() {
        run.now = until;
    }
    assert_eq!(run.go_to_sleep(), Wish::Stop);
}

/// Number of updates after the first within ten seconds. All memory is hot, and an update is due
/// every two seconds.
fn nr_updates(strict: bool, goal: IntervalsGoal) -> u32 {
    let attrs = Attrs {
        update_us: 2_000_000,
        intervals_goal: goal,
        strict,
        method: Method::Resample,
        ..Attrs::reference()
    };
    let mut run = Run::new(attrs, &[(0, 1 << 20)], (0, 1 << 20));
    run.until_sis(2000);
    assert_eq!(run.ctx.attrs().sample_us, 5000);
    run.nr_updates - 1
}

/// R§9.1.1: a tuning that the bounds undo starves the updates.
#[test]
fn starvation() {
    let goal =
        IntervalsGoal { access_bp: 400, aggrs: 3, min_sample_us: 5000, max_sample_us: 10_000_000 };
    let none = IntervalsGoal::default();
    assert_eq!(nr_updates(true, none), 5, "strict, without a goal");
    assert_eq!(nr_updates(true, goal), 0, "strict");
    assert_eq!(nr_updates(false, goal), 5, "by default");
}

/// When the sample interval changes after a goal is switched on at sis 405, nothing being accessed.
fn tunings(strict: bool) -> Vec<u64> {
    let attrs = Attrs { strict, ..Attrs::reference() };
    let mut run = Run::new(attrs, &[(0, 1 << 20)], (0, 0));
    run.until_sis(404);
    let intervals_goal =
        IntervalsGoal { access_bp: 400, aggrs: 3, min_sample_us: 5000, max_sample_us: 10_000_000 };
    let attrs = Attrs { intervals_goal, ..*run.ctx.attrs() };
    run.ctx.commit(attrs).unwrap();
    let (mut seen, mut last) = (Vec::new(), 5000);
    while run.ctx.schedule().passed < 700 {
        run.tick();
        if run.ctx.attrs().sample_us != last {
            last = run.ctx.attrs().sample_us;
            seen.push(run.ctx.schedule().passed);
        }
    }
    seen
}

/// R§9.1.2: a goal switched on late tunes at every window until it has caught up.
#[test]
fn goal_switched_on() {
    let every_window: Vec<u64> = (0..=10).map(|i| 425 + 20 * i).collect();
    assert_eq!(tunings(true), every_window);
    // By default after the goal's own period: three windows, and never the one under way.
    let seen = tunings(false);
    assert!((465..=485).contains(&seen[0]), "first tuned at {}", seen[0]);
    assert!(seen.windows(2).all(|pair| pair[1] - pair[0] == 60), "{seen:?}");
}

/// R§9.1.9: a target of which nothing is mapped yet.
#[test]
fn without_regions() {
    for (strict, expected) in [(true, 1), (false, 6)] {
        let attrs = Attrs { strict, ..Attrs::reference() };
        let mut run = Run::new(attrs, &[], (0, 0));
        run.until_sis(100);
        assert_eq!(run.nr_updates, expected, "strict: {strict}");
        assert_eq!(run.snapshots.len(), 5);
        // Once it is there it is watched within a window, or, if strict, after 60 seconds.
        run.maps = ranges(&[(0, 1 << 20)]);
        run.until_sis(120);
        assert_eq!(run.regions().is_empty(), strict);
    }
}

/// R§9.1.10: nothing to watch ends the run at once.
#[test]
fn without_targets() {
    let mut ctx = Context::new(Attrs::reference(), 0).unwrap();
    assert_eq!(ctx.poll(isotherm_core::Time(0)), Wish::Update);
    assert_eq!(ctx.poll(isotherm_core::Time(0)), Wish::Stop);
    assert_eq!(ctx.poll(isotherm_core::Time(0)), Wish::Stop);
}

/// R§9.1.12: by default a late tick does not move those behind it; if strict it does.
#[test]
fn late_tick() {
    for (strict, expected) in [(true, 12_000), (false, 10_000)] {
        let mut run = setup_c(strict);
        assert_eq!(run.go_to_sleep(), Wish::Sleep(run.now.plus_us(5000)));
        run.now = run.now.plus_us(7000);
        let Wish::Sleep(until) = run.go_to_sleep() else { panic!("it sleeps") };
        assert_eq!(until.as_ns(), expected * 1000, "strict: {strict}");
    }
}

/// Count of the hot pages at the end of each window.
fn hot_counts(snapshots: &[Snapshot], hot: u64) -> Vec<u32> {
    let region = |s: &Snapshot| {
        let regions = &s.targets[0].regions;
        regions.iter().find(|r| r.range.contains(hot)).map_or(0, |r| r.nr_accesses)
    };
    snapshots.iter().map(region).collect()
}

/// A pause, or a machine that was asleep, says nothing about how hot a page is, whenever it comes.
#[test]
fn pause_does_not_cool() {
    for (method, at) in [Method::Resample, Method::FirstTouch]
        .into_iter()
        .flat_map(|method| (1000..1020).map(move |at| (method, at)))
    {
        let attrs = Attrs { method, strict: false, ..Attrs::reference() };
        let mut run = Run::new(attrs, &[(0, 64 << 20)], (16 << 20, 32 << 20));
        run.until_sis(at);
        run.ctx.pause(true);
        run.tick();
        run.now = run.now.plus_us(10_000_000);
        run.tick();
        run.ctx.pause(false);
        let before = run.snapshots.len();
        run.until_sis(1200);
        let middle = 24 << 20;
        assert!(hot_counts(&run.snapshots[..before], middle).last() >= Some(&19));
        let seen = hot_counts(&run.snapshots[before..], middle);
        assert!(seen.iter().all(|&nr| nr >= 15), "{method:?}, paused at {at}: {seen:?}");
    }
}

/// A switch to `first_touch` begins a new window at the sample of the switch.
#[test]
fn a_switch_to_first_touch_starts_without_old_evidence() {
    let attrs = Attrs { method: Method::FirstTouch, ..Attrs::default() };
    let maps = [(0, 1 << 24)];
    let mut run = Run::new(attrs, &maps, (0, 1 << 20));
    run.until_sis(100);
    let resample = Attrs { method: Method::Resample, ..attrs };
    run.ctx.commit(resample).unwrap();
    run.until_sis(203);
    run.ctx.commit(attrs).unwrap();
    // The commit is taken at the end of the next tick.
    run.tick();
    let switched = run.ctx.schedule().passed;
    let asked = run.ctx.batch_mut().len();
    assert_eq!(switched, 204);
    assert!(asked <= 2, "{asked} pages are armed at once, which is what is due since sample 0");
}
