//! Reading numbers with units.

use alloc::borrow::ToOwned;
use alloc::format;
use core::time::Duration;

use super::UnitError;

type Result<T> = core::result::Result<T, UnitError>;

/// The units of time, for messages.
pub const TIME: &str = "us, ms, s, m, h or d";
/// The units of size, for messages.
pub const SIZE: &str = "B, K, M, G, T or P (powers of 1024)";
/// The units of a share, for messages.
pub const SHARE: &str = "%, permil or bp";

/// The units of time that a number without one is most likely meant in.
const LIKELY_TIME: &[&str] = &["s", "ms"];

/// The number of digits behind the point that are read. No unit is so large that more digits would
/// matter.
const MOST_DECIMALS: usize = 12;

/// A decimal number: `digits` divided by ten to the power of `scale`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Decimal {
    digits: u128,
    scale: u32,
}

impl Decimal {
    /// So many units of `factor`, to the nearest whole.
    ///
    /// # Errors
    ///
    /// If that is more than a `u64` holds.
    pub fn times(self, factor: u64) -> Result<u64> {
        self.scaled(factor, 1)
    }

    /// So many units of `factor`, if that is a whole number.
    ///
    /// # Errors
    ///
    /// If it is not, or more than a `u64` holds. `least` names the unit for the message.
    pub fn exactly(self, factor: u64, least: &'static str) -> Result<u64> {
        let product = self.digits.checked_mul(factor.into()).ok_or(UnitError::TooLarge)?;
        if !product.is_multiple_of(10_u128.pow(self.scale)) {
            return Err(UnitError::TooFine { least });
        }
        self.times(factor)
    }

    /// So many of a unit of time, in µs, to the nearest whole.
    ///
    /// # Errors
    ///
    /// If the unit is not known, or that is more than a `u64` holds.
    pub fn micros(self, unit: &str) -> Result<u64> {
        self.scaled(time_unit_ns(unit)?, 1000)
    }

    /// Whether it is 0.
    #[must_use]
    pub const fn is_zero(self) -> bool {
        self.digits == 0
    }

    /// So many units of `factor / per`, to the nearest whole.
    fn scaled(self, factor: u64, per: u64) -> Result<u64> {
        // At most 10^12 times 10^6.
        let divisor = 10_u128.pow(self.scale) * u128::from(per);
        let product = self.digits.checked_mul(factor.into()).ok_or(UnitError::TooLarge)?;
        let whole = product.checked_add(divisor / 2).ok_or(UnitError::TooLarge)? / divisor;
        u64::try_from(whole).ok().ok_or(UnitError::TooLarge)
    }
}

/// The number at the beginning, and the unit that follows, without spaces around it.
///
/// # Errors
///
/// If there is no number, or it has too many digits.
pub fn split(text: &str) -> Result<(Decimal, &str)> {
    let text = text.trim();
    let at = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    let (number, unit) = (&text[..at], text[at..].trim());
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    if whole.is_empty() || fraction.contains('.') || number.ends_with('.') {
        return Err(UnitError::NotANumber { text: text.to_owned() });
    }
    if fraction.len() > MOST_DECIMALS {
        return Err(UnitError::TooFine { least: "twelve digits" });
    }
    let digits = format!("{whole}{fraction}").parse().ok().ok_or(UnitError::TooLarge)?;
    let scale = u32::try_from(fraction.len()).unwrap_or(u32::MAX);
    Ok((Decimal { digits, scale }, unit))
}

/// Nanoseconds per unit of time.
///
/// # Errors
///
/// If the unit is not known.
pub fn time_unit_ns(unit: &str) -> Result<u64> {
    Ok(match unit {
        "ns" => 1,
        "us" | "µs" => 1_000,
        "ms" => 1_000_000,
        "s" => 1_000_000_000,
        "m" | "min" => 60_000_000_000,
        "h" => 3_600_000_000_000,
        "d" => 86_400_000_000_000,
        _ => return Err(UnitError::Unknown { unit: unit.to_owned(), known: TIME }),
    })
}

