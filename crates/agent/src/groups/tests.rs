use std::fs;

use isotherm_core::unit::UNIT;
use isotherm_core::{AddrRange, PageBits, SPANS, TouchedBytes};
use isotherm_record::{Mapping, Object};

use super::*;

const M: u64 = 1 << 20;

fn machine(processes: &[(u32, &str)]) -> (tempfile::TempDir, Groups) {
    let dir = tempfile::tempdir().unwrap();
    for (pid, cgroup) in processes {
        let at = dir.path().join(pid.to_string());
        fs::create_dir_all(&at).unwrap();
        fs::write(at.join("cgroup"), format!("0::{cgroup}\n")).unwrap();
    }
    let groups = Groups::new(Proc::new(dir.path()), By::Cgroup);
    (dir, groups)
}

/// A target with one unit of which so many pages were touched within a second.
fn target(id: u32, pages: u64) -> TargetInfo {
    let touched = PageBits::of(0, AddrRange::new(0, pages << 12));
    let within = TouchedBytes { bytes: pages << 12, lo: 0, hi: pages << 12, measured: UNIT };
    let mut spans = [None; SPANS];
    spans[2] = Some(within);
    let mut unit = UnitInfo { present: PageBits::ALL, ..UnitInfo::default() };
    unit.touched[2] = Some(touched);
    let range = AddrRange::new(0, UNIT);
    TargetInfo {
        id: TargetId(id),
        regions: vec![RegionInfo { range, resolved: true, age: 9, ..RegionInfo::default() }],
        touched: Some(Touched { spans, watched: UNIT }),
        units: vec![unit],
    }
}

fn snapshot(at_s: u64, targets: Vec<TargetInfo>) -> Snapshot {
    Snapshot { end: Time(at_s * 1_000_000_000), targets, aggr_us: 100_000, ..Snapshot::default() }
}

fn pids(ids: &[u32]) -> BTreeMap<TargetId, u32> {
    ids.iter().map(|id| (TargetId(*id), *id)).collect()
}

#[test]
fn a_group_is_the_targets_of_a_cgroup() {
    let (dir, mut groups) = machine(&[(1, "/a"), (2, "/b"), (3, "/a")]);
    let s = snapshot(1, vec![target(1, 4), target(2, 512), target(3, 0)]);
    groups.learn(&s);
    let now = groups.now(&s, &Lengths::default(), &pids(&[1, 2, 3]), &Looks::default());
    let told: Vec<_> = now
        .iter()
        .map(|g| (g.cgroup.as_str(), g.processes, g.tiers.hot >> 12, g.tiers.cold >> 12))
        .collect();
    assert_eq!(told, [("/a", 2, 4, 1020), ("/b", 1, 512, 0)]);
    let span = now[0].touched.and_then(|t| t.spans[2]).unwrap();
    assert_eq!((span.bytes, span.measured), (4 << 12, 2 * UNIT));
    assert_eq!(now[0].idle.iter().map(|(_, bytes)| bytes / M).sum::<u64>(), 4);
    // It moves, and another ends.
    fs::write(dir.path().join("3/cgroup"), "0::/b\n").unwrap();
    let s = snapshot(3, vec![target(2, 512), target(3, 0)]);
    groups.learn(&s);
    let now = groups.now(&s, &Lengths::default(), &pids(&[2, 3]), &Looks::default());
    assert_eq!(
        now.iter().map(|g| (g.cgroup.as_str(), g.processes)).collect::<Vec<_>>(),
        [("/b", 2)]
    );
}

#[test]
fn thousands_are_asked_in_turn_and_tell_how_old_the_answer_is() {
    let nr = 3 * u32::try_from(TURNS).unwrap();
    let all: Vec<u32> = (1..=nr).collect();
    let (_dir, mut groups) = machine(&all.iter().map(|pid| (*pid, "/a")).collect::<Vec<_>>());
    let mut age_at = |s: u64| {
        let s = snapshot(s, all.iter().map(|id| target(*id, 1)).collect());
        groups.now(&s, &Lengths::default(), &pids(&all), &Looks::default())[0].age_ns
            / 1_000_000_000
    };
    assert_eq!([age_at(10), age_at(11), age_at(12), age_at(13), age_at(14)], [0, 1, 2, 2, 2]);
}

