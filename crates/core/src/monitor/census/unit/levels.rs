//! How often a unit's pages are touched: a level per cell of 64 KiB.
//!
//! A level is the share of a cell's pages that were touched within one sample, as the first look
//! after an arming finds it, and the mean of several such looks while nothing changes. Later looks
//! can only say that a level is too low, or that nothing is touched at all.
//!
//! Invariant: a level that no first look in time has confirmed is a guess, and told as such.

use super::rates::{Span, within};
use super::samples::Samples;
use super::sentinel::{HOT, cells};
use super::woken::Lasting;
use super::{ALARM, CALMED, CELLS, INTERVAL_NS, NO_PAGE, TOGETHER_NS, Unit, ratio, share, tick};
use crate::interval::count;
use crate::time::Time;
use crate::unit::PageBits;

/// Standard deviations that chance explains.
const CHANCE: f32 = 3.0;
/// The share of a cell's pages from which on nearly all of them are touched.
pub(super) const NEARLY_ALL: f32 = 0.9;
/// A level that says: touched in every sample.
pub(super) const FULL: f32 = 255.0;
/// The mean level of a unit from which on what is touched in it is taken to stay.
const LASTING: f32 = 0.25;
/// The spans up to a second, over which what is touched has settled soon after a change.
pub(super) const SETTLED: usize = 3;
/// A change of a cell's level that makes it another cell: a tenth of the scale, as where DAMON ages
/// regions.
const CHANGE: u8 = 26;
/// How many times longer the next turn is waited for, each time a unit is found the same.
const LONGER_EACH: u64 = 4;
/// A span of this many samples is more than one.
pub(super) const LONGER: f32 = 1.3;

/// The number of pages of a set.
fn pages(bits: PageBits) -> u32 {
    u32::try_from(bits.count()).unwrap_or(u32::MAX)
}

/// The share of pages touched in one sample, if `touched` of `there` pages were touched in a span
/// `times` as long. Touches are assumed to come at random. Of a longer span in which all pages were
/// touched, half a page is assumed to have been missed.
pub(super) fn per_sample(touched: u32, there: u32, times: f32) -> f32 {
    let share = share(touched, there);
    if times < LONGER {
        return share;
    }
    let missed = (1.0 - share).max(0.5 / count(there.max(1)));
    1.0 - libm::powf(missed, 1.0 / times)
}

#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "from 0 to 255")]
pub(super) fn level(share: f32) -> u8 {
    libm::roundf(share.clamp(0.0, 1.0) * FULL) as u8
}

#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a number of pages")]
fn whole(pages: f32) -> u64 {
    libm::roundf(pages.max(0.0)) as u64
}

/// A change of a level that is no chance: a tenth of the scale, beyond three standard deviations of
/// the difference between two samples of this many pages. Where all of them were touched, one more
/// might not have been. And where more were touched than `usual` in the unit, that may have been
/// chance already.
fn change(old: u8, usual: f32, pages: u32) -> u8 {
    let pages = f32::from(u16::try_from(pages.max(1)).unwrap_or(u16::MAX));
    let share = (f32::from(old) / FULL).min((pages + 1.0) / (pages + 2.0));
    let variance = |share: f32| share * (1.0 - share);
    let least = if share > usual { variance(usual) } else { 0.0 };
    let both = 2.0 * variance(share).max(least);
    CHANGE.saturating_add(level(CHANCE * libm::sqrtf(both / pages)))
}

impl Unit {
    /// The share of a cell's pages that were touched within one sample.
    pub(in super::super) fn rate(&self, cell: usize) -> f32 {
        f32::from(self.levels[cell]) / FULL
    }

    /// Over how many samples its rates were measured.
    pub(in super::super) fn times(&self) -> f32 {
        self.span.times()
    }

    /// Whether its rates were measured.
    pub(in super::super) const fn is_sure(&self) -> bool {
        !self.guessed
    }

