//! A scheme at work in a context: what the user asked for, and the state.

use super::counters::Counters;
use super::pass::{Cursor, EligibleBytes};
use super::pattern::Resolved;
use super::quota::QuotaState;
use super::quota::goal::Goal;
use super::quota::rest::Resting;
use super::score::{Facts, score};
use super::{Scheme, WatermarkMetric};
use crate::attrs::{Attrs, Method};
use crate::region::Region;
use crate::time::Time;
use crate::unit::UNIT;

/// A scheme with its state.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Installed {
    /// What the user asked for. The goals hold the last measured values.
    pub(crate) scheme: Scheme,
    pub(crate) stats: Counters,
    pub(crate) quota: QuotaState,
    pub(crate) pattern: Resolved,
    pub(crate) cursor: Option<Cursor>,
    /// Whether the watermarks let the scheme work.
    pub(crate) active: bool,
    pub(crate) next_apply: u64,
    /// Whether the scheme is due in the pass under way.
    pub(crate) due: bool,
    /// The scheme has handled the current target up to this address in the pass under way.
    pub(crate) through: u64,
    /// Bytes of each region on the source node, as of the last pass.
    pub(crate) eligible: EligibleBytes,
    pub(crate) resting: Resting,
}

impl Installed {
    pub(crate) fn new(scheme: Scheme, attrs: &Attrs, passed: u64) -> Self {
        let mut this = Self {
            pattern: scheme.pattern.resolve(attrs),
            scheme,
            stats: Counters::default(),
            quota: QuotaState::default(),
            cursor: None,
            active: true,
            next_apply: 0,
            due: false,
            through: 0,
            eligible: EligibleBytes::default(),
            resting: Resting::default(),
        };
        this.plan(attrs, passed);
        this
    }

    /// What the user asked for. The goals hold the last measured values.
    #[must_use]
    pub const fn scheme(&self) -> &Scheme {
        &self.scheme
    }

    /// What the scheme did so far.
    #[must_use]
    pub const fn stats(&self) -> &Counters {
        &self.stats
    }

    /// The state of the quota.
    #[must_use]
    pub const fn quota(&self) -> &QuotaState {
        &self.quota
    }

    /// Bytes of the matching regions that are on the scheme's source node, as of its last pass. 0
    /// for a scheme without a source node.
    #[must_use]
    pub fn eligible_bytes(&self) -> u64 {
        self.eligible.sum()
    }

    /// How often the scheme rested because its destination had no room.
    #[must_use]
    pub const fn nr_rests(&self) -> u64 {
        self.resting.nr
    }

    /// The pattern in samples and windows.
    #[must_use]
    pub const fn pattern(&self) -> &Resolved {
        &self.pattern
    }

    /// Where the next quota window goes on.
    #[must_use]
    pub const fn cursor(&self) -> Option<Cursor> {
        self.cursor
    }

    /// Whether the watermarks let the scheme work.
    #[must_use]
    pub const fn is_active(&self) -> bool {
        self.active
    }

    /// The sample interval at which the scheme is applied next.
    #[must_use]
    pub const fn next_apply(&self) -> u64 {
        self.next_apply
    }

    /// Plans the next application, from `passed` sample intervals on.
    pub(crate) fn plan(&mut self, attrs: &Attrs, passed: u64) {
        self.next_apply = passed.wrapping_add(self.interval(attrs));
    }

    fn interval(&self, attrs: &Attrs) -> u64 {
        let us = match self.scheme.apply_interval_us {
            0 => attrs.aggr_us,
            us => us,
        };
        us / attrs.sample_us.max(1)
    }

    /// Plans the next application and converts the pattern for new attributes.
    pub(crate) fn set_attrs(&mut self, attrs: &Attrs, passed: u64) {
        let planned = self.next_apply;
        self.plan(attrs, passed);
        if !attrs.strict && crate::time::before(planned, self.next_apply) {
            self.next_apply = planned;
        }
        self.pattern = self.scheme.pattern.resolve(attrs);
    }

    /// Takes over what the user can change and keeps the state (`damos_commit()`).
    pub(crate) fn commit(&mut self, src: &Scheme, attrs: &Attrs) {
        let was_set = self.scheme.quota.is_set();
        let old = core::mem::replace(&mut self.scheme, src.clone());
        let goals = &mut self.scheme.quota.goals;
        for (goal, mut kept) in goals.iter_mut().zip(old.quota.goals) {
            kept.commit(goal, attrs.strict);
            *goal = kept;
        }
        self.pattern = self.scheme.pattern.resolve(attrs);
        if attrs.strict || old.watermarks != self.scheme.watermarks {
            self.active = true;
        }
        if !attrs.strict && !was_set && self.scheme.quota.is_set() {
            self.quota.start_limiting();
        }
    }

