//! Reads one line of whole numbers, as DAMON's debugfs had them.
//!
//! A line of 7 numbers is of the RFC, where a maximum of 0 means no bound. A line of 18 numbers is
//! of Linux 5.16 to 6.13, where 0 is a bound as any other. 5 more numbers are statistics, which are
//! left out.

use isotherm_core::Scheme;
use isotherm_core::scheme::{
    Action, Age, Bounds, Frequency, Pattern, Quota, WatermarkMetric, Watermarks, Weights,
};

use super::line::Word;
use crate::policy::action::available;
use crate::text::TextError;

/// The longest window of a quota, in ms: what still fits into nanoseconds.
pub(super) const LONGEST_MS: u64 = u64::MAX / 1_000_000;

/// The actions by the numbers of debugfs, which differ from those of present kernels.
const ACTIONS: [Action; 8] = [
    Action::Willneed,
    Action::Cold,
    Action::Pageout,
    Action::Hugepage,
    Action::Nohugepage,
    Action::Stat,
    Action::LruPrio,
    Action::LruDeprio,
];

/// The scheme of a line of numbers.
pub(super) fn scheme(words: &[Word<'_>]) -> Result<Scheme, Vec<TextError>> {
    let mut errors = Vec::new();
    let numbers: Vec<u64> = words.iter().map(|word| number(word, &mut errors)).collect();
    let of_rfc = match numbers.len() {
        7 => true,
        18 | 23 => false,
        n => {
            let span = words.first().map_or(0, |w| w.span().start)
                ..words.last().map_or(0, |w| w.span().end);
            let error = TextError::new(span, format!("a scheme of {n} numbers"));
            return Err(vec![error.hint("7 as in RFC v6, or 18 as in debugfs")]);
        }
    };
    let mut cut = |at: usize, most: u64| {
        let value = numbers[at];
        if value > most {
            errors.push(words[at].error(format!("more than {most}")));
        }
        u32::try_from(value).unwrap_or(u32::MAX)
    };
    let most = u32::MAX.into();
    let [nr_min, nr_max, age_min, age_max] = [2, 3, 4, 5].map(|at| cut(at, most));
    let mut quota = Quota::default();
    let mut watermarks = Watermarks::default();
    if !of_rfc {
        quota.ms = numbers[7];
        quota.sz = numbers[8];
        quota.reset_interval_ms = numbers[9].min(LONGEST_MS);
        let [sz, nr_accesses, age] = [10, 11, 12].map(|at| cut(at, most));
        quota.weights = Weights { sz, nr_accesses, age };
        let metric = match cut(13, 1) {
            0 => WatermarkMetric::None,
            _ => WatermarkMetric::FreeMemRate,
        };
        let (interval_us, high, mid, low) = (numbers[14], numbers[15], numbers[16], numbers[17]);
        watermarks = Watermarks { metric, interval_us, high, mid, low };
    }
    let action = usize::try_from(numbers[6]).ok().and_then(|n| ACTIONS.get(n));
    let action = action.ok_or_else(|| words[6].error("no action has this number"));
    let action = action.and_then(|action| available(action.name(), words[6].span(), false));
    let sz = open(Bounds::new(numbers[0], numbers[1]), of_rfc, u64::MAX);
    let nr = open(Bounds::new(nr_min, nr_max), of_rfc, u32::MAX);
    let age = open(Bounds::new(age_min, age_max), of_rfc, u32::MAX);
    let pattern = Pattern { sz, nr_accesses: Frequency::Samples(nr), age: Age::Windows(age) };
    if errors.is_empty() && pattern.is_upside_down() {
        let span = words[0].span().start..words[5].span().end;
        errors.push(TextError::new(span, "a range is upside down").why("no region could match"));
    }
    match action {
        Ok(action) if errors.is_empty() => {
            Ok(Scheme { pattern, action, quota, watermarks, ..Scheme::default() })
        }
        Ok(_) => Err(errors),
        Err(error) => {
            errors.push(error);
            Err(errors)
        }
    }
}

fn number(word: &Word<'_>, errors: &mut Vec<TextError>) -> u64 {
    word.text.parse().unwrap_or_else(|_e| {
        errors.push(word.error(format!("`{}` is not a whole number", word.text)));
        0
    })
}

/// The same range, where a maximum of 0 may be no bound.
fn open<T: Ord + Copy + Default>(bounds: Bounds<T>, zero_is_open: bool, most: T) -> Bounds<T> {
    if zero_is_open && bounds.max == T::default() { Bounds::new(bounds.min, most) } else { bounds }
}
