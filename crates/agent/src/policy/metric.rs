//! The metrics' names, and what each needs.

use isotherm_core::scheme::{CgroupId, Metric};

/// What a metric's values are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Unit {
    /// A number that the user gives; 10,000 is the goal by convention.
    Input,
    /// Time stalled per quota window, in µs.
    Stall,
    /// Memory per quota window, in bytes.
    Bytes,
    /// A share, in basis points.
    Share,
    /// A share, in permil.
    Permil,
}

/// A metric's name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Word {
    /// The kernel's keyword, or one like those.
    pub(crate) name: &'static str,
    pub(crate) unit: Unit,
    /// Whether it is about a node.
    pub(crate) node: bool,
    /// Whether it is about a cgroup.
    pub(crate) cgroup: bool,
}

const fn word(name: &'static str, unit: Unit, node: bool, cgroup: bool) -> Word {
    Word { name, unit, node, cgroup }
}

/// All of them.
pub(crate) const WORDS: [Word; 16] = [
    word("user_input", Unit::Input, false, false),
    word("some_mem_psi_us", Unit::Stall, false, false),
    word("full_mem_psi_us", Unit::Stall, false, false),
    word("cgroup_some_mem_psi_us", Unit::Stall, false, true),
    word("cgroup_full_mem_psi_us", Unit::Stall, false, true),
    word("node_mem_used_bp", Unit::Share, true, false),
    word("node_mem_free_bp", Unit::Share, true, false),
    word("node_memcg_used_bp", Unit::Share, true, true),
    word("node_memcg_free_bp", Unit::Share, true, true),
    word("node_eligible_mem_bp", Unit::Share, true, false),
    word("active_mem_bp", Unit::Share, false, false),
    word("inactive_mem_bp", Unit::Share, false, false),
    word("workingset_refault_bytes", Unit::Bytes, false, false),
    word("cgroup_workingset_refault_bytes", Unit::Bytes, false, true),
    word("refault_bp", Unit::Share, false, false),
    word("free_mem_rate", Unit::Permil, false, false),
];

/// The metric of this name, with what it is about.
pub(crate) fn from_parts(name: &str, node: i32, cgroup: CgroupId) -> Option<Metric> {
    Some(match name {
        "user_input" => Metric::UserInput,
        "some_mem_psi_us" => Metric::SomeMemPsiUs,
        "full_mem_psi_us" => Metric::FullMemPsiUs,
        "cgroup_some_mem_psi_us" => Metric::CgroupSomeMemPsiUs(cgroup),
        "cgroup_full_mem_psi_us" => Metric::CgroupFullMemPsiUs(cgroup),
        "node_mem_used_bp" => Metric::NodeMemUsedBp(node),
        "node_mem_free_bp" => Metric::NodeMemFreeBp(node),
        "node_memcg_used_bp" => Metric::NodeMemcgUsedBp(node, cgroup),
        "node_memcg_free_bp" => Metric::NodeMemcgFreeBp(node, cgroup),
        "node_eligible_mem_bp" => Metric::NodeEligibleMemBp(node),
        "active_mem_bp" => Metric::ActiveMemBp,
        "inactive_mem_bp" => Metric::InactiveMemBp,
        "workingset_refault_bytes" => Metric::WorkingsetRefaultBytes,
        "cgroup_workingset_refault_bytes" => Metric::CgroupWorkingsetRefaultBytes(cgroup),
        "refault_bp" => Metric::RefaultBp,
        "free_mem_rate" => Metric::FreeMemRate,
        _ => return None,
    })
}

/// Whether a metric is a share of all of a node's memory.
pub(crate) const fn is_of_node(metric: Metric) -> bool {
    matches!(metric, Metric::NodeMemUsedBp(_) | Metric::NodeMemFreeBp(_))
}

/// What a metric is about.
pub(crate) const fn about(metric: &Metric) -> (Option<i32>, Option<CgroupId>) {
    match metric {
        Metric::NodeMemUsedBp(node)
        | Metric::NodeMemFreeBp(node)
        | Metric::NodeEligibleMemBp(node) => (Some(*node), None),
        Metric::NodeMemcgUsedBp(node, cgroup) | Metric::NodeMemcgFreeBp(node, cgroup) => {
            (Some(*node), Some(*cgroup))
        }
        Metric::CgroupSomeMemPsiUs(cgroup)
        | Metric::CgroupFullMemPsiUs(cgroup)
        | Metric::CgroupWorkingsetRefaultBytes(cgroup) => (None, Some(*cgroup)),
        _ => (None, None),
    }
}
