//! Policies that are read, and policies that are refused.

use std::path::Path;

use expect_test::{Expect, expect};
use isotherm_act::Toll;
use isotherm_act::apply::{Evidence, ReclaimFrom};
use isotherm_agent::policy::{Policy, SchemePolicy, TargetSpec, parse, print};
use isotherm_core::scheme::{
    Action, Age, Bounds, Brake, FailCharge, Filter, FilterKind, Frequency, Metric, Pattern, Quota,
    Tuner, WatermarkMetric, Weights,
};
use isotherm_core::{AddrRange, Attrs, Method};

const FULL: &str = r#"
[[context]]
name = "db"
targets = [{ name = "postgres" }, { pid = 4711 }, { cgroup = "/app" }]

[context.intervals]
sample = "10ms"
aggregation = "200ms"
update = "2s"
goal = { access = "4%", aggregations = 3, min_sample = "5ms", max_sample = "10s" }

[context.regions]
min = 20
max = 500

[[context.scheme]]
name = "cold"
action = "pageout"
size = "4K.."
frequency = "0%"
age = "10s.."
apply_interval = "1s"
quota = { size = "200M", time = "10ms", interval = "1s", weights = { age = 1 }, goals = [
  { metric = "some_mem_psi_us", target = "0.5ms" },
  { metric = "node_memcg_used_bp", node = 0, cgroup = "/app", target = "30%" },
], tuner = "temporal", fail_charge = "1/4" }
brake = { refaults = "1.5%" }
watermarks = { metric = "free_mem_rate", interval = "5s", high = "50%", mid = "40%", low = "20%" }
filters = ["reject anon", "allow addr 0x1000..0x2000", "reject not young", "allow memcg /app", "reject mapping */libc*"]
evidence = { confirm = "5s" }
refault_window = "20s"
max_snapshots = 7

[[context.scheme]]
action = "collapse"
size = { min = "2M", max = "max" }
frequency = "5%.."
age = "..20 windows"
min_touched = "75%"
prove = "auto"
progress = "/run/work"
"#;

fn read(text: &str) -> Policy {
    parse(text, "policy.toml").unwrap_or_else(|e| panic!("{e}"))
}

#[test]
fn everything_arrives() {
    let policy = read(FULL);
    let [context] = policy.contexts.as_slice() else { panic!("one context") };
    assert_eq!(context.name, "db");
    let targets = [
        TargetSpec::Name("postgres".into()),
        TargetSpec::Pid(4711),
        TargetSpec::Cgroup("/app".into()),
    ];
    assert_eq!(context.targets, targets);
    assert_eq!((context.attrs.sample_us, context.attrs.aggr_us), (10_000, 200_000));
    assert_eq!((context.attrs.min_nr_regions, context.attrs.max_nr_regions), (20, 500));
    assert_eq!(context.attrs.intervals_goal.access_bp, 400);
    let [cold, huge] = context.schemes.as_slice() else { panic!("two schemes") };

    assert_eq!(cold.scheme.action, Action::Pageout);
    let pattern = Pattern {
        sz: Bounds::new(4096, u64::MAX),
        nr_accesses: Frequency::Bp(Bounds::new(0, 0)),
        age: Age::Micros(Bounds::new(10_000_000, u64::MAX)),
    };
    assert_eq!(cold.scheme.pattern, pattern);
    let quota = &cold.scheme.quota;
    assert_eq!((quota.sz, quota.ms, quota.reset_interval_ms), (200 << 20, 10, 1000));
    assert_eq!(quota.weights, Weights { sz: 0, nr_accesses: 0, age: 1 });
    assert_eq!(quota.goals[0].metric, Metric::SomeMemPsiUs);
    assert_eq!(quota.goals[0].target, 500);
    let isotherm_core::scheme::Goal {
        metric: Metric::NodeMemcgUsedBp(0, id), target: 3000, ..
    } = quota.goals[1]
    else {
        panic!("{:?}", quota.goals)
    };
    assert_eq!(cold.settings.cgroups[id.0 as usize], "/app");
    assert_eq!(quota.tuner, Tuner::Temporal);
    assert_eq!(quota.fail_charge, FailCharge { num: 1, denom: 4 });
    assert_eq!(quota.brake, Some(Brake { max_refault_bp: 150, ..Brake::default() }));
    assert_eq!(cold.scheme.watermarks.metric, WatermarkMetric::FreeMemRate);
    assert_eq!((cold.scheme.watermarks.high, cold.scheme.watermarks.low), (500, 200));
    let range = AddrRange { start: 0x1000, end: 0x2000 };
    let filter = |kind, matching, allow| Filter { kind, matching, allow };
    assert_eq!(cold.scheme.filters.core, [filter(FilterKind::Addr(range), true, true)]);
    let ops = [
        filter(FilterKind::Anon, true, false),
        filter(FilterKind::Young, false, false),
        filter(FilterKind::Memcg(0), true, true),
        filter(FilterKind::Mapping(0), true, false),
    ];
    assert_eq!(cold.scheme.filters.ops, ops);
    assert_eq!(cold.settings.mappings, ["*/libc*"]);
    assert_eq!(cold.settings.evidence, Evidence::Confirm(5_000_000));
    assert_eq!(cold.settings.refault_window_us, 20_000_000);
    assert_eq!(cold.scheme.max_nr_snapshots, 7);

    assert_eq!(huge.settings.name, "collapse");
    assert_eq!(huge.scheme.pattern.age, Age::Windows(Bounds::new(0, 20)));
    assert_eq!(huge.scheme.pattern.nr_accesses, Frequency::Bp(Bounds::new(500, u32::MAX)));
    assert_eq!(huge.settings.min_touched_bp, 7500);
    assert!(huge.settings.prove && !cold.settings.prove);
    assert_eq!(huge.settings.progress.as_deref(), Some(Path::new("/run/work")));
    assert_eq!(huge.scheme.quota, Quota::default());
}

