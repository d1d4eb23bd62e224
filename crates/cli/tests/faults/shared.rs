//! Memory that processes share is counted once, and no mapping is listed twice.

use std::io::{BufRead, BufReader};
use std::path::Path;

use crate::acting::sees_pages;
use crate::program::{ISOTHERM, Running, command, isotherm, scratch, seconds, wait_until};

/// A process whose two children use 32 MiB that they share. It ends with its parent.
const SHARERS: &str = "
import mmap, os, time
m = mmap.mmap(-1, 32 << 20)
for _ in range(2):
    if os.fork() == 0:
        break
while os.getppid() != 1:
    for i in range(0, 32 << 20, 4096):
        m[i] = 1
    time.sleep(0.001)
";

/// A process with 64 MiB of shared memory, of which the first 8 MiB were ever filled.
const HARDLY_FILLED: &str = "
import mmap, time
m = mmap.mmap(-1, 64 << 20)
for i in range(0, 8 << 20, 4096):
    m[i] = 1
time.sleep(60)
";

/// A process whose two children share 24 MiB of a file and 24 MiB without one with it. All three
/// read all of it, again and again (`hot`) or once. Each writes a file when it has done so once.
const MAPPERS: &str = r#"
import mmap, os, sys, time
parts = [mmap.mmap(-1, 24 << 20)]
with open("file", "w+b") as file:
    file.truncate(24 << 20)
    parts.append(mmap.mmap(file.fileno(), 24 << 20))
for _ in range(2):
    if os.fork() == 0:
        break
parent = os.getppid()
again = 1
while os.getppid() == parent:
    for part in parts * again:
        for i in range(0, 24 << 20, 4096):
            part[i]
    open("read-%d" % os.getpid(), "w").close()
    again = int(sys.argv[1] == "hot")
    time.sleep(0.02)
"#;
/// Two processes more than one map the 48 MiB. They share libraries and their interpreter as well.
const AGAIN_MIB: std::ops::Range<f64> = 90.0..140.0;

/// The interpreter itself, not a script that finds it: that runs as several programs.
pub(crate) fn python(dir: &Path) -> Option<String> {
    let find = command("python3", dir, &["-c", "import sys; print(sys.executable)"]).output();
    let Ok(python) = find else {
        eprintln!("skipped: no python3");
        return None;
    };
    Some(String::from_utf8(python.stdout).unwrap().trim().to_owned())
}

/// The three processes of [`MAPPERS`], after they have read everything.
fn mappers(dir: &Path, how: &str) -> Option<Running> {
    let python = python(dir)?;
    let running = Running::start(command(python, dir, &["-c", MAPPERS, how]));
    wait_until("three processes to read all", || {
        let files = std::fs::read_dir(dir).unwrap().map(|file| file.unwrap().file_name());
        files.filter(|name| name.to_str().unwrap().starts_with("read-")).count() == 3
    });
    Some(running)
}

/// The first size behind `before` in a text, in MiB: `84.5M`, `1.20 GiB`.
fn mib_behind(text: &str, before: &str) -> Option<f64> {
    let rest = &text[text.find(before)? + before.len()..];
    let number = rest.find(|c: char| !c.is_ascii_digit() && c != '.')?;
    let factor = match rest[number..].trim_start().chars().next()? {
        'G' => 1024.0,
        'M' => 1.0,
        'K' => 1.0 / 1024.0,
        _ => return None,
    };
    Some(rest[..number].parse::<f64>().ok()? * factor)
}

#[test]
fn top_counts_what_processes_share_once_and_tells_the_sum() {
    let dir = scratch();
    if !sees_pages() {
        return;
    }
    let Some(target) = mappers(dir.path(), "hot") else { return };
    let pid = target.pid().to_string();
    let words = ["top", "--batch", "-d", "1s", "-n", "100", "-p", &pid];
    let mut top = Running::start(command(ISOTHERM, dir.path(), &words));
    let lines = BufReader::new(top.child().stdout.take().unwrap()).lines();
    let (mut sum, mut shown) = (None, String::new());
    // Sizes and pages are seen at different times, so it may take a few tables.
    let is_once = lines.map(Result::unwrap).any(|line| {
        if line.starts_with("isotherm top") {
            sum = mib_behind(&line, " of ");
        }
        let once = mib_behind(&line, " of ").filter(|_| line.starts_with("working set"));
        shown += &line;
        shown.push('\n');
        sum.zip(once).is_some_and(|(sum, once)| AGAIN_MIB.contains(&(sum - once)))
    });
    assert!(is_once, "{shown}");
}

