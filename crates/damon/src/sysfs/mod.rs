//! The kernel's files: where they are, how they are read and written, and what they show of the
//! kernel's DAMON and its modules.

pub(crate) mod features;
pub(crate) mod files;
pub(crate) mod module;
pub(crate) mod root;
