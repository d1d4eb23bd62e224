//! The layers below, for what this library does not have (yet).
//!
//! Nothing here is promised: names and meanings may change in any version.

pub use isotherm_act as act;
pub use isotherm_agent as agent;
pub use isotherm_core as core;
pub use isotherm_damon as damon;
pub use isotherm_host as host;
pub use isotherm_idlemem as idlemem;
pub use isotherm_ops as ops;
pub use isotherm_pages as pages;
pub use isotherm_record as record;
pub use isotherm_report as report;
pub use isotherm_sim as sim;
pub use isotherm_sys as sys;
