//! The kernel's own DAMON, by its sysfs interface (`/sys/kernel/mm/damon/admin`, Linux 5.18 and
//! later).
//!
//! From the outside in:
//!
//! | part | is |
//! |---|---|
//! | [`Config`] and the rest of `model` | everything that one kdamond can be told, as types |
//! | [`Claim`] | a kdamond that is ours: set up beside others, changed, removed at the end |
//! | [`Kdamond`] | one kdamond directory: write, command, read back |
//! | [`Features`] | what the running kernel's DAMON knows |
//! | [`modules`] | `DAMON_RECLAIM`, `DAMON_LRU_SORT`, `DAMON_STAT` |
//! | [`Root`], [`Files`] | where all of that is; tests put a made-up kernel there |
//!
//! Inside, each part uses only those before it: `error`, `config`, `sysfs`, `kdamond`, `modules`,
//! `owned`. `tracefs` stands alone.
//!
//! Invariants: this crate never writes below a kdamond directory that somebody else set up. It
//! never writes `nr_kdamonds` while a foreign directory is configured, because the kernel then
//! removes all of them (`damon_sysfs_kdamonds_add_dirs()`). Every error names the file, the value,
//! what the kernel said and why.
//!
//! Absent on purpose: a polling thread, and policy. `isotherm-ops` builds an operations set on this
//! crate.

mod config;
mod error;
mod kdamond;
pub mod modules;
mod owned;
mod sysfs;
#[cfg(test)]
mod tests;
pub mod tracefs;

pub use config::{check, entries, model};

pub use config::entries::{Entry, FilterDirs};
pub use config::feature::Feature;
pub use config::model::{Config, Context, Operations, Scheme, Target};
pub use error::{DamonError, DamonKind, cannot};
pub use kdamond::results::{TriedRegion, TunedIntervals};
pub use kdamond::write::Written;
pub use kdamond::{Command, Kdamond};
pub use owned::claim::Claim;
pub use owned::ledger::Settings;
pub use owned::leftover::{Leftover, recover};
pub use sysfs::features::{Features, Has};
pub use sysfs::files::{Files, SystemFiles};
pub use sysfs::root::Root;
