//! `isotherm plan -p`: watches a process first, and leaves nothing behind.

use std::fs;

use serde_json::Value;

use crate::program::{ISOTHERM, Running, command, isotherm, scratch, shell, wait_until};

#[test]
fn a_process_is_watched_and_planned_for() {
    let dir = scratch();
    fs::write(dir.path().join("w.cfg"), "h, 8M\nc, 56M\n\nall\n3600000\nh, 0, 64, 1, rw\n")
        .unwrap();
    let workload = command(ISOTHERM, dir.path(), &["workload", "-q", "--truth", "t", "w.cfg"]);
    let workload = Running::start(workload);
    let begun = || fs::read_to_string(dir.path().join("t")).is_ok_and(|t| t.contains("\"phase\""));
    wait_until("the workload", begun);
    let pid = workload.pid();
    // A clock tick of its own is a unit of work: a hundred per second at most.
    let ticks = format!("awk '{{ print $14 + $15 }}' /proc/{pid}/stat");
    let plan = format!(
        "plan -p {pid} --duration 27s --refault-cost 20us -o p.toml --json --progress-cmd \"{ticks}\""
    )
    .replace('$', "\\$");
    fs::create_dir(dir.path().join("tmp")).unwrap();
    let said = shell(dir.path(), &format!("TMPDIR=$PWD/tmp $ISOTHERM {plan}"));
    if matches!(said.code, Some(3 | 4)) {
        eprintln!("skipped: processes cannot be watched here: {}", said.err);
        return;
    }
    said.expect(0, &["watching for 27s"]);
    let plan: Value = serde_json::from_str(&said.out).unwrap();
    if plan["by_pages"] == false {
        eprintln!("skipped: page tables cannot be read here: {plan:#}");
        return;
    }
    let price = &plan["price"];
    let work = price["work_per_s"].as_f64().unwrap();
    assert!((5.0..110.0).contains(&work), "{price:#}");
    // One thread, and no more is said of it.
    assert_eq!(price["cpus"].as_f64().map(f64::round), Some(1.0), "{price:#}");
    let row = plan["rows"].as_array().unwrap().iter().find(|row| row["age_s"] == 5.0).unwrap();
    let share = row["saved_share"]["mid"].as_f64().unwrap();
    // The program itself is resident as well.
    assert!((0.6..0.95).contains(&share), "{plan:#}");
    assert!(row["refaults_per_s"]["mid"].as_f64().unwrap() < 20.0, "{plan:#}");
    let policy = fs::read_to_string(dir.path().join("p.toml")).unwrap();
    assert!(policy.contains(&format!("pid = {pid}")), "{policy}");
    assert_eq!(fs::read_dir(dir.path().join("tmp")).unwrap().count(), 0);
    workload.assert_untouched();
}

#[test]
fn a_counter_that_counts_nothing_is_told_before_there_is_a_plan() {
    let dir = scratch();
    let target = Running::sleeper(dir.path());
    let pid = target.pid();
    let plan = format!("plan -p {pid} --duration 1s");
    isotherm(dir.path(), &format!("{plan} --progress none")).expect(2, &["cannot read none"]);
    let record = isotherm(dir.path(), "plan --progress none");
    record.expect(2, &["read while a program is watched", "-p PID"]);
    fs::write(dir.path().join("work"), "7\n").unwrap();
    let said = isotherm(dir.path(), &format!("{plan} --progress work"));
    if matches!(said.code, Some(3 | 4)) {
        eprintln!("skipped: processes cannot be watched here: {}", said.err);
        return;
    }
    said.expect(2, &["work counted in work: it did not grow while the program was watched"]);
}

#[test]
fn who_has_ended_is_told_and_there_is_no_plan() {
    let dir = scratch();
    let gone = Running::sleeper(dir.path());
    let pid = gone.pid();
    drop(gone);
    let said = isotherm(dir.path(), &format!("plan -p {pid} --duration 5s -o p.toml"));
    assert!(matches!(said.code, Some(3..=5)), "{said:#?}");
    assert!(said.err.contains("watching failed"), "{said:#?}");
    assert!(!dir.path().join("p.toml").exists());
}
