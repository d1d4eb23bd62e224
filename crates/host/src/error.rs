//! What the errors of this crate have in common: what was tried, what the kernel said, why, what to do.
//!
//! `Failure` is that text, and every error that people read ends with it under a line of its own. [`SetError`] is the error of
//! the operations sets that look at pages (`pagewalk`, `idle`), so that a caller asks one type whether a target is gone.

use std::fmt;
use std::io;

/// What was tried, what the kernel said, the likely reason and what to do about it; all but the first may be empty.
#[derive(Debug)]
pub struct Failure {
    /// What was tried.
    pub tried: Box<str>,
    /// What the kernel said.
    pub said: Option<io::Error>,
    /// The likely reason.
    pub why: Box<str>,
    /// What to do about it.
    pub hint: Box<str>,
}

impl Failure {
    /// The parts, in the order in which people read them.
    pub fn new(
        tried: impl Into<String>,
        said: Option<io::Error>,
        why: impl Into<String>,
        hint: impl Into<String>,
    ) -> Self {
        Self { tried: tried.into().into(), said, why: why.into().into(), hint: hint.into().into() }
    }

    /// What the kernel said, as [`std::error::Error::source`] gives it.
    pub fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        self.said.as_ref().map(|e| e as &(dyn std::error::Error + 'static))
    }

    /// What the kernel said, once more: an [`io::Error`] cannot be cloned.
    pub fn said_again(&self) -> Option<io::Error> {
        let again = |e: &io::Error| {
            e.raw_os_error().map_or_else(|| e.kind().into(), io::Error::from_raw_os_error)
        };
        self.said.as_ref().map(again)
    }

    /// The reason and the hint, each on a line of its own.
    ///
    /// # Errors
    ///
    /// What the kernel says.
    pub fn write_reasons(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (label, text) in [("why:  ", &self.why), ("hint: ", &self.hint)] {
            if !text.is_empty() {
                write!(f, "\n  {label} {text}")?;
            }
        }
        Ok(())
    }
}

/// The lines that follow an error's own line.
impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "\n  tried: {}", self.tried)?;
        if let Some(said) = &self.said {
            write!(f, ": {said}")?;
        }
        self.write_reasons(f)
    }
}

/// Why something could not be done: a kind for programs, and the words for people.
///
/// Its text is one line that says what cannot be had or done, and under it what was tried, what the
/// kernel said, the likely reason, and what to do.
#[derive(Debug)]
pub struct Error<K> {
    kind: K,
    what: Box<str>,
    failure: Failure,
}

impl<K: Copy> Error<K> {
    /// `what` is the first line: "there is no memory on node 7".
    pub fn new(
        kind: K,
        what: impl Into<String>,
        tried: impl Into<String>,
        why: impl Into<String>,
        hint: impl Into<String>,
    ) -> Self {
        let failure = Failure::new(tried, None, why, hint);
        Self { kind, what: what.into().into(), failure }
    }

    /// The same, with what the kernel said.
    #[must_use]
    pub fn with(mut self, said: io::Error) -> Self {
        self.failure.said = Some(said);
        self
    }

    /// The kind of failure.
    #[must_use]
    pub const fn kind(&self) -> K {
        self.kind
    }

    /// What was tried.
    #[must_use]
    pub fn tried(&self) -> &str {
        &self.failure.tried
    }

    /// What the kernel said, if it was asked.
    #[must_use]
    pub const fn said(&self) -> Option<&io::Error> {
        self.failure.said.as_ref()
    }

    /// The likely reason; may be empty.
    #[must_use]
    pub fn why(&self) -> &str {
        &self.failure.why
    }

    /// What to do about it; may be empty.
    #[must_use]
    pub fn hint(&self) -> &str {
        &self.failure.hint
    }
}

impl<K> fmt::Display for Error<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{}", self.what, self.failure)
    }
}

impl<K: fmt::Debug> std::error::Error for Error<K> {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        self.failure.source()
    }
}

/// The kind of a [`SetError`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum ErrorKind {
    /// This kernel or machine cannot do it.
    NotSupported,
    /// A privilege is missing, or the kernel is locked down.
    Permission,
    /// The target is gone.
    Gone,
    /// More was asked for than the set can hold, or somebody else has what only one can have.
    Busy,
    /// Anything else that the kernel said.
    Io,
}

/// Why an operations set cannot be used, or cannot watch a target.
#[derive(Debug)]
pub struct SetError {
    set: &'static str,
    kind: ErrorKind,
    /// The process that it is about; none if it is about the whole set.
    pid: Option<u32>,
    failure: Failure,
}

impl SetError {
    /// A failure of the whole set `set`.
    #[must_use]
    pub const fn new(set: &'static str, kind: ErrorKind, failure: Failure) -> Self {
        Self { set, kind, pid: None, failure }
    }

    /// The same failure, where it keeps the set from watching process `pid`.
    #[must_use]
    pub fn of_process(self, pid: u32) -> Self {
        Self { pid: Some(pid), ..self }
    }

    /// The same failure, where it keeps the set `set` from working.
    #[must_use]
    pub fn for_set(self, set: &'static str) -> Self {
        Self { set, ..self }
    }

    /// The kind of failure.
    #[must_use]
    pub const fn kind(&self) -> ErrorKind {
        self.kind
    }

    /// What was tried.
    #[must_use]
    pub fn tried(&self) -> &str {
        &self.failure.tried
    }

    /// The likely reason; may be empty.
    #[must_use]
    pub fn why(&self) -> &str {
        &self.failure.why
    }

    /// What to do about it; may be empty.
    #[must_use]
    pub fn hint(&self) -> &str {
        &self.failure.hint
    }
}

impl fmt::Display for SetError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { set, failure, .. } = self;
        match self.pid {
            Some(pid) => {
                write!(f, "operations set `{set}` cannot watch process {pid}{failure}")
            }
            None => write!(f, "operations set `{set}` is not available{failure}"),
        }
    }
}

impl std::error::Error for SetError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        self.failure.source()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn says_what_was_tried_why_and_what_to_do() {
        let denied = Some(io::Error::from_raw_os_error(libc::EPERM));
        let failure = Failure::new("load it", denied, "needs X", "run as root");
        let again = failure.said_again().and_then(|e| e.raw_os_error());
        assert_eq!(again, Some(libc::EPERM));
        let error = SetError::new("pagewalk", ErrorKind::Permission, failure);
        let expected = expect_test::expect![[r"
            operations set `pagewalk` is not available
              tried: load it: Operation not permitted (os error 1)
              why:   needs X
              hint:  run as root"]];
        expected.assert_eq(&error.to_string());
        let failure = Failure::new("find its memory", None, "it has ended", "");
        let gone = SetError::new("pagewalk", ErrorKind::Gone, failure);
        let expected = expect_test::expect![[r"
            operations set `idle` cannot watch process 7
              tried: find its memory
              why:   it has ended"]];
        expected.assert_eq(&gone.of_process(7).for_set("idle").to_string());
    }
}
