//! Writes what a monitor sees into a record.
//!
//! ```no_run
//! use isotherm_agent::recorder::{Recorder, Step};
//! use isotherm_core::Attrs;
//! use isotherm_agent::monitor::Monitor;
//!
//! let mut monitor = Monitor::of_pid(4711, Attrs::default())?;
//! let mut recorder = Recorder::builder("isotherm.data").create(&mut monitor)?;
//! recorder.keep()?;
//! while !matches!(recorder.step(&mut monitor), Step::Over | Step::Failed) {
//!     for event in recorder.take_events() {
//!         eprintln!("{event}");
//!     }
//! }
//! let summary = recorder.finish(&mut monitor, "every target has exited")?;
//! println!("{} snapshots", summary.written.snapshots);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! The recorder promises two things. First, a failed write never stops the monitor. Recording goes
//! on, since the next write may succeed (the disk may be full only for a moment). The first failure
//! is an [`Event`], and all are counted in the [`Summary`]. Second, an old record is not lost if
//! the new one fails to start. It stays in its place until [`Recorder::keep`], which renames it to
//! `FILE.old`.
//!
//! Not here: printing, signals, and the decision when to stop.

mod event;
mod sampler;

use std::fs::File;
use std::path::{Path, PathBuf};

use crate::maps::{Maps, next_reading};
use crate::monitor::{Happened, Monitor};
use crate::others::Others;
use isotherm_core::{Late, TargetId, Time};
use isotherm_host::proc::{Proc, own_cost, parse_maps};
use isotherm_ops::kdamond::Share;
use isotherm_ops::targets::{Target, TargetEvent};
use isotherm_record::{
    AttrsInfo, Cgroups, Error, Exit, Header, Mapping, Object, Place, Writer, Written,
};
use isotherm_sys::clock;

pub use event::Event;
use sampler::Sampler;

/// How a record is made.
#[derive(Debug, Clone)]
pub struct Builder {
    path: PathBuf,
    command: Vec<String>,
    owners: bool,
}

impl Builder {
    /// The command line that the record names as its origin; by default that of this program.
    #[must_use]
    pub fn command(mut self, words: impl IntoIterator<Item = impl Into<String>>) -> Self {
        self.command = words.into_iter().map(Into::into).collect();
        self
    }

    /// Whether a record of physical memory also holds a sample of page frames with their owners
    /// (the default). It costs at most half a percent of one CPU.
    #[must_use]
    pub fn owners(mut self, wanted: bool) -> Self {
        self.owners = wanted;
        self
    }

    /// Creates the record, and writes its origin: the command line, the machine and the attributes.
    ///
    /// # Errors
    ///
    /// If the file cannot be created or written; an old record is as it was then.
    pub fn create(self, monitor: &mut Monitor) -> Result<Recorder, Error> {
        let header = header(monitor, self.command);
        let (writer, place) = Writer::create_beside(&self.path, &header)?;
        Ok(Recorder { place: Some(place), ..Recorder::on(writer, self.owners) })
    }

    /// Writes the record to an open file or pipe instead of the path. There is no old record then,
    /// and nothing to keep.
    ///
    /// # Errors
    ///
    /// If the origin of the record cannot be written.
    pub fn write_to(self, file: File, monitor: &mut Monitor) -> Result<Recorder, Error> {
        let header = header(monitor, self.command);
        Ok(Recorder::on(Writer::new(file, &header)?, self.owners))
    }
}

impl Recorder {
    fn on(writer: Writer<File>, owners: bool) -> Self {
        Self {
            writer,
            place: None,
            targets: Vec::new(),
            maps_at: Time::default(),
            maps: Maps::default(),
            text: Vec::new(),
            peak_rss_bytes: 0,
            failed_writes: 0,
            owners,
            sampler: None,
            events: Vec::new(),
        }
    }
}

/// A record that is being written. Dropping it before [`Recorder::keep`] removes it.
#[derive(Debug)]
pub struct Recorder {
    writer: Writer<File>,
    /// Until the record is kept.
    place: Option<Place>,
    targets: Vec<Target>,
    maps_at: Time,
    maps: Maps,
    text: Vec<u8>,
    peak_rss_bytes: u64,
    failed_writes: u64,
    owners: bool,
    /// For physical memory.
    sampler: Option<Sampler>,
    events: Vec<Event>,
}