    /// Whether the watermarks let the scheme work at this free memory rate. Remembers the answer.
    pub(crate) fn check_watermarks(&mut self, free_permil: Option<u64>) -> bool {
        let marks = &self.scheme.watermarks;
        match (marks.metric, free_permil) {
            (WatermarkMetric::None, _) => return true,
            (WatermarkMetric::FreeMemRate, Some(value)) => {
                self.active = marks.is_active(self.active, value);
            }
            // The rate was not measured this time, so the state stays.
            (WatermarkMetric::FreeMemRate, None) => {}
        }
        self.active
    }

    /// Begins a new window of the quota if the last one is over. Returns whether that one was full.
    pub(crate) fn adjust_quota(&mut self, attrs: &Attrs, now: Time) -> bool {
        let first = self.quota.charged_from.is_none();
        let (min_region_sz, strict) = (attrs.min_region_sz, attrs.strict);
        let full = self.quota.adjust(&self.scheme.quota, now, min_region_sz, strict);
        if !(first && strict && self.quota.wants_window(&self.scheme.quota, now)) {
            return full;
        }
        // In the kernel, the first window of a quota without an interval is over at once. The
        // kernel then measures the goals a second time, and totals have not increased since the
        // first time.
        for goal in self.scheme.quota.goals.iter_mut().filter(|goal| goal.metric.is_total()) {
            goal.measured(goal.last_total, strict);
        }
        self.quota.adjust(&self.scheme.quota, now, min_region_sz, strict)
    }

    pub(crate) fn is_full(&self, attrs: &Attrs) -> bool {
        self.quota.is_full(&self.scheme.quota, attrs.min_region_sz, attrs.strict)
    }

    pub(crate) const fn is_limited(&self) -> bool {
        self.quota.is_limited(&self.scheme.quota)
    }

    /// Whether the region matches the pattern. A pattern of no access at all is not matched by a
    /// region of which pages are known to be in use, unless `strict`: a count of 0 says only that
    /// few of them are touched in one sample.
    pub(crate) fn matches(&self, region: &Region, strict: bool) -> bool {
        let only_seems_idle = region.in_use && self.pattern.nr_accesses.max == 0;
        (strict || !region.unresolved && !only_seems_idle)
            && self.pattern.matches(region.len(), frequency(region), region.quiet_age())
    }

    /// If the region does not match, but some of its pages may: for how long they must have been
    /// idle, in µs.
    ///
    /// A pattern of idle memory is one that begins at no access and has no limit of age. The age of
    /// the region says nothing about its pages here: it is that of what its pages look like
    /// together.
    pub(crate) fn idle_us(&self, region: &Region, attrs: &Attrs) -> Option<u64> {
        let Resolved { sz, nr_accesses, age } = self.pattern;
        let wants_idle = self.scheme.by_page && nr_accesses.min == 0 && age.max == u32::MAX;
        // What is observed elsewhere may be pages, too; whoever drives the context knows that.
        let by_pages = matches!(attrs.method, Method::Census | Method::Observed);
        let sees_pages = by_pages && !attrs.strict && !region.unresolved;
        // Where all pages are touched in every sample, none is idle.
        let is_mixed = frequency(region) < attrs.max_nr_accesses();
        (wants_idle && sees_pages && is_mixed && sz.contains(region.len()))
            .then(|| u64::from(age.min).saturating_mul(attrs.aggr_us))
    }

    /// Whether the region does not match only because too little of it is touched in one sample,
    /// so that units of it may be in use all the same.
    ///
    /// A pattern of memory in use is one that begins at some access and has no upper limit, of
    /// frequency or of age. A program that accesses a table at random touches few pages in a
    /// sample, and most of each 2 MiB within some seconds. The size of the region says nothing
    /// about its units, unless more than a unit is asked for.
    pub(crate) fn may_be_dense(&self, region: &Region, attrs: &Attrs) -> bool {
        let Resolved { sz, nr_accesses, age } = self.pattern;
        let no_limit = nr_accesses.max >= attrs.max_nr_accesses()
            && (age.min, age.max, sz.max) == (0, u32::MAX, u64::MAX);
        let wants_use = self.scheme.by_page && nr_accesses.min > 0 && no_limit;
        let by_pages = matches!(attrs.method, Method::Census | Method::Observed);
        let sees_pages = by_pages && !attrs.strict && !region.unresolved;
        let is_in_use = region.in_use || frequency(region) > 0;
        wants_use && sees_pages && is_in_use && (sz.min <= UNIT || sz.min <= region.len())
    }

    pub(crate) fn score(&self, region: &Region, attrs: &Attrs) -> u32 {
        let facts =
            Facts { sz: region.len(), nr_accesses: frequency(region), age: region.quiet_age() };
        score(self.scheme.action.order(), facts, self.scheme.quota.weights, attrs)
    }

