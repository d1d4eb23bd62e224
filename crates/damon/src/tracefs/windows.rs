//! From single regions back to whole aggregation windows, per kdamond.
//!
//! At the end of a window a kdamond writes all regions of all its targets, target by target, in the
//! order of addresses. Each line has the number of regions of its target. A window ends in one of
//! three ways:
//!
//! * the next one begins, with a target or an address that is not behind the last;
//! * all regions of the last target were seen, if the number of targets is known
//!   ([`Windows::expect`]);
//! * its kdamond has written nothing for a while ([`Windows::settle`]).
//!
//! The window is whole if every target has as many regions as its lines say and no hole in the
//! trace touches it. Otherwise it is [`Torn`], and its regions are thrown away.
//!
//! Several kdamonds write into one trace. The writing thread tells them apart.

use std::collections::{BTreeMap, VecDeque};

use isotherm_core::Time;

use super::event::{AggregatedRegion, Event, Record};
use super::trace::Item;

/// A kdamond writes a window within microseconds, unless it is preempted in the middle.
const SILENCE_NS: u64 = 20_000_000;

/// One target's part of a window.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct TargetWindow {
    /// Index of the target in its context.
    pub target: u64,
    /// All its regions, in the order of addresses.
    pub regions: Vec<AggregatedRegion>,
}

/// A whole aggregation window of one kdamond. Targets without regions do not show up.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Window {
    /// The kdamond's thread.
    pub kdamond: u32,
    /// When its first region was told.
    pub start: Time,
    /// When its last region was told.
    pub end: Time,
    /// The targets.
    pub targets: Vec<TargetWindow>,
}

/// A window of which something was lost.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Torn {
    /// The kdamond's thread.
    pub kdamond: u32,
    /// When its first known region was told.
    pub start: Time,
    /// When its last known region was told.
    pub end: Time,
    /// Number of regions that were seen.
    pub seen: usize,
}

#[derive(Debug)]
struct Open {
    window: Window,
    holed: bool,
}

/// Collects regions to windows.
#[derive(Debug, Default)]
pub struct Windows {
    open: BTreeMap<u32, Open>,
    done: VecDeque<Result<Window, Torn>>,
    nr_targets: BTreeMap<u32, usize>,
    /// The last region of each kdamond's last finished window.
    ended: BTreeMap<u32, AggregatedRegion>,
    /// No event before this is to be trusted to have its neighbours.
    hole_until: Time,
    holes: u64,
    lost: u64,
}

impl Windows {
    /// Without any window.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets how many targets with regions a kdamond has. Its windows then end with the last region
    /// of the last target, without waiting for what comes next. 0 means unknown.
    pub fn expect(&mut self, kdamond: u32, nr_targets: usize) {
        self.nr_targets.insert(kdamond, nr_targets);
    }

    /// Takes in one item of a trace. Items must come in order of time. Events of other kinds are
    /// ignored.
    pub fn push(&mut self, item: &Item) {
        match item {
            Item::Event(Record { at, pid, event: Event::Aggregated(region), .. }) => {
                self.region(*at, *pid, region);
            }
            Item::Event(_) => {}
            Item::Lost(loss) => {
                self.settle(loss.since);
                self.holes += 1;
                self.lost = self.lost.saturating_add(loss.events.unwrap_or(0));
                self.hole_until = self.hole_until.max(loss.until);
                for open in self.open.values_mut() {
                    open.holed = true;
                }
            }
        }
    }

    fn region(&mut self, at: Time, kdamond: u32, region: &AggregatedRegion) {
        if let Some(open) = self.open.get_mut(&kdamond) {
            if open.window.adds_probes(region) {
                open.window.end = at;
                return self.finish_if_last(kdamond);
            }
        } else if self.is_late_probe(kdamond, region) {
            return;
        }
        let over = |open: &Open| {
            at.since(open.window.end) > SILENCE_NS || !open.window.goes_on_with(region)
        };
        if self.open.get(&kdamond).is_some_and(over) {
            self.finish(kdamond);
            self.settle(at);
        }
        let open = self.open.entry(kdamond).or_insert_with(|| Open {
            window: Window { kdamond, start: at, ..Window::default() },
            holed: false,
        });
        open.holed |= at < self.hole_until;
        open.window.end = at;
        open.window.push(*region);
        self.finish_if_last(kdamond);
    }

