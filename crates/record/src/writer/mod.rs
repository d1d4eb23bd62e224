//! Writes a record. The file is only appended to, and is at most about a second behind.
//!
//! Snapshots are collected, and written as one frame when they span [`FLUSH_NS`], when there are
//! many, or when another event has to follow them. All other events are written at once. Each frame
//! is written whole by one `write`. So a recorder that is killed loses only what it had collected.
//! There is no `fsync` per second, so a crash of the *machine* may lose more; callers can use
//! [`Writer::sync`].
//!
//! A failed write (for example on a full disk) returns an error and loses only that frame. The
//! caller may go on. A reader skips the part of the frame that was written, and counts it as
//! damage.

mod collector;

use std::collections::BTreeMap;
use std::fs::File;
use std::io::Write;
use std::path::Path;

use isotherm_core::units::span;
use isotherm_core::{Snapshot, TargetId, Time};
use serde::Serialize;

use self::collector::Collector;
use crate::cgroups::Cgroups;
use crate::encoding::columns::Encoder;
use crate::error::Error;
use crate::event::{End, Exec, Exit, Header, Note, Target};
use crate::frame::{self, Kind};
use crate::frames::{self, Frames, Ram};
use crate::mapping::{self, Mapping};
use crate::place::Place;

/// Snapshots are written at the latest when they span this many ns of monitoring.
pub const FLUSH_NS: u64 = 1_000_000_000;
/// Snapshots are also written when they fill this many bytes.
const FLUSH_BYTES: usize = 4 << 20;

/// A small event as it is stored in its frame.
#[derive(Debug, Clone, PartialEq, Serialize, serde::Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Small {
    Target(Target),
    Exec(Exec),
    Exit(Exit),
    Ram(Ram),
    Cgroups(Cgroups),
    Note(Note),
    End(End),
}

/// Counts of what was written so far.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Written {
    /// Bytes of the file.
    pub bytes: u64,
    /// Snapshots, those that are still collected included.
    pub snapshots: u64,
    /// Their regions.
    pub regions: u64,
    /// Snapshots that were lost because a write failed.
    pub lost_snapshots: u64,
}

/// Writes one record.
#[derive(Debug)]
pub struct Writer<W: Write> {
    out: W,
    name: String,
    next_frame: u64,
    pending: Encoder,
    pending_since: Time,
    pending_snapshots: u64,
    pages: Collector,
    mappings: BTreeMap<TargetId, Vec<Mapping>>,
    payload: Vec<u8>,
    frame: Vec<u8>,
    written: Written,
}

impl Writer<File> {
    /// Creates the file at `path`, or empties an old one, and writes the header.
    ///
    /// # Errors
    ///
    /// If the file cannot be made or written.
    pub fn create(path: &Path, header: &Header) -> Result<Self, Error> {
        let name = path.display().to_string();
        let out = File::create(path).map_err(Error::io(format!("create {name}")))?;
        Self::with_name(out, name, header)
    }

    /// Creates a new record for `path` and writes the header. An old record stays in its place
    /// until [`Place::keep`] makes it `FILE.old`. If the place is dropped instead, the new record
    /// is removed.
    ///
    /// # Errors
    ///
    /// If the file cannot be made or written; nothing has changed then.
    pub fn create_beside(path: &Path, header: &Header) -> Result<(Self, Place), Error> {
        let (place, out) = Place::create(path)?;
        Ok((Self::with_name(out, path.display().to_string(), header)?, place))
    }

    /// Writes what is collected, and waits until everything is on the disk.
    ///
    /// # Errors
    ///
    /// If writing or waiting fails.
    pub fn sync(&mut self) -> Result<(), Error> {
        self.flush()?;
        self.out.sync_data().map_err(Error::io(format!("sync {}", self.name)))
    }
}

