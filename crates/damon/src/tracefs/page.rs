//! One page of a ring buffer, as `trace_pipe_raw` gives it, decoded into events.
//!
//! The layout is that of `kernel/trace/ring_buffer.c`. It did not change from Linux 2.6.30 to 7.2,
//! and is part of the ABI: trace-cmd files hold these pages.
//!
//! A page holds the time of its first event, the length of its data, and events. An event has a
//! 32-bit header: 5 bits of type or length, and 27 bits of nanoseconds since the event before.

use super::format::PageHeader;

/// `COMMIT_MASK`: the length is in the lower bits, flags are in the upper ones.
const LEN_MASK: u64 = (1 << 27) - 1;
/// `RB_MISSED_EVENTS`: events were lost before this page.
const MISSED: u64 = 1 << 31;
/// `RB_MISSED_STORED`: how many is told behind the events.
const MISSED_STORED: u64 = 1 << 30;

const TYPE_PADDING: u32 = 29;
const TYPE_TIME_EXTEND: u32 = 30;
const TYPE_TIME_STAMP: u32 = 31;
const DELTA_BITS: u32 = 27;
/// An absolute time stamp has 59 bits. The upper five bits are those of the time before.
const STAMP_BITS: u32 = 59;

/// The bytes of one event, and its time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Payload<'p> {
    /// When the kernel wrote the event, in ns of the trace's clock.
    pub ns: u64,
    /// The event, from `common_type` on. It may be some bytes longer than the event's fields.
    pub bytes: &'p [u8],
}

/// A page that is not laid out as it should be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Broken {
    /// Offset in the page.
    pub at: usize,
}

/// The events of a page, in order.
#[derive(Debug, Clone)]
pub struct Page<'p> {
    page: &'p [u8],
    at: usize,
    end: usize,
    ns: u64,
    missed: Option<Option<u64>>,
}

impl<'p> Page<'p> {
    /// Reads the page's header.
    ///
    /// # Errors
    ///
    /// If the page is shorter than it says.
    pub fn new(page: &'p [u8], header: &PageHeader) -> Result<Self, Broken> {
        let commit = header.commit.of(page).ok_or(Broken { at: 0 })?;
        let ns = header.timestamp.of(page).ok_or(Broken { at: 0 })?;
        let len = usize::try_from(commit & LEN_MASK).unwrap_or(usize::MAX);
        let end = header.data.saturating_add(len);
        if page.len() < end {
            return Err(Broken { at: header.data });
        }
        let stored = || {
            let bytes = page.get(end..end.checked_add(8)?)?;
            // The kernel gives a negative number when it has lost count.
            u64::try_from(i64::from_ne_bytes(bytes.try_into().ok()?)).ok()
        };
        let missed = (commit & MISSED != 0)
            .then(|| if commit & MISSED_STORED != 0 { stored() } else { None });
        Ok(Self { page, at: header.data, end, ns, missed })
    }

    /// When the page's first event was, in ns of the trace's clock.
    #[must_use]
    pub const fn start_ns(&self) -> u64 {
        self.ns
    }

    /// Whether events were lost right before this page, and how many if the kernel tells.
    #[must_use]
    pub const fn missed(&self) -> Option<Option<u64>> {
        self.missed
    }

    fn word(&self, at: usize) -> Result<u32, Broken> {
        let bytes = self.page.get(at..at + 4).filter(|_| at + 4 <= self.end);
        let bytes = bytes.and_then(|b| b.try_into().ok());
        bytes.map(u32::from_ne_bytes).ok_or(Broken { at })
    }

    fn step(&mut self) -> Result<Option<Payload<'p>>, Broken> {
        while self.at < self.end {
            let header_at = self.at;
            let header = self.word(header_at)?;
            // The bit field's order follows the machine's byte order.
            let (kind, delta) = if cfg!(target_endian = "little") {
                (header & 31, header >> 5)
            } else {
                (header >> DELTA_BITS, header & ((1 << DELTA_BITS) - 1))
            };
            let data = header_at + 4;
            match kind {
                // A page's rest that was given up: nothing follows.
                TYPE_PADDING if delta == 0 => {
                    self.at = self.end;
                    return Ok(None);
                }
                // A discarded event: its time counts, its bytes do not.
                TYPE_PADDING => {
                    let len = self.word(data)?;
                    self.ns = self.ns.wrapping_add(u64::from(delta));
                    self.skip(header_at, data, len as usize)?;
                }
                TYPE_TIME_EXTEND => {
                    let high = u64::from(self.word(data)?);
                    self.ns = self.ns.wrapping_add((high << DELTA_BITS) + u64::from(delta));
                    self.at = data + 4;
                }
                TYPE_TIME_STAMP => {
                    let high = u64::from(self.word(data)?);
                    let stamp = ((high << DELTA_BITS) + u64::from(delta)) & ((1 << STAMP_BITS) - 1);
                    self.ns = self.ns >> STAMP_BITS << STAMP_BITS | stamp;
                    self.at = data + 4;
                }
                0 => {
                    // The length includes the word that holds it.
                    let len = self.word(data)? as usize;
                    self.ns = self.ns.wrapping_add(u64::from(delta));
                    self.skip(header_at, data, len)?;
                    let bytes =
                        self.page.get(data + 4..data + len).ok_or(Broken { at: header_at })?;
                    return Ok(Some(Payload { ns: self.ns, bytes }));
                }
                words => {
                    let len = words as usize * 4;
                    self.ns = self.ns.wrapping_add(u64::from(delta));
                    self.skip(header_at, data, len)?;
                    let bytes = self.page.get(data..data + len).ok_or(Broken { at: header_at })?;
                    return Ok(Some(Payload { ns: self.ns, bytes }));
                }
            }
        }
        Ok(None)
    }

    /// Continues behind `len` bytes from `data`. Events are aligned to four bytes.
    fn skip(&mut self, event: usize, data: usize, len: usize) -> Result<(), Broken> {
        let next = data.saturating_add(len).next_multiple_of(4);
        if len < 4 || next > self.end {
            return Err(Broken { at: event });
        }
        self.at = next;
        Ok(())
    }
}

