//! One pass of all schemes over all regions (`kdamond_apply_schemes()`; R§4.2, R§4.3), as a state
//! machine that stops at every region that has to be acted on.
//!
//! Invariants: regions stay sorted and none is empty. Every byte of a region is charged at most
//! once per scheme and pass. A pass visits each region once. It visits the pieces that it cuts off
//! a region right after that region.

mod cursor;
mod eligible;
mod position;
mod walk;

use alloc::vec::Vec;
use core::num::NonZeroU64;

use crate::addr::round_up;
use crate::attrs::{Attrs, Method};
use crate::region::Region;
use crate::scheme::Scheme;
use crate::scheme::counters::Counters;
use crate::scheme::filter::{Verdict, allowed_bytes};
use crate::scheme::installed::{Installed, frequency};
use crate::scheme::score::{Histogram, MAX_SCORE, min_score};
use crate::scheme::{Action, Applied, Order, Request, WatermarkMetric};
use crate::target::{Target, TargetId, region_size_limit};
use crate::time::{Time, before};

pub use cursor::{Cursor, Skip};
pub(crate) use eligible::EligibleBytes;
use position::Position;
pub use walk::{Tried, Walk, WalkBusy};

/// All schemes of a context, and the progress of the pass under way.
#[derive(Debug, Default)]
pub(crate) struct Schemes {
    pub(crate) installed: Vec<Installed>,
    /// How many commits took effect.
    pub(crate) nr_commits: u64,
    /// What the schemes had counted when the last commit took effect, by index.
    pub(crate) stats_before: Vec<Counters>,
    pub(crate) walk: Walk,
    /// What schemes were applied to, if somebody keeps it.
    pub(crate) log: Option<Vec<Tried>>,
    /// The request that waits for its answer: set by [`Step::Apply`], taken by
    /// [`Schemes::applied`].
    pub(crate) request: Option<Request>,
    /// Index of the target whose turn it is.
    target: usize,
    /// Where in that target the pass is.
    at: Position,
    /// Index of the scheme that looks at the region.
    scheme: usize,
    max_region: u64,
    /// When the pass under way began.
    began: Time,
}

/// How many applications are kept for somebody who does not take them.
const MOST_LOGGED: usize = 1 << 16;

/// What a pass needs next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Step {
    /// The driver has to carry out [`Schemes::request`] and then call [`Schemes::applied`].
    Apply,
    /// The pass is over.
    Done,
}

/// What becomes of a region under one scheme.
enum Try {
    /// The scheme does not act on the region in this pass. True: the region counts as looked at.
    Pass(bool),
    Apply,
}

impl Schemes {
    /// Whether a scheme has watermarks that need the free memory rate.
    pub(crate) fn want_free_mem_rate(&self) -> bool {
        let metric = |s: &Installed| s.scheme.watermarks.metric;
        self.installed.iter().any(|s| metric(s) == WatermarkMetric::FreeMemRate)
    }

    /// Checks all watermarks. Returns the time to wait, in µs, if no scheme may work (R§2.5,
    /// `kdamond_wait_activation()`).
    ///
    /// The shortest wait counts. A scheme at work does not wait. An interval of 0 is no wait
    /// either: sampling goes on while that scheme stays inactive.
    pub(crate) fn check_watermarks(&mut self, free_permil: Option<u64>) -> Option<NonZeroU64> {
        let mut wait = None;
        for scheme in &mut self.installed {
            let active = scheme.check_watermarks(free_permil);
            let us = if active { 0 } else { scheme.scheme.watermarks.interval_us };
            wait = Some(wait.unwrap_or(us).min(us));
        }
        wait.and_then(NonZeroU64::new)
    }

    /// Notes which schemes are due. Returns whether one of them may work (R§4.2 step 1).
    pub(crate) fn note_due(&mut self, passed: u64) -> bool {
        let mut work = false;
        for scheme in &mut self.installed {
            scheme.due = !before(passed, scheme.next_apply);
            work |= scheme.due && scheme.active;
        }
        work
    }

    /// Adjusts the quotas of the schemes that are due, and starts the pass.
    pub(crate) fn begin(&mut self, targets: &mut [Target], attrs: &Attrs, now: Time) {
        for scheme in self.installed.iter_mut().filter(|s| s.due && s.active) {
            let was_limited = scheme.is_limited();
            if !was_limited && scheme.scheme.quota.brake.is_none() {
                continue;
            }
            let full = scheme.adjust_quota(attrs, now);
            scheme.stats.qt_exceeds += u64::from(full);
            // The kernel checks for a limit before it adjusts the quota. So it computes scores once
            // more, and cuts regions for the filters, when the last window of a removed quota is
            // over.
            if scheme.is_limited() || (attrs.strict && was_limited) {
                scheme.quota.min_score = lowest_score(scheme, targets, attrs);
            }
        }
        self.began = now;
        self.max_region = region_size_limit(targets, attrs);
        self.begin_target(0);
    }

