//! Processes that may not be watched because a capability is missing, and processes that are gone.

use std::fs;

use crate::acting::sees_pages;
use crate::policy::{account, counting, events};
use crate::program::{ISOTHERM, Public, Running, Said, command, isotherm, scratch, wait_until};
use crate::shared::python;

/// What Isotherm needs to watch the processes of others.
const NEEDED: [&str; 5] = ["bpf", "perfmon", "sys_ptrace", "sys_nice", "dac_read_search"];

/// The view, without a terminal.
const TOP: &str = "top --batch -n 2 -d 1s";

/// Whether tests can change users and capabilities; prints why not.
fn is_root() -> bool {
    let root = rustix::process::geteuid().is_root();
    if !root {
        eprintln!("skipped: only root can give capabilities to a program");
    }
    root
}

/// A process of another user than [`with_capabilities`] runs the program as.
fn of_another_user(public: &Public) -> Running {
    let dir = public.dir.path();
    let args = ["--reuid=65533", "--regid=65533", "--clear-groups", "sleep", "300"];
    let target = Running::start(command("setpriv", dir, &args));
    let status = || fs::read_to_string(format!("/proc/{}/status", target.pid())).unwrap();
    wait_until("the other user", || {
        status().contains("Uid:\t65533") && status().starts_with("Name:\tsleep")
    });
    target
}

/// Runs the program as user nobody with all capabilities that it needs, except `without`.
fn with_capabilities(public: &Public, without: &str, args: &str) -> Said {
    let kept: Vec<&str> = NEEDED.into_iter().filter(|name| *name != without).collect();
    with(public, &kept, args)
}

/// Runs the program as user nobody with these capabilities.
fn with(public: &Public, capabilities: &[&str], args: &str) -> Said {
    let kept = capabilities.iter().map(|name| format!(",+{name}"));
    let kept = format!("-all{}", kept.collect::<String>());
    let (inheritable, ambient) = (format!("--inh-caps={kept}"), format!("--ambient-caps={kept}"));
    let mut words = vec!["--reuid=65534", "--regid=65534", "--clear-groups"];
    words.extend([&inheritable, &ambient, public.program.to_str().unwrap()]);
    words.extend(args.split_whitespace());
    Said::of(command("setpriv", public.dir.path(), &words).output().unwrap())
}

#[test]
fn a_process_that_may_not_be_watched_is_refused_at_once() {
    if !is_root() {
        return;
    }
    let public = Public::new();
    let target = of_another_user(&public);
    let watch_briefly = format!("wss --duration 300ms -p {}", target.pid());
    for without in NEEDED {
        let said = with_capabilities(&public, without, &watch_briefly);
        // Linux 6.1 loads our programs without it.
        if without == "perfmon" && said.code == Some(0) {
            eprintln!("this kernel does not ask for CAP_PERFMON");
            continue;
        }
        let name = format!("CAP_{}", without.to_uppercase());
        said.expect(4, &[&name, "setcap cap_bpf,"]);
        for what in ["record -q", "stat", "reclaim --dry-run --watermarks none", TOP] {
            let said = with_capabilities(&public, without, &format!("{what} -p {}", target.pid()));
            said.expect(4, &[&name, "setcap cap_bpf,"]);
        }
    }
    let left = fs::read_dir(public.dir.path()).unwrap().map(|entry| entry.unwrap().file_name());
    assert_eq!(left.collect::<Vec<_>>(), ["isotherm"], "no record is made for nothing");
    // With all of them the target can be watched.
    with_capabilities(&public, "", &watch_briefly).expect(0, &[]);
    target.assert_untouched();
}

