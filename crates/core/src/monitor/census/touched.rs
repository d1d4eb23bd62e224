//! How much of a target was touched within each span: sums over its units, with their doubt.
//!
//! A unit counts for a span when it was its turn and a look has come at the span's end. The pages
//! seen then are added up, not extrapolated. Eight things are not known, and make the interval:
//!
//! * *When in its cycle a unit was measured.* One turn is one sample in time. Where a unit was
//!   measured twice, half of the squared difference is the variance of one measurement, whatever
//!   the pattern is. Where it was measured once, what the next longer span adds tells how much of
//!   it comes and goes: at most a quarter of its square. Neighbours have their turns together, so
//!   what passes one of them passes all; [`curve`](super::curve) knows by how much that adds to the
//!   doubt, and what a short span is from longer ones. [`cross`](super::cross) knows what is
//!   touched at one time.
//! * *What has changed since.* Units that are measured again are an even sample of those that wait;
//!   see [`Drift`](super::curve::Drift).
//! * *The units that were not measured yet.* Those that were armed in turn are an even sample of
//!   the target, so their mean and variance stand for the rest. Units that were armed out of turn,
//!   because something near them changed, are no such sample and do not count for that. A unit
//!   that was measured for a shorter span has as many pages at least. What the longer span adds is
//!   estimated in the same way. (Idle units are known first, since nothing has to be made old in
//!   them. If they stood for all of the rest, ten seconds would begin with half of the truth.)
//!   Units differ in size: of most libraries few pages are mapped. So shares of pages are taken
//!   from the sample, and not numbers. A first look that comes late tells hardly anything of the
//!   shortest span. Then the unit has those pages of the next longer one that others have on
//!   average. Only if there are too few others, the line from zero to that look is taken.
//! * *Pages that could not be made old*, since others map them, too, or they are locked. As much of
//!   them may be touched as of the rest, or nothing, or all.
//! * *What was mapped within the span.* Mapping a page touches it, as when a program fills its
//!   memory at the start. Whether it is used from then on, the next turn tells. Until then the
//!   lower end is without such pages.
//! * *What has just woken up.* Where one page was asked whether that is touched all the time, the
//!   others are taken to be touched as often. Of the shortest span that is a guess, and the upper
//!   end has all of them.
//! * *What nobody has thought of.* Looks are a little early or late, and pages come and go. On
//!   real memory the numbers of most workloads are wrong by up to 1 %, in no direction, however
//!   well their parts agree (job `accuracy`).
//! * *Touches that were lost* because others clear accessed bits, too; see `lost`. They widen the
//!   upper end only.
//!
//! Invariant: the sums are those of the units, so a unit is taken out before it changes and put
//! back afterwards. Looks that come late are told with a doubt, see `planes`.

use super::cross::SEEN;
use super::curve::{Drifted, Lines, Pages, SIGMAS, Turned};
use super::lost::Exposed;
use super::unit::Unit;
use crate::addr::PAGE_SIZE;
use crate::interval::float;
use crate::ops::ClearRate;
use crate::snapshot::{SPANS, Touched, TouchedBytes};
use crate::unit::UNIT;

/// One page in so many tells of the others.
const FEWEST: u64 = 32;
/// From this span on, what has changed only widens the interval. For ten seconds after a change,
/// what was touched within ten seconds is what was used before and what is used now. Turns show
/// that for longer than it lasts.
const TRAILING: usize = 3;
/// The least doubt on each side, as a share of the number.
const LEAST_DOUBT: f64 = 0.01;

/// A sample of units.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
struct Sample {
    units: u64,
    /// Pages that are mapped.
    size: u64,
    pages: u64,
    /// The sum of the squares of the units' numbers of pages.
    squares: u64,
}

impl Sample {
    const fn of(size: u64, pages: u64) -> Self {
        Self { units: 1, size, pages, squares: pages * pages }
    }

    /// The share of the pages that were touched.
    fn share(&self) -> f64 {
        float(self.pages) / float(self.size.max(1))
    }

    /// How many pages are mapped in so many other units, in which the target has so many pages. Of
    /// a large area that a program keeps for later hardly any are.
    fn likely(&self, [units, pages]: [u64; 2]) -> u64 {
        (self.size * units).checked_div(self.units).map_or(pages, |likely| likely.min(pages))
    }

    const fn numbers(&mut self) -> [&mut u64; 4] {
        [&mut self.units, &mut self.size, &mut self.pages, &mut self.squares]
    }
}

