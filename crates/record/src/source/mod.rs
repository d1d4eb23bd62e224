//! A record that can be read more than once: a file, or bytes in memory. Records of damo are
//! converted when they are opened.

mod join;

pub use join::join;

use std::fs::File;
use std::io::{self, Cursor, Read};
use std::path::Path;
use std::sync::Arc;

use crate::damo;
use crate::error::Error;
use crate::event::Header;
use crate::reader::Reader;

/// A record. Opening checks its beginning; every [`Record::reader`] starts there again.
#[derive(Debug, Clone)]
pub struct Record {
    name: String,
    source: Source,
    header: Header,
    is_of_damo: bool,
}

#[derive(Debug, Clone)]
enum Source {
    File(std::path::PathBuf),
    Bytes(Arc<[u8]>),
}

/// What a [`Record`] reads from.
pub type Input = Box<dyn Read + Send>;

impl Record {
    /// Opens the record at `path`. A record of [`damo`] is read whole.
    ///
    /// # Errors
    ///
    /// As [`Reader::new`], and [`Error::Damo`].
    pub fn open(path: impl AsRef<Path>) -> Result<Self, Error> {
        let path = path.as_ref();
        let name = path.display().to_string();
        let mut file = File::open(path).map_err(Error::io(format!("open {name}")))?;
        let mut head = Vec::new();
        let read = (&mut file).take(damo::HEAD as u64).read_to_end(&mut head);
        read.map_err(Error::io(format!("read {name}")))?;
        if damo::looks_like_one(&head) {
            let bytes = damo::read(&name, &head, file)?;
            let record = Self::with(name, Source::Bytes(bytes.into()))?;
            return Ok(Self { is_of_damo: true, ..record });
        }
        Self::with(name, Source::File(path.to_owned()))
    }

    /// Takes a whole record from memory, for example one that came through a pipe.
    ///
    /// # Errors
    ///
    /// As [`Record::open`].
    pub fn from_bytes(bytes: impl Into<Arc<[u8]>>) -> Result<Self, Error> {
        let (name, mut bytes) = ("the record", bytes.into());
        let (head, rest) = bytes.split_at(bytes.len().min(damo::HEAD));
        let is_of_damo = damo::looks_like_one(head);
        if is_of_damo {
            bytes = damo::read(name, head, rest)?.into();
        }
        Ok(Self { is_of_damo, ..Self::with(name.into(), Source::Bytes(bytes))? })
    }

    fn with(name: String, source: Source) -> Result<Self, Error> {
        let mut record = Self { name, source, header: Header::default(), is_of_damo: false };
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

    /// Whether this is a record of [`damo`], which was converted when it was opened.
    #[must_use]
    pub const fn is_of_damo(&self) -> bool {
        self.is_of_damo
    }

    /// Writes the bytes of the record, so that what was converted can be kept. Returns their
    /// number.
    ///
    /// # Errors
    ///
    /// If reading or writing fails.
    pub fn copy_to(&self, mut out: impl io::Write) -> Result<u64, Error> {
        let mut input = self.input()?;
        let copied = io::copy(&mut input, &mut out).and_then(|n| out.flush().map(|()| n));
        copied.map_err(Error::io(format!("write a copy of {}", self.name)))
    }

    fn input(&self) -> Result<Input, Error> {
        Ok(match &self.source {
            Source::File(path) => {
                Box::new(File::open(path).map_err(Error::io(format!("open {}", self.name)))?)
            }
            Source::Bytes(b) => Box::new(Cursor::new(b.clone())),
        })
    }

    /// A reader at the beginning.
    ///
    /// # Errors
    ///
    /// As [`Reader::new`].
    pub fn reader(&self) -> Result<Reader<Input>, Error> {
        Reader::new(self.input()?, &self.name)
    }
}
