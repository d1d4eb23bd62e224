//! Numbers with units, as people write them: sizes, intervals, shares.
//!
//! All of it is exact: a decimal fraction is scaled in integers and rounded to the nearest unit, or refused
//! where rounding would hide something. Sizes are in powers of 1024, as in DAMON's tools.

use std::time::Duration;

/// Why a number with a unit was refused.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum UnitError {
    /// There is no number at the beginning.
    NotANumber {
        /// What stands there.
        text: String,
    },
    /// The unit is not known.
    Unknown {
        /// What stands there.
        unit: String,
        /// What could.
        known: &'static str,
    },
    /// A unit is missing where the number alone could mean several things.
    Missing {
        /// The number.
        number: String,
        /// What could follow.
        known: &'static str,
    },
    /// Too large to be meant.
    TooLarge,
    /// Finer than what can be told apart.
    TooFine {
        /// The finest.
        least: &'static str,
    },
    /// Not of the form that the text has to have.
    Form {
        /// The form, with an example.
        expected: &'static str,
    },
}

impl std::fmt::Display for UnitError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::NotANumber { text } => write!(f, "`{text}` is not a number with a unit"),
            Self::Unknown { unit, known } => write!(f, "unknown unit `{unit}`: {known}"),
            Self::Missing { number, known } => write!(f, "`{number}` needs a unit: {known}"),
            Self::TooLarge => f.write_str("too large"),
            Self::TooFine { least } => write!(f, "finer than {least}"),
            Self::Form { expected } => write!(f, "expected {expected}"),
        }
    }
}

impl std::error::Error for UnitError {}

type Result<T> = std::result::Result<T, UnitError>;

/// The units of time.
pub(crate) const TIME: &str = "us, ms, s, m, h or d";
/// The units of size.
pub(crate) const SIZE: &str = "B, K, M, G, T or P (powers of 1024)";
/// The units of a share.
pub(crate) const SHARE: &str = "%, permil or bp";

/// A decimal number: `digits` divided by ten to the power of `scale`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Decimal {
    digits: u128,
    scale: u32,
}

impl Decimal {
    /// So many units of `factor`, to the nearest whole.
    pub(crate) fn times(self, factor: u64) -> Result<u64> {
        let divisor = 10_u128.pow(self.scale);
        let product = self.digits.checked_mul(factor.into()).ok_or(UnitError::TooLarge)?;
        let whole = (product + divisor / 2) / divisor;
        u64::try_from(whole).ok().ok_or(UnitError::TooLarge)
    }

    /// So many units of `factor`, if that is a whole number.
    pub(crate) fn exactly(self, factor: u64, least: &'static str) -> Result<u64> {
        let product = self.digits.checked_mul(factor.into()).ok_or(UnitError::TooLarge)?;
        if !product.is_multiple_of(10_u128.pow(self.scale)) {
            return Err(UnitError::TooFine { least });
        }
        self.times(factor)
    }

    pub(crate) const fn is_zero(self) -> bool {
        self.digits == 0
    }
}

/// The number at the beginning, and what follows.
pub(crate) fn split(text: &str) -> Result<(Decimal, &str)> {
    let text = text.trim();
    let at = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    let (number, unit) = (&text[..at], text[at..].trim());
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    let wrong = || UnitError::NotANumber { text: text.to_owned() };
    if whole.is_empty() || fraction.contains('.') || number.ends_with('.') {
        return Err(wrong());
    }
    // Nothing here has units so large that more digits could count.
    if fraction.len() > 12 {
        return Err(UnitError::TooFine { least: "twelve digits" });
    }
    let digits = format!("{whole}{fraction}").parse().ok().ok_or(UnitError::TooLarge)?;
    let scale = u32::try_from(fraction.len()).ok().ok_or_else(wrong)?;
    Ok((Decimal { digits, scale }, unit))
}

/// Microseconds per unit of time.
pub(crate) fn time_unit(unit: &str) -> Result<u64> {
    Ok(match unit {
        "us" | "µs" => 1,
        "ms" => 1_000,
        "s" => 1_000_000,
        "m" | "min" => 60_000_000,
        "h" => 3_600_000_000,
        "d" => 86_400_000_000,
        _ => return Err(UnitError::Unknown { unit: unit.to_owned(), known: TIME }),
    })
}

