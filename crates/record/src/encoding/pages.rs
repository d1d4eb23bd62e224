//! Encodes page maps in columns, in a frame that needs no other frame.
//!
//! ```text
//! length of each column       varint each
//! META     windows: number, and for each its times and number of working sets;
//!          units: shift of their addresses, number of targets, and for each its id and number
//! TOUCHED  working sets: id, watched bytes, one bit per measured span, and four numbers for each
//! PLACE    units: where they start, as the distance from the end of the last one
//! WINDOW   the window in which a unit changed
//! SINCE    when it was made old, as the distance from that of the last one; after it, if the leaf
//!          size has its second bit, when a look had seen nothing of what was found, from that
//! TAGS     leaf size, and one tag for each of present, unresolved and the planes of the spans; if
//!          the leaf size has its highest bit, one for what was found; and if it has the next one,
//!          one for what was touched since it was made old
//! BITS     what the tags announce, see [`crate::encoding::planes`]
//! ```
//!
//! Planes are mostly nested: what was touched within 5 ms was also touched within 100 ms. So each
//! plane is written as its difference from no page, from all pages that are mapped, or from the
//! plane of the next shorter span, whichever is smallest. Working sets are differences from those
//! of the window before. LZ4 follows, for which each column is apart. Everything is exact.

use isotherm_core::unit::UNIT;
use isotherm_core::{PageBits, SPANS, TargetId, Time, Touched, TouchedBytes, UnitInfo};

use crate::encoding::planes;
use crate::encoding::varint::{self, Cursor, unzigzag, zigzag};
use crate::pages::{ChangedUnit, MOST_ITEMS, PageWindow, Pages};

const COLUMNS: usize = 7;
const META: usize = 0;
const TOUCHED: usize = 1;
const PLACE: usize = 2;
const WINDOW: usize = 3;
const SINCE: usize = 4;
const TAGS: usize = 5;
const BITS: usize = 6;

/// The shift of addresses if all units are aligned.
const UNIT_SHIFT: u32 = UNIT.trailing_zeros();
/// The bit of a leaf size that tells that what was found follows. Format version 2.
const HAS_FOUND: u8 = 0x80;
/// The bit of a leaf size that tells that what was touched since then follows, and in another
/// column when a look had seen nothing of what was found. Format version 3.
const HAS_YOUNG: u8 = 0x40;
/// The tag of a span that was not measured.
const NOT_MEASURED: u8 = u8::MAX;
const NONE: PageBits = PageBits([0; 8]);

type Columns = [Vec<u8>; COLUMNS];
type Cursors<'a> = [Cursor<'a>; COLUMNS];

/// Appends a frame's payload to `out`. The units are sorted by target.
pub(crate) fn encode(out: &mut Vec<u8>, pages: &Pages) {
    let mut columns = Columns::default();
    put_windows(&mut columns, &pages.windows);
    let aligned = pages.units.iter().all(|u| u.unit.start.trailing_zeros() >= UNIT_SHIFT);
    let shift = if aligned { UNIT_SHIFT } else { 0 };
    varint::put(&mut columns[META], u64::from(shift));
    let groups: Vec<_> = pages.units.chunk_by(|a, b| a.target == b.target).collect();
    varint::put(&mut columns[META], groups.len() as u64);
    let mut last = ChangedUnit::default();
    for group in groups {
        varint::put(&mut columns[META], u64::from(group[0].target.0));
        varint::put(&mut columns[META], group.len() as u64);
        for unit in group {
            put_unit(&mut columns, &last, unit, shift);
            last = *unit;
        }
    }
    columns.iter().for_each(|column| varint::put(out, column.len() as u64));
    columns.iter().for_each(|column| out.extend_from_slice(column));
}

/// Decodes what [`encode`] wrote. Returns `None` if the bytes are not what it writes, or hold more
/// than a writer puts into one frame; the content of `pages` is unspecified then.
pub(crate) fn decode(payload: &[u8], pages: &mut Pages) -> Option<()> {
    let mut c = split(payload)?;
    take_windows(&mut c, &mut pages.windows)?;
    let shift = c[META].get_u32()?;
    if shift != 0 && shift != UNIT_SHIFT {
        return None;
    }
    pages.units.clear();
    let mut last = ChangedUnit::default();
    for _ in 0..take_count(&mut c[META])? {
        let target = TargetId(c[META].get_u32()?);
        let nr = usize::try_from(c[META].get()?).ok()?;
        if nr > MOST_ITEMS - pages.units.len() {
            return None;
        }
        for _ in 0..nr {
            let unit = take_unit(&mut c, &last, shift)?;
            last = ChangedUnit { target, ..unit };
            if usize::try_from(last.window).ok()? >= pages.windows.len() {
                return None;
            }
            pages.units.push(last);
        }
    }
    c.iter().all(|column| column.len() == 0).then_some(())
}