fn scheme(text: &str) -> SchemePolicy {
    let policy = read(&format!("[[context]]\n[[context.scheme]]\n{text}"));
    policy.contexts[0].schemes[0].clone()
}

#[test]
fn safe_where_nothing_is_said() {
    let plain = scheme("action = 'pageout'\nage = '20s..'");
    let quota = &plain.scheme.quota;
    assert_eq!((quota.sz, quota.ms, quota.reset_interval_ms), (128 << 20, 10, 1000));
    assert_eq!(quota.brake, Some(Brake::default()));
    assert_eq!(plain.settings.evidence, Evidence::Confirm(20_000_000));
    assert_eq!(plain.settings.name, "pageout");

    // The least age decides how long pages are watched, between 1 s and 60 s.
    for (age, want) in [("10ms..", 1), ("5 windows..", 1), ("30s..", 30), ("1h..", 60), ("..1s", 1)]
    {
        let scheme = scheme(&format!("action = 'pageout'\nage = '{age}'"));
        assert_eq!(scheme.settings.evidence, Evidence::Confirm(want * 1_000_000), "{age}");
    }
    // Asking for no quota is possible; forgetting it is not.
    assert!(!scheme("action = 'pageout'\nquota = 'none'").scheme.quota.is_set());
    assert!(!scheme("action = 'pageout'\nquota = { size = 'none' }").scheme.quota.is_set());
    assert_eq!(scheme("action = 'pageout'\nquota = {}").scheme.quota.sz, 128 << 20);
    let size_only = scheme("action = 'pageout'\nquota = { size = '1G' }").scheme.quota;
    assert_eq!((size_only.sz, size_only.ms), (1 << 30, 0));
    assert_eq!(scheme("action = 'pageout'\nbrake = 'off'").scheme.quota.brake, None);
    assert_eq!(scheme("action = 'stat'").scheme.quota, Quota::default());
    assert_eq!(scheme("action = 'stat'").scheme.pattern, Pattern::ALL);
    let policy = read("[[context]]\n");
    assert_eq!(policy.contexts[0].attrs, Attrs { method: Method::Census, ..Attrs::default() });
    assert!(policy.contexts[0].children);
    for (key, method) in [
        ("clears = 100", Method::FirstTouch),
        ("strict = true", Method::FirstTouch),
        ("clears = 100\nmethod = 'census'", Method::Census),
        ("ops = 'idle'", Method::FirstTouch),
        ("ops = 'idle'\nmethod = 'census'", Method::Census),
        ("targets = [{ paddr = 'all' }]", Method::FirstTouch),
    ] {
        let policy = read(&format!("[[context]]\n{key}\n"));
        assert_eq!(policy.contexts[0].attrs.method, method, "{key}");
        let told = policy.deprecated();
        assert_eq!(told.len(), usize::from(key.contains("clears")), "{key}: {told:?}");
        assert!(told.iter().all(|text| text.contains("`clears = 100` is deprecated")), "{told:?}");
    }
}

