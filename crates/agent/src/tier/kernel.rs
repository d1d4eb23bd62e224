//! The kernel's DAMON as the engine: schemes pushed down, one kdamond per node (R§6.5 `mtier`).
//!
//! A kdamond watches the physical memory of one node; it promotes from there, demotes from there, or both (a node in
//! the middle of a chain). A third scheme, `stat`, only shows the regions, for the table of heat.
//!
//! Invariants: kdamonds that others set up are left alone; ours end with this value. If one dies, the others are
//! ended too: promotion without demotion would fill the fast node.
//!
//! Absent, and why: ping-pong pages, refusals by errno (the kernel does not tell), limiting it to processes
//! (physical memory belongs to all), dry runs (a scheme that runs, acts).

use isotherm_core::scheme::{Action, Bounds, FilterKind, Pattern, Resolved, Tuner};
use isotherm_core::{AddrRange, Scheme, TargetId};
use isotherm_linux::apply::Account;
use isotherm_linux::damon::model::{
    Context, Filter, FilterKind as KernelFilter, Goal, GoalMetric, Intervals, Quota,
    Scheme as KernelScheme, Target,
};
use isotherm_linux::damon::{
    Claim, Command, Config, DamonError, Feature, Features, Has, Leftover, Operations, Root,
    Settings, TriedRegion,
};
use isotherm_linux::proc::Proc;
use isotherm_linux::support::Roots;
use isotherm_linux::targets::Memory;
use isotherm_linux::tier::{Level, levels};

use super::engine::{LinkStanding, Pressure, bp_of};
use super::heat::HeatTable;
use super::hierarchy::Hierarchy;
use super::knobs::Knobs;
use super::placed::Placed;
use super::work::TierSummary;
use crate::run::Refused;

/// What the schemes cannot do without.
const NEEDED: [Feature; 6] = [
    Feature::ApplyInterval,
    Feature::YoungFilter,
    Feature::Migrate,
    Feature::AllowFilters,
    Feature::IntervalsGoal,
    Feature::NodeGoals,
];

/// With the tuner `temporal` a scheme may move all of its quota in a window, or nothing, by the goal as it stands when the
/// window begins. So windows are short, and what one may move, in basis points of the upper node, is what the two
/// goals overlap by: neither overshoots by more, and there are many windows in a second.
const WINDOW_MS: u64 = 100;
const STEP_BP: u64 = 20;
const PROMPT: &str = "goals are followed at once (`temporal`), at most 0.2 % of the fast node at each look (0.1 s or more)";
const SLOW: &str = "goals are followed step by step (`consist`; `temporal` needs Linux 7.1): from nothing to full speed \
                    takes a minute or more";

