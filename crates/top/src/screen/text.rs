//! Numbers as short text, for columns.

use isotherm::raw::core::TouchedBytes;

use crate::model::Row;

/// A size in at most five characters: `0`, `12K`, `1.25M`, `128M`, `1.50T`.
pub(crate) fn size(bytes: u64) -> String {
    if bytes < 1000 {
        return if bytes == 0 { "0".into() } else { format!("{bytes}B") };
    }
    #[expect(clippy::cast_precision_loss, reason = "shown with three digits")]
    let mut x = bytes as f64;
    let mut unit = ' ';
    for next in ['K', 'M', 'G', 'T', 'P', 'E'] {
        x /= 1024.0;
        unit = next;
        if x < 999.5 {
            break;
        }
    }
    let decimals = match x {
        x if x < 9.995 => 2,
        x if x < 99.95 => 1,
        _ => 0,
    };
    format!("{x:.decimals$}{unit}")
}

/// A size that may not be known.
pub(crate) fn maybe(bytes: Option<u64>) -> String {
    bytes.map_or_else(|| "-".into(), size)
}

/// What was touched within a span: `~` if the 90 % interval reaches further than a tenth of it to
/// either side, or a part was not measured; `-` if nothing was.
pub(crate) fn within(touched: Option<TouchedBytes>, watched: u64) -> String {
    let Some(TouchedBytes { bytes, lo, hi, measured }) = touched else { return "-".into() };
    // Where less than a tenth was measured, a number would be a guess about the rest.
    if u128::from(measured) * 10 < u128::from(watched) {
        return "-".into();
    }
    let far = |a: u64, b: u64| u128::from(a.abs_diff(b)) * 10 > u128::from(bytes.max(1 << 20));
    // Of few parts that are alike by chance, the interval tells too little.
    let is_whole = u128::from(measured) * 10 >= u128::from(watched) * 9;
    let is_sure = is_whole && !far(hi, bytes) && !far(bytes, lo);
    let sign = if is_sure { "" } else { "~" };
    format!("{sign}{}", size(bytes))
}

/// A time in at most four characters: `0s`, `59s`, `12m`, `3h`, `9d`.
pub(crate) fn time(ns: u64) -> String {
    let s = ns / 1_000_000_000;
    match s {
        0..100 => format!("{s}s"),
        100..6000 => format!("{}m", s / 60),
        6000..360_000 => format!("{}h", s / 3600),
        _ => format!("{}d", s / 86_400),
    }
}

/// A time from a beginning, to a tenth of a second: `1:02:03.4`.
pub(crate) fn clock(ns: u64) -> String {
    let tenths = ns / 100_000_000;
    let (s, rest) = (tenths / 10, tenths % 10);
    match s {
        ..3600 => format!("{}:{:02}.{rest}", s / 60, s % 60),
        _ => format!("{}:{:02}:{:02}.{rest}", s / 3600, s / 60 % 60, s % 60),
    }
}

/// A share in hundredths of a percent.
pub(crate) fn percent(bp: u64) -> String {
    format!("{}.{:02} %", bp / 100, bp % 100)
}

/// A name without signs that would disturb the terminal. Processes choose their names themselves.
pub(crate) fn plain(name: &str) -> String {
    name.chars().map(|c| if c.is_control() { '?' } else { c }).collect()
}

/// Text cut to a width, with a sign where something is missing.
pub(crate) fn cut(text: &str, width: usize) -> String {
    if text.chars().count() <= width {
        return text.to_owned();
    }
    text.chars().take(width.saturating_sub(1)).chain((width > 0).then_some('~')).collect()
}

/// A trend as `width` signs, the newest on the right; the highest is the largest of all.
pub(crate) fn trend(row: &Row, width: usize, steps: &[char]) -> String {
    let skip = row.trend.len().saturating_sub(width);
    let shown = &row.trend[skip..];
    let most = shown.iter().copied().max().unwrap_or(0).max(1);
    let sign = |value: &u64| {
        let at = u128::from(*value) * (steps.len() as u128 - 1) / u128::from(most);
        steps[usize::try_from(at).unwrap_or(0)]
    };
    let signs: String = shown.iter().map(sign).collect();
    format!("{signs:>width$}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_have_three_digits_and_at_most_five_characters() {
        for (bytes, text) in [
            (0, "0"),
            (999, "999B"),
            (1000, "0.98K"),
            (4096, "4.00K"),
            (1 << 20, "1.00M"),
            (10_480_000, "9.99M"),
            (10_481_664, "10.0M"),
            (104_806_000, "100M"),
            (1_048_051_711, "999M"),
            (1_048_051_712, "0.98G"),
            (3 << 29, "1.50G"),
            (u64::MAX, "16.0E"),
        ] {
            assert_eq!(size(bytes), text, "{bytes}");
        }
    }

    #[test]
    fn what_is_not_sure_says_so() {
        let touched = |lo, hi, measured| {
            let mib = |n: u64| n << 20;
            Some(TouchedBytes { bytes: mib(50), lo: mib(lo), hi: mib(hi), measured })
        };
        assert_eq!(within(touched(48, 52, 100), 100), "50.0M");
        assert_eq!(within(touched(40, 52, 100), 100), "~50.0M");
        assert_eq!(within(touched(50, 70, 20), 100), "~50.0M");
        assert_eq!(within(touched(50, 50, 89), 100), "~50.0M");
        assert_eq!(within(touched(50, 50, 9), 100), "-");
        assert_eq!(within(None, 100), "-");
    }

    #[test]
    fn times_are_short() {
        let s = 1_000_000_000;
        for (ns, text) in [(0, "0s"), (99 * s, "99s"), (100 * s, "1m"), (7200 * s, "2h")] {
            assert_eq!(time(ns), text);
        }
        assert_eq!(clock(62 * s + s / 2), "1:02.5");
        assert_eq!(clock(3723 * s), "1:02:03.0");
        assert_eq!(percent(83), "0.83 %");
    }

    #[test]
    fn names_cannot_disturb_the_terminal_and_fit() {
        assert_eq!(plain("a\x1b[31mb\n"), "a?[31mb?");
        assert_eq!(
            (cut("postgres", 5), cut("pg", 5), cut("x", 0)),
            ("post~".into(), "pg".into(), String::new())
        );
    }

    #[test]
    fn a_trend_ends_on_the_right() {
        let row = Row { trend: vec![9, 0, 5, 10], ..Row::default() };
        let steps = ['0', '1', '2'];
        assert_eq!(trend(&row, 6, &steps), "  1012");
        assert_eq!(trend(&row, 2, &steps), "12");
        assert_eq!(trend(&Row::default(), 2, &steps), "  ");
    }
}
