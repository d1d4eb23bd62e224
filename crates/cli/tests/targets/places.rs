//! More targets than can be watched at a time: they are watched in turn, and it is told once.

use std::fs;

use crate::program::{ISOTHERM, Running, command, isotherm, scratch, wait_until};

/// With 170 open files, about a half of 20 processes have a place.
#[test]
fn what_has_no_place_waits_and_is_counted_and_told_once() {
    let dir = scratch();
    let mut sleepers: Vec<_> = (0..20).map(|_| Running::sleeper(dir.path())).collect();
    let pids: Vec<_> = sleepers.iter().map(|s| format!("\"pid:{}\"", s.pid())).collect();
    let policy = format!(
        "[[context]]\nname = \"c\"\ntargets = [{}]\nops = \"pagewalk\"\n[[context.scheme]]\nname = \
         \"all\"\naction = \"stat\"\n",
        pids.join(", ")
    );
    fs::write(dir.path().join("p.toml"), policy).unwrap();
    let check = isotherm(dir.path(), "run --check p.toml");
    if matches!(check.code, Some(3 | 4)) {
        eprintln!("skipped: page tables cannot be read here: {}", check.err);
        return;
    }
    let limited =
        "exec prlimit --nofile=170 \"$0\" run p.toml --duration 5m --metrics-textfile m.prom";
    let mut run = command("sh", dir.path(), &["-c", limited, ISOTHERM]);
    run.stderr(fs::File::create(dir.path().join("said")).unwrap());
    let run = Running::start(run);
    let said = || fs::read_to_string(dir.path().join("said")).unwrap();
    let metric = |name: &str| -> Option<f64> {
        let text = fs::read_to_string(dir.path().join("m.prom")).ok()?;
        let line = text.lines().find(|line| line.starts_with(&format!("{name}{{")))?;
        line.rsplit(' ').next()?.parse().ok()
    };
    wait_until("some wait", || metric("isotherm_targets_waiting").is_some_and(|nr| nr > 0.0));
    let waiting = metric("isotherm_targets_waiting").unwrap();
    assert_eq!(metric("isotherm_targets"), Some(20.0), "{}", said());
    assert!((1.0..19.0).contains(&waiting), "{waiting} wait: {}", said());
    wait_until("how long", || metric("isotherm_longest_wait_seconds").is_some_and(|s| s > 2.0));
    // Each of them is in some cgroup, whose numbers say so.
    let of_cgroups = |name: &str| -> Vec<f64> {
        let text = fs::read_to_string(dir.path().join("m.prom")).unwrap();
        let lines = text.lines().filter(|line| line.starts_with(&format!("{name}{{")));
        lines.filter_map(|line| line.rsplit(' ').next()?.parse().ok()).collect()
    };
    wait_until("the cgroups' age", || {
        let ages = of_cgroups("isotherm_cgroup_look_age_seconds");
        ages.iter().any(|s| *s > 2.0)
    });
    assert_eq!(of_cgroups("isotherm_cgroup_waiting").iter().sum::<f64>(), waiting);
    assert_eq!(of_cgroups("isotherm_cgroup_processes").iter().sum::<f64>(), 20.0 - waiting);
    let said = said();
    assert_eq!(said.matches("have no place now").count(), 1, "{said}");
    assert!(said.contains("`ulimit -n` is 170"), "{said}");
    assert!(!said.contains("is not watched"), "{said}");

    // Those that wait come in for others that end.
    sleepers.truncate(5);
    wait_until("nobody waits", || metric("isotherm_targets_waiting") == Some(0.0));
    assert_eq!(metric("isotherm_targets"), Some(5.0));
    assert_eq!(of_cgroups("isotherm_cgroup_waiting").iter().sum::<f64>(), 0.0);
    run.signal("TERM");
    run.finish();
}