    /// Whether the scheme acts on the region or on its pages now: they match, and the region's
    /// score is high enough.
    pub(crate) fn wants(&self, region: &Region, attrs: &Attrs) -> bool {
        (self.matches(region, attrs.strict)
            || self.idle_us(region, attrs).is_some()
            || self.may_be_dense(region, attrs))
            && (!self.is_limited() || self.score(region, attrs) >= self.quota.min_score)
    }

    /// Whether new measures of the goals are needed at `now`.
    pub(crate) fn wants_measures(&self, now: Time) -> bool {
        let quota = &self.scheme.quota;
        let any = quota.brake.is_some() || quota.goals.iter().any(|g| Goal::score(g).is_some());
        any && self.active && (quota.is_exact() || self.quota.wants_window(quota, now))
    }
}

/// Samples per window as schemes see them: the moving sum over the last window and this one.
pub(crate) const fn frequency(region: &Region) -> u32 {
    region.nr_accesses_bp / 10_000
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::addr::AddrRange;
    use crate::scheme::{Frequency, Pattern};

    #[test]
    fn units_of_a_region_that_is_touched_now_and_then_may_be_in_use() {
        let census = Attrs { method: Method::Census, ..Attrs::default() };
        let pattern = Pattern {
            sz: crate::scheme::Bounds::new(2 << 20, u64::MAX),
            nr_accesses: Frequency::Bp(crate::scheme::Bounds::new(500, u32::MAX)),
            ..Pattern::ALL
        };
        let by_page = Scheme { pattern, by_page: true, ..Scheme::default() };
        let small = Region { in_use: true, ..Region::new(AddrRange::new(0, 1 << 16)) };
        let hot = Region { nr_accesses_bp: 30_000, ..Region::new(AddrRange::new(0, 4 << 20)) };
        let strict = Attrs { strict: true, ..census };
        let whole = Scheme { by_page: false, ..by_page.clone() };
        let idle = Scheme { pattern: Pattern::idle_for_us(0), ..by_page.clone() };
        let of_4m = crate::scheme::Bounds::new(4 << 20, u64::MAX);
        let large = Scheme { pattern: Pattern { sz: of_4m, ..pattern }, ..by_page.clone() };
        for (name, attrs, scheme, region, matches, expected) in [
            ("in use, though no sample sees it", census, &by_page, small, false, true),
            ("touched in samples", census, &by_page, hot, true, true),
            ("idle", census, &by_page, Region { in_use: false, ..small }, false, false),
            ("unknown", census, &by_page, Region { unresolved: true, ..small }, false, false),
            ("strict", strict, &by_page, small, false, false),
            ("regions only", census, &whole, small, false, false),
            ("idle memory is wanted", census, &idle, small, false, false),
            ("more than a unit is wanted", census, &large, small, false, false),
        ] {
            let installed = Installed::new(scheme.clone(), &attrs, 0);
            assert_eq!(installed.matches(&region, attrs.strict), matches, "{name}");
            assert_eq!(installed.may_be_dense(&region, &attrs), expected, "{name}");
        }
    }

    #[test]
    fn pages_of_a_region_in_use_are_acted_on_where_pages_are_seen() {
        let census = Attrs { method: Method::Census, ..Attrs::default() };
        let by_page =
            Scheme { pattern: Pattern::idle_for_us(2_000_000), by_page: true, ..Scheme::default() };
        let max = census.max_nr_accesses();
        let at = |nr| Region {
            nr_accesses_bp: nr * 10_000,
            age: 1,
            ..Region::new(AddrRange::new(0, 1 << 20))
        };
        let hot = Pattern { age: crate::scheme::Age::Windows(Default::default()), ..Pattern::ALL };
        for (name, attrs, scheme, region, expected) in [
            ("mixed", census, by_page.clone(), at(2), Some(2_000_000)),
            ("young, so it does not match", census, by_page.clone(), at(0), Some(2_000_000)),
            ("all of it in use", census, by_page.clone(), at(max), None),
            (
                "nothing is known of it",
                census,
                by_page.clone(),
                Region { unresolved: true, ..at(2) },
                None,
            ),
            (
                "a method that sees regions only",
                Attrs { method: Method::FirstTouch, ..census },
                by_page.clone(),
                at(2),
                None,
            ),
            ("strict", Attrs { strict: true, ..census }, by_page.clone(), at(2), None),
            (
                "a driver that acts on regions",
                census,
                Scheme { by_page: false, ..by_page.clone() },
                at(2),
                None,
            ),
            (
                "young memory is wanted",
                census,
                Scheme { pattern: hot, ..by_page.clone() },
                at(2),
                None,
            ),
        ] {
            let installed = Installed::new(scheme, &attrs, 0);
            assert_eq!(installed.idle_us(&region, &attrs), expected, "{name}");
            let matches = installed.matches(&region, attrs.strict);
            assert_eq!(installed.wants(&region, &attrs), matches || expected.is_some(), "{name}");
        }
    }
}
