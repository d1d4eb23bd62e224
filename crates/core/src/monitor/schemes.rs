//! The context's part in schemes: when they are due, and which questions they have for the driver
//! (R§2.2 steps 1 and 11, R§2.5).

use super::{Context, Phase, Wish};
use crate::scheme::{
    Applied, Counters, Eligible, Installed, Measure, Metric, Request, Scheme, Step, Totals, Tried,
    Walk, WalkBusy,
};
use crate::time::Time;

/// The metrics that a brake needs, in the order of the questions.
const BRAKE_METRICS: [Metric; 3] = [Metric::RefaultBp, Metric::DoneBytes, Metric::RefaultedBytes];

impl Context {
    /// The schemes, in the order in which they are applied.
    #[must_use]
    pub fn schemes(&self) -> &[Installed] {
        &self.schemes.installed
    }

    /// Replaces the schemes at the next turn of the loop (`damon_commit_schemes()`). An index keeps
    /// what it has counted and charged. New schemes are appended, and surplus ones are removed.
    /// Identical schemes change nothing.
    pub fn commit_schemes(&mut self, schemes: impl Into<alloc::vec::Vec<Scheme>>) {
        self.change(super::Change::Schemes(schemes.into()));
    }

    /// How many commits of schemes took effect; wraps around.
    #[must_use]
    pub const fn nr_scheme_commits(&self) -> u64 {
        self.schemes.nr_commits
    }

    /// The counters of the schemes before the last commit, at the time when it took effect, by
    /// index.
    #[must_use]
    pub fn stats_before_commit(&self) -> &[Counters] {
        &self.schemes.stats_before
    }

    /// The request of [`Wish::Apply`], and its scheme.
    ///
    /// # Panics
    ///
    /// If the last wish was another, or [`Context::applied`] has answered it.
    #[must_use]
    pub fn request(&self) -> (Request, &Scheme) {
        let Some(request) = self.schemes.request else { panic!("nothing is to be applied") };
        (request, &self.schemes.installed[request.scheme].scheme)
    }

    /// Takes in the result of [`Context::request`], as the one answer to [`Wish::Apply`].
    ///
    /// # Panics
    ///
    /// If the last wish was another, or was answered before.
    pub fn applied(&mut self, applied: Applied) {
        let asked = self.schemes.applied(&mut self.targets, applied, &self.attrs);
        assert!(asked, "nothing is to be applied");
    }

    /// The questions of [`Wish::Eligible`], to be answered in place.
    pub fn eligible_mut(&mut self) -> &mut [Eligible] {
        &mut self.eligible
    }

    /// The questions of [`Wish::Measure`], to be answered in place.
    pub fn measures_mut(&mut self) -> &mut [Measure] {
        &mut self.measures
    }

    /// Starts a walk, which records what each scheme does during its next apply interval. See
    /// [`Context::walk`].
    ///
    /// # Errors
    ///
    /// If a walk is under way.
    pub fn begin_walk(&mut self) -> Result<(), WalkBusy> {
        self.schemes.walk.begin()
    }

    /// The state of the last walk.
    #[must_use]
    pub const fn walk(&self) -> &Walk {
        &self.schemes.walk
    }

    /// Keeps from now on what schemes are applied to, or does not. Returns what was kept since the
    /// last call, oldest first. What comes after the first 65,536 is not kept.
    pub fn log_tried(&mut self, keep: bool) -> alloc::vec::Vec<Tried> {
        let kept = self.schemes.log.take().unwrap_or_default();
        self.schemes.log = keep.then(alloc::vec::Vec::new);
        kept
    }

    /// Step 1: asks for what the watermarks need. After a wait that was cut short, they are checked
    /// again.
    pub(super) fn turn(&mut self, now: Time) -> Option<Wish> {
        if self.waiting {
            self.run_changes();
            if self.targets.is_empty() {
                return self.step(Phase::Calls, None);
            }
            if self.attrs.strict {
                // The kernel gives up a walk after every sleep of a wait, the last one included.
                self.schemes.walk.cancel();
            } else {
                // The kernel takes the next sample by the old attributes. It also ends the window
                // by them, one sample late.
                self.turn.next_aggregation = self.schedule.next_aggregation;
                self.turn_sample_us = self.attrs.sample_us;
            }
        } else {
            self.turn = self.schedule;
            self.turn_sample_us = self.attrs.sample_us;
        }
        let look = self.attrs.strict || self.waiting || now >= self.next_marks;
        if !look || !self.schemes.want_free_mem_rate() {
            self.waiting = false;
            return self.step(Phase::Prepare, None);
        }
        self.next_marks = now.plus_us(self.attrs.aggr_us);
        self.measures.clear();
        self.measures.push(Measure::new(0, Metric::FreeMemRate));
        self.step(Phase::Marks, Some(Wish::Measure))
    }