/// The sums of one span.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
struct Sum {
    /// Units that were measured, the pages that the target has in them, and those that are mapped.
    units: u64,
    watched: u64,
    size: u64,
    /// Pages that were touched.
    pages: u64,
    /// Four times the variances of the units' numbers of pages.
    doubt: u64,
    /// The units that were armed in turn.
    in_turn: Sample,
    /// Those of them that were measured for a shorter span, too: the pages that this span adds.
    grown: Sample,
    /// Units that were measured for a shorter span only: number, size, pages touched in it.
    shorter: [u64; 3],
    /// Units that were measured for the next longer span and for no shorter one: number, size,
    /// pages touched in it. And of those that were armed in turn and measured for both, the pages
    /// of the longer one, and those of them that were not touched in this one.
    longer: [u64; 3],
    missed: Sample,
    /// Pages that were mapped within the span.
    came: u64,
    /// Pages that may be touched besides, where one page has told of many.
    guessed: u64,
    /// By how many the number may be wrong in the same direction everywhere, since looks were late.
    either: u64,
    /// Pages of all units that could not be made old. They do not count for the sizes above.
    stuck: u64,
    /// Units that have changed since their turn.
    expected: u64,
    /// Of the pages, those that bursts have been found to touch.
    bursts: u64,
    /// What others may have hidden.
    exposed: Exposed,
}

impl Sum {
    /// What one unit adds to a span.
    fn of(unit: &Unit, nr: usize) -> Self {
        let planes = unit.planes();
        if let Some(count) = planes.counted(nr).filter(|_| !planes.is_late(nr)) {
            return Self::measured(unit, nr, count);
        }
        let stuck = unit.nr_stuck();
        let before = shorter(unit, nr);
        let only = |pages: Option<u64>| pages.map_or([0; 3], |n| [1, unit.size() - stuck, n]);
        let longer = planes.counted(nr + 1).filter(|_| before.is_none());
        Self { shorter: only(before), longer: only(longer), stuck, ..Self::default() }
    }

    /// The same, if so many of its pages were counted.
    fn measured(unit: &Unit, nr: usize, count: u64) -> Self {
        let (planes, stuck) = (unit.planes(), unit.nr_stuck());
        let size = unit.size() - stuck;
        let doubt = match (planes.apart(nr), planes.counted(nr + 1)) {
            (Some(apart), _) => 2 * apart * apart,
            (None, Some(longer)) => longer.saturating_sub(count).pow(2),
            (None, None) => 0,
        };
        let in_turn = |sample: Option<Sample>| sample.filter(|_| unit.in_turn).unwrap_or_default();
        // One span may have been measured in an earlier turn than the other.
        let grown = |before: u64| Sample::of(size, count.saturating_sub(before));
        let missed = |longer: u64| Sample::of(longer, longer.saturating_sub(count));
        Self {
            units: 1,
            watched: unit.pages.count() - stuck,
            size,
            pages: count,
            came: planes.came(nr),
            guessed: planes.guessed(nr),
            either: planes.either(nr),
            stuck,
            expected: planes.is_expected(nr).into(),
            bursts: if nr == 0 { unit.in_bursts() } else { 0 },
            doubt,
            in_turn: in_turn(Some(Sample::of(size, count))),
            grown: in_turn(shorter(unit, nr).map(grown)),
            missed: in_turn(planes.counted(nr + 1).map(missed)),
            exposed: Exposed::of(unit, nr, count),
            ..Self::default()
        }
    }

    /// Whether units that were measured for both spans tell what those measured for the next
    /// longer one only have of this one.
    const fn tells_of_longer(&self) -> bool {
        self.missed.size * FEWEST >= self.longer[2]
    }

    /// Adds what `other` has, or takes it away.
    fn change(&mut self, other: &Self, sign: i64) {
        let change = |a: &mut u64, b: u64| *a = a.wrapping_add_signed(sign * b.cast_signed());
        change(&mut self.units, other.units);
        change(&mut self.watched, other.watched);
        change(&mut self.size, other.size);
        change(&mut self.pages, other.pages);
        change(&mut self.doubt, other.doubt);
        change(&mut self.came, other.came);
        change(&mut self.guessed, other.guessed);
        change(&mut self.either, other.either);
        change(&mut self.stuck, other.stuck);
        change(&mut self.expected, other.expected);
        change(&mut self.bursts, other.bursts);
        for (sample, mut other) in [
            (&mut self.in_turn, other.in_turn),
            (&mut self.grown, other.grown),
            (&mut self.missed, other.missed),
        ] {
            sample.numbers().into_iter().zip(other.numbers()).for_each(|(a, b)| change(a, *b));
        }
        self.shorter.iter_mut().zip(other.shorter).for_each(|(a, b)| change(a, b));
        self.longer.iter_mut().zip(other.longer).for_each(|(a, b)| change(a, b));
        self.exposed.pairs(&other.exposed).for_each(|(a, b)| change(a, b));
    }

