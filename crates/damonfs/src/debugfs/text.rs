//! The texts of the files, as `sscanf()` in the kernel reads them (Linux 5.15 to 6.13).
//!
//! Numbers are decimal and apart by white space. Reading stops without an error at the first word
//! that is no number, and what was read so far counts.

use isotherm_core::AddrRange;
use isotherm_core::scheme::{Action, Bounds, Resolved, WatermarkMetric, Watermarks, Weights};
use isotherm_damon::model::{Intervals, Quota, Scheme};
use rustix::io::Errno;

use crate::engine::SchemeResults;

/// The actions by their numbers in these files. They are not the numbers of `damon.h`.
const ACTIONS: [Action; 6] = [
    Action::Willneed,
    Action::Cold,
    Action::Pageout,
    Action::Hugepage,
    Action::Nohugepage,
    Action::Stat,
];

/// The most schemes that one write sets.
const MOST_SCHEMES: usize = 256;

/// The most targets that one write sets.
const MOST_TARGETS: usize = 32;

/// The words of a text, without what is behind a NUL.
fn words(text: &[u8]) -> impl Iterator<Item = &str> {
    let text = text.split(|byte| *byte == 0).next().unwrap_or_default();
    text.split(u8::is_ascii_whitespace).filter(|word| !word.is_empty()).map_while(|word| {
        // What is not text is no number either.
        std::str::from_utf8(word).ok()
    })
}

/// The first word, as `%s` reads it.
pub(super) fn word(text: &[u8]) -> Option<&str> {
    words(text).next()
}

/// The digits at the begin of a text as a number, and what is behind them; none without a digit. A
/// number that is too large for 64 bits wraps around, as in the kernel.
fn number(text: &str) -> Option<(u64, &str)> {
    let len = text.bytes().take_while(u8::is_ascii_digit).count();
    let (digits, rest) = text.split_at(len);
    let add = |sum: u64, digit: u8| sum.wrapping_mul(10).wrapping_add(u64::from(digit - b'0'));
    (len > 0).then(|| (digits.bytes().fold(0, add), rest))
}

/// The numbers at the begin of a text. The last one can have something else right behind it.
fn numbers(text: &[u8]) -> Vec<u64> {
    let mut all = Vec::new();
    for word in words(text) {
        let Some((found, rest)) = number(word) else { break };
        all.push(found);
        if !rest.is_empty() {
            break;
        }
    }
    all
}

/// The pids of `target_ids`, which the kernel reads as `int`.
pub(super) fn pids(text: &[u8]) -> Vec<i32> {
    let mut all = Vec::new();
    for word in words(text).take(MOST_TARGETS) {
        let (is_negative, digits) = match word.strip_prefix('-') {
            Some(digits) => (true, digits),
            None => (false, word),
        };
        let Some((found, rest)) = number(digits) else { break };
        all.push(int(if is_negative { found.wrapping_neg() } else { found }));
        if !rest.is_empty() {
            break;
        }
    }
    all
}

/// A number that the kernel keeps in an `int`.
#[expect(clippy::cast_possible_truncation, reason = "as the kernel does")]
const fn int(value: u64) -> i32 {
    value as i32
}

/// The text of `target_ids`.
pub(super) fn show_pids(pids: impl Iterator<Item = i32>) -> String {
    let all: Vec<String> = pids.map(|pid| pid.to_string()).collect();
    format!("{}\n", all.join(" "))
}

/// The intervals and the number of regions of `attrs`.
///
/// # Errors
///
/// EINVAL unless there are five numbers.
pub(super) fn attrs(text: &[u8]) -> Result<(Intervals, Bounds<u64>), Errno> {
    let [sample_us, aggr_us, update_us, min, max, ..] = *numbers(text) else {
        return Err(Errno::INVAL);
    };
    let intervals = Intervals { sample_us, aggr_us, update_us, ..Intervals::default() };
    Ok((intervals, Bounds::new(min, max)))
}

/// The text of `attrs`.
pub(super) fn show_attrs(intervals: &Intervals, nr_regions: &Bounds<u64>) -> String {
    let Intervals { sample_us, aggr_us, update_us, .. } = intervals;
    format!("{sample_us} {aggr_us} {update_us} {} {}\n", nr_regions.min, nr_regions.max)
}

