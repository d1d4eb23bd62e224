//! Code that the tests of the program share.

mod program;

use std::process::Child;

pub(crate) use program::isotherm;

/// A process that is killed at the end of the test.
pub(crate) struct Guard(pub(crate) Child);

impl Drop for Guard {
    fn drop(&mut self) {
        let _gone = self.0.kill();
        let _status = self.0.wait();
    }
}
