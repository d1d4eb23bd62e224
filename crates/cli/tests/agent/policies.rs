//! Many policies at once: each on its own, changed while they run, and there again after a crash.

use std::fs;

use rustix::process::Signal;

use crate::common::isotherm;
use crate::world::{Said, World, policy, sleeper, watch};

#[test]
fn one_bad_policy_stops_no_other() {
    let target = sleeper();
    let mut world = World::new(&[
        ("good", &watch(target.0.id())),
        ("bad", "[[context]]\nname = 3\n"),
        // No process has the largest pid there can be.
        ("gone", &watch(4_194_304)),
        ("later", &policy("{ name = \"isotherm-none\" }", "1s")),
    ]);
    let checked = world.command().arg("--check").output().unwrap();
    assert_eq!(checked.status.code(), Some(2), "the first problem is a text that is no policy");
    let said = String::from_utf8_lossy(&checked.stderr);
    assert!(said.contains("bad.toml:2") && said.contains("4194304"), "{said}");
    assert_eq!(String::from_utf8_lossy(&checked.stdout), "good: valid\nlater: valid\n");

    world.start();
    world.until("it watches", |world| world.targets("good") == 1);
    assert_eq!(world.state("good"), "running");
    assert_eq!(world.state("later"), "running");
    let bad = world.policy("bad");
    assert_eq!(bad["state"], "invalid");
    assert!(bad["why"].as_str().unwrap().contains("name"), "{bad}");
    let gone = world.policy("gone");
    assert_eq!(gone["state"], "waiting");
    assert!(gone["why"].as_str().unwrap().contains("4194304"), "{gone}");
    world.until("it is tried again", |world| world.policy("gone")["tries"].as_u64() >= Some(2));

    // Its target ends, and the others go on.
    drop(target);
    world.until("its target is gone", |world| world.state("good") == "waiting");
    assert_eq!(world.state("later"), "running");
    let status = world.ctl("status");
    for name in ["good", "bad", "gone", "later"] {
        assert!(status.out.contains(name), "{}", status.out);
    }
    assert_eq!(world.stop(), Some(0));
    assert!(!world.path("s.sock").exists(), "the socket is removed at the end");
}

#[test]
fn policies_start_stop_pause_and_change_while_others_run() {
    let targets = [sleeper(), sleeper()];
    let [one, two] = [&targets[0], &targets[1]].map(|target| watch(target.0.id()));
    let mut world = World::new(&[("a", &one), ("b", &two)]);
    world.start();
    world.until("both run", |world| world.targets("a") + world.targets("b") == 2);
    let b = || world.policy("b")["contexts"][0]["cpu_ns"].as_u64();
    let before = b();

    let windows = |world: &World| {
        let account = world.json("account a");
        account["schemes"][0]["windows"].as_u64().unwrap()
    };
    world.until("windows end", |world| windows(world) > 0);
    assert_eq!(world.ctl("pause a").code, Some(0));
    assert_eq!(world.state("a"), "paused");
    let refused = world.ctl("pause b2");
    assert_eq!(refused.code, Some(2));
    assert!(
        refused.err.contains("no policy `b2`") && refused.err.contains("one of a, b"),
        "{refused:?}"
    );
    assert_eq!(world.ctl("resume a").code, Some(0));
    let then = windows(&world);
    world.until("it goes on", |world| windows(world) > then);

    // A commit that is no policy changes nothing, and a good one keeps what was counted.
    fs::write(world.path("bad.toml"), "[[context]]\nname = \"c\"\ntargets = 3\n").unwrap();
    let refused = world.ctl("commit a bad.toml");
    assert_eq!(refused.code, Some(2), "{refused:?}");
    assert!(refused.err.contains("targets"), "{refused:?}");
    assert_eq!(world.state("a"), "running");
    fs::write(world.path("new.toml"), one.replace("1s", "3s")).unwrap();
    let checked = world.ctl("commit a new.toml --check");
    assert_eq!(checked.out, "a: could be in force; contexts: 1, schemes: 1\n");
    assert!(!world.ctl("show a").out.contains("3s.."));
    assert_eq!(world.ctl("commit a new.toml").code, Some(0));
    assert!(world.ctl("show a").out.contains("3s.."));
    assert!(windows(&world) >= then, "the account goes on");
    // Nor does one with a target that does not exist, for a policy that is new.
    fs::write(world.path("gone.toml"), watch(4_194_304)).unwrap();
    let refused = world.ctl("commit c gone.toml");
    assert_eq!(refused.code, Some(5), "{refused:?}");
    assert_eq!(world.state("c"), "none");

    assert_eq!(world.ctl("stop a").code, Some(0));
    assert_eq!(world.ctl("stop a").code, Some(2), "it is stopped already");
    assert_eq!(world.ctl("pause a").code, Some(2), "only what runs can be paused");
    assert_eq!(world.state("a"), "stopped");
    assert_eq!(world.ctl("start a").code, Some(0));
    assert_eq!(world.state("a"), "running");
    world.until("b was not disturbed", |world| {
        world.policy("b")["contexts"][0]["cpu_ns"].as_u64() > before
    });
    let removed = world.ctl("stop b --forget");
    assert_eq!(removed.code, Some(2), "a policy of a file: {removed:?}");
}

