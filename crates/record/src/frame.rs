//! Frames, the only structure of the file. They make it safe to kill a recorder at any moment.
//!
//! A file is 16 bytes (magic, format version, CRC) and then frames:
//!
//! ```text
//!  0  magic        4   F1 'I' 's' 'o'
//!  4  kind         1   see [`Kind`]
//!  5  flags        1   bit 0: the payload is one LZ4 block
//!  6  zero         2
//!  8  length       4   of the payload, on disk
//! 12  raw length   4   of the payload, unpacked
//! 16  number       8   counts frames from 0; a gap in what is read says how many were lost
//! 24  payload CRC  4   CRC-32 of the payload, on disk
//! 28  header CRC   4   CRC-32 of the 28 bytes before
//! 32  payload
//! ```
//!
//! All numbers are little endian. **A frame counts only if both CRCs are good.** The header has its
//! own CRC, so a damaged length is never used. After a bad frame the scanner searches for the next
//! magic number. If no good frame follows, the rest is a *torn tail* (the recorder died while it
//! wrote). Otherwise it is a *bad frame* in the middle. No frame refers to the bytes of another
//! frame.

use std::io::{ErrorKind, Read};

use crate::error::Error;
use crate::format::{MAX_PAYLOAD, VERSION};

const FILE_MAGIC: [u8; 8] = *b"\x93ISOTHM\n";
const MAGIC: [u8; 4] = *b"\xf1Iso";
const FILE_HEADER_LEN: usize = 16;
const HEADER_LEN: usize = 32;
const FLAG_LZ4: u8 = 1;

/// What a frame holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// JSON of [`crate::Header`].
    Header,
    /// JSON of one small event.
    Event,
    /// One target's mappings.
    Mappings,
    /// About a second of snapshots, in columns.
    Snapshots,
    /// A sample of page frames. Older readers skip it and count it as unknown.
    Frames,
    /// Working sets by span, and maps of single pages. Older readers skip it, too.
    Pages,
    /// What the mappings of the next frame map. Older readers skip it, too.
    Objects,
}

impl Kind {
    const fn code(self) -> u8 {
        match self {
            Self::Header => 1,
            Self::Event => 2,
            Self::Mappings => 3,
            Self::Snapshots => 4,
            Self::Frames => 5,
            Self::Pages => 6,
            Self::Objects => 7,
        }
    }

    fn from_code(code: u8) -> Option<Self> {
        let all = [
            Self::Header,
            Self::Event,
            Self::Mappings,
            Self::Snapshots,
            Self::Frames,
            Self::Pages,
            Self::Objects,
        ];
        all.into_iter().find(|k| k.code() == code)
    }
}

/// The first bytes of a file.
pub(crate) fn file_header() -> [u8; FILE_HEADER_LEN] {
    let mut out = [0; FILE_HEADER_LEN];
    out[..8].copy_from_slice(&FILE_MAGIC);
    out[8..12].copy_from_slice(&VERSION.to_le_bytes());
    let crc = crc32fast::hash(&out[..12]);
    out[12..].copy_from_slice(&crc.to_le_bytes());
    out
}

/// Builds one complete frame in `out`, which it empties first.
///
/// # Errors
///
/// [`Error::TooLarge`].
pub(crate) fn build(
    out: &mut Vec<u8>,
    kind: Kind,
    number: u64,
    payload: &[u8],
) -> Result<(), Error> {
    let too_large = || Error::TooLarge { sz: payload.len() };
    if payload.len() > MAX_PAYLOAD {
        return Err(too_large());
    }
    let raw_len = u32::try_from(payload.len()).map_err(|_never| too_large())?;
    let mut flags = 0;
    out.clear();
    out.resize(HEADER_LEN + lz4_flex::block::get_maximum_output_size(payload.len()), 0);
    let packed = lz4_flex::block::compress_into(payload, &mut out[HEADER_LEN..]);
    let len = match packed {
        Ok(n) if n < payload.len() => {
            flags |= FLAG_LZ4;
            n
        }
        _ => {
            out[HEADER_LEN..HEADER_LEN + payload.len()].copy_from_slice(payload);
            payload.len()
        }
    };
    out.truncate(HEADER_LEN + len);
    let len = u32::try_from(len).map_err(|_never| too_large())?;
    let payload_crc = crc32fast::hash(&out[HEADER_LEN..]);
    out[..4].copy_from_slice(&MAGIC);
    out[4] = kind.code();
    out[5] = flags;
    out[8..12].copy_from_slice(&len.to_le_bytes());
    out[12..16].copy_from_slice(&raw_len.to_le_bytes());
    out[16..24].copy_from_slice(&number.to_le_bytes());
    out[24..28].copy_from_slice(&payload_crc.to_le_bytes());
    let header_crc = crc32fast::hash(&out[..28]);
    out[28..32].copy_from_slice(&header_crc.to_le_bytes());
    Ok(())
}

