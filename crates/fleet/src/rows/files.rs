//! `files`: a row per cgroup and file that its processes map. Not written unless asked for.
//!
//! Invariant: a path is in a row only if [`FileNames::Paths`] was chosen.

use isotherm_agent::groups::FileSeen;

use crate::cells::{Null, UnixNs, rows};
use crate::settings::FileNames;

rows! {
    /// A file in a cgroup.
    FileRow {
        time: UnixNs,
        session: String,
        cgroup: String,
        file: String,
        dev_ino: Null<String>,
        size: u64,
        mapped: u64,
        resident: Null<u64>,
        mappers: u32,
        idle_1m: Null<u64>,
        idle_5m: Null<u64>,
        idle_30m: Null<u64>,
    }
}

impl FileRow {
    /// A row about a file, without time and session.
    pub(crate) fn of(seen: &FileSeen, names: &FileNames) -> Self {
        let (major, minor) = (seen.device >> 32, seen.device & u64::from(u32::MAX));
        let [one, five, thirty] = seen.idle;
        Self {
            cgroup: seen.cgroup.clone(),
            file: names.of(&seen.path),
            dev_ino: Some(format!("{major}:{minor}:{}", seen.inode)).into(),
            size: seen.size,
            mapped: seen.mapped,
            resident: seen.resident.into(),
            mappers: seen.mappers,
            idle_1m: one.into(),
            idle_5m: five.into(),
            idle_30m: thirty.into(),
            ..Self::default()
        }
    }
}
