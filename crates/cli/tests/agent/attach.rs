//! Commands that show what an agent sees, rather than watch the same processes themselves.

use std::process::Command;

use serde_json::Value;
use tempfile::TempDir;

use super::common::{Guard, isotherm};
use super::world::{Said, World, policy, sleeper, watch};

fn wss(world: &World, words: &str) -> Said {
    let mut command = isotherm();
    command.arg("wss").args(words.split_whitespace());
    command.env("ISOTHERM_SOCKET", world.path("s.sock"));
    command.output().unwrap().into()
}

#[test]
fn working_sets_come_from_the_agent_that_watches_already() {
    let (target, other) = (sleeper(), sleeper());
    let pid = target.0.id();
    let mut world = World::new(&[("a", &watch(pid))]);
    world.start();
    world.until("it has a target", |world| world.targets("a") == 1);

    let said = wss(&world, &format!("{pid} -i 500ms --duration 4s --json"));
    assert_eq!(said.code, Some(0), "{said:?}");
    assert!(said.err.contains("the agent's (a / c)"), "{said:?}");
    let lines: Vec<Value> =
        said.out.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert!(lines.len() >= 2, "{said:?}");
    let last = lines.last().unwrap();
    let process = &last["processes"][0];
    assert_eq!((process["pid"].as_u64(), &process["name"]), (Some(pid.into()), &"sleep".into()));
    assert_eq!(last["targets"], 1);
    let (lo, hi) = (process["lo"].as_u64().unwrap(), process["hi"].as_u64().unwrap());
    let bytes = process["wss_bytes"].as_u64().unwrap();
    assert!(lo <= bytes && bytes <= hi, "{process}");
    assert!(process["watched_bytes"].as_u64().unwrap() > 0, "{process}");
    let t: Vec<u64> = lines.iter().map(|line| line["t_ns"].as_u64().unwrap()).collect();
    assert!(t.first() < t.last(), "the agent's windows go on: {t:?}");

    // In text, and the agent has not lost its target.
    let said = wss(&world, &format!("{pid} -i 500ms --duration 2s"));
    assert!(said.out.contains("sleep") && said.out.contains("over 500ms"), "{said:?}");
    assert_eq!(world.targets("a"), 1);

    // What the agent does not watch is watched by the command itself, and what both want is
    // refused.
    let said = wss(&world, &format!("{} -i 500ms --duration 2s", other.0.id()));
    assert!(said.code == Some(0) && !said.err.contains("agent"), "{said:?}");
    for more in ["--method resample", "--by cgroup", "--ops smaps"] {
        let said = wss(&world, &format!("{pid} {more} --duration 2s"));
        assert_eq!(said.code, Some(1), "{said:?}");
        for part in ["the agent watches all of it already (a / c)", "hint:", "ctl stop a"] {
            assert!(said.err.contains(part), "{part}: {said:?}");
        }
    }
}

