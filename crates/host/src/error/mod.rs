//! The one error type of everything that touches the machine.
//!
//! An [`Error<K>`] says what cannot be done and, under it, what was tried, what the kernel said,
//! the likely reason and what to do. Each part of the library names its own kinds `K` and makes its
//! own texts. What all kinds have in common is their [`Class`]: by it a caller tells a target that
//! is gone from a privilege that is missing, and a program finds its exit code.
//!
//! ```text
//! operations set `idle` is not available
//!   tried: open /sys/kernel/mm/page_idle/bitmap: No such file or directory (os error 2)
//!   why:   this kernel was built without CONFIG_IDLE_PAGE_TRACKING
//!   hint:  boot a kernel with CONFIG_IDLE_PAGE_TRACKING=y; `--ops pagewalk` needs none of it
//! ```

mod class;
mod files;
mod set;

use std::fmt;
use std::io;

pub use class::{Class, Kind};
pub use files::too_many_files;
pub use set::{SetError, SetKind};

/// Why something could not be done: a kind for programs, and the words for people.
#[derive(Debug)]
pub struct Error<K> {
    kind: K,
    /// Apart, so that what returns an error returns few bytes.
    text: Box<Text>,
}

/// The words of an error.
#[derive(Debug)]
struct Text {
    what: Box<str>,
    form: Form,
    tried: Box<str>,
    said: Option<io::Error>,
    why: Box<str>,
    hint: Box<str>,
}

/// Where an error's text says what was tried.
#[derive(Debug, Clone, Copy)]
enum Form {
    /// On a line of its own, below what cannot be done.
    Lines,
    /// On the first line: "WHAT: cannot TRIED". What was tried is what cannot be done.
    Cannot,
}

impl<K> Error<K> {
    /// `what` is the first line: "there is no memory on node 7". Any of the other texts may be
    /// empty, and has no line then.
    pub fn new(
        kind: K,
        what: impl Into<String>,
        tried: impl Into<String>,
        why: impl Into<String>,
        hint: impl Into<String>,
    ) -> Self {
        let text = Text {
            what: what.into().into(),
            form: Form::Lines,
            tried: tried.into().into(),
            said: None,
            why: why.into().into(),
            hint: hint.into().into(),
        };
        Self { kind, text: Box::new(text) }
    }

    /// An error whose first line is "`of`: cannot `tried`", for parts of the kernel where what was
    /// tried is all there is to say.
    pub fn cannot(
        kind: K,
        of: impl Into<String>,
        tried: impl Into<String>,
        why: impl Into<String>,
        hint: impl Into<String>,
    ) -> Self {
        let mut error = Self::new(kind, of, tried, why, hint);
        error.text.form = Form::Cannot;
        error
    }

    /// The same, with what the kernel said to what was tried. If that is that too many files are
    /// open, it is also the reason, whatever was tried.
    #[must_use]
    pub fn with(mut self, said: io::Error) -> Self {
        if let Some((why, hint)) = too_many_files(&said) {
            self.text.why = why.into();
            self.text.hint = hint.into();
        }
        self.text.said = Some(said);
        self
    }

    /// The same, with another first line.
    #[must_use]
    pub fn about(mut self, what: impl Into<String>) -> Self {
        self.text.what = what.into().into();
        self
    }

    /// The same, with one more sentence of why.
    #[must_use]
    pub fn because(mut self, more: &str) -> Self {
        let why = &self.text.why;
        self.text.why = if why.is_empty() { more.into() } else { format!("{why}; {more}").into() };
        self
    }

    /// The same failure as one of another kind, with the same text.
    #[must_use]
    pub fn map_kind<L>(self, of: impl FnOnce(K) -> L) -> Error<L> {
        Error { kind: of(self.kind), text: self.text }
    }

    /// What was tried.
    #[must_use]
    pub fn tried(&self) -> &str {
        &self.text.tried
    }

    /// What the kernel said, if it was asked.
    #[must_use]
    pub fn said(&self) -> Option<&io::Error> {
        self.text.said.as_ref()
    }

    /// What the kernel said, for an error of another sort.
    #[must_use]
    pub fn into_said(self) -> Option<io::Error> {
        self.text.said
    }

