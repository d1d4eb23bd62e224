//! Writes a reading for the textfile collector of `node_exporter`.

use std::fs::{self, File, Permissions};
use std::io::{self, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::reading::Reading;
use crate::text::plain;

/// Writes the reading to `path`, which has to end in `.prom`. The file is replaced as a whole:
/// whoever reads it sees the old one or the new one. Everybody may read it, whatever the umask is.
///
/// # Errors
///
/// `InvalidInput` for another ending, and what the kernel says. The old file stays as it was.
pub fn write(path: &Path, reading: &Arc<Reading>) -> io::Result<()> {
    check(path)?;
    // In the same directory, so that it can be renamed. The collector reads only `*.prom`.
    let beside = beside(path);
    let written = (|| {
        let mut file = File::create(&beside)?;
        // The collector is another user, and the agent's umask would keep it out.
        file.set_permissions(Permissions::from_mode(0o644))?;
        file.write_all(plain(reading).as_bytes())?;
        // The collector must not find an empty file after a crash.
        file.sync_all()?;
        fs::rename(&beside, path)
    })();
    if written.is_err() {
        fs::remove_file(&beside).ok();
    }
    written
}

/// Whether the collector would read a file of this name.
///
/// # Errors
///
/// `InvalidInput` if not.
pub fn check(path: &Path) -> io::Result<()> {
    if path.extension().is_some_and(|ending| ending == "prom") {
        return Ok(());
    }
    let why = "the textfile collector reads only files whose names end in .prom";
    Err(io::Error::new(io::ErrorKind::InvalidInput, why))
}

fn beside(path: &Path) -> PathBuf {
    let mut name = path.file_name().unwrap_or_default().to_owned();
    name.push(format!(".{}", std::process::id()));
    path.with_file_name(name)
}
