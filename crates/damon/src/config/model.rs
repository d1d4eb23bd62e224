//! What one kdamond of the kernel can be told, as types (R§5.2, Linux 7.2).
//!
//! These are plain values: this module knows no file, and does not check what the kernel checks.
//! All sizes and addresses are in the context's address unit, which is a byte unless
//! [`Context::addr_unit`] says otherwise.

use isotherm_core::AddrRange;
use isotherm_core::attrs::IntervalsGoal;
use isotherm_core::scheme::{
    Action, Bounds, Destination, FailCharge, Resolved, Tuner, Watermarks, Weights,
};

/// An operations set of the kernel.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, PartialOrd, Ord)]
pub enum Operations {
    /// Virtual address spaces of processes; follows their mappings.
    #[default]
    Vaddr,
    /// The same over given ranges only, which stay as they are.
    Fvaddr,
    /// The physical address space; one target without a pid.
    Paddr,
}

impl Operations {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Vaddr, Self::Fvaddr, Self::Paddr];

    /// The kernel's keyword.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Vaddr => "vaddr",
            Self::Fvaddr => "fvaddr",
            Self::Paddr => "paddr",
        }
    }

    /// The operations set of this keyword.
    #[must_use]
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|ops| ops.name() == name)
    }
}

/// Everything that can be told to one kdamond.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Config {
    /// The kernel refreshes statistics files by itself every so many ms; 0: only when told (6.17).
    pub refresh_ms: u32,
    /// Its context. The kernel takes exactly one.
    pub context: Context,
}

/// A context (`struct damon_ctx`).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Context {
    /// The operations set.
    pub operations: Operations,
    /// Bytes per unit of addresses and sizes; `paddr` only (6.18).
    pub addr_unit: u64,
    /// Whether it stands still, keeping its regions (7.2).
    pub pause: bool,
    /// Sample, aggregation and update interval, and the goal that they are tuned for.
    pub intervals: Intervals,
    /// Bounds of the number of regions.
    pub nr_regions: Bounds<u64>,
    /// Attributes of pages to count, at most 4 (7.2).
    pub probes: Vec<Probe>,
    /// Targets.
    pub targets: Vec<Target>,
    /// Schemes.
    pub schemes: Vec<Scheme>,
}

impl Default for Context {
    /// A context directory as the kernel makes it.
    fn default() -> Self {
        Self {
            operations: Operations::default(),
            addr_unit: 1,
            pause: false,
            intervals: Intervals::default(),
            nr_regions: Bounds::new(10, 1000),
            probes: Vec::new(),
            targets: Vec::new(),
            schemes: Vec::new(),
        }
    }
}

/// Intervals of a context, in µs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Intervals {
    /// Between samples.
    pub sample_us: u64,
    /// Between aggregations.
    pub aggr_us: u64,
    /// Between looks at the targets' mappings.
    pub update_us: u64,
    /// What the first two are tuned for (6.15).
    pub goal: IntervalsGoal,
}

impl Default for Intervals {
    /// The kernel's: 5 ms, 100 ms, 60 s, not tuned.
    fn default() -> Self {
        Self {
            sample_us: 5_000,
            aggr_us: 100_000,
            update_us: 60_000_000,
            goal: IntervalsGoal::default(),
        }
    }
}

/// A probe (7.2): the kernel counts, per region, the pages that its filters let in.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
pub struct Probe {
    /// Which pages.
    pub filters: Vec<ProbeFilter>,
    /// If the weight of any probe is not 0, the kernel merges and ages regions by the weighted sum
    /// of their hits, not by their accesses (`damon_merge_score()`, 7.3). A window then has at most
    /// 255 samples.
    pub weight: u32,
}

/// A filter of a probe.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct ProbeFilter {
    /// What it looks at.
    pub kind: ProbeKind,
    /// Whether it applies to memory of that kind, or to all other.
    pub matching: bool,
    /// Whether that memory counts.
    pub allow: bool,
}

