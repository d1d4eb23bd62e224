//! Kdamonds that are ours: claimed beside those of others, changed while they run, and removed at
//! the end. If this process is killed, the next start removes them.

pub(crate) mod claim;
pub(crate) mod commit;
pub(crate) mod ledger;
pub(crate) mod leftover;
pub(crate) mod note;