#[test]
fn regions_stand_in_where_pages_are_not_known() {
    let (_dir, mut groups) = machine(&[(1, "/a")]);
    let region = |nr: u64, nr_accesses, age, resolved| RegionInfo {
        range: AddrRange::new(nr * M, (nr + 1) * M),
        nr_accesses,
        age,
        resolved,
        ..RegionInfo::default()
    };
    let regions = vec![
        region(0, 3, 1, true),
        region(1, 0, 1, true),
        region(2, 0, 1 << 20, true),
        region(3, 0, 0, false),
    ];
    let s = snapshot(1, vec![TargetInfo { id: TargetId(1), regions, ..TargetInfo::default() }]);
    groups.learn(&s);
    let mut lengths = Lengths::default();
    lengths.note(&s);
    let now = groups.now(&s, &lengths, &pids(&[1]), &Looks::default());
    assert_eq!(now[0].tiers, Tiers { hot: M, warm: M, cold: M, unresolved: M });
    assert_eq!((now[0].touched, now[0].working_set), (None, M));
}

#[test]
fn groups_can_be_units_pods_containers_and_users() {
    let uid = "0b1c2d3e-1111-4222-8333-444455556666";
    let id = "a".repeat(64);
    let pod = format!("/kubepods/burstable/pod{uid}");
    let container = format!("{pod}/{id}");
    for (by, cgroup, name) in [
        (By::Cgroup, "/a/b", "/a/b"),
        (By::Unit, "/system.slice/redis.service/inner", "redis.service"),
        (By::Unit, "/a/b", "-"),
        (By::Pod, container.as_str(), uid),
        (By::Pod, "/system.slice/redis.service", "-"),
        (By::Container, container.as_str(), &format!("{uid}/aaaaaaaaaaaa")),
        (By::Container, &format!("/docker/{id}"), "aaaaaaaaaaaa"),
        (By::Container, pod.as_str(), "-"),
    ] {
        assert_eq!(GroupNames::default().of(by, cgroup, None), name, "{by:?}");
    }
    let root = tempfile::tempdir().unwrap();
    let put = |file: &str| fs::create_dir_all(root.path().join(file)).unwrap();
    put(&format!("var/log/pods/shop_web-1_{uid}"));
    put(&format!("var/log/containers/web-1_shop_nginx-{id}.log"));
    put("etc");
    fs::write(root.path().join("etc/passwd"), "postgres:x:114:120::/:/bin/sh\n").unwrap();
    let mut names = GroupNames::new(root.path());
    assert!(names.refresh(Time(0)) && !names.refresh(Time(1)));
    for (by, user, name) in [
        (By::Pod, None, "shop/web-1"),
        (By::Container, None, "shop/web-1/nginx"),
        (By::User, Some(114), "postgres"),
        (By::User, Some(4711), "4711"),
        (By::User, None, "-"),
    ] {
        assert_eq!(names.of(by, &container, user), name, "{by:?}");
    }
}

#[test]
fn processes_of_a_user_are_a_group_in_whatever_cgroups() {
    let (dir, _) = machine(&[(1, "/a"), (2, "/b"), (3, "/b")]);
    for (pid, uid) in [(1, 900_001), (2, 900_001), (3, 900_002)] {
        let text = format!("Name:\tx\nUid:\t0\t{uid}\t0\t0\n");
        fs::write(dir.path().join(format!("{pid}/status")), text).unwrap();
    }
    let mut groups = Groups::new(Proc::new(dir.path()), By::User);
    let s = snapshot(1, vec![target(1, 4), target(2, 10), target(3, 2)]);
    groups.learn(&s);
    let now = groups.now(&s, &Lengths::default(), &pids(&[1, 2, 3]), &Looks::default());
    let told: Vec<_> = now.iter().map(|g| (g.cgroup.as_str(), g.processes)).collect();
    assert_eq!(told, [("900001", 2), ("900002", 1)]);
}

/// Three processes map the same 2 MiB; two of them are in one cgroup.
#[test]
fn shared_memory_counts_once_in_each_cgroup_as_hot_as_where_it_is_hottest() {
    let (_dir, mut groups) = machine(&[(1, "/a"), (2, "/a"), (3, "/b")]);
    let s = snapshot(1, vec![target(1, 4), target(2, 10), target(3, 2)]);
    groups.learn(&s);
    let object = Object { device: 1, inode: 2, offset: 0 };
    let maps = vec![Mapping::new(0, UNIT, "rw-s", "/x").of_object(object)];
    groups.sharing.follow_with(&s, &mut |_| maps.clone());
    let now = groups.now(&s, &Lengths::default(), &pids(&[1, 2, 3]), &Looks::default());
    let pages = |bytes: u64| bytes >> 12;
    let told: Vec<_> = now.iter().map(|g| (pages(g.tiers.hot), pages(g.tiers.cold))).collect();
    assert_eq!(told, [(10, 502), (2, 510)]);
    let spans = now.iter().map(|g| g.touched.and_then(|t| t.spans[2]).unwrap());
    // The 4 pages that the first has touched are among the 10 of the second.
    assert_eq!(spans.map(|span| pages(span.bytes)).collect::<Vec<_>>(), [10, 2]);
    let idle = now.iter().map(|g| g.idle.iter().map(|(_, bytes)| bytes / M).sum::<u64>());
    assert_eq!(idle.collect::<Vec<_>>(), [2, 2]);
}

