//! `isotherm agent` and `isotherm ctl`, as a user and as systemd run them.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]
#![expect(clippy::print_stderr, reason = "a test that skips something says why")]

#[path = "../common/mod.rs"]
mod common;

mod attach;
mod budget;
mod clients;
mod crash;
mod history;
mod many;
mod policies;
mod rights;
mod service;
mod tuning;
mod upgrade;
mod world;
