//! Metrics over made-up machines, and over this one.
#![expect(clippy::unwrap_used, reason = "helper functions of tests")]

use std::fs;
use std::process::{Command, Stdio};

use isotherm_core::scheme::{CgroupId, Metric};
use isotherm_host::Roots;
use isotherm_host::metrics::{MetricError, MetricKind, Metrics, cgroup};
use isotherm_host::proc::Proc;
use isotherm_ops::targets::find;

/// A made-up machine: files below a directory.
struct Machine {
    dir: tempfile::TempDir,
}

const PRESSURE: &str = "some avg10=0.00 avg60=0.00 avg300=0.00 total=1500\n\
                        full avg10=0.00 avg60=0.00 avg300=0.00 total=700\n";

impl Machine {
    /// Has two nodes with memory and one without, PSI, and cgroup v2 with all controllers.
    fn new() -> Self {
        let machine = Self { dir: tempfile::tempdir().unwrap() };
        machine.put("proc/cmdline", "quiet\n");
        machine.put("proc/pressure/memory", PRESSURE);
        let meminfo =
            "MemTotal: 1000003 kB\nMemFree: 123456 kB\nActive: 300 kB\nInactive: 700 kB\n";
        machine.put("proc/meminfo", meminfo);
        machine.mount("cgroup2", "v2", "rw");
        machine.put("v2/cgroup.controllers", "cpu memory\n");
        machine.put("v2/db/cgroup.controllers", "memory\n");
        machine.put("v2/db/memory.pressure", &PRESSURE.replace("1500", "31").replace("700", "17"));
        let nodes = "anon N0=9 N1=9\nactive_anon N0=4096 N1=0\ninactive_anon N0=8192 N1=0\n\
                     active_file N0=102400 N1=0\ninactive_file N0=0 N1=4096\n";
        machine.put("v2/db/memory.numa_stat", nodes);
        machine.put("v2/db/memory.stat", "workingset_refault_anon 2\nworkingset_refault_file 3\n");
        machine.put("proc/vmstat", "workingset_nodes 1\nworkingset_refault_anon 9\n");
        for (nr, total, free) in [(0, 1000, 250), (1, 3, 2), (2, 0, 0)] {
            let text = format!("Node {nr} MemTotal: {total} kB\nNode {nr} MemFree: {free} kB\n");
            machine.put(&format!("sys/devices/system/node/node{nr}/meminfo"), &text);
        }
        machine.put("sys/devices/system/node/online", "0-2\n");
        machine.put("sys/devices/system/node/has_memory", "0-1\n");
        machine
    }

    fn path(&self, file: &str) -> std::path::PathBuf {
        self.dir.path().join(file)
    }