#[test]
fn a_snapshot_shows_the_regions_of_a_process() {
    let target = sleeper();
    let pid = target.0.id();
    let mut world = World::new(&[("a", &watch(pid)), ("b", &policy("{ name = \"none\" }", "1s"))]);
    world.start();
    world.until("a window is over", |world| {
        let snapshots = world.json(&format!("snapshot --pid {pid}"));
        let snapshots = snapshots["snapshots"].as_array().unwrap();
        snapshots.iter().any(|s| !s["targets"][0]["regions"].as_array().unwrap().is_empty())
    });
    let all = world.json("snapshot a");
    let snapshot = &all["snapshots"][0];
    assert_eq!((&snapshot["policy"], &snapshot["context"]), (&"a".into(), &"c".into()));
    assert_eq!(snapshot["targets"][0]["name"], "sleep");
    for region in snapshot["targets"][0]["regions"].as_array().unwrap() {
        assert!(region["start"].as_u64() < region["end"].as_u64(), "{region}");
    }
    assert!(world.ctl("snapshot").out.contains("sleep"));
    assert_eq!(world.ctl("snapshot --pid 1").out, "nothing is watched that matches\n");
}

#[test]
fn what_clients_asked_for_is_there_again_after_a_crash() {
    let targets = [sleeper(), sleeper(), sleeper()];
    let watches: Vec<String> = targets.iter().map(|target| watch(target.0.id())).collect();
    let mut world = World::new(&[("stopped", &watches[0]), ("changed", &watches[1])]);
    world.start();
    fs::write(world.path("p.toml"), watches[2].replace("1s", "5s")).unwrap();
    fs::write(world.path("q.toml"), watches[1].replace("1s", "7s")).unwrap();
    for words in ["stop stopped", "commit own p.toml", "commit changed q.toml", "pause own"] {
        let said = world.ctl(words);
        assert_eq!(said.code, Some(0), "{words}: {said:?}");
    }
    world.kill();
    assert!(world.path("s.sock").exists(), "a killed agent leaves its socket");
    let refused = world.ctl("status");
    assert_eq!(refused.code, Some(3), "{refused:?}");
    assert!(refused.err.contains("no agent runs there"), "{refused:?}");

    world.start();
    assert_eq!(world.state("stopped"), "stopped");
    assert_eq!(world.state("own"), "paused");
    assert!(world.ctl("show own").out.contains("5s.."));
    assert!(world.ctl("show changed").out.contains("7s.."));
    world.until("targets are followed again", |world| world.targets("changed") == 1);

    // A file that was changed is stronger than what was committed over the former one.
    world.kill();
    world.write("changed", &watches[1].replace("1s", "9s"));
    world.start();
    assert!(world.ctl("show changed").out.contains("9s.."));
    assert_eq!(world.ctl("stop own --forget").code, Some(0));
    assert_eq!(world.state("own"), "none");
    world.kill();
    world.start();
    assert_eq!(world.state("own"), "none");
}

