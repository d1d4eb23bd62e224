//! The roster over a made-up machine, and over cgroups of this one.
#![expect(clippy::unwrap_used, reason = "helper functions of tests")]

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command};

use isotherm_core::Time;
use isotherm_host::metrics::Cgroups;
use isotherm_host::proc::Proc;
use isotherm_ops::targets::roster::{Roster, Rule};
use isotherm_sys::clock;
use rustix::fs::inotify::{self, CreateFlags};

const S: u64 = 1_000_000_000;
const UID: &str = "0b1c2d3e-1111-4222-8333-444455556666";

/// Whether the kernel tells of what happens in directories. Without that, what is new shows only
/// when the tree is walked again.
fn has_inotify() -> bool {
    inotify::init(CreateFlags::CLOEXEC).is_ok()
}

/// A made-up machine with cgroup v2.
struct Machine {
    dir: tempfile::TempDir,
}

impl Machine {
    fn new() -> Self {
        let machine = Self { dir: tempfile::tempdir().unwrap() };
        let at = machine.path("cg");
        machine.put("cg/cgroup.procs", "");
        let mounts = format!("41 31 0:38 / {} rw - cgroup2 cgroup2 rw\n", at.display());
        machine.put("proc/self/mountinfo", &mounts);
        machine.last_pid(1);
        machine
    }

    fn path(&self, file: &str) -> PathBuf {
        self.dir.path().join(file)
    }

