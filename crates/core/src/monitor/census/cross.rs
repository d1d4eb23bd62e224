//! Cross-sections: one page of each of many units, all made old at the same time.
//!
//! Units have their turns one after the other, and a turn is one sample in time. Where a pointer
//! goes over 1 GiB in 5 s, ten of 512 units are touched in any tenth of a second. The sum over
//! turns counts ten events that come by chance, so it is a third too large or too small. At any one
//! moment it is always ten. A cross-section sees a moment. It knows one page of a unit, so it
//! corrects the sum over turns:
//!
//! ```text
//! touched = sum over turns + sum of weight * (whether touched now - whether touched in the turn)
//! ```
//!
//! What is touched all the time is touched in both, so how it is scattered adds no error. Of what
//! passes by, the errors of the turns are in both sums and cancel. Where they do not, the sum of
//! what is touched now is the better number, so both are kept.
//!
//! To make one page old costs the target's CPUs a flush, as a whole unit does. So cross-sections
//! are made only where turns leave a doubt, within a share of the budget. By how much they differ
//! tells how far their mean is to be trusted.
//!
//! Invariants: each page that can be made old is drawn with a known chance, by which it is
//! weighted. The unit does not forget that its page was touched. Absent: spans of more than a
//! second, and any line through several spans (see `curve`).

mod found;

use alloc::vec::Vec;

use self::found::{Found, Sum};
use super::curve::{Pages, Turned};
use super::map::Spared;
use super::planes::{EARLY, Planes, is_over};
use super::unit::Unit;
use crate::interval::float;
use crate::rng::Rng;
use crate::snapshot::SPANS;
use crate::target::TargetId;
use crate::time::Time;
use crate::unit::{PageBits, UnitCheck};

/// Spans that are looked at: a window and a second.
pub(super) const SEEN: [usize; 2] = [1, 2];
/// The most pages of one cross-section, and the least units of a target.
const PAGES: (usize, usize) = (512, 32);
/// A cross-section is made old in so many steps, one per sample, so that neither a sample's looks
/// nor the target's mmap lock wait for long. Each step is all over the target, at random: an order
/// might go along with what passes by.
const STEPS: u64 = 4;
/// How many are kept, and for how long, in ns.
const KEPT: (usize, u64) = (8, 60_000_000_000);
/// Up to so many follow each other at once, and their differences alone do not tell how far they
/// are to be trusted.
const FEW: usize = 3;
/// A sum of turns is in doubt if its standard deviation is more than one in so many of it.
const DOUBT: f64 = 40.0;
/// What is unknown may be one in so many parts of a target.
const MOST_UNKNOWN: usize = 10;
/// How long to wait if none can be made, in ns.
const RETRY_NS: u64 = 1_000_000_000;
/// A look after more than this share of a span is late, in percent.
const LATE: u64 = 105;

/// A page of a cross-section.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Member {
    start: u64,
    page: u16,
    step: u64,
    /// How many pages of the target it stands for.
    weight: f64,
    /// When it was made old.
    since: Option<Time>,
    /// How long after that it was found untouched last, and touched first, in ns.
    quiet_ns: u64,
    touched_ns: Option<u64>,
}

impl Member {
    /// Which part of it was touched within a span: 0 or 1. Between two looks it is taken to be
    /// touched at any time. None if no look has come that tells.
    fn within(&self, span: u64, early: u64) -> Option<f64> {
        let (quiet, span) = (self.quiet_ns, span.saturating_sub(early));
        match self.touched_ns {
            Some(at) if at.saturating_mul(100) <= span.saturating_mul(LATE) => Some(1.0),
            _ if quiet >= span => Some(0.0),
            Some(at) => Some(float(span - quiet) / float(at - quiet)),
            None => None,
        }
    }
}

/// A look at the pages of a step for the end of a span.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Look {
    sample: u64,
    step: u64,
    span: usize,
}

