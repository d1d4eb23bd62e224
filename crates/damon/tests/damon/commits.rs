//! Changing a real kdamond while it runs.

use isotherm_core::scheme::Action;
use isotherm_damon::model::{Filter, FilterKind, Goal, Scheme};
use isotherm_damon::{Command, DamonKind, Feature};
use isotherm_host::Version;

use crate::world::{Role, World, wait_for, watch};

pub(crate) fn commit_changes_what_runs(world: &World) {
    let target = Role::start("touch");
    let mut config = watch(&[target.pid()]);
    config.context.intervals.aggr_us = 50_000;
    let mut claim = world.running(&config);
    let worker = claim.worker();
    let mut regions = Vec::new();
    // The bound on the number of regions shows what the kernel works with. No region is larger than
    // a third of the memory then, and two neighbours that are together are never merged: three
    // areas of which one is large can be eight regions that stay.
    config.context.nr_regions.max = 9;
    config.context.nr_regions.min = 3;
    config.context.intervals.update_us = 100_000;
    let second = Scheme { action: Action::Stat, ..config.context.schemes[0].clone() };
    config.context.schemes.push(second);
    claim.commit(&config).unwrap();
    // Older kernels take over a lower bound and may never get down to it (R§9.6).
    let strict = Version::parse(&world.root.release()).unwrap() >= Version::new(7, 0);
    wait_for("few regions", || {
        claim.kdamond().command(Command::UpdateTriedRegions).unwrap();
        claim.kdamond().tried_regions(0, &mut regions).unwrap();
        !regions.is_empty() && (!strict || regions.len() <= 9)
    });
    claim.kdamond().tried_regions(1, &mut regions).unwrap();
    assert!(!regions.is_empty(), "the second scheme is at work");
    // The same again changes nothing, and goals go alone.
    let before = world.dump(claim.kdamond().index());
    claim.commit(&config).unwrap();
    assert_eq!(world.dump(claim.kdamond().index()), before);
    let goal = Goal { target_value: 10_000, current_value: 1, ..Goal::default() };
    config.context.schemes[0].quota.goals.push(goal);
    config.context.schemes[0].quota.reset_interval_ms = 50;
    claim.commit(&config).unwrap();
    let grows = world.quota_comes(&claim, |esz| esz > 1000);
    config.context.schemes[0].quota.goals[0].current_value = 20_000;
    claim.commit_goals(&config).unwrap();
    if grows {
        assert!(world.quota_comes(&claim, |esz| esz <= 1), "it shrinks to the least");
    }
    assert_eq!(claim.worker(), worker, "all of that without a restart");
    assert!(claim.is_running().unwrap());
    claim.release().unwrap();
}

pub(crate) fn refused_commit_changes_nothing(world: &World) {
    let target = Role::start("touch");
    let config = watch(&[target.pid()]);
    let mut claim = world.running(&config);
    let index = claim.kdamond().index();
    let before = world.dump(index);
    let mut wrong = config.clone();
    wrong.context.intervals.aggr_us = 1000;
    let err = claim.commit(&wrong).unwrap_err();
    assert_eq!(err.kind(), DamonKind::Refused, "{err}");
    assert_eq!(world.dump(index), before);
    assert!(claim.is_running().unwrap());
    // A cgroup that is not there: told by us if cgroups are mounted, else found out from what the
    // kernel does.
    let mut wrong = config.clone();
    let filter = Filter { kind: FilterKind::Memcg("/no/such/group".into()), ..Filter::default() };
    wrong.context.schemes[0].ops_filters.push(filter);
    let err = claim.commit(&wrong).unwrap_err();
    println!("  cgroup: {:?}, errno {:?}", err.kind(), err.errno());
    assert!(matches!(err.kind(), DamonKind::Refused | DamonKind::NotRunning), "{err}");
    if err.kind() == DamonKind::NotRunning {
        claim.on().unwrap();
    }
    assert!(claim.is_running().unwrap());
    // What the kernel itself says to a bad commit, and does then.
    world.echo("1000", &format!("{index}/contexts/0/monitoring_attrs/intervals/aggr_us"));
    let said = claim.kdamond().command(Command::Commit);
    // A worker that survives the commit answers the next command; one that does not is gone soon.
    wait_for("what becomes of the worker", || {
        let kdamond = claim.kdamond();
        kdamond.command(Command::UpdateStats).is_ok() || kdamond.pid().unwrap().is_none()
    });
    let runs = claim.kdamond().pid().unwrap().is_some();
    println!(
        "  the kernel's own word: {:?}; it runs on: {runs}",
        said.as_ref().map_err(|e| e.errno())
    );
    let tells = Version::parse(&world.root.release()).unwrap() >= Version::new(7, 0);
    if tells {
        assert!(said.is_err() && runs);
    }
    claim.release().unwrap();
}

