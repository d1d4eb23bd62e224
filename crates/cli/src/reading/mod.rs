//! The subcommands that read a record: `report`, `plan`, `score`, `export`.

pub(crate) mod export;
mod html;
pub(crate) mod plan;
pub(crate) mod report;
pub(crate) mod score;
