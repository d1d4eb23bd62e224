//! Numbers with units, as they stand on the command line.

use std::time::Duration;

/// Reads an interval in µs: a number with `us`, `ms`, `s`, `m` or `h`; without a unit it is µs, as in
/// DAMON's own files.
pub(crate) fn interval_us(text: &str) -> Result<u64, String> {
    let (number, unit) = split(text)?;
    let factor = match unit {
        "" | "us" => 1.0,
        "ms" => 1e3,
        "s" => 1e6,
        "m" | "min" => 60e6,
        "h" => 3600e6,
        _ => return Err(format!("unknown unit `{unit}`: us, ms, s, m or h")),
    };
    whole(number * factor)
}

/// Reads a duration: as an interval, but without a unit it is seconds.
pub(crate) fn duration(text: &str) -> Result<Duration, String> {
    let (number, unit) = split(text)?;
    if unit.is_empty() {
        return whole(number * 1e6).map(Duration::from_micros);
    }
    interval_us(text).map(Duration::from_micros)
}

/// Reads `MIN..MAX`.
pub(crate) fn bounds(text: &str) -> Result<(u64, u64), String> {
    let (min, max) = text.split_once("..").ok_or("expected MIN..MAX, as 10..1000")?;
    let number = |s: &str| s.trim().parse::<u64>().map_err(|e| format!("`{s}`: {e}"));
    Ok((number(min)?, number(max)?))
}

fn split(text: &str) -> Result<(f64, &str), String> {
    let text = text.trim();
    let at = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    let number = text[..at].parse();
    let number = number.ok().ok_or_else(|| format!("`{text}` is not a number with a unit"))?;
    Ok((number, text[at..].trim()))
}

#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "checked just before")]
fn whole(us: f64) -> Result<u64, String> {
    // 2^53: beyond it an f64 does not hold every integer, and no interval is that long.
    if us.is_finite() && (0.0..9.0e15).contains(&us) {
        Ok(us.round() as u64)
    } else {
        Err("too long".into())
    }
}

/// Shows bytes with three significant digits.
pub(crate) fn bytes(n: u64) -> String {
    #[expect(clippy::cast_precision_loss, reason = "shown with three digits")]
    let mut x = n as f64;
    let mut unit = "B";
    for next in ["KiB", "MiB", "GiB", "TiB"] {
        if x < 1000.0 {
            break;
        }
        x /= 1024.0;
        unit = next;
    }
    let digits = if unit == "B" || x >= 99.95 { 0 } else { 1 + usize::from(x < 9.995) };
    format!("{x:.digits$} {unit}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn intervals() {
        let cases = [
            ("5000", Some(5000)),
            ("5ms", Some(5000)),
            ("0.5s", Some(500_000)),
            ("2m", Some(120_000_000)),
            ("1h", Some(3_600_000_000)),
            ("0", Some(0)),
            ("5 parsecs", None),
            ("ms", None),
            ("", None),
            ("-1s", None),
            ("99999999999999999999s", None),
        ];
        for (text, want) in cases {
            assert_eq!(interval_us(text).ok(), want, "{text}");
        }
        assert_eq!(duration("2"), Ok(Duration::from_secs(2)));
        assert_eq!(duration("300ms"), Ok(Duration::from_millis(300)));
    }

    #[test]
    fn ranges() {
        assert_eq!(bounds("10..1000"), Ok((10, 1000)));
        for wrong in ["10", "10..", "..5", "a..b", "-1..4"] {
            assert!(bounds(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn sizes() {
        let cases = [(0, "0 B"), (999, "999 B"), (4096, "4.00 KiB"), (10 << 20, "10.0 MiB")];
        for (n, want) in cases {
            assert_eq!(bytes(n), want);
        }
        assert_eq!(bytes(1 << 30), "1.00 GiB");
        assert_eq!(bytes(1023 << 10), "1.00 MiB");
    }
}
