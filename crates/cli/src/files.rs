//! Files that the user names: records that are read, results that are written.
//!
//! The libraries say what failed. This module adds the name of the file as the user gave it, and a
//! hint that fits what was to be done with the file.

use std::io::{self, IsTerminal, Read};
use std::path::Path;

use isotherm::raw::host::error::too_many_files;
use isotherm::raw::record::{Damage, Error, Record};
use tempfile::TempDir;

use crate::exit;
use crate::terminal::warn;

/// Reads a text file.
pub(crate) fn text(path: &Path, hint: &str) -> anyhow::Result<String> {
    std::fs::read_to_string(path).map_err(|e| {
        let name = path.display();
        // The file is not UTF-8, so it is no text.
        let is_text = e.kind() != io::ErrorKind::InvalidData;
        let code = if is_text { exit::of_io(&e) } else { exit::USAGE };
        exit::with(code, format!("cannot read {name}\n  tried: read {name}: {e}\n  hint:  {hint}"))
    })
}

/// Opens a record for reading. `-` means standard input, which is read to its end first, since
/// reports may read a record twice.
pub(crate) fn open(path: &Path) -> anyhow::Result<Record> {
    if path.as_os_str() == "-" {
        let mut input = io::stdin().lock();
        if input.is_terminal() {
            return Err(exit::usage(
                "no record comes from standard input, which is a terminal\n  hint:  pipe one in, \
                 or name a file",
            ));
        }
        let mut bytes = Vec::new();
        let read = input.read_to_end(&mut bytes);
        read.map_err(|err| exit::with(exit::of_io(&err), format!("cannot read a record: {err}")))?;
        return Record::from_bytes(bytes).map_err(|err| about(Path::new("standard input"), err));
    }
    Record::open(path).map_err(|err| about(path, err))
}

/// Adds the name of the record to `err`.
fn about(path: &Path, err: Error) -> anyhow::Error {
    match err {
        Error::Io { source, .. } => exit::with(
            exit::of_io(&source),
            format!(
                "cannot open the record {0}\n  tried: open {0}: {source}\n  hint:  {1}",
                path.display(),
                match source.kind() {
                    io::ErrorKind::NotFound =>
                        "`isotherm record` makes one; its default name is isotherm.data",
                    io::ErrorKind::PermissionDenied =>
                        "read it as the user who recorded it, or as root",
                    _ => "name a file that `isotherm record` or `damo record` wrote",
                }
            ),
        ),
        err if err.is_bad_input() => exit::with(exit::USAGE, format!("{}: {err}", path.display())),
        err => err.into(),
    }
}

/// Makes the error for a file that cannot be created.
pub(crate) fn cannot_create(path: &Path, err: &io::Error) -> anyhow::Error {
    let full = too_many_files(err);
    let hint = match err.kind() {
        io::ErrorKind::NotFound => "make the directory first, or name another file",
        io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem => {
            "name a file in a directory that you may write to"
        }
        io::ErrorKind::IsADirectory => "name a file, not a directory",
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded | io::ErrorKind::FileTooLarge => {
            "free some space, or name a file on another disk"
        }
        _ => full.as_ref().map_or("name another file", |(_, hint)| hint),
    };
    let shown = path.display();
    let why = full.as_ref().map_or_else(String::new, |(why, _)| format!("  why:   {why}\n"));
    let text = format!("cannot write {shown}\n  tried: write {shown}: {err}\n{why}  hint:  {hint}");
    exit::with(exit::of_io(err), text)
}

/// A directory for files of our own. It is private, and removed when this is dropped.
pub(crate) fn scratch(what: &str) -> anyhow::Result<TempDir> {
    let made = tempfile::Builder::new().prefix(&format!("isotherm-{what}-")).tempdir();
    made.map_err(|err| cannot_create(&std::env::temp_dir(), &err))
}

/// As [`cannot_create`], for an error of the record crate.
pub(crate) fn not_created(path: &Path) -> impl FnOnce(Error) -> anyhow::Error + '_ {
    move |err| match err {
        Error::Io { source, .. } => cannot_create(path, &source),
        err => err.into(),
    }
}

/// Makes the error for an old record that cannot be moved out of the way.
pub(crate) fn not_kept(err: Error) -> anyhow::Error {
    match err {
        Error::Io { source, tried } => exit::with(
            exit::of_io(&source),
            format!(
                "cannot keep the old record\n  tried: {tried}: {source}\n  \
                 hint:  give another file with -o"
            ),
        ),
        err => err.into(),
    }
}

/// Warns of the part of a record that could not be read, if there is one.
pub(crate) fn warn_of_damage(path: &Path, damage: &Damage) {
    if !damage.is_none() {
        warn(&format!("{}: {damage}; the rest was read", path.display()));
    }
}
