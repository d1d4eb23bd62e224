//! Actions on real processes, and the state that they leave behind.

use std::fs;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use isotherm::raw::host::zram::Zram;
use serde_json::Value;

use crate::policy::{account, events, wait_for};
use crate::program::{ISOTHERM, Running, command, isotherm, scratch, wait_until};

/// Half of the memory is written all the time, the other half once.
const HALVES: &str = "hot, 16M\ncold, 32M, none, populate=yes\n\nboth\n60000\nhot, 0, 4096, 1\n";

/// Bytes of a process that are resident, and in swap.
pub(crate) fn memory_of(pid: u32) -> (u64, u64) {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let field = |name: &str| -> u64 {
        let line = status.lines().find_map(|l| l.strip_prefix(name)).unwrap();
        line.trim_start_matches(':').trim().trim_end_matches(" kB").parse().unwrap()
    };
    (field("VmRSS") << 10, field("VmSwap") << 10)
}

/// Starts a process half of whose memory is hot, and waits until its memory is there.
pub(crate) fn halves(dir: &Path) -> Running {
    fs::write(dir.join("halves"), HALVES).unwrap();
    let target = Running::start(command(ISOTHERM, dir, &["workload", "halves", "-q"]));
    wait_until("the memory to be there", || memory_of(target.pid()).0 >= 48 << 20);
    target
}

/// Whether single pages can be looked at here; prints why not.
pub(crate) fn sees_pages() -> bool {
    let dir = scratch();
    let said: Value = serde_json::from_str(&isotherm(dir.path(), "doctor --json").out).unwrap();
    let sets = said["sets"].as_array().unwrap();
    let usable = sets.iter().any(|s| s["name"] == "pagewalk" && s["usable"] == true);
    if !usable {
        eprintln!("skipped: the operations set `pagewalk` does not work here");
    }
    usable
}

#[test]
fn a_dry_run_tells_and_does_nothing() {
    if !sees_pages() {
        return;
    }
    let dir = scratch();
    // The machine itself may page out idle memory. A process that is no target shows how much.
    let (target, control) = (halves(dir.path()), halves(dir.path()));
    let pid = target.pid().to_string();
    let args = [
        "reclaim",
        "-p",
        &pid,
        "--dry-run",
        "--age",
        "500ms",
        "--confirm",
        "1s",
        "--watermarks",
        "none",
        "--quota",
        "none",
        "--quota-time",
        "none",
        "--json",
        "--events",
        "events",
    ];
    let reclaim = Running::start(command(ISOTHERM, dir.path(), &args));
    // Each `acted` tells the bytes of one range.
    let acted = || -> u64 {
        let acted = events(dir.path()).into_iter().filter(|e| e["event"] == "acted");
        acted.map(|e| e["done_bytes"].as_u64().unwrap()).sum()
    };
    wait_until("most of the cold half to be taken", || acted() >= 24 << 20);
    reclaim.signal("TERM");
    let said = reclaim.finish();
    said.expect(0, &[]);
    let account = account(&said.out);
    assert_eq!((&account["stopped"], &account["dry_run"]), (&"signal".into(), &true.into()));
    let scheme = &account["schemes"][0];
    for key in ["tried_bytes", "asked_bytes", "done_bytes"] {
        assert!(scheme[key].as_u64().unwrap() >= 24 << 20, "{key} of {account}");
    }
    let (swapped, by_others) = (memory_of(target.pid()).1, memory_of(control.pid()).1);
    // What others do is random, and may be more here than there.
    let may = 4 * by_others + (1 << 20);
    assert!(swapped <= may, "{swapped} bytes were paged out, {by_others} of the control");
    target.assert_untouched();
    control.assert_untouched();
}

