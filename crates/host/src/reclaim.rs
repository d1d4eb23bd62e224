//! Whether the kernel is reclaiming a process's memory: counters that grow only while it looks for
//! something to take.
//!
//! | kernel's counter | where | grows when |
//! |---|---|---|
//! | `pgscan` | `memory.stat` of the v2 cgroup | pages charged to it were looked at |
//! | `memory.failcnt` | the v1 memory cgroup and those above it | a limit was reached |
//! | `pgscan_kswapd`, `pgscan_direct` | `/proc/vmstat` | the machine runs short |
//!
//! Two more tell how much a little reclaim costs ([`Counted::strain`]): memory that came back after
//! it was reclaimed (`workingset_refault_*` in the cgroup's `memory.stat`, or of the machine), and
//! the time in which somebody waited for memory (PSI: `memory.pressure` of the v2 cgroup, or
//! `/proc/pressure/memory`). By themselves they say nothing of reclaim: after a limit was lifted
//! memory comes back for long, and nobody looks at a page.
//!
//! The machine tells what it looked at, too (`pgscan_anon`, `pgscan_file`, since Linux 5.8). Where
//! files are read, their pages are reclaimed all day long, and anonymous memory is left alone.
//! Those counters are of all reclaim, of cgroups as well, which do not tell kinds. So they are a
//! bound: of a cgroup no more pages of a kind were looked at than of the whole machine
//! ([`Counted::since`]).
//!
//! Pages that are paged out on request (`MADV_PAGEOUT`, DAMON) are in none of them (`mm/vmscan.c`,
//! Linux 6.18). What this program asks a cgroup to reclaim is in `pgscan`, so it is counted apart
//! ([`note_ours`]).

mod ours;
mod room;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, LazyLock, Mutex, MutexGuard, PoisonError};

use crate::metrics::{Cgroups, pressure_total, refaulted};
use crate::namespace::read_cgroup;
use crate::proc::Proc;

pub use ours::{note_ours, scanned};

/// What the counters that concern a process have counted: pages, and reached limits. The numbers
/// say nothing by themselves; that they grow does. They fall when the process moves to another
/// cgroup.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Counted {
    /// The sum of all counters.
    pub all: u64,
    /// The part of it that this program has asked for. It may be too much, where the cgroup that
    /// was asked is above that of the process.
    pub ours: u64,
    /// Pages of the whole machine, for whatever reason. `None`: the kernel does not tell.
    pub kinds: Option<Kinds>,
    /// What reclaim costs.
    pub strain: Strain,
}

/// What reclaim costs those who use the memory, counted from any start. `None`: the kernel does not
/// tell.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Strain {
    /// Bytes that came back after they were reclaimed.
    pub refaulted: Option<u64>,
    /// Time in which a task waited for memory, in µs.
    pub stalled_us: Option<u64>,
}

impl Strain {
    /// What was added since an earlier count; 0 if that is not known.
    #[must_use]
    pub fn since(&self, before: &Self) -> (u64, u64) {
        let added = |now: Option<u64>, was: Option<u64>| {
            now.zip(was).map_or(0, |(now, was)| now.saturating_sub(was))
        };
        (added(self.refaulted, before.refaulted), added(self.stalled_us, before.stalled_us))
    }

    /// From the texts of `memory.stat` or `vmstat`, and of a pressure file.
    fn of(stat: Option<&str>, pressure: Option<&str>) -> Self {
        Self {
            refaulted: stat.and_then(refaulted),
            stalled_us: pressure.and_then(|text| pressure_total(text, "some")),
        }
    }

    /// These, or where they are not known the others.
    fn or(self, other: Self) -> Self {
        Self {
            refaulted: self.refaulted.or(other.refaulted),
            stalled_us: self.stalled_us.or(other.stalled_us),
        }
    }
}

/// Pages that reclaim has looked at, by kind.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Kinds {
    /// Anonymous pages, and shared memory: what goes to swap.
    pub anon: u64,
    /// Pages of files.
    pub files: u64,
}

