//! Numbers that a file has, or that a line of shell prints.

use std::fmt;
use std::io::{self, ErrorKind, Read};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use isotherm_host::counter::last_number;
use isotherm_host::error::Class;

const HINT: &str = "the program, or a loop beside it, has to write how much work it has done";
/// For how long a line of shell may run.
pub const PATIENCE: Duration = Duration::from_secs(10);
/// How often it is looked whether it has ended.
const PAUSE: Duration = Duration::from_millis(2);

/// Why a number cannot be told.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unread {
    /// The exit code that a program should end with.
    pub code: u8,
    /// What was tried, why that failed, and what to do; for people.
    pub text: String,
}

impl fmt::Display for Unread {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl std::error::Error for Unread {}

/// What counts a program's work.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Counter {
    /// The last number in a file.
    File(PathBuf),
    /// The last number that a line of shell prints.
    Command(String),
}

impl Counter {
    /// In words.
    #[must_use]
    pub fn told(&self) -> String {
        match self {
            Self::File(path) => format!("work counted in {}", path.display()),
            Self::Command(command) => format!("work counted by `{command}`"),
        }
    }

    /// The number that it shows now.
    ///
    /// # Errors
    ///
    /// If the file cannot be read or has no number, or as [`printed`].
    pub fn read(&self) -> Result<f64, Unread> {
        match self {
            Self::File(path) => {
                let shown = path.display();
                let text = std::fs::read_to_string(path).map_err(|err| Unread {
                    code: code_of(&err),
                    text: format!(
                        "cannot read {shown}\n  tried: read {shown}: {err}\n  hint:  {HINT}"
                    ),
                })?;
                let none = || refused(format!("no number in {shown}\n  hint:  {HINT}"));
                last_number(&text).ok_or_else(none)
            }
            Self::Command(command) => printed(command),
        }
    }
}

fn refused(text: String) -> Unread {
    Unread { code: Class::Usage.exit_code(), text }
}

fn code_of(err: &io::Error) -> u8 {
    match err.kind() {
        ErrorKind::NotFound | ErrorKind::IsADirectory | ErrorKind::NotADirectory => Class::Usage,
        ErrorKind::PermissionDenied => Class::Permission,
        _ => Class::Unexpected,
    }
    .exit_code()
}

/// The last number that a line of shell prints.
///
/// # Errors
///
/// If the shell cannot be started, the line fails, runs for longer than [`PATIENCE`], or prints no
/// number.
pub fn printed(line: &str) -> Result<f64, Unread> {
    let text = output(line, PATIENCE)?;
    last_number(&text).ok_or_else(|| refused(format!("`{line}` printed no number")))
}

/// What a line of shell prints, if it ends in time.
fn output(line: &str, patience: Duration) -> Result<String, Unread> {
    let io = |err: io::Error| Unread { code: code_of(&err), text: format!("sh: {err}") };
    let mut command = Command::new("sh");
    command.args(["-c", line]).stdin(Stdio::null()).stdout(Stdio::piped());
    let mut child = command.spawn().map_err(io)?;
    let mut out = child.stdout.take();
    // A pipe that is full would stop the command, so it is emptied meanwhile. What holds it open
    // after the shell has ended is not waited for.
    let (sender, text) = std::sync::mpsc::channel();
    let reader = std::thread::Builder::new().name("output of a command".to_owned());
    let started = reader.spawn(move || {
        let mut text = Vec::new();
        if let Some(out) = &mut out {
            out.read_to_end(&mut text).ok();
        }
        sender.send(text).ok();
    });
    if let Err(err) = started {
        end(&mut child);
        return Err(io(err));
    }
    let until = Instant::now() + patience;
    let status = loop {
        match child.try_wait().map_err(io)? {
            Some(status) => break status,
            None if Instant::now() < until => std::thread::sleep(PAUSE),
            None => {
                end(&mut child);
                return Err(refused(format!(
                    "`{line}` did not end within {} s\n  hint:  a command that prints a number at once",
                    patience.as_secs_f64()
                )));
            }
        }
    };
    if !status.success() {
        return Err(refused(format!("`{line}` failed: {status}")));
    }
    let left = until.saturating_duration_since(Instant::now()).max(PAUSE);
    Ok(String::from_utf8_lossy(&text.recv_timeout(left).unwrap_or_default()).into_owned())
}

/// Ends a command of ours.
fn end(child: &mut Child) {
    child.kill().ok();
    child.wait().ok();
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_that_fails_or_hangs_is_told() {
        assert_eq!(printed("echo 3; echo 4"), Ok(4.0));
        // More than a pipe holds.
        assert_eq!(printed("head -c 300000 /dev/zero | tr '\\0' x; echo ' 7'"), Ok(7.0));
        for (line, part) in [("exit 3", "failed"), ("echo none", "no number")] {
            let err = printed(line).unwrap_err();
            assert!(err.text.contains(part) && err.code == 2, "{err:?}");
        }
        let err = output("exec sleep 600", Duration::from_millis(50)).unwrap_err();
        assert!(err.text.contains("did not end within 0.05 s"), "{err:?}");
    }
}