#[test]
fn those_without_a_place_are_counted_and_age_their_group() {
    let (_dir, mut groups) = machine(&[(1, "/a"), (2, "/a"), (3, "/b"), (4, "/c")]);
    let second = |s: u64| Time(s * 1_000_000_000);
    let s = snapshot(100, vec![target(1, 4), target(4, 4)]);
    let looks = Looks {
        watched: [(TargetId(1), second(95)), (TargetId(4), second(99))].into(),
        waiting: [(TargetId(2), second(40)), (TargetId(3), second(70))].into(),
    };
    groups.learn(&s);
    let now = groups.now(&s, &Lengths::default(), &pids(&[1, 2, 3, 4]), &looks);
    let told: Vec<_> = now
        .iter()
        .map(|g| (g.cgroup.as_str(), g.processes, g.waiting, g.look_age_ns / 1_000_000_000))
        .collect();
    assert_eq!(told, [("/a", 1, 1, 60), ("/b", 0, 1, 30), ("/c", 1, 0, 1)]);
    assert_eq!((now[1].tiers, now[1].touched), (Tiers::default(), None), "nothing is made up");

    // One that has just left its place is in the last window still.
    let looks = Looks { waiting: [(TargetId(1), second(100))].into(), ..looks };
    let now = groups.now(&s, &Lengths::default(), &pids(&[1, 4]), &looks);
    assert_eq!((now[0].processes, now[0].waiting), (1, 0));
}

/// A group is watched since a target of it has a place, also where idle times of pages are not
/// followed, and anew after it had none.
#[test]
fn groups_tell_for_how_long_they_are_watched() {
    let (_dir, mut groups) = machine(&[(1, "/a"), (2, "/b")]);
    let mut told = Vec::new();
    for (at_s, watched, waiting) in
        [(10, &[1][..], &[2][..]), (20, &[1, 2], &[]), (80, &[2], &[1]), (90, &[1, 2], &[])]
    {
        let s = snapshot(at_s, watched.iter().map(|id| target(*id, 4)).collect());
        let waiting = waiting.iter().map(|id| (TargetId(*id), s.end)).collect();
        let looks = Looks { waiting, ..Looks::default() };
        groups.learn(&s);
        let now = groups.now(&s, &Lengths::default(), &pids(&[1, 2]), &looks);
        told.push([now[0].watched_ns, now[1].watched_ns].map(|ns| ns / 1_000_000_000));
    }
    assert_eq!(told, [[0, 0], [10, 0], [0, 60], [0, 70]]);
}

/// After a pause nothing is known of the time before it, so a group is watched anew. What came back
/// so far stays: it only goes up.
#[test]
fn a_pause_is_a_break() {
    let (_dir, groups) = machine(&[(1, "/a")]);
    let mut groups = groups.with_ages();
    let mut told = Vec::new();
    // The last of them begins a little late, as windows of the kernel may.
    for (start_ms, end_ms) in
        [(0, 100), (100, 9000), (69_000, 69_100), (69_100, 80_000), (80_050, 80_150)]
    {
        let mut s = snapshot(0, vec![target(1, 4)]);
        (s.start, s.end) = (Time(start_ms * 1_000_000), Time(end_ms * 1_000_000));
        groups.learn(&s);
        let now = groups.now(&s, &Lengths::default(), &pids(&[1]), &Looks::default());
        told.push(now[0].watched_ns / 1_000_000);
        // As the agent does in a pause: the same window once more.
        let now = groups.now(&s, &Lengths::default(), &pids(&[1]), &Looks::default());
        assert_eq!(now[0].watched_ns / 1_000_000, *told.last().unwrap());
    }
    assert_eq!(told, [0, 8900, 100, 11_000, 11_150]);
}