/// What a probe's filter looks at.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
pub enum ProbeKind {
    /// Anonymous memory.
    #[default]
    Anon,
    /// Memory of a cgroup, by its path from the cgroup mount's root.
    Memcg(String),
}

/// A target.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
pub struct Target {
    /// Process to monitor; 0 with `paddr`.
    pub pid: i32,
    /// Ranges to begin with, sorted. If empty, `vaddr` finds them, and a commit keeps the present
    /// ones.
    pub regions: Vec<AddrRange>,
    /// Whether a commit shall remove it (6.19).
    pub obsolete: bool,
}

/// A scheme (`struct damos`), in the kernel's own units: samples and windows.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Scheme {
    /// Which regions.
    pub pattern: Resolved,
    /// What to do with them.
    pub action: Action,
    /// Node to migrate to (6.11).
    pub target_nid: Option<u32>,
    /// Time between applications, in µs; 0: the aggregation interval (6.7).
    pub apply_interval_us: u64,
    /// How much at most.
    pub quota: Quota,
    /// When at all.
    pub watermarks: Watermarks,
    /// Filters that the core evaluates: addresses and targets.
    pub core_filters: Vec<Filter>,
    /// Filters that the operations set evaluates, page by page.
    pub ops_filters: Vec<Filter>,
    /// Filters in the old common directory. They come after `core_filters` and `ops_filters`.
    ///
    /// Kernels before 6.15 have only this directory; there the writer puts all three lists into it.
    pub filters: Vec<Filter>,
    /// Nodes to migrate to, by weight (6.17); overrides `target_nid`.
    pub dests: Vec<Destination>,
    /// Stop after so many snapshots; 0: never (7.0).
    pub max_nr_snapshots: u64,
}

/// A quota (`struct damos_quota`).
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Quota {
    /// Time to use per window, in ms; 0: no limit.
    pub ms: u64,
    /// Bytes per window; 0: no limit.
    pub bytes: u64,
    /// Length of a window, in ms.
    pub reset_interval_ms: u64,
    /// What comes first.
    pub weights: Weights,
    /// What to tune for (6.8).
    pub goals: Vec<Goal>,
    /// How (7.1).
    pub tuner: Tuner,
    /// What failed bytes cost (7.2).
    pub fail_charge: FailCharge,
}

/// A goal (`struct damos_quota_goal`).
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
pub struct Goal {
    /// What is measured.
    pub metric: GoalMetric,
    /// The value to reach. The kernel ignores a goal with 0.
    pub target_value: u64,
    /// The value now; only for [`GoalMetric::UserInput`].
    pub current_value: u64,
}

/// What a goal measures (`enum damos_quota_goal_metric`).
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
pub enum GoalMetric {
    /// Given by the user (6.8).
    #[default]
    UserInput,
    /// Time in which some task waited for memory, in µs per window (6.9).
    SomeMemPsiUs,
    /// Used memory of a node, in basis points (6.16).
    NodeMemUsedBp(i32),
    /// Free memory of a node, in basis points (6.16).
    NodeMemFreeBp(i32),
    /// A cgroup's memory on a node, in basis points of the node's (6.19).
    NodeMemcgUsedBp(i32, String),
    /// What a cgroup leaves of a node, in basis points (6.19).
    NodeMemcgFreeBp(i32, String),
    /// The active part of the LRU lists, in basis points (7.0).
    ActiveMemBp,
    /// The inactive part of the LRU lists, in basis points (7.0).
    InactiveMemBp,
    /// The node's part of the memory that matches the pattern, in basis points; `paddr` only (7.2).
    NodeEligibleMemBp(i32),
}

