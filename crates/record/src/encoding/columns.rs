//! Encodes snapshots in columns. About a second of snapshots becomes one block, which compresses to
//! a few bytes per region.
//!
//! Every region is written as its difference from an old region: the one that covered its start in
//! the snapshot before, of the same target and in the same frame. Most regions of a window also
//! exist in the window before, so:
//!
//! * the *place* is one byte: "starts where expected, ends where the k-th old region ended". Only a
//!   new boundary is written as a distance in pages;
//! * `nr_accesses` is the difference, `age` is 0 for "one older" and 1 for "reset";
//! * `lo`, `hi` are steps of 1/255 of the maximum (see [`crate::encoding::bound`]), as differences.
//!
//! Each of these is a separate column, because LZ4 compresses runs and not probabilities. The first
//! snapshot of a frame is not written against another one, so a frame can be read without other
//! frames. Everything but the bounds is exact, for any 64-bit addresses in any order.
//!
//! What was added later stands at the end of the first column, behind the numbers of its last
//! snapshot, where older readers do not read: what the targets paid, one number per snapshot, and
//! behind that the shares of regions' pages that were touched (see [`crate::encoding::shares`]).
//! Either is left out if no snapshot of the block tells it, but the numbers stand where shares do.

use isotherm_core::{AddrRange, Cost, RegionInfo, Snapshot, TargetId, TargetInfo, Time};

use crate::encoding::bound::{self, Steps};
use crate::encoding::shares::{self, Codes, Shares};
use crate::encoding::varint::{self, Cursor, unzigzag, zigzag};

/// Number of columns; each is preceded by its length.
const COLUMNS: usize = 8;
const META: usize = 0;
const SHAPE: usize = 1;
const PLACE: usize = 2;
const NR: usize = 3;
const AGE: usize = 4;
const LO: usize = 5;
const HI: usize = 6;
const RESOLVED: usize = 7;

/// Numbers of a snapshot in the first column, before the number of its targets.
const META_NUMBERS: usize = 10;

const PAGE_SHIFT: u32 = 12;
/// In how many old regions the end of a new one is searched.
const END_CHOICES: usize = 15;
/// The shape of a region that starts where expected and ends where the first old region does.
const SAME: u8 = 1 << 1;

/// The part of a region that the next snapshot is written against.
#[derive(Debug, Clone, Copy, Default)]
struct Row {
    start: u64,
    end: u64,
    nr: u32,
    age: u32,
    lo: u8,
    hi: u8,
    shares: Codes,
}

/// The rows of one snapshot by target, in the snapshot's order.
#[derive(Debug, Default)]
struct Rows {
    targets: Vec<(TargetId, Vec<Row>)>,
    used: usize,
    aligned: bool,
}

impl Rows {
    fn clear(&mut self) {
        self.used = 0;
        self.aligned = true;
    }

    /// Makes room for one more target, reusing old allocations.
    fn push(&mut self, id: TargetId) -> &mut Vec<Row> {
        if self.used == self.targets.len() {
            self.targets.push((id, Vec::new()));
        }
        let slot = &mut self.targets[self.used];
        self.used += 1;
        slot.0 = id;
        slot.1.clear();
        &mut slot.1
    }

    fn get(&self, nth: usize, id: TargetId) -> &[Row] {
        let used = &self.targets[..self.used];
        match used.get(nth) {
            Some((i, rows)) if *i == id => rows,
            _ => used.iter().find(|(i, _)| *i == id).map_or(&[], |(_, rows)| rows),
        }
    }
}

/// Walks through the old rows in step with the new ones, and predicts the next region.
struct Expect<'a> {
    old: &'a [Row],
    at: usize,
    cursor: u64,
}

impl<'a> Expect<'a> {
    fn new(old: &'a [Row]) -> Self {
        Self { old, at: 0, cursor: 0 }
    }

    #[inline]
    fn seek(&mut self, addr: u64) {
        while self.old.get(self.at).is_some_and(|r| r.end <= addr) {
            self.at += 1;
        }
    }

