//! Isotherm's agent: a service that runs many policies at once.
//!
//! ```text
//! policies.d/*.toml --.                  .-> thread of policy "a" -> Runner -> contexts
//! control socket -----+-> Policies ------+-> thread of policy "b" -> Runner -> contexts
//! state on disk ------'      |
//!                            '-> Hub -> queues -> clients that follow
//! ```
//!
//! Invariants. A policy is in force as a whole or not at all, and what happens to one never stops
//! another: each has a thread and a runner of its own. What has to survive the agent is on disk
//! before it is done. No client can make the agent wait: what is sent to a client that does not
//! read is dropped and counted.
//!
//! Not here: printing and the log's destination, which belong to the program; and how memory is
//! watched and acted on, which is the runner's.

pub mod access;
mod advice;
pub mod agent;
mod budget;
pub mod history;
mod hub;
mod memory;
pub mod notify;
mod policy;
pub mod rollout;
mod server;
pub mod settings;
mod shared;
mod state;

pub use agent::{Agent, Failed};
pub use settings::Settings;