#[test]
fn a_dry_run_of_reclaim_counts_idle_memory_that_is_shared_once() {
    let dir = scratch();
    if !sees_pages() {
        return;
    }
    let Some(target) = mappers(dir.path(), "idle") else { return };
    let verdict = |seconds: u32| {
        let pid = target.pid();
        let said = isotherm(
            dir.path(),
            &format!("reclaim -p {pid} --dry-run --age 1s --confirm 1s --duration {seconds}s"),
        );
        said.expect(0, &[]);
        said.out
    };
    let is_once = |said: &str| {
        let Some(line) = said.lines().find(|line| line.contains("<- this age")) else {
            return false;
        };
        let (once, sum) = (mib_behind(line, ": "), mib_behind(line, "over processes "));
        sum.zip(once).is_some_and(|(sum, once)| once < sum) && said.contains("is counted once")
    };
    // While a scheme runs, few shared pages are made old, so how much is known to be idle depends
    // on the machine.
    let mut last = String::new();
    let known = [6, 12, 24, 48].into_iter().any(|seconds| {
        last = verdict(seconds);
        is_once(&last)
    });
    assert!(known, "{last}");
}

#[test]
fn processes_that_share_memory_count_it_once() {
    let dir = scratch();
    let Some(python) = python(dir.path()) else { return };
    let python = python.as_str();
    let words = ["record", "-o", "r.data", "--duration", &seconds(3), "--", python, "-c", SHARERS];
    let recorder = Running::start(command(ISOTHERM, dir.path(), &words));
    recorder.finish().expect(143, &[]);
    let json = |args: &str| -> serde_json::Value {
        let said = isotherm(dir.path(), args);
        serde_json::from_str(&said.expect(0, &[]).out).unwrap()
    };
    let wss = json("report wss --json r.data");
    let (once, sum) = (&wss["mean"]["mapped"], &wss["sum_over_processes"]["mapped"]);
    let saved = sum.as_u64().unwrap() - once.as_u64().unwrap();
    assert!(saved > 20 << 20, "{once} of {sum}: three processes map the same 32 MiB");
    let said = isotherm(dir.path(), "report mappings r.data");
    assert!(said.out.contains("counted once by kind"), "{}", said.out);
    let mappings = json("report mappings --json r.data");
    let lines = mappings["mappings"].as_array().unwrap();
    let mut names: Vec<_> = lines.iter().map(|l| (l["pid"].as_u64(), l["name"].as_str())).collect();
    let all = names.len();
    names.sort();
    names.dedup();
    assert_eq!(names.len(), all, "nothing is listed as two kinds: {mappings}");

    let words =
        ["wss", "--json", "-i", "2s", "--duration", &seconds(6), "--", python, "-c", SHARERS];
    let said = Running::start(command(ISOTHERM, dir.path(), &words)).finish();
    let last: serde_json::Value = serde_json::from_str(said.out.lines().last().unwrap()).unwrap();
    let once = last["wss_bytes"].as_u64().unwrap();
    assert!(once <= last["sum_over_processes_bytes"].as_u64().unwrap(), "{last}");
}

#[test]
fn shared_memory_that_was_never_filled_is_not_cold() {
    let dir = scratch();
    let Some(python) = python(dir.path()).filter(|_| sees_pages()) else { return };
    let words =
        ["record", "-o", "r.data", "--duration", &seconds(6), "--", &python, "-c", HARDLY_FILLED];
    Running::start(command(ISOTHERM, dir.path(), &words)).finish().expect(143, &[]);
    let said = isotherm(dir.path(), "report mappings --json r.data");
    let json: serde_json::Value = serde_json::from_str(&said.expect(0, &[]).out).unwrap();
    let bytes = |line: &serde_json::Value, what: &str| line[what].as_u64().unwrap_or(0);
    let lines = json["mappings"].as_array().unwrap();
    let is_it = |line: &&serde_json::Value| {
        let all = ["hot", "warm", "cold", "unresolved", "absent"].map(|what| bytes(line, what));
        line["kind"] == "shared" && all.iter().sum::<u64>() > 40 << 20
    };
    let line = lines.iter().find(is_it).unwrap_or_else(|| panic!("no such mapping: {json}"));
    // Until its pages were looked at, which is in the first seconds, all of it counts.
    assert!(bytes(line, "absent") > 8 << 20, "56 MiB are empty: {line}");
    let said = isotherm(dir.path(), "report mappings r.data");
    assert!(said.out.contains("absent: address space without a page"), "{}", said.out);
}
