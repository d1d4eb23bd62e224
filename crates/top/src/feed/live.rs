//! The live feed: one monitor over all processes, on a thread of its own.
//!
//! One context with one budget looks at everything, so processes share the budget by size and by
//! change without any rule of ours: the census arms what is new and what changes, and the rest the
//! rarer the more there is. What costs per process and not per page is done rarely here: a sample
//! is 100 ms and a window 1 s, exits are looked for once a second, and every ten whether a process
//! maps more or less than before: only then, or once a minute, its mappings are read.
//! [`Pace`](super::pace::Pace) takes what all of this costs off the census' budget.
//!
//! Without a set that can look at memory, the rows have names and sizes only, and a note says why.

use std::collections::BTreeMap;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::time::Duration;

use isotherm::raw::agent::monitor::{Closeness, Happened, Monitor};
use isotherm::raw::agent::recorder::mappings_of;
use isotherm::raw::agent::run::{Refused, open_set, take_in_targets};
use isotherm::raw::core::{Attrs, Method, TargetId, Time};
use isotherm::raw::host::proc::{Proc, meminfo_kib, own_cost, raise_file_limit};
use isotherm::raw::ops::support::SetName;
use isotherm::raw::ops::targets::{Target, TargetEvent, Tracker};
use isotherm::raw::report::page_maps::PageMap;
use isotherm::raw::sys::clock;

use super::Feed;
use super::names::SharedNames;
use super::pace::Pace;
use super::picture::{Picture, Seen};
use super::processes::{Processes, Wanted};
use super::sharing::Sharing;
use super::{Error, Travel};
use crate::model::{Head, Row, Watch, World};

/// How often processes are listed, in ns.
const LIST_NS: u64 = 2_000_000_000;
/// How often free swap is read, in ns.
const MACHINE_NS: u64 = 10_000_000_000;
/// How long the mappings of a process are believed that maps as much as before, in ns.
const SAME_SIZE_NS: u64 = 60_000_000_000;
/// How closely one target is followed, in ns per target, and between which bounds.
const TRACK_NS: (u64, u64, u64) = (5_000_000, 100_000_000, 1_000_000_000);
/// How long to wait where there is nothing to watch.
const WAIT_NS: u64 = 200_000_000;

/// What to watch, and what that may cost.
#[derive(Debug, Clone, Default)]
pub struct Settings {
    /// Which processes.
    pub wanted: Wanted,
    /// The share of one CPU that this program may use, in hundredths of a percent.
    pub budget_bp: u32,
    /// The operations set; the best one that works here if none is given.
    pub set: Option<SetName>,
}

/// A feed of what happens now.
#[derive(Debug)]
pub struct Live {
    worlds: Receiver<Result<World, Error>>,
    commands: Sender<Option<u32>>,
}

impl Live {
    /// Starts to watch. The first world comes at once, without working sets yet.
    ///
    /// # Errors
    ///
    /// [`Error::Processes`] if `/proc` cannot be listed, and [`Error::Target`] if one of the pids
    /// cannot be a target. That none of them can be watched is told by [`Feed::next`].
    pub fn start(settings: Settings) -> Result<Self, Error> {
        raise_file_limit();
        let mut processes = Processes::new(Proc::default(), settings.wanted.clone());
        processes.list().map_err(Error::Processes)?;
        // The largest first; what was not listed cannot be a target, and the tracker says why.
        let mut pids: Vec<u32> = settings.wanted.pids().collect();
        let rss = |pid: &u32| processes.get(*pid).map_or(u64::MAX, |process| process.rss);
        pids.sort_by_key(|pid| std::cmp::Reverse(rss(pid)));
        let tracker = Tracker::attach(&pids, false).map_err(Error::Target)?;
        let (send, worlds) = channel();
        let (commands, receive) = channel();
        let body =
            move || Watcher::new(processes, &settings, send, receive).run(tracker, settings.set);
        let thread = std::thread::Builder::new().name("watch".into());
        thread.spawn(body).map_err(Error::Processes)?;
        Ok(Self { worlds, commands })
    }
}

impl Feed for Live {
    fn next(&mut self, wait: Duration) -> Result<Option<World>, Error> {
        match self.worlds.recv_timeout(wait) {
            Ok(world) => world.map(Some),
            Err(RecvTimeoutError::Timeout) => Ok(None),
            Err(RecvTimeoutError::Disconnected) => Err(Error::Ended),
        }
    }

    fn open(&mut self, pid: Option<u32>) {
        // If the thread has ended, the next world says so.
        self.commands.send(pid).ok();
    }

    fn travel(&mut self, _: Travel) {}
}

