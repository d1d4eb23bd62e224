//! Building a scheme.

use std::ops::RangeBounds;
use std::time::Duration;

use isotherm_act::apply::{Evidence, Settings};
use isotherm_core::scheme::{Action, Age, Bounds, Brake, Frequency, Pattern};

use super::pattern::{shares, sizes, times};
use super::{Filter, Quota, Watermarks, basis_points};
use crate::Bytes;
use crate::units::micros;

/// For how long memory must have been idle before it is taken away, unless that is said.
const IDLE: Duration = Duration::from_secs(60);

/// What to do with memory that looks like this, how much of it, and when.
///
/// Begin with the action, then say for which memory and within which limits. See the
/// [module](crate::scheme) for what holds if nothing is said.
#[derive(Debug, Clone, PartialEq)]
#[must_use = "a scheme does nothing until it is given to `Monitor::add_scheme`"]
pub struct Scheme {
    pub(super) name: Option<String>,
    pub(super) action: Action,
    pub(super) pattern: Pattern,
    pub(super) nodes: Vec<(u32, u32)>,
    pub(super) quota: Option<Quota>,
    /// None: the action's own; `Some(None)`: none.
    pub(super) brake: Option<Option<Brake>>,
    pub(super) watermarks: Option<Watermarks>,
    pub(super) filters: Vec<(Filter, bool)>,
    pub(super) evidence: Option<Evidence>,
    pub(super) apply_interval: Duration,
    pub(super) settings: Settings,
}

/// Actions.
impl Scheme {
    const fn accessed() -> Pattern {
        Pattern { nr_accesses: Frequency::Bp(Bounds::new(1, 10_000)), ..Pattern::ALL }
    }

    fn new(action: Action, pattern: Pattern) -> Self {
        Self {
            name: None,
            action,
            pattern,
            nodes: Vec::new(),
            quota: None,
            brake: None,
            watermarks: None,
            filters: Vec::new(),
            evidence: None,
            apply_interval: Duration::ZERO,
            settings: Settings::default(),
        }
    }

    fn of_idle(action: Action) -> Self {
        Self::new(action, Pattern::idle_for_us(micros(IDLE)))
    }

    /// Writes memory out now: to swap, or back to its file. Without a pattern: what was idle for 60
    /// s.
    pub fn pageout() -> Self {
        Self::of_idle(Action::Pageout)
    }

    /// Makes memory the first to be reclaimed. Without a pattern: what was idle for 60 s.
    pub fn cold() -> Self {
        Self::of_idle(Action::Cold)
    }

    /// Brings memory in. Without a pattern: what was accessed.
    pub fn willneed() -> Self {
        Self::new(Action::Willneed, Self::accessed())
    }

    /// Puts memory into huge pages now. Without a pattern: what was accessed.
    pub fn collapse() -> Self {
        Self::new(Action::Collapse, Self::accessed())
    }

    /// Lets the kernel back memory by huge pages. Only the target itself may ask for that, so it
    /// has to be stopped for a moment: see [`Scheme::stop_target`]. Without a pattern: what was
    /// accessed.
    pub fn hugepage() -> Self {
        Self::new(Action::Hugepage, Self::accessed())
    }

    /// Lets the kernel back memory by small pages only; see [`Scheme::hugepage`]. Without a
    /// pattern: what was idle for 60 s.
    pub fn nohugepage() -> Self {
        Self::of_idle(Action::Nohugepage)
    }

    /// Moves memory to these NUMA nodes, the hottest first. Without a pattern: what was accessed.
    pub fn migrate_hot(to: impl IntoIterator<Item = u32>) -> Self {
        Self::new(Action::MigrateHot, Self::accessed()).to(to)
    }

    /// Moves memory to these NUMA nodes, the coldest first. Without a pattern: what was idle for 60
    /// s.
    pub fn migrate_cold(to: impl IntoIterator<Item = u32>) -> Self {
        Self::of_idle(Action::MigrateCold).to(to)
    }

    /// Only counts memory. Without a pattern: all.
    pub fn stat() -> Self {
        Self::new(Action::Stat, Pattern::ALL)
    }

    fn to(mut self, nodes: impl IntoIterator<Item = u32>) -> Self {
        self.nodes = nodes.into_iter().map(|node| (node, 1)).collect();
        self
    }
}

