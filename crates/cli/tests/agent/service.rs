//! What systemd sees of the agent (its messages, and its unit), and what a cluster sees: its
//! probes, its filter of system calls, and where it acts.

use std::fs;
use std::io::{Read, Write};
use std::os::unix::net::{UnixDatagram, UnixStream};
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use rustix::process::Signal;
use tempfile::TempDir;

use crate::common::isotherm;
use crate::world::{PATIENCE, World, sleeper, watch};

#[test]
fn systemd_is_told_what_happens() {
    let mut world = World::new(&[]);
    let socket = UnixDatagram::bind(world.path("notify")).unwrap();
    socket.set_read_timeout(Some(PATIENCE)).unwrap();
    let notify = world.path("notify").display().to_string();
    world = world.env("NOTIFY_SOCKET", &notify).env("WATCHDOG_USEC", "600000");
    world = world.env("JOURNAL_STREAM", "8:1");
    world.start();
    let wait_for = |wanted: &str| {
        let mut bytes = [0; 4096];
        loop {
            let n = socket.recv(&mut bytes).unwrap_or_else(|e| panic!("no {wanted}: {e}"));
            let text = String::from_utf8_lossy(&bytes[..n]).into_owned();
            if text.starts_with(wanted) {
                return text;
            }
        }
    };
    wait_for("READY=1");
    wait_for("STATUS=no policy");
    wait_for("WATCHDOG=1");
    world.signal(Signal::HUP);
    let text = wait_for("RELOADING=1");
    assert!(text.contains("MONOTONIC_USEC="), "{text}");
    wait_for("READY=1");
    let log = world.log();
    assert!(log.lines().all(|line| line.starts_with('<')), "{log}");
    assert!(log.contains("<6>ready"), "{log}");
    socket.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
    world.signal(Signal::TERM);
    wait_for("STOPPING=1");
    assert_eq!(world.agent.take().unwrap().wait().unwrap().code(), Some(0));
}

/// Asks the server of metrics; the whole answer, empty if nobody listens.
fn ask(world: &World, path: &str) -> String {
    let mut text = String::new();
    if let Ok(mut stream) = UnixStream::connect(world.path("m.sock")) {
        write!(stream, "GET {path} HTTP/1.1\r\nHost: x\r\n\r\n").unwrap();
        stream.read_to_string(&mut text).unwrap();
    }
    text
}

#[test]
fn a_probe_is_told_which_policy_does_not_run_and_why() {
    let targets = [sleeper(), sleeper()];
    let [one, two] = [&targets[0], &targets[1]].map(|target| watch(target.0.id()));
    let mut world = World::new(&[("good", &one), ("bad", "[[context]]\nname = 3\n")]);
    let socket = world.path("m.sock").display().to_string();
    world = world.arg("--metrics").arg(&socket);
    world.start();
    world.until("the reason is told", |world| {
        let said = ask(world, "/readyz");
        said.starts_with("HTTP/1.1 503") && said.contains("policy `bad` is not valid")
    });
    assert!(ask(&world, "/healthz").starts_with("HTTP/1.1 200"), "it lives");
    world.write("bad", &two);
    world.signal(Signal::HUP);
    world.until("both run", |world| ask(world, "/readyz").starts_with("HTTP/1.1 200"));
    drop(targets);
    world.until("nothing is left to watch", |world| {
        let said = ask(world, "/readyz");
        said.starts_with("HTTP/1.1 503") && said.contains("policy `good` does not run: ")
    });
    assert_eq!(world.stop(), Some(0));
}

#[test]
fn policies_act_only_in_the_namespaces_that_are_given() {
    let target = sleeper();
    let acts = watch(target.0.id()).replace("\"stat\"", "\"pageout\"");
    let mut world = World::new(&[("p", &acts)]).arg("--act-in").arg("shop,db");
    world.start();
    let is_dry = |world: &World| {
        let said = world.json("account");
        said["schemes"].as_array().and_then(|all| all.first()?["dry_run"].as_bool())
    };
    world.until("it has an account", |world| is_dry(world).is_some());
    assert_eq!(is_dry(&world), Some(true));
    assert!(world.log().contains("context `c` only decides and counts"), "{}", world.log());
    // Who commits a policy is held to the same.
    fs::write(world.path("new.toml"), acts.replace("\"1s..\"", "\"2s..\"")).unwrap();
    let committed = world.ctl("commit p new.toml");
    assert_eq!(committed.code, Some(0), "{committed:?}");
    assert_eq!(is_dry(&world), Some(true));
    assert_eq!(world.stop(), Some(0));
}