impl Counted {
    /// What others than this program have had looked at since an earlier count, at most. Where
    /// kinds are not known, all of it may be of either.
    #[must_use]
    pub fn since(&self, before: &Self) -> Kinds {
        let all = self.all.saturating_sub(before.all);
        let ours = self.ours.saturating_sub(before.ours);
        // The kernel adds such counters up late: what is seen of ours while we ask is too little.
        let others = all.saturating_sub(ours.saturating_add(ours / 4));
        let kinds = self.kinds.zip(before.kinds);
        kinds.map_or(Kinds { anon: others, files: others }, |(now, was)| Kinds {
            anon: now.anon.saturating_sub(was.anon).min(others),
            files: now.files.saturating_sub(was.files).min(others),
        })
    }
}

/// Reads the counters of processes. All readers of the machine in this program share what they
/// read: an agent with fifty contexts has fifty of them.
#[derive(Debug)]
pub struct Reclaim {
    proc: Proc,
    cgroups: Cgroups,
    text: Vec<u8>,
    last: Arc<Mutex<Last>>,
}

/// What was read at this time, in ns: of the machine, and by the text of `/proc/PID/cgroup`.
#[derive(Debug, Default)]
struct Last {
    read_ns: u64,
    of_machine: Option<Machine>,
    of_cgroups: BTreeMap<Vec<u8>, Counted>,
}

/// What was read of the machine that this program runs on.
static OF_MACHINE: LazyLock<Arc<Mutex<Last>>> = LazyLock::new(Arc::default);

/// What the machine has looked at.
#[derive(Debug, Clone, Copy, Default)]
struct Machine {
    /// For itself.
    for_itself: u64,
    /// For itself and for cgroups, by kind.
    kinds: Option<Kinds>,
    /// What that costs, cgroups included.
    strain: Strain,
}

impl Machine {
    /// From the texts of `vmstat` and `pressure/memory`.
    fn of(text: &str, pressure: Option<&str>) -> Self {
        let names = ["pgscan_kswapd", "pgscan_direct"];
        let for_itself = names.iter().filter_map(|name| field(text, name)).sum();
        let kinds = field(text, "pgscan_anon").zip(field(text, "pgscan_file"));
        let kinds = kinds.map(|(anon, files)| Kinds { anon, files });
        Self { for_itself, kinds, strain: Strain::of(Some(text), pressure) }
    }
}

/// For so long what was read stands for all processes that share it, in ns: whoever asks about
/// hundreds of processes would read the same files for each.
const SHARED_NS: u64 = 100_000_000;

impl Reclaim {
    /// Of this machine.
    #[must_use]
    pub fn of_machine() -> Self {
        let proc = Proc::default();
        let cgroups = Cgroups::mounted(&proc);
        Self { last: Arc::clone(&OF_MACHINE), ..Self::new(proc, cgroups) }
    }

    /// Of the machine with these files.
    #[must_use]
    pub fn new(proc: Proc, cgroups: Cgroups) -> Self {
        Self { proc, cgroups, text: Vec::new(), last: Arc::default() }
    }

    /// What the counters that concern this process say.
    ///
    /// `now_ns` is the time of a clock that does not go back, the same one for all readers of the
    /// machine. A counter that was read less than 100 ms before, for whichever process, is not read
    /// again.
    pub fn counted(&mut self, pid: u32, now_ns: u64) -> Counted {
        let of_machine = self.machine(now_ns);
        let mut counted = self.of_process(pid).unwrap_or_default();
        counted.all = counted.all.saturating_add(of_machine.for_itself);
        counted.kinds = of_machine.kinds;
        counted.strain = counted.strain.or(of_machine.strain);
        counted
    }

    /// Pages that reclaim has looked at on the whole machine, for cgroups as well, so that of no
    /// process more were. `None`: the kernel does not tell. The time is that of
    /// [`Reclaim::counted`].
    pub fn kinds(&mut self, now_ns: u64) -> Option<Kinds> {
        self.machine(now_ns).kinds
    }

    fn machine(&mut self, now_ns: u64) -> Machine {
        let mut last = self.last();
        if now_ns.saturating_sub(last.read_ns) >= SHARED_NS {
            *last = Last { read_ns: now_ns, ..Last::default() };
        }
        let known = last.of_machine;
        // Nobody waits while files are read. Two who come at once may both read.
        drop(last);
        let of_machine = known.unwrap_or_else(|| self.of_machine_now());
        self.last().of_machine = Some(of_machine);
        of_machine
    }

