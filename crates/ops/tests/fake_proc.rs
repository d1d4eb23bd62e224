//! The tracker over a made-up `/proc`, where pids can be given out anew at will.
#![expect(clippy::unwrap_used, reason = "helper functions of tests")]

use std::fs;
use std::path::Path;

use isotherm_core::{TargetId, Time};
use isotherm_host::proc::Proc;
use isotherm_ops::targets::{Memory, MemoryKind, TargetEvent, TargetKind, Tracker};

struct Fake {
    dir: tempfile::TempDir,
}

impl Fake {
    fn new() -> Self {
        let fake = Self { dir: tempfile::tempdir().unwrap() };
        fake.last_pid(1);
        fake
    }

    fn last_pid(&self, pid: u32) {
        fs::write(self.dir.path().join("loadavg"), format!("0.00 0.02 0.00 1/86 {pid}\n")).unwrap();
    }

    /// Puts a process there; `image` is where its code lies.
    fn put(&self, pid: u32, ppid: u32, comm: &str, start: u64, image: u64) {
        let dir = self.dir.path().join(pid.to_string());
        fs::create_dir_all(&dir).unwrap();
        let stat = format!(
            "{pid} ({comm}) S {ppid} 1 1 0 -1 64 9 0 0 0 5 6 0 0 20 0 1 0 {start} 8 9 10 {image} \
             {image} {image} 0 0 0 0 0 0 0 0 0 17 0 0\n"
        );
        fs::write(dir.join("stat"), stat).unwrap();
        fs::write(dir.join("maps"), "1000-2000 rw-p 00000000 00:00 0 [heap]\n").unwrap();
        fs::write(dir.join("mem"), "x").unwrap();
        self.last_pid(pid);
    }

    fn remove(&self, pid: u32) {
        fs::remove_dir_all(self.path(pid)).unwrap();
    }

    fn path(&self, pid: u32) -> std::path::PathBuf {
        self.dir.path().join(pid.to_string())
    }

    fn tracker(&self) -> Tracker {
        let root: &Path = self.dir.path();
        Tracker::new(Proc::new(root), true)
    }
}

/// Short forms of events, so that whole histories can be compared.
fn told(events: &[TargetEvent]) -> Vec<String> {
    events
        .iter()
        .map(|e| match e {
            TargetEvent::Added(t) => format!("+{} {} {}", t.id.0, t.pid, t.name),
            TargetEvent::Execed { old, target } => {
                format!("{}>{} {}", old.0, target.id.0, target.name)
            }
            TargetEvent::Exited(id) => format!("-{}", id.0),
            TargetEvent::Refused(err) => format!("!{}", err.exit_code()),
        })
        .collect()
}

const STEP_NS: u64 = 100_000_000;

#[test]
fn a_reused_pid_is_another_process() {
    let fake = Fake::new();
    fake.put(100, 1, "first", 500, 0x1000);
    let mut tracker = fake.tracker();
    assert_eq!(tracker.add(100).unwrap(), TargetId(0));
    assert_eq!(told(&tracker.poll(Time(0))), ["+0 100 first"]);
    // Same number, later start: a stranger. It is not followed, and neither is its child.
    fake.put(100, 1, "stranger", 900, 0x1000);
    fake.put(101, 100, "strangers-child", 950, 0x1000);
    let events = told(&tracker.poll(Time(STEP_NS)));
    assert!(events.contains(&"-0".to_owned()), "{events:?}");
    assert!(tracker.all_gone(), "{events:?}");
    assert!(!events.iter().any(|e| e.contains("stranger")), "{events:?}");
    // Attached to on purpose it is a new target with a new id.
    assert_eq!(tracker.add(100).unwrap(), TargetId(1));
}

#[test]
fn a_followed_childs_pid_is_reused() {
    let fake = Fake::new();
    fake.put(10, 1, "parent", 100, 0x1000);
    fake.put(11, 10, "child", 110, 0x1000);
    let mut tracker = fake.tracker();
    tracker.add(10).unwrap();
    assert_eq!(told(&tracker.poll(Time(0))), ["+0 10 parent", "+1 11 child"]);
    // The child's number goes to another child of the same parent between two polls.
    fake.put(11, 10, "second", 220, 0x2000);
    let mut events = told(&tracker.poll(Time(STEP_NS)));
    // The number given last is the same one: only a full look finds it.
    events.extend(told(&tracker.poll(Time(STEP_NS * 230))));
    assert_eq!(events, ["-1", "+2 11 second"]);
}

