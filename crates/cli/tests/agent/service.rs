//! What systemd sees of the agent: its messages, and its unit.

use std::os::unix::net::UnixDatagram;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use rustix::process::Signal;

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

#[test]
fn the_unit_is_safe() {
    let unit = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../packaging/isotherm.service");
    let analyzed = Command::new("systemd-analyze")
        .args(["security", "--offline=true", "--no-pager", "--threshold=30"])
        .arg(&unit)
        .output();
    let Ok(output) = analyzed else {
        eprintln!("skipped: systemd-analyze is not installed");
        return;
    };
    let said = String::from_utf8_lossy(&output.stdout);
    let said = format!("{said}{}", String::from_utf8_lossy(&output.stderr));
    if said.contains("Unknown option") || said.contains("unrecognized option") {
        eprintln!("skipped: this systemd-analyze has no --offline");
        return;
    }
    let line = said.lines().find(|line| line.contains("Overall exposure level"));
    let line = line.unwrap_or_else(|| panic!("no level in {said}"));
    let level = line.split_whitespace().find_map(|word| word.parse::<f64>().ok()).unwrap();
    assert!(level <= 3.0, "{line}");
    // The threshold says the same by the exit code.
    assert!(output.status.success(), "{said}");
}
