//! `--method census` on a real process whose hot memory is scattered, held against its truth.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::fmt::Write as _;
use std::process::Command;

fn isotherm() -> Command {
    Command::new(env!("CARGO_BIN_EXE_isotherm"))
}

/// 40 blocks of 256 KiB, scattered over 256 MiB without a pattern.
fn config() -> String {
    let mut text = "m, 256M\n\nsteady\n60000\n".to_owned();
    for i in 0..40_u64 {
        let at = i * 6400 + (i * 7919) % 24 * 256;
        writeln!(text, "m, 1, 64, 1, rw, offset={at}K, length=256K, hz=200").unwrap();
    }
    text
}

#[test]
fn scattered_blocks_are_found() {
    let dir = tempfile::tempdir().unwrap();
    let path = |name: &str| dir.path().join(name).to_str().unwrap().to_owned();
    let (cfg, truth, record) = (path("blocks.cfg"), path("truth"), path("record.isotherm"));
    std::fs::write(&cfg, config()).unwrap();
    let output = isotherm()
        .args(["record", "--method", "census", "--budget", "5%", "-o", &record, "--"])
        .arg(env!("CARGO_BIN_EXE_isotherm"))
        .args(["workload", &cfg, "--truth", &truth, "--duration", "12s", "-q"])
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}");
    if !said.contains("`pagewalk` passed") {
        return eprintln!("skipped: the set pagewalk cannot be used here: {said}");
    }
    // A busy machine may need some seconds until all was armed once.
    let args = ["score", &record, &truth, "--json", "--from", "8s"];
    let output = isotherm().args(args).output().unwrap();
    let score: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    eprintln!("{score}");
    let number = |name: &str| score[name].as_f64().unwrap();
    assert!(number("windows") >= 10.0, "{score}");
    assert!(number("precision") >= 0.9 && number("recall") >= 0.9, "{score}");
}