fn split(payload: &[u8]) -> Option<Cursors<'_>> {
    let mut c = Cursor::new(payload);
    let mut lens = [0; COLUMNS];
    for len in &mut lens {
        *len = c.get_count(payload.len())?;
    }
    let mut columns = [Cursor::new(&[]); COLUMNS];
    for (column, len) in columns.iter_mut().zip(lens) {
        *column = Cursor::new(c.take(len)?);
    }
    (c.len() == 0).then_some(columns)
}

/// A number of items, each of which takes at least one byte.
fn take_count(c: &mut Cursor<'_>) -> Option<usize> {
    c.get_count(c.len().min(MOST_ITEMS))
}

fn put_windows(columns: &mut Columns, windows: &[PageWindow]) {
    varint::put(&mut columns[META], windows.len() as u64);
    let mut last = &PageWindow::default();
    for window in windows {
        let meta = &mut columns[META];
        varint::put_delta(meta, last.seq.wrapping_add(1), window.seq);
        varint::put_delta(meta, last.end.0, window.start.0);
        varint::put_delta(meta, window.start.0, window.end.0);
        varint::put_delta(meta, last.sample_us, window.sample_us);
        varint::put_delta(meta, last.aggr_us, window.aggr_us);
        varint::put(meta, window.touched.len() as u64);
        for (nth, (id, touched)) in window.touched.iter().enumerate() {
            let base = base_of(&last.touched, nth, *id);
            put_touched(&mut columns[TOUCHED], *id, &base, touched);
        }
        last = window;
    }
}

fn take_windows(c: &mut Cursors<'_>, windows: &mut Vec<PageWindow>) -> Option<()> {
    windows.clear();
    let mut left = MOST_ITEMS;
    let none = PageWindow::default();
    for _ in 0..take_count(&mut c[META])? {
        let last = windows.last().unwrap_or(&none);
        let meta = &mut c[META];
        let seq = meta.get_delta(last.seq.wrapping_add(1))?;
        let start = Time(meta.get_delta(last.end.0)?);
        let end = Time(meta.get_delta(start.0)?);
        let sample_us = meta.get_delta(last.sample_us)?;
        let aggr_us = meta.get_delta(last.aggr_us)?;
        let nr = meta.get_count(left)?;
        left -= nr;
        let mut touched = Vec::new();
        for nth in 0..nr {
            touched.push(take_touched(&mut c[TOUCHED], &last.touched, nth)?);
        }
        windows.push(PageWindow { seq, start, end, sample_us, aggr_us, touched });
    }
    Some(())
}

/// The working set that the `nth` one of the next window is written against.
fn base_of(last: &[(TargetId, Touched)], nth: usize, id: TargetId) -> Touched {
    last.get(nth).filter(|(of, _)| *of == id).map_or_else(Touched::default, |(_, touched)| *touched)
}

fn put_touched(out: &mut Vec<u8>, id: TargetId, base: &Touched, touched: &Touched) {
    varint::put(out, u64::from(id.0));
    varint::put_delta(out, base.watched, touched.watched);
    let measured = (0..).zip(&touched.spans).map(|(nr, span)| u64::from(span.is_some()) << nr);
    varint::put(out, measured.sum());
    for (base, span) in base.spans.iter().zip(&touched.spans) {
        let (base, Some(span)) = (base.unwrap_or_default(), span) else { continue };
        varint::put_delta(out, base.bytes, span.bytes);
        varint::put_delta(out, base.lo, span.lo);
        varint::put_delta(out, base.hi, span.hi);
        varint::put_delta(out, base.measured, span.measured);
    }
}

fn take_touched(
    c: &mut Cursor<'_>,
    last: &[(TargetId, Touched)],
    nth: usize,
) -> Option<(TargetId, Touched)> {
    let id = TargetId(c.get_u32()?);
    let base = base_of(last, nth, id);
    let mut touched = Touched { watched: c.get_delta(base.watched)?, ..Touched::default() };
    let measured = c.get()?;
    if measured >= 1 << SPANS {
        return None;
    }
    for (nr, (base, span)) in base.spans.iter().zip(&mut touched.spans).enumerate() {
        if measured >> nr & 1 == 1 {
            let base = base.unwrap_or_default();
            *span = Some(TouchedBytes {
                bytes: c.get_delta(base.bytes)?,
                lo: c.get_delta(base.lo)?,
                hi: c.get_delta(base.hi)?,
                measured: c.get_delta(base.measured)?,
            });
        }
    }
    Some((id, touched))
}

