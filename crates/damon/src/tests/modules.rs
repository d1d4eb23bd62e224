//! The special-purpose modules of a made-up kernel.

use std::sync::Arc;

use tempfile::TempDir;

use super::fake::Fake;
use crate::modules::{Module, Role, StatReport, running};
use crate::{DamonKind, Root};

/// A kernel with `DAMON_RECLAIM` as its documentation has it, and nothing else.
fn kernel() -> (TempDir, Arc<Fake>, Root) {
    let dir = tempfile::tempdir().unwrap();
    let fake = Fake::new(dir.path());
    let value = |p: &crate::modules::Parameter| match p.role {
        Role::Statistic if p.name == "kdamond_pid" => "kdamond_pid=-1".into(),
        Role::Statistic => format!("{}=0", p.name),
        _ => format!("{}={}", p.name, p.default),
    };
    let all: Vec<String> = Module::Reclaim.parameters().iter().map(value).collect();
    fake.module("reclaim", &format!("{} some_new_thing=9", all.join(" ")));
    let root = fake.root();
    (dir, fake, root)
}

fn set(pairs: &[(&str, &str)]) -> Vec<(String, String)> {
    pairs.iter().map(|(name, value)| ((*name).into(), (*value).into())).collect()
}

#[test]
fn values_are_shown_known_ones_first() {
    let (_dir, _fake, root) = kernel();
    let values = Module::Reclaim.values(&root).unwrap();
    assert_eq!(values.len(), Module::Reclaim.parameters().len() + 1);
    assert_eq!(values[0].name, "enabled");
    let last = values.last().unwrap();
    assert_eq!((last.name.as_str(), last.text.as_deref()), ("some_new_thing", Some("9")));
    assert!(last.parameter.is_none());
    let err = Module::Stat.values(&root).unwrap_err();
    assert_eq!(err.kind(), DamonKind::NotBuilt);
    for part in ["CONFIG_DAMON_STAT", "6.17", "7.2.13"] {
        assert!(err.to_string().contains(part), "{err}");
    }
}

#[test]
fn enabling_looks_first() {
    let (_dir, fake, root) = kernel();
    let reclaim = Module::Reclaim;
    reclaim.enable(&root).unwrap();
    assert_eq!(running(&root), Some(reclaim));
    reclaim.enable(&root).unwrap();
    fake.module("lru_sort", "enabled=N kdamond_pid=-1");
    let err = Module::LruSort.enable(&root).unwrap_err();
    assert_eq!(err.kind(), DamonKind::ModuleInTheWay);
    assert!(err.to_string().contains("kernel-module disable reclaim"), "{err}");
    reclaim.disable(&root).unwrap();
    reclaim.disable(&root).unwrap();
    assert_eq!(running(&root), None);

    fake.echo("1", "nr_kdamonds");
    fake.echo("1", "0/contexts/nr_contexts");
    fake.echo("on", "0/state");
    fake.writes();
    let err = reclaim.enable(&root).unwrap_err();
    assert_eq!(err.kind(), DamonKind::NotOurs);
    assert!(err.to_string().contains("kdamond 0 (thread 1001) runs"), "{err}");
    assert_eq!(fake.writes(), []);
    fake.echo("off", "0/state");

    // Parameters that somebody left in a state that the kernel would refuse, or worse.
    std::fs::write(reclaim.dir(&root).join("aggr_interval"), "0").unwrap();
    fake.writes();
    let err = reclaim.enable(&root).unwrap_err();
    assert_eq!(err.kind(), DamonKind::Refused);
    assert!(err.to_string().contains("aggr_interval is 0"), "{err}");
    assert_eq!(fake.writes(), []);
}

