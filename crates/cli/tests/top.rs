//! `isotherm top` in a real terminal (tmux), as plain text, and over a record.
#![expect(clippy::unwrap_used, clippy::print_stderr, reason = "in a test")]

mod common;

use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

use common::{Guard, isotherm};

/// What is waited for takes well under this time, also on a busy machine.
const PATIENCE: Duration = Duration::from_secs(90);

/// A process of 48 MiB, of which a third is touched all the time.
fn workload(dir: &Path) -> Guard {
    let config = dir.join("top.cfg");
    let text = "m, 48M\n\nsteady\n600000\nm, 1, 64, 1, rw, length=16M, hz=50\n";
    std::fs::write(&config, text).unwrap();
    let mut command = isotherm();
    command.arg("workload").arg(&config).args(["-q", "--truth"]).arg(dir.join("truth"));
    Guard(command.stdout(Stdio::null()).spawn().unwrap())
}

/// A terminal of its own; it ends with the test.
struct Terminal {
    socket: String,
}

impl Terminal {
    /// A shell of 80 by 24, with `environment` set.
    fn open(name: &str, environment: &[(&str, &str)]) -> Self {
        let terminal = Self { socket: format!("isotherm-{name}-{}", std::process::id()) };
        let mut tmux = Command::new("tmux");
        tmux.args(["-f", "/dev/null", "-L", &terminal.socket]);
        tmux.args(["new-session", "-d", "-x", "80", "-y", "24"]);
        for (name, value) in environment {
            tmux.args(["-e", &format!("{name}={value}")]);
        }
        let opened = tmux.args(["env", "PS1=> ", "sh"]).output();
        let opened = opened.expect("tmux is needed for this test; ./ci/setup installs it");
        assert!(opened.status.success(), "{opened:?}");
        terminal
    }

    fn tmux(&self, args: &[&str]) -> Output {
        Command::new("tmux").args(["-L", &self.socket]).args(args).output().unwrap()
    }

    /// Types text as it is.
    fn type_in(&self, text: &str) {
        assert!(self.tmux(&["send-keys", "-l", text]).status.success());
    }

    /// Presses keys by name.
    fn press(&self, keys: &[&str]) {
        let args: Vec<&str> = ["send-keys"].iter().chain(keys).copied().collect();
        assert!(self.tmux(&args).status.success());
    }

    /// The screen; with escape sequences of colours if `colored`.
    fn screen(&self, colored: bool) -> String {
        let args: &[&str] =
            if colored { &["capture-pane", "-p", "-e"] } else { &["capture-pane", "-p"] };
        String::from_utf8_lossy(&self.tmux(args).stdout).into_owned()
    }

    /// Waits until the screen is as wanted.
    fn wait(&self, what: &str, is_it: impl Fn(&str) -> bool) -> String {
        let begin = Instant::now();
        loop {
            let screen = self.screen(false);
            if is_it(&screen) {
                return screen;
            }
            assert!(begin.elapsed() < PATIENCE, "{what}: this does not come:\n{screen}");
            std::thread::sleep(Duration::from_millis(50));
        }
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        let _ended = self.tmux(&["kill-server"]);
    }
}

/// Whether a captured screen sets a foreground colour other than the terminal's own.
fn is_coloured(screen: &str) -> bool {
    let codes = screen.split("\x1b[").skip(1).filter_map(|rest| rest.split_once('m'));
    let mut codes = codes.flat_map(|(codes, _)| codes.split(';'));
    codes.any(|code| matches!(code.parse(), Ok(30..=38 | 90..=97)))
}

/// Whether single pages can be looked at here; says so if not.
fn sees_pages() -> bool {
    let output = isotherm().args(["doctor"]).output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    let works = said.lines().any(|line| line.contains("pagewalk") && line.contains("yes"));
    if !works {
        eprintln!("not tested here, the set pagewalk cannot be used: {said}");
    }
    works
}

