//! The events of system `damon` (`include/trace/events/damon.h`, Linux 5.15 to 7.2), and how they
//! lie in memory.
//!
//! `Display` writes an event as the kernel's own `print fmt` does, so that our trace reads like
//! `trace_pipe`. [`super::parse_line`] is the way back.

use std::fmt;

use isotherm_core::{AddrRange, Time};

use super::format::{Array, Format, FormatError, Number};

/// Which event.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum EventKind {
    /// The end of a window: one event per region, before the split. Linux 5.15.
    Aggregated,
    /// As `Aggregated`, with the hits of probes; only where there are probes. Linux 7.2.
    RegionAggregated,
    /// A scheme is about to act on a region. Linux 6.7.
    BeforeApply,
    /// A quota's effective size. Linux 6.17.
    Esz,
    /// A scheme's statistics after an apply interval. Linux 6.18.
    Stats,
    /// The intervals were tuned. Linux 6.17.
    Tuned,
}

impl EventKind {
    /// All of them.
    pub const ALL: [Self; 6] = [
        Self::Aggregated,
        Self::RegionAggregated,
        Self::BeforeApply,
        Self::Esz,
        Self::Stats,
        Self::Tuned,
    ];

    /// The kernel's name for it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Aggregated => "damon_aggregated",
            Self::RegionAggregated => "damon_region_aggregated",
            Self::BeforeApply => "damos_before_apply",
            Self::Esz => "damos_esz",
            Self::Stats => "damos_stat_after_apply_interval",
            Self::Tuned => "damon_monitor_intervals_tune",
        }
    }

    /// The first kernel that has it.
    #[must_use]
    pub const fn since(self) -> &'static str {
        match self {
            Self::Aggregated => "5.15",
            Self::BeforeApply => "6.7",
            Self::Esz | Self::Tuned => "6.17",
            Self::Stats => "6.18",
            Self::RegionAggregated => "7.2",
        }
    }
}

/// A region at the end of a window: after merging, ageing and schemes, before the reset and the
/// split.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct AggregatedRegion {
    /// Index of the target in its context.
    pub target: u64,
    /// Number of regions of that target at this moment.
    pub nr_regions: u32,
    /// Where, in core units of the context.
    pub range: AddrRange,
    /// Positive samples of the window.
    pub nr_accesses: u32,
    /// Windows since the region looks like this.
    pub age: u32,
    /// Positive samples per probe, for `damon_region_aggregated`.
    pub probe_hits: Option<[u8; 4]>,
}

impl AggregatedRegion {
    /// Whether the other tells of the same region.
    pub(super) fn is_same(&self, other: &Self) -> bool {
        self.target == other.target && self.range == other.range
    }
}

/// A region that a scheme is about to act on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct AppliedRegion {
    /// Index of the context; 0 in all kernels so far.
    pub context: u32,
    /// Index of the scheme in its context.
    pub scheme: u32,
    /// The region; `nr_accesses` is the moving sum.
    pub region: AggregatedRegion,
}

/// A scheme's statistics, as in its `stats` directory. All of them are totals.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct SchemeStats {
    /// Index of the context.
    pub context: u32,
    /// Index of the scheme.
    pub scheme: u32,
    /// Regions tried.
    pub nr_tried: u64,
    /// Bytes tried.
    pub sz_tried: u64,
    /// Regions applied.
    pub nr_applied: u64,
    /// Bytes applied.
    pub sz_applied: u64,
    /// Bytes that the ops filters let in.
    pub sz_ops_filter_passed: u64,
    /// How often the quota was exceeded.
    pub qt_exceeds: u64,
    /// Whole passes over all regions.
    pub nr_snapshots: u64,
}

