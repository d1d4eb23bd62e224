//! Code that the tests of the program share.

use std::process::{Child, Command};

/// A process that is killed at the end of the test.
pub(crate) struct Guard(pub(crate) Child);

impl Drop for Guard {
    fn drop(&mut self) {
        let _gone = self.0.kill();
        let _status = self.0.wait();
    }
}

/// The program under test.
pub(crate) fn isotherm() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_isotherm"));
    // No config file of whoever runs the tests.
    command.env("ISOTHERM_NO_CONFIG", "1");
    command
}
