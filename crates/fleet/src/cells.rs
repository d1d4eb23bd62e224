//! Rows as columns: a row is a struct whose fields are the columns, named and typed as these are.

use isotherm_core::PageBits;
use isotherm_record::export::{Column, PAGE_BYTES, Texts, Values};

/// A time: ns since 1970, UTC.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub(crate) struct UnixNs(pub(crate) i64);

/// What a field of a row can be.
pub(crate) trait Cell: Clone + Default {
    /// A column of these.
    fn values(cells: Vec<Self>) -> Values;
}

macro_rules! cells {
    ($($cell:ty => $values:ident;)*) => {$(
        impl Cell for $cell {
            fn values(cells: Vec<Self>) -> Values {
                Values::$values(cells)
            }
        }
    )*};
}

cells! {
    u64 => U64;
    u32 => U32;
    i64 => I64;
    f32 => F32;
    f64 => F64;
    bool => Bool;
}

impl Cell for UnixNs {
    fn values(cells: Vec<Self>) -> Values {
        Values::Time(cells.into_iter().map(|cell| cell.0).collect())
    }
}

/// A bit for each page of 2 MiB. The first page has the lowest bit of the first byte.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Plane([u8; PAGE_BYTES]);

impl Default for Plane {
    fn default() -> Self {
        Self([0; PAGE_BYTES])
    }
}

impl From<PageBits> for Plane {
    fn from(pages: PageBits) -> Self {
        let mut plane = Self::default();
        for (to, word) in plane.0.chunks_exact_mut(8).zip(pages.0) {
            to.copy_from_slice(&word.to_le_bytes());
        }
        plane
    }
}

impl Cell for Plane {
    fn values(cells: Vec<Self>) -> Values {
        Values::Pages(cells.into_iter().map(|cell| cell.0).collect())
    }
}

impl Cell for String {
    fn values(cells: Vec<Self>) -> Values {
        let mut texts = Texts::default();
        cells.iter().for_each(|cell| texts.push(cell));
        Values::Text(texts)
    }
}

/// A field that may be null or not.
pub(crate) trait Field: Sized {
    /// The column of this name.
    fn column(name: &'static str, fields: Vec<Self>) -> Column;
}

impl<T: Cell> Field for T {
    fn column(name: &'static str, fields: Vec<Self>) -> Column {
        Column { name, values: T::values(fields), there: None }
    }
}

/// A field that can be null.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Null<T>(pub(crate) Option<T>);

impl<T> From<Option<T>> for Null<T> {
    fn from(value: Option<T>) -> Self {
        Self(value)
    }
}

impl<T: Cell> Field for Null<T> {
    fn column(name: &'static str, fields: Vec<Self>) -> Column {
        let there = fields.iter().map(|field| field.0.is_some()).collect();
        let values = fields.into_iter().map(|field| field.0.unwrap_or_default()).collect();
        Column { name, values: T::values(values), there: Some(there) }
    }
}

/// A row's struct, and how many of them become columns.
macro_rules! rows {
    ($(#[$doc:meta])* $name:ident { $($field:ident: $type:ty,)* }) => {
        $(#[$doc])*
        #[derive(Debug, Clone, PartialEq, Default)]
        pub(crate) struct $name { $(pub(crate) $field: $type,)* }

        impl $name {
            /// The columns of these rows.
            pub(crate) fn batch(rows: Vec<Self>) -> isotherm_record::export::Batch {
                $(let mut $field = Vec::with_capacity(rows.len());)*
                for row in rows {
                    $($field.push(row.$field);)*
                }
                isotherm_record::export::Batch::new(vec![
                    $($crate::cells::Field::column(stringify!($field), $field),)*
                ])
            }
        }
    };
}
pub(crate) use rows;