#[test]
fn who_is_named_by_a_rule_is_found_at_the_agent_and_the_rest_is_watched() {
    let (one, two) = (Named::start("rule"), Named::start("rule"));
    let (first, second) = (one.pid(), two.pid());
    let mut world = World::new(&[("a", &watch(first))]);
    world.start();
    world.until("it has a target", |world| world.targets("a") == 1);
    let name = &one.name;
    // One by its pid that the agent has and one that it has not, and both by a rule.
    for which in [format!("-p {first},{second}"), format!("--name {name}")] {
        let said = wss(&world, &format!("{which} -i 1s --duration 6s --json"));
        // On a busy machine windows are late, which is told. If they are many it has its own code.
        let is_late = said.err.contains("windows took at least twice as long");
        assert!(said.code == Some(0) || is_late && said.code == Some(6), "{said:?}");
        assert!(said.err.contains("the agent's (a / c)"), "{said:?}");
        assert!(!said.err.contains("is watched already"), "it is no fault: {said:?}");
        let last: Value = serde_json::from_str(said.out.lines().last().unwrap()).unwrap();
        let processes = last["processes"].as_array().unwrap();
        let mut pids: Vec<u64> = processes.iter().map(|p| p["pid"].as_u64().unwrap()).collect();
        pids.sort_unstable();
        assert_eq!(pids, [u64::from(first), u64::from(second)], "{which}: {said:?}");
        assert_eq!(last["targets"], 2, "{said:?}");

        let said = run(&world, &format!("top {which} --batch -n 4 -d 1s"));
        assert_eq!(said.code, Some(0), "{said:?}");
        assert!(said.err.contains("some of these numbers are the agent's (a / c)"), "{said:?}");
        let table = said.out.rsplit("isotherm top").next().unwrap();
        for pid in [first, second] {
            let rows = table.lines().filter(|line| line.contains(&format!("{pid} ")));
            let rows: Vec<&str> = rows.collect();
            assert_eq!(rows.len(), 1, "{pid}: {said:?}");
            assert!(!rows[0].contains("watched already"), "{said:?}");
        }

        let said = run(&world, &format!("record {which} --duration 3s -o part.data"));
        assert_eq!(said.code, Some(6), "a part is missing: {said:?}");
        assert!(said.err.contains("left out of this record: 1 target"), "{said:?}");
        let raw = run(&world, "report regions part.data").out;
        assert!(raw.contains(&format!("(pid {second})")), "{raw}");
        assert!(!raw.contains(&format!("(pid {first})")), "{raw}");
    }
    assert_eq!(world.targets("a"), 1, "nothing was taken from the agent");
}

#[test]
fn a_rule_whose_processes_the_agent_has_takes_all_numbers_from_it() {
    let (one, two) = (Named::start("all"), Named::start("all"));
    let name = one.name.clone();
    let by_name = policy(&format!("{{ name = \"{name}\" }}"), "1s");
    let mut world = World::new(&[("fleet", &by_name)]);
    world.start();
    world.until("it has both", |world| world.targets("fleet") == 2);
    let said = wss(&world, &format!("--name {name} -i 1s --duration 4s --json"));
    assert!(said.code == Some(0) && said.err.contains("the agent's (fleet / c)"), "{said:?}");
    let last: Value = serde_json::from_str(said.out.lines().last().unwrap()).unwrap();
    assert_eq!(last["targets"], 2, "{said:?}");
    let said = run(&world, &format!("record --name {name} --duration 3s -o all.data"));
    assert_eq!(said.code, Some(0), "{said:?}");
    let raw = run(&world, "report regions all.data").out;
    for pid in [one.pid(), two.pid()] {
        assert!(raw.contains(&format!("(pid {pid})")), "{raw}");
    }
    let said = run(&world, &format!("top --name {name} --batch -n 1 -d 1s"));
    assert!(said.code == Some(0) && said.out.contains(&two.pid().to_string()), "{said:?}");
    // Nothing is left to watch for who wants something else, and that is never an empty success.
    for words in [
        format!("wss --name {name} --method resample --duration 2s"),
        format!("wss --name {name} --by cgroup --duration 2s"),
        format!("record --name {name} --seed 7 --duration 2s -o none.data"),
        format!("top --name {name} --ops pagewalk --batch -n 1"),
    ] {
        let said = run(&world, &words);
        assert_eq!(said.code, Some(1), "{words}: {said:?}");
        assert!(said.err.contains("(fleet / c), so nothing is left"), "{words}: {said:?}");
    }
    // Nor for who may not ask the agent.
    for words in ["wss", "record -o none.data"] {
        let mut command = isotherm();
        command.args(words.split(' ')).args(["--name", &name, "--duration", "3s"]);
        command.current_dir(world.dir.path()).env("ISOTHERM_SOCKET", world.path("none.sock"));
        let said: Said = command.output().unwrap().into();
        assert_eq!(said.code, Some(1), "{words}: {said:?}");
        assert!(said.err.contains("nothing was seen"), "{words}: {said:?}");
    }
    // A record has the windows of one context.
    let mut world = world;
    world.stop();
    for (policy, pid) in [("fleet", one.pid()), ("other", two.pid())] {
        world.write(policy, &watch(pid));
    }
    world.start();
    world.until("each has one", |world| world.targets("fleet") + world.targets("other") == 2);
    let said = run(&world, &format!("record --name {name} --duration 2s -o none.data"));
    assert_eq!(said.code, Some(1), "{said:?}");
    assert!(
        said.err.contains("fleet / c, other / c") && said.err.contains("of several"),
        "{said:?}"
    );
    let said = wss(&world, &format!("--name {name} -i 1s --duration 4s"));
    assert!(said.code == Some(0) && said.err.contains("fleet / c, other / c"), "{said:?}");
}

