//! The files below `/sys/kernel/mm/damon/admin`: where they are, writing and reading them.

pub(crate) mod files;
pub(crate) mod read;
pub(crate) mod results;
pub(crate) mod root;
pub(crate) mod write;
