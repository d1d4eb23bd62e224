//! The tree over an engine that runs nothing: every file, mode, value and errno, and the commands.

mod commands;
mod fake;
mod fuzz;
mod layout;
mod modules;
mod values;
