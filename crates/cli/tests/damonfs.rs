//! `isotherm damonfs` as its users meet it: real mounts, real processes, and programs that know
//! nothing of Isotherm.
#![expect(clippy::print_stderr, reason = "a test that skips something says why")]
#![expect(clippy::unwrap_used, reason = "a test")]

mod common;

use std::fs;
use std::io::{self, ErrorKind};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use common::{Guard, isotherm};
use rustix::mount::{UnmountFlags, unmount};

/// How long something may take on a busy machine.
const PATIENCE: Duration = Duration::from_secs(30);
/// How long a client may wait for a server that was killed.
const LET_GO: Duration = Duration::from_secs(5);

/// Whether this machine lets us mount; prints why not.
fn can_mount() -> bool {
    let why = if !rustix::process::geteuid().is_root() {
        "not root"
    } else if !Path::new("/dev/fuse").exists() {
        "there is no /dev/fuse"
    } else {
        return true;
    };
    eprintln!("skipped: {why}");
    false
}

/// Waits until something is so.
fn eventually(what: &str, mut is_so: impl FnMut() -> bool) {
    let start = Instant::now();
    while !is_so() {
        assert!(start.elapsed() < PATIENCE, "{what}");
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// A process with memory that does nothing for a while.
fn sleeper() -> Guard {
    Guard(Command::new("sleep").arg("600").spawn().unwrap())
}

/// A tree that is served at a directory of its own.
struct Served {
    server: Guard,
    dir: tempfile::TempDir,
}

impl Served {
    fn start() -> Self {
        Self::start_with(&[], "admin/kdamonds/nr_kdamonds")
    }

    /// Starts it with these options, and waits until this file is there.
    fn start_with(options: &[&str], file: &str) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let mut server = isotherm();
        server.arg("damonfs").args(options).arg(dir.path()).stderr(Stdio::null());
        let this = Self { server: Guard(server.spawn().unwrap()), dir };
        eventually("the tree is mounted", || this.dir.path().join(file).exists());
        this
    }

    fn kdamonds(&self) -> PathBuf {
        self.dir.path().join("admin/kdamonds")
    }

    fn write(&self, file: &str, text: &str) -> io::Result<()> {
        fs::write(self.kdamonds().join(file), text)
    }

    fn read(&self, file: &str) -> String {
        fs::read_to_string(self.kdamonds().join(file)).unwrap()
    }

    /// Starts a kdamond for a process, with one scheme that takes a look at all memory.
    fn begin(&self, pid: u32) {
        let pattern = "0/contexts/0/schemes/0/access_pattern";
        for (file, text) in [
            ("nr_kdamonds", "1"),
            ("0/contexts/nr_contexts", "1"),
            ("0/contexts/0/targets/nr_targets", "1"),
            ("0/contexts/0/targets/0/pid_target", &pid.to_string()),
            ("0/contexts/0/schemes/nr_schemes", "1"),
            (&format!("{pattern}/sz/max"), "18446744073709551615"),
            (&format!("{pattern}/nr_accesses/max"), "4294967295"),
            (&format!("{pattern}/age/max"), "4294967295"),
            ("0/state", "on"),
        ] {
            self.write(file, text).unwrap_or_else(|err| panic!("{file} <- {text}: {err}"));
        }
    }

    fn is_mounted(&self) -> bool {
        let mounts = fs::read_to_string("/proc/self/mounts").unwrap();
        mounts.contains(&*self.dir.path().to_string_lossy())
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        if self.is_mounted() {
            unmount(self.dir.path(), UnmountFlags::DETACH).ok();
        }
    }
}

/// Waits until a process ends, and returns its exit code.
fn code_of(child: &mut Child) -> Option<i32> {
    let start = Instant::now();
    loop {
        if let Some(status) = child.try_wait().unwrap() {
            return status.code();
        }
        assert!(start.elapsed() < PATIENCE, "it ends");
        std::thread::sleep(Duration::from_millis(10));
    }
}

#[test]
fn a_context_runs_over_a_real_process() {
    if !can_mount() {
        return;
    }
    let (served, target) = (Served::start(), sleeper());
    served.begin(target.0.id());
    assert_eq!(served.read("0/state"), "on\n");
    let pid: u32 = served.read("0/pid").trim().parse().unwrap();
    // It is a thread of the server, with the name that the kernel's worker would have.
    assert_eq!(fs::read_to_string(format!("/proc/{pid}/comm")).unwrap(), "kdamond.0\n");
    served.write("0/state", "update_schemes_tried_regions").unwrap();
    let tried = "0/contexts/0/schemes/0/tried_regions";
    let total: u64 = served.read(&format!("{tried}/total_bytes")).trim().parse().unwrap();
    let bound = |index: usize, name: &str| -> u64 {
        served.read(&format!("{tried}/{index}/{name}")).trim().parse().unwrap()
    };
    let nr = fs::read_dir(served.kdamonds().join(tried)).unwrap().count() - 1;
    assert!(nr >= 3, "{nr} regions");
    let sum: u64 = (0..nr).map(|index| bound(index, "end") - bound(index, "start")).sum();
    assert_eq!(sum, total);
    // The regions are memory of the process.
    let maps = fs::read_to_string(format!("/proc/{}/maps", target.0.id())).unwrap();
    let first = u64::from_str_radix(maps.split('-').next().unwrap(), 16).unwrap();
    assert_eq!(bound(0, "start"), first);
    served.write("0/state", "off").unwrap();
    assert_eq!((served.read("0/state"), served.read("0/pid")), ("off\n".into(), "-1\n".into()));
}

#[test]
fn what_sysfs_refuses_is_refused() {
    if !can_mount() {
        return;
    }
    let served = Served::start();
    let refused = |file: &str, text: &str| served.write(file, text).unwrap_err();
    served.write("nr_kdamonds", "1").unwrap();
    served.write("0/contexts/nr_contexts", "1").unwrap();
    served.write("0/contexts/0/targets/nr_targets", "1").unwrap();
    assert_eq!(refused("0/pid", "1").kind(), ErrorKind::PermissionDenied);
    assert_eq!(refused("0/state", "foo").kind(), ErrorKind::InvalidInput);
    assert_eq!(refused("new", "1").kind(), ErrorKind::PermissionDenied);
    served.write("0/contexts/0/targets/0/pid_target", "999999999").unwrap();
    assert_eq!(refused("0/state", "on").kind(), ErrorKind::InvalidInput, "no such process");
    assert!(fs::create_dir(served.kdamonds().join("1")).is_err());
    assert!(fs::remove_dir(served.kdamonds().join("0")).is_err());
    let stat = fs::metadata(served.kdamonds().join("0/pid")).unwrap();
    assert_eq!(stat.len(), 4096, "as sysfs says");
}

#[test]
fn a_directory_that_was_removed_is_gone_at_once() {
    if !can_mount() {
        return;
    }
    let served = Served::start();
    let (nr, context) = ("0/contexts/nr_contexts", served.kdamonds().join("0/contexts/0"));
    served.write("nr_kdamonds", "1").unwrap();
    for _ in 0..200 {
        served.write(nr, "1").unwrap();
        // What is looked at is cached by the kernel.
        served.write("0/contexts/0/operations", "fvaddr").unwrap();
        assert!(context.join("monitoring_attrs/intervals/sample_us").exists());
        served.write(nr, "1").unwrap();
        assert_eq!(served.read("0/contexts/0/operations"), "vaddr\n", "that is a new one");
        served.write(nr, "0").unwrap();
        assert!(!context.exists() && !context.join("targets").exists());
    }
    // Who looks all the time keeps no writer waiting.
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                while !done.load(Ordering::Relaxed) {
                    fs::read_dir(served.kdamonds().join("0/contexts"))
                        .ok()
                        .into_iter()
                        .for_each(drop);
                    fs::read(context.join("operations")).ok();
                }
            });
        }
        let mut numbers = ["1", "0"].into_iter().cycle().take(200);
        let written = numbers.try_for_each(|number| served.write(nr, number));
        done.store(true, Ordering::Relaxed);
        written.unwrap();
    });
}

