//! Another version of the agent takes over in place: the state, the notes and the socket of the
//! former one. `fixtures/state-N.json` is the state as version N of its format was written; a new
//! version adds a fixture and leaves the old ones as they are.

use std::fs;
use std::os::unix::net::UnixListener;

use serde_json::Value;

use crate::world::{World, sleeper, watch};

const STATES: [&str; 3] = [
    include_str!("fixtures/state-0.json"),
    include_str!("fixtures/state-1.json"),
    include_str!("fixtures/state-2.json"),
];

/// A world in which a former agent was killed: its state, its notes and its socket are there.
fn left_behind(state: &str, file: &str, committed: &str, pid: u32) -> World {
    let world = World::new(&[("kept", &watch(pid)), ("over", file)]);
    let dir = world.path("state/state");
    fs::create_dir_all(&dir).unwrap();
    let quoted = |text: &str| {
        let text = serde_json::to_string(text).unwrap();
        text.trim_matches('"').to_owned()
    };
    let state = state.replace("PID", &pid.to_string());
    let state = state.replace("COMMITTED", &quoted(committed)).replace("FILE", &quoted(file));
    fs::write(dir.join("state.json"), state).unwrap();
    // A note that was cut short, and one of a process that is gone.
    let whose = r#""whose":{"pid":4194301,"start_ticks":7,"program":9}"#;
    let notes =
        format!("{{\"given\":{{{whose},\"huge\":true,\"granules\":[0],\"opposed\":[]}}}}\n{{\"giv");
    fs::write(dir.join("advice.jsonl"), notes).unwrap();
    drop(UnixListener::bind(world.path("s.sock")).unwrap());
    assert!(world.path("s.sock").exists(), "nobody listens there any more");
    world
}

#[test]
fn a_newer_agent_goes_on_where_an_older_one_was_killed() {
    for state in STATES {
        let target = sleeper();
        let pid = target.0.id();
        let (file, committed) = (watch(pid), watch(pid).replace("1s..", "7s.."));
        let mut world = left_behind(state, &file, &committed, pid);
        world.start();
        assert_eq!(world.state("kept"), "stopped", "{state}");
        assert_eq!(world.state("made"), "running", "{state}");
        // Paused from its start on: it has the committed text, which holds over the file.
        assert_eq!(world.state("over"), "paused", "{state}");
        let text = world.json("show over")["text"].as_str().unwrap().to_owned();
        assert_eq!(text, committed);
        world.until("it watches", |world| world.targets("made") == 1);
        assert_eq!(fs::read(world.path("state/state/advice.jsonl")).unwrap(), b"");
        // What is kept from now on has this version's format.
        assert_eq!(world.ctl("start kept").code, Some(0));
        let kept = fs::read(world.path("state/state/state.json")).unwrap();
        let kept: Value = serde_json::from_slice(&kept).unwrap();
        assert_eq!(kept["written_by"], env!("CARGO_PKG_VERSION"));
        assert!(kept["policies"]["kept"].is_null(), "it runs, as its file says: {kept}");
        assert!(kept["policies"]["made"]["text"].is_string(), "{kept}");
        assert_eq!(world.stop(), Some(0));
    }
}

#[test]
fn an_older_agent_refuses_a_newer_state_by_name_and_leaves_it() {
    let target = sleeper();
    let newer = STATES[1].replace("\"version\": 1", "\"version\": 3").replace("0.1.0", "9.9.9");
    let pid = target.0.id();
    let mut world = left_behind(&newer, &watch(pid), &watch(pid), pid);
    let before = fs::read(world.path("state/state/state.json")).unwrap();
    let output = world.command().output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(3), "{said}");
    assert!(said.contains("version 3, written by Isotherm 9.9.9"), "{said}");
    assert_eq!(fs::read(world.path("state/state/state.json")).unwrap(), before);
    // The user moves it away, as the hint says.
    fs::remove_file(world.path("state/state/state.json")).unwrap();
    world.start();
    assert_eq!(world.state("kept"), "running");
}

#[test]
fn a_second_agent_does_not_disturb_the_one_that_runs() {
    let target = sleeper();
    let mut world = World::new(&[("a", &watch(target.0.id()))]);
    world.start();
    world.until("it watches", |world| world.targets("a") == 1);
    let output = world.command().output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(2), "{said}");
    assert!(said.contains("another agent uses"), "{said}");
    assert_eq!(world.targets("a"), 1, "its socket and its targets are as they were");
    // Killed while its context looks: the next one takes the same targets and the same socket.
    world.kill();
    assert!(world.path("s.sock").exists());
    world.start();
    world.until("it watches again", |world| world.targets("a") == 1);
}