#[test]
fn a_process_can_be_followed_in_a_terminal() {
    let dir = tempfile::tempdir().unwrap();
    let target = workload(dir.path());
    let pid = target.0.id().to_string();
    let terminal = Terminal::open("follow", &[("NO_COLOR", "1")]);
    let program = env!("CARGO_BIN_EXE_isotherm");
    terminal.type_in(&format!("{program} top -p {pid}; echo ended with $?"));
    terminal.press(&["Enter"]);
    terminal.wait("the row of the process", |s| s.contains("isotherm top") && s.contains(&pid));
    if sees_pages() {
        // RSS, and working sets over 1 s and 10 s.
        terminal.wait("a working set", |screen| {
            let row = screen.lines().find(|line| line.trim_start().starts_with(&pid));
            let fields: Vec<_> = row.into_iter().flat_map(str::split_whitespace).collect();
            fields.len() > 5 && fields[3].ends_with('M') && fields[4].ends_with('M')
        });
    }
    assert!(!is_coloured(&terminal.screen(true)), "no colours: {:?}", terminal.screen(true));

    terminal.press(&["Enter"]);
    terminal.wait("the open process", |s| {
        s.contains("HEAT") && s.contains("AGES") && s.contains("RECLAIM")
    });
    terminal.press(&["?"]);
    terminal.wait("the help", |s| s.contains("any key: back"));
    terminal.press(&["x", "Escape"]);
    terminal.wait("the table", |s| s.contains("NAME"));
    terminal.type_in("/nothing-has-this-name");
    terminal.wait("no rows", |s| s.contains("nothing matches the filter"));
    terminal.press(&["Escape"]);
    terminal.press(&["Space"]);
    terminal.wait("a frozen screen", |s| s.contains("FROZEN"));
    terminal.press(&["q"]);
    let left = terminal.wait("the shell", |s| s.contains("ended with 0"));
    assert!(!left.contains("isotherm top  "), "the screen is given back: {left}");
}

#[test]
fn colours_are_used_where_they_are_wanted_and_the_terminal_may_shrink() {
    let dir = tempfile::tempdir().unwrap();
    let target = workload(dir.path());
    let terminal = Terminal::open("colours", &[]);
    let program = env!("CARGO_BIN_EXE_isotherm");
    terminal.type_in(&format!("{program} top -p {}; echo ended with $?", target.0.id()));
    terminal.press(&["Enter"]);
    terminal.wait("the view", |s| s.contains("isotherm top  "));
    let begin = Instant::now();
    while !is_coloured(&terminal.screen(true)) && begin.elapsed() < PATIENCE {
        std::thread::sleep(Duration::from_millis(50));
    }
    assert!(is_coloured(&terminal.screen(true)), "{:?}", terminal.screen(true));
    terminal.tmux(&["resize-window", "-x", "40", "-y", "10"]);
    terminal.wait("the smaller view", |s| s.lines().count() <= 10 && s.contains("isotherm top"));
    terminal.press(&["C-c"]);
    terminal.wait("the shell", |s| s.contains("ended with 0"));
}

#[test]
fn a_signal_ends_it_and_gives_the_terminal_back() {
    let dir = tempfile::tempdir().unwrap();
    let target = workload(dir.path());
    let terminal = Terminal::open("signal", &[]);
    let program = env!("CARGO_BIN_EXE_isotherm");
    let pidfile = dir.path().join("pid");
    let line = format!(
        "sh -c 'echo $$ > {}; exec {program} top -p {}'; echo ended with $?",
        pidfile.display(),
        target.0.id()
    );
    terminal.type_in(&line);
    terminal.press(&["Enter"]);
    terminal.wait("the view", |s| s.contains("isotherm top  "));
    let pid = std::fs::read_to_string(&pidfile).unwrap();
    assert!(Command::new("kill").arg(pid.trim()).status().unwrap().success());
    terminal.wait("the shell", |s| s.contains("ended with") && !s.contains("isotherm top  "));
}

