//! The commands of docs/tutorial-postgresql.md run, in their order, over a real server.
//!
//! `ISOTHERM_TUTORIAL_SECONDS` is how long each of its steps measures; 4 if it is not set.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use crate::has;
use crate::program::{ISOTHERM, isotherm, scratch};

/// The whole page takes about ten times as long as a step, and a few seconds.
const PATIENCE: Duration = Duration::from_secs(600);

/// The blocks of the page that are commands.
fn commands(page: &str) -> String {
    let mut is_command = false;
    let lines = page.lines().filter(|line| {
        let is_fence = line.starts_with("```");
        if is_fence {
            is_command = *line == "```sh";
        }
        is_command && !is_fence
    });
    lines.map(|line| format!("{line}\n")).collect()
}

/// The newest server that is installed, as Debian puts it.
fn server() -> Option<PathBuf> {
    let versions = std::fs::read_dir("/usr/lib/postgresql").ok()?;
    let programs = versions.map(|version| version.unwrap().path().join("bin"));
    programs.filter(|programs| programs.join("initdb").is_file()).max()
}

/// Stops the server and ends what the page has started, also when the test fails.
struct Running {
    shell: Child,
    dir: tempfile::TempDir,
}

impl Drop for Running {
    fn drop(&mut self) {
        let pid = std::fs::read_to_string(self.dir.path().join("pgdata/postmaster.pid"));
        if let Some(pid) = pid.ok().as_deref().and_then(|text| text.lines().next()) {
            // SIGQUIT: end at once. Its clients then end, too.
            let _sent = Command::new("kill").args(["-QUIT", pid]).status();
        }
        let _gone = self.shell.kill();
        let _status = self.shell.wait();
    }
}

#[test]
fn the_tutorial_runs() {
    let Some(programs) = server() else {
        eprintln!("not tested: PostgreSQL is not installed");
        return;
    };
    if !["bash", "runuser", "pgbench"].into_iter().all(has) {
        return;
    }
    let doctor = isotherm(scratch().path(), "doctor --json");
    let doctor: serde_json::Value = serde_json::from_str(&doctor.out).unwrap();
    if doctor["best"] != "pagewalk" {
        eprintln!(
            "not tested: the set pagewalk cannot be used here: {}",
            doctor["sets"][0]["reason"]
        );
        return;
    }
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/tutorial-postgresql.md");
    let page = std::fs::read_to_string(page).unwrap();
    let commands = commands(&page);
    assert!(commands.matches("\nisotherm ").count() >= 5, "{commands}");
    // A socket's path may have 107 bytes, so it is not below the checkout.
    let dir = tempfile::tempdir().unwrap();
    let running = start(&programs, dir, &commands);
    let (code, said) = finish(running);
    assert_eq!(code, Some(0), "{said}");
    for part in ["touched within 100ms", "by kind", "  shared\n", "latency average", "a dry run"] {
        assert!(said.contains(part), "no `{part}` in {said}");
    }
    assert_eq!(said.matches("tps = ").count(), 2, "{said}");
}

fn start(programs: &Path, dir: tempfile::TempDir, commands: &str) -> Running {
    // PostgreSQL does not run as root.
    let is_root = rustix::process::geteuid().is_root();
    let user = if is_root { "runuser -u postgres --" } else { "" };
    if is_root {
        let owned = Command::new("chown").arg("postgres").arg(dir.path()).status().unwrap();
        assert!(owned.success(), "the package makes this user");
    }
    let bin = programs.display();
    // Exit code 6 means that a busy machine did not let the program see all, which is told.
    let script = format!(
        "set -eu -o pipefail\n\
         initdb() {{ {user} {bin}/initdb \"$@\"; }}\n\
         pg_ctl() {{ {user} {bin}/pg_ctl \"$@\"; }}\n\
         isotherm() {{ {ISOTHERM} \"$@\" || [ $? = 6 ]; }}\n{commands}"
    );
    let seconds = std::env::var("ISOTHERM_TUTORIAL_SECONDS").unwrap_or("4".to_owned());
    let said = std::fs::File::create(dir.path().join("said")).unwrap();
    let mut bash = Command::new("bash");
    bash.args(["-c", &script]).current_dir(dir.path()).stdin(Stdio::null());
    bash.stdout(said.try_clone().unwrap()).stderr(said);
    bash.env("T", seconds).env("ISOTHERM_NO_CONFIG", "1").env("NO_COLOR", "1");
    Running { shell: bash.spawn().unwrap(), dir }
}

/// Waits for the end. Returns the exit code, and what was said.
fn finish(mut running: Running) -> (Option<i32>, String) {
    let begin = Instant::now();
    let said = |running: &Running| {
        let said = std::fs::read(running.dir.path().join("said")).unwrap();
        String::from_utf8_lossy(&said).into_owned()
    };
    loop {
        if let Some(status) = running.shell.try_wait().unwrap() {
            return (status.code(), said(&running));
        }
        assert!(begin.elapsed() < PATIENCE, "the page does not end: {}", said(&running));
        std::thread::sleep(Duration::from_millis(50));
    }
}
