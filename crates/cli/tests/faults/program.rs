//! Runs the program, and ends every process that a test has started, even if the test fails.

use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use late::is_done;

#[path = "../common/late.rs"]
mod late;

pub(crate) const ISOTHERM: &str = env!("CARGO_BIN_EXE_isotherm");

/// A directory for one test.
pub(crate) fn scratch() -> tempfile::TempDir {
    tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap()
}

/// A command without terminal, colours or input, in `dir`.
pub(crate) fn command(program: impl AsRef<std::ffi::OsStr>, dir: &Path, args: &[&str]) -> Command {
    let mut command = Command::new(program);
    command.args(args).current_dir(dir).stdin(Stdio::null());
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    // No config file of whoever runs the tests.
    command.env("ISOTHERM_NO_CONFIG", "1");
    for name in ["NO_COLOR", "CLICOLOR_FORCE", "CLICOLOR", "COLUMNS", "COLORTERM"] {
        command.env_remove(name);
    }
    command
}

/// The output of the program, and its exit code.
#[derive(Debug)]
pub(crate) struct Said {
    pub(crate) code: Option<i32>,
    pub(crate) out: String,
    pub(crate) err: String,
}

impl Said {
    pub(crate) fn of(output: Output) -> Self {
        Self {
            code: output.status.code(),
            out: String::from_utf8_lossy(&output.stdout).into_owned(),
            err: String::from_utf8_lossy(&output.stderr).into_owned(),
        }
    }

    /// Fails unless the exit code is `code` and standard error holds all `parts`. In a guest of the
    /// lab, which is slow, that much of the time was not watched is no failure of a command, nor of
    /// one that ends as its child has (143: by SIGTERM).
    #[track_caller]
    pub(crate) fn expect(&self, code: i32, parts: &[&str]) -> &Self {
        let may_be_late = matches!(code, 0 | 143) && is_lab();
        if !(may_be_late && is_done(self.code, &self.err)) {
            assert_eq!(self.code, Some(code), "{self:#?}");
        }
        for part in parts {
            assert!(self.err.contains(part), "no `{part}` in {self:#?}");
        }
        // A user should never read a cause twice on a line, or a panic.
        assert!(!self.err.contains("panicked"), "{self:#?}");
        for line in self.err.lines() {
            assert!(line.matches("(os error").count() <= 1, "{line}");
        }
        self
    }

    /// Fails unless this is a report of a record that is whole. That windows were late is no
    /// damage: the machine may be busy, or slow.
    #[track_caller]
    pub(crate) fn expect_whole(&self) -> &Self {
        let is_late = |note: &str| {
            note.starts_with(|c: char| c.is_ascii_digit())
                && note.contains(" windows took at least twice as long as they should")
        };
        for note in self.expect(0, &[]).out.lines().filter_map(|line| line.strip_prefix("note: ")) {
            assert!(is_late(note), "a whole record: {}", self.out);
        }
        self
    }
}

/// Whether this machine is a guest of the lab, where everything is slow.
fn is_lab() -> bool {
    std::env::var("ISOTHERM_LAB").is_ok_and(|lab| lab == "1")
}

/// So many seconds, as an option takes them; five times as many in a guest of the lab.
pub(crate) fn seconds(usual: u32) -> String {
    format!("{}s", if is_lab() { usual * 5 } else { usual })
}

/// Runs `isotherm` with `args`, which are separated by spaces.
pub(crate) fn isotherm(dir: &Path, args: &str) -> Said {
    let args: Vec<&str> = args.split_whitespace().collect();
    Said::of(command(ISOTHERM, dir, &args).output().unwrap())
}

/// Runs a line of shell, in which `$ISOTHERM` is the program.
pub(crate) fn shell(dir: &Path, line: &str) -> Said {
    Said::of(command("sh", dir, &["-c", line]).env("ISOTHERM", ISOTHERM).output().unwrap())
}

/// A process that the test has started; it is killed and reaped at the end.
#[derive(Debug)]
pub(crate) struct Running(Option<Child>);

impl Running {
    pub(crate) fn start(mut command: Command) -> Self {
        Self(Some(command.spawn().unwrap()))
    }

    /// A process that sleeps.
    pub(crate) fn sleeper(dir: &Path) -> Self {
        Self::start(command("sleep", dir, &["300"]))
    }

    pub(crate) fn child(&mut self) -> &mut Child {
        self.0.as_mut().unwrap()
    }

    pub(crate) fn pid(&self) -> u32 {
        self.0.as_ref().unwrap().id()
    }

    /// Sends a signal by its name.
    pub(crate) fn signal(&self, name: &str) {
        let args = ["-s", name, &self.pid().to_string()];
        assert!(Command::new("kill").args(args).status().unwrap().success());
    }

