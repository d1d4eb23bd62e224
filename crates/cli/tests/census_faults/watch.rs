//! A monitor with the method `census` over a target, and what must hold of all it says.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use isotherm::raw::agent::monitor::{Happened, Monitor};
use isotherm::raw::core::{
    AddrRange, Attrs, Method, PageBits, RegionInfo, TargetId, TargetInfo, Time, UnitInfo,
};
use isotherm::raw::host::error::SetKind;
use isotherm::raw::ops::pagewalk::PageWalk;
use isotherm::raw::ops::set::OpsSet;
use isotherm::raw::ops::targets::Tracker;
use isotherm::raw::sys::clock;

/// The limit only ends a test that hangs.
const PATIENCE: Duration = Duration::from_secs(60);
/// The spans of [`UnitInfo::touched`]: a second.
const SECOND: usize = 2;
/// The budget of the tests, of one CPU in 1/10000. They are debug builds on a busy machine.
const BUDGET_BP: u32 = 500;
/// A monitor may use so many times its budget: its least work, reading mappings, the tests' own
/// checks.
const GENEROUS: u64 = 3;

/// From this time on after memory has become hot, in ns, looks must have seen that.
const SETTLED_NS: u64 = 500_000_000;

/// The pages that are said not to have been touched for a second.
fn idle(unit: &UnitInfo) -> PageBits {
    let nothing = PageBits::default();
    unit.touched[SECOND]
        .map_or(nothing, |touched| unit.present.minus(unit.unresolved).minus(touched))
}

/// A running monitor.
#[derive(Debug)]
pub(crate) struct Watch {
    pub(crate) monitor: Monitor,
    /// What is known of each unit.
    pub(crate) units: BTreeMap<u64, UnitInfo>,
    /// What the monitor told people.
    pub(crate) told: Vec<String>,
    /// Memory that is touched all the time, and since when.
    hot: Option<(AddrRange, Time)>,
    pid: u32,
    /// The target that the process is now; an exec makes it another.
    id: Option<TargetId>,
    cpu: (u64, Time),
}

impl Watch {
    /// Watches a process and its children; `None`, with the reason printed, if that is not
    /// permitted here.
    pub(crate) fn start(pid: u32) -> Option<Self> {
        Self::with(pid, BUDGET_BP)
    }

    /// The same with this budget, of one CPU in 1/10000.
    pub(crate) fn with(pid: u32, budget_bp: u32) -> Option<Self> {
        let walk = match PageWalk::new() {
            Ok(walk) => walk,
            Err(e) if e.kind() == SetKind::Permission => {
                eprintln!("skipped, no permission: {e}");
                return None;
            }
            Err(e) => panic!("{e}"),
        };
        let attrs = Attrs { method: Method::Census, budget_bp, ..Attrs::default() };
        let tracker = Tracker::attach(&[pid], true).unwrap();
        let set = OpsSet::PageWalk(Box::new(walk));
        let monitor = Monitor::new(tracker, set, attrs, 7).unwrap();
        let cpu = (clock::thread_cpu_ns(), clock::now());
        Some(Self {
            monitor,
            units: BTreeMap::new(),
            told: Vec::new(),
            hot: None,
            pid,
            id: None,
            cpu,
        })
    }

    /// These pages are touched all the time from now on, so no unit may say otherwise.
    pub(crate) fn expect_hot(&mut self, range: Option<AddrRange>) {
        self.hot = range.map(|range| (range, clock::now()));
    }

    /// Runs to the end of the next window. Panics if there is none.
    #[track_caller]
    pub(crate) fn window(&mut self) {
        let deadline = Instant::now() + PATIENCE;
        loop {
            assert!(Instant::now() < deadline, "the monitor stalls; it said {:?}", self.told);
            match self.monitor.next() {
                Happened::Snapshot => break,
                Happened::Failed(why) => panic!("the set failed: {why}"),
                Happened::Stopped => panic!("no target is left; it said {:?}", self.told),
                Happened::Trouble(text) => self.told.push(text),
                Happened::NotWatched(target, err) => {
                    self.told.push(format!("{} is not watched: {err}", target.pid));
                }
                _ => {}
            }
        }
        let pid = self.pid;
        self.id = self.monitor.tracker().targets().find(|t| t.pid == pid).map(|t| t.id);
        for unit in self.target().map_or_else(Vec::new, |target| target.units.clone()) {
            self.judge(&unit);
            self.units.insert(unit.start, unit);
        }
    }