#[test]
fn files_are_read_again_and_a_bad_one_leaves_the_former_policy_in_force() {
    let targets = [sleeper(), sleeper(), sleeper()];
    let watches: Vec<String> = targets.iter().map(|target| watch(target.0.id())).collect();
    let mut world = World::new(&[("a", &watches[0]), ("b", &watches[1]), ("gone", &watches[2])]);
    world.start();
    world.write("a", &watches[0].replace("1s", "4s"));
    world.write("b", "[[context]]\nwrong = 1\n");
    world.write("new", &policy("{ name = \"isotherm-none\" }", "1s"));
    fs::remove_file(world.path("policies.d/gone.toml")).unwrap();
    world.signal(Signal::HUP);
    world.until("the files were read again", |world| world.log().contains("not in force: 1"));
    assert!(world.ctl("show a").out.contains("4s.."));
    world.until("the new one runs", |world| world.state("new") == "running");
    assert_eq!(world.state("gone"), "none");
    let b = world.policy("b");
    assert_eq!(b["state"], "running");
    assert!(b["why"].as_str().unwrap().contains("wrong"), "{b}");
    assert!(world.ctl("show b").out.contains("1s.."));
    // The file is put right.
    world.write("b", &watches[1].replace("1s", "6s"));
    world.signal(Signal::HUP);
    world.until("it is in force", |world| world.ctl("show b").out.contains("6s.."));
    assert!(world.policy("b")["why"].is_null());
}

#[test]
fn a_state_of_a_newer_agent_is_refused_by_name() {
    let mut world = World::new(&[]);
    fs::create_dir_all(world.path("state/state")).unwrap();
    let state = r#"{"version":7,"written_by":"9.1.0","policies":{}}"#;
    fs::write(world.path("state/state/state.json"), state).unwrap();
    let output = world.command().output().unwrap();
    assert_eq!(output.status.code(), Some(3));
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(said.contains("version 7") && said.contains("9.1.0"), "{said}");
    // And a second agent over the same state.
    fs::remove_file(world.path("state/state/state.json")).unwrap();
    world.start();
    let output = world.command().output().unwrap();
    assert_eq!(output.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&output.stderr).contains("another agent"));
    assert_eq!(world.ctl("list").out, "no policy; `isotherm ctl commit NAME FILE` makes one\n");
}

