//! The protocol of the control socket of Isotherm's agent.
//!
//! The protocol is varlink: every message is a JSON object that ends with a NUL byte. So
//! `varlinkctl` and varlink libraries can talk to the agent. [`INTERFACE`] describes all methods;
//! the types of [`types`] are the same in Rust, and a test compares the two.
//!
//! * [`message`]: calls and replies;
//! * [`frame`]: messages in a stream, with a limit of their size;
//! * [`error`]: what a refusal says, and how it goes over the wire;
//! * [`service`]: the answers about the service itself (`org.varlink.service`);
//! * [`client`]: the side that asks.
//!
//! Invariant: what a peer sends can neither make memory grow beyond the limit of a message nor
//! cause a panic. Not here: the agent, who may call what, and printing.

pub mod client;
pub mod error;
pub mod frame;
pub mod message;
pub mod service;
pub mod types;

/// The description of the interface, in varlink's language.
pub const INTERFACE: &str = include_str!("io.isotherm.Control.varlink");

/// The name of the interface.
pub const NAME: &str = "io.isotherm.Control";

/// Where the agent listens unless it was told another path.
pub const SOCKET: &str = "/run/isotherm/control.sock";

/// The largest message of a peer that may act: it has to have room for the text of a policy.
pub const MOST_BYTES: usize = 1 << 20;

/// The largest message of a peer that may only read.
pub const MOST_READER_BYTES: usize = 64 << 10;
