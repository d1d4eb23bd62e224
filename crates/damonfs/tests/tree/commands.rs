//! Commands: what they hand to the engine, what they show, and what they refuse (R§5.3).

use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use isotherm_core::AddrRange;
use isotherm_damon::model::{FilterKind, GoalMetric, Operations};
use rustix::io::Errno;

use crate::fake::{PID, Tree};

const SCHEME: &str = "0/contexts/0/schemes/0";

/// A tree with a target and a scheme, not started.
fn staged() -> Tree {
    let tree = Tree::with_context();
    tree.put("0/contexts/0/targets/nr_targets", "1");
    tree.put("0/contexts/0/targets/0/pid_target", "42");
    tree.put("0/contexts/0/schemes/nr_schemes", "2");
    tree
}

#[test]
fn what_the_files_say_is_what_runs() {
    let tree = staged();
    let words = [
        ("0/contexts/0/operations", "fvaddr"),
        ("0/contexts/0/monitoring_attrs/intervals/sample_us", "1000"),
        ("0/contexts/0/targets/0/regions/nr_regions", "1"),
        ("0/contexts/0/targets/0/regions/0/start", "4096"),
        ("0/contexts/0/targets/0/regions/0/end", "8192"),
        ("0/contexts/0/schemes/1/action", "pageout"),
        ("0/contexts/0/schemes/1/access_pattern/age/max", "18446744073709551615"),
        ("0/contexts/0/schemes/1/access_pattern/nr_accesses/min", "4294967301"),
        ("0/contexts/0/schemes/1/quotas/goals/nr_goals", "2"),
        ("0/contexts/0/schemes/1/quotas/goals/1/target_metric", "some_mem_psi_us"),
        ("0/contexts/0/schemes/1/quotas/goals/1/target_value", "500"),
        ("0/contexts/0/schemes/1/filters/nr_filters", "1"),
        ("0/contexts/0/schemes/1/filters/0/type", "memcg"),
        ("0/contexts/0/schemes/1/filters/0/memcg_path", "/a\n"),
        ("0/contexts/0/schemes/1/filters/0/matching", "Y"),
    ];
    for (path, text) in words {
        tree.put(path, text);
    }
    assert_eq!(tree.read("0/state").as_deref(), Ok("off\n"));
    tree.put("0/state", "on\n");
    assert_eq!(tree.read("0/state").as_deref(), Ok("on\n"));
    assert_eq!(tree.read("0/pid"), Ok(format!("{PID}\n")));
    let told = tree.engine.told.lock().unwrap()[0].context.clone();
    assert_eq!((told.operations, told.intervals.sample_us), (Operations::Fvaddr, 1000));
    assert_eq!(told.targets[0].pid, 42);
    assert_eq!(told.targets[0].regions, [AddrRange { start: 4096, end: 8192 }]);
    let scheme = &told.schemes[1];
    // Both are kept in 32 bits.
    assert_eq!((scheme.pattern.age.max, scheme.pattern.nr_accesses.min), (u32::MAX, 5));
    assert_eq!(scheme.quota.goals.len(), 1, "a goal without a target is left out");
    assert_eq!(scheme.quota.goals[0].metric, GoalMetric::SomeMemPsiUs);
    assert_eq!(scheme.filters[0].kind, FilterKind::Memcg("/a".into()));
    assert!(scheme.filters[0].matching && !scheme.filters[0].allow);
}

#[test]
fn writes_have_no_effect_until_a_commit() {
    let tree = staged();
    tree.put("0/state", "on");
    tree.put("0/contexts/0/monitoring_attrs/intervals/sample_us", "1234");
    assert_eq!(tree.engine.told.lock().unwrap().len(), 1);
    tree.put("0/state", "commit");
    assert_eq!(tree.engine.told.lock().unwrap()[1].context.intervals.sample_us, 1234);
}

