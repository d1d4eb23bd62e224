//! `isotherm agent` and `isotherm ctl`, as a user and as systemd run them.

#[path = "../common/mod.rs"]
mod common;

mod clients;
mod crash;
mod policies;
mod rights;
mod service;
mod world;
