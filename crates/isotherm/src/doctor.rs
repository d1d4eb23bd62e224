//! Which operations sets work on this machine, proved by a self-test.
//!
//! ```no_run
//! let report = isotherm::doctor::run();
//! println!("{report}");
//! assert!(report.best.is_some(), "nothing works here");
//! ```

use std::fmt;

pub use isotherm_ops::doctor::{Depth, Report, SelfTest, SetReport, run, run_to};
pub use isotherm_ops::support::{SetName, Support};

/// An operations set: what looks at memory. [`run`] says which work here; docs/SPEC.md compares
/// them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Set {
    /// Page tables read by eBPF: reads and writes, per page. Linux 5.17 or newer.
    PageWalk,
    /// The kernel's idle page tracking: per page, and the only one of ours for physical memory.
    Idle,
    /// The kernel's own DAMON, of which there is one per machine: never taken without being asked
    /// for.
    Kdamond,
    /// `/proc/PID/smaps`: whole mappings only, and schemes cannot act. Works almost everywhere.
    Smaps,
}

impl Set {
    /// As `--ops` of the program takes it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        self.to_ops().name()
    }

    pub(crate) const fn to_ops(self) -> SetName {
        match self {
            Self::PageWalk => SetName::PageWalk,
            Self::Idle => SetName::Idle,
            Self::Kdamond => SetName::Kdamond,
            Self::Smaps => SetName::Smaps,
        }
    }
}

impl fmt::Display for Set {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// How accesses are sampled.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
#[non_exhaustive]
pub enum Method {
    /// A few watched pages per region, made old once and then only looked at: few clears.
    #[default]
    FirstTouch,
    /// Every page, 2 MiB at a time, within a budget of CPU time. Needs the set `pagewalk` or
    /// `idle`.
    Census,
    /// DAMON's: in each sample interval a new random page per region, made old and looked at again.
    Resample,
}

impl Method {
    pub(crate) const fn to_core(self) -> isotherm_core::Method {
        match self {
            Self::FirstTouch => isotherm_core::Method::FirstTouch,
            Self::Census => isotherm_core::Method::Census,
            Self::Resample => isotherm_core::Method::Resample,
        }
    }
}
