//! How soon pages are touched after a turn: the working set over ever longer times.
//!
//! When it is a unit's turn has nothing to do with what happens in it. So where memory is used in
//! the same way all the time, the share `F(t)` of pages that are touched within `t` after a turn is
//! concave: ever fewer pages are touched for the first time. (`F` is the distribution of the time
//! until the next touch, seen from a random time. Its density never rises.)
//!
//! What is touched within a short span may be a few events that come by chance. Where a pointer
//! goes over 1 GiB in 5 s, ten of 512 units are touched in 0.1 s, and each time they are counted
//! their number is another one, by a third. Within 3 s there are 307, known to a few percent. As
//! long as `F` is a straight line, as far as can be seen, the short span is its share of the long
//! one:
//!
//! ```text
//! touched within 0.1 s = touched within 3 s * 0.1 / 3           (gone over, and nothing hot)
//!                      = a + (b - a) * (0.1 - 0.005) / (3 - 0.005)   (a within a sample, b in 3 s)
//! ```
//!
//! Invariants: only turns are counted, one per unit, so all units have the same weight. A line is
//! taken only if no point between contradicts it. Absent: anything that changes.

mod drift;

pub(super) use self::drift::{Drift, Drifted};
use super::cross::Cross;
use super::planes::{FirstLook, Seen, is_over};
use super::unit::Unit;
use crate::snapshot::SPANS;
use crate::time::Time;

/// Times after a turn at which pages are counted, in ns, beside the sample and the window.
const LATER_NS: [u64; 12] = [
    150_000_000,
    200_000_000,
    300_000_000,
    500_000_000,
    700_000_000,
    1_000_000_000,
    1_500_000_000,
    2_000_000_000,
    3_000_000_000,
    5_000_000_000,
    7_000_000_000,
    10_000_000_000,
];
/// All of them.
const POINTS: usize = 2 + LATER_NS.len();
/// All points, one bit each.
pub(super) const ALL: u16 = (1 << POINTS) - 1;
/// Standard deviations on each side of a 90 % interval.
pub(super) const SIGMAS: f64 = 1.645;
/// Standard deviations that chance explains.
const CHANCE: f64 = 2.0;
/// The same of cross-sections, whose deviation is told from a few numbers.
const SURE: f64 = 3.0;
/// Of so few events nearly all may have been missed by chance.
const FEW: f64 = 3.0;
/// The grain of [`Course::ahead`], in parts of a page.
const GRAIN: u64 = 16;
/// A point is used if so many of ten pages were counted there.
const MOST: i64 = 9;

/// The time of a point; none if it is no longer than a window.
fn time(nr: usize, spans: &[u64; SPANS]) -> Option<u64> {
    match nr {
        0 | 1 => spans.get(nr).copied(),
        _ => LATER_NS.get(nr - 2).copied().filter(|ns| *ns > spans[1]),
    }
}

/// What was touched in the last turns of one unit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Course {
    /// One bit per point: whether it is still to be counted in this turn; was counted; twice.
    open: u16,
    counted: u16,
    twice: u16,
    /// Pages of the unit that can be made old.
    size: u16,
    /// By point: pages touched by then, and by how many the turn before differed.
    pages: [u16; POINTS],
    apart: [i16; POINTS],
    /// How many more pages were touched within the sample than their share of those touched within
    /// the window, in parts of a page ([`GRAIN`]).
    ahead: i16,
}

fn number(pages: u64) -> u16 {
    u16::try_from(pages).unwrap_or(u16::MAX)
}

impl Course {
    /// A turn begins.
    pub(super) const fn begin_turn(&mut self) {
        self.open = ALL;
    }

    /// Whether a look so long after the turn would tell something of a point.
    pub(super) fn is_over(&self, elapsed_ns: u64, spans: &[u64; SPANS]) -> bool {
        let is_over = |at| is_over(elapsed_ns, at, spans);
        let mut open = (0..POINTS).filter(|nr| self.open >> nr & 1 == 1);
        self.open != 0 && open.any(|nr| time(nr, spans).is_some_and(is_over))
    }