/// The cross-sections of one target.
#[derive(Debug)]
pub(super) struct Cross {
    /// The pages of the one that goes on, by address; none if none does.
    members: Vec<Member>,
    /// The steps that were made old, and the looks at them that are to come.
    nr_steps: u64,
    looks: Vec<Look>,
    found: Vec<Found>,
    /// Whether turns leave a doubt, and when the next one may begin.
    is_wanted: bool,
    next_at: Time,
}

impl Default for Cross {
    fn default() -> Self {
        Self::new()
    }
}

impl Cross {
    /// None yet.
    pub(super) const fn new() -> Self {
        Self {
            members: Vec::new(),
            nr_steps: 0,
            looks: Vec::new(),
            found: Vec::new(),
            is_wanted: false,
            next_at: Time(0),
        }
    }

    /// Whether a cross-section should begin now.
    pub(super) fn is_due(&self, now: Time) -> bool {
        self.is_wanted && self.members.is_empty() && now >= self.next_at
    }

    /// How many pages the one that goes on has.
    pub(super) const fn len(&self) -> usize {
        self.members.len()
    }

    /// Whether pages of it are still to be made old.
    pub(super) const fn is_arming(&self) -> bool {
        !self.members.is_empty() && self.nr_steps < STEPS
    }

    /// The sample at which it has to be looked at next.
    pub(super) fn next_look(&self) -> Option<u64> {
        self.looks.iter().map(|look| look.sample).min()
    }

    /// What turns have counted within the spans now, of so many pages. They leave a doubt, or not.
    /// If they tell of another use of memory than when a cross-section was made, that one is past.
    /// Of what mostly passes by (`is_passing`) they tell only of chance. Returns whether one has
    /// become past.
    pub(super) fn doubt(
        &mut self,
        counted: [Option<Turned>; SEEN.len()],
        size: u64,
        is_passing: bool,
    ) -> bool {
        let is_doubted = |turned: &Turned| turned.now.sigma * DOUBT > turned.now.mean;
        self.is_wanted = counted.iter().flatten().any(is_doubted);
        if is_passing {
            return false;
        }
        let now = counted.map(|turned| Some(turned?.level().times(1.0 / float(size.max(1)))));
        let nr_before = self.found.len();
        self.forget_contradicted(&now);
        self.found.len() < nr_before
    }

    /// Draws the pages of a new cross-section. Returns how many there are.
    pub(super) fn begin(
        &mut self,
        units: &[Unit],
        spared: &Spared,
        rng: &mut Rng,
        now: Time,
    ) -> usize {
        self.stop();
        // If none can be made, that is not found out again before every sample.
        self.next_at = now + RETRY_NS;
        let nr = if units.len() < PAGES.1 { 0 } else { units.len().min(PAGES.0) };
        let mut nr_barred = 0;
        for part in 0..nr {
            let (first, behind) = (part * units.len() / nr, (part + 1) * units.len() / nr);
            let drawn = rng.range(0, (behind - first) as u64);
            let unit = &units[first + usize::try_from(drawn).unwrap_or(0)];
            if !unit.may_be_probed() || spared.unit(unit.start, now) {
                nr_barred += 1;
                continue;
            }
            let pages = unit.clearable();
            if pages.is_empty() {
                continue;
            }
            let page = pages.nth(rng.range(0, pages.count())).unwrap_or(0);
            let weight = float(pages.count() * (behind - first) as u64);
            let (start, step) = (unit.start, rng.range(0, STEPS));
            let (since, quiet_ns, touched_ns) = (None, 0, None);
            self.members.push(Member { start, page, step, weight, since, quiet_ns, touched_ns });
        }
        if nr_barred * MOST_UNKNOWN > nr {
            self.stop();
        }
        self.members.len()
    }

    /// Gives up the one that goes on.
    pub(super) fn stop(&mut self) {
        self.members.clear();
        self.looks.clear();
        self.nr_steps = 0;
    }