    /// What the turns have counted, for a target of `all` units and this size.
    fn counted(&self, (all, size): (u64, u64), span: usize, lines: &Lines<'_>) -> Option<Counted> {
        if self.units == 0 {
            return None;
        }
        let [shorter, shorter_size, in_shorter] = self.shorter;
        let is_told = self.tells_of_longer();
        let [longer, longer_size, in_longer] = if is_told { self.longer } else { [0; 3] };
        let left = all.saturating_sub(self.units + shorter + longer);
        let left_size = size.saturating_sub(self.size + shorter_size + longer_size);
        let rest = Rest::of(left, left_size, &self.in_turn);
        let grown = Rest::of(shorter, shorter_size, &self.grown);
        let missed = Rest::of(longer, in_longer, &self.missed);
        let mean = float(self.pages + in_shorter + in_longer) + rest.pages + grown.pages;
        let of_rest = rest.variance + grown.variance + missed.variance;
        let doubt = float(self.doubt) / 4.0 * lines.together(span) + of_rest;
        let sum = Pages { mean: mean - missed.pages, sigma: libm::sqrt(doubt) };
        let unseen = rest.unseen + grown.unseen;
        let counted = Counted { turned: Turned::of(sum), doubt, unseen, gone: 0.0 };
        Some(counted.drifted(span, &lines.drifts[span].told(self.units)))
    }

    /// The estimate for a target of `all` units and this size, if others clear bits so often.
    fn estimate(
        &self,
        (all, size): (u64, u64),
        watched: u64,
        others: &ClearRate,
        lines: (usize, &Lines<'_>),
    ) -> Option<TouchedBytes> {
        let (span, lines) = lines;
        let counted = self.counted((all, size), span, lines)?;
        let Counted { turned: Turned { now, .. }, doubt, unseen, gone } = counted;
        let Pages { mean: pages, sigma } = now;
        // The rest is taken to be like what was measured, in what is lost and what is late as well.
        let scale = float(all.max(1)) / float(self.units);
        let (stuck, either) = (float(self.stuck), float(self.either) * scale);
        let lost = self.exposed.most(others);
        let hidden =
            lost.pages * scale + SIGMAS * (libm::sqrt(doubt + lost.variance * scale) - sigma);
        // After a change the turns tell what was.
        let is_stale = self.expected > 0 && !lines.is_passing;
        let told = lines.told(span, size.saturating_sub(self.stuck), now);
        let told = told.filter(|_| !is_stale);
        let (lo, hi) = told.map_or(now.interval(), |told| (told.lo, told.hi));
        let pages = told.map_or(pages, |told| {
            // Of what comes in bursts, no less is touched than the line says.
            let in_bursts = told.is_line && self.bursts * 2 > self.pages;
            if in_bursts { told.mean.max(pages) } else { told.mean }
        });
        let (lo, hi) = (lo - pages * LEAST_DOUBT, hi + pages * LEAST_DOUBT);
        let bytes = |pages: f64| whole(pages * float(PAGE_SIZE)).min(watched);
        // What is not there is not touched, whatever the rest looks like.
        let there = |pages: f64| bytes(pages.min(float(size)));
        Some(TouchedBytes {
            bytes: there(pages),
            lo: there(lo - float(self.came) - either - gone - stuck * self.in_turn.share()),
            hi: bytes(hi + hidden + float(self.guessed) + either + unseen + stuck),
            measured: self.watched * PAGE_SIZE,
        })
    }
}

/// What the turns have counted of a span.
struct Counted {
    turned: Turned,
    /// The variance of what is known now.
    doubt: f64,
    /// Pages that there may be besides, and that may be there no more.
    unseen: f64,
    gone: f64,
}

impl Counted {
    /// With what has changed since the turns.
    fn drifted(mut self, span: usize, by: &Drifted) -> Self {
        // Two turns of the same unit differ by twice their variance if nothing has changed.
        self.doubt += (by.noise - 2.0 * self.doubt).max(0.0);
        let now = &mut self.turned.now;
        let mut moved = 0.0;
        if span < TRAILING {
            self.doubt += by.variance;
            moved = by.pages;
        }
        now.mean = (now.mean + moved).max(0.0);
        self.unseen += (by.most - moved).max(0.0);
        self.gone += (moved - by.most).max(0.0);
        now.sigma = libm::sqrt(self.doubt);
        self
    }
}

/// What follows from a sample of units for those that are not known.
struct Rest {
    pages: f64,
    variance: f64,
    /// Pages that there may be besides. Of a sample without any unit, nothing follows.
    unseen: f64,
}

impl Rest {
    /// For so many units with so many pages. Pages without a unit of their own are parts of units
    /// that were measured.
    fn of(units: u64, size: u64, sample: &Sample) -> Self {
        let nr = float(sample.units.max(1));
        let mean = float(sample.pages) / nr;
        let each = (float(sample.squares) / nr - mean * mean).max(0.0);
        let unseen = if sample.units == 0 { float(size) } else { 0.0 };
        let units = float(units.max(size.div_ceil(UNIT / PAGE_SIZE)));
        // How large these units are, in those of the sample.
        let each_size = float(size) / units.max(1.0);
        let scale = if sample.size == 0 { 1.0 } else { each_size * nr / float(sample.size) };
        let variance = units * each * scale * scale * (1.0 + units / nr);
        Self { pages: units * mean * scale, variance, unseen }
    }
}

/// The sums over the units of one target.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Sums {
    spans: [Sum; SPANS],
    /// What is added to those of the shortest span if late looks are taken as they are.
    late: Sum,
    /// Pages that are mapped, of the units that were looked at.
    size: u64,
    /// Units that were never looked at, and the pages that the target has in them.
    unknown: [u64; 2],
    /// Whether neither these nor what else is known of the spans has changed since that was told.
    pub(super) are_told: bool,
}