#[test]
fn a_scheme_that_is_a_dry_run_is_accounted_as_one() {
    if !sees_pages() {
        return;
    }
    let dir = scratch();
    let target = halves(dir.path());
    let options = "--age 500ms --confirm 1s --watermarks none --quota none --quota-time none";
    let args = format!("reclaim {options} --print-policy -p {}", target.pid());
    let policy = isotherm(dir.path(), &args).expect(0, &[]).out.clone();
    let action = "action = \"pageout\"\n";
    assert!(policy.contains(action), "{policy}");
    let dry = policy.replace(action, &format!("{action}dry_run = true\n"));
    fs::write(dir.path().join("p.toml"), dry).unwrap();
    let args = ["run", "p.toml", "--events", "events"];
    let run = Running::start(command(ISOTHERM, dir.path(), &args));
    let acted = || {
        let events = events(dir.path()).into_iter();
        events.filter(|e| e["event"] == "acted").collect::<Vec<_>>()
    };
    let bytes = |event: &Value| event["done_bytes"].as_u64().unwrap();
    wait_until("most of the cold half", || acted().iter().map(bytes).sum::<u64>() >= 24 << 20);
    run.signal("TERM");
    let said = run.finish();
    said.expect(0, &[]);
    assert!(said.out.contains("would have acted on"), "{said:#?}");
    assert!(!said.out.contains(", done "), "nothing was done: {said:#?}");
    assert!(acted().iter().all(|e| e["dry_run"] == true), "{:#?}", acted());
    let account = events(dir.path()).pop().unwrap();
    let scheme = &account["schemes"][0];
    assert_eq!((&account["dry_run"], &scheme["dry_run"]), (&true.into(), &true.into()));
    assert_eq!(scheme["pretended_bytes"], scheme["done_bytes"], "{account}");
    // The census has made most of it old. What became of memory is a part of what was waited for.
    let of = |key: &str| scheme[key].as_u64().unwrap();
    assert!(of("adopted_bytes") >= 16 << 20, "{account}");
    assert!(of("adopted_bytes") <= of("waited_bytes"), "{account}");
    assert!(of("confirmed_bytes") + of("refuted_bytes") <= of("waited_bytes"), "{account}");
    assert!(of("confirmed_bytes") >= of("done_bytes"), "{account}");
    assert!(said.out.contains("made old by the monitor before"), "{said:#?}");
    target.assert_untouched();
}

/// `stat` only counts. With page filters it counts the pages that pass them, so it has to look at
/// pages.
#[test]
fn stat_counts_what_page_filters_let_in() {
    if !sees_pages() {
        return;
    }
    let dir = scratch();
    let target = halves(dir.path());
    let scheme = |name: &str, filters: &str| {
        format!("[[context.scheme]]\nname = \"{name}\"\naction = \"stat\"\nfilters = [{filters}]\n")
    };
    let text = format!(
        "[[context]]\nname = \"c\"\nops = \"pagewalk\"\ntargets = [{{ pid = {} }}]\n{}{}{}",
        target.pid(),
        scheme("anon", "\"allow anon\""),
        scheme("file", "\"reject anon\", \"allow file\""),
        scheme("all", ""),
    );
    fs::write(dir.path().join("p.toml"), text).unwrap();
    let args = ["run", "--json", "--duration", "5s", "p.toml"];
    let said = Running::start(command(ISOTHERM, dir.path(), &args)).finish();
    said.expect(0, &[]);
    let account = account(&said.out);
    let [anon, file, all] = [0, 1, 2].map(|nr| {
        let scheme = &account["schemes"][nr];
        let of =
            |key: &str| scheme[key].as_u64().unwrap() / scheme["windows"].as_u64().unwrap().max(1);
        [of("tried_bytes"), of("passed_bytes")]
    });
    // 48 MiB are anonymous, and the program and its libraries are a few MiB of files.
    assert!((40 << 20..64 << 20).contains(&anon[1]), "anonymous: {anon:?} in {account}");
    assert!((1..16 << 20).contains(&file[1]), "files: {file:?} in {account}");
    assert!(all[0] > 40 << 20 && all[1] == 0, "without filters no page is looked at: {all:?}");
    target.assert_untouched();
}

#[test]
fn a_command_and_its_end() {
    let dir = scratch();
    let cases: &[(&str, i32, &str)] = &[
        ("stat --json --ops smaps -- sleep 1", 0, "targets-gone"),
        ("stat --json --ops smaps -- sh -c exit\t3", 3, "targets-gone"),
        ("stat --json --ops smaps --duration 500ms -- sleep 100", 143, "duration"),
    ];
    for (args, code, stopped) in cases {
        let args: Vec<String> = args.split(' ').map(|w| w.replace('\t', " ")).collect();
        let args: Vec<&str> = args.iter().map(String::as_str).collect();
        let said = Running::start(command(ISOTHERM, dir.path(), &args)).finish();
        said.expect(*code, &[]);
        assert_eq!(account(&said.out)["stopped"], *stopped);
    }
    isotherm(dir.path(), "stat -- ./nosuch").expect(127, &["cannot be run", "./nosuch"]);
}

#[test]
fn a_log_of_events_that_cannot_be_written_is_an_error_at_the_end() {
    let dir = scratch();
    let target = Running::sleeper(dir.path());
    let args =
        format!("stat --json --ops smaps --duration 500ms --events /dev/full -p {}", target.pid());
    let said = isotherm(dir.path(), &args);
    said.expect(6, &["warning: the event log ends here", "No space left"]);
    // The run itself went on to its end.
    assert_eq!(account(&said.out)["stopped"], "duration");
    target.assert_untouched();
}

