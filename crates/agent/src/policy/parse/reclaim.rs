//! Reclaim from cgroups: `memory_reclaim = "own"`, `"/app"`, or a table with what it may cost.

use isotherm_act::Toll;
use isotherm_act::apply::{Reclaim, ReclaimFrom};

use super::context::cgroup;
use super::fields::{Entry, Errors};

/// Which cgroup is asked to reclaim, and what that may cost it.
pub(super) fn reclaim(entry: Entry<'_>, errors: &mut Errors) -> Option<Reclaim> {
    if !entry.is_table() {
        return from(entry, errors).map(|from| Reclaim { from, toll: Toll::default() });
    }
    let fields = entry.fields(&["from", "pressure", "refaults"], errors)?;
    let mut toll = Toll::default();
    if let Some(entry) = fields.get("pressure") {
        toll.pressure_us_per_s = if entry.as_text() == Some("none") {
            0
        } else {
            let why = "no memory could ever be taken";
            errors.keep(entry.positive_interval("1ms", why)).unwrap_or(0)
        };
        if toll.pressure_us_per_s > 1_000_000 {
            errors.push(
                entry
                    .error("`pressure` is more than a second per second")
                    .hint("\"none\" is no limit"),
            );
        }
    }
    if let Some(entry) = fields.get("refaults") {
        toll.refaults_bp = match entry.as_text() {
            Some("none") => 0,
            _ => errors.keep(share(entry)).unwrap_or(0),
        };
    }
    let entry = errors.keep(fields.need("from", "`memory_reclaim`"))?;
    from(entry, errors).map(|from| Reclaim { from, toll })
}

fn share(entry: Entry<'_>) -> Result<u32, crate::text::TextError> {
    match entry.share("2%")? {
        0 => Err(entry
            .error("`refaults` is 0")
            .why("no memory could ever be taken")
            .hint("\"none\" is no limit")),
        bp => Ok(bp),
    }
}

fn from(entry: Entry<'_>, errors: &mut Errors) -> Option<ReclaimFrom> {
    if entry.as_text() == Some("own") {
        return Some(ReclaimFrom::Own);
    }
    errors.keep(cgroup(entry)).map(|path| ReclaimFrom::Path(path.to_owned()))
}
