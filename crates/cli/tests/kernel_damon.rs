//! Commands over the kernel's own DAMON: ready-made policies pushed down, a policy changed while it
//! runs, physical memory, and the messages when a kdamond or its target ends.
//!
//! These tests run only in the lab (`ISOTHERM_LAB=1`), because all programs share the kdamonds.
//! Only the tests of refusals run everywhere, because they change nothing.
#![expect(clippy::unwrap_used, reason = "a failing test says enough")]
#![expect(clippy::print_stderr, reason = "a skipped test says why")]

#[path = "common/late.rs"]
mod late;

use std::io::{ErrorKind, Read};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use isotherm::raw::host::zram::Zram;
use serde_json::Value;

use late::is_done;

const MIB: u64 = 1 << 20;
const ADMIN: &str = "/sys/kernel/mm/damon/admin/kdamonds";
const PATIENCE: Duration = Duration::from_secs(120);
const IN_THE_KERNEL: &str = "schemes run in the kernel's DAMON";

/// All tests share the machine's kdamonds, so one test runs at a time.
static TURN: Mutex<()> = Mutex::new(());

/// The right to start kdamonds. Where there is none, prints why.
fn in_lab() -> Option<MutexGuard<'static, ()>> {
    if std::env::var("ISOTHERM_LAB").as_deref() != Ok("1") {
        eprintln!("skipped: starts kdamonds, so it runs in the lab only (ISOTHERM_LAB=1)");
        return None;
    }
    if !Path::new(ADMIN).exists() {
        eprintln!("skipped: this kernel has no DAMON (CONFIG_DAMON_SYSFS)");
        return None;
    }
    let turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
    // The newest kernels of some distributions run a kdamond of their own, which does not run
    // beside others.
    std::fs::write("/sys/module/damon_stat/parameters/enabled", "N").ok();
    Some(turn)
}

fn nr_kdamonds() -> u32 {
    std::fs::read_to_string(format!("{ADMIN}/nr_kdamonds")).unwrap().trim().parse().unwrap()
}

fn isotherm() -> Command {
    Command::new(env!("CARGO_BIN_EXE_isotherm"))
}

/// A program of 32 MiB in use and 128 MiB that were touched once; and a directory.
struct Workload {
    child: Child,
    dir: tempfile::TempDir,
}

impl Workload {
    fn start() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let config = dir.path().join("hotcold.cfg");
        let text = format!(
            "hot, {}\ncold, {}\n\nall\n2000\nhot, 1, 64, 1\ncold, 1, 4096, 1\n\nrun\n600000\nhot, 1, 64, 1\n",
            32 * MIB,
            128 * MIB
        );
        std::fs::write(&config, text).unwrap();
        let child =
            isotherm().args(["workload", "-q"]).arg(&config).stdout(Stdio::null()).spawn().unwrap();
        let workload = Self { child, dir };
        until("the workload has touched its memory", || workload.status("VmRSS:") > 150 * MIB);
        workload
    }

    fn pid(&self) -> String {
        self.child.id().to_string()
    }

    /// A size of `/proc/PID/status`, in bytes.
    fn status(&self, line: &str) -> u64 {
        let text = std::fs::read_to_string(format!("/proc/{}/status", self.child.id())).unwrap();
        let line = text.lines().find_map(|l| l.strip_prefix(line)).unwrap_or("0");
        line.trim().trim_end_matches(" kB").parse::<u64>().unwrap_or(0) << 10
    }

    fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    /// A policy of one scheme on it, in the kernel.
    fn policy(&self, action: &str, age: &str) -> PathBuf {
        let path = self.path("policy.toml");
        let text = format!(
            "[[context]]\nname = \"c\"\nops = \"kdamond\"\nengine = \"kernel\"\n\
             targets = [{{ pid = {} }}]\nintervals = {{ sample = \"50ms\", aggregation = \"500ms\" }}\n\
             [[context.scheme]]\nname = \"s\"\naction = \"{action}\"\nsize = \"4K..\"\n\
             frequency = \"0%\"\nage = \"{age}..\"\nevidence = \"off\"\n",
            self.pid()
        );
        std::fs::write(&path, text).unwrap();
        path
    }
}

