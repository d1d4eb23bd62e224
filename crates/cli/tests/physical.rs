//! Physical memory on a machine whose kernel tracks idle pages: what a record says about a
//! workload's hot and cold bytes, by owner and by kind.
//!
//! The tests run only if `ISOTHERM_LAB=1` says that the machine is for tests, because all programs
//! share the marks.
#![expect(clippy::unwrap_used, reason = "a failing test says enough")]

mod common;

use std::process::Stdio;
use std::time::{Duration, Instant};

use common::{Guard, isotherm};
use serde_json::Value;

const MIB: f64 = 1_048_576.0;

fn report(record: &std::path::Path, by: &str) -> Value {
    let out = isotherm().args(["report", "memory", "--json", "--by", by]).arg(record).output();
    let out = out.unwrap();
    assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
    serde_json::from_slice(&out.stdout).unwrap()
}

/// MiB of the line that `is` picks: all, hot, cold.
fn line(report: &Value, is: impl Fn(&Value) -> bool) -> [f64; 3] {
    let lines = report["lines"].as_array().unwrap();
    let found = lines.iter().find(|l| is(l)).unwrap_or_else(|| panic!("not there: {report:#}"));
    ["bytes", "hot", "cold"].map(|key| found[key].as_f64().unwrap() / MIB)
}

/// Waits for a condition that must become true. The limit only ends a test that hangs.
#[track_caller]
fn wait_until(what: &str, mut done: impl FnMut() -> bool) {
    let end = Instant::now() + Duration::from_secs(120);
    while !done() {
        assert!(Instant::now() < end, "waited in vain for {what}");
        std::thread::sleep(Duration::from_millis(50));
    }
}

#[test]
fn hot_and_cold_bytes_of_an_owner_agree_with_the_truth() {
    if std::env::var("ISOTHERM_LAB").as_deref() != Ok("1") {
        eprintln!("skipped: ISOTHERM_LAB=1 is not set");
        return;
    }
    if !std::path::Path::new("/sys/kernel/mm/page_idle/bitmap").exists() {
        eprintln!("skipped: this kernel has no idle page tracking");
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let config = dir.path().join("hotcold.cfg");
    // 128 MiB stay hot; 256 MiB are touched once.
    let text = "hot, 134217728\ncold, 268435456\n\nall\n3000\nhot, 1, 64, 1\ncold, 1, 64, 1\n\nrun\n600000\nhot, 1, 64, 1\n";
    std::fs::write(&config, text).unwrap();
    let truth = dir.path().join("truth");
    let mut workload = isotherm();
    workload.args(["workload", "-q"]).arg(&config).arg("--truth").arg(&truth);
    let workload = Guard(workload.stdout(Stdio::null()).spawn().unwrap());
    // Its first phase touches all of it.
    wait_until("the second phase", || {
        let text = std::fs::read_to_string(&truth).unwrap_or_default();
        let lines = text.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
        lines.into_iter().any(|line| line["t"] == "phase" && line["i"] == 1)
    });
    let record = dir.path().join("p.data");
    let status = isotherm()
        .args(["record", "--paddr", "--ops", "idle", "-q", "--sample", "100ms", "--aggr", "1s"])
        .args(["--duration", "40s", "-o"])
        .arg(&record)
        .status();
    assert!(status.unwrap().success());
    let pid = u64::from(workload.0.id());
    let owners = report(&record, "owner");
    let [all, hot, cold] = line(&owners, |l| l["pid"].as_u64() == Some(pid));
    // The sample's error (90 %) is 13 MiB for the hot part on 2 GiB. Three times that is no
    // statistical error any more.
    let error = 3.0 * owners["lines"][0]["error_hot"].as_f64().unwrap() / MIB;
    eprintln!("all {all:.0} MiB, hot {hot:.0} (128), cold {cold:.0} (256), +- {error:.0}");
    assert!((hot - 128.0).abs() < error, "hot {hot} of 128 MiB\n{owners:#}");
    assert!((cold - 256.0).abs() < error * 1.5, "cold {cold} of 256 MiB\n{owners:#}");
    let [anon, ..] = line(&report(&record, "kind"), |l| l["name"] == "anon");
    assert!(anon > 384.0 - error * 1.5, "{anon}");
    // The groups of a report add up to all of memory, whatever the lines are grouped by.
    let sum = |by: &str| {
        let report = report(&record, by);
        let lines = report["lines"].as_array().unwrap().clone();
        lines.iter().map(|l| l["bytes"].as_f64().unwrap()).sum::<f64>() / MIB
    };
    let total = owners["bytes"].as_f64().unwrap() / MIB;
    for by in ["node", "cgroup", "owner", "kind"] {
        assert!((sum(by) - total).abs() < 0.01, "{by}: {} of {total}", sum(by));
    }
}
