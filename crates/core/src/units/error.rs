//! Why a number with a unit was refused.

use alloc::string::String;
use core::fmt;

/// Why a number with a unit was refused.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum UnitError {
    /// There is no number at the beginning.
    NotANumber {
        /// What stands there.
        text: String,
    },
    /// The unit is not known.
    Unknown {
        /// What stands there.
        unit: String,
        /// The units that are known.
        known: &'static str,
    },
    /// A unit is missing where the number alone could mean several things.
    Missing {
        /// The number.
        number: String,
        /// The units that are most likely meant.
        likely: &'static [&'static str],
    },
    /// The number is too large to be meant.
    TooLarge,
    /// The number is finer than the smallest unit that counts.
    TooFine {
        /// The smallest unit that counts.
        least: &'static str,
    },
    /// The text does not have the required form.
    Form {
        /// The form, with an example.
        expected: &'static str,
    },
}

impl fmt::Display for UnitError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotANumber { text } => write!(f, "`{text}` is not a number with a unit"),
            Self::Unknown { unit, known } => write!(f, "unknown unit `{unit}`: {known}"),
            Self::Missing { number, likely } => {
                write!(f, "`{number}` has no unit; did you mean ")?;
                for (nr, unit) in likely.iter().enumerate() {
                    let or = if nr == 0 { "" } else { " or " };
                    write!(f, "{or}{number}{unit}")?;
                }
                f.write_str("?")
            }
            Self::TooLarge => f.write_str("too large"),
            Self::TooFine { least } => write!(f, "finer than {least}"),
            Self::Form { expected } => write!(f, "expected {expected}"),
        }
    }
}

impl core::error::Error for UnitError {}