/// Which memory.
impl Scheme {
    /// Memory that was not accessed at all for this time or longer. The core counts windows, as
    /// DAMON does: so many windows as fit into the time by the aggregation interval. A window is
    /// never shorter than that, so no memory is taken too early. Where windows come late, or the
    /// machine was suspended, it is taken later than asked for. The real time is told by
    /// [`Region::age`].
    ///
    /// [`Region::age`]: crate::snapshot::Region::age
    pub fn idle_for(mut self, time: Duration) -> Self {
        let idle = Pattern::idle_for_us(micros(time));
        self.pattern = Pattern { sz: self.pattern.sz, ..idle };
        self
    }

    /// Regions of these sizes.
    pub fn size(mut self, range: impl RangeBounds<Bytes>) -> Self {
        self.pattern.sz = sizes(&range);
        self
    }

    /// Regions with these access shares, 0 to 1: in how many of a window's samples they were
    /// touched.
    pub fn access(mut self, range: impl RangeBounds<f64>) -> Self {
        self.pattern.nr_accesses = Frequency::Bp(shares(&range));
        self
    }

    /// Regions that have looked like this for so long.
    pub fn age(mut self, range: impl RangeBounds<Duration>) -> Self {
        self.pattern.age = Age::Micros(times(&range));
        self
    }

    /// Leaves this memory alone. The first filter that fits a page decides.
    pub fn reject(mut self, filter: Filter) -> Self {
        self.filters.push((filter, false));
        self
    }

    /// Takes this memory. The first filter that fits a page decides; if the last filter allows,
    /// memory that none fits is left alone.
    pub fn allow(mut self, filter: Filter) -> Self {
        self.filters.push((filter, true));
        self
    }
}

/// How much, when and how.
impl Scheme {
    /// The name in accounts and events; the action's by default.
    pub fn name(mut self, name: impl Into<String>) -> Self {
        self.name = Some(name.into());
        self
    }

    /// How much. The default for actions that move or write memory is 128 MiB and 10 ms per second.
    pub fn quota(mut self, quota: Quota) -> Self {
        self.quota = Some(quota);
        self
    }

    /// Slows down when more than this share (0 to 1) of what was taken is touched again within 10
    /// s. The default for actions that take memory away is 2 %.
    pub fn brake(mut self, refaults: f64) -> Self {
        self.brake =
            Some(Some(Brake { max_refault_bp: basis_points(refaults), ..Brake::default() }));
        self
    }

    /// Never slows down by itself.
    pub fn without_brake(mut self) -> Self {
        self.brake = Some(None);
        self
    }

    /// When at all.
    pub fn watermarks(mut self, watermarks: Watermarks) -> Self {
        self.watermarks = Some(watermarks);
        self
    }

    /// Looks for memory so often; by default at the end of each window.
    pub fn every(mut self, interval: Duration) -> Self {
        self.apply_interval = interval;
        self
    }

    /// Decides and counts, but does nothing. It still clears accessed bits to gather evidence.
    pub fn dry_run(mut self) -> Self {
        self.settings.dry_run = true;
        self
    }

    /// Takes away only pages that stay untouched for this time while they are watched one by one.
    /// The default is the least age that the pattern asks for, between 1 s and 60 s.
    pub fn evidence(mut self, time: Duration) -> Self {
        self.evidence = Some(Evidence::Confirm(micros(time)));
        self
    }

    /// Acts on regions by their numbers alone, as DAMON does. Part of a cold region may be hot.
    pub fn without_evidence(mut self) -> Self {
        self.evidence = Some(Evidence::Off);
        self
    }

    /// `collapse` only: the least share (0 to 1) of a huge page's small pages that must have been
    /// touched. The default is a half.
    pub fn min_touched(mut self, share: f64) -> Self {
        self.settings.min_touched_bp = basis_points(share);
        self
    }

    /// `collapse` only: a target's memory is collapsed at large only after a sample of it has shown
    /// that this pays, by how the target touches its pages.
    pub fn prove(mut self) -> Self {
        self.settings.prove = true;
        self
    }

    /// Allows that the target is stopped for a moment, to let it call `madvise` itself: what
    /// `hugepage` and `nohugepage` need.
    pub fn stop_target(mut self) -> Self {
        self.settings.inject = true;
        self
    }
}
