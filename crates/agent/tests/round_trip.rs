//! Every policy can be written as a file: reading a printed policy gives the same policy.

use isotherm_act::Toll;
use isotherm_act::apply::{Evidence, Reclaim, ReclaimFrom, Settings};
use isotherm_agent::damos::parse_damos;
use isotherm_agent::policy::{
    ContextPolicy, Engine, Policy, Rollout, SchemePolicy, TargetSpec, parse, print,
};
use isotherm_core::attrs::IntervalsGoal;
use isotherm_core::scheme::{
    Action, Age, Bounds, Brake, CgroupId, Destination, FailCharge, Filter, FilterKind, Filters,
    Frequency, Goal, Metric, Pattern, Quota, Rest, Room, Tuner, WatermarkMetric, Watermarks,
    Weights,
};
use isotherm_core::units::{
    interval_us_with_unit, share_bp, show_interval, show_share, show_size, size,
};
use isotherm_core::{AddrRange, Attrs, Method, Scheme};
use isotherm_ops::support::SetName;
use isotherm_ops::targets::Memory;
use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;

const CGROUPS: [&str; 3] = ["/app", "/", "/a b/c\"d"];
const MAPPINGS: [&str; 3] = ["*/libc*", "[heap]", "/tmp/a \\ b?"];
const SECOND: u64 = 1_000_000;

fn ordered<T: Ord + Copy>(a: T, b: T) -> Bounds<T> {
    Bounds::new(a.min(b), a.max(b))
}

fn sizes() -> impl Strategy<Value = Bounds<u64>> {
    let one = prop_oneof![any::<u64>(), (0..64_u64).prop_map(|n| n << 12), Just(u64::MAX), Just(0)];
    (one.clone(), one).prop_map(|(a, b)| ordered(a, b))
}

fn frequencies() -> impl Strategy<Value = Frequency> {
    let bp = prop_oneof![0..=10_000_u32, Just(u32::MAX)];
    let n = prop_oneof![0..30_u32, any::<u32>(), Just(u32::MAX)];
    let open = |b: &Bounds<u32>| b.min != u32::MAX;
    prop_oneof![
        (bp.clone(), bp)
            .prop_map(|(a, b)| ordered(a, b))
            .prop_filter("closed", open)
            .prop_map(Frequency::Bp),
        (n.clone(), n).prop_map(|(a, b)| Frequency::Samples(ordered(a, b))),
    ]
}

fn ages() -> impl Strategy<Value = Age> {
    let us = prop_oneof![any::<u64>(), (0..9999_u64).prop_map(|s| s * SECOND), Just(u64::MAX)];
    let n = prop_oneof![0..30_u32, any::<u32>(), Just(u32::MAX)];
    prop_oneof![
        (us.clone(), us).prop_map(|(a, b)| Age::Micros(ordered(a, b))),
        (n.clone(), n).prop_map(|(a, b)| Age::Windows(ordered(a, b))),
    ]
}

/// The number of a name, which a list gets if it is new.
fn number(list: &mut Vec<String>, name: &str) -> u32 {
    let at = list.iter().position(|known| known == name).unwrap_or_else(|| {
        list.push(name.to_owned());
        list.len() - 1
    });
    u32::try_from(at).expect("few")
}

fn goals() -> impl Strategy<Value = Vec<(u8, i32, usize, u64, u64)>> {
    vec((0..15_u8, 0..1024_i32, 0..CGROUPS.len(), 1..=1000_u64, any::<u64>()), 0..4)
}

fn goal(
    (kind, node, cgroup, target, current): (u8, i32, usize, u64, u64),
    s: &mut Settings,
) -> Goal {
    let current = current >> 1;
    let mut of = || CgroupId(number(&mut s.cgroups, CGROUPS[cgroup]));
    let metric = match kind {
        0 => Metric::SomeMemPsiUs,
        1 => Metric::FullMemPsiUs,
        2 => Metric::CgroupSomeMemPsiUs(of()),
        3 => Metric::CgroupFullMemPsiUs(of()),
        4 => Metric::NodeMemUsedBp(node),
        5 => Metric::NodeMemFreeBp(node),
        6 => Metric::NodeMemcgUsedBp(node, of()),
        7 => Metric::NodeMemcgFreeBp(node, of()),
        8 => Metric::ActiveMemBp,
        9 => Metric::InactiveMemBp,
        10 => Metric::RefaultBp,
        11 => Metric::FreeMemRate,
        12 => Metric::WorkingsetRefaultBytes,
        13 => Metric::CgroupWorkingsetRefaultBytes(of()),
        _ => Metric::UserInput,
    };
    let mut goal = Goal::new(metric, target);
    if matches!(metric, Metric::NodeMemUsedBp(_) | Metric::NodeMemFreeBp(_)) && cgroup > 0 {
        goal.follow.watermark_bp = u32::try_from(target).ok();
    }
    if matches!(metric, Metric::NodeMemFreeBp(_)) {
        goal.follow.counts_coming = node % 2 == 1;
        // The scheme itself is the one whose number is the same in every policy.
        let room = Room { scheme: 0, most_bp: 25, urgent_bp: 10_000 - u32::from(kind) };
        goal.follow.room = (node % 3 == 1).then_some(room);
    }
    if metric == Metric::UserInput { Goal { current, ..goal } } else { goal }
}

