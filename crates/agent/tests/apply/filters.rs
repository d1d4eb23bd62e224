//! Which memory the ops filters allow, by `stat` on memory of a known kind.

use std::io::Write;
use std::path::PathBuf;
use std::time::Duration;

use isotherm_core::AddrRange;
use isotherm_core::scheme::{Action, FilterKind};

use crate::direct::{Direct, MIB, mib, others};

const ANON: AddrRange = mib(0, 8);
const SHARED: AddrRange = mib(16, 4);
const FILE: AddrRange = mib(32, 2);
const ALL: AddrRange = mib(0, 64);

/// A target with 8 MiB of anonymous, 4 MiB of shared and 2 MiB of file memory; and the file.
fn three_kinds() -> Option<(Direct, tempfile::NamedTempFile)> {
    let mut direct = Direct::start(Action::Stat)?;
    let mut file = tempfile::Builder::new().suffix(".data").tempfile().unwrap();
    file.write_all(&vec![7; 2 << 20]).unwrap();
    file.as_file().sync_all().unwrap();
    direct.odd.tell("anon", ANON, "");
    direct.odd.tell("nohuge", ANON, "");
    direct.odd.tell("fill", ANON, "");
    direct.odd.tell("shared", SHARED, "");
    direct.odd.tell("fill", SHARED, "");
    direct.odd.tell("private", FILE, file.path().to_str().unwrap());
    direct.odd.tell("touch", FILE, "");
    direct.settings.mappings = vec!["*.data".to_owned(), "/dev/zero*".to_owned()];
    Some((direct, file))
}

#[test]
fn kinds_of_memory_are_told_apart() {
    let Some((mut direct, _file)) = three_kinds() else { return };
    use FilterKind::{Anon, File, Mapping, Shared, Unmapped};
    let (anon, shared, file) = (8 * MIB, 4 * MIB, 2 * MIB);
    for (name, filters, expected) in [
        ("anon only", vec![(Anon, true, true)], anon),
        ("all but anon", vec![(Anon, true, false)], shared + file),
        ("what is not anon is refused", vec![(Anon, false, false)], anon),
        ("files only", vec![(File, true, true)], shared + file),
        ("shared only", vec![(Shared, true, true)], shared),
        ("files, not shared", vec![(Shared, true, false), (File, true, true)], file),
        ("by name", vec![(Mapping(0), true, true)], file),
        ("by another name", vec![(Mapping(1), true, true)], shared),
        ("the first that applies decides", vec![(Mapping(0), true, true), (File, true, false)], {
            anon + file
        }),
        (
            "the last one's opposite is the default",
            vec![(File, true, false), (Mapping(0), true, true)],
            0,
        ),
        ("never unmapped", vec![(Unmapped, true, true)], 0),
        ("always mapped", vec![(Unmapped, true, false)], anon + shared + file),
    ] {
        direct.filter(&filters);
        let passed = direct.pass(ALL).passed;
        assert_eq!(passed, expected, "{name}: {:?}", direct.events);
    }
    assert!(direct.events.is_empty(), "{:?}", direct.events);
}