    /// A look has found these pages touched since the turn, of so many. `first`: the first look
    /// of the turn. Returns the points of which that tells something, one bit each.
    pub(super) fn take(
        &mut self,
        (since, first): (Time, FirstLook),
        seen: &Seen,
        size: u64,
        spans: &[u64; SPANS],
    ) -> u16 {
        let (elapsed, open) = (seen.now.since(since), self.open);
        for nr in 0..POINTS {
            let bit = 1 << nr;
            let at = time(nr, spans).filter(|_| open & bit != 0);
            let Some(at) = at.filter(|at| is_over(elapsed, *at, spans)) else { continue };
            self.open &= !bit;
            let Some(pages) = seen.by(since, at) else { continue };
            if self.counted & bit != 0 {
                self.twice |= bit;
                self.apart[nr] = pages.wrapping_sub(self.pages[nr]).cast_signed();
            }
            self.counted |= bit;
            self.pages[nr] = pages;
            if nr == 1 && self.open & 1 == 0 {
                self.pages[0] = first.corrected(pages, since).unwrap_or(self.pages[0]);
            }
        }
        let told = self.open ^ open;
        if told & 0b11 != 0 && self.counted & 0b11 == 0b11 {
            let share = u64::from(self.pages[1]) * GRAIN * spans[0] / spans[1].max(1);
            let ahead = i64::from(self.pages[0]) * GRAIN.cast_signed() - share.cast_signed();
            self.ahead = i16::try_from(ahead).unwrap_or(i16::MAX);
        }
        if told != 0 && self.size != number(size) {
            // It counts at all points.
            self.size = number(size);
            return ALL;
        }
        // After one turn, the doubt of a point is what came until the next one.
        told | told >> 1
    }

    /// Pages touched within one of the spans, as its turns have shown.
    pub(super) fn within(&self, span: usize, spans: &[u64; SPANS]) -> Option<u64> {
        let nr = (0..POINTS).find(|nr| time(*nr, spans) == spans.get(span).copied())?;
        (self.counted >> nr & 1 == 1).then(|| self.pages[nr].into())
    }

    /// By how many pages the last two turns differ, and whether there were two. After one turn, it
    /// may be what came soon after: that may as well have come before.
    fn differs(&self, nr: usize) -> (i64, bool) {
        let is_known = |bits: u16, nr: usize| bits >> nr & 1 == 1;
        if is_known(self.twice, nr) {
            return (self.apart[nr].into(), true);
        }
        let more = if is_known(self.counted, nr + 1) {
            i64::from(self.pages[nr + 1]) - i64::from(self.pages[nr])
        } else {
            0
        };
        (more, false)
    }
}

/// The sums of one point over units.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
struct Sum {
    size: i64,
    pages: i64,
    /// Twice the variance of the pages; and if units did not depend on each other.
    doubt: i64,
    alone: i64,
    /// The pages by which turns differ, and their squares.
    apart: i64,
    squares: i64,
    /// Chunks of which more pages were touched within the sample than their share of those touched
    /// within the window, less those of which fewer were; and both together.
    ahead: i64,
    differ: i64,
}

impl Sum {
    /// Of units that mostly have their turns together, so that what happens in one of them when it
    /// is its turn often happens in all.
    fn of<'a>(chunk: impl Iterator<Item = &'a Course>, nr: usize) -> Self {
        let (mut sum, mut twice, mut once) = (Self::default(), 0, 0);
        for course in chunk.filter(|course| course.counted >> nr & 1 == 1) {
            sum.ahead += i64::from(course.ahead);
            sum.size += i64::from(course.size);
            sum.pages += i64::from(course.pages[nr]);
            match course.differs(nr) {
                (apart, true) => {
                    twice += apart;
                    sum.alone += apart * apart;
                }
                (more, false) => {
                    once += more;
                    sum.alone += more * more / 2;
                }
            }
        }
        sum.doubt = twice * twice + once * once / 2;
        sum.apart = twice.abs() + once.abs();
        sum.squares = sum.apart * sum.apart;
        sum.ahead = sum.ahead.signum();
        sum.differ = sum.ahead.abs();
        sum
    }

    fn numbers(&mut self) -> [&mut i64; 8] {
        let Self { size, pages, doubt, alone, apart, squares, ahead, differ } = self;
        [size, pages, doubt, alone, apart, squares, ahead, differ]
    }
}

