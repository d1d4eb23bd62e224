//! Reads a record as a stream of events, with one frame in memory.
//!
//! Whatever the bytes are, reading never panics and never returns a wrong snapshot. Bytes without a
//! good checksum are skipped and counted in [`Damage`].

use std::io::Read;

use isotherm_core::Snapshot;

use crate::cgroups::Cgroups;
use crate::encoding::columns::Decoder;
use crate::encoding::pages;
use crate::error::Error;
use crate::event::{Event, Header};
use crate::frame::{Damage, Kind, Scanner};
use crate::frames::{self, Frames};
use crate::mapping::{self, Mapping, Objects};
use crate::pages::Pages;
use crate::writer::Small;

/// Reads one record from its beginning.
#[derive(Debug)]
pub struct Reader<R> {
    frames: Scanner<R>,
    header: Header,
    payload: Vec<u8>,
    /// The kind of the first frame if that was not the header. Its event is still to be read.
    waiting: Option<Kind>,
    block: Decoder,
    snapshot: Snapshot,
    mappings: Vec<Mapping>,
    objects: Objects,
    small: Small,
    sample: Frames,
    pages: Pages,
    ended: bool,
}

impl<R: Read> Reader<R> {
    /// Starts to read. `name` is for messages.
    ///
    /// # Errors
    ///
    /// [`Error::Empty`], [`Error::Foreign`], [`Error::Truncated`] (not one whole frame),
    /// [`Error::Newer`], or the error of the operating system.
    pub fn new(input: R, name: &str) -> Result<Self, Error> {
        let mut frames = Scanner::new(input, name)?;
        let mut payload = Vec::new();
        let Some(kind) = frames.next(&mut payload)? else { return Err(Error::Truncated) };
        let mut header = Header::default();
        let mut waiting = Some(kind);
        if kind == Kind::Header {
            waiting = None;
            match serde_json::from_slice(&payload) {
                Ok(h) => header = h,
                Err(_) => frames.count_unknown(),
            }
        }
        Ok(Self {
            frames,
            header,
            payload,
            waiting,
            block: Decoder::default(),
            snapshot: Snapshot::default(),
            mappings: Vec::new(),
            objects: Objects::default(),
            sample: Frames::default(),
            pages: Pages::default(),
            small: Small::Note(crate::event::Note::default()),
            ended: false,
        })
    }

    /// Facts about the whole record. All fields are empty if the header's frame is damaged.
    #[must_use]
    pub fn header(&self) -> &Header {
        &self.header
    }

    /// What could not be read so far. It is complete once [`Reader::next_event`] has returned
    /// `None`.
    #[must_use]
    pub fn damage(&self) -> Damage {
        self.frames.damage()
    }

    /// Whether the end mark was read, so that the recorder stopped in an orderly way.
    #[must_use]
    pub fn ended(&self) -> bool {
        self.ended
    }