    fn put(&self, file: &str, text: &str) {
        let path = self.path(file);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    fn remove(&self, file: &str) {
        fs::remove_file(self.path(file)).unwrap();
    }

    fn mount(&self, kind: &str, at: &str, options: &str) {
        let at = self.path(at);
        let mounts = fs::read_to_string(self.path("proc/self/mountinfo")).unwrap_or_default();
        let line = format!("41 31 0:38 / {} rw - {kind} {kind} {options}\n", at.display());
        self.put("proc/self/mountinfo", &(mounts + &line));
    }

    fn roots(&self) -> Roots {
        Roots { proc: Proc::new(self.path("proc")), sys: self.path("sys") }
    }

    fn read(&self, metric: Metric, cgroup: &str) -> Result<u64, MetricError> {
        Metrics::new(self.roots()).read(metric, &[cgroup.to_owned()])
    }
}

const DB: CgroupId = CgroupId(0);

#[test]
fn numbers_are_the_references() {
    let machine = Machine::new();
    for (metric, value) in [
        (Metric::SomeMemPsiUs, 1500),
        (Metric::FullMemPsiUs, 700),
        (Metric::CgroupSomeMemPsiUs(DB), 31),
        (Metric::CgroupFullMemPsiUs(DB), 17),
        (Metric::FreeMemRate, 123),
        (Metric::NodeMemUsedBp(0), 7500),
        (Metric::NodeMemFreeBp(0), 2500),
        (Metric::NodeMemUsedBp(1), 3333),
        (Metric::NodeMemFreeBp(1), 6666),
        // 114688 of 1024000 bytes.
        (Metric::NodeMemcgUsedBp(0, DB), 1120),
        (Metric::NodeMemcgFreeBp(0, DB), 8880),
        // 4096 bytes on a node of 3 KiB: free is never negative.
        (Metric::NodeMemcgUsedBp(1, DB), 13_333),
        (Metric::NodeMemcgFreeBp(1, DB), 0),
        (Metric::ActiveMemBp, 3000),
        (Metric::InactiveMemBp, 7000),
        (Metric::WorkingsetRefaultBytes, 9 << 12),
        (Metric::CgroupWorkingsetRefaultBytes(DB), 5 << 12),
    ] {
        assert_eq!(machine.read(metric, "db").unwrap(), value, "{metric:?}");
        let full = machine.path("v2/db");
        assert_eq!(machine.read(metric, full.to_str().unwrap()).unwrap(), value, "{metric:?}");
    }
}

/// What is wrong with a machine, what then cannot be read, and what the error has to say.
#[test]
fn what_is_missing_is_an_error_that_says_so() {
    let psi = Metric::SomeMemPsiUs;
    let cgroup_psi = Metric::CgroupSomeMemPsiUs(DB);
    let on_node = Metric::NodeMemcgUsedBp(0, DB);
    type Break = fn(&Machine);
    let no_psi: Break = |m| m.remove("proc/pressure/memory");
    let cases: &[(Break, Metric, &str, MetricKind, &[&str])] = &[
        (no_psi, psi, "", MetricKind::NoPsi, &["No such file", "CONFIG_PSI", "boot with psi=1"]),
        (
            |m| {
                m.remove("proc/pressure/memory");
                m.put("proc/cmdline", "psi=1 psi=0\n");
            },
            psi,
            "",
            MetricKind::PsiOff,
            &["booted with psi=0", "boot without psi=0"],
        ),
        (
            |m| {
                m.remove("proc/pressure/memory");
                m.put("proc/cmdline", "quiet psi=1\n");
            },
            psi,
            "",
            MetricKind::NoPsi,
            &["psi=1 and still has none"],
        ),
        (|m| m.put("proc/pressure/memory", "\n"), psi, "", MetricKind::Unexpected, &["pressure"]),
        (
            |m| m.remove("v2/db/memory.pressure"),
            cgroup_psi,
            "db",
            MetricKind::NoPsi,
            &["not for this"],
        ),
        (
            |m| {
                m.remove("v2/db/memory.pressure");
                m.put("v2/db/cgroup.pressure", "0\n");
            },
            cgroup_psi,
            "db",
            MetricKind::PsiOff,
            &["switched off for cgroup `db`", "echo 1 >"],
        ),
        (
            |m| {
                m.remove("v2/db/memory.pressure");
                m.remove("proc/pressure/memory");
            },
            cgroup_psi,
            "db",
            MetricKind::NoPsi,
            &["boot with psi=1"],
        ),
        (|_| {}, cgroup_psi, "dba", MetricKind::NoCgroup, &["no such cgroup", "there are: db"]),
        (|_| {}, cgroup_psi, "../proc", MetricKind::NoCgroup, &["`..`"]),
        (
            |m| {
                m.mount("cgroup", "v1/memory", "rw,memory");
                m.put("v1/memory/web/cgroup.procs", "");
            },
            cgroup_psi,
            "web",
            MetricKind::NoCgroup,
            &["v1's hierarchy memory"],
        ),
        (
            |m| {
                m.put("proc/self/mountinfo", "");
                m.mount("cgroup", "v1/memory", "rw,memory");
            },
            cgroup_psi,
            "db",
            MetricKind::NoCgroup2,
            &["only cgroup v1", "unified_cgroup_hierarchy"],
        ),
        (
            |m| m.put("proc/self/mountinfo", ""),
            cgroup_psi,
            "db",
            MetricKind::NoCgroup2,
            &["no cgroups are mounted"],
        ),
        (
            |m| {
                m.remove("v2/db/memory.numa_stat");
                m.put("v2/cgroup.controllers", "\n");
                m.mount("cgroup", "v1/memory", "rw,memory");
            },
            on_node,
            "db",
            MetricKind::NoMemoryController,
            &["is in cgroup v1", "cgroup_no_v1=memory"],
        ),
        (
            |m| {
                m.remove("v2/db/memory.numa_stat");
                m.put("v2/cgroup.controllers", "cpu\n");
            },
            on_node,
            "db",
            MetricKind::NoMemoryController,
            &["CONFIG_MEMCG"],
        ),
        (
            |m| {
                m.remove("v2/db/memory.numa_stat");
                m.put("v2/db/cgroup.controllers", "\n");
            },
            on_node,
            "db",
            MetricKind::NoMemoryController,
            &["not enabled for cgroup `db`", "echo +memory >"],
        ),
        (
            |m| m.remove("v2/db/memory.numa_stat"),
            on_node,
            "db",
            MetricKind::NoMemoryController,
            &["5.10"],
        ),
        (|_| {}, Metric::NodeMemUsedBp(7), "", MetricKind::NoNode, &["no node 7", "0, 1, 2"]),
        (|_| {}, Metric::NodeMemFreeBp(-1), "", MetricKind::NoNode, &["no node -1"]),
        (
            |m| m.put("sys/devices/system/node/online", "0\n"),
            Metric::NodeMemFreeBp(7),
            "",
            MetricKind::NoNode,
            &["one node only"],
        ),
        (
            |_| {},
            Metric::NodeMemUsedBp(2),
            "",
            MetricKind::NodeWithoutMemory,
            &["node 2 has no memory", "nodes with memory: 0, 1"],
        ),
        (
            |m| {
                m.remove("v2/db/memory.stat");
                m.put("v2/db/cgroup.controllers", "cpu\n");
            },
            Metric::CgroupWorkingsetRefaultBytes(DB),
            "db",
            MetricKind::NoMemoryController,
            &["not enabled for cgroup `db`", "+memory"],
        ),
        (
            |m| m.put("v2/db/memory.stat", "anon 5\n"),
            Metric::CgroupWorkingsetRefaultBytes(DB),
            "db",
            MetricKind::Unexpected,
            &["memory.stat of cgroup `db`"],
        ),
        (|_| {}, Metric::UserInput, "", MetricKind::NotFromTheMachine, &["the user gives it"]),
        (|_| {}, Metric::RefaultBp, "", MetricKind::NotFromTheMachine, &["the schemes count it"]),
        (|_| {}, Metric::NodeEligibleMemBp(0), "", MetricKind::PhysicalOnly, &["physical"]),
        (
            |_| {},
            Metric::CgroupSomeMemPsiUs(CgroupId(9)),
            "",
            MetricKind::NoCgroup,
            &["names no cgroup"],
        ),
    ];
    for (nr, (breaks, metric, path, reason, says)) in cases.iter().enumerate() {
        let machine = Machine::new();
        breaks(&machine);
        let err = machine.read(*metric, path).unwrap_err();
        let text = err.to_string();
        assert_eq!(err.kind(), *reason, "case {nr}: {text}");
        for words in *says {
            assert!(text.contains(words), "case {nr}: {words} is not in: {text}");
        }
        let mut metrics = Metrics::new(machine.roots());
        let checked = metrics.check(*metric, &[(*path).to_owned()]).unwrap_err();
        assert_eq!(checked.to_string(), err.to_string());
    }
}

#[test]
fn files_stay_open_and_follow_what_is_written() {
    let machine = Machine::new();
    let mut metrics = Metrics::new(machine.roots());
    let paths = ["db".to_owned()];
    assert_eq!(metrics.read(Metric::SomeMemPsiUs, &paths).unwrap(), 1500);
    // Longer than the buffer was when it was made.
    let long = format!("{}\n{}", "x".repeat(20_000), PRESSURE.replace("1500", "1501"));
    machine.put("proc/pressure/memory", &long);
    assert_eq!(metrics.read(Metric::SomeMemPsiUs, &paths).unwrap(), 1501);
    machine.remove("proc/pressure/memory");
    assert_eq!(
        metrics.read(Metric::SomeMemPsiUs, &paths).unwrap(),
        1501,
        "the open file is what is read"
    );
    // The same number can come to stand for another cgroup when a policy is edited.
    assert_eq!(metrics.read(Metric::CgroupSomeMemPsiUs(DB), &paths).unwrap(), 31);
    machine.put("v2/web/memory.pressure", PRESSURE);
    assert_eq!(metrics.read(Metric::CgroupSomeMemPsiUs(DB), &["web".to_owned()]).unwrap(), 1500);
    assert_eq!(metrics.read(Metric::CgroupSomeMemPsiUs(DB), &paths).unwrap(), 31);
}

#[test]
fn members_of_a_cgroup_with_those_below() {
    let machine = Machine::new();
    machine.put("v2/db/cgroup.procs", "12\n7\n0\n");
    machine.put("v2/db/one/cgroup.procs", "30\n");
    machine.put("v2/db/one/two/cgroup.procs", "20\n12\n");
    machine.mount("cgroup", "v1/memory", "rw,memory");
    machine.put("v1/memory/old/cgroup.procs", "99\n");
    let cgroups = cgroup::Cgroups::mounted(&machine.roots().proc);
    assert_eq!(cgroups.procs("/db").unwrap(), [7, 12, 20, 30]);
    assert_eq!(cgroups.procs("db/one").unwrap(), [12, 20, 30]);
    assert_eq!(cgroups.procs("old").unwrap(), [99]);
    let err = cgroups.procs("nothing").unwrap_err();
    assert_eq!(err.kind(), MetricKind::NoCgroup);
    assert!(err.to_string().starts_with("cgroup `nothing` cannot be had\n"), "{err}");
}

/// What this machine has is a number, and what it lacks is an error: never a zero that stands for
/// "no".
#[test]
fn this_machine() {
    let mut metrics = Metrics::default();
    let root = ["/".to_owned()];
    let rate = metrics.read(Metric::FreeMemRate, &root).unwrap();
    assert!((1..1000).contains(&rate), "{rate}");
    let active = metrics.read(Metric::ActiveMemBp, &root).unwrap();
    let inactive = metrics.read(Metric::InactiveMemBp, &root).unwrap();
    assert!((9_000..=10_001).contains(&(active + inactive)), "{active} + {inactive}");
    match fs::read_to_string("/proc/pressure/memory") {
        Ok(_) => {
            let some = metrics.read(Metric::SomeMemPsiUs, &root).unwrap();
            assert!(metrics.read(Metric::FullMemPsiUs, &root).unwrap() <= some);
            assert!(metrics.read(Metric::SomeMemPsiUs, &root).unwrap() >= some, "it counts up");
        }
        Err(_) => {
            let err = metrics.read(Metric::SomeMemPsiUs, &root).unwrap_err();
            assert!(err.hint().contains("psi"), "{err}");
        }
    }
    let err = metrics.read(Metric::NodeMemUsedBp(1000), &root).unwrap_err();
    assert_eq!(err.kind(), MetricKind::NoNode, "{err}");
    let node = metrics.read(Metric::NodeMemUsedBp(0), &root);
    let has_nodes = fs::exists("/sys/devices/system/node/node0/meminfo").unwrap();
    assert_eq!(node.is_ok(), has_nodes, "{node:?}");
    let cgroups = cgroup::Cgroups::mounted(&Proc::default());
    let on_node = metrics.read(Metric::NodeMemcgUsedBp(0, DB), &root);
    let has = |file: &str| cgroups.v2.as_ref().is_some_and(|at| at.join(file).exists());
    assert_eq!(on_node.is_ok(), has("memory.numa_stat"), "{on_node:?}");
    let refaults = metrics.read(Metric::CgroupWorkingsetRefaultBytes(DB), &root);
    assert_eq!(refaults.is_ok(), has("memory.stat"), "{refaults:?}");
    let pressure = metrics.read(Metric::CgroupSomeMemPsiUs(DB), &root);
    assert_eq!(pressure.is_ok(), has("memory.pressure"), "{pressure:?}");
}

#[test]
fn real_processes_by_name_and_cgroup() {
    // A copy under a name of its own, longer than the kernel keeps.
    let dir = tempfile::tempdir().unwrap();
    let program = dir.path().join("isotherm-sleeper-x");
    fs::copy("/bin/sleep", &program).unwrap();
    let mut child = Command::new(&program).arg("60").stdin(Stdio::null()).spawn().unwrap();
    let proc = Proc::default();
    let by_name = ["isotherm-sleeper-x", "isotherm-sleep*", "isotherm-sleepe"]
        .map(|pattern| find::by_name(&proc, pattern).unwrap());
    let path = fs::read_to_string("/proc/self/cgroup").unwrap();
    let path = path.lines().find_map(|line| line.strip_prefix("0::")).map(str::to_owned);
    let in_cgroup =
        path.map(|path| (cgroup::procs(&path).unwrap(), find::in_cgroup(&proc, &path).unwrap()));
    child.kill().unwrap();
    child.wait().unwrap();
    for found in by_name {
        assert_eq!(found, [child.id()]);
    }
    assert!(find::by_name(&proc, "kthreadd").unwrap().is_empty());
    let me = fs::read_to_string("/proc/self/comm").unwrap();
    assert!(!find::by_name(&proc, me.trim()).unwrap().contains(&std::process::id()));
    let Some((members, targets)) = in_cgroup else {
        eprintln!("skipped: no cgroup v2");
        return;
    };
    assert!(members.contains(&std::process::id()) && members.contains(&child.id()));
    assert!(!targets.contains(&std::process::id()) && targets.contains(&child.id()));
}