/// What the loop around a recorder should know about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Step {
    /// A window was recorded: see [`Monitor::snapshot`].
    Window,
    /// Nothing that needs attention.
    Quiet,
    /// No target is left, and none can come.
    Over,
    /// The operations set cannot go on; [`Event::SetFailed`] says why.
    Failed,
}

/// What a finished record holds.
#[derive(Debug)]
#[non_exhaustive]
pub struct Summary {
    /// What was written.
    pub written: Written,
    /// Writes that failed. What they held is not in the record.
    pub failed_writes: u64,
    /// How many of the kernel's windows were seen, if the kernel's DAMON looked, and by what.
    pub kernel_windows: Option<(Share, &'static str)>,
    /// How many windows came late, if that is worth telling.
    pub late: Option<Late>,
    /// What others hid by clearing accessed bits, if that is worth telling.
    pub others: Option<Others>,
    /// The events since the last call of [`Recorder::take_events`].
    pub events: Vec<Event>,
}

impl Recorder {
    /// A record at `path`.
    #[must_use]
    pub fn builder(path: impl AsRef<Path>) -> Builder {
        let command = std::env::args_os().map(|word| word.to_string_lossy().into_owned());
        Builder { path: path.as_ref().to_owned(), command: command.collect(), owners: true }
    }

    /// Puts the record into its place; an old one there becomes `FILE.old`. Call it when what is to
    /// be recorded has started. Calling it again does nothing.
    ///
    /// # Errors
    ///
    /// If a file cannot be renamed. The old record is in its place then, and the new one has no
    /// name.
    pub fn keep(&mut self) -> Result<(), Error> {
        self.place.take().map_or(Ok(()), Place::keep)
    }

    /// Lets the monitor run until something happens, and records it.
    pub fn step(&mut self, monitor: &mut Monitor) -> Step {
        let happened = monitor.next();
        self.record(monitor, &happened)
    }

    /// Takes in targets that the monitor has already. For a record that begins while it runs.
    pub fn take_over(&mut self, targets: &[Target]) {
        let now = clock::now();
        for target in targets {
            let written = self.added(target.clone(), now);
            self.count(written);
        }
    }

    /// Records what has just happened in the monitor.
    pub fn record(&mut self, monitor: &mut Monitor, happened: &Happened) -> Step {
        let now = clock::now();
        let written = match happened {
            Happened::Snapshot => {
                self.unknown_mappings(monitor, now);
                let written = self.writer.push_snapshot(monitor.snapshot());
                self.count(written);
                if monitor.suspended_ns() > 0 {
                    let written = self.writer.suspended(now, monitor.suspended_ns());
                    self.count(written);
                }
                self.mappings(now, monitor.context().attrs().update_us.saturating_mul(1000));
                self.frames(monitor, now, false);
                return Step::Window;
            }
            Happened::Stopped => return Step::Over,
            Happened::Trouble(text) => {
                self.tell(Event::Trouble(text.clone()));
                return Step::Quiet;
            }
            Happened::Watched(target) => {
                self.tell(Event::Watched(target.clone()));
                return Step::Quiet;
            }
            Happened::Failed(text) => {
                self.tell(Event::SetFailed(text.clone()));
                return Step::Failed;
            }
            // A record has no schemes, so no target is acted on.
            Happened::Idle
            | Happened::NotActedOn(..)
            | Happened::Waits(_)
            | Happened::HasTurn(_) => self.writer.tick(now),
            Happened::Target(event) => self.target(event, now),
            Happened::NotWatched(target, err) => {
                let event = Event::NotWatched { target: target.clone(), why: err.to_string() };
                if err.is_gone() {
                    // Many processes are too short-lived to be watched: only a note.
                    self.note(&event.to_string());
                } else {
                    self.tell(event);
                }
                return Step::Quiet;
            }
        };
        self.count(written);
        Step::Quiet
    }

    /// Writes what cgroups used.
    pub fn cgroups(&mut self, cgroups: Cgroups) {
        let written = self.writer.cgroups(cgroups);
        self.count(written);
    }