impl Drop for Workload {
    fn drop(&mut self) {
        self.child.kill().ok();
        self.child.wait().ok();
    }
}

/// `isotherm run`, in the background.
struct Run {
    child: Child,
    /// Where its messages go.
    said: PathBuf,
}

impl Run {
    fn start(policy: &Path, events: &Path) -> Self {
        let mut command = isotherm();
        command.arg("run").arg(policy).args(["--json", "--duration", "150s", "--events"]);
        let said = events.with_extension("said");
        command.stderr(std::fs::File::create(&said).unwrap());
        let child = command.arg(events).stdout(Stdio::piped()).spawn().unwrap();
        Self { child, said }
    }

    /// The messages so far.
    fn said(&self) -> String {
        std::fs::read_to_string(&self.said).unwrap()
    }

    fn until(&self, what: &str, done: impl FnMut() -> bool) {
        wait(what, || self.said(), done);
    }

    fn signal(&self, name: &str) {
        let pid = self.child.id().to_string();
        assert!(Command::new("kill").args(["-s", name, &pid]).status().unwrap().success());
    }

    /// Exit status, account and messages.
    fn end(mut self) -> (Option<i32>, Value, String) {
        let (mut out, status) = (String::new(), self.child.wait().unwrap());
        self.child.stdout.take().unwrap().read_to_string(&mut out).unwrap();
        let account = out.lines().last().and_then(|line| serde_json::from_str(line).ok());
        (status.code(), account.unwrap_or_default(), self.said())
    }
}

impl Drop for Run {
    fn drop(&mut self) {
        self.child.kill().ok();
        self.child.wait().ok();
    }
}

fn until(what: &str, done: impl FnMut() -> bool) {
    wait(what, String::new, done);
}

/// Waits until it is done. If it never is, tells what was said.
fn wait(what: &str, said: impl Fn() -> String, mut done: impl FnMut() -> bool) {
    let end = Instant::now() + PATIENCE;
    while !done() {
        assert!(Instant::now() < end, "waited for: {what}\n{}", said());
        std::thread::sleep(Duration::from_millis(100));
    }
}

/// A file of the kdamond that runs; empty if none does.
fn of_running(file: &str) -> String {
    let read = |path: String| {
        loop {
            match std::fs::read_to_string(&path) {
                // Somebody else gives the kdamond a command.
                Err(e) if e.kind() == ErrorKind::ResourceBusy => {
                    std::thread::sleep(Duration::from_millis(1));
                }
                text => break text.unwrap_or_default().trim().to_owned(),
            }
        }
    };
    let at = (0..nr_kdamonds()).find(|nr| read(format!("{ADMIN}/{nr}/state")) == "on");
    at.map_or_else(String::new, |nr| read(format!("{ADMIN}/{nr}/{file}")))
}

const ACTION: &str = "contexts/0/schemes/0/action";
const MIN_AGE: &str = "contexts/0/schemes/0/access_pattern/age/min";

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

fn account(out: &Output) -> Value {
    let said = text(&out.stderr);
    assert!(is_done(out.status.code(), &said), "{}: {said}", out.status);
    serde_json::from_str(text(&out.stdout).lines().last().unwrap()).unwrap()
}

#[test]
fn ready_made_policies_are_pushed_down() {
    let Some(_turn) = in_lab() else { return };
    let before = nr_kdamonds();
    let swap = Zram::set_up(512 * MIB);
    for (args, least) in [
        (&["reclaim", "--age", "2s", "--watermarks", "none"][..], 32 * MIB),
        (&["thp"][..], 2 * MIB),
        (&["lru-sort", "--watermarks", "none", "--age", "2s"][..], 32 * MIB),
    ] {
        if let ("reclaim", Err(e)) = (args[0], &swap) {
            eprintln!("without reclaim, as there is no swap: {e}");
            continue;
        }
        let workload = Workload::start();
        let out = isotherm()
            .args(args)
            .args(["--ops", "kdamond", "--evidence", "off", "--json", "--pid", &workload.pid()])
            .args(["--sample", "50ms", "--aggr", "500ms", "--duration", "20s"])
            .output()
            .unwrap();
        let account = account(&out);
        let said = text(&out.stderr);
        eprintln!("{args:?}: {}", said.lines().nth(2).unwrap_or_default());
        // If an older kernel lacks something, Isotherm's own engine applies the scheme, and says
        // so.
        let lacks = args[0] == "thp" && said.contains("collapse needs Linux 7.2");
        assert!(said.contains(IN_THE_KERNEL) || lacks, "{args:?}: {said}");
        let schemes = account["schemes"].as_array().unwrap();
        let tried: u64 = schemes.iter().map(|s| s["tried_bytes"].as_u64().unwrap()).sum();
        // Isotherm's engine first waits until small pages of a huge page are touched, which takes
        // longer.
        assert!(tried >= least || lacks, "{args:?}: {account:#}\n{said}");
        if args[0] == "reclaim" {
            assert!(workload.status("VmSwap:") > 16 * MIB, "{account:#}");
        }
        assert_eq!(nr_kdamonds(), before, "{args:?}: the files are as they were");
    }
}

