//! Access to a parsed TOML tree. It collects errors with their places, and goes on after an error.

use std::ops::Range;

use isotherm_core::units::{self, UnitError};
use toml::Spanned;
use toml::de::{DeTable, DeValue};

use crate::text::{TextError, unknown};

type Result<T> = std::result::Result<T, TextError>;

/// The errors so far.
#[derive(Debug, Default)]
pub(super) struct Errors(pub(super) Vec<TextError>);

impl Errors {
    pub(super) fn push(&mut self, error: TextError) {
        self.0.push(error);
    }

    /// The value, or its error among the others.
    pub(super) fn keep<T>(&mut self, result: Result<T>) -> Option<T> {
        result.map_err(|error| self.push(error)).ok()
    }
}

/// A value at its place, with the key that it belongs to.
#[derive(Debug, Clone, Copy)]
pub(super) struct Entry<'a> {
    pub(super) key: &'a str,
    value: &'a Spanned<DeValue<'a>>,
}

impl<'a> Entry<'a> {
    pub(super) fn span(&self) -> Range<usize> {
        self.value.span()
    }

    pub(super) fn error(&self, what: impl Into<String>) -> TextError {
        TextError::new(self.span(), what)
    }

    fn mismatch(&self, expected: &str) -> TextError {
        let found = self.value.get_ref().type_str();
        self.error(format!("`{}` must be {expected}; this is of type {found}", self.key))
    }

    /// A string.
    pub(super) fn text(&self) -> Result<&'a str> {
        self.value.get_ref().as_str().ok_or_else(|| self.mismatch("a string"))
    }

    /// The string, if it is one.
    pub(super) fn as_text(&self) -> Option<&'a str> {
        self.value.get_ref().as_str()
    }

    pub(super) fn is_table(&self) -> bool {
        self.value.get_ref().is_table()
    }

    /// A string that is read by `read`.
    pub(super) fn read<T>(
        &self,
        example: &str,
        read: impl FnOnce(&str) -> std::result::Result<T, UnitError>,
    ) -> Result<T> {
        let expected = format!("a string such as \"{example}\"");
        let text = self.as_text().ok_or_else(|| self.mismatch(&expected))?;
        read(text).map_err(|e| {
            self.error(format!("`{}`: {e}", self.key)).hint(format!("for example \"{example}\""))
        })
    }

    /// An interval, in µs.
    pub(super) fn interval(&self, example: &str) -> Result<u64> {
        self.read(example, units::interval_us_with_unit)
    }

    /// An interval that is not 0, in µs.
    pub(super) fn positive_interval(&self, example: &str, why: &str) -> Result<u64> {
        match self.interval(example)? {
            0 => Err(self.error(format!("`{}` is 0", self.key)).why(why)),
            us => Ok(us),
        }
    }

    /// A share of at most 100 %, in basis points.
    pub(super) fn share(&self, example: &str) -> Result<u32> {
        let bp = self.read(example, units::share_bp)?;
        let bp = u32::try_from(bp).ok().filter(|bp| *bp <= 10_000);
        bp.ok_or_else(|| self.error(format!("`{}` is more than 100%", self.key)))
    }

    /// A size in bytes: a string with a unit, or a number.
    pub(super) fn size(&self, example: &str) -> Result<u64> {
        if self.value.get_ref().is_integer() {
            self.whole()
        } else {
            self.read(example, units::size)
        }
    }

    /// A whole number that is not negative.
    pub(super) fn whole<T: TryFrom<u64>>(&self) -> Result<T> {
        let number = self.value.get_ref().as_integer();
        let number = number.ok_or_else(|| self.mismatch("a whole number"))?;
        let value = u64::from_str_radix(number.as_str(), number.radix()).ok();
        let value = value.and_then(|value| T::try_from(value).ok());
        value.ok_or_else(|| self.error(format!("`{}` does not fit", self.key)))
    }

    pub(super) fn flag(&self) -> Result<bool> {
        self.value.get_ref().as_bool().ok_or_else(|| self.mismatch("true or false"))
    }

    /// The values of an array.
    pub(super) fn list(&self, of: &str) -> Result<impl Iterator<Item = Entry<'a>> + use<'a>> {
        let expected = format!("an array of {of}");
        let array = self.value.get_ref().as_array().ok_or_else(|| self.mismatch(&expected))?;
        let key = self.key;
        Ok(array.iter().map(move |value| Entry { key, value }))
    }

    /// The fields of a table. Those that are not known become errors.
    pub(super) fn fields(
        &self,
        known: &'static [&'static str],
        errors: &mut Errors,
    ) -> Option<Fields<'a>> {
        let table = self.value.get_ref().as_table().ok_or_else(|| self.mismatch("a table"));
        let table = errors.keep(table)?;
        Some(Fields::new(table, self.span(), known, errors))
    }
}

/// The fields of a table.
#[derive(Debug)]
pub(super) struct Fields<'a> {
    table: &'a DeTable<'a>,
    span: Range<usize>,
    known: &'static [&'static str],
}

impl<'a> Fields<'a> {
    pub(super) fn new(
        table: &'a DeTable<'a>,
        span: Range<usize>,
        known: &'static [&'static str],
        errors: &mut Errors,
    ) -> Self {
        for key in table.keys().filter(|key| !known.contains(&key.get_ref().as_ref())) {
            errors.push(unknown(key.span(), "key", key.get_ref(), known));
        }
        Self { table, span, known }
    }

    pub(super) fn get(&self, key: &str) -> Option<Entry<'a>> {
        debug_assert!(self.known.contains(&key), "{key} is read, but not known");
        let (key, value) = self.table.get_key_value(key)?;
        Some(Entry { key: key.get_ref(), value })
    }

    /// A field that has to be there.
    pub(super) fn need(&self, key: &str, what: &str) -> Result<Entry<'a>> {
        self.get(key).ok_or_else(|| self.error(format!("{what} without `{key}`")))
    }

    /// The value that `read` makes of a field; none if the field is missing or wrong.
    pub(super) fn maybe<T>(
        &self,
        key: &str,
        errors: &mut Errors,
        read: impl FnOnce(Entry<'a>) -> Result<T>,
    ) -> Option<T> {
        self.get(key).and_then(|entry| errors.keep(read(entry)))
    }

    /// An error about the table as a whole.
    pub(super) fn error(&self, what: impl Into<String>) -> TextError {
        TextError::new(self.span.clone(), what)
    }

    /// The fields that are there, of those named.
    pub(super) fn present(&self, keys: &[&'static str]) -> Vec<Entry<'a>> {
        keys.iter().filter_map(|key| self.get(key)).collect()
    }
}
