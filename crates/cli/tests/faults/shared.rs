//! Memory that processes share is counted once, and no mapping is listed twice.

use std::path::Path;

use crate::acting::sees_pages;
use crate::program::{ISOTHERM, Running, command, isotherm, scratch};

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

/// The interpreter itself: a script that finds it runs as several programs.
fn python(dir: &Path) -> Option<String> {
    let find = command("python3", dir, &["-c", "import sys; print(sys.executable)"]).output();
    let Ok(python) = find else {
        eprintln!("skipped: no python3");
        return None;
    };
    Some(String::from_utf8(python.stdout).unwrap().trim().to_owned())
}

#[test]
fn processes_that_share_memory_count_it_once() {
    let dir = scratch();
    let Some(python) = python(dir.path()) else { return };
    let python = python.as_str();
    let words = ["record", "-o", "r.data", "--duration", "3s", "--", python, "-c", SHARERS];
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

    let words = ["wss", "--json", "-i", "500ms", "--duration", "3s", "--", python, "-c", SHARERS];
    let said = Running::start(command(ISOTHERM, dir.path(), &words)).finish();
    let last: serde_json::Value = serde_json::from_str(said.out.lines().last().unwrap()).unwrap();
    let once = last["wss_bytes"].as_u64().unwrap();
    assert!(once <= last["sum_over_processes_bytes"].as_u64().unwrap(), "{last}");
}

#[test]
fn shared_memory_that_was_never_filled_is_not_cold() {
    let dir = scratch();
    let Some(python) = python(dir.path()).filter(|_| sees_pages()) else { return };
    let words = ["record", "-o", "r.data", "--duration", "6s", "--", &python, "-c", HARDLY_FILLED];
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