/// The sums over the units of one target.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Curve([Sum; POINTS]);

/// A point of a curve.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
struct Point {
    /// The time since the turn, in ns.
    at: f64,
    pages: Pages,
    /// Whether cross-sections tell it, and not turns.
    is_sure: bool,
}

impl Curve {
    /// Adds a chunk of units to these points.
    pub(super) fn add(&mut self, chunk: &[Unit], points: u16) {
        self.change(chunk, points, 1);
    }

    pub(super) fn take_out(&mut self, chunk: &[Unit], points: u16) {
        self.change(chunk, points, -1);
    }

    fn change(&mut self, chunk: &[Unit], points: u16, sign: i64) {
        let sums = self.0.iter_mut().enumerate();
        for (nr, sum) in sums.filter(|(nr, _)| points >> nr & 1 == 1) {
            let mut of_chunk = Sum::of(chunk.iter().map(|unit| &unit.course), nr);
            let both = sum.numbers().into_iter().zip(of_chunk.numbers());
            both.for_each(|(a, b)| *a += sign * *b);
        }
    }

    /// Whether more than half of the chunks were touched sooner than at an even speed, and chance
    /// does not explain that. Of what passes by, most are touched later.
    fn is_bent(&self) -> bool {
        let Sum { ahead, differ, .. } = self.0[0];
        float(ahead) > CHANCE * libm::sqrt(float(differ))
    }

    /// The points of a target of `size` pages, as far as they are known, and how many pages come
    /// at once there.
    fn points(&self, size: u64, spans: &[u64; SPANS]) -> impl Iterator<Item = (Point, f64)> {
        self.0.iter().enumerate().filter_map(move |(nr, sum)| {
            let at = time(nr, spans)?;
            if sum.size == 0 || sum.size * 10 < size.cast_signed() * MOST {
                return None;
            }
            let scale = float(size.cast_signed()) / float(sum.size);
            let pages = Pages {
                mean: float(sum.pages) * scale,
                sigma: libm::sqrt(float(sum.doubt) / 2.0) * scale,
            };
            let at_once = float(sum.squares) / float(sum.apart.max(1));
            Some((Point { at: float(at.cast_signed()), pages, is_sure: false }, at_once))
        })
    }
}

/// What the curve of a target tells about its spans.
#[derive(Debug, Clone, Copy)]
pub(super) struct Lines<'a> {
    pub(super) curve: &'a Curve,
    /// The lengths of the spans, in ns.
    pub(super) spans: &'a [u64; SPANS],
    /// Whether what is touched mostly passes by. Then what was counted out of turn is no reason to
    /// doubt the turns.
    pub(super) is_passing: bool,
    /// The cross-sections of the target.
    pub(super) cross: &'a Cross,
    /// How far the turns are out of date, by span.
    pub(super) drifts: &'a [Drift; SPANS],
}

/// What is known of a span beside the sum over turns: a number of pages with its 90 % interval.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Told {
    pub(super) mean: f64,
    pub(super) lo: f64,
    pub(super) hi: f64,
    /// Whether it lies on a straight line.
    pub(super) is_line: bool,
}

/// A number of pages with its standard deviation.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub(super) struct Pages {
    pub(super) mean: f64,
    pub(super) sigma: f64,
}

impl Pages {
    /// Its 90 % interval.
    pub(super) fn interval(self) -> (f64, f64) {
        (self.mean - SIGMAS * self.sigma, self.mean + SIGMAS * self.sigma)
    }