fn put_unit(columns: &mut Columns, last: &ChangedUnit, changed: &ChangedUnit, shift: u32) {
    let unit = &changed.unit;
    let expected = last.unit.start.wrapping_add(UNIT);
    let distance = unit.start.wrapping_sub(expected).cast_signed() >> shift;
    varint::put(&mut columns[PLACE], zigzag(distance));
    let window = i64::from(changed.window) - i64::from(last.window);
    varint::put(&mut columns[WINDOW], zigzag(window));
    varint::put_delta(&mut columns[SINCE], last.unit.since.0, unit.since.0);
    let mut tags = [unit.leaf_shift & !(HAS_FOUND | HAS_YOUNG); 3 + SPANS];
    let bits = &mut columns[BITS];
    tags[1] = planes::put(bits, unit.present, &[NONE, PageBits::ALL]);
    tags[2] = planes::put(bits, unit.unresolved, &[NONE, unit.present]);
    let mut shorter = NONE;
    for (tag, plane) in tags[3..].iter_mut().zip(unit.touched) {
        *tag = plane.map_or(NOT_MEASURED, |plane| {
            let tag = planes::put(bits, plane, &[NONE, unit.present, shorter]);
            shorter = plane;
            tag
        });
    }
    let found = unit.found.map(|found| {
        tags[0] |= HAS_FOUND;
        planes::put(bits, found, &[NONE, unit.present, shorter])
    });
    let young = unit.young.map(|young| {
        tags[0] |= HAS_YOUNG;
        planes::put(bits, young, &[NONE, unit.present, unit.found.unwrap_or(shorter)])
    });
    if young.is_some() {
        varint::put_delta(&mut columns[SINCE], unit.since.0, unit.found_after.0);
    }
    columns[TAGS].extend_from_slice(&tags);
    columns[TAGS].extend(found.into_iter().chain(young));
}

