//! Writes one part: whole or not at all.
//!
//! The file has a dot name, which readers of directories pass over, until it is complete and on
//! disk. Then it is renamed, and its directory synced. What a killed agent leaves behind has a dot
//! name, and is removed at the next start.

use std::fs::{self, File};
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

use isotherm_record::export::{Batch, parquet_of};

use crate::settings::{SCHEMA, Table};

/// Why a part could not be written. Nothing is left of it.
#[derive(Debug)]
pub(crate) struct NotWritten {
    pub(crate) path: PathBuf,
    pub(crate) why: String,
    /// Whether the disk is full.
    pub(crate) is_full: bool,
}

/// Writes a batch as `dir/name`. Returns its size in bytes.
pub(crate) fn write(
    dir: &Path,
    name: &str,
    table: Table,
    batch: &Batch,
    version: &str,
) -> Result<u64, NotWritten> {
    let hidden = dir.join(format!(".{name}"));
    let done = try_write(dir, &hidden, name, table, batch, version);
    done.map_err(|(err, is_full)| {
        // There may be none; the error says what is wrong.
        fs::remove_file(&hidden).ok();
        NotWritten { path: dir.join(name), why: err, is_full }
    })
}

fn try_write(
    dir: &Path,
    hidden: &Path,
    name: &str,
    table: Table,
    batch: &Batch,
    version: &str,
) -> Result<u64, (String, bool)> {
    let of_io = |err: io::Error| (err.to_string(), is_full(&err));
    fs::create_dir_all(dir).map_err(of_io)?;
    let out = BufWriter::new(File::create(hidden).map_err(of_io)?);
    let metadata = [
        ("isotherm.schema", SCHEMA),
        ("isotherm.table", table.name()),
        ("isotherm.version", version),
    ];
    // A full disk shows in here as an error of the format's writer as well.
    let mut out = parquet_of(batch, &metadata, out).map_err(|err| {
        let text = err.to_string();
        let is_full = text.contains("No space left") || text.contains("quota");
        (text, is_full)
    })?;
    out.flush().map_err(of_io)?;
    let file = out.into_inner().map_err(|err| of_io(err.into_error()))?;
    file.sync_all().map_err(of_io)?;
    let bytes = file.metadata().map_err(of_io)?.len();
    drop(file);
    fs::rename(hidden, dir.join(name)).map_err(of_io)?;
    File::open(dir).and_then(|dir| dir.sync_all()).map_err(of_io)?;
    Ok(bytes)
}

fn is_full(err: &io::Error) -> bool {
    matches!(err.kind(), io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded)
}
