//! What we tell the kernel: the configuration, start and stop, and commits while the kdamond runs.
//!
//! Every configuration is built from what the set holds (`config`), so a commit and a restart say
//! the same. If the kernel refuses one, the set and the kernel both keep what they had.

use isotherm_core::Attrs;
use isotherm_core::scheme::{Bounds, Pattern};
use isotherm_damon::DamonKind;
use isotherm_damon::model::{self, Config};
use isotherm_host::error::SetError;
use isotherm_sys::clock::now;

use super::walks::Plan;
use super::{Counted, Kdamond, Pushed, Source, error};

impl Kdamond {
    /// The configuration that the kernel should have.
    pub(super) fn config(&self) -> Config {
        let attrs = &self.attrs;
        let (sample_us, aggr_us) = self.tuned.unwrap_or((attrs.sample_us, attrs.aggr_us));
        let in_force = Attrs { sample_us, aggr_us, ..*attrs };
        // The kernel keeps counters by index. So the schemes that come and go with the targets are
        // last.
        let mut schemes: Vec<_> = self.pushed.iter().map(|p| p.model(&in_force)).collect();
        if !self.is_traced() {
            let nr = self.slots.list.len();
            schemes.extend((0..nr).map(|i| stat_of(i, nr)));
        }
        Config {
            refresh_ms: 0,
            context: model::Context {
                operations: self.operations,
                intervals: model::Intervals {
                    sample_us,
                    aggr_us,
                    update_us: attrs.update_us,
                    goal: attrs.intervals_goal,
                },
                nr_regions: Bounds::new(attrs.min_nr_regions, attrs.max_nr_regions),
                targets: self.slots.targets(),
                schemes,
                ..model::Context::default()
            },
        }
    }

    /// What to walk, if windows are walked.
    pub(super) fn plan(&self) -> Plan {
        Plan { first: self.pushed.len(), targets: self.slots.ids() }
    }

    /// Starts the kdamond with what there is.
    pub(super) fn start(&mut self) -> Result<(), SetError> {
        let config = self.config();
        let mut kernel = self.shared.kernel();
        let pid = kernel.start(&config).map_err(error::of_damon)?;
        self.slots.settled();
        let (ids, plan) = (self.slots.ids(), self.plan());
        match &mut self.source {
            Source::Trace(traced) => {
                if let Err(err) = traced.listen(pid, ids) {
                    kernel.stop().ok();
                    return Err(err.by_class());
                }
            }
            Source::Walk(_) => self.shared.walk(Some(plan)),
        }
        drop(kernel);
        self.pid = Some(pid);
        self.last_end = now();
        self.last_news = self.last_end;
        Ok(())
    }

    /// Stops the kdamond. Schemes that were pushed down do nothing any more. Windows that were read
    /// stay.
    pub fn stop(&mut self) {
        if self.pid.is_none() {
            return;
        }
        self.gather();
        self.remember_counts();
        let mut kernel = self.shared.kernel();
        self.shared.walk(None);
        if let Err(err) = kernel.stop() {
            self.troubles.push(err.to_string());
        }
        self.pid = None;
    }

    /// Commits what there is to the kdamond that runs. One whose last target has just ended ends by
    /// itself. That is no failure, and the tracker reports it.
    pub(super) fn commit(&mut self) -> Result<(), SetError> {
        if self.pid.is_none() {
            return Ok(());
        }
        let (config, plan) = (self.config(), self.plan());
        let mut kernel = self.shared.kernel();
        if let Err(err) = kernel.commit(&config) {
            drop(kernel);
            if err.kind() != DamonKind::NotRunning || self.is_any_alive() {
                return Err(error::of_damon(err));
            }
            self.pid = None;
            return Ok(());
        }
        if !self.is_traced() {
            self.shared.walk(Some(plan));
        }
        drop(kernel);
        self.slots.settled();
        Ok(())
    }

    /// The attributes as they were given.
    #[must_use]
    pub const fn attrs(&self) -> Attrs {
        self.attrs
    }

    /// Puts attributes in force before anything runs.
    pub const fn begin_with(&mut self, attrs: &Attrs) {
        self.attrs = *attrs;
    }

