//! What this machine has: facts about it, and for each operations set whether it can be had.
//!
//! The answer for a set is *yes*, *no* (with the reason, the kernel that has it, and how to fix
//! it), or *cannot tell*. Yes means that everything needed is there. Whether the numbers are right
//! is shown only by the self-test ([`crate::doctor`]).
//!
//! The roots of `/proc` and `/sys` are arguments, so that tests can use made-up machines. This
//! module writes nothing, and opens nothing below the kernel's DAMON directory.

mod sets;

use serde::Serialize;

pub use sets::{SetName, detect};

/// Whether something can be had here.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(tag = "answer", rename_all = "lowercase")]
pub enum Support {
    /// Everything needed is there.
    Yes,
    /// It cannot be had.
    No {
        /// What is missing.
        why: String,
        /// The first kernel that can have it, such as `6.7`.
        since: Option<String>,
        /// What to do about it.
        fix: String,
        /// Whether a privilege is missing, rather than a feature.
        denied: bool,
    },
    /// It cannot be told without trying.
    Unknown {
        /// Why not.
        why: String,
    },
}

impl Support {
    /// Whether the answer is yes.
    #[must_use]
    pub const fn is_yes(&self) -> bool {
        matches!(self, Self::Yes)
    }

    pub(crate) fn no(why: impl Into<String>, since: Option<&str>, fix: impl Into<String>) -> Self {
        Self::No {
            why: why.into(),
            since: since.map(str::to_owned),
            fix: fix.into(),
            denied: false,
        }
    }
}
