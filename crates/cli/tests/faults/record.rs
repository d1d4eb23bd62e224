//! `isotherm record` and `wss`: targets that do not exist, that end, or that must not be harmed,
//! and full disks.

use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

use isotherm::raw::sys::clock;

use crate::policy::{events, wait_for};
use crate::program::{
    ISOTHERM, Public, Running, Said, command, isotherm, scratch, shell, snapshots, wait_until,
};

/// A running recorder, after its first snapshots.
fn recording(dir: &Path, args: &str) -> Running {
    recording_by(&[], dir, args)
}

/// The same, started by another program.
fn recording_by(starter: &[&str], dir: &Path, args: &str) -> Running {
    let mut words = starter.to_vec();
    words.extend([ISOTHERM, "record", "-o", "r.data"]);
    words.extend(args.split_whitespace());
    let recorder = Running::start(command(words[0], dir, &words[1..]));
    wait_until("snapshots", || snapshots(dir, "r.data") > 1);
    recorder
}

#[test]
fn targets_that_cannot_be() {
    let dir = scratch();
    let cases: &[(&str, i32, &[&str])] = &[
        ("record", 2, &["nothing to watch", "hint:", "-p PID", "-- CMD"]),
        ("record -p 99999999", 5, &["process 99999999", "why:", "no process", "hint:"]),
        ("record -p x", 2, &["'x'", "--pid"]),
        ("wss", 2, &["nothing to watch"]),
        ("wss -p 99999999", 5, &["process 99999999", "no process"]),
    ];
    for (args, code, parts) in cases {
        isotherm(dir.path(), args).expect(*code, parts);
    }
    assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 0, "no file is made for nothing");
}

#[test]
fn the_recorder_itself_a_zombie_and_a_kernel_thread_are_no_targets() {
    let dir = scratch();
    shell(dir.path(), "exec $ISOTHERM record -p $$").expect(2, &["cannot be a target", "itself"]);
    let zombie = Running::start(command("true", dir.path(), &[]));
    wait_until("the zombie", || zombie.state() == 'Z');
    let args = format!("record -p {}", zombie.pid());
    isotherm(dir.path(), &args).expect(5, &["cannot be a target", "has exited"]);
    // Not in a container with its own pids.
    if fs::read_to_string("/proc/2/comm").is_ok_and(|comm| comm == "kthreadd\n") {
        isotherm(dir.path(), "record -p 2").expect(2, &["kthreadd", "no memory of its own"]);
    }
}

#[test]
fn one_missing_target_of_two_starts_nothing_and_harms_nobody() {
    let dir = scratch();
    let target = Running::sleeper(dir.path());
    let args = format!("record -p {} -p 99999999", target.pid());
    isotherm(dir.path(), &args).expect(5, &["99999999"]);
    target.assert_untouched();
}

#[test]
fn a_target_that_exits_ends_the_record_cleanly() {
    let dir = scratch();
    let target = Running::sleeper(dir.path());
    let recorder = recording(dir.path(), &format!("-p {}", target.pid()));
    drop(target);
    recorder.finish().expect(0, &["every target has exited"]);
    isotherm(dir.path(), "report wss r.data").expect_whole();
}

#[test]
fn wss_lines_are_json_and_end_with_the_target() {
    let dir = scratch();
    let target = Running::sleeper(dir.path());
    let pid = target.pid().to_string();
    let args = ["wss", "--json", "-i", "200ms", "-p", &pid];
    let mut wss = command(ISOTHERM, dir.path(), &args);
    let file = dir.path().join("lines");
    wss.stdout(fs::File::create(&file).unwrap());
    let wss = Running::start(wss);
    let lines = || fs::read_to_string(&file).unwrap();
    wait_until("three lines", || lines().lines().count() >= 3);
    drop(target);
    wss.finish().expect(0, &[]);
    for line in lines().lines() {
        let line: serde_json::Value = serde_json::from_str(line).unwrap();
        for key in ["t_ns", "wss_bytes", "lo", "hi"] {
            assert!(line[key].is_u64(), "{key} of {line}");
        }
    }
}

