//! A policy that the agent tunes while it runs: where its values are, and what the agent refuses.

use std::fs;

use crate::world::{World, sleeper};

/// Pages out what nobody has touched for an hour, of files only. So nothing is done here.
fn policy(pid: u32, more: &str) -> String {
    format!(
        "[[context]]\nname = \"c\"\ntargets = [{{ pid = {pid} }}]\n[[context.scheme]]\nname = \"cold\"\n\
         action = \"pageout\"\nage = \"1h..\"\nfilters = [\"reject anon\"]\n\n\
         [tune]\nrange = [\"cold.age=10m..2h\"]\nonline = true\nevery = \"1h\"\n{more}"
    )
}

#[test]
fn values_are_kept_by_the_agent_and_shown_to_clients() {
    let target = sleeper();
    let mut world = World::new(&[("a", &policy(target.0.id(), ""))]);
    let tuned = |world: &World| world.policy("a")["tuned"].as_str().unwrap_or("none").to_owned();
    world.start();
    world.until("it is tuned", |world| tuned(world) == "cold.age=1h");
    assert!(world.ctl("list").out.contains("a: tuned online: cold.age=1h"), "{}", world.log());
    assert!(world.log().contains("tune: cold.age=10m..2h from cold.age=1h"), "{}", world.log());
    assert_eq!(world.stop(), Some(0));

    // As if a step had been kept.
    let file = world.path("state/tuned/a.json");
    let kept = r#"{"version":1,"ranges":["cold.age=10m..2h"],"began":[3600000000],"values":[1800000000],"slowed":0.0}"#;
    fs::write(&file, kept).unwrap();
    world.start();
    world.until("it goes on", |world| tuned(world) == "cold.age=30m");
    assert!(world.log().contains("values that were found before: cold.age=30m"), "{}", world.log());
    // The same policy goes on with it. Another one begins anew, and that is said.
    let commit = |world: &World, text: &str| {
        fs::write(world.path("new.toml"), text).unwrap();
        world.ctl("commit a new.toml")
    };
    assert_eq!(commit(&world, &policy(target.0.id(), "phase = \"10s\"\n")).code, Some(0));
    assert_eq!(tuned(&world), "cold.age=30m");
    let narrow = policy(target.0.id(), "").replace("..2h", "..1h");
    assert_eq!(commit(&world, &narrow).code, Some(0));
    world.until("it begins anew", |world| tuned(world) == "cold.age=1h");
    assert!(
        world.log().contains("written with other ranges (cold.age=10m..2h)"),
        "{}",
        world.log()
    );
    // Without the table it is a policy as any other.
    let plain = narrow.split("[tune]").next().unwrap().to_owned();
    assert_eq!(commit(&world, &plain).code, Some(0));
    assert_eq!(tuned(&world), "none");
    assert_eq!(world.stop(), Some(0));
}

#[test]
fn the_agent_runs_no_command_and_writes_no_file_for_a_policy() {
    let target = sleeper();
    let world =
        World::new(&[("a", &policy(target.0.id(), "latency_cmd = \"touch bad; echo 1\"\n"))]);
    let checked = world.command().arg("--check").output().unwrap();
    let said = String::from_utf8_lossy(&checked.stderr);
    assert_eq!(checked.status.code(), Some(2), "{said}");
    assert!(said.contains("`latency_cmd`") && said.contains("starts no command"), "{said}");
    let mut world = world;
    world.start();
    assert_eq!(world.state("a"), "invalid");
    for (more, part) in [
        ("progress_cmd = \"touch bad; echo 1\"\n", "an agent starts no command"),
        ("state = \"bad\"\n", "the agent keeps the values itself"),
    ] {
        fs::write(world.path("new.toml"), policy(target.0.id(), more)).unwrap();
        let said = world.ctl("commit a new.toml");
        assert!(said.code == Some(2) && said.err.contains(part), "{said:?}");
    }
    assert!(!world.path("bad").exists());
    assert_eq!(world.stop(), Some(0));
}