fn filters() -> impl Strategy<Value = Vec<(u8, usize, u64, u64, bool, bool)>> {
    let addr = 0..(1_u64 << 47);
    vec((0..10_u8, 0..3_usize, addr.clone(), 1..=(1_u64 << 40), any::<bool>(), any::<bool>()), 0..6)
}

fn kind(what: u8, at: usize, start: u64, len: u64, s: &mut Settings) -> FilterKind {
    match what {
        0 => FilterKind::Addr(AddrRange { start, end: start + len }),
        1 => FilterKind::Target(at),
        2 => FilterKind::Anon,
        3 => FilterKind::Active,
        4 => FilterKind::Memcg(number(&mut s.cgroups, CGROUPS[at])),
        5 => FilterKind::Young,
        6 => FilterKind::HugepageSize(start, start + len),
        7 => FilterKind::File,
        8 => FilterKind::HugepageSize(start, u64::MAX),
        _ => FilterKind::Mapping(number(&mut s.mappings, MAPPINGS[at])),
    }
}

type Plain = (u64, u64, u64, u32, u32, u32, bool, (u32, u32));

fn quota(action: Action, plain: Plain, goals: Vec<Goal>, brake: Option<u32>) -> Quota {
    let (sz, ms, window, w1, w2, w3, temporal, (num, denom)) = plain;
    let takes_away = matches!(action, Action::Pageout | Action::Cold | Action::MigrateCold);
    Quota {
        reset_interval_ms: window,
        ms: if window == 0 { ms } else { ms.min(window) },
        sz: if sz == 0 { 0 } else { sz.max(4096) },
        goals,
        tuner: if temporal { Tuner::Temporal } else { Tuner::Consist },
        fail_charge: if denom == 0 { FailCharge::default() } else { FailCharge { num, denom } },
        weights: Weights { sz: w1, nr_accesses: w2, age: w3 },
        brake: brake
            .filter(|_| takes_away)
            .map(|max_refault_bp| Brake { max_refault_bp, ..Brake::default() }),
    }
}

fn quotas() -> impl Strategy<Value = Plain> {
    let sz = prop_oneof![Just(0), any::<u64>(), (1..999_u64).prop_map(|m| m << 20)];
    // Goals are at most 1000 µs per window: it has to have that much.
    let window = prop_oneof![Just(0), 1..100_000_u64];
    (sz, 0..5000_u64, window, any::<u32>(), 0..9_u32, 0..9_u32, any::<bool>(), any::<(u32, u32)>())
}

fn actions() -> impl Strategy<Value = Action> {
    let all = Action::ALL.into_iter().filter(|a| !matches!(a, Action::LruPrio | Action::LruDeprio));
    proptest::sample::select(all.collect::<Vec<_>>())
}

fn watermarks() -> impl Strategy<Value = Watermarks> {
    let marks = (1..=1000_u64, 0..1000_u64, 0..=1000_u64, 1..u64::MAX);
    option::of(marks).prop_map(|marks| {
        let Some((mid, low, high, interval_us)) = marks else { return Watermarks::default() };
        let metric = WatermarkMetric::FreeMemRate;
        Watermarks { metric, interval_us, high: high.max(mid), mid, low: low.min(mid - 1) }
    })
}

type Carried = (Option<u64>, u32, bool, bool, u64);

fn settings(action: Action, carried: Carried, s: Settings) -> Settings {
    let (confirm, min_touched_bp, dry_run, inject, refault_window_us) = carried;
    let needs = matches!(action, Action::Hugepage | Action::Nohugepage);
    Settings {
        evidence: confirm.map_or(Evidence::Off, Evidence::Confirm),
        min_touched_bp: if action == Action::Collapse { min_touched_bp } else { 5_000 },
        prove: inject && action == Action::Collapse,
        progress: (inject && dry_run && action == Action::Collapse).then(|| "/run/work".into()),
        dry_run,
        inject: inject || needs,
        refault_window_us,
        memory_reclaim: (dry_run && action == Action::Pageout && confirm.is_some()).then(|| {
            let n = u32::try_from(refault_window_us % 10_000).unwrap_or(0);
            let (a, b) = (u64::from(n) * 7, n % 300);
            let from = if inject { ReclaimFrom::Own } else { ReclaimFrom::Path("/app".into()) };
            Reclaim { from, toll: Toll { pressure_us_per_s: a, refaults_bp: b } }
        }),
        ..s
    }
}