    /// The number without its doubt.
    const fn alone(self) -> Self {
        Self { sigma: 0.0, ..self }
    }

    /// This number of times as many.
    pub(super) fn times(self, by: f64) -> Self {
        Self { mean: self.mean * by, sigma: self.sigma * by }
    }

    /// Whether it is so many standard deviations from another number at most.
    pub(super) fn is_within(self, other: Self, sigmas: f64) -> bool {
        (self.mean - other.mean).abs() <= sigmas * libm::hypot(self.sigma, other.sigma)
    }

    /// Whether it is to be taken in the place of what turns have counted: it is surer, or chance
    /// does not explain both.
    fn is_better(self, counted: Self) -> bool {
        self.sigma < counted.sigma || !self.is_within(counted, CHANCE)
    }
}

/// What turns have counted within a span.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub(super) struct Turned {
    /// Their sum.
    pub(super) sum: Pages,
    /// That, with what has changed since.
    pub(super) now: Pages,
}

impl Turned {
    /// Of turns since which nothing has changed.
    pub(super) const fn of(sum: Pages) -> Self {
        Self { sum, now: sum }
    }

    /// The number now, as sure as the turns are. If that is another one, something has changed.
    pub(super) const fn level(self) -> Pages {
        Pages { sigma: self.sum.sigma, ..self.now }
    }
}

/// Where no turn was counted.
#[cfg(test)]
pub(super) const NO_LINES: Lines<'static> = {
    const NONE: Sum =
        Sum { size: 0, pages: 0, doubt: 0, alone: 0, apart: 0, squares: 0, ahead: 0, differ: 0 };
    const NO_CROSS: Cross = Cross::new();
    const NO_DRIFTS: [Drift; SPANS] = [Drift::NONE; SPANS];
    Lines {
        curve: &Curve([NONE; POINTS]),
        spans: &[1; SPANS],
        is_passing: false,
        cross: &NO_CROSS,
        drifts: &NO_DRIFTS,
    }
};

