//! The method `census`, which is the default, on real processes, held against their truth: hot
//! memory that is scattered, and hot memory that stays shared after a fork.
#![expect(clippy::unwrap_used, clippy::print_stderr, reason = "in a test")]

use std::process::Command;
use std::sync::Mutex;

/// One at a time: they measure.
static ONE: Mutex<()> = Mutex::new(());

fn isotherm() -> Command {
    Command::new(env!("CARGO_BIN_EXE_isotherm"))
}

/// Records a workload for 12 s, and scores the last four. Nothing, if the set cannot be used here.
fn score(config: &str) -> Option<serde_json::Value> {
    // A busy machine may need some seconds until all was armed once.
    let record = record(config, "5%", "12s")?;
    page_maps_are_reported(&record.path("record.isotherm"));
    Some(record.score("8s"))
}

/// A record and the truth about it.
struct Recorded(tempfile::TempDir);

impl Recorded {
    fn path(&self, name: &str) -> String {
        self.0.path().join(name).to_str().unwrap().to_owned()
    }

    /// From some time after the beginning of the accesses on.
    fn score(&self, from: &str) -> serde_json::Value {
        let (record, truth) = (self.path("record.isotherm"), self.path("truth"));
        let args = ["score", &record, &truth, "--json", "--from", from];
        let output = isotherm().args(args).output().unwrap();
        let score: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
        eprintln!("{score}");
        score
    }
}

/// Records a workload with a budget for so long. Nothing, if the set cannot be used here.
fn record(config: &str, budget: &str, duration: &str) -> Option<Recorded> {
    let _one = ONE.lock();
    let dir = Recorded(tempfile::tempdir().unwrap());
    let [cfg, truth, record] = ["test.cfg", "truth", "record.isotherm"].map(|name| dir.path(name));
    std::fs::write(&cfg, config).unwrap();
    let output = isotherm()
        // The record ends first: a workload that ends gives its memory back.
        .args(["record", "--budget", budget, "--duration", duration, "-o", &record, "--"])
        .arg(env!("CARGO_BIN_EXE_isotherm"))
        .args(["workload", &cfg, "--truth", &truth, "-q"])
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}");
    if !said.contains("`pagewalk` passed") {
        eprintln!("skipped: the set pagewalk cannot be used here: {said}");
        return None;
    }
    Some(dir)
}

fn assert_right(score: &serde_json::Value) {
    let number = |name: &str| score[name].as_f64().unwrap();
    assert!(number("windows") >= 10.0, "{score}");
    assert!(score["pages"]["recall"].as_f64().unwrap() >= 0.8, "{score}");
    assert!(number("precision") >= 0.9 && number("recall") >= 0.9, "{score}");
}