#[test]
fn contexts_pause_stop_and_start_one_by_one_also_across_a_crash() {
    let targets = [sleeper(), sleeper()];
    let text: String = targets
        .iter()
        .zip(["one", "two"])
        .map(|(target, name)| watch(target.0.id()).replace("\"c\"", &format!("\"{name}\"")))
        .collect();
    let mut world = World::new(&[("p", &text)]);
    world.start();
    world.until("both watch", |world| world.targets("p") == 2);
    let windows = |world: &World, name: &str| {
        let account = world.json("account p");
        let schemes = account["schemes"].as_array().cloned().unwrap_or_default();
        let of = schemes.iter().find(|scheme| scheme["context"] == name);
        of.map_or(0, |scheme| scheme["windows"].as_u64().unwrap())
    };
    let state = |world: &World, name: &str| {
        let policy = world.policy("p");
        let contexts = policy["contexts"].as_array().cloned().unwrap_or_default();
        let of = contexts.iter().find(|context| context["name"] == name);
        of.map_or("none".to_owned(), |context| context["state"].as_str().unwrap().to_owned())
    };
    let goes_on = |world: &World, name: &str| {
        let then = windows(world, name);
        world.until("its windows end", |world| windows(world, name) > then + 5);
    };
    // Accounts are told once per second, so what was seen before the pause comes first.
    let stands_still = |world: &World, name: &str, other: &str| {
        goes_on(world, other);
        std::thread::sleep(std::time::Duration::from_millis(2500));
        let then = windows(world, name);
        goes_on(world, other);
        assert_eq!(windows(world, name), then, "{name}");
    };

    let said = world.ctl("pause p/one");
    assert_eq!((said.code, said.out.as_str()), (Some(0), "p/one: paused\n"), "{said:?}");
    assert_eq!((state(&world, "one"), state(&world, "two")), ("paused".into(), "running".into()));
    stands_still(&world, "one", "two");
    assert!(world.ctl("list").out.contains("paused"), "{:?}", world.ctl("list"));
    // It is so after a crash.
    world.kill();
    world.start();
    world.until("the other watches", |world| windows(world, "two") > 0);
    assert_eq!((world.state("p"), state(&world, "one")), ("running".into(), "paused".into()));
    stands_still(&world, "one", "two");
    assert_eq!(world.ctl("start p/one").code, Some(0));
    goes_on(&world, "one");

    assert_eq!(world.ctl("stop p/two").code, Some(0));
    assert_eq!((state(&world, "one"), state(&world, "two")), ("running".into(), "stopped".into()));
    world.until("its target is given back", |world| world.targets("p") == 1);
    // What was recorded of both is reported without naming one; a view shows one.
    let mut report = isotherm();
    report.args(["report", "--since", "1h", "--history"]).arg(world.path("state/history"));
    let said: Said = report.output().unwrap().into();
    let at = |name: &str| said.out.find(name).unwrap_or_else(|| panic!("{name}: {said:?}"));
    assert!(said.code == Some(0) && at("p/one\n") < at("p/two\n"), "{said:?}");
    let said: Said = report.args(["--of", "p", "--json"]).output().unwrap().into();
    let names = said.out.lines().map(|line| {
        let line: serde_json::Value = serde_json::from_str(line).unwrap();
        assert!(line["report"]["snapshots"].as_u64() > Some(0), "{line}");
        line["context"].as_str().unwrap().to_owned()
    });
    assert_eq!(names.collect::<Vec<_>>(), ["p/one", "p/two"]);
    let mut top = isotherm();
    top.args(["top", "--batch", "-n", "1", "-t", "5min", "--history"]);
    let said: Said = top.arg(world.path("state/history")).output().unwrap().into();
    assert!(said.code == Some(2) && said.err.contains("--of with one of p/one, p/two"), "{said:?}");
    // The last one is stopped with its policy, and nonsense is refused and not kept.
    let path = world.path("state/state/state.json");
    let kept = || fs::read_to_string(&path).unwrap();
    let before = kept();
    for (words, why) in [
        ("stop p/one", "no other context of its policy runs"),
        ("start p/one", "it runs already"),
        ("stop p/two", "it is stopped already"),
        ("pause p/three", "no context of this name"),
    ] {
        let said = world.ctl(words);
        assert_eq!(said.code, Some(2), "{words}: {said:?}");
        assert!(said.err.contains(why), "{words}: {said:?}");
    }
    assert_eq!(kept(), before);
    world.kill();
    world.start();
    world.until("one watches", |world| world.targets("p") == 1);
    assert_eq!((state(&world, "one"), state(&world, "two")), ("running".into(), "stopped".into()));
    // What is said of the policy is said of all.
    assert_eq!(world.ctl("start p").code, Some(0));
    world.until("both watch again", |world| world.targets("p") == 2);
    assert_eq!((state(&world, "one"), state(&world, "two")), ("running".into(), "running".into()));
    assert!(!path.exists() || !kept().contains("two"));
    assert_eq!(world.stop(), Some(0));
}