    fn put(&self, file: &str, text: &str) {
        let path = self.path(file);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    fn last_pid(&self, pid: u32) {
        self.put("proc/loadavg", &format!("0.00 0.02 0.00 1/86 {pid}\n"));
    }

    /// Starts a process, or changes it without anything else showing that.
    fn process(&self, pid: u32, comm: &str, cgroup: &str, uid: u32) {
        let flags = if comm.starts_with("kworker") { 0x0020_0000 } else { 64 };
        let stat = format!(
            "{pid} ({comm}) S 1 1 1 0 -1 {flags} 9 0 0 0 5 6 0 0 20 0 1 0 {pid} 8 9 10 1 1 1 0 \
             0 0 0 0 0 0 0 0 17 0 0\n"
        );
        self.put(&format!("proc/{pid}/stat"), &stat);
        self.put(&format!("proc/{pid}/status"), &format!("Uid:\t{uid}\t{uid}\t{uid}\t{uid}\n"));
        self.put(&format!("proc/{pid}/cgroup"), &format!("0::{cgroup}\n"));
    }

    fn start(&self, pid: u32, comm: &str, cgroup: &str, uid: u32) {
        self.process(pid, comm, cgroup, uid);
        self.last_pid(pid);
    }

    fn members(&self, cgroup: &str, pids: &[u32]) {
        let text: String = pids.iter().map(|pid| format!("{pid}\n")).collect();
        self.put(&format!("cg{cgroup}/cgroup.procs"), &text);
    }

    /// The same, without a write that inotify tells of: as for the cgroup that a process leaves.
    fn members_quietly(&self, cgroup: &str, pids: &[u32]) {
        self.members("/../quiet", pids);
        let to = self.path(&format!("cg{cgroup}/cgroup.procs"));
        fs::rename(self.path("quiet/cgroup.procs"), to).unwrap();
    }

    fn roster(&self, rules: &[Rule]) -> Roster {
        Roster::new(Proc::new(self.path("proc")), self.dir.path(), rules.to_vec())
    }
}

fn at(roster: &mut Roster, s: u64) -> Vec<u32> {
    roster.poll(Time(s * S));
    roster.members().collect()
}

#[test]
fn every_kind_of_rule_finds_its_processes() {
    let machine = Machine::new();
    let id = "a".repeat(64);
    let pod = format!(
        "/kubepods.slice/kubepods-pod{}.slice/cri-containerd-{id}.scope",
        UID.replace('-', "_")
    );
    machine.start(1, "systemd", "/init.scope", 0);
    machine.start(20, "kworker/0:1", "/", 0);
    machine.start(30, "postgres", "/system.slice/postgresql.service", 114);
    machine.start(31, "nginx", &pod, 33);
    machine.put("etc/passwd", "root:x:0:0::/:\npostgres:x:114:120::/:\n");
    machine.put(&format!("var/log/pods/shop_web-1_{UID}/nginx/0.log"), "");
    machine.put(&format!("var/log/containers/web-1_shop_nginx-{id}.log"), "");
    let rule = |kind: fn(String) -> Rule, text: &str| kind(text.to_owned());
    for (rule, found) in [
        (rule(Rule::Name, "*"), vec![30, 31]),
        (rule(Rule::Name, "post*"), vec![30]),
        (rule(Rule::Cgroup, "/system.slice"), vec![30]),
        (rule(Rule::Cgroup, machine.path("cg/system.slice").to_str().unwrap()), vec![30]),
        (rule(Rule::Cgroup, "/"), vec![30, 31]),
        (rule(Rule::Unit, "postgresql"), vec![30]),
        (rule(Rule::User, "postgres"), vec![30]),
        (rule(Rule::User, "33"), vec![31]),
        (rule(Rule::User, "nobody"), vec![]),
        (rule(Rule::Pod, "web-*"), vec![31]),
        (rule(Rule::Pod, "shop/web-1"), vec![31]),
        (rule(Rule::Pod, "test/web-1"), vec![]),
        (rule(Rule::Pod, UID), vec![31]),
        (rule(Rule::Container, "nginx"), vec![31]),
        (rule(Rule::Container, "shop/web-1/ng*"), vec![31]),
        (rule(Rule::Container, "aaaaaaaaaaaa"), vec![31]),
        (rule(Rule::Container, "aaaa"), vec![]),
    ] {
        assert_eq!(at(&mut machine.roster(std::slice::from_ref(&rule)), 10), found, "{rule:?}");
    }
    let both = [Rule::Unit("postgresql".into()), Rule::Container("nginx".into())];
    assert_eq!(at(&mut machine.roster(&both), 10), [30, 31]);
}

#[test]
fn what_starts_moves_and_ends_shows_at_the_next_poll() {
    if !has_inotify() {
        println!("skipped: this kernel has no inotify");
        return;
    }
    let machine = Machine::new();
    machine.start(30, "a", "/app/one", 0);
    machine.members("/app/one", &[30]);
    let mut roster = machine.roster(&[Rule::Cgroup("/app/*".into())]);
    assert_eq!(at(&mut roster, 10), [30]);
    machine.start(31, "b", "/app/one", 0);
    machine.members("/app/one", &[30, 31]);
    assert_eq!(at(&mut roster, 11), [30, 31]);
    // It is moved without a fork.
    machine.process(30, "a", "/else", 0);
    machine.members("/app/one", &[31]);
    assert_eq!(at(&mut roster, 100), [31]);
    // It comes to a cgroup that was not there before.
    machine.process(30, "a", "/app/new", 0);
    machine.members("/app/new", &[30]);
    assert_eq!(at(&mut roster, 101), [30, 31]);
    let followed: Vec<_> = roster.followed(Time(103 * S)).collect();
    let ages: Vec<_> = followed.iter().map(|f| (f.path.as_str(), f.members, f.age_ns)).collect();
    assert_eq!(ages, [("/app/new", 1, Some(2 * S)), ("/app/one", 1, Some(2 * S))]);
    // The cgroup and its process go.
    fs::remove_dir_all(machine.path("cg/app/new")).unwrap();
    fs::remove_dir_all(machine.path("proc/30")).unwrap();
    assert_eq!(at(&mut roster, 104), [31]);
    assert_eq!(roster.followed(Time(104 * S)).count(), 1);
    assert!(roster.oldest_ns(Time(104 * S)) < 10 * S, "all are read in turn");
}

/// Far more cgroups than are read at each poll, none of which has changed for long.
#[test]
fn a_move_between_any_two_of_thousands_of_quiet_cgroups_shows_at_the_next_poll() {
    const CGROUPS: u32 = 3000;
    if !has_inotify() {
        println!("skipped: this kernel has no inotify");
        return;
    }
    let machine = Machine::new();
    let cgroup = |nr: u32| format!("/app/g{nr}");
    for nr in 0..CGROUPS {
        machine.process(100 + nr, "x", &cgroup(nr), 0);
        machine.members(&cgroup(nr), &[100 + nr]);
    }
    machine.members("/else", &[]);
    let mut roster = machine.roster(&[Rule::Cgroup("/app/*".into())]);
    let count = |roster: &mut Roster, s| at(roster, s).len();
    // Until all lists were read, and the changes of the beginning are forgotten.
    let mut s = 10;
    while s < 60 || roster.followed(Time(s * S)).any(|f| f.age_ns.is_none()) {
        count(&mut roster, s);
        s += 1;
    }
    let all = CGROUPS as usize;
    let of = |roster: &Roster, nr: u32| {
        let path = cgroup(nr);
        roster.followed(Time(0)).find(|f| f.path == path).unwrap().members
    };
    // From one that matches to another, out, and back in. Only the cgroup that it comes to is told.
    machine.process(2000, "x", &cgroup(2500), 0);
    machine.members(&cgroup(2500), &[2600, 2000]);
    machine.members_quietly(&cgroup(1900), &[]);
    assert_eq!(count(&mut roster, s), all);
    assert_eq!((of(&roster, 1900), of(&roster, 2500)), (0, 2));
    for round in 1..3 {
        let from = cgroup(if round == 1 { 2500 } else { 77 });
        machine.process(2000, "x", "/else", 0);
        machine.members("/else", &[2000]);
        machine.members_quietly(&from, &[]);
        assert_eq!(count(&mut roster, s + 2 * round), all - 1, "out, {round}");
        machine.process(2000, "x", &cgroup(77), 0);
        machine.members_quietly("/else", &[]);
        machine.members(&cgroup(77), &[2000]);
        assert_eq!(count(&mut roster, s + 2 * round + 1), all, "in, {round}");
    }
}

#[test]
fn a_young_process_that_is_moved_and_a_pod_that_gets_its_name_late_are_found() {
    let machine = Machine::new();
    let mut roster = machine.roster(&[Rule::Pod("web".into())]);
    let path = format!("/kubepods/pod{UID}/{}", "b".repeat(64));
    machine.start(40, "runc", "/system.slice/containerd.service", 0);
    assert_eq!(at(&mut roster, 10), [] as [u32; 0]);
    machine.process(40, "nginx", &path, 0);
    assert_eq!(at(&mut roster, 11), [] as [u32; 0], "nobody knows its name yet");
    machine.put(&format!("var/log/pods/shop_web_{UID}/x"), "");
    assert_eq!(at(&mut roster, 12), [40]);
}

#[test]
fn pods_can_be_left_out() {
    let machine = Machine::new();
    let uids = ["a", "b", "c", "d"].map(|begin| UID.replacen('0', begin, 1));
    for (nr, uid) in (40..).zip(&uids) {
        machine.process(nr, "web", &format!("/kubepods/pod{uid}/{}", "b".repeat(64)), 0);
    }
    for (name, uid) in ["shop_web", "shop_db", "other_web"].iter().zip(&uids) {
        machine.put(&format!("var/log/pods/{name}_{uid}/x"), "");
    }
    machine.process(50, "web", "/system.slice/web.service", 0);
    for (rules, expected) in [
        (&["!shop/*"][..], &[42][..]),
        (&["!shop/web", "!other/*"], &[41]),
        (&["*"], &[40, 41, 42, 43]),
        (&["shop/*", "!shop/db"], &[40]),
        (&["web", "!shop/*"], &[42]),
        (&["shop/*", "!shop/*"], &[]),
    ] {
        let rules: Vec<Rule> = rules.iter().map(|rule| Rule::Pod((*rule).to_owned())).collect();
        assert_eq!(at(&mut machine.roster(&rules), 10), expected, "{rules:?}");
    }
    let by_name = [Rule::Name("web".into()), Rule::Pod("!shop/*".into())];
    assert_eq!(at(&mut machine.roster(&by_name), 10), [42, 50]);
}

/// A cgroup of this machine, removed at the end, with a process in it.
struct Real {
    dir: PathBuf,
    child: Child,
}

impl Real {
    fn make(above: &Path, name: &str) -> std::io::Result<Self> {
        let dir = above.join(name);
        fs::create_dir(&dir)?;
        let child = Command::new("sleep").arg("100").spawn()?;
        Ok(Self { dir, child })
    }