#[test]
fn new_addresses_are_an_exec() {
    let fake = Fake::new();
    fake.put(10, 1, "sh", 100, 0x1000);
    let mut tracker = fake.tracker();
    tracker.add(10).unwrap();
    assert_eq!(told(&tracker.poll(Time(0))), ["+0 10 sh"]);
    // A new name alone (prctl) is no exec.
    fake.put(10, 1, "renamed", 100, 0x1000);
    assert_eq!(told(&tracker.poll(Time(STEP_NS))), [""; 0]);
    fake.put(10, 1, "prog", 100, 0x5000);
    assert_eq!(told(&tracker.poll(Time(2 * STEP_NS))), ["0>1 prog"]);
}

/// The first thread may end before the others; the memory is still in use then.
#[test]
fn a_zombie_with_threads_is_alive() {
    let fake = Fake::new();
    fake.put(10, 1, "server", 100, 0x5000);
    let mut tracker = fake.tracker();
    tracker.add(10).unwrap();
    tracker.poll(Time(0));
    let stat = fs::read_to_string(fake.path(10).join("stat")).unwrap();
    let zombie = |threads| stat.replace(") S ", ") Z ").replace(" 0 1 0 100 ", threads);
    fs::write(fake.path(10).join("stat"), zombie(" 0 3 0 100 ")).unwrap();
    assert_eq!(told(&tracker.poll(Time(STEP_NS))), [""; 0]);
    fs::write(fake.path(10).join("stat"), zombie(" 0 1 0 100 ")).unwrap();
    assert_eq!(told(&tracker.poll(Time(2 * STEP_NS))), ["-0"]);
}

#[test]
fn attached_in_the_middle_of_an_exec() {
    let fake = Fake::new();
    fake.put(10, 1, "old-name", 100, 0);
    let mut tracker = fake.tracker();
    tracker.add(10).unwrap();
    assert_eq!(told(&tracker.poll(Time(0))), ["+0 10 old-name"]);
    // The addresses get known: the same address space. From then on a change is an exec.
    fake.put(10, 1, "prog", 100, 0x5000);
    assert_eq!(told(&tracker.poll(Time(STEP_NS))), [""; 0]);
    assert_eq!(tracker.targets().next().unwrap().name, "prog");
    fake.put(10, 1, "next", 100, 0x6000);
    assert_eq!(told(&tracker.poll(Time(2 * STEP_NS))), ["0>1 next"]);
}

#[test]
fn an_address_space_that_is_over_is_an_exec() {
    let fake = Fake::new();
    fake.put(10, 1, "sh", 100, 0x1000);
    let mut tracker = fake.tracker();
    tracker.add(10).unwrap();
    tracker.poll(Time(0));
    // Cut the file that is held open, and put a fresh one in its place.
    fs::write(fake.path(10).join("mem"), "").unwrap();
    fs::remove_file(fake.path(10).join("mem")).unwrap();
    fs::write(fake.path(10).join("mem"), "x").unwrap();
    assert_eq!(told(&tracker.poll(Time(STEP_NS))), ["0>1 sh"]);
    assert_eq!(told(&tracker.poll(Time(2 * STEP_NS))), [""; 0]);
}

#[test]
fn children_of_children_whatever_their_numbers() {
    let fake = Fake::new();
    fake.put(50, 1, "top", 100, 0x1000);
    let mut tracker = fake.tracker();
    tracker.add(50).unwrap();
    tracker.poll(Time(0));
    // Pids have wrapped: the grandchild's is smaller than its parent's.
    fake.put(60, 50, "child", 200, 0x1000);
    fake.put(7, 60, "grandchild", 300, 0x1000);
    fake.put(8, 1, "other", 300, 0x1000);
    assert_eq!(told(&tracker.poll(Time(STEP_NS))), ["+1 60 child", "+2 7 grandchild"]);
    // The middle one goes; the grandchild stays a target.
    fake.remove(60);
    assert_eq!(told(&tracker.poll(Time(2 * STEP_NS))), ["-1"]);
    assert_eq!(tracker.targets().map(|t| t.pid).collect::<Vec<_>>(), [50, 7]);
}