    /// Where the next region should start.
    #[inline]
    fn start(&mut self) -> u64 {
        self.seek(self.cursor);
        self.old.get(self.at).map_or(self.cursor, |r| r.start.max(self.cursor))
    }

    /// The old region at `start`, to compare with.
    #[inline]
    fn base(&mut self, start: u64) -> Row {
        self.seek(start);
        self.old.get(self.at).copied().unwrap_or_default()
    }

    /// The number, from 1, of the old region from here on that ends at `end`; 0 if there is none.
    #[inline]
    fn end_choice(&self, end: u64) -> usize {
        let near = &self.old[self.at..self.old.len().min(self.at + END_CHOICES)];
        near.iter().position(|r| r.end == end).map_or(0, |i| i + 1)
    }

    /// The next region if it is an old one as a whole, which most are: where it starts, and that
    /// old one.
    #[inline]
    fn same(&mut self) -> Option<(u64, Row)> {
        let (start, row) = self.peek()?;
        self.cursor = row.end;
        Some((start, row))
    }

    /// What [`Expect::same`] would give. The cursor stays where it is.
    #[inline]
    fn peek(&mut self) -> Option<(u64, Row)> {
        self.seek(self.cursor);
        let row = *self.old.get(self.at)?;
        let start = row.start.max(self.cursor);
        (start < row.end).then_some((start, row))
    }

    /// The row of a region that is an old one as a whole, one window older, as most regions are.
    /// `None`: it is not.
    #[inline]
    fn unchanged(&mut self, r: &RegionInfo, steps: &[f32; 256]) -> Option<Row> {
        let (start, old) = self.peek()?;
        let is_same = (start, old.end) == (r.range.start, r.range.end)
            && r.nr_accesses == old.nr
            && old.age.checked_add(1) == Some(r.age)
            && bound::is_lo(r.lo, steps, old.lo)
            && bound::is_hi(r.hi, steps, old.hi)
            && shares::of(r.touched, old.shares) == old.shares;
        let row = is_same.then_some(Row { start, age: r.age, ..old })?;
        self.cursor = row.end;
        Some(row)
    }

    #[inline]
    fn end_of_choice(&self, choice: usize) -> Option<u64> {
        self.old.get(self.at + choice - 1).map(|r| r.end)
    }
}

/// Collects snapshots until [`Encoder::take`].
#[derive(Debug, Default)]
pub(crate) struct Encoder {
    columns: [Vec<u8>; COLUMNS],
    /// What the targets paid, per snapshot, and whether any of them tells it.
    paid: Vec<u8>,
    is_paid: bool,
    /// Shares of touched pages, and whether any region has them.
    shares: [Vec<u8>; shares::COLUMNS],
    has_shares: bool,
    snapshots: u64,
    old: Rows,
    new: Rows,
    clock: u64,
    next_seq: u64,
    steps: Steps,
}

impl Encoder {
    /// Whether nothing was pushed since the last [`Encoder::take`].
    pub(crate) fn is_empty(&self) -> bool {
        self.snapshots == 0
    }

    /// Bytes collected, before compression.
    pub(crate) fn len(&self) -> usize {
        let shares = if self.has_shares { &self.shares[..] } else { &[] };
        let columns = self.columns.iter().chain(shares);
        columns.map(Vec::len).sum::<usize>() + self.paid.len()
    }

