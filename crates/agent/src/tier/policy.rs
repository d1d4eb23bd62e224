//! Tiering as a policy: what `isotherm tier` runs, and prints with `--print-policy`.
//!
//! For Isotherm's engine the policy is one context over processes, with both schemes of each link.
//! For the kernel's engine it is one context over physical memory. Its schemes run in one kdamond,
//! and filters by address keep the memory of other nodes out.
//!
//! The kernel's `mtier` has a kdamond per node. As soon as a lower node's hot memory has been
//! promoted, its kdamond sees hardly any accesses. The tuning of intervals then makes its windows
//! longer and longer, and memory that becomes hot next is found late or never. The sum of accesses
//! to all nodes does not change by moving memory, so one kdamond for all nodes avoids this.

use isotherm_core::scheme::{Filter, FilterKind};
use isotherm_core::{AddrRange, Attrs};
use isotherm_damon::{Feature, Features, Has, Operations};
use isotherm_ops::support::SetName;
use isotherm_ops::targets::Memory;

use super::hierarchy::Hierarchy;
use super::knobs::Knobs;
use crate::policy::{ContextPolicy, Engine, Policy, TargetSpec};

/// The features of the kernel that the schemes need.
const NEEDED: [Feature; 6] = [
    Feature::ApplyInterval,
    Feature::YoungFilter,
    Feature::Migrate,
    Feature::AllowFilters,
    Feature::IntervalsGoal,
    Feature::NodeGoals,
];
/// The name of the context.
pub(super) const NAME: &str = "tier";
/// The least and the most regions per node, for the kernel's engine. Pages that a program uses
/// together are spread over a node, and a region that is hot in one part counts as hot as a whole,
/// so many regions are needed.
const REGIONS: (u64, u64) = (500, 1000);
/// The update interval, in µs. It is long because physical memory rarely changes.
const UPDATE_US: u64 = 60_000_000;

/// The processes whose memory is tiered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Processes {
    /// The targets.
    pub targets: Vec<TargetSpec>,
    /// Whether their children are targets too.
    pub children: bool,
}

/// What the kernel's engine needs to know of the machine.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Physical {
    /// Each node with memory: its number, its size in bytes, and where its memory is.
    pub nodes: Vec<(u32, u64, Vec<AddrRange>)>,
    /// Whether the kernel's DAMON follows goals at once (`temporal`, Linux 7.1).
    pub prompt: bool,
}

impl Knobs {
    /// The policy for Isotherm's engine: over processes.
    #[must_use]
    pub fn policy_of_processes(&self, hierarchy: &Hierarchy, processes: &Processes) -> Policy {
        let mut schemes = Vec::new();
        for link in &hierarchy.links {
            schemes.extend(self.own(*link, schemes.len()));
        }
        let context = ContextPolicy {
            name: NAME.to_owned(),
            targets: processes.targets.clone(),
            children: processes.children,
            ops: Some(SetName::PageWalk),
            attrs: self.attrs,
            schemes,
            ..ContextPolicy::default()
        };
        Policy { contexts: vec![context], ..Policy::default() }
    }

    /// The policy for the kernel's engine: over physical memory.
    #[must_use]
    pub fn policy_of_memory(&self, hierarchy: &Hierarchy, physical: &Physical) -> Policy {
        let kept_out = |node: u32| only_from(node, physical);
        let total = |node: u32| {
            physical.nodes.iter().find(|(nid, ..)| *nid == node).map_or(0, |(_, total, _)| *total)
        };
        let schemes = hierarchy
            .links
            .iter()
            .flat_map(|link| self.pushed(*link, physical.prompt, total(link.upper), kept_out));
        let nr = hierarchy.nodes().len() as u64;
        let usual = Attrs::default();
        let context = ContextPolicy {
            name: NAME.to_owned(),
            targets: vec![TargetSpec::Memory(Memory::All)],
            ops: Some(SetName::Kdamond),
            engine: Engine::Kernel,
            // Method and budget are those of Isotherm's engine.
            attrs: Attrs {
                method: usual.method,
                budget_bp: usual.budget_bp,
                update_us: UPDATE_US,
                min_nr_regions: REGIONS.0 * nr,
                max_nr_regions: REGIONS.1 * nr,
                ..self.attrs
            },
            schemes: schemes.collect(),
            ..ContextPolicy::default()
        };
        Policy { contexts: vec![context], ..Policy::default() }
    }
}

/// What the kernel's DAMON lacks for tiering, and which Linux has it; none if nothing is lacking.
#[must_use]
pub fn lacks(features: &Features) -> Option<String> {
    if !features.present {
        return Some(
            "this kernel has no DAMON, or no interface to it (/sys/kernel/mm/damon)".to_owned(),
        );
    }
    let missing = NEEDED.iter().filter(|feature| features.has(**feature) == Has::No);
    let missing: Vec<_> =
        missing.map(|feature| format!("{} (Linux {})", feature.what(), feature.since())).collect();
    if !missing.is_empty() {
        return Some(format!("the DAMON of {} lacks: {}", features.release, missing.join(", ")));
    }
    let has_paddr = features.has_operations(Operations::Paddr) != Some(false);
    (!has_paddr).then(|| "its DAMON has no `paddr` operations set (CONFIG_DAMON_PADDR)".to_owned())
}

