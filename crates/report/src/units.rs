//! Numbers for people: sizes in MiB with three digits, times, shares; and how people write them.

/// Bytes in a mebibyte.
pub const MIB: f64 = 1_048_576.0;

/// A size in MiB with three significant digits, for example `1.50 MiB`.
#[must_use]
pub fn mib(bytes: f64) -> String {
    format!("{} MiB", three_digits(bytes / MIB))
}

/// A number with three significant digits; whole digits are never dropped.
#[must_use]
pub fn three_digits(x: f64) -> String {
    let size = x.abs();
    if size == 0.0 || !size.is_finite() {
        return format!("{x:.0}");
    }
    // Steps at 99.95 and 9.995: what rounds up to the next power of ten has one decimal less.
    let mut decimals = 0;
    while decimals < 9 && size * 10f64.powi(decimals) < 99.95 {
        decimals += 1;
    }
    format!("{x:.0$}", usize::try_from(decimals).unwrap_or(0))
}

/// A span of time in the unit that fits it, for example `250 ms`, `12.0 s`, `5 min`.
#[must_use]
pub fn span(ns: f64) -> String {
    let s = ns / 1e9;
    if s == 0.0 {
        "0 s".into()
    } else if s < 0.001 {
        format!("{} us", three_digits(s * 1e6))
    } else if s < 1.0 {
        format!("{} ms", three_digits(s * 1e3))
    } else if s < 100.0 {
        format!("{} s", three_digits(s))
    } else if s < 7200.0 {
        format!("{} min", three_digits(s / 60.0))
    } else {
        format!("{} h", three_digits(s / 3600.0))
    }
}

/// A share of 0 to 1 in percent, for example `12.5 %`.
#[must_use]
pub fn percent(share: f64) -> String {
    format!("{:.1} %", share * 100.0)
}

/// Reads a span such as `1.5s`, `250ms`, `2m`, `1h`, `10us`, or bare seconds; gives ns.
#[must_use]
pub fn parse_span(text: &str) -> Option<u64> {
    let text = text.trim();
    let digits = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    let (number, unit) = text.split_at(digits);
    let ns = match unit.trim() {
        "ns" => 1.0,
        "us" => 1e3,
        "ms" => 1e6,
        "" | "s" => 1e9,
        "m" | "min" => 60e9,
        "h" => 3600e9,
        _ => return None,
    };
    Some(to_u64(number.parse::<f64>().ok()? * ns))
}

/// Reads an address: hexadecimal with `0x`, or decimal, or decimal with `K`, `M`, `G`, `T`.
#[must_use]
pub fn parse_address(text: &str) -> Option<u64> {
    let text = text.trim();
    if let Some(hex) = text.strip_prefix("0x").or_else(|| text.strip_prefix("0X")) {
        return u64::from_str_radix(hex, 16).ok();
    }
    let digits = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let (number, unit) = text.split_at(digits);
    let shift = match unit.trim().trim_end_matches("iB").trim_end_matches('B') {
        "" => 0,
        "K" | "k" => 10,
        "M" => 20,
        "G" => 30,
        "T" => 40,
        _ => return None,
    };
    number.parse::<u64>().ok()?.checked_mul(1 << shift)
}

/// To the nearest whole number; saturates, and what is no number is 0.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "`as` saturates, which is meant"
)]
#[must_use]
pub fn to_u64(x: f64) -> u64 {
    x.round() as u64
}

/// [`to_u64`] for indices.
#[must_use]
pub fn to_usize(x: f64) -> usize {
    usize::try_from(to_u64(x)).unwrap_or(usize::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_and_spans() {
        for (bytes, text) in [
            (0.0, "0 MiB"),
            (4096.0, "0.00391 MiB"),
            (1.5 * MIB, "1.50 MiB"),
            (9.996 * MIB, "10.0 MiB"),
            (104.4 * MIB, "104 MiB"),
            (12_345.0 * MIB, "12345 MiB"),
        ] {
            assert_eq!(mib(bytes), text);
        }
        for (ns, text) in [
            (0.0, "0 s"),
            (5e6, "5.00 ms"),
            (12e9, "12.0 s"),
            (300e9, "5.00 min"),
            (9e12, "2.50 h"),
        ] {
            assert_eq!(span(ns), text);
        }
    }

    #[test]
    fn parses_what_people_write() {
        for (text, ns) in [
            ("1.5s", Some(1_500_000_000)),
            ("250ms", Some(250_000_000)),
            ("2", Some(2_000_000_000)),
            ("2m", Some(120_000_000_000)),
            ("x", None),
            ("2 weeks", None),
        ] {
            assert_eq!(parse_span(text), ns, "{text}");
        }
        for (text, addr) in [
            ("0x7fff0000", Some(0x7fff_0000)),
            ("4096", Some(4096)),
            ("4K", Some(4096)),
            ("2GiB", Some(2 << 30)),
            ("7fff", None),
            ("99999999999T", None),
        ] {
            assert_eq!(parse_address(text), addr, "{text}");
        }
    }
}
