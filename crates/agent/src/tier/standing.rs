//! The present state of a hierarchy's links, from the runner's summary and the nodes' free memory.

use isotherm_core::scheme::{NodeLevel, Stand};
use isotherm_host::nodes::Level;
use serde::Serialize;

use super::hierarchy::{Hierarchy, Link};
use super::schemes::Way;
use crate::policy::{ContextPolicy, SchemePolicy};
use crate::run::{Standing, Summary};

/// The present state of a link.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize)]
pub struct LinkStanding {
    /// The faster node.
    pub upper: u32,
    /// The slower node.
    pub lower: u32,
    /// The used share of the faster node, in basis points.
    pub used_bp: u64,
    /// The free share of the faster node, in basis points.
    pub free_bp: u64,
    /// The goal of promotion, in basis points used.
    pub used_goal_bp: u64,
    /// The goal of demotion, in basis points free, without the room that is kept for waiting
    /// memory.
    pub free_goal_bp: u64,
    /// Whether watermarks moved the goals.
    pub by_watermarks: bool,
    /// Bytes promoted so far.
    pub promoted: u64,
    /// Bytes demoted so far.
    pub demoted: u64,
    /// Bytes on the slower node that wait to be promoted.
    pub waiting: u64,
    /// How often promotion rested because the node had no room.
    pub rests: u64,
}

/// The state of a hierarchy's links. `levels`: the memory levels of its nodes, in their order.
/// `by_kernel`: whether the kernel's engine applies the schemes.
#[must_use]
pub fn links(
    hierarchy: &Hierarchy,
    policy: &ContextPolicy,
    summary: &Summary,
    levels: &[Level],
    by_kernel: bool,
) -> Vec<LinkStanding> {
    let nodes = hierarchy.nodes();
    let level = |node: u32| {
        let at = nodes.iter().position(|n| *n == node);
        at.and_then(|at| levels.get(at)).copied().unwrap_or_default()
    };
    let one = |link: &Link| {
        let named = |way: Way| {
            let name = way.name(*link);
            let standing = summary.schemes.iter().find(|s| s.account.name == name);
            (policy.schemes.iter().find(|s| s.settings.name == name), standing)
        };
        let (up, down) = (named(Way::Promote), named(Way::Demote));
        let Level { free, total, high, boost, coming } = level(link.upper);
        let high = if by_kernel { high + boost } else { high };
        let level = NodeLevel { free, total, high, coming };
        let (used_goal_bp, by_promotion) = goal(up.0, level);
        let (free_goal_bp, by_demotion) = goal(down.0, level);
        let free_bp = Stand { current: 0, target: 0, total, by_watermark: false }.in_bp(free);
        let done = |standing: Option<&Standing>| {
            let account = standing.map(|s| &s.account);
            account.map_or(0, |a| if by_kernel { a.applied_bytes } else { a.done_bytes })
        };
        let waiting = match &summary.heat {
            Some(heat) if by_kernel => {
                let (there, all) = heat.accessed(&[link.upper]);
                all - there
            }
            _ => up.1.map_or(0, |s| s.eligible_bytes),
        };
        LinkStanding {
            upper: link.upper,
            lower: link.lower,
            used_bp: 10_000 - free_bp.min(10_000),
            free_bp,
            used_goal_bp,
            free_goal_bp,
            by_watermarks: by_promotion || by_demotion,
            promoted: done(up.1),
            demoted: done(down.1),
            waiting,
            rests: up.1.map_or(0, |s| s.rests),
        }
    };
    hierarchy.links.iter().map(one).collect()
}

/// The first goal of a scheme after its node's watermarks are applied, in basis points, and whether
/// they moved it.
fn goal(scheme: Option<&SchemePolicy>, level: NodeLevel) -> (u64, bool) {
    let goal = scheme.and_then(|s| s.scheme.quota.goals.first());
    let stand = goal.and_then(|g| Stand::of(g.metric, g.target, g.follow, level, 0));
    stand.map_or((0, false), |stand| (stand.in_bp(stand.target), stand.by_watermark))
}

#[cfg(test)]
mod tests {
    use super::super::knobs::Knobs;
    use super::super::policy::Processes;
    use super::*;
    use crate::run::Account;

    #[test]
    fn a_link_shows_its_node_its_goals_and_what_was_moved() {
        let link = Link { upper: 0, lower: 1, promotes: true, demotes: true };
        let hierarchy = Hierarchy { links: vec![link], why: Vec::new() };
        let processes = Processes { targets: Vec::new(), children: true };
        let policy =
            Knobs::default().policy_of_processes(&hierarchy, &processes).contexts.remove(0);
        let standing = |name: &str, done_bytes, eligible_bytes, rests| Standing {
            account: Account { name: name.to_owned(), done_bytes, ..Account::default() },
            active: true,
            esz_bytes: None,
            charged_bytes: 0,
            goals: Vec::new(),
            eligible_bytes,
            rests,
        };
        let schemes = vec![standing("promote 1->0", 70, 500, 3), standing("demote 0->1", 90, 1, 0)];
        let summary = Summary { schemes, ..Summary::default() };
        let level = |free, high, boost| Level { free, total: 10_000 << 12, high, boost, coming: 0 };
        let levels = [level(45 << 12, 40 << 12, 10 << 12), Level::default()];
        for (by_kernel, used_goal_bp, free_goal_bp) in [(false, 9960, 60), (true, 9950, 70)] {
            let found = links(&hierarchy, &policy, &summary, &levels, by_kernel);
            let expected = LinkStanding {
                lower: 1,
                used_bp: 9955,
                free_bp: 45,
                used_goal_bp,
                free_goal_bp,
                by_watermarks: true,
                // The kernel proves nothing, so what it says it applied counts; here that is
                // nothing.
                promoted: if by_kernel { 0 } else { 70 },
                demoted: if by_kernel { 0 } else { 90 },
                waiting: 500,
                rests: 3,
                ..LinkStanding::default()
            };
            assert_eq!(found, [expected], "by the kernel: {by_kernel}");
        }
    }
}
