//! Configuration to files and back; what an older kernel lacks; what a kernel refuses.

use std::collections::BTreeSet;

use isotherm_core::AddrRange;
use isotherm_core::scheme::{Action, Bounds};
use proptest::prelude::*;
use tempfile::TempDir;

use super::fake::Fake;
use super::{everything, simple};
use crate::config::model::{Config, Filter, FilterKind, Goal, GoalMetric, Scheme, Target};
use crate::{DamonKind, Features, Kdamond, entries};

/// A kernel with one kdamond directory.
fn kernel() -> (TempDir, std::sync::Arc<Fake>, Kdamond) {
    let dir = tempfile::tempdir().unwrap();
    let fake = Fake::new(dir.path());
    fake.echo("1", "nr_kdamonds");
    fake.writes();
    let kdamond = Kdamond::new(&fake.root(), 0);
    (dir, fake, kdamond)
}

#[test]
fn every_file_is_written_and_reads_back() {
    let (_dir, fake, kdamond) = kernel();
    assert_eq!(kdamond.read().unwrap(), None);
    kdamond.write(&everything(), None).unwrap();
    assert_eq!(kdamond.read().unwrap(), Some(everything()));
    // Each kind of file has been written at least once, apart from those that only the kernel
    // writes.
    let leaf = |path: &str| path.rsplit('/').next().unwrap().to_owned();
    let written: BTreeSet<_> = fake.writes().iter().map(|(path, _)| leaf(path)).collect();
    let all = entries::entries(&everything(), entries::FilterDirs::Layers);
    let listed: BTreeSet<_> = all.iter().map(|entry| leaf(&entry.path)).collect();
    assert_eq!(written, listed);
}

#[test]
fn the_kernel_s_formats() {
    let (_dir, fake, kdamond) = kernel();
    kdamond.write(&everything(), None).unwrap();
    let rows = [
        ("0/refresh_ms", "100"),
        ("0/contexts/0/operations", "fvaddr"),
        ("0/contexts/0/pause", "Y"),
        ("0/contexts/0/monitoring_attrs/intervals/intervals_goal/access_bp", "400"),
        ("0/contexts/0/monitoring_attrs/nr_regions/max", "200"),
        ("0/contexts/0/monitoring_attrs/probes/0/filters/1/path", "/c"),
        ("0/contexts/0/targets/0/regions/1/end", "2199023255552"),
        ("0/contexts/0/targets/1/obsolete_target", "Y"),
        ("0/contexts/0/schemes/0/action", "migrate_cold"),
        ("0/contexts/0/schemes/0/target_nid", "1"),
        ("0/contexts/0/schemes/0/access_pattern/sz/max", "18446744073709551615"),
        ("0/contexts/0/schemes/0/access_pattern/age/max", "4294967295"),
        ("0/contexts/0/schemes/0/quotas/goal_tuner", "temporal"),
        ("0/contexts/0/schemes/0/quotas/goals/4/target_metric", "node_memcg_used_bp"),
        ("0/contexts/0/schemes/0/quotas/goals/4/nid", "3"),
        ("0/contexts/0/schemes/0/quotas/goals/4/path", "/a"),
        ("0/contexts/0/schemes/0/watermarks/metric", "free_mem_rate"),
        ("0/contexts/0/schemes/0/core_filters/0/addr_end", "8192"),
        ("0/contexts/0/schemes/0/core_filters/1/damon_target_idx", "1"),
        ("0/contexts/0/schemes/0/ops_filters/2/memcg_path", "/a/b"),
        ("0/contexts/0/schemes/0/ops_filters/4/type", "hugepage_size"),
        ("0/contexts/0/schemes/0/ops_filters/4/max", "1073741824"),
        ("0/contexts/0/schemes/0/dests/1/weight", "7"),
        ("0/contexts/0/schemes/0/stats/max_nr_snapshots", "9"),
        ("0/contexts/0/schemes/1/target_nid", "-1"),
    ];
    for (file, value) in rows {
        assert_eq!(fake.cat(file), value, "{file}");
    }
}

