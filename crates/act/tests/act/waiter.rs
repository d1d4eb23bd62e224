//! Builds and runs `waiter.c`: a target whose system calls are known exactly.

use std::io::Write;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::OnceLock;
use std::time::{Duration, Instant};

/// Where its 8 MiB of memory are.
pub(crate) const MEMORY: u64 = 0x2000_0000_0000;

/// A running waiter, killed when dropped.
#[derive(Debug)]
pub(crate) struct Waiter {
    pub(crate) child: Child,
    file: tempfile::NamedTempFile,
}

/// The program, or why there is none, printed.
fn program() -> Option<&'static Path> {
    static PROGRAM: OnceLock<Option<tempfile::TempPath>> = OnceLock::new();
    let build = || {
        let source = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/act/waiter.c");
        let path = tempfile::NamedTempFile::new().unwrap().into_temp_path();
        let built =
            Command::new("cc").args(["-O2", "-pthread", "-o"]).arg(&path).arg(source).status();
        match built {
            Ok(status) => assert!(status.success(), "waiter.c does not build"),
            Err(e) => {
                eprintln!("skipped: no C compiler: {e}");
                return None;
            }
        }
        Some(path)
    };
    PROGRAM.get_or_init(build).as_deref()
}

/// The program with arguments, to be run.
pub(crate) fn command(args: &[&str]) -> Option<Command> {
    let mut command = Command::new(program()?);
    command.args(args);
    Some(command)
}

impl Waiter {
    /// Starts one and waits until it is in its mode.
    pub(crate) fn start(mode: &str) -> Option<Self> {
        let file = tempfile::NamedTempFile::new().unwrap();
        file.as_file().set_len(4096).unwrap();
        let mut command = command(&[mode, file.path().to_str().unwrap()])?;
        let child = command.stdin(Stdio::piped()).spawn().unwrap();
        let mut waiter = Self { child, file };
        waiter.until("it is ready", |w| w.number(4) == 1);
        std::thread::sleep(Duration::from_millis(5));
        Some(waiter)
    }

    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    pub(crate) fn rounds(&self) -> u64 {
        self.number(0)
    }

    /// Number of errors, and the last one.
    pub(crate) fn errors(&self) -> (u64, u64) {
        (self.number(1), self.number(3))
    }

    pub(crate) fn signals(&self) -> u64 {
        self.number(2)
    }

    fn number(&self, nr: u64) -> u64 {
        let mut bytes = [0; 8];
        self.file.as_file().read_exact_at(&mut bytes, nr * 8).unwrap();
        u64::from_ne_bytes(bytes)
    }

    /// Writes a byte to its input.
    pub(crate) fn poke(&mut self) {
        self.child.stdin.as_mut().unwrap().write_all(b"x").unwrap();
    }

    pub(crate) fn until(&mut self, what: &str, mut is: impl FnMut(&mut Self) -> bool) {
        let begin = Instant::now();
        while !is(self) {
            assert!(begin.elapsed() < Duration::from_secs(120), "waited in vain until {what}");
            let ended = self.child.try_wait().unwrap();
            assert!(ended.is_none(), "it ended: {ended:?}");
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    /// The value of a field of its status file.
    pub(crate) fn status(&self, field: &str) -> String {
        let text = std::fs::read_to_string(format!("/proc/{}/status", self.pid())).unwrap();
        let line = text.lines().find(|l| l.starts_with(field)).unwrap();
        line.split_once(':').unwrap().1.trim().to_owned()
    }

    /// The flags of its memory's mapping that begins `offset` bytes in.
    pub(crate) fn flags(&self, offset: u64) -> Vec<String> {
        let text = std::fs::read_to_string(format!("/proc/{}/smaps", self.pid())).unwrap();
        let start = format!("{:x}-", MEMORY + offset);
        let mut lines = text.lines().skip_while(|line| !line.starts_with(&start));
        let flags = lines.find_map(|line| line.strip_prefix("VmFlags:")).unwrap_or_default();
        flags.split_whitespace().map(str::to_owned).collect()
    }
}

impl Drop for Waiter {
    fn drop(&mut self) {
        // It may have ended.
        self.child.kill().ok();
        self.child.wait().ok();
    }
}
