//! A workload whose hot and cold memory is known page by page, swap, and a run of Isotherm that a
//! test can follow.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{BufRead, BufReader, Lines, Read, Write};
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use serde_json::Value;

/// Bytes.
pub(crate) const MIB: u64 = 1 << 20;
const PAGE: u64 = 4096;
const ROLE: &str = "ISOTHERM_MARKS_WORKLOAD";
const THP: &str = "/sys/kernel/mm/transparent_hugepage/enabled";

/// What a test needs from the machine. Tests run one after the other, because there is only one
/// bitmap.
pub(crate) struct Lab {
    swap: Option<PathBuf>,
    _alone: MutexGuard<'static, ()>,
}

static ALONE: Mutex<()> = Mutex::new(());

/// A guest of the lab with idle page tracking and swap. Elsewhere `None`, after printing the
/// reason.
pub(crate) fn lab() -> Option<Lab> {
    if std::env::var("ISOTHERM_LAB").as_deref() != Ok("1") {
        eprintln!("skipped: ISOTHERM_LAB=1 is not set");
        return None;
    }
    if !Path::new("/sys/kernel/mm/page_idle/bitmap").exists() {
        eprintln!("skipped: this kernel has no idle page tracking");
        return None;
    }
    let alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    let device = PathBuf::from("/dev/zram0");
    let is_on = || std::fs::read_to_string("/proc/swaps").unwrap().contains("zram0");
    let ours = !is_on();
    if ours {
        std::fs::write("/sys/block/zram0/disksize", "1G").unwrap();
        for command in ["mkswap", "swapon"] {
            let status = Command::new(command).arg(&device).stdout(Stdio::null()).status().unwrap();
            assert!(status.success(), "{command}");
        }
    }
    Some(Lab { swap: ours.then_some(device), _alone: alone })
}

impl Drop for Lab {
    fn drop(&mut self) {
        if let Some(device) = &self.swap {
            // What was paged out comes back, so this may take a while.
            let _off = Command::new("swapoff").arg(device).status();
            let _reset = std::fs::write("/sys/block/zram0/reset", "1");
        }
    }
}

/// What `pagemap` says of a part, in pages.
#[derive(Debug, Default, Clone, Copy)]
pub(crate) struct Pages {
    pub(crate) present: u64,
    pub(crate) swapped: u64,
    /// Aligned pieces of 2 MiB whose frames are contiguous.
    pub(crate) huge: u64,
}

/// A process with a hot and a cold part.
pub(crate) struct Workload {
    child: Child,
    stdin: ChildStdin,
    /// Kept open, because the test harness in the child prints a message when it runs for long.
    _said: Lines<BufReader<ChildStdout>>,
    cold: Range<u64>,
    hot: Range<u64>,
}

impl Workload {
    /// Starts a process with this many MiB of each part. All of it was touched when this returns.
    pub(crate) fn start(cold_mib: u64, hot_mib: u64, huge: bool) -> Self {
        Self::start_in(Path::new("/sys/fs/cgroup"), cold_mib, hot_mib, huge)
    }

    /// The same in a cgroup, to which its memory is charged.
    pub(crate) fn start_in(cgroup: &Path, cold_mib: u64, hot_mib: u64, huge: bool) -> Self {
        let thp = std::fs::read_to_string(THP).unwrap();
        let before = thp.split(['[', ']']).nth(1).unwrap().to_owned();
        std::fs::write(THP, if huge { "always" } else { "never" }).unwrap();
        let mut child = Command::new("sh")
            .args(["-c", "echo $$ >\"$0\" && exec \"$@\""])
            .arg(cgroup.join("cgroup.procs"))
            .arg(std::env::current_exe().unwrap())
            .args(["--exact", "workload", "--nocapture"])
            .env(ROLE, format!("{cold_mib} {hot_mib}"))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let (stdin, stdout) = (child.stdin.take().unwrap(), child.stdout.take().unwrap());
        let mut lines = BufReader::new(stdout).lines();
        let parts =
            |l: std::io::Result<String>| Some(l.unwrap().split_once("parts ")?.1.to_owned());
        let line = lines.find_map(parts).unwrap();
        std::fs::write(THP, before).unwrap();
        let n: Vec<u64> = line.split_whitespace().map(|n| n.parse().unwrap()).collect();
        Self { child, stdin, _said: lines, cold: n[0]..n[1], hot: n[2]..n[3] }
    }

    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Touches the cold part, once.
    pub(crate) fn touch_cold(&mut self) {
        self.stdin.write_all(b"c").unwrap();
    }

