//! The subcommands that read a record: `report`, `score`, `export`.

pub(crate) mod export;
mod html;
pub(crate) mod report;
pub(crate) mod score;