/// The regions of `init_regions`: the index of the target, and where.
///
/// # Errors
///
/// EINVAL for an empty region, one that does not come after the one before, or one of a target
/// that there is not.
pub(super) fn regions(text: &[u8], nr_targets: usize) -> Result<Vec<Vec<AddrRange>>, Errno> {
    let mut all = vec![Vec::<AddrRange>::new(); nr_targets];
    for triple in numbers(text).chunks_exact(3) {
        let (index, start, end) = (triple[0], triple[1], triple[2]);
        let index = usize::try_from(index).map_err(|_err| Errno::INVAL)?;
        let of_target = all.get_mut(index).ok_or(Errno::INVAL)?;
        let follows = of_target.last().is_none_or(|before| before.end <= start);
        if start >= end || !follows {
            return Err(Errno::INVAL);
        }
        of_target.push(AddrRange { start, end });
    }
    Ok(all)
}

/// The text of `init_regions`.
pub(super) fn show_regions<'a>(targets: impl Iterator<Item = &'a [AddrRange]>) -> String {
    let mut text = String::new();
    for (index, regions) in targets.enumerate() {
        for AddrRange { start, end } in regions {
            text.push_str(&format!("{index} {start} {end}\n"));
        }
    }
    text
}

/// The schemes of `schemes`: 18 numbers each, as from 5.16 on. A line of 7 numbers is one of the
/// first patches, which had neither quotas nor watermarks. What was read from the file can be
/// written to it: the five counts behind each scheme are left out.
///
/// # Errors
///
/// EINVAL for an action that there is not, bounds in the wrong order, or watermarks in the wrong
/// order.
pub(super) fn schemes(text: &[u8]) -> Result<Vec<Scheme>, Errno> {
    let mut all = Vec::new();
    for line in text.split(|byte| *byte == b'\n').filter(|line| word(line).is_some()) {
        match &*numbers(line) {
            [pattern @ .., _, _, _, _, _] if pattern.len() == 18 => all.push(scheme(pattern)?),
            all_of if matches!(all_of.len(), 7 | 18) => all.push(scheme(all_of)?),
            // As for the kernel, the schemes end here.
            _ => break,
        }
        if all.len() == MOST_SCHEMES {
            break;
        }
    }
    Ok(all)
}

/// A number that the kernel keeps in an `unsigned int`.
#[expect(clippy::cast_possible_truncation, reason = "as the kernel does")]
const fn uint(value: u64) -> u32 {
    value as u32
}

fn scheme(numbers: &[u64]) -> Result<Scheme, Errno> {
    let at = |index: usize| numbers.get(index).copied().unwrap_or(0);
    let pattern = Resolved {
        sz: Bounds::new(at(0), at(1)),
        nr_accesses: Bounds::new(uint(at(2)), uint(at(3))),
        age: Bounds::new(uint(at(4)), uint(at(5))),
    };
    let action = usize::try_from(at(6)).ok().and_then(|action| ACTIONS.get(action));
    let metric = match at(13) {
        1 => WatermarkMetric::FreeMemRate,
        _ => WatermarkMetric::None,
    };
    let watermarks =
        Watermarks { metric, interval_us: at(14), high: at(15), mid: at(16), low: at(17) };
    let in_order = pattern.sz.min <= pattern.sz.max
        && pattern.nr_accesses.min <= pattern.nr_accesses.max
        && pattern.age.min <= pattern.age.max
        && watermarks.high >= watermarks.mid
        && watermarks.mid >= watermarks.low;
    match action {
        Some(action) if in_order => Ok(Scheme {
            pattern,
            action: *action,
            quota: Quota {
                ms: at(7),
                bytes: at(8),
                reset_interval_ms: at(9),
                weights: Weights { sz: uint(at(10)), nr_accesses: uint(at(11)), age: uint(at(12)) },
                ..Quota::default()
            },
            watermarks,
            ..Scheme::default()
        }),
        _ => Err(Errno::INVAL),
    }
}