/// An event of system `damon`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Event {
    /// `damon_aggregated`, or `damon_region_aggregated` if there are `probe_hits`.
    Aggregated(AggregatedRegion),
    /// `damos_before_apply`.
    BeforeApply(AppliedRegion),
    /// `damos_esz`.
    Esz {
        /// Index of the context.
        context: u32,
        /// Index of the scheme.
        scheme: u32,
        /// Effective size quota, in bytes.
        esz: u64,
    },
    /// `damos_stat_after_apply_interval`.
    Stats(SchemeStats),
    /// `damon_monitor_intervals_tune`.
    Tuned {
        /// The new sample interval, in µs.
        sample_us: u64,
    },
}

impl Event {
    /// Which event it is.
    #[must_use]
    pub const fn kind(&self) -> EventKind {
        match self {
            Self::Aggregated(r) if r.probe_hits.is_some() => EventKind::RegionAggregated,
            Self::Aggregated(_) => EventKind::Aggregated,
            Self::BeforeApply(_) => EventKind::BeforeApply,
            Self::Esz { .. } => EventKind::Esz,
            Self::Stats(_) => EventKind::Stats,
            Self::Tuned { .. } => EventKind::Tuned,
        }
    }
}

/// An event, with the time, the CPU and the thread that wrote it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Record {
    /// When it was written, on the monotonic clock.
    pub at: Time,
    /// The CPU that it was written on.
    pub cpu: u32,
    /// The kdamond's thread.
    pub pid: u32,
    /// The event itself.
    pub event: Event,
}

impl fmt::Display for Event {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Aggregated(r) => {
                write!(f, "target_id={} {}", r.target, Tail(r))?;
                if let Some([a, b, c, d]) = r.probe_hits {
                    write!(f, " probe_hits={a:02x} {b:02x} {c:02x} {d:02x}")?;
                }
                Ok(())
            }
            Self::BeforeApply(a) => write!(
                f,
                "ctx_idx={} scheme_idx={} target_idx={} {}",
                a.context,
                a.scheme,
                a.region.target,
                Tail(&a.region)
            ),
            Self::Esz { context, scheme, esz } => {
                write!(f, "ctx_idx={context} scheme_idx={scheme} esz={esz}")
            }
            Self::Stats(s) => write!(
                f,
                "ctx_idx={} scheme_idx={} nr_tried={} sz_tried={} nr_applied={} sz_applied={} \
                 sz_ops_filter_passed={} qt_exceeds={} nr_snapshots={}",
                s.context,
                s.scheme,
                s.nr_tried,
                s.sz_tried,
                s.nr_applied,
                s.sz_applied,
                s.sz_ops_filter_passed,
                s.qt_exceeds,
                s.nr_snapshots
            ),
            Self::Tuned { sample_us } => write!(f, "sample_us={sample_us}"),
        }
    }
}

/// What all regions' lines end with.
struct Tail<'r>(&'r AggregatedRegion);

impl fmt::Display for Tail<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let r = self.0;
        let (start, end) = (r.range.start, r.range.end);
        write!(f, "nr_regions={} {start}-{end}: {} {}", r.nr_regions, r.nr_accesses, r.age)
    }
}

/// Where the fields of one kind of event lie on the running kernel.
#[derive(Debug, Clone)]
pub struct Layout {
    /// The event's number.
    pub(super) id: u16,
    pid: Number,
    parts: Parts,
}

#[derive(Debug, Clone)]
enum Parts {
    Aggregated(RegionParts),
    BeforeApply { context: Number, scheme: Number, region: RegionParts },
    Esz([Number; 3]),
    Stats([Number; 9]),
    Tuned(Number),
}

#[derive(Debug, Clone)]
struct RegionParts {
    target: Number,
    nr_regions: Number,
    start: Number,
    end: Number,
    nr_accesses: Number,
    age: Number,
    probe_hits: Option<Array>,
}