fn schemes() -> impl Strategy<Value = SchemePolicy> {
    let pattern = (sizes(), frequencies(), ages()).prop_map(|(sz, nr_accesses, age)| Pattern {
        sz,
        nr_accesses,
        age,
    });
    let limits = (quotas(), goals(), option::of(0..=10_000_u32), watermarks(), filters());
    let dests = vec((0..1024_u32, 1..99_u32), 0..3);
    let carried = (
        option::of(prop_oneof![1..u64::MAX, Just(SECOND)]),
        0..=10_000_u32,
        any::<bool>(),
        any::<bool>(),
        1..u64::MAX,
    );
    let rest = (any::<u64>(), 0..99_u64, 0..1024_u32);
    let name = "[ -~äß]{1,9}";
    (pattern, actions(), limits, dests, carried, rest, name).prop_map(
        |(pattern, action, limits, dests, carried, (apply_interval_us, max, nid), name)| {
            let (plain, goals, brake, watermarks, wanted) = limits;
            let mut s = Settings { name, ..Settings::default() };
            let goals = goals.into_iter().map(|g| goal(g, &mut s)).collect();
            let quota = quota(action, plain, goals, brake);
            let mut filters = Filters::default();
            for (what, at, start, len, matching, allow) in wanted {
                let kind = kind(what, at, start, len, &mut s);
                filters.push(Filter { kind, matching, allow });
            }
            let migrates = matches!(action, Action::MigrateHot | Action::MigrateCold);
            let dests = dests.into_iter().map(|(nid, weight)| Destination { nid, weight });
            let dests: Vec<_> = dests.filter(|_| migrates).collect();
            let target_nid = (migrates && dests.is_empty()).then_some(nid);
            let scheme = Scheme {
                pattern,
                action,
                apply_interval_us,
                quota,
                watermarks,
                filters,
                source_nid: (migrates && nid % 2 == 1).then_some(nid),
                rest: (migrates && nid % 3 == 0)
                    .then_some(Rest { first_ms: 1 + u64::from(nid), most_ms: 16_000 }),
                target_nid,
                dests,
                max_nr_snapshots: max,
                by_page: false,
            };
            SchemePolicy { scheme, settings: settings(action, carried, s) }
        },
    )
}

fn attrs() -> impl Strategy<Value = Attrs> {
    let goal = option::of((1..=10_000_u64, 1..9_u64));
    let numbers = (1..SECOND, 0..SECOND, 1..u64::MAX, 3..99_u64, 0..9_999_u64);
    (numbers, goal, 12..30_u32, any::<(bool, bool, u32)>()).prop_map(
        |(numbers, goal, bits, rest)| {
            let (sample_us, more, update_us, min, more_regions) = numbers;
            let intervals_goal = goal.map_or_else(IntervalsGoal::default, |(access_bp, aggrs)| {
                let (min_sample_us, max_sample_us) = (sample_us, sample_us + more);
                IntervalsGoal { access_bp, aggrs, min_sample_us, max_sample_us }
            });
            Attrs {
                sample_us,
                aggr_us: sample_us + more,
                update_us,
                min_nr_regions: min,
                max_nr_regions: min + more_regions,
                intervals_goal,
                min_region_sz: 1 << bits,
                method: match (rest.0, rest.2 % 2) {
                    (true, _) => Method::Resample,
                    (false, 0) => Method::Census,
                    (false, _) => Method::FirstTouch,
                },
                strict: rest.1,
                clears_per_sec: rest.2,
                budget_bp: 1 + rest.2 % 10_000,
                ..Attrs::default()
            }
        },
    )
}

