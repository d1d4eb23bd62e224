//! The kernel's DAMON as the engine: schemes pushed down (R§6.5 `mtier`).
//!
//! One kdamond watches the physical memory of all nodes. A scheme that promotes or demotes from a node has filters that keep
//! the other nodes' addresses out. One more scheme, `stat`, only shows the regions, for the table of heat.
//!
//! `mtier` has a kdamond per node. As soon as a lower node's hot memory has been promoted, such a kdamond sees hardly any accesses
//! there, so the tuning of intervals makes its windows longer and longer, and the next hot memory is found late or never. Accesses
//! to all nodes together stay what they were, whatever is moved.
//!
//! Invariants: kdamonds that others set up are left alone; ours ends with this value.
//!
//! Absent, and why: ping-pong pages, refusals by errno (the kernel does not tell), limiting it to processes
//! (physical memory belongs to all), dry runs (a scheme that runs, acts).

use isotherm_core::scheme::{
    Action, Bounds, Counters, Entry, FilterKind, Pattern, Resolved, Tuner,
};
use isotherm_core::{AddrRange, Scheme, TargetId};
use isotherm_damon::model::{
    Context, Filter, FilterKind as KernelFilter, Goal, GoalMetric, Intervals, Quota,
    Scheme as KernelScheme, Target,
};
use isotherm_damon::{
    Claim, Command, Config, DamonError, Feature, Features, Has, Leftover, Operations, Root,
    Settings, TriedRegion,
};
use isotherm_host::Roots;
use isotherm_host::nodes::{Level, levels};
use isotherm_host::proc::Proc;
use isotherm_ops::targets::Memory;

use super::engine::{LinkStanding, Pressure, bp_of};
use super::heat::HeatTable;
use super::hierarchy::{Hierarchy, Link};
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
/// Regions per node, at least and at most: what a program uses together lies all over a node, and a region that is hot in one part
/// is hot as a whole.
const REGIONS: Bounds<u64> = Bounds::new(500, 1000);
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

