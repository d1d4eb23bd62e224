//! Reading back what a kdamond found and did.
//!
//! The kernel fills these files only on a command. Each reader here names the [`Command`] that must
//! come first.

use isotherm_core::AddrRange;
use isotherm_core::scheme::Counters;

use crate::error::{self, DamonError};
use crate::kdamond::{Command, Kdamond};
use crate::sysfs::root::unreadable;

/// A region that a scheme was applied to (`tried_regions/N`).
///
/// The kernel does not name the target of a region. Regions come target by target, each in the
/// order of addresses. Where the target matters, give every target a scheme of its own with a
/// target filter.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct TriedRegion {
    /// Its addresses, in the context's address unit.
    pub range: AddrRange,
    /// Access frequency, in samples per window. It is the moving sum, so it is right in mid-window
    /// too.
    pub nr_accesses: u32,
    /// Age, in windows.
    pub age: u32,
    /// Bytes that the ops filters let in (6.14).
    pub sz_filter_passed: Option<u64>,
    /// Positive samples per probe, for as many probes as there are (7.2).
    pub probe_hits: [u8; 4],
    /// How many probes there are.
    pub nr_probes: u8,
}

/// Intervals as they are now, in µs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct TunedIntervals {
    /// Sample interval.
    pub sample_us: u64,
    /// Aggregation interval.
    pub aggr_us: u64,
}

impl Kdamond {
    fn scheme(&self, scheme: usize, file: &str) -> std::path::PathBuf {
        self.path(&format!("contexts/0/schemes/{scheme}/{file}"))
    }

    /// A number that older kernels do not have.
    fn optional(&self, scheme: usize, file: &str) -> Result<Option<u64>, DamonError> {
        let path = self.scheme(scheme, file);
        if !self.root().exists(&path) {
            return Ok(None);
        }
        self.root().number(&path).map(Some)
    }

    /// Counters of a scheme, as of the last [`Command::UpdateStats`]. Those that this kernel does
    /// not count are 0.
    ///
    /// # Errors
    ///
    /// What the kernel says.
    pub fn stats(&self, scheme: usize) -> Result<Counters, DamonError> {
        let get = |file: &str| self.root().number(&self.scheme(scheme, file));
        Ok(Counters {
            nr_tried: get("stats/nr_tried")?,
            sz_tried: get("stats/sz_tried")?,
            nr_applied: get("stats/nr_applied")?,
            sz_applied: get("stats/sz_applied")?,
            qt_exceeds: get("stats/qt_exceeds")?,
            sz_ops_filter_passed: self.optional(scheme, "stats/sz_ops_filter_passed")?.unwrap_or(0),
            nr_snapshots: self.optional(scheme, "stats/nr_snapshots")?.unwrap_or(0),
            ..Counters::default()
        })
    }

    /// The quota that a scheme has in this window, in bytes, as of the last
    /// [`Command::UpdateEffectiveQuotas`]; `None` before 6.9.
    ///
    /// # Errors
    ///
    /// What the kernel says.
    pub fn effective_bytes(&self, scheme: usize) -> Result<Option<u64>, DamonError> {
        self.optional(scheme, "quotas/effective_bytes")
    }

    /// Bytes of all regions that a scheme was last applied to, as of the last
    /// [`Command::UpdateTriedBytes`] or [`Command::UpdateTriedRegions`]; `None` before 6.6.
    ///
    /// # Errors
    ///
    /// What the kernel says.
    pub fn tried_bytes(&self, scheme: usize) -> Result<Option<u64>, DamonError> {
        self.optional(scheme, "tried_regions/total_bytes")
    }

    /// The regions that a scheme was last applied to, as of the last
    /// [`Command::UpdateTriedRegions`]. `out` is emptied first.
    ///
    /// # Errors
    ///
    /// What the kernel says.
    pub fn tried_regions(
        &self,
        scheme: usize,
        out: &mut Vec<TriedRegion>,
    ) -> Result<(), DamonError> {
        out.clear();
        let dir = self.scheme(scheme, "tried_regions");
        let listed = self.root().files().numbers(&dir);
        let indices = listed.map_err(|said| error::io(format!("list {}", dir.display()), said))?;
        let mut buf = Vec::new();
        // All regions have the same files.
        let (mut passed, mut nr_probes) = (false, 0);
        for (nth, index) in indices.into_iter().enumerate() {
            let dir = dir.join(index.to_string());
            if nth == 0 {
                passed = self.root().exists(&dir.join("sz_filter_passed"));
                let probes = self.root().files().numbers(&dir.join("probes"));
                nr_probes = u8::try_from(probes.map_or(0, |list| list.len().min(4))).unwrap_or(0);
            }
            let mut get = |file: &str| -> Result<u64, DamonError> {
                let path = dir.join(file);
                self.root().read_into(&path, &mut buf)?;
                let text = buf.trim_ascii();
                let number = std::str::from_utf8(text).ok().and_then(|text| text.parse().ok());
                number.ok_or_else(|| unreadable(&path, &String::from_utf8_lossy(text)))
            };
            let mut region = TriedRegion {
                range: AddrRange::new(get("start")?, get("end")?),
                nr_accesses: saturated(get("nr_accesses")?),
                age: saturated(get("age")?),
                nr_probes,
                ..TriedRegion::default()
            };
            if passed {
                region.sz_filter_passed = Some(get("sz_filter_passed")?);
            }
            for (probe, hits) in region.probe_hits.iter_mut().take(nr_probes.into()).enumerate() {
                *hits = u8::try_from(get(&format!("probes/{probe}/hits"))?).unwrap_or(u8::MAX);
            }
            out.push(region);
        }
        Ok(())
    }

    /// The intervals as tuned. Tuned intervals need 6.15; older kernels do not tune, and return
    /// what was written. This call makes the kernel change the interval files. Pass the result to
    /// [`Written::set_intervals`](crate::Written::set_intervals) for a later [`Kdamond::write`].
    ///
    /// # Errors
    ///
    /// What the kernel says.
    pub fn tuned_intervals(&self) -> Result<TunedIntervals, DamonError> {
        let dir = self.path("contexts/0/monitoring_attrs/intervals");
        if self.root().exists(&dir.join("intervals_goal")) {
            self.command(Command::UpdateTunedIntervals)?;
        }
        Ok(TunedIntervals {
            sample_us: self.root().number(&dir.join("sample_us"))?,
            aggr_us: self.root().number(&dir.join("aggr_us"))?,
        })
    }
}

fn saturated(x: u64) -> u32 {
    u32::try_from(x).unwrap_or(u32::MAX)
}