    pub(crate) fn cold(&self) -> Pages {
        self.pages(&self.cold)
    }

    pub(crate) fn hot(&self) -> Pages {
        self.pages(&self.hot)
    }

    fn entries(&self, part: &Range<u64>) -> Vec<u64> {
        let pagemap = File::open(format!("/proc/{}/pagemap", self.child.id())).unwrap();
        let mut bytes = vec![0; usize::try_from((part.end - part.start) / PAGE * 8).unwrap()];
        pagemap.read_exact_at(&mut bytes, part.start / PAGE * 8).unwrap();
        bytes.as_chunks().0.iter().map(|b| u64::from_ne_bytes(*b)).collect()
    }

    fn pages(&self, part: &Range<u64>) -> Pages {
        let entries = self.entries(part);
        let count = |bit: u32| entries.iter().filter(|e| **e >> bit & 1 == 1).count() as u64;
        let frame = |e: u64| e & ((1 << 55) - 1);
        let skip = usize::try_from((512 - part.start / PAGE % 512) % 512).unwrap();
        let huge = entries.get(skip..).unwrap_or_default().chunks_exact(512).filter(|chunk| {
            let first = frame(chunk[0]);
            first != 0
                && first % 512 == 0
                && chunk.windows(2).all(|two| frame(two[1]) == frame(two[0]) + 1)
        });
        Pages { present: count(63), swapped: count(62), huge: huge.count() as u64 }
    }

    pub(crate) fn cold_on_node(&self, node: u32) -> u64 {
        self.on_node(&self.cold, node)
    }

    pub(crate) fn hot_on_node(&self, node: u32) -> u64 {
        self.on_node(&self.hot, node)
    }

    /// Pages of a part that are on a node, by the frames that `/proc/zoneinfo` says it spans.
    fn on_node(&self, part: &Range<u64>, node: u32) -> u64 {
        let text = std::fs::read_to_string("/proc/zoneinfo").unwrap();
        let (mut here, mut spanned, mut frames) = (false, 0, Vec::new());
        for line in text.lines() {
            let word: Vec<&str> = line.split_whitespace().collect();
            match word.as_slice() {
                ["Node", nr, "zone", ..] => here = nr.trim_end_matches(',') == node.to_string(),
                ["spanned", nr] => spanned = nr.parse().unwrap(),
                ["start_pfn:", first] if here => {
                    let first: u64 = first.parse().unwrap();
                    frames.push(first..first + spanned);
                }
                _ => {}
            }
        }
        let entries = self.entries(part);
        let is_there = |e: &&u64| {
            **e >> 63 == 1 && frames.iter().any(|f| f.contains(&(**e & ((1 << 55) - 1))))
        };
        entries.iter().filter(is_there).count() as u64
    }
}

impl Drop for Workload {
    fn drop(&mut self) {
        let _gone = self.child.kill();
        let _status = self.child.wait();
    }
}

