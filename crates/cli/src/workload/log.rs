//! The truth file of a running workload.

use std::fs::{File, OpenOptions};
use std::path::Path;

use anyhow::Context;
use isotherm::raw::sim::truth::Line;

use crate::files::cannot_create;

/// The truth file; none if `--truth` was not given.
///
/// The file is opened for appending and each line is one `write`. So the processes of a fork tree
/// can share it, and lines that were written survive a kill.
#[derive(Debug)]
pub(super) struct Log {
    file: Option<File>,
    failed: bool,
}

impl Log {
    pub(super) fn create(path: Option<&Path>) -> anyhow::Result<Self> {
        let open = |path: &Path| -> anyhow::Result<File> {
            // Appending cannot truncate.
            File::create(path).map_err(|e| cannot_create(path, &e))?;
            let file = OpenOptions::new().append(true).open(path);
            file.with_context(|| format!("open {}", path.display()))
        };
        Ok(Self { file: path.map(open).transpose()?, failed: false })
    }

    /// Writes a line. After a failure the accesses go on, and [`Log::finish`] reports it.
    pub(super) fn line(&mut self, line: &Line) {
        if let Some(file) = self.file.as_mut().filter(|_| !self.failed) {
            self.failed = line.write(file).is_err();
        }
    }

    pub(super) fn finish(&self) -> anyhow::Result<()> {
        match &self.file {
            Some(file) if self.failed => {
                let size = file.metadata().map_or(0, |m| m.len());
                anyhow::bail!("the truth file could not be written past {size} bytes (disk full?)")
            }
            _ => Ok(()),
        }
    }
}
