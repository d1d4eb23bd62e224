//! Turns events into rows, and keeps the name that each target has at the time.

use std::collections::BTreeMap;
use std::io::Read;

use isotherm_core::{RegionInfo, UnitInfo};

use crate::error::Error;
use crate::event::Event;
use crate::reader::Reader;

/// One item of a target at a time: a region of a snapshot, or a unit that changed.
#[derive(Debug, Clone, Copy)]
pub(super) struct Row<'a, T> {
    pub(super) host: &'a str,
    pub(super) t_ns: u64,
    pub(super) pid: u32,
    pub(super) target: &'a str,
    pub(super) item: &'a T,
}

/// A region, with the largest count of its snapshot.
#[derive(Debug, Clone, Copy)]
pub(super) struct Region<'a> {
    pub(super) info: &'a RegionInfo,
    pub(super) max_nr_accesses: u32,
}

/// The pid and the present name of every target.
#[derive(Default)]
struct Names(BTreeMap<u32, (u32, String)>);

impl Names {
    fn learn(&mut self, event: &Event<'_>) {
        match event {
            Event::Target(t) => {
                self.0.insert(t.id, (t.pid, t.name.clone()));
            }
            Event::Exec(e) => self.0.entry(e.id).or_default().1.clone_from(&e.name),
            Event::Exit(_)
            | Event::Mappings { .. }
            | Event::Snapshot(_)
            | Event::Pages(_)
            | Event::Ram(_)
            | Event::Frames(_)
            | Event::Note(_)
            | Event::End(_) => {}
        }
    }

    fn of(&self, target: u32) -> (u32, &str) {
        self.0.get(&target).map_or((0, ""), |(pid, name)| (*pid, name))
    }
}

/// Calls `f` for every region of every snapshot.
pub(super) fn each_region<R: Read>(
    reader: &mut Reader<R>,
    mut f: impl FnMut(&Row<'_, Region<'_>>) -> Result<(), Error>,
) -> Result<(), Error> {
    let host = reader.header().host.clone();
    let mut names = Names::default();
    while let Some(event) = reader.next_event()? {
        names.learn(&event);
        let Event::Snapshot(s) = event else { continue };
        for t in &s.targets {
            let (pid, target) = names.of(t.id.0);
            for info in &t.regions {
                let item = &Region { info, max_nr_accesses: s.max_nr_accesses };
                f(&Row { host: &host, t_ns: s.end.0, pid, target, item })?;
            }
        }
    }
    Ok(())
}

/// Calls `f` for every unit that changed, and returns how many there were.
pub(super) fn each_unit<R: Read>(
    reader: &mut Reader<R>,
    mut f: impl FnMut(&Row<'_, UnitInfo>) -> Result<(), Error>,
) -> Result<u64, Error> {
    let host = reader.header().host.clone();
    let mut names = Names::default();
    let mut nr = 0;
    while let Some(event) = reader.next_event()? {
        names.learn(&event);
        let Event::Pages(pages) = event else { continue };
        for changed in &pages.units {
            let window = usize::try_from(changed.window).ok().and_then(|nr| pages.windows.get(nr));
            let t_ns = window.map_or(0, |w| w.end.0);
            let (pid, target) = names.of(changed.target.0);
            f(&Row { host: &host, t_ns, pid, target, item: &changed.unit })?;
            nr += 1;
        }
    }
    Ok(nr)
}
