//! What was seen in one window: targets, their regions, and how sure it is.
//!
//! A window is one aggregation interval (100 ms unless told otherwise). In it, each region is
//! looked at in sample intervals (5 ms); the share of them in which a page of the region was
//! touched is its *access* share. A region's *age* is for how long it has looked like this.
//!
//! ```
//! use isotherm::sim::Workload;
//! use isotherm::{Bytes, Monitor};
//!
//! // 2 GiB of which a tenth is hot, for 3 s of simulated time.
//! let workload = Workload::shipped("hot10")?.lasting(std::time::Duration::from_secs(3));
//! let mut monitor = Monitor::builder().sim(workload).build()?;
//! let mut hot = Bytes(0);
//! while let Some(snapshot) = monitor.next_snapshot()? {
//!     let regions = snapshot.targets().flat_map(|target| target.regions());
//!     hot = regions.filter(|r| r.access().is_some_and(|a| a.share > 0.5)).map(|r| r.size()).sum();
//! }
//! assert!(Bytes::mib(150) < hot && hot < Bytes::mib(260), "{hot} of 205 MiB");
//! # Ok::<(), isotherm::Error>(())
//! ```

mod region;
mod working_set;

use std::fmt;
use std::time::Duration;

use isotherm_core::{Lengths, RegionInfo, TargetInfo};
use isotherm_record::Mapping;

pub use isotherm_core::{AddrRange, TargetId};
pub use region::{Access, Region};
pub use working_set::WorkingSet;

use crate::Bytes;

/// Who a target is. It does not change while the target lives.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Target {
    /// Its name inside this monitor; never used twice, unlike a pid.
    pub id: TargetId,
    /// Its process; 0 for physical memory. Of a simulated process: the simulated pid.
    pub pid: u32,
    /// The process that was its parent when it was found; 0 if there was none.
    pub parent: u32,
    /// The command's name (at most 15 bytes), or the name of the physical memory.
    pub name: String,
    /// The physical memory that it is, as `--paddr` of the program takes it; none for a process.
    pub memory: Option<String>,
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.memory {
            Some(_) => f.write_str(&self.name),
            None => write!(f, "process {} ({})", self.pid, self.name),
        }
    }
}

/// What a snapshot does not hold itself: who its targets are.
pub(crate) trait Identities: fmt::Debug {
    /// The targets that there are.
    fn targets(&self) -> &[Target];

    /// What is mapped in a target now; nothing if that is not known.
    fn mappings(&self, target: &Target) -> Vec<Mapping>;
}

/// One finished window.
///
/// It is borrowed from the monitor; [`Snapshot::raw`] can be cloned to keep it.
#[derive(Debug, Clone, Copy)]
pub struct Snapshot<'a> {
    raw: &'a isotherm_core::Snapshot,
    lengths: &'a Lengths,
    identities: &'a dyn Identities,
}

impl<'a> Snapshot<'a> {
    pub(crate) const fn new(
        raw: &'a isotherm_core::Snapshot,
        lengths: &'a Lengths,
        identities: &'a dyn Identities,
    ) -> Self {
        Self { raw, lengths, identities }
    }

    /// The number of the window, from 0. A gap means that windows were lost.
    #[must_use]
    pub const fn number(&self) -> u64 {
        self.raw.seq
    }

    /// When the window began: time since the zero of the monotonic clock (`CLOCK_MONOTONIC`), or
    /// since the start of the simulation.
    #[must_use]
    pub const fn start(&self) -> Duration {
        Duration::from_nanos(self.raw.start.as_ns())
    }

    /// When the window ended, on the same clock.
    #[must_use]
    pub const fn end(&self) -> Duration {
        Duration::from_nanos(self.raw.end.as_ns())
    }