#[test]
fn a_hangup_commits_the_policy_to_the_kernel_or_leaves_the_old_one() {
    let Some(_turn) = in_lab() else { return };
    let workload = Workload::start();
    let policy = workload.policy("cold", "100s");
    let events = workload.path("events");
    let mut run = Run::start(&policy, &events);
    run.until("the policy to be in the kernel", || of_running(MIN_AGE) == "200");
    assert_eq!(of_running(ACTION), "cold");
    let worker = of_running("pid");
    workload.policy("stat", "2s");
    run.signal("HUP");
    run.until("the new policy to be in the kernel", || {
        (of_running(MIN_AGE), of_running(ACTION)) == ("4".into(), "stat".into())
    });
    assert_eq!(of_running("pid"), worker, "the same kdamond goes on");
    let told = |what: &str| {
        let text = std::fs::read_to_string(&events).unwrap_or_default();
        text.lines().filter(|line| line.contains(&format!("\"event\":\"{what}\""))).count()
    };
    run.until("the commit to be told", || told("committed") == 1);
    // A file that is no policy, and a policy that the kernel cannot apply.
    for (nr, text) in [(1, "bad ["), (2, &policy_of_ours(&policy))] {
        std::fs::write(&policy, text).unwrap();
        run.signal("HUP");
        run.until("the refusal to be told", || told("commit_refused") == nr);
        assert_eq!((of_running(MIN_AGE), of_running(ACTION)), ("4".into(), "stat".into()));
        assert_eq!(of_running("pid"), worker);
        assert!(run.child.try_wait().unwrap().is_none(), "it goes on");
    }
    run.signal("INT");
    let (status, account, said) = run.end();
    assert_eq!(status, Some(0), "{said}");
    assert_eq!(account["schemes"][0]["action"], "stat");
    assert!(said.contains("the old policy stays in force"), "{said}");
}

/// The policy with evidence, which only Isotherm's own engine has.
fn policy_of_ours(policy: &Path) -> String {
    let text = std::fs::read_to_string(policy).unwrap();
    text.replace("action = \"stat\"", "action = \"pageout\"")
        .replace("evidence = \"off\"", "evidence = \"on\"")
}

#[test]
fn a_target_that_ends_takes_its_kdamond_with_it_and_that_is_no_error() {
    let Some(_turn) = in_lab() else { return };
    let before = nr_kdamonds();
    let mut workload = Workload::start();
    let run = Run::start(&workload.policy("cold", "2s"), &workload.path("events"));
    run.until("the policy to be in the kernel", || of_running(ACTION) == "cold");
    workload.child.kill().unwrap();
    workload.child.wait().unwrap();
    let (status, account, said) = run.end();
    assert_eq!((status, &account["stopped"]), (Some(0), &Value::from("targets-gone")), "{said}");
    assert_eq!(nr_kdamonds(), before, "the files are as they were");
}