fn refused(text: &str, want: &Expect) {
    let error = parse(text, "policy.toml").expect_err(text);
    want.assert_eq(&error.to_string());
}

#[test]
fn all_errors_at_their_places() {
    refused(
        r#"[[context]]
name = "db"
targets = [{ pid = 12 }, { pid = 12 }, { name = "a-very-long-command-name" }]
intervalls = { sample = "5ms" }

[[context.scheme]]
action = "page_out"

[[context.scheme]]
name = "x"
action = "nohugepage"
size = "2M..1M"
frequency = "5"
age = "10s"
quota = { size = "0", time = "5s", goals = [{ metric = "node_mem_free_bp", target = "0%" }] }
filters = ["reject anno", "deny anon", "allow addr 5..5"]
evidence = { confirm = "0s" }

[[context.scheme]]
name = "x"
action = "lru_deprio"
"#,
        &expect![[r#"
            error: a second target `pid 12`
             --> policy.toml:3:26
              |
            3 | targets = [{ pid = 12 }, { pid = 12 }, { name = "a-very-long-command-name" }]
              |                          ^^^^^^^^^^^^
              |
              = why: the first is on line 3

            error: no command is called `a-very-long-command-name`
             --> policy.toml:3:49
              |
            3 | targets = [{ pid = 12 }, { pid = 12 }, { name = "a-very-long-command-name" }]
              |                                                 ^^^^^^^^^^^^^^^^^^^^^^^^^^
              |
              = why: the kernel keeps the first 15 bytes of a command's name (/proc/PID/comm)
              = hint: "a-very-long-com"

            error: unknown key `intervalls`
             --> policy.toml:4:1
              |
            4 | intervalls = { sample = "5ms" }
              | ^^^^^^^^^^
              |
              = hint: did you mean `intervals`?

            error: unknown action `page_out`
             --> policy.toml:7:10
              |
            7 | action = "page_out"
              |          ^^^^^^^^^^
              |
              = hint: did you mean `pageout`?

            error: action `nohugepage` without `inject`
              --> policy.toml:11:10
               |
            11 | action = "nohugepage"
               |          ^^^^^^^^^^^^
               |
               = why: only a process itself may ask for it, so it has to be stopped for a moment and made to ask
               = hint: inject = true allows that; `collapse` makes huge pages without it

            error: `size` is upside down
              --> policy.toml:12:8
               |
            12 | size = "2M..1M"
               |        ^^^^^^^^
               |
               = why: `2M` is more than `1M`: no region could match

            error: `frequency`: `5` has no unit; did you mean 5% or 5 samples?
              --> policy.toml:13:13
               |
            13 | frequency = "5"
               |             ^^^

            error: `age` is one value, not a range
              --> policy.toml:14:7
               |
            14 | age = "10s"
               |       ^^^^^
               |
               = why: a region hardly ever has exactly this
               = hint: "10s.." for at least, "..10s" for at most

            error: a quota of 0 bytes
              --> policy.toml:15:18
               |
            15 | quota = { size = "0", time = "5s", goals = [{ metric = "node_mem_free_bp", target = "0%" }] }
               |                  ^^^
               |
               = why: it means that nothing could be done
               = hint: "none" is no limit

            error: a quota of more time than its window has
              --> policy.toml:15:30
               |
            15 | quota = { size = "0", time = "5s", goals = [{ metric = "node_mem_free_bp", target = "0%" }] }
               |                              ^^^^
               |
               = why: a window is 1000 ms; it would limit nothing
               = hint: "none" is no limit

            error: metric `node_mem_free_bp` without `node`
              --> policy.toml:15:56
               |
            15 | quota = { size = "0", time = "5s", goals = [{ metric = "node_mem_free_bp", target = "0%" }] }
               |                                                        ^^^^^^^^^^^^^^^^^^
               |
               = hint: node = 0

            error: unknown filter `anno`
              --> policy.toml:16:12
               |
            16 | filters = ["reject anno", "deny anon", "allow addr 5..5"]
               |            ^^^^^^^^^^^^^
               |
               = hint: did you mean `anon`?

            error: a filter that begins with `deny`
              --> policy.toml:16:27
               |
            16 | filters = ["reject anno", "deny anon", "allow addr 5..5"]
               |                           ^^^^^^^^^^^
               |
               = hint: "allow KIND" or "reject KIND", with `not` before the kind for all other memory, as in "reject not young"

            error: the range of addresses is empty or upside down
              --> policy.toml:16:40
               |
            16 | filters = ["reject anno", "deny anon", "allow addr 5..5"]
               |                                        ^^^^^^^^^^^^^^^^^

            error: `confirm` is 0
              --> policy.toml:17:24
               |
            17 | evidence = { confirm = "0s" }
               |                        ^^^^
               |
               = why: pages that are watched for no time all look idle
               = hint: evidence = { confirm = "5s" }, or "off" for DAMON's own behaviour

            error: action `lru_deprio` is not available
              --> policy.toml:21:10
               |
            21 | action = "lru_deprio"
               |          ^^^^^^^^^^^^
               |
               = why: the kernel has no call to move the pages of a process to the head or tail of an LRU list
               = hint: `cold` moves pages to the inactive list, which is nearly the same; or let the kernel's DAMON do it, on physical memory: ops = "kdamond", targets = [{ paddr = "all" }]"#]],
    );
}

/// Only the kernel's DAMON can, and only on physical memory.
#[test]
fn lists_of_reclaim_are_sorted_by_the_kernel_over_physical_memory_only() {
    let text = |context: &str| {
        format!(
            "[[context]]\nname = \"m\"\n{context}\n[[context.scheme]]\naction = \"lru_prio\"\n\
             [[context.scheme]]\naction = \"lru_deprio\"\n"
        )
    };
    for (context, good) in [
        ("ops = \"kdamond\"\ntargets = [{ paddr = \"all\" }]", true),
        ("ops = \"kdamond\"\nengine = \"kernel\"\ntargets = [{ paddr = \"node:0\" }]", true),
        ("ops = \"kdamond\"\nengine = \"isotherm\"\ntargets = [{ paddr = \"all\" }]", false),
        ("ops = \"idle\"\ntargets = [{ paddr = \"all\" }]", false),
        ("targets = [{ paddr = \"all\" }]", false),
        ("ops = \"kdamond\"\ntargets = [{ pid = 1 }]", false),
    ] {
        let parsed = parse(&text(context), "policy.toml");
        assert_eq!(parsed.is_ok(), good, "{context}: {parsed:?}");
    }
}

#[test]
fn filters_fit_what_is_looked_at() {
    let open = FilterKind::HugepageSize(2 << 20, u64::MAX);
    for (text, processes, memory) in [
        ("reject unmapped", None, Some(FilterKind::Unmapped)),
        ("reject shared", Some(FilterKind::Shared), None),
        ("reject mapping */libc*", Some(FilterKind::Mapping(0)), None),
        ("reject hugepage_size 2M..", Some(open), Some(open)),
    ] {
        for (target, expected) in [("{ pid = 1 }", processes), ("{ paddr = \"all\" }", memory)] {
            let policy = format!(
                "[[context]]\nname = \"m\"\ntargets = [{target}]\n[[context.scheme]]\naction = \"pageout\"\n\
                 filters = [\"{text}\"]\n"
            );
            let got = parse(&policy, "policy.toml").ok();
            let got = got.map(|p| p.contexts[0].schemes[0].scheme.filters.ops[0].kind);
            assert_eq!(got, expected, "{text} over {target}");
        }
    }
}

#[test]
fn what_is_printed_is_read_back() {
    let policy = read(FULL);
    let text = print(&policy);
    assert_eq!(read(&text), policy, "{text}");
    expect![[r#"
        [[context]]
        name = "db"
        targets = [{ name = "postgres" }, { pid = 4711 }, { cgroup = "/app" }]

        [context.intervals]
        sample = "10ms"
        aggregation = "200ms"
        update = "2s"
        goal = { access = "4%", aggregations = 3, min_sample = "5ms", max_sample = "10s" }

        [context.regions]
        min = 20
        max = 500

        [[context.scheme]]
        name = "cold"
        action = "pageout"
        size = "4K.."
        frequency = "0%"
        age = "10s.."
        apply_interval = "1s"
        quota = { size = "200M", time = "10ms", interval = "1s", weights = { size = 0, frequency = 0, age = 1 }, goals = [
          { metric = "some_mem_psi_us", target = "500us" },
          { metric = "node_memcg_used_bp", node = 0, cgroup = "/app", target = "30%" },
        ], tuner = "temporal", fail_charge = "1/4" }
        brake = { refaults = "1.5%" }
        watermarks = { metric = "free_mem_rate", interval = "5s", high = "50%", mid = "40%", low = "20%" }
        filters = [
          "allow addr 0x1000..0x2000",
          "reject anon",
          "reject not young",
          "allow memcg /app",
          "reject mapping */libc*",
        ]
        evidence = { confirm = "5s" }
        refault_window = "20s"
        max_snapshots = 7

        [[context.scheme]]
        name = "collapse"
        action = "collapse"
        size = "2M.."
        frequency = "5%.."
        age = "0..20 windows"
        evidence = { confirm = "1s" }
        min_touched = "75%"
        prove = "auto"
        progress = "/run/work"
    "#]].assert_eq(&text);
}

/// Every policy that is shipped is valid, and says the same when it is printed.
#[test]
fn shipped_policies_are_read() {
    let dir = concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples/policies");
    let files = std::fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().path());
    let mut read = 0;
    for file in files.filter(|path| path.extension().is_some_and(|end| end == "toml")) {
        let text = std::fs::read_to_string(&file).unwrap();
        let policy = parse(&text, &file.display().to_string()).unwrap_or_else(|e| panic!("{e}"));
        assert_eq!(parse(&print(&policy), "printed").unwrap(), policy);
        read += 1;
    }
    assert!(read >= 2, "{read} in {dir}");
}

/// The policy that is shipped for whole fleets has every limit that it promises.
#[test]
fn the_shipped_policy_is_read_and_has_its_limits() {
    let file =
        concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples/policies/proactive-reclaim.toml");
    let text = std::fs::read_to_string(file).unwrap();
    let policy = parse(&text, file).unwrap_or_else(|e| panic!("{e}"));
    assert_eq!(parse(&print(&policy), "printed").unwrap(), policy);
    let context = &policy.contexts[0];
    assert!(context.targets.iter().all(|t| matches!(t, TargetSpec::Cgroup(path) if path != "/")));
    for SchemePolicy { scheme, settings } in &context.schemes {
        let name = &settings.name;
        let reclaim = settings.memory_reclaim.as_ref().unwrap();
        assert_eq!(reclaim.from, ReclaimFrom::Own, "{name}");
        let Toll { pressure_us_per_s, refaults_bp } = reclaim.toll;
        assert!((1..=1000).contains(&pressure_us_per_s), "{name}");
        assert!((1..=200).contains(&refaults_bp), "{name}");
        assert!(matches!(settings.evidence, Evidence::Confirm(us) if us >= 60_000_000), "{name}");
        let quota = &scheme.quota;
        assert!(quota.sz > 0 && quota.ms > 0 && quota.brake.is_some(), "{name}");
        let goals: Vec<_> = quota.goals.iter().map(|goal| goal.metric).collect();
        let want = [Metric::SomeMemPsiUs, Metric::WorkingsetRefaultBytes];
        assert!(goals == want && !settings.dry_run, "{name}: {goals:?}");
        assert_eq!(scheme.filters.ops.len(), 2, "{name}: shared memory would count twice");
    }
    // Every line that says something is explained above it, or is a part of what is.
    let comments = text.lines().filter(|line| line.starts_with('#')).count();
    let settings = text.lines().filter(|line| line.contains(" = ")).count();
    assert!(comments * 4 > settings * 3, "{comments} comments, {settings} settings");
}
