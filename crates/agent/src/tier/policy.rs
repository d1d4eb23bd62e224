//! The policy that comes nearest to tiering: for `isotherm run`, to begin with where `tier` has no knob.
//!
//! Over processes: one context with both schemes of each link, which the policy's engine applies. Over physical
//! memory: a context per node, whose schemes run in the kernel. `tier` itself has one context there, as its intervals go by the
//! accesses to all nodes together.
//!
//! Absent, as no policy can say it: goals that follow the watermarks, room that is kept for what waits, steps of a tenth of
//! a second, and the rest of a page that was moved ([`MISSING`]).

use isotherm_act::apply::{Evidence, Settings};
use isotherm_core::Scheme;
use isotherm_ops::support::SetName;
use isotherm_ops::targets::Memory;

use super::hierarchy::{Hierarchy, Link};
use super::knobs::Knobs;
use super::work::Whom;
use crate::policy::{ContextPolicy, Engine, Policy, SchemePolicy, TargetSpec};

/// What `tier` does and these policies do not; for people.
pub const MISSING: &str = "`isotherm tier` also follows the nodes' watermarks, keeps room for what waits on the slow node, tunes intervals \
                           by all nodes together, and lets a page that was moved rest";

impl Knobs {
    /// The policy for our own engine: over processes.
    #[must_use]
    pub fn policy_of_processes(&self, hierarchy: &Hierarchy, whom: &Whom) -> Policy {
        let mut schemes = Vec::new();
        for link in &hierarchy.links {
            if link.demotes {
                let evidence = Evidence::Confirm(self.confirm_us.max(1));
                schemes.push(self.named("demote", *link, self.demote(*link), evidence));
            }
            if link.promotes {
                schemes.push(self.named("promote", *link, self.promote(*link), Evidence::Off));
            }
        }
        let all = || vec![TargetSpec::Name("*".to_owned())];
        let context = ContextPolicy {
            name: "tier".to_owned(),
            targets: if whom.targets.is_empty() { all() } else { whom.targets.clone() },
            children: whom.children,
            ops: Some(SetName::PageWalk),
            attrs: self.attrs,
            schemes,
            ..ContextPolicy::default()
        };
        Policy { contexts: vec![context] }
    }

    /// The policy for the kernel's engine: over physical memory.
    #[must_use]
    pub fn policy_of_memory(&self, hierarchy: &Hierarchy) -> Policy {
        let mut contexts = Vec::new();
        for node in hierarchy.nodes() {
            let mut schemes = Vec::new();
            for link in &hierarchy.links {
                if link.demotes && link.upper == node {
                    schemes.push(self.named("demote", *link, self.demote(*link), Evidence::Off));
                }
                if link.promotes && link.lower == node {
                    schemes.push(self.named("promote", *link, self.promote(*link), Evidence::Off));
                }
            }
            if !schemes.is_empty() {
                contexts.push(ContextPolicy {
                    name: format!("node {node}"),
                    targets: vec![TargetSpec::Memory(Memory::Node(node))],
                    ops: Some(SetName::Kdamond),
                    engine: Engine::Kernel,
                    attrs: self.attrs,
                    schemes,
                    ..ContextPolicy::default()
                });
            }
        }
        Policy { contexts }
    }

    fn named(&self, name: &str, link: Link, scheme: Scheme, evidence: Evidence) -> SchemePolicy {
        let (from, to) =
            if name == "demote" { (link.upper, link.lower) } else { (link.lower, link.upper) };
        let settings = Settings {
            name: format!("{name} {from}->{to}"),
            evidence,
            dry_run: self.dry_run,
            ..Settings::default()
        };
        SchemePolicy { scheme, settings }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::policy::{parse, print};

    fn chain() -> Hierarchy {
        let link = |upper| Link { upper, lower: upper + 1, promotes: true, demotes: true };
        Hierarchy { links: vec![link(0), link(1)], why: Vec::new() }
    }

    #[test]
    fn what_is_printed_is_read_as_the_same() {
        let whom = |targets| Whom { targets, children: true, min_rss: None };
        let knobs = Knobs::default();
        let pid = whom(vec![TargetSpec::Pid(4711)]);
        for (name, policy, contexts, schemes) in [
            ("a process", knobs.policy_of_processes(&chain(), &pid), 1, 4),
            ("all", knobs.policy_of_processes(&chain(), &whom(Vec::new())), 1, 4),
            ("memory", knobs.policy_of_memory(&chain()), 3, 4),
        ] {
            let text = print(&policy);
            assert_eq!(parse(&text, "t.toml").as_ref(), Ok(&policy), "{name}:\n{text}");
            assert_eq!(policy.contexts.len(), contexts, "{name}");
            let all = policy.contexts.iter().map(|c| c.schemes.len()).sum::<usize>();
            assert_eq!(all, schemes, "{name}");
        }
    }

    #[test]
    fn the_node_in_the_middle_has_both() {
        let policy = Knobs::default().policy_of_memory(&chain());
        let names: Vec<Vec<_>> = policy
            .contexts
            .iter()
            .map(|c| c.schemes.iter().map(|s| s.settings.name.as_str()).collect())
            .collect();
        let expected =
            [vec!["demote 0->1"], vec!["promote 1->0", "demote 1->2"], vec!["promote 2->1"]];
        assert_eq!(names, expected);
    }
}