#[test]
fn settings_are_checked_before_any_is_written() {
    let (_dir, fake, root) = kernel();
    let rows: [(&[(&str, &str)], &str); 8] = [
        (&[("min_age", "30s"), ("quota_sz", "lots")], "it takes bytes"),
        (&[("min_age", "30s"), ("no_such", "1")], "has no such parameter"),
        (&[("min_age", "30s"), ("enabled", "Y")], "kernel-module enable reclaim"),
        (&[("min_age", "30s"), ("kdamond_pid", "1")], "only the kernel writes it"),
        (&[("min_age", "30s"), ("aggr_interval", "1us")], "sample_interval is above"),
        (&[("wmarks_high", "30%")], "it would never work"),
        (&[("min_nr_regions", "2")], "below 3"),
        (&[("addr_unit", "0")], "addr_unit"),
    ];
    for (pairs, says) in rows {
        let err = Module::Reclaim.set(&root, &set(pairs)).unwrap_err();
        assert_eq!(err.kind(), DamonKind::Refused, "{pairs:?}");
        assert!(err.to_string().contains(says), "{says} is not in: {err}");
        assert_eq!(fake.writes(), [], "{pairs:?}");
    }
    // Several problems are told at once.
    let err = Module::Reclaim.set(&root, &set(&[("a", "1"), ("b", "2")])).unwrap_err();
    assert!(err.to_string().contains("a=1") && err.to_string().contains("b=2"), "{err}");
}

#[test]
fn settings_are_written_and_committed_or_put_back() {
    let (_dir, fake, root) = kernel();
    let reclaim = Module::Reclaim;
    let wanted = set(&[("min_age", "30s"), ("quota_sz", "64M"), ("quota_ms", "10ms")]);
    let changed = reclaim.set(&root, &wanted).unwrap();
    assert_eq!(changed.len(), 2, "{changed:?}");
    assert_eq!(fake.parameter("reclaim", "min_age"), "30000000");
    assert_eq!(fake.parameter("reclaim", "quota_sz"), "67108864");
    assert!(fake.writes().iter().all(|(path, _)| !path.ends_with("commit_inputs")));

    // Both intervals at once, in whatever order: they are checked together.
    reclaim.set(&root, &set(&[("sample_interval", "1s"), ("aggr_interval", "20s")])).unwrap();

    reclaim.enable(&root).unwrap();
    fake.writes();
    reclaim.set(&root, &set(&[("min_age", "1m")])).unwrap();
    assert!(fake.writes().last().is_some_and(|(path, _)| path.ends_with("commit_inputs")));

    // The kernel refuses the second of two, then the commit.
    for refused in ["parameters/quota_sz", "parameters/commit_inputs"] {
        fake.refuses(refused, "", libc::EINVAL);
        let err = reclaim.set(&root, &set(&[("min_age", "2m"), ("quota_sz", "1M")])).unwrap_err();
        assert_eq!(err.kind(), DamonKind::Refused, "{err}");
        assert!(err.to_string().contains(refused), "{err}");
        fake.relents();
        assert_eq!(fake.parameter("reclaim", "min_age"), "60000000");
        assert_eq!(fake.parameter("reclaim", "quota_sz"), "67108864");
    }
}

#[test]
fn what_stat_measured() {
    let dir = tempfile::tempdir().unwrap();
    let fake = Fake::new(dir.path());
    let idle: Vec<String> = (0..=100).map(|p: i64| ((p - 10) * 100).to_string()).collect();
    let files = format!(
        "enabled=Y kdamond_pid=77 aggr_interval_us=100000 estimated_memory_bandwidth=1048576 \
         memory_idle_ms_percentiles={}",
        idle.join(",")
    );
    fake.module("stat", &files);
    let report = StatReport::read(&fake.root()).unwrap();
    assert!(report.enabled);
    assert_eq!((report.bandwidth, report.aggr_us), (1 << 20, Some(100_000)));
    assert_eq!(report.percentile(0), Some(-1000));
    assert_eq!(report.percentile(100), Some(9000));
    assert_eq!(report.percentile(101), None);
    assert_eq!((report.idle_for(5000), report.idle_for(i64::MAX)), (41, 0));
    std::fs::write(Module::Stat.dir(&fake.root()).join("memory_idle_ms_percentiles"), "1,x")
        .unwrap();
    assert_eq!(StatReport::read(&fake.root()).unwrap_err().kind(), DamonKind::Unreadable);
}
