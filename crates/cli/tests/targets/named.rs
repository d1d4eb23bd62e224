//! Targets in all the ways that they can be named: by pid, name, cgroup, unit, as a bare pid or
//! command, and all of them. Processes that come later are watched, and those that leave are not.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use isotherm::raw::host::metrics::cgroup::Cgroups;
use isotherm::raw::host::proc::Proc;
use serde_json::Value;

use crate::program::{ISOTHERM, Running, Said, command, isotherm, scratch, wait_until};

/// `isotherm wss --json` that runs in a directory of its own, and the lines that it has written.
struct Wss {
    dir: tempfile::TempDir,
    running: Running,
}

impl Wss {
    /// A window of the set `smaps` is short, and anybody may use it.
    fn start(args: &str) -> Self {
        Self::start_as(&format!("-i 300ms --ops smaps --sample 100ms --aggr 200ms {args}"))
    }

    fn start_as(args: &str) -> Self {
        let dir = scratch();
        let words: Vec<&str> =
            ["wss", "--json"].into_iter().chain(args.split_whitespace()).collect();
        let mut command = command(ISOTHERM, dir.path(), &words);
        command.stdout(fs::File::create(dir.path().join("lines")).unwrap());
        command.stderr(fs::File::create(dir.path().join("said")).unwrap());
        Self { running: Running::start(command), dir }
    }

    /// The newest whole line.
    fn line(&self) -> Option<Value> {
        let text = fs::read_to_string(self.dir.path().join("lines")).unwrap();
        let whole = text.rfind('\n').map(|end| &text[..end])?;
        Some(serde_json::from_str(whole.lines().last()?).unwrap())
    }

    /// The pids of the newest line, sorted; none if there is no line yet.
    fn pids(&self) -> Option<Vec<u64>> {
        let line = self.line()?;
        let processes = line["processes"].as_array().unwrap();
        assert_eq!(line["targets"], processes.len());
        let mut pids: Vec<u64> = processes.iter().map(|p| p["pid"].as_u64().unwrap()).collect();
        pids.sort_unstable();
        Some(pids)
    }

    /// Waits until these processes are watched, and no others.
    #[track_caller]
    fn expect(&self, targets: &[&Running]) {
        let mut wanted: Vec<u64> = targets.iter().map(|t| t.pid().into()).collect();
        wanted.sort_unstable();
        // While there is nothing to watch there are no lines.
        wait_until(&format!("{wanted:?}"), || self.pids().as_ref() == Some(&wanted));
    }

    fn said(&self) -> String {
        fs::read_to_string(self.dir.path().join("said")).unwrap()
    }

    fn stop(self) {
        self.running.signal("TERM");
        done(&self.running.finish());
    }
}

/// Fails unless the program did what it should. On a busy machine it may have to say that much of
/// the time was not watched, which is no matter here.
#[track_caller]
fn done(said: &Said) -> &str {
    said.expect(if said.code == Some(6) { 6 } else { 0 }, &[]);
    &said.out
}

/// A program that sleeps, under a name of its own.
fn sleeper_called(dir: &Path, name: &str) -> PathBuf {
    let program = dir.join(name);
    // Another process copies it, or a fork at the same time would hold the file open for writing.
    let copied = Command::new("cp").arg("/bin/sleep").arg(&program).status().unwrap();
    assert!(copied.success());
    program
}

#[test]
fn a_bare_pid_and_a_bare_command_are_targets() {
    let dir = scratch();
    let target = Running::sleeper(dir.path());
    let wss = Wss::start(&target.pid().to_string());
    wss.expect(&[&target]);
    wss.stop();
    // Options may follow a pid, and more pids may follow as `pidof` lists them.
    let other = Running::sleeper(dir.path());
    let args = format!("-p {} {} --no-children", target.pid(), other.pid());
    let wss = Wss::start(&args);
    wss.expect(&[&target, &other]);
    wss.stop();
    let said = isotherm(dir.path(), "record -o r.data sleep 2");
    done(&said);
    assert!(said.err.contains("every target has exited"), "{said:#?}");
    assert!(dir.path().join("r.data").is_file());
    // Behind `--` a number is a command.
    isotherm(dir.path(), "record -o r.data -- 4711").expect(127, &["run `4711`"]);
    isotherm(dir.path(), "wss 99999999").expect(5, &["process 99999999", "no process"]);
    isotherm(dir.path(), "stat 99999999").expect(5, &["process 99999999", "no process"]);
    isotherm(dir.path(), "top --batch -n 1 99999999").expect(5, &["process 99999999"]);
    isotherm(dir.path(), "top --batch sleep 1").expect(2, &["top starts no command", "hint:"]);
    target.assert_untouched();
}

