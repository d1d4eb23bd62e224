//! Evidence that memory is idle: pages are made old, and looked at again before an action.
//!
//! `look` and `marks` see pages, `clear` makes them old and tells who else watches them, `armed`
//! remembers what was armed when, `monitored` what the monitor has found out by itself, `confirm`
//! goes from arming to action, `translations` drops what the processor keeps in its TLB.

pub(in crate::apply) mod armed;
pub(in crate::apply) mod clear;
pub(in crate::apply) mod confirm;
pub(in crate::apply) mod look;
pub(in crate::apply) mod marks;
pub(in crate::apply) mod monitored;
pub(in crate::apply) mod translations;
