//! The errors of making a report.

use std::fmt;

/// Why a report could not be made.
#[derive(Debug)]
pub enum Error {
    /// The record could not be read, or the report not be written.
    Record(isotherm_record::Error),
    /// There is nothing to report on.
    Nothing {
        /// What is missing, for the user.
        why: String,
        /// What to do about it.
        hint: &'static str,
    },
    /// A filter or option makes no sense.
    Usage(String),
}

impl From<isotherm_record::Error> for Error {
    fn from(e: isotherm_record::Error) -> Self {
        Self::Record(e)
    }
}

impl Error {
    /// For `map_err` on writes of the report itself.
    pub(crate) fn write(e: std::io::Error) -> Self {
        Self::Record(isotherm_record::Error::io("write the report")(e))
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Record(e) => e.fmt(f),
            Self::Nothing { why, hint } => {
                write!(f, "there is nothing to report\n  why:   {why}\n  hint:  {hint}")
            }
            Self::Usage(text) => f.write_str(text),
        }
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Record(e) => Some(e),
            _ => None,
        }
    }
}
