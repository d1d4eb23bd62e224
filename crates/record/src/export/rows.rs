//! Turns events into rows, and keeps the name that each target has at the time.

use std::collections::BTreeMap;
use std::io::Read;

use isotherm_core::RegionInfo;

use crate::error::Error;
use crate::event::Event;
use crate::reader::Reader;

/// One region of one snapshot, with its host, time and target.
#[derive(Debug, Clone, Copy)]
pub(super) struct Row<'a> {
    pub(super) host: &'a str,
    pub(super) t_ns: u64,
    pub(super) pid: u32,
    pub(super) target: &'a str,
    pub(super) max_nr_accesses: u32,
    pub(super) region: &'a RegionInfo,
}

/// Calls `f` for every region of every snapshot.
pub(super) fn each<R: Read>(
    reader: &mut Reader<R>,
    mut f: impl FnMut(&Row<'_>) -> Result<(), Error>,
) -> Result<(), Error> {
    let host = reader.header().host.clone();
    let mut names: BTreeMap<u32, (u32, String)> = BTreeMap::new();
    let unknown = (0, String::new());
    while let Some(event) = reader.next_event()? {
        match event {
            Event::Target(t) => {
                names.insert(t.id, (t.pid, t.name.clone()));
            }
            Event::Exec(e) => {
                names.entry(e.id).or_default().1.clone_from(&e.name);
            }
            Event::Snapshot(s) => {
                for t in &s.targets {
                    let (pid, target) = names.get(&t.id.0).unwrap_or(&unknown);
                    for region in &t.regions {
                        f(&Row {
                            host: &host,
                            t_ns: s.end.0,
                            pid: *pid,
                            target,
                            max_nr_accesses: s.max_nr_accesses,
                            region,
                        })?;
                    }
                }
            }
            Event::Exit(_)
            | Event::Mappings { .. }
            | Event::Ram(_)
            | Event::Frames(_)
            | Event::Note(_)
            | Event::End(_) => {}
        }
    }
    Ok(())
}