    /// What the last window says of the process itself: its children may have the same addresses.
    pub(crate) fn target(&self) -> Option<&TargetInfo> {
        self.monitor.snapshot().targets.iter().find(|target| Some(target.id) == self.id)
    }

    /// No page that is touched all the time may newly count as idle for a second.
    #[track_caller]
    fn judge(&self, unit: &UnitInfo) {
        let Some((hot, since)) = self.hot else { return };
        if clock::now().since(since) < SETTLED_NS {
            return;
        }
        let before = self.units.get(&unit.start).map_or_else(PageBits::default, idle);
        let missed = idle(unit).minus(before).and(PageBits::of(unit.start, hot));
        assert!(missed.is_empty(), "{} hot pages are called idle: {unit:?}", missed.count());
    }

    /// Runs until a condition holds.
    #[track_caller]
    pub(crate) fn until(&mut self, what: &str, mut done: impl FnMut(&Self) -> bool) {
        let begin = Instant::now();
        let deadline = begin + PATIENCE;
        self.window();
        while !done(self) {
            let now = Instant::now();
            assert!(now < deadline, "waited in vain for {what}; it said {:?}", self.told);
            self.window();
        }
        eprintln!("{what}: after {} ms", begin.elapsed().as_millis());
    }

    /// Runs for so many windows, whatever comes.
    #[track_caller]
    pub(crate) fn windows(&mut self, nr: usize) {
        (0..nr).for_each(|_| self.window());
    }

    /// The share of these bytes whose regions were touched in most samples, in percent.
    pub(crate) fn hot_percent(&self, range: AddrRange) -> u64 {
        let most = self.monitor.snapshot().max_nr_accesses;
        self.percent(range, |r| r.resolved && r.nr_accesses * 2 >= most)
    }

    /// The share that is surely not in use.
    pub(crate) fn cold_percent(&self, range: AddrRange) -> u64 {
        self.percent(range, |r| r.resolved && r.nr_accesses == 0)
    }

    /// How much is said to be hot or cold, in bytes.
    pub(crate) fn known_bytes(&self, range: AddrRange) -> u64 {
        self.bytes(range, |r| r.resolved)
    }

    fn percent(&self, range: AddrRange, is: impl Fn(&RegionInfo) -> bool) -> u64 {
        self.bytes(range, is) * 100 / range.len()
    }

    fn bytes(&self, range: AddrRange, is: impl Fn(&RegionInfo) -> bool) -> u64 {
        let regions = self.target().into_iter().flat_map(|target| &target.regions);
        let within = |r: AddrRange| r.end.min(range.end).saturating_sub(r.start.max(range.start));
        regions.filter(|r| is(r)).map(|r| within(r.range)).sum()
    }

    /// Waits until all of this is known to be in use.
    #[track_caller]
    pub(crate) fn until_hot(&mut self, range: AddrRange) {
        self.until("hot memory", |watch| watch.hot_percent(range) >= 95);
    }

    /// Fails if the monitor used far more than its budget since its start.
    #[track_caller]
    pub(crate) fn assert_cheap(&self) {
        let used = clock::thread_cpu_ns().saturating_sub(self.cpu.0);
        let span = clock::now().since(self.cpu.1);
        let most = span / 10_000 * u64::from(BUDGET_BP) * GENEROUS;
        eprintln!("{} of {} ms of CPU time", used / 1_000_000, span / 1_000_000);
        assert!(used <= most, "{} of {} ms of CPU time", used / 1_000_000, span / 1_000_000);
    }
}
