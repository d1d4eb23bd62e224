//! Which node promotes to which, and which demotes to which.
//!
//! A hierarchy is a set of links from an upper to a lower node. It can be given as pairs of nodes
//! (`--fast 0 --slow 1 --fast 1 --slow 2` is three tiers). Otherwise it is found by the kernel's
//! memory tiers, or by which nodes have CPUs if the memory tiers do not differ. A node demotes to
//! the nearest node of the next tier, and promotes to the nearest node of the tier above.
//!
//! Invariants. All nodes of a hierarchy have memory. Each has at most one node to promote to and at
//! most one to demote to. There are no circles.
//!
//! Not here: a different order for the programs of each node with CPUs. The CPU that made an access
//! cannot be seen, by the kernel's DAMON neither.

use std::collections::BTreeMap;
use std::fmt;

use isotherm_host::nodes::{Facts, NodeFacts};

/// Two neighbours in a hierarchy.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Link {
    /// The faster node.
    pub upper: u32,
    /// The slower node.
    pub lower: u32,
    /// Whether hot memory of the slower node goes to the faster one.
    pub promotes: bool,
    /// Whether cold memory of the faster node goes to the slower one.
    pub demotes: bool,
}

/// A hierarchy of nodes.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Hierarchy {
    /// The links, fastest first.
    pub links: Vec<Link>,
    /// How the hierarchy was found, and warnings about it; for people.
    pub why: Vec<String>,
}

/// Why there is no such hierarchy.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NoHierarchy {
    /// The exit code that a program should end with: 2 for what was asked for, 3 for what the
    /// machine lacks.
    pub code: u8,
    /// What, why, and what to do; for people.
    pub text: String,
}

impl fmt::Display for NoHierarchy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl std::error::Error for NoHierarchy {}

fn refuse(code: u8, what: &str, why: &str, hint: &str) -> NoHierarchy {
    NoHierarchy { code, text: format!("{what}\n  why:   {why}\n  hint:  {hint}") }
}

impl Hierarchy {
    /// From pairs: the first fast node with the first slow one, and so on.
    ///
    /// # Errors
    ///
    /// If the pairs do not form a hierarchy of this machine's nodes with memory.
    pub fn of_pairs(facts: &Facts, fast: &[u32], slow: &[u32]) -> Result<Self, NoHierarchy> {
        one_node(facts)?;
        if fast.len() != slow.len() {
            let what = format!("{} --fast and {} --slow", fast.len(), slow.len());
            let why = "each fast node needs the node below it";
            return Err(refuse(2, &what, why, "give them in pairs: --fast 0 --slow 1"));
        }
        let pairs: Vec<(u32, u32)> = fast.iter().copied().zip(slow.iter().copied()).collect();
        for &(upper, lower) in &pairs {
            let what = format!("--fast {upper} --slow {lower}");
            for node in [upper, lower] {
                has_memory(facts, &what, node)?;
            }
            if upper == lower {
                let why = format!("node {upper} cannot be above itself");
                return Err(refuse(2, &what, &why, "give two different nodes"));
            }
        }
        for (flag, all) in [("fast", fast), ("slow", slow)] {
            let twice = all.iter().find(|n| all.iter().filter(|m| m == n).count() > 1);
            if let Some(node) = twice {
                let what = format!("--{flag} {node} is given twice");
                let why = "a node promotes to one node, and demotes to one node";
                let hint = "a chain of more than two: --fast 0 --slow 1 --fast 1 --slow 2";
                return Err(refuse(2, &what, why, hint));
            }
        }
        let links = sorted(&pairs).ok_or_else(|| {
            let what: Vec<_> =
                pairs.iter().map(|(u, l)| format!("--fast {u} --slow {l}")).collect();
            let why = "the nodes are above each other in a circle";
            refuse(2, &what.join(" "), why, "leave one of the pairs out")
        })?;
        let links: Vec<Link> = links
            .into_iter()
            .map(|(upper, lower)| Link { upper, lower, promotes: true, demotes: true })
            .collect();
        let mut why = Vec::new();
        for link in &links {
            let is_top = links.iter().all(|l| l.lower != link.upper);
            if is_top && facts.of(link.upper).is_some_and(|n| !n.has_cpu) {
                let what = format!("--fast {}", link.upper);
                let cause =
                    "that node has no CPUs, so its memory is not the nearest for any program";
                let hint = format!("nodes with CPUs: {}", those(facts, |n| n.has_cpu));
                return Err(refuse(2, &what, cause, &hint));
            }
            if facts.of(link.lower).is_some_and(|n| n.has_cpu) {
                why.push(format!(
                    "node {} has CPUs: to what runs there, its memory is the fast one, and that cannot be seen",
                    link.lower
                ));
            }
            let tier = |node| facts.of(node).and_then(|n| n.tier);
            if let (Some(up), Some(low)) = (tier(link.upper), tier(link.lower))
                && up > low
            {
                why.push(format!(
                    "the kernel has node {} in memory tier {up} and node {} in {low}, so as the faster one",
                    link.upper, link.lower
                ));
            }
        }
        Ok(Self { links, why })
    }

