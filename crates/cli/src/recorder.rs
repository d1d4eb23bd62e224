//! Joins a monitor and a record: what the one tells goes into the other. `record` and `demo` share it.
//!
//! A failed write never stops the monitor: it is told once, and recording goes on, for the next write
//! may go through (a disk that was full for a moment).

use std::fs::File;
use std::io::Write;
use std::path::Path;

use isotherm_agent::monitor::{Happened, Monitor};
use isotherm_core::{Attrs, TargetId, Time};
use isotherm_host::error::{ErrorKind, SetError};
use isotherm_host::proc::{Proc, own_cost, parse_maps};
use isotherm_ops::kdamond::KdamondError;
use isotherm_ops::set::AttachError;
use isotherm_ops::smaps::SmapsError;
use isotherm_ops::targets::{Target, TargetEvent};
use isotherm_record::{AttrsInfo, Exit, Header, Mapping, Writer, Written};
use isotherm_sys::clock;

use crate::files::not_created;
use crate::physical::Sampler;

/// A record under way.
#[derive(Debug)]
pub(crate) struct Recorder {
    writer: Writer<File>,
    targets: Vec<Target>,
    maps_every_ns: u64,
    maps_at: Time,
    text: Vec<u8>,
    peak_rss_bytes: u64,
    failed: bool,
    /// For physical memory.
    sampler: Option<Sampler>,
}

/// What the loop around a recorder should know about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Step {
    /// A window was recorded.
    Window,
    /// Nothing that needs attention.
    Quiet,
    /// No target is left.
    Over,
    /// The operations set cannot go on.
    Failed,
}

impl Recorder {
    /// Makes the file and writes who, where, and how.
    pub(crate) fn create(path: &Path, monitor: &Monitor, attrs: &Attrs) -> anyhow::Result<Self> {
        let header = header(monitor, attrs);
        Ok(Self {
            writer: Writer::create(path, &header).map_err(not_created(path))?,
            targets: Vec::new(),
            maps_every_ns: attrs.update_us.saturating_mul(1000),
            maps_at: Time::default(),
            text: Vec::new(),
            peak_rss_bytes: 0,
            failed: false,
            sampler: None,
        })
    }

    /// Lets the monitor run until something happens, and records it.
    pub(crate) fn step(&mut self, monitor: &mut Monitor) -> Step {
        let happened = monitor.next();
        let now = clock::now();
        let written = match happened {
            Happened::Snapshot => {
                let written = self.writer.push_snapshot(monitor.snapshot());
                self.told(written);
                self.mappings(now);
                self.frames(monitor, now, false);
                return Step::Window;
            }
            Happened::Stopped => return Step::Over,
            Happened::Trouble(text) => {
                warn(&text);
                self.writer.note(now, text)
            }
            Happened::Failed(text) => {
                warn(&text);
                self.note(&text);
                return Step::Failed;
            }
            // A record has no schemes, so nobody is acted on.
            Happened::Idle | Happened::NotActedOn(..) => self.writer.tick(now),
            Happened::Target(event) => self.target(event, now),
            Happened::NotWatched(target, err) => {
                let what =
                    format!("process {} ({}) is not watched: {err}", target.pid, target.name);
                // Many a process is too short-lived to be watched; that is worth a note, not a warning.
                if !is_gone(&err) {
                    warn(&what);
                }
                self.writer.note(now, what)
            }
        };
        self.told(written);
        Step::Quiet
    }

    /// Looks at the sample of page frames, if there is one and it is time, or at the end.
    pub(crate) fn frames(&mut self, monitor: &mut Monitor, now: Time, last: bool) {
        let Some(sampler) = &mut self.sampler else { return };
        match sampler.look(monitor, now, last) {
            Ok(None) => {}
            Ok(Some(frames)) => {
                let written = self.writer.frames(&frames);
                self.told(written);
            }
            Err(err) => {
                self.sampler = None;
                let what = format!("whose memory it is cannot be told any more: {err}");
                warn(&what);
                self.note(&what);
            }
        }
    }

    /// Writes a message into the record.
    pub(crate) fn note(&mut self, text: &str) {
        let written = self.writer.note(clock::now(), text);
        self.told(written);
    }

