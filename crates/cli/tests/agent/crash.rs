//! What an agent that is killed leaves in its targets is taken back by the next one.

use std::fs;
use std::process::{Command, Stdio};

use crate::common::Guard;
use crate::world::{World, flagged};

/// A policy that gives advice to everything it sees.
fn advise(pid: u32) -> String {
    format!(
        "[[context]]\nname = \"c\"\ntargets = [{{ pid = {pid} }}]\n[[context.scheme]]\n\
         name = \"advise\"\naction = \"nohugepage\"\ninject = true\nevidence = \"off\"\n"
    )
}

#[test]
fn advice_of_a_killed_agent_is_taken_back() {
    let enabled = fs::read_to_string("/sys/kernel/mm/transparent_hugepage/enabled");
    if !enabled.is_ok_and(|text| text.contains("[always]")) {
        eprintln!("skipped: without huge pages for all, this advice has no effect to take back");
        return;
    }
    // It fills its buffer, and then waits for somebody to read its output.
    let mut dd = Command::new("dd");
    dd.args(["if=/dev/zero", "bs=32M"]).stdout(Stdio::piped());
    let dd = Guard(dd.spawn().unwrap());
    let pid = dd.0.id();
    let mut world = World::new(&[]);
    world.until("it has memory", |_| {
        let output = Command::new("grep").args(["VmRSS", &format!("/proc/{pid}/status")]).output();
        let text = String::from_utf8_lossy(&output.unwrap().stdout).into_owned();
        text.split_whitespace().nth(1).and_then(|kib| kib.parse::<u64>().ok()) > Some(20 << 10)
    });
    let before = flagged(pid, "nh");
    world.write("advise", &advise(pid));
    world.start();
    world.until("advice is given", |_| flagged(pid, "nh") > before + (8 << 20));
    let notes = || fs::read_to_string(world.path("state/state/advice.jsonl")).unwrap();
    assert!(notes().contains("given"), "{}", notes());
    world.kill();
    assert!(flagged(pid, "nh") > before, "it outlives the agent");

    fs::remove_file(world.path("policies.d/advise.toml")).unwrap();
    world.start();
    world.until("it is taken back", |_| flagged(pid, "nh") <= before);
    assert!(world.log().contains("a former agent left advice"), "{}", world.log());
    assert_eq!(fs::read(world.path("state/state/advice.jsonl")).unwrap(), b"");

    // An agent that ends takes its advice back itself, and leaves no notes of it.
    world.write("advise", &advise(pid));
    world.signal(rustix::process::Signal::HUP);
    world.until("advice is given again", |_| flagged(pid, "nh") > before + (8 << 20));
    assert_eq!(world.stop(), Some(0));
    assert_eq!(flagged(pid, "nh"), before);
    world.start();
    assert_eq!(world.log().matches("a former agent left advice").count(), 1);
}
