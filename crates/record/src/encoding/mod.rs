//! How values become bytes: integers, error bars, and snapshots in columns.

pub(crate) mod bound;
pub(crate) mod columns;
pub(crate) mod pages;
pub(crate) mod planes;
pub(crate) mod shares;
pub(crate) mod varint;