/// The schemes, in the kernel.
#[derive(Debug)]
pub struct Pushed {
    claim: Claim,
    /// The schemes in the order of their files: of which link, and which way.
    schemes: Vec<(usize, Action)>,
    /// The physical memory of each node.
    memory: Vec<Vec<AddrRange>>,
    hierarchy: Hierarchy,
    knobs: Knobs,
    nodes: Vec<u32>,
    pressures: Vec<Pressure>,
    roots: Roots,
    accounts: Vec<Entry>,
    heat: HeatTable,
    /// Whether goals are followed at once.
    prompt: bool,
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
        let mut notes = vec![if prompt { PROMPT } else { SLOW }.to_owned()];
        let pressures = pressures(hierarchy, knobs, &levels);
        let mut accounts = Vec::new();
        for link in &hierarchy.links {
            for (name, from, to) in
                [("promote", link.lower, link.upper), ("demote", link.upper, link.lower)]
            {
                accounts.push((format!("{name} {from}->{to}"), Counters::default()));
            }
        }
        let memory = memory_of(&nodes).map_err(|text| Refused { code: 3, text })?;
        let (config, schemes) = config(hierarchy, knobs, &memory, &pressures, &levels, prompt);
        let mut claim = Claim::set_up(&root, &config, &Settings::default()).map_err(refused)?;
        let killed = claim.recovered().iter().filter(|l| !matches!(l, Leftover::InUse { .. }));
        notes.extend(killed.map(|left| format!("of an isotherm that was killed: {left}")));
        claim.on().map_err(refused)?;
        let this = Self {
            claim,
            schemes,
            memory,
            hierarchy: hierarchy.clone(),
            knobs: knobs.clone(),
            heat: HeatTable::new(&nodes, &[], 1, 1),
            nodes,
            pressures,
            roots,
            accounts,
            prompt,
            intervals: (0, 0),
            regions: 0,
        };
        Ok((this, notes))
    }

    /// How everything stands; with `regions`, the table of heat anew, which waits up to an apply interval.
    ///
    /// # Errors
    ///
    /// If the kdamond died, or was taken away.
    pub fn summary(&mut self, regions: bool) -> Result<TierSummary, Refused> {
        if !self.claim.is_running().map_err(refused)? {
            return Err(refused(self.claim.kdamond().died("read what it did")));
        }
        let kdamond = self.claim.kdamond();
        kdamond.command(Command::UpdateStats).map_err(refused)?;
        for (nr, (link, action)) in self.schemes.iter().enumerate() {
            let stats = kdamond.stats(nr).map_err(refused)?;
            let at = link * 2 + usize::from(*action == Action::MigrateCold);
            if let Some((_, account)) = self.accounts.get_mut(at) {
                account.asked_bytes = stats.sz_ops_filter_passed;
                account.done_bytes = stats.sz_applied;
                account.refused_bytes = stats.sz_ops_filter_passed.saturating_sub(stats.sz_applied);
            }
        }
        if regions {
            let now = kdamond.tuned_intervals().map_err(refused)?;
            self.intervals = (now.sample_us, now.aggr_us);
            kdamond.command(Command::UpdateTriedRegions).map_err(refused)?;
            let mut found = Vec::new();
            kdamond.tried_regions(self.schemes.len(), &mut found).map_err(refused)?;
            kdamond.command(Command::ClearTriedRegions).map_err(refused)?;
            self.regions = found.len();
            let placed: Vec<_> = found.iter().map(|r| place(r, &self.memory)).collect();
            let samples = now.aggr_us.checked_div(now.sample_us).unwrap_or(1).max(1);
            let max_nr = u32::try_from(samples).unwrap_or(u32::MAX);
            self.heat = HeatTable::new(&self.nodes, &placed, max_nr, now.aggr_us);
        }
        let levels = levels(&self.roots, &self.nodes).map_err(|text| Refused { code: 3, text })?;
        self.follow(&levels)?;
        Ok(TierSummary {
            nr_targets: 1,
            nr_regions: self.regions,
            sample_us: self.intervals.0,
            aggr_us: self.intervals.1,
            links: self.standing(&levels),
            schemes: self.accounts.clone(),
            heat: self.heat.clone(),
            blocked: None,
        })
    }

    /// Moves the goals along with the watermarks: below these promotion finds no room, and demotion must not be content with that.
    fn follow(&mut self, levels: &[Level]) -> Result<(), Refused> {
        let (hierarchy, knobs) = (&self.hierarchy, &self.knobs);
        self.pressures = pressures(hierarchy, knobs, levels);
        let (config, _) =
            config(hierarchy, knobs, &self.memory, &self.pressures, levels, self.prompt);
        self.claim.commit_goals(&config).map_err(refused)
    }

    fn standing(&self, levels: &[Level]) -> Vec<LinkStanding> {
        let links = self.hierarchy.links.iter().zip(&self.pressures).enumerate();
        let done = |at: usize| self.accounts.get(at).map_or(0, |(_, a)| a.done_bytes);
        links
            .map(|(nr, (link, pressure))| {
                let level = level_of(link.upper, &self.nodes, levels);
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
        self.claim.release().map_err(refused)
    }
}

fn refused(why: DamonError) -> Refused {
    use isotherm_damon::Kind;
    let code = match why.kind() {
        Kind::Permission => 4,
        Kind::NotBuilt | Kind::OlderKernel | Kind::ModuleInTheWay | Kind::NotOurs | Kind::Busy => 3,
        _ => 1,
    };
    Refused { code, text: why.to_string() }
}

/// What presses on the upper node of each link. A migration by DAMON does not insist on its node (`__GFP_THISNODE`, Linux 7.3): with
/// less free memory there than the watermarks ask for now, it takes a page of another node, calls that a success, and
/// wakes nobody who would lower the marks again.
fn pressures(hierarchy: &Hierarchy, knobs: &Knobs, levels: &[Level]) -> Vec<Pressure> {
    let nodes = hierarchy.nodes();
    let of = |link: &Link| {
        let level = level_of(link.upper, &nodes, levels);
        Pressure::of(Level { high: level.high + level.boost, ..level }, knobs)
    };
    hierarchy.links.iter().map(of).collect()
}

/// The level of one of these nodes.
fn level_of(node: u32, nodes: &[u32], levels: &[Level]) -> Level {
    let at = nodes.iter().position(|n| *n == node);
    at.and_then(|at| levels.get(at)).copied().unwrap_or_default()
}

/// The physical memory of each node.
fn memory_of(nodes: &[u32]) -> Result<Vec<Vec<AddrRange>>, String> {
    let of = |node: &u32| Memory::Node(*node).ranges(&Proc::default()).map_err(|e| e.to_string());
    nodes.iter().map(of).collect()
}

/// Regions of two nodes that touch can have become one.
fn place(region: &TriedRegion, memory: &[Vec<AddrRange>]) -> Placed {
    let here = |range: &AddrRange| range.overlap(&region.range);
    Placed {
        target: TargetId(0),
        range: region.range,
        known: true,
        nr_accesses: region.nr_accesses,
        age: region.age,
        on: memory.iter().map(|ranges| ranges.iter().map(here).sum()).collect(),
        looked: None,
    }
}

/// What the kdamond is told, and which schemes are in it; `memory` and `levels`: of the hierarchy's nodes.
fn config(
    hierarchy: &Hierarchy,
    knobs: &Knobs,
    memory: &[Vec<AddrRange>],
    pressures: &[Pressure],
    levels: &[Level],
    prompt: bool,
) -> (Config, Vec<(usize, Action)>) {
    let nodes = hierarchy.nodes();
    let (mut schemes, mut which) = (Vec::new(), Vec::new());
    for (nr, (link, pressure)) in hierarchy.links.iter().zip(pressures).enumerate() {
        let total = level_of(link.upper, &nodes, levels).total;
        let mut one = |scheme: Scheme, from: u32, goal_bp: u64| {
            which.push((nr, scheme.action));
            let mut scheme = pushed(&scheme, goal_bp, &knobs.attrs);
            scheme.core_filters = only_from(from, &nodes, memory);
            if prompt {
                stepwise(&mut scheme, knobs, total);
            }
            schemes.push(scheme);
        };
        if link.promotes {
            let used_bp = 10_000 - bp_of(pressure.floor, total).min(9_999);
            one(knobs.promote(*link), link.lower, used_bp);
        }
        if link.demotes {
            one(knobs.demote(*link), link.upper, bp_of(pressure.keep, total).max(1));
        }
    }
    let shown = Scheme {
        pattern: Pattern::ALL,
        action: Action::Stat,
        apply_interval_us: 1_000_000,
        ..Scheme::default()
    };
    schemes.push(pushed(&shown, 0, &knobs.attrs));
    let mut regions = memory.concat();
    regions.sort_unstable_by_key(|range| range.start);
    let attrs = &knobs.attrs;
    let nr_nodes = memory.len() as u64;
    let context = Context {
        operations: Operations::Paddr,
        intervals: Intervals {
            sample_us: attrs.sample_us,
            aggr_us: attrs.aggr_us,
            update_us: 60_000_000,
            goal: attrs.intervals_goal,
        },
        nr_regions: Bounds::new(REGIONS.min * nr_nodes, REGIONS.max * nr_nodes),
        targets: vec![Target { regions, ..Target::default() }],
        schemes,
        ..Context::default()
    };
    (Config { context, ..Config::default() }, which)
}

/// Filters that keep the memory of all nodes but one out. Not one that lets this node's in: what a filter of the core lets in,
/// later filters are not asked about (`damos_core_filter_out()`).
fn only_from(node: u32, nodes: &[u32], memory: &[Vec<AddrRange>]) -> Vec<Filter> {
    let others = nodes.iter().zip(memory).filter(|(other, _)| **other != node);
    let ranges = others.flat_map(|(_, ranges)| ranges);
    let out = |range: &AddrRange| Filter {
        kind: KernelFilter::Addr(*range),
        matching: true,
        allow: false,
    };
    ranges.map(out).collect()
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

#[cfg(test)]
mod tests {
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
    fn each_scheme_takes_memory_of_its_own_node_only() {
        let range = |start: u64, end: u64| AddrRange::new(start << 30, end << 30);
        let (fast, slow) = (vec![range(0, 3), range(4, 5)], vec![range(5, 8)]);
        let link = Link { upper: 0, lower: 1, promotes: true, demotes: true };
        let hierarchy = Hierarchy { links: vec![link], ..Hierarchy::default() };
        assert_eq!(hierarchy.nodes(), [0, 1]);
        let level = Level { total: 1 << 30, ..Level::default() };
        let pressure = Pressure::of(level, &Knobs::default());
        let memory = [fast.clone(), slow.clone()];
        let (config, which) =
            config(&hierarchy, &Knobs::default(), &memory, &[pressure], &[level, level], true);
        assert_eq!(which, [(0, Action::MigrateHot), (0, Action::MigrateCold)]);
        let [promote, demote, shown] = &config.context.schemes[..] else { panic!("three schemes") };
        for (scheme, kept_out) in [(promote, &fast), (demote, &slow), (shown, &Vec::new())] {
            let out = scheme.core_filters.iter().map(|f| match &f.kind {
                KernelFilter::Addr(range) if f.matching && !f.allow => *range,
                other => panic!("{other:?}"),
            });
            assert_eq!(&out.collect::<Vec<_>>(), kept_out, "{:?}", scheme.action);
        }
        assert_eq!(config.context.targets[0].regions, [range(0, 3), range(4, 5), range(5, 8)]);
        // A region that reaches over from one node to the next counts on both.
        let region = TriedRegion { range: range(4, 6), ..TriedRegion::default() };
        assert_eq!(place(&region, &memory).on, [1 << 30, 1 << 30]);
    }

    #[test]
    fn goals_follow_the_marks_as_they_are_raised() {
        let link = Link { upper: 0, lower: 1, promotes: true, demotes: true };
        let hierarchy = Hierarchy { links: vec![link], ..Hierarchy::default() };
        let (knobs, memory) = (Knobs::default(), [Vec::new(), Vec::new()]);
        let goals = |high: u64, boost: u64| {
            let total = (10_000 << 20) - 4096;
            let level = Level { total, high: high << 20, boost: boost << 20, ..Level::default() };
            let levels = [level, Level::default()];
            let pressures = pressures(&hierarchy, &knobs, &levels);
            let (config, _) = config(&hierarchy, &knobs, &memory, &pressures, &levels, true);
            let of = |nr: usize| config.context.schemes[nr].quota.goals[0].target_value;
            (of(0), of(1))
        };
        // 0.3 % and 0.5 %, unless promotion needs more to be free.
        for ((high, boost), expected) in [
            ((20, 0), (9970, 50)),
            ((20, 25), (9955, 65)),
            ((20, 5), (9970, 50)),
            ((40, 0), (9960, 60)),
        ] {
            assert_eq!(goals(high, boost), expected, "{high} MiB and {boost} more");
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
