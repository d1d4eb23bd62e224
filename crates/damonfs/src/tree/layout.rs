//! What is in which directory, with which values when it is made (R§5.2, Linux 7.2): kdamonds,
//! contexts and targets. `scheme` has the directories of schemes.

use super::file::{Child, Value};
use super::{Ino, Tree, scheme};

/// The keywords of the operations sets.
const OPERATIONS: &[&str] = &["vaddr", "fvaddr", "paddr"];

/// An `unsigned long` of which a value that is too large is ERANGE.
pub(super) const fn ulong(value: u64) -> Value {
    Value::Ulong(value, false)
}

/// A `nr_` file.
pub(super) const fn none(child: Child) -> Value {
    Value::Nr(0, child)
}

pub(super) fn damon(tree: &mut Tree, damon: Ino) {
    let admin = tree.dir(damon, "admin");
    let kdamonds = tree.dir(admin, "kdamonds");
    tree.file(kdamonds, "nr_kdamonds", none(Child::Kdamond));
}

/// Fills a directory that a `nr_` file has made.
pub(super) fn fill(tree: &mut Tree, dir: Ino, child: Child) {
    match child {
        Child::Kdamond => kdamond(tree, dir),
        Child::Context => context(tree, dir),
        Child::Probe => {
            let filters = tree.dir(dir, "filters");
            tree.file(filters, "nr_filters", none(Child::ProbeFilter));
        }
        Child::ProbeFilter => {
            tree.file(dir, "type", Value::Word("anon", &["anon", "memcg"]));
            tree.file(dir, "matching", Value::Flag(false));
            tree.file(dir, "allow", Value::Flag(false));
            tree.file(dir, "path", Value::Path(Vec::new()));
        }
        Child::Target => {
            tree.file(dir, "pid_target", Value::Int(0, true));
            tree.file(dir, "obsolete_target", Value::Flag(false));
            let regions = tree.dir(dir, "regions");
            tree.file(regions, "nr_regions", none(Child::Region));
        }
        Child::Region => {
            tree.file(dir, "start", ulong(0));
            tree.file(dir, "end", ulong(0));
        }
        Child::Scheme => scheme::scheme(tree, dir),
        Child::Goal => scheme::goal(tree, dir),
        Child::CoreFilter | Child::OpsFilter | Child::AnyFilter => scheme::filter(tree, dir, child),
        Child::Dest => {
            tree.file(dir, "id", Value::Uint(0, false));
            tree.file(dir, "weight", Value::Uint(0, false));
        }
    }
}

fn kdamond(tree: &mut Tree, dir: Ino) {
    tree.file(dir, "state", Value::State);
    tree.file(dir, "pid", Value::Pid);
    tree.file(dir, "refresh_ms", Value::Uint(0, false));
    let contexts = tree.dir(dir, "contexts");
    tree.file(contexts, "nr_contexts", none(Child::Context));
}

fn context(tree: &mut Tree, dir: Ino) {
    tree.file(dir, "avail_operations", Value::AvailableOperations);
    tree.file(dir, "operations", Value::Word("vaddr", OPERATIONS));
    tree.file(dir, "addr_unit", Value::AddrUnit(1));
    tree.file(dir, "pause", Value::Flag(false));
    let attrs = tree.dir(dir, "monitoring_attrs");
    let intervals = tree.dir(attrs, "intervals");
    for (name, us) in [("sample_us", 5_000), ("aggr_us", 100_000), ("update_us", 60_000_000)] {
        tree.file(intervals, name, ulong(us));
    }
    let goal = tree.dir(intervals, "intervals_goal");
    for name in ["access_bp", "aggrs", "min_sample_us", "max_sample_us"] {
        tree.file(goal, name, ulong(0));
    }
    let nr_regions = tree.dir(attrs, "nr_regions");
    tree.file(nr_regions, "min", ulong(10));
    tree.file(nr_regions, "max", ulong(1000));
    let probes = tree.dir(attrs, "probes");
    tree.file(probes, "nr_probes", none(Child::Probe));
    let targets = tree.dir(dir, "targets");
    tree.file(targets, "nr_targets", none(Child::Target));
    let schemes = tree.dir(dir, "schemes");
    tree.file(schemes, "nr_schemes", none(Child::Scheme));
}