    fn of_process(&mut self, pid: u32) -> Option<Counted> {
        read_cgroup(&self.proc, pid, &mut self.text).ok()?;
        let known = self.last().of_cgroups.get(&self.text).copied();
        if known.is_some() {
            return known;
        }
        let counted = self.of_cgroup(&String::from_utf8_lossy(&self.text)).unwrap_or_default();
        self.last().of_cgroups.insert(self.text.clone(), counted);
        Some(counted)
    }

    /// The share of the memory that this process may use that is left until the kernel has to page
    /// out what is not of a file: from 0 to 1. Of the limits of its cgroup and of those above it,
    /// and of the machine's memory, the one with the least room counts. `None`: it is not known.
    pub fn room(&mut self, pid: u32) -> Option<f64> {
        read_cgroup(&self.proc, pid, &mut self.text).ok()?;
        let text = String::from_utf8_lossy(&self.text);
        let of_cgroups =
            self.memory_cgroup(&text).map(|of| room::of_cgroups(of.mount, &of.dir, of.is_v1));
        self.proc.read_system("meminfo", &mut self.text).ok()?;
        let of_machine = room::of_machine(&String::from_utf8_lossy(&self.text))?;
        Some(of_cgroups.map_or(of_machine, |room| room.min(of_machine)))
    }

    fn last(&self) -> MutexGuard<'_, Last> {
        self.last.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn of_machine_now(&mut self) -> Machine {
        match self.proc.read_system("vmstat", &mut self.text) {
            Ok(()) => {
                let text = String::from_utf8_lossy(&self.text).into_owned();
                let pressure = self.proc.read_system("pressure/memory", &mut self.text).ok();
                let pressure = pressure.map(|()| String::from_utf8_lossy(&self.text));
                Machine::of(&text, pressure.as_deref())
            }
            Err(_) => Machine::default(),
        }
    }

    /// The cgroup of memory that this text names.
    fn memory_cgroup(&self, text: &str) -> Option<MemoryCgroup<'_>> {
        let mut lines = text.lines().map(|line| line.splitn(3, ':'));
        // 4:memory:/a/b of v1 counts if it is there, else 0::/a/b of v2.
        let v1 = lines.clone().find_map(|mut line| {
            let is_memory = line.nth(1)?.split(',').any(|name| name == "memory");
            is_memory.then(|| line.next())?
        });
        if let (Some(path), Some(mount)) = (v1, self.cgroups.v1_of("memory")) {
            return Some(MemoryCgroup { mount, dir: directory(mount, path)?, is_v1: true });
        }
        let v2 = lines.find_map(|mut line| if line.next()? == "0" { line.nth(1) } else { None })?;
        let mount = self.cgroups.v2.as_deref()?;
        Some(MemoryCgroup { mount, dir: directory(mount, v2)?, is_v1: false })
    }

    /// Of the cgroups that this text names.
    fn of_cgroup(&self, text: &str) -> Option<Counted> {
        let MemoryCgroup { mount, dir, is_v1 } = self.memory_cgroup(text)?;
        if is_v1 {
            // These cgroups have no pressure file. That of the machine stands for it.
            let strain = Strain::of(text_of(&dir, "memory.stat").as_deref(), None);
            return Some(Counted {
                all: reached_limits(mount, &dir),
                strain,
                ..Counted::default()
            });
        }
        let stat = text_of(&dir, "memory.stat")?;
        let all = field(&stat, "pgscan")?;
        // Read last: what is being done meanwhile is rather counted as ours.
        let ours = ours::of(&dir);
        let pressure = text_of(&dir, "memory.pressure");
        let strain = Strain::of(Some(&stat), pressure.as_deref());
        Some(Counted { all, ours, kinds: None, strain })
    }
}

/// Where a process's memory is charged.
struct MemoryCgroup<'a> {
    mount: &'a Path,
    dir: PathBuf,
    is_v1: bool,
}

/// How often the limits of a v1 memory cgroup and of those above it were reached.
fn reached_limits(mount: &Path, dir: &Path) -> u64 {
    let all = dir.ancestors().take_while(|dir| dir.starts_with(mount));
    let counts = all.filter_map(|dir| std::fs::read_to_string(dir.join("memory.failcnt")).ok());
    counts.filter_map(|text| text.trim().parse::<u64>().ok()).fold(0, u64::saturating_add)
}