    /// Waits for the end. What it says is read meanwhile, since a pipe holds 64 KiB only.
    #[track_caller]
    pub(crate) fn finish(mut self) -> Said {
        let child = self.child();
        let said = (read_all(child.stdout.take()), read_all(child.stderr.take()));
        let is_over = comes_true(|| self.child().try_wait().unwrap().is_some());
        let mut child = self.0.take().unwrap();
        if !is_over {
            child.kill().ok();
        }
        let status = child.wait().unwrap();
        let (stdout, stderr) = (said.0.join().unwrap(), said.1.join().unwrap());
        let said = Said::of(Output { status, stdout, stderr });
        assert!(is_over, "waited in vain for the process to end: {said:#?}");
        said
    }

    /// The one-letter state that the kernel shows.
    pub(crate) fn state(&self) -> char {
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", self.pid())).unwrap();
        stat.rsplit_once(") ").unwrap().1.chars().next().unwrap()
    }

    /// CPU time of all of its threads so far, in ns.
    pub(crate) fn cpu_ns(&self) -> u64 {
        let tasks = std::fs::read_dir(format!("/proc/{}/task", self.pid())).unwrap();
        let of = |task: std::fs::DirEntry| {
            let text = std::fs::read_to_string(task.path().join("schedstat")).unwrap_or_default();
            text.split(' ').next().and_then(|ns| ns.parse::<u64>().ok()).unwrap_or(0)
        };
        tasks.filter_map(Result::ok).map(of).sum()
    }

    /// Fails unless the process runs on undisturbed.
    #[track_caller]
    pub(crate) fn assert_untouched(&self) {
        assert!(matches!(self.state(), 'S' | 'R' | 'D'), "state {}", self.state());
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.pid())).unwrap();
        assert!(status.contains("TracerPid:\t0\n"), "{status}");
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        if let Some(mut child) = self.0.take() {
            child.kill().ok();
            match child.wait_with_output() {
                // If the wait fails, only the program's output can tell why.
                Ok(output) if std::thread::panicking() => eprintln!("{:#?}", Said::of(output)),
                _ => {}
            }
        }
    }
}

/// Reads a pipe to its end; one that there is not has nothing.
fn read_all(pipe: Option<impl Read + Send + 'static>) -> JoinHandle<Vec<u8>> {
    std::thread::spawn(move || {
        let mut text = Vec::new();
        if let Some(mut pipe) = pipe {
            pipe.read_to_end(&mut text).unwrap();
        }
        text
    })
}

/// Waits for a condition that must become true. The limit only ends a test that hangs.
#[track_caller]
pub(crate) fn wait_until(what: &str, done: impl FnMut() -> bool) {
    assert!(comes_true(done), "waited in vain for {what}");
}

/// Whether a condition becomes true before the limit.
fn comes_true(mut done: impl FnMut() -> bool) -> bool {
    let deadline = Instant::now() + Duration::from_secs(120);
    while !done() {
        if Instant::now() >= deadline {
            return false;
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    true
}

/// Number of snapshots that can be read from a record by now; 0 if there is nothing.
pub(crate) fn snapshots(dir: &Path, record: &str) -> usize {
    isotherm(dir, &format!("report regions --json {record}")).out.lines().count()
}

/// A place that any user can reach, with the program in it; for runs without privileges.
#[derive(Debug)]
pub(crate) struct Public {
    pub(crate) dir: tempfile::TempDir,
    pub(crate) program: PathBuf,
}

impl Public {
    pub(crate) fn new() -> Self {
        use std::os::unix::fs::PermissionsExt;
        let dir = tempfile::tempdir().unwrap();
        let open = |path: &Path| {
            std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o777)).unwrap();
        };
        open(dir.path());
        let program = dir.path().join("isotherm");
        // Another process copies the program. Otherwise a test that forks at the same time would
        // inherit a file that is open for writing, and such a file cannot be run ("text file
        // busy").
        let to = program.to_str().unwrap();
        Said::of(command("cp", dir.path(), &[ISOTHERM, to]).output().unwrap()).expect(0, &[]);
        open(&program);
        Self { dir, program }
    }

    /// Runs the program as user nobody if the test runs as root, otherwise as the present user.
    pub(crate) fn isotherm(&self, args: &str) -> Said {
        let program = self.program.to_str().unwrap();
        let root = command("id", self.dir.path(), &["-u"]).output().unwrap().stdout == b"0\n";
        let nobody = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"];
        let mut words: Vec<&str> = if root { nobody.into() } else { vec!["env"] };
        words.push(program);
        words.extend(args.split_whitespace());
        Said::of(command(words[0], self.dir.path(), &words[1..]).output().unwrap())
    }
}
