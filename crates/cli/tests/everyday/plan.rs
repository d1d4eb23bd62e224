//! `isotherm plan`: predictions for programs whose use of memory is known, and its messages.

use std::path::Path;

use serde_json::Value;

use crate::program::{Said, isotherm, scratch};

/// Simulates a workload in a config of masim's form, and returns the plan for it.
fn plan(dir: &Path, config: &str, seconds: u64, options: &str) -> Value {
    std::fs::write(dir.join("w.cfg"), config).unwrap();
    let sim = format!("sim -q w.cfg -o w.data --seed 5 --duration {seconds}s");
    isotherm(dir, &sim).expect(0, &[]);
    let said = isotherm(dir, &format!("plan w.data --json --refault-cost 100us {options}"));
    serde_json::from_str(&said.expect(0, &[]).out).unwrap()
}

/// The row for an idle time in seconds.
fn row(plan: &Value, age_s: f64) -> &Value {
    let rows = plan["rows"].as_array().unwrap();
    let near = |row: &&Value| (row["age_s"].as_f64().unwrap() - age_s).abs() < 1e-9;
    rows.iter().find(near).unwrap_or_else(|| panic!("no {age_s} s in {plan:#}"))
}

/// Lower end, estimate, upper end.
fn estimate(value: &Value) -> [f64; 3] {
    ["lo", "mid", "hi"].map(|key| value[key].as_f64().unwrap())
}

const HOT_AND_COLD: &str = "h, 16M\nc, 112M\n\nall\n3600000\nh, 0, 4096, 1, rw\n";

#[test]
fn cold_memory_is_saved_and_does_not_come_back() {
    let dir = scratch();
    let plan = plan(dir.path(), HOT_AND_COLD, 120, "");
    for age in [1.0, 5.0, 10.0, 20.0] {
        let row = row(&plan, age);
        let [lo, mid, hi] = estimate(&row["saved_share"]);
        assert!((mid - 0.875).abs() < 0.03 && lo <= mid && mid <= hi, "{age} s: {row:#}");
        let [_, refaults, _] = estimate(&row["refaults_per_s"]);
        assert!(refaults < 5.0, "{age} s: {row:#}");
    }
    assert_eq!(plan["choice"]["choice"], "age", "{plan:#}");
    let [_, resident, _] = [0.0, plan["resident"].as_f64().unwrap(), 0.0];
    assert!((resident / f64::from(128 << 20) - 1.0).abs() < 0.05, "{resident}");
}

/// A pointer goes over 96 MiB in 8 s. Below that, all that is paged out comes back once a round;
/// after more than that nothing is idle.
#[test]
fn memory_that_is_gone_over_comes_back_until_nothing_is_idle() {
    let dir = scratch();
    let config = "s, 96M\nc, 32M\n\nall\n3600000\ns, 0, 4096, 1, rw, rate=3072\n";
    let plan = plan(dir.path(), config, 120, "");
    let pages_per_s = 3072.0;
    for age in [1.0, 2.0, 5.0] {
        let row = row(&plan, age);
        let ([lo, mid, hi], truth) = (estimate(&row["refaults_per_s"]), pages_per_s);
        assert!(lo <= truth * 1.15 && truth <= hi * 1.15, "{age} s: {row:#}");
        // Isotherm takes less than all that is idle for so long, and a replay of it sees a third to
        // a half of that come back.
        assert!((0.25..1.5).contains(&(mid / truth)), "{age} s: {row:#}");
        let [lo, _, hi] = estimate(&row["saved_share"]);
        // Pages leave after the idle time at the earliest, and after three times that and a second.
        let [most, least] = [age, 3.0 * age + 1.0].map(|s: f64| 1.0 - 0.75 * s.min(8.0) / 8.0);
        assert!(lo < least + 0.05 && most - 0.05 < hi && lo < hi, "{age} s: {row:#}");
    }
    let [_, saved, _] = estimate(&row(&plan, 20.0)["saved_share"]);
    assert!((saved - 0.25).abs() < 0.05, "{saved}");
    // No more comes back than is out.
    for row in plan["rows"].as_array().unwrap() {
        let [_, saved, _] = estimate(&row["saved"]);
        let [_, back, _] = estimate(&row["refaults_per_s"]);
        let out_s = row["age_s"].as_f64().unwrap() / 2.0;
        assert!(back * 4096.0 * out_s <= saved * 1.001, "{row:#}");
    }
    // One percent of a second is a hundred pages at this price.
    let chosen = usize::try_from(plan["choice"]["row"].as_u64().unwrap()).unwrap();
    assert!(plan["rows"][chosen]["age_s"].as_f64().unwrap() > 8.0, "{plan:#}");
}

