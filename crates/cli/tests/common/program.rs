//! The program under test.

use std::process::Command;

/// The program under test.
pub(crate) fn isotherm() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_isotherm"));
    // No config file of whoever runs the tests.
    command.env("ISOTHERM_NO_CONFIG", "1");
    command
}