/// Bytes per unit of size; of no unit, 1.
///
/// # Errors
///
/// If the unit is not known.
pub fn size_unit(unit: &str) -> Result<u64> {
    let small = unit.to_ascii_lowercase();
    let prefix = small.strip_suffix("ib").or_else(|| small.strip_suffix('b')).unwrap_or(&small);
    let power = match prefix {
        "" if small != "ib" => 0,
        "k" => 1,
        "m" => 2,
        "g" => 3,
        "t" => 4,
        "p" => 5,
        _ => return Err(UnitError::Unknown { unit: unit.to_owned(), known: SIZE }),
    };
    Ok(1 << (10 * power))
}

/// Basis points per unit of a share.
///
/// # Errors
///
/// If the unit is not known.
pub fn share_unit(unit: &str) -> Result<u64> {
    Ok(match unit {
        "%" => 100,
        "permil" | "‰" => 10,
        "bp" => 1,
        _ => return Err(UnitError::Unknown { unit: unit.to_owned(), known: SHARE }),
    })
}

/// Reads a time in µs; without a unit it is µs, as in DAMON's own files.
///
/// # Errors
///
/// If it is not of that form, or too large.
pub fn interval_us(text: &str) -> Result<u64> {
    let (number, unit) = split(text)?;
    number.micros(if unit.is_empty() { "us" } else { unit })
}

/// Splits a time that has a unit, or is 0.
fn split_time(text: &str) -> Result<(Decimal, &str)> {
    match split(text)? {
        (number, "") if number.is_zero() => Ok((number, "s")),
        (_, "") => Err(UnitError::Missing { number: text.trim().to_owned(), likely: LIKELY_TIME }),
        parts => Ok(parts),
    }
}

/// Reads a time in µs that has a unit, or is 0.
///
/// # Errors
///
/// If it is not of that form, or too large.
pub fn interval_us_with_unit(text: &str) -> Result<u64> {
    let (number, unit) = split_time(text)?;
    number.micros(unit)
}

/// Reads a time in ms that has a unit, or is 0.
///
/// # Errors
///
/// If it is not of that form, or too large.
pub fn millis(text: &str) -> Result<u64> {
    let (number, unit) = split_time(text)?;
    number.scaled(time_unit_ns(unit)?, 1_000_000)
}

/// Reads a time that has a unit, or is 0. Exact to a µs.
///
/// # Errors
///
/// If it is not of that form, or too large.
pub fn duration(text: &str) -> Result<Duration> {
    interval_us_with_unit(text).map(Duration::from_micros)
}

/// Reads a time in ns that has a unit, or is 0.
///
/// # Errors
///
/// If it is not of that form, or more than 584 years.
pub fn span_ns(text: &str) -> Result<u64> {
    let (number, unit) = split_time(text)?;
    number.times(time_unit_ns(unit)?)
}

/// Reads a size in bytes; without a unit it is bytes.
///
/// # Errors
///
/// If it is not of that form, or too large.
pub fn size(text: &str) -> Result<u64> {
    let (number, unit) = split(text)?;
    number.times(size_unit(unit)?)
}

/// Reads an address: hexadecimal behind `0x`, or a size in whole bytes.
///
/// # Errors
///
/// If it is not of that form, or too large.
pub fn address(text: &str) -> Result<u64> {
    let text = text.trim();
    let Some(hex) = text.strip_prefix("0x").or_else(|| text.strip_prefix("0X")) else {
        let (number, unit) = split(text)?;
        return number.exactly(size_unit(unit)?, "a byte");
    };
    // `from_str_radix` alone would take a sign.
    if hex.is_empty() || !hex.bytes().all(|b| b.is_ascii_hexdigit()) {
        return Err(UnitError::NotANumber { text: text.to_owned() });
    }
    u64::from_str_radix(hex, 16).ok().ok_or(UnitError::TooLarge)
}

/// Reads a share in basis points; 0 needs no unit.
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
        return Err(UnitError::Missing { number: text.trim().to_owned(), likely: &["%"] });
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
        let not = || UnitError::NotANumber { text: s.to_owned() };
        s.trim().parse::<u64>().ok().ok_or_else(not)
    };
    Ok((number(min)?, number(max)?))
}
