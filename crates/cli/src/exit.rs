//! Exit codes. They are part of the interface: docs/SPEC.md lists them, and they do not change.
//!
//! 0 done, 1 unexpected, 2 usage or bad input, 3 not supported, 4 permission, 5 target gone, 6
//! partial; with `-- CMD`, the command's own status instead, as a shell shows it.

use std::io::{self, ErrorKind};
use std::process::ExitCode;

use isotherm::raw::agent::gauge::Unread;
use isotherm::raw::agent::run::Refused;
use isotherm::raw::host::error::{Class, Error, Kind};
use isotherm::raw::ops::targets::ChildExit;

use crate::terminal::warn;

/// An unexpected error.
pub(crate) const UNEXPECTED: u8 = Class::Unexpected.exit_code();
/// Wrong usage, or an input file that cannot be understood (2, as clap's).
pub(crate) const USAGE: u8 = Class::Usage.exit_code();
/// This machine does not support what was asked for.
pub(crate) const NOT_SUPPORTED: u8 = Class::NotSupported.exit_code();
/// A privilege is missing, or a file is not ours to touch.
pub(crate) const PERMISSION: u8 = Class::Permission.exit_code();
/// The targets are gone.
pub(crate) const TARGET_GONE: u8 = Class::Gone.exit_code();
/// Only a part was done.
pub(crate) const PARTIAL: u8 = 6;

/// An error that has an exit code of its own.
#[derive(Debug)]
pub(crate) struct WithCode {
    /// The exit code.
    pub(crate) code: u8,
    /// The message.
    pub(crate) message: String,
}

impl std::fmt::Display for WithCode {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for WithCode {}

/// Makes an error with this exit code.
pub(crate) fn with(code: u8, message: impl Into<String>) -> anyhow::Error {
    WithCode { code, message: message.into() }.into()
}

/// Makes an error for wrong arguments or input.
pub(crate) fn usage(message: impl Into<String>) -> anyhow::Error {
    with(USAGE, message)
}

/// A failure of the library, with the exit code of its kind.
#[expect(clippy::needless_pass_by_value, reason = "the argument of `map_err`")]
pub(crate) fn of<K: Kind>(err: Error<K>) -> anyhow::Error {
    with(err.exit_code(), err.to_string())
}

/// A refusal of the runner.
pub(crate) fn refused(refused: Refused) -> anyhow::Error {
    with(refused.code, refused.text)
}

/// A number of a program that cannot be told.
pub(crate) fn unread(unread: Unread) -> anyhow::Error {
    refused(unread.into())
}

/// The exit code of a command that was started with `-- CMD`: its own, also if our SIGTERM ended
/// it. Warns if it has not ended.
pub(crate) fn of_child(child: ChildExit) -> ExitCode {
    if let ChildExit::RunsOn { pid } = child {
        warn(&format!(
            "the command (process {pid}) did not end within 2 s of SIGTERM, and runs on\n  hint:  \
             `kill -KILL {pid}` ends it"
        ));
        return ExitCode::from(PARTIAL);
    }
    ExitCode::from(u8::try_from(child.shell_code()).unwrap_or(UNEXPECTED))
}

/// Whether the reader of our output went away, which is no error (`isotherm report ... | head`).
pub(crate) fn is_broken_pipe(error: &anyhow::Error) -> bool {
    error.chain().any(|e| {
        e.downcast_ref::<io::Error>().is_some_and(|e| e.kind() == ErrorKind::BrokenPipe)
            || e.downcast_ref::<isotherm::raw::record::Error>().is_some_and(|e| e.is_broken_pipe())
            || matches!(e.downcast_ref(), Some(isotherm::raw::report::Error::Record(e)) if e.is_broken_pipe())
    })
}

/// The exit code for a file that cannot be read or written. A wrong name counts as wrong usage.
pub(crate) fn of_io(err: &io::Error) -> u8 {
    match err.kind() {
        ErrorKind::NotFound | ErrorKind::IsADirectory | ErrorKind::NotADirectory => USAGE,
        ErrorKind::PermissionDenied | ErrorKind::ReadOnlyFilesystem => PERMISSION,
        ErrorKind::StorageFull | ErrorKind::QuotaExceeded | ErrorKind::FileTooLarge => PARTIAL,
        _ => UNEXPECTED,
    }
}

/// The exit code for `error`.
pub(crate) fn code_of(error: &anyhow::Error) -> ExitCode {
    let own = error.chain().find_map(|e| e.downcast_ref::<WithCode>());
    let record = error.chain().find_map(|e| e.downcast_ref::<isotherm::raw::record::Error>());
    let report = error.chain().find_map(|e| e.downcast_ref::<isotherm::raw::report::Error>());
    let code = match (own, record, report) {
        (Some(own), _, _) => own.code,
        (_, Some(err), _) | (_, _, Some(isotherm::raw::report::Error::Record(err))) => match err {
            isotherm::raw::record::Error::Io { source, .. } => of_io(source),
            err if err.is_bad_input() => USAGE,
            _ => UNEXPECTED,
        },
        (_, _, Some(_)) => USAGE,
        _ => error.chain().find_map(|e| e.downcast_ref()).map_or(UNEXPECTED, of_io),
    };
    ExitCode::from(code)
}
