//! `snapshots`: a row per region, as of the end of an interval. Not written unless asked for.

use isotherm_agent::run::Seen;

use crate::cells::{Null, UnixNs, rows};

rows! {
    /// A region.
    SnapshotRow {
        time: UnixNs,
        session: String,
        target: String,
        cgroup: Null<String>,
        start: u64,
        len: u64,
        rate: f32,
        age_ns: u64,
        in_use: Null<f32>,
    }
}

/// The regions of a context that somebody has looked at. Of what is not resolved nothing is known,
/// so it has no row. `cgroup_of` tells the cgroup of a process.
pub(crate) fn rows_of(
    seen: &Seen,
    mut cgroup_of: impl FnMut(u32) -> Option<String>,
) -> Vec<SnapshotRow> {
    let snapshot = &seen.snapshot;
    let most = snapshot.max_nr_accesses;
    let window_ns = snapshot.aggr_us.saturating_mul(1000);
    let mut rows = Vec::new();
    for info in &snapshot.targets {
        let target = seen.targets.iter().find(|target| target.id == info.id);
        let Some(target) = target else { continue };
        let cgroup = (target.pid > 0).then(|| cgroup_of(target.pid)).flatten();
        let has_pages = info.touched.is_some();
        rows.extend(info.regions.iter().filter(|region| region.resolved).map(|region| {
            let (used, idle) = region.split_bytes(most);
            SnapshotRow {
                target: format!("{}/{}", target.name, target.pid),
                cgroup: cgroup.clone().into(),
                start: region.range.start,
                len: region.range.len(),
                rate: share(region.nr_accesses.into(), most.into()),
                age_ns: u64::from(region.age).saturating_mul(window_ns),
                in_use: has_pages.then(|| share(used, used + idle)).into(),
                ..SnapshotRow::default()
            }
        }));
    }
    rows
}

#[expect(clippy::cast_precision_loss, clippy::cast_possible_truncation, reason = "it is a ratio")]
fn share(part: u64, whole: u64) -> f32 {
    (part as f64 / whole.max(1) as f64) as f32
}

#[cfg(test)]
mod tests {
    use isotherm_core::{AddrRange, Attrs, RegionInfo, Snapshot, TargetId, TargetInfo};
    use isotherm_ops::targets::Target;

    use super::*;

    #[test]
    fn regions_are_rows_and_what_nobody_could_see_is_none() {
        let region = |nr: u64, nr_accesses, resolved| RegionInfo {
            range: AddrRange::new(nr << 20, (nr + 1) << 20),
            nr_accesses,
            age: 7,
            resolved,
            ..RegionInfo::default()
        };
        let regions = vec![region(0, 5, true), region(1, 0, false), region(2, 0, true)];
        let target = |id, pid| Target {
            id: TargetId(id),
            pid,
            ppid: 1,
            name: "db".to_owned(),
            start_ticks: 0,
            generation: 0,
            memory: None,
        };
        let info =
            |id| TargetInfo { id: TargetId(id), regions: regions.clone(), ..Default::default() };
        let snapshot = Snapshot {
            targets: vec![info(1), info(2)],
            max_nr_accesses: 20,
            aggr_us: 100_000,
            ..Snapshot::default()
        };
        let seen = Seen {
            context: "c".to_owned(),
            ops: "pagewalk",
            snapshot,
            targets: vec![target(1, 77)],
            attrs: Attrs::default(),
        };
        let rows = rows_of(&seen, |pid| Some(format!("/of/{pid}")));
        assert_eq!(rows.len(), 2, "the other target is gone");
        assert_eq!((rows[0].target.as_str(), rows[0].rate), ("db/77", 0.25));
        assert_eq!(rows[1].cgroup.0.as_deref(), Some("/of/77"));
        assert_eq!((rows[1].start, rows[1].len, rows[1].age_ns), (2 << 20, 1 << 20, 700_000_000));
        assert_eq!(rows[0].in_use.0, None, "single pages are not known");
    }
}
