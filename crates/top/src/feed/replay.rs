//! A record as a feed, with time travel.
//!
//! A record is read as a stream and cannot be read backwards, so going back begins at the start
//! again: an hour of a record takes seconds at most. What is open is looked at on the way, so its
//! heatmap has a past at once.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use isotherm::raw::core::{Snapshot, TargetId, TargetInfo, Time};
use isotherm::raw::record::once::Sharing;
use isotherm::raw::record::{Event, Input, Mapping, Reader, Record, Target};
use isotherm::raw::report::page_maps::PageMaps;

use super::picture::{Picture, Seen};
use super::{Error, Feed, Travel};
use crate::model::{Head, Member, Position, Row, Sharers, World};

/// How often a world is made while time goes on.
const STEP: Duration = Duration::from_secs(1);

/// What was read up to the present point.
struct State {
    reader: Reader<Input>,
    targets: BTreeMap<u32, Target>,
    mappings: BTreeMap<u32, Vec<Mapping>>,
    /// How often mappings were read, and what they tell of shared memory.
    version: u64,
    sharing: Sharing,
    maps: PageMaps,
    snapshot: Snapshot,
    /// The first snapshot behind the present point.
    ahead: Option<Snapshot>,
    is_over: bool,
}

/// A feed of what a record holds.
pub struct Replay {
    record: Record,
    begin: Time,
    end: Time,
    at: Time,
    state: State,
    picture: Picture,
    is_playing: bool,
    /// When the last world was made.
    shown: Option<Instant>,
    is_new: bool,
    damaged: String,
}

impl std::fmt::Debug for Replay {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Replay").field("at", &self.at).finish_non_exhaustive()
    }
}

impl Replay {
    /// Reads the record once, to know how long it is, and begins at its start.
    ///
    /// # Errors
    ///
    /// [`Error::Record`] if it cannot be read, or holds no snapshot.
    pub fn open(record: Record) -> Result<Self, Error> {
        let mut reader = record.reader()?;
        let (mut begin, mut end) = (None, Time::default());
        while let Some(event) = reader.next_event()? {
            if let Event::Snapshot(snapshot) = event {
                begin.get_or_insert(snapshot.start);
                end = snapshot.end;
            }
        }
        let begin = begin.ok_or(Error::NoSnapshots)?;
        let damage = reader.damage();
        let damaged = if damage.is_none() { String::new() } else { format!("damaged: {damage}") };
        let state = State::begin(&record)?;
        let picture = Picture::default();
        let mut this = Self {
            record,
            begin,
            end,
            at: begin,
            state,
            picture,
            is_playing: true,
            shown: None,
            is_new: true,
            damaged,
        };
        this.go_to(begin)?;
        Ok(this)
    }

    fn length_ns(&self) -> u64 {
        self.end.since(self.begin)
    }

    /// Goes to a time; back, if need be, by beginning anew.
    fn go_to(&mut self, to: Time) -> Result<(), Error> {
        if to < self.at {
            self.restart()?;
        }
        self.at = to.clamp(self.begin, self.end);
        while self.state.next_until(self.at)? {
            self.pass();
        }
        self.is_new = true;
        Ok(())
    }

    fn restart(&mut self) -> Result<(), Error> {
        self.state = State::begin(&self.record)?;
        let open = self.picture.opened();
        self.picture = Picture::default();
        self.picture.open(open);
        Ok(())
    }

    /// Lets the picture see the present snapshot, for what it keeps of the past. It is not asked
    /// for more than that: this is done for every window that time passes.
    fn pass(&mut self) {
        let State { targets, maps, snapshot, .. } = &self.state;
        for info in &snapshot.targets {
            let (Some(target), Some(seen)) = (targets.get(&info.id.0), seen(snapshot, info, maps))
            else {
                continue;
            };
            let seen = Seen { is_new: false, ..seen };
            self.picture.fill(snapshot.end, info.id, &seen, &mut Row::default());
            if self.picture.opened() == Some(target.pid) {
                self.picture.add_column(snapshot.end, &seen);
            }
        }
    }

    /// What the targets of the present snapshot share.
    fn sharers(&self) -> Arc<Sharers> {
        let State { targets, maps, snapshot, sharing, .. } = &self.state;
        if !sharing.is_any(snapshot.targets.iter().map(|info| info.id.0)) {
            return Arc::default();
        }
        let member = |info: &TargetInfo| {
            let pid = targets.get(&info.id.0)?.pid;
            let member = Member::of(sharing, info.id.0, maps.get(info.id), &info.regions);
            Some((pid, Arc::new(member)))
        };
        let members = snapshot.targets.iter().filter_map(member).collect();
        Arc::new(Sharers::new(Arc::new(sharing.clone()), members, snapshot.aggr_us, true))
    }

