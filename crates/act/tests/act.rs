//! What the crate does to other processes' memory, on real processes.
//!
//! Tests that page out bring their own swap, and say why they did not run where they cannot.
#![expect(
    clippy::print_stderr,
    clippy::unwrap_used,
    reason = "tests; a skipped one says why, and targets talk through their output"
)]

#[path = "act/advise.rs"]
mod advise;
#[path = "act/cgroup.rs"]
mod cgroup;
#[path = "act/inject.rs"]
mod inject;
#[path = "act/migrate.rs"]
mod migrate;
#[path = "act/pages.rs"]
mod pages;
#[path = "act/price.rs"]
mod price;
#[path = "act/process.rs"]
mod process;
#[path = "../../ops/tests/shared/target.rs"]
mod target;
#[path = "act/waiter.rs"]
mod waiter;
#[path = "act/zram.rs"]
mod zram;
