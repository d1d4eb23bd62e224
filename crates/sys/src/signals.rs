//! Requests to stop: SIGINT, SIGTERM and SIGHUP set a flag. The handlers do nothing else.
//!
//! Handlers belong to the whole process, so the program calls [`install`], and this library never
//! does. A program that reads its files again at a SIGHUP then calls [`reload_at_hangup`]. If a
//! clean stop hangs, the third request ends the process in the signal's default way.

pub use crate::signal::{StopSignal, install, reload_at_hangup, stop_requested, take_reload};