#[test]
fn a_kdamond_that_is_turned_off_is_started_again_with_its_schemes() {
    let Some(_turn) = in_lab() else { return };
    let workload = Workload::start();
    let run = Run::start(&workload.policy("cold", "2s"), &workload.path("events"));
    run.until("the policy to be in the kernel", || of_running(ACTION) == "cold");
    // Turned off before that, it could not be started, which is an error.
    run.until("it to begin", || run.said().contains(IN_THE_KERNEL));
    let worker = of_running("pid");
    let at = (0..nr_kdamonds())
        .map(|nr| format!("{ADMIN}/{nr}/state"))
        .find(|state| std::fs::read_to_string(state).is_ok_and(|s| s.trim() == "on"));
    std::fs::write(at.unwrap(), "off").unwrap();
    run.until("another worker with the scheme", || {
        of_running(ACTION) == "cold" && of_running("pid") != worker
    });
    run.until("the restart to be told", || run.said().contains("started again"));
    run.signal("INT");
    let (status, _, said) = run.end();
    assert_eq!(status, Some(0), "{said}");
    assert!(said.contains("started again"), "{said}");
}

#[test]
fn physical_memory_is_recorded_and_sorted_by_the_kernel() {
    let Some(_turn) = in_lab() else { return };
    let workload = Workload::start();
    let record = workload.path("p.data");
    let out = isotherm()
        .args(["record", "--paddr", "--ops", "kdamond", "--sample", "50ms", "--aggr", "500ms"])
        .args(["--duration", "20s", "-o"])
        .arg(&record)
        .output()
        .unwrap();
    let said = text(&out.stderr);
    assert!(is_done(out.status.code(), &said), "{said}");
    let mut report = isotherm();
    let out = report.args(["report", "memory", "--json", "--by", "owner"]).arg(&record).output();
    let out = out.unwrap();
    assert!(out.status.success(), "{}", text(&out.stderr));
    let report: Value = serde_json::from_slice(&out.stdout).unwrap();
    let lines = report["lines"].as_array().unwrap();
    let pid = u64::from(workload.child.id());
    let line = lines.iter().find(|l| l["pid"].as_u64() == Some(pid)).unwrap();
    let bytes = |key: &str| line[key].as_f64().unwrap();
    // 160 MiB and the program's own, by a sample of frames.
    let error = 3.0 * bytes("error_bytes").max(4.0 * 1_048_576.0);
    #[expect(clippy::cast_precision_loss, reason = "a small size")]
    let whole = (160 * MIB) as f64;
    assert!((bytes("bytes") - whole).abs() < error * 1.5, "{line:#}");
    // Of all its memory the kernel saw a part in use, and most not.
    assert!(bytes("hot") > 0.0 && bytes("cold") > bytes("hot"), "{line:#}");

    let policy = workload.path("lru.toml");
    let scheme = |name: &str, rest: &str| {
        format!("[[context.scheme]]\nname = \"{name}\"\naction = \"{name}\"\n{rest}\n")
    };
    let text_of = format!(
        "[[context]]\nname = \"m\"\nops = \"kdamond\"\ntargets = [{{ paddr = \"all\" }}]\n\
         intervals = {{ sample = \"50ms\", aggregation = \"500ms\" }}\n{}{}",
        scheme("lru_prio", "frequency = \"10%..\""),
        scheme("lru_deprio", "frequency = \"0%\"\nage = \"2s..\""),
    );
    std::fs::write(&policy, text_of).unwrap();
    let out = isotherm().arg("run").arg(&policy).args(["--json", "--duration", "25s"]).output();
    let out = out.unwrap();
    let (account, said) = (account(&out), text(&out.stderr));
    assert!(said.contains(IN_THE_KERNEL), "{said}");
    for scheme in account["schemes"].as_array().unwrap() {
        assert!(scheme["tried_bytes"].as_u64().unwrap() > 0, "{account:#}");
    }
}

/// On every kernel, sets that look at processes refuse physical memory, and name the sets that can
/// watch it.
#[test]
fn physical_memory_by_a_set_that_cannot_is_refused_with_those_that_can() {
    let dir = tempfile::tempdir().unwrap();
    for set in ["pagewalk", "smaps"] {
        let out = isotherm()
            .args(["record", "--paddr", "--ops", set, "--duration", "1s", "-o"])
            .arg(dir.path().join("data"))
            .output()
            .unwrap();
        let said = text(&out.stderr);
        assert_eq!(out.status.code(), Some(3), "{said}");
        for part in [set, "physical memory", "`idle`", "`kdamond`", "hint:"] {
            assert!(said.contains(part), "{part} is not in: {said}");
        }
        assert!(!dir.path().join("data").exists(), "no record is left behind");
    }
}
