//! Long text goes through a pager if standard output is a terminal.
//!
//! Text is held back until it is longer than the screen, and only then a pager starts, so a short
//! report stays in the terminal as it is. `ISOTHERM_PAGER` names the pager, else `PAGER`; an empty
//! name or `cat` means none. A reader who quits the pager early is no error.

use std::env::{var, var_os};
use std::ffi::OsStr;
use std::io::{self, BufWriter, IsTerminal, Stdout, Write, stdout};
use std::process::{Child, ChildStdin, Command, Stdio};

use isotherm::raw::sys::signals;

use super::warn;

/// `--no-pager`.
#[derive(Debug, Clone, Copy, clap::Args)]
pub(crate) struct PagerArg {
    /// Do not show long text in a pager (`$ISOTHERM_PAGER`, `$PAGER`, `less`).
    #[arg(long, global = true, help_heading = "Output", hide_short_help = true)]
    no_pager: bool,
}

impl PagerArg {
    /// Standard output, through the user's pager if it is wanted and needed.
    pub(crate) fn open(self) -> Paging {
        Paging::start(if self.no_pager { None } else { Pager::of_user() })
    }
}

/// A program that shows text.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Pager {
    /// The program and its arguments, as a shell reads them.
    command: String,
    /// Whether it is needed for a text that fits on the screen, too.
    always: bool,
}

impl Pager {
    /// The user's pager; none if none is wanted.
    fn of_user() -> Option<Self> {
        let named = ["ISOTHERM_PAGER", "PAGER"].into_iter().find_map(|name| var(name).ok());
        Self::of_name(named.as_deref(), exists("less"))
    }

    /// `named`: what the environment says; `less`: whether that program is there.
    fn of_name(named: Option<&str>, less: bool) -> Option<Self> {
        let command = match named.map(str::trim) {
            Some("" | "cat") => return None,
            Some(named) => named,
            None if less => "less -FRX",
            None => return None,
        };
        Some(Self { command: command.to_owned(), always: false })
    }

    /// `man`, which formats roff; none if it is not installed.
    pub(crate) fn manual() -> Option<Self> {
        exists("man").then(|| Self { command: "man -l -".to_owned(), always: true })
    }

    fn spawn(&self) -> io::Result<Child> {
        // A shell is needed for quotes, variables and pipes only. Without one it shows at once that
        // a program does not exist.
        let plain = |c: char| c.is_alphanumeric() || " /._-+:=,%@".contains(c);
        let mut words = self.command.split_whitespace();
        let mut command = match words.next() {
            Some(program) if self.command.chars().all(plain) && !program.contains('=') => {
                let mut command = Command::new(program);
                command.args(words);
                command
            }
            _ => {
                let mut shell = Command::new("sh");
                shell.args(["-c", &self.command]);
                shell
            }
        };
        // Colours, and no own screen for a short text, unless the user says otherwise.
        if var_os("LESS").is_none() {
            command.env("LESS", "FRX");
        }
        command.stdin(Stdio::piped()).spawn()
    }
}

fn exists(program: &str) -> bool {
    let path = var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).any(|dir| dir.join(OsStr::new(program)).is_file())
}

/// Standard output, perhaps through a pager. [`Paging::finish`] has to be called at the end.
#[derive(Debug)]
pub(crate) struct Paging(State);

#[derive(Debug)]
enum State {
    Plain(BufWriter<Stdout>),
    Held { text: Vec<u8>, screen: Screen, pager: Pager },
    Through { child: Child, pipe: BufWriter<ChildStdin> },
}

impl Paging {
    /// Begins to write, with `pager` if standard output is a terminal.
    pub(crate) fn start(pager: Option<Pager>) -> Self {
        let plain = || State::Plain(BufWriter::new(stdout()));
        let (Some(pager), true) = (pager, stdout().is_terminal()) else { return Self(plain()) };
        let size = rustix::termios::tcgetwinsize(stdout());
        let size = size.ok().filter(|size| size.ws_row > 0 && size.ws_col > 0);
        Self(match size {
            Some(size) => {
                let rows = if pager.always { 0 } else { size.ws_row.into() };
                let screen = Screen::new(rows, size.ws_col.into());
                State::Held { text: Vec::new(), screen, pager }
            }
            None => plain(),
        })
    }