    pub(crate) fn push(&mut self, s: &Snapshot) {
        let aligned = s
            .targets
            .iter()
            .flat_map(|t| &t.regions)
            .all(|r| (r.range.start | r.range.end).trailing_zeros() >= PAGE_SHIFT);
        let shift =
            if aligned && (self.snapshots == 0 || self.old.aligned) { PAGE_SHIFT } else { 0 };
        self.meta(s, shift);
        self.new.clear();
        self.new.aligned = aligned;
        let max = s.max_nr_accesses;
        let steps = self.steps.of(max);
        for (nth, t) in s.targets.iter().enumerate() {
            let rows = self.new.push(t.id);
            let mut expect = Expect::new(self.old.get(nth, t.id));
            let mut nr_unchanged = 0;
            for r in &t.regions {
                self.has_shares |= r.touched.is_some();
                if let Some(row) = expect.unchanged(r, steps) {
                    rows.push(row);
                    nr_unchanged += 1;
                    continue;
                }
                let nr = std::mem::take(&mut nr_unchanged);
                put_unchanged(&mut self.columns, &mut self.shares, nr);
                let columns = (&mut self.columns, &mut self.shares);
                rows.push(encode_region(columns, &mut expect, r, max, shift));
            }
            put_unchanged(&mut self.columns, &mut self.shares, nr_unchanged);
            encode_runs(&mut self.columns[RESOLVED], &t.regions);
        }
        std::mem::swap(&mut self.old, &mut self.new);
        self.snapshots += 1;
    }

    fn meta(&mut self, s: &Snapshot, shift: u32) {
        let m = &mut self.columns[META];
        varint::put_delta(m, self.next_seq, s.seq);
        varint::put_delta(m, self.clock, s.start.0);
        varint::put_delta(m, s.start.0, s.end.0);
        self.next_seq = s.seq.wrapping_add(1);
        self.clock = s.end.0;
        for x in [
            s.sample_us,
            s.aggr_us,
            u64::from(s.max_nr_accesses),
            s.cost.checks,
            s.cost.clears,
            s.cost.cpu_ns,
            u64::from(shift),
            s.targets.len() as u64,
        ] {
            varint::put(m, x);
        }
        for t in &s.targets {
            varint::put(m, u64::from(t.id.0));
            varint::put(m, t.regions.len() as u64);
        }
        // 0 stands for "not told". A sum of ns never comes near the largest number.
        varint::put(&mut self.paid, s.cost.target_ns.map_or(0, |ns| ns.saturating_add(1)));
        self.is_paid |= s.cost.target_ns.is_some();
    }

    /// Writes the block into `out` and starts over.
    pub(crate) fn take(&mut self, out: &mut Vec<u8>) {
        out.clear();
        let meta = &mut self.columns[META];
        if self.is_paid || self.has_shares {
            meta.append(&mut self.paid);
        }
        if self.has_shares {
            varint::put(meta, self.shares[0].len() as u64);
            self.shares.iter_mut().for_each(|column| meta.append(column));
        }
        self.paid.clear();
        self.shares.iter_mut().for_each(Vec::clear);
        (self.is_paid, self.has_shares) = (false, false);
        varint::put(out, self.snapshots);
        for c in &self.columns {
            varint::put(out, c.len() as u64);
        }
        for c in &mut self.columns {
            out.append(c);
        }
        self.snapshots = 0;
        self.old.clear();
        self.clock = 0;
        self.next_seq = 0;
    }
}

/// Writes so many regions that are one window older and else as before.
fn put_unchanged(
    columns: &mut [Vec<u8>; COLUMNS],
    shares: &mut [Vec<u8>; shares::COLUMNS],
    nr: usize,
) {
    if nr == 0 {
        return;
    }
    for (column, byte) in [(SHAPE, SAME), (NR, 0), (AGE, 0), (LO, 0), (HI, 0)] {
        let len = columns[column].len() + nr;
        columns[column].resize(len, byte);
    }
    shares.iter_mut().for_each(|column| column.resize(column.len() + nr, 0));
}