#[test]
fn several_targets_stay_apart_and_untouched() {
    let dir = scratch();
    let targets = [Running::sleeper(dir.path()), Running::sleeper(dir.path())];
    let [a, b] = targets.each_ref().map(Running::pid);
    isotherm(dir.path(), &format!("record -o r.data --duration 3s -p {a},{b}"))
        .expect(0, &["the duration is over"]);
    for pid in [a, b] {
        let said = isotherm(dir.path(), &format!("report regions --json --target {pid} r.data"));
        assert!(said.expect(0, &[]).out.lines().count() > 0);
        for line in said.out.lines() {
            let line: serde_json::Value = serde_json::from_str(line).unwrap();
            assert_eq!(line["pid"], pid);
        }
    }
    targets.iter().for_each(Running::assert_untouched);
}

#[test]
fn a_command_gives_its_own_status() {
    let dir = scratch();
    fs::write(dir.path().join("plain"), "no program").unwrap();
    let cases: &[(&str, i32, &[&str])] = &[
        ("record -- ./nosuch", 127, &["cannot be run", "./nosuch", "tried:", "hint:"]),
        ("record -- nosuch-in-the-path", 127, &["cannot be run", "PATH"]),
        ("record -- ./plain", 126, &["cannot be run", "chmod +x"]),
        ("record -- sh -c exit\t3", 3, &[]),
        ("record -- sh -c kill\t-9\t$$", 137, &[]),
        ("record --duration 300ms -- sleep 100", 143, &["the duration is over"]),
        ("wss --duration 300ms -- sleep 100", 143, &[]),
        ("stat -q --ops smaps --duration 300ms -- sleep 100", 143, &[]),
        ("wss -- ./nosuch", 127, &["cannot be run"]),
    ];
    for (args, code, parts) in cases {
        let args: Vec<String> = args.split(' ').map(|w| w.replace('\t', " ")).collect();
        let args: Vec<&str> = args.iter().map(String::as_str).collect();
        Said::of(command(ISOTHERM, dir.path(), &args).output().unwrap()).expect(*code, parts);
    }
}

#[test]
fn a_command_that_handles_the_signal_or_ignores_it() {
    let dir = scratch();
    let run = |what: &str, script: &str| {
        let args: Vec<&str> = what.split(' ').chain(["--", "sh", "-c", script]).collect();
        Said::of(command(ISOTHERM, dir.path(), &args).output().unwrap())
    };
    let handles = "trap 'exit 3' TERM; while :; do sleep 0.1; done";
    // Its output must not be ours, or we would wait for its end.
    let ignores = "exec >/dev/null 2>&1; trap '' TERM; echo $$ >pid; exec sleep 300";
    for what in ["record --duration 1s", "wss --duration 1s", "stat --ops smaps --duration 1s"] {
        run(what, handles).expect(3, &[]);
        let said = run(what, ignores);
        let pid = fs::read_to_string(dir.path().join("pid")).unwrap();
        let pid = pid.trim();
        said.expect(6, &["warning: ", pid, "SIGTERM", "runs on", "kill -KILL"]);
        shell(dir.path(), &format!("kill -KILL {pid}")).expect(0, &[]);
    }
}

/// Stops a process for longer than it has run so far, and at least for two seconds.
fn stop_for_most_of_the_time(process: &Running, began: Instant) {
    process.signal("STOP");
    wait_until("the stop", || process.state() == 'T');
    let stopped = Instant::now();
    let long = (stopped - began).max(Duration::from_secs(2));
    wait_until("the time to pass", || stopped.elapsed() > long);
    process.signal("CONT");
}

