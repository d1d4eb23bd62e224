//! The thread that writes parts, and what feeds it.

use std::collections::BTreeMap;
use std::fmt;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use isotherm_agent::groups::{Group, Wanted};
use isotherm_agent::run::{Message, PagesLook, Seen};
use isotherm_core::Time;
use isotherm_host::containers::Names;
use isotherm_host::metrics::Cgroups;
use isotherm_host::proc::{Proc, own_cost};
use isotherm_record::export::Batch;
use isotherm_sys::clock;
use tracing::{info, warn};

use crate::cells::{Null, UnixNs};
use crate::cgroup::{Counters, Numbers};
use crate::gather::{Context, Gather, Gathered, MOST_UNITS, Noted, PolicyState, Told};
use crate::layout::Layout;
use crate::machine::{Facts, session, wall};
use crate::part;
use crate::retain;
use crate::rows::{CgroupRow, EventRow, FileRow, PageRow, SessionRow, SnapshotRow};
use crate::settings::{Settings, Table};

mod health;
mod place;
mod rounds;

pub use health::{Shown, State};

use health::Round;
use place::Place;

/// How long the end waits for the last interval to be written: a part takes milliseconds.
const END_WITHIN: Duration = Duration::from_secs(10);

/// Why fleet data cannot be written at all.
#[derive(Debug)]
pub struct FleetError {
    dir: PathBuf,
    err: io::Error,
}

impl FleetError {
    /// The exit code that a program should end with.
    #[must_use]
    pub fn exit_code(&self) -> u8 {
        if self.err.kind() == io::ErrorKind::PermissionDenied { 4 } else { 1 }
    }
}

impl fmt::Display for FleetError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let dir = self.dir.display();
        write!(
            f,
            "cannot write fleet data\n  tried: create {dir}: {}\n  hint:  --fleet DIR for a directory \
             that the agent may write to",
            self.err
        )
    }
}

impl std::error::Error for FleetError {}

/// What contexts are to be asked for, beyond what they tell by themselves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Wants {
    /// Once in an interval of this length, at least.
    pub every: Duration,
    /// Their snapshots.
    pub snapshots: bool,
    /// What they know of pages; none: nothing of it.
    pub pages: Option<Wanted>,
}

impl Wants {
    fn of(settings: &Settings) -> Self {
        let has = |table| settings.tables.contains(&table);
        let pages = Wanted {
            shared: has(Table::Cgroups),
            files: has(Table::Files),
            units: has(Table::Pages).then_some(MOST_UNITS),
        };
        Self {
            every: settings.every,
            snapshots: has(Table::Snapshots),
            pages: Some(pages).filter(|pages| *pages != Wanted::default()),
        }
    }
}

/// Writes fleet data until it is dropped.
#[derive(Debug)]
pub struct Fleet {
    wants: Wants,
    gather: Arc<Mutex<Gather>>,
    shown: Arc<Mutex<Shown>>,
    stop: Option<Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

fn locked<T>(of: &Mutex<T>) -> MutexGuard<'_, T> {
    of.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Fleet {
    /// Removes what a killed agent left unfinished, and begins.
    ///
    /// # Errors
    ///
    /// If the directory cannot be made, or there is no thread to be had.
    pub fn start(settings: Settings) -> Result<Self, FleetError> {
        let dir = settings.dir.clone();
        let wants = Wants::of(&settings);
        fs::create_dir_all(&dir).map_err(|err| FleetError { dir: dir.clone(), err })?;
        let (session, since) = (session(), clock::now());
        let shown = Shown { dir: dir.clone(), session, since, ..Shown::default() };
        let shown = Arc::new(Mutex::new(shown));
        let gather = Arc::default();
        let (stop, stopped) = channel();
        let writer = Writer::new(settings, Arc::clone(&gather), Arc::clone(&shown));
        let thread = std::thread::Builder::new().name("fleet".to_owned());
        let thread = thread.spawn(move || writer.run(&stopped, Writer::interval));
        let thread = thread.map_err(|err| FleetError { dir, err })?;
        Ok(Self { wants, gather, shown, stop: Some(stop), thread: Some(thread) })
    }

    /// Takes in a message of a context of a policy. This never waits for a disk.
    pub fn hear(&self, policy: &str, message: &Message) {
        locked(&self.gather).hear(policy, message);
    }

    /// What contexts are to be asked for.
    #[must_use]
    pub const fn wants(&self) -> Wants {
        self.wants
    }

    /// Takes in what a context has seen; of several within an interval the last one counts.
    pub fn see(&self, policy: &str, seen: &Seen) {
        locked(&self.gather).see(policy, seen);
    }

    /// Takes in what a context knows of pages; of several within an interval the last one counts.
    pub fn see_pages(&self, policy: &str, look: PagesLook) {
        locked(&self.gather).see_pages(policy, look);
    }

    /// Notes what a policy does from now on; none: it is gone.
    pub fn policy(&self, name: &str, state: Option<PolicyState>) {
        locked(&self.gather).policy(name, state);
    }

    /// Takes in what the agent itself tells.
    pub fn tell(&self, told: Told) {
        locked(&self.gather).tell(clock::now(), told);
    }

    /// What was written so far, and how it goes.
    #[must_use]
    pub fn shown(&self) -> Shown {
        locked(&self.shown).clone().judged_at(clock::now())
    }
}

impl Drop for Fleet {
    /// Writes what there is of the present interval. A thread that hangs in its disk is left behind
    /// after 10 s. What it has not finished, the next agent removes.
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take()
            && !ends_within(thread, END_WITHIN)
        {
            warn!("fleet data: the last interval is not written: its directory hangs");
        }
    }
}