/// A process that only sleeps, with a name that no other test has.
struct Named {
    name: String,
    process: Guard,
    _dir: TempDir,
}

impl Named {
    fn start(what: &str) -> Self {
        let name = format!("is{}{what}", std::process::id() % 1_000_000);
        let dir = tempfile::tempdir().unwrap();
        let program = dir.path().join(&name);
        // A link: a copy that is open for writing could not be run while another test forks.
        std::os::unix::fs::symlink("/bin/sleep", &program).unwrap();
        let process = Guard(Command::new(program).arg("600").spawn().unwrap());
        Self { name, process, _dir: dir }
    }

    fn pid(&self) -> u32 {
        self.process.0.id()
    }
}

fn run(world: &World, words: &str) -> Said {
    let mut command = isotherm();
    command.args(words.split_whitespace()).current_dir(world.dir.path());
    command.env("ISOTHERM_SOCKET", world.path("s.sock"));
    command.output().unwrap().into()
}

#[test]
fn top_shows_the_rows_of_the_agent_that_watches_already() {
    let (target, other) = (sleeper(), sleeper());
    let pid = target.0.id();
    let mut world = World::new(&[("a", &watch(pid))]);
    world.start();
    world.until("it has a target", |world| world.targets("a") == 1);
    let said = run(&world, &format!("top -p {pid} --batch -n 2 -d 1s"));
    assert_eq!(said.code, Some(0), "{said:?}");
    assert!(said.err.contains("the agent's (a / c)"), "{said:?}");
    let rows: Vec<&str> = said.out.lines().filter(|line| line.contains("sleep")).collect();
    assert_eq!(rows.len(), 2, "a row in each of two tables: {said:?}");
    assert!(said.out.contains("the agent's (a / c)"), "the head says so: {said:?}");
    assert!(rows.iter().all(|row| row.contains(&pid.to_string())), "{said:?}");
    // Nothing of it was watched twice: the agent has its target still.
    assert_eq!(world.targets("a"), 1);
    // What the agent does not watch is watched here.
    let said = run(&world, &format!("top -p {} --batch -n 1 -d 1s", other.0.id()));
    assert!(said.code == Some(0) && !said.err.contains("agent"), "{said:?}");
}

#[test]
fn a_record_is_written_from_the_agent_that_watches_already() {
    let mut target = sleeper();
    let pid = target.0.id();
    let mut world = World::new(&[("a", &watch(pid))]);
    world.start();
    world.until("it has a target", |world| world.targets("a") == 1);
    let said = run(&world, &format!("record -p {pid} --duration 3s -o r.data"));
    assert!(said.err.contains("these numbers are the agent's (a / c)"), "{said:?}");
    assert_eq!(said.code, Some(0), "no window is missing: {said:?}");
    assert_eq!(world.targets("a"), 1);
    // It is a record as any other: it names the process and its mappings.
    let report = run(&world, "report r.data");
    assert_eq!(report.code, Some(0), "{report:?}");
    assert!(report.out.contains("sleep"), "{report:?}");
    let raw = run(&world, "report regions r.data");
    let windows = raw.out.matches("sleep (pid").count();
    assert!(windows >= 2, "{raw:?}");

    // It ends with the process.
    let mut command = isotherm();
    command.args(["record", "-p", &pid.to_string(), "-o", "s.data"]).current_dir(world.dir.path());
    command.env("ISOTHERM_SOCKET", world.path("s.sock"));
    let recorder = command.stderr(std::process::Stdio::piped()).spawn().unwrap();
    world.until("it records", |world| world.path("s.data").metadata().is_ok_and(|m| m.len() > 0));
    target.0.kill().unwrap();
    target.0.wait().unwrap();
    let said: Said = recorder.wait_with_output().unwrap().into();
    assert!(said.err.contains("every target has exited"), "{said:?}");
}
