//! Which kdamond belongs to whom: claiming, giving back, and cleaning up after a kill.

use std::sync::Arc;

use tempfile::TempDir;

use super::fake::{BOOT, Fake};
use super::simple;
use crate::owned::note::{Note, Phase, Who, file_list, notes};
use crate::{
    Claim, Command, DamonError, DamonKind, Kdamond, Leftover, Root, Settings, entries, recover,
};

struct World {
    dir: TempDir,
    fake: Arc<Fake>,
    root: Root,
    settings: Settings,
}

fn world() -> World {
    let dir = tempfile::tempdir().unwrap();
    let fake = Fake::new(dir.path());
    fake.process(7, 1);
    fake.process(8, 1);
    let settings = Settings { run_dir: dir.path().join("run"), spare: 2, take_idle: false };
    World { root: fake.root(), fake, settings, dir }
}

impl World {
    fn claim(&self) -> Result<Claim, DamonError> {
        Claim::set_up(&self.root, &simple(7), &self.settings)
    }

    fn nr(&self) -> u32 {
        self.root.nr_kdamonds().unwrap()
    }

    /// Another program sets up a kdamond, and starts it if `on`.
    fn foreign(&self, index: u32, on: bool) {
        self.fake.echo("1", &format!("{index}/contexts/nr_contexts"));
        self.fake.echo("paddr", &format!("{index}/contexts/0/operations"));
        if on {
            self.fake.echo("on", &format!("{index}/state"));
        }
    }

    /// Kills the claim's owner: no destructor runs, and its process is gone.
    fn kill_owner(&self, claim: Claim) {
        let index = claim.kdamond().index();
        std::mem::forget(claim);
        let mut note = self.note(index);
        note.owner = Who { pid: 4242, start: 1 };
        note.save(&self.settings.run_dir).unwrap();
    }

    fn note(&self, index: u32) -> Note {
        let all = notes(&self.settings.run_dir).unwrap();
        all.into_iter().find_map(|(i, note)| note.filter(|_| i == index)).unwrap()
    }
}

#[test]
fn claims_make_directories_and_give_everything_back() {
    let w = world();
    let mut first = w.claim().unwrap();
    assert_eq!((first.kdamond().index(), w.nr()), (0, 3), "one, and two to spare");
    let worker = first.on().unwrap();
    assert!(first.is_running().unwrap());
    assert_eq!(first.worker(), Some(worker));
    // The kernel makes no more directories now. The spare ones are for this case.
    let mut second = w.claim().unwrap();
    second.on().unwrap();
    assert_eq!(second.kdamond().index(), 1);
    assert_eq!(first.recovered(), []);
    assert!(matches!(second.recovered(), [Leftover::InUse { index: 0, .. }]));
    first.release().unwrap();
    assert!(Kdamond::new(&w.root, 0).is_untouched().unwrap());
    assert_eq!(w.nr(), 3, "the second one is still there");
    drop(second);
    assert_eq!(w.nr(), 0);
    assert_eq!(notes(&w.settings.run_dir).unwrap(), []);
}

#[test]
fn what_others_set_up_is_never_touched() {
    // Configured, off.
    let w = world();
    w.fake.echo("1", "nr_kdamonds");
    w.foreign(0, false);
    w.fake.writes();
    let err = w.claim().unwrap_err();
    assert_eq!(err.kind(), DamonKind::NotOurs);
    assert!(err.to_string().contains("--take-idle-kdamonds"), "{err}");
    assert_eq!(w.fake.writes(), []);

    // Running.
    w.fake.echo("on", "0/state");
    w.fake.writes();
    for take_idle in [false, true] {
        let settings = Settings { take_idle, ..w.settings.clone() };
        let err = Claim::set_up(&w.root, &simple(7), &settings).unwrap_err();
        assert_eq!(err.kind(), DamonKind::NotOurs);
        assert!(err.to_string().contains("kdamond 0 (thread 1001) runs"), "{err}");
        assert_eq!(w.fake.writes(), []);
    }

    // Idle ones go only if the user says so.
    w.fake.echo("off", "0/state");
    let settings = Settings { take_idle: true, ..w.settings.clone() };
    let claim = Claim::set_up(&w.root, &simple(7), &settings).unwrap();
    assert_eq!(w.nr(), 3);
    claim.release().unwrap();
    assert_eq!(w.nr(), 1);
}