#[test]
fn attributes_follow_what_is_made_and_removed() {
    if !can_mount() {
        return;
    }
    let (served, target) = (Served::start(), sleeper());
    served.begin(target.0.id());
    let nr_dirs = |dir: &str| {
        let links = fs::metadata(served.kdamonds().join(dir)).unwrap().nlink();
        let listed = fs::read_dir(served.kdamonds().join(dir)).unwrap();
        let listed = listed.filter(|entry| entry.as_ref().unwrap().path().is_dir()).count();
        assert_eq!(links, listed as u64 + 2, "{dir}: links, and what a listing shows");
        listed
    };
    // What is looked at is cached by the kernel, so it is looked at before and after each change.
    let schemes = "0/contexts/0/schemes";
    let tried = format!("{schemes}/0/tried_regions");
    for _ in 0..3 {
        assert_eq!(nr_dirs(&tried), 0);
        served.write("0/state", "update_schemes_tried_regions").unwrap();
        assert!(nr_dirs(&tried) > 0, "there are regions");
        served.write("0/state", "clear_schemes_tried_regions").unwrap();
    }
    for nr in [1, 3, 2, 0, 1] {
        served.write(&format!("{schemes}/nr_schemes"), &nr.to_string()).unwrap();
        assert_eq!(nr_dirs(schemes), nr);
    }
}

