//! Records of damo, the user's tool of the kernel's DAMON: read as if they were ours.
//!
//! The formats are those of damo 3.4.3: `json_compressed` (its default), `json`, and the text that
//! `perf script` or `trace-cmd report` print of the event `damon_aggregated`. [`Record::open`]
//! knows them by their first bytes, so whatever takes a record takes them.
//! [`export::damo`](crate::export::damo) writes what damo's reports open.
//!
//! What damo's formats do not hold is told in a note of the record that comes out:
//!
//! | damo has no | so here |
//! |---|---|
//! | names, pids, mappings | a target is called by its number |
//! | error bars | they are those of a sample with one look per sample interval, as DAMON takes it |
//! | intervals, in texts | a window is as long as most are, of 20 samples, or the highest count |
//! | wall clock, host | they are empty |
//!
//! Absent: damo's other files (`.mem_footprint`, `.proc_stats`, ...), and `perf.data`, which only
//! `perf script` can read.
//!
//! [`Record::open`]: crate::Record::open

mod json;
mod numbers;
mod series;
mod trace;

use std::io::{BufReader, Read};

use flate2::read::ZlibDecoder;

use crate::error::Error;
use series::Series;

/// The formats that are read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Format {
    JsonCompressed,
    Json,
    Trace,
}

/// How many bytes of a file tell which format it has.
pub(crate) const HEAD: usize = 4096;

/// The first bytes of a file that `perf record` wrote.
const PERF_DATA: &[u8] = b"PERFILE2";

/// The format of a file that begins with `head`, if damo could have written it.
fn format_of(head: &[u8]) -> Option<Format> {
    // The head of a zlib stream with deflate, which is divisible by 31.
    if let [0x78, flags, ..] = head
        && (0x7800 | u16::from(*flags)) % 31 == 0
    {
        return Some(Format::JsonCompressed);
    }
    let text = head.trim_ascii_start();
    if text.starts_with(b"[") && text[1..].trim_ascii_start().starts_with(b"{") {
        return Some(Format::Json);
    }
    let is_event = |line: &[u8]| line.windows(EVENT.len()).any(|part| part == EVENT);
    (std::str::from_utf8(head).is_ok() && is_event(head)).then_some(Format::Trace)
}

const EVENT: &[u8] = b"damon_aggregated: ";

/// Whether a file that begins with `head` is to be read by [`read`].
pub(crate) fn looks_like_one(head: &[u8]) -> bool {
    head.starts_with(PERF_DATA) || format_of(head).is_some()
}

/// Reads a record of damo, which begins with `head` and goes on with `rest`. Returns the bytes of a
/// record of ours.
pub(crate) fn read(name: &str, head: &[u8], rest: impl Read) -> Result<Vec<u8>, Error> {
    let input = BufReader::new(head.chain(rest));
    let (series, notes) = match format_of(head) {
        Some(Format::JsonCompressed) => json::read(name, BufReader::new(ZlibDecoder::new(input)))?,
        Some(Format::Json) => json::read(name, input)?,
        Some(Format::Trace) => trace::read(name, input)?,
        None => {
            return Err(Error::damo(
                "it is a file of `perf record`, in a format that only perf can read",
                "perf script -i FILE > FILE.txt, and read that",
            ));
        }
    };
    series::record(series, notes)
}

/// Series of windows, and notes about what could not be read.
type Found = (Vec<Series>, Vec<String>);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn formats_are_known_by_their_first_bytes() {
        for (head, want) in [
            (&b"\x78\x9c\xed"[..], Some(Format::JsonCompressed)),
            (b"\x78\x01", Some(Format::JsonCompressed)),
            (b"\x78\x9d", None),
            (b"x", None),
            (b"[\n    {", Some(Format::Json)),
            (b"[1]", None),
            (b"{", None),
            (b"kdamond.0 1 [0] 1.0: damon:damon_aggregated: target_id=0", Some(Format::Trace)),
            (b"version = 7\nkdamond.0-1 [0] 1.0: damon_aggregated: t", Some(Format::Trace)),
            (b"hello", None),
            (b"", None),
        ] {
            assert_eq!(format_of(head), want, "{}", String::from_utf8_lossy(head));
        }
        assert!(looks_like_one(b"PERFILE2...") && !looks_like_one(b"\x93ISOTHM\n"));
    }
}
