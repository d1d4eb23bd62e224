//! A feed of two: what this program watches, and what an agent tells of the processes that it
//! watches already.
//!
//! The own feed lists all processes and cannot look at those of the agent; their rows are replaced
//! by the agent's. What the ones share with the others is not known, so that counts in each.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use super::told::Told;
use super::{Error, Feed, Travel};
use crate::model::{Detail, Row, Watch, World};

/// A feed of the rows of `own`, with those of an agent where that one watches.
#[derive(Debug)]
pub struct Joined<F> {
    own: F,
    /// None after the agent has gone.
    told: Option<Told>,
    whose: String,
    /// The agent's rows, by pid.
    rows: BTreeMap<u32, Row>,
    detail: Option<Arc<Detail>>,
    opened: Option<u32>,
    note: String,
}

impl<F: Feed> Joined<F> {
    /// Joins both. `whose`: whose the other rows are, for the head of the view.
    pub fn new(own: F, told: Told, whose: String) -> Self {
        Self {
            own,
            told: Some(told),
            whose,
            rows: BTreeMap::new(),
            detail: None,
            opened: None,
            note: String::new(),
        }
    }

    fn listen(&mut self) {
        let Some(told) = &mut self.told else { return };
        match told.next(Duration::ZERO) {
            Ok(Some(world)) => {
                self.rows = world.rows.into_iter().map(|row| (row.pid, row)).collect();
                self.detail = world.detail;
            }
            Ok(None) => {}
            // Its processes are tried again by the own feed.
            Err(why) => {
                self.note = format!("the agent is gone: {why}");
                (self.told, self.detail) = (None, None);
                self.rows.clear();
            }
        }
    }
}

impl<F: Feed> Feed for Joined<F> {
    fn next(&mut self, wait: Duration) -> Result<Option<World>, Error> {
        self.listen();
        let Some(mut world) = self.own.next(wait)? else { return Ok(None) };
        let mut nr = 0;
        for row in world.rows.iter_mut().filter(|row| row.watch != Watch::Watched) {
            if let Some(told) = self.rows.get(&row.pid) {
                *row = told.clone();
                nr += 1;
            }
        }
        if nr > 0 {
            world.head.set = format!("{}; {nr} rows are {}", world.head.set, self.whose);
        }
        if self.opened.is_some_and(|pid| self.rows.contains_key(&pid)) {
            world.detail.clone_from(&self.detail);
        }
        if world.head.note.is_empty() {
            world.head.note.clone_from(&self.note);
        }
        Ok(Some(world))
    }

    fn open(&mut self, pid: Option<u32>) {
        self.opened = pid;
        self.own.open(pid);
        if let Some(told) = &mut self.told {
            told.open(pid);
        }
    }

    fn travel(&mut self, _: Travel) {}
}