/// What the kernel's DAMON lacks for this, with the kernel that has it; none: nothing.
#[must_use]
pub fn lacks(features: &Features) -> Option<String> {
    if !features.present {
        return Some("this kernel has no DAMON, or shows none (/sys/kernel/mm/damon)".to_owned());
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

/// A node that is watched.
#[derive(Debug)]
struct Watched {
    node: u32,
    claim: Claim,
    /// The schemes in the order of their files: of which link, and which way.
    schemes: Vec<(usize, Action)>,
}

/// The schemes, in the kernel.
#[derive(Debug)]
pub struct Pushed {
    watched: Vec<Watched>,
    hierarchy: Hierarchy,
    nodes: Vec<u32>,
    pressures: Vec<Pressure>,
    roots: Roots,
    accounts: Vec<(String, Account)>,
    heat: HeatTable,
    intervals: (u64, u64),
    regions: usize,
}

impl Pushed {
    /// Sets everything up and turns it on. Also says what was found of Isotherms that were killed.
    ///
    /// # Errors
    ///
    /// If the kernel lacks something, or its kdamonds are in use by others. Nothing runs then.
    pub fn start(hierarchy: &Hierarchy, knobs: &Knobs) -> Result<(Self, Vec<String>), Refused> {
        let (root, roots) = (Root::default(), Roots::default());
        let features = Features::detect(&root);
        if let Some(why) = lacks(&features) {
            let hint = "`--engine isotherm` needs nothing of it";
            let text = format!("cannot push the schemes down\n  why:   {why}\n  hint:  {hint}");
            return Err(Refused { code: 3, text });
        }
        let prompt = features.has(Feature::GoalTuner).is_likely();
        let nodes = hierarchy.nodes();
        let levels = levels(&roots, &nodes).map_err(|text| Refused { code: 3, text })?;
        let (mut watched, mut notes, mut accounts) = (Vec::new(), Vec::new(), Vec::new());
        notes.push(if prompt { PROMPT } else { SLOW }.to_owned());
        let mut pressures = Vec::new();
        for link in &hierarchy.links {
            let at = nodes.iter().position(|n| *n == link.upper).unwrap_or(0);
            pressures.push(Pressure::of(levels.get(at).copied().unwrap_or_default(), knobs));
            for (name, from, to) in
                [("promote", link.lower, link.upper), ("demote", link.upper, link.lower)]
            {
                accounts.push((format!("{name} {from}->{to}"), Account::default()));
            }
        }
        for &node in &nodes {
            let (config, schemes) =
                config(hierarchy, knobs, node, &pressures, &levels, &nodes, prompt)
                    .map_err(|text| Refused { code: 3, text })?;
            if schemes.is_empty() {
                continue;
            }
            let claim = Claim::set_up(&root, &config, &Settings::default()).map_err(refused)?;
            let killed = claim.recovered().iter().filter(|l| !matches!(l, Leftover::InUse { .. }));
            notes.extend(killed.map(|left| format!("of an isotherm that was killed: {left}")));
            watched.push(Watched { node, claim, schemes });
        }
        for watched in &mut watched {
            watched.claim.on().map_err(refused)?;
        }
        let this = Self {
            watched,
            hierarchy: hierarchy.clone(),
            heat: HeatTable::new(&nodes, &[], 1, 1),
            nodes,
            pressures,
            roots,
            accounts,
            intervals: (0, 0),
            regions: 0,
        };
        Ok((this, notes))
    }

    /// How everything stands; with `regions`, the table of heat anew, which waits up to an apply interval.
    ///
    /// # Errors
    ///
    /// If a kdamond died, or was taken away; all are stopped when this value goes.
    pub fn summary(&mut self, regions: bool) -> Result<TierSummary, Refused> {
        let mut placed = Vec::new();
        let (mut max_nr, mut aggr_us) = (1, 1);
        for watched in &mut self.watched {
            if !watched.claim.is_running().map_err(refused)? {
                return Err(refused(watched.claim.kdamond().died("read what it did")));
            }
            let kdamond = watched.claim.kdamond();
            kdamond.command(Command::UpdateStats).map_err(refused)?;
            for (nr, (link, action)) in watched.schemes.iter().enumerate() {
                let stats = kdamond.stats(nr).map_err(refused)?;
                let at = link * 2 + usize::from(*action == Action::MigrateCold);
                if let Some((_, account)) = self.accounts.get_mut(at) {
                    account.asked_bytes = stats.sz_ops_filter_passed;
                    account.done_bytes = stats.sz_applied;
                    account.refused_bytes =
                        stats.sz_ops_filter_passed.saturating_sub(stats.sz_applied);
                }
            }
            if regions {
                let now = kdamond.tuned_intervals().map_err(refused)?;
                self.intervals = (now.sample_us, now.aggr_us);
                max_nr = u32::try_from(now.aggr_us / now.sample_us.max(1)).unwrap_or(1).max(1);
                aggr_us = now.aggr_us;
                kdamond.command(Command::UpdateTriedRegions).map_err(refused)?;
                let mut found = Vec::new();
                kdamond.tried_regions(watched.schemes.len(), &mut found).map_err(refused)?;
                placed.extend(found.iter().map(|r| place(r, watched.node, &self.nodes)));
                kdamond.command(Command::ClearTriedRegions).map_err(refused)?;
            }
        }
        if regions {
            self.regions = placed.len();
            self.heat = HeatTable::new(&self.nodes, &placed, max_nr, aggr_us);
        }
        let levels = levels(&self.roots, &self.nodes).map_err(|text| Refused { code: 3, text })?;
        Ok(TierSummary {
            nr_targets: self.watched.len(),
            nr_regions: self.regions,
            sample_us: self.intervals.0,
            aggr_us: self.intervals.1,
            links: self.standing(&levels),
            schemes: self.accounts.clone(),
            heat: self.heat.clone(),
            blocked: None,
        })
    }

    fn standing(&self, levels: &[Level]) -> Vec<LinkStanding> {
        let links = self.hierarchy.links.iter().zip(&self.pressures).enumerate();
        let done = |at: usize| self.accounts.get(at).map_or(0, |(_, a)| a.done_bytes);
        links
            .map(|(nr, (link, pressure))| {
                let place = |node| self.nodes.iter().position(|n| *n == node).unwrap_or(0);
                let level = levels.get(place(link.upper)).copied().unwrap_or_default();
                let (there, all) = self.heat.accessed(&[link.upper]);
                let promoted = done(nr * 2);
                let pressure = Pressure { waiting: all - there, ..*pressure };
                LinkStanding::new(*link, level, pressure, promoted, done(nr * 2 + 1), 0)
            })
            .collect()
    }

    /// Ends all of it.
    ///
    /// # Errors
    ///
    /// What could not be put back.
    pub fn finish(self) -> Result<(), Refused> {
        let mut done = Ok(());
        for watched in self.watched {
            let released = watched.claim.release().map_err(refused);
            if done.is_ok() {
                done = released;
            }
        }
        done
    }
}

fn refused(why: DamonError) -> Refused {
    use isotherm_linux::damon::Kind;
    let code = match why.kind() {
        Kind::Permission => 4,
        Kind::NotBuilt | Kind::OlderKernel | Kind::ModuleInTheWay | Kind::NotOurs | Kind::Busy => 3,
        _ => 1,
    };
    Refused { code, text: why.to_string() }
}

fn place(region: &TriedRegion, node: u32, nodes: &[u32]) -> Placed {
    let bytes = region.range.len();
    Placed {
        target: TargetId(node),
        range: region.range,
        known: true,
        nr_accesses: region.nr_accesses,
        age: region.age,
        on: nodes.iter().map(|n| if *n == node { bytes } else { 0 }).collect(),
        looked: None,
    }
}

/// What the kdamond of a node is told, and which schemes are in it.
fn config(
    hierarchy: &Hierarchy,
    knobs: &Knobs,
    node: u32,
    pressures: &[Pressure],
    levels: &[Level],
    nodes: &[u32],
    prompt: bool,
) -> Result<(Config, Vec<(usize, Action)>), String> {
    let (mut schemes, mut which) = (Vec::new(), Vec::new());
    for (nr, (link, pressure)) in hierarchy.links.iter().zip(pressures).enumerate() {
        let at = nodes.iter().position(|n| *n == link.upper).unwrap_or(0);
        let total = levels.get(at).map_or(0, |level| level.total);
        let mut one = |scheme: Scheme, goal_bp: u64| {
            which.push((nr, scheme.action));
            let mut scheme = pushed(&scheme, goal_bp, &knobs.attrs);
            if prompt {
                stepwise(&mut scheme, knobs, total);
            }
            schemes.push(scheme);
        };
        if link.promotes && link.lower == node {
            one(knobs.promote(*link), 10_000 - bp_of(pressure.floor, total).min(9_999));
        }
        if link.demotes && link.upper == node {
            one(knobs.demote(*link), bp_of(pressure.keep, total).max(1));
        }
    }
    let shown = Scheme {
        pattern: Pattern::ALL,
        action: Action::Stat,
        apply_interval_us: 1_000_000,
        ..Scheme::default()
    };
    schemes.push(pushed(&shown, 0, &knobs.attrs));
    let memory = Memory::Node(node);
    let regions = memory.ranges(&Proc::default()).map_err(|e| e.to_string())?;
    let attrs = &knobs.attrs;
    let context = Context {
        operations: Operations::Paddr,
        intervals: Intervals {
            sample_us: attrs.sample_us,
            aggr_us: attrs.aggr_us,
            update_us: 60_000_000,
            goal: attrs.intervals_goal,
        },
        nr_regions: Bounds::new(attrs.min_nr_regions, attrs.max_nr_regions),
        targets: vec![Target { regions, ..Target::default() }],
        schemes,
        ..Context::default()
    };
    Ok((Config { context, ..Config::default() }, which))
}

/// The same scheme in short windows; `total`: of the upper node.
fn stepwise(scheme: &mut KernelScheme, knobs: &Knobs, total: u64) {
    scheme.quota.tuner = Tuner::Temporal;
    scheme.quota.reset_interval_ms = WINDOW_MS;
    scheme.apply_interval_us = WINDOW_MS * 1000;
    let most = total / 10_000 * STEP_BP;
    scheme.quota.bytes = knobs.rate.in_window(WINDOW_MS).min(most).max(64 << 10);
}

/// A scheme in the kernel's terms. Its pattern is in samples: bounds in time would not follow the tuning there.
fn pushed(scheme: &Scheme, goal_bp: u64, attrs: &isotherm_core::Attrs) -> KernelScheme {
    let quota = &scheme.quota;
    let metric = |goal: &isotherm_core::scheme::Goal| match goal.metric {
        isotherm_core::scheme::Metric::NodeMemUsedBp(nid) => GoalMetric::NodeMemUsedBp(nid),
        isotherm_core::scheme::Metric::NodeMemFreeBp(nid) => GoalMetric::NodeMemFreeBp(nid),
        _ => GoalMetric::UserInput,
    };
    let goals = quota.goals.iter().map(|goal| Goal {
        metric: metric(goal),
        target_value: goal_bp,
        current_value: 0,
    });
    let young = scheme.filters.ops.iter().filter(|f| f.kind == FilterKind::Young);
    let filters =
        young.map(|f| Filter { kind: KernelFilter::Young, matching: f.matching, allow: f.allow });
    let pattern: Resolved = scheme.pattern.resolve(attrs);
    KernelScheme {
        pattern,
        action: scheme.action,
        target_nid: scheme.target_nid,
        apply_interval_us: scheme.apply_interval_us,
        quota: Quota {
            bytes: quota.sz,
            reset_interval_ms: quota.reset_interval_ms,
            weights: quota.weights,
            goals: goals.collect(),
            ..Quota::default()
        },
        ops_filters: filters.collect(),
        ..KernelScheme::default()
    }
}

/// The physical memory of these nodes, in bytes each; for people who want to know what is watched.
#[must_use]
pub fn watched_bytes(nodes: &[u32]) -> Vec<u64> {
    let sum = |ranges: Vec<AddrRange>| ranges.iter().map(AddrRange::len).sum();
    let of = |node: &u32| Memory::Node(*node).ranges(&Proc::default()).map_or(0, sum);
    nodes.iter().map(of).collect()
}

#[cfg(test)]
mod tests {
    use super::super::hierarchy::Link;
    use super::*;

    #[test]
    fn the_kernel_is_told_what_the_sample_module_tells() {
        let knobs = Knobs::default();
        let link = Link { upper: 0, lower: 1, promotes: true, demotes: true };
        for (scheme, goal, nid, accesses, action, metric, allow) in [
            (knobs.promote(link), 9970, 0, (1, u32::MAX), "migrate_hot", "node_mem_used_bp", true),
            (knobs.demote(link), 50, 1, (0, 0), "migrate_cold", "node_mem_free_bp", false),
        ] {
            let made = pushed(&scheme, goal, &knobs.attrs);
            assert_eq!(made.action.name(), action);
            assert_eq!(made.target_nid, Some(nid), "{action}");
            let bounds = made.pattern.nr_accesses;
            assert_eq!((bounds.min, bounds.max), accesses, "{action}");
            assert_eq!(made.pattern.sz.min, 4096, "{action}");
            assert_eq!((made.quota.bytes, made.quota.reset_interval_ms), (200 << 20, 1000));
            let told = &made.quota.goals[0];
            assert_eq!((told.metric.name(), told.metric.nid()), (metric, Some(0)));
            assert_eq!(told.target_value, goal, "{action}");
            assert_eq!(made.apply_interval_us, 1_000_000, "{action}");
            let [filter] = made.ops_filters.as_slice() else { panic!("{action}: one filter") };
            assert_eq!((filter.matching, filter.allow), (true, allow), "{action}");
        }
    }

    #[test]
    fn a_prompt_scheme_never_overshoots_by_more_than_the_goals_overlap() {
        let knobs = Knobs::default();
        let link = Link { upper: 0, lower: 1, promotes: true, demotes: true };
        for (total, bytes) in [
            (10_000 << 20, 20 << 20),
            // By the rate: 200 MiB per second.
            (10_000 << 30, 20 << 20),
            (5_000 << 20, 10 << 20),
            (1 << 20, 64 << 10),
        ] {
            let mut made = pushed(&knobs.promote(link), 9970, &knobs.attrs);
            stepwise(&mut made, &knobs, total);
            assert_eq!(made.quota.bytes >> 10, bytes >> 10, "{total}");
            assert_eq!((made.quota.reset_interval_ms, made.apply_interval_us), (100, 100_000));
            assert_eq!(made.quota.tuner, Tuner::Temporal);
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
