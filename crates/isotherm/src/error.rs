//! The one error of this library.

use std::error::Error as StdError;
use std::fmt;

use isotherm_core::AttrsError;
use isotherm_host::error::{self as lower, Kind, SetError};
use isotherm_ops::doctor::NoSet;

/// What kind of failure it is. Programs decide by it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ErrorKind {
    /// Something that was asked for makes no sense: intervals, a name that is taken, an unknown
    /// workload.
    Invalid,
    /// This kernel or machine cannot do it.
    NotSupported,
    /// A privilege is missing.
    Permission,
    /// A target is gone, or was never there.
    Gone,
    /// There are targets, and the operations set can look at none of them.
    NotWatched,
    /// The operations set was at work and cannot go on.
    Failed,
    /// A record cannot be understood.
    BadRecord,
    /// Anything else that the operating system said.
    Io,
}

/// Why something could not be done: a kind for programs, and words for people.
///
/// Its text is one line that says what could not be done, and under it what was tried, the likely
/// reason and what to do. [`std::error::Error::source`] is what the operating system said, where it
/// was asked.
///
/// ```
/// use isotherm::{ErrorKind, Monitor};
///
/// let error = Monitor::builder().build().expect_err("there is nothing to watch");
/// assert_eq!(error.kind(), ErrorKind::Invalid);
/// assert_eq!(error.what(), "there is nothing to watch");
/// assert!(error.hint().contains("pid"));
/// ```
pub struct Error {
    kind: ErrorKind,
    /// In the form that all errors of Isotherm have; see [`Error::line`].
    text: Box<str>,
    lower: Option<Box<dyn StdError + Send + Sync>>,
}

impl Error {
    pub(crate) fn new(kind: ErrorKind, what: &str, why: &str, hint: &str) -> Self {
        let mut text = what.to_owned();
        for (label, line) in [("why:  ", why), ("hint: ", hint)] {
            if !line.is_empty() {
                text.push_str(&format!("\n  {label} {line}"));
            }
        }
        Self { kind, text: text.into(), lower: None }
    }

    pub(crate) fn invalid(what: &str, why: &str, hint: &str) -> Self {
        Self::new(ErrorKind::Invalid, what, why, hint)
    }

    /// From an error of a layer below, whose text is in this form already.
    pub(crate) fn of(kind: ErrorKind, lower: impl StdError + Send + Sync + 'static) -> Self {
        Self { kind, text: lower.to_string().into(), lower: Some(Box::new(lower)) }
    }

    /// From a text that is in this form already.
    pub(crate) fn of_text(kind: ErrorKind, text: &str) -> Self {
        Self { kind, text: text.into(), lower: None }
    }

    /// A target that the set cannot look at.
    pub(crate) fn not_watched(who: &str, lower: SetError) -> Self {
        let text = format!("{who} is not watched: {lower}").into();
        Self { kind: ErrorKind::NotWatched, text, lower: Some(Box::new(lower)) }
    }

    /// The kind of failure.
    #[must_use]
    pub const fn kind(&self) -> ErrorKind {
        self.kind
    }

    /// What could not be done, in one line.
    #[must_use]
    pub fn what(&self) -> &str {
        self.text.lines().next().unwrap_or_default()
    }

    /// What was tried, with what the operating system said; empty if there was nothing to try.
    #[must_use]
    pub fn tried(&self) -> &str {
        self.line("tried:")
    }

    /// The likely reason; may be empty.
    #[must_use]
    pub fn why(&self) -> &str {
        self.line("why:")
    }

    /// What to do about it; may be empty.
    #[must_use]
    pub fn hint(&self) -> &str {
        self.line("hint:")
    }

    /// The first line with this label: every error of Isotherm has a line of its own for each part.
    fn line(&self, label: &str) -> &str {
        let part = |line| str::trim_start(line).strip_prefix(label).map(str::trim);
        self.text.lines().skip(1).find_map(part).unwrap_or_default()
    }
}

/// The words for people, since that is what `main` shows of an error that it returns; `{:#?}` shows
/// the fields.
impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if !f.alternate() {
            return f.write_str(&self.text);
        }
        let Self { kind, text, lower } = self;
        let mut fields = f.debug_struct("Error");
        fields.field("kind", kind).field("text", text).field("lower", lower).finish()
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl StdError for Error {
    /// The text of the error below is part of this one's, so the chain goes on with what is below
    /// that.
    fn source(&self) -> Option<&(dyn StdError + 'static)> {
        self.lower.as_ref()?.source()
    }
}

/// The kind that a program's exit code stands for (docs/EVENTS.md).
pub(crate) const fn kind_of_code(code: u8) -> ErrorKind {
    match code {
        2 => ErrorKind::Invalid,
        3 => ErrorKind::NotSupported,
        4 | 126 => ErrorKind::Permission,
        5 | 127 => ErrorKind::Gone,
        _ => ErrorKind::Io,
    }
}

impl<K: Kind + Send + Sync + 'static> From<lower::Error<K>> for Error {
    fn from(lower: lower::Error<K>) -> Self {
        Self::of(kind_of_code(lower.exit_code()), lower)
    }
}

impl From<NoSet> for Error {
    fn from(lower: NoSet) -> Self {
        Self::of(kind_of_code(lower.exit_code()), lower)
    }
}

impl From<AttrsError> for Error {
    fn from(lower: AttrsError) -> Self {
        Self::invalid("these attributes are not valid", &lower.to_string(), "")
    }
}

impl From<isotherm_record::Error> for Error {
    fn from(lower: isotherm_record::Error) -> Self {
        let kind = if lower.is_bad_input() { ErrorKind::BadRecord } else { ErrorKind::Io };
        Self::of(kind, lower)
    }
}

impl From<isotherm_report::Error> for Error {
    fn from(lower: isotherm_report::Error) -> Self {
        match lower {
            isotherm_report::Error::Record(lower) => lower.into(),
            lower => Self::of(ErrorKind::Invalid, lower),
        }
    }
}
