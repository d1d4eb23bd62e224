//! Encodes 512 bits as their difference from bits that are already known.
//!
//! A *tag* says from which of the known bits, and in what form the difference follows:
//!
//! ```text
//! bits 0..2  form: 0 no difference, 1 pages, 2 runs of pages, 3 all 64 bytes
//! bits 2..4  number of the known bits
//! ```
//!
//! Pages are their number, and then for each the number of pages skipped before it. Runs are their
//! number, and then for each the pages skipped and the length less one.

use isotherm_core::PageBits;

use crate::encoding::varint::{self, Cursor};

/// Numbers of pages in a unit.
const PAGES: u64 = 512;

const SAME: u8 = 0;
const SINGLE: u8 = 1;
const RUNS: u8 = 2;
const RAW: u8 = 3;

/// Appends `plane` to `bits`, and returns its tag. `known` are bits that the reader has, at most
/// four times.
pub(crate) fn put(bits: &mut Vec<u8>, plane: PageBits, known: &[PageBits]) -> u8 {
    // The base, the form, the difference and about how many bytes it takes.
    let mut best = (0, RAW, PageBits::default(), u64::MAX);
    for (base, known) in (0_u8..4).zip(known) {
        let difference = xor(plane, *known);
        let (form, bytes) = cheapest(difference);
        if bytes < best.3 {
            best = (base, form, difference, bytes);
        }
    }
    let (base, form, difference, _) = best;
    match form {
        SAME => {}
        SINGLE => {
            varint::put(bits, difference.count());
            let mut next = 0;
            each_page(difference, |nr| {
                varint::put(bits, nr - next);
                next = nr + 1;
            });
        }
        RUNS => {
            varint::put(bits, nr_runs(difference));
            let mut next = 0;
            difference.runs(|first, behind| {
                varint::put(bits, first - next);
                varint::put(bits, behind - first - 1);
                next = behind;
            });
        }
        _ => difference.0.iter().for_each(|word| bits.extend_from_slice(&word.to_le_bytes())),
    }
    base << 2 | form
}

/// Decodes what [`put`] wrote. Returns `None` if the bytes are not what it writes.
pub(crate) fn get(tag: u8, bits: &mut Cursor<'_>, known: &[PageBits]) -> Option<PageBits> {
    let base = known.get(usize::from(tag >> 2))?;
    let mut difference = PageBits::default();
    match tag & 3 {
        SAME => {}
        SINGLE => {
            let mut next = 0;
            for _ in 0..bits.get_count(bits.len())? {
                let nr = take_page(bits, next)?;
                set(&mut difference, nr, nr + 1);
                next = nr + 1;
            }
        }
        RUNS => {
            let mut next = 0;
            for _ in 0..bits.get_count(bits.len())? {
                let first = take_page(bits, next)?;
                next = take_page(bits, first)? + 1;
                set(&mut difference, first, next);
            }
        }
        _ => {
            for word in &mut difference.0 {
                *word = u64::from_le_bytes(bits.take(8)?.try_into().ok()?);
            }
        }
    }
    Some(xor(difference, *base))
}

/// A page's number, written as its distance from `from`.
fn take_page(bits: &mut Cursor<'_>, from: u64) -> Option<u64> {
    from.checked_add(bits.get()?).filter(|nr| *nr < PAGES)
}

/// The form that takes the fewest bytes, and about how many.
fn cheapest(difference: PageBits) -> (u8, u64) {
    let (pages, runs) = (difference.count(), nr_runs(difference));
    let forms = [(SINGLE, 1 + pages), (RUNS, 1 + 2 * runs), (RAW, 64)];
    match pages {
        0 => (SAME, 0),
        _ => forms.into_iter().min_by_key(|(_, bytes)| *bytes).unwrap_or((RAW, 64)),
    }
}

fn xor(a: PageBits, b: PageBits) -> PageBits {
    PageBits(std::array::from_fn(|i| a.0[i] ^ b.0[i]))
}

/// Number of pages without a page right before them.
fn nr_runs(bits: PageBits) -> u64 {
    let mut before = 0;
    let mut nr = 0;
    for word in bits.0 {
        nr += u64::from((word & !(word << 1 | before)).count_ones());
        before = word >> 63;
    }
    nr
}

fn each_page(bits: PageBits, mut f: impl FnMut(u64)) {
    for (first, mut word) in (0..).step_by(64).zip(bits.0) {
        while word != 0 {
            f(first + u64::from(word.trailing_zeros()));
            word &= word - 1;
        }
    }
}

/// Sets the pages from `first` to before `behind`.
fn set(bits: &mut PageBits, first: u64, behind: u64) {
    let behind = behind.min(PAGES);
    let mut at = first;
    while at < behind {
        let next = (at / 64 * 64 + 64).min(behind);
        if let Some(word) = usize::try_from(at / 64).ok().and_then(|nr| bits.0.get_mut(nr)) {
            *word |= (u64::MAX >> (64 - (next - at))) << (at % 64);
        }
        at = next;
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn coded(plane: PageBits, known: &[PageBits]) -> usize {
        let mut bits = Vec::new();
        let tag = put(&mut bits, plane, known);
        let mut cursor = Cursor::new(&bits);
        assert_eq!(get(tag, &mut cursor, known), Some(plane));
        assert_eq!(cursor.len(), 0);
        bits.len()
    }

    #[test]
    fn likely_planes_take_few_bytes() {
        let none = PageBits::default();
        let mut block = none;
        set(&mut block, 100, 164);
        let mut scattered = none;
        (0..16).for_each(|nr| set(&mut scattered, nr * 30, nr * 30 + 1));
        for (name, plane, known, most) in [
            ("none", none, &[none][..], 0),
            ("all", PageBits::ALL, &[none], 4),
            ("all that are mapped", PageBits::ALL, &[none, PageBits::ALL], 0),
            ("a block of 256 KiB", block, &[none], 3),
            ("all but a block", xor(PageBits::ALL, block), &[none, PageBits::ALL], 3),
            ("16 pages", scattered, &[none], 17),
            ("the same again", scattered, &[none, PageBits::ALL, scattered], 0),
            ("a block more", block.or(scattered), &[none, PageBits::ALL, scattered], 9),
        ] {
            assert!(coded(plane, known) <= most, "{name}: {}", coded(plane, known));
        }
    }

    #[test]
    fn pages_beyond_the_unit_and_unknown_bases_are_refused() {
        for (tag, bytes) in
            [(SINGLE, &[1, 0x80, 4][..]), (RUNS, &[1, 0, 0x80, 4]), (RAW, &[0; 63]), (1 << 2, &[])]
        {
            assert_eq!(get(tag, &mut Cursor::new(bytes), &[PageBits::default()]), None, "{tag}");
        }
    }

    proptest! {
        #[test]
        fn round_trip(plane: [u64; 8], dense: [u64; 8], runs in prop::collection::vec(0u64..513, 0..9)) {
            let known = [PageBits::default(), PageBits(dense)];
            let mut blocks = PageBits::default();
            runs.chunks_exact(2).for_each(|r| set(&mut blocks, r[0], r[1]));
            // At most four numbers can be above 127, and take a byte more than was counted.
            for plane in [PageBits(plane), blocks, blocks.or(known[1])] {
                prop_assert!(coded(plane, &known) <= 64 + 4);
            }
        }
    }
}
