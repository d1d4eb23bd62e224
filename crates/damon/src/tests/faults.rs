//! Commands and commits that fail, and what is left after that.

use std::sync::Arc;

use isotherm_core::AddrRange;
use tempfile::TempDir;

use super::fake::Fake;
use super::simple;
use crate::config::model::{Config, Goal, Target};
use crate::{Claim, Command, DamonKind, Kdamond, Settings};

fn claimed(config: &Config) -> (TempDir, Arc<Fake>, Claim) {
    let dir = tempfile::tempdir().unwrap();
    let fake = Fake::new(dir.path());
    let settings = Settings { run_dir: dir.path().join("run"), spare: 0, take_idle: false };
    for pid in 7..=9 {
        fake.process(pid, 1);
    }
    let mut claim = Claim::set_up(&fake.root(), config, &settings).unwrap();
    claim.on().unwrap();
    fake.writes();
    (dir, fake, claim)
}

const AGGR: &str = "contexts/0/monitoring_attrs/intervals/aggr_us";

fn with_aggr(aggr_us: u64) -> Config {
    let mut config = simple(7);
    config.context.intervals.aggr_us = aggr_us;
    config
}

#[test]
fn a_commit_reaches_the_kdamond() {
    let (_dir, fake, mut claim) = claimed(&simple(7));
    claim.commit(&with_aggr(200_000)).unwrap();
    assert_eq!(fake.told(0, AGGR).as_deref(), Some("200000"));
    assert_eq!(claim.config(), &with_aggr(200_000));
}

#[test]
fn a_refused_commit_puts_the_files_back_and_goes_on() {
    let (_dir, fake, mut claim) = claimed(&simple(7));
    // A change that is known to be refused never reaches the kernel: older ones would end the
    // kdamond.
    let mut config = with_aggr(3000);
    config.context.nr_regions.min = 2;
    let err = claim.commit(&config).unwrap_err();
    assert_eq!(err.kind(), DamonKind::Refused, "{err}");
    let text = err.to_string();
    assert!(text.contains("above the aggregation interval"), "{text}");
    assert!(text.contains("fewer than 3 regions"), "{text}");
    assert_eq!(fake.writes(), []);
    // What only the kernel knows is taken back.
    fake.refuses("0/state", "commit", libc::EINVAL);
    let err = claim.commit(&with_aggr(200_000)).unwrap_err();
    assert_eq!(err.kind(), DamonKind::Refused, "{err}");
    assert!(err.to_string().contains("cannot be seen in the files"), "{err}");
    assert_eq!(fake.cat(&format!("0/{AGGR}")), "100000");
    assert_eq!(claim.config(), &simple(7));
    fake.relents();
    assert!(claim.is_running().unwrap());
    claim.commit(&with_aggr(200_000)).unwrap();
    assert_eq!(fake.told(0, AGGR).as_deref(), Some("200000"));
}

#[test]
fn a_kdamond_that_ended_is_said_to_have_ended() {
    let (_dir, fake, mut claim) = claimed(&simple(7));
    fake.kdamond_dies(0);
    assert!(!claim.is_running().unwrap());
    assert_eq!(claim.commit(&with_aggr(200_000)).unwrap_err().kind(), DamonKind::NotRunning);
    for command in [Command::UpdateStats, Command::UpdateTriedRegions, Command::Off] {
        let err = claim.kdamond().command(command).unwrap_err();
        assert_eq!(err.kind(), DamonKind::NotRunning, "{err}");
    }
    // Turning off what does not run is no error, and it can be started again.
    claim.off().unwrap();
    claim.on().unwrap();
    assert!(claim.is_running().unwrap());
    claim.release().unwrap();
}