    /// The kernel's error number, if it gave one.
    #[must_use]
    pub fn errno(&self) -> Option<i32> {
        self.text.said.as_ref().and_then(io::Error::raw_os_error)
    }

    /// What was tried, and what the kernel said: "open FILE: Permission denied (os error 13)".
    /// Empty if nothing was tried.
    #[must_use]
    pub fn attempt(&self) -> String {
        let tried = &self.text.tried;
        self.text.said.as_ref().map_or_else(|| tried.to_string(), |said| format!("{tried}: {said}"))
    }

    /// The likely reason; may be empty.
    #[must_use]
    pub fn why(&self) -> &str {
        &self.text.why
    }

    /// What to do about it; may be empty.
    #[must_use]
    pub fn hint(&self) -> &str {
        &self.text.hint
    }
}

impl<K: Copy> Error<K> {
    /// The kind of failure.
    #[must_use]
    pub const fn kind(&self) -> K {
        self.kind
    }
}

impl<K: Kind> Error<K> {
    /// What the kind has in common with other parts' kinds.
    #[must_use]
    pub fn class(&self) -> Class {
        self.kind.class()
    }

    /// The same failure as one of the kind that stands for its class elsewhere, with the same text.
    #[must_use]
    pub fn by_class<L: From<Class>>(self) -> Error<L> {
        self.map_kind(|kind| kind.class().into())
    }

    /// The exit code that a program should end with if it cannot go on.
    #[must_use]
    pub fn exit_code(&self) -> u8 {
        self.kind.exit_code()
    }

    /// Whether what it is about (a process, a cgroup, a node's memory) is not there any more.
    #[must_use]
    pub fn is_gone(&self) -> bool {
        self.class() == Class::Gone
    }

    /// Whether a privilege is missing.
    #[must_use]
    pub fn is_denied(&self) -> bool {
        self.class() == Class::Permission
    }

    /// Whether this machine cannot do it now (no such feature, no privilege, others use it), rather
    /// than something having gone wrong. A test may skip then.
    #[must_use]
    pub fn is_missing(&self) -> bool {
        matches!(self.class(), Class::NotSupported | Class::Permission | Class::Busy)
    }
}

impl<K> fmt::Display for Error<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text.what)?;
        let attempt = self.attempt();
        if matches!(self.text.form, Form::Cannot) {
            write!(f, ": cannot {attempt}")?;
        } else if !attempt.is_empty() {
            write!(f, "\n  tried: {attempt}")?;
        }
        for (label, text) in [("why:  ", &self.text.why), ("hint: ", &self.text.hint)] {
            if !text.is_empty() {
                write!(f, "\n  {label} {text}")?;
            }
        }
        Ok(())
    }
}

impl<K: fmt::Debug> std::error::Error for Error<K> {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        self.text.said.as_ref().map(|e| e as _)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn says_what_was_tried_why_and_what_to_do() {
        let denied = || io::Error::from_raw_os_error(libc::EPERM);
        let error = Error::new(Class::Permission, "no set", "load it", "needs X", "run as root");
        let error = error.with(denied());
        let expected = expect_test::expect![[r"
            no set
              tried: load it: Operation not permitted (os error 1)
              why:   needs X
              hint:  run as root"]];
        expected.assert_eq(&error.to_string());
        assert_eq!(error.errno(), Some(libc::EPERM));
        assert!(std::error::Error::source(&error).is_some());
        assert_eq!((error.is_denied(), error.is_missing(), error.is_gone()), (true, true, false));
        let error = Error::new(Class::Gone, "no set", "", "", "");
        assert_eq!(error.to_string(), "no set");
        assert_eq!((error.is_gone(), error.is_missing(), error.exit_code()), (true, false, 5));
    }

    #[test]
    fn what_was_tried_can_be_what_cannot_be_done() {
        let error = Error::cannot((), "kernel DAMON", "turn on kdamond 0", "", "try again");
        let error = error.with(io::Error::from_raw_os_error(libc::EBUSY)).because("it runs");
        let expected = expect_test::expect![[r"
            kernel DAMON: cannot turn on kdamond 0: Device or resource busy (os error 16)
              why:   it runs
              hint:  try again"]];
        expected.assert_eq(&error.to_string());
        assert_eq!(error.because("alone").why(), "it runs; alone");
    }
}