#[test]
fn who_comes_later_is_taken_in_by_name() {
    let dir = scratch();
    let name = format!("iso{}", std::process::id());
    fs::copy("/bin/sleep", dir.path().join(&name)).unwrap();
    let glob = format!("{name}*");
    let args = ["stat", "--ops", "smaps", "--name", &glob, "--events", "events"];
    let stat = Running::start(command(ISOTHERM, dir.path(), &args));
    wait_for(dir.path(), "summary");
    let program = dir.path().join(&name);
    let target = Running::start(command(&program, dir.path(), &["300"]));
    let pid = target.pid();
    wait_for(dir.path(), "target_added");
    drop(target);
    wait_for(dir.path(), "target_gone");
    stat.signal("TERM");
    stat.finish().expect(0, &["no target yet"]);
    let told = events(dir.path());
    let about: Vec<_> = told.iter().filter(|e| e["pid"] == pid).map(|e| &e["event"]).collect();
    assert_eq!(about, ["target_added", "target_gone"], "{told:#?}");
}

/// Environment variable of a process that checks its memory until it is killed.
const CHECKS: &str = "ISOTHERM_TEST_CHECKSUM";
const BLOCK: usize = 4096 / 8;

/// The body of that process, and not a separate test. Its memory is idle most of the time.
#[test]
fn checksum_loop() {
    if std::env::var_os(CHECKS).is_none() {
        return;
    }
    let word = |i: usize, round: u64| (i as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ round;
    let mut memory: Vec<u64> = (0..(32 << 20) / 8).map(|i| word(i, 0)).collect();
    for round in 0_u64.. {
        for (b, block) in memory.chunks_mut(BLOCK).enumerate() {
            for (i, value) in block.iter_mut().enumerate() {
                assert_eq!(*value, word(b * BLOCK + i, round), "round {round}, block {b}");
                *value = word(b * BLOCK + i, round + 1);
            }
        }
        println!("@round {round}");
        std::thread::sleep(Duration::from_millis(400));
    }
}

#[test]
fn a_killed_isotherm_leaves_its_target_running_correctly() {
    if !sees_pages() {
        return;
    }
    let _swap = match Zram::set_up(128 << 20) {
        Ok(zram) => zram,
        Err(e) => {
            eprintln!("skipped: {e}");
            return;
        }
    };
    let dir = scratch();
    let mut own = Command::new(std::env::current_exe().unwrap());
    own.args(["--exact", "acting::checksum_loop", "--nocapture"]).env(CHECKS, "1");
    own.stdout(std::process::Stdio::piped());
    let mut target = Running::start(own);
    let mut lines = BufReader::new(target.child().stdout.take().unwrap()).lines();
    let mut rounds = |n: usize| {
        for _ in 0..n {
            let next = lines.find(|l| l.as_ref().is_ok_and(|l| l.contains("@round")));
            assert!(next.is_some(), "the target has ended");
        }
    };
    rounds(2);
    let pid = target.pid().to_string();
    let mut acted = 0;
    // The last one is killed after it has acted, however long that takes.
    for ms in [30, 250, 610, 1200, u64::MAX] {
        let args = [
            "reclaim",
            "-p",
            &pid,
            "--age",
            "100ms",
            "--evidence",
            "off",
            "--watermarks",
            "none",
            "--quota",
            "none",
            "--quota-time",
            "none",
            "--no-brake",
            "--events",
            "events",
        ];
        let mut isotherm = Running::start(command(ISOTHERM, dir.path(), &args));
        // The kill comes once the program has its target, because nothing can go wrong before.
        wait_until("the target", || {
            isotherm.child().try_wait().unwrap().is_some()
                || events(dir.path()).iter().any(|e| e["event"] == "target_added")
        });
        let acts = || events(dir.path()).iter().any(|e| e["event"] == "acted");
        if ms < u64::MAX {
            std::thread::sleep(Duration::from_millis(ms));
        } else {
            wait_until("an action", acts);
        }
        isotherm.child().kill().unwrap();
        isotherm.finish();
        acted += events(dir.path()).iter().filter(|e| e["event"] == "acted").count();
        fs::remove_file(dir.path().join("events")).unwrap();
        rounds(2);
        target.assert_untouched();
    }
    assert!(acted > 0, "nothing was ever acted on, so nothing was shown");
    rounds(3);
}