#[test]
fn each_refusal_of_a_command_is_explained() {
    let (_dir, fake, claim) = claimed(&simple(7));
    let kdamond = Kdamond::new(&fake.impatient(), 0);
    let rows = [
        (Command::On, None, DamonKind::Running, "runs already"),
        (Command::UpdateStats, Some(libc::EBUSY), DamonKind::Busy, "another program"),
        (
            Command::UpdateTriedRegions,
            Some(libc::ECANCELED),
            DamonKind::NothingToWalk,
            "watermarks",
        ),
        (
            Command::UpdateTunedIntervals,
            Some(libc::EINVAL),
            DamonKind::OlderKernel,
            "older than 6.15",
        ),
        (Command::UpdateTriedBytes, Some(libc::EINVAL), DamonKind::OlderKernel, "older than 6.6"),
        (Command::Commit, Some(libc::ENOMEM), DamonKind::Refused, "a cgroup that is not there"),
        (Command::Off, Some(libc::EACCES), DamonKind::Permission, "run as root"),
    ];
    for (command, errno, kind, says) in rows {
        fake.relents();
        if let Some(errno) = errno {
            fake.refuses("0/state", command.name(), errno);
        }
        let err = kdamond.command(command).unwrap_err();
        assert_eq!(err.kind(), kind, "{command:?}: {err}");
        let text = err.to_string();
        for part in [says, command.name(), "kdamonds/0/state"] {
            assert!(text.contains(part), "{part} is not in: {text}");
        }
    }
    fake.relents();
    fake.is_busy(6);
    claim.kdamond().command(Command::UpdateStats).unwrap();
}

#[test]
fn a_target_in_the_middle_is_removed_by_mark_and_the_files_follow() {
    let mut config = simple(7);
    for pid in [8, 9] {
        config.context.targets.push(Target { pid, ..Target::default() });
    }
    let (_dir, fake, mut claim) = claimed(&config);
    config.context.targets.remove(1);
    claim.commit(&config).unwrap();
    // The kernel was told that the second of three targets is obsolete. The files now hold two
    // targets.
    assert_eq!(fake.told(0, "contexts/0/targets/1/obsolete_target").as_deref(), Some("Y"));
    // The process may have ended, and the kernel wants one that has not.
    assert_eq!(fake.told(0, "contexts/0/targets/1/pid_target").as_deref(), Some("1"));
    assert_eq!(fake.told(0, "contexts/0/targets/2/pid_target").as_deref(), Some("9"));
    assert_eq!(fake.cat("0/contexts/0/targets/nr_targets"), "2");
    assert_eq!(fake.cat("0/contexts/0/targets/1/pid_target"), "9");
    claim.commit(&with_aggr(200_000)).unwrap();
    assert_eq!(fake.told(0, "contexts/0/targets/nr_targets").as_deref(), Some("1"));
}

#[test]
fn on_an_older_kernel_the_targets_behind_begin_anew() {
    let dir = tempfile::tempdir().unwrap();
    let fake = Fake::new(dir.path());
    fake.lacks("obsolete_target");
    for pid in 7..=9 {
        fake.process(pid, 1);
    }
    let settings = Settings { run_dir: dir.path().join("run"), spare: 0, take_idle: false };
    let mut config = simple(7);
    config.context.targets.push(Target { pid: 8, ..Target::default() });
    config.context.targets.push(Target { pid: 9, ..Target::default() });
    let mut claim = Claim::set_up(&fake.root(), &config, &settings).unwrap();
    claim.on().unwrap();
    fake.writes();
    config.context.targets.remove(1);
    claim.commit(&config).unwrap();
    let commits = fake.writes().iter().filter(|(_, value)| value == "commit").count();
    assert_eq!(commits, 2, "first without both, then with the last one again");
    // A kdamond without any target would end. So that is refused, and nothing changes.
    config.context.targets.remove(0);
    assert_eq!(claim.commit(&config).unwrap_err().kind(), DamonKind::NotInTheKernel);
    assert!(claim.is_running().unwrap());
}

#[test]
fn a_commit_does_not_undo_what_the_kernel_found() {
    let mut config = simple(7);
    let goal = &mut config.context.intervals.goal;
    (goal.aggrs, goal.min_sample_us, goal.max_sample_us) = (3, 5000, 10_000_000);
    config.context.targets[0].regions = vec![AddrRange::new(4096, 8192)];
    let (_dir, fake, mut claim) = claimed(&config);
    // The kernel tunes; the command makes the files say so.
    fake.echo("7000", "0/contexts/0/monitoring_attrs/intervals/sample_us");
    fake.echo("140000", &format!("0/{AGGR}"));
    let mut other = config.clone();
    other.context.schemes[0].quota.bytes = 4096;
    claim.commit(&other).unwrap();
    assert_eq!(fake.told(0, AGGR).as_deref(), Some("140000"));
    assert_eq!(fake.told(0, "contexts/0/targets/0/regions/nr_regions").as_deref(), Some("0"));
    // Unless it is asked for.
    other.context.intervals.aggr_us = 200_000;
    other.context.targets[0].regions = vec![AddrRange::new(4096, 16384)];
    claim.commit(&other).unwrap();
    assert_eq!(fake.told(0, AGGR).as_deref(), Some("200000"));
    assert_eq!(fake.told(0, "contexts/0/targets/0/regions/0/end").as_deref(), Some("16384"));
}

