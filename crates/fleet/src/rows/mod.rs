//! The tables' rows. Their fields are the columns, in order; `docs/FLEET.md` says what each means.

mod cgroups;
mod events;
mod files;
mod pages;
mod sessions;
mod snapshots;

pub(crate) use cgroups::CgroupRow;
pub(crate) use events::EventRow;
pub(crate) use files::FileRow;
pub(crate) use pages::PageRow;
pub(crate) use sessions::SessionRow;
pub(crate) use snapshots::{SnapshotRow, rows_of};
