//! Encodes each end of an error bar in one byte, in steps of 1/255 of the maximum, rounded outward.
//!
//! The stored interval always contains the given one (as far as that lies in `0..=max`). Storing a
//! bound that was read back changes nothing: `decode(encode(decode(c))) == decode(c)`.

/// The value of step `code`, in `nr_accesses`.
pub(crate) fn decode(code: u8, max: u32) -> f32 {
    if code == u8::MAX {
        return to_f32(f64::from(max));
    }
    to_f32(f64::from(max) * f64::from(code) / 255.0)
}

/// The values of all steps for one maximum. Divisions are slow, and a record has many regions.
#[derive(Debug, Clone)]
pub(crate) struct Steps {
    max: u32,
    values: [f32; 256],
}

impl Default for Steps {
    fn default() -> Self {
        Self { max: 0, values: [0.0; 256] }
    }
}

impl Steps {
    /// [`decode`] of every step.
    pub(crate) fn of(&mut self, max: u32) -> &[f32; 256] {
        if self.max != max {
            self.max = max;
            (0..=u8::MAX).zip(&mut self.values).for_each(|(code, x)| *x = decode(code, max));
        }
        &self.values
    }
}

/// Whether [`encode_lo`] gives this code. Most regions have the same bounds as in the window
/// before, and to compare is cheaper than to divide and to round.
#[inline]
pub(crate) fn is_lo(lo: f32, steps: &[f32; 256], code: u8) -> bool {
    let at = usize::from(code);
    steps[at] <= lo && steps.get(at + 1).is_none_or(|next| *next > lo)
}

/// Whether [`encode_hi`] gives this code.
#[inline]
pub(crate) fn is_hi(hi: f32, steps: &[f32; 256], code: u8) -> bool {
    let at = usize::from(code);
    steps[at] >= hi && (at == 0 || steps[at - 1] < hi)
}

/// The largest step that is not above `lo`. NaN means that nothing is known, and gives 0.
pub(crate) fn encode_lo(lo: f32, max: u32) -> u8 {
    let mut code = to_step((f64::from(lo) * 255.0 / f64::from(max.max(1))).floor());
    while code > 0 && decode(code, max) > lo {
        code -= 1;
    }
    while code < u8::MAX && decode(code + 1, max) <= lo {
        code += 1;
    }
    code
}

/// The smallest step that is not below `hi`. NaN means that nothing is known, and gives the
/// maximum.
pub(crate) fn encode_hi(hi: f32, max: u32) -> u8 {
    if hi.is_nan() {
        return u8::MAX;
    }
    let mut code = to_step((f64::from(hi) * 255.0 / f64::from(max.max(1))).ceil());
    while code < u8::MAX && decode(code, max) < hi {
        code += 1;
    }
    while code > 0 && decode(code - 1, max) >= hi {
        code -= 1;
    }
    code
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "`as` saturates, and the callers correct by comparing decoded values"
)]
fn to_step(x: f64) -> u8 {
    x as u8
}

#[expect(clippy::cast_possible_truncation, reason = "rounding to f32 is meant")]
fn to_f32(x: f64) -> f32 {
    x as f32
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn table() {
        for (lo, hi, max, codes) in [
            (0.0, 20.0, 20, (0, 255)),
            (20.0, 20.0, 20, (255, 255)),
            (0.0, 0.0, 20, (0, 0)),
            (0.01, 0.01, 20, (0, 1)),
            (-3.0, 99.0, 20, (0, 255)),
            (f32::NAN, f32::NAN, 20, (0, 255)),
            (10.0, 10.0, 20, (127, 128)),
        ] {
            assert_eq!((encode_lo(lo, max), encode_hi(hi, max)), codes, "{lo} {hi} {max}");
        }
    }

    proptest! {
        #[test]
        fn outward_and_idempotent(max in 0u32..=u32::MAX, a in 0.0f32..=1.0, b in 0.0f32..=1.0) {
            let x = to_f32(f64::from(max) * f64::from(a.min(b)));
            let y = to_f32(f64::from(max) * f64::from(a.max(b)));
            let (lo, hi) = (encode_lo(x, max), encode_hi(y, max));
            prop_assert!(decode(lo, max) <= x);
            prop_assert!(decode(hi, max) >= y);
            let (mut steps, mut is_right) = (Steps::default(), 0);
            let steps = steps.of(max);
            for code in 0..=u8::MAX {
                if is_lo(x, steps, code) {
                    prop_assert!(code == lo);
                    is_right += 1;
                }
                if is_hi(y, steps, code) {
                    prop_assert!(code == hi);
                    is_right += 1;
                }
            }
            prop_assert_eq!(is_right, 2, "one code each");
            if max > 0 {
                prop_assert_eq!(decode(encode_lo(decode(lo, max), max), max), decode(lo, max));
                prop_assert_eq!(decode(encode_hi(decode(hi, max), max), max), decode(hi, max));
            }
        }
    }
}
