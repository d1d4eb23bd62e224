//! Kdamonds that are ours: claimed beside those of others, changed while they run, removed at the
//! end, also by the next start if this one was killed.

pub(crate) mod claim;
pub(crate) mod commit;
pub(crate) mod kdamond;
pub(crate) mod ledger;
pub(crate) mod leftover;
pub(crate) mod note;