/// The next unit. Its target is not set.
fn take_unit(c: &mut Cursors<'_>, last: &ChangedUnit, shift: u32) -> Option<ChangedUnit> {
    let distance = (unzigzag(c[PLACE].get()?) << shift).cast_unsigned();
    let start = last.unit.start.wrapping_add(UNIT).wrapping_add(distance);
    let window = i64::from(last.window).checked_add(unzigzag(c[WINDOW].get()?))?;
    let since = Time(c[SINCE].get_delta(last.unit.since.0)?);
    let leaf = c[TAGS].byte()?;
    let leaf_shift = leaf & !(HAS_FOUND | HAS_YOUNG);
    let present = planes::get(c[TAGS].byte()?, &mut c[BITS], &[NONE, PageBits::ALL])?;
    let unresolved = planes::get(c[TAGS].byte()?, &mut c[BITS], &[NONE, present])?;
    let mut touched = [None; SPANS];
    let mut shorter = NONE;
    for plane in &mut touched {
        let tag = c[TAGS].byte()?;
        if tag != NOT_MEASURED {
            shorter = planes::get(tag, &mut c[BITS], &[NONE, present, shorter])?;
            *plane = Some(shorter);
        }
    }
    let mut unit =
        UnitInfo { start, since, present, unresolved, touched, leaf_shift, ..UnitInfo::default() };
    if leaf & HAS_FOUND != 0 {
        unit.found = Some(planes::get(c[TAGS].byte()?, &mut c[BITS], &[NONE, present, shorter])?);
    }
    if leaf & HAS_YOUNG != 0 {
        let bases = [NONE, present, unit.found.unwrap_or(shorter)];
        unit.young = Some(planes::get(c[TAGS].byte()?, &mut c[BITS], &bases)?);
        unit.found_after = Time(c[SINCE].get_delta(since.0)?);
    }
    Some(ChangedUnit { window: u32::try_from(window).ok()?, unit, ..ChangedUnit::default() })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn bits() -> impl Strategy<Value = PageBits> {
        prop_oneof![
            Just(NONE),
            Just(PageBits::ALL),
            any::<[u64; 8]>().prop_map(PageBits),
            (0u16..513).prop_map(PageBits::page),
        ]
    }

    fn touched() -> impl Strategy<Value = (TargetId, Touched)> {
        let span = prop::option::of(any::<(u64, u64, u64, u64)>());
        let span = span.prop_map(|span| {
            span.map(|(bytes, lo, hi, measured)| TouchedBytes { bytes, lo, hi, measured })
        });
        let spans = prop::collection::vec(span, SPANS);
        (0u32..3, spans, any::<u64>()).prop_map(|(id, spans, watched)| {
            (TargetId(id), Touched { spans: spans.try_into().unwrap(), watched })
        })
    }

    fn window() -> impl Strategy<Value = PageWindow> {
        let times = any::<(u64, u64, u64, u64, u64)>();
        (times, prop::collection::vec(touched(), 0..4)).prop_map(|(times, touched)| PageWindow {
            seq: times.0,
            start: Time(times.1),
            end: Time(times.2),
            sample_us: times.3,
            aggr_us: times.4,
            touched,
        })
    }

    fn unit() -> impl Strategy<Value = UnitInfo> {
        let start = prop_oneof![(0u64..1 << 43).prop_map(|nr| nr * UNIT), any::<u64>()];
        let planes = prop::collection::vec(prop::option::of(bits()), SPANS);
        let found = (prop::option::of(bits()), prop::option::of((bits(), any::<u64>())));
        (start, any::<u64>(), bits(), bits(), planes, found, 0u8..HAS_YOUNG).prop_map(
            |(start, since, present, unresolved, planes, (found, young), leaf_shift)| UnitInfo {
                start,
                since: Time(since),
                present,
                unresolved,
                touched: planes.try_into().unwrap(),
                found,
                found_after: Time(young.map_or(0, |(_, after)| after)),
                young: young.map(|(young, _)| young),
                leaf_shift,
            },
        )
    }

    fn pages() -> impl Strategy<Value = Pages> {
        let units = prop::collection::vec((0u32..3, any::<prop::sample::Index>(), unit()), 0..12);
        (prop::collection::vec(window(), 1..4), units).prop_map(|(windows, units)| {
            let of = |(target, window, unit): (u32, prop::sample::Index, UnitInfo)| ChangedUnit {
                target: TargetId(target),
                window: u32::try_from(window.index(windows.len())).unwrap(),
                unit,
            };
            let mut units: Vec<_> = units.into_iter().map(of).collect();
            units.sort_by_key(|u| (u.target, u.unit.start));
            Pages { windows, units }
        })
    }

    proptest! {
        #[test]
        #[cfg_attr(miri, ignore = "reads every beginning of every case: minutes under Miri")]
        fn round_trip(pages in pages()) {
            let (mut bytes, mut back) = (Vec::new(), Pages::default());
            encode(&mut bytes, &pages);
            prop_assert_eq!(decode(&bytes, &mut back), Some(()));
            prop_assert_eq!(&back, &pages);
            // Cut anywhere, it is refused.
            for len in 0..bytes.len() {
                prop_assert_eq!(decode(&bytes[..len], &mut back), None);
            }
        }

        #[test]
        fn any_bytes_are_read_or_refused(
            bytes in prop::collection::vec(any::<u8>(), 0..200),
            pages in pages(),
            at: prop::sample::Index,
            with: u8,
        ) {
            decode(&bytes, &mut Pages::default());
            let mut bytes = Vec::new();
            encode(&mut bytes, &pages);
            let at = at.index(bytes.len());
            bytes[at] ^= with;
            decode(&bytes, &mut Pages::default());
        }
    }

    #[test]
    fn more_than_a_writer_puts_into_a_frame_is_refused() {
        let unit = ChangedUnit::default();
        let window = |touched| PageWindow { touched, ..PageWindow::default() };
        let set = (TargetId(0), Touched::default());
        for (windows, sets, units, good) in [
            (MOST_ITEMS, 0, 1, true),
            (MOST_ITEMS + 1, 0, 1, false),
            (1, MOST_ITEMS, MOST_ITEMS, true),
            (2, MOST_ITEMS, 0, false),
            (1, 0, MOST_ITEMS + 1, false),
        ] {
            let pages =
                Pages { windows: vec![window(vec![set; sets]); windows], units: vec![unit; units] };
            let mut bytes = Vec::new();
            encode(&mut bytes, &pages);
            let read = decode(&bytes, &mut Pages::default());
            assert_eq!(read.is_some(), good, "{windows} {sets} {units}");
        }
    }

    #[test]
    fn units_of_windows_that_are_not_there_are_refused() {
        let unit = ChangedUnit { window: 1, ..ChangedUnit::default() };
        let pages = Pages { windows: vec![PageWindow::default()], units: vec![unit] };
        let mut bytes = Vec::new();
        encode(&mut bytes, &pages);
        assert_eq!(decode(&bytes, &mut Pages::default()), None);
    }
}
