//! What systemd sees of the agent: its messages, and its unit.

use std::fs;
use std::os::unix::net::UnixDatagram;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use rustix::process::Signal;
use tempfile::TempDir;

use crate::world::{PATIENCE, World};

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