    /// Takes the events since the last call.
    pub fn take_events(&mut self) -> Vec<Event> {
        std::mem::take(&mut self.events)
    }

    /// Writes a message into the record.
    pub fn note(&mut self, text: &str) {
        let written = self.writer.note(clock::now(), text);
        self.count(written);
    }

    /// Writes what can still be read, and finishes the record. `reason` is written for its readers.
    ///
    /// # Errors
    ///
    /// If the end cannot be written. What was written before can be read.
    pub fn finish(mut self, monitor: &mut Monitor, reason: &str) -> Result<Summary, Error> {
        self.keep()?;
        self.frames(monitor, clock::now(), true);
        let kernel_windows = monitor.kdamond().map(|kdamond| (kdamond.share(), kdamond.source()));
        if let Some((Share { seen, lost }, source)) = kernel_windows {
            self.note(&format!(
                "of {} windows of the kernel {seen} were seen, by {source}",
                seen + lost
            ));
        }
        let others = monitor.others();
        if let Some(others) = &others {
            self.note(&others.to_string());
        }
        let late = monitor.late();
        if let Some(late) = &late {
            self.note(&late.to_string());
        }
        self.peak_rss_bytes = self.peak_rss_bytes.max(own_cost(&mut self.text).rss_bytes);
        let rss = self.peak_rss_bytes;
        self.note(&format!("peak rss {rss} bytes"));
        let Self { writer, failed_writes, events, .. } = self;
        let (_, written) = writer.finish(clock::now(), reason)?;
        Ok(Summary { written, failed_writes, kernel_windows, late, others, events })
    }

    /// Looks at the sample of page frames, if there is one and it is time for it, or `last` is set.
    fn frames(&mut self, monitor: &mut Monitor, now: Time, last: bool) {
        let Some(sampler) = &mut self.sampler else { return };
        match sampler.look(monitor, now, last) {
            Ok(None) => {}
            Ok(Some(frames)) => {
                let written = self.writer.frames(&frames);
                self.count(written);
            }
            Err(err) => {
                self.sampler = None;
                self.tell(Event::NoOwners(err.to_string()));
            }
        }
    }

    fn target(&mut self, event: &TargetEvent, now: Time) -> Result<(), Error> {
        match event {
            TargetEvent::Added(target) => self.added(target.clone(), now),
            TargetEvent::Execed { old, target } => {
                self.targets.retain(|t| t.id != *old);
                self.maps.forget(*old);
                self.writer.exit(&Exit { id: old.0, status: None, t_ns: now.as_ns() })?;
                self.added(target.clone(), now)
            }
            TargetEvent::Exited(id) => {
                self.targets.retain(|t| t.id != *id);
                self.maps.forget(*id);
                self.writer.exit(&Exit { id: id.0, status: None, t_ns: now.as_ns() })
            }
            TargetEvent::Refused(err) => {
                self.tell(Event::Refused(err.to_string()));
                Ok(())
            }
        }
    }

    fn added(&mut self, target: Target, now: Time) -> Result<(), Error> {
        if let Some(memory) = target.memory.as_ref().filter(|_| self.owners) {
            match Sampler::start(&target, memory) {
                Ok((sampler, ram)) => {
                    self.sampler = Some(sampler);
                    self.writer.ram(&ram)?;
                }
                Err(why) => self.tell(Event::NoOwners(why)),
            }
        }
        self.writer.target(&isotherm_record::Target {
            memory: target.memory.as_ref().map(ToString::to_string),
            id: target.id.0,
            pid: target.pid,
            ppid: target.ppid,
            name: target.name.clone(),
            t_ns: now.as_ns(),
        })?;
        let (id, pid) = (target.id, target.pid);
        self.targets.push(target);
        self.mappings_of(id, pid, now);
        Ok(())
    }

    /// Writes the mappings of all targets that may have changed, if it is time; the writer leaves
    /// out what did not change.
    fn mappings(&mut self, now: Time, every_ns: u64) {
        if now < self.maps_at {
            return;
        }
        let before = clock::thread_cpu_ns();
        self.peak_rss_bytes = self.peak_rss_bytes.max(own_cost(&mut self.text).rss_bytes);
        for i in 0..self.targets.len() {
            let (id, pid) = (self.targets[i].id, self.targets[i].pid);
            let size = self.size_of(pid);
            if !self.maps.may_rest(id, size, now) {
                self.mappings_of(id, pid, now);
            }
        }
        let cost_ns = clock::thread_cpu_ns().saturating_sub(before);
        self.maps_at = next_reading(now, every_ns, cost_ns);
    }