impl Sums {
    pub(super) fn add(&mut self, unit: &Unit) {
        self.change(unit, 1);
    }

    pub(super) fn take_out(&mut self, unit: &Unit) {
        self.change(unit, -1);
    }

    fn change(&mut self, unit: &Unit, sign: i64) {
        let change = |a: &mut u64, b: u64| *a = a.wrapping_add_signed(sign * b.cast_signed());
        self.are_told = false;
        if !unit.known {
            let [units, pages] = &mut self.unknown;
            change(units, 1);
            change(pages, unit.size());
            return;
        }
        change(&mut self.size, unit.size());
        for (nr, sum) in self.spans.iter_mut().enumerate() {
            let of_unit = Sum::of(unit, nr);
            sum.change(&of_unit, sign);
            if let Some(count) = unit.planes().counted(nr).filter(|_| unit.planes().is_late(nr)) {
                self.late.change(&Sum::measured(unit, nr, count), sign);
                self.late.change(&of_unit, -sign);
            }
        }
    }

    /// The working set of a target of `all` units, of which `watched` bytes are watched, if others
    /// clear accessed bits so often.
    pub(super) fn touched(
        &self,
        all: usize,
        watched: u64,
        others: &ClearRate,
        lines: &Lines<'_>,
    ) -> Touched {
        let of = |nr: usize| {
            let all = (all as u64, self.size_of(nr));
            self.sum(nr).estimate(all, watched, others, (nr, lines))
        };
        Touched { spans: core::array::from_fn(of), watched }
    }

    /// The sums of a span. Late looks are taken as they are if hardly any others came.
    fn sum(&self, nr: usize) -> Sum {
        let mut sum = self.spans[nr];
        if nr == 0 && !sum.tells_of_longer() {
            sum.change(&self.late, 1);
        }
        sum
    }

    /// How many pages are mapped, as far as the units that were measured for a span tell.
    fn size_of(&self, span: usize) -> u64 {
        self.size + self.spans[span].in_turn.likely(self.unknown)
    }

    /// What the turns have counted within the spans that cross-sections tell as well, in a target
    /// of `all` units; and of how many pages.
    pub(super) fn counted(
        &self,
        all: usize,
        lines: &Lines<'_>,
    ) -> ([Option<Turned>; SEEN.len()], u64) {
        let of = |nr: usize| self.spans[nr].counted((all as u64, self.size_of(nr)), nr, lines);
        let first = SEEN[0];
        let size = self.size_of(first).saturating_sub(self.spans[first].stuck);
        (SEEN.map(|nr| Some(of(nr)?.turned)), size)
    }

