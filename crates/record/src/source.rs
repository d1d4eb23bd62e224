//! A record that can be read more than once: a file, or bytes in memory.

use std::fs::File;
use std::io::{Cursor, Read};
use std::path::Path;
use std::sync::Arc;

use crate::error::Error;
use crate::event::Header;
use crate::reader::Reader;

/// A record. Opening checks its beginning; every [`Record::reader`] starts there again.
#[derive(Debug, Clone)]
pub struct Record {
    name: String,
    source: Source,
    header: Header,
}

#[derive(Debug, Clone)]
enum Source {
    File(std::path::PathBuf),
    Bytes(Arc<[u8]>),
}

/// What a [`Record`] reads from.
pub type Input = Box<dyn Read + Send>;

impl Record {
    /// Opens the record at `path`.
    ///
    /// # Errors
    ///
    /// As [`Reader::new`].
    pub fn open(path: impl AsRef<Path>) -> Result<Self, Error> {
        let path = path.as_ref();
        Self::with(path.display().to_string(), Source::File(path.to_owned()))
    }

    /// Takes a whole record from memory, for example one that came through a pipe.
    ///
    /// # Errors
    ///
    /// As [`Reader::new`].
    pub fn from_bytes(bytes: impl Into<Arc<[u8]>>) -> Result<Self, Error> {
        Self::with("the record".into(), Source::Bytes(bytes.into()))
    }

    fn with(name: String, source: Source) -> Result<Self, Error> {
        let mut record = Self { name, source, header: Header::default() };
        record.header = record.reader()?.header().clone();
        Ok(record)
    }

    /// Facts about the whole record.
    #[must_use]
    pub fn header(&self) -> &Header {
        &self.header
    }

    /// The file's name, for messages.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// A reader at the beginning.
    ///
    /// # Errors
    ///
    /// As [`Reader::new`].
    pub fn reader(&self) -> Result<Reader<Input>, Error> {
        let input: Input = match &self.source {
            Source::File(path) => {
                Box::new(File::open(path).map_err(Error::io(format!("open {}", self.name)))?)
            }
            Source::Bytes(b) => Box::new(Cursor::new(b.clone())),
        };
        Reader::new(input, &self.name)
    }
}