    /// These pages were touched within a window, so in one of its samples at least; `sample` is the
    /// share of the window that a sample is. A target that was kept from running while the first
    /// look came is not idle. Returns whether that was so, and the levels are only bounds.
    pub(super) fn take_window(&mut self, touched: PageBits, now: Time, sample: f32) -> bool {
        let least_of_all = share(pages(touched), pages(*self.present)) * sample;
        let mean = self.mean_level();
        let chance = libm::sqrtf(least_of_all * (1.0 - least_of_all) / count(pages(*self.present)));
        // What is wrong of the whole unit was not just missed by one look at few pages.
        let was_kept = least_of_all > mean + CHANCE * chance;
        self.guessed |= was_kept;
        for cell in 0..CELLS {
            let there = self.present.cell(cell).count_ones();
            let within = share(touched.cell(cell).count_ones(), there);
            if within == 0.0 && self.levels[cell] > 0 {
                (self.levels[cell], self.steady[cell]) = (0, tick(self.since));
            }
            let has_woken = self.levels[cell] == 0 && within > NEARLY_ALL;
            if !was_kept && !has_woken {
                continue;
            }
            let least = level(within * sample);
            if self.levels[cell] == 0 && least > 0 {
                self.steady[cell] = tick(now);
            }
            self.levels[cell] = self.levels[cell].max(least);
        }
        was_kept
    }

    /// Pages of cells that were not touched within a sample after the arming, and nearly all of
    /// them within a window. Pages that are touched at random are not like that, but for huge
    /// ones, of which one bit tells. If those that a sample has missed by chance were asked once
    /// more, and the others not, too much would be counted.
    pub(super) fn begun_within(&self, touched: PageBits) -> PageBits {
        if self.is_huge() {
            return PageBits::default();
        }
        let has_begun = |cell: usize| {
            let there = self.present.cell(cell).count_ones();
            self.levels[cell] == 0 && share(touched.cell(cell).count_ones(), there) > NEARLY_ALL
        };
        touched.and(cells(has_begun))
    }

    /// How many of these pages are in cells that are not touched as far as is known.
    pub(super) fn touched_where_quiet(&self, touched: PageBits) -> u64 {
        let cells = self.levels.iter().enumerate().filter(|(_, level)| **level == 0);
        cells.map(|(cell, _)| u64::from(touched.cell(cell).count_ones())).sum()
    }

    /// The mean of its cells' levels over its pages, as a share.
    pub(super) fn mean_level(&self) -> f32 {
        let there = (0..CELLS).map(|cell| self.present.cell(cell).count_ones());
        let sum: u32 = there.zip(self.levels).map(|(n, level)| n * u32::from(level)).sum();
        count(sum) / FULL / count(pages(*self.present).max(1))
    }

    /// Sets the levels from `plane`, which was touched in `times` samples. Returns whether much of
    /// what was touched before is not touched any more.
    pub(super) fn judge(
        &mut self,
        before: PageBits,
        plane: PageBits,
        now: Time,
        times: f32,
    ) -> bool {
        // What sentinels have told of bursts is a guess, and waits add to it.
        let was_guessed = core::mem::take(&mut self.guessed) && !self.samples.end_bursts();
        let was_hot = cells(|cell| self.levels[cell] >= HOT);
        (self.bursts, self.waiting) = (0, 0);
        let (span, is_at_random) = (Span::of(times), self.is_at_random(plane));
        let usual = within(self.usual_level(), span.times());
        let mut is_new = was_guessed;
        for cell in 0..CELLS {
            let there = self.present.cell(cell).count_ones();
            let touched = plane.cell(cell).count_ones();
            if !is_at_random
                && self.judge_burst(cell, share(touched, there), times, was_guessed, now)
            {
                continue;
            }
            let old = self.levels[cell];
            let new = level(per_sample(touched, there, times));
            // A late look is compared with what it should have found.
            let expected = level(within(f32::from(old) / FULL, span.times()));
            let found = level(share(touched, there));
            let differs = found.abs_diff(expected) > change(expected, usual, there);
            self.levels[cell] = if was_guessed || differs {
                is_new = true;
                self.steady[cell] = if new == 0 { tick(self.since) } else { tick(now) };
                new
            } else {
                if old == 0 && new > 0 {
                    self.steady[cell] = tick(now);
                }
                // One look is one sample. The mean of several is surer. Of all pages, a late look
                // says no more than that their level is not below.
                let is_bound = touched == there && span != Span::default();
                u8::midpoint(old, if is_bound { new.max(old) } else { new })
            };
        }
        self.span = if is_new { span } else { span.min(self.span) };
        if is_new {
            self.samples = Samples::default();
        }
        self.end_judging();
        // What was hot has gone cold, whatever it was before. Of others that is seen later.
        let judged = was_hot.or(cells(|cell| self.bursts >> cell & 1 == 0));
        let (old, new) = (before.and(judged).count(), plane.and(judged).count());
        // What a sample has found of a burst says nothing about the next one.
        let bursts = self.proven_bursts();
        let steady = cells(|cell| bursts >> cell & 1 == 0);
        let (before, plane) = (before.and(steady), plane.and(steady));
        let (was, is) = (before.count(), plane.count());
        if self.turn.since != self.since || self.asks_for_waits() {
            // Only turns say how often it has to have its turn.
        } else if self.differs(before, plane) * 8 <= was + is + 64
            && !(is_at_random && self.is_outlier(was, is))
        {
            self.same = self.same.saturating_add(1);
            if self.same >= 2 {
                let most = if self.together { TOGETHER_NS } else { INTERVAL_NS.1 };
                self.interval_ns = (self.interval_ns * LONGER_EACH).min(most);
            }
        } else {
            (self.same, self.interval_ns) = (0, INTERVAL_NS.0);
        }
        old >= CALMED && new * 2 < old
    }