    /// The largest share of the touched pages, over all spans, that others probably hide.
    pub(super) fn hidden(&self, others: &ClearRate) -> f64 {
        let shares = self.spans.iter().map(|sum| {
            let lost = sum.exposed.mean(others).pages;
            lost / (lost + float(sum.pages)).max(1.0)
        });
        shares.fold(0.0, f64::max)
    }
}

/// The pages of a unit that were touched within a shorter span than this one, as far as is known.
fn shorter(unit: &Unit, nr: usize) -> Option<u64> {
    let planes = unit.planes();
    (0..nr).rev().find_map(|nr| planes.counted(nr).filter(|_| !planes.is_late(nr)))
}

#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "not below 0")]
fn whole(x: f64) -> u64 {
    libm::round(x.max(0.0)) as u64
}

#[cfg(test)]
mod tests {
    use super::super::curve::NO_LINES;
    use super::*;
    use crate::target::TargetId;
    use crate::time::Time;
    use crate::unit::{PageBits, UnitCheck};

    /// A sample of whole units.
    fn sample(units: u64, each: u64) -> Sample {
        Sample { units, size: units * 512, pages: units * each, squares: units * each * each }
    }

    fn sum(units: u64, each: u64, doubt: u64) -> Sum {
        let (pages, watched) = (units * each, units * 512);
        let (in_turn, grown) = (sample(units, each), sample(units, 0));
        Sum { units, watched, size: watched, pages, doubt, in_turn, grown, ..Sum::default() }
    }

    #[test]
    fn what_is_measured_is_exact_and_what_is_not_is_estimated() {
        for (name, sum, all, mib) in [
            ("nothing measured", Sum::default(), 10, None),
            ("all measured", sum(100, 256, 0), 100, Some((100.0, 100.0, 100.0))),
            ("half measured, all alike", sum(50, 256, 0), 100, Some((100.0, 100.0, 100.0))),
            // A standard deviation of 256 pages, 1 MiB.
            ("doubt", sum(100, 256, 4 * 256 * 256), 100, Some((100.0, 98.355, 101.645))),
            (
                "ten idle units, and ten of which one second is known",
                Sum { shorter: [10, 10 * 512, 10 * 512], ..sum(10, 0, 0) },
                20,
                Some((20.0, 20.0, 20.0)),
            ),
            (
                "a second is known, and not what ten seconds add",
                Sum {
                    shorter: [10, 10 * 512, 10 * 256],
                    grown: Sample::default(),
                    ..sum(10, 0, 0)
                },
                20,
                Some((10.0, 10.0, 30.0)),
            ),
            (
                "ten seconds add half a unit to each",
                Sum {
                    shorter: [10, 10 * 512, 10 * 256],
                    grown: sample(10, 256),
                    ..sum(10, 512, 0)
                },
                20,
                Some((40.0, 40.0, 40.0)),
            ),
            (
                "out of turn",
                Sum { in_turn: Sample::default(), ..sum(10, 512, 0) },
                20,
                Some((20.0, 20.0, 40.0)),
            ),
        ] {
            let got =
                sum.estimate((all, all * 512), all * UNIT, &ClearRate::default(), (2, &NO_LINES));
            let got = got.map(|t| [t.bytes, t.lo, t.hi].map(|b| float(b) / 1024.0 / 1024.0));
            let near = match (got, mib) {
                (Some(got), Some((a, b, c))) => {
                    let (least, most) = (a * LEAST_DOUBT, float(all * 2));
                    let wanted = [a, b - least, most.min(c + least)];
                    got.iter().zip(wanted).all(|(x, y)| (x - y).abs() < 0.01)
                }
                (got, mib) => got.is_none() && mib.is_none(),
            };
            assert!(near, "{name}: {got:?}");
        }
    }