#[test]
fn who_gives_a_name_for_a_pid_or_a_command_is_told_the_option() {
    let dir = scratch();
    let name = format!("iso-n{}", std::process::id());
    for what in ["record", "wss", "stat", "reclaim", "top --batch"] {
        isotherm(dir.path(), &format!("{what} -p redis-server"))
            .expect(2, &["`redis-server` is a name, not a pid; use --name redis-server"]);
    }
    let program = sleeper_called(dir.path(), &name);
    let _runs = Running::start(command(&program, dir.path(), &["300"]));
    wait_until("the name", || isotherm(dir.path(), &format!("wss {name}")).err.contains("--name"));
    let said = isotherm(dir.path(), &format!("wss {name}"));
    said.expect(127, &["the command cannot be run", &format!("--name {name} watches it")]);
}

#[test]
fn processes_of_a_name_are_watched_as_they_come_and_go() {
    let dir = scratch();
    let name = format!("iso-{}", std::process::id());
    let program = sleeper_called(dir.path(), &name);
    let wss = Wss::start(&format!("--name {name}"));
    wait_until("the waiting", || wss.said().contains("no process matches yet"));
    let first = Running::start(command(&program, dir.path(), &["300"]));
    wss.expect(&[&first]);
    let second = Running::start(command(&program, dir.path(), &["300"]));
    wss.expect(&[&first, &second]);
    drop(first);
    wss.expect(&[&second]);
    wss.stop();
}

/// Cgroups of a test, in one hierarchy; they are removed at the end.
struct Group(PathBuf);

impl Group {
    fn make(mount: &Path, name: &str) -> Option<Self> {
        let group = Self(mount.join(name));
        match fs::create_dir_all(group.0.join("inner")) {
            Ok(()) => Some(group),
            Err(err) => {
                eprintln!("not tested with {}: {err}", mount.display());
                None
            }
        }
    }

    fn take(&self, inner: &str, target: &Running) {
        let file = self.0.join(inner).join("cgroup.procs");
        fs::write(file, target.pid().to_string()).unwrap();
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        for inner in ["inner", ""] {
            let dir = self.0.join(inner);
            let pids = fs::read_to_string(dir.join("cgroup.procs")).unwrap_or_default();
            let root = self.0.parent().unwrap().join("cgroup.procs");
            pids.lines().for_each(|pid| fs::write(&root, pid).unwrap_or_default());
            let _removed = fs::remove_dir(dir);
        }
    }
}

/// The hierarchies of v2 and of v1's memory controller.
fn hierarchies() -> Vec<PathBuf> {
    let mounted = Cgroups::mounted(&Proc::default());
    let memory = mounted.v1_of("memory").map(Path::to_owned);
    mounted.v2.into_iter().chain(memory).collect()
}

#[test]
fn processes_of_cgroups_and_units_are_watched_as_they_come_and_go() {
    let mut tested = 0;
    for (nr, mount) in hierarchies().iter().enumerate() {
        let name = format!("isotherm-t{nr}-{}.service", std::process::id());
        let Some(group) = Group::make(mount, &name) else { continue };
        let dir = scratch();
        let [a, b] = [Running::sleeper(dir.path()), Running::sleeper(dir.path())];
        group.take("inner", &a);
        let unit = name.strip_suffix(".service").unwrap();
        let patterns = [
            format!("--cgroup /{name}"),
            format!("--cgroup {name}/inn*"),
            format!("--cgroup *{unit}*"),
            format!("--cgroup {}", group.0.display()),
            format!("--unit {unit}"),
            format!("--unit {name}"),
        ];
        for pattern in patterns {
            let wss = Wss::start(&pattern);
            wss.expect(&[&a]);
            wss.stop();
        }
        let wss = Wss::start(&format!("--cgroup /{name}"));
        wss.expect(&[&a]);
        group.take("", &b);
        wss.expect(&[&a, &b]);
        fs::write(mount.join("cgroup.procs"), a.pid().to_string()).unwrap();
        wss.expect(&[&b]);
        wss.stop();
        [a, b].iter().for_each(Running::assert_untouched);
        tested += 1;
    }
    if tested == 0 {
        eprintln!("skipped: no cgroup can be made here");
    }
}