/// A process that was listed, and what has become of watching it.
#[derive(Debug, Default)]
struct Entry {
    start_ticks: u64,
    id: Option<TargetId>,
    watch: Watch,
}

/// What the thread keeps.
struct Watcher {
    processes: Processes,
    entries: BTreeMap<u32, Entry>,
    monitor: Option<Monitor>,
    maps: BTreeMap<TargetId, PageMap>,
    picture: Picture,
    pace: Pace,
    attrs: Attrs,
    head: Head,
    names: SharedNames,
    sharing: Sharing,
    list_at: Time,
    machine_at: Time,
    buf: Vec<u8>,
    /// Whether all processes are named by their pids, so that none else can come.
    is_explicit: bool,
    out: Sender<Result<World, Error>>,
    commands: Receiver<Option<u32>>,
}

/// The window has nobody to show it to any more.
struct Closed;

impl Watcher {
    fn new(
        processes: Processes,
        settings: &Settings,
        out: Sender<Result<World, Error>>,
        commands: Receiver<Option<u32>>,
    ) -> Self {
        let attrs = Attrs {
            sample_us: 100_000,
            aggr_us: 1_000_000,
            update_us: 10_000_000,
            max_nr_regions: 200,
            method: Method::Census,
            budget_bp: settings.budget_bp,
            ..Attrs::default()
        };
        let budget_bp = u64::from(settings.budget_bp);
        let head = Head { budget_bp, set: "testing what can look ...".into(), ..Head::default() };
        Self {
            processes,
            entries: BTreeMap::new(),
            monitor: None,
            maps: BTreeMap::new(),
            picture: Picture::default(),
            pace: Pace::new(budget_bp),
            attrs,
            head,
            names: SharedNames::default(),
            sharing: Sharing::default(),
            list_at: clock::now().plus_us(LIST_NS / 1000),
            machine_at: Time::default(),
            buf: Vec::new(),
            is_explicit: settings.wanted.is_explicit(),
            out,
            commands,
        }
    }

    fn run(mut self, tracker: Tracker, set: Option<SetName>) {
        self.note_processes();
        if self.send().is_err() {
            return;
        }
        if let Err(why) = self.begin(tracker, set) {
            // If nobody listens any more, nobody has to know.
            self.out.send(Err(why)).ok();
            return;
        }
        while self.step().is_ok() {}
    }

    /// Opens the operations set, and takes in the processes that were listed. Fails only if nothing
    /// that was asked for could ever be shown.
    fn begin(&mut self, tracker: Tracker, set: Option<SetName>) -> Result<(), Error> {
        let not_watched = |refused: Refused| {
            let Refused { code, text } = refused;
            Error::NotWatched { code, text }
        };
        let why = self.open_set(tracker, set).map_err(not_watched)?;
        self.note_processes();
        match &mut self.monitor {
            Some(monitor) if self.is_explicit => {
                take_in_targets(monitor, &why).map_err(not_watched)
            }
            _ => Ok(()),
        }
    }

    /// Opens the operations set and a monitor of the tracker's targets. Also gives the lines that
    /// say why this set was taken.
    fn open_set(&mut self, tracker: Tracker, set: Option<SetName>) -> Result<Vec<String>, Refused> {
        let (ops, lines) = match open_set(set, &mut self.attrs) {
            Ok(opened) => opened,
            Err(why) if self.is_explicit => {
                return Err(Refused { code: why.exit_code(), text: why.to_string() });
            }
            Err(why) => {
                self.head.set = "names and sizes only".into();
                let why = why.to_string();
                let first = why.lines().next().unwrap_or_default();
                self.head.note = format!("{first}; see `isotherm doctor`");
                return Ok(Vec::new());
            }
        };
        self.attrs.method = ops.usual_method(self.attrs.method);
        let name = ops.name();
        let seed = clock::now().as_ns();
        match Monitor::new(tracker, ops, self.attrs, seed) {
            Ok(mut monitor) => {
                let is_census = monitor.context().attrs().method == Method::Census;
                self.head.set = format!("{name}, {}", if is_census { "census" } else { "regions" });
                if !is_census {
                    self.head.note = "no working sets by page here, only rates of regions".into();
                }
                self.monitor = Some(monitor);
            }
            Err(why) => self.head.note = why.to_string(),
        }
        Ok(lines)
    }

