//! Monitoring attributes: intervals, bounds and method, with the kernel's defaults and validation.

/// How accesses are sampled.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Method {
    /// DAMON's method. In each sample interval a random page of each region is made old and then
    /// looked at.
    Resample,
    /// A few watched pages per region are made old once and then only looked at. See
    /// `monitor::first_touch`.
    #[default]
    FirstTouch,
    /// Every page is looked at, 2 MiB at a time. See `monitor::census`.
    Census,
    /// The core does not sample. The operations set has the regions of each window. See
    /// `monitor::observed`.
    Observed,
}

impl Method {
    /// Its name in records, policies and on the control socket.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Resample => "resample",
            Self::FirstTouch => "first_touch",
            Self::Census => "census",
            Self::Observed => "observed",
        }
    }
}

/// Goal of the intervals auto-tuning (`struct damon_intervals_goal`, Linux 6.15).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct IntervalsGoal {
    /// Wanted share of positive samples, in basis points.
    pub access_bp: u64,
    /// Number of aggregations between two tunings. 0 switches the tuning off.
    pub aggrs: u64,
    /// Lower bound of the sample interval, in µs.
    pub min_sample_us: u64,
    /// Upper bound of the sample interval, in µs.
    pub max_sample_us: u64,
}

/// Monitoring attributes (`struct damon_attrs`, Linux 7.2).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Attrs {
    /// Sample interval, in µs. 0 counts as 1 where it is a divisor.
    pub sample_us: u64,
    /// Aggregation interval, in µs.
    pub aggr_us: u64,
    /// Interval between looks at the targets' mappings, in µs.
    pub update_us: u64,
    /// Least wanted number of regions, over all targets. At least 3.
    pub min_nr_regions: u64,
    /// Largest wanted number of regions, over all targets. Best effort, as in the kernel.
    pub max_nr_regions: u64,
    /// Auto-tuning of the intervals.
    pub intervals_goal: IntervalsGoal,
    /// Samples per aggregation. Computed when the attributes are set, and kept by the tuner.
    pub aggr_samples: u64,
    /// Smallest region, in bytes. A power of two.
    pub min_region_sz: u64,
    /// Sampling method.
    pub method: Method,
    /// Reproduce the kernel's defects (DAMON-REFERENCE §9), for parity tests.
    pub strict: bool,
    /// The most accessed bits to clear per second. `first_touch` only.
    pub clears_per_sec: u32,
    /// The share of one CPU, in basis points, that monitoring may use: its own time, and 0.5 µs of
    /// the target's per page that has to set its accessed bit again. `census` only.
    pub budget_bp: u32,
}

impl Default for Attrs {
    /// 5 ms, 100 ms, 1 s; 10 to 1000 regions; `first_touch`; not strict.
    ///
    /// The kernel's update interval is 60 s. Here it is 1 s, because reading the mappings takes a
    /// few microseconds and a user expects a new mapping to show up soon. [`Attrs::reference`] has
    /// the kernel's.
    fn default() -> Self {
        Self {
            sample_us: 5_000,
            aggr_us: 100_000,
            update_us: 1_000_000,
            min_nr_regions: 10,
            max_nr_regions: 1000,
            intervals_goal: IntervalsGoal::default(),
            aggr_samples: 0,
            min_region_sz: 4096,
            method: Method::default(),
            strict: false,
            clears_per_sec: 200,
            budget_bp: 100,
        }
    }
}

impl Attrs {
    /// The kernel's own defaults: as [`Attrs::default`], but `resample`, strict, and an update
    /// interval of 60 s.
    #[must_use]
    pub fn reference() -> Self {
        Self { update_us: 60_000_000, method: Method::Resample, strict: true, ..Self::default() }
    }

    /// The largest possible `nr_accesses`: samples per aggregation, at least 1
    /// (`damon_max_nr_accesses()`).
    #[must_use]
    pub fn max_nr_accesses(&self) -> u32 {
        let n = self.aggr_us / self.sample_us.max(1);
        u32::try_from(n).unwrap_or(u32::MAX).max(1)
    }

    /// Whether a commit of `new` restarts deadlines and drops the window under way
    /// (`damon_attrs_equals()`).
    ///
    /// The kernel compares nine values. Here the method is a tenth, because one method cannot use
    /// what another one found in a window.
    pub(crate) fn restarts(&self, new: &Self) -> bool {
        let compared = |a: &Self| {
            let intervals = (a.sample_us, a.aggr_us, a.update_us, a.intervals_goal);
            (intervals, a.min_nr_regions, a.max_nr_regions, a.method)
        };
        compared(self) != compared(new)
    }

    /// Checks the attributes, in the kernel's order (`damon_set_attrs()`).
    ///
    /// # Errors
    ///
    /// The first rule that does not hold.
    pub fn validate(&self) -> Result<(), AttrsError> {
        let goal = &self.intervals_goal;
        if goal.aggrs != 0 {
            if goal.min_sample_us > goal.max_sample_us {
                return Err(AttrsError::GoalBounds);
            }
            if self.sample_us < goal.min_sample_us || goal.max_sample_us < self.sample_us {
                return Err(AttrsError::GoalSample);
            }
        }
        if self.min_nr_regions < 3 {
            return Err(AttrsError::MinNrRegions);
        }
        if self.min_nr_regions > self.max_nr_regions {
            return Err(AttrsError::NrRegions);
        }
        if self.sample_us > self.aggr_us {
            return Err(AttrsError::Intervals);
        }
        if !self.min_region_sz.is_power_of_two() {
            return Err(AttrsError::MinRegionSize);
        }
        Ok(())
    }
}

/// Why attributes were refused; nothing was changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AttrsError {
    /// The intervals goal's smallest sample interval is larger than its largest.
    GoalBounds,
    /// The sample interval is outside the intervals goal's bounds.
    GoalSample,
    /// Fewer than 3 regions: the three areas of an address space would not fit.
    MinNrRegions,
    /// The least number of regions is larger than the largest.
    NrRegions,
    /// The sample interval is longer than the aggregation interval.
    Intervals,
    /// The smallest region size is not a power of two.
    MinRegionSize,
}

impl core::fmt::Display for AttrsError {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str(match self {
            Self::GoalBounds => "intervals goal: min sample interval is larger than max",
            Self::GoalSample => "intervals goal: the sample interval is outside its bounds",
            Self::MinNrRegions => "fewer than 3 regions asked for; 3 is the least",
            Self::NrRegions => "min number of regions is larger than max",
            Self::Intervals => "the sample interval is longer than the aggregation interval",
            Self::MinRegionSize => "the smallest region size is not a power of two",
        })
    }
}

impl core::error::Error for AttrsError {}
