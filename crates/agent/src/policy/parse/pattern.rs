//! Ranges of size, frequency and age: `"4K.."`, `"5%..20%"`, `"1..20 samples"`,
//! `{ min = "10s", max = "max" }`.
//!
//! Both ends belong to the range. An end that is missing, or is `min` or `max`, is open. An end
//! without a unit has the unit of the other end.

use std::borrow::Cow;

use isotherm_core::scheme::{Age, Bounds, Frequency, Pattern};
use isotherm_core::units::{self, Decimal, UnitError};

use super::fields::{Entry, Errors, Fields};
use crate::text::TextError;

/// One end of a range.
#[derive(Debug, Clone, Copy)]
enum End<'a> {
    Least,
    Most,
    /// A number, its unit, and the text of both.
    At(Decimal, &'a str, &'a str),
}

impl<'a> End<'a> {
    fn read(text: &'a str, open: Self) -> Result<Self, UnitError> {
        match text.trim() {
            "" => Ok(open),
            "min" => Ok(Self::Least),
            "max" => Ok(Self::Most),
            text => units::split(text).map(|(number, unit)| Self::At(number, unit, text)),
        }
    }

    const fn unit(self) -> &'a str {
        match self {
            Self::At(_, unit, _) => unit,
            Self::Least | Self::Most => "",
        }
    }

    /// An error for a number without a unit, which could mean several things.
    fn without_unit(self, likely: &'static [&'static str]) -> UnitError {
        let number = match self {
            Self::At(_, _, text) => text,
            Self::Least => "min",
            Self::Most => "max",
        };
        UnitError::Missing { number: number.to_owned(), likely }
    }

    /// Its value in units of `factor(unit)`.
    fn value(
        self,
        least: u64,
        most: u64,
        of: impl FnOnce(Decimal) -> Result<u64, UnitError>,
    ) -> Result<u64, UnitError> {
        match self {
            Self::Least => Ok(least),
            Self::Most => Ok(most),
            Self::At(number, ..) => of(number),
        }
    }
}

/// The texts of the two ends; the second is missing if there is one value only.
fn ends<'a>(entry: Entry<'a>, errors: &mut Errors) -> Option<(Cow<'a, str>, Option<Cow<'a, str>>)> {
    if !entry.is_table() {
        let text = errors.keep(entry.text())?;
        return Some(match text.split_once("..") {
            Some((min, max)) => (min.into(), Some(max.into())),
            None => (text.into(), None),
        });
    }
    let fields = entry.fields(&["min", "max"], errors)?;
    let mut end = |key| match fields.get(key) {
        None => Some(Cow::Borrowed("")),
        Some(e) => match e.as_text() {
            Some(text) => Some(text.into()),
            None => errors.keep(e.whole::<u64>()).map(|number| number.to_string().into()),
        },
    };
    let (min, max) = (end("min"), end("max"));
    Some((min?, Some(max?)))
}

/// The pattern of a scheme. A field that is left out matches any value.
pub(super) fn pattern(fields: &Fields<'_>, errors: &mut Errors) -> Pattern {
    let mut pattern = Pattern::ALL;
    let range = |key, errors: &mut Errors, read: Read<'_>| {
        let entry = fields.get(key)?;
        let (min, max) = ends(entry, errors)?;
        errors.keep(bounds(entry, &min, max.as_deref(), read))
    };
    if let Some((sz, _)) = range("size", errors, &size) {
        pattern.sz = sz;
    }
    if let Some((bounds, unit)) = range("frequency", errors, &frequency) {
        let bounds = Bounds::new(to_u32(bounds.min), to_u32(bounds.max));
        pattern.nr_accesses = match unit {
            Kind::Counted => Frequency::Samples(bounds),
            Kind::Measured => Frequency::Bp(bounds),
        };
    }
    if let Some((bounds, unit)) = range("age", errors, &age) {
        pattern.age = match unit {
            Kind::Counted => Age::Windows(Bounds::new(to_u32(bounds.min), to_u32(bounds.max))),
            Kind::Measured => Age::Micros(bounds),
        };
    }
    pattern
}