#[test]
fn the_filter_of_system_calls_is_written_as_the_chart_has_it() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("isotherm.json");
    let write =
        |file: &Path| isotherm().args(["agent", "--write-seccomp"]).arg(file).output().unwrap();
    assert!(write(&file).status.success());
    let packaging = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../packaging");
    let chart = fs::read_to_string(packaging.join("helm/isotherm/files/seccomp.json")).unwrap();
    assert_eq!(fs::read_to_string(&file).unwrap(), chart);
    assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1, "nothing else is left there");
    let said = write(&dir.path().join("none/isotherm.json"));
    assert_eq!(said.status.code(), Some(1));
    let said = String::from_utf8_lossy(&said.stderr);
    assert!(said.contains("tried:") && said.contains("none/isotherm.json"), "{said}");
}

/// The shipped unit, with `metrics.conf` or without, in a directory of its own.
fn unit(metrics: bool) -> TempDir {
    let packaging = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../packaging");
    let dir = tempfile::tempdir().unwrap();
    let copy = |name: &str| {
        let to = dir.path().join(name);
        fs::create_dir_all(to.parent().unwrap()).unwrap();
        // `verify` wants the program to be there.
        let text = fs::read_to_string(packaging.join(name)).unwrap();
        fs::write(to, text.replace("/usr/bin/isotherm", env!("CARGO_BIN_EXE_isotherm"))).unwrap();
    };
    copy("isotherm.service");
    if metrics {
        copy("isotherm.service.d/metrics.conf");
    }
    dir
}

/// Runs systemd-analyze on a unit; `None`, printed, where it is not there.
fn analyzed(unit: &TempDir, words: &[&str]) -> Option<(bool, String)> {
    let path = unit.path().join("isotherm.service");
    let Ok(output) = Command::new("systemd-analyze").args(words).arg(&path).output() else {
        eprintln!("skipped: systemd-analyze is not installed");
        return None;
    };
    let said = String::from_utf8_lossy(&output.stdout);
    let said = format!("{said}{}", String::from_utf8_lossy(&output.stderr));
    if said.contains("Unknown option") || said.contains("unrecognized option") {
        eprintln!("skipped: this systemd-analyze does not know {words:?}");
        return None;
    }
    Some((output.status.success(), said))
}

#[test]
fn the_unit_is_safe_with_metrics_and_without() {
    let mut levels = Vec::new();
    for metrics in [false, true] {
        let security = ["security", "--offline=true", "--no-pager", "--threshold=30"];
        let Some((success, said)) = analyzed(&unit(metrics), &security) else { return };
        let line = said.lines().find(|line| line.contains("Overall exposure level"));
        let line = line.unwrap_or_else(|| panic!("no level in {said}"));
        let level = line.split_whitespace().find_map(|word| word.parse::<f64>().ok()).unwrap();
        assert!(level <= 3.0, "{line}");
        // The threshold says the same by the exit code.
        assert!(success, "{said}");
        levels.push(level);
    }
    assert!(levels[0] < levels[1], "the drop-in opens the loopback interface: {levels:?}");
}

#[test]
fn systemd_understands_every_line_of_the_unit_and_the_drop_in() {
    for metrics in [false, true] {
        let unit = unit(metrics);
        let Some((success, said)) = analyzed(&unit, &["verify", "--man=no"]) else { return };
        // It names what it does not understand, and goes on; of other units it may complain, too.
        let own = said.lines().filter(|line| line.contains("isotherm.service"));
        let own: Vec<&str> = own.filter(|line| !line.contains("User")).collect();
        assert!(success && own.is_empty(), "{said}");
    }
    let broken = unit(true);
    let drop_in = broken.path().join("isotherm.service.d/metrics.conf");
    let text = fs::read_to_string(&drop_in).unwrap();
    fs::write(&drop_in, text.replace("IPAddressAllow=localhost", "IPAddressAllow=all")).unwrap();
    let Some((_, said)) = analyzed(&broken, &["verify", "--man=no"]) else { return };
    assert!(said.contains("metrics.conf"), "a wrong line is told: {said}");
}

#[test]
fn the_user_of_the_unit_is_made_by_the_shipped_file() {
    let packaging = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../packaging");
    let unit = fs::read_to_string(packaging.join("isotherm.service")).unwrap();
    assert!(unit.contains("\nUser=isotherm\nGroup=isotherm\n"), "{unit}");
    let file = packaging.join("sysusers.d/isotherm.conf").canonicalize().unwrap();
    let root = tempfile::tempdir().unwrap();
    fs::create_dir(root.path().join("etc")).unwrap();
    let made = Command::new("systemd-sysusers").arg("--root").arg(root.path()).arg(&file).output();
    let Ok(output) = made else {
        eprintln!("skipped: systemd-sysusers is not installed");
        return;
    };
    if !rustix::process::geteuid().is_root() {
        eprintln!("skipped: only root can make users, also below another directory");
        return;
    }
    assert!(output.status.success(), "{output:?}");
    for name in ["passwd", "group"] {
        let text = fs::read_to_string(root.path().join("etc").join(name)).unwrap();
        assert!(text.lines().any(|line| line.starts_with("isotherm:")), "{name}: {text}");
    }
}
