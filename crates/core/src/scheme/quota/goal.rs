//! Goals: what a quota is tuned for (R§4.6).

use super::follow::{Follow, NodeLevel, Stand};

/// A cgroup, named by whoever drives the context.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
pub struct CgroupId(pub u32);

/// What a goal, or a watermark, measures.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Metric {
    /// Given by the user.
    UserInput,
    /// Time in which some task of the machine waited for memory, since the last measurement, in µs.
    SomeMemPsiUs,
    /// Used memory of a node, in basis points of all of it.
    NodeMemUsedBp(i32),
    /// Free memory of a node, in basis points of all of it.
    NodeMemFreeBp(i32),
    /// A cgroup's memory on a node, in basis points of the node's.
    NodeMemcgUsedBp(i32, CgroupId),
    /// The memory of a node that a cgroup does not use, in basis points of the node's memory.
    NodeMemcgFreeBp(i32, CgroupId),
    /// The active part of the LRU lists, in basis points.
    ActiveMemBp,
    /// The inactive part of the LRU lists, in basis points.
    InactiveMemBp,
    /// The part of the memory that matches the scheme's pattern on this node, in basis points.
    /// Physical address space only.
    NodeEligibleMemBp(i32),
    /// As [`Metric::SomeMemPsiUs`], but time in which all tasks waited at once. Not in the kernel.
    FullMemPsiUs,
    /// As [`Metric::SomeMemPsiUs`], for the tasks of one cgroup. Not in the kernel.
    CgroupSomeMemPsiUs(CgroupId),
    /// As [`Metric::FullMemPsiUs`], for the tasks of one cgroup. Not in the kernel.
    CgroupFullMemPsiUs(CgroupId),
    /// Memory of the machine that came back after it was reclaimed, since the last measurement, in
    /// bytes, whoever reclaimed it. Not in the kernel.
    WorkingsetRefaultBytes,
    /// As [`Metric::WorkingsetRefaultBytes`], for one cgroup. Not in the kernel.
    CgroupWorkingsetRefaultBytes(CgroupId),
    /// The share of the memory that the scheme acted on that was touched soon after, in basis
    /// points. Not in the kernel.
    RefaultBp,
    /// Bytes that the scheme acted on since some start. Only the brake asks for this; it is no
    /// goal. Not in the kernel.
    DoneBytes,
    /// Bytes of [`Metric::DoneBytes`] that were touched soon after. Only the brake asks for this;
    /// it is no goal. Not in the kernel.
    RefaultedBytes,
    /// Free memory of the machine, in permil: the watermarks' metric.
    FreeMemRate,
}

impl Metric {
    /// The kernel's keyword. A metric that the kernel does not have has a name in the same style.
    #[must_use]
    pub const fn name(&self) -> &'static str {
        match self {
            Self::UserInput => "user_input",
            Self::SomeMemPsiUs => "some_mem_psi_us",
            Self::FullMemPsiUs => "full_mem_psi_us",
            Self::CgroupSomeMemPsiUs(_) => "cgroup_some_mem_psi_us",
            Self::CgroupFullMemPsiUs(_) => "cgroup_full_mem_psi_us",
            Self::NodeMemUsedBp(_) => "node_mem_used_bp",
            Self::NodeMemFreeBp(_) => "node_mem_free_bp",
            Self::NodeMemcgUsedBp(..) => "node_memcg_used_bp",
            Self::NodeMemcgFreeBp(..) => "node_memcg_free_bp",
            Self::NodeEligibleMemBp(_) => "node_eligible_mem_bp",
            Self::ActiveMemBp => "active_mem_bp",
            Self::InactiveMemBp => "inactive_mem_bp",
            Self::WorkingsetRefaultBytes => "workingset_refault_bytes",
            Self::CgroupWorkingsetRefaultBytes(_) => "cgroup_workingset_refault_bytes",
            Self::RefaultBp => "refault_bp",
            Self::DoneBytes => "done_bytes",
            Self::RefaultedBytes => "refaulted_bytes",
            Self::FreeMemRate => "free_mem_rate",
        }
    }

    /// Whether a goal keeps its pressure total in the kernel when its metric changes from this one
    /// to `other`. The kernel stores the total in the same place as a node's number. Metrics that
    /// are not in the kernel never keep it.
    const fn leaves_total_to(self, other: Self) -> bool {
        const fn uses_no_room(metric: Metric) -> bool {
            matches!(
                metric,
                Metric::UserInput
                    | Metric::SomeMemPsiUs
                    | Metric::ActiveMemBp
                    | Metric::InactiveMemBp
                    | Metric::NodeEligibleMemBp(_)
            )
        }
        uses_no_room(self) && uses_no_room(other)
    }

    /// Whether the source is a total that counts up. The metric is then its increase since the last
    /// measurement.
    #[must_use]
    pub const fn is_total(&self) -> bool {
        matches!(
            self,
            Self::SomeMemPsiUs
                | Self::FullMemPsiUs
                | Self::CgroupSomeMemPsiUs(_)
                | Self::CgroupFullMemPsiUs(_)
                | Self::WorkingsetRefaultBytes
                | Self::CgroupWorkingsetRefaultBytes(_)
        )
    }
}