    /// The targets that were watched, in the order in which they came.
    pub fn targets(&self) -> impl Iterator<Item = TargetView<'a>> {
        let Self { raw, lengths, identities } = *self;
        raw.targets.iter().map(move |info| TargetView {
            info,
            identity: identities.targets().iter().find(|t| t.id == info.id),
            scale: Scale { max: raw.max_nr_accesses, lengths },
        })
    }

    /// The working set of all targets together, with its error bar: what was touched within a
    /// second, page by page, or within a window until a second was measured. With methods that do
    /// not see single pages it is that of
    /// [`working_set_by_regions`](Self::working_set_by_regions).
    #[must_use]
    pub fn working_set(&self) -> WorkingSet {
        let touched = self.raw.touched();
        WorkingSet::lately(touched).unwrap_or_else(|| self.working_set_by_regions())
    }

    /// The working set as DAMON counts it: the size of all regions with at least one access in the
    /// window, however few of their pages were touched.
    #[must_use]
    pub fn working_set_by_regions(&self) -> WorkingSet {
        let regions = self.raw.targets.iter().flat_map(|t| &t.regions);
        WorkingSet::of(regions, self.raw.max_nr_accesses)
    }

    /// How much was touched within spans of time, the shortest first: a sample, a window, 1 s, 10 s
    /// and 1 min, as far as they were measured. What was not measured yet counts as `unresolved`.
    /// Only the method `census` tells; with others this is empty.
    ///
    /// ```
    /// use isotherm::doctor::Method;
    /// use isotherm::sim::Workload;
    /// use isotherm::{Bytes, Monitor};
    ///
    /// // 2 GiB of which a tenth is hot, for 8 s of simulated time.
    /// let workload = Workload::shipped("hot10")?.lasting(std::time::Duration::from_secs(8));
    /// let mut monitor = Monitor::builder().sim(workload).method(Method::Census).build()?;
    /// let mut last = Vec::new();
    /// while let Some(snapshot) = monitor.next_snapshot()? {
    ///     last = snapshot.touched_within();
    /// }
    /// let (span, set) = last[2];
    /// assert_eq!(span.as_secs(), 1);
    /// assert!(Bytes::mib(200) < set.size && set.size < Bytes::mib(210), "{set}");
    /// # Ok::<(), isotherm::Error>(())
    /// ```
    #[must_use]
    pub fn touched_within(&self) -> Vec<(Duration, WorkingSet)> {
        let Some(touched) = self.raw.touched() else { return Vec::new() };
        let spans = self.raw.spans_us().into_iter().zip(touched.spans);
        let span = |(us, within): (u64, Option<_>)| {
            Some((Duration::from_micros(us), WorkingSet::within(within?, touched.watched)))
        };
        spans.filter_map(span).collect()
    }

    /// What the window cost.
    #[must_use]
    pub fn cost(&self) -> Cost {
        let isotherm_core::Cost { checks, clears, cpu_ns, target_ns } = self.raw.cost;
        let (cpu_time, target_time) =
            (Duration::from_nanos(cpu_ns), target_ns.map(Duration::from_nanos));
        Cost { checks, clears, cpu_time, target_time }
    }

    /// The same as the core has it: numbers of samples, windows and microseconds.
    #[must_use]
    pub const fn raw(&self) -> &'a isotherm_core::Snapshot {
        self.raw
    }

    /// What is mapped in a target now; empty if that is not known. It is read anew, so once per
    /// update interval is enough.
    #[must_use]
    pub fn mappings(&self, target: &Target) -> Vec<Mapping> {
        self.identities.mappings(target)
    }
}

/// What a window cost.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct Cost {
    /// Pages looked at.
    pub checks: u64,
    /// Accessed bits cleared: what the target pays for, with a page walk of the processor each.
    pub clears: u64,
    /// CPU time that this process used in the window, whatever for; zero for a simulation and for
    /// an operations set of one's own.
    pub cpu_time: Duration,
    /// CPU time that the targets paid, all together: an estimate, 500 ns for each page that was
    /// made old and touched again. `None` if the method does not tell; only `census` does.
    pub target_time: Option<Duration>,
}

/// One target in a snapshot.
#[derive(Debug, Clone, Copy)]
pub struct TargetView<'a> {
    info: &'a TargetInfo,
    identity: Option<&'a Target>,
    scale: Scale<'a>,
}

/// What the numbers of a region are relative to.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Scale<'a> {
    /// The largest possible `nr_accesses`.
    pub(crate) max: u32,
    /// How long the windows up to this one really took.
    pub(crate) lengths: &'a Lengths,
}

impl<'a> TargetView<'a> {
    /// Its name inside this monitor.
    #[must_use]
    pub const fn id(&self) -> TargetId {
        self.info.id
    }

    /// Who it is; none if it ended with the window.
    #[must_use]
    pub const fn identity(&self) -> Option<&'a Target> {
        self.identity
    }

    /// Its regions, in address order. They do not overlap; what is not mapped is in none.
    pub fn regions(&self) -> impl Iterator<Item = Region> + use<'a> {
        let scale = self.scale;
        self.info.regions.iter().map(move |info| Region::new(*info, scale))
    }

    /// Its working set, with its error bar; see [`Snapshot::working_set`].
    #[must_use]
    pub fn working_set(&self) -> WorkingSet {
        let touched = self.info.touched;
        WorkingSet::lately(touched).unwrap_or_else(|| self.working_set_by_regions())
    }

    /// Its working set as DAMON counts it; see [`Snapshot::working_set_by_regions`].
    #[must_use]
    pub fn working_set_by_regions(&self) -> WorkingSet {
        WorkingSet::of(&self.info.regions, self.scale.max)
    }

    /// The size of all its regions.
    #[must_use]
    pub fn size(&self) -> Bytes {
        let len = |r: &RegionInfo| Bytes(r.range.len());
        self.info.regions.iter().map(len).sum()
    }
}
