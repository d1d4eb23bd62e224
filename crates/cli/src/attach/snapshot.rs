//! What the agent tells, as the types that reports and views take.

use isotherm::raw::core::{
    AddrRange, RegionInfo, SPANS, Snapshot, TargetId, TargetInfo, Time, Touched, TouchedBytes,
};
use isotherm_control::types;

/// A snapshot of the agent, with the targets for which `id` has a number.
pub(crate) fn of_agent(
    told: &types::Snapshot,
    mut id: impl FnMut(&types::Target) -> Option<TargetId>,
) -> Snapshot {
    let mut snapshot = Snapshot {
        seq: told.seq,
        start: Time(told.start_ns),
        end: Time(told.end_ns),
        sample_us: told.sample_us,
        aggr_us: told.aggr_us,
        max_nr_accesses: narrow(told.max_nr_accesses),
        ..Snapshot::default()
    };
    let spans_us = snapshot.spans_us();
    for target in &told.targets {
        let Some(id) = id(target) else { continue };
        snapshot.targets.push(TargetInfo {
            id,
            regions: target.regions.iter().map(region).collect(),
            touched: touched(target, spans_us),
            units: Vec::new(),
        });
    }
    snapshot
}

/// How much of a target was touched within these spans, in µs; 0 stands for none.
pub(crate) fn touched(target: &types::Target, spans_us: [u64; SPANS]) -> Option<Touched> {
    if target.touched.is_empty() {
        return None;
    }
    let of = |us: u64| {
        let told = target.touched.iter().find(|t| t.span_ns / 1000 == us)?;
        let types::Touched { bytes, lo, hi, measured_bytes, .. } = *told;
        Some(TouchedBytes { bytes, lo, hi, measured: measured_bytes })
    };
    Some(Touched { spans: spans_us.map(of), watched: target.watched_bytes })
}

/// A region of a target.
pub(crate) fn region(r: &types::Region) -> RegionInfo {
    RegionInfo {
        range: AddrRange::new(r.start, r.end.max(r.start)),
        nr_accesses: narrow(r.nr_accesses),
        age: narrow(r.age),
        lo: r.lo,
        hi: r.hi,
        resolved: r.resolved,
        ..RegionInfo::default()
    }
}

/// A count that the agent has as 32 bits, too.
pub(crate) fn narrow(n: u64) -> u32 {
    u32::try_from(n).unwrap_or(u32::MAX)
}