    #[test]
    fn of_a_unit_that_was_looked_at_late_its_longer_span_tells() {
        // Of twenty units ten were looked at in time: five are idle, and five are hot, of which
        // nearly all is touched in the shorter span. The other ten are hot, or idle.
        let missed = Sample { units: 10, size: 5 * 512, pages: 5 * 12, squares: 5 * 12 * 12 };
        for (name, in_longer, pages) in [("hot", 10 * 512, 15 * 500), ("idle", 0, 5 * 500)] {
            let longer = [10, 10 * 512, in_longer];
            let sum = Sum { longer, missed, pages: 5 * 500, ..sum(10, 250, 0) };
            let got =
                sum.estimate((20, 20 * 512), 20 * UNIT, &ClearRate::default(), (0, &NO_LINES));
            let got = got.unwrap();
            assert_eq!(got.bytes / PAGE_SIZE, pages, "{name}");
            let least = float(got.bytes) * LEAST_DOUBT * 2.0;
            let width = (float(got.hi - got.lo) - least) / float(PAGE_SIZE);
            assert!((in_longer == 0) == (width < 2.0) && width < 200.0, "{name}: {width}");
        }
    }

    #[test]
    fn no_more_is_touched_than_is_there() {
        // Ten units, all of them touched, of twenty; and there are pages for fifteen.
        let sum = Sum { in_turn: sample(10, 1024), ..sum(10, 512, 0) };
        let size = 15 * 512;
        let got =
            sum.estimate((20, size), 20 * UNIT, &ClearRate::default(), (2, &NO_LINES)).unwrap();
        assert_eq!([got.bytes, got.lo].map(|b| b / PAGE_SIZE), [size; 2]);
        assert!(got.hi / PAGE_SIZE >= size);
    }

    #[test]
    fn pages_that_were_mapped_within_the_span_may_not_be_used_any_more() {
        let filled = Sum { came: 10 * 500, ..sum(10, 512, 0) };
        let got = filled
            .estimate((10, 10 * 512), 10 * UNIT, &ClearRate::default(), (2, &NO_LINES))
            .unwrap();
        let pages = [got.bytes, got.lo, got.hi].map(|b| b / PAGE_SIZE);
        assert_eq!(pages, [10 * 512, 10 * 12 - 52, 10 * 512], "and a hundredth");
    }

    #[test]
    fn of_pages_that_cannot_be_made_old_none_or_all_may_be_touched() {
        // Half of each of ten units. An eighth of the rest is touched.
        let (units, half) = (10, 256);
        let in_turn = Sample::of(half, 32);
        let in_turn = Sample {
            units,
            size: units * in_turn.size,
            pages: units * in_turn.pages,
            squares: units * in_turn.squares,
        };
        let (size, stuck) = (in_turn.size, units * half);
        let sum = Sum { size, watched: size, pages: 320, stuck, in_turn, ..sum(units, 0, 0) };
        let got = sum
            .estimate((units, units * 512), units * UNIT, &ClearRate::default(), (2, &NO_LINES))
            .unwrap();
        let pages = [got.bytes, got.lo, got.hi, got.measured].map(|b| b / PAGE_SIZE);
        assert_eq!(pages, [640, 320 - 7, 640 + stuck + 6, size], "and a hundredth");
    }

    #[test]
    #[cfg_attr(miri, ignore = "minutes")]
    fn of_an_area_that_is_hardly_mapped_no_more_is_touched_than_is_there() {
        let mut sums = Sums::default();
        let there = PageBits::of(0, crate::addr::AddrRange::new(0, 8 * PAGE_SIZE));
        for nr in 0..1000 {
            let mut unit = Unit::new(nr * UNIT, PageBits::ALL, Time(0));
            // One unit in ten was looked at, and of those one in ten has pages, all of them hot.
            if nr % 10 == 0 {
                let present = if nr % 100 == 0 { there } else { PageBits::default() };
                let check = UnitCheck {
                    answered: true,
                    present,
                    young: present,
                    ..UnitCheck::new(TargetId(1), unit.start, PageBits::ALL)
                };
                unit.is_turn = true;
                unit.was_armed(&check, Time(0));
                let spans = [5, 100, 1000, 10_000, 60_000].map(|ms| ms * 1_000_000);
                unit.was_looked_at(&check, Time(spans[0]), &spans, false);
            }
            sums.add(&unit);
        }
        let got = sums.touched(1000, 1000 * UNIT, &ClearRate::default(), &NO_LINES);
        let TouchedBytes { bytes, lo, hi, .. } = got.spans[0].unwrap();
        assert_eq!(bytes / PAGE_SIZE, 100 * 8);
        assert!(lo < bytes && hi > bytes && hi / PAGE_SIZE < 3 * 100 * 8, "{lo} {hi}");
    }

