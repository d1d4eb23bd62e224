//! Columns of an export: rows of one table, ready for a writer.
//!
//! Every table makes [`Batch`]es and every format writes them, so a new table is in all formats,
//! and a new format has all tables. A batch bounds the memory, however long the record is.
//!
//! Names repeat in nearly every row. A column of [`Texts`] holds each of them once.

use std::collections::HashMap;

/// Rows per batch, at most about.
pub(super) const ROWS: usize = 1 << 17;

/// Bytes of a column of pages: one bit for each of 512.
pub const PAGE_BYTES: usize = 64;

/// Some rows of a table, as columns of equal length.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Batch {
    columns: Vec<Column>,
}

impl Batch {
    /// The columns, in the table's order.
    ///
    /// # Panics
    ///
    /// If they do not have the same length.
    #[must_use]
    pub fn new(columns: Vec<Column>) -> Self {
        let rows = columns.first().map_or(0, |c| c.values.len());
        assert!(columns.iter().all(|c| c.values.len() == rows), "columns of one length");
        Self { columns }
    }

    /// The columns, in the table's order.
    #[must_use]
    pub fn columns(&self) -> &[Column] {
        &self.columns
    }

    /// Number of rows.
    #[must_use]
    pub fn rows(&self) -> usize {
        self.columns.first().map_or(0, |c| c.values.len())
    }

    /// The columns themselves.
    #[must_use]
    pub fn into_columns(self) -> Vec<Column> {
        self.columns
    }
}

/// One column.
#[derive(Debug, Clone, PartialEq)]
pub struct Column {
    /// Its name.
    pub name: &'static str,
    /// Its values, one per row.
    pub values: Values,
    /// For each row whether there is a value. `None`: this column always has one.
    pub there: Option<Vec<bool>>,
}

/// The values of a column. Where a value is missing, there is a default in its place.
#[derive(Debug, Clone, PartialEq)]
#[expect(missing_docs, reason = "the variants are the types that they hold")]
pub enum Values {
    U64(Vec<u64>),
    U32(Vec<u32>),
    I64(Vec<i64>),
    I32(Vec<i32>),
    F32(Vec<f32>),
    F64(Vec<f64>),
    Bool(Vec<bool>),
    /// Nanoseconds since 1970, UTC.
    Time(Vec<i64>),
    Text(Texts),
    Pages(Vec<[u8; PAGE_BYTES]>),
}

impl Values {
    /// Number of values.
    #[must_use]
    pub fn len(&self) -> usize {
        match self {
            Self::U64(v) => v.len(),
            Self::U32(v) => v.len(),
            Self::I64(v) => v.len(),
            Self::I32(v) => v.len(),
            Self::F32(v) => v.len(),
            Self::F64(v) => v.len(),
            Self::Bool(v) => v.len(),
            Self::Time(v) => v.len(),
            Self::Text(v) => v.keys.len(),
            Self::Pages(v) => v.len(),
        }
    }

    /// Whether there is none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// A column of names, each of which is stored once.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Texts {
    /// The different names, in the order in which they first came.
    pub names: Vec<String>,
    /// For each row the index of its name.
    pub keys: Vec<i32>,
    index: HashMap<String, i32>,
}

impl Texts {
    /// The key of a name.
    pub(super) fn key(&mut self, name: &str) -> i32 {
        if let Some(key) = self.index.get(name) {
            return *key;
        }
        // A batch has fewer rows than there are keys, and a row adds one name.
        let key = i32::try_from(self.names.len()).unwrap_or(i32::MAX);
        self.names.push(name.to_owned());
        self.index.insert(name.to_owned(), key);
        key
    }

    /// Adds a row. Rows in succession mostly have the same name.
    pub fn push(&mut self, name: &str) {
        let last = self.keys.last().copied();
        let same = last.filter(|key| self.name(*key) == name);
        let key = same.unwrap_or_else(|| self.key(name));
        self.keys.push(key);
    }

    /// Adds `n` rows of one name.
    pub(super) fn push_rows(&mut self, name: &str, n: usize) {
        if n > 0 {
            self.push(name);
            let key = self.keys.last().copied().unwrap_or_default();
            self.keys.resize(self.keys.len() + n - 1, key);
        }
    }

    /// The name of a key.
    fn name(&self, key: i32) -> &str {
        usize::try_from(key).ok().and_then(|key| self.names.get(key)).map_or("", String::as_str)
    }