#[test]
fn defaults_are_those_of_the_kernel() {
    let (_dir, fake, kdamond) = kernel();
    let mut config = Config::default();
    config
        .context
        .targets
        .push(Target { regions: vec![AddrRange::default()], ..Target::default() });
    let mut scheme = Scheme::default();
    scheme.quota.goals.push(Goal::default());
    scheme.filters.push(Filter::default());
    config.context.schemes.push(scheme);
    kdamond.write(&config, None).unwrap();
    // Nothing but the numbers of children had to be written, so every default is the made-up
    // kernel's.
    for (path, value) in fake.writes() {
        assert!(path.contains("/nr_"), "{path} = {value}");
    }
    assert_eq!(kdamond.read().unwrap(), Some(config));
}

#[test]
fn only_what_differs_is_written_again() {
    let (_dir, fake, kdamond) = kernel();
    let mut config = everything();
    let written = kdamond.write(&config, None).unwrap();
    fake.writes();
    assert_eq!(kdamond.write(&config, Some(&written)).unwrap(), written);
    assert_eq!(fake.writes(), []);
    config.context.schemes[0].quota.bytes = 5;
    config.context.schemes[0].filters.clear();
    kdamond.write(&config, Some(&written)).unwrap();
    let writes = fake.writes();
    assert_eq!(writes.len(), 2, "{writes:?}");
    assert_eq!(kdamond.read().unwrap(), Some(config));
}

#[test]
fn an_older_kernel_takes_what_it_knows() {
    let (_dir, fake, kdamond) = kernel();
    fake.release("6.12.48+deb13-cloud-amd64");
    for part in [
        "refresh_ms",
        "addr_unit",
        "pause",
        "intervals_goal",
        "probes",
        "obsolete_target",
        "core_filters",
        "ops_filters",
        "dests",
        "max_nr_snapshots",
        "goal_tuner",
        "fail_charge",
        "/allow",
        "/nid",
        "goals/0/path",
    ] {
        fake.lacks(part);
    }
    // Filters of both layers go into the one directory.
    let mut config = simple(7);
    let refuse = |kind| Filter { kind, matching: true, allow: false };
    config.context.schemes[0].core_filters.push(refuse(FilterKind::Target(0)));
    config.context.schemes[0].ops_filters.push(refuse(FilterKind::Anon));
    let written = kdamond.write(&config, None).unwrap();
    assert_eq!(fake.cat("0/contexts/0/schemes/0/filters/nr_filters"), "2");
    assert_eq!(fake.cat("0/contexts/0/schemes/0/filters/0/type"), "target");
    assert_eq!(fake.cat("0/contexts/0/schemes/0/filters/1/type"), "anon");
    fake.writes();
    kdamond.write(&config, Some(&written)).unwrap();
    assert_eq!(fake.writes(), []);
}

/// A change, the file that is missing for it, and what the error names.
type Needs = (fn(&mut Config), &'static str, &'static str);

#[test]
fn a_missing_file_is_named_with_the_kernel_that_has_it() {
    let rows: [Needs; 12] = [
        (|c| c.refresh_ms = 5, "refresh_ms", "6.17"),
        (|c| c.context.addr_unit = 8, "addr_unit", "6.18"),
        (|c| c.context.pause = true, "pause", "7.2"),
        (|c| c.context.intervals.goal.aggrs = 3, "intervals_goal", "6.15"),
        (|c| c.context.probes.push(crate::config::model::Probe::default()), "probes", "7.2"),
        (|c| c.context.targets[0].obsolete = true, "obsolete_target", "6.19"),
        (|c| c.context.schemes[0].max_nr_snapshots = 1, "max_nr_snapshots", "7.0"),
        (|c| c.context.schemes[0].target_nid = Some(0), "target_nid", "6.11"),
        (|c| c.context.schemes[0].apply_interval_us = 1, "apply_interval_us", "6.7"),
        (|c| c.context.schemes[0].quota.goals.push(Goal::default()), "goals", "6.8"),
        (|c| c.context.schemes[0].quota.fail_charge.num = 1, "fail_charge", "7.2"),
        (
            |c| {
                let allow = Filter { kind: FilterKind::Anon, matching: true, allow: true };
                c.context.schemes[0].filters.push(allow);
            },
            "/allow",
            "6.14",
        ),
    ];
    for (change, missing, since) in rows {
        let dir = tempfile::tempdir().unwrap();
        let fake = Fake::new(dir.path());
        fake.release("6.1.0");
        fake.lacks(missing);
        fake.echo("1", "nr_kdamonds");
        let kdamond = Kdamond::new(&fake.root(), 0);
        let mut config = simple(7);
        change(&mut config);
        let err = kdamond.write(&config, None).unwrap_err();
        assert_eq!(err.kind(), DamonKind::OlderKernel, "{missing}: {err}");
        let text = err.to_string();
        assert!(text.contains(&format!("older than {since}")), "{missing}: {text}");
        assert!(text.contains("is missing (needed for"), "{missing}: {text}");
        assert!(kdamond.is_untouched().unwrap(), "{missing}: half of it is still there");
    }
}