/// The workload itself, in a separate process. It touches each hot page ten times per second.
pub(crate) fn be_workload() {
    let Ok(sizes) = std::env::var(ROLE) else { return };
    let mib: Vec<u64> = sizes.split_whitespace().map(|n| n.parse().unwrap()).collect();
    let part = |mib: u64| vec![1_u8; usize::try_from(mib * MIB).unwrap()];
    let (mut cold, mut hot) = (part(mib[0]), part(mib[1]));
    // Whole pages only.
    let whole = |part: &[u8]| {
        let start = part.as_ptr().addr() as u64;
        (start.next_multiple_of(PAGE), (start + part.len() as u64) / PAGE * PAGE)
    };
    let (cold_at, hot_at) = (whole(&cold), whole(&hot));
    println!("parts {} {} {} {}", cold_at.0, cold_at.1, hot_at.0, hot_at.1);
    std::io::stdout().flush().unwrap();
    let (sender, orders) = std::sync::mpsc::channel();
    std::thread::spawn(move || {
        let mut byte = [0];
        while matches!(std::io::stdin().read(&mut byte), Ok(1)) && sender.send(()).is_ok() {}
        // The test has ended.
        std::process::exit(0);
    });
    let touch =
        |part: &mut [u8]| part.iter_mut().step_by(4096).for_each(|b| *b = b.wrapping_add(1));
    loop {
        touch(&mut hot);
        std::hint::black_box(&hot);
        if orders.try_recv().is_ok() {
            touch(&mut cold);
            std::hint::black_box(&cold);
        }
        std::thread::sleep(Duration::from_millis(100));
    }
}

/// A separate cgroup, which is removed when this is dropped.
pub(crate) struct Group(pub(crate) PathBuf);

impl Group {
    pub(crate) fn new(name: &str) -> Self {
        let path = Path::new("/sys/fs/cgroup").join(name);
        std::fs::create_dir(&path).unwrap();
        Self(path)
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        for _ in 0..50 {
            if std::fs::remove_dir(&self.0).is_ok() {
                return;
            }
            std::thread::sleep(Duration::from_millis(20));
        }
    }
}

/// The multi-generational LRU is off until this is dropped, where there is one.
pub(crate) struct ClassicLru(Option<String>);

const LRU_GEN: &str = "/sys/kernel/mm/lru_gen/enabled";

impl ClassicLru {
    pub(crate) fn set() -> Self {
        let before = std::fs::read_to_string(LRU_GEN).ok();
        if before.is_some() {
            std::fs::write(LRU_GEN, "0").unwrap();
        }
        Self(before)
    }
}

impl Drop for ClassicLru {
    fn drop(&mut self) {
        if let Some(before) = &self.0 {
            let _back = std::fs::write(LRU_GEN, before.trim());
        }
    }
}

/// What the kernel counts of some kinds of memory, in MiB.
pub(crate) fn kernel_counts(group: &Path) -> BTreeMap<&'static str, u64> {
    let number = |text: &str, key: &str| -> u64 {
        let line = text.lines().find(|l| l.split([':', ' ']).next() == Some(key)).unwrap();
        line.split_whitespace().nth(1).unwrap().parse().unwrap()
    };
    let text = std::fs::read_to_string("/proc/meminfo").unwrap();
    let kib = |key: &str| number(&text, key);
    let charged = number(&std::fs::read_to_string(group.join("memory.stat")).unwrap(), "anon");
    let cache = kib("Cached") + kib("Buffers");
    BTreeMap::from([
        ("anon", kib("AnonPages") >> 10),
        ("file", cache >> 10),
        ("unmapped", (cache - kib("Mapped")) >> 10),
        ("active", kib("Active") >> 10),
        ("huge", kib("AnonHugePages") >> 10),
        ("group", charged >> 20),
    ])
}

impl Drop for Run {
    fn drop(&mut self) {
        // Has ended, unless a test failed.
        let _gone = self.child.kill();
        let _status = self.child.wait();
    }
}

/// Isotherm, running a policy.
pub(crate) struct Run {
    child: Child,
    dir: tempfile::TempDir,
    until: Instant,
}

