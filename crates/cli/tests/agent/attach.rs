//! Commands that show what an agent sees, rather than watch the same processes themselves.

use serde_json::Value;

use super::common::isotherm;
use super::world::{Said, World, sleeper, watch};

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
    let said = wss(&world, &format!("{pid} {} -i 500ms --duration 2s", other.0.id()));
    assert!(said.err.contains("is watched already"), "{said:?}");
    let said = wss(&world, &format!("{pid} --method resample --duration 2s"));
    assert!(said.err.contains("is watched already"), "{said:?}");
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