fn encode_region(
    (columns, shares): (&mut [Vec<u8>; COLUMNS], &mut [Vec<u8>; shares::COLUMNS]),
    expect: &mut Expect<'_>,
    r: &RegionInfo,
    max: u32,
    shift: u32,
) -> Row {
    let (start, end) = (r.range.start, r.range.end);
    let expected = expect.start();
    let base = expect.base(start);
    let choice = expect.end_choice(end);
    let mut delta = |from: u64, to: u64| {
        varint::put(&mut columns[PLACE], zigzag(to.wrapping_sub(from).cast_signed() >> shift));
    };
    if start != expected {
        delta(expected, start);
    }
    if choice == 0 {
        delta(start, end);
    }
    varint::put(&mut columns[SHAPE], ((choice as u64) << 1) | u64::from(start != expected));
    varint::put(&mut columns[NR], zigzag(i64::from(r.nr_accesses) - i64::from(base.nr)));
    varint::put(
        &mut columns[AGE],
        match i64::from(r.age) - i64::from(base.age) - 1 {
            0 => 0,
            _ if r.age == 0 => 1,
            d => 2 + zigzag(d),
        },
    );
    let lo = bound::encode_lo(r.lo, max);
    let hi = bound::encode_hi(r.hi, max);
    columns[LO].push(lo.wrapping_sub(base.lo));
    columns[HI].push(hi.wrapping_sub(base.hi));
    let codes = shares::of(r.touched, base.shares);
    shares::put_codes(shares, base.shares, codes);
    expect.cursor = end;
    Row { start, end, nr: r.nr_accesses, age: r.age, lo, hi, shares: codes }
}

/// Lengths of the runs of resolved, unresolved, resolved, ... regions.
fn encode_runs(out: &mut Vec<u8>, regions: &[RegionInfo]) {
    let mut rest = regions;
    let mut value = true;
    while !rest.is_empty() {
        let n = rest.iter().position(|r| r.resolved != value).unwrap_or(rest.len());
        varint::put(out, n as u64);
        rest = &rest[n..];
        value = !value;
    }
}

/// Decodes the snapshots of a block one by one. A step returns `None` if the bytes are not what
/// [`Encoder`] writes.
#[derive(Debug, Default)]
pub(crate) struct Decoder {
    /// The unread rest of each column, as positions in the payload.
    left: [(usize, usize); COLUMNS],
    /// The same of what the targets paid; empty if it is not told.
    paid: (usize, usize),
    /// The same of the shares of touched pages; `None` if no region has them.
    shares: Option<[(usize, usize); shares::COLUMNS]>,
    snapshots: usize,
    old: Rows,
    new: Rows,
    clock: u64,
    next_seq: u64,
    numbers: Numbers,
    steps: Steps,
    share_of: Shares,
}

/// Columns of numbers for the regions of one target. To read a column at once is faster than to
/// read a number of each column in turn.
#[derive(Debug, Default)]
struct Numbers {
    shape: Vec<u64>,
    nr: Vec<u64>,
    age: Vec<u64>,
}

impl Numbers {
    fn take(&mut self, c: &mut [Cursor<'_>; COLUMNS], nr_regions: usize) -> Option<()> {
        let columns = [(&mut self.shape, SHAPE), (&mut self.nr, NR), (&mut self.age, AGE)];
        for (column, from) in columns {
            column.resize(nr_regions, 0);
            c[from].get_all(column)?;
        }
        Some(())
    }
}

impl Decoder {
    /// Starts with a payload. Every call of [`Decoder::next`] needs the same payload.
    pub(crate) fn start(&mut self, payload: &[u8]) -> Option<()> {
        self.snapshots = 0;
        let mut c = Cursor::new(payload);
        let snapshots = c.get_count(payload.len())?;
        let mut lens = [0; COLUMNS];
        for len in &mut lens {
            *len = c.get_count(payload.len())?;
        }
        let mut at = payload.len() - c.len();
        for (left, len) in self.left.iter_mut().zip(lens) {
            *left = (at, at + len);
            at += len;
        }
        if at != payload.len() {
            return None;
        }
        let meta = self.left[META];
        self.paid = (behind_meta(payload, meta, snapshots).unwrap_or(meta.1), meta.1);
        self.shares = behind_paid(&payload[self.paid.0..meta.1], snapshots).and_then(|behind| {
            let at = self.paid.0 + behind;
            let places = shares::find(&payload[at..meta.1])?;
            Some(places.map(|(from, to)| (at + from, at + to)))
        });
        self.old.clear();
        self.clock = 0;
        self.next_seq = 0;
        self.snapshots = snapshots;
        Some(())
    }