#[test]
fn a_terminal_that_goes_takes_the_view_with_it() {
    let dir = tempfile::tempdir().unwrap();
    let target = workload(dir.path());
    let terminal = Terminal::open("gone", &[]);
    let pidfile = dir.path().join("pid");
    // It may not be ended by a hangup signal: the terminal alone has to tell.
    let line = format!(
        "sh -c 'trap \"\" HUP; echo $$ > {}; exec {} top -p {}'",
        pidfile.display(),
        env!("CARGO_BIN_EXE_isotherm"),
        target.0.id()
    );
    terminal.type_in(&line);
    terminal.press(&["Enter"]);
    terminal.wait("the view", |s| s.contains("isotherm top  "));
    let pid = std::fs::read_to_string(&pidfile).unwrap();
    drop(terminal);
    let begin = Instant::now();
    while Path::new("/proc").join(pid.trim()).exists() {
        assert!(begin.elapsed() < PATIENCE, "{} goes on without a terminal", pid.trim());
        std::thread::sleep(Duration::from_millis(50));
    }
}

#[test]
fn plain_text_has_a_row_per_process_and_as_many_tables_as_asked_for() {
    let dir = tempfile::tempdir().unwrap();
    let target = workload(dir.path());
    let pid = target.0.id().to_string();
    let args = ["top", "--batch", "-n", "3", "-d", "1s", "-p", &pid];
    let output = isotherm().args(args).output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    assert_eq!(text.matches("isotherm top  1 process").count(), 3, "{text}");
    let is_row = |line: &&str| line.trim_start().starts_with(&pid);
    assert_eq!(text.lines().filter(is_row).count(), 3, "{text}");
    assert!(!text.contains('\x1b'), "{text}");
    assert!(text.contains("budget 1.00 %"), "{text}");
}

#[test]
fn what_cannot_be_shown_is_refused_in_words() {
    for (args, code, words) in [
        (&["top", "--batch", "-p", "4194304"][..], 5, "no process has this pid"),
        (&["top"], 2, "--batch"),
        (&["top", "--batch", "-d", "5"], 2, "did you mean 5s or 5ms?"),
        (&["top", "--batch", "--sort", "heat"], 2, "unresolved, age"),
        (&["top", "--batch", "-i", "/nonexistent/record"], 2, "cannot open the record"),
        (&["top", "-n", "3"], 2, "--batch"),
    ] {
        let output = isotherm().args(args).stdin(Stdio::null()).output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(code), "{args:?}: {said}");
        assert!(said.contains(words), "{args:?}: {said}");
    }
}

#[test]
fn a_record_is_shown_at_any_time() {
    let dir = tempfile::tempdir().unwrap();
    let record = dir.path().join("record").to_str().unwrap().to_owned();
    let made = isotherm()
        .args(["sim", "phase-change", "--duration", "30s", "--method", "census", "-o", &record])
        .output()
        .unwrap();
    assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
    let output =
        isotherm().args(["top", "-b", "-i", &record, "--at", "10s"]).args(["-n", "1"]).output();
    let text = String::from_utf8(output.unwrap().stdout).unwrap();
    assert!(text.contains("at 0:10.0 of 0:30"), "{text}");

    let terminal = Terminal::open("record", &[]);
    let program = env!("CARGO_BIN_EXE_isotherm");
    terminal.type_in(&format!("{program} top -i {record}; echo ended with $?"));
    terminal.press(&["Enter"]);
    terminal.wait("time goes on", |s| s.contains("at 0:02"));
    terminal.press(&["Space"]);
    terminal.wait("time stands", |s| s.contains("stopped"));
    terminal.type_in("t20s");
    terminal.press(&["Enter"]);
    terminal.wait("a time", |s| s.contains("at 0:20.0 of"));
    terminal.press(&["Left", "Left"]);
    terminal.wait("back", |s| s.contains("at 0:18.0 of"));
    terminal.press(&["Enter"]);
    terminal.wait("heat with a past", |s| s.contains("HEAT, 18s to now") && s.contains("MAPPINGS"));
    terminal.press(&["q"]);
    terminal.wait("the shell", |s| s.contains("ended with 0"));
}
