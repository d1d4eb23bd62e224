//! Online tuning of a real process: a bad start gets better while `isotherm run` runs.

use std::fs;
use std::path::Path;

use isotherm::raw::host::zram::Zram;
use serde_json::Value;

use crate::program::{ISOTHERM, Running, command, isotherm, scratch, wait_until};
use crate::tune::{M, memory, started, swap};

/// 1 MiB is written all the time, 5 MiB were written once. It is so little that even the smallest
/// step pages out a share that counts, in phases of a second.
const WORKLOAD: &str = "@seed=1\nhot, 1M, none, populate=yes\ncold, 5M, none, populate=yes\n\n\
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
    started(dir, WORKLOAD, 6 * M)
}

/// A policy with the process as its target.
fn policy(dir: &Path, target: &Running, text: &str) {
    let targets = format!("name = \"c\"\ntargets = [{{ pid = {} }}]", target.pid());
    fs::write(dir.join("p.toml"), text.replacen("name = \"c\"", &targets, 1)).unwrap();
}

fn run(dir: &Path) -> Running {
    // Those of a run before tell nothing.
    fs::remove_file(dir.join("events")).ok();
    let args = ["run", "p.toml", "--events", "events", "--json", "-o", "best.toml"];
    Running::start(command(ISOTHERM, dir, &args))
}

/// The events of a run, of this name.
fn events(dir: &Path, name: &str) -> Vec<Value> {
    let text = fs::read_to_string(dir.join("events")).unwrap_or_default();
    let all = text.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
    all.filter(|event| event["event"] == name).collect()
}

/// A run over a new process in which a step was kept, still under way. When nearly all cold memory
/// is out, no step can make a difference any more. On a busy machine that comes before the noise of
/// the pairs has averaged out. Then it begins anew.
fn run_with_a_kept_step(dir: &Path, text: &str) -> (Running, Running) {
    for _ in 0..4 {
        let target = workload(dir);
        policy(dir, &target, text);
        let running = run(dir);
        let found = || events(dir, "tuned").iter().any(is_kept);
        let is_out = || memory(target.pid()).1 > 5 * M * 9 / 10;
        wait_until("a step to be kept, or cold memory to be out", || found() || is_out());
        if found() {
            return (target, running);
        }
        running.signal("TERM");
        eprintln!("cold memory is out, no step was kept: {:#?}", running.finish());
    }
    panic!("no step was kept in four runs");
}

fn is_kept(event: &Value) -> bool {
    event["outcome"] == "kept"
}

fn account(out: &str) -> Value {
    serde_json::from_str(out.lines().last().unwrap()).unwrap()
}

#[test]
fn a_bad_start_gets_better_while_the_policy_runs_and_a_restart_goes_on_with_it() {
    let Some(_swap): Option<Zram> = swap() else { return };
    let dir = scratch();
    // The CPU time of a program that hardly needs any differs by half from second to second.
    let steady = POLICY.replace("state =", "latency_cmd = \"echo 1\"\nstate =");
    let (target, running) = run_with_a_kept_step(dir.path(), &steady);
    let asked = fs::read_to_string(dir.path().join("p.toml")).unwrap();
    running.signal("TERM");
    let said = running.finish();
    said.expect(0, &["tune: cold.quota.size=64K..256M from", "tune: cold.quota.size 64K -> "]);
    let kept = events(dir.path(), "tuned").into_iter().find(is_kept).unwrap();
    assert_eq!(
        (kept["range"].as_str(), kept["from"].as_str()),
        (Some("cold.quota.size"), Some("64K"))
    );
    assert!(kept["saved"]["mid"].as_f64().unwrap() > 0.0, "{kept:#}");
    assert!(said.err.contains(kept["text"].as_str().unwrap()), "{said:#?}");
    // Phases change the policy many times, of which nobody has to be told.
    assert!(events(dir.path(), "committed").is_empty());
    let told = account(&said.out);
    assert_eq!(told["tuned"]["began"], "cold.quota.size=64K", "{told:#}");
    let values = told["tuned"]["values"].as_str().unwrap().to_owned();
    let size = values.strip_prefix("cold.quota.size=").unwrap();
    assert_ne!(size, "64K", "{told:#}");
    // The policy's file stays as it was. What was found is in another one, and in the state.
    assert_eq!(fs::read_to_string(dir.path().join("p.toml")).unwrap(), asked);
    let best = fs::read_to_string(dir.path().join("best.toml")).unwrap();
    assert!(best.contains(&format!("size = \"{size}\"")), "{best}");

    // A restart goes on with it, unless the ranges are others.
    for (policy_text, part) in [
        (steady.clone(), format!("values that were found before: {values}")),
        (steady.replace("256M", "128M"), "written with other ranges".to_owned()),
    ] {
        policy(dir.path(), &target, &policy_text);
        let running = run(dir.path());
        wait_until("the first words", || {
            events(dir.path(), "tuned").iter().any(|event| event["what"] == "begun")
        });
        running.signal("TERM");
        running.finish().expect(0, &[&part]);
    }
}