#[test]
fn what_an_isotherm_that_was_stopped_has_not_seen_is_told() {
    let dir = scratch();
    let target = Running::sleeper(dir.path());
    let began = Instant::now();
    let recorder = recording(dir.path(), &format!("-p {}", target.pid()));
    stop_for_most_of_the_time(&recorder, began);
    let before = snapshots(dir.path(), "r.data");
    wait_until("another snapshot", || snapshots(dir.path(), "r.data") > before);
    recorder.signal("TERM");
    recorder.finish().expect(6, &["warning: ", "windows took at least twice", "not watched"]);
    // The reader of the record learns of it as well, and sees where it is.
    let said = isotherm(dir.path(), "report heatmap r.data");
    assert!(said.expect(0, &[]).out.contains("took at least twice as long"), "{said:#?}");
    assert!(said.out.lines().any(|line| line.contains('|') && line.contains("???")), "{said:#?}");
    for kind in ["wss", "ages", "regions", "mappings"] {
        let said = isotherm(dir.path(), &format!("report {kind} r.data"));
        assert!(said.expect(0, &[]).out.contains("took at least twice as long"), "{said:#?}");
    }
    let args = ["stat", "--json", "--ops", "smaps", "--events", "events", "-p"];
    let (pid, began) = (target.pid().to_string(), Instant::now());
    let stat = Running::start(command(ISOTHERM, dir.path(), &[&args[..], &[&pid]].concat()));
    wait_for(dir.path(), "summary");
    stop_for_most_of_the_time(&stat, began);
    let summaries = || events(dir.path()).iter().filter(|e| e["event"] == "summary").count();
    let before = summaries();
    wait_until("two more summaries", || summaries() > before + 1);
    stat.signal("TERM");
    let said = stat.finish();
    assert!(said.err.contains("took at least twice as long"), "{said:#?}");
    let ended = events(dir.path()).into_iter().find(|e| e["event"] == "ended").unwrap();
    assert!(ended["late_windows"].as_u64() > Some(0), "{ended}");
    assert!(ended["missing_ns"].as_u64() > Some(500_000_000), "{ended}");
    target.assert_untouched();
}

#[test]
fn the_limit_of_open_files_is_named() {
    let dir = scratch();
    let target = Running::sleeper(dir.path());
    for limit in [8, 10, 12, 16] {
        for what in ["record -q --duration 300ms", "wss --duration 300ms"] {
            let line = format!("ulimit -n {limit}; exec $ISOTHERM {what} -p {}", target.pid());
            let said = shell(dir.path(), &line);
            if said.code == Some(0) {
                continue; // It was enough.
            }
            assert!(said.err.contains("limit of open files"), "{limit}: {said:#?}");
            assert!(said.err.contains("ulimit -n"), "{limit}: {said:#?}");
            assert!(!said.err.contains("verifier"), "{limit}: {said:#?}");
        }
    }
    let few = format!("ulimit -n 8; exec $ISOTHERM record -p {}", target.pid());
    assert_ne!(shell(dir.path(), &few).code, Some(0));
    target.assert_untouched();
}

#[test]
fn a_command_that_is_over_at_once_is_no_reason_to_warn_of_anything_but_the_empty_record() {
    let dir = scratch();
    for _ in 0..5 {
        let said = isotherm(dir.path(), "record -- true");
        said.expect(0, &[]);
        let warnings: Vec<&str> = said.err.lines().filter(|l| l.starts_with("warning")).collect();
        assert!(warnings.iter().all(|w| w.contains("no window was finished")), "{warnings:?}");
    }
}

#[test]
fn children_are_followed_through_fork_and_exec() {
    let dir = scratch();
    let script = "(sleep 2; exec sleep 4) & sleep 3; wait";
    let args = ["record", "-o", "r.data", "--", "sh", "-c", script];
    Said::of(command(ISOTHERM, dir.path(), &args).output().unwrap()).expect(0, &[]);
    let said = isotherm(dir.path(), "report regions --json r.data");
    let mut seen = std::collections::BTreeSet::new();
    for line in said.expect(0, &[]).out.lines() {
        let line: serde_json::Value = serde_json::from_str(line).unwrap();
        seen.insert((line["pid"].as_u64().unwrap(), line["target"].as_str().unwrap().to_owned()));
    }
    // The last sleep has the pid of the shell that became it.
    let pids: std::collections::BTreeSet<u64> = seen.iter().map(|s| s.0).collect();
    assert!(seen.iter().any(|s| s.1 == "sleep") && pids.len() >= 3, "{seen:?}");
}

