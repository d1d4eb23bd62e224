//! `isotherm idle`: what is said when it cannot be done, and a real run where it can.
//!
//! One scanner may run per machine, so these tests take turns, and wait for others.

use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::program::{Said, isotherm, scratch};

static TURN: Mutex<()> = Mutex::new(());

/// Runs it, again if another scanner is at work on this machine. `None`: this machine does not allow it.
fn idle(args: &str) -> Option<Said> {
    let _turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
    let dir = scratch();
    let begin = Instant::now();
    loop {
        let said = isotherm(dir.path(), &format!("idle {args}"));
        if said.err.contains("isotherm-idle.lock") && begin.elapsed() < Duration::from_secs(120) {
            std::thread::sleep(Duration::from_millis(200));
            continue;
        }
        if [Some(3), Some(4)].contains(&said.code) {
            // The way out has to be told at least.
            said.expect(said.code.unwrap(), &["tried:", "why:"]);
            eprintln!("skipped: {}", said.err);
            return None;
        }
        return Some(said);
    }
}

#[test]
fn arguments_that_cannot_be() {
    let dir = scratch();
    for (args, parts) in [
        ("--interval 10ms", &["too short", "hint:"][..]),
        ("--interval soon", &["soon"]),
        ("--cpu 0", &["above 0"]),
        ("--cpu 101", &["up to 100"]),
        ("--ops smaps", &["smaps", "pagewalk"]),
        ("--frobnicate", &["--frobnicate", "Usage"]),
    ] {
        isotherm(dir.path(), &format!("idle {args}")).expect(2, parts);
    }
}

#[test]
fn a_pattern_that_matches_nothing_says_what_there_is() {
    let Some(said) = idle("--once --interval 200ms --cgroup no/such/*") else { return };
    said.expect(2, &["no cgroup matches `no/such/*`", "there are: /", "hint:"]);
}

#[test]
fn one_report_of_the_whole_machine() {
    let Some(said) = idle("--once --interval 500ms --json --cpu 5") else { return };
    said.expect(0, &[]);
    let report: Value = serde_json::from_str(&said.out).unwrap();
    assert!(["idle", "pagewalk"].contains(&report["method"].as_str().unwrap()), "{report}");
    assert_eq!(report["round"], 1);
    assert!(report["longest_ns"].as_u64() >= Some(500_000_000), "{report}");
    let cgroups = report["cgroups"].as_array().unwrap();
    let of = |row: &Value, field: &str| row["all"][field].as_u64().unwrap();
    for pair in cgroups.windows(2) {
        assert!(of(&pair[0], "idle_bytes") >= of(&pair[1], "idle_bytes"), "sorted by idle bytes");
    }
    let root = cgroups.iter().find(|row| row["cgroup"] == "/").expect("the root");
    assert!(
        of(root, "idle_bytes") > 0,
        "nothing on this machine is idle for half a second: {root}"
    );
    for row in cgroups {
        let parts: u64 =
            ["anon_bytes", "mapped_bytes", "unmapped_bytes"].map(|f| of(row, f)).iter().sum();
        assert!(of(row, "idle_bytes").abs_diff(parts) <= 3, "{row}");
        let inside = row["cgroup"].as_str().is_some_and(|path| path.starts_with('/'));
        let own = row["own"]["idle_bytes"].as_u64().unwrap();
        assert!(own <= of(row, "idle_bytes") + 3, "{row}");
        assert!(!inside || of(row, "idle_bytes") <= of(root, "idle_bytes") + 3, "{row} and {root}");
    }
    if report["method"] == "pagewalk" {
        said.expect(0, &["unmapped page cache is not seen"]);
        assert_eq!(report["unmapped_seen"], false);
        assert!(report["unknown"]["processes"].as_u64() > Some(0));
    }
}

#[test]
fn the_table_has_a_row_per_cgroup_and_says_how() {
    let Some(said) = idle("--once --interval 200ms --cgroup / --cpu 5") else { return };
    said.expect(0, &[]);
    let lines: Vec<&str> = said.out.lines().collect();
    assert!(lines[0].starts_with("idle for 0.2s and longer"), "{said:#?}");
    assert!(lines.iter().any(|l| l.ends_with("  cgroup")), "{said:#?}");
    assert!(lines.last().is_some_and(|l| l.contains("  /")), "{said:#?}");
}
