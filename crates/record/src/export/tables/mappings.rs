//! One row per mapping, whenever the mappings of a target were read.

use super::super::batch::{Batch, Maybe, Texts, column};
use super::Rows;
use super::who::{Known, Stamp, name_of};
use crate::event::Event;
use crate::mapping::Mapping;

/// The columns.
#[derive(Debug)]
pub(super) struct Mappings {
    known: Known,
    stamp: Stamp,
    start: Vec<u64>,
    end: Vec<u64>,
    perms: Texts,
    kind: Texts,
    mapping: Texts,
    device: Maybe<Vec<u64>>,
    inode: Maybe<Vec<u64>>,
    offset: Maybe<Vec<u64>>,
}

impl Mappings {
    pub(super) fn new(known: Known) -> Self {
        Self {
            known,
            stamp: Stamp::default(),
            start: Vec::new(),
            end: Vec::new(),
            perms: Texts::default(),
            kind: Texts::default(),
            mapping: Texts::default(),
            device: Maybe::default(),
            inode: Maybe::default(),
            offset: Maybe::default(),
        }
    }

    fn mapping(&mut self, t_ns: u64, target: u32, m: &Mapping) {
        self.stamp.push(&self.known, t_ns, self.known.of(target));
        self.start.push(m.start);
        self.end.push(m.end);
        self.perms.push(&m.perms);
        self.kind.push(m.kind.name());
        self.mapping.push(name_of(m));
        self.device.push(m.object.map(|o| o.device));
        self.inode.push(m.object.map(|o| o.inode));
        self.offset.push(m.object.map(|o| o.offset));
    }
}

impl Rows for Mappings {
    fn push(&mut self, event: &Event<'_>) {
        self.known.learn(event);
        if let Event::Mappings { t_ns, target, mappings } = event {
            for m in *mappings {
                self.mapping(*t_ns, *target, m);
            }
        }
    }

    fn rows(&self) -> usize {
        self.stamp.rows()
    }

    fn take(&mut self) -> Batch {
        self.stamp.batch(vec![
            column("start", &mut self.start),
            column("end", &mut self.end),
            column("perms", &mut self.perms),
            column("kind", &mut self.kind),
            column("mapping", &mut self.mapping),
            column("device", &mut self.device),
            column("inode", &mut self.inode),
            column("offset", &mut self.offset),
        ])
    }
}
