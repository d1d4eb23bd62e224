//! The method `census` over idle page tracking, from `isotherm record` to its score, on a kernel
//! that has it.
//!
//! The tests run only if `ISOTHERM_LAB=1` says that the machine is for tests, because all programs
//! share the marks.
#![expect(clippy::unwrap_used, clippy::print_stderr, reason = "a failing test says enough")]

#[path = "common/late.rs"]
mod late;

use std::path::Path;
use std::process::Command;

use serde_json::Value;

use late::is_done;

/// 41 of 1024 pieces are hot.
const SCATTERED: &str = "m, 256M\n\nsteady\n600000\nm, 1, 64, 1, rw, pieces=256K, share=4, hz=50\n";

fn isotherm() -> Command {
    Command::new(env!("CARGO_BIN_EXE_isotherm"))
}

fn can_run() -> bool {
    let is_lab = std::env::var_os("ISOTHERM_LAB").is_some();
    let has_it = Path::new("/sys/kernel/mm/page_idle/bitmap").exists();
    if !is_lab || !has_it {
        eprintln!("skipped: not the lab, or its kernel has no idle page tracking");
    }
    is_lab && has_it
}

/// What the command says, and that it worked.
fn said(command: &mut Command) -> String {
    let output = command.output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(is_done(output.status.code(), &said), "{said}");
    said + &String::from_utf8(output.stdout).unwrap()
}

/// Records the workload, and returns what was said and its score.
fn record(more: &[&str]) -> (String, Value) {
    let dir = tempfile::tempdir().unwrap();
    let path = |name: &str| dir.path().join(name).to_str().unwrap().to_owned();
    let (cfg, truth, record) = (path("test.cfg"), path("truth"), path("record.isotherm"));
    std::fs::write(&cfg, SCATTERED).unwrap();
    let mut command = isotherm();
    command.args(["record", "--ops", "idle", "--sample", "50ms", "--aggr", "1s"]).args(more);
    command.args(["--duration", "25s", "-o", &record, "--"]).arg(env!("CARGO_BIN_EXE_isotherm"));
    let told = said(command.args(["workload", &cfg, "--truth", &truth, "-q"]));
    let score = said(isotherm().args(["score", &record, &truth, "--json", "--from", "15s"]));
    eprintln!("{score}");
    (told, serde_json::from_str(&score).unwrap())
}

#[test]
fn scattered_blocks_are_found_by_units() {
    if !can_run() {
        return;
    }
    let (_, score) = record(&["--method", "census", "--budget", "10%"]);
    let number = |name: &str| score[name].as_f64().unwrap();
    assert!(number("precision") >= 0.8 && number("recall") >= 0.8, "{score}");
    assert!(score["pages"]["recall"].as_f64().unwrap() >= 0.7, "{score}");
}

#[test]
fn census_is_taken_only_if_it_was_asked_for() {
    if !can_run() {
        return;
    }
    let (told, score) = record(&[]);
    assert!(told.contains("`--method census` looks at every page"), "{told}");
    assert!(score["pages"].is_null(), "{score}");
}

#[test]
fn physical_memory_has_units_as_well() {
    if !can_run() {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let record = dir.path().join("p.data");
    let mut command = isotherm();
    command.args(["record", "--paddr", "--ops", "idle", "--method", "census", "--budget", "20%"]);
    command.args(["--sample", "100ms", "--aggr", "1s", "--duration", "15s", "-q", "-o"]);
    said(command.arg(&record));
    let report = said(isotherm().args(["report", "memory", "--json"]).arg(&record));
    let report: Value = serde_json::from_str(&report).unwrap();
    assert!(report["bytes"].as_f64().unwrap() > f64::from(256 << 20), "{report:#}");
    let wss = said(isotherm().args(["report", "wss"]).arg(&record));
    assert!(wss.contains("touched within"), "{wss}");
}