impl RegionParts {
    fn new(format: &Format, target: &'static str, probes: bool) -> Result<Self, FormatError> {
        let probe_hits = if probes {
            Some(format.array("probe_hits").ok_or(FormatError::NoField("probe_hits"))?)
        } else {
            None
        };
        Ok(Self {
            target: format.number(target)?,
            nr_regions: format.number("nr_regions")?,
            start: format.number("start")?,
            end: format.number("end")?,
            nr_accesses: format.number("nr_accesses")?,
            age: format.number("age")?,
            probe_hits,
        })
    }

    fn of(&self, e: &[u8]) -> Option<AggregatedRegion> {
        let hits = |array: Array| {
            let mut hits = [0; 4];
            let told = array.of(e)?;
            hits.iter_mut().zip(told).for_each(|(hit, told)| *hit = *told);
            Some(hits)
        };
        Some(AggregatedRegion {
            target: self.target.of(e)?,
            nr_regions: self.nr_regions.of32(e)?,
            range: AddrRange::new(self.start.of(e)?, self.end.of(e)?),
            nr_accesses: self.nr_accesses.of32(e)?,
            age: self.age.of32(e)?,
            probe_hits: match self.probe_hits {
                Some(array) => Some(hits(array)?),
                None => None,
            },
        })
    }
}

impl Layout {
    /// Finds the fields of `kind` in the kernel's description.
    ///
    /// # Errors
    ///
    /// If a field is missing.
    pub fn new(kind: EventKind, format: &Format) -> Result<Self, FormatError> {
        let n = |name| format.number(name);
        let parts = match kind {
            EventKind::Aggregated | EventKind::RegionAggregated => {
                let probes = kind == EventKind::RegionAggregated;
                Parts::Aggregated(RegionParts::new(format, "target_id", probes)?)
            }
            EventKind::BeforeApply => Parts::BeforeApply {
                context: n("context_idx")?,
                scheme: n("scheme_idx")?,
                region: RegionParts::new(format, "target_idx", false)?,
            },
            EventKind::Esz => Parts::Esz([n("context_idx")?, n("scheme_idx")?, n("esz")?]),
            EventKind::Stats => Parts::Stats([
                n("context_idx")?,
                n("scheme_idx")?,
                n("nr_tried")?,
                n("sz_tried")?,
                n("nr_applied")?,
                n("sz_applied")?,
                n("sz_ops_filter_passed")?,
                n("qt_exceeds")?,
                n("nr_snapshots")?,
            ]),
            EventKind::Tuned => Parts::Tuned(n("sample_us")?),
        };
        Ok(Self { id: format.id(), pid: n("common_pid")?, parts })
    }

    /// The thread and the event; none if there are too few bytes.
    pub fn decode(&self, e: &[u8]) -> Option<(u32, Event)> {
        let event = match &self.parts {
            Parts::Aggregated(parts) => Event::Aggregated(parts.of(e)?),
            Parts::BeforeApply { context, scheme, region } => Event::BeforeApply(AppliedRegion {
                context: context.of32(e)?,
                scheme: scheme.of32(e)?,
                region: region.of(e)?,
            }),
            Parts::Esz([context, scheme, esz]) => {
                Event::Esz { context: context.of32(e)?, scheme: scheme.of32(e)?, esz: esz.of(e)? }
            }
            Parts::Stats([context, scheme, counts @ ..]) => {
                let [nr_tried, sz_tried, nr_applied, sz_applied, passed, exceeds, snapshots] =
                    *counts;
                Event::Stats(SchemeStats {
                    context: context.of32(e)?,
                    scheme: scheme.of32(e)?,
                    nr_tried: nr_tried.of(e)?,
                    sz_tried: sz_tried.of(e)?,
                    nr_applied: nr_applied.of(e)?,
                    sz_applied: sz_applied.of(e)?,
                    sz_ops_filter_passed: passed.of(e)?,
                    qt_exceeds: exceeds.of(e)?,
                    nr_snapshots: snapshots.of(e)?,
                })
            }
            Parts::Tuned(sample_us) => Event::Tuned { sample_us: sample_us.of(e)? },
        };
        Some((self.pid.of32(e)?, event))
    }
}