#[test]
fn the_old_record_is_kept() {
    let dir = scratch();
    let target = Running::sleeper(dir.path());
    let args = format!("record -o r.data -q --duration 300ms -p {}", target.pid());
    fs::write(dir.path().join("r.data"), "old").unwrap();
    isotherm(dir.path(), "record -o r.data -- ./nosuch").expect(127, &[]);
    assert_eq!(fs::read(dir.path().join("r.data")).unwrap(), b"old", "nothing ran");
    isotherm(dir.path(), &args).expect(0, &[]);
    assert_eq!(fs::read(dir.path().join("r.data.old")).unwrap(), b"old");
    assert!(fs::read(dir.path().join("r.data")).unwrap().len() > 100);
}

#[test]
fn what_nohup_started_outlives_a_hangup() {
    let dir = scratch();
    let target = Running::sleeper(dir.path());
    let args = format!("-p {}", target.pid());
    let mut recorder = recording_by(&["nohup"], dir.path(), &args);
    recorder.signal("HUP");
    let before = snapshots(dir.path(), "r.data");
    wait_until("more snapshots", || snapshots(dir.path(), "r.data") > before);
    assert!(recorder.child().try_wait().unwrap().is_none());
    recorder.signal("TERM");
    recorder.finish().expect(0, &["interrupted", "r.data"]);
}

#[test]
fn signals_stop_cleanly() {
    for name in ["INT", "TERM", "HUP"] {
        let dir = scratch();
        let target = Running::sleeper(dir.path());
        // A process started in the background ignores SIGINT, and with nohup also SIGHUP. This test
        // may be one.
        let heeding = ["env", "--default-signal=HUP,INT"];
        let recorder = recording_by(&heeding, dir.path(), &format!("-p {}", target.pid()));
        recorder.signal(name);
        recorder.finish().expect(0, &["interrupted", "r.data"]);
        isotherm(dir.path(), "report wss r.data").expect_whole();
        target.assert_untouched();
    }
}

#[test]
fn a_killed_recorder_loses_at_most_the_last_second() {
    let dir = scratch();
    let target = Running::sleeper(dir.path());
    let args = format!("--ops smaps --sample 100ms --aggr 200ms -p {}", target.pid());
    let mut recorder = recording(dir.path(), &args);
    let before = snapshots(dir.path(), "r.data");
    wait_until("more snapshots", || snapshots(dir.path(), "r.data") > before);
    let killed = clock::now().as_ns();
    recorder.child().kill().unwrap();
    recorder.finish();
    let said = isotherm(dir.path(), "report regions --json r.data");
    let last = said.expect(0, &[]).out.lines().last().unwrap();
    let last: serde_json::Value = serde_json::from_str(last).unwrap();
    // The limit is a second and the window that was not yet over. The rest is for a busy machine,
    // where the kill comes late.
    let lost = killed - last["t_ns"].as_u64().unwrap();
    assert!(lost <= 5_000_000_000, "lost {lost} ns");
    isotherm(dir.path(), "report heatmap r.data").expect(0, &[]);
    target.assert_untouched();
}

#[test]
fn a_full_disk_is_told_and_what_is_there_can_be_read() {
    let dir = scratch();
    let target = Running::sleeper(dir.path());
    // The size limit affects this file as a full disk would affect all files.
    let said = shell(
        dir.path(),
        &format!(
            "trap '' XFSZ; exec prlimit --fsize=2000 $ISOTHERM record -o r.data --duration 6s \
             --ops smaps --sample 100ms --aggr 100ms --regions 100..1000 -p {}",
            target.pid()
        ),
    );
    said.expect(6, &["warning:", "write r.data", "hint:", "free some space", "can be read"]);
    let said = isotherm(dir.path(), "report wss r.data");
    assert!(said.out.contains("snapshots") || said.err.contains("no snapshot"), "{said:#?}");
    target.assert_untouched();
}

#[test]
fn a_record_that_cannot_be_written() {
    let dir = scratch();
    let target = Running::sleeper(dir.path());
    let pid = target.pid();
    let cases: &[(&str, i32, &[&str])] = &[
        ("nosuch/r.data", 2, &["cannot write nosuch/r.data", "No such file", "make the directory"]),
        (".", 2, &["cannot write .", "Is a directory", "name a file"]),
        ("/dev/full", 6, &["cannot write /dev/full", "No space left", "free some space"]),
    ];
    for (path, code, parts) in cases {
        isotherm(dir.path(), &format!("record -o {path} -p {pid}")).expect(*code, parts);
    }
    target.assert_untouched();
}

