//! Writing numbers with units: exactly, to be read again, or rounded, for people.

use alloc::borrow::ToOwned;
use alloc::format;
use alloc::string::String;

/// Bytes in a mebibyte.
pub const MIB: f64 = 1_048_576.0;

/// Writes an interval in µs exactly.
#[must_use]
pub fn show_interval(us: u64) -> String {
    let units = [(3_600_000_000, "h"), (60_000_000, "m"), (1_000_000, "s"), (1_000, "ms")];
    // Up to two minutes, people count seconds.
    let fits =
        |unit: u64| us != 0 && us.is_multiple_of(unit) && (us > 120_000_000 || unit < 60_000_000);
    match units.iter().find(|(unit, _)| fits(*unit)) {
        Some((unit, name)) => format!("{}{name}", us / unit),
        None if us == 0 => "0".to_owned(),
        None => format!("{us}us"),
    }
}

/// Writes a size in bytes exactly.
#[must_use]
pub fn show_size(bytes: u64) -> String {
    let units = [(50, "P"), (40, "T"), (30, "G"), (20, "M"), (10, "K")];
    match units.iter().find(|(bits, _)| bytes != 0 && bytes.is_multiple_of(1 << bits)) {
        Some((bits, name)) => format!("{}{name}", bytes >> bits),
        // In a range, a number without a unit takes that of the other end.
        None if bytes != 0 => format!("{bytes}B"),
        None => "0".to_owned(),
    }
}

/// Writes a share in basis points exactly.
#[must_use]
pub fn show_share(bp: u64) -> String {
    let (whole, part) = (bp / 100, bp % 100);
    match part {
        0 => format!("{whole}%"),
        part if part % 10 == 0 => format!("{whole}.{}%", part / 10),
        part => format!("{whole}.{part:02}%"),
    }
}

/// A number with three significant digits; whole digits are never dropped.
#[must_use]
pub fn three_digits(x: f64) -> String {
    let size = x.abs();
    if size == 0.0 || !size.is_finite() {
        return format!("{x:.0}");
    }
    // Steps at 99.95 and 9.995: what rounds up to the next power of ten has one decimal less.
    let (mut decimals, mut power) = (0_usize, 1.0);
    while decimals < 9 && size * power < 99.95 {
        decimals += 1;
        power *= 10.0;
    }
    format!("{x:.decimals$}")
}

/// A size in the unit that fits it, with three significant digits: `999 B`, `4.00 KiB`, `1.50 GiB`.
#[must_use]
pub fn bytes(n: u64) -> String {
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
    if unit == "B" { format!("{n} B") } else { format!("{} {unit}", three_digits(x)) }
}

/// A size in MiB with three significant digits, for columns that are compared: `1.50 MiB`. What is
/// smaller than a thousandth, as a mean over time can be, is `<0.001 MiB`; that is the one text
/// here that cannot be read again.
#[must_use]
pub fn mib(bytes: f64) -> String {
    let mib = bytes / MIB;
    if mib > 0.0 && mib < 0.001 {
        return "<0.001 MiB".into();
    }
    format!("{} MiB", three_digits(mib))
}

/// A span of time in ns, in the unit that fits it, with three significant digits: `250 ms`, `12.0
/// s`, `5.00 min`.
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

/// A share of 0 to 1 in percent, with one decimal: `12.5 %`.
#[must_use]
pub fn percent(share: f64) -> String {
    format!("{:.1} %", share * 100.0)
}

/// A number of things, for people: `1 snapshot`, `2 snapshots`.
#[must_use]
pub fn counted(number: u64, thing: &str) -> String {
    format!("{number} {thing}{}", if number == 1 { "" } else { "s" })
}