    fn world(&mut self) -> World {
        let State { targets, mappings, maps, snapshot, .. } = &self.state;
        let mut rows = Vec::new();
        for info in &snapshot.targets {
            let (Some(target), Some(seen)) = (targets.get(&info.id.0), seen(snapshot, info, maps))
            else {
                continue;
            };
            let mut row = Row {
                pid: target.pid,
                ppid: target.ppid,
                name: target.name.clone(),
                ..Row::default()
            };
            self.picture.fill(snapshot.end, info.id, &seen, &mut row);
            // A record holds no sizes; what was seen to be there is the resident memory.
            row.rss = Some(row.tiers.total());
            row.age_ns = Some(self.at.since(snapshot.end));
            if self.picture.opened() == Some(target.pid) {
                let known = mappings.get(&info.id.0).map_or(&[][..], Vec::as_slice);
                self.picture.describe(&seen, known);
            }
            rows.push(row);
        }
        let sharers = self.sharers();
        let header = self.record.header();
        let head = Head {
            set: format!("record of {} by {}, {}", header.host, header.ops, header.attrs.method),
            note: self.damaged.clone(),
            ..Head::default()
        };
        let position = Some(Position {
            at_ns: self.at.since(self.begin),
            length_ns: self.length_ns(),
            is_playing: self.is_playing && self.at < self.end,
        });
        let detail = self.picture.detail();
        World { rows, sharers, detail, head, position, ..World::default() }
    }
}

impl Feed for Replay {
    fn next(&mut self, wait: Duration) -> Result<Option<World>, Error> {
        let now = Instant::now();
        let due = self.shown.is_none_or(|shown| now.duration_since(shown) >= STEP);
        if !self.is_new && self.is_playing && due && self.at < self.end {
            self.go_to(self.at.plus_us(1_000_000))?;
        }
        if !std::mem::take(&mut self.is_new) {
            std::thread::park_timeout(wait);
            return Ok(None);
        }
        self.shown = Some(now);
        Ok(Some(self.world()))
    }

    fn open(&mut self, pid: Option<u32>) {
        self.picture.open(pid);
        // Its past is in the record, so it is gone through once more. What cannot be read now
        // could be before; the next step says so.
        let at = self.at;
        if self.restart().is_ok() {
            self.at = self.begin;
            self.go_to(at).ok();
        }
    }

    fn travel(&mut self, travel: Travel) {
        let to = match travel {
            Travel::Play => {
                self.is_playing = true;
                self.is_new = true;
                return;
            }
            Travel::Pause => {
                self.is_playing = false;
                self.is_new = true;
                return;
            }
            Travel::To(time) => {
                let ns = u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
                self.begin + ns.min(self.length_ns())
            }
            Travel::By { s } => {
                let ns = s.unsigned_abs().saturating_mul(1_000_000_000);
                let at = self.at.since(self.begin);
                let at = if s < 0 { at.saturating_sub(ns) } else { at.saturating_add(ns) };
                self.begin + at.min(self.length_ns())
            }
        };
        self.go_to(to).ok();
    }
}

/// What the snapshot tells of a target; nothing where it has none.
fn seen<'a>(snapshot: &'a Snapshot, info: &'a TargetInfo, maps: &'a PageMaps) -> Option<Seen<'a>> {
    let map = maps.get(info.id);
    (!info.regions.is_empty()).then_some(Seen {
        regions: &info.regions,
        touched: map.and_then(|map| map.touched),
        map,
        is_new: true,
        max_nr_accesses: snapshot.max_nr_accesses,
        aggr_us: snapshot.aggr_us,
    })
}

impl State {
    fn begin(record: &Record) -> Result<Self, Error> {
        Ok(Self {
            reader: record.reader()?,
            targets: BTreeMap::new(),
            mappings: BTreeMap::new(),
            version: 0,
            sharing: Sharing::default(),
            maps: PageMaps::default(),
            snapshot: Snapshot::default(),
            ahead: None,
            is_over: false,
        })
    }

    /// Goes on by one snapshot, if the next one has ended by then.
    fn next_until(&mut self, until: Time) -> Result<bool, Error> {
        while self.ahead.is_none() && !self.is_over {
            self.read()?;
        }
        // The first snapshot shows from the beginning on.
        let is_first = self.snapshot.targets.is_empty() && self.snapshot.end == Time::default();
        match self.ahead.take() {
            Some(ahead) if ahead.end <= until || is_first => {
                self.maps.advance(ahead.end);
                self.snapshot = ahead;
                Ok(true)
            }
            ahead => {
                self.ahead = ahead;
                Ok(false)
            }
        }
    }

    /// Reads one event.
    fn read(&mut self) -> Result<(), Error> {
        let Some(event) = self.reader.next_event()? else {
            self.is_over = true;
            return Ok(());
        };
        match event {
            Event::Target(target) => {
                self.targets.insert(target.id, target.clone());
            }
            Event::Exec(exec) => {
                if let Some(target) = self.targets.get_mut(&exec.id) {
                    target.name.clone_from(&exec.name);
                }
                self.maps.forget(TargetId(exec.id));
            }
            Event::Mappings { target, mappings, .. } => {
                self.version += 1;
                self.sharing.learn(target, self.version, mappings);
                self.mappings.insert(target, mappings.to_vec());
            }
            Event::Pages(pages) => self.maps.learn(pages),
            Event::Snapshot(snapshot) => self.ahead = Some(snapshot.clone()),
            Event::Exit(_)
            | Event::Ram(_)
            | Event::Frames(_)
            | Event::Cgroups(_)
            | Event::Note(_)
            | Event::End(_) => {}
        }
        Ok(())
    }
}