pub(crate) fn target_in_the_middle_goes(world: &World) {
    let marks = world.features().has(Feature::ObsoleteTarget).is_likely();
    let roles: Vec<_> = (0..3).map(|_| Role::start("touch")).collect();
    let pids: Vec<_> = roles.iter().map(Role::pid).collect();
    let mut claim = world.running(&watch(&pids));
    claim.commit(&watch(&[pids[0], pids[2]])).unwrap();
    assert_eq!(world.cat("0/contexts/0/targets/nr_targets"), "2");
    // What is left is monitored: regions cover the hot ranges of both, and only of those.
    let mut regions = Vec::new();
    wait_for("regions over both", || {
        claim.kdamond().command(Command::UpdateTriedRegions).unwrap();
        claim.kdamond().tried_regions(0, &mut regions).unwrap();
        let covers = |role: &Role| regions.iter().any(|r| r.range.intersects(&role.range()));
        covers(&roles[0]) && covers(&roles[2])
    });
    assert!(claim.is_running().unwrap());
    // The first one goes too: by mark where there are marks, else it is refused with the reason.
    let done = claim.commit(&watch(&[pids[2]]));
    assert_eq!(done.is_ok(), marks, "{done:?}");
    if let Err(err) = done {
        assert_eq!(err.kind(), DamonKind::NotInTheKernel);
    }
    assert!(claim.is_running().unwrap());
    claim.release().unwrap();
}

/// The usual reason for a target to go: its process has ended. A new one comes in the same commit.
pub(crate) fn ended_target_in_the_middle_goes(world: &World) {
    let mut roles: Vec<_> = (0..3).map(|_| Role::start("touch")).collect();
    let pids: Vec<_> = roles.iter().map(Role::pid).collect();
    let mut claim = world.running(&watch(&pids));
    drop(roles.remove(1));
    let new = Role::start("touch");
    claim.commit(&watch(&[pids[0], pids[2], new.pid()])).unwrap();
    assert_eq!(world.cat("0/contexts/0/targets/nr_targets"), "3");
    let mut regions = Vec::new();
    roles.push(new);
    let mut told = Vec::new();
    wait_for("regions over all three", || {
        claim.kdamond().command(Command::UpdateTriedRegions).unwrap();
        claim.kdamond().tried_regions(0, &mut regions).unwrap();
        let is_missing = |role: &&Role| !regions.iter().any(|r| r.range.intersects(&role.range()));
        let missing: Vec<_> = roles.iter().filter(is_missing).map(Role::pid).collect();
        if missing != told {
            eprintln!("{} regions, none over {missing:?}", regions.len());
            told.clone_from(&missing);
        }
        missing.is_empty()
    });
    claim.release().unwrap();
}

pub(crate) fn ends_with_its_last_target(world: &World) {
    let target = Role::start("touch");
    let config = watch(&[target.pid()]);
    let mut claim = world.running(&config);
    drop(target);
    wait_for("the kdamond to end by itself", || !claim.is_running().unwrap());
    let err = claim.commit(&config).unwrap_err();
    assert_eq!(err.kind(), DamonKind::NotRunning, "{err}");
    let err = claim.kdamond().command(Command::UpdateTriedRegions).unwrap_err();
    assert_eq!(err.kind(), DamonKind::NotRunning, "{err}");
    claim.release().unwrap();
}