    /// The pages of the next step are to be made old, unless their units are asked about anyway.
    pub(super) fn choose(&mut self, target: TargetId, units: &mut Vec<UnitCheck>) {
        let nr_before = units.len();
        for member in self.members.iter().filter(|member| member.step == self.nr_steps) {
            let is_asked = |c: &UnitCheck| (c.target, c.start) == (target, member.start);
            if !units[..nr_before].iter().any(is_asked) {
                units.push(UnitCheck::new(target, member.start, PageBits::page(member.page)));
            }
        }
    }

    /// The pages of a step are old since this sample. They are looked at after so many samples.
    pub(super) fn step_was_armed(&mut self, passed: u64, waits: &[u64]) {
        let look = |span: usize| {
            let sample = passed.saturating_add(*waits.get(span)?);
            Some(Look { sample, step: self.nr_steps, span })
        };
        self.looks.extend(SEEN.into_iter().filter_map(look));
        self.nr_steps += 1;
    }

    /// The pages to look at now. To make a step old takes some of its sample, and a look that
    /// comes before the end of a span tells nothing of it. So it waits for the next sample.
    pub(super) fn choose_looks(
        &mut self,
        target: TargetId,
        (passed, now): (u64, Time),
        spans: &[u64; SPANS],
        units: &mut Vec<UnitCheck>,
    ) -> bool {
        let members = &self.members;
        let nr_before = units.len();
        self.looks.retain_mut(|look| {
            if look.sample > passed {
                return true;
            }
            let of_step = || members.iter().filter(|member| member.step == look.step);
            let since = of_step().filter_map(|member| member.since).max();
            if since.is_some_and(|since| !is_over(now.since(since), spans[look.span], spans)) {
                look.sample = passed + 1;
                return true;
            }
            let open = of_step().filter(|m| m.since.is_some() && m.touched_ns.is_none());
            units.extend(open.map(|m| UnitCheck::new(target, m.start, PageBits::page(m.page))));
            false
        });
        units.len() > nr_before
    }

    /// A unit was made old, or a part of it. Returns whether that was a page of the cross-section,
    /// for no other purpose.
    pub(super) fn was_armed(&mut self, check: &UnitCheck, now: Time) -> bool {
        let Some(member) = find(&mut self.members, check.start) else { return false };
        let page = PageBits::page(member.page);
        if member.since.is_some() || check.pages != page {
            // What was found then is seen no more.
            let asked = UnitCheck { young: check.young.and(check.pages), ..*check };
            self.note(&asked, now);
            return false;
        }
        if check.answered && check.stuck.and(page).is_empty() {
            member.since = Some(check.made_old.map_or(now, |at| at.min(now)));
        }
        true
    }

    /// A unit was looked at. Returns whether a page of the cross-section was found touched.
    pub(super) fn note(&mut self, check: &UnitCheck, at: Time) -> bool {
        let Some(member) = find(&mut self.members, check.start) else { return false };
        let Some(since) = member.since.filter(|_| check.answered) else { return false };
        let page = PageBits::page(member.page);
        if member.touched_ns.is_some() || check.pages.and(page).is_empty() {
            return false;
        }
        let elapsed = at.since(since);
        let is_touched = !check.young.and(page).is_empty();
        if is_touched {
            member.touched_ns = Some(elapsed.max(member.quiet_ns + 1));
        } else {
            member.quiet_ns = elapsed;
        }
        is_touched
    }

    /// Whether all looks were made.
    pub(super) const fn is_over(&self) -> bool {
        !self.members.is_empty() && self.nr_steps == STEPS && self.looks.is_empty()
    }

