//! Memory that processes share is counted once, and no mapping is listed twice.

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

#[test]
fn processes_that_share_memory_count_it_once() {
    let dir = scratch();
    // Not a script that finds the interpreter: that runs as several programs.
    let find =
        command("python3", dir.path(), &["-c", "import sys; print(sys.executable)"]).output();
    let Ok(python) = find else {
        eprintln!("skipped: no python3");
        return;
    };
    let python = String::from_utf8(python.stdout).unwrap();
    let python = python.trim();
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
