//! Builds and runs `odd.c`: a target with memory of every kind.

use std::io::{BufRead, BufReader, Write};
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::OnceLock;

use isotherm_core::AddrRange;

/// A running one, killed when dropped.
#[derive(Debug)]
pub(crate) struct Odd {
    child: Child,
    to: ChildStdin,
    from: BufReader<ChildStdout>,
}

/// The program, or why there is none, printed.
fn program() -> Option<&'static Path> {
    static PROGRAM: OnceLock<Option<tempfile::TempPath>> = OnceLock::new();
    let build = || {
        let source = concat!(env!("CARGO_MANIFEST_DIR"), "/../ops/tests/shared/odd.c");
        let path = tempfile::NamedTempFile::new().unwrap().into_temp_path();
        match Command::new("cc")
            .args(["-O1", "-Wall", "-pthread", "-o"])
            .arg(&path)
            .arg(source)
            .status()
        {
            Ok(status) => assert!(status.success(), "odd.c does not build"),
            Err(e) => {
                eprintln!("skipped: no C compiler: {e}");
                return None;
            }
        }
        Some(path)
    };
    PROGRAM.get_or_init(build).as_deref()
}

impl Odd {
    pub(crate) fn start() -> Option<Self> {
        let mut command = Command::new(program()?);
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let to = child.stdin.take().unwrap();
        let from = BufReader::new(child.stdout.take().unwrap());
        let mut odd = Self { child, to, from };
        assert_eq!(odd.hear(), "");
        Some(odd)
    }

    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Tells it to do something to a range, and that it worked.
    pub(crate) fn tell(&mut self, word: &str, range: AddrRange, rest: &str) {
        assert_eq!(self.ask(word, range, rest), "", "{word} {range:?}");
    }

    pub(crate) fn ask(&mut self, word: &str, range: AddrRange, rest: &str) -> String {
        writeln!(self.to, "{word} {:x} {:x} {rest}", range.start, range.len()).unwrap();
        self.hear()
    }

    /// How many pages do not hold what was filled in.
    pub(crate) fn wrong(&mut self, range: AddrRange) -> u64 {
        self.ask("wrong", range, "").parse().unwrap()
    }

    pub(crate) fn kill(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    /// A field of smaps (with its colon), in bytes, summed over the mappings in `range`.
    pub(crate) fn smaps(&self, range: AddrRange, field: &str) -> u64 {
        let text = std::fs::read_to_string(format!("/proc/{}/smaps", self.pid())).unwrap();
        let (mut inside, mut sum) = (false, 0);
        for line in text.lines() {
            if let Some((start, _)) = line.split_once('-').filter(|(s, _)| !s.contains(':')) {
                inside = u64::from_str_radix(start, 16).is_ok_and(|at| range.contains(at));
            } else if let Some(rest) = line.strip_prefix(field).filter(|_| inside) {
                sum += rest.split_whitespace().next().unwrap().parse::<u64>().unwrap() << 10;
            }
        }
        sum
    }

    /// How many pages are in swap.
    pub(crate) fn swapped_pages(&self, range: AddrRange) -> usize {
        let file = std::fs::File::open(format!("/proc/{}/pagemap", self.pid())).unwrap();
        let mut entries = vec![0; usize::try_from(range.len() / 4096 * 8).unwrap()];
        file.read_exact_at(&mut entries, range.start / 4096 * 8).unwrap();
        entries.as_chunks::<8>().0.iter().filter(|e| e[7] & 0x40 != 0).count()
    }

    fn hear(&mut self) -> String {
        let mut line = String::new();
        assert!(self.from.read_line(&mut line).unwrap() > 0, "the target has ended");
        line.trim_end().trim_end_matches("@ready").trim().to_owned()
    }
}

impl Drop for Odd {
    fn drop(&mut self) {
        // It may have been killed by the test.
        self.child.kill().ok();
        self.child.wait().ok();
    }
}
