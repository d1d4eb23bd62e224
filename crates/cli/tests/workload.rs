//! `isotherm workload` as a real process: what it maps, what it writes, how it ends.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::collections::BTreeSet;
use std::fs;
use std::io::{BufReader, Read as _, Seek as _, SeekFrom};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use isotherm::raw::sim::truth::{Line, Truth};

/// The path of a file of this run. A file that an earlier run left there is removed.
fn path(name: &str) -> PathBuf {
    let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    fs::remove_file(&path).ok();
    path
}

fn isotherm(args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_isotherm"));
    command.args(args).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

/// Starts a workload with its truth in `truth`.
fn start(config: &str, truth: &Path, more: &[&str]) -> Child {
    let truth = truth.to_str().unwrap();
    isotherm(&[&["workload", config, "--truth", truth], more].concat()).spawn().unwrap()
}

fn finish(child: Child) -> Output {
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    output
}

fn read(truth: &Path) -> Truth {
    Truth::read(BufReader::new(fs::File::open(truth).unwrap())).unwrap()
}

/// The whole lines that are in the file by now, once there is one that `wanted` accepts.
fn lines_with(truth: &Path, wanted: impl Fn(&Line) -> bool) -> Vec<Line> {
    let deadline = Instant::now() + Duration::from_secs(30);
    while Instant::now() < deadline {
        let text = fs::read_to_string(truth).unwrap_or_default();
        let whole = text.split_inclusive('\n').filter(|l| l.ends_with('\n'));
        let lines: Vec<Line> = whole.map(|l| serde_json::from_str(l).unwrap()).collect();
        if lines.iter().any(&wanted) {
            return lines;
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    panic!("{} never had the line", truth.display());
}

#[test]
fn stairs_is_mapped_as_the_truth_says_and_climbs() {
    let file = path("stairs.truth");
    let child = start("stairs", &file, &["--scale", "3s"]);
    let lines = lines_with(&file, |l| matches!(l, Line::Phase { .. }));
    let maps = fs::read_to_string(format!("/proc/{}/maps", child.id())).unwrap();
    let told: Vec<(u64, u64)> = lines
        .iter()
        .filter_map(|l| match l {
            Line::Map { start, end, .. } => Some((*start, *end)),
            _ => None,
        })
        .collect();
    assert_eq!(told.len(), 10);
    for (start, end) in &told {
        assert_eq!(end - start, 10 << 20);
        assert!(maps.contains(&format!("{start:x}-{end:x} rw-p ")), "{start:x} in\n{maps}");
    }
    for pair in told.windows(2) {
        assert!(pair[1].0 - pair[0].1 >= 64 << 20, "gaps");
    }
    let pid = child.id();
    let stderr = String::from_utf8(finish(child).stderr).unwrap();
    let truth = read(&file);
    let process = truth.process(pid).unwrap();
    assert_eq!(process.edges.len(), 11, "one edge per phase");
    // It begins to touch a little after the clock of its duration began.
    assert!(process.end.since(process.start) >= 2_900_000_000);
    // In the middle of step i only region i is touched; slots at the edges may hold two steps.
    for (i, edges) in process.edges[1..].windows(2).enumerate() {
        let slot =
            |t: isotherm::raw::core::Time| (t.0 - truth.header.start_ns) / truth.header.slot_ns;
        let patterns: BTreeSet<u32> = (slot(edges[0]) + 1..slot(edges[1]))
            .flat_map(|k| process.slots.get(&k).into_iter().flatten().map(|c| c.0))
            .collect();
        let step = u32::try_from(10 + i).unwrap();
        assert!(patterns.is_subset(&BTreeSet::from([step])), "step {i}: {patterns:?}");
        let info = &truth.header.phases[i + 1].patterns[0];
        assert_eq!((info.id, info.region), (step, i));
    }
    let total: u64 = process.slots.values().flatten().map(|c| c.2).sum();
    // "workload stairs: 5222 accesses/ms, 3255 ms"; more than 3 s on a machine that is late.
    let words: Vec<_> = stderr.lines().last().unwrap().split(' ').collect();
    let (said, ms): (u64, u64) = (words[2].parse().unwrap(), words[4].parse().unwrap());
    assert!(ms >= 2_990 && said.abs_diff(total / ms) <= 1, "{total} accesses, but {stderr}");
}

#[test]
fn rates_are_kept_and_never_exceeded() {
    let (config, file) = (path("rates.cfg"), path("rates.truth"));
    let text = "@threads=2\na, 4M\nb, 4M\n\np\n1500\na, 1, 64, 1, rw, rate=200000\nb, 0, 4096, 1, ro, hz=50\n";
    fs::write(&config, text).unwrap();
    finish(start(config.to_str().unwrap(), &file, &["--quiet"]));
    let truth = read(&file);
    let counts = |id: u32| -> u64 {
        let all = truth.processes[&0].slots.values().flatten();
        all.filter(|c| c.0 == id).map(|c| c.2).sum()
    };
    // On a machine that is too busy accesses are dropped, but there are never too many.
    for (id, due) in [(0, 300_000), (1, 50 * 1024 * 3 / 2)] {
        assert!(counts(id) <= due && counts(id) > due / 2, "pattern {id}: {} of {due}", counts(id));
    }
}

#[test]
fn a_fork_tree_tells_who_did_what() {
    let (config, file) = (path("fork.cfg"), path("fork.truth"));
    let text = "@processes=4\n@fork_ms=200\nm, 1M\n\np\n1200\n\
                m, 1, 64, 1, ro, rate=10000\nm, 1, 64, 1, rw, rate=10000, process=3\n";
    fs::write(&config, text).unwrap();
    let child = start(config.to_str().unwrap(), &file, &[]);
    let pid = child.id();
    finish(child);
    let truth = read(&file);
    let parents: Vec<_> = truth.processes.values().map(|p| p.parent).collect();
    assert_eq!(parents, [None, Some(0), Some(0), Some(1)]);
    let pids: BTreeSet<u32> = truth.processes.values().map(|p| p.pid).collect();
    assert_eq!((truth.processes[&0].pid, pids.len()), (pid, 4));
    for (p, process) in &truth.processes {
        let patterns: BTreeSet<u32> = process.slots.values().flatten().map(|c| c.0).collect();
        assert_eq!(patterns.contains(&1), *p == 3, "process {p} did {patterns:?}");
        assert!(patterns.contains(&0));
        assert!(process.start.0 >= truth.header.start_ns + u64::from(*p) * 200_000_000 || *p == 0);
        assert!(!process.maps.is_empty() && !process.edges.is_empty());
        assert!(!Path::new(&format!("/proc/{}", process.pid)).exists(), "nothing is left running");
    }
}

#[test]
fn mappings_that_change_are_told() {
    let (config, file) = (path("churn.cfg"), path("churn.truth"));
    let text = "m, 4M, none, mapped=1M\n\none\n300\nm, 1, 64, 1, rw, rate=1000\n\n\
                two\n300, resize=m:4M\nm, 1, 64, 1, rw, rate=1000\n\nthree\n300, resize=m:0\n";
    fs::write(&config, text).unwrap();
    finish(start(config.to_str().unwrap(), &file, &["--duration", "1200ms"]));
    let truth = read(&file);
    let process = &truth.processes[&0];
    let sizes: Vec<u64> = process.maps.iter().map(|m| m.extent.range.len() >> 20).collect();
    // The fourth phase is the first one again.
    assert_eq!(sizes, [1, 0, 4, 0, 0, 0, 1]);
    assert_eq!(process.edges.len(), 4);
}

/// Which pages of `[start, end)` a process has, from its page tables.
fn present(pid: u32, start: u64, end: u64) -> Vec<bool> {
    let mut pagemap = fs::File::open(format!("/proc/{pid}/pagemap")).unwrap();
    pagemap.seek(SeekFrom::Start(start / 4096 * 8)).unwrap();
    let mut entries = vec![0; usize::try_from((end - start) / 4096 * 8).unwrap()];
    pagemap.read_exact(&mut entries).unwrap();
    // The highest bit of an entry of eight bytes.
    entries.chunks_exact(8).map(|entry| entry[7] & 0x80 != 0).collect()
}

/// Memory that nobody populates is there only where the process has touched it.
#[test]
fn the_pieces_of_the_truth_are_touched_and_no_others() {
    let (config, file) = (path("pieces.cfg"), path("pieces.truth"));
    let text = "m, 8M, none, populate=no\n\np\n9000\n\
                m, 1, 64, 1, rw, pieces=64K, share=10, hz=500\n";
    fs::write(&config, text).unwrap();
    let child = start(config.to_str().unwrap(), &file, &[]);
    let lines = lines_with(&file, |l| matches!(l, Line::Slot { k: 5.., .. }));
    let extent = lines.iter().find_map(|l| match l {
        Line::Map { start, end, .. } => Some((*start, *end)),
        _ => None,
    });
    let (start, end) = extent.unwrap();
    let present = present(child.id(), start, end);
    let pid = rustix::process::Pid::from_child(&child);
    rustix::process::kill_process(pid, rustix::process::Signal::TERM).unwrap();
    finish(child);
    let cells = &read(&file).header.phases[0].patterns[0].cells;
    let mut expected = vec![false; 2048];
    for (from, to) in cells.pieces_of(0) {
        let pages = usize::try_from(from / 4096).unwrap()..usize::try_from(to / 4096).unwrap();
        expected[pages].fill(true);
    }
    assert_eq!(expected.iter().filter(|e| **e).count(), 13 * 16, "a tenth of 128 pieces");
    assert_eq!(present, expected);
}

#[test]
fn a_signal_ends_it_in_good_order() {
    let file = path("signal.truth");
    let child = start("zipf", &file, &[]);
    lines_with(&file, |l| matches!(l, Line::Slot { .. }));
    let pid = rustix::process::Pid::from_child(&child);
    rustix::process::kill_process(pid, rustix::process::Signal::TERM).unwrap();
    finish(child);
    let lines = lines_with(&file, |l| matches!(l, Line::End { .. }));
    assert!(matches!(lines.last(), Some(Line::End { p: 0, .. })));
}

#[test]
fn wrong_input_is_refused_with_its_place() {
    let config = path("wrong.cfg");
    fs::write(&config, "a, 1M\n\np\n100\na, 0, 64\n").unwrap();
    let wrong = config.to_str().unwrap();
    let cases: [(&[&str], &str); 6] = [
        (&["workload", wrong], "line 5: expected the probability"),
        (&["workload", "no-such-thing"], "hint:  give a config file, or one of stairs, "),
        (&["workload", "stairs", "--scale", "fast"], "expected a factor"),
        (&["workload", "stairs", "--duration", "5"], "did you mean 5s or 5ms?"),
        (&["score", "none.data", wrong], "not a truth header"),
        (&["workload"], "Usage:"),
    ];
    for (args, message) in cases {
        let output = isotherm(args).output().unwrap();
        let stderr = String::from_utf8(output.stderr).unwrap();
        assert!(stderr.contains(message), "{args:?}: {stderr}");
        assert_eq!(output.status.code(), Some(2), "{args:?}: {stderr}");
    }
    let output =
        isotherm(&["workload", "stairs", "--truth", "/no/such/dir/t", "-q"]).output().unwrap();
    let stderr = String::from_utf8(output.stderr).unwrap();
    assert!(stderr.contains("/no/such/dir/t") && stderr.contains("No such file"), "{stderr}");
    assert_eq!(output.status.code(), Some(2));
}

#[test]
fn print_and_list_run_nothing() {
    let printed = isotherm(&["workload", "stairs", "--print"]).output().unwrap();
    let text = String::from_utf8(printed.stdout).unwrap();
    assert!(isotherm::raw::sim::config::Config::parse(&text).is_ok(), "{text}");
    let listed = isotherm(&["workload", "--list"]).output().unwrap();
    let listed = String::from_utf8(listed.stdout).unwrap();
    let (files, parameters) = listed.split_once("\n\n").unwrap();
    assert_eq!(files.lines().count(), isotherm::raw::sim::config::SHIPPED.len());
    assert!(parameters.contains("scattered [--block SIZE] [--hot SHARE]"), "{listed}");
}

#[test]
fn parameters_make_the_workload_that_their_name_says() {
    let printed = |args: &str| {
        let args: Vec<&str> = args.split(' ').collect();
        let output = isotherm(&args).output().unwrap();
        let [out, err] =
            [output.stdout, output.stderr].map(|bytes| String::from_utf8(bytes).unwrap());
        (output.status.code(), out, err)
    };
    for (options, name) in [
        ("scattered --block 64K --hot 3%", "scattered-64k-3"),
        ("scattered-2m --hot 0.5%", "scattered-2m-0.5"),
        ("sweep --every 300ms --by blocks", "sweep-blocks-300ms"),
        ("sweep-blocks --by pointer --every 5s", "sweep-slow"),
        ("large --clustered", "large-clustered"),
    ] {
        let by_options = printed(&format!("workload {options} --print"));
        let by_name = printed(&format!("workload {name} --print"));
        assert_eq!(by_options, by_name, "{options}");
        assert_eq!(by_options.0, Some(0), "{by_options:?}");
    }
    for (options, message) in [
        ("workload stairs --hot 3%", "stairs: it has no parameters"),
        ("workload sweep --hot 3%", "can be given for `scattered` only"),
        ("sim scattered --every 1s", "can be given for `sweep` only"),
        ("workload scattered --block 5K", "a power of two of bytes"),
        ("workload scattered --hot 3", "--hot <SHARE>"),
        ("workload sweep --every 0", "from 1ms to 60s"),
    ] {
        let (code, _, err) = printed(options);
        assert!(code == Some(2) && err.contains(message), "{options}: {code:?} {err}");
    }
}

/// The truth of each layout is that of what it does: a census agrees with it, in a simulation.
/// Pointers that go over blocks touch the same places of all blocks at the same time, so what they
/// touch within 100 ms is told from few events. Over eight seeds a census is off by up to a half.
/// Within a second it sees all of it.
#[test]
fn the_truth_of_layouts_is_right() {
    for (options, mib, agrees_us) in [
        ("scattered --block 64K --hot 3%", 30.7, 100_000),
        ("sweep --every 300ms", 1024.0 / 3.0, 100_000),
        ("sweep --every 300ms --by blocks", 1024.0 / 3.0, 1_000_000),
    ] {
        let [record, truth] = ["layout.record", "layout.truth"].map(path);
        let [record, truth] = [record.to_str().unwrap(), truth.to_str().unwrap()];
        let args = format!("sim {options} --scale 5s -q -o {record} --truth {truth}");
        finish(isotherm(&args.split(' ').collect::<Vec<_>>()).spawn().unwrap());
        let args = ["score", record, truth, "--json", "--from", "3s"];
        let output = finish(isotherm(&args).spawn().unwrap());
        let score: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
        let spans = score["pages"]["spans"].as_array().unwrap();
        let within = |span_us: u64, key: &str| {
            let span = spans.iter().find(|s| s["span_us"] == span_us).unwrap();
            span[key].as_f64().unwrap() / 1_048_576.0
        };
        let truly = within(100_000, "true_bytes");
        assert!((truly / mib - 1.0).abs() < 0.05, "{options}: {truly} of {mib}");
        let [truly, estimated] =
            ["true_bytes", "estimated_bytes"].map(|key| within(agrees_us, key));
        assert!((estimated / truly - 1.0).abs() < 0.15, "{options}: {estimated} of {truly}");
    }
}