impl Lines<'_> {
    /// How many times the variance of what is touched within a span is larger since neighbours have
    /// their turns together, at least 1.
    pub(super) fn together(&self, span: usize) -> f64 {
        let is_near = |nr: &usize| time(*nr, self.spans).is_some_and(|at| at >= self.spans[span]);
        let sum = (0..POINTS).find(is_near).map_or(Sum::default(), |nr| self.curve.0[nr]);
        (float(sum.doubt) / float(sum.alone.max(1))).max(1.0)
    }

    /// What is known better of a span than turns have `counted`, in a target of `size` pages: by a
    /// line that cross-sections do not contradict, or by them.
    pub(super) fn told(&self, span: usize, size: u64, counted: Pages) -> Option<Told> {
        let line = self.within(span, size, counted);
        let cross = self.cross.told(span, self.spans, size);
        let better = cross.filter(|cross| cross.is_better(counted));
        let known = [line, better].into_iter().flatten();
        let best = known.min_by(|a, b| a.sigma.total_cmp(&b.sigma));
        let best = best.or_else(|| cross.map(|_| counted))?;
        // The turns have a say where nothing is surer, and cross-sections have one in any case.
        // Where these agree with turns that are surer, how little they know is no doubt of them.
        let has_say = better.is_none_or(|cross| cross.sigma >= counted.sigma);
        let agrees = |cross: &Pages| better.is_none() && cross.is_within(counted.alone(), SIGMAS);
        let cross = cross.map(|cross| if agrees(&cross) { cross.alone() } else { cross });
        let all = [line, cross, has_say.then_some(counted)];
        let intervals = all.into_iter().flatten().map(Pages::interval);
        let wider = |(lo, hi): (f64, f64), (a, b): (f64, f64)| (lo.min(a), hi.max(b));
        let (lo, hi) = intervals.reduce(wider)?;
        Some(Told { mean: best.mean, lo, hi, is_line: line == Some(best) })
    }

    /// The point, or what cross-sections know better of it.
    fn better(&self, point: Point, size: u64) -> Point {
        let span = self.spans.iter().position(|span| float(span.cast_signed()) == point.at);
        let cross = span.and_then(|span| self.cross.told(span, self.spans, size));
        let cross = cross.filter(|cross| cross.is_better(point.pages));
        cross.map_or(point, |pages| Point { pages, is_sure: true, ..point })
    }

    /// The pages touched within a span in a target of `size` pages, if a line up to a longer time
    /// tells. `counted`: what was counted for the span. If chance does not explain that it is not
    /// on the line, something has changed since the turns.
    pub(super) fn within(&self, span: usize, size: u64, counted: Pages) -> Option<Pages> {
        if self.spans[span] >= LATER_NS[LATER_NS.len() - 1] {
            return None;
        }
        let mut all = [Known::default(); POINTS];
        let (mut nr, mut at_once) = (0, 0.0_f64);
        for (turns, pages) in self.curve.points(size, self.spans) {
            all[nr] = Known { turns, best: self.better(turns, size) };
            (nr, at_once) = (nr + 1, at_once.max(pages));
        }
        let points = all.get(..nr)?;
        let chance = Chance { rough: roughness(points.iter().map(|p| p.turns)), at_once };
        let at = float(self.spans[span].cast_signed());
        let counted = (!self.is_passing).then_some(Point { at, pages: counted, is_sure: false });
        // What is hot is touched within the first sample, and adds to each point. It may have
        // changed since the turns, other than what only passes by.
        let hot = counted.is_some().then_some(points.first()?.best);
        let zero = (!self.curve.is_bent()).then_some(Point::default());
        for from in zero.into_iter().chain(hot).filter(|from| from.at < at) {
            let is_straight = |end: &&Known| {
                let between = points.iter().filter(|p| p.best.at < end.best.at);
                let mut between = between.filter(|p| p.best.at > from.at);
                end.best.pages.mean >= from.pages.mean
                    && between.all(|p| p.fits(&from, end, &chance))
                    && counted.iter().all(|p| p.fits(&from, &end.best, &chance))
            };
            let ends = points.iter().filter(|end| end.best.at > at).filter(is_straight);
            let lines = ends.map(|end| from.to(&end.least_sure(&chance), at));
            let best = lines.min_by(|a, b| a.sigma.total_cmp(&b.sigma));
            if best.is_some() {
                return best;
            }
        }
        None
    }
}

/// A point as turns tell it, and the best that is known of it.
#[derive(Debug, Clone, Copy, Default)]
struct Known {
    turns: Point,
    best: Point,
}

impl Known {
    /// Whether it may be on the straight line between these two. Turns that have counted too much
    /// or too little did so at all points alike. So what only they tell is compared with the line
    /// that they tell.
    fn fits(&self, from: &Point, end: &Self, chance: &Chance) -> bool {
        if self.best.is_sure {
            self.best.fits(from, &end.best, chance)
        } else {
            self.turns.fits(from, &end.turns, chance)
        }
    }

    /// The best that is known of it, and no surer than turns are elsewhere.
    fn least_sure(&self, chance: &Chance) -> Point {
        let mut best = self.best;
        if !best.is_sure {
            best.pages.sigma = best.pages.sigma.max(chance.rough / CHANCE);
        }
        best
    }
}

/// How far chance moves the points of a curve, in pages.
#[derive(Debug, Clone, Copy)]
struct Chance {
    /// So far at least, in some point.
    rough: f64,
    /// What comes at once, in some point.
    at_once: f64,
}

/// By how much chance has moved the points of a curve at least, in pages. `F` is concave, so what
/// lies below a line between two other points is there by chance.
fn roughness(points: impl Iterator<Item = Point> + Clone) -> f64 {
    // The points on top, from the origin on: each line is less steep than the one before.
    let (mut top, mut nr) = ([Point::default(); POINTS + 1], 1);
    for point in points.clone() {
        while nr > 1 && top[nr - 2].mean_at(&point, top[nr - 1].at) >= top[nr - 1].pages.mean {
            nr -= 1;
        }
        top[nr] = point;
        nr += 1;
    }
    let mut lines = top[..nr].windows(2).peekable();
    let below = |point: Point| {
        while lines.next_if(|line| line[1].at < point.at).is_some() {}
        let line = lines.peek().map_or(0.0, |line| line[0].mean_at(&line[1], point.at));
        line - point.pages.mean
    };
    points.map(below).fold(0.0, f64::max)
}

