//! Options that several subcommands share.

pub(crate) mod attrs;
pub(crate) mod metrics;
pub(crate) mod sets;
pub(crate) mod targets;