    pub(super) fn marks(&mut self, now: Time) -> Option<Wish> {
        let free = self.measures.first().and_then(|m| m.value);
        let Some(wait_us) = self.schemes.check_watermarks(free) else {
            // After a wait, samples are due from now on, and the window goes on where it stopped.
            self.due = self.due.max(now);
            self.waiting = false;
            return self.step(Phase::Prepare, None);
        };
        if !self.attrs.strict {
            self.schemes.walk.cancel();
        }
        self.waiting = true;
        self.step(Phase::Turn, Some(Wish::Sleep(now.plus_us(wait_us.get()))))
    }

    /// Step 11: finds the schemes that are due, and asks how much of their regions is on their
    /// source nodes.
    pub(super) fn due_schemes(&mut self) -> Option<Wish> {
        if self.schemes.installed.is_empty() {
            self.schemes.walk.cancel();
            return self.step(Phase::Finish, None);
        }
        if !self.schemes.note_due(self.schedule.passed) {
            self.schemes.end_idle();
            return self.step(Phase::Finish, None);
        }
        self.schemes.ask_eligible(&self.targets, &self.attrs, &mut self.eligible);
        let wish = (!self.eligible.is_empty()).then_some(Wish::Eligible);
        self.step(Phase::Goals, wish)
    }

    /// Step 11.1: asks for the measurements that the due schemes need.
    pub(super) fn goals(&mut self, now: Time) -> Option<Wish> {
        self.schemes.take_eligible(&self.eligible);
        self.measures.clear();
        for (i, scheme) in self.schemes.installed.iter().enumerate() {
            if !scheme.due || !scheme.wants_measures(now) {
                continue;
            }
            let quota = &scheme.scheme.quota;
            let metrics = quota.goals.iter().map(|goal| goal.metric);
            let brake = quota.brake.map(|_| BRAKE_METRICS).into_iter().flatten();
            let all = metrics.chain(brake);
            self.measures.extend(all.map(|metric| Measure::new(i, metric)));
        }
        let wish = (!self.measures.is_empty()).then_some(Wish::Measure);
        self.step(Phase::Quotas, wish)
    }

    /// Step 11.2: takes in the measurements, adjusts the quotas, and begins the pass.
    pub(super) fn quotas(&mut self, now: Time) -> Option<Wish> {
        let mut answers = self.measures.iter();
        let strict = self.attrs.strict;
        while let Some(first) = answers.as_slice().first() {
            for nr in 0..self.schemes.installed[first.scheme].scheme.quota.goals.len() {
                let waiting = self.schemes.waiting_for(first.scheme, nr);
                let goal = &mut self.schemes.installed[first.scheme].scheme.quota.goals[nr];
                let answer = answers.next();
                goal.measured(answer.and_then(|m| m.value), strict);
                goal.measured_level(answer.and_then(|m| m.level), waiting);
            }
            let scheme = &mut self.schemes.installed[first.scheme];
            if scheme.scheme.quota.brake.is_some() {
                let [rate, done, refaulted] =
                    BRAKE_METRICS.map(|_| answers.next().and_then(|m| m.value));
                scheme.quota.braked.refault_bp = rate;
                let both = done.zip(refaulted);
                scheme.quota.braked.totals =
                    both.map(|(done, refaulted)| Totals { done, refaulted });
            }
        }
        self.measures.clear();
        self.schemes.begin(&mut self.targets, &self.attrs, now);
        self.step(Phase::Pass, None)
    }

    /// Steps 11.3 and 11.4: goes on with the pass, region by region.
    pub(super) fn pass(&mut self) -> Option<Wish> {
        match self.schemes.step(&mut self.targets, &self.attrs) {
            Step::Apply => Some(Wish::Apply),
            Step::Done => {
                self.schemes.end(&self.attrs, self.schedule.passed);
                self.step(Phase::Finish, None)
            }
        }
    }
}