fn to_u32(x: u64) -> u32 {
    u32::try_from(x).unwrap_or(u32::MAX)
}

/// Whether a bound has a unit, or is a count of samples or windows as in the kernel.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Measured,
    Counted,
}

/// Reads one end with the unit that both share.
type Read<'a> = &'a dyn Fn(End<'_>, &str) -> Result<(u64, Kind), UnitError>;

fn bounds(
    entry: Entry<'_>,
    min: &str,
    max: Option<&str>,
    read: Read<'_>,
) -> Result<(Bounds<u64>, Kind), TextError> {
    let wrong = |e: UnitError| entry.error(format!("`{}`: {e}", entry.key));
    let Some(max) = max else {
        let end = End::read(min, End::Least).map_err(wrong)?;
        if entry.key != "frequency" {
            return Err(entry
                .error(format!("`{}` is one value, not a range", entry.key))
                .why("a region hardly ever has exactly this")
                .hint(format!("\"{min}..\" for at least, \"..{min}\" for at most")));
        }
        let (value, kind) = read(end, end.unit()).map_err(wrong)?;
        return Ok((Bounds::new(value, value), kind));
    };
    let low = End::read(min, End::Least).map_err(wrong)?;
    let high = End::read(max, End::Most).map_err(wrong)?;
    let unit = |a: End<'_>, b: End<'_>| {
        if a.unit().is_empty() { b.unit().to_owned() } else { a.unit().to_owned() }
    };
    let (from, kind) = read(low, &unit(low, high)).map_err(wrong)?;
    let (to, kind_to) = read(high, &unit(high, low)).map_err(wrong)?;
    if kind != kind_to {
        return Err(entry.error(format!("`{}`: the two ends count different things", entry.key)));
    }
    if to < from {
        return Err(entry.error(format!("`{}` is upside down", entry.key)).why(format!(
            "`{}` is more than `{}`: no region could match",
            min.trim(),
            max.trim()
        )));
    }
    Ok((Bounds::new(from, to), kind))
}

fn size(end: End<'_>, unit: &str) -> Result<(u64, Kind), UnitError> {
    let factor = units::size_unit(unit)?;
    Ok((end.value(0, u64::MAX, |n| n.times(factor))?, Kind::Measured))
}

fn frequency(end: End<'_>, unit: &str) -> Result<(u64, Kind), UnitError> {
    if matches!(unit, "sample" | "samples") {
        return Ok((end.value(0, u32::MAX.into(), counted)?, Kind::Counted));
    }
    let known = "%, permil, bp or samples";
    let bp = end.value(0, u32::MAX.into(), |n| match unit {
        "" if n.is_zero() => Ok(0),
        "" => Err(end.without_unit(&["%", " samples"])),
        unit => n.exactly(
            units::share_unit(unit)
                .map_err(|_e| UnitError::Unknown { unit: unit.into(), known })?,
            "a basis point (0.01%)",
        ),
    })?;
    if matches!(end, End::At(..)) && bp > 10_000 {
        return Err(UnitError::TooLarge);
    }
    Ok((bp, Kind::Measured))
}

fn age(end: End<'_>, unit: &str) -> Result<(u64, Kind), UnitError> {
    if matches!(unit, "window" | "windows") {
        return Ok((end.value(0, u32::MAX.into(), counted)?, Kind::Counted));
    }
    let us = end.value(0, u64::MAX, |n| match unit {
        "" if n.is_zero() => Ok(0),
        "" => Err(end.without_unit(&["s", " windows"])),
        unit => n.micros(unit),
    })?;
    Ok((us, Kind::Measured))
}

fn counted(number: Decimal) -> Result<u64, UnitError> {
    let n = number.exactly(1, "one")?;
    if n > u32::MAX.into() { Err(UnitError::TooLarge) } else { Ok(n) }
}