/// A goal (`struct damos_quota_goal`, Linux 7.2).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Goal {
    /// What is measured.
    pub metric: Metric,
    /// The value to reach, in the metric's unit. A goal with target 0 is ignored.
    pub target: u64,
    /// The value now: the user's for [`Metric::UserInput`], otherwise the last measured.
    pub current: u64,
    /// The source's total at the last measurement, for metrics that count up.
    pub last_total: Option<u64>,
    /// What moves the target while the scheme runs. Not in the kernel.
    pub follow: Follow,
    /// Value and target in bytes, for a goal on a node's memory whose level is known. Not in the
    /// kernel.
    pub stand: Option<Stand>,
}

impl Goal {
    /// A goal that was not measured yet.
    #[must_use]
    pub const fn new(metric: Metric, target: u64) -> Self {
        let follow = Follow { watermark_bp: None, counts_coming: false, room: None };
        Self { metric, target, current: 0, last_total: None, follow, stand: None }
    }

    /// Takes over what the user can change and keeps what was measured
    /// (`damos_commit_quota_goal()`).
    ///
    /// When the metric changes, the last total is forgotten, so the next total counts from its
    /// first measurement. The kernel, and so `strict`, keeps the total of a pressure goal until a
    /// node's number overwrites it. When the pressure metric comes back, it counts from the total
    /// that was kept.
    pub fn commit(&mut self, src: &Self, strict: bool) {
        let keeps_total =
            self.metric == src.metric || (strict && self.metric.leaves_total_to(src.metric));
        if self.metric != src.metric {
            self.stand = None;
        }
        self.follow = src.follow;
        self.metric = src.metric;
        self.target = src.target;
        if src.metric == Metric::UserInput {
            self.current = src.current;
        }
        if !keeps_total {
            self.last_total = None;
        }
    }

    /// Takes in a measured value. `None`: it could not be measured, and nothing changes. With
    /// `strict` the first measurement of a total counts from 0, as in the kernel (R§9.2.14),
    /// otherwise from now.
    pub fn measured(&mut self, value: Option<u64>, strict: bool) {
        let Some(value) = value else { return };
        if self.metric == Metric::UserInput {
            return;
        }
        if self.metric.is_total() {
            let last = self.last_total.unwrap_or(if strict { 0 } else { value });
            self.current = value.saturating_sub(last);
            self.last_total = Some(value);
        } else {
            self.current = value;
        }
    }

    /// Takes in the level of the metric's node. `None`: the level is not known. `waiting` is the
    /// number of bytes that wait for room on the node, for [`Follow::room`].
    pub fn measured_level(&mut self, level: Option<NodeLevel>, waiting: u64) {
        let stand = |level| Stand::of(self.metric, self.target, self.follow, level, waiting);
        self.stand = level.and_then(stand);
        if let Some(stand) = self.stand {
            self.current = stand.in_bp(stand.current);
        }
    }

    /// The target as it is now, in the metric's unit.
    #[must_use]
    pub fn target_now(&self) -> u64 {
        match self.stand {
            Some(stand) if self.follow.is_set() => stand.in_bp(stand.target),
            _ => self.target,
        }
    }

    /// Bytes that are missing to the target. `None`: the node's level is not known.
    #[must_use]
    pub fn lack(&self) -> Option<u64> {
        self.stand.map(|stand| stand.lack())
    }

    /// How far the goal is reached, in basis points. At 10,000 it is exactly met.
    #[must_use]
    pub fn score(&self) -> Option<u64> {
        if self.target == 0 {
            return None;
        }
        // A target that follows the node's level can be 0. It counts as 1, so that the division is
        // possible and the goal is met.
        let target = self.target_now().max(1);
        Some(crate::math::mult_frac(self.current, 10_000, target))
    }
}

/// How a quota follows its goals.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Tuner {
    /// The quota changes step by step and stays where the goal is met.
    #[default]
    Consist,
    /// The quota is its full size until the goal is met, then nothing.
    Temporal,
    /// The quota is the number of bytes that the goal lacks, measured anew at every application. It
    /// is 0 while that is not known. For goals on the memory of a node. Not in the kernel.
    Exact,
}

impl Tuner {
    /// The quota of the next window, in bytes times 10,000.
    #[must_use]
    pub fn next(self, last_bp: u64, score: u64, sz: u64) -> u64 {
        match self {
            Self::Consist => crate::math::feed(last_bp.max(10_000), score),
            Self::Temporal if score >= 10_000 => 0,
            Self::Temporal if sz != 0 => sz.saturating_mul(10_000),
            Self::Temporal => u64::MAX,
            // `QuotaState` computes this quota from the lack, without a tuner.
            Self::Exact => 0,
        }
    }
}