impl<W: Write> Writer<W> {
    /// Writes a record into `out`, which should not have a buffer.
    ///
    /// # Errors
    ///
    /// If the header cannot be written.
    pub fn new(out: W, header: &Header) -> Result<Self, Error> {
        Self::with_name(out, "the record".into(), header)
    }

    fn with_name(out: W, name: String, header: &Header) -> Result<Self, Error> {
        let mut w = Self {
            out,
            name,
            next_frame: 0,
            pending: Encoder::default(),
            pending_since: Time(0),
            pending_snapshots: 0,
            pages: Collector::default(),
            mappings: BTreeMap::new(),
            payload: Vec::new(),
            frame: Vec::new(),
            written: Written::default(),
        };
        w.write_bytes(&frame::file_header())?;
        w.write_json(Kind::Header, header)?;
        Ok(w)
    }

    /// What was written so far.
    #[must_use]
    pub fn written(&self) -> Written {
        self.written
    }

    /// Takes a snapshot. Writes the collected snapshots if they span a second. What they say of
    /// single pages goes into a frame before theirs; where they say nothing, there is none.
    ///
    /// # Errors
    ///
    /// If that write fails; see the module's text.
    pub fn push_snapshot(&mut self, s: &Snapshot) -> Result<(), Error> {
        if self.pending.is_empty() {
            self.pending_since = s.start;
        }
        self.pending.push(s);
        self.pages.push(s);
        self.pending_snapshots += 1;
        self.written.snapshots += 1;
        self.written.regions += s.nr_regions() as u64;
        if self.pending.len() >= FLUSH_BYTES || self.pages.is_full() {
            return self.flush();
        }
        self.tick(s.end)
    }

    /// Writes collected snapshots if the oldest began a second before `now`. A driver whose windows
    /// are long calls this from its loop.
    ///
    /// # Errors
    ///
    /// If the write fails.
    pub fn tick(&mut self, now: Time) -> Result<(), Error> {
        if !self.pending.is_empty() && now.since(self.pending_since) >= FLUSH_NS {
            return self.flush();
        }
        Ok(())
    }

    /// Writes what is collected now.
    ///
    /// # Errors
    ///
    /// If the write fails.
    pub fn flush(&mut self) -> Result<(), Error> {
        if self.pending.is_empty() {
            return Ok(());
        }
        let mut pages = Ok(());
        for payload in self.pages.take() {
            pages = pages.and(self.write_frame(Kind::Pages, &payload));
        }
        let mut payload = std::mem::take(&mut self.payload);
        self.pending.take(&mut payload);
        let done = self.write_frame(Kind::Snapshots, &payload);
        self.payload = payload;
        let snapshots = std::mem::take(&mut self.pending_snapshots);
        if done.is_err() {
            self.written.lost_snapshots += snapshots;
        }
        pages.and(done)
    }

    /// Writes that a target was added. Call this before the first snapshot that names it.
    ///
    /// # Errors
    ///
    /// If a write fails, here and in all methods below.
    pub fn target(&mut self, target: &Target) -> Result<(), Error> {
        self.small(&Small::Target(target.clone()))
    }

    /// Writes that a target executed another program.
    ///
    /// # Errors
    ///
    /// If a write fails.
    pub fn exec(&mut self, exec: &Exec) -> Result<(), Error> {
        self.small(&Small::Exec(exec.clone()))
    }

    /// Writes that a target is gone.
    ///
    /// # Errors
    ///
    /// If a write fails.
    pub fn exit(&mut self, exit: &Exit) -> Result<(), Error> {
        self.mappings.remove(&TargetId(exit.id));
        self.small(&Small::Exit(exit.clone()))
    }

    /// Writes where the machine's RAM is. This is for targets that are physical memory.
    ///
    /// # Errors
    ///
    /// If a write fails.
    pub fn ram(&mut self, ram: &Ram) -> Result<(), Error> {
        self.small(&Small::Ram(ram.clone()))
    }