fn contexts() -> impl Strategy<Value = ContextPolicy> {
    let target = prop_oneof![
        (1..=i32::MAX.unsigned_abs()).prop_map(TargetSpec::Pid),
        "[ -~]{1,15}".prop_map(TargetSpec::Name),
        "/[a-z* \\\\\"]{1,9}".prop_map(TargetSpec::Cgroup),
        "[ -~]{1,20}".prop_map(TargetSpec::Unit),
        "[ -~]{1,20}".prop_map(TargetSpec::Pod),
        "[ -~]{1,20}".prop_map(TargetSpec::Container),
        "[ -~]{1,20}".prop_map(TargetSpec::User),
    ];
    let memory = prop_oneof![
        Just(Memory::All),
        (0..64_u32).prop_map(Memory::Node),
        vec(1..1000_u64, 2..8).prop_map(|steps| {
            // Bounds that ascend: every second gap between them is a range.
            let bounds: Vec<u64> = steps
                .iter()
                .scan(0, |at, step| {
                    *at += step * 4096;
                    Some(*at)
                })
                .collect();
            Memory::Ranges(bounds.chunks_exact(2).map(|b| AddrRange::new(b[0], b[1])).collect())
        }),
    ];
    let targets = prop_oneof![
        3 => vec(target, 0..4),
        1 => memory.prop_map(|memory| vec![TargetSpec::Memory(memory)]),
    ];
    let sets = vec![SetName::PageWalk, SetName::Kdamond, SetName::Smaps];
    let ops =
        (option::of(proptest::sample::select(sets)), proptest::sample::select(&Engine::ALL[..]));
    let schemes = vec(schemes(), 0..3);
    (targets, any::<bool>(), ops, attrs(), schemes).prop_map(
        |(mut targets, children, (ops, engine), attrs, mut schemes)| {
            // Twice the same is refused, and so is a quota smaller than a region.
            targets.sort_by_key(|target| format!("{target:?}"));
            targets.dedup();
            for (i, SchemePolicy { scheme, settings }) in schemes.iter_mut().enumerate() {
                settings.name.push_str(&i.to_string());
                if scheme.quota.sz != 0 {
                    scheme.quota.sz = scheme.quota.sz.max(attrs.min_region_sz);
                }
            }
            ContextPolicy {
                name: String::new(),
                targets,
                children,
                ops,
                engine,
                attrs,
                schemes,
                ..ContextPolicy::default()
            }
        },
    )
}

fn rollouts() -> impl Strategy<Value = Rollout> {
    let bp = || 0..=10_000_u32;
    (bp(), option::of(bp()), option::of(bp()), option::of(0..1_000_000_u64)).prop_map(
        |(share_bp, max_pressure_bp, max_refaults_bp, max_errors)| Rollout {
            share_bp,
            max_pressure_bp,
            max_refaults_bp,
            max_errors,
        },
    )
}

/// Frames have no mappings. Unmapped page cache exists only in physical memory.
fn over_memory(SchemePolicy { scheme, settings }: &mut SchemePolicy) {
    settings.mappings.clear();
    for filter in &mut scheme.filters.ops {
        if let FilterKind::Mapping(_) = filter.kind {
            filter.kind = FilterKind::Unmapped;
        }
    }
}

proptest! {
    #[test]
    fn policies(contexts in vec(contexts(), 1..3), rollout in rollouts()) {
        let mut policy = Policy { contexts, rollout, ..Policy::default() };
        let mut seen = Vec::new();
        for (i, context) in policy.contexts.iter_mut().enumerate() {
            context.name = format!("\"{i}\"\\");
            context.targets.retain(|target| !seen.contains(target));
            seen.extend(context.targets.clone());
            if context.memory().is_some() {
                context.schemes.iter_mut().for_each(over_memory);
            }
        }
        let text = print(&policy);
        match parse(&text, "printed.toml") {
            Ok(read) => prop_assert_eq!(read, policy, "{}", text),
            Err(e) => prop_assert!(false, "{e}"),
        }
    }

    #[test]
    fn numbers(n in prop_oneof![any::<u64>(), 0..10_000_000_u64, (0..9999_u64).prop_map(|n| n * SECOND)]) {
        prop_assert_eq!(interval_us_with_unit(&show_interval(n)), Ok(n));
        prop_assert_eq!(size(&show_size(n)), Ok(n));
        prop_assert_eq!(share_bp(&show_share(n)), Ok(n));
    }

    #[test]
    fn no_text_is_too_strange(text in "\\PC{0,60}", at in 0..800_usize) {
        // A sound policy with something put into it.
        let mut policy = print(&isotherm_agent::ready::Reclaim::default().policy());
        let at = policy.char_indices().map(|(i, _)| i).nth(at).unwrap_or(policy.len());
        policy.insert_str(at, &text);
        for text in [policy, text.clone()] {
            if let Err(e) = parse(&text, "strange.toml") {
                prop_assert!(!e.to_string().is_empty());
            }
        }
        if let Err(e) = parse_damos(&text, "strange.damos", &Attrs::default()) {
            prop_assert!(!e.to_string().is_empty());
        }
    }

    #[test]
    fn no_scheme_is_too_strange(words in vec("(null|min|max|[0-9]{1,22}(\\.[0-9]{1,14})?[KMGTsmhd%]?|pageout|stat|#)", 0..20)) {
        for attrs in [Attrs::default(), Attrs::reference()] {
            if let Ok(schemes) = parse_damos(&words.join(" "), "strange.damos", &attrs) {
                for scheme in schemes {
                    prop_assert!(!scheme.pattern.is_upside_down());
                }
            }
        }
    }
}