#[test]
fn goals_can_be_committed_alone() {
    let mut config = simple(7);
    config.context.schemes[0].quota.goals.push(Goal { target_value: 10_000, ..Goal::default() });
    let (_dir, fake, mut claim) = claimed(&config);
    config.context.schemes[0].quota.goals[0].current_value = 5000;
    config.context.intervals.aggr_us = 1;
    claim.commit_goals(&config).unwrap();
    let writes = fake.writes();
    assert_eq!(writes.last().map(|w| w.1.as_str()), Some("commit_schemes_quota_goals"));
    assert_eq!(fake.told(0, AGGR).as_deref(), Some("100000"), "only goals");
    let current = "contexts/0/schemes/0/quotas/goals/0/current_value";
    assert_eq!(fake.told(0, current).as_deref(), Some("5000"));
    claim.commit_goals(&config).unwrap();
    assert_eq!(fake.writes(), [], "the same goals are not committed again");
}

#[test]
fn results_read_back() {
    let (dir, fake, claim) = claimed(&simple(7));
    let scheme = dir.path().join("admin/kdamonds/0/contexts/0/schemes/0");
    for (file, value) in [
        ("stats/nr_tried", "3"),
        ("stats/sz_tried", "12288"),
        ("stats/nr_applied", "2"),
        ("stats/sz_applied", "8192"),
        ("stats/sz_ops_filter_passed", "4096"),
        ("stats/qt_exceeds", "1"),
        ("stats/nr_snapshots", "5"),
        ("quotas/effective_bytes", "777"),
        ("tried_regions/total_bytes", "12288"),
    ] {
        std::fs::write(scheme.join(file), format!("{value}\n")).unwrap();
    }
    // Directories come in any order, and 10 is behind 9.
    for index in [10u64, 0, 9] {
        let region = scheme.join(format!("tried_regions/{index}"));
        for probe in 0..2 {
            std::fs::create_dir_all(region.join(format!("probes/{probe}"))).unwrap();
            std::fs::write(region.join(format!("probes/{probe}/hits")), "9\n").unwrap();
        }
        let start = index * 4096;
        for (file, value) in [
            ("start", start),
            ("end", start + 4096),
            ("nr_accesses", index),
            ("age", 2 * index),
            ("sz_filter_passed", 4096),
        ] {
            std::fs::write(region.join(file), format!("{value}\n")).unwrap();
        }
    }
    let kdamond = claim.kdamond();
    let stats = kdamond.stats(0).unwrap();
    assert_eq!((stats.nr_tried, stats.sz_applied, stats.nr_snapshots), (3, 8192, 5));
    assert_eq!((stats.sz_ops_filter_passed, stats.qt_exceeds), (4096, 1));
    assert_eq!(kdamond.effective_bytes(0).unwrap(), Some(777));
    assert_eq!(kdamond.tried_bytes(0).unwrap(), Some(12288));
    let mut regions = Vec::new();
    kdamond.tried_regions(0, &mut regions).unwrap();
    assert_eq!(regions.len(), 3);
    assert_eq!(regions[2].range, AddrRange::new(40960, 45056));
    assert_eq!((regions[2].nr_accesses, regions[2].age), (10, 20));
    assert_eq!(regions[2].sz_filter_passed, Some(4096));
    assert_eq!((regions[2].nr_probes, &regions[2].probe_hits[..2]), (2, &[9, 9][..]));
    std::fs::write(scheme.join("tried_regions/9/age"), "old\n").unwrap();
    let err = kdamond.tried_regions(0, &mut regions).unwrap_err();
    assert_eq!(err.kind(), DamonKind::Unreadable);
    assert!(err.to_string().contains("`old`"), "{err}");
    assert_eq!(fake.writes(), []);
}

#[test]
fn without_the_interface_it_says_so() {
    let dir = tempfile::tempdir().unwrap();
    let root = crate::Root::at(dir.path());
    let settings = Settings { run_dir: dir.path().join("run"), spare: 0, take_idle: false };
    let err = Claim::set_up(&root, &simple(7), &settings).unwrap_err();
    assert_eq!(err.kind(), DamonKind::NotBuilt);
    assert!(err.to_string().contains("CONFIG_DAMON_SYSFS"), "{err}");
    assert!(!crate::Features::detect(&root).present);
}