fn text_of(dir: &Path, name: &str) -> Option<String> {
    std::fs::read_to_string(dir.join(name)).ok()
}

/// A cgroup's directory. In a container the path may lie outside of what is mounted; then the
/// mount's own directory stands for it.
fn directory(mount: &Path, path: &str) -> Option<PathBuf> {
    let below = Path::new(path.strip_prefix('/')?);
    let is_plain = below.components().all(|c| matches!(c, std::path::Component::Normal(_)));
    let dir = mount.join(below);
    Some(if is_plain && dir.is_dir() { dir } else { mount.to_path_buf() })
}

/// The number behind `name ` at the begin of a line.
fn field(text: &str, name: &str) -> Option<u64> {
    let line = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '))?;
    line.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    /// A machine with one process, number 7.
    fn machine(cgroup: &str, files: &[(&str, &str)], cgroups: fn(&Path) -> Cgroups) -> u64 {
        let dir = tempfile::tempdir().unwrap();
        let write = |path: &str, text: &str| {
            let path = dir.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        };
        write("proc/7/cgroup", cgroup);
        files.iter().for_each(|(path, text)| write(path, text));
        let proc = Proc::new(dir.path().join("proc"));
        Reclaim::new(proc, cgroups(&dir.path().join("cg"))).counted(7, 0).all
    }

    #[test]
    fn processes_that_share_a_counter_read_it_once() {
        let dir = tempfile::tempdir().unwrap();
        let write = |path: &str, text: &str| {
            let path = dir.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        };
        write("7/cgroup", "0::/a\n");
        write("8/cgroup", "0::/b\n");
        write("9/cgroup", "0::/a\n");
        let grow = |machine: u64, a: u64| {
            write("vmstat", &format!("pgscan_kswapd {machine}\n"));
            write("cg/a/memory.stat", &format!("pgscan {a}\n"));
            write("cg/b/memory.stat", "pgscan 7\n");
        };
        let cgroups = Cgroups { v2: Some(dir.path().join("cg")), ..Cgroups::default() };
        let mut reclaim = Reclaim::new(Proc::new(dir.path()), cgroups);
        let mut at = |ms: u64| [7, 8, 9].map(|pid| reclaim.counted(pid, ms * 1_000_000).all);
        grow(100, 20);
        assert_eq!(at(1000), [120, 107, 120]);
        grow(200, 30);
        assert_eq!(at(1050), [120, 107, 120], "read a moment ago");
        assert_eq!(at(1100), [230, 207, 230]);
    }

    #[test]
    fn of_a_kind_no_more_was_looked_at_than_on_the_whole_machine() {
        let kinds = |anon: u64, files: u64| Kinds { anon, files };
        let before =
            Counted { all: 500, ours: 0, kinds: Some(kinds(60, 950)), ..Counted::default() };
        let since = |all: u64, ours: u64, kinds: Option<Kinds>| {
            Counted { all: 500 + all, ours, kinds, ..before }.since(&before)
        };
        // Files only; both; more than what concerns this process; ours alone.
        assert_eq!(since(800, 0, Some(kinds(60, 1750))), kinds(0, 800));
        assert_eq!(since(800, 0, Some(kinds(260, 1550))), kinds(200, 600));
        assert_eq!(since(300, 0, Some(kinds(9060, 1950))), kinds(300, 300));
        assert_eq!(since(300, 280, Some(kinds(360, 950))), kinds(0, 0));
        // A kernel that does not tell.
        assert_eq!(since(300, 0, None), kinds(300, 300));
        let text = "pgscan_kswapd 30\npgscan_direct 4\npgscan_anon 9\npgscan_file 25\n";
        let machine = Machine::of(text, None);
        assert_eq!((machine.for_itself, machine.kinds), (34, Some(kinds(9, 25))));
        assert_eq!(Machine::of("pgscan_kswapd 30\n", None).kinds, None);
    }

    #[test]
    fn what_reclaim_costs_is_that_of_the_cgroup_where_it_tells() {
        let dir = tempfile::tempdir().unwrap();
        let put = |path: &str, text: &str| {
            let path = dir.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        };
        let pressure = |us: u64| format!("some avg10=0.00 avg60=0.00 avg300=0.00 total={us}\n");
        put("7/cgroup", "0::/a\n");
        put("8/cgroup", "0::/b\n");
        put("9/cgroup", "3:memory:/c\n");
        put("vmstat", "pgscan_kswapd 1\nworkingset_refault_anon 9\n");
        put("pressure/memory", &pressure(900));
        put("cg/a/memory.stat", "pgscan 2\nworkingset_refault_anon 4\n");
        put("cg/a/memory.pressure", &pressure(70));
        put("cg/b/memory.stat", "pgscan 2\n");
        put("v1/c/memory.stat", "workingset_refault_file 3\n");
        let cgroups = Cgroups {
            v2: Some(dir.path().join("cg")),
            v1: vec![("memory".into(), dir.path().join("v1"))],
        };
        let mut reclaim = Reclaim::new(Proc::new(dir.path()), cgroups);
        let strain = |pages: u64, us| Strain { refaulted: Some(pages << 12), stalled_us: Some(us) };
        let found = [7, 8, 9].map(|pid| reclaim.counted(pid, 0).strain);
        assert_eq!(found, [strain(4, 70), strain(9, 900), strain(3, 900)]);
        let none = Strain::default();
        assert_eq!(strain(5, 100).since(&strain(2, 30)), (3 << 12, 70));
        assert_eq!([strain(5, 100).since(&none), none.since(&strain(1, 1))], [(0, 0); 2]);
    }

    #[test]
    fn what_we_ask_for_is_counted_apart() {
        let dir = tempfile::tempdir().unwrap();
        let put = |path: &str, text: &str| {
            let path = dir.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        };
        put("7/cgroup", "0::/a/b\n");
        put("8/cgroup", "0::/ab\n");
        put("cg/a/b/memory.stat", "pgscan 900\npgscan_direct 900\n");
        put("cg/ab/memory.stat", "pgscan 40\n");
        let at = |group: &str| dir.path().join("cg").join(group);
        assert_eq!(scanned(&at("a/b")), Some(900));
        assert_eq!(scanned(&at("a")), None, "no memory controller");
        note_ours(&at("a/b"), 600);
        note_ours(&at("a/b"), 100);
        note_ours(&at("a"), 50);
        note_ours(&at("a/b/c"), 7);
        let cgroups = Cgroups { v2: Some(dir.path().join("cg")), ..Cgroups::default() };
        let mut reclaim = Reclaim::new(Proc::new(dir.path()), cgroups);
        let of = |all, ours| Counted { all, ours, ..Counted::default() };
        assert_eq!(reclaim.counted(7, 0), of(900, 750));
        assert_eq!(reclaim.counted(8, 0), of(40, 0));
    }

    #[test]
    fn the_counters_that_concern_a_process_are_added_up() {
        let vmstat = ("proc/vmstat", "pgscan_kswapd 30\npgscan_direct 4\n");
        let v1 = |at: &Path| Cgroups {
            v1: vec![("memory".into(), at.to_path_buf())],
            ..Cgroups::default()
        };
        let v2 = |at: &Path| Cgroups { v2: Some(at.to_path_buf()), ..Cgroups::default() };
        let stat = ("cg/a/memory.stat", "anon 1\npgscan 500\npgscan_direct 7\n");
        for (name, cgroup, files, cgroups, total) in [
            ("nothing known", "", vec![], v2 as fn(&Path) -> Cgroups, 0),
            ("machine", "0::/\n", vec![vmstat], v2, 34),
            ("v2", "0::/a\n", vec![vmstat, stat], v2, 534),
            (
                "v2, outside of the container",
                "0::/../x\n",
                vec![("cg/memory.stat", "pgscan 3")],
                v2,
                3,
            ),
            (
                "v1, also above it",
                "4:cpu,memory:/a/b\n0::/\n",
                vec![
                    ("cg/a/b/memory.failcnt", "20\n"),
                    ("cg/a/memory.failcnt", "1\n"),
                    ("cg/memory.failcnt", "0\n"),
                ],
                v1,
                21,
            ),
        ] {
            assert_eq!(machine(cgroup, &files, cgroups), total, "{name}");
        }
    }
}
