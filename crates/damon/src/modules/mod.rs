//! DAMON's special-purpose modules: `DAMON_RECLAIM`, `DAMON_LRU_SORT` and `DAMON_STAT` (R§6.1 to
//! R§6.4).
//!
//! Each module is one kdamond inside of the kernel, configured by the files in
//! `/sys/module/damon_NAME/parameters`. A module runs *alone*: it does not start while any kdamond
//! runs, and no kdamond starts while it runs (the argument `exclusive` of `damon_start()`).

mod control;
mod parameter;
mod stat;

pub use crate::sysfs::module::{Module, running};

pub use control::{Changed, Value};
pub use parameter::{Parameter, Role, Unit};
pub use stat::StatReport;