    /// The mean level of its cells that are touched at all, as a share.
    fn usual_level(&self) -> f32 {
        let touched = self.levels.iter().filter(|level| **level > 0);
        let (nr, sum) = touched.fold((0, 0), |(nr, sum), level| (nr + 1, sum + u32::from(*level)));
        count(sum) / FULL / count(nr.max(1))
    }

    /// How many of its pages are touched within one sample, by its levels.
    fn at_once(&self) -> u64 {
        whole(self.mean_level() * count(pages(*self.present)))
    }

    /// The same for some of its cells, one bit each.
    pub(super) fn at_once_in(&self, cells: u32) -> u64 {
        let cells = (0..CELLS).filter(|cell| cells >> cell & 1 == 1);
        let there = |cell: usize| self.present.cell(cell).count_ones();
        whole(cells.map(|cell| self.rate(cell) * count(there(cell))).sum())
    }

    /// How many pages were touched in one of two samples only, beyond what chance explains: where
    /// pages are touched at random, each sample has others of them.
    fn differs(&self, a: PageBits, b: PageBits) -> u64 {
        let (mut differs, mut by_chance) = (0, 0);
        for cell in 0..CELLS {
            let there = self.present.cell(cell).count_ones().max(1);
            let (a, b) = (a.cell(cell), b.cell(cell));
            let touched = a.count_ones() + b.count_ones();
            differs += (a ^ b).count_ones();
            // Twice p (1 - p) of the pages, if p is the share in both samples together.
            by_chance += touched * (2 * there).saturating_sub(touched) / (2 * there);
        }
        u64::from(differs.saturating_sub(by_chance))
    }

    /// Whether two samples, which found so many pages touched, differ by a sixteenth beyond what
    /// chance explains where most pages are touched in most samples, at random. One of the two may
    /// have been taken while the program was kept from running for a part of it.
    fn is_outlier(&self, was: u64, is: u64) -> bool {
        if was.min(is) * 2 <= self.plane(1).count() {
            return false;
        }
        let both = 2 * self.present.count().max(1);
        let share = ratio(was + is, both);
        let by_chance = CHANCE * libm::sqrtf(share * (1.0 - share).max(0.0) * ratio(both, 1));
        was.abs_diff(is) > (was + is) / 32 + whole(by_chance)
    }

    /// Pages of quiet cells were touched. That may be in every sample from now on, and at least it
    /// was in one of the `samples` of a window. If it is `passing`, it was once in the samples
    /// since they were made old, and may be as long until the next time.
    pub(super) fn wake(&mut self, newly: PageBits, now: Time, samples: f32) {
        self.woken = newly.count();
        for cell in 0..CELLS {
            let new = newly.cell(cell).count_ones();
            // Where others were touched before, more pages are no news.
            if new == 0 || self.young.cell(cell) != newly.cell(cell) {
                continue;
            }
            let there = self.present.cell(cell).count_ones();
            let new = level(share(new, there) / samples);
            self.guessed |= new > self.levels[cell];
            if self.levels[cell] == 0 {
                self.steady[cell] = tick(now);
            }
            self.levels[cell] = self.levels[cell].max(new);
            self.waking |= 1 << cell;
        }
    }

    /// A page of what had woken up was armed alone. If it was touched again within so many samples,
    /// all that had woken up with it is taken to be touched as often.
    pub(super) fn end_waking(&mut self, is_touched: bool, samples: f32) {
        let cells = core::mem::take(&mut self.waking);
        self.sentinel = NO_PAGE;
        if !is_touched {
            return;
        }
        for cell in (0..CELLS).filter(|cell| cells >> cell & 1 == 1) {
            let woken = self.young.cell(cell).count_ones();
            let there = self.present.cell(cell).count_ones();
            let new = level(share(woken, there) / samples.max(1.0));
            self.levels[cell] = self.levels[cell].max(new);
        }
    }

