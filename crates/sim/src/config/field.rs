//! Single fields: sizes, times, numbers, words.

use super::ParseError;

/// Reads a number of bytes: digits, then nothing, `K`, `M` or `G` (powers of 1024; `KiB` and `KB`
/// mean the same).
#[must_use]
pub fn parse_size(text: &str) -> Option<u64> {
    let split = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let (digits, unit) = text.split_at(split);
    let shift = match unit.trim().to_ascii_uppercase().as_str() {
        "" | "B" => 0,
        "K" | "KB" | "KIB" => 10,
        "M" | "MB" | "MIB" => 20,
        "G" | "GB" | "GIB" => 30,
        _ => return None,
    };
    digits.parse::<u64>().ok()?.checked_mul(1 << shift)
}

/// Reads a time in ms: a number, possibly with a decimal part, and one of `ms`, `s`, `m`, `h`.
#[must_use]
pub fn parse_millis(text: &str) -> Option<u64> {
    let split = text.find(|c: char| !c.is_ascii_digit() && c != '.')?;
    let (number, unit) = text.split_at(split);
    let factor = match unit.trim() {
        "ms" => 1.0,
        "s" => 1000.0,
        "m" | "min" => 60_000.0,
        "h" => 3_600_000.0,
        _ => return None,
    };
    let ms = number.parse::<f64>().ok()? * factor;
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "the sign cannot be parsed, and `as` saturates"
    )]
    let ms = ms.round() as u64;
    Some(ms)
}

/// One field of a line, with the line for the error.
#[derive(Debug, Clone, Copy)]
pub(super) struct Field<'a> {
    pub(super) line: usize,
    pub(super) text: &'a str,
}

impl<'a> Field<'a> {
    pub(super) fn wrong(self, expected: impl Into<String>) -> ParseError {
        ParseError::new(self.line, expected, self.text)
    }

    /// Splits `key=value`.
    pub(super) fn key(self) -> Option<(&'a str, Self)> {
        let (key, value) = self.text.split_once('=')?;
        Some((key.trim(), Field { line: self.line, text: value.trim() }))
    }

    pub(super) fn size(self, what: &str) -> Result<u64, ParseError> {
        parse_size(self.text).ok_or_else(|| self.wrong(format!("{what} in bytes (as 4096, 10M)")))
    }

    /// A size that is a multiple of 4 KiB.
    pub(super) fn pages(self, what: &str) -> Result<u64, ParseError> {
        let size = self.size(what)?;
        if size % 4096 != 0 {
            return Err(self.wrong(format!("{what} that is a multiple of 4096")));
        }
        Ok(size)
    }

    /// A time in ms, from 1 to about 30 years.
    pub(super) fn millis(self) -> Result<u64, ParseError> {
        let what = "a time in ms, above 0";
        let ms = self.number(what)?;
        if (1..=1 << 40).contains(&ms) { Ok(ms) } else { Err(self.wrong(what)) }
    }

    pub(super) fn number<T: std::str::FromStr>(self, what: &str) -> Result<T, ParseError> {
        self.text.parse().map_err(|_: T::Err| self.wrong(what))
    }

    /// A finite number above 0.
    pub(super) fn positive(self, what: &str) -> Result<f64, ParseError> {
        let x: f64 = self.number(what)?;
        if x.is_finite() && x > 0.0 { Ok(x) } else { Err(self.wrong(what)) }
    }

    pub(super) fn yes_no(self, what: &str) -> Result<bool, ParseError> {
        match self.text {
            "yes" => Ok(true),
            "no" => Ok(false),
            _ => Err(self.wrong(format!("{what} as `yes` or `no`"))),
        }
    }
}
