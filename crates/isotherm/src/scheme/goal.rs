//! Goals that a quota is tuned for.

use std::time::Duration;

use isotherm_core::scheme::{self, CgroupId, Metric};

use super::{basis_points, filter::number_of};
use crate::Bytes;
use crate::units::micros;

/// A value that a quota is tuned for (`struct damos_quota_goal`): more is done while the measured
/// value is below it, and less while it is above.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Goal {
    metric: Metric,
    target: u64,
    cgroup: Option<String>,
}

impl Goal {
    const fn new(metric: Metric, target: u64) -> Self {
        Self { metric, target, cgroup: None }
    }

    /// So much time per window of the quota in which some task of the machine waits for memory
    /// (`/proc/pressure/memory`, "some").
    #[must_use]
    pub fn memory_pressure(time: Duration) -> Self {
        Self::new(Metric::SomeMemPsiUs, micros(time))
    }

    /// As [`Goal::memory_pressure`], of one cgroup (v2): a path from the root of the hierarchy.
    #[must_use]
    pub fn cgroup_pressure(path: impl Into<String>, time: Duration) -> Self {
        let metric = Metric::CgroupSomeMemPsiUs(CgroupId(0));
        Self { cgroup: Some(path.into()), ..Self::new(metric, micros(time)) }
    }

    /// Share (0 to 1) of a node's memory that is in use.
    #[must_use]
    pub fn node_used(node: u32, share: f64) -> Self {
        Self::new(Metric::NodeMemUsedBp(signed(node)), basis_points(share).into())
    }

    /// Share (0 to 1) of a node's memory that is free.
    #[must_use]
    pub fn node_free(node: u32, share: f64) -> Self {
        Self::new(Metric::NodeMemFreeBp(signed(node)), basis_points(share).into())
    }

    /// Share (0 to 1) of what the scheme acted on that is touched again within 10 s.
    #[must_use]
    pub fn refaults(share: f64) -> Self {
        Self::new(Metric::RefaultBp, basis_points(share).into())
    }

    /// So much memory of one cgroup (v2; a path from the root of the hierarchy) that comes back per
    /// window of the quota after it was reclaimed (`workingset_refault_*` of `memory.stat`).
    #[must_use]
    pub fn cgroup_refaults(path: impl Into<String>, bytes: Bytes) -> Self {
        let metric = Metric::CgroupWorkingsetRefaultBytes(CgroupId(0));
        Self { cgroup: Some(path.into()), ..Self::new(metric, bytes.get()) }
    }

    pub(super) fn to_core(&self, cgroups: &mut Vec<String>) -> scheme::Goal {
        let mut of = || {
            let path = self.cgroup.as_deref().unwrap_or_default();
            CgroupId(number_of(cgroups, path))
        };
        let metric = match self.metric {
            Metric::CgroupSomeMemPsiUs(_) => Metric::CgroupSomeMemPsiUs(of()),
            Metric::CgroupWorkingsetRefaultBytes(_) => Metric::CgroupWorkingsetRefaultBytes(of()),
            metric => metric,
        };
        scheme::Goal::new(metric, self.target)
    }
}

/// Nodes are numbered from 0; the kernel's type is signed.
fn signed(node: u32) -> i32 {
    i32::try_from(node).unwrap_or(i32::MAX)
}
