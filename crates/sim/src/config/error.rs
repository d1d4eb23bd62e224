//! The error of a config: what is wrong, and where.

/// A line that could not be understood.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ParseError {
    /// Line number, from 1.
    pub line: usize,
    /// What was expected there.
    pub expected: String,
    /// What was found.
    pub found: String,
}

impl ParseError {
    pub(crate) fn new(line: usize, expected: impl Into<String>, found: impl Into<String>) -> Self {
        Self { line, expected: expected.into(), found: found.into() }
    }
}

impl std::fmt::Display for ParseError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "line {}: expected {}, found `{}`", self.line, self.expected, self.found)
    }
}

impl std::error::Error for ParseError {}
