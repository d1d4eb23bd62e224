//! The sysfs tree of the kernel's DAMON (`/sys/kernel/mm/damon`, Linux 7.2), served by Isotherm.
//!
//! Programs that speak to DAMON by its files speak to Isotherm unchanged.
//!
//! ```text
//! program -> fuse -> world -> tree                files, as they were written
//!                      |  `-> stage -> Config     what the files say together
//!                      `----> engine              runs it: live, over isotherm-agent
//! ```
//!
//! | part | is |
//! |---|---|
//! | `tree` | every file, its mode, its values, and what the kernel says to a bad one |
//! | `stage` | what the files of a kdamond say, as a [`Config`](isotherm_damon::Config) |
//! | `world` | the tree with what runs: commands, results, the lock |
//! | [`debugfs`] | the files from before that tree |
//! | [`Engine`] | what runs, as the tree sees it |
//! | [`live`] | the engine over real processes |
//! | [`fuse`] | a tree as a file system |
//! | [`trace`], [`perf`] | DAMON's events, and the part of `perf` that records them |
//! | [`drgn`] | contexts from inside, as a script of the kernel's tests for `drgn` dumps them |
//! | [`space`] | a command in a mount namespace in which the tree is where the kernel has its own |
//!
//! Invariants. What is written to files has no effect on what runs until a command says so. No call
//! waits with the tree locked, so a slow command never blocks a reader; what the kernel's one lock
//! covers answers EBUSY meanwhile, as in the kernel. Nothing here writes below the kernel's own
//! DAMON directory.
//!
//! Absent on purpose: printing.
#![forbid(unsafe_code)]

pub mod debugfs;
pub mod drgn;
mod engine;
pub mod fuse;
pub mod live;
pub mod perf;
mod served;
pub mod space;
mod stage;
pub mod trace;
mod tree;
mod world;

pub use engine::{Asker, Engine, Results, SchemeResults, Status, Worker};
pub use served::Served;
pub use tree::{Changed, DAMON, Ino, Kind, MODULES, TriedRegion};
pub use world::World;