    /// The name of a row; empty if there is no such row.
    #[must_use]
    pub fn get(&self, row: usize) -> &str {
        self.keys.get(row).map_or("", |key| self.name(*key))
    }
}

/// What columns can be made of. Building a batch empties it.
pub(super) trait IntoValues {
    /// The values, and which of them are there.
    fn take(&mut self) -> (Values, Option<Vec<bool>>);
}

/// A column of the values that `from` has collected, which is empty then.
pub(super) fn column(name: &'static str, from: &mut impl IntoValues) -> Column {
    let (values, there) = from.take();
    Column { name, values, there }
}

/// Values of which some may be missing.
#[derive(Debug, Clone)]
pub(super) struct Maybe<T> {
    values: T,
    there: Vec<bool>,
}

impl<T: Default> Default for Maybe<T> {
    fn default() -> Self {
        Self { values: T::default(), there: Vec::new() }
    }
}

impl<T> Maybe<T> {
    /// Adds a row by `push`, which adds a default if there is no value.
    pub(super) fn push_with(&mut self, is_there: bool, push: impl FnOnce(&mut T)) {
        self.there.push(is_there);
        push(&mut self.values);
    }

    /// Makes room for `n` rows. `vec`: the memory of the values.
    pub(super) fn reserve_with<V>(&mut self, n: usize, vec: impl FnOnce(&mut T) -> &mut Vec<V>) {
        self.there.reserve(n);
        vec(&mut self.values).reserve(n);
    }
}

impl<T: Default> Maybe<Vec<T>> {
    pub(super) fn push(&mut self, value: Option<T>) {
        self.push_with(value.is_some(), |values| values.push(value.unwrap_or_default()));
    }

    /// Adds `n` rows without a value.
    pub(super) fn push_none(&mut self, n: usize) {
        self.there.resize(self.there.len() + n, false);
        self.values.resize_with(self.values.len() + n, T::default);
    }

    /// Adds rows.
    pub(super) fn extend(&mut self, rows: impl Iterator<Item = Option<T>> + Clone) {
        self.there.extend(rows.clone().map(|value| value.is_some()));
        self.values.extend(rows.map(Option::unwrap_or_default));
    }
}

impl Maybe<Texts> {
    pub(super) fn push_text(&mut self, name: Option<&str>) {
        self.push_with(name.is_some(), |names| names.push(name.unwrap_or_default()));
    }

    /// Adds `n` rows of one name.
    pub(super) fn push_rows(&mut self, name: Option<&str>, n: usize) {
        self.there.resize(self.there.len() + n, name.is_some());
        self.values.push_rows(name.unwrap_or_default(), n);
    }
}

impl<T: IntoValues> IntoValues for Maybe<T> {
    fn take(&mut self) -> (Values, Option<Vec<bool>>) {
        (self.values.take().0, Some(std::mem::take(&mut self.there)))
    }
}

/// Times that are given by the monotonic clock and shown by the wall clock.
#[derive(Debug, Clone, Default)]
pub(super) struct Times(pub(super) Vec<i64>);

macro_rules! into_values {
    ($($from:ty => $to:ident $(. $field:tt)?;)*) => {$(
        impl IntoValues for $from {
            fn take(&mut self) -> (Values, Option<Vec<bool>>) {
                (Values::$to(std::mem::take(self)$(.$field)?), None)
            }
        }
    )*};
}

into_values! {
    Vec<u64> => U64;
    Vec<u32> => U32;
    Vec<i32> => I32;
    Vec<f32> => F32;
    Vec<bool> => Bool;
    Texts => Text;
    Times => Time.0;
    Vec<[u8; PAGE_BYTES]> => Pages;
}

impl Maybe<Times> {
    /// Adds `n` rows of one time.
    pub(super) fn push_rows(&mut self, unix_ns: Option<i64>, n: usize) {
        self.there.resize(self.there.len() + n, unix_ns.is_some());
        let times = &mut self.values.0;
        times.resize(times.len() + n, unix_ns.unwrap_or_default());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_stored_once() {
        let mut texts = Texts::default();
        for name in ["a", "a", "b", "a", ""] {
            texts.push(name);
        }
        assert_eq!(texts.names, ["a", "b", ""]);
        assert_eq!(
            (0..6).map(|row| texts.get(row)).collect::<Vec<_>>(),
            ["a", "a", "b", "a", "", ""]
        );
    }
}