/// Bytes per unit of size.
pub(crate) fn size_unit(unit: &str) -> Result<u64> {
    let power = match unit.strip_suffix("iB").unwrap_or(unit) {
        "" | "B" => 0,
        "K" | "k" => 1,
        "M" => 2,
        "G" => 3,
        "T" => 4,
        "P" => 5,
        _ => return Err(UnitError::Unknown { unit: unit.to_owned(), known: SIZE }),
    };
    Ok(1 << (10 * power))
}

/// Basis points per unit of a share.
pub(crate) fn share_unit(unit: &str) -> Result<u64> {
    Ok(match unit {
        "%" => 100,
        "permil" | "‰" => 10,
        "bp" => 1,
        _ => return Err(UnitError::Unknown { unit: unit.to_owned(), known: SHARE }),
    })
}

/// Reads an interval in µs: a number with `us`, `ms`, `s`, `m`, `h` or `d`; without a unit it is µs, as in
/// DAMON's own files.
///
/// # Errors
///
/// If it is not of that form, or too large.
pub fn interval_us(text: &str) -> Result<u64> {
    let (number, unit) = split(text)?;
    number.times(if unit.is_empty() { 1 } else { time_unit(unit)? })
}

/// Reads an interval in µs that has a unit, or is 0.
///
/// # Errors
///
/// If it is not of that form, or too large.
pub fn interval_us_with_unit(text: &str) -> Result<u64> {
    let (number, unit) = split(text)?;
    if unit.is_empty() && !number.is_zero() {
        return Err(UnitError::Missing { number: text.trim().to_owned(), known: TIME });
    }
    interval_us(text)
}

/// Reads a duration: as an interval, but without a unit it is seconds.
///
/// # Errors
///
/// If it is not of that form, or too large.
pub fn duration(text: &str) -> Result<Duration> {
    let (number, unit) = split(text)?;
    let factor = if unit.is_empty() { 1_000_000 } else { time_unit(unit)? };
    number.times(factor).map(Duration::from_micros)
}

/// Reads a size in bytes: a number with `B`, `K`, `M`, `G`, `T` or `P` (also as `KiB`), in powers of 1024;
/// without a unit it is bytes.
///
/// # Errors
///
/// If it is not of that form, or too large.
pub fn size(text: &str) -> Result<u64> {
    let (number, unit) = split(text)?;
    number.times(size_unit(unit)?)
}

/// Reads a share in basis points: a number with `%`, `permil` or `bp`; 0 needs no unit.
///
/// # Errors
///
/// If it is not of that form, or finer than a basis point.
pub fn share_bp(text: &str) -> Result<u64> {
    let (number, unit) = split(text)?;
    if number.is_zero() && unit.is_empty() {
        return Ok(0);
    }
    if unit.is_empty() {
        return Err(UnitError::Missing { number: text.trim().to_owned(), known: SHARE });
    }
    number.exactly(share_unit(unit)?, "a basis point (0.01%)")
}

/// Reads `MIN..MAX`, whole numbers without units.
///
/// # Errors
///
/// If it is not of that form.
pub fn bounds(text: &str) -> Result<(u64, u64)> {
    let form = UnitError::Form { expected: "MIN..MAX, as 10..1000" };
    let (min, max) = text.split_once("..").ok_or(form)?;
    let number = |s: &str| {
        s.trim().parse::<u64>().map_err(|_e| UnitError::NotANumber { text: s.to_owned() })
    };
    Ok((number(min)?, number(max)?))
}

/// Writes an interval so that [`interval_us_with_unit`] reads the same.
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

/// Writes a size so that [`size`] reads the same.
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

/// Writes a share so that [`share_bp`] reads the same.
#[must_use]
pub fn show_share(bp: u64) -> String {
    let (whole, part) = (bp / 100, bp % 100);
    match part {
        0 => format!("{whole}%"),
        part if part % 10 == 0 => format!("{whole}.{}%", part / 10),
        part => format!("{whole}.{part:02}%"),
    }
}
