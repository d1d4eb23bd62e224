//! What became of memory that was acted on: which pages were taken or moved, which came back, and
//! the schemes' accounts.

pub(in crate::apply) mod account;
pub(in crate::apply) mod moved;
pub(in crate::apply) mod paged;
pub(in crate::apply) mod taken;