/// Filters that reject the memory of all nodes but one. A filter that allows this node's memory
/// would not do: memory that a core filter allows skips all later filters
/// (`damos_core_filter_out()`).
fn only_from(node: u32, physical: &Physical) -> Vec<Filter> {
    let others = physical.nodes.iter().filter(|(other, ..)| *other != node);
    let ranges = others.flat_map(|(.., ranges)| ranges);
    let out =
        |range: &AddrRange| Filter { kind: FilterKind::Addr(*range), matching: true, allow: false };
    ranges.map(out).collect()
}

#[cfg(test)]
mod tests {
    use isotherm_damon::Root;

    use super::super::hierarchy::Link;
    use super::*;
    use crate::policy::{parse, print};

    fn chain() -> Hierarchy {
        let link = |upper| Link { upper, lower: upper + 1, promotes: true, demotes: true };
        Hierarchy { links: vec![link(0), link(1)], why: Vec::new() }
    }

    fn physical() -> Physical {
        let range = |start: u64, end: u64| AddrRange::new(start << 30, end << 30);
        let nodes = vec![
            (0, 4 << 30, vec![range(0, 3), range(4, 5)]),
            (1, 3 << 30, vec![range(5, 8)]),
            (2, 1 << 30, vec![range(8, 9)]),
        ];
        Physical { nodes, prompt: true }
    }

    #[test]
    fn what_is_printed_is_read_as_the_same() {
        let processes = |targets| Processes { targets, children: true };
        let dry = Knobs { dry_run: true, ..Knobs::default() };
        let knobs = Knobs::default();
        let pid = processes(vec![TargetSpec::Pid(4711)]);
        let slow = Physical { prompt: false, ..physical() };
        for (name, policy) in [
            ("a process", knobs.policy_of_processes(&chain(), &pid)),
            (
                "large ones",
                dry.policy_of_processes(&chain(), &processes(vec![TargetSpec::Rss(64 << 20)])),
            ),
            ("memory", knobs.policy_of_memory(&chain(), &physical())),
            ("memory, 6.16", knobs.policy_of_memory(&chain(), &slow)),
        ] {
            let text = print(&policy);
            assert_eq!(parse(&text, "t.toml").as_ref(), Ok(&policy), "{name}:\n{text}");
            assert_eq!(policy.contexts.len(), 1, "{name}");
            assert_eq!(policy.contexts[0].schemes.len(), 4, "{name}");
        }
    }

    #[test]
    fn each_scheme_of_the_kernel_takes_memory_of_its_own_node_only() {
        let policy = Knobs::default().policy_of_memory(&chain(), &physical());
        let context = &policy.contexts[0];
        assert_eq!((context.attrs.min_nr_regions, context.attrs.max_nr_regions), (1500, 3000));
        for (scheme, from) in context.schemes.iter().zip([1, 0, 2, 1]) {
            let nodes = physical().nodes;
            let others = nodes.iter().filter(|(node, ..)| *node != from);
            let expected: Vec<_> = others.flat_map(|(.., ranges)| ranges.clone()).collect();
            let out = scheme.scheme.filters.core.iter().map(|f| match &f.kind {
                FilterKind::Addr(range) if f.matching && !f.allow => *range,
                other => panic!("{other:?}"),
            });
            assert_eq!(out.collect::<Vec<_>>(), expected, "{}", scheme.settings.name);
        }
    }

    #[test]
    fn what_a_kernel_lacks_is_named() {
        let dir = tempfile::tempdir().unwrap();
        let root = Root::at(dir.path());
        let lack = lacks(&Features::detect(&root)).unwrap();
        assert!(lack.contains("no DAMON"), "{lack}");
        std::fs::create_dir_all(dir.path().join("admin/kdamonds")).unwrap();
        std::fs::write(dir.path().join("admin/kdamonds/nr_kdamonds"), "0\n").unwrap();
        let release = dir.path().join("proc/sys/kernel");
        std::fs::create_dir_all(&release).unwrap();
        for (version, said) in [
            ("6.12.48-cloud", Some("goals on a node's memory (Linux 6.16)")),
            ("6.12.48-cloud", Some("filters that let memory in (Linux 6.14)")),
            ("6.15.0", Some("lacks: goals on a node's memory (Linux 6.16)")),
            ("7.2.13", None),
        ] {
            std::fs::write(release.join("osrelease"), version).unwrap();
            let lack = lacks(&Features::detect(&root));
            assert_eq!(lack.is_some(), said.is_some(), "{version}: {lack:?}");
            if let (Some(lack), Some(said)) = (lack, said) {
                assert!(lack.contains(said), "{version}: {lack}");
            }
        }
    }
}
