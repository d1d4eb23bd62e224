//! Errors of idle page tracking, in words that say what to do.

use std::fmt;
use std::io;

/// The kind of an [`IdleError`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum ErrorKind {
    /// This kernel cannot do it.
    NotSupported,
    /// A privilege is missing.
    Permission,
    /// The target is gone.
    Gone,
    /// Somebody else marks idle pages on this machine.
    Busy,
    /// Anything else that the kernel said.
    Io,
}

/// Why the operations set `idle` cannot be used, or a target not be watched.
#[derive(Debug)]
pub struct IdleError {
    kind: ErrorKind,
    /// The process that it is about; none if it is about the whole set.
    pid: Option<u32>,
    tried: String,
    source: Option<io::Error>,
    why: String,
    hint: String,
}

impl IdleError {
    pub(super) fn new(
        kind: ErrorKind,
        tried: impl Into<String>,
        source: Option<io::Error>,
        why: impl Into<String>,
        hint: impl Into<String>,
    ) -> Self {
        Self { kind, pid: None, tried: tried.into(), source, why: why.into(), hint: hint.into() }
    }

    pub(super) fn of_process(self, pid: u32) -> Self {
        Self { pid: Some(pid), ..self }
    }

    /// What the kernel said about a file that only root may open and only some kernels have.
    pub(super) fn of_file(path: &str, option: &str, err: io::Error) -> Self {
        let (kind, why, hint) = match err.kind() {
            io::ErrorKind::NotFound => (
                ErrorKind::NotSupported,
                format!("this kernel was built without {option}"),
                format!("boot a kernel with {option}=y; `--ops pagewalk` needs none of it"),
            ),
            io::ErrorKind::PermissionDenied => (
                ErrorKind::Permission,
                "page frames are for root only (CAP_SYS_ADMIN, and no read-only /sys)".to_owned(),
                "run as root of the machine, not of a container".to_owned(),
            ),
            _ => (ErrorKind::Io, String::new(), String::new()),
        };
        Self::new(kind, format!("open {path}"), Some(err), why, hint)
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

impl fmt::Display for IdleError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.pid {
            Some(pid) => write!(f, "operations set `idle` cannot watch process {pid}")?,
            None => f.write_str("operations set `idle` is not available")?,
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

impl std::error::Error for IdleError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        self.source.as_ref().map(|e| e as &(dyn std::error::Error + 'static))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn says_what_was_tried_why_and_what_to_do() {
        let err = |kind: io::ErrorKind| IdleError::of_file("/x", "CONFIG_X", kind.into());
        let expected = expect_test::expect![[r"
            operations set `idle` is not available
              tried: open /x: entity not found
              why:   this kernel was built without CONFIG_X
              hint:  boot a kernel with CONFIG_X=y; `--ops pagewalk` needs none of it"]];
        expected.assert_eq(&err(io::ErrorKind::NotFound).to_string());
        let expected = expect_test::expect![[r"
            operations set `idle` cannot watch process 7
              tried: open /x: permission denied
              why:   page frames are for root only (CAP_SYS_ADMIN, and no read-only /sys)
              hint:  run as root of the machine, not of a container"]];
        expected.assert_eq(&err(io::ErrorKind::PermissionDenied).of_process(7).to_string());
        assert_eq!(err(io::ErrorKind::Other).kind(), ErrorKind::Io);
    }
}