    /// Runs until something has happened.
    fn step(&mut self) -> Result<(), Closed> {
        while let Ok(pid) = self.commands.try_recv() {
            self.picture.open(pid);
            self.look();
            self.send()?;
        }
        if clock::now() >= self.list_at {
            self.list_at = clock::now().plus_us(LIST_NS / 1000);
            // What cannot be listed this time will be next time.
            if self.processes.list().is_ok() {
                self.note_processes();
            }
            if self.monitor.is_none() {
                self.send()?;
            }
        }
        let Some(monitor) = &mut self.monitor else {
            clock::sleep_until(clock::now().plus_us(WAIT_NS / 1000));
            return Ok(());
        };
        match monitor.next() {
            Happened::Snapshot => {
                self.learn();
                self.share();
                self.look();
                self.keep_budget();
                self.send()?;
            }
            Happened::Target(event) => self.target(&event),
            Happened::NotWatched(target, why) => {
                let why = why.to_string();
                self.refuse(&target, why.lines().next().unwrap_or_default());
            }
            Happened::Waits(target) => {
                self.refuse(&target, "no place now: the largest are watched, the rest in turn");
            }
            Happened::Watched(target) | Happened::HasTurn(target) => {
                self.set_watch(&target, Watch::Waiting);
            }
            Happened::Trouble(text) => self.head.note = first_line(&text),
            Happened::Failed(why) => {
                self.head.note = first_line(&why);
                self.monitor = None;
            }
            Happened::Stopped => {
                clock::sleep_until(clock::now().plus_us(WAIT_NS / 1000));
                self.send()?;
            }
            Happened::NotActedOn(..) | Happened::Idle => {}
        }
        Ok(())
    }

    /// Watches what was listed, the largest first, and forgets what has gone.
    fn note_processes(&mut self) {
        let wanted = self.processes.wanted();
        let is_wanted = |pid: &u32, entry: &Entry| {
            let same = |(other, process): &(u32, &super::processes::Process)| {
                other == pid && process.start_ticks == entry.start_ticks
            };
            wanted.iter().any(same)
        };
        let gone: Vec<u32> = self
            .entries
            .iter()
            .filter(|(pid, entry)| !is_wanted(pid, entry))
            .map(|(p, _)| *p)
            .collect();
        for pid in gone {
            if let Some(id) = self.entries.remove(&pid).and_then(|entry| entry.id) {
                self.picture.forget(id);
                self.maps.remove(&id);
            }
        }
        for (pid, process) in wanted {
            let entry = self.entries.entry(pid).or_default();
            entry.start_ticks = process.start_ticks;
            let is_refused = matches!(entry.watch, Watch::Refused(_));
            if let Some(monitor) = &mut self.monitor
                && entry.id.is_none()
                && !is_refused
            {
                match monitor.tracker().add(pid) {
                    Ok(id) => entry.id = Some(id),
                    Err(why) => entry.watch = Watch::Refused(first_line(&why.to_string())),
                }
            }
        }
        if let Some(monitor) = &mut self.monitor {
            let (each, least, most) = TRACK_NS;
            let track_ns = (self.entries.len() as u64 * each).clamp(least, most);
            monitor.set_closeness(Closeness {
                track_ns,
                follow_sizes: false,
                same_size_ns: SAME_SIZE_NS,
            });
        }
    }

    fn target(&mut self, event: &TargetEvent) {
        match event {
            TargetEvent::Added(_) => {}
            TargetEvent::Execed { old, target } => {
                self.forget(*old);
                if let Some(entry) = self.entries.get_mut(&target.pid) {
                    entry.id = Some(target.id);
                }
            }
            TargetEvent::Exited(id) => {
                self.forget(*id);
                self.entries.retain(|_, entry| entry.id != Some(*id));
            }
            TargetEvent::Refused(why) => self.head.note = first_line(&why.to_string()),
        }
    }

    fn forget(&mut self, id: TargetId) {
        self.picture.forget(id);
        self.maps.remove(&id);
    }

    fn refuse(&mut self, target: &Target, why: &str) {
        self.set_watch(target, Watch::Refused(why.to_owned()));
    }

    fn set_watch(&mut self, target: &Target, watch: Watch) {
        if let Some(entry) = self.entries.get_mut(&target.pid).filter(|e| e.id == Some(target.id)) {
            entry.watch = watch;
        }
    }

    /// Takes in what the last window tells of pages.
    fn learn(&mut self) {
        let Some(monitor) = &self.monitor else { return };
        for target in &monitor.snapshot().targets {
            if target.touched.is_none() {
                continue;
            }
            let map = self.maps.entry(target.id).or_default();
            map.touched = target.touched;
            map.units.extend(target.units.iter().map(|unit| (unit.start, *unit)));
        }
    }