#[test]
fn without_privileges() {
    let public = Public::new();
    // Every user can record own processes by smaps.
    let smaps = "record --ops smaps --sample 100ms --aggr 200ms --duration 3s -- sleep 100";
    public.isotherm(smaps).expect(143, &["operations set `smaps`", "mapping"]);
    assert!(snapshots(public.dir.path(), "isotherm.data") > 0);
    public
        .isotherm("record --ops pagewalk -- sleep 100")
        .expect(4, &["`pagewalk` is not available", "CAP_BPF", "setcap cap_", "hint:"]);
    // The best set, and the message that says what it lacks.
    public
        .isotherm("record --duration 300ms -- sleep 100")
        .expect(143, &["`pagewalk` is not used", "CAP_BPF", "operations set `smaps`"]);
    public.isotherm("record -p 1").expect(4, &["process 1", "Permission denied", "CAP_SYS_PTRACE"]);
    let closed = public.dir.path().join("closed");
    fs::create_dir(&closed).unwrap();
    let mode = std::os::unix::fs::PermissionsExt::from_mode(0o555);
    fs::set_permissions(&closed, mode).unwrap();
    public
        .isotherm("record --ops smaps -o closed/r.data -- sleep 100")
        .expect(4, &["cannot write closed/r.data", "Permission denied", "hint:"]);
    public.isotherm("doctor").expect(0, &[]);
}

#[test]
fn a_record_that_cannot_be_begun_costs_no_other() {
    let files = [("r.data", "old"), ("r.data.old", "older")];
    let write = |dir: &Path| files.map(|(name, text)| fs::write(dir.join(name), text).unwrap());
    let expect = |dir: &Path, more: usize| {
        for (name, text) in files {
            assert_eq!(fs::read_to_string(dir.join(name)).unwrap(), text, "{name}");
        }
        assert_eq!(fs::read_dir(dir).unwrap().count(), files.len() + more, "nothing is left over");
    };
    let dir = scratch();
    write(dir.path());
    // A command that cannot be run.
    isotherm(dir.path(), "record -o r.data -- ./nosuch").expect(127, &[]);
    expect(dir.path(), 0);
    // A full disk: not even the header can be written.
    let full = |what: &str| format!("trap '' XFSZ; exec prlimit --fsize=10 $ISOTHERM {what}");
    shell(dir.path(), &full("record -o r.data -- sleep 100")).expect(6, &["cannot write r.data"]);
    expect(dir.path(), 0);
    shell(dir.path(), &full("sim stairs -q --duration 1s -o r.data"))
        .expect(6, &["cannot write r.data"]);
    expect(dir.path(), 0);
    // The recorder may not write to the directory, but it may write to the record in it.
    let public = Public::new();
    let closed = public.dir.path().join("closed");
    fs::create_dir(&closed).unwrap();
    write(&closed);
    let mode = |path: &Path, mode| {
        let mode = std::os::unix::fs::PermissionsExt::from_mode(mode);
        fs::set_permissions(path, mode).unwrap();
    };
    mode(&closed.join("r.data"), 0o666);
    mode(&closed, 0o555);
    public
        .isotherm("record --ops smaps -o closed/r.data -- sleep 100")
        .expect(4, &["cannot write closed/r.data", "Permission denied", "hint:"]);
    expect(&closed, 0);
}

#[test]
fn an_old_record_that_cannot_be_renamed_stays() {
    let dir = scratch();
    fs::write(dir.path().join("r.data"), "old").unwrap();
    fs::create_dir(dir.path().join("r.data.old")).unwrap();
    isotherm(dir.path(), "record -o r.data -- sleep 100")
        .expect(2, &["cannot keep the old record", "r.data.old", "hint:"]);
    assert_eq!(fs::read(dir.path().join("r.data")).unwrap(), b"old");
    assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 2);
}
