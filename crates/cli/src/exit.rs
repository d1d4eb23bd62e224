//! Exit codes: 0 is success.

use std::process::ExitCode;

/// Something unexpected.
pub(crate) const UNEXPECTED: u8 = 1;
/// Wrong usage, or an input file that cannot be understood (2, as clap's).
pub(crate) const USAGE: u8 = 2;

/// An error that has an exit code of its own.
#[derive(Debug)]
pub(crate) struct WithCode {
    /// The exit code.
    pub(crate) code: u8,
    /// The message.
    pub(crate) message: String,
}

impl std::fmt::Display for WithCode {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for WithCode {}

/// An error in what the user gave.
pub(crate) fn usage(message: impl Into<String>) -> anyhow::Error {
    WithCode { code: USAGE, message: message.into() }.into()
}

/// The exit code for `error`.
pub(crate) fn code_of(error: &anyhow::Error) -> ExitCode {
    let own = error.chain().find_map(|e| e.downcast_ref::<WithCode>());
    ExitCode::from(own.map_or(UNEXPECTED, |e| e.code))
}