    /// Goes on to the next region that has to be acted on.
    pub(crate) fn step(&mut self, targets: &mut [Target], attrs: &Attrs) -> Step {
        loop {
            let Some(target) = targets.get_mut(self.target) else {
                return Step::Done;
            };
            if self.at.is_behind(target) {
                self.at.finish(target, self.max_region);
                if target.regions.is_empty() && !attrs.strict {
                    let id = target.id;
                    self.pass_on(id, targets.get(self.target + 1).map(|next| next.id));
                }
                self.begin_target(self.target + 1);
                continue;
            }
            if self.scheme >= self.installed.len() {
                self.at.go_on(target, self.max_region);
                self.scheme = 0;
                continue;
            }
            match self.try_scheme(target, attrs) {
                Try::Apply => {
                    self.at.put_back(target);
                    return Step::Apply;
                }
                Try::Pass(seen) => self.next_scheme(targets, seen, attrs),
            }
        }
    }

    /// Takes in the result of the request. Returns whether a request was waiting.
    pub(crate) fn applied(
        &mut self,
        targets: &mut [Target],
        applied: Applied,
        attrs: &Attrs,
    ) -> bool {
        let Some(request) = self.request.take() else { return false };
        self.settle(targets, &request, applied, attrs);
        self.next_scheme(targets, true, attrs);
        self.at.put_back(&mut targets[self.target]);
        true
    }

    /// Ends a pass: plans the schemes that were due (R§4.2 step 4).
    pub(crate) fn end(&mut self, attrs: &Attrs, passed: u64) {
        self.walk.completed(self.installed.iter().map(|s| s.due));
        for scheme in self.installed.iter_mut().filter(|s| s.due) {
            if !attrs.strict && scheme.active && !scheme.is_done() {
                scheme.stats.nr_snapshots += 1;
            }
            scheme.plan(attrs, passed);
            scheme.due = false;
        }
    }

    /// Ends a turn in which schemes are due but none may work. Their deadlines stay, so they are
    /// due again in the next turn.
    pub(crate) fn end_idle(&mut self) {
        for scheme in &mut self.installed {
            scheme.due = false;
        }
    }

    /// Replaces the user's side of all schemes, by index (R§2.9).
    pub(crate) fn commit(&mut self, schemes: &[Scheme], attrs: &Attrs, passed: u64) {
        self.nr_commits = self.nr_commits.wrapping_add(1);
        self.stats_before.clear();
        self.stats_before.extend(self.installed.iter().map(|s| s.stats.clone()));
        self.installed.truncate(schemes.len());
        for (i, scheme) in schemes.iter().enumerate() {
            match self.installed.get_mut(i) {
                Some(installed) => installed.commit(scheme, attrs),
                None => self.installed.push(Installed::new(scheme.clone(), attrs, passed)),
            }
        }
    }

    /// Drops every cursor that points at a target that was removed.
    pub(crate) fn forget(&mut self, target: TargetId) {
        for scheme in &mut self.installed {
            if scheme.cursor.is_some_and(|c| c.target == target) {
                scheme.cursor = None;
            }
        }
    }

    fn begin_target(&mut self, target: usize) {
        self.target = target;
        self.at.start();
        self.scheme = 0;
        for scheme in &mut self.installed {
            scheme.through = 0;
        }
    }

    /// Moves cursors from a target without regions to the next target. A cursor is otherwise
    /// cleared at the last region of its target, and here there is none.
    fn pass_on(&mut self, empty: TargetId, next: Option<TargetId>) {
        for scheme in &mut self.installed {
            if scheme.cursor.is_some_and(|c| c.target == empty) {
                scheme.cursor = next.map(|target| Cursor { target, addr: 0 });
            }
        }
    }

