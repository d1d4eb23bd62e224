//! Online tuning of a real process: a bad start gets better while `isotherm run` runs.

use std::fs;
use std::path::Path;

use isotherm::raw::host::zram::Zram;
use serde_json::Value;

use crate::program::{ISOTHERM, Running, command, isotherm, scratch, wait_until};
use crate::tune::{M, memory, swap};

/// 4 MiB are written all the time, 28 MiB were written once.
const WORKLOAD: &str = "@seed=1\nhot, 4M, none, populate=yes\ncold, 28M, none, populate=yes\n\n\
                        steady\n600000\nhot, 0, 4096, 1, rw, rate=2000\n";

/// It pages out next to nothing.
const POLICY: &str = r#"[[context]]
name = "c"
[[context.scheme]]
name = "cold"
action = "pageout"
age = "1s.."
quota = { size = "64K", interval = "1s" }
evidence = "off"
brake = "off"

[tune]
range = ["cold.quota.size=64K..256M"]
max_slowdown = "100%"
weight = 0
online = true
every = "1s"
phase = "1s"
state = "state.json"
"#;

fn workload(dir: &Path) -> Running {
    fs::write(dir.join("w"), WORKLOAD).unwrap();
    let target = Running::start(command(ISOTHERM, dir, &["workload", "w", "-q"]));
    wait_until("the memory to be there", || memory(target.pid()).0 >= 32 * M);
    target
}

/// A policy with the process as its target.
fn policy(dir: &Path, target: &Running, text: &str) {
    let targets = format!("name = \"c\"\ntargets = [{{ pid = {} }}]", target.pid());
    fs::write(dir.join("p.toml"), text.replacen("name = \"c\"", &targets, 1)).unwrap();
}

/// The events of a run that are about tuning.
fn events(dir: &Path) -> Vec<Value> {
    let text = fs::read_to_string(dir.join("events")).unwrap_or_default();
    let all = text.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
    all.filter(|event| event["event"] == "tuned").collect()
}

#[test]
fn a_bad_start_gets_better_while_the_policy_runs() {
    let Some(_swap): Option<Zram> = swap() else { return };
    let dir = scratch();
    let target = workload(dir.path());
    policy(dir.path(), &target, POLICY);
    let args = ["run", "p.toml", "--events", "events", "--json"];
    let run = Running::start(command(ISOTHERM, dir.path(), &args));
    let is_kept = |event: &Value| event["outcome"] == "kept";
    wait_until("a step to be kept", || events(dir.path()).iter().any(is_kept));
    run.signal("INT");
    let said = run.finish();
    println!("{}", said.err);
}