#[test]
fn unmounting_ends_it_while_a_context_runs() {
    if !can_mount() {
        return;
    }
    let (mut served, target) = (Served::start(), sleeper());
    served.begin(target.0.id());
    unmount(served.dir.path(), UnmountFlags::empty()).unwrap();
    assert_eq!(code_of(&mut served.server.0), Some(0));
    assert!(!served.is_mounted());
}

#[test]
fn clients_do_not_hang_when_the_server_is_killed() {
    if !can_mount() {
        return;
    }
    let (mut served, target) = (Served::start(), sleeper());
    served.begin(target.0.id());
    // A scheme that is applied once an hour: a walk waits for it.
    served.write("0/contexts/0/schemes/0/apply_interval_us", "3600000000").unwrap();
    served.write("0/state", "commit").unwrap();
    std::thread::scope(|scope| {
        let waits = scope.spawn(|| served.write("0/state", "update_schemes_tried_regions"));
        let state = served.kdamonds().join("0/state");
        let busy = || fs::read(&state).is_err_and(|err| err.raw_os_error() == Some(16));
        eventually("the command holds the lock", busy);
        let pid = rustix::process::Pid::from_child(&served.server.0);
        rustix::process::kill_process(pid, rustix::process::Signal::KILL).unwrap();
        let killed = Instant::now();
        eventually("the client is let go", || waits.is_finished());
        let waited = killed.elapsed();
        assert!(waits.join().unwrap().is_err());
        // A second on an idle machine. A busy one needs longer to end a process that has threads.
        assert!(waited < LET_GO, "the client hung for {waited:?}");
    });
    assert_eq!(code_of(&mut served.server.0), None, "it was killed");
    let gone = fs::read(served.kdamonds().join("0/state")).unwrap_err();
    assert_eq!(gone.kind(), ErrorKind::NotConnected);
}

/// Runs a shell script in a namespace with the tree.
fn inside(script: &str) -> std::process::Output {
    isotherm().args(["damonfs", "--", "sh", "-c", script]).output().unwrap()
}

#[test]
fn a_command_finds_the_tree_and_nobody_else_does() {
    if !can_mount() {
        return;
    }
    // Other tests mount trees at directories of their own meanwhile.
    let mounts = || -> Vec<String> {
        let text = fs::read_to_string("/proc/self/mounts").unwrap();
        let at_theirs = |line: &&str| line.contains(" /sys") || line.contains(" /run");
        text.lines().filter(at_theirs).map(str::to_owned).collect()
    };
    let before = mounts();
    let done = inside(
        "cd /sys/kernel/mm/damon/admin/kdamonds && echo 3 > nr_kdamonds && cat nr_kdamonds && \
         grep -c isotherm-damonfs /proc/self/mounts >&2; ls -d /sys/kernel/mm/*; sleep 0.5; exit 7",
    );
    assert_eq!(done.status.code(), Some(7), "the command's own status: {done:?}");
    let out = String::from_utf8(done.stdout).unwrap();
    assert!(out.starts_with("3\n"), "{out}");
    // What else is there stays there.
    for entry in fs::read_dir("/sys/kernel/mm").unwrap() {
        let path = entry.unwrap().path().display().to_string();
        assert!(out.contains(&path), "{path} is missing in {out}");
    }
    assert_eq!(mounts(), before);
    if let Ok(kernels) = fs::read_to_string("/sys/kernel/mm/damon/admin/kdamonds/nr_kdamonds") {
        assert_ne!(kernels, "3\n", "the kernel's own tree was not written to");
    }
}

