//! Several records of the same monitor, one after another, as one.
//!
//! An agent begins a new record from time to time, and after each of its own starts. A target that
//! goes on in the next record is the same target in the joined one: the same pid and name, and no
//! end in between. Numbers of targets and windows are given anew.
//!
//! Invariant: the records are of one boot, since the clock of another one cannot be compared.

use std::collections::BTreeMap;

use isotherm_core::{Snapshot, TargetId, Time};

use super::Record;
use crate::error::Error;
use crate::event::{Event, Exec, Exit, Target};
use crate::pages::Pages;
use crate::writer::Writer;

/// Joins records, which are in order of time. Snapshots that ended before `from` are left out.
///
/// # Errors
///
/// If a record cannot be read, or there is none.
pub fn join(records: &[Record], from: Time) -> Result<Record, Error> {
    let Some(first) = records.first() else {
        return Err(Error::io("join records")(std::io::ErrorKind::NotFound.into()));
    };
    let mut joining = Joining {
        writer: Writer::new(Vec::new(), first.header())?,
        from,
        alive: BTreeMap::new(),
        numbers: BTreeMap::new(),
        next_number: 0,
        next_seq: 0,
        seq_base: None,
        pages: BTreeMap::new(),
        last: Time::default(),
    };
    for record in records.iter().filter(|r| r.header().boot_id == first.header().boot_id) {
        joining.numbers.clear();
        joining.pages.clear();
        joining.seq_base = None;
        let mut reader = record.reader()?;
        while let Some(event) = reader.next_event()? {
            joining.event(&event)?;
        }
    }
    let last = joining.last;
    let (bytes, _) = joining.writer.finish(last, "joined")?;
    Record::from_bytes(bytes)
}

/// What was touched in a window, and the units that changed in it.
type Seen = (Vec<(TargetId, isotherm_core::Touched)>, Vec<(TargetId, isotherm_core::UnitInfo)>);

struct Joining {
    writer: Writer<Vec<u8>>,
    from: Time,
    /// The targets that have not ended, by pid and name.
    alive: BTreeMap<(u32, String), u32>,
    /// The numbers of the record at hand, and what they are in the joined one.
    numbers: BTreeMap<u32, u32>,
    next_number: u32,
    next_seq: u64,
    /// The first window of the record at hand, and its number in the joined one.
    seq_base: Option<(u64, u64)>,
    /// What windows that are still to come say of single pages.
    pages: BTreeMap<u64, Seen>,
    last: Time,
}

impl Joining {
    fn event(&mut self, event: &Event<'_>) -> Result<(), Error> {
        match event {
            Event::Target(target) => self.target(target),
            Event::Exec(exec) => {
                let id = self.number(exec.id);
                self.writer.exec(&Exec { id, ..(*exec).clone() })
            }
            Event::Exit(exit) => {
                let id = self.number(exit.id);
                self.alive.retain(|_, number| *number != id);
                self.writer.exit(&Exit { id, ..(*exit).clone() })
            }
            Event::Mappings { t_ns, target, mappings } => {
                let id = TargetId(self.number(*target));
                self.writer.mappings(Time(*t_ns), id, mappings)
            }
            Event::Pages(pages) => {
                self.learn(pages);
                Ok(())
            }
            Event::Snapshot(snapshot) => self.snapshot(snapshot),
            Event::Ram(ram) => self.writer.ram(ram),
            Event::Frames(frames) => {
                let mut frames = (*frames).clone();
                frames.target = self.number(frames.target);
                self.writer.frames(&frames)
            }
            Event::Cgroups(cgroups) if cgroups.t_ns < self.from.as_ns() => Ok(()),
            Event::Cgroups(cgroups) => self.writer.cgroups((*cgroups).clone()),
            Event::Note(note) => self.writer.note(Time(note.t_ns), note.text.clone()),
            Event::End(_) => Ok(()),
        }
    }

    fn number(&mut self, of: u32) -> u32 {
        *self.numbers.entry(of).or_insert_with(|| {
            self.next_number += 1;
            self.next_number - 1
        })
    }

    fn target(&mut self, target: &Target) -> Result<(), Error> {
        let key = (target.pid, target.name.clone());
        if let Some(number) = self.alive.get(&key) {
            self.numbers.insert(target.id, *number);
            return Ok(());
        }
        let id = self.number(target.id);
        self.alive.insert(key, id);
        self.writer.target(&Target { id, ..target.clone() })
    }

    fn learn(&mut self, pages: &Pages) {
        for window in &pages.windows {
            let seen = self.pages.entry(window.seq).or_default();
            seen.0.extend_from_slice(&window.touched);
        }
        for changed in &pages.units {
            if let Some(window) = pages.windows.get(changed.window as usize) {
                let seen = self.pages.entry(window.seq).or_default();
                seen.1.push((changed.target, changed.unit));
            }
        }
    }

    fn snapshot(&mut self, snapshot: &Snapshot) -> Result<(), Error> {
        let (touched, units) = self.pages.remove(&snapshot.seq).unwrap_or_default();
        self.pages = self.pages.split_off(&snapshot.seq);
        if snapshot.end < self.from {
            return Ok(());
        }
        let (first, base) = *self.seq_base.get_or_insert((snapshot.seq, self.next_seq));
        let mut joined = snapshot.clone();
        joined.seq = base + snapshot.seq.saturating_sub(first);
        self.next_seq = joined.seq + 1;
        self.last = joined.end;
        for target in &mut joined.targets {
            let of = target.id;
            target.touched = touched.iter().find(|(id, _)| *id == of).map(|(_, t)| *t);
            target.units = units.iter().filter(|(id, _)| *id == of).map(|(_, u)| *u).collect();
            target.units.sort_by_key(|unit| unit.start);
            target.id = TargetId(self.number(of.0));
        }
        self.writer.push_snapshot(&joined)
    }
}