    /// Takes in what the one that is over has found. `unit_at`: the unit that begins there.
    /// `counted`: what turns have counted within the spans, of `size` pages. The next one may begin
    /// so many ns after this time.
    pub(super) fn end<'a>(
        &mut self,
        unit_at: impl Fn(u64) -> Option<&'a Unit>,
        counted: [Option<Turned>; SEEN.len()],
        size: u64,
        spans: &[u64; SPANS],
        rest: (Time, u64),
    ) {
        let all = float(size.max(1));
        let numbers = core::array::from_fn(|nr| {
            let (mut apart, mut alone) = (Sum::default(), Sum::default());
            for member in &self.members {
                let Some(now) = member.within(spans[SEEN[nr]], early(spans)) else { continue };
                alone.add(member.weight, now);
                // A unit has no number of its own while it has a turn.
                let unit = unit_at(member.start);
                if let Some(then) = unit.and_then(|unit| unit.turn_share(SEEN[nr], member.page)) {
                    apart.add(member.weight, now - then);
                }
            }
            // What is not known is taken to be like the rest, unless that is much.
            let is_known = |sum: &Sum| (all - sum.weight) * float(MOST_UNKNOWN as u64) <= all;
            let corrected = counted[nr].filter(|_| is_known(&apart));
            [
                corrected.map(|turned| apart.number(turned.sum.mean / all)),
                is_known(&alone).then(|| alone.number(0.0)),
            ]
        });
        let each = 1.0 / float(self.members.len().max(1) as u64);
        self.stop();
        let (now, rest_ns) = rest;
        self.found.retain(|found| now.since(found.at) <= KEPT.1);
        if self.found.len() == KEPT.0 {
            self.found.remove(0);
        }
        let counted = counted.map(|turned| Some(turned?.level().times(1.0 / all)));
        self.found.push(Found { at: now, numbers, counted, each });
        let is_change = self.forget_before_change();
        let rest_ns = if self.found.len() < FEW && !is_change { 0 } else { rest_ns };
        self.next_at = now + rest_ns;
    }

    /// How many of `size` pages are touched within a span, as the cross-sections tell.
    pub(super) fn told(&self, span: usize, spans: &[u64; SPANS], size: u64) -> Option<Pages> {
        let at = SEEN.iter().position(|seen| *seen == span)?;
        let both = [0, 1].map(|way| self.mean(at, way));
        let share = both.into_iter().flatten().min_by(|a, b| a.sigma.total_cmp(&b.sigma))?;
        // Looks come a little early or late, all of them alike.
        let late = share.mean * float(early(spans)) / float(spans[span].max(1));
        let sigma = libm::hypot(share.sigma, late);
        Some(Pages { sigma, ..share }.times(float(size)))
    }
}

impl Unit {
    /// Whether one of its pages may be made old alone.
    const fn may_be_probed(&self) -> bool {
        !self.together && self.known && self.armed
    }

    /// Whether a page was touched within a span when it was the unit's turn: 0 or 1. Where it is
    /// only known how many were, their share.
    fn turn_share(&self, span: usize, page: u16) -> Option<f64> {
        let planes: &Planes = self.planes();
        let counted = planes.counted(span)?;
        let pages = self.clearable();
        let shown = planes.get(span).map(|plane| plane.and(pages));
        Some(match shown.filter(|shown| shown.count() == counted) {
            Some(shown) => f64::from(u8::from(!shown.and(PageBits::page(page)).is_empty())),
            None => (float(counted) / float(pages.count().max(1))).min(1.0),
        })
    }
}

/// How much earlier than at its end a look still tells of a span, in ns.
const fn early(spans: &[u64; SPANS]) -> u64 {
    spans[0] * EARLY / 100
}

/// The page in the unit at `start`.
fn find(members: &mut [Member], start: u64) -> Option<&mut Member> {
    let at = members.binary_search_by_key(&start, |member| member.start).ok()?;
    members.get_mut(at)
}

#[cfg(test)]
mod tests {
    use super::super::curve::{Curve, Lines, NO_LINES, SIGMAS};
    use super::*;
    use crate::unit::UNIT;

    const MS: u64 = 1_000_000;
    pub(super) const SPANS_NS: [u64; SPANS] =
        [5 * MS, 100 * MS, 1000 * MS, 10_000 * MS, 60_000 * MS];
    const ID: TargetId = TargetId(1);
    pub(super) const NR: u64 = 256;

    fn answer(start: u64, pages: PageBits, young: PageBits) -> UnitCheck {
        let check = UnitCheck::new(ID, start, pages);
        UnitCheck { answered: true, present: PageBits::ALL, young, ..check }
    }