/// In a pid namespace of its own, so that nobody else's processes are watched.
#[test]
fn all_means_every_process_that_may_be_watched() {
    let dir = scratch();
    let line = "sleep 300 & sleep 301 & exec \"$0\" wss -a --json --ops smaps -i 1s --duration 5s";
    let words = ["-pf", "--mount-proc", "--kill-child", "sh", "-c", line, ISOTHERM];
    if Command::new("unshare")
        .args(["-pf", "--mount-proc", "true"])
        .status()
        .is_ok_and(|s| s.success())
    {
        let said = Said::of(command("unshare", dir.path(), &words).output().unwrap());
        let lines: Vec<Value> =
            done(&said).lines().map(|l| serde_json::from_str(l).unwrap()).collect();
        assert_eq!(lines.last().unwrap()["targets"], 2, "{said:#?}");
    } else {
        eprintln!("not tested live: no pid namespace can be made here");
    }
    let said = isotherm(dir.path(), "reclaim -a --print-policy");
    assert!(said.expect(0, &[]).out.contains("targets = [{ name = \"*\" }]"), "{}", said.out);
    for other in ["-p 1", "--name x", "--cgroup /x", "--unit x", "--paddr", "sleep 1"] {
        isotherm(dir.path(), &format!("record -a {other}")).expect(2, &["cannot be used with"]);
    }
}

#[test]
fn a_policy_has_the_same_targets() {
    let dir = scratch();
    let args = "stat -p 12 --name nobody-is* --cgroup a/b* --unit redis --print-policy";
    let said = isotherm(dir.path(), args);
    let policy = said.expect(0, &[]).out.clone();
    for target in [
        "{ pid = 12 }",
        "{ name = \"nobody-is*\" }",
        "{ cgroup = \"/a/b*\" }",
        "{ unit = \"redis\" }",
    ] {
        assert!(policy.contains(target), "no {target} in {policy}");
    }
    fs::write(dir.path().join("p.toml"), policy.replace("{ pid = 12 }, ", "")).unwrap();
    let said = isotherm(dir.path(), "run p.toml --duration 300ms");
    done(&said);
    assert!(said.err.contains("waiting"), "{said:#?}");
}

/// What was touched within 10 s, and not within the last window.
#[test]
fn the_working_set_is_that_over_the_interval() {
    let dir = scratch();
    // 8 MiB all the time, and 32 MiB once in five seconds.
    let config = "m, 48M\n\nsteady\n600000\nm, 1, 64, 1, rw, length=8M, hz=50\n\
                  m, 1, 64, 1, rw, offset=16M, length=32M, hz=0.2\n";
    fs::write(dir.path().join("w.cfg"), config).unwrap();
    let args = ["workload", "w.cfg", "-q", "--truth", "truth"];
    let target = Running::start(command(ISOTHERM, dir.path(), &args));
    let wss = Wss::start_as(&format!("-i 10s {}", target.pid()));
    let within = |line: &Value| {
        let spans = line["touched"].as_array().cloned().unwrap_or_default();
        let span = spans.into_iter().find(|span| span["span_us"] == 10_000_000);
        span.and_then(|span| span["bytes"].as_u64())
    };
    wait_until("a line", || wss.line().is_some());
    let first = wss.line().unwrap();
    assert_eq!(first["interval_us"], 10_000_000);
    if first["touched"].is_null() {
        eprintln!("not tested here: no set that sees single pages can be used");
    } else {
        wait_until("ten seconds", || wss.line().is_some_and(|line| within(&line).is_some()));
        let line = wss.line().unwrap();
        assert_eq!(line["wss_bytes"].as_u64(), within(&line), "{line}");
        assert_eq!(
            (&line["by"], &line["processes"][0]["name"]),
            (&"pages".into(), &"isotherm".into())
        );
    }
    wss.stop();
}

#[test]
fn several_targets_have_a_line_each_and_a_total() {
    let dir = scratch();
    let targets = [Running::sleeper(dir.path()), Running::sleeper(dir.path())];
    let [a, b] = targets.each_ref().map(Running::pid);
    let said = isotherm(dir.path(), &format!("wss -i 1s --duration 4s {a} {b}"));
    let text = done(&said);
    let header = text.lines().next().unwrap();
    assert!(header.contains("name") && header.contains("over 1s"), "{text}");
    for who in [format!(" {a}  sleep "), format!(" {b}  sleep "), "  total (2) ".to_owned()] {
        assert!(text.contains(&who), "no `{who}` in {text}");
    }
    let alone = isotherm(dir.path(), &format!("wss -i 1s --duration 3s {a}"));
    assert!(!done(&alone).contains("total"), "{alone:#?}");
    isotherm(dir.path(), &format!("wss -i 50ms {a}"))
        .expect(2, &["--interval 50ms is shorter than a window", "-i 100ms"]);
    targets.iter().for_each(Running::assert_untouched);
}
