//! What cgroups used, every few seconds: rows that an agent writes beside its snapshots.
//!
//! Snapshots do not know cgroups, and memory that several processes share would count several times
//! in them. So the sums are written as the agent had them.
//!
//! The rows are a small event in JSON. Fields can be added: readers ignore those that they do not
//! know. A reader that is older than these rows skips them as a frame of an unknown kind.
//!
//! Invariant: what was not measured is `None`, never 0.

use serde::{Deserialize, Serialize};

/// What the cgroups of a context used at one time.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Cgroups {
    /// When (`CLOCK_MONOTONIC`, in ns).
    pub t_ns: u64,
    /// For how long the context has looked since the rows before these, in ns. A time in which it
    /// was paused is not in it.
    pub seen_ns: u64,
    /// The spans of [`CgroupUse::touched`], in µs.
    pub spans_us: Vec<u64>,
    /// The idle times of [`CgroupUse::idle`], in ms.
    pub idle_ms: Vec<u64>,
    /// A row per cgroup.
    pub cgroups: Vec<CgroupUse>,
}

/// What one cgroup used. Sizes are bytes, and shared memory counts once.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct CgroupUse {
    /// Its path from the root of its hierarchy.
    pub cgroup: String,
    /// How many processes of it were watched.
    pub processes: u64,
    /// How many more had no place in the set. They are in none of the sizes.
    #[serde(skip_serializing_if = "is_zero")]
    pub waiting: u64,
    /// For how long it had been watched without a break, in ns.
    pub watched_ns: u64,
    /// Touched within a second; by regions: within the last window.
    pub hot: u64,
    /// Touched within a minute.
    pub warm: u64,
    /// Not touched for longer, as far as was measured.
    pub cold: u64,
    /// Nothing is known of it.
    pub unresolved: u64,
    /// The working set of the last window by regions.
    pub working_set: u64,
    /// By span: how much was touched, if the method sees single pages.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub touched: Vec<Option<u64>>,
    /// By idle time: how much was idle for at least so long. None if nothing was, and the cgroup
    /// was not watched for so long.
    pub idle: Vec<Option<u64>>,
    /// What was paged out since the rows before these; none if no scheme does that.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub paged_out: Option<PagedOut>,
}

/// What schemes paged out, in bytes. What dry runs would have done is not in it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct PagedOut {
    /// The kernel was asked for.
    pub asked: u64,
    /// Was gone afterwards.
    pub done: u64,
    /// Of that, what was touched again within the time that counts as a refault.
    pub refaulted: u64,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "as serde calls it")]
const fn is_zero(n: &u64) -> bool {
    *n == 0
}