#[test]
fn perf_records_what_a_context_sees() {
    if !can_mount() {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let target = sleeper();
    let script = format!(
        "cd {dir}; d=/sys/kernel/mm/damon/admin/kdamonds; echo 1 > $d/nr_kdamonds; echo 1 > \
         $d/0/contexts/nr_contexts; echo 1 > $d/0/contexts/0/targets/nr_targets; echo {pid} > \
         $d/0/contexts/0/targets/0/pid_target; echo on > $d/0/state || exit 1; perf record -a -o x \
         -e damon:damon_aggregated & p=$!; n=0; while [ $n -lt 300 ] && ! [ -s x ]; do sleep 0.1; \
         n=$((n+1)); done; kill -TERM $p; wait $p; perf script -i x",
        dir = dir.path().display(),
        pid = target.0.id(),
    );
    let done = inside(&script);
    let out = String::from_utf8(done.stdout).unwrap();
    let line = out.lines().next().unwrap_or_else(|| panic!("no event: {:?}", done.stderr));
    assert!(line.trim_start().starts_with("kdamond.0"), "{line}");
    assert!(line.contains(": damon:damon_aggregated: target_id=0 nr_regions="), "{line}");
}

/// The part of a script that makes one kdamond with one context over this process and a scheme that
/// counts all of its memory.
fn made(pid: u32) -> String {
    format!(
        "k=/sys/kernel/mm/damon/admin/kdamonds; echo 1 > $k/nr_kdamonds; echo 1 > \
         $k/0/contexts/nr_contexts; c=$k/0/contexts/0; echo 1 > $c/targets/nr_targets; echo {pid} > \
         $c/targets/0/pid_target; echo 1 > $c/schemes/nr_schemes; p=$c/schemes/0/access_pattern; \
         for f in nr_accesses age; do echo 4294967295 > $p/$f/max; done; \
         echo 18446744073709551615 > $p/sz/max; "
    )
}

#[test]
fn perf_records_what_schemes_do() {
    if !can_mount() {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let target = sleeper();
    let script = format!(
        "cd {dir}; {made} echo 1000000 > $c/schemes/0/quotas/bytes; echo 100 > \
         $c/schemes/0/quotas/reset_interval_ms; echo on > $k/0/state || exit 1; perf record -o x -e \
         damon:damos_before_apply -e damon:damos_stat_after_apply_interval -e damon:damos_esz & p=$!; \
         n=0; while [ $n -lt 300 ]; do sleep 0.1; n=$((n+1)); grep -q before_apply x && grep -q stat_after \
         x && grep -q esz= x && break; done; kill -TERM $p; wait $p; perf script -i x",
        dir = dir.path().display(),
        made = made(target.0.id()),
    );
    let done = inside(&script);
    let out = String::from_utf8(done.stdout).unwrap();
    for event in [
        ": damon:damos_before_apply: ctx_idx=0 scheme_idx=0 target_idx=0 nr_regions=",
        ": damon:damos_stat_after_apply_interval: ctx_idx=0 scheme_idx=0 nr_tried=",
        ": damon:damos_esz: ctx_idx=0 scheme_idx=0 esz=1000000",
    ] {
        assert!(out.contains(event), "no {event} in {out}\n{:?}", done.stderr);
    }
    assert!(!out.contains("damon_aggregated"), "that was not asked for");
}

#[test]
fn drgn_dumps_what_was_committed() {
    if !can_mount() {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let target = sleeper();
    let script = format!(
        "cd {dir}; {made} echo on > $k/0/state || exit 1; echo 5 > $p/nr_accesses/min; pid=$(cat \
         $k/0/pid); drgn drgn_dump_damon_status.py $pid a || exit 2; echo commit > $k/0/state; drgn \
         /x/drgn_dump_damon_status.py $pid stdout || exit 3; drgn drgn_dump_damon_status.py 1 b && exit 4; \
         exit 0",
        dir = dir.path().display(),
        made = made(target.0.id()),
    );
    let done = inside(&script);
    assert_eq!(done.status.code(), Some(0), "{done:?}");
    let least = |text: &str| {
        let dump: serde_json::Value = serde_json::from_str(text).unwrap();
        let context = &dump["contexts"][0];
        assert_eq!(context["adaptive_targets"][0]["pid"], target.0.id());
        assert_eq!(context["attrs"]["sample_interval"], 5000);
        context["schemes"][0]["pattern"]["min_nr_accesses"].clone()
    };
    // What is written to files is in force only after a commit.
    assert_eq!(least(&fs::read_to_string(dir.path().join("a")).unwrap()), 0);
    assert_eq!(least(&String::from_utf8(done.stdout).unwrap()), 5);
}

#[test]
fn modules_and_empty_physical_contexts_run_on_any_machine() {
    if !can_mount() {
        return;
    }
    // The process that serves the tree is listed as a kdamond while one runs. With this watermark,
    // nothing of the machine's memory is acted on.
    let script = "m=/sys/module/damon_reclaim/parameters; echo 1000 > $m/wmarks_low; before=$(cat \
         /proc/$PPID/comm); echo Y > $m/enabled || exit 1; [ $(cat /proc/$PPID/comm) = kdamond.0 ] || exit 2; \
         [ $(cat $m/kdamond_pid) -gt 0 ] || exit 3; echo N > $m/enabled || exit 4; [ $(cat \
         /proc/$PPID/comm) = $before ] || exit 8; \
         k=/sys/kernel/mm/damon/admin/kdamonds; echo 1 > $k/nr_kdamonds; echo 1 > \
         $k/0/contexts/nr_contexts; echo paddr > $k/0/contexts/0/operations; echo on > $k/0/state || \
         exit 5; cat $k/0/state; echo commit > $k/0/state || exit 6; echo off > $k/0/state || exit 7; \
         exit 0";
    let done = inside(script);
    assert_eq!(done.status.code(), Some(0), "{done:?}");
    assert_eq!(String::from_utf8(done.stdout).unwrap(), "on\n");
}

#[test]
fn the_files_of_debugfs_run_the_same_engine() {
    if !can_mount() {
        return;
    }
    let served = Served::start_with(&["--debugfs"], "monitor_on");
    let at = |file: &str| served.dir.path().join(file);
    let read = |file: &str| fs::read_to_string(at(file)).unwrap();
    let target = sleeper();
    assert_eq!(read("monitor_on"), "off\n");
    assert_eq!(fs::metadata(at("attrs")).unwrap().len(), 0, "as debugfs says");
    fs::write(at("attrs"), "5000 100000 1000000 10 1000\n").unwrap();
    fs::write(at("target_ids"), target.0.id().to_string()).unwrap();
    // All memory, at any rate and age: count it.
    let all = format!("0 {} 0 1000 0 1000 5 0 0 0 0 0 0 0 0 0 0 0\n", u64::MAX);
    fs::write(at("schemes"), &all).unwrap();
    fs::write(at("monitor_on"), "on\n").unwrap();
    let pid: u32 = read("kdamond_pid").trim().parse().unwrap();
    assert_eq!(fs::read_to_string(format!("/proc/{pid}/comm")).unwrap(), "kdamond.0\n");
    let counted = || read("schemes").split_whitespace().nth(19).unwrap() != "0";
    eventually("the scheme counts", counted);
    fs::write(at("monitor_on"), "off\n").unwrap();
    assert_eq!((read("kdamond_pid"), read("target_ids")), ("none\n".into(), "\n".into()));
    // Two writes are two values, so a second one without a new open is refused.
    let mut file = fs::File::options().write(true).open(at("schemes")).unwrap();
    io::Write::write_all(&mut file, b"").unwrap();
    io::Write::write_all(&mut file, all.as_bytes()).unwrap();
    let again = io::Write::write_all(&mut file, all.as_bytes()).unwrap_err();
    assert_eq!(again.kind(), ErrorKind::InvalidInput);
}

#[test]
fn a_command_finds_the_files_of_debugfs_if_it_wants_them() {
    if !can_mount() {
        return;
    }
    let script = "cd /sys/kernel/debug/damon && ls | tr '\\n' ' ' && echo x > mk_contexts && cat x/attrs; \
                  ls /sys/kernel/mm/damon";
    let done =
        isotherm().args(["damonfs", "--debugfs", "--", "sh", "-c", script]).output().unwrap();
    assert_eq!(
        String::from_utf8(done.stdout).unwrap(),
        "attrs init_regions kdamond_pid mk_contexts monitor_on rm_contexts schemes target_ids 5000 \
         100000 1000000 10 1000\nadmin\n",
        "{:?}",
        String::from_utf8(done.stderr)
    );
    assert!(!Path::new("/sys/kernel/debug/damon/x").exists(), "nobody else sees it");
}

#[test]
fn a_command_that_cannot_be_started_is_told() {
    if !can_mount() {
        return;
    }
    let done = isotherm().args(["damonfs", "--", "/no/such/program"]).output().unwrap();
    assert_eq!(done.status.code(), Some(2));
    let said = String::from_utf8(done.stderr).unwrap();
    assert!(said.contains("/no/such/program") && said.contains("hint:"), "{said}");
}
