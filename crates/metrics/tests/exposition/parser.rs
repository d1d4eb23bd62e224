//! Prometheus' own parser for Python reads both formats.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;

use isotherm_metrics::families::{Kind, families};
use isotherm_metrics::text::{openmetrics, plain};

use crate::made_up::reading;

/// The version that is tested with.
const VERSION: &str = "prometheus_client==0.22.1";

/// A Python with the parser, or why there is none.
fn python() -> Result<PathBuf, String> {
    let venv = Path::new(env!("CARGO_TARGET_TMPDIR")).join(VERSION.replace("==", "-"));
    let python = venv.join("bin/python");
    let has_it = |python: &Path| {
        let import = ["-c", "import prometheus_client.openmetrics.parser"];
        Command::new(python).args(import).stderr(Stdio::null()).status().is_ok_and(|s| s.success())
    };
    if has_it(&python) {
        return Ok(python);
    }
    let run = |program: &Path, args: &[&str]| {
        let done = Command::new(program).args(args).output().map_err(|e| e.to_string())?;
        let said = String::from_utf8_lossy(&done.stderr).trim().to_owned();
        if done.status.success() { Ok(()) } else { Err(said) }
    };
    run(Path::new("python3"), &["-m", "venv", &venv.display().to_string()])?;
    let install = ["-m", "pip", "install", "-q", "--disable-pip-version-check", VERSION];
    run(&python, &install)?;
    Ok(python)
}

/// Prints every sample as `NAME VALUE` with the kind of its family.
const PRINT: &str = r"
import sys
if sys.argv[1] == 'openmetrics':
    from prometheus_client.openmetrics.parser import text_string_to_metric_families as parse
else:
    from prometheus_client.parser import text_string_to_metric_families as parse
for family in parse(sys.stdin.read()):
    for sample in family.samples:
        print(family.type, family.unit or '-', sample.name, len(sample.labels), float(sample.value))
";

fn parsed(python: &Path, format: &str, text: &str) -> Vec<String> {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("text");
    std::fs::write(&file, text).unwrap();
    let done = Command::new(python)
        .args(["-c", PRINT, format])
        .stdin(std::fs::File::open(&file).unwrap())
        .output()
        .unwrap();
    assert!(done.status.success(), "{}\n{text}", String::from_utf8_lossy(&done.stderr));
    String::from_utf8(done.stdout).unwrap().lines().map(str::to_owned).collect()
}

/// `promtool` of Prometheus knows what its people want of names, and reads rules.
#[test]
fn promtool_has_nothing_to_say() {
    let promtool = |args: &[&str], text: &str| {
        let mut child = Command::new("promtool")
            .args(args)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()?;
        // What has read enough and ended is no error here; its status tells.
        child.stdin.take().map(|mut pipe| pipe.write_all(text.as_bytes()));
        child.wait_with_output()
    };
    let done = match promtool(&["check", "metrics"], &plain(&Arc::new(reading(3)))) {
        Ok(done) => done,
        Err(err) => {
            println!("skipped: promtool (Debian package `prometheus`) cannot be run: {err}");
            return;
        }
    };
    let said = String::from_utf8_lossy(&done.stdout) + String::from_utf8_lossy(&done.stderr);
    assert!(done.status.success() && said.trim().is_empty(), "{}: {said}", done.status);
    let rules = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../packaging/prometheus");
    let rules = rules.join("isotherm.rules.yml").display().to_string();
    let done = promtool(&["check", "rules", &rules], "").unwrap();
    let said = String::from_utf8_lossy(&done.stdout) + String::from_utf8_lossy(&done.stderr);
    assert!(done.status.success(), "{}: {said}", done.status);
}

#[test]
fn the_official_parser_reads_both_formats_alike() {
    let python = match python() {
        Ok(python) => python,
        Err(why) => {
            println!("skipped: {VERSION} cannot be installed: {why}");
            return;
        }
    };
    let reading = Arc::new(reading(3));
    let of_new = parsed(&python, "openmetrics", &openmetrics(&reading));
    for line in [
        "info - isotherm_build_info 2 1.0",
        "counter seconds isotherm_overhead_cpu_seconds_total 0 1.5",
        "counter seconds isotherm_target_cpu_seconds_total 1 0.25",
        "gauge bytes isotherm_target_bytes 6 8388608.0",
        "gauge - isotherm_scheme_goal_ratio 4 0.25",
        "gauge seconds isotherm_last_snapshot_timestamp_seconds 1 1700000000.5",
        "counter bytes isotherm_scheme_done_bytes_total 3 8388608.0",
        "histogram seconds isotherm_sample_duration_seconds_bucket 2 9.0",
        "histogram seconds isotherm_sample_duration_seconds_count 1 10.0",
        "histogram seconds isotherm_sample_duration_seconds_sum 1 1.5",
    ] {
        assert!(of_new.iter().any(|known| known == line), "{line}: {of_new:#?}");
    }
    let of_old = parsed(&python, "plain", &plain(&reading));
    let samples = |lines: &[String]| -> Vec<String> {
        lines.iter().map(|l| l.splitn(3, ' ').nth(2).unwrap_or_default().to_owned()).collect()
    };
    assert_eq!(samples(&of_new), samples(&of_old));
    assert!(!of_old.iter().any(|line| line.starts_with("unknown")), "{of_old:#?}");
    for family in families() {
        let suffix = if family.kind == Kind::Histogram { "_bucket" } else { "" };
        let name = format!(" {}{suffix} ", family.sample_name());
        assert!(of_new.iter().any(|line| line.contains(&name)), "{name}");
    }
}