    /// One page has told that what woke up is touched all the time. How much that says of the
    /// others is known from such pages of the whole target. Returns whether a plane is not what it
    /// was.
    pub(super) fn expect_woken(&mut self, lasting: Lasting) -> bool {
        let touched = self.young.and(*self.present);
        let before = |unit: &Self, span: usize| unit.planes.counted(span).unwrap_or(0);
        let at_once = lasting.between(before(self, 0), self.at_once());
        self.planes.guess(at_once, touched.count().saturating_sub(at_once));
        for span in 1..SETTLED {
            let pages = lasting.between(before(self, span), touched.count());
            self.planes.expect(span, pages);
        }
        self.planes.take_new(touched)
    }

    /// What has woken up is touched all the time from now on, as far as is known, so it counts.
    /// Returns whether a plane is not what it was.
    pub(super) fn expect_more(&mut self, touched: PageBits) -> bool {
        let at_once = self.at_once();
        self.planes.guess(at_once, touched.count().saturating_sub(at_once));
        (1..SETTLED).for_each(|span| self.planes.expect(span, touched.count()));
        self.planes.take_new(touched)
    }

    /// Whether so much is touched in every sample that it is taken to stay. What is touched in few
    /// samples may be passing by, and only turns say how much of that there is.
    pub(super) fn is_lasting(&self) -> bool {
        self.mean_level() >= LASTING
    }

    /// What woke up in a unit that was then armed out of turn is still touched, so it has not
    /// passed by. What was seen since counts until it is its turn. Returns whether a plane is not
    /// what it was.
    pub(super) fn expect_seen(&mut self) -> bool {
        let touched = self.young.and(*self.present);
        if self.turn.since == self.since || self.false_alarms >= ALARM {
            return false;
        }
        // A first look that came late has set no plane, but a level.
        let at_once = self.at_once();
        // A huge page that a sample has missed and the window has seen did not wake up. See
        // `begun_within`.
        let was_missed = self.is_huge() && self.planes.counted(1) >= Some(touched.count());
        for span in usize::from(was_missed)..SETTLED {
            let is_seen = !self.extra.is_open(span);
            let seen = match span {
                0 => at_once,
                _ if is_seen => self.plane(span).count(),
                _ => touched.count(),
            };
            if self.planes.counted(span).is_some_and(|counted| seen > counted) {
                self.planes.expect(span, seen);
            }
        }
        self.planes.take_new(touched)
    }

    /// A unit that was armed out of turn is not what it was: only these pages are touched.
    pub(super) fn expect_less(&mut self, touched: PageBits) {
        if self.turn.since != self.since {
            self.expect(touched.count());
        }
    }

    /// So many pages are touched from now on, for all that is known. Where something passes by now
    /// and then only turns tell.
    fn expect(&mut self, pages: u64) {
        if self.false_alarms < ALARM {
            (0..SETTLED).for_each(|span| self.planes.expect(span, pages));
        }
    }

    /// Whether it is taken for cold since one page told so, and nothing more is known.
    pub(in super::super) fn is_calmed(&self) -> bool {
        self.guessed && self.levels.iter().all(|level| *level == 0)
    }

    /// A page that was touched in every sample was not touched for a window. The unit is taken for
    /// cold until it is armed again, for which there may be no budget now.
    pub(in super::super) fn calm(&mut self, now: Time) {
        self.guessed = true;
        self.expect(0);
        self.planes.forget(SETTLED);
        for (level, steady) in self.levels.iter_mut().zip(&mut self.steady) {
            if *level > 0 {
                (*level, *steady) = (0, tick(now));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_change_is_more_than_chance_explains() {
        for (before, after, pages, usual, is_change) in [
            (0, 1, 16, 0.0, false),
            (0, 2, 16, 0.0, true),
            (0, 2, 16, 0.85, true),
            (8, 14, 16, 0.5, false),
            // Of 3000 cells whose pages are touched in 99 of 100 samples, four are found like this.
            (16, 13, 16, 1.0, false),
            (16, 11, 16, 1.0, false),
            (16, 10, 16, 1.0, true),
            (16, 0, 16, 1.0, true),
            // And of 3000 whose pages are touched in 85 of 100, four like this.
            (16, 10, 16, 0.85, false),
            (16, 8, 16, 0.85, true),
            (1, 0, 1, 1.0, false),
        ] {
            let [old, new] = [before, after].map(|n| level(share(n, pages)));
            let got = new.abs_diff(old) > change(old, usual, pages);
            assert_eq!(got, is_change, "{before} and {after} of {pages}");
        }
    }
}