impl Run {
    pub(crate) fn start(policy: &str, seconds: u32) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("p.toml");
        std::fs::write(&file, policy).unwrap();
        let child = Command::new(env!("CARGO_BIN_EXE_isotherm"))
            .args(["run", "--json", "--duration", &format!("{seconds}s"), "--events"])
            .arg(dir.path().join("events"))
            .arg(&file)
            .stdout(File::create(dir.path().join("out")).unwrap())
            .spawn()
            .unwrap();
        let until = Instant::now() + Duration::from_secs(u64::from(seconds));
        Self { child, dir, until }
    }

    /// Waits until a condition holds or the time is over. Returns whether it holds.
    pub(crate) fn until(&self, mut is_so: impl FnMut() -> bool) -> bool {
        while Instant::now() < self.until {
            if is_so() {
                return true;
            }
            std::thread::sleep(Duration::from_millis(500));
        }
        is_so()
    }

    /// Waits until a condition holds for the account of the scheme.
    pub(crate) fn until_account(&self, is_so: impl Fn(&Value) -> bool) -> bool {
        self.until_accounts(|schemes| is_so(&schemes[0]))
    }

    /// Waits until a condition holds for the accounts of its schemes.
    pub(crate) fn until_accounts(&self, is_so: impl Fn(&Value) -> bool) -> bool {
        self.until(|| {
            let text = std::fs::read_to_string(self.dir.path().join("events")).unwrap_or_default();
            let summary = text.lines().rev().find(|line| line.contains("\"summary\""));
            let summary = summary.and_then(|line| serde_json::from_str::<Value>(line).ok());
            summary.is_some_and(|s| is_so(&s["schemes"]))
        })
    }

    /// Ends it, and returns the account of its scheme.
    pub(crate) fn stop(self) -> Value {
        self.stop_all()[0].clone()
    }

    /// Ends it, and returns the accounts of its schemes.
    pub(crate) fn stop_all(self) -> Value {
        let pid = self.child.id().to_string();
        assert!(Command::new("kill").args(["-TERM", &pid]).status().unwrap().success());
        self.wait_all()
    }

    /// Waits for its end, and returns the account of its scheme.
    pub(crate) fn wait(self) -> Value {
        self.wait_all()[0].clone()
    }

    fn wait_all(mut self) -> Value {
        let status = self.child.wait().unwrap();
        let out = std::fs::read_to_string(self.dir.path().join("out")).unwrap();
        let last = out.lines().last().unwrap_or_default();
        let all: Value = serde_json::from_str(last).unwrap_or_else(|e| {
            panic!("{status}: {e}: {out}\n{}", self.events());
        });
        eprintln!("{}", self.story());
        eprintln!(
            "own CPU {} ms of {} ms",
            all["own_cpu_ns"].as_u64().unwrap() / 1_000_000,
            all["elapsed_ns"].as_u64().unwrap() / 1_000_000
        );
        for line in
            self.events().lines().filter(|l| l.contains("\"trouble\"") || l.contains("left_out"))
        {
            eprintln!("{line}");
        }
        all["schemes"].clone()
    }

    /// The state of its scheme over time, as text.
    pub(crate) fn story(&self) -> String {
        let keys = ["armed", "confirmed", "refuted", "asked", "done", "unreached"];
        let line = |line: &str| {
            let event: Value = serde_json::from_str(line).ok()?;
            let scheme = event["schemes"].get(0)?;
            let numbers = keys.map(|key| {
                format!("{key} {}", scheme[format!("{key}_bytes")].as_u64().unwrap_or(0) >> 20)
            });
            Some(format!("{} regions: {}\n", event["regions"], numbers.join(", ")))
        };
        let events = self.events();
        events.lines().filter(|l| l.contains("\"summary\"")).step_by(4).filter_map(line).collect()
    }

    fn events(&self) -> String {
        std::fs::read_to_string(self.dir.path().join("events")).unwrap_or_default()
    }
}