impl Point {
    /// What lies on the straight line from here to `end` at a time between.
    fn to(&self, end: &Self, at: f64) -> Pages {
        let part = self.part(end, at);
        let sigma = libm::hypot(part * end.pages.sigma, (1.0 - part) * self.pages.sigma);
        Pages { mean: self.mean_at(end, at), sigma }
    }

    fn mean_at(&self, end: &Self, at: f64) -> f64 {
        self.pages.mean + self.part(end, at) * (end.pages.mean - self.pages.mean)
    }

    fn part(&self, end: &Self, at: f64) -> f64 {
        (at - self.at) / (end.at - self.at)
    }

    /// Whether chance explains that it is not on the straight line between these two. A few events
    /// may have been missed.
    fn fits(&self, from: &Self, end: &Self, chance: &Chance) -> bool {
        let (mean, Pages { mean: here, sigma }) = (from.mean_at(end, self.at), self.pages);
        if self.is_sure {
            return (mean - here).abs() <= SURE * sigma;
        }
        let few = FEW * chance.at_once;
        let missed = if here < few { few } else { 0.0 };
        let by_chance = (CHANCE * sigma).max(chance.rough);
        (here - by_chance..=here + by_chance + missed).contains(&mean)
    }
}

#[expect(clippy::cast_precision_loss, reason = "sums of at most 2^40 pages, for an estimate")]
const fn float(n: i64) -> f64 {
    n as f64
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::unit::{PageBits, UNIT};

    const MS: u64 = 1_000_000;
    const SPANS_NS: [u64; SPANS] = [5 * MS, 100 * MS, 1000 * MS, 10_000 * MS, 60_000 * MS];
    const NR: u64 = 512;

    fn first(pages: u64) -> PageBits {
        PageBits::of(0, crate::addr::AddrRange::new(0, pages * 4096))
    }

    /// The times of all points, in ms.
    fn times() -> impl Iterator<Item = u64> {
        (0..POINTS).filter_map(|nr| time(nr, &SPANS_NS)).map(|ns| ns / MS)
    }

    /// Units that had two turns, the second one after `pages_at` the time between turn and look in
    /// ms, which also gets the number of the unit and of the turn.
    fn curve(pages_at: impl Fn(u64, u64, u64) -> u64) -> Curve {
        let unit = |nr| {
            let mut unit = Unit::new(nr * UNIT, PageBits::ALL, Time(0));
            for turn in 0..2 {
                unit.course.begin_turn();
                for ms in times() {
                    let pages = first(pages_at(nr, turn, ms));
                    let seen = Seen { now: Time(ms * MS), pages, looked: Time(0), before: pages };
                    unit.course.take((Time(0), FirstLook::default()), &seen, 512, &SPANS_NS);
                }
            }
            unit
        };
        let units: alloc::vec::Vec<_> = (0..NR).map(unit).collect();
        let mut curve = Curve::default();
        units.chunks(8).for_each(|chunk| curve.add(chunk, ALL));
        curve
    }

    /// A pointer goes over all units in `period` ms. When a chunk has its turn, it is anywhere.
    fn swept(period: u64) -> impl Fn(u64, u64, u64) -> u64 {
        move |nr, turn, ms| {
            let mixed = (nr / 8 * 2 + turn).wrapping_mul(0x9e37_79b9_7f4a_7c15);
            let first = (mixed ^ mixed >> 29).wrapping_mul(0xbf58_476d_1ce4_e5b9) >> 32;
            let until = (first % period + nr % 8 * period / NR) % period;
            if ms >= until { 512 } else { 0 }
        }
    }

    fn within(curve: &Curve, span: usize, counted: Pages, is_passing: bool) -> Option<Pages> {
        let cross = Cross::default();
        let lines = Lines { curve, spans: &SPANS_NS, is_passing, cross: &cross, ..NO_LINES };
        lines.within(span, NR * 512, counted)
    }

    #[test]
    #[cfg_attr(miri, ignore = "minutes")]
    fn a_short_span_is_its_share_of_a_long_one_where_memory_is_gone_over() {
        let all = float((NR * 512).cast_signed());
        for period in [450, 1000, 3300, 5000, 7777] {
            let curve = curve(swept(period));
            for (span, ms) in [(0, 5), (1, 100)] {
                let true_pages = all * float(ms) / float(period.cast_signed());
                let counted = Pages { mean: true_pages * 1.3, sigma: true_pages * 0.3 };
                let Pages { mean, .. } = within(&curve, span, counted, false).unwrap();
                assert!(
                    (mean / true_pages - 1.0).abs() < 0.1,
                    "{period} {ms}: {mean} {true_pages}"
                );
            }
        }
    }

    #[test]
    #[cfg_attr(miri, ignore = "minutes")]
    fn a_line_that_something_contradicts_is_not_taken() {
        let sweep = curve(swept(1000));
        let (far, sure) = (Pages { mean: 1e5, sigma: 100.0 }, Pages { mean: 6e4, sigma: 100.0 });
        assert_eq!(within(&sweep, 1, far, false), None, "it has changed since the turns");
        assert!(within(&sweep, 1, far, true).is_some(), "it seems to change all the time");
        // Used at random: ever fewer pages are touched for the first time.
        let random = curve(|_, _, ms| 512 * ms / (ms + 100));
        assert_eq!(within(&random, 1, sure, false), None);
        // All that is touched is hot.
        let hot = curve(|nr, _, _| if nr < 51 { 512 } else { 0 });
        let counted = Pages { mean: 51.0 * 512.0, sigma: 0.0 };
        assert_eq!(within(&hot, 1, counted, false), Some(counted));
    }

    fn point(ms: f64, mean: f64, sigma: f64, is_sure: bool) -> Point {
        Point { at: ms, pages: Pages { mean, sigma }, is_sure }
    }

    #[test]
    fn turns_that_have_counted_too_much_do_not_contradict_a_line_of_cross_sections() {
        let turns = point(1000.0, 277.0, 21.0, false);
        let end = Known { turns, best: point(1000.0, 205.0, 2.0, true) };
        for (name, rough, turns, sure, fits) in [
            ("on the line of the turns", 0.0, (500.0, 133.0, 5.0), None, true),
            ("on that of cross-sections", 0.0, (500.0, 102.0, 5.0), None, false),
            ("far, where chance moves others as far", 37.0, (500.0, 102.0, 5.0), None, true),
            ("cross-sections know better", 37.0, (100.0, 28.0, 1.0), Some((20.0, 1.0)), true),
            ("and are sure", 37.0, (100.0, 28.0, 1.0), Some((28.0, 1.0)), false),
        ] {
            let (ms, mean, sigma) = turns;
            let turns = point(ms, mean, sigma, false);
            let best = sure.map_or(turns, |(mean, sigma)| point(ms, mean, sigma, true));
            let chance = Chance { rough, at_once: 0.0 };
            let known = Known { turns, best };
            assert_eq!(known.fits(&Point::default(), &end, &chance), fits, "{name}");
        }
    }

    #[test]
    fn what_lies_below_a_line_is_there_by_chance() {
        for (name, means, rough) in [
            ("straight", [10.0, 20.0, 30.0], 0.0),
            ("concave", [10.0, 15.0, 16.0], 0.0),
            ("a dip", [10.0, 12.0, 30.0], 8.0),
            ("too late", [0.0, 20.0, 30.0], 10.0),
        ] {
            let points = means.into_iter().zip([1.0, 2.0, 3.0]);
            let got = roughness(points.map(|(mean, at)| point(at, mean, 1.0, false)));
            assert!((got - rough).abs() < 1e-9, "{name}: {got}");
        }
    }

    #[test]
    #[cfg_attr(miri, ignore = "minutes")]
    fn a_line_from_zero_is_not_taken_where_most_memory_is_touched_sooner() {
        // Most is touched in a few units, so what all of them have touched together says
        // little. Each by itself says the same.
        let zipf = curve(|nr, _, ms| 512 * ms / (ms + 4 + nr));
        assert!(zipf.is_bent());
        let counted = Pages { mean: 2000.0, sigma: 4000.0 };
        assert_eq!(within(&zipf, 0, counted, true), None);
        let straight = curve(|_, _, ms| ms / 20);
        let random = curve(swept(1000));
        // Where a tenth is hot, the rest says what passes by.
        let sweep = swept(1000);
        let hot = curve(|nr, turn, ms| if nr < 51 { 512 } else { sweep(nr, turn, ms) });
        for curve in [straight, random, hot] {
            assert!(!curve.is_bent());
        }
    }

    #[test]
    #[cfg_attr(miri, ignore = "minutes")]
    fn hot_memory_beside_a_sweep_adds_to_the_line() {
        let sweep = swept(2000);
        let curve = curve(|nr, turn, ms| if nr % 64 < 8 { 512 } else { sweep(nr, turn, ms) });
        let swept = 448.0 * 512.0 / 20.0;
        let counted = Pages { mean: 64.0 * 512.0 + swept * 0.7, sigma: swept * 0.3 };
        let Pages { mean, .. } = within(&curve, 1, counted, false).unwrap();
        assert!((mean / (64.0 * 512.0 + swept) - 1.0).abs() < 0.05, "{mean}");
    }

    #[test]
    #[cfg_attr(miri, ignore = "minutes")]
    fn neighbours_that_are_touched_together_are_one_event() {
        let cross = Cross::default();
        let lines =
            |curve| Lines { curve, spans: &SPANS_NS, cross: &cross, ..NO_LINES }.together(1);
        let together = curve(swept(1000));
        let alone = curve(|nr, turn, ms| swept(1000)(nr * 8, turn, ms));
        assert!(lines(&together) > 4.0, "{}", lines(&together));
        assert!(lines(&alone) < 2.0, "{}", lines(&alone));
    }

    #[test]
    #[cfg_attr(miri, ignore = "minutes")]
    fn what_was_taken_out_is_no_part_of_it() {
        let mut curve = curve(swept(1000));
        let before = curve;
        let mut unit = Unit::new(0, PageBits::ALL, Time(0));
        unit.course.begin_turn();
        let seen = Seen { now: Time(100 * MS), pages: first(9), looked: Time(0), before: first(9) };
        assert_eq!(unit.course.take((Time(0), FirstLook::default()), &seen, 512, &SPANS_NS), ALL);
        assert_eq!(
            unit.course.take((Time(0), FirstLook::default()), &seen, 512, &SPANS_NS),
            0,
            "it is counted once"
        );
        curve.add(&[unit.clone()], ALL);
        assert_ne!(curve, before);
        curve.take_out(&[unit], ALL);
        assert_eq!(curve, before);
    }

    #[test]
    fn a_look_tells_of_the_points_that_it_ends_and_of_the_one_before() {
        let mut course = Course::default();
        course.begin_turn();
        let mut told = |ms: u64, size| {
            let pages = first(ms.min(512));
            let seen = Seen { now: Time(ms * MS), pages, looked: Time(0), before: pages };
            course.take((Time(0), FirstLook::default()), &seen, size, &SPANS_NS)
        };
        assert_eq!(told(5, 512), ALL, "its size was not known");
        assert_eq!([told(100, 512), told(160, 512), told(170, 512)], [0b11, 0b110, 0]);
        assert_eq!(told(200, 511), ALL, "its size counts at all points");
    }
}
