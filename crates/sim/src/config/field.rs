//! Single fields: sizes, times, numbers, words.

use isotherm_core::units;

use super::ParseError;

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
        units::size(self.text).map_err(|_why| self.wrong(format!("{what} in bytes (as 4096, 10M)")))
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
        self.text.parse().map_err(|_not_a_number: T::Err| self.wrong(what))
    }

    /// A finite number above 0.
    pub(super) fn positive(self, what: &str) -> Result<f64, ParseError> {
        let x: f64 = self.number(what)?;
        if x.is_finite() && x > 0.0 { Ok(x) } else { Err(self.wrong(what)) }
    }

    /// A number above 0, up to 100.
    pub(super) fn percent(self, what: &str) -> Result<f64, ParseError> {
        let what = format!("{what}, above 0 and up to 100");
        let x = self.positive(&what)?;
        if x <= 100.0 { Ok(x) } else { Err(self.wrong(what)) }
    }

    pub(super) fn yes_no(self, what: &str) -> Result<bool, ParseError> {
        match self.text {
            "yes" => Ok(true),
            "no" => Ok(false),
            _ => Err(self.wrong(format!("{what} as `yes` or `no`"))),
        }
    }
}
