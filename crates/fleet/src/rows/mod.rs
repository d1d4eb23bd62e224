//! The tables' rows. Their fields are the columns, in order; `docs/FLEET.md` says what each means.

mod cgroups;
mod events;
mod sessions;
mod snapshots;

pub(crate) use cgroups::CgroupRow;
pub(crate) use events::EventRow;
pub(crate) use sessions::SessionRow;
pub(crate) use snapshots::{SnapshotRow, rows_of};