    /// Writes a look at a sample of page frames.
    ///
    /// # Errors
    ///
    /// If a write fails.
    pub fn frames(&mut self, frames: &Frames) -> Result<(), Error> {
        self.flush()?;
        let mut payload = std::mem::take(&mut self.payload);
        payload.clear();
        frames::encode(&mut payload, frames);
        let done = self.write_frame(Kind::Frames, &payload);
        self.payload = payload;
        done
    }

    /// Writes what cgroups used.
    ///
    /// # Errors
    ///
    /// If a write fails.
    pub fn cgroups(&mut self, cgroups: Cgroups) -> Result<(), Error> {
        self.small(&Small::Cgroups(cgroups))
    }

    /// Writes a message for readers of the record.
    ///
    /// # Errors
    ///
    /// If a write fails.
    pub fn note(&mut self, now: Time, text: impl Into<String>) -> Result<(), Error> {
        self.small(&Small::Note(Note { t_ns: now.0, text: text.into(), suspended_ns: 0 }))
    }

    /// Writes that the machine was suspended for `ns` in the window before.
    ///
    /// # Errors
    ///
    /// If a write fails.
    pub fn suspended(&mut self, now: Time, ns: u64) -> Result<(), Error> {
        #[expect(clippy::cast_precision_loss, reason = "shown with three digits")]
        let text = format!("the machine was suspended for {}", span(ns as f64));
        self.small(&Small::Note(Note { t_ns: now.0, text, suspended_ns: ns }))
    }

    /// Writes all present mappings of a target, if they differ from the last ones written.
    ///
    /// # Errors
    ///
    /// If a write fails.
    pub fn mappings(
        &mut self,
        now: Time,
        target: TargetId,
        mappings: &[Mapping],
    ) -> Result<(), Error> {
        if self.mappings.get(&target).is_some_and(|old| old == mappings) {
            return Ok(());
        }
        self.flush()?;
        let mut payload = std::mem::take(&mut self.payload);
        payload.clear();
        let mut done = Ok(());
        if mapping::encode_objects(&mut payload, now.0, target.0, mappings) {
            done = self.write_frame(Kind::Objects, &payload);
        }
        payload.clear();
        mapping::encode(&mut payload, now.0, target.0, mappings);
        let done = done.and(self.write_frame(Kind::Mappings, &payload));
        self.payload = payload;
        done?;
        self.mappings.insert(target, mappings.to_vec());
        Ok(())
    }

    /// Writes what is collected and the end mark, and returns the output.
    ///
    /// # Errors
    ///
    /// If a write fails.
    pub fn finish(mut self, now: Time, reason: &str) -> Result<(W, Written), Error> {
        let Written { snapshots, regions, .. } = self.written;
        self.small(&Small::End(End { t_ns: now.0, reason: reason.into(), snapshots, regions }))?;
        self.out.flush().map_err(Error::io(format!("write {}", self.name)))?;
        Ok((self.out, self.written))
    }

    fn small(&mut self, event: &Small) -> Result<(), Error> {
        self.flush()?;
        self.write_json(Kind::Event, event)
    }

    fn write_json<T: Serialize>(&mut self, kind: Kind, value: &T) -> Result<(), Error> {
        let json = serde_json::to_vec(value)
            .map_err(|e| Error::io(format!("write {}", self.name))(e.into()))?;
        self.write_frame(kind, &json)
    }

    fn write_frame(&mut self, kind: Kind, payload: &[u8]) -> Result<(), Error> {
        let mut frame = std::mem::take(&mut self.frame);
        let mut done = frame::build(&mut frame, kind, self.next_frame, payload);
        self.next_frame += 1;
        if done.is_ok() {
            done = self.write_bytes(&frame);
        }
        self.frame = frame;
        done
    }

    fn write_bytes(&mut self, bytes: &[u8]) -> Result<(), Error> {
        self.out.write_all(bytes).map_err(Error::io(format!("write {}", self.name)))?;
        self.written.bytes += bytes.len() as u64;
        Ok(())
    }
}