/// What could not be read. All fields are zero for a record without damage.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Damage {
    /// Places in the middle where bytes were skipped until the next good frame.
    pub bad_spots: u64,
    /// Bytes skipped at these places.
    pub skipped_bytes: u64,
    /// Good frames whose content this version does not understand.
    pub unknown_frames: u64,
    /// Frames that were written and are missing, by their numbers.
    pub lost_frames: u64,
    /// Bytes behind the last good frame: the frame that a killed recorder did not finish.
    pub torn_bytes: u64,
}

impl Damage {
    /// Whether everything was readable.
    #[must_use]
    pub fn is_none(&self) -> bool {
        *self == Self::default()
    }
}

impl std::fmt::Display for Damage {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let mut parts = Vec::new();
        if self.bad_spots > 0 {
            parts.push(format!(
                "{} damaged place(s) skipped ({} bytes, {} frames lost)",
                self.bad_spots, self.skipped_bytes, self.lost_frames
            ));
        } else if self.lost_frames > 0 {
            parts.push(format!("{} frame(s) lost", self.lost_frames));
        }
        if self.unknown_frames > 0 {
            parts.push(format!("{} frame(s) of an unknown kind skipped", self.unknown_frames));
        }
        if self.torn_bytes > 0 {
            parts.push(format!("torn tail: the last {} bytes are incomplete", self.torn_bytes));
        }
        f.write_str(&parts.join("; "))
    }
}

/// A good frame as it lies in the buffer of its [`Scanner`], until the next one is asked for.
#[derive(Debug)]
pub(crate) struct Packed {
    header: FrameHeader,
    at: std::ops::Range<usize>,
}

impl Packed {
    /// `None` if this version does not know the kind.
    pub(crate) fn kind(&self) -> Option<Kind> {
        self.header.kind
    }

    /// Bytes of the payload, unpacked.
    #[cfg(feature = "arrow")]
    pub(crate) fn raw_len(&self) -> usize {
        self.header.raw_len
    }
}

#[derive(Debug)]
struct FrameHeader {
    kind: Option<Kind>,
    lz4: bool,
    len: usize,
    raw_len: usize,
    number: u64,
    payload_crc: u32,
}

/// Finds good frames in a stream of bytes and unpacks them.
#[derive(Debug)]
pub(crate) struct Scanner<R> {
    input: R,
    name: String,
    buf: Vec<u8>,
    pos: usize,
    eof: bool,
    next_number: u64,
    damage: Damage,
}

impl<R: Read> Scanner<R> {
    /// Reads and checks the file's first bytes. `name` is for messages.
    pub(crate) fn new(input: R, name: &str) -> Result<Self, Error> {
        let mut s = Self {
            input,
            name: name.into(),
            buf: Vec::new(),
            pos: 0,
            eof: false,
            next_number: 0,
            damage: Damage::default(),
        };
        s.fill(FILE_HEADER_LEN)?;
        let head = &s.buf[..s.buf.len().min(FILE_HEADER_LEN)];
        if head.is_empty() {
            return Err(Error::Empty);
        }
        let magic = &head[..head.len().min(8)];
        if magic != &FILE_MAGIC[..magic.len()] {
            return Err(Error::Foreign);
        }
        if head.len() < FILE_HEADER_LEN {
            return Err(Error::Truncated);
        }
        let version = le_u32(head, 8);
        if le_u32(head, 12) == crc32fast::hash(&head[..12]) {
            if version > VERSION {
                return Err(Error::Newer { found: version });
            }
        } else {
            // Each frame has its own checksums, so damage to the file's first bytes loses nothing.
            s.damage.bad_spots += 1;
            s.damage.skipped_bytes += FILE_HEADER_LEN as u64;
        }
        s.pos = FILE_HEADER_LEN;
        Ok(s)
    }

    pub(crate) fn damage(&self) -> Damage {
        self.damage
    }

    /// Counts a good frame whose content the caller could not understand.
    pub(crate) fn count_unknown(&mut self) {
        self.damage.unknown_frames += 1;
    }

    /// Unpacks the next good frame into `payload`.
    pub(crate) fn next(&mut self, payload: &mut Vec<u8>) -> Result<Option<Kind>, Error> {
        while let Some(frame) = self.next_packed()? {
            if let Some(kind) = self.unpack(&frame, payload) {
                return Ok(Some(kind));
            }
            self.count_unknown();
        }
        Ok(None)
    }

