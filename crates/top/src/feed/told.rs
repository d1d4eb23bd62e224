//! A feed of what somebody else's monitor sees: an agent that watches the processes already.
//!
//! Nothing is watched here. The rows come from regions and from what was touched within spans, as
//! single pages are not told. Names and sizes are read from `/proc`.

use std::collections::BTreeSet;
use std::fmt;
use std::sync::Arc;
use std::time::{Duration, Instant};

use isotherm::raw::agent::recorder::mappings_of;
use isotherm::raw::core::{Snapshot, TargetId, TargetInfo, Time};
use isotherm::raw::host::proc::Proc;
use isotherm::raw::sys::clock;

use super::names::SharedNames;
use super::picture::{Picture, Seen};
use super::processes::{Processes, Wanted};
use super::{Error, Feed, Travel};
use crate::model::{Head, Row, World};

/// How often it is asked.
const EVERY: Duration = Duration::from_secs(1);

/// Somebody who watches already.
pub trait Source: fmt::Debug {
    /// The last windows of all processes that are wanted. The id of each target is its pid.
    ///
    /// # Errors
    ///
    /// Why none will come any more, for people.
    fn ask(&mut self) -> Result<Vec<Snapshot>, String>;
}

/// A feed of what a [`Source`] tells.
#[derive(Debug)]
pub struct Told {
    source: Box<dyn Source>,
    processes: Processes,
    picture: Picture,
    head: Head,
    names: SharedNames,
    snapshots: Vec<Snapshot>,
    known: BTreeSet<TargetId>,
    asked: Option<Instant>,
    is_new: bool,
    buf: Vec<u8>,
}

impl Told {
    /// Begins to ask. `whose`: whose numbers these are, for the head of the view.
    ///
    /// # Errors
    ///
    /// [`Error::Processes`] if `/proc` cannot be listed.
    pub fn new(source: Box<dyn Source>, wanted: Wanted, whose: String) -> Result<Self, Error> {
        let mut processes = Processes::new(Proc::default(), wanted);
        processes.list().map_err(Error::Processes)?;
        Ok(Self {
            source,
            processes,
            picture: Picture::default(),
            head: Head { set: whose, ..Head::default() },
            names: SharedNames::default(),
            snapshots: Vec::new(),
            known: BTreeSet::new(),
            asked: None,
            is_new: false,
            buf: Vec::new(),
        })
    }

    fn ask(&mut self) -> Result<(), Error> {
        // What cannot be listed this time will be next time.
        self.processes.list().ok();
        self.snapshots = self.source.ask().map_err(Error::NotTold)?;
        let all = self.snapshots.iter().flat_map(|s| &s.targets);
        let now: BTreeSet<TargetId> = all.map(|target| target.id).collect();
        for gone in self.known.difference(&now) {
            self.picture.forget(*gone);
        }
        self.head.note = match now.is_empty() {
            true => "no process is watched any more".to_owned(),
            false => String::new(),
        };
        self.known = now;
        Ok(())
    }

    /// Looks closely at the process that is open.
    fn look(&mut self) {
        let Self { snapshots, picture, buf, .. } = self;
        let Some(pid) = picture.opened() else { return };
        for snapshot in &*snapshots {
            let Some(target) = snapshot.targets.iter().find(|t| t.id.0 == pid) else { continue };
            let seen = seen(snapshot, target);
            if picture.add_column(clock::now(), &seen) {
                picture.describe(&seen, &mappings_of(pid, buf));
            }
        }
    }

    fn world(&mut self, now: Time) -> World {
        let Self { snapshots, picture, processes, .. } = self;
        let mut rows = Vec::new();
        for snapshot in &*snapshots {
            for target in &snapshot.targets {
                let pid = target.id.0;
                let Some(process) = processes.get(pid) else { continue };
                let mut row = Row {
                    pid,
                    ppid: process.ppid,
                    name: process.name.clone(),
                    cgroup: process.cgroup.clone(),
                    uid: process.uid,
                    rss: Some(process.rss),
                    ..Row::default()
                };
                // Without regions no window has told of it yet.
                if !target.regions.is_empty() {
                    picture.fill(now, target.id, &seen(snapshot, target), &mut row);
                    row.age_ns = Some(now.since(snapshot.end));
                }
                rows.push(row);
            }
        }
        World {
            rows,
            names: self.names.at(now),
            sharers: Arc::default(),
            detail: self.picture.detail(),
            head: self.head.clone(),
            position: None,
        }
    }
}

impl Feed for Told {
    fn next(&mut self, wait: Duration) -> Result<Option<World>, Error> {
        let now = Instant::now();
        let left = self.asked.map_or(Duration::ZERO, |at| EVERY.saturating_sub(now - at));
        if left > wait && !self.is_new {
            std::thread::park_timeout(wait);
            return Ok(None);
        }
        if !std::mem::take(&mut self.is_new) {
            std::thread::sleep(left);
            self.asked = Some(Instant::now());
            self.ask()?;
        }
        self.look();
        Ok(Some(self.world(clock::now())))
    }

    fn open(&mut self, pid: Option<u32>) {
        self.picture.open(pid);
        self.is_new = true;
    }

    fn travel(&mut self, _: Travel) {}
}

fn seen<'a>(snapshot: &Snapshot, target: &'a TargetInfo) -> Seen<'a> {
    Seen {
        regions: &target.regions,
        touched: target.touched,
        map: None,
        is_new: true,
        max_nr_accesses: snapshot.max_nr_accesses,
        aggr_us: snapshot.aggr_us,
    }
}