    fn enter(&self) {
        fs::write(self.dir.join("cgroup.procs"), self.child.id().to_string()).unwrap();
    }
}

impl Drop for Real {
    fn drop(&mut self) {
        self.child.kill().ok();
        self.child.wait().ok();
        // The kernel lets go of the process a moment later.
        for _ in 0..1000 {
            if fs::remove_dir(&self.dir).is_ok() || !self.dir.exists() {
                break;
            }
            std::thread::yield_now();
        }
    }
}

/// A hierarchy of version 1 beside version 2, as systemd once made it. Only in a guest of the lab:
/// it is there for the whole machine. It is taken away at the end.
struct Mixed(tempfile::TempDir);

impl Mixed {
    fn mount() -> Option<Self> {
        let in_lab = std::env::var("ISOTHERM_LAB").as_deref() == Ok("1");
        let has_one = Cgroups::mounted(&Proc::default()).v1_of("name=systemd").is_some();
        if !in_lab || has_one {
            return None;
        }
        let mixed = Self(tempfile::tempdir().unwrap());
        let options = ["-t", "cgroup", "-o", "none,name=systemd", "isotherm"];
        let mounted = Command::new("mount").args(options).arg(mixed.0.path()).status().unwrap();
        assert!(mounted.success(), "mount {options:?}");
        Some(mixed)
    }
}

impl Drop for Mixed {
    fn drop(&mut self) {
        Command::new("umount").arg(self.0.path()).status().ok();
    }
}

#[test]
fn real_cgroups_are_followed_from_their_making_to_their_end() {
    if !has_inotify() {
        println!("skipped: this kernel has no inotify");
        return;
    }
    let _mixed = Mixed::mount();
    let mounted = Cgroups::mounted(&Proc::default());
    let v1 = ["memory", "name=systemd"].into_iter().filter_map(|name| mounted.v1_of(name));
    let mounts: Vec<PathBuf> =
        mounted.v2.iter().cloned().chain(v1.map(Path::to_path_buf)).collect();
    if mounts.is_empty() {
        println!("skipped: no cgroups are mounted here");
    }
    for mount in mounts {
        let name = format!("isotherm-roster-{}", std::process::id());
        let mut roster = Roster::new(Proc::default(), "/", vec![Rule::Cgroup(format!("/{name}*"))]);
        roster.poll(clock::now());
        assert_eq!(roster.members().count(), 0);
        let real = match Real::make(&mount, &name) {
            Ok(real) => real,
            Err(err) => {
                println!("skipped: no cgroup can be made below {}: {err}", mount.display());
                continue;
            }
        };
        roster.poll(clock::now());
        assert_eq!(roster.members().count(), 0, "nobody is in it yet");
        real.enter();
        roster.poll(clock::now());
        assert_eq!(roster.members().collect::<Vec<_>>(), [real.child.id()]);
        assert_eq!(roster.followed(clock::now()).map(|f| f.members).sum::<usize>(), 1);
        drop(real);
        roster.poll(clock::now());
        assert_eq!(roster.members().count(), 0);
        assert_eq!(roster.followed(clock::now()).count(), 0);
    }
}