/// The text of `schemes`, with what they have counted.
pub(super) fn show_schemes(schemes: &[Scheme], results: &[SchemeResults]) -> String {
    let mut text = String::new();
    let nothing = SchemeResults::default();
    for (index, scheme) in schemes.iter().enumerate() {
        let Scheme { pattern, quota, watermarks, .. } = scheme;
        let stats = &results.get(index).unwrap_or(&nothing).stats;
        let action = ACTIONS.iter().position(|known| *known == scheme.action).unwrap_or(0);
        let numbers: [u64; 23] = [
            pattern.sz.min,
            pattern.sz.max,
            pattern.nr_accesses.min.into(),
            pattern.nr_accesses.max.into(),
            pattern.age.min.into(),
            pattern.age.max.into(),
            u64::try_from(action).unwrap_or(0),
            quota.ms,
            quota.bytes,
            quota.reset_interval_ms,
            quota.weights.sz.into(),
            quota.weights.nr_accesses.into(),
            quota.weights.age.into(),
            u64::from(watermarks.metric == WatermarkMetric::FreeMemRate),
            watermarks.interval_us,
            watermarks.high,
            watermarks.mid,
            watermarks.low,
            stats.nr_tried,
            stats.sz_tried,
            stats.nr_applied,
            stats.sz_applied,
            stats.qt_exceeds,
        ];
        let numbers = numbers.map(|number| number.to_string());
        text.push_str(&numbers.join(" "));
        text.push('\n');
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reading_stops_where_the_kernel_stops() {
        assert_eq!(pids(b"1 2 abc 4\n"), [1, 2]);
        assert!(pids(b"abc 2 3\n").is_empty());
        assert_eq!(pids(b"1 -2 3x 4\n"), [1, -2, 3], "what is behind the digits ends it");
        assert!(pids(b"+1").is_empty(), "there is no plus");
        assert_eq!(numbers(b"1 18446744073709551617 +3"), [1, 1], "what is too large wraps around");
        assert!(pids(b"\n").is_empty());
        assert_eq!(show_pids([1, 2].into_iter()), "1 2\n");
        assert_eq!(show_pids([].into_iter()), "\n");
        assert_eq!(attrs(b"1 2 3 4").unwrap_err(), Errno::INVAL);
        let (intervals, nr) = attrs(b"1 2 3 4 5\n").unwrap();
        assert_eq!(show_attrs(&intervals, &nr), "1 2 3 4 5\n");
        assert_eq!(word(b" on \n"), Some("on"));
        assert_eq!(word(b"\xff"), None);
    }

    #[test]
    fn regions_come_in_order() {
        let found = regions(b"0 4096 8192\n1 1 2 0 8192 9000\n", 2).unwrap();
        let lens: Vec<usize> = found.iter().map(Vec::len).collect();
        assert_eq!(lens, [2, 1]);
        let text = show_regions(found.iter().map(Vec::as_slice));
        assert_eq!(text, "0 4096 8192\n0 8192 9000\n1 1 2\n");
        for bad in ["0 2 1", "0 1 1", "2 1 2", "0 10 20 0 15 30"] {
            assert_eq!(regions(bad.as_bytes(), 2), Err(Errno::INVAL), "{bad}");
        }
    }

    #[test]
    fn schemes_are_those_of_the_seeds_and_of_the_kernel() {
        // `2M null 5 null null null hugepage` of RFC v6, as its tool wrote it.
        let first = schemes(b"2097152 18446744073709551615 1 20 0 42949 3\n").unwrap();
        assert_eq!((first[0].action, first[0].pattern.sz.min), (Action::Hugepage, 2 << 20));
        let line = "1 2 3 4 5 6 4 10 20 30 1 2 3 1 100 3 2 1";
        let one = schemes(line.as_bytes()).unwrap();
        assert_eq!(one[0].action, Action::Nohugepage);
        assert_eq!((one[0].quota.ms, one[0].quota.bytes), (10, 20));
        let text = show_schemes(&one, &[]);
        assert_eq!(text, format!("{line} 0 0 0 0 0\n"));
        assert_eq!(schemes(text.as_bytes()).unwrap(), one, "what was read can be written");
        assert_eq!(schemes(format!("{line}\n{line}\n1 2 3\n{line}").as_bytes()).unwrap().len(), 2);
        assert!(schemes(b"").unwrap().is_empty());
        for bad in [
            "2 1 2 1 10 1 3 10 1 1 1 1 1 1 1 1 2 3",
            "1 2 3 4 5 6 9 0 0 0 1 2 3 1 100 3 2 1",
            "1 2 3 4 5 6 3 0 0 0 1 2 3 1 100 1 2 3",
        ] {
            assert_eq!(schemes(bad.as_bytes()), Err(Errno::INVAL), "{bad}");
        }
    }
}