/// Waits for the end of this thread, for so long. Returns whether it has ended.
fn ends_within(thread: JoinHandle<()>, limit: Duration) -> bool {
    let started = Instant::now();
    while !thread.is_finished() {
        if started.elapsed() >= limit {
            return false;
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    thread.join().ok();
    true
}

/// What the thread has.
#[derive(Debug)]
struct Writer {
    settings: Settings,
    layout: Layout,
    gather: Arc<Mutex<Gather>>,
    shown: Arc<Mutex<Shown>>,
    facts: Facts,
    session: String,
    started: UnixNs,
    cgroups: Cgroups,
    seq: u64,
    /// When the last interval ended, by the clock that nobody sets, and the CPU time then.
    ended: (Time, u64),
    /// By cgroup.
    counters: BTreeMap<String, Counters>,
    /// By context and cgroup: what came back so far.
    returned: BTreeMap<(String, String, String), [u64; 3]>,
    /// Since when rows of cgroups tell what has grown.
    grown_since: Time,
    /// How the present round goes.
    present: Round,
}

impl Writer {
    fn new(settings: Settings, gather: Arc<Mutex<Gather>>, shown: Arc<Mutex<Shown>>) -> Self {
        let layout = Layout::new(&settings.dir, &settings.host);
        let session = locked(&shown).session.clone();
        Self {
            settings,
            layout,
            gather,
            shown,
            facts: Facts::read(),
            session,
            started: wall(),
            cgroups: Cgroups::mounted(&Proc::default()),
            seq: 0,
            ended: (clock::now(), clock::process_cpu_ns()),
            counters: BTreeMap::new(),
            returned: BTreeMap::new(),
            grown_since: clock::now(),
            present: Round::default(),
        }
    }

    /// Removes what a killed agent left, and says that this one runs.
    fn begin(&mut self) {
        for path in self.layout.leftovers() {
            match fs::remove_file(&path) {
                Ok(()) => info!("fleet data: {} was not finished, and is removed", path.display()),
                Err(err) => warn!("fleet data: cannot remove {}: {err}", path.display()),
            }
        }
        let first = self.session_row(&Gathered::default(), wall());
        self.write(Table::Sessions, first.time, 1, SessionRow::batch(vec![first]));
        self.prune();
    }

    /// Writes a part of each table.
    fn interval(&mut self) {
        let (now, at) = (clock::now(), wall());
        let gathered = locked(&self.gather).take(now);
        let best = best(&gathered);
        let cgroups = self.cgroup_rows(&gathered, &best, now, at);
        let events: Vec<EventRow> =
            gathered.events.iter().map(|noted| self.event_row(noted, now, at)).collect();
        self.write(Table::Cgroups, at, cgroups.len(), CgroupRow::batch(cgroups));
        let first = events.first().map_or(at, |event| event.time);
        let mut regions = gathered.regions.clone();
        for row in &mut regions {
            (row.time, row.session) = (at, self.session.clone());
        }
        self.write(Table::Snapshots, at, regions.len(), SnapshotRow::batch(regions));
        let pages = self.page_rows(&gathered, &best, now, at);
        self.write(Table::Pages, at, pages.len(), PageRow::batch(pages));
        let files = self.file_rows(&gathered, &best, at);
        self.write(Table::Files, at, files.len(), FileRow::batch(files));
        self.write(Table::Events, first, events.len(), EventRow::batch(events));
        // The last one, so that it counts the rows of the others.
        let session = self.session_row(&gathered, at);
        self.write(Table::Sessions, at, 1, SessionRow::batch(vec![session]));
        self.ended = (now, clock::process_cpu_ns());
        self.prune();
    }

    fn write(&mut self, table: Table, first: UnixNs, rows: usize, batch: Batch) {
        if rows == 0 || !self.settings.tables.contains(&table) {
            return;
        }
        self.seq += 1;
        let (dir, name) = (self.layout.dir(table, first), Layout::name(first, self.seq));
        let write = || part::write(&dir, &name, table, &batch, &self.settings.version);
        let mut done = write();
        let mut dropped = 0;
        while let Err(err) = &done
            && err.is_full
        {
            let freed = retain::make_room(&self.layout);
            dropped += freed;
            if freed == 0 {
                break;
            }
            done = write();
        }
        let mut shown = locked(&self.shown);
        shown.dropped_parts += dropped;
        let rows = rows as u64;
        match done {
            Ok(_) => {
                shown.rows += rows;
                if dropped > 0 {
                    self.present.note("the disk is full, so the oldest parts were dropped");
                }
            }
            Err(err) => {
                shown.lost_rows += rows;
                self.present.fail(format!("cannot write {}: {}", err.path.display(), err.why));
            }
        }
    }

    fn prune(&mut self) {
        let kept = retain::prune(&self.layout, &self.settings.retention, wall());
        if let Some(text) = kept.trouble {
            self.present.fail(text);
        }
        let mut shown = locked(&self.shown);
        (shown.bytes, shown.parts) = (kept.bytes, kept.parts);
        shown.dropped_parts += kept.dropped;
    }

    fn session_row(&self, gathered: &Gathered, at: UnixNs) -> SessionRow {
        let policies = &gathered.policies;
        let joined = |texts: Vec<&str>| (!texts.is_empty()).then(|| texts.join(",")).into();
        let hashes = policies.values().filter_map(|state| state.hash.as_deref());
        let (before, cpu_before) = self.ended;
        let own = own_cost(&mut Vec::new());
        let any = |is: fn(&PolicyState) -> bool| policies.values().any(is);
        let mut row = SessionRow {
            time: at,
            session: self.session.clone(),
            started: self.started,
            version: self.settings.version.clone(),
            commit: Some(self.settings.commit.clone()).filter(|commit| !commit.is_empty()).into(),
            policy: joined(policies.keys().map(String::as_str).collect()),
            policy_hash: joined(hashes.collect()),
            service: self.settings.service.clone().into(),
            node_class: self.settings.node_class.clone().into(),
            budget: self.settings.budget,
            own_cpu: per(own.cpu_ns.saturating_sub(cpu_before), clock::now().since(before)),
            own_rss: own.rss_bytes,
            acting: any(|state| state.is_acting),
            killed: any(|state| state.is_killed),
            canary: any(|state| state.is_canary),
            rows: locked(&self.shown).rows,
            late_windows: gathered.late,
            ..SessionRow::default()
        };
        self.facts.fill(&mut row);
        row
    }

    fn event_row(&self, noted: &Noted, now: Time, at: UnixNs) -> EventRow {
        let ago = i64::try_from(now.since(noted.at)).unwrap_or(0);
        EventRow {
            time: UnixNs(at.0.saturating_sub(ago)),
            session: self.session.clone(),
            kind: noted.kind.clone(),
            level: if noted.is_warning { "warn" } else { "info" }.to_owned(),
            cgroup: noted.cgroup.clone().into(),
            policy: noted.policy.clone().into(),
            scheme: noted.scheme.clone().into(),
            bytes: noted.bytes.into(),
            text: noted.text.clone().filter(|_| self.settings.texts).into(),
        }
    }

    /// A row for each cgroup.
    fn cgroup_rows(
        &mut self,
        gathered: &Gathered,
        best: &Best<'_>,
        now: Time,
        at: UnixNs,
    ) -> Vec<CgroupRow> {
        let interval_ns = now.since(self.grown_since);
        let names = Names::read(Path::new("/"));
        let (mut returned, mut counters) = (BTreeMap::new(), BTreeMap::new());
        let mut rows = Vec::with_capacity(best.len());
        for (&path, &(teller, context, group)) in best {
            let (policy, context_name) = teller;
            let mut row = self.named(path, &names);
            (row.time, row.interval_ns) = (at, interval_ns);
            let total = group.ages.map(|ages| ages.returned).unwrap_or_default();
            let key = (policy.clone(), context_name.clone(), path.to_owned());
            let so_far = self.returned.get(&key).copied().unwrap_or_default();
            // A context that began anew counts from 0.
            let grown = |nr: usize| total[nr].checked_sub(so_far[nr]).unwrap_or(total[nr]);
            row.see(group, &context.spans_us, [grown(0), grown(1), grown(2)], interval_ns);
            let look = gathered.pages.get(teller);
            row.shared = look.and_then(|look| look.pages.shared.get(path)).copied().into();
            returned.insert(key, total);
            if let Some(now) = self.add_numbers(&mut row, path) {
                counters.insert(path.to_owned(), now);
            }
            let paged_out = gathered.paged_out.get(path).copied().unwrap_or(0);
            let is_sure = gathered.unsure.is_empty();
            row.paged_out = is_sure.then_some(paged_out).into();
            row.policy = Some(policy.clone()).into();
            let state = gathered.policies.get(policy);
            row.policy_hash = state.and_then(|state| state.hash.clone()).into();
            rows.push(row);
        }
        // At once: after a panic above, the next rows tell what has grown since the last ones.
        (self.returned, self.counters, self.grown_since) = (returned, counters, now);
        rows
    }

    /// A row for each unit of 2 MiB, by the context that tells of its cgroup.
    fn page_rows(
        &self,
        gathered: &Gathered,
        best: &Best<'_>,
        now: Time,
        at: UnixNs,
    ) -> Vec<PageRow> {
        let mut rows = Vec::new();
        for (key, look) in &gathered.pages {
            let targets: BTreeMap<_, _> = look.targets.iter().map(|of| (of.id, of)).collect();
            for unit in &look.pages.units {
                let teller = unit.cgroup.as_deref().and_then(|cgroup| best.get(cgroup));
                let is_told = teller.is_none_or(|(of, ..)| *of == key);
                let Some(target) = targets.get(&unit.id).filter(|_| is_told) else { continue };
                let row = PageRow::of(unit, target, now);
                rows.push(PageRow { time: at, session: self.session.clone(), ..row });
            }
        }
        rows
    }

    /// A row for each cgroup and file, by the context that tells of the cgroup.
    fn file_rows(&self, gathered: &Gathered, best: &Best<'_>, at: UnixNs) -> Vec<FileRow> {
        let mut rows = Vec::new();
        for (key, look) in &gathered.pages {
            let is_told = |cgroup: &str| best.get(cgroup).is_none_or(|(of, ..)| *of == key);
            for file in look.pages.files.iter().filter(|file| is_told(&file.cgroup)) {
                let row = FileRow::of(file, &self.settings.file_names);
                rows.push(FileRow { time: at, session: self.session.clone(), ..row });
            }
        }
        rows
    }

    /// A row with the names of the cgroup.
    fn named(&self, path: &str, names: &Names) -> CgroupRow {
        let Place { class, service, namespace, pod, container } = Place::of(path, names);
        CgroupRow {
            session: self.session.clone(),
            cgroup: path.to_owned(),
            class: class.into(),
            service: service.or_else(|| self.settings.service.clone()).into(),
            namespace: namespace.into(),
            pod: pod.into(),
            container: container.into(),
            ..CgroupRow::default()
        }
    }

    /// Adds what the kernel says of the cgroup. Returns its counters.
    fn add_numbers(&self, row: &mut CgroupRow, path: &str) -> Option<Counters> {
        let mount = self.cgroups.v2.as_ref()?;
        let dir = mount.join(path.trim_start_matches('/'));
        let now = Numbers::read(&dir);
        // Only the kubelet's processes tell it that way, and only those of one container.
        if row.class.0.as_deref() == Some("kubepods") && row.container.0.is_some() {
            row.request = self.facts.request(&dir, now.limit).into();
        }
        (row.current, row.anon, row.file) = (now.current.into(), now.anon.into(), now.file.into());
        (row.swap, row.limit) = (now.swap.into(), now.limit.into());
        (row.low, row.min) = (now.low.into(), now.min.into());
        if let Some(before) = self.counters.get(path) {
            let grown = now.counters.since(before);
            row.refaults = Null(grown.refaults);
            (row.pswpin, row.pswpout) = (grown.pswpin.into(), grown.pswpout.into());
            row.psi_some_us = grown.psi_some_us.into();
            row.psi_full_us = grown.psi_full_us.into();
            row.oom = grown.oom.into();
        }
        Some(now.counters)
    }
}

/// By cgroup: the policy and the context that tell of it, and what they tell.
type Best<'a> = BTreeMap<&'a str, (&'a (String, String), &'a Context, &'a Group)>;

/// Who tells of each cgroup: of several contexts the one that sees most of it.
fn best(gathered: &Gathered) -> Best<'_> {
    let mut best = Best::new();
    for (key, context) in &gathered.contexts {
        for group in &context.groups {
            let seen = best.get(group.cgroup.as_str());
            if seen.is_none_or(|(.., other)| size(other) < size(group)) {
                best.insert(&group.cgroup, (key, context, group));
            }
        }
    }
    best
}

fn size(group: &Group) -> u64 {
    let tiers = group.tiers;
    [tiers.hot, tiers.warm, tiers.cold, tiers.unresolved].iter().sum()
}

#[expect(clippy::cast_precision_loss, reason = "it is a ratio")]
fn per(part: u64, whole: u64) -> f64 {
    part as f64 / whole.max(1) as f64
}

#[cfg(test)]
mod tests;