    /// The next event, or `None` at the end.
    ///
    /// # Errors
    ///
    /// Only if the operating system fails to read. Damage is no error.
    pub fn next_event(&mut self) -> Result<Option<Event<'_>>, Error> {
        loop {
            if self.block.has_next() {
                if self.block.next(&self.payload, &mut self.snapshot).is_some() {
                    return Ok(Some(Event::Snapshot(&self.snapshot)));
                }
                self.block.stop();
                self.frames.count_unknown();
            }
            let kind = match self.waiting.take() {
                Some(kind) => kind,
                None => match self.frames.next(&mut self.payload)? {
                    Some(kind) => kind,
                    None => return Ok(None),
                },
            };
            match kind {
                Kind::Snapshots => {
                    if self.block.start(&self.payload).is_none() {
                        self.frames.count_unknown();
                    }
                }
                Kind::Mappings => {
                    if let Some((t_ns, target)) = self.decode_mappings() {
                        let mappings = &self.mappings;
                        return Ok(Some(Event::Mappings { t_ns, target, mappings }));
                    }
                    self.frames.count_unknown();
                }
                Kind::Objects => match Objects::decode(&self.payload) {
                    Some(objects) => self.objects = objects,
                    None => self.frames.count_unknown(),
                },
                Kind::Frames => {
                    if frames::decode(&self.payload, &mut self.sample).is_some() {
                        return Ok(Some(Event::Frames(&self.sample)));
                    }
                    self.frames.count_unknown();
                }
                Kind::Pages => {
                    if pages::decode(&self.payload, &mut self.pages).is_some() {
                        return Ok(Some(Event::Pages(&self.pages)));
                    }
                    self.frames.count_unknown();
                }
                Kind::Event => {
                    if let Ok(small) = serde_json::from_slice(&self.payload) {
                        self.small = small;
                        return Ok(Some(self.small_event()));
                    }
                    self.frames.count_unknown();
                }
                Kind::Header => self.frames.count_unknown(),
            }
        }
    }

    /// The next rows of cgroups, or `None` at the end. All else is passed over, and only checked,
    /// which is many times as fast as reading it. Rows that [`Reader::next_event`] has gone past
    /// do not come again.
    ///
    /// # Errors
    ///
    /// Only if the operating system fails to read.
    pub fn next_cgroups(&mut self) -> Result<Option<&Cgroups>, Error> {
        loop {
            let kind = match self.waiting.take() {
                Some(Kind::Event) => Some(Kind::Event),
                Some(_) => continue,
                None => match self.frames.next_packed()? {
                    None => return Ok(None),
                    Some(frame) if frame.kind().is_some_and(|kind| kind != Kind::Event) => continue,
                    Some(frame) => self.frames.unpack(&frame, &mut self.payload),
                },
            };
            match serde_json::from_slice(&self.payload) {
                Ok(small) if kind == Some(Kind::Event) => self.small = small,
                _ => {
                    self.frames.count_unknown();
                    continue;
                }
            }
            self.ended |= matches!(self.small, Small::End(_));
            if matches!(self.small, Small::Cgroups(_)) {
                break;
            }
        }
        match &self.small {
            Small::Cgroups(cgroups) => Ok(Some(cgroups)),
            _ => Ok(None),
        }
    }

    /// Whether a frame was read of which events are left.
    #[cfg(feature = "arrow")]
    pub(crate) fn is_inside(&self) -> bool {
        self.waiting.is_some() || self.block.has_next()
    }

    /// The next frames as a record of their own, which another thread can read, and how many bytes
    /// of snapshots they unpack to: a little more than `raw_len`. `learn` is told of targets and
    /// mappings, so that it knows what the part behind this one needs. `None` at the end.
    ///
    /// Page maps and samples of frames are left out.
    ///
    /// # Errors
    ///
    /// Only if the operating system fails to read.
    #[cfg(feature = "arrow")]
    pub(crate) fn next_part(
        &mut self,
        raw_len: usize,
        mut learn: impl FnMut(&Event<'_>),
    ) -> Result<Option<(Vec<u8>, usize)>, Error> {
        let mut part = Vec::new();
        let mut snapshots = 0;
        while snapshots < raw_len
            && let Some(frame) = self.frames.next_packed()?
        {
            if matches!(frame.kind(), Some(Kind::Pages | Kind::Frames)) {
                continue;
            }
            if part.is_empty() {
                part.extend_from_slice(&crate::frame::file_header());
            }
            part.extend_from_slice(self.frames.bytes(&frame));
            if frame.kind() == Some(Kind::Snapshots) {
                snapshots += frame.raw_len();
                continue;
            }
            match self.frames.unpack(&frame, &mut self.payload) {
                Some(Kind::Mappings) => {
                    if let Some((t_ns, target)) = self.decode_mappings() {
                        learn(&Event::Mappings { t_ns, target, mappings: &self.mappings });
                    }
                }
                Some(Kind::Event) => {
                    if let Ok(small) = serde_json::from_slice(&self.payload) {
                        self.small = small;
                        learn(&self.small_event());
                    }
                }
                _ => {}
            }
        }
        Ok((!part.is_empty()).then_some((part, snapshots)))
    }

    /// When they were read, and whose they are.
    fn decode_mappings(&mut self) -> Option<(u64, u32)> {
        let of = mapping::decode(&self.payload, &mut self.mappings)?;
        self.objects.give_to(of, &mut self.mappings);
        Some(of)
    }

    fn small_event(&mut self) -> Event<'_> {
        match &self.small {
            Small::Target(t) => Event::Target(t),
            Small::Exec(e) => Event::Exec(e),
            Small::Exit(e) => Event::Exit(e),
            Small::Ram(r) => Event::Ram(r),
            Small::Cgroups(c) => Event::Cgroups(c),
            Small::Note(n) => Event::Note(n),
            Small::End(e) => {
                self.ended = true;
                Event::End(e)
            }
        }
    }
}
