//! Kdamonds of others, and of the dead.

use isotherm_damon::modules::Module;
use isotherm_damon::{DamonKind, Kdamond, Leftover, recover};

use crate::world::{Role, World, wait_for, watch};

/// Another program's kdamond, running in directory 0 of so many.
fn foreign(world: &World, nr: u32, pid: u32) {
    world.echo(&nr.to_string(), "nr_kdamonds");
    world.echo("1", "0/contexts/nr_contexts");
    world.echo("7000", "0/contexts/0/monitoring_attrs/intervals/sample_us");
    world.echo("1", "0/contexts/0/targets/nr_targets");
    world.echo(&pid.to_string(), "0/contexts/0/targets/0/pid_target");
    world.echo("on", "0/state");
}

fn end_foreign(world: &World) {
    world.echo("off", "0/state");
    world.echo("0", "nr_kdamonds");
}

pub(crate) fn foreign_stays_untouched(world: &World) {
    let target = Role::start("touch");
    foreign(world, 2, target.pid());
    let before = world.dump(0);
    let mut claim = world.claim(&watch(&[target.pid()])).unwrap();
    assert_eq!(claim.kdamond().index(), 1);
    claim.on().unwrap();
    let mut other = watch(&[target.pid()]);
    other.context.intervals.aggr_us = 200_000;
    claim.commit(&other).unwrap();
    // Now all are in use, and the kernel lets nobody add one.
    let err = world.claim(&other).unwrap_err();
    assert_eq!(err.kind(), DamonKind::NotOurs, "{err}");
    println!("  {}", err.to_string().replace('\n', "\n  "));
    let said = std::fs::write(world.root.kdamonds().join("nr_kdamonds"), "3").unwrap_err();
    assert_eq!(said.raw_os_error(), Some(libc::EBUSY), "the kernel's own word on it");
    claim.release().unwrap();
    assert_eq!(world.dump(0), before);
    assert_eq!(world.root.nr_kdamonds().unwrap(), 2);
    // Set up and off: not ours either.
    world.echo("off", "0/state");
    world.echo("1", "1/contexts/nr_contexts");
    let err = world.claim(&other).unwrap_err();
    assert_eq!(err.kind(), DamonKind::NotOurs, "{err}");
    assert_eq!(world.cat("0/contexts/0/monitoring_attrs/intervals/sample_us"), "7000");
    world.echo("0", "nr_kdamonds");
}

pub(crate) fn killed_is_cleaned_up(world: &World) {
    let target = Role::start("touch");
    foreign(world, 3, target.pid());
    let before = world.dump(0);
    for round in 0..5 {
        let run_dir = world.settings.run_dir.display();
        let mut owner = Role::start(&format!("claim {run_dir} {}", target.pid()));
        let (index, worker) = owner.said.split_once(' ').unwrap();
        let (index, worker): (u32, u32) = (index.parse().unwrap(), worker.parse().unwrap());
        assert_eq!(index, 1);
        // It is at work: nobody cleans that.
        let found = recover(&world.root, &world.settings).unwrap();
        assert!(matches!(found[..], [Leftover::InUse { .. }]), "{found:?}");
        std::thread::sleep(std::time::Duration::from_millis(37 * round));
        owner.child.kill().unwrap();
        owner.child.wait().unwrap();
        wait_for("its worker to be seen", || {
            Kdamond::new(&world.root, index).pid().unwrap() == Some(worker)
        });
        let found = recover(&world.root, &world.settings).unwrap();
        println!("  round {round}: {}", found[0]);
        let pid = owner.pid();
        let want = Leftover::Cleaned { index, owner: pid, worker: Some(worker) };
        assert_eq!(found, [want]);
        assert!(Kdamond::new(&world.root, index).is_untouched().unwrap());
        assert_eq!(recover(&world.root, &world.settings).unwrap(), []);
    }
    assert_eq!(world.dump(0), before);
    end_foreign(world);

    // With nothing of others there, the number of directories is put back, too.
    let run_dir = world.settings.run_dir.display();
    let mut owner = Role::start(&format!("claim {run_dir} {}", target.pid()));
    owner.child.kill().unwrap();
    owner.child.wait().unwrap();
    assert_eq!(world.root.nr_kdamonds().unwrap(), 3);
    let found = recover(&world.root, &world.settings).unwrap();
    assert!(matches!(found[..], [Leftover::Cleaned { .. }]), "{found:?}");
}

pub(crate) fn module_in_the_way(world: &World) {
    let Some(module) = Module::ALL.into_iter().rev().find(|m| m.is_present(&world.root)) else {
        println!("  skipped: this kernel has none of the modules");
        return;
    };
    let target = Role::start("touch");
    let enabled = module.dir(&world.root).join("enabled");
    std::fs::write(&enabled, "Y").unwrap();
    let err = world.claim(&watch(&[target.pid()])).unwrap_err();
    assert_eq!(err.kind(), DamonKind::ModuleInTheWay, "{err}");
    assert!(err.to_string().contains(module.title()), "{err}");
    std::fs::write(&enabled, "N").unwrap();
    wait_for("the module to be off", || !module.is_enabled(&world.root));
    // And when it starts between the claim and the start.
    let mut claim = world.claim(&watch(&[target.pid()])).unwrap();
    std::fs::write(&enabled, "Y").unwrap();
    let err = claim.on().unwrap_err();
    assert_eq!(err.kind(), DamonKind::ModuleInTheWay, "{err}");
    std::fs::write(&enabled, "N").unwrap();
    wait_for("the module to be off", || !module.is_enabled(&world.root));
    claim.on().unwrap();
    // The other way round.
    let said = std::fs::write(&enabled, "Y").unwrap_err();
    assert_eq!(said.raw_os_error(), Some(libc::EBUSY));
    claim.release().unwrap();
}
