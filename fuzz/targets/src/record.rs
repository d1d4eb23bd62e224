//! Record files: ours, and those of damo.

use isotherm_core::RegionInfo;
use isotherm_record::{Event, Record};

/// A record is read to its end, whatever is damaged, and twice the same.
///
/// Hardly any damage gets past the checksums of a record, so the bytes are also read with good
/// checksums: what is behind them must not trust them.
pub(crate) fn record(data: &[u8]) {
    read(data);
    read(&sealed(data));
}

/// A record of damo becomes one of ours in which regions are in order and nothing is damaged.
pub(crate) fn damo(data: &[u8]) {
    let Ok(record) = Record::from_bytes(data) else { return };
    if !record.is_of_damo() {
        return;
    }
    let mut reader = record.reader().expect("it was opened before");
    while let Some(event) = reader.next_event().expect("it is in memory") {
        let Event::Snapshot(s) = event else { continue };
        assert!(s.start <= s.end && s.max_nr_accesses > 0);
        for t in &s.targets {
            assert!(t.regions.windows(2).all(|two| two[0].range.end <= two[1].range.start));
            let fits =
                |r: &RegionInfo| r.range.start < r.range.end && r.nr_accesses <= s.max_nr_accesses;
            assert!(t.regions.iter().all(fits), "{:?}", t.regions);
        }
    }
    assert!(reader.ended() && reader.damage().is_none());
}

fn read(data: &[u8]) {
    let Ok(record) = Record::from_bytes(data) else { return };
    let read = || {
        let mut reader = record.reader().expect("it was opened before");
        let mut events = 0_u64;
        while let Ok(Some(_event)) = reader.next_event() {
            events += 1;
        }
        (events, reader.damage())
    };
    assert_eq!(read(), read(), "reading has no memory");
}

/// Bytes of the file's head and of a frame's head (`record/src/frame.rs` has the format).
const FILE_HEAD: usize = 16;
const FRAME_HEAD: usize = 32;
/// The largest unpacked payload here: larger ones only cost time.
const MAX_RAW: u32 = 1 << 20;

/// The same bytes with the magic numbers, lengths and checksums of a record.
fn sealed(data: &[u8]) -> Vec<u8> {
    let mut data = data.to_vec();
    if let Some((head, _)) = data.split_first_chunk_mut::<FILE_HEAD>() {
        head[..12].copy_from_slice(b"\x93ISOTHM\n\x01\0\0\0");
        let crc = crc32fast::hash(&head[..12]);
        head[12..].copy_from_slice(&crc.to_le_bytes());
    }
    let mut rest = data.get_mut(FILE_HEAD..).unwrap_or_default();
    while let Some((head, behind)) = rest.split_first_chunk_mut::<FRAME_HEAD>() {
        let word =
            |at: usize| u32::from_le_bytes([head[at], head[at + 1], head[at + 2], head[at + 3]]);
        let len = (word(8) as usize).min(behind.len());
        let raw_len = word(12) % MAX_RAW;
        let (payload, next) = behind.split_at_mut(len);
        head[..4].copy_from_slice(b"\xf1Iso");
        head[8..12].copy_from_slice(&u32::try_from(len).unwrap_or(u32::MAX).to_le_bytes());
        head[12..16].copy_from_slice(&raw_len.to_le_bytes());
        head[24..28].copy_from_slice(&crc32fast::hash(payload).to_le_bytes());
        let crc = crc32fast::hash(&head[..28]);
        head[28..].copy_from_slice(&crc.to_le_bytes());
        rest = next;
    }
    data
}