    /// When a page was or will be touched next after a time, in ms.
    pub(super) type Next<'a> = &'a dyn Fn(u64, u16, u64) -> u64;

    /// The pages of a unit that are touched after `from` up to `to`, in ms.
    fn touched(nr: u64, next: Next<'_>, from: u64, to: u64) -> PageBits {
        let pages = (0..512).filter(|page| next(nr, *page, from) <= to);
        pages.fold(PageBits::default(), |all, page| all.or(PageBits::page(page)))
    }

    /// Units that had their turns at random times.
    pub(super) fn units(next: Next<'_>, rng: &mut Rng) -> Vec<Unit> {
        let unit = |nr| {
            let (mut unit, at) =
                (Unit::new(nr * UNIT, PageBits::ALL, Time(0)), rng.range(0, 10_000));
            unit.is_turn = true;
            unit.was_armed(&answer(nr * UNIT, PageBits::ALL, PageBits::ALL), Time(at * MS));
            for ms in [5, 100, 1000] {
                let check = answer(nr * UNIT, PageBits::ALL, touched(nr, next, at, at + ms));
                unit.was_looked_at(&check, Time((at + ms) * MS), &SPANS_NS, false);
            }
            unit
        };
        (0..NR).map(unit).collect()
    }

    /// The sum over the turns.
    fn sum(units: &[Unit], span: usize) -> f64 {
        float(units.iter().filter_map(|unit| unit.planes().counted(span)).sum())
    }

    /// Makes a whole cross-section that begins at this time, in ms. To arm a step takes 3 ms.
    pub(super) fn make(
        cross: &mut Cross,
        units: &mut [Unit],
        rng: &mut Rng,
        next: Next<'_>,
        at: u64,
    ) {
        assert!(cross.begin(units, &Spared::default(), rng, Time(at * MS)) > 0);
        let (mut passed, mut checks) = (0, Vec::new());
        let waits = [1, 20, 200, 2000, 12_000];
        while !cross.is_over() {
            let now = at + passed * 5;
            checks.clear();
            cross.choose_looks(ID, (passed, Time(now * MS)), &SPANS_NS, &mut checks);
            for check in &checks {
                let nr = check.start / UNIT;
                let member = find(&mut cross.members, check.start).unwrap();
                let since = member.since.unwrap().0 / MS;
                let check = answer(check.start, check.pages, touched(nr, next, since, now));
                cross.note(&check, Time(now * MS));
            }
            if cross.is_arming() {
                checks.clear();
                cross.choose(ID, &mut checks);
                for check in &checks {
                    let check = answer(check.start, check.pages, PageBits::ALL);
                    assert!(cross.was_armed(&check, Time((now + 3) * MS)));
                }
                cross.step_was_armed(passed, &waits);
            }
            passed += 1;
        }
        let turned = |mean| Turned::of(Pages { mean, sigma: 1.0 });
        let counted = SEEN.map(|span| Some(turned(sum(units, span))));
        let unit_at = |start: u64| units.get(usize::try_from(start / UNIT).unwrap());
        cross.end(unit_at, counted, NR * 512, &SPANS_NS, (Time((at + 1000) * MS), 1000 * MS));
    }

    /// A pointer that goes over all units in `period` ms.
    fn swept(period: u64) -> impl Fn(u64, u16, u64) -> u64 {
        move |nr, page, from| {
            let place = (nr * 512 + u64::from(page)) * period / (NR * 512);
            from + 1 + (place + period - (from + 1) % period) % period
        }
    }