    /// With probes, each region is written twice (`kdamond_reset_aggregated()`, Linux 7.2). The
    /// first line may already have ended the window when the second comes.
    fn is_late_probe(&mut self, kdamond: u32, region: &AggregatedRegion) -> bool {
        let twice = |last: &AggregatedRegion| last.is_same(region) && last.probe_hits.is_none();
        if region.probe_hits.is_none() || !self.ended.get(&kdamond).is_some_and(twice) {
            return false;
        }
        self.ended.remove(&kdamond);
        let done = self
            .done
            .iter_mut()
            .rev()
            .find_map(|d| d.as_mut().ok().filter(|w| w.kdamond == kdamond));
        if let Some(window) = done {
            window.adds_probes(region);
        }
        true
    }

    /// A window that has all regions of every target ends at once.
    fn finish_if_last(&mut self, kdamond: u32) {
        let (Some(open), Some(n)) = (self.open.get(&kdamond), self.nr_targets.get(&kdamond)) else {
            return;
        };
        if open.window.targets.len() == *n && open.window.is_whole() && !open.window.wants_probes()
        {
            self.finish(kdamond);
        }
    }

    fn finish(&mut self, kdamond: u32) {
        let Some(Open { window, holed }) = self.open.remove(&kdamond) else { return };
        if let Some(last) = window.last() {
            self.ended.insert(kdamond, *last);
        }
        let seen = window.targets.iter().map(|t| t.regions.len()).sum();
        self.done.push_back(if window.is_whole() && !holed {
            Ok(window)
        } else {
            Err(Torn { kdamond, start: window.start, end: window.end, seen })
        });
    }

    /// Ends the windows whose kdamonds wrote nothing for a while. `now` must not be later than the
    /// last reading.
    pub fn settle(&mut self, now: Time) {
        let silent = |open: &Open| now.since(open.window.end) > SILENCE_NS;
        let over: Vec<u32> =
            self.open.iter().filter(|(_, o)| silent(o)).map(|(kdamond, _)| *kdamond).collect();
        for kdamond in over {
            self.finish(kdamond);
        }
    }

    /// The next window that is over, in the order in which they ended.
    #[expect(clippy::should_implement_trait, reason = "more can come after a `None`")]
    pub fn next(&mut self) -> Option<Result<Window, Torn>> {
        self.done.pop_front()
    }

    /// Number of holes so far, and of events in them as far as the kernel told.
    #[must_use]
    pub const fn lost(&self) -> (u64, u64) {
        (self.holes, self.lost)
    }
}

impl Window {
    /// Number of regions of all targets.
    #[must_use]
    pub fn nr_regions(&self) -> usize {
        self.targets.iter().map(|t| t.regions.len()).sum()
    }

    fn last(&self) -> Option<&AggregatedRegion> {
        self.targets.last()?.regions.last()
    }

    /// Whether the region can follow the last one in the same window.
    fn goes_on_with(&self, region: &AggregatedRegion) -> bool {
        self.last().is_none_or(|last| {
            last.target < region.target
                || (last.target == region.target
                    && last.nr_regions == region.nr_regions
                    && last.range.end <= region.range.start)
        })
    }

    /// Adds the probe hits to the region that was read right before, if it is the same.
    fn adds_probes(&mut self, region: &AggregatedRegion) -> bool {
        let last = self.targets.last_mut().and_then(|t| t.regions.last_mut());
        let Some(last) = last else { return false };
        let adds = last.is_same(region) && last.probe_hits.is_none() && region.probe_hits.is_some();
        if adds {
            last.probe_hits = region.probe_hits;
        }
        adds
    }

    /// Whether regions of this window come with probe hits, and those of the last region are
    /// missing yet.
    fn wants_probes(&self) -> bool {
        let first = self.targets.first().and_then(|t| t.regions.first());
        first.is_some_and(|r| r.probe_hits.is_some())
            && self.last().is_some_and(|r| r.probe_hits.is_none())
    }

    fn push(&mut self, region: AggregatedRegion) {
        match self.targets.last_mut().filter(|t| t.target == region.target) {
            Some(target) => target.regions.push(region),
            None => {
                self.targets.push(TargetWindow { target: region.target, regions: vec![region] });
            }
        }
    }

    /// Whether every target has as many regions as it says.
    fn is_whole(&self) -> bool {
        self.targets
            .iter()
            .all(|t| t.regions.iter().all(|r| usize::try_from(r.nr_regions) == Ok(t.regions.len())))
    }
}
