//! How the writing of fleet data goes. Without fleet data there are no samples.

use super::Kind::{Counter, Gauge};
use super::Measure::{Bytes, Count, Seconds};
use super::Value::{Real, Whole};
use super::{Emit, Family, family};
use crate::reading::{FleetReading, Reading};

/// A sample, if fleet data is written.
fn whole(r: &Reading, emit: &mut Emit<'_>, of: fn(&FleetReading) -> u64) -> std::fmt::Result {
    r.fleet.iter().try_for_each(|fleet| emit(&[], Whole(of(fleet))))
}

pub(super) const FAMILIES: &[Family] = &[
    family(
        "fleet_up",
        Gauge,
        Count,
        &[],
        "1 if all fleet data of the last interval was written, 0 if some was lost or the thread that writes hangs",
        |r, emit| whole(r, emit, |fleet| u64::from(fleet.is_up)),
    ),
    family(
        "fleet_last_write_timestamp",
        Gauge,
        Seconds,
        &[],
        "When fleet data of an interval was last written as a whole, since 1970",
        |r, emit| {
            let at = r.fleet.and_then(|fleet| fleet.written_seconds);
            at.iter().try_for_each(|at| emit(&[], Real(*at)))
        },
    ),
    family(
        "fleet_kept",
        Gauge,
        Bytes,
        &[],
        "Fleet data of this host that is kept on it",
        |r, emit| whole(r, emit, |fleet| fleet.kept_bytes),
    ),
    family("fleet_rows", Counter, Count, &[], "Rows of fleet data written", |r, emit| {
        whole(r, emit, |fleet| fleet.rows)
    }),
    family(
        "fleet_lost_rows",
        Counter,
        Count,
        &[],
        "Rows of fleet data that could not be written",
        |r, emit| whole(r, emit, |fleet| fleet.lost_rows),
    ),
    family(
        "fleet_failures",
        Counter,
        Count,
        &["kind"],
        "Intervals of which fleet data was lost: since the directory could not be used, or by a panic",
        |r, emit| {
            r.fleet.iter().try_for_each(|fleet| {
                emit(&["directory"], Whole(fleet.failures.saturating_sub(fleet.panics)))?;
                emit(&["panic"], Whole(fleet.panics))
            })
        },
    ),
];