#[test]
fn a_fork_is_found_though_the_counter_did_not_move() {
    let fake = Fake::new();
    fake.put(50, 1, "top", 100, 0x1000);
    let mut tracker = fake.tracker();
    tracker.add(50).unwrap();
    tracker.poll(Time(0));
    fake.put(60, 50, "child", 200, 0x1000);
    fake.last_pid(50);
    assert_eq!(told(&tracker.poll(Time(STEP_NS))), [""; 0]);
    assert_eq!(told(&tracker.poll(Time(230 * STEP_NS))), ["+1 60 child"]);
}

#[test]
fn an_unreadable_child_is_told_once() {
    let fake = Fake::new();
    fake.put(50, 1, "top", 100, 0x1000);
    fake.put(51, 50, "odd", 200, 0x1000);
    // A link to itself: opening it fails, and not because it is gone.
    fs::remove_file(fake.path(51).join("maps")).unwrap();
    std::os::unix::fs::symlink("maps", fake.path(51).join("maps")).unwrap();
    let mut tracker = fake.tracker();
    tracker.add(50).unwrap();
    let events = tracker.poll(Time(0));
    assert_eq!(told(&events), ["+0 50 top", "!1"]);
    let TargetEvent::Refused(err) = &events[1] else { panic!("{events:?}") };
    assert_eq!((err.kind(), err.tried()), (TargetKind::Io, "open /proc/51/maps"));
    assert_eq!(told(&tracker.poll(Time(30 * STEP_NS))), [""; 0]);
}

/// A `zoneinfo` of nodes with RAM from so many MiB to so many.
fn zoneinfo(nodes: &[(u32, u64, u64)]) -> String {
    let zone = |(node, from, to): &(u32, u64, u64)| {
        let (start, pages) = (from << 8, (to - from) << 8);
        format!(
            "Node {node}, zone   Normal\n        spanned  {pages}\n        present  {pages}\n  \
             start_pfn:           {start}\n"
        )
    };
    nodes.iter().map(zone).collect()
}

#[test]
fn physical_memory_stays_until_its_node_is_taken_out() {
    let fake = Fake::new();
    let write = |file: &str, text: &str| fs::write(fake.dir.path().join(file), text).unwrap();
    write("iomem", "00100000-3fffffff : System RAM\n40000000-7fffffff : System RAM\n");
    write("zoneinfo", &zoneinfo(&[(0, 1, 1024), (1, 1024, 2048)]));
    let proc = || Proc::new(fake.dir.path());
    let mut all = Tracker::memory_of(proc(), Memory::All).unwrap();
    let mut node = Tracker::memory_of(proc(), Memory::Node(1)).unwrap();
    let second = |n: u64| Time(n * 1_000_000_000);
    for tracker in [&mut all, &mut node] {
        let events = tracker.poll(second(1));
        let [TargetEvent::Added(target)] = &events[..] else { panic!("{events:?}") };
        assert_eq!((target.pid, target.memory.is_some()), (0, true));
        assert_eq!(tracker.targets().count(), 1);
        assert!(tracker.poll(second(9)).is_empty() && !tracker.all_gone());
    }
    let err = Tracker::memory_of(proc(), Memory::Node(2)).unwrap_err();
    assert_eq!(err.exit_code(), 3, "{err}");
    // A list that cannot be read for a while is no news about the memory.
    fs::remove_file(fake.dir.path().join("zoneinfo")).unwrap();
    assert!(node.poll(second(11)).is_empty());
    write("zoneinfo", &zoneinfo(&[(0, 1, 1024)]));
    let events = node.poll(second(13));
    assert!(
        matches!(
            &events[..],
            [TargetEvent::Refused(err), TargetEvent::Exited(_)]
                if err.kind() == TargetKind::Memory(MemoryKind::NoSuchNode)
        ),
        "{events:?}"
    );
    assert!(node.all_gone());
    assert!(all.poll(second(13)).is_empty() && !all.all_gone());
}
