//! Sets up swap for one test, and tests that setup.

use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};

use isotherm_host::zram::{Zram, ZramKind, remove_leftover};

/// Swap of so many MiB, or the reason why there is none here, printed.
pub(crate) fn swap(mib: u64) -> Option<Zram> {
    match Zram::set_up(mib << 20) {
        Ok(zram) => Some(zram),
        Err(e) if e.is_missing() => {
            eprintln!("skipped: {e}");
            None
        }
        Err(e) => panic!("{e}"),
    }
}

fn swaps() -> usize {
    std::fs::read_to_string("/proc/swaps").unwrap().lines().count() - 1
}

#[test]
fn is_there_while_held_and_gone_after() {
    let Some(zram) = swap(16) else { return };
    let path = zram.path();
    assert_eq!(swaps(), 1);
    assert_eq!(zram.swapped_bytes().unwrap(), 0);
    assert_eq!(zram.usage().unwrap().stored_bytes, 4096, "the header");
    zram.tear_down().unwrap();
    assert!(!path.exists(), "{path:?} is still there");
}

#[test]
fn is_gone_after_a_panic() {
    let Some(zram) = swap(16) else { return };
    let path = zram.path();
    let panicked = std::thread::spawn(move || {
        assert!(!zram.path().exists(), "on purpose");
    });
    panicked.join().unwrap_err();
    assert!(!path.exists(), "{path:?} is still there");
}

/// Set in a process that is to hold swap until it is killed.
const HOLD: &str = "ISOTHERM_TEST_HOLD_SWAP";

/// Not a test of its own: the body of that process.
#[test]
fn hold() {
    if std::env::var_os(HOLD).is_some() {
        let _zram = Zram::set_up(16 << 20).unwrap();
        println!("@held");
        std::thread::sleep(std::time::Duration::from_secs(60));
    }
}

#[test]
fn what_a_killed_holder_left_is_taken_down() {
    if swap(16).is_none() {
        return;
    }
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "zram::hold", "--nocapture"])
        .env(HOLD, "1")
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    lines.find(|line| line.as_ref().unwrap().contains("@held")).unwrap().unwrap();
    assert_eq!(swaps(), 1, "the child's");
    child.kill().unwrap();
    child.wait().unwrap();
    // The next one, here or in another test of this run, takes it down.
    drop(swap(16).unwrap());
    assert!(!remove_leftover().unwrap());
    let _held = swap(16).unwrap();
    assert_eq!(swaps(), 1, "only ours");
}

#[test]
fn refuses_what_cannot_be() {
    let tiny = Zram::set_up(4096);
    assert!(tiny.is_err_and(|e| e.kind() == ZramKind::Io || e.is_missing()));
    assert!(!remove_leftover().unwrap_or(false), "a failed set-up left something behind");
}
