//! Where a machine shows itself.

use std::path::PathBuf;

use crate::proc::Proc;

/// Where a machine shows itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Roots {
    /// Its `/proc`.
    pub proc: Proc,
    /// Its `/sys`.
    pub sys: PathBuf,
}

impl Default for Roots {
    fn default() -> Self {
        Self { proc: Proc::default(), sys: PathBuf::from("/sys") }
    }
}
