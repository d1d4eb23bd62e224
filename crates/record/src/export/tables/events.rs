//! One row per target that came, executed another program, or exited, and per message.

use super::super::batch::{Batch, Maybe, Texts, column};
use super::Rows;
use super::who::{Known, Stamp};
use crate::event::Event;

/// The columns.
#[derive(Debug)]
pub(super) struct Events {
    known: Known,
    stamp: Stamp,
    event: Texts,
    ppid: Maybe<Vec<u32>>,
    status: Maybe<Vec<i32>>,
    text: Maybe<Texts>,
}

impl Events {
    pub(super) fn new(known: Known) -> Self {
        Self {
            known,
            stamp: Stamp::default(),
            event: Texts::default(),
            ppid: Maybe::default(),
            status: Maybe::default(),
            text: Maybe::default(),
        }
    }

    fn row(&mut self, t_ns: u64, event: &str, target: Option<u32>, text: Option<&str>) {
        self.stamp.push(&self.known, t_ns, target.and_then(|id| self.known.of(id)));
        self.event.push(event);
        self.text.push_text(text);
    }

    /// The columns that only some events have.
    fn more(&mut self, ppid: Option<u32>, status: Option<i32>) {
        self.ppid.push(ppid);
        self.status.push(status);
    }
}

impl Rows for Events {
    fn push(&mut self, event: &Event<'_>) {
        self.known.learn(event);
        match event {
            Event::Target(t) => {
                self.row(t.t_ns, "target", Some(t.id), t.memory.as_deref());
                self.more(Some(t.ppid).filter(|ppid| *ppid > 0), None);
            }
            Event::Exec(e) => {
                self.row(e.t_ns, "exec", Some(e.id), None);
                self.more(None, None);
            }
            Event::Exit(e) => {
                self.row(e.t_ns, "exit", Some(e.id), None);
                self.more(None, e.status);
            }
            Event::Note(n) => {
                self.row(n.t_ns, "note", None, Some(&n.text));
                self.more(None, None);
            }
            Event::End(e) => {
                self.row(e.t_ns, "end", None, Some(&e.reason));
                self.more(None, None);
            }
            Event::Mappings { .. }
            | Event::Snapshot(_)
            | Event::Pages(_)
            | Event::Ram(_)
            | Event::Frames(_)
            | Event::Cgroups(_) => {}
        }
    }

    fn rows(&self) -> usize {
        self.stamp.rows()
    }

    fn take(&mut self) -> Batch {
        self.stamp.batch(vec![
            column("event", &mut self.event),
            column("ppid", &mut self.ppid),
            column("status", &mut self.status),
            column("text", &mut self.text),
        ])
    }
}
