//! Being asked to stop: SIGINT, SIGTERM and SIGHUP set a flag, and nothing else happens in a handler.
//!
//! Handlers belong to a whole process, so a program calls [`install`], never this library by itself.
//! The third request ends the process in the signal's default way, for a clean stop that hangs.

pub use crate::sys::signal::{StopSignal, install, stop_requested};