    /// Whether a snapshot is left.
    pub(crate) fn has_next(&self) -> bool {
        self.snapshots > 0
    }

    /// Drops the rest of the block.
    pub(crate) fn stop(&mut self) {
        self.snapshots = 0;
    }

    /// Decodes the next snapshot into `s`, reusing its memory.
    pub(crate) fn next(&mut self, payload: &[u8], s: &mut Snapshot) -> Option<()> {
        let mut c: [Cursor<'_>; COLUMNS] =
            std::array::from_fn(|i| Cursor::new(&payload[self.left[i].0..self.left[i].1]));
        let (shift, nr_targets) = self.meta(&mut c[META], s)?;
        let mut paid = Cursor::new(&payload[self.paid.0..self.paid.1]);
        s.cost.target_ns = paid.get().and_then(|ns| ns.checked_sub(1));
        self.paid.0 = self.paid.1 - paid.len();
        let mut of_shares =
            self.shares.map(|left| left.map(|(from, to)| Cursor::new(&payload[from..to])));
        self.new.clear();
        let nr_bytes = c[LO].len();
        for nth in 0..nr_targets {
            let id = TargetId(c[META].get_u32()?);
            let nr_regions = c[META].get_count(nr_bytes)?;
            if s.targets.len() == nth {
                s.targets.push(TargetInfo::default());
            }
            let t = &mut s.targets[nth];
            t.id = id;
            t.regions.clear();
            self.numbers.take(&mut c, nr_regions)?;
            let [window, second, leaf] = match &mut of_shares {
                Some(columns) => take_each(columns, nr_regions)?,
                None => [&[][..]; shares::COLUMNS],
            };
            let bounds = c[LO].take(nr_regions)?.iter().zip(c[HI].take(nr_regions)?);
            let Numbers { shape, nr, age } = &self.numbers;
            let numbers = shape.iter().zip(nr).zip(age);
            let steps = self.steps.of(s.max_nr_accesses);
            let rows = self.new.push(id);
            rows.reserve(nr_regions);
            t.regions.reserve(nr_regions);
            let mut expect = Expect::new(self.old.get(nth, id));
            for (nth, (((shape, nr), age), (lo, hi))) in numbers.zip(bounds).enumerate() {
                let (start, end, base) = decode_place(*shape, &mut c[PLACE], &mut expect, shift)?;
                let nr = u32::try_from(i64::from(base.nr).checked_add(unzigzag(*nr))?).ok()?;
                let age = decode_age(*age, base.age)?;
                let (lo, hi) = (lo.wrapping_add(base.lo), hi.wrapping_add(base.hi));
                // Without shares the columns are empty, and all codes stay 0.
                let differences =
                    [window, second, leaf].map(|column| column.get(nth).copied().unwrap_or(0));
                let shares = shares::codes(differences, base.shares);
                let row = Row { start, end, nr, age, lo, hi, shares };
                rows.push(row);
                t.regions.push(region(&row, steps, &self.share_of));
            }
            decode_runs(&mut c[RESOLVED], &mut t.regions)?;
        }
        s.targets.truncate(nr_targets);
        std::mem::swap(&mut self.old, &mut self.new);
        for (left, c) in self.left.iter_mut().zip(&c) {
            left.0 = left.1 - c.len();
        }
        if let (Some(left), Some(cursors)) = (&mut self.shares, &of_shares) {
            left.iter_mut().zip(cursors).for_each(|(left, c)| left.0 = left.1 - c.len());
        }
        self.snapshots -= 1;
        Some(())
    }

    fn meta(&mut self, c: &mut Cursor<'_>, s: &mut Snapshot) -> Option<(u32, usize)> {
        s.seq = c.get_delta(self.next_seq)?;
        s.start = Time(c.get_delta(self.clock)?);
        s.end = Time(c.get_delta(s.start.0)?);
        self.next_seq = s.seq.wrapping_add(1);
        self.clock = s.end.0;
        s.sample_us = c.get()?;
        s.aggr_us = c.get()?;
        s.max_nr_accesses = c.get_u32()?;
        s.cost = Cost { checks: c.get()?, clears: c.get()?, cpu_ns: c.get()?, target_ns: None };
        let shift = c.get_u32()?;
        if shift >= 64 {
            return None;
        }
        Some((shift, c.get_count(c.len())?))
    }
}

/// Where the numbers of the last snapshot end within the first column. `None`: they are damaged.
fn behind_meta(payload: &[u8], (start, end): (usize, usize), snapshots: usize) -> Option<usize> {
    let mut c = Cursor::new(&payload[start..end]);
    for _ in 0..snapshots {
        for _ in 0..META_NUMBERS {
            c.get()?;
        }
        for _ in 0..c.get_count(c.len())? {
            c.get()?;
            c.get()?;
        }
    }
    Some(end - c.len())
}

/// The next `n` bytes of each column of shares.
fn take_each<'a>(
    columns: &mut [Cursor<'a>; shares::COLUMNS],
    n: usize,
) -> Option<[&'a [u8]; shares::COLUMNS]> {
    let mut taken = [&[][..]; shares::COLUMNS];
    for (taken, column) in taken.iter_mut().zip(columns) {
        *taken = column.take(n)?;
    }
    Some(taken)
}

/// Where what the targets paid ends, of so many snapshots. `None`: it is not told.
fn behind_paid(bytes: &[u8], snapshots: usize) -> Option<usize> {
    let mut c = Cursor::new(bytes);
    for _ in 0..snapshots {
        c.get()?;
    }
    Some(bytes.len() - c.len())
}

/// Where the next region starts and ends, and the old one that it is compared with.
#[inline]
fn decode_place(
    shape: u64,
    place: &mut Cursor<'_>,
    expect: &mut Expect<'_>,
    shift: u32,
) -> Option<(u64, u64, Row)> {
    if shape == u64::from(SAME)
        && let Some((start, base)) = expect.same()
    {
        return Some((start, base.end, base));
    }
    let mut delta =
        |from: u64| Some(from.wrapping_add((unzigzag(place.get()?) << shift).cast_unsigned()));
    let mut start = expect.start();
    if shape & 1 == 1 {
        start = delta(start)?;
    }
    let base = expect.base(start);
    let end = match usize::try_from(shape >> 1).ok()? {
        0 => delta(start)?,
        n if n <= END_CHOICES => expect.end_of_choice(n)?,
        _ => return None,
    };
    expect.cursor = end;
    Some((start, end, base))
}

#[inline]
fn decode_age(code: u64, base: u32) -> Option<u32> {
    match code {
        0 => base.checked_add(1),
        1 => Some(0),
        d => u32::try_from((i64::from(base) + 1).checked_add(unzigzag(d - 2))?).ok(),
    }
}

#[inline]
fn region(r: &Row, steps: &[f32; 256], shares: &Shares) -> RegionInfo {
    RegionInfo {
        range: AddrRange::new(r.start, r.end),
        nr_accesses: r.nr,
        age: r.age,
        lo: steps[usize::from(r.lo)],
        hi: steps[usize::from(r.hi)],
        resolved: true,
        touched: shares.touched(r.shares),
    }
}

fn decode_runs(c: &mut Cursor<'_>, regions: &mut [RegionInfo]) -> Option<()> {
    let mut rest = regions;
    let mut value = true;
    while !rest.is_empty() {
        let n = usize::try_from(c.get()?).ok()?;
        let (run, behind) = rest.split_at_mut_checked(n)?;
        if !value {
            run.iter_mut().for_each(|r| r.resolved = false);
        }
        rest = behind;
        value = !value;
    }
    Some(())
}
