//! Commands that end well although windows came late, as they do on a machine that is emulated on
//! a busy one.

/// Whether a command with this exit code and these messages did what it should. Exit code 6 is as
/// good if all that it tells is that a part of the time was not watched.
pub(crate) fn is_done(code: Option<i32>, said: &str) -> bool {
    code == Some(0) || code == Some(6) && said.contains("were not watched")
}