    fn try_scheme(&mut self, target: &mut Target, attrs: &Attrs) -> Try {
        let at = &mut self.at;
        let scheme = &mut self.installed[self.scheme];
        let rests = scheme.resting.rests(self.began);
        if !scheme.due || !scheme.active || rests || scheme.is_full(attrs) {
            return Try::Pass(false);
        }
        // A later scheme cut a region that this scheme has handled already. The kernel handles the
        // piece that was cut off again.
        if !attrs.strict && target.regions[at.region].range.start < scheme.through {
            return Try::Pass(false);
        }
        if skip_charged(scheme, target, at, attrs) || scheme.is_done() {
            return Try::Pass(false);
        }
        let region = &target.regions[at.region];
        if !scheme.wants(region, attrs) || scheme.is_elsewhere(target.id, region.range.start) {
            return Try::Pass(true);
        }
        // The kernel cuts the region for the quota first and for the filters later. It charges the
        // size from before the filters' cut.
        let mut charged = region.len();
        if attrs.strict && scheme.is_limited() {
            let left = scheme.quota.left(attrs.min_region_sz);
            if scheme.quota.charged_sz.saturating_add(charged) > scheme.quota.esz {
                charged = left;
                at.cut(target, left);
            }
        }
        let verdict = loop {
            let range = target.regions[at.region].range;
            match scheme.scheme.filters.core_verdict(self.target, range, attrs.min_region_sz) {
                Verdict::CutAt(addr) => at.cut(target, addr - range.start),
                verdict => break verdict,
            }
        };
        if verdict == Verdict::Refused {
            return Try::Pass(true);
        }
        let region = &target.regions[at.region];
        let limited = !attrs.strict && scheme.is_limited();
        self.request = Some(Request {
            scheme: self.scheme,
            action: scheme.scheme.action,
            target: target.id,
            range: region.range,
            nr_accesses: frequency(region),
            age: region.quiet_age(),
            idle_us: if scheme.matches(region, attrs.strict) {
                None
            } else {
                scheme.idle_us(region, attrs)
            },
            by_use: !scheme.matches(region, attrs.strict) && scheme.may_be_dense(region, attrs),
            bypass_filters: verdict == Verdict::LetIn,
            charged: if attrs.strict { charged } else { region.len() },
            max_bytes: if limited { scheme.quota.left(attrs.min_region_sz) } else { u64::MAX },
            max_ns: scheme.quota.ns_left(&scheme.scheme.quota),
        });
        Try::Apply
    }

    /// Charges, counts, and resets the age (R§4.3 steps 3 to 6).
    fn settle(
        &mut self,
        targets: &mut [Target],
        request: &Request,
        applied: Applied,
        attrs: &Attrs,
    ) {
        let at = &mut self.at;
        let scheme = &mut self.installed[self.scheme];
        scheme.quota.spend(applied.ns);
        scheme.resting.note(scheme.scheme.rest, &applied, self.began);
        let next_target = targets.get(self.target + 1).map(|next| next.id);
        let target = &mut targets[self.target];
        if !attrs.strict {
            let covered = round_up(applied.covered, attrs.min_region_sz);
            if covered == 0 {
                scheme.quota.charged_sz = scheme.quota.charged_sz.saturating_add(applied.asked);
                scheme.stats.sz_applied += applied.applied;
                scheme.stats.nr_deferred += 1;
                scheme.note_window();
                cut_part(target, at, applied.skip, attrs);
                scheme.stop_if_full(target, at, next_target, attrs);
                return;
            }
            cut_part(target, at, covered, attrs);
        }
        let region = &mut target.regions[at.region];
        let sz = if attrs.strict { request.charged } else { region.len().min(applied.covered) };
        let tried = if attrs.strict { sz } else { applied.asked };
        let fail_charge = scheme.scheme.quota.fail_charge;
        let charge = fail_charge.charge(tried, applied.applied);
        scheme.quota.charged_sz = scheme.quota.charged_sz.saturating_add(charge);
        scheme.note_window();
        let tried_on = Tried {
            scheme: self.scheme,
            target: request.target,
            range: region.range,
            nr_accesses: request.nr_accesses,
            age: request.age,
            passed: applied.passed,
        };
        self.walk.see(tried_on);
        if let Some(log) = self.log.as_mut().filter(|log| log.len() < MOST_LOGGED) {
            log.push(tried_on);
        }
        if request.action != Action::Stat {
            region.acted(attrs.strict && attrs.method != Method::Observed);
        }
        let stats = &mut scheme.stats;
        stats.nr_tried += 1;
        stats.sz_tried += sz;
        stats.nr_applied += u64::from(applied.applied > 0);
        stats.sz_applied += applied.applied;
        stats.sz_ops_filter_passed += applied.passed;
        scheme.stop_if_full(target, at, next_target, attrs);
    }

    /// Goes on to the next scheme. `seen`: this scheme looked at the region, that is, it was not
    /// skipped.
    fn next_scheme(&mut self, targets: &[Target], seen: bool, attrs: &Attrs) {
        let target = &targets[self.target];
        let scheme = &mut self.installed[self.scheme];
        if seen && self.at.is_last(target) && attrs.strict {
            scheme.stats.nr_snapshots += 1;
        }
        scheme.through = scheme.through.max(target.regions[self.at.region].range.end);
        self.scheme += 1;
    }
}

/// With [`Tuner::Exact`](crate::scheme::Tuner::Exact), cold regions are let in for this many times
/// the bytes that the goal lacks. Proving that memory is idle takes many applications, and some of
/// the memory turns out to be in use.
const AHEAD: u64 = 16;
/// The least number of bytes that cold regions are let in for, as for [`AHEAD`].
const AHEAD_LEAST: u64 = 64 << 20;

