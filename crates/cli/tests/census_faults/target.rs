//! Builds and runs `target.c`: a process that does odd things to its memory.

use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::OnceLock;

use isotherm::raw::core::AddrRange;

/// Where its arena begins.
pub(crate) const ARENA: u64 = 0x2000_0000_0000;
/// Where its other memory is: many mappings, or one that is sparse.
pub(crate) const WIDE: u64 = 0x3000_0000_0000;
pub(crate) const MIB: u64 = 1 << 20;

/// A running one, killed when dropped.
#[derive(Debug)]
pub(crate) struct Target {
    child: Child,
    to: ChildStdin,
    from: BufReader<ChildStdout>,
}

/// The program, or why there is none, printed.
fn program() -> Option<&'static Path> {
    static PROGRAM: OnceLock<Option<tempfile::TempPath>> = OnceLock::new();
    let build = || {
        let source = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/census_faults/target.c");
        let path = tempfile::NamedTempFile::new().unwrap().into_temp_path();
        let mut cc = Command::new("cc");
        cc.args(["-O1", "-Wall", "-pthread", "-o"]).arg(&path).arg(source);
        match cc.status() {
            Ok(status) => assert!(status.success(), "target.c does not build"),
            Err(e) => {
                eprintln!("skipped: no C compiler: {e}");
                return None;
            }
        }
        Some(path)
    };
    PROGRAM.get_or_init(build).as_deref()
}

impl Target {
    /// Starts one with an arena of so many bytes, none of which is touched. `None` where there is
    /// no compiler.
    pub(crate) fn start(arena: u64) -> Option<Self> {
        Self::start_after(arena, |_| {})
    }

    /// The same, and does something with its pid before it has its arena.
    pub(crate) fn start_after(arena: u64, first: impl FnOnce(u32)) -> Option<Self> {
        let mut command = Command::new(program()?);
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let to = child.stdin.take().unwrap();
        let from = BufReader::new(child.stdout.take().unwrap());
        let mut target = Self { child, to, from };
        assert_eq!(target.hear(), "ready");
        first(target.pid());
        target.tell("arena", arena, 0);
        Some(target)
    }

    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Tells it to do something, and that it worked.
    #[track_caller]
    pub(crate) fn tell(&mut self, word: &str, a: u64, b: u64) {
        assert_eq!(self.ask(word, a, b), "ready", "{word}");
    }

    /// Tells it to do something; what it answers.
    pub(crate) fn ask(&mut self, word: &str, a: u64, b: u64) -> String {
        writeln!(self.to, "{word} {a} {b}").unwrap();
        self.hear()
    }

    /// Touches these bytes of its arena from now on, all the time, and no others.
    pub(crate) fn heat(&mut self, offset: u64, len: u64) -> AddrRange {
        self.tell("hot", offset, len);
        AddrRange::new(ARENA + offset, ARENA + offset + len)
    }

    pub(crate) fn signal(&self, name: &str) {
        let args = ["-s", name, &self.pid().to_string()];
        assert!(Command::new("kill").args(args).status().unwrap().success());
    }

    fn hear(&mut self) -> String {
        let mut line = String::new();
        assert!(self.from.read_line(&mut line).unwrap() > 0, "the target has ended");
        line.trim_end().to_owned()
    }
}

impl Drop for Target {
    fn drop(&mut self) {
        self.child.kill().ok();
        self.child.wait().ok();
    }
}