#[test]
fn a_directory_that_nobody_set_up_is_used_beside_a_running_one() {
    let w = world();
    w.fake.echo("3", "nr_kdamonds");
    w.foreign(0, true);
    w.foreign(1, false);
    let foreign = || {
        (
            Kdamond::new(&w.root, 0).pid().unwrap(),
            Kdamond::new(&w.root, 0).read().unwrap(),
            Kdamond::new(&w.root, 1).read().unwrap(),
        )
    };
    let before = foreign();
    w.fake.writes();
    let mut claim = w.claim().unwrap();
    claim.on().unwrap();
    assert_eq!(claim.kdamond().index(), 2);
    claim.release().unwrap();
    assert!(w.fake.writes().iter().all(|(path, _)| path.starts_with("2/")));
    assert_eq!(foreign(), before);
    assert_eq!(w.nr(), 3);
}

#[test]
fn directories_that_others_use_by_now_stay() {
    let w = world();
    let mut claim = w.claim().unwrap();
    claim.on().unwrap();
    w.foreign(2, false);
    claim.release().unwrap();
    assert_eq!(w.nr(), 3);
    assert!(!Kdamond::new(&w.root, 2).is_untouched().unwrap());
}

#[test]
fn a_kdamond_that_another_program_took_over_is_left_to_it() {
    let w = world();
    let mut claim = w.claim().unwrap();
    claim.on().unwrap();
    w.fake.echo("off", "0/state");
    w.fake.echo("on", "0/state");
    w.fake.writes();
    assert_eq!(claim.is_running().unwrap_err().kind(), DamonKind::NotOurs);
    assert_eq!(claim.commit(&simple(8)).unwrap_err().kind(), DamonKind::NotOurs);
    assert_eq!(claim.release().unwrap_err().kind(), DamonKind::NotOurs);
    assert_eq!(w.fake.writes(), []);
    assert_eq!(notes(&w.settings.run_dir).unwrap(), [], "it is not ours to clean later either");

    // Removed altogether.
    let w = world();
    let claim = w.claim().unwrap();
    w.fake.echo("0", "nr_kdamonds");
    w.fake.writes();
    let err = claim.release().unwrap_err();
    assert!(err.to_string().contains("another program wrote nr_kdamonds"), "{err}");
    assert_eq!(w.fake.writes(), []);
}

#[test]
fn a_module_that_runs_alone_is_named() {
    let w = world();
    w.fake.module("stat", "enabled=Y kdamond_pid=77");
    let err = w.claim().unwrap_err();
    assert_eq!(err.kind(), DamonKind::ModuleInTheWay);
    assert!(err.to_string().contains("isotherm kernel-module disable stat"), "{err}");
    assert_eq!(w.nr(), 0);
}

#[test]
fn a_refused_configuration_leaves_nothing() {
    let w = world();
    w.fake.refuses("nr_regions/min", "", libc::EINVAL);
    let mut config = simple(7);
    config.context.nr_regions.min = 5;
    let err = Claim::set_up(&w.root, &config, &w.settings).unwrap_err();
    assert_eq!(err.kind(), DamonKind::Refused);
    assert_eq!(w.nr(), 0);
    assert_eq!(notes(&w.settings.run_dir).unwrap(), []);
}

#[test]
fn after_a_kill_the_next_one_cleans_only_what_is_ours() {
    let w = world();
    w.fake.echo("2", "nr_kdamonds");
    w.foreign(0, true);
    let mut claim = w.claim().unwrap();
    let worker = claim.on().unwrap();
    w.kill_owner(claim);
    let foreign = Kdamond::new(&w.root, 0).read().unwrap();
    w.fake.writes();
    let next = w.claim().unwrap();
    assert_eq!(
        next.recovered(),
        [Leftover::Cleaned { index: 1, owner: 4242, worker: Some(worker) }]
    );
    assert_eq!(Kdamond::new(&w.root, 0).read().unwrap(), foreign);
    assert!(w.fake.writes().iter().all(|(path, _)| path.starts_with("1/")));
    drop(next);
    assert!(Kdamond::new(&w.root, 0).is_on().unwrap());
}

