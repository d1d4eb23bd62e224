//! What a shell and its user get to know of the program: completions, manual pages, the version.
//!
//! All of it is made from the same `clap` commands that read the command line, so an option cannot
//! be missing from one of them.

pub(crate) mod completions;
pub(crate) mod help;
pub(crate) mod man;
pub(crate) mod version;
