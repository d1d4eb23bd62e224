//! Records: snapshots in a file that survives the death of its recorder.
//!
//! [`Recorder`] writes one, window by window; [`Record`] reads it; [`crate::report`] and [`export`]
//! make something of it. The program's `isotherm report` reads what is written here, and the other
//! way round.
//!
//! ```no_run
//! use isotherm::Monitor;
//! use isotherm::record::Recorder;
//!
//! let mut monitor = Monitor::builder().pid(4711).build()?;
//! let mut recorder = Recorder::create("isotherm.data", &monitor)?;
//! while let Some(snapshot) = monitor.next_snapshot()? {
//!     recorder.push(&snapshot)?;
//! }
//! recorder.finish("every target has exited")?;
//! # Ok::<(), isotherm::Error>(())
//! ```

use std::fs::File;
use std::io::Write;
use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};

use isotherm_core::Time;
use isotherm_core::addr::PAGE_SIZE;
use isotherm_host::proc::Proc;

pub use isotherm_record::{
    AttrsInfo, Damage, End, Error, Event, Exit, Frames, Header, Input, Mapping, MappingKind, Note,
    Ram, Reader, Record, Target, Writer, Written, export,
};

/// The recorder of `isotherm record`, over [`Monitor::live`]. It runs the monitor itself, and its
/// records of physical memory also hold a sample of page frames with their owners.
pub use isotherm_agent::recorder as live;

use crate::Monitor;
use crate::snapshot::{self, Snapshot};

/// Writes snapshots into a record, with who the targets are and what is mapped in them.
///
/// What was pushed is in the file within a second. A recorder that is dropped leaves a record
/// without an end, which can be read up to its last whole frame.
#[derive(Debug)]
pub struct Recorder<W: Write = File> {
    writer: Writer<W>,
    targets: Vec<snapshot::Target>,
    /// How often mappings are looked at, in ns.
    mappings_every: u64,
    mappings_at: Time,
    last: Time,
}

impl Recorder {
    /// Makes the file and writes who records where and how. An old file there becomes `FILE.old`.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Io`](crate::ErrorKind::Io) if it cannot be created or written.
    pub fn create(path: impl AsRef<Path>, monitor: &Monitor) -> Result<Self, crate::Error> {
        let (writer, place) = Writer::create_beside(path.as_ref(), &header(monitor))?;
        place.keep()?;
        Ok(Self::over(writer, monitor))
    }
}

impl<W: Write> Recorder<W> {
    /// As [`Recorder::create`], into anything that can be written.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Io`](crate::ErrorKind::Io) if it cannot be written.
    pub fn new(out: W, monitor: &Monitor) -> Result<Self, crate::Error> {
        Ok(Self::over(Writer::new(out, &header(monitor))?, monitor))
    }

    fn over(writer: Writer<W>, monitor: &Monitor) -> Self {
        Self {
            writer,
            targets: Vec::new(),
            mappings_every: monitor.attrs().update_us.saturating_mul(1000),
            mappings_at: Time::default(),
            last: Time::default(),
        }
    }

    /// Writes a snapshot, after what has changed since the last: targets, and mappings once per
    /// update interval.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Io`](crate::ErrorKind::Io) if it cannot be written: the record has a hole then.
    /// Going on is possible, for the next write may go through.
    pub fn push(&mut self, snapshot: &Snapshot<'_>) -> Result<(), crate::Error> {
        let now = snapshot.raw().end;
        self.last = now;
        self.changes(snapshot, now)?;
        if now >= self.mappings_at {
            self.mappings_at = now + self.mappings_every;
            for target in &self.targets {
                let mappings = snapshot.mappings(target);
                if !mappings.is_empty() {
                    self.writer.mappings(now, target.id, &mappings)?;
                }
            }
        }
        Ok(self.writer.push_snapshot(snapshot.raw())?)
    }

    fn changes(&mut self, snapshot: &Snapshot<'_>, now: Time) -> Result<(), crate::Error> {
        let there = || snapshot.targets().filter_map(|target| target.identity());
        let writer = &mut self.writer;
        let gone = |known: &snapshot::Target| there().all(|target| target.id != known.id);
        for target in self.targets.extract_if(.., |known| gone(known)) {
            writer.exit(&Exit { id: target.id.0, status: None, t_ns: now.as_ns() })?;
        }
        for target in there() {
            if self.targets.iter().any(|known| known.id == target.id) {
                continue;
            }
            self.writer.target(&Target {
                id: target.id.0,
                pid: target.pid,
                ppid: target.parent,
                name: target.name.clone(),
                t_ns: snapshot.raw().start.as_ns(),
                memory: target.memory.clone(),
            })?;
            self.targets.push(target.clone());
            self.mappings_at = Time::default();
        }
        Ok(())
    }

    /// Writes a message for the record's readers.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Io`](crate::ErrorKind::Io).
    pub fn note(&mut self, text: impl Into<String>) -> Result<(), crate::Error> {
        Ok(self.writer.note(self.last, text)?)
    }

    /// Ends the record in good order; gives back what it was written to, and how much that is.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Io`](crate::ErrorKind::Io).
    pub fn finish(self, reason: &str) -> Result<(W, Written), crate::Error> {
        Ok(self.writer.finish(self.last, reason)?)
    }
}

/// Who records where and how: what [`Recorder`] writes first.
#[must_use]
pub fn header(monitor: &Monitor) -> Header {
    let system = |file: &str| {
        let mut text = Vec::new();
        let read = Proc::default().read_system(&format!("sys/kernel/{file}"), &mut text);
        read.map_or_else(|_| String::new(), |()| String::from_utf8_lossy(&text).trim().to_owned())
    };
    let unix = SystemTime::now().duration_since(UNIX_EPOCH);
    Header {
        isotherm: env!("CARGO_PKG_VERSION").to_owned(),
        host: system("hostname"),
        kernel: system("osrelease"),
        arch: std::env::consts::ARCH.to_owned(),
        page_size: PAGE_SIZE,
        boot_id: Proc::default().boot_id().unwrap_or_default(),
        started_unix_ns: unix.map_or(0, |d| u64::try_from(d.as_nanos()).unwrap_or(0)),
        started_ns: monitor.clock_now().as_ns(),
        attrs: AttrsInfo::from(monitor.attrs()),
        ops: monitor.set().to_owned(),
        command: std::env::args_os().map(|word| word.to_string_lossy().into_owned()).collect(),
        capabilities: Vec::new(),
    }
}
