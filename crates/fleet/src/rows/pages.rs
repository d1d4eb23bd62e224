//! `pages`: a row per unit of 2 MiB, as of the end of an interval. Not written unless asked for.
//!
//! The columns are those of `isotherm export --table pages`, with how many pages are idle. Absent:
//! its column `found`, which is about the time since the unit's last row there.

use isotherm_agent::groups::UnitSeen;
use isotherm_core::{PageBits, Time};
use isotherm_ops::targets::Target;

use crate::cells::{Null, Plane, UnixNs, rows};

rows! {
    /// 2 MiB of a process.
    PageRow {
        time: UnixNs,
        session: String,
        target: String,
        cgroup: Null<String>,
        unit: u64,
        age_ns: u64,
        leaf_sz: u64,
        nr_present: u32,
        nr_unresolved: u32,
        nr_idle_1m: u32,
        nr_idle_5m: u32,
        nr_idle_30m: u32,
        nr_touched_sample: Null<u32>,
        nr_touched_window: Null<u32>,
        nr_touched_1s: Null<u32>,
        nr_touched_10s: Null<u32>,
        nr_touched_1min: Null<u32>,
        present: Plane,
        unresolved: Plane,
        touched_sample: Null<Plane>,
        touched_window: Null<Plane>,
        touched_1s: Null<Plane>,
        touched_10s: Null<Plane>,
        touched_1min: Null<Plane>,
    }
}

impl PageRow {
    /// A row about a unit of a target as of `now`, without time and session.
    pub(crate) fn of(seen: &UnitSeen, target: &Target, now: Time) -> Self {
        let unit = &seen.unit;
        let number = |pages: u64| u32::try_from(pages).unwrap_or(u32::MAX);
        let nr = |pages: PageBits| number(pages.count());
        let [sample, window, second, ten, minute] = unit.touched;
        Self {
            target: format!("{}/{}", target.name, target.pid),
            cgroup: seen.cgroup.clone().into(),
            unit: unit.start,
            age_ns: now.since(unit.since),
            leaf_sz: 1_u64.checked_shl(unit.leaf_shift.into()).unwrap_or(0),
            nr_present: nr(unit.present),
            nr_unresolved: nr(unit.unresolved),
            nr_idle_1m: number(seen.idle[0]),
            nr_idle_5m: number(seen.idle[1]),
            nr_idle_30m: number(seen.idle[2]),
            nr_touched_sample: sample.map(nr).into(),
            nr_touched_window: window.map(nr).into(),
            nr_touched_1s: second.map(nr).into(),
            nr_touched_10s: ten.map(nr).into(),
            nr_touched_1min: minute.map(nr).into(),
            present: unit.present.into(),
            unresolved: unit.unresolved.into(),
            touched_sample: sample.map(Plane::from).into(),
            touched_window: window.map(Plane::from).into(),
            touched_1s: second.map(Plane::from).into(),
            touched_10s: ten.map(Plane::from).into(),
            touched_1min: minute.map(Plane::from).into(),
            ..Self::default()
        }
    }
}
