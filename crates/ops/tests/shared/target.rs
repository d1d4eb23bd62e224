//! A process that does what it is told: this test binary, started again.

use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use isotherm_sys::workload::{Arena, HugePages, Sweep, Touch, Treatment};

/// Where a target's memory begins.
pub(crate) const ARENA: u64 = 0x2000_0000_0000;
/// Its length at most.
const CAPACITY: u64 = 1 << 31;
/// Set in a target, unset in a test run.
const VARIABLE: &str = "ISOTHERM_TEST_TARGET";

/// A running target, killed when dropped.
#[derive(Debug)]
pub(crate) struct Target {
    child: Child,
    to: ChildStdin,
    from: BufReader<ChildStdout>,
}

impl Target {
    /// Starts one, without memory of its own.
    pub(crate) fn spawn() -> Self {
        Self::spawn_from(&std::env::current_exe().unwrap())
    }

    /// Starts one from a copy of this test binary.
    pub(crate) fn spawn_from(binary: &Path) -> Self {
        let mut child = Command::new(binary)
            .args(["--exact", "target::obey", "--nocapture", "--test-threads=1"])
            .env(VARIABLE, "1")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let to = child.stdin.take().unwrap();
        let from = BufReader::new(child.stdout.take().unwrap());
        let mut target = Self { child, to, from };
        target.hear();
        target
    }

    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Tells it something and waits until it is done; returns what it answers.
    pub(crate) fn say(&mut self, line: &str) -> String {
        writeln!(self.to, "{line}").unwrap();
        self.hear()
    }

    pub(crate) fn kill(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    /// A field of smaps (with its colon), in KiB, summed over the mappings of its arena.
    pub(crate) fn smaps(&self, field: &str) -> u64 {
        let text = std::fs::read_to_string(format!("/proc/{}/smaps", self.pid())).unwrap();
        let (mut inside, mut sum) = (false, 0);
        for line in text.lines() {
            if let Some((start, _)) = line.split_once('-').filter(|(s, _)| !s.contains(':')) {
                let start = u64::from_str_radix(start, 16).unwrap_or(0);
                inside = (ARENA..ARENA + CAPACITY).contains(&start);
            } else if let Some(rest) = line.strip_prefix(field).filter(|_| inside) {
                sum += rest.split_whitespace().next().unwrap().parse::<u64>().unwrap();
            }
        }
        sum
    }

    fn hear(&mut self) -> String {
        let mut line = String::new();
        while !line.trim_end().ends_with("@ready") {
            line.clear();
            assert!(self.from.read_line(&mut line).unwrap() > 0, "the target has ended");
        }
        line.trim_end().trim_end_matches("@ready").trim().to_owned()
    }
}

impl Drop for Target {
    fn drop(&mut self) {
        // It may have been killed by the test.
        self.child.kill().ok();
        self.child.wait().ok();
    }
}

/// Not a test of its own: the body of a target.
#[test]
fn obey() {
    if std::env::var_os(VARIABLE).is_none() {
        return;
    }
    let mut memory = (None, None);
    let ready = |answer: &str| {
        let mut out = std::io::stdout().lock();
        writeln!(out, "{answer} @ready").unwrap();
        out.flush().unwrap();
    };
    ready("");
    for line in std::io::stdin().lock().lines() {
        let line = line.unwrap();
        let words: Vec<&str> = line.split(' ').collect();
        ready(&act(&words, &mut memory));
    }
}

/// Each page of a filled arena begins with its own number.
const STAMP: u64 = 0x15_07_4e_72;

fn act(words: &[&str], (arena, other): &mut (Option<Arena>, Option<Arena>)) -> String {
    let number = |nr: usize| words[nr].parse::<u64>().unwrap();
    match words[0] {
        "map" => {
            let huge = match words[2] {
                "huge" => HugePages::Yes,
                "small" => HugePages::No,
                _ => HugePages::AsSet,
            };
            let mut new = Arena::new(ARENA, CAPACITY, huge);
            new.resize(number(1)).unwrap();
            for offset in (0..number(1)).step_by(4096) {
                new.fill(offset, &(STAMP + offset).to_ne_bytes());
            }
            *arena = Some(new);
        }
        // More memory behind a hole.
        "more" => {
            let mut new = Arena::new(ARENA + number(1), CAPACITY, HugePages::No);
            new.resize(number(2)).unwrap();
            new.populate(0);
            *other = Some(new);
        }
        "treat" => {
            let how = match words[3] {
                "lock" => Treatment::Lock,
                "nohuge" => Treatment::NoHugePages,
                _ => Treatment::HugePages,
            };
            arena.as_mut().unwrap().treat(number(1), number(2), how).unwrap();
        }
        // Counts pages whose content is not what was written.
        "wrong" => {
            let arena = arena.as_ref().unwrap();
            let wrong = |offset: &u64| {
                let is = arena.bytes::<8>(*offset).map(u64::from_ne_bytes);
                is != Some(STAMP + offset)
            };
            return (0..arena.range().len()).step_by(4096).filter(wrong).count().to_string();
        }
        "touch" => {
            let sweep = Sweep {
                start: number(1),
                touches: number(2),
                stride: words.get(3).map_or(4096, |stride| stride.parse().unwrap()),
                first: 0,
                n: number(2),
            };
            arena.as_ref().unwrap().touch_sweep(sweep, Touch::Read);
        }
        "keep" => arena.as_mut().unwrap().resize(number(1)).unwrap(),
        "lock" => rustix::mm::mlockall(rustix::mm::MlockAllFlags::CURRENT).unwrap(),
        // Touches one page for ever.
        "spin" => {
            let arena = arena.take().unwrap();
            let sweep = Sweep { start: number(1), touches: 1, stride: 1, first: 0, n: 1 << 20 };
            std::thread::spawn(move || {
                loop {
                    arena.touch_sweep(sweep, Touch::Read);
                }
            });
        }
        // Replaces its program by the same one, afresh.
        "exec" => {
            use std::os::unix::process::CommandExt;
            let error = Command::new(std::env::current_exe().unwrap())
                .args(std::env::args_os().skip(1))
                .exec();
            panic!("{error}");
        }
        other => panic!("a target cannot {other}"),
    }
    String::new()
}
