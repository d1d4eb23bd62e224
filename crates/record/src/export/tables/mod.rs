//! The tables of an export: what a row is, and its columns.
//!
//! A table takes the events of a record one by one and turns them into rows. So the same code makes
//! the rows of a record and those of a monitor that runs.

mod events;
mod mappings;
mod pages;
mod regions;
mod snapshots;
mod who;

use std::io::Read;

pub(super) use self::who::Known;
use super::batch::{Batch, ROWS};
use crate::error::Error;
use crate::event::{Event, Header};
use crate::reader::Reader;

/// The tables. [`export`](super) lists their columns.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Table {
    /// One row per target and snapshot: working sets, and what the window cost.
    Snapshots,
    /// One row per region and snapshot.
    Regions,
    /// One row per unit of 2 MiB that changed: which of its pages were touched.
    Pages,
    /// One row per mapping, whenever the mappings of a target were read.
    Mappings,
    /// One row per target that came, executed, or exited, and per message.
    Events,
}

/// Takes the events of a record and makes the rows of one table.
pub trait Rows: std::fmt::Debug + Send {
    /// Takes the next event.
    fn push(&mut self, event: &Event<'_>);

    /// Makes room for so many rows, or does nothing: columns grow by themselves.
    fn reserve(&mut self, _rows: usize) {}

    /// Number of rows that are ready.
    fn rows(&self) -> usize;

    /// These rows, which are gone then. The columns are there even if there are no rows.
    fn take(&mut self) -> Batch;
}

impl Table {
    /// Every table.
    pub const ALL: [Self; 5] =
        [Self::Snapshots, Self::Regions, Self::Pages, Self::Mappings, Self::Events];

    /// Its name.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Snapshots => "snapshots",
            Self::Regions => "regions",
            Self::Pages => "pages",
            Self::Mappings => "mappings",
            Self::Events => "events",
        }
    }

    /// Makes the table's rows from the events of a record with this header.
    #[must_use]
    pub fn rows(self, header: &Header) -> Box<dyn Rows> {
        self.rows_from(Known::new(header))
    }

    /// The same from the middle of a record, of which this is known so far.
    pub(super) fn rows_from(self, known: Known) -> Box<dyn Rows> {
        match self {
            Self::Snapshots => Box::new(snapshots::Snapshots::new(known)),
            Self::Regions => Box::new(regions::Regions::new(known)),
            Self::Pages => Box::new(pages::PageMaps::new(known)),
            Self::Mappings => Box::new(mappings::Mappings::new(known)),
            Self::Events => Box::new(events::Events::new(known)),
        }
    }
}

/// The batches of a table of a record. The last one may be empty, so that there is always one.
#[derive(Debug)]
pub struct Batches {
    rows: Box<dyn Rows>,
    over: bool,
}

impl Batches {
    /// The batches of `table`, of a record with this header.
    #[must_use]
    pub fn new(table: Table, header: &Header) -> Self {
        Self { rows: table.rows(header), over: false }
    }

    /// Reads the next batch; `None` at the end.
    ///
    /// # Errors
    ///
    /// If reading fails. Damage is no error.
    pub fn next<R: Read>(&mut self, reader: &mut Reader<R>) -> Result<Option<Batch>, Error> {
        if self.over {
            return Ok(None);
        }
        while self.rows.rows() < ROWS {
            match reader.next_event()? {
                Some(event) => self.rows.push(&event),
                None => {
                    self.over = true;
                    break;
                }
            }
        }
        Ok(Some(self.rows.take()))
    }
}