#[test]
fn young_pages_are_told_from_old_ones() {
    let Some((mut direct, _file)) = three_kinds() else { return };
    // Arming makes all old; then a quarter is touched.
    direct.scheme.action = Action::Cold;
    direct.settings.evidence = isotherm_act::apply::Evidence::Off;
    // New pages wait on a list of their CPU's first, and cannot be made old there: a few may stay
    // young for long.
    for _ in 0..100 {
        direct.pass(ANON);
        direct.filter(&[(FilterKind::Young, true, true)]);
        direct.scheme.action = Action::Stat;
        let young = direct.pass(ANON).passed;
        direct.scheme.action = Action::Cold;
        direct.filter(&[]);
        if young == 0 {
            break;
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    direct.odd.tell("touch", mib(0, 2), "");
    direct.scheme.action = Action::Stat;
    for (allow, expected) in [(true, 2 * MIB), (false, 6 * MIB)] {
        direct.filter(&[(FilterKind::Young, true, allow)]);
        let passed = direct.pass(ANON).passed;
        // The machine's own DAMON may make a few of the touched pages old.
        assert!(passed.abs_diff(expected) <= others(0), "allow {allow}: {passed} of {expected}");
    }
}

#[test]
fn sizes_of_folios_are_true() {
    let Some((mut direct, _file)) = three_kinds() else { return };
    let huge = mib(64, 8);
    direct.odd.tell("anon", huge, "");
    direct.odd.tell("huge", huge, "");
    direct.odd.tell("fill", huge, "");
    let made = direct.odd.smaps(huge, "AnonHugePages:");
    // The lower half of the first huge page is unmapped: what is left of it is still mapped, page
    // by page, and still one folio.
    let whole = FilterKind::HugepageSize(2 << 20, 2 << 20);
    let small = FilterKind::HugepageSize(4096, 4096);
    for (name, range, kind, expected) in [
        ("single pages", ANON, small, 8 * MIB),
        ("single pages are not huge", ANON, whole, 0),
        ("huge ones", huge, whole, made),
        ("huge ones are not single", huge, small, 8 * MIB - made),
    ] {
        direct.filter(&[(kind, true, true)]);
        assert_eq!(direct.pass(range).passed, expected, "{name}");
    }
    if made < 8 * MIB {
        eprintln!("skipped the rest: only {made} bytes are huge");
        return;
    }
    direct.odd.tell("unmap", AddrRange::new(huge.start, huge.start + MIB), "");
    assert_eq!(direct.odd.smaps(huge, "AnonHugePages:"), made - 2 * MIB);
    let rest = AddrRange::new(huge.start + MIB, huge.start + 2 * MIB);
    for (kind, expected) in [(whole, MIB), (small, 0)] {
        direct.filter(&[(kind, true, true)]);
        assert_eq!(direct.pass(rest).passed, expected, "{kind:?}: what is left of a huge page");
    }
    // Sizes in between, of files: the two add up, whatever the file system makes.
    let mut sum = 0;
    for order in 0..10 {
        let size = 4096 << order;
        direct.filter(&[(FilterKind::HugepageSize(size, size), true, true)]);
        let passed = direct.pass(FILE).passed;
        eprintln!("{passed} bytes of the file are in folios of {size} bytes");
        sum += passed;
    }
    assert_eq!(sum, 2 * MIB);
}

/// A memory cgroup below our own. Processes that were put in go back when it is dropped.
struct Memcg {
    above: PathBuf,
    dir: PathBuf,
    moved: Vec<u32>,
}

impl Memcg {
    fn new() -> Option<Self> {
        let groups = std::fs::read_to_string("/proc/self/cgroup").unwrap();
        let v1 = groups.lines().find_map(|line| line.split_once(":memory:"));
        let v2 = groups.lines().find_map(|line| line.strip_prefix("0::"));
        let (mount, own) = match v1 {
            Some((_, own)) => ("/sys/fs/cgroup/memory", own),
            None => ("/sys/fs/cgroup", v2?),
        };
        let above = PathBuf::from(format!("{mount}{own}"));
        let dir = above.join(format!("isotherm-test-{}", std::process::id()));
        if let Err(e) = std::fs::create_dir(&dir) {
            eprintln!("skipped: cannot make the cgroup {}: {e}", dir.display());
            return None;
        }
        Some(Self { above, dir, moved: Vec::new() })
    }

    fn take(&mut self, pid: u32) {
        self.moved.push(pid);
        std::fs::write(self.dir.join("cgroup.procs"), pid.to_string()).unwrap();
    }
}

impl Drop for Memcg {
    fn drop(&mut self) {
        for pid in &self.moved {
            // It may have ended.
            std::fs::write(self.above.join("cgroup.procs"), pid.to_string()).ok();
        }
        if let Err(e) = std::fs::remove_dir(&self.dir) {
            eprintln!("the cgroup {} is left: {e}", self.dir.display());
        }
    }
}

#[test]
fn memory_is_told_by_the_cgroup_that_it_is_charged_to() {
    let Some(mut direct) = Direct::start(Action::Stat) else { return };
    let Some(mut group) = Memcg::new() else { return };
    if !group.dir.join("memory.stat").exists() {
        eprintln!("skipped: no memory controller in the cgroup");
        return;
    }
    // 4 MiB before it is moved; what comes after is charged to the new one.
    let (before, after, huge) = (mib(0, 4), mib(8, 6), mib(16, 8));
    for range in [before, after] {
        direct.odd.tell("anon", range, "");
        direct.odd.tell("nohuge", range, "");
    }
    direct.odd.tell("fill", before, "");
    group.take(direct.odd.pid());
    direct.odd.tell("fill", after, "");
    direct.odd.tell("anon", huge, "");
    direct.odd.tell("huge", huge, "");
    direct.odd.tell("fill", huge, "");
    let path = |dir: &PathBuf| dir.to_str().unwrap().to_owned();
    direct.settings.cgroups = vec![path(&group.dir), path(&group.above), "/no/such".to_owned()];
    for (name, filters, expected) in [
        ("the new one", vec![(FilterKind::Memcg(0), true, true)], 14 * MIB),
        ("the one above, alone", vec![(FilterKind::Memcg(1), true, true)], 4 * MIB),
        ("all but the new one", vec![(FilterKind::Memcg(0), true, false)], 4 * MIB),
    ] {
        direct.filter(&filters);
        assert_eq!(direct.pass(mib(0, 32)).passed, expected, "{name}: {:?}", direct.events);
    }
    assert!(direct.events.is_empty(), "{:?}", direct.events);
    // Refusing what is charged to one that is not there would let all in, if it were taken for "is
    // not".
    direct.filter(&[(FilterKind::Memcg(2), true, false)]);
    for _ in 0..3 {
        assert_eq!(direct.pass(mib(0, 32)).passed, 0);
    }
    assert_eq!(direct.told("no/such"), 1, "{:?}", direct.events);
    direct.odd.kill();
}

#[test]
fn active_pages_are_told_from_inactive_ones() {
    let Some((mut direct, file)) = three_kinds() else { return };
    if std::fs::read_to_string("/sys/kernel/mm/lru_gen/enabled").is_ok_and(|s| s.trim() != "0x0000")
    {
        eprintln!("skipped: with the multi-generational LRU no page is on an active list");
        return;
    }
    // Read again and again, its pages become active; new anonymous ones begin as inactive.
    let path = file.path().to_str().unwrap().to_owned();
    direct.odd.tell("read", AddrRange::default(), &path);
    for (name, range, filter, least, most) in [
        ("the file", FILE, (FilterKind::Active, true, true), MIB, 2 * MIB),
        ("the file, not active", FILE, (FilterKind::Active, true, false), 0, MIB),
        ("new memory", ANON, (FilterKind::Active, true, true), 0, MIB),
        ("new memory, not active", ANON, (FilterKind::Active, true, false), 7 * MIB, 8 * MIB),
    ] {
        direct.filter(&[filter]);
        let passed = direct.pass(range).passed;
        eprintln!("{name}: {passed} bytes");
        assert!((least..=most).contains(&passed), "{name}: {passed} bytes");
    }
    assert!(direct.events.is_empty(), "{:?}", direct.events);
}

#[test]
fn filters_cost_little() {
    let Some(mut direct) = Direct::start(Action::Stat) else { return };
    let range = mib(0, 512);
    direct.odd.tell("anon", range, "");
    direct.odd.tell("nohuge", range, "");
    direct.odd.tell("fill", range, "");
    direct.settings.mappings = vec!["*".to_owned()];
    direct.settings.cgroups = vec!["/".to_owned()];
    for kind in [
        FilterKind::Unmapped,
        FilterKind::Young,
        FilterKind::Mapping(0),
        FilterKind::Anon,
        FilterKind::Active,
        FilterKind::HugepageSize(4096, 4096),
        FilterKind::Memcg(0),
    ] {
        direct.filter(&[(kind, true, true)]);
        let all = direct.pass(range);
        // No times are asserted: they are the machine's.
        eprintln!("{kind:?}: {} of 512 MiB in {} us", all.passed >> 20, all.ns / 1000);
        if matches!(kind, FilterKind::Mapping(_) | FilterKind::Anon | FilterKind::HugepageSize(..))
        {
            assert_eq!(all.passed, 512 * MIB, "{kind:?}");
        }
    }
}