    /// Finds out what processes share now.
    fn share(&mut self) {
        let Some(monitor) = &mut self.monitor else { return };
        let pids: BTreeMap<TargetId, u32> =
            self.entries.iter().filter_map(|(pid, entry)| Some((entry.id?, *pid))).collect();
        self.sharing.follow(monitor.snapshot(), &pids, &self.maps);
    }

    /// Looks closely at the process that is open.
    fn look(&mut self) {
        let Some(pid) = self.picture.opened() else { return };
        let Some(id) = self.entries.get(&pid).and_then(|entry| entry.id) else { return };
        let Some(monitor) = &self.monitor else { return };
        let snapshot = monitor.snapshot();
        let Some(target) = snapshot.targets.iter().find(|target| target.id == id) else { return };
        let seen = Seen {
            regions: &target.regions,
            touched: target.touched,
            map: self.maps.get(&id),
            is_new: true,
            max_nr_accesses: snapshot.max_nr_accesses,
            aggr_us: snapshot.aggr_us,
        };
        if self.picture.add_column(clock::now(), &seen) {
            self.picture.describe(&seen, &mappings_of(pid, &mut self.buf));
        }
    }

    /// Gives the census what the rest of the program leaves of the budget.
    fn keep_budget(&mut self) {
        let cost = own_cost(&mut self.buf);
        let next = self.pace.tick(clock::now().as_ns(), clock::process_cpu_ns());
        self.head.own_rss = cost.rss_bytes;
        self.head.used_bp = self.pace.lately_bp();
        self.head.mean_bp = self.pace.mean_bp();
        if let (Some(bp), Some(monitor)) = (next, &mut self.monitor) {
            let budget_bp = u32::try_from(bp).unwrap_or(u32::MAX);
            let attrs = Attrs { budget_bp, ..*monitor.context().attrs() };
            if let Err(why) = monitor.commit_attrs(attrs) {
                self.head.note = first_line(&why.to_string());
            }
        }
    }

    /// Sends the present state.
    fn send(&mut self) -> Result<(), Closed> {
        let now = clock::now();
        if now >= self.machine_at {
            self.machine_at = now + MACHINE_NS;
            let read = Proc::default().read_system("meminfo", &mut self.buf);
            let text = read.ok().map(|()| String::from_utf8_lossy(&self.buf).into_owned());
            let free = text.and_then(|text| meminfo_kib(&text, "SwapFree"));
            self.head.swap_free = free.map(|kib| kib.saturating_mul(1024));
        }
        let rows = self.rows(now);
        let detail = self.picture.detail();
        let (head, sharers) = (self.head.clone(), self.sharing.sharers());
        let names = self.names.at(now);
        let world = World { rows, names, sharers, detail, head, position: None };
        self.out.send(Ok(world)).or(Err(Closed))
    }

    fn rows(&mut self, now: Time) -> Vec<Row> {
        let Self { entries, processes, monitor, picture, maps, .. } = self;
        let mut rows = Vec::with_capacity(entries.len());
        let looks = monitor.as_mut().map(|monitor| monitor.context().looks());
        let looks: BTreeMap<_, _> = looks.into_iter().flatten().collect();
        for (pid, entry) in entries.iter() {
            let Some(process) = processes.get(*pid) else { continue };
            let mut row = Row {
                pid: *pid,
                ppid: process.ppid,
                name: process.name.clone(),
                cgroup: process.cgroup.clone(),
                uid: process.uid,
                rss: Some(process.rss),
                watch: entry.watch.clone(),
                ..Row::default()
            };
            if let (Some(monitor), Some(id)) = (monitor.as_mut(), entry.id) {
                row.age_ns = monitor.waits_since(id).map(|at| now.since(at));
                let snapshot = monitor.snapshot();
                if let Some(target) = snapshot.targets.iter().find(|target| target.id == id) {
                    let seen = Seen {
                        regions: &target.regions,
                        touched: target.touched,
                        map: maps.get(&id),
                        is_new: !target.units.is_empty() || target.touched.is_none(),
                        max_nr_accesses: snapshot.max_nr_accesses,
                        aggr_us: snapshot.aggr_us,
                    };
                    picture.fill(now, id, &seen, &mut row);
                    // Memory that was never looked at is in no page map yet.
                    let missing = process.rss.saturating_sub(row.tiers.total());
                    row.tiers.unresolved = row.tiers.unresolved.saturating_add(missing);
                    // A method without units looks at everything in every window.
                    let of_window = seen.map.is_none().then_some(snapshot.end);
                    row.age_ns = looks.get(&id).copied().or(of_window).map(|at| now.since(at));
                }
            }
            rows.push(row);
        }
        rows
    }
}

fn first_line(text: &str) -> String {
    text.lines().next().unwrap_or_default().to_owned()
}