/// A process and its child, which read 16 MiB that they share since the fork, again and again. The
/// child ends with its parent.
const PAIR: &str = "
import mmap, os, time
m = mmap.mmap(-1, 16 << 20, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
for i in range(0, 16 << 20, 4096):
    m[i] = 1
parent = os.getpid()
os.fork()
open('forked-%d' % os.getpid(), 'w').close()
while os.getpid() == parent or os.getppid() == parent:
    for i in range(0, 16 << 20, 4096):
        m[i]
    time.sleep(0.01)
";

/// The capabilities of the shipped unit, as setpriv names them.
fn of_the_unit() -> Vec<String> {
    let unit = concat!(env!("CARGO_MANIFEST_DIR"), "/../../packaging/isotherm.service");
    let text = fs::read_to_string(unit).unwrap();
    let of = |key: &str| {
        let list = text.lines().find_map(|line| line.strip_prefix(key)).unwrap();
        let names = list.split(' ').map(|name| name.trim_start_matches("CAP_").to_lowercase());
        names.collect::<Vec<_>>()
    };
    let list = of("CapabilityBoundingSet=");
    assert_eq!(list, of("AmbientCapabilities="));
    list
}

#[test]
fn what_processes_of_another_user_share_is_seen_by_the_unit_or_it_is_said() {
    if !is_root() || !sees_pages() {
        return;
    }
    let public = Public::new();
    let dir = public.dir.path();
    // The first one in the path may belong to root alone.
    let public_python =
        || fs::exists("/usr/bin/python3").unwrap().then(|| "/usr/bin/python3".into());
    let Some(python) = public_python().or_else(|| python(dir)) else { return };
    let words = ["--reuid=65533", "--regid=65533", "--clear-groups", &python, "-c", PAIR];
    let pair = Running::start(command("setpriv", dir, &words));
    wait_until("the fork", || {
        let files = fs::read_dir(dir).unwrap().map(|file| file.unwrap().file_name());
        files.filter(|name| name.to_str().unwrap().starts_with("forked-")).count() == 2
    });
    let unit = of_the_unit();
    assert_eq!(unit.len(), 5, "{unit:?}");
    let unit: Vec<&str> = unit.iter().map(String::as_str).collect();
    let line = format!("wss --json --duration 4s -i 1s -p {}", pair.pid());
    let refused = "needs CAP_DAC_OVERRIDE";
    // The most that a line of it says of a process, in MiB. Not the last line's: a machine that is
    // slow leaves out windows.
    let most = |said: &Said| {
        let of = |line: &str| {
            let line: serde_json::Value = serde_json::from_str(line).unwrap();
            let targets = line["processes"].as_array().unwrap();
            targets.iter().map(|target| target["wss_bytes"].as_u64().unwrap()).max().unwrap_or(0)
        };
        let most = said.out.lines().map(of).max().unwrap_or_else(|| panic!("no line: {said:#?}"));
        most >> 20
    };
    let seen = with(&public, &unit, &line);
    assert!(!seen.expect(0, &[]).err.contains(refused), "{seen:#?}");
    assert!((15..24).contains(&most(&seen)), "{seen:#?}");
    // With what can only read, it is not seen, and that is told once for each of both.
    let less: Vec<&str> = NEEDED.to_vec();
    let told = with(&public, &less, &line);
    assert_eq!(told.expect(0, &["clear_refs"]).err.matches(refused).count(), 2, "{told:#?}");
    pair.assert_untouched();
}

#[test]
fn who_may_be_watched_is_watched_though_another_may_not() {
    if !is_root() {
        return;
    }
    let public = Public::new();
    let dir = public.dir.path();
    let target = of_another_user(&public);
    let own = Running::start(command(
        "setpriv",
        dir,
        &["--reuid=65534", "--regid=65534", "--clear-groups", "sleep", "300"],
    ));
    let status = || fs::read_to_string(format!("/proc/{}/status", own.pid())).unwrap();
    wait_until("the user", || status().contains("Uid:\t65534") && status().contains("sleep"));
    let both = format!("{{ pid = {} }}, {{ pid", target.pid());
    fs::write(dir.join("p.toml"), counting(own.pid(), "").replace("{ pid", &both)).unwrap();
    let said = public.isotherm("run p.toml --duration 3s --json");
    said.expect(4, &["warning: ", &target.pid().to_string(), "CAP_SYS_PTRACE"]);
    assert!(account(&said.out)["schemes"][0]["windows"].as_u64() > Some(0), "{said:#?}");
    target.assert_untouched();
}

#[test]
fn a_process_that_is_gone_leaves_the_other_targets_of_a_policy() {
    let dir = scratch();
    let target = Running::sleeper(dir.path());
    let gone = "{ pid = 999999999 }";
    let two = counting(target.pid(), "").replace("{ pid", &format!("{gone}, {{ pid"));
    fs::write(dir.path().join("p.toml"), &two).unwrap();
    let said = isotherm(dir.path(), "run --check p.toml");
    said.expect(0, &["warning: ", "999999999", "no process has this pid"]);
    let args = ["run", "p.toml", "--json", "--events", "events"];
    let run = Running::start(command(ISOTHERM, dir.path(), &args));
    wait_until("a window", || {
        events(dir.path()).iter().any(|e| e["schemes"][0]["windows"].as_u64() > Some(0))
    });
    run.signal("TERM");
    let said = run.finish();
    // The others were watched; that one was not is the exit code.
    said.expect(5, &["warning: ", "999999999", "no process has this pid"]);
    assert!(account(&said.out)["schemes"][0]["windows"].as_u64() > Some(0));
    // A whole context without a target leaves the other contexts.
    let other = counting(999_999_999, "").replace("\"c\"", "\"d\"");
    let text = format!("{}{other}", counting(target.pid(), ""));
    fs::write(dir.path().join("p.toml"), text).unwrap();
    let said = isotherm(dir.path(), "run p.toml --duration 3s --json");
    assert!(account(&said.expect(5, &["999999999"]).out)["schemes"][0]["windows"].is_u64());
    // If nothing is left to watch, nothing begins, and a command line is meant as a whole.
    let none = format!("stat --duration 300ms -p {} -p 99999999", target.pid());
    isotherm(dir.path(), &none).expect(5, &["process 99999999", "no process"]);
    target.assert_untouched();
}
