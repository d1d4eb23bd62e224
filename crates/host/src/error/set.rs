//! The error of every operations set, so that a caller asks one type whether a target is gone.

use super::{Class, Error, Kind};

/// Why an operations set cannot be used, or cannot watch a target.
pub type SetError = Error<SetKind>;

/// The kind of a [`SetError`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum SetKind {
    /// This kernel or machine cannot do it, or not with this set.
    NotSupported,
    /// A privilege is missing, or the kernel is locked down.
    Permission,
    /// The target is gone.
    Gone,
    /// What was asked for cannot be: attributes that contradict each other, a value out of its
    /// range.
    Invalid,
    /// Somebody else has what only one can have.
    Busy,
    /// More was asked for than the set can hold.
    Full,
    /// Anything else that the kernel said.
    Io,
}

impl Kind for SetKind {
    fn class(self) -> Class {
        match self {
            Self::NotSupported => Class::NotSupported,
            Self::Permission => Class::Permission,
            Self::Gone => Class::Gone,
            Self::Invalid => Class::Usage,
            Self::Busy | Self::Full => Class::Busy,
            Self::Io => Class::Unexpected,
        }
    }
}

impl From<Class> for SetKind {
    fn from(class: Class) -> Self {
        match class {
            Class::NotSupported => Self::NotSupported,
            Class::Usage => Self::Invalid,
            Class::Permission => Self::Permission,
            Class::Gone => Self::Gone,
            Class::Busy => Self::Busy,
            Class::Unexpected => Self::Io,
        }
    }
}

impl SetError {
    /// A failure of the whole operations set `set`.
    pub fn of_set(
        set: &str,
        kind: SetKind,
        tried: impl Into<String>,
        why: impl Into<String>,
        hint: impl Into<String>,
    ) -> Self {
        Self::new(kind, format!("operations set `{set}` is not available"), tried, why, hint)
    }

    /// The same failure, where it keeps operations set `set` from watching process `pid`.
    #[must_use]
    pub fn of_process(self, set: &str, pid: u32) -> Self {
        self.about(format!("operations set `{set}` cannot watch process {pid}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tells_the_set_and_the_process() {
        let failed = || SetError::of_set("pagewalk", SetKind::Gone, "find it", "it has ended", "");
        let expected = expect_test::expect![[r"
            operations set `pagewalk` is not available
              tried: find it
              why:   it has ended"]];
        expected.assert_eq(&failed().to_string());
        let expected = expect_test::expect![[r"
            operations set `idle` cannot watch process 7
              tried: find it
              why:   it has ended"]];
        expected.assert_eq(&failed().of_process("idle", 7).to_string());
        assert!(failed().is_gone());
    }
}
