//! The directories of a scheme (R§5.2, Linux 7.2).

use super::file::{Child, Value};
use super::layout::{none, ulong};
use super::{Ino, Tree};

/// The keywords of the actions; the first is the default.
const ACTIONS: &[&str] = &[
    "stat",
    "willneed",
    "cold",
    "pageout",
    "hugepage",
    "nohugepage",
    "collapse",
    "lru_prio",
    "lru_deprio",
    "migrate_hot",
    "migrate_cold",
];

const METRICS: &[&str] = &[
    "user_input",
    "some_mem_psi_us",
    "node_mem_used_bp",
    "node_mem_free_bp",
    "node_memcg_used_bp",
    "node_memcg_free_bp",
    "active_mem_bp",
    "inactive_mem_bp",
    "node_eligible_mem_bp",
];

/// The keywords of the filters of each directory. `anon` is the default in all of them, so a core
/// filter that was not written to has a type that its directory refuses.
const OPS_TYPES: &[&str] = &["anon", "active", "memcg", "young", "hugepage_size", "unmapped"];
const CORE_TYPES: &[&str] = &["addr", "target"];
const ALL_TYPES: &[&str] =
    &["anon", "active", "memcg", "young", "hugepage_size", "unmapped", "addr", "target"];

pub(super) fn scheme(tree: &mut Tree, dir: Ino) {
    tree.file(dir, "action", Value::Word("stat", ACTIONS));
    tree.file(dir, "target_nid", Value::Int(-1, false));
    tree.file(dir, "apply_interval_us", ulong(0));
    let pattern = tree.dir(dir, "access_pattern");
    for name in ["sz", "nr_accesses", "age"] {
        let bounds = tree.dir(pattern, name);
        tree.file(bounds, "min", ulong(0));
        tree.file(bounds, "max", ulong(0));
    }
    quotas(tree, dir);
    let watermarks = tree.dir(dir, "watermarks");
    tree.file(watermarks, "metric", Value::Word("none", &["none", "free_mem_rate"]));
    for name in ["interval_us", "high", "mid", "low"] {
        tree.file(watermarks, name, ulong(0));
    }
    for (name, child) in [
        ("core_filters", Child::CoreFilter),
        ("ops_filters", Child::OpsFilter),
        ("filters", Child::AnyFilter),
    ] {
        let filters = tree.dir(dir, name);
        tree.file(filters, "nr_filters", none(child));
    }
    let dests = tree.dir(dir, "dests");
    tree.file(dests, "nr_dests", none(Child::Dest));
    let stats = tree.dir(dir, "stats");
    for name in STATS {
        tree.file(stats, name, Value::Shown(0));
    }
    tree.file(stats, "max_nr_snapshots", ulong(0));
    let tried = tree.dir(dir, "tried_regions");
    tree.file(tried, "total_bytes", Value::Shown(0));
}

/// The names of a scheme's statistics, in the order of the kernel's trace event.
pub(crate) const STATS: [&str; 7] = [
    "nr_tried",
    "sz_tried",
    "nr_applied",
    "sz_applied",
    "sz_ops_filter_passed",
    "qt_exceeds",
    "nr_snapshots",
];

fn quotas(tree: &mut Tree, scheme: Ino) {
    let dir = tree.dir(scheme, "quotas");
    for name in ["ms", "bytes", "reset_interval_ms"] {
        tree.file(dir, name, Value::Ulong(0, true));
    }
    tree.file(dir, "effective_bytes", Value::Shown(0));
    tree.file(dir, "goal_tuner", Value::Word("consist", &["consist", "temporal"]));
    for name in ["fail_charge_num", "fail_charge_denom"] {
        tree.file(dir, name, Value::Uint(0, true));
    }
    let weights = tree.dir(dir, "weights");
    for name in ["sz_permil", "nr_accesses_permil", "age_permil"] {
        tree.file(weights, name, Value::Uint(0, false));
    }
    let goals = tree.dir(dir, "goals");
    tree.file(goals, "nr_goals", none(Child::Goal));
}

pub(super) fn goal(tree: &mut Tree, dir: Ino) {
    tree.file(dir, "target_metric", Value::Word("user_input", METRICS));
    tree.file(dir, "target_value", ulong(0));
    tree.file(dir, "current_value", ulong(0));
    tree.file(dir, "nid", Value::Int(0, false));
    tree.file(dir, "path", Value::Path(Vec::new()));
}

pub(super) fn filter(tree: &mut Tree, dir: Ino, child: Child) {
    let types = match child {
        Child::CoreFilter => CORE_TYPES,
        Child::OpsFilter => OPS_TYPES,
        _ => ALL_TYPES,
    };
    tree.file(dir, "type", Value::Word("anon", types));
    tree.file(dir, "matching", Value::Flag(false));
    tree.file(dir, "allow", Value::Flag(false));
    tree.file(dir, "memcg_path", Value::Path(Vec::new()));
    for name in ["addr_start", "addr_end", "min", "max"] {
        tree.file(dir, name, ulong(0));
    }
    tree.file(dir, "damon_target_idx", Value::Int(0, false));
}

/// A region that a walk has seen.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TriedRegion {
    /// First address, in address units of the context.
    pub start: u64,
    /// Address behind the last.
    pub end: u64,
    /// Samples per window.
    pub nr_accesses: u32,
    /// Age in windows.
    pub age: u32,
    /// Bytes that the ops filters let in.
    pub sz_filter_passed: u64,
    /// Hits per installed probe.
    pub probe_hits: Vec<u8>,
}

/// Makes the directory of a region that a walk has seen.
pub(crate) fn tried_region(tree: &mut Tree, tried: Ino, index: usize, region: &TriedRegion) {
    let dir = tree.dir(tried, &index.to_string());
    tree.note_changed(tried);
    for (name, value) in [
        ("start", region.start),
        ("end", region.end),
        ("nr_accesses", region.nr_accesses.into()),
        ("age", region.age.into()),
        ("sz_filter_passed", region.sz_filter_passed),
    ] {
        tree.file(dir, name, Value::Shown(value));
    }
    let probes = tree.dir(dir, "probes");
    for (probe, hits) in region.probe_hits.iter().enumerate() {
        let probe = tree.dir(probes, &probe.to_string());
        tree.file(probe, "hits", Value::Shown((*hits).into()));
    }
}
