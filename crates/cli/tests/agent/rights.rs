//! Who may do what. The tests need root and `setpriv`, to become somebody else.

use std::process::Command;

use crate::world::{Said, World, policy};

/// A user and a group that own nothing here.
const NOBODY: u32 = 65_534;
const READERS: u32 = 64_001;
const ACTORS: u32 = 64_002;

/// Runs `isotherm ctl` as nobody with these supplementary groups.
fn as_nobody(world: &World, groups: &[u32], words: &str) -> Said {
    let ctl = world.ctl_command(words);
    let groups: Vec<String> = groups.iter().map(ToString::to_string).collect();
    let mut command = Command::new("setpriv");
    command.args(["--reuid", &NOBODY.to_string(), "--regid", &NOBODY.to_string()]);
    match groups.is_empty() {
        true => command.arg("--clear-groups"),
        false => command.args(["--groups", &groups.join(",")]),
    };
    // The program may be in a directory that nobody but root can read. A child copies it: a file
    // that this process has open for writing could not be run while another test forks.
    let program = world.path("isotherm");
    if !program.exists() {
        let copied = Command::new("cp").arg(ctl.get_program()).arg(&program).status().unwrap();
        assert!(copied.success());
    }
    command.arg(program).args(ctl.get_args());
    command.envs(ctl.get_envs().filter_map(|(k, v)| Some((k, v?)))).current_dir("/");
    command.output().unwrap().into()
}

fn can_become_nobody() -> bool {
    let done = Command::new("setpriv")
        .args(["--reuid", "65534", "--regid", "65534", "--clear-groups", "true"])
        .output();
    let can = done.is_ok_and(|output| output.status.success());
    if !can {
        eprintln!("skipped: needs root and setpriv to become another user");
    }
    can
}

#[test]
fn readers_read_actors_act_and_others_are_refused() {
    if !can_become_nobody() {
        return;
    }
    let text = policy("{ name = \"isotherm-none\" }", "1s");
    let mut world = World::new(&[("a", &text)])
        .arg("--readers")
        .arg(&READERS.to_string())
        .arg("--actors")
        .arg(&ACTORS.to_string());
    world.start();

    let refused = as_nobody(&world, &[], "status");
    assert_eq!(refused.code, Some(4), "{refused:?}");
    assert!(refused.err.contains("user 65534 is neither root nor"), "{refused:?}");
    assert!(world.log().contains("a user without rights was refused uid=65534"), "{}", world.log());
    // A group of number 0 is not root.
    assert_eq!(as_nobody(&world, &[0], "list").code, Some(4));

    let status = as_nobody(&world, &[READERS], "status --json");
    assert_eq!(status.code, Some(0), "{status:?}");
    assert!(status.out.contains("\"may_act\":false"), "{status:?}");
    for words in ["list", "account", "snapshot", "show a", "follow -n 1 --accounts"] {
        assert_eq!(as_nobody(&world, &[READERS], words).code, Some(0), "{words}");
    }
    for words in
        ["stop a", "start a", "pause a", "resume a", "stop a --forget", "commit a /dev/null"]
    {
        let refused = as_nobody(&world, &[READERS], words);
        assert_eq!(refused.code, Some(4), "{words}: {refused:?}");
        assert!(refused.err.contains("may only read"), "{words}: {refused:?}");
    }
    assert_eq!(world.state("a"), "running");
    let log = world.log();
    assert!(log.contains("without the right to act was refused uid=65534"), "{log}");

    assert_eq!(as_nobody(&world, &[ACTORS], "stop a").code, Some(0));
    assert_eq!(world.state("a"), "stopped");
}