impl GoalMetric {
    /// The kernel's keyword.
    #[must_use]
    pub const fn name(&self) -> &'static str {
        match self {
            Self::UserInput => "user_input",
            Self::SomeMemPsiUs => "some_mem_psi_us",
            Self::NodeMemUsedBp(_) => "node_mem_used_bp",
            Self::NodeMemFreeBp(_) => "node_mem_free_bp",
            Self::NodeMemcgUsedBp(..) => "node_memcg_used_bp",
            Self::NodeMemcgFreeBp(..) => "node_memcg_free_bp",
            Self::ActiveMemBp => "active_mem_bp",
            Self::InactiveMemBp => "inactive_mem_bp",
            Self::NodeEligibleMemBp(_) => "node_eligible_mem_bp",
        }
    }

    /// The metric of this keyword, with the node and the cgroup that go with it.
    #[must_use]
    pub fn from_parts(name: &str, nid: i32, path: &str) -> Option<Self> {
        Some(match name {
            "user_input" => Self::UserInput,
            "some_mem_psi_us" => Self::SomeMemPsiUs,
            "node_mem_used_bp" => Self::NodeMemUsedBp(nid),
            "node_mem_free_bp" => Self::NodeMemFreeBp(nid),
            "node_memcg_used_bp" => Self::NodeMemcgUsedBp(nid, path.into()),
            "node_memcg_free_bp" => Self::NodeMemcgFreeBp(nid, path.into()),
            "active_mem_bp" => Self::ActiveMemBp,
            "inactive_mem_bp" => Self::InactiveMemBp,
            "node_eligible_mem_bp" => Self::NodeEligibleMemBp(nid),
            _ => return None,
        })
    }

    /// Its node, if it is about one.
    #[must_use]
    pub const fn nid(&self) -> Option<i32> {
        match self {
            Self::NodeMemUsedBp(nid)
            | Self::NodeMemFreeBp(nid)
            | Self::NodeMemcgUsedBp(nid, _)
            | Self::NodeMemcgFreeBp(nid, _)
            | Self::NodeEligibleMemBp(nid) => Some(*nid),
            _ => None,
        }
    }

    /// Its cgroup, if it is about one.
    #[must_use]
    pub fn path(&self) -> Option<&str> {
        match self {
            Self::NodeMemcgUsedBp(_, path) | Self::NodeMemcgFreeBp(_, path) => Some(path),
            _ => None,
        }
    }
}

/// What a filter looks at (`enum damos_filter_type`).
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
pub enum FilterKind {
    /// Anonymous memory (6.3).
    #[default]
    Anon,
    /// Pages on an active LRU list (6.15).
    Active,
    /// Memory charged to a cgroup, by its path from the cgroup mount's root (6.3).
    Memcg(String),
    /// Pages accessed since the last look (6.10).
    Young,
    /// Folios of a size in bytes, both bounds inside (6.15).
    HugepageSize(u64, u64),
    /// Page cache that no process maps (6.15).
    Unmapped,
    /// Addresses, half-open (6.6).
    Addr(AddrRange),
    /// The target with this index (6.6).
    Target(u32),
}

impl FilterKind {
    /// The kernel's keyword.
    #[must_use]
    pub const fn name(&self) -> &'static str {
        match self {
            Self::Anon => "anon",
            Self::Active => "active",
            Self::Memcg(_) => "memcg",
            Self::Young => "young",
            Self::HugepageSize(..) => "hugepage_size",
            Self::Unmapped => "unmapped",
            Self::Addr(_) => "addr",
            Self::Target(_) => "target",
        }
    }

    /// Whether the core evaluates it.
    #[must_use]
    pub const fn is_core(&self) -> bool {
        matches!(self, Self::Addr(_) | Self::Target(_))
    }
}

/// A filter (`struct damos_filter`).
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
pub struct Filter {
    /// What it looks at.
    pub kind: FilterKind,
    /// Whether it applies to memory of that kind, or to all other.
    pub matching: bool,
    /// Whether the memory that it applies to is let in, or refused (6.14).
    pub allow: bool,
}
