//! The subcommands that read a record: `report`, `plan`, `score`, `export`; and the one that
//! reads those of many machines: `fleet`.

pub(crate) mod cgroups;
pub(crate) mod export;
pub(crate) mod fleet;
mod html;
pub(crate) mod plan;
pub(crate) mod report;
pub(crate) mod score;
