//! The kernel's own DAMON, by its sysfs interface (`/sys/kernel/mm/damon/admin`, Linux 5.18 and later).
//!
//! From the outside in:
//!
//! | part | is |
//! |---|---|
//! | [`Config`] and the rest of `model` | everything that one kdamond can be told, as types |
//! | [`Claim`] | a kdamond that is ours: set up beside others, changed while it runs, removed at the end |
//! | [`Kdamond`] | one kdamond directory: write, command, read back |
//! | [`Features`] | what the running kernel's DAMON knows |
//! | [`modules`] | `DAMON_RECLAIM`, `DAMON_LRU_SORT`, `DAMON_STAT` |
//! | [`Root`], [`Files`] | where all of that is; tests put a made-up kernel there |
//!
//! Invariants: nothing is ever written below a kdamond directory that somebody else set up, and `nr_kdamonds`
//! never while a directory is configured that is not ours, since the kernel removes all of them then
//! (`damon_sysfs_kdamonds_add_dirs()`). Every error says which file, which value, what the kernel said and why.
//!
//! Absent on purpose: no polling thread and no policy. An operations set over this is
//! `isotherm-ops`'s business.

pub mod check;
mod claim;
mod commit;
pub mod entries;
mod error;
#[cfg(test)]
mod fake;
pub mod features;
mod files;
mod kdamond;
mod ledger;
mod leftover;
pub mod model;
pub mod modules;
mod note;
mod read;
mod results;
mod root;
#[cfg(test)]
mod tests;
pub mod tracefs;
mod write;

pub use claim::Claim;
pub use entries::{Entry, FilterDirs};
pub use error::{DamonError, Kind};
pub use features::{Feature, Features, Has};
pub use files::{Files, SystemFiles};
pub use kdamond::{Command, Kdamond};
pub use ledger::Settings;
pub use leftover::{Leftover, recover};
pub use model::{Config, Context, Operations, Scheme, Target};
pub use results::{TriedRegion, TunedIntervals};
pub use root::Root;
pub use write::Written;
