//! `events`: what happened, a row each. Single actions are no events here: their sums are in
//! `cgroups`.

use crate::cells::{Null, UnixNs, rows};

rows! {
    /// Something that happened.
    EventRow {
        time: UnixNs,
        session: String,
        kind: String,
        level: String,
        cgroup: Null<String>,
        policy: Null<String>,
        scheme: Null<String>,
        bytes: Null<u64>,
        text: Null<String>,
    }
}
