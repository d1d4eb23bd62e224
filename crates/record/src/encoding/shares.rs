//! Encodes the shares of a region's pages that were touched, in one byte each.
//!
//! From 1 % on, a share is kept in steps of 1/192 of the region. Below that there are three steps
//! per power of two, so that one page of a gigabyte is still more than nothing. So a share is kept
//! within 0.3 % of the region, and small ones within an eighth of themselves.
//!
//! ```text
//! code     0             1        2 ..= 63               64 ..= 255
//! share    not measured  nothing  2^(-(64 - code) / 3)   (code - 63) / 192
//!                                 / 192
//! ```
//!
//! Each code is written as its difference from the old region's, see [`columns`](super::columns).
//! While nothing changes all of them are 0, which LZ4 takes for next to nothing.
//!
//! Invariants: 0 and 1 are exact, and only 0 reads back as 0. Reading back what was read changes
//! nothing.

use isotherm_core::TouchedShare;

use super::varint::Cursor;

/// Number of columns.
pub(super) const COLUMNS: usize = 3;

/// The codes of one region: within a window, within a second, and of the leaves. The last one is 0
/// if nothing is known of the region.
pub(super) type Codes = [u8; COLUMNS];

/// The code of the smallest share that is kept in linear steps, and the number of these steps.
const FIRST_STEP: u8 = 64;
const STEPS: f32 = 192.0;
/// The code of a share of nothing.
const NOTHING: u8 = 1;

/// The shares of all codes. Powers are slow, and a record has many regions.
#[derive(Debug, Clone)]
pub(super) struct Shares([Option<f32>; 256]);

impl Default for Shares {
    fn default() -> Self {
        let mut shares = [None; 256];
        (0..=u8::MAX).zip(&mut shares).for_each(|(code, to)| *to = share(code));
        Self(shares)
    }
}

impl Shares {
    /// What the codes of a region say.
    #[inline]
    pub(super) fn touched(&self, [window, second, leaf_shift]: Codes) -> Option<TouchedShare> {
        let [window, second] = [window, second].map(|code| self.0[usize::from(code)]);
        (leaf_shift > 0).then_some(TouchedShare { window, second, leaf_shift })
    }
}

/// The share of a code; `None`: it was not measured.
fn share(code: u8) -> Option<f32> {
    match code {
        0 => None,
        NOTHING => Some(0.0),
        2..FIRST_STEP => Some((-f32::from(FIRST_STEP - code) / 3.0).exp2() / STEPS),
        _ => Some(f32::from(code - FIRST_STEP + 1) / STEPS),
    }
}

/// The code of a share that was measured. NaN counts as nothing.
fn code(share: f32) -> u8 {
    let steps = share * STEPS;
    if steps >= 1.0 {
        return FIRST_STEP - 1 + rounded(steps.min(STEPS));
    }
    if steps > 0.0 {
        return rounded((f32::from(FIRST_STEP) + 3.0 * steps.log2()).max(2.0));
    }
    NOTHING
}

#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "saturates")]
fn rounded(x: f32) -> u8 {
    x.round() as u8
}

/// [`code`], with a code that is likely: that of the region before. To round takes longer than to
/// find that it is the same.
#[inline]
fn code_near(share: f32, likely: u8) -> u8 {
    let off = share * STEPS - f32::from(likely.saturating_sub(FIRST_STEP - 1));
    if likely > FIRST_STEP && off.abs() < 0.5 { likely } else { code(share) }
}

/// The codes of a region, which are likely those of `base`.
#[inline]
pub(super) fn of(touched: Option<TouchedShare>, base: Codes) -> Codes {
    touched.map_or([0; COLUMNS], |TouchedShare { window, second, leaf_shift }| {
        let code = |share: Option<f32>, likely| share.map_or(0, |share| code_near(share, likely));
        [code(window, base[0]), code(second, base[1]), leaf_shift]
    })
}

/// Appends the codes of a region, as differences from an old one.
pub(super) fn put_codes(columns: &mut [Vec<u8>; COLUMNS], base: Codes, codes: Codes) {
    for (column, (code, base)) in columns.iter_mut().zip(codes.into_iter().zip(base)) {
        column.push(code.wrapping_sub(base));
    }
}

/// The codes of a region that were written as these differences from an old one.
#[inline]
pub(super) fn codes(differences: Codes, base: Codes) -> Codes {
    std::array::from_fn(|nr| base[nr].wrapping_add(differences[nr]))
}

/// Where the columns are within `bytes`, which begin with the length of each. `None`: they are not
/// there. What stands behind them is left to later versions.
pub(super) fn find(bytes: &[u8]) -> Option<[(usize, usize); COLUMNS]> {
    let mut c = Cursor::new(bytes);
    let len = c.get_count(bytes.len())?;
    let mut at = bytes.len() - c.len();
    let places = [(); COLUMNS].map(|()| {
        at += len;
        (at - len, at)
    });
    (at <= bytes.len()).then_some(places)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn nothing_and_everything_are_exact_and_little_is_not_nothing() {
        for exact in [0.0, 1.0, 0.5, 0.25] {
            assert_eq!(share(code(exact)), Some(exact));
        }
        assert!(share(code(1e-30)).unwrap() > 0.0);
        assert_eq!([code(f32::NAN), code(-1.0), code(7.0)], [code(0.0), code(0.0), code(1.0)]);
        assert_eq!(share(0), None);
        for code_of in 1..=u8::MAX {
            assert_eq!(code(share(code_of).unwrap()), code_of);
        }
        for pair in (1..u8::MAX).map(|code| [share(code), share(code + 1)]) {
            assert!(pair[0] < pair[1], "{pair:?}");
        }
    }

    #[test]
    fn whatever_is_likely_the_code_is_the_same() {
        // Ends of steps, the middle between two, and their neighbours.
        let ends = (0..=800_u16).map(|quarter| f32::from(quarter) / 4.0 / STEPS);
        for share in ends.flat_map(|share: f32| [share, share.next_up(), share.next_down()]) {
            for likely in 0..=u8::MAX {
                assert_eq!(code_near(share, likely), code(share), "{share} and {likely}");
            }
        }
        assert_eq!([f32::NAN, 7.0].map(|share| code_near(share, 255)), [NOTHING, 255]);
    }

    proptest! {
        #[test]
        fn a_share_is_kept_within_a_step(x in 0f32..=1.0, small in 4e-9f32..=0.005) {
            let back = share(code(x)).unwrap();
            prop_assert!((back - x).abs() <= 0.5 / STEPS * 1.01, "{x} {back}");
            let back = share(code(small)).unwrap();
            prop_assert!((back / small - 1.0).abs() <= 0.126, "{small} {back}");
        }

        #[test]
        fn codes_are_read_back_against_any_others(of: Codes, base: Codes) {
            let mut columns = <[Vec<u8>; COLUMNS]>::default();
            put_codes(&mut columns, base, of);
            prop_assert_eq!(codes(columns.map(|column| column[0]), base), of);
        }
    }
}
