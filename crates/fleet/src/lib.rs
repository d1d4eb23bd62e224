//! Fleet data: what an agent sees and does, as files that engines for tables read over many hosts.
//!
//! ```text
//! contexts -- messages --> Gather --.
//! cgroups' files, /proc ------------+--> rows --> part (dot name, synced, renamed) --> retention
//!
//! ROOT/isotherm/v1/TABLE/date=DAY/host=NAME/part-START_NS-SEQ.parquet
//! ```
//!
//! Invariants. A file under its final name is whole: it is written under a dot name, synced and
//! renamed. Who sends messages never waits for a disk: a thread of its own writes. What is not
//! known is null, never a guess. Command lines, paths of files and texts that could hold them are
//! left out unless that was allowed. `docs/FLEET.md` is the schema; later versions only add columns
//! that can be null.
//!
//! Absent: upload, which the site's own tools do, and questions, which `python/isotherm/fleet`
//! asks.

mod cells;
mod cgroup;
mod fleet;
mod gather;
mod layout;
mod machine;
mod part;
mod request;
mod retain;
mod rows;
pub mod settings;

pub use fleet::{Fleet, FleetError, Shown, State, Wants};
pub use gather::{PolicyState, Told};
pub use settings::{FileNames, Retention, Settings, Table};
