//! Being asked to stop: SIGINT, SIGTERM and SIGHUP set a flag, and nothing else happens in a
//! handler.
//!
//! Handlers belong to a whole process, so a program calls [`install`], never this library by
//! itself. A program that reads its files again at a SIGHUP calls [`reload_at_hangup`] after that.
//! The third request ends the process in the signal's default way, for a clean stop that hangs.

pub use crate::signal::{StopSignal, install, reload_at_hangup, stop_requested, take_reload};