    /// Ends the record in good order.
    pub(crate) fn finish(mut self, reason: &str) -> anyhow::Result<Written> {
        self.peak_rss_bytes = self.peak_rss_bytes.max(own_cost(&mut self.text).rss_bytes);
        let rss = self.peak_rss_bytes;
        self.note(&format!("peak rss {rss} bytes"));
        let (_, written) = self.writer.finish(clock::now(), reason)?;
        Ok(written)
    }

    fn target(&mut self, event: TargetEvent, now: Time) -> Result<(), isotherm_record::Error> {
        match event {
            TargetEvent::Added(target) => self.added(target, now),
            TargetEvent::Execed { old, target } => {
                self.targets.retain(|t| t.id != old);
                self.writer.exit(&Exit { id: old.0, status: None, t_ns: now.as_ns() })?;
                self.added(target, now)
            }
            TargetEvent::Exited(id) => {
                self.targets.retain(|t| t.id != id);
                self.writer.exit(&Exit { id: id.0, status: None, t_ns: now.as_ns() })
            }
            TargetEvent::Refused(err) => {
                warn(&err.to_string());
                self.writer.note(now, err.to_string())
            }
        }
    }

    fn added(&mut self, target: Target, now: Time) -> Result<(), isotherm_record::Error> {
        if let Some(memory) = &target.memory {
            match Sampler::start(&target, memory) {
                Ok((sampler, ram)) => {
                    self.sampler = Some(sampler);
                    self.writer.ram(&ram)?;
                }
                Err(why) => {
                    let what = format!("whose memory it is cannot be told: {why}");
                    warn(&what);
                    self.writer.note(now, what)?;
                }
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
        self.maps_at = Time::default();
        self.targets.push(target);
        Ok(())
    }

    /// Writes the mappings of all targets, if it is time; the writer leaves out what did not change.
    fn mappings(&mut self, now: Time) {
        if now < self.maps_at {
            return;
        }
        self.maps_at = now + self.maps_every_ns;
        self.peak_rss_bytes = self.peak_rss_bytes.max(own_cost(&mut self.text).rss_bytes);
        for i in 0..self.targets.len() {
            let (id, pid) = (self.targets[i].id, self.targets[i].pid);
            // Physical memory has no mappings.
            if pid == 0 || Proc::default().read(pid, "maps", &mut self.text).is_err() {
                continue; // It has just ended; the tracker will say so.
            }
            let mappings: Vec<Mapping> = parse_maps(&self.text).map(|m| mapping(&m)).collect();
            if !mappings.is_empty() {
                let written = self.writer.mappings(now, TargetId(id.0), &mappings);
                self.told(written);
            }
        }
    }

    fn told(&mut self, written: Result<(), isotherm_record::Error>) {
        if let Err(err) = written
            && !self.failed
        {
            self.failed = true;
            warn(&format!("the record has a hole: {err}"));
        }
    }

    /// Whether any write failed.
    pub(crate) fn failed(&self) -> bool {
        self.failed
    }
}

/// Whether a set could not take in a process because it has ended already.
pub(crate) fn is_gone(err: &AttachError) -> bool {
    let pages = err.downcast_ref::<SetError>().map(|e| e.kind() == ErrorKind::Gone);
    let smaps = err.downcast_ref::<SmapsError>().map(SmapsError::is_gone);
    let kdamond = err.downcast_ref::<KdamondError>().map(KdamondError::is_gone);
    pages.or(smaps).or(kdamond).unwrap_or(false)
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
    Mapping::new(m.range.start, m.range.end, &perms, &String::from_utf8_lossy(m.name))
}

fn header(monitor: &Monitor, attrs: &Attrs) -> Header {
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
        attrs: AttrsInfo::from(attrs),
        ops: monitor.ops().name().into(),
        command: std::env::args().collect(),
        capabilities: Vec::new(),
    }
}

/// Tells the user; nothing can be done if standard error is closed.
pub(crate) fn warn(text: &str) {
    writeln!(std::io::stderr(), "warning: {text}").ok();
}