impl<'p> Iterator for Page<'p> {
    type Item = Result<Payload<'p>, Broken>;

    fn next(&mut self) -> Option<Self::Item> {
        let step = self.step();
        if step.is_err() {
            self.at = self.end;
        }
        step.transpose()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEADER: &str = "\tfield: u64 timestamp;\toffset:0;\tsize:8;\tsigned:0;\n\
        \tfield: local_t commit;\toffset:8;\tsize:8;\tsigned:1;\n\
        \tfield: char overwrite;\toffset:8;\tsize:1;\tsigned:0;\n\
        \tfield: char data;\toffset:16;\tsize:4080;\tsigned:0;\n";

    fn page(flags: u64, words: &[u32], behind: &[u8]) -> Vec<u8> {
        let mut page = 1000_u64.to_ne_bytes().to_vec();
        page.extend((flags | (words.len() as u64 * 4)).to_ne_bytes());
        for word in words {
            page.extend(word.to_ne_bytes());
        }
        page.extend(behind);
        page.resize(4096, 0);
        page
    }

    fn head(kind: u32, delta: u32) -> u32 {
        if cfg!(target_endian = "little") { delta << 5 | kind } else { kind << 27 | delta }
    }

    fn events(page: &[u8]) -> Vec<Result<(u64, usize), Broken>> {
        let header = PageHeader::parse(HEADER).unwrap();
        assert_eq!(header.page_len(), 4096);
        Page::new(page, &header).unwrap().map(|p| p.map(|p| (p.ns, p.bytes.len()))).collect()
    }

    #[test]
    fn every_kind_of_entry() {
        let words = [
            head(2, 0),
            1,
            2, // two words
            head(0, 5),
            16,
            1,
            2,
            3, // a length, with itself
            head(TYPE_PADDING, 7),
            8,
            0, // discarded
            head(TYPE_TIME_EXTEND, 1),
            2,
            head(1, 3),
            9,
            head(TYPE_TIME_STAMP, 40),
            1,
            head(1, 2),
            9,
            head(TYPE_PADDING, 0),
            0xffff_ffff, // the rest of the page
        ];
        let extended = 1012 + (2 << 27) + 1 + 3;
        let stamped = (1 << 27) + 40 + 2;
        let expected = [(1000, 8), (1005, 12), (extended, 4), (stamped, 4)].map(Ok);
        assert_eq!(events(&page(0, &words, &[])), expected);
    }

    #[test]
    fn losses_are_told() {
        let header = PageHeader::parse(HEADER).unwrap();
        for (flags, behind, expected) in [
            (0, 0, None),
            (MISSED, 0, Some(None)),
            (MISSED | MISSED_STORED, 42, Some(Some(42))),
            (MISSED | MISSED_STORED, -1, Some(None)),
        ] {
            let page = page(flags, &[head(1, 0), 9], &i64::to_ne_bytes(behind));
            assert_eq!(Page::new(&page, &header).unwrap().missed(), expected);
            assert_eq!(events(&page), [Ok((1000, 4))]);
        }
    }

    #[test]
    fn broken_pages_end_with_an_error() {
        for words in [&[head(28, 0), 1][..], &[head(0, 0)], &[head(0, 0), 3, 0], &[head(0, 0), 90]]
        {
            let events = events(&page(0, words, &[]));
            assert!(matches!(events[..], [Err(_)]), "{words:?}: {events:?}");
        }
        let header = PageHeader::parse(HEADER).unwrap();
        assert!(Page::new(&page(0, &[0; 2000], &[])[..4096], &header).is_err());
        assert!(Page::new(&[0; 15], &header).is_err());
    }
}
