//! Who may do what, and that the agent needs no more than its unit gives. The tests need root and
//! `setpriv`, to become somebody else.

use std::fs::{self, Permissions};
use std::io::{BufRead, BufReader};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::process::{Command, Stdio};

use isotherm::raw::host::zram::Zram;

use crate::common::{Guard, isotherm};
use crate::world::{Said, World, policy};

/// A user and a group that own nothing here.
const NOBODY: u32 = 65_534;
const READERS: u32 = 64_001;
const ACTORS: u32 = 64_002;

/// Runs `isotherm ctl` as nobody with these supplementary groups.
fn as_nobody(world: &World, groups: &[u32], words: &str) -> Said {
    let ctl = world.ctl_command(words);
    nobody(world, groups, &ctl)
}

/// Runs the program as nobody with these supplementary groups, with the arguments of `command`.
fn nobody(world: &World, groups: &[u32], like: &Command) -> Said {
    let groups: Vec<String> = groups.iter().map(ToString::to_string).collect();
    let mut command = Command::new("setpriv");
    command.args(["--reuid", &NOBODY.to_string(), "--regid", &NOBODY.to_string()]);
    match groups.is_empty() {
        true => command.arg("--clear-groups"),
        false => command.args(["--groups", &groups.join(",")]),
    };
    // The program may be in a directory that nobody but root can read.
    command.arg(world.program()).args(like.get_args());
    command.envs(like.get_envs().filter_map(|(k, v)| Some((k, v?)))).current_dir("/");
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

/// A user and its group, for an agent that is not root, and a third one that owns processes.
const AGENT: u32 = 64_003;
const OTHER: u32 = 64_004;

/// Fills 32 MiB, tells it, and sleeps.
const IDLE: &str = "
import mmap, sys, time
m = mmap.mmap(-1, 32 << 20, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
for i in range(0, 32 << 20, 4096):
    m[i] = 1 + (i >> 12) % 255
print('filled', flush=True)
time.sleep(600)
";

/// A process with idle memory, of this user; `None`, printed, without a Python that it may run.
fn idle(uid: u32) -> Option<Guard> {
    let id = uid.to_string();
    // The first one in the path may belong to root alone.
    for python in ["/usr/bin/python3", "python3"] {
        let mut command = Command::new("setpriv");
        command.args(["--reuid", &id, "--regid", &id, "--clear-groups", python, "-c", IDLE]);
        let mut child = Guard(command.current_dir("/").stdout(Stdio::piped()).spawn().unwrap());
        let mut line = String::new();
        BufReader::new(child.0.stdout.take().unwrap()).read_line(&mut line).unwrap();
        if line == "filled\n" {
            return Some(child);
        }
    }
    eprintln!("skipped: no python3 that user {uid} may run");
    None
}

/// The key of the shipped unit.
fn of_the_unit(key: &str) -> String {
    let unit = concat!(env!("CARGO_MANIFEST_DIR"), "/../../packaging/isotherm.service");
    let text = fs::read_to_string(unit).unwrap();
    text.lines().find_map(|line| line.strip_prefix(key)).unwrap().to_owned()
}

/// As the unit runs it: a user of its own, five capabilities, umask 0027, its state's directory.
#[test]
fn the_agent_does_all_of_its_work_as_the_user_of_the_unit() {
    if !can_become_nobody() {
        return;
    }
    let swap = match Zram::set_up(128 << 20) {
        Ok(swap) => Some(swap),
        Err(err) if err.is_missing() => {
            eprintln!("skipped in part: {err}");
            None
        }
        Err(err) => panic!("{err}"),
    };
    let (Some(of_root), Some(of_other)) = (idle(0), idle(OTHER)) else { return };
    let pageout = |of: &Guard| {
        format!(
            "[[context]]\nname = \"c\"\ntargets = [{{ pid = {} }}]\n[[context.scheme]]\n\
             name = \"cold\"\naction = \"pageout\"\nfrequency = \"0%\"\nage = \"1s..\"\n\
             evidence = {{ confirm = \"1s\", time = \"100ms\" }}\nbrake = \"off\"\n\
             quota = {{ size = \"64M\", interval = \"1s\" }}\n",
            of.0.id()
        )
    };
    let (id, umask) = (AGENT.to_string(), of_the_unit("UMask="));
    let kept: String = of_the_unit("AmbientCapabilities=")
        .split(' ')
        .map(|name| format!(",+{}", name.trim_start_matches("CAP_").to_lowercase()))
        .collect();
    let script = format!(
        "umask {umask}; exec setpriv --reuid {id} --regid {READERS} --clear-groups \
         --inh-caps=-all{kept} --ambient-caps=-all{kept} --bounding-set=-all{kept} --no-new-privs \
         \"$@\""
    );
    let mut world = World::new(&[("root", &pageout(&of_root)), ("other", &pageout(&of_other))])
        .through(&["sh", "-c", &script, "sh"])
        .arg("--readers")
        .arg(&READERS.to_string());
    let textfile = world.path("m.prom");
    world = world.arg("--metrics-textfile").arg(textfile.to_str().unwrap());
    // As StateDirectory= and StateDirectoryMode= make it.
    let state = world.path("state");
    fs::create_dir(&state).unwrap();
    let mode = u32::from_str_radix(&of_the_unit("StateDirectoryMode="), 8).unwrap();
    fs::set_permissions(&state, Permissions::from_mode(mode)).unwrap();
    std::os::unix::fs::chown(&state, Some(AGENT), Some(READERS)).unwrap();
    world.start();
    let status = fs::read_to_string(format!("/proc/{}/status", world.pid())).unwrap();
    assert!(status.contains(&format!("Uid:\t{AGENT}\t{AGENT}")), "{status}");
    for name in ["root", "other"] {
        world.until("it watches", |world| world.targets(name) == 1);
        let done = |world: &World| {
            world.json(&format!("account {name}"))["schemes"][0]["done_bytes"].as_u64().unwrap()
        };
        if swap.is_some() {
            world.until("memory is paged out", |world| done(world) >= 8 << 20);
        }
    }
    assert!(!world.log().contains("clear_refs"), "{}", world.log());

    // The collector, another user, can read what the umask would hide.
    world.until("the textfile", |_| textfile.exists());
    assert_eq!(fs::metadata(&textfile).unwrap().mode() & 0o777, 0o644);

    // Its state, its history and its socket, for those who may read and for others.
    assert_eq!(world.ctl("stop other").code, Some(0));
    assert_eq!(as_nobody(&world, &[READERS], "status").code, Some(0));
    assert_eq!(as_nobody(&world, &[], "status").code, Some(4));
    let mut report = isotherm();
    report.args(["report", "--since", "1h", "--of", "root", "--history"]);
    report.arg(world.path("state/history"));
    let said = nobody(&world, &[READERS], &report);
    assert!(said.code == Some(0) && said.out.contains("python"), "{said:?}");
    let said = nobody(&world, &[], &report);
    assert_eq!(said.code, Some(4), "{said:?}");
    for part in ["tried:", "ermission denied", "why:", "usermod -aG isotherm"] {
        assert!(said.err.contains(part), "{part}: {said:?}");
    }
    let mut top = isotherm();
    top.args(["top", "--batch", "-n", "1", "-t", "5min", "--of", "root", "--history"]);
    top.arg(world.path("state/history"));
    let said = nobody(&world, &[], &top);
    assert!(said.code == Some(4) && said.err.contains("usermod -aG isotherm"), "{said:?}");
    let kept = fs::metadata(world.path("state/state/state.json")).unwrap();
    assert_eq!((kept.uid(), kept.gid(), kept.mode() & 0o7), (AGENT, READERS, 0));
    // Another one goes on from that state.
    world.kill();
    world.start();
    assert_eq!((world.state("other"), world.state("root")), ("stopped".into(), "running".into()));
    assert_eq!(world.stop(), Some(0));
}