#[test]
fn commands_show_results_in_their_files_only() {
    let tree = staged();
    tree.put("0/state", "on");
    let read = |file: &str| tree.read(&format!("{SCHEME}/{file}")).unwrap();
    tree.put("0/state", "update_schemes_stats");
    let names = ["nr_tried", "sz_tried", "nr_applied", "sz_applied", "sz_ops_filter_passed"];
    for (name, value) in names.iter().chain(&["qt_exceeds", "nr_snapshots"]).zip(1..) {
        assert_eq!(read(&format!("stats/{name}")), format!("{value}\n"), "{name}");
    }
    assert_eq!(tree.read("0/contexts/0/schemes/1/stats/nr_tried").as_deref(), Ok("11\n"));
    assert_eq!(read("quotas/effective_bytes"), "0\n");
    tree.put("0/state", "update_schemes_effective_quotas");
    assert_eq!(read("quotas/effective_bytes"), "8\n");
    tree.put("0/state", "update_tuned_intervals");
    let intervals = "0/contexts/0/monitoring_attrs/intervals";
    assert_eq!(tree.read(&format!("{intervals}/sample_us")).as_deref(), Ok("777\n"));
    assert_eq!(tree.read(&format!("{intervals}/aggr_us")).as_deref(), Ok("8888\n"));

    tree.put("0/state", "update_schemes_tried_bytes");
    assert_eq!(read("tried_regions/total_bytes"), "8192\n");
    assert_eq!(tree.files(&format!("{SCHEME}/tried_regions")).len(), 1);
    tree.put("0/state", "update_schemes_tried_regions");
    assert_eq!(read("tried_regions/1/start"), "16384\n");
    assert_eq!(read("tried_regions/1/end"), "20480\n");
    assert_eq!(read("tried_regions/1/nr_accesses"), "3\n");
    assert_eq!(read("tried_regions/1/age"), "7\n");
    assert_eq!(read("tried_regions/1/sz_filter_passed"), "5\n");
    assert_eq!(read("tried_regions/1/probes/0/hits"), "9\n");
    tree.put("0/state", "clear_schemes_tried_regions");
    assert_eq!(read("tried_regions/total_bytes"), "0\n");
    assert_eq!(tree.files(&format!("{SCHEME}/tried_regions")).len(), 1);
}

#[test]
fn commands_that_make_no_sense_are_refused() {
    let tree = Tree::with_context();
    let commands = ["commit", "update_schemes_stats", "update_schemes_tried_regions"];
    for command in commands {
        assert_eq!(tree.write("0/state", command), Err(Errno::INVAL), "{command}: never started");
    }
    assert_eq!(tree.write("0/state", "off"), Err(Errno::INVAL), "never started");
    tree.put("0/state", "on");
    assert_eq!(tree.write("0/state", "on"), Err(Errno::BUSY));
    assert_eq!(tree.write("nr_kdamonds", "1"), Err(Errno::BUSY));
    tree.put("0/state", "off");
    assert_eq!(tree.write("0/state", "off"), Err(Errno::PERM), "not running");
    for command in commands {
        assert_eq!(tree.write("0/state", command), Err(Errno::CANCELED), "{command}: stopped");
    }
    assert_eq!(tree.read("0/pid").as_deref(), Ok("-1\n"));
    tree.put("0/state", "on");
    tree.put("0/contexts/nr_contexts", "0");
    for command in commands {
        assert_eq!(tree.write("0/state", command), Err(Errno::INVAL), "{command}: no context");
    }
    tree.put("0/state", "off");
    assert_eq!(tree.write("0/state", "on"), Err(Errno::INVAL), "no context");
}