    #[test]
    #[cfg_attr(miri, ignore = "minutes")]
    fn what_passes_by_is_counted_at_one_time() {
        let all = float(NR * 512);
        for seed in 1..=4 {
            for period in [290, 1100, 4700] {
                let (mut rng, next) = (Rng::seeded(seed), swept(period));
                let mut units = units(&next, &mut rng);
                let mut cross = Cross::default();
                for nr in 0..6 {
                    make(&mut cross, &mut units, &mut rng, &next, 20_000 + nr * 1370);
                }
                for (span, ms) in [(1, 100), (2, 1000)] {
                    let truth = all * (float(ms) / float(period)).min(1.0);
                    let told = cross.told(span, &SPANS_NS, NR * 512).unwrap();
                    let (error, turns) = (told.mean / truth - 1.0, sum(&units, span) / truth - 1.0);
                    let note = alloc::format!("seed {seed}, {period}, {span}: {error} {turns}");
                    assert!(error.abs() < 0.12, "{note}");
                    let (lo, hi) = told.interval();
                    assert!(lo * 0.97 <= truth && truth <= hi * 1.03, "{note}: {told:?}");
                }
            }
        }
    }

    #[test]
    #[cfg_attr(miri, ignore = "minutes")]
    fn turns_are_believed_where_they_are_surer_and_not_contradicted() {
        let (mut rng, next) = (Rng::seeded(5), swept(1000));
        let mut units = units(&next, &mut rng);
        let mut cross = Cross::default();
        for nr in 0..6 {
            make(&mut cross, &mut units, &mut rng, &next, 20_000 + nr * 1370);
        }
        let seen = cross.told(1, &SPANS_NS, NR * 512).unwrap();
        let curve = Curve::default();
        let lines = Lines { curve: &curve, spans: &SPANS_NS, cross: &cross, ..NO_LINES };
        for (name, times, sigma, is_cross) in [
            ("in doubt", 1.4, 5_000.0, true),
            ("too sure", 1.4, 10.0, true),
            ("sure, and near", 1.01, 10.0, false),
        ] {
            let counted = Pages { mean: seen.mean * times, sigma };
            let told = lines.told(1, NR * 512, counted).unwrap();
            let mean = if is_cross { seen.mean } else { counted.mean };
            assert!((told.mean - mean).abs() < 1.0, "{name}: {told:?}");
            let holds = |mean: f64| told.lo <= mean && mean <= told.hi;
            assert!(holds(seen.mean), "{name}: {told:?}");
            assert_eq!(holds(counted.mean), sigma < 100.0, "{name}: {told:?}");
        }
    }

    #[test]
    #[cfg_attr(miri, ignore = "minutes")]
    fn scattered_memory_in_use_is_what_turns_have_counted() {
        let mut rng = Rng::seeded(1);
        // One page in three, all the time.
        let next = |nr: u64, page: u16, from: u64| {
            if (nr * 7 + u64::from(page) * 5).is_multiple_of(3) { from + 1 } else { u64::MAX }
        };
        let mut units = units(&next, &mut rng);
        let mut cross = Cross::default();
        for nr in 0..2 {
            make(&mut cross, &mut units, &mut rng, &next, 20_000 + nr * 1370);
        }
        let told = cross.told(1, &SPANS_NS, NR * 512).unwrap();
        let counted = sum(&units, 1);
        assert!((told.mean - counted).abs() < 1.0, "{told:?}");
        // Two cross-sections know less than that. This is no doubt of what turns have counted.
        assert!(told.sigma > 0.005 * counted, "{told:?}");
        let (curve, turns) = (Curve::default(), Pages { mean: counted, sigma: 1.0 });
        let lines = Lines { curve: &curve, spans: &SPANS_NS, cross: &cross, ..NO_LINES };
        let told = lines.told(1, NR * 512, turns).unwrap();
        assert!(told.hi - told.lo < 4.0 * SIGMAS, "{told:?}");
    }

