//! What kinds of failure have in common, and the exit codes of programs.

use std::fmt;

/// The sorts of failure that callers treat apart, whatever failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Class {
    /// What was asked for makes no sense, on any machine.
    Usage,
    /// This kernel or machine cannot do it.
    NotSupported,
    /// A privilege is missing, or what is there belongs to others.
    Permission,
    /// What it is about is not there (any more).
    Gone,
    /// It cannot be done now, but may be later.
    Busy,
    /// Anything else.
    Unexpected,
}

impl Class {
    /// The exit code of a program that ends for it. Part of the interface: the codes do not change.
    #[must_use]
    pub const fn exit_code(self) -> u8 {
        match self {
            Self::Unexpected | Self::Busy => 1,
            Self::Usage => 2,
            Self::NotSupported => 3,
            Self::Permission => 4,
            Self::Gone => 5,
        }
    }
}

/// The kind of an [`Error`](super::Error).
pub trait Kind: Copy + fmt::Debug {
    /// The class that the kind belongs to.
    fn class(self) -> Class;

    /// The exit code of a program that ends for it; that of its class, if the kind has none of its
    /// own.
    fn exit_code(self) -> u8 {
        self.class().exit_code()
    }
}

/// For errors that nobody needs to tell apart further.
impl Kind for Class {
    fn class(self) -> Class {
        self
    }
}
