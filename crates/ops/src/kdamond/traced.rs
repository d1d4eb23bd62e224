//! Windows by the tracepoint `damon_aggregated`: every window, without waiting.

use std::collections::VecDeque;

use isotherm_core::{Observed, TargetId, Time};
use isotherm_damon::tracefs::{EventKind, Item, Options, Trace, TraceError, Window, Windows};
use isotherm_sys::clock::now;

use super::walks::Raw;

/// Room for events, in KiB per CPU. A region takes about 60 bytes, so this holds some ten seconds
/// of 1000 regions at the default intervals.
const BUFFER_KIB: u64 = 8 << 10;

/// A trace of one kdamond.
#[derive(Debug)]
pub(super) struct Traced {
    trace: Trace,
    windows: Windows,
    items: Vec<Item>,
    /// Thread of the kdamond that runs.
    pid: u32,
    /// Targets by index; `None`: windows that ended before this time are of another order, and are
    /// lost.
    targets: Vec<TargetId>,
    since: Time,
    lost: u64,
    /// Targets with regions in the last window.
    expected: usize,
}

impl Traced {
    /// Opens a trace instance.
    pub(super) fn open() -> Result<Self, TraceError> {
        let options = Options {
            events: vec![EventKind::Aggregated],
            buffer_kib: BUFFER_KIB,
            ..Options::default()
        };
        Ok(Self {
            trace: Trace::open(&options)?,
            windows: Windows::new(),
            items: Vec::new(),
            pid: 0,
            targets: Vec::new(),
            since: Time::default(),
            lost: 0,
            expected: 0,
        })
    }

    /// Listens to the kdamond with this thread. The targets stand in its context in this order.
    pub(super) fn listen(&mut self, pid: u32, targets: Vec<TargetId>) -> Result<(), TraceError> {
        self.pid = pid;
        self.trace.only_threads(&[pid])?;
        self.reorder(targets);
        Ok(())
    }

    /// From now on the targets stand in this order.
    pub(super) fn reorder(&mut self, targets: Vec<TargetId>) {
        self.targets = targets;
        self.since = now();
        self.expect(0);
    }

    /// Adds a target behind the present ones, for which nothing changes.
    pub(super) fn append(&mut self, target: TargetId) {
        self.targets.push(target);
        self.expect(0);
    }

    fn expect(&mut self, n: usize) {
        if self.expected != n {
            self.expected = n;
            self.windows.expect(self.pid, n);
        }
    }

    /// What is over by now.
    pub(super) fn take(&mut self, into: &mut VecDeque<Raw>) -> Result<(), TraceError> {
        let begin = now();
        let read = self.trace.read(&mut self.items);
        for item in &self.items {
            self.windows.push(item);
        }
        self.items.clear();
        self.windows.settle(begin);
        while let Some(next) = self.windows.next() {
            match next {
                Ok(window) if window.kdamond != self.pid => {}
                Ok(window) if window.start >= self.since => {
                    // If every target has regions, the last line of a window shows that it is over.
                    let all = window.targets.len() == self.targets.len();
                    self.expect(if all { window.targets.len() } else { 0 });
                    into.push_back(self.raw(window));
                }
                Ok(_) => self.lost += 1,
                Err(torn) => self.lost += u64::from(torn.kdamond == self.pid),
            }
        }
        read
    }

    fn raw(&mut self, window: Window) -> Raw {
        let targets = window.targets.into_iter().filter_map(|t| {
            let id = *self.targets.get(usize::try_from(t.target).ok()?)?;
            let regions = t.regions.iter().map(|r| Observed {
                range: r.range,
                nr_accesses: r.nr_accesses,
                age: r.age,
                in_use: false,
            });
            Some((id, regions.collect()))
        });
        Raw { end: window.start, targets: targets.collect(), lost: std::mem::take(&mut self.lost) }
    }
}
