//! The tables' rows. Their fields are the columns, in order; `docs/FLEET.md` says what each means.

mod cgroups;
mod events;
mod sessions;

pub(crate) use cgroups::CgroupRow;
pub(crate) use events::EventRow;
pub(crate) use sessions::SessionRow;