/// The latency grows by a fifth with each 64 KiB in swap. So each step is far too slow at once,
/// however much is in swap when it begins.
#[test]
fn a_step_that_is_far_too_slow_is_stopped_and_taken_back() {
    let Some(_swap): Option<Zram> = swap() else { return };
    let dir = scratch();
    let target = workload(dir.path());
    let awk = "awk -v OFMT=%f '/VmSwap/ { print 1.2 ^ ($2 / 64) }'";
    let latency = format!("{awk} /proc/{}/status", target.pid());
    let text = POLICY
        .replace("max_slowdown = \"100%\"", "max_slowdown = \"1%\"")
        .replace("state = \"state.json\"", &format!("latency_cmd = \"{latency}\""));
    policy(dir.path(), &target, &text);
    let running = run(dir.path());
    let is_broken = |event: &Value| event["outcome"] == "broken";
    wait_until("a step to be stopped", || events(dir.path(), "tuned").iter().any(is_broken));
    running.signal("TERM");
    let said = running.finish();
    said.expect(0, &["latency printed by `awk", "64K -> ", "stopped, far too slow"]);
    let told = account(&said.out);
    assert_eq!(told["tuned"]["values"], told["tuned"]["began"], "{said:#?}");
    assert!(fs::read_to_string(dir.path().join("best.toml")).unwrap().contains("size = \"64K\""));
}

#[test]
fn bad_input_is_told_with_its_place() {
    let dir = scratch();
    let said = |text: &str, args: &str| {
        fs::write(dir.path().join("p.toml"), text).unwrap();
        isotherm(dir.path(), &format!("run p.toml {args}"))
    };
    let check = |from: &str, to: &str| said(&POLICY.replacen(from, to, 1), "--check");
    check("every = \"1s\"", "every = \"0s\"").expect(2, &["p.toml:16:9", "left alone", "why:"]);
    check("phase = \"1s\"", "phase = \"0s\"").expect(2, &["p.toml:17:9", "in no time"]);
    check("state", "psi = true\nprogress = \"f\"\nstate")
        .expect(2, &["p.toml:18:7", "one measure"]);
    check("online = true\n", "").expect(2, &["p.toml:15:9", "without `online`", "hint:"]);
    check("brake", "dry_run = true\nbrake").expect(2, &["p.toml:13:10", "is a dry run"]);
    check("\"c\"", "\"c\"\nops = \"kdamond\"").expect(2, &["p.toml:13:10", "kernel's DAMON"]);
    check("64K..256M", "1M..256M").expect(2, &["p.toml:12:10", "begins with 64K"]);
    let nothing = POLICY.replace("pageout", "stat").replace("brake", "#");
    said(&nothing.replace("range", "#"), "--check").expect(2, &["p.toml:15:10", "nothing to tune"]);
    // What the command line adds.
    let pid = format!("name = \"c\"\ntargets = [{{ pid = {} }}]", std::process::id());
    let text = POLICY.replacen("name = \"c\"", &pid, 1);
    said(&text, "--dry-run --duration 1s").expect(2, &["is a dry run", "hint:"]);
    let plain = text.split("[tune]").next().unwrap().to_owned();
    said(&plain, "-o best.toml").expect(2, &["-o without online tuning", "hint:"]);
}
