//! Errors of the page walk, in words that say what to do.

use std::fmt;
use std::io;

/// What to grant so that every part of the page walk works without root.
pub const SETCAP: &str =
    "setcap cap_bpf,cap_perfmon,cap_sys_ptrace,cap_sys_nice,cap_dac_read_search=ep";

/// The kind of a [`PageWalkError`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum ErrorKind {
    /// This kernel or machine cannot do it.
    NotSupported,
    /// A privilege is missing, or the kernel is locked down.
    Permission,
    /// The target is gone.
    Gone,
    /// More was asked for than the set can hold.
    Busy,
    /// Anything else that the kernel said.
    Io,
}

/// Why the operations set `pagewalk` cannot be used, or a target not be watched.
#[derive(Debug)]
pub struct PageWalkError {
    kind: ErrorKind,
    /// The process that it is about; none if it is about the whole set.
    pid: Option<u32>,
    tried: String,
    source: Option<io::Error>,
    why: String,
    hint: String,
}

impl PageWalkError {
    pub(crate) fn new(
        kind: ErrorKind,
        tried: impl Into<String>,
        source: Option<io::Error>,
        why: impl Into<String>,
        hint: impl Into<String>,
    ) -> Self {
        Self { kind, pid: None, tried: tried.into(), source, why: why.into(), hint: hint.into() }
    }

    pub(crate) fn of_process(self, pid: u32) -> Self {
        Self { pid: Some(pid), ..self }
    }

    /// The kind of failure.
    #[must_use]
    pub const fn kind(&self) -> ErrorKind {
        self.kind
    }

    /// What was tried.
    #[must_use]
    pub fn tried(&self) -> &str {
        &self.tried
    }

    /// The likely reason.
    #[must_use]
    pub fn why(&self) -> &str {
        &self.why
    }

    /// What to do about it.
    #[must_use]
    pub fn hint(&self) -> &str {
        &self.hint
    }
}

impl fmt::Display for PageWalkError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.pid {
            Some(pid) => write!(f, "operations set `pagewalk` cannot watch process {pid}")?,
            None => f.write_str("operations set `pagewalk` is not available")?,
        }
        write!(f, "\n  tried: {}", self.tried)?;
        if let Some(source) = &self.source {
            write!(f, ": {source}")?;
        }
        if !self.why.is_empty() {
            write!(f, "\n  why:   {}", self.why)?;
        }
        if !self.hint.is_empty() {
            write!(f, "\n  hint:  {}", self.hint)?;
        }
        Ok(())
    }
}

impl std::error::Error for PageWalkError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        self.source.as_ref().map(|e| e as &(dyn std::error::Error + 'static))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn says_what_was_tried_why_and_what_to_do() {
        let denied = || Some(io::Error::from_raw_os_error(1));
        let error = |kind| PageWalkError::new(kind, "load it", denied(), "needs X", "run as root");
        let expected = expect_test::expect![[r"
            operations set `pagewalk` is not available
              tried: load it: Operation not permitted (os error 1)
              why:   needs X
              hint:  run as root"]];
        expected.assert_eq(&error(ErrorKind::Permission).to_string());
        let expected = expect_test::expect![[r"
            operations set `pagewalk` cannot watch process 7
              tried: find its memory
              why:   it has ended"]];
        let gone = PageWalkError::new(ErrorKind::Gone, "find its memory", None, "it has ended", "");
        expected.assert_eq(&gone.of_process(7).to_string());
    }
}
