//! The rows of a table of a record, made by several threads.
//!
//! A record is cut between frames, and every part is read on its own by a thread of its own, since
//! frames do not depend on each other. What a part needs of those before it (targets and mappings)
//! is learned while cutting, which is fast: snapshots are not unpacked for that. One part more is
//! in work than there are CPUs, so that none is idle while the oldest part is awaited, and memory
//! is bounded. Batches come in the order of the record.
//!
//! Only for tables whose rows need no more than that: [`Table::Regions`]. Most of the time goes
//! into the kernel's faults on fresh memory, so columns get all of it at once, and what is the same
//! in all batches is kept once (`constants`). Huge pages were no remedy: to find and clear them
//! took two to six times as long as the faults that they save.

use std::collections::VecDeque;
use std::io::{Cursor, Read};
use std::thread::{self, JoinHandle};

use arrow_array::RecordBatch;

use super::batch::{Batch, ROWS};
use super::constants::Constants;
use super::tables::{Known, Table};
use crate::error::Error;
use crate::reader::Reader;

/// The fewest bytes that a region takes in a snapshot.
const LEAST_BYTES: usize = 5;
/// Bytes of snapshots per part, which has about as many rows as a batch should have.
const PART: usize = LEAST_BYTES * ROWS;

/// The batches of a table, each as what `finish` makes of it.
#[derive(Debug)]
pub(super) struct Parts<R> {
    table: Table,
    reader: Reader<R>,
    known: Known,
    constants: Constants,
    finish: Finish,
    running: VecDeque<JoinHandle<Result<RecordBatch, Error>>>,
    threads: usize,
    over: bool,
}

type Finish = fn(Batch, &Constants) -> Result<RecordBatch, Error>;

impl<R: Read> Parts<R> {
    /// Begins where the reader is, which must be between two frames.
    pub(super) fn new(table: Table, reader: Reader<R>, finish: Finish) -> Self {
        Self {
            table,
            known: Known::new(reader.header()),
            reader,
            constants: Constants::default(),
            finish,
            running: VecDeque::new(),
            threads: thread::available_parallelism().map_or(1, usize::from),
            over: false,
        }
    }

    /// The next batch; `None` at the end.
    ///
    /// # Errors
    ///
    /// If reading fails, or `finish` does, or no thread can be had. Damage is no error.
    pub(super) fn next(&mut self) -> Result<Option<RecordBatch>, Error> {
        while !self.over && self.running.len() <= self.threads {
            self.begin()?;
        }
        let Some(first) = self.running.pop_front() else { return Ok(None) };
        match first.join() {
            Ok(batch) => batch.map(Some),
            Err(panic) => std::panic::resume_unwind(panic),
        }
    }

    /// Lets a thread begin with the next part.
    fn begin(&mut self) -> Result<(), Error> {
        let (table, known, constants) = (self.table, self.known.clone(), self.constants.clone());
        let finish = self.finish;
        let Some(part) = self.reader.next_part(PART, |event| self.known.learn(event))? else {
            self.over = true;
            return Ok(());
        };
        let rows = move || finish(rows(table, known, part)?, &constants);
        let thread = thread::Builder::new().name("isotherm-rows".into()).spawn(rows);
        self.running.push_back(thread.map_err(Error::io("start a thread to read the record"))?);
        Ok(())
    }
}

/// The rows of a part, which unpacks to so many bytes of snapshots.
fn rows(table: Table, known: Known, (part, bytes): (Vec<u8>, usize)) -> Result<Batch, Error> {
    let mut rows = table.rows_from(known);
    rows.reserve(bytes / LEAST_BYTES);
    match Reader::new(Cursor::new(part), "a part of the record") {
        Ok(mut reader) => {
            while let Some(event) = reader.next_event()? {
                rows.push(&event);
            }
        }
        // It has no frame that this version understands.
        Err(Error::Truncated) => {}
        Err(err) => return Err(err),
    }
    Ok(rows.take())
}