#[test]
fn a_refused_value_says_which_and_why_and_changes_nothing() {
    let (_dir, fake, kdamond) = kernel();
    let config = simple(7);
    let written = kdamond.write(&config, None).unwrap();
    let before = fake.cat("0/contexts/0/monitoring_attrs/intervals/aggr_us");
    let mut other = config.clone();
    other.context.intervals.aggr_us = 200_000;
    other.context.schemes.push(Scheme { action: Action::Collapse, ..Scheme::default() });
    fake.refuses("schemes/1/action", "collapse", libc::EINVAL);
    let err = kdamond.write(&other, Some(&written)).unwrap_err();
    let text = err.to_string();
    assert_eq!(err.kind(), DamonKind::OlderKernel);
    for part in ["`collapse`", "schemes/1/action", "Invalid argument", "since 7.2"] {
        assert!(text.contains(part), "{part} is not in: {text}");
    }
    assert_eq!(fake.cat("0/contexts/0/monitoring_attrs/intervals/aggr_us"), before);
    assert_eq!(kdamond.read().unwrap(), Some(config));

    fake.relents();
    fake.refuses("nr_regions/min", "", libc::ERANGE);
    let mut other = simple(7);
    other.context.nr_regions = Bounds::new(u64::MAX, u64::MAX);
    let err = kdamond.write(&other, Some(&written)).unwrap_err();
    assert_eq!((err.kind(), err.errno()), (DamonKind::Refused, Some(libc::ERANGE)));
}

#[test]
fn busy_files_are_tried_again_for_a_while() {
    let (_dir, fake, kdamond) = kernel();
    fake.is_busy(5);
    kdamond.write(&simple(7), None).unwrap();
    fake.is_busy(u32::MAX);
    let mut other = simple(8);
    other.context.addr_unit = 2;
    let err = Kdamond::new(&fake.impatient(), 0).write(&other, None).unwrap_err();
    assert_eq!((err.kind(), err.errno()), (DamonKind::Busy, Some(libc::EBUSY)));
    assert!(err.to_string().contains("another program"), "{err}");
}

#[test]
fn features_come_from_files_and_else_from_the_version() {
    use crate::{Feature, Has, Operations};
    let (_dir, fake, kdamond) = kernel();
    fake.release("6.12.48+deb13-cloud-amd64");
    let root = fake.root();
    let bare = Features::detect(&root);
    assert_eq!(bare.has(Feature::Migrate), Has::ByVersion);
    assert_eq!(bare.has(Feature::Dests), Has::No);
    assert_eq!(bare.has_operations(Operations::Paddr), None);
    // A distribution that backported one feature and left another out.
    fake.lacks("target_nid");
    kdamond.write(&simple(7), None).unwrap();
    fake.writes();
    let seen = Features::detect(&root);
    assert_eq!(seen.has(Feature::Dests), Has::Yes);
    assert_eq!(seen.has(Feature::Migrate), Has::No);
    assert_eq!(seen.has(Feature::YoungFilter), Has::ByVersion);
    assert_eq!(seen.has(Feature::Collapse), Has::No);
    assert_eq!(seen.has_operations(Operations::Paddr), Some(true));
    assert_eq!(fake.writes(), [], "looking must not write");
}

#[test]
fn versions() {
    use isotherm_host::Version;
    for (text, want) in [
        ("6.12.48+deb13-cloud-amd64", Some(Version::new(6, 12))),
        ("7.2.0-rc3", Some(Version::new(7, 2))),
        ("6.1", Some(Version::new(6, 1))),
        ("unknown", None),
        ("7", None),
    ] {
        assert_eq!(Version::parse(text), want, "{text}");
    }
    assert!(Version::new(6, 9) < Version::new(6, 12) && Version::new(6, 19) < Version::new(7, 0));
}