    /// From the machine's memory tiers, or from which nodes have CPUs.
    ///
    /// # Errors
    ///
    /// If it has one tier only.
    pub fn found(facts: &Facts) -> Result<Self, NoHierarchy> {
        one_node(facts)?;
        let nodes: Vec<&NodeFacts> = facts.nodes.iter().filter(|n| n.has_memory).collect();
        let mut tiers: BTreeMap<u32, Vec<u32>> = BTreeMap::new();
        for node in &nodes {
            tiers.entry(node.tier.unwrap_or(0)).or_default().push(node.node);
        }
        let mut by = "memory tiers of the kernel";
        let has_cpu = |node: &&u32| facts.of(**node).is_some_and(|n| n.has_cpu);
        if tiers.len() < 2 || nodes.iter().any(|n| n.tier.is_none()) {
            let (mut fast, mut slow) = (Vec::new(), Vec::new());
            for node in &nodes {
                if node.has_cpu { fast.push(node.node) } else { slow.push(node.node) }
            }
            by = "CPUs: a node without is slow";
            tiers = [(0, fast), (1, slow)].into_iter().filter(|(_, all)| !all.is_empty()).collect();
        }
        if tiers.len() < 2 {
            let why = format!(
                "nodes {} have memory, and are all alike: the same memory tier, and CPUs on each or none",
                those(facts, |n| n.has_memory)
            );
            let hint = "say which is which: --fast N --slow M";
            return Err(refuse(3, "this machine has one memory tier", &why, hint));
        }
        let tiers: Vec<Vec<u32>> = tiers.into_values().collect();
        let mut links: Vec<Link> = Vec::new();
        for pair in tiers.windows(2) {
            for &upper in &pair[0] {
                if let Some(lower) = nearest(facts, upper, &pair[1]) {
                    links.push(Link { upper, lower, promotes: false, demotes: true });
                }
            }
            for &lower in &pair[1] {
                let Some(upper) = nearest(facts, lower, &pair[0]) else { continue };
                match links.iter_mut().find(|l| (l.upper, l.lower) == (upper, lower)) {
                    Some(link) => link.promotes = true,
                    None => links.push(Link { upper, lower, promotes: true, demotes: false }),
                }
            }
        }
        let mut why = vec![format!("found by {by}: {}", chain(&tiers))];
        if tiers[0].iter().filter(has_cpu).count() > 1 {
            let cpus = "several nodes have CPUs, and the CPU that accesses memory cannot be seen";
            why.push(cpus.to_owned());
        }
        Ok(Self { links, why })
    }

    /// All nodes of the hierarchy, ascending.
    #[must_use]
    pub fn nodes(&self) -> Vec<u32> {
        let mut all: Vec<u32> = self.links.iter().flat_map(|l| [l.upper, l.lower]).collect();
        all.sort_unstable();
        all.dedup();
        all
    }

    /// The nodes with no node above them.
    #[must_use]
    pub fn top(&self) -> Vec<u32> {
        let mut all = self.nodes();
        all.retain(|n| self.links.iter().all(|l| l.lower != *n));
        all
    }
}

/// Refuses a machine with one node.
fn one_node(facts: &Facts) -> Result<(), NoHierarchy> {
    let with_memory = facts.nodes.iter().filter(|n| n.has_memory).count();
    if with_memory > 1 {
        return Ok(());
    }
    let why = format!("the only node with memory is node {}", those(facts, |n| n.has_memory));
    let hint = "tiering needs a second, slower node (CXL memory, persistent memory as system RAM, or for \
                trying out numa=fake=2 on the kernel's command line)";
    Err(refuse(3, "this machine has one memory node", &why, hint))
}

fn has_memory(facts: &Facts, what: &str, node: u32) -> Result<(), NoHierarchy> {
    let hint = format!("nodes with memory: {}", those(facts, |n| n.has_memory));
    match facts.of(node) {
        Some(found) if found.has_memory => Ok(()),
        Some(_) => Err(refuse(2, what, &format!("node {node} has no memory"), &hint)),
        None => Err(refuse(2, what, &format!("there is no node {node}"), &hint)),
    }
}

fn those(facts: &Facts, is: fn(&NodeFacts) -> bool) -> String {
    let all: Vec<_> = facts.nodes.iter().filter(|n| is(n)).map(|n| n.node.to_string()).collect();
    if all.is_empty() { "none".to_owned() } else { all.join(", ") }
}

/// The nearest of `others` to a node. Of several equally near ones, the one with the lowest number.
fn nearest(facts: &Facts, node: u32, others: &[u32]) -> Option<u32> {
    let far = |other: &u32| facts.distance(node, *other).unwrap_or(u32::MAX);
    others.iter().copied().min_by_key(|other| (far(other), *other))
}

fn chain(tiers: &[Vec<u32>]) -> String {
    let join = |all: &Vec<u32>| all.iter().map(u32::to_string).collect::<Vec<_>>().join(", ");
    let all: Vec<_> = tiers.iter().map(|all| format!("node {}", join(all))).collect();
    all.join(" above ")
}

/// The pairs, sorted so that each follows the ones above it; none if they form a circle.
fn sorted(pairs: &[(u32, u32)]) -> Option<Vec<(u32, u32)>> {
    let (mut left, mut out) = (pairs.to_vec(), Vec::new());
    while !left.is_empty() {
        let top =
            left.iter().position(|(upper, _)| left.iter().all(|(_, lower)| lower != upper))?;
        out.push(left.remove(top));
    }
    Some(out)
}

#[cfg(test)]
mod tests;
