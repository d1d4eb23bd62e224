//! What became of memory that was acted on: what was taken or moved, what came back, and the
//! accounts of it.

pub(in crate::apply) mod account;
pub(in crate::apply) mod moved;
pub(in crate::apply) mod taken;