/// The record has the pages of the hot pieces.
fn page_maps_are_reported(record: &str) {
    let said = |args: &[&str]| {
        let output = isotherm().args(args).arg(record).output().unwrap();
        assert!(output.status.success(), "{args:?}: {}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap()
    };
    let pages: serde_json::Value =
        serde_json::from_str(&said(&["report", "pages", "--json"])).unwrap();
    let most = &pages["mappings"][0];
    let window = most["touched"][1]["bytes"].as_u64().unwrap();
    assert!((9 << 20..=128 << 20).contains(&window), "{most}");
    assert!(said(&["report", "pages", "--units"]).lines().count() > 32);
    assert!(said(&["report", "mappings"]).contains("hot pages"));
    let wss = said(&["report", "wss"]);
    assert!(wss.contains("touched within") && wss.contains("\n100ms "), "{wss}");
    assert!(said(&["report", "wss", "--by", "regions"]).contains("by size"));
    assert!(said(&["export", "--table", "pages", "--format", "csv"]).lines().count() > 32);
}

#[test]
fn scattered_blocks_are_found() {
    // 41 of 1024 pieces.
    let config = "m, 256M\n\nsteady\n60000\nm, 1, 64, 1, rw, pieces=256K, share=4, hz=200\n";
    let Some(score) = score(config) else { return };
    assert_right(&score);
}

/// Advice makes no page old that has become shared, and what was known of a unit is lost where it
/// is tried. So one unit after the other became unresolved.
#[test]
fn what_was_known_before_a_fork_stays_known() {
    let config = "@processes=2\n@fork_ms=1500\ncommon, 256M\nown, 8M\n\nsteady\n60000\n\
                  common, 1, 64, 1, ro, pieces=256K, share=10, hz=50\n\
                  own, 1, 64, 1, rw, length=4M, hz=100\n";
    // All memory is made old once at the start and once for the fork. The second time comes when
    // the first one is paid for: after 6 to 12 s on one machine.
    let Some(record) = record(config, "1%", "26s") else { return };
    let score = record.score("17s");
    assert!(score["windows"].as_f64().unwrap() >= 10.0, "{score}");
    assert!(score["pages"]["recall"].as_f64().unwrap() >= 0.95, "{score}");
    assert!(score["unresolved"].as_f64().unwrap() <= 0.01, "{score}");
}

#[test]
fn memory_that_stays_shared_after_a_fork_is_found() {
    let config = "@processes=2\n@fork_ms=500\ncommon, 32M\nown, 32M\n\nsteady\n60000\n\
                  common, 1, 64, 1, ro, offset=4M, length=16M, hz=200\n\
                  own, 1, 64, 1, rw, length=4M, hz=200\n";
    let Some(score) = score(config) else { return };
    assert_right(&score);
    // Without a way to make shared pages old, half of the memory would be unresolved.
    let unresolved = score["unresolved"].as_f64().unwrap();
    assert!(unresolved <= 0.1, "{score}");
}

/// Whether page tables have five levels here, so that a program can have memory above 2^47.
fn has_five_levels() -> bool {
    let cpuinfo = std::fs::read_to_string("/proc/cpuinfo").unwrap();
    cpuinfo.lines().any(|l| l.starts_with("flags") && l.split(' ').any(|flag| flag == "la57"))
}

/// `lab/matrix --feature five-levels` boots a machine that has them.
#[test]
fn memory_above_2_to_the_47_is_found() {
    if !has_five_levels() {
        eprintln!("skipped: the page tables of this machine have no fifth level");
        return;
    }
    // Below and above what four levels reach, the latter in two parts of the fifth.
    let pattern = |name: &str| format!("{name}, 1, 64, 1, rw, pieces=256K, share=10, hz=100\n");
    let config = format!(
        "low, 16M\nhigh, 32M, at=0x800000000000\nhighest, 16M, at=0xfffffc00000000\n\n\
         steady\n90000\n{}{}{}",
        pattern("low"),
        pattern("high"),
        pattern("highest")
    );
    // Such machines are emulated, where the workload needs seconds to start.
    let record = record(&config, "5%", "30s").expect("pagewalk works with five levels");
    let score = record.score("8s");
    assert_right(&score);
    assert_eq!(score["unresolved"].as_f64(), Some(0.0), "{score}");
    let output = isotherm()
        .args(["report", "mappings", "--json", &record.path("record.isotherm")])
        .output()
        .unwrap();
    let report: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    let mappings = report["mappings"].as_array().unwrap();
    for (address, mib) in [("0x800000000000", 32.0), ("0xfffffc00000000", 16.0)] {
        let of = |m: &&serde_json::Value| m["name"].as_str().unwrap().ends_with(address);
        let mapping = mappings.iter().find(of).expect(address);
        let hot = mapping["pages"]["hot"].as_f64().unwrap() / f64::from(1 << 20);
        assert!((hot - mib / 10.0).abs() < mib / 40.0, "a tenth of {mib} MiB: {mapping}");
    }
}

/// 0.01 % is less than any program needs to wake up ten times a second.
#[test]
fn a_budget_that_is_too_small_is_told_with_what_it_would_take_and_both_shares_of_the_cost() {
    let _one = ONE.lock();
    let dir = tempfile::tempdir().unwrap();
    let record = dir.path().join("record.isotherm");
    let mut sleeper = Command::new("sleep").arg("60").spawn().unwrap();
    let output = isotherm()
        .args(["record", "--budget", "0.01%", "--duration", "5s", "-o"])
        .arg(&record)
        .args(["-p", &sleeper.id().to_string()])
        .output();
    sleeper.kill().unwrap();
    sleeper.wait().unwrap();
    let output = output.unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    if !said.contains("`pagewalk` passed") {
        eprintln!("skipped: the set pagewalk cannot be used here: {said}");
        return;
    }
    let text = said.split("a budget of 0.01% is too small for ").nth(1).expect(&said);
    let least = text.split("a budget of at least ").nth(1).expect(&said);
    let least = least.split('%').next().unwrap().parse::<f64>().unwrap();
    assert!(least > 0.01, "{said}");
    let report = |args: &[&str]| {
        let output = isotherm().arg("report").args(args).arg(&record).output().unwrap();
        String::from_utf8(output.stdout).unwrap()
    };
    assert!(report(&[]).contains("that the targets paid"), "{}", report(&[]));
    let json: serde_json::Value = serde_json::from_str(&report(&["--json"])).unwrap();
    assert!(json["cost"]["cpu_ns"].as_u64().unwrap() > 0, "{json}");
    assert!(json["cost"]["target_ns"].is_u64(), "{json}");
    let warnings = json["warnings"].to_string();
    assert!(warnings.contains("a budget of 0.01% is too small for"), "{warnings}");
}