    #[test]
    fn small_units_stand_for_what_is_in_them() {
        // Ten units with all pages touched, and ten of one page each, of which nothing is known.
        let got = sum(10, 512, 0).estimate(
            (20, 10 * 512 + 10),
            20 * UNIT,
            &ClearRate::default(),
            (2, &NO_LINES),
        );
        let TouchedBytes { bytes, lo, hi, .. } = got.unwrap();
        assert_eq!(bytes / PAGE_SIZE, 10 * 512 + 10);
        assert_eq!([bytes - lo, hi - bytes].map(|b| b / PAGE_SIZE), [51; 2], "a hundredth");
        let nothing_there = sum(10, 512, 0).estimate(
            (20, 10 * 512),
            u64::MAX,
            &ClearRate::default(),
            (2, &NO_LINES),
        );
        assert_eq!(nothing_there.unwrap().bytes / PAGE_SIZE, 10 * 512);
    }

    const MS: u64 = 1_000_000;
    const SPANS_NS: [u64; SPANS] = [5 * MS, 100 * MS, 1000 * MS, 10_000 * MS, 60_000 * MS];

    /// A unit that was made old after a second, and looked at at these times, in ms, if `young` of
    /// its pages are in use.
    fn looked_at(nr: u64, is_turn: bool, young: impl Fn(u64) -> u64, at_ms: &[u64]) -> Unit {
        let mut unit = Unit::new(nr * UNIT, PageBits::ALL, Time(0));
        let of = |pages: u64| UnitCheck {
            answered: true,
            present: PageBits::ALL,
            young: PageBits::of(0, crate::addr::AddrRange::new(0, pages * PAGE_SIZE)),
            ..UnitCheck::new(TargetId(1), nr * UNIT, PageBits::ALL)
        };
        if is_turn {
            unit.is_turn = true;
            unit.was_armed(&of(512), Time(1000 * MS));
        }
        for ms in at_ms {
            unit.was_looked_at(&of(young(ms - 1000)), Time(ms * MS), &SPANS_NS, false);
        }
        unit
    }

    #[test]
    fn a_first_look_that_was_late_says_as_much_of_a_sample_as_others_do() {
        let (hot, swept) = (|_: u64| 512_u64, |ms: u64| (ms * 512 / 128).min(512));
        let every = |part: u64| move |nr: u64| nr.is_multiple_of(part);
        for (name, young, is_late, pages) in [
            ("hot", &hot as &dyn Fn(u64) -> u64, &every(2) as &dyn Fn(u64) -> bool, [512; 3]),
            ("passed by", &swept, &every(2), [20; 3]),
            ("hot, and all were late", &hot, &every(1), [398, 284, 512]),
            ("passed by, and all were late", &swept, &every(1), [20, 8, 36]),
        ] {
            let mut sums = Sums::default();
            for nr in 0..40 {
                let first = if is_late(nr) { 1009 } else { 1005 };
                let unit = looked_at(nr, true, young, &[first, 1100]);
                sums.add(&unit);
                sums.take_out(&unit);
                sums.add(&unit);
            }
            let got = sums.touched(40, 40 * UNIT, &ClearRate::default(), &NO_LINES);
            let TouchedBytes { bytes, lo, hi, .. } = got.spans[0].unwrap();
            let [bytes, lo, hi] = [bytes, lo, hi].map(|bytes| bytes / PAGE_SIZE / 40);
            assert!(bytes.abs_diff(pages[0]) <= 1, "{name}: {bytes}");
            assert!(lo <= pages[1] && pages[2] <= hi, "{name}: {lo} {hi}");
        }
    }

    /// Looks find idle units long before all that is hot was armed. That is no even sample.
    #[test]
    fn idle_units_that_looks_have_found_do_not_stand_for_what_is_not_known() {
        let mut sums = Sums::default();
        for nr in 0..40_u64 {
            // Half of the units are idle. Of the others a quarter was armed.
            let young = |_| if nr < 20 { 0 } else { 512 };
            let is_turn = (20..25).contains(&nr);
            sums.add(&looked_at(nr, is_turn, young, &[1000, 1005, 1100, 2000]));
        }
        let got = sums.touched(40, 40 * UNIT, &ClearRate::default(), &NO_LINES).spans[2].unwrap();
        assert_eq!((got.bytes / UNIT, got.measured / UNIT), (20, 25), "{got:?}");
    }
}
