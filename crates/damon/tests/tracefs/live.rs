//! A real kernel's events, in the lab's VMs.

use std::path::Path;
use std::time::{Duration, Instant};

use isotherm_damon::tracefs::{
    EventKind, Item, Line, Options, Place, Trace, Windows, parse_line, remove_leftovers,
};
use isotherm_host::proc::Proc;
use isotherm_sys::clock;

use super::kdamond::{Attrs, Kdamonds, in_lab};

/// Emulated machines under load lose events rarely, and late.
const PATIENCE: Duration = Duration::from_secs(180);
const USUAL: Attrs = Attrs { sample_us: 5000, aggr_us: 100_000, min: 10, max: 1000 };

/// Two kdamonds with unlike attributes in one trace: whole windows of both, and the kernel's own
/// text says the same.
#[test]
fn windows_are_whole_and_as_the_kernel_prints_them() {
    if !in_lab("windows_are_whole") {
        return;
    }
    let kdamonds =
        Kdamonds::start(&[USUAL, Attrs { sample_us: 10_000, aggr_us: 50_000, min: 5, max: 20 }]);
    let optional = EventKind::ALL.to_vec();
    let options = Options { events: vec![EventKind::Aggregated], optional, ..Options::default() };
    let mut trace = Trace::open(&options).unwrap();
    // A second instance, for the kernel's own text.
    let text = Trace::open(&options).unwrap();
    let pids = kdamonds.on();
    let (mut items, mut windows) = (Vec::new(), Windows::new());
    let mut counts = [0; 2];
    let start = Instant::now();
    while counts.iter().any(|n| *n < 20) {
        assert!(start.elapsed() < PATIENCE, "too few windows: {counts:?}");
        std::thread::sleep(Duration::from_millis(20));
        let from = items.len();
        trace.read(&mut items).unwrap();
        items[from..].iter().for_each(|item| windows.push(item));
        while let Some(window) = windows.next() {
            let window = window.unwrap();
            let i = pids.iter().position(|pid| *pid == window.kdamond).unwrap();
            counts[i] += 1;
            assert_eq!(window.targets.len(), 1);
            assert!(window.end <= clock::now());
            let regions = &window.targets[0].regions;
            assert!(regions.windows(2).all(|w| w[0].range.end <= w[1].range.start));
            assert!(regions.iter().all(|r| r.nr_accesses <= [20, 5][i]));
        }
    }
    drop(kdamonds);
    trace.read(&mut items).unwrap();
    assert!(items.is_sorted_by_key(Item::at));
    // Without the CPU: a thread may move between writing to one instance and to the other, where
    // tracepoints can be preempted.
    let ours = |item: &Item| match item {
        Item::Event(record) => Some((record.pid, record.event.to_string())),
        Item::Lost(_) => None,
    };
    let ours: Vec<_> = items.iter().filter_map(ours).collect();
    let printed = std::fs::read_to_string(text.path().join("trace")).unwrap();
    let theirs: Vec<_> = printed
        .lines()
        .filter_map(|line| match parse_line(line) {
            Some(Line::Event(r)) => Some((r.pid, r.event.to_string())),
            _ => None,
        })
        .collect();
    // Both see the same events, but those of different CPUs at one time may be printed in another
    // order.
    for pid in pids {
        let of = |all: &[(u32, String)]| -> Vec<_> {
            all.iter().filter(|(p, _)| *p == pid).cloned().collect()
        };
        let (ours, theirs) = (of(&ours), of(&theirs));
        assert!(ours.len() > 100, "only {} events", ours.len());
        assert_eq!(ours, theirs);
    }
    assert_eq!(trace.stats().unwrap().lost(), 0);
    eprintln!("kinds {:?}, {} events", trace.kinds().collect::<Vec<_>>(), items.len());
}