    /// Goes on to the next good frame, which is not unpacked.
    pub(crate) fn next_packed(&mut self) -> Result<Option<Packed>, Error> {
        let mut skipped = 0u64;
        let header = loop {
            if let Some(h) = self.good_frame()? {
                break h;
            }
            if self.available() == 0 {
                self.damage.torn_bytes += skipped;
                return Ok(None);
            }
            skipped += self.skip_to_magic()?;
        };
        if skipped > 0 {
            self.damage.bad_spots += 1;
            self.damage.skipped_bytes += skipped;
        }
        // A forged file may have any frame numbers, so the difference saturates.
        let lost = header.number.saturating_sub(self.next_number);
        self.damage.lost_frames = self.damage.lost_frames.saturating_add(lost);
        self.next_number = header.number.saturating_add(1);
        let from = self.pos;
        self.pos = from + HEADER_LEN + header.len;
        Ok(Some(Packed { header, at: from..self.pos }))
    }

    /// The bytes of the last frame, its header included.
    pub(crate) fn bytes(&self, frame: &Packed) -> &[u8] {
        &self.buf[frame.at.clone()]
    }

    /// Unpacks the last frame. `None` if this version does not understand it.
    pub(crate) fn unpack(&self, frame: &Packed, payload: &mut Vec<u8>) -> Option<Kind> {
        let bytes = &self.bytes(frame)[HEADER_LEN..];
        if unpack(&frame.header, bytes, payload) { frame.header.kind } else { None }
    }

    /// The frame at the present position, if both its checksums are good.
    fn good_frame(&mut self) -> Result<Option<FrameHeader>, Error> {
        self.fill(HEADER_LEN)?;
        if self.available() < HEADER_LEN {
            return Ok(None);
        }
        let Some(h) = parse_header(&self.buf[self.pos..self.pos + HEADER_LEN]) else {
            return Ok(None);
        };
        self.fill(HEADER_LEN + h.len)?;
        if self.available() < HEADER_LEN + h.len {
            return Ok(None);
        }
        let from = self.pos + HEADER_LEN;
        let good = crc32fast::hash(&self.buf[from..from + h.len]) == h.payload_crc;
        Ok(good.then_some(h))
    }

    /// Moves forward by at least one byte, to what could be a frame. Returns the number of bytes
    /// skipped.
    fn skip_to_magic(&mut self) -> Result<u64, Error> {
        let mut skipped = 1u64;
        self.pos += 1;
        loop {
            self.fill(MAGIC.len())?;
            let rest = &self.buf[self.pos..];
            if rest.len() < MAGIC.len() {
                skipped += rest.len() as u64;
                self.pos = self.buf.len();
                return Ok(skipped);
            }
            if let Some(at) = rest.windows(MAGIC.len()).position(|w| w == MAGIC) {
                self.pos += at;
                return Ok(skipped + at as u64);
            }
            let step = rest.len() - (MAGIC.len() - 1);
            self.pos += step;
            skipped += step as u64;
        }
    }

    fn available(&self) -> usize {
        self.buf.len() - self.pos
    }

    /// Reads until `n` bytes are available at the position, or the input ends.
    fn fill(&mut self, n: usize) -> Result<(), Error> {
        if self.available() >= n || self.eof {
            return Ok(());
        }
        self.buf.drain(..self.pos);
        self.pos = 0;
        while self.buf.len() < n {
            let old = self.buf.len();
            let want = (n - old).max(64 << 10);
            self.buf.resize(old + want, 0);
            let got = self.input.read(&mut self.buf[old..]);
            self.buf.truncate(old + *got.as_ref().unwrap_or(&0));
            match got {
                Ok(0) => {
                    self.eof = true;
                    break;
                }
                Ok(_) => {}
                Err(e) if e.kind() == ErrorKind::Interrupted => {}
                Err(e) => return Err(Error::io(format!("read {}", self.name))(e)),
            }
        }
        Ok(())
    }
}

fn parse_header(h: &[u8]) -> Option<FrameHeader> {
    if h[..4] != MAGIC || le_u32(h, 28) != crc32fast::hash(&h[..28]) {
        return None;
    }
    let len = usize::try_from(le_u32(h, 8)).ok()?;
    let raw_len = usize::try_from(le_u32(h, 12)).ok()?;
    if len > MAX_PAYLOAD || raw_len > MAX_PAYLOAD {
        return None;
    }
    let number = u64::from(le_u32(h, 16)) | u64::from(le_u32(h, 20)) << 32;
    let kind = Kind::from_code(h[4]);
    Some(FrameHeader {
        kind,
        lz4: h[5] & FLAG_LZ4 != 0,
        len,
        raw_len,
        number,
        payload_crc: le_u32(h, 24),
    })
}

fn unpack(h: &FrameHeader, bytes: &[u8], payload: &mut Vec<u8>) -> bool {
    payload.clear();
    if !h.lz4 {
        payload.extend_from_slice(bytes);
        return bytes.len() == h.raw_len;
    }
    payload.resize(h.raw_len, 0);
    lz4_flex::block::decompress_into(bytes, payload).is_ok_and(|n| n == h.raw_len)
}

fn le_u32(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]])
}