fn any_filter() -> impl Strategy<Value = Filter> {
    let kind = prop_oneof![
        Just(FilterKind::Anon),
        Just(FilterKind::Young),
        Just(FilterKind::Unmapped),
        "/[a-z]{1,8}".prop_map(FilterKind::Memcg),
        (any::<u64>(), any::<u64>()).prop_map(|(min, max)| FilterKind::HugepageSize(min, max)),
        any::<u32>().prop_map(FilterKind::Target),
        (any::<u64>(), any::<u64>()).prop_map(|(s, e)| FilterKind::Addr(AddrRange::new(s, e))),
    ];
    (kind, any::<bool>(), any::<bool>()).prop_map(|(kind, matching, allow)| Filter {
        kind,
        matching,
        allow,
    })
}

fn any_scheme() -> impl Strategy<Value = Scheme> {
    let goals = prop::collection::vec((0i32..4, any::<u64>(), any::<u64>()), 0..3);
    (
        prop::collection::vec(any_filter(), 0..4),
        goals,
        0..Action::ALL.len(),
        any::<Option<u16>>(),
        any::<(u64, u64, u32, u32)>(),
    )
        .prop_map(|(filters, goals, action, nid, (min, max, nr, age))| {
            let mut scheme = Scheme {
                action: Action::ALL[action],
                target_nid: nid.map(u32::from),
                ..Scheme::default()
            };
            scheme.pattern.sz = Bounds::new(min, max);
            scheme.pattern.nr_accesses.max = nr;
            scheme.pattern.age.min = age;
            for filter in filters {
                if filter.kind.is_core() {
                    scheme.core_filters.push(filter);
                } else {
                    scheme.ops_filters.push(filter);
                }
            }
            for (nid, target_value, current_value) in goals {
                let metric = GoalMetric::NodeMemFreeBp(nid);
                scheme.quota.goals.push(Goal { metric, target_value, current_value });
            }
            scheme
        })
}

fn any_config() -> impl Strategy<Value = Config> {
    let target = (any::<i32>(), prop::collection::vec(any::<(u64, u64)>(), 0..3));
    (
        prop::collection::vec(any_scheme(), 0..3),
        prop::collection::vec(target, 0..3),
        any::<[u64; 4]>(),
    )
        .prop_map(|(schemes, targets, [sample, aggr, min, max])| {
            let mut config = Config::default();
            config.context.schemes = schemes;
            for (pid, ranges) in targets {
                let regions = ranges.into_iter().map(|(s, e)| AddrRange::new(s, e)).collect();
                config.context.targets.push(Target { pid, regions, obsolete: false });
            }
            config.context.intervals.sample_us = sample;
            config.context.intervals.aggr_us = aggr;
            config.context.nr_regions = Bounds::new(min, max);
            config
        })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(16))]

    /// Whatever the files said before: after a write they say what was asked for, and nothing else.
    #[test]
    fn from_any_configuration_to_any_other(a in any_config(), b in any_config()) {
        let (_dir, _fake, kdamond) = kernel();
        let was = kdamond.write(&a, None).unwrap();
        prop_assert_eq!(kdamond.read().unwrap(), Some(a.clone()));
        kdamond.write(&b, Some(&was)).unwrap();
        prop_assert_eq!(kdamond.read().unwrap(), Some(b));
    }

    /// Whichever file is refused: all of them say again what they said.
    #[test]
    fn a_refusal_anywhere_puts_everything_back(a in any_config(), b in any_config(), nth in any::<prop::sample::Index>()) {
        let (_dir, other, kdamond) = kernel();
        let was = kdamond.write(&a, None).unwrap();
        other.writes();
        kdamond.write(&b, Some(&was)).unwrap();
        let writes = other.writes();
        prop_assume!(!writes.is_empty());
        let (path, value) = writes[nth.index(writes.len())].clone();

        let (_dir, fake, kdamond) = kernel();
        let was = kdamond.write(&a, None).unwrap();
        fake.refuses_once(&path, &value);
        prop_assert!(kdamond.write(&b, Some(&was)).is_err());
        prop_assert_eq!(kdamond.read().unwrap(), Some(a), "{} = {} was refused", path, value);
    }
}