/// Kills the owner at every write that the kernel sees while a claim is set up, turned on and
/// changed. Nothing of the claim may be left afterwards, whatever the moment.
#[test]
fn killed_at_any_moment_nothing_is_left() {
    let files = |config| file_list(&entries::entries(&config, entries::FilterDirs::Layers));
    let mut moments = 0;
    for stage in ["writing", "ready", "started", "running", "changing"] {
        for cut in 0..200 {
            let w = world();
            let mut claim = w.claim().unwrap();
            let index = claim.kdamond().index();
            let mut other = simple(7);
            other.context.intervals.aggr_us = 300_000;
            other.context.schemes.push(other.context.schemes[0].clone());
            match stage {
                "running" => drop(claim.on().unwrap()),
                "changing" => {
                    claim.on().unwrap();
                    w.fake.writes();
                    claim.commit(&other).unwrap();
                }
                "started" => claim.kdamond().command(Command::On).unwrap(),
                _ => {}
            }
            let writes = w.fake.writes();
            w.kill_owner(claim);
            let mut note = w.note(index);
            // Bring the kernel back to the moment of the cut, by doing the first writes again.
            if matches!(stage, "writing" | "changing") {
                if cut > writes.len() {
                    break;
                }
                let handle = Kdamond::new(&w.root, index);
                let was = if stage == "writing" {
                    w.fake.echo("0", "0/contexts/nr_contexts");
                    note.phase = Phase::Writing;
                    None
                } else {
                    note.phase = Phase::Changing;
                    note.next = files(other.clone());
                    note.files = files(simple(7));
                    w.fake.echo("0", "0/contexts/nr_contexts");
                    Some(handle.write(&simple(7), None).unwrap())
                };
                drop(was);
                for (path, value) in
                    writes.iter().filter(|(path, _)| path.starts_with("0/context")).take(cut)
                {
                    w.fake.echo(value, path);
                }
            } else if cut > 0 {
                break;
            }
            note.save(&w.settings.run_dir).unwrap();
            let found = recover(&w.root, &w.settings).unwrap();
            assert!(
                matches!(found[..], [Leftover::Cleaned { .. } | Leftover::Gone { .. }]),
                "{stage} {cut}: {found:?}"
            );
            assert_eq!(w.nr(), 0, "{stage} {cut}");
            assert_eq!(notes(&w.settings.run_dir).unwrap(), [], "{stage} {cut}");
            moments += 1;
        }
    }
    assert!(moments > 20, "only {moments} moments");
}

#[test]
fn what_cannot_be_proved_ours_stays_and_is_named() {
    // Somebody changed a file since.
    let w = world();
    let mut claim = w.claim().unwrap();
    claim.on().unwrap();
    w.kill_owner(claim);
    w.fake.echo("77777", "0/contexts/0/monitoring_attrs/intervals/aggr_us");
    w.fake.writes();
    let found = recover(&w.root, &w.settings).unwrap();
    let [Leftover::Left { index: 0, why }] = &found[..] else { panic!("{found:?}") };
    assert!(why.contains("aggr_us says `77777`"), "{why}");
    assert_eq!(w.fake.writes(), []);
    assert!(Kdamond::new(&w.root, 0).is_on().unwrap());
    // And the next claim takes another directory, without touching this one.
    let next = w.claim().unwrap();
    assert_eq!(next.kdamond().index(), 1);
    drop(next);
    assert!(Kdamond::new(&w.root, 0).is_on().unwrap());

    // Somebody started another thread there, or another thread has the same pid.
    for restart in [true, false] {
        let w = world();
        let mut claim = w.claim().unwrap();
        let worker = claim.on().unwrap();
        w.kill_owner(claim);
        if restart {
            w.fake.echo("off", "0/state");
            w.fake.echo("on", "0/state");
        } else {
            w.fake.process(worker, 1);
        }
        w.fake.writes();
        let found = recover(&w.root, &w.settings).unwrap();
        assert!(matches!(found[..], [Leftover::Left { .. }]), "{found:?}");
        assert_eq!(w.fake.writes(), []);
    }

    // A note that cannot be read.
    let w = world();
    std::fs::create_dir_all(&w.settings.run_dir).unwrap();
    std::fs::write(w.settings.run_dir.join("kdamond-0"), "isotherm kdamond 1\nboot").unwrap();
    let found = recover(&w.root, &w.settings).unwrap();
    assert!(matches!(found[..], [Leftover::Left { index: 0, .. }]), "{found:?}");
}

#[test]
fn notes_of_an_earlier_boot_or_of_a_living_owner_change_nothing() {
    let w = world();
    let mut claim = w.claim().unwrap();
    claim.on().unwrap();
    w.fake.writes();
    let found = recover(&w.root, &w.settings).unwrap();
    assert!(matches!(found[..], [Leftover::InUse { index: 0, .. }]), "{found:?}");
    w.kill_owner(claim);
    let mut note = w.note(0);
    assert_eq!(note.boot, BOOT);
    note.boot = "another".into();
    note.save(&w.settings.run_dir).unwrap();
    assert_eq!(recover(&w.root, &w.settings).unwrap(), [Leftover::Gone { index: 0 }]);
    assert_eq!(w.fake.writes(), []);
    assert_eq!(recover(&w.root, &w.settings).unwrap(), []);
}

#[test]
fn without_a_place_for_notes_the_kernel_is_not_touched() {
    let w = world();
    let settings = Settings {
        run_dir: w.dir.path().join("admin/kdamonds/nr_kdamonds/x"),
        ..w.settings.clone()
    };
    let err = Claim::set_up(&w.root, &simple(7), &settings).unwrap_err();
    assert!(err.to_string().contains("written down there first"), "{err}");
    assert_eq!(w.fake.writes(), []);
}
