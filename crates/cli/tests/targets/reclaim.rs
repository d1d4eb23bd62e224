//! Reclaim from the targets' own cgroups, where version 2 has the memory controller
//! (`lab/run --kernel debian13 --flush`).

use std::fs;
use std::path::{Path, PathBuf};

use isotherm::raw::host::metrics::Cgroups;
use isotherm::raw::host::proc::Proc;
use isotherm::raw::host::zram::Zram;

use crate::program::{ISOTHERM, Running, command, scratch, wait_until};

const M: u64 = 1 << 20;

/// 96 MiB, of which 16 are in use.
const WORKLOAD: &str = "@seed=1\nm, 100663296, none, thp=off, populate=yes, mapped=100663296\n\n\
                        steady\n600000\nm, 1, 64, 1, rw, offset=0, length=16777216\n";

/// A cgroup below that of this test; it is removed when no process is in it.
struct Group(PathBuf);

impl Group {
    /// `None`, printed, where there is none with a memory controller.
    fn make() -> Option<Self> {
        let skipped = |why: &str| eprintln!("skipped: {why}");
        let own = fs::read_to_string("/proc/self/cgroup").unwrap();
        let own = own.lines().find_map(|line| line.strip_prefix("0::/"));
        let Some((mount, own)) = Cgroups::mounted(&Proc::default()).v2.zip(own) else {
            skipped("no cgroup v2");
            return None;
        };
        let dir = mount.join(own).join(format!("isotherm-reclaim-{}", std::process::id()));
        if let Err(err) = fs::create_dir(&dir) {
            skipped(&format!("no cgroup can be made: {err}"));
            return None;
        }
        let group = Self(dir);
        if !group.0.join("memory.reclaim").exists() {
            skipped("no memory.reclaim in a cgroup of version 2 here");
            return None;
        }
        Some(group)
    }

    fn bytes(&self) -> u64 {
        fs::read_to_string(self.0.join("memory.current")).unwrap().trim().parse().unwrap()
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        // The kernel lets go of a process a moment after its end.
        for _ in 0..1000 {
            if fs::remove_dir(&self.0).is_ok() || !self.0.exists() {
                break;
            }
            std::thread::yield_now();
        }
    }
}

fn said(dir: &Path) -> String {
    let read = |name: &str| fs::read_to_string(dir.join(name)).unwrap_or_default();
    read("said") + &read("events")
}

#[test]
fn cold_memory_goes_and_the_monitor_does_not_take_that_for_pressure() {
    let Some(group) = Group::make() else { return };
    let _swap = match Zram::set_up(256 * M) {
        Ok(swap) => swap,
        Err(err) if err.is_missing() => return eprintln!("skipped: {err}"),
        Err(err) => panic!("{err}"),
    };
    let dir = scratch();
    let put = |name: &str, text: &str| fs::write(dir.path().join(name), text).unwrap();
    put("workload", WORKLOAD);
    put(
        "policy.toml",
        &format!(
            "[[context]]\nname = 'own'\ntargets = ['cgroup:{}']\nchildren = false\nbudget = '20%'\n\
             [context.intervals]\nsample = '50ms'\naggregation = '500ms'\nupdate = '1s'\n\
             [[context.scheme]]\nname = 'cold'\naction = 'pageout'\nfrequency = '0%'\nage = '3s..'\n\
             memory_reclaim = {{ from = 'own', pressure = 'none', refaults = 'none' }}\n\
             evidence = {{ confirm = '1s', time = '100ms' }}\nrefault_window = '5s'\nbrake = 'off'\n\
             quota = {{ size = '16M', interval = '1s', goals = [\n\
             {{ metric = 'cgroup_workingset_refault_bytes', cgroup = '{}', target = '1G' }} ] }}\n",
            group.0.display(),
            group.0.display()
        ),
    );
    let mut workload = command(ISOTHERM, dir.path(), &["workload", "workload", "--quiet"]);
    workload.stdout(fs::File::create(dir.path().join("out")).unwrap());
    let workload = Running::start(workload);
    // Before it has its memory, so that all of that is charged to the cgroup.
    fs::write(group.0.join("cgroup.procs"), workload.pid().to_string()).unwrap();
    wait_until("the memory", || group.bytes() > 90 * M);
    let args = ["run", "policy.toml", "--events", "events"];
    let mut run = command(ISOTHERM, dir.path(), &args);
    run.stderr(fs::File::create(dir.path().join("said")).unwrap());
    let run = Running::start(run);
    wait_until("a third of the memory to go", || group.bytes() < 60 * M);
    let told = said(dir.path());
    assert!(told.contains("\"acted\""), "{told}");
    assert!(!told.contains("is reclaiming memory"), "it was we: {told}");
    // The kernel's own reclaim is still told.
    let limit = group.0.join("memory.max");
    let is_told = || {
        // Again and again, as long as there is something to take and nobody has looked.
        fs::write(&limit, group.bytes().saturating_sub(4 * M).max(8 * M).to_string()).unwrap();
        fs::write(&limit, "max").unwrap();
        said(dir.path()).contains("is reclaiming memory")
    };
    wait_until("the kernel's own reclaim to be told", is_told);
    run.signal("TERM");
    run.finish();
    drop(workload);
}