    #[test]
    fn a_look_tells_whether_a_page_was_touched_within_a_span() {
        for (name, quiet, touched, within) in [
            ("no look", 0, None, None),
            ("not touched so far", 50, None, None),
            ("not touched", 100, None, Some(0.0)),
            ("a little early", 99, None, Some(0.0)),
            ("touched", 0, Some(40), Some(1.0)),
            ("a little late", 0, Some(103), Some(1.0)),
            ("touched later", 100, Some(1000), Some(0.0)),
            ("touched around the end", 59, Some(139), Some(0.5)),
        ] {
            let member = Member {
                start: 0,
                page: 0,
                step: 0,
                weight: 1.0,
                since: Some(Time(0)),
                quiet_ns: quiet * MS,
                touched_ns: touched.map(|ms: u64| ms * MS),
            };
            assert_eq!(member.within(SPANS_NS[1], MS), within, "{name}");
        }
    }

    #[test]
    #[cfg_attr(miri, ignore = "minutes")]
    fn a_page_that_cannot_be_made_old_tells_nothing_and_no_touch_is_lost() {
        let (mut rng, next) = (Rng::seeded(3), swept(1000));
        let mut units: Vec<_> = units(&next, &mut rng).into_iter().take(PAGES.1).collect();
        let mut cross = Cross::default();
        assert_eq!(cross.begin(&units[1..], &Spared::default(), &mut rng, Time(0)), 0, "too few");
        assert_eq!(cross.begin(&units, &Spared::default(), &mut rng, Time(0)), PAGES.1);
        for unit in &mut units[..4] {
            unit.together = true;
        }
        assert_eq!(cross.begin(&units, &Spared::default(), &mut rng, Time(0)), 0, "too few known");
        units[0].together = false;
        units[1].together = false;
        assert_eq!(cross.begin(&units, &Spared::default(), &mut rng, Time(0)), PAGES.1 - 2);
        let mut checks = Vec::new();
        cross.choose(ID, &mut checks);
        let (first, second) = (checks[0], checks[1]);
        let stuck =
            UnitCheck { stuck: first.pages, ..answer(first.start, first.pages, first.pages) };
        assert!(cross.was_armed(&stuck, Time(0)) && !cross.note(&stuck, Time(MS)));
        let check = answer(second.start, second.pages, second.pages);
        assert!(cross.was_armed(&check, Time(0)));
        let unit = units.iter_mut().find(|unit| unit.start == second.start).unwrap();
        unit.was_probed(&check);
        assert_eq!(second.pages.minus(unit.young), PageBits::default(), "it stays touched");
        // All of the unit is made old. What was touched until then counts.
        let whole = answer(second.start, PageBits::ALL, PageBits::ALL);
        assert!(!cross.was_armed(&whole, Time(50 * MS)));
        let member = find(&mut cross.members, second.start).unwrap();
        assert_eq!(member.within(SPANS_NS[1], MS), Some(1.0));
    }

    #[test]
    fn it_is_made_only_where_turns_leave_a_doubt() {
        let mut cross = Cross::default();
        for (sigmas, is_due) in [([0.0, 0.0], false), ([2.0, 0.0], false), ([0.0, 3.0], true)] {
            let turned = |sigma| Some(Turned::of(Pages { mean: 100.0, sigma }));
            cross.doubt(sigmas.map(turned), 512, false);
            assert_eq!(cross.is_due(Time(0)), is_due, "{sigmas:?}");
        }
        assert_eq!(cross.told(1, &SPANS_NS, 1), None);
    }

    #[test]
    #[cfg_attr(miri, ignore = "minutes")]
    fn a_cross_section_is_past_when_turns_tell_of_another_use_of_memory() {
        for (is_passing, times, is_kept) in
            [(false, 1.0, true), (false, 2.0, false), (true, 2.0, true)]
        {
            let (mut rng, next) = (Rng::seeded(2), swept(1000));
            let mut units = units(&next, &mut rng);
            let mut cross = Cross::default();
            make(&mut cross, &mut units, &mut rng, &next, 20_000);
            let turned = |mean| Some(Turned::of(Pages { mean, sigma: 1.0 }));
            let counted = SEEN.map(|span| turned(sum(&units, span) * times));
            cross.doubt(counted, NR * 512, is_passing);
            let told = cross.told(1, &SPANS_NS, NR * 512);
            assert_eq!(told.is_some(), is_kept, "{is_passing} {times}");
        }
    }
}