/// A buffer that is far too small, and nobody who reads: what is lost is told, and no torn window
/// is taken for a whole one.
#[test]
fn losses_are_told() {
    if !in_lab("losses_are_told") {
        return;
    }
    let kdamonds =
        Kdamonds::start(&[Attrs { sample_us: 1000, aggr_us: 5000, min: 200, max: 1000 }]);
    let mut trace = Trace::open(&Options { buffer_kib: 16, ..Options::default() }).unwrap();
    let pid = kdamonds.on()[0];
    trace.only_threads(&[pid]).unwrap();
    let (mut items, mut windows, mut torn, mut whole) = (Vec::new(), Windows::new(), 0, 0);
    let start = Instant::now();
    while torn < 3 || windows.lost().0 < 3 || whole < 3 {
        assert!(
            start.elapsed() < PATIENCE,
            "{torn} torn, {whole} whole, lost {:?}",
            windows.lost()
        );
        // Now and then too late, until enough is lost.
        let late = torn < 3 || windows.lost().0 < 3;
        std::thread::sleep(Duration::from_millis(if late { 500 } else { 1 }));
        items.clear();
        trace.read(&mut items).unwrap();
        for item in &items {
            windows.push(item);
        }
        while let Some(window) = windows.next() {
            match window {
                Ok(window) => {
                    whole += 1;
                    let n = window.targets[0].regions.len();
                    assert!(window.targets[0].regions.iter().all(|r| r.nr_regions as usize == n));
                }
                Err(_) => torn += 1,
            }
        }
    }
    drop(kdamonds);
    let (told, counted) = (windows.lost().1, trace.stats().unwrap().lost());
    // What was lost since the last page is counted but not told yet.
    assert!(told <= counted && counted > 0, "told {told}, counted {counted}");
    eprintln!("{torn} torn, {whole} whole; lost {:?}, counted {counted}", windows.lost());
}

#[test]
fn an_instance_goes_with_its_owner() {
    if !in_lab("an_instance_goes") {
        return;
    }
    let mut trace = Trace::open(&Options::default()).unwrap();
    let path = trace.path().to_owned();
    assert!(path.is_dir());
    trace.filter(EventKind::Aggregated, "nr_accesses > 3").unwrap();
    let err = trace.filter(EventKind::Aggregated, "no_such_field > 3").unwrap_err().to_string();
    assert!(err.contains("no_such_field") && err.contains("filter"), "{err}");
    trace.only_threads(&[]).unwrap();
    drop(trace);
    assert!(!path.exists());
    // As a killed owner leaves it: the pid is nobody's.
    let place = Place::find().unwrap();
    let left = place.instances().join(format!("isotherm-{}-1-0", i32::MAX));
    std::fs::create_dir(&left).unwrap();
    let trace = Trace::open(&Options::default()).unwrap();
    assert_eq!(trace.leftovers().removed.len(), 1, "{:?}", trace.leftovers());
    assert!(!left.exists());
    assert_eq!(remove_leftovers(&place, &Proc::default()).unwrap().removed, Vec::<String>::new());
    assert!(trace.path().is_dir());
}

/// Where tracefs is not mounted it is mounted for us alone.
#[test]
fn tracefs_is_mounted_if_it_must_be() {
    if !in_lab("tracefs_is_mounted") {
        return;
    }
    // Run in a mount namespace of its own where the usual places are covered.
    let usual = ["/sys/kernel/tracing", "/sys/kernel/debug"];
    if std::env::var("ISOTHERM_COVERED").is_err() {
        let cover: Vec<_> = usual
            .iter()
            .filter(|p| Path::new(p).is_dir())
            .map(|p| format!("mount -t tmpfs none {p} &&"))
            .collect();
        let own = std::env::current_exe().unwrap();
        let script = format!(
            "{} ISOTHERM_COVERED=1 exec {} --exact --nocapture live::tracefs_is_mounted_if_it_must_be",
            cover.join(" "),
            own.display()
        );
        let status =
            std::process::Command::new("unshare").args(["-m", "sh", "-c", &script]).status();
        assert!(status.unwrap().success());
        return;
    }
    let place = Place::find().unwrap();
    assert!(place.is_private());
    let trace = Trace::open(&Options::default()).unwrap();
    assert!(trace.path().is_dir());
    assert!(!std::fs::read_to_string("/proc/self/mounts").unwrap().contains("tracefs /proc"));
}