#[test]
fn a_configuration_that_cannot_be_is_refused_with_its_errno() {
    let region = "0/contexts/0/targets/0/regions";
    let nr_regions = format!("{region}/nr_regions");
    let filter = format!("{SCHEME}/filters");
    let with = |writes: &[(&str, &str)]| {
        let tree = staged();
        for (path, text) in writes {
            tree.put(path, text);
        }
        let refused = tree.write("0/state", "on").expect_err("it cannot be");
        assert!(tree.engine.told.lock().unwrap().is_empty(), "nothing was started");
        refused
    };
    let two = ("0/contexts/0/targets/nr_targets", "2");
    assert_eq!(with(&[two, ("0/contexts/0/operations", "paddr")]), Errno::INVAL);
    assert_eq!(with(&[("0/contexts/0/targets/0/obsolete_target", "Y")]), Errno::INVAL);
    assert_eq!(
        with(&[(nr_regions.as_str(), "1"), (&format!("{region}/0/start"), "5")]),
        Errno::INVAL
    );
    let of = |kind| [(format!("{filter}/nr_filters"), "1"), (format!("{filter}/0/type"), kind)];
    for (kind, bound) in [("addr", "addr_start"), ("hugepage_size", "min")] {
        let [nr, kind] = of(kind);
        let writes = [
            (nr.0.as_str(), nr.1),
            (kind.0.as_str(), kind.1),
            (&format!("{filter}/0/{bound}"), "5"),
        ];
        assert_eq!(with(&writes), Errno::NOMEM, "{kind:?}");
    }
}

#[test]
fn directories_that_were_removed_meanwhile_are_left_out() {
    let tree = staged();
    tree.put("0/state", "on");
    tree.put("0/contexts/0/schemes/nr_schemes", "1");
    tree.put("0/state", "update_schemes_stats");
    tree.put("0/contexts/0/schemes/nr_schemes", "0");
    for command in ["update_schemes_stats", "update_schemes_tried_regions"] {
        tree.put("0/state", command);
    }
    assert_eq!(tree.files("0/contexts/0/schemes"), ["0/contexts/0/schemes/nr_schemes"]);
}

#[test]
fn a_slow_command_keeps_only_what_needs_its_lock() {
    let tree = staged();
    tree.put("0/state", "on");
    let worker = tree.engine.workers.lock().unwrap()[0].clone();
    let gate = worker.hold_walk();
    std::thread::scope(|scope| {
        let walk = scope.spawn(|| tree.write("0/state", "update_schemes_tried_regions"));
        let start = Instant::now();
        while tree.read("0/state") != Err(Errno::BUSY) {
            assert!(start.elapsed() < Duration::from_secs(20), "the command begins");
            std::thread::yield_now();
        }
        assert_eq!(tree.write("0/state", "off"), Err(Errno::BUSY));
        assert_eq!(tree.read("0/pid"), Err(Errno::BUSY));
        for nr in ["nr_kdamonds", "0/contexts/nr_contexts", "0/contexts/0/targets/nr_targets"] {
            assert_eq!(tree.write(nr, "1"), Err(Errno::BUSY), "{nr}");
            assert_eq!(tree.write(nr, "-1"), Err(Errno::INVAL), "{nr}: read before the lock");
            assert_eq!(tree.read(nr).as_deref(), Ok("1\n"), "{nr}: read without the lock");
        }
        tree.put("0/contexts/0/monitoring_attrs/intervals/sample_us", "1");
        drop(gate);
        assert!(walk.join().unwrap().is_ok());
    });
    tree.put("0/state", "off");
    assert!(!worker.runs.load(Ordering::SeqCst));
}

#[test]
fn files_refresh_by_themselves_if_that_is_wanted() {
    let tree = staged();
    tree.put("0/state", "on");
    tree.put("0/refresh_ms", "1");
    let start = Instant::now();
    while tree.read(&format!("{SCHEME}/stats/nr_tried")).as_deref() != Ok("1\n") {
        assert!(start.elapsed() < Duration::from_secs(20), "it is refreshed");
        std::thread::sleep(Duration::from_millis(5));
    }
    tree.put("0/state", "off");
}