    /// Writes the mappings of targets of which the snapshot shows memory that has no name yet.
    fn unknown_mappings(&mut self, monitor: &Monitor, now: Time) {
        for id in self.maps.unknown(monitor.snapshot()) {
            if let Some(pid) = self.targets.iter().find(|t| t.id == id).map(|t| t.pid) {
                self.mappings_of(id, pid, now);
            }
        }
    }

    fn mappings_of(&mut self, id: TargetId, pid: u32, now: Time) {
        let (size, before) = (self.size_of(pid), clock::thread_cpu_ns());
        let mappings = mappings_of(pid, &mut self.text);
        if !mappings.is_empty() {
            self.maps.learn(id, &mappings);
            let written = self.writer.mappings(now, id, &mappings);
            self.count(written);
        }
        self.maps.note(id, size, now, clock::thread_cpu_ns().saturating_sub(before));
    }

    /// How much a process maps.
    fn size_of(&mut self, pid: u32) -> Option<[u64; 3]> {
        Proc::default().mapped_pages(pid, &mut self.text).ok().filter(|_| pid != 0)
    }

    /// Passes an event on, to the readers of the record as well.
    fn tell(&mut self, event: Event) {
        self.note(&event.to_string());
        self.events.push(event);
    }

    /// Counts a failed write. Only the first one becomes an event.
    fn count(&mut self, written: Result<(), Error>) {
        if let Err(err) = written {
            if self.failed_writes == 0 {
                self.events.push(Event::Lost(err));
            }
            self.failed_writes += 1;
        }
    }

    /// How many writes have failed so far.
    #[must_use]
    pub const fn failed_writes(&self) -> u64 {
        self.failed_writes
    }
}

/// The mappings of a process. There are none if the process has just ended, and for physical
/// memory, whose pid is 0. `text`: room for what the kernel says.
pub fn mappings_of(pid: u32, text: &mut Vec<u8>) -> Vec<Mapping> {
    if pid == 0 || Proc::default().read(pid, "maps", text).is_err() {
        return Vec::new();
    }
    parse_maps(text).map(|m| mapping(&m)).collect()
}

fn mapping(m: &isotherm_host::proc::Mapping<'_>) -> Mapping {
    let flag = |set: bool, c: char| if set { c } else { '-' };
    let p = m.perms;
    let perms: String = [
        flag(p.read, 'r'),
        flag(p.write, 'w'),
        flag(p.exec, 'x'),
        if p.shared { 's' } else { 'p' },
    ]
    .iter()
    .collect();
    let device = u64::from(m.dev.0) << 32 | u64::from(m.dev.1);
    let object = Object { device, inode: m.inode, offset: m.offset };
    let name = String::from_utf8_lossy(m.name);
    Mapping::new(m.range.start, m.range.end, &perms, &name).of_object(object)
}

fn header(monitor: &mut Monitor, command: Vec<String>) -> Header {
    let attrs = *monitor.context().attrs();
    origin(AttrsInfo::from(&attrs), monitor.ops().name(), command)
}

/// The origin of a record that begins now on this machine.
#[must_use]
pub fn origin(attrs: AttrsInfo, ops: &str, command: Vec<String>) -> Header {
    let uname = rustix::system::uname();
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    Header {
        isotherm: env!("CARGO_PKG_VERSION").into(),
        host: uname.nodename().to_string_lossy().into_owned(),
        kernel: uname.release().to_string_lossy().into_owned(),
        arch: uname.machine().to_string_lossy().into_owned(),
        page_size: rustix::param::page_size() as u64,
        boot_id: Proc::default().boot_id().unwrap_or_default(),
        started_unix_ns: now.map_or(0, |d| u64::try_from(d.as_nanos()).unwrap_or(0)),
        started_ns: clock::now().as_ns(),
        attrs,
        ops: ops.into(),
        command,
        capabilities: Vec::new(),
    }
}