    /// Commits other attributes.
    ///
    /// # Errors
    ///
    /// If the kernel refuses them. The old ones stay then.
    pub fn set_attrs(&mut self, attrs: &Attrs) -> Result<(), SetError> {
        let same = |a: &Attrs, b: &Attrs| {
            let key = |a: &Attrs| {
                let regions = (a.min_nr_regions, a.max_nr_regions);
                (a.sample_us, a.aggr_us, a.update_us, regions, a.intervals_goal)
            };
            key(a) == key(b)
        };
        if same(&self.attrs, attrs) {
            return Ok(());
        }
        let before = (self.attrs, self.tuned.take());
        self.attrs = *attrs;
        self.commit().inspect_err(|_| (self.attrs, self.tuned) = before)
    }

    /// Lets the kernel apply exactly these schemes from now on.
    ///
    /// # Errors
    ///
    /// If the kernel refuses one. The old ones stay then.
    pub fn push(&mut self, schemes: Vec<Pushed>) -> Result<(), SetError> {
        let moves = schemes.len() != self.pushed.len() && !self.is_traced() && self.pid.is_some();
        let before = std::mem::replace(&mut self.pushed, schemes);
        self.move_goals();
        if !moves {
            if let Err(err) = self.commit() {
                self.pushed = before;
                return Err(err);
            }
            self.counted_before.truncate(self.pushed.len());
            return Ok(());
        }
        // The stat schemes behind them would get the counters of others, and these would get
        // theirs.
        let new = std::mem::replace(&mut self.pushed, before);
        self.stop();
        let before = std::mem::replace(&mut self.pushed, new);
        if let Err(err) = self.start() {
            self.pushed = before;
            self.start()?;
            return Err(err);
        }
        self.counted_before.truncate(self.pushed.len());
        Ok(())
    }

    /// What the pushed schemes did so far, as of the last time that the kernel answered.
    pub fn counted(&mut self) -> Vec<Counted> {
        let mut counted = match (self.pid, self.pushed.len()) {
            (_, 0) => return Vec::new(),
            (None, n) => vec![Counted::default(); n],
            (Some(_), n) => match self.shared.kernel().counted(n) {
                Ok(counted) => counted,
                Err(_) => vec![Counted::default(); n],
            },
        };
        for (now, before) in counted.iter_mut().zip(&self.counted_before) {
            now.counters.add(&before.counters);
        }
        counted
    }

    /// Keeps the counts over a stop: a new kdamond begins at 0.
    pub(super) fn remember_counts(&mut self) {
        if !self.pushed.is_empty() {
            self.counted_before = self.counted();
        }
    }

    /// The intervals in force, in µs.
    pub(super) fn intervals(&self) -> (u64, u64) {
        self.tuned.unwrap_or((self.attrs.sample_us, self.attrs.aggr_us))
    }

    /// Tells the kernel of changed mappings. If it refuses, it keeps the old ones, and the next
    /// change tries again.
    pub(super) fn tell_moved(&mut self) {
        if std::mem::take(&mut self.moved)
            && let Err(err) = self.commit()
        {
            // A target that has just ended is the cause. The tracker reports it.
            if self.slots.list.iter().all(|slot| self.is_alive(slot.pid)) {
                self.trouble(err.to_string());
            }
        }
    }

    /// Asks for the tuned intervals once per period of the tuning.
    pub(super) fn follow_tuning(&mut self) {
        let period = self.attrs.intervals_goal.aggrs;
        if period == 0 {
            return;
        }
        self.windows_to_tune = self.windows_to_tune.saturating_add(1);
        if self.windows_to_tune < period {
            return;
        }
        self.windows_to_tune = 0;
        // Behind a walk this waits for a window, once per period.
        let asked = self.shared.kernel().intervals();
        let Ok(intervals) = asked else { return };
        let tuned = (intervals.sample_us, intervals.aggr_us);
        if tuned == self.intervals() {
            return;
        }
        self.tuned = Some(tuned);
        // Age and frequency in time and percent follow the intervals.
        if self.pushed.iter().any(Pushed::follows_intervals)
            && let Err(err) = self.commit()
        {
            self.trouble(err.to_string());
        }
    }
}

/// A scheme that only counts, all of the target at this index.
fn stat_of(index: usize, nr_targets: usize) -> model::Scheme {
    let all = Pattern::ALL.resolve(&Attrs::default());
    let target = u32::try_from(index).unwrap_or(u32::MAX);
    let other =
        model::Filter { kind: model::FilterKind::Target(target), matching: false, allow: false };
    model::Scheme {
        pattern: all,
        core_filters: if nr_targets > 1 { vec![other] } else { Vec::new() },
        ..model::Scheme::default()
    }
}
