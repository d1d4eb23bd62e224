//! Isotherm's agent: what a user wants to be done to which memory, and the loop that does it.
//!
//! A [`policy`] has contexts, each with targets, monitoring attributes and schemes. A policy comes
//! from a file ([`policy::parse`]), from the options of a ready-made policy ([`ready`]), or from
//! DAMON's historic text formats ([`damos`]). The runner ([`run`]) carries a policy out.
//!
//! [`tune`] decides which numbers of a policy are tried, and what the trials have shown; [`gauge`]
//! measures for that how programs get on.
//!
//! [`recorder`] writes what a monitor sees into a file.
//!
//! Nothing in this crate prints. All modules but [`run`], [`tier`], [`gauge`] and [`recorder`] are
//! values and plain functions.

pub mod damos;
pub mod gauge;
pub mod groups;
mod maps;
pub mod monitor;
pub mod others;
pub mod policy;
pub mod push;
pub mod ready;
pub mod recorder;
pub mod run;
pub mod session;
pub mod sharing;
pub mod text;
pub mod tier;
pub mod tune;