#[test]
fn the_policy_is_one_that_runs_and_the_picture_is_one() {
    let dir = scratch();
    plan(dir.path(), HOT_AND_COLD, 40, "");
    let said =
        isotherm(dir.path(), "plan w.data --refault-cost 20us -o p.toml --svg p.svg --html p.html");
    let out = &said.expect(0, &[]).out;
    for part in [
        "saves",
        "pages back per s",
        "Recommended: page out what is idle for 1.00 s",
        "the policy is in p.toml",
        "its quota decides how soon so much is saved; `isotherm run p.toml --over RECORD`",
    ] {
        assert!(out.contains(part), "no {part} in {out}");
    }
    let policy = std::fs::read_to_string(dir.path().join("p.toml")).unwrap();
    for part in ["action = \"pageout\"", "age = \"1s..\"", "[[context]]"] {
        assert!(policy.contains(part), "no {part} in {policy}");
    }
    // Whether this machine has swap is not the question.
    let checked = isotherm(dir.path(), "run p.toml --check");
    assert!(!checked.err.contains("p.toml:"), "{checked:#?}");
    assert!(checked.code != Some(2) || checked.err.contains("swap"), "{checked:#?}");
    let svg = std::fs::read_to_string(dir.path().join("p.svg")).unwrap();
    assert!(svg.starts_with("<svg") && svg.trim_end().ends_with("</svg>"));
    assert_eq!(svg.matches("<polyline").count(), 2);
    let html = std::fs::read_to_string(dir.path().join("p.html")).unwrap();
    for part in [svg.trim_end(), "[[context]]", "Recommended: page out", "</html>"] {
        assert!(html.contains(part), "no {part} in {html}");
    }
}

#[test]
fn what_is_not_possible_is_said_and_nothing_is_written() {
    let dir = scratch();
    plan(dir.path(), HOT_AND_COLD, 40, "");
    let run = |args: &str| -> Said { isotherm(dir.path(), args) };
    // What was found is shown all the same.
    let refused = run("plan w.data --save 95% -o p.toml");
    let out = &refused.expect(6, &["no policy was written", "is only sure to save"]).out;
    assert!(out.contains("paging out what was idle for so long"), "{refused:#?}");
    assert!(!dir.path().join("p.toml").exists());
    let nothing = run("plan w.data --save 95%");
    assert!(nothing.expect(0, &[]).out.contains("No idle time is recommended"), "{nothing:#?}");
    run("plan w.data --cpus 0").expect(2, &["--cpus"]);
    run("plan w.data --max-refaults 3%").expect(2, &["share per minute"]);
    run("plan w.data --address 0-0x1000000").expect(2, &["whole processes"]);
    run("plan w.data -p 1").expect(2, &["cannot be used with"]);
    run("plan nothing.data").expect(2, &["cannot open the record"]);
    run("plan w.data --time 0s..1s").expect(2, &["record for at least 15 s"]);
    let short = run("plan w.data --time 0s..16s").expect(0, &[]).out.clone();
    assert!(short.contains("for an idle time of 5.00 s, record for 25.0 s"), "{short}");
}

#[test]
fn without_page_maps_the_intervals_are_wide_and_it_is_said() {
    let dir = scratch();
    std::fs::write(dir.path().join("w.cfg"), HOT_AND_COLD).unwrap();
    let sim = "sim -q w.cfg -o w.data --seed 5 --duration 40s --method first-touch";
    isotherm(dir.path(), sim).expect(0, &[]);
    let text = isotherm(dir.path(), "plan w.data").expect(0, &[]).out.clone();
    assert!(text.contains("the record has no page maps"), "{text}");
    let json = isotherm(dir.path(), "plan w.data --json").expect(0, &[]).out.clone();
    let plan: Value = serde_json::from_str(&json).unwrap();
    let [lo, mid, hi] = estimate(&row(&plan, 5.0)["saved_share"]);
    assert!(lo < 0.05 && hi > 0.9 && mid > 0.7, "{plan:#}");
    assert_eq!(plan["fast_node"].as_array().unwrap().len(), 0);
}

/// A policy for the replays: idle for 2 s, with these lines of its own.
fn policy(dir: &Path, more: &str) {
    let text = format!(
        "[[context]]\nname = \"c\"\n[[context.scheme]]\nname = \"cold\"\naction = \"pageout\"\n\
         frequency = \"0%\"\nage = \"2s..\"\n{more}\n"
    );
    std::fs::write(dir.join("p.toml"), text).unwrap();
}

fn replay(dir: &Path, more: &str) -> Value {
    policy(dir, more);
    let said = isotherm(dir, "run p.toml --over w.data --json");
    serde_json::from_str(&said.expect(0, &[]).out).unwrap()
}

const UNLIMITED: &str = "quota = \"none\"\nbrake = \"off\"";