impl Installed {
    /// Bytes of regions that the lowest score has to let in.
    fn wanted(&self) -> u64 {
        let quota = &self.scheme.quota;
        if !quota.is_exact() {
            return self.quota.esz;
        }
        let lack = self.quota.esz.saturating_sub(self.quota.charged_sz);
        if self.scheme.action.order() == Order::ColdFirst {
            lack.saturating_mul(AHEAD).max(AHEAD_LEAST)
        } else {
            lack
        }
    }

    /// Whether the scheme has reached its limit of snapshots.
    fn is_done(&self) -> bool {
        self.scheme.max_nr_snapshots != 0 && self.scheme.max_nr_snapshots <= self.stats.nr_snapshots
    }

    /// If the quota is used up, sets the cursor behind the region, where the next window goes on.
    /// Behind the last region of a target this is the start of the next target, unless `strict`.
    fn stop_if_full(
        &mut self,
        target: &Target,
        at: &Position,
        next_target: Option<TargetId>,
        attrs: &Attrs,
    ) {
        if !self.is_limited() || !self.is_full(attrs) {
            return;
        }
        self.cursor = if at.is_last(target) && !attrs.strict {
            next_target.map(|target| Cursor { target, addr: 0 })
        } else {
            Some(Cursor { target: target.id, addr: target.regions[at.region].range.end })
        };
    }

    fn note_window(&mut self) {
        let (stats, quota) = (&mut self.stats, &self.quota);
        stats.max_window_sz = stats.max_window_sz.max(quota.charged_sz);
        stats.max_window_ns = stats.max_window_ns.max(quota.window_ns);
    }
}

/// Cuts a region where the operations set stopped. Many passes can come between two aggregations,
/// and only an aggregation merges regions. So a target that already has twice the wanted number of
/// regions is not cut; the rest of the region waits for another pass.
fn cut_part(target: &mut Target, at: &mut Position, left: u64, attrs: &Attrs) {
    if (target.regions.len() as u64) < attrs.max_nr_regions.saturating_mul(2) {
        at.cut(target, round_up(left, attrs.min_region_sz));
    }
}

/// Whether the region had its turn in an earlier window. Cuts the region where the last window
/// stopped (R§4.5).
fn skip_charged(
    scheme: &mut Installed,
    target: &mut Target,
    at: &mut Position,
    attrs: &Attrs,
) -> bool {
    let Some(cursor) = scheme.cursor else { return false };
    let skip = cursor.skip(target.id, target.regions[at.region].range, attrs.min_region_sz);
    if let Skip::Left(left) = skip {
        at.cut(target, left);
    }
    if cursor.target == target.id && at.is_last(target) {
        scheme.cursor = None;
    }
    skip != Skip::No
}

/// The lowest score that the quota has room for. The kernel, and so `strict`, already cuts regions
/// for the filters here.
fn lowest_score(scheme: &Installed, targets: &mut [Target], attrs: &Attrs) -> u32 {
    let mut histogram: Histogram = [0; MAX_SCORE as usize + 1];
    let filters = &scheme.scheme.filters;
    for (index, target) in targets.iter_mut().enumerate() {
        let mut at = 0;
        while at < target.regions.len() {
            let bytes = if !scheme.matches(&target.regions[at], attrs.strict) {
                0
            } else if filters.core.is_empty() {
                scheme.countable(target.id, &target.regions[at])
            } else if !attrs.strict {
                allowed_bytes(filters, index, &target.regions[at], attrs.min_region_sz)
            } else if cut_for_filters(scheme, target, (index, at), attrs) == Verdict::Refused {
                0
            } else {
                target.regions[at].len()
            };
            if bytes != 0 {
                histogram[scheme.score(&target.regions[at], attrs) as usize] += bytes;
            }
            at += 1;
        }
    }
    min_score(&histogram, scheme.wanted())
}

/// Asks the core filters about a region, given by the indexes of its target and of itself. Cuts the
/// region until one answer holds for all of it.
fn cut_for_filters(
    scheme: &Installed,
    target: &mut Target,
    (index, at): (usize, usize),
    attrs: &Attrs,
) -> Verdict {
    loop {
        let range = target.regions[at].range;
        match scheme.scheme.filters.core_verdict(index, range, attrs.min_region_sz) {
            Verdict::CutAt(addr) => target.cut(at, addr - range.start),
            verdict => return verdict,
        }
    }
}

/// What a pass needs to know about a region.
impl Region {
    /// The age as schemes count it: the windows since the last action, if those are fewer than the
    /// age (R§9.2.20).
    #[must_use]
    pub fn quiet_age(&self) -> u32 {
        self.since_action.map_or(self.age, |since| since.min(self.age))
    }

    /// A scheme acted on it.
    fn acted(&mut self, strict: bool) {
        if strict {
            self.age = 0;
        } else {
            self.since_action = Some(0);
        }
    }
}
