//! A process that does what it is told: this test binary, started again.

use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use isotherm_linux::workload::{Arena, HugePages, Sweep, Touch};

/// Where a target's memory begins.
pub(crate) const ARENA: u64 = 0x2000_0000_0000;
/// Its length at most.
const CAPACITY: u64 = 1 << 30;
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
        let mut child = Command::new(std::env::current_exe().unwrap())
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

    /// Tells it something and waits until it is done.
    pub(crate) fn say(&mut self, line: &str) {
        writeln!(self.to, "{line}").unwrap();
        self.hear();
    }

    /// Replaces its program by the same one, afresh.
    pub(crate) fn exec(&mut self) {
        self.say("exec");
    }

    pub(crate) fn kill(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    /// A field of smaps, in KiB, summed over the mappings of its arena.
    pub(crate) fn smaps(&self, field: &str) -> u64 {
        let text = std::fs::read_to_string(format!("/proc/{}/smaps", self.pid())).unwrap();
        let (mut inside, mut sum) = (false, 0);
        for line in text.lines() {
            if let Some((start, _)) = line.split_once('-').filter(|(s, _)| !s.contains(':')) {
                let start = u64::from_str_radix(start, 16).unwrap_or(0);
                inside = (ARENA..ARENA + CAPACITY).contains(&start);
            } else if let Some(rest) = line.strip_prefix(field).filter(|_| inside) {
                sum += rest.split_whitespace().nth(1).unwrap().parse::<u64>().unwrap();
            }
        }
        sum
    }

    fn hear(&mut self) {
        let mut line = String::new();
        while !line.trim_end().ends_with("@ready") {
            line.clear();
            assert!(self.from.read_line(&mut line).unwrap() > 0, "the target has ended");
        }
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
    let mut arena = None;
    let ready = || {
        let mut out = std::io::stdout().lock();
        writeln!(out, "@ready").unwrap();
        out.flush().unwrap();
    };
    ready();
    for line in std::io::stdin().lock().lines() {
        let line = line.unwrap();
        let words: Vec<&str> = line.split(' ').collect();
        act(&words, &mut arena);
        ready();
    }
}

fn act(words: &[&str], arena: &mut Option<Arena>) {
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
            new.populate(0);
            *arena = Some(new);
        }
        "touch" => {
            let sweep = Sweep {
                start: number(1),
                touches: number(2),
                stride: number(3),
                first: 0,
                n: number(2),
            };
            arena.as_ref().unwrap().touch_sweep(sweep, Touch::Read);
        }
        "keep" => arena.as_mut().unwrap().resize(number(1)).unwrap(),
        "lock" => rustix::mm::mlockall(rustix::mm::MlockAllFlags::CURRENT).unwrap(),
        "spin" => {
            let arena = arena.take().unwrap();
            let sweep = Sweep { start: number(1), touches: 1, stride: 1, first: 0, n: 1 << 20 };
            std::thread::spawn(move || {
                loop {
                    arena.touch_sweep(sweep, Touch::Read);
                }
            });
        }
        "exec" => {
            use std::os::unix::process::CommandExt;
            let error = Command::new(std::env::current_exe().unwrap())
                .args(std::env::args_os().skip(1))
                .exec();
            panic!("{error}");
        }
        other => panic!("a target cannot {other}"),
    }
}