#[test]
fn a_policy_played_back_takes_what_is_cold_within_its_quota() {
    let dir = scratch();
    plan(dir.path(), HOT_AND_COLD, 40, "");
    let number = |of: &Value, key: &str| of[key].as_f64().unwrap();
    let all = replay(dir.path(), UNLIMITED);
    assert!((number(&all, "saved_share_late") - 0.875).abs() < 0.01, "{all:#}");
    assert!(number(&all, "pages_back_per_s") < 1.0, "{all:#}");
    let done = number(&all["schemes"][0], "done_bytes");
    assert!((done / f64::from(112 << 20) - 1.0).abs() < 0.02, "{all:#}");
    // 112 MiB at 2 MiB a second is more than the record is long.
    let slow = replay(dir.path(), "quota = { size = \"2M\", interval = \"1s\" }\nbrake = \"off\"");
    let scheme = &slow["schemes"][0];
    let most = number(scheme, "max_window_bytes");
    assert!(number(scheme, "done_bytes") < f64::from(40 * (2 << 20)), "{slow:#}");
    assert!(number(scheme, "quota_exceeds") > 30.0 && most <= f64::from(2 << 20), "{slow:#}");
    let none = replay(dir.path(), "filters = [\"reject anon\"]");
    assert!(number(&none, "saved").abs() < 1.0, "all of it is anonymous: {none:#}");
    let text = isotherm(dir.path(), "run p.toml --over w.data").expect(0, &[]).out.clone();
    for part in ["c: 40.0 s over w", "cold (pageout): acts on 0 MiB", "times as fast as it was"] {
        assert!(text.contains(part), "no {part} in {text}");
    }
}

/// What is gone over comes back, and the brake takes less of it.
#[test]
fn a_policy_played_back_sees_what_comes_back_and_brakes() {
    let dir = scratch();
    let config = "s, 96M\nc, 32M\n\nall\n3600000\ns, 0, 4096, 1, rw, rate=3072\n";
    plan(dir.path(), config, 60, "");
    let of = |more: &str| {
        let all = replay(dir.path(), more);
        let scheme = &all["schemes"][0];
        ["done_bytes", "refaulted_bytes"].map(|key| scheme[key].as_f64().unwrap())
    };
    let [free, braked] = [of(UNLIMITED), of("quota = \"none\"")];
    let mib = f64::from(1 << 20);
    assert!(free[1] > 0.2 * free[0] && free[0] > 200.0 * mib, "{free:?}");
    assert!(braked[0] < 0.7 * free[0] && braked[1] < 0.5 * free[1], "{free:?} {braked:?}");
    // What is only marked as cold stays resident, so nobody waits for it.
    let policy = std::fs::read_to_string(dir.path().join("p.toml")).unwrap();
    let policy = policy.replace("\"pageout\"", "\"cold\"");
    std::fs::write(dir.path().join("p.toml"), policy).unwrap();
    let said = isotherm(dir.path(), "run p.toml --over w.data --json");
    let cold: Value = serde_json::from_str(&said.expect(0, &[]).out).unwrap();
    assert!(cold["schemes"][0]["returned_bytes"].as_f64().unwrap() > mib, "{cold:#}");
    assert_eq!((&cold["pages_back_per_s"], &cold["saved"]), (&0.0.into(), &0.0.into()), "{cold:#}");
}

#[test]
fn what_cannot_be_played_back_is_said() {
    let dir = scratch();
    plan(dir.path(), HOT_AND_COLD, 40, "");
    policy(
        dir.path(),
        "watermarks = { metric = \"free_mem_rate\", interval = \"5s\", high = \"50%\", mid = \"40%\", low = \"20%\" }",
    );
    let run = |args: &str| isotherm(dir.path(), args);
    let text = run("run p.toml --over w.data").expect(0, &[]).out.clone();
    assert!(text.contains("not played back: watermarks"), "{text}");
    policy(dir.path(), "filters = [\"reject memcg /x\"]");
    let text = run("run p.toml --over w.data").expect(0, &[]).out.clone();
    assert!(text.contains("does not answer filters by cgroup"), "{text}");
    let named = "[[context]]\nname = \"c\"\ntargets = [{ name = \"other\" }]\n[[context.scheme]]\naction = \"stat\"\n";
    std::fs::write(dir.path().join("p.toml"), named).unwrap();
    run("run p.toml --over w.data").expect(2, &["none of its targets", "the record holds"]);
    run("run p.toml --over nothing.data").expect(2, &["cannot open the record"]);
    run("run p.toml --over w.data --dry-run").expect(2, &["cannot be used with"]);
    // Without page maps regions stand for their pages.
    let sim = "sim -q w.cfg -o r.data --seed 5 --duration 40s --method first-touch";
    run(sim).expect(0, &[]);
    policy(dir.path(), UNLIMITED);
    let text = run("run p.toml --over r.data").expect(0, &[]).out.clone();
    assert!(text.contains("no page maps, so regions stand for their pages"), "{text}");
}