/// Two processes of one cgroup map the same 2 MiB. What one of them uses all the time never comes
/// back, whatever the other does; what both leave alone does, once.
#[test]
fn what_comes_back_counts_once_and_only_if_nobody_used_it() {
    let (_dir, groups) = machine(&[(1, "/a"), (2, "/a")]);
    let mut groups = groups.with_ages();
    let object = Object { device: 1, inode: 2, offset: 0 };
    let maps = vec![Mapping::new(0, UNIT, "rw-s", "/x").of_object(object)];
    let pages = |range: std::ops::Range<u64>| {
        PageBits::of(0, AddrRange::new(range.start << 12, range.end << 12))
    };
    // The first one uses pages 0 to 99 all the time. The second one touches pages 50 to 149 after
    // ten minutes, and the first one pages 100 to 119 at the same time.
    let window = |minute: u64| {
        let found = match minute {
            10 => [pages(0..120), pages(50..150)],
            _ => [pages(0..100), PageBits::default()],
        };
        let targets = [1, 2].into_iter().zip(found).map(|(id, found)| {
            let mut target = target(id, 0);
            target.units[0].since = Time(minute * 60_000_000_000);
            target.units[0].found = Some(found);
            target
        });
        snapshot(minute * 60, targets.collect())
    };
    let (mut told, mut watched_ns) = (Vec::new(), 0);
    for minute in 0..=11 {
        let s = window(minute);
        groups.learn(&s);
        groups.sharing.follow_with(&s, &mut |_| maps.clone());
        let now = groups.now(&s, &Lengths::default(), &pids(&[1, 2]), &Looks::default());
        told.push(now[0].ages.unwrap());
        watched_ns = now[0].watched_ns;
    }
    let pages = |bytes: [u64; 3]| bytes.map(|bytes| bytes >> 12);
    assert_eq!(pages(told[9].returned), [0; 3]);
    assert_eq!(pages(told[9].proven), [412, 412, 0], "all but those in use");
    assert_eq!(pages(told[10].returned), [50, 50, 0], "100 to 149");
    assert_eq!(pages(told[11].returned), [50, 50, 0], "it is a sum");
    assert_eq!(pages(told[11].proven), [362, 362, 0]);
    assert_eq!(watched_ns, 11 * 60_000_000_000);
}

/// Two processes of a cgroup and one of another map a file, and a fourth has one of its own. One
/// of the first two touches 100 pages all the time.
#[test]
fn files_are_idle_where_nobody_of_any_cgroup_touches_them() {
    let (_dir, groups) = machine(&[(1, "/a"), (2, "/a"), (3, "/b"), (4, "/c")]);
    let mut groups = groups.with_ages();
    groups.sharing.keep_paths();
    let map = |inode, path: &str| {
        let object = Object { device: 1 << 32, inode, offset: 0 };
        vec![Mapping::new(0, UNIT, "r--s", path).of_object(object)]
    };
    let used = PageBits::of(0, AddrRange::new(0, 100 << 12));
    let wanted = Wanted { shared: true, files: true, units: Some(4) };
    let (all, ids) = (pids(&[1, 2, 3, 4]), [1, 2, 3, 4]);
    let mut told = PagesSeen::default();
    for minute in 0..=7 {
        let targets = ids.map(|id| {
            let mut target = target(id, 0);
            target.units[0].since = Time(minute * 60_000_000_000);
            target.units[0].found = (id == 1).then_some(used);
            target
        });
        let s = snapshot(minute * 60, targets.to_vec());
        groups.learn(&s);
        let read = |id| if id == TargetId(4) { map(9, "/srv/own") } else { map(2, "/srv/x") };
        groups.sharing.follow_with(&s, &mut { read });
        groups.now(&s, &Lengths::default(), &all, &Looks::default());
        told = groups.pages(&s, &all, wanted);
        if minute == 0 {
            assert_eq!(told.files[0].idle, [None; 3], "nobody was watched for a minute");
        }
    }
    let shared: Vec<_> = told.shared.iter().map(|(name, sum)| (name.as_str(), *sum)).collect();
    assert_eq!(shared, [("/a", UNIT), ("/b", UNIT), ("/c", 0)]);
    let idle = Some(412 << 12);
    let file = |cgroup: &str, path: &str, inode, mappers: u32, idle: Option<u64>| FileSeen {
        cgroup: cgroup.to_owned(),
        path: path.to_owned(),
        device: 1 << 32,
        inode,
        size: UNIT,
        mapped: u64::from(mappers) * UNIT,
        mappers,
        resident: Some(UNIT),
        idle: [idle, idle, None],
    };
    let files = [
        file("/a", "/srv/x", 2, 2, idle),
        file("/b", "/srv/x", 2, 1, idle),
        file("/c", "/srv/own", 9, 1, Some(UNIT)),
    ];
    assert_eq!(told.files, files);
    assert_eq!(
        told.units.iter().map(|unit| unit.idle[1]).collect::<Vec<_>>(),
        [412, 512, 512, 512]
    );
    assert_eq!(told.units[2].cgroup.as_deref(), Some("/b"));
    let s = snapshot(421, ids.map(|id| target(id, 0)).to_vec());
    let few = groups.pages(&s, &all, Wanted { units: Some(3), ..wanted });
    assert_eq!((few.units.len(), few.left_out), (0, 4));
}