    /// Shows what is left, and waits until the reader has closed the pager.
    pub(crate) fn finish(self) -> io::Result<()> {
        match self.0 {
            State::Plain(mut out) => out.flush(),
            State::Held { text, .. } => {
                let mut out = stdout().lock();
                out.write_all(&text)?;
                out.flush()
            }
            State::Through { mut child, mut pipe } => {
                let written = quiet(pipe.flush());
                // The end of the text. The rest of a failed write would fail again.
                drop(pipe.into_parts());
                let status = child.wait()?;
                if status.code().is_some_and(|code| code == 126 || code == 127) {
                    warn(
                        "the pager could not be started\n  hint:  set ISOTHERM_PAGER, or give --no-pager",
                    );
                }
                written
            }
        }
    }

    /// The text is longer than the screen.
    fn page(&mut self) -> io::Result<()> {
        let State::Held { text, pager, .. } = &mut self.0 else { return Ok(()) };
        let text = std::mem::take(text);
        let mut next = match pager.spawn() {
            Ok(mut child) => match child.stdin.take() {
                Some(pipe) => {
                    // The pager handles Ctrl-C. We stay until it ends, or it would fight with the
                    // shell for the terminal.
                    signals::install()?;
                    State::Through { child, pipe: BufWriter::new(pipe) }
                }
                None => State::Plain(BufWriter::new(stdout())),
            },
            Err(err) => {
                warn(&format!("cannot start the pager `{}`: {err}", pager.command));
                State::Plain(BufWriter::new(stdout()))
            }
        };
        let written = match &mut next {
            State::Plain(out) => out.write_all(&text),
            State::Through { pipe, .. } => pipe.write_all(&text),
            State::Held { .. } => Ok(()),
        };
        self.0 = next;
        written
    }
}

impl Write for Paging {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match &mut self.0 {
            State::Plain(out) => out.write(bytes),
            State::Through { pipe, .. } => pipe.write(bytes),
            State::Held { text, screen, .. } => {
                text.extend_from_slice(bytes);
                screen.add(bytes);
                if screen.is_full() {
                    self.page()?;
                }
                Ok(bytes.len())
            }
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match &mut self.0 {
            State::Plain(out) => out.flush(),
            State::Through { pipe, .. } => pipe.flush(),
            // It is not known yet where the text goes.
            State::Held { .. } => Ok(()),
        }
    }
}

/// A reader who has seen enough is no error.
fn quiet(result: io::Result<()>) -> io::Result<()> {
    result.or_else(|err| if err.kind() == io::ErrorKind::BrokenPipe { Ok(()) } else { Err(err) })
}

/// Counts the rows that a text takes on a screen.
#[derive(Debug)]
struct Screen {
    rows: usize,
    columns: usize,
    used: usize,
    column: usize,
    in_escape: bool,
}

impl Screen {
    const fn new(rows: usize, columns: usize) -> Self {
        Self { rows, columns, used: 0, column: 0, in_escape: false }
    }

    fn add(&mut self, bytes: &[u8]) {
        for &byte in bytes {
            match byte {
                b'\n' => {
                    self.used += 1;
                    self.column = 0;
                }
                0x1b => self.in_escape = true,
                // A colour ends with a letter.
                _ if self.in_escape => self.in_escape = !byte.is_ascii_alphabetic(),
                // The bytes of a character after its first take no room.
                0x80..=0xbf => {}
                _ => {
                    if self.column == self.columns {
                        self.used += 1;
                        self.column = 0;
                    }
                    self.column += 1;
                }
            }
        }
    }

    /// The prompt of the shell needs the last row.
    const fn is_full(&self) -> bool {
        self.used >= self.rows
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_environment_names_the_pager() {
        let name = |named, less| Pager::of_name(named, less).map(|pager| pager.command);
        assert_eq!(name(None, true).as_deref(), Some("less -FRX"));
        assert_eq!(name(None, false), None, "no less is installed");
        assert_eq!(name(Some("more"), true).as_deref(), Some("more"));
        for none in ["", " ", "cat"] {
            assert_eq!(name(Some(none), true), None, "{none:?}");
        }
    }

    #[test]
    fn rows_are_counted_as_a_terminal_shows_them() {
        for (text, rows) in [
            ("", 0),
            ("a\n", 1),
            ("1234567890\n", 1),
            ("12345678901\n", 2),
            ("123456789012345678901\n\n", 4),
            ("\x1b[31m1234567890\x1b[0m\n", 1),
            ("ääääääääää\n", 1),
        ] {
            let mut screen = Screen::new(100, 10);
            // In pieces, as writers give them.
            text.as_bytes().chunks(3).for_each(|piece| screen.add(piece));
            assert_eq!(screen.used, rows, "{text:?}");
        }
        let mut screen = Screen::new(2, 10);
        screen.add(b"one\n");
        assert!(!screen.is_full());
        screen.add(b"two\n");
        assert!(screen.is_full(), "the prompt needs a row");
    }
}
