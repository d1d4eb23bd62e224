//! Stopped processes: the target, and Isotherm itself.

use isotherm::raw::sys::clock;
use serde_json::Value;

use crate::program::{ISOTHERM, Running, command, isotherm, scratch, snapshots, wait_until};
use crate::target::{MIB, Target};
use crate::watch::Watch;

#[test]
fn a_target_that_is_stopped_for_a_while() {
    let Some(mut target) = Target::start(64 * MIB) else { return };
    let hot = target.heat(16 * MIB, 16 * MIB);
    let Some(mut watch) = Watch::start(target.pid()) else { return };
    watch.expect_hot(Some(hot));
    watch.until_hot(hot);
    // What stands still is cold: it is seen, though the target does nothing.
    watch.expect_hot(None);
    target.signal("STOP");
    watch.until("memory that has gone cold", |w| w.cold_percent(hot) >= 90);
    target.signal("CONT");
    watch.until_hot(hot);
    watch.expect_hot(Some(hot));
    watch.windows(20);
    watch.until_hot(hot);
    watch.assert_cheap();
}

#[test]
fn an_isotherm_that_is_stopped_for_a_while() {
    let Some(mut target) = Target::start(64 * MIB) else { return };
    let hot = target.heat(16 * MIB, 16 * MIB);
    let (dir, pid) = (scratch(), target.pid().to_string());
    let args = ["record", "--method", "census", "--budget", "5%", "-o", "r.data", "-p", &pid];
    let recorder = Running::start(command(ISOTHERM, dir.path(), &args));
    wait_until("snapshots", || snapshots(dir.path(), "r.data") > 10);
    recorder.signal("STOP");
    wait_until("the stop", || recorder.state() == 'T');
    let stopped = clock::now();
    wait_until("some seconds", || clock::now().since(stopped) > 2_500_000_000);
    recorder.signal("CONT");
    let continued = clock::now();
    let of = |said: &str| -> Vec<Value> {
        said.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    };
    let windows = || of(&isotherm(dir.path(), "report regions --json r.data").out);
    let after = |line: &Value| line["t_ns"].as_u64() > Some(continued.0);
    // Most of the hot memory is hot in some window after that.
    let is_hot = |line: &Value| {
        let region = |r: &Value| {
            let [start, end, nr, most] =
                ["start", "end", "nr_accesses", "max_nr_accesses"].map(|n| r[n].as_u64().unwrap());
            let bytes = end.min(hot.end).saturating_sub(start.max(hot.start));
            if nr * 2 >= most { bytes } else { 0 }
        };
        let regions = line["regions"].as_array().unwrap();
        regions.iter().map(region).sum::<u64>() * 10 >= hot.len() * 9
    };
    wait_until("hot memory", || windows().iter().filter(|l| after(l)).any(is_hot));
    recorder.signal("TERM");
    let said = recorder.finish();
    assert!(said.err.contains("interrupted"), "{said:#?}");
    // It is told, and if it is much of the time (which depends on how long the rest took), it is
    // the exit code.
    assert!(said.err.contains("took at least twice as long"), "{said:#?}");
    assert!(matches!(said.code, Some(0 | 6)), "{said:#?}");
    // Windows are in order, and the stop is in one of them or between two: time is real.
    let ends: Vec<u64> = windows().iter().map(|line| line["t_ns"].as_u64().unwrap()).collect();
    assert!(ends.is_sorted(), "{ends:?}");
    let longest = ends.windows(2).map(|two| two[1] - two[0]).max().unwrap();
    assert!(longest >= 2_000_000_000, "{longest}");
    // What was looked at late is not called idle: hot pages were touched within every second.
    let args = format!("report pages --json --address {:#x}-{:#x} r.data", hot.start, hot.end);
    let said = isotherm(dir.path(), &args);
    let pages: Value = serde_json::from_str(&said.expect(0, &[]).out).unwrap();
    let second = &pages["mappings"][0]["touched"][2];
    assert!(second["bytes"].as_u64() >= Some(hot.len()), "{pages}");
}
