//! What is known of one unit.
//!
//! A unit is *armed*: its young pages are made old, at a time that is kept. From then on each look
//! only adds touched pages, until it is armed again. What was touched within spans is in its
//! planes; see `planes`.
//!
//! A unit that was never armed and has no young page need not be: its clock begins at the look.
//!
//! Invariants: a page that no look has answered for is in no plane and is not known. A cell whose
//! pages were touched since the arming is not idle, however long ago that was.

mod outline;

pub(super) use self::outline::Outline;
use super::planes::{Clock, Planes};
use crate::interval::count;
use crate::snapshot::{SPANS, TouchedShare, UnitInfo};
use crate::time::Time;
use crate::unit::{PageBits, UnitCheck};

/// Cells of a unit: 64 KiB each, the grain in which regions are drawn.
pub(super) const CELLS: usize = 32;
/// Standard deviations that chance explains.
const CHANCE: f32 = 3.0;
/// The share of a cell's pages from which on nearly all of them are touched.
const NEARLY_ALL: f32 = 0.9;
/// Pages that are touched at once, and were not before, from which on a unit is measured again.
const RISEN: u64 = 32;
/// What stands for no page.
const NO_PAGE: u16 = u16::MAX;
/// A level that says: touched in every sample.
const FULL: f32 = 255.0;
/// A level from which on a page that was touched is missed in half a window once in a thousand
/// times.
const HOT: u8 = 128;
/// A change of a cell's level that makes it another cell: a tenth of the scale, as where DAMON ages
/// regions.
const CHANGE: u8 = 26;
/// A span of this many samples is more than one.
const LONGER: f32 = 1.3;
/// Up to this many samples after arming, the rate in one sample is told from what was touched.
const JUDGED: u64 = 4;
/// Spans that are shown of a unit that was armed out of turn: up to a second.
const OUT_OF_TURN: usize = 3;
/// What a false alarm counts: a unit was armed out of turn for something that had passed by at
/// once. Each turn takes one off; after two alarms the unit is left alone.
const ALARM: u8 = 2;
/// The most that false alarms count.
const MOST_ALARMS: u8 = 4 * ALARM;
/// The shortest and the longest time between two turns of a unit that stays the same, in ns.
const INTERVAL_NS: (u64, u64) = (1_200_000_000, 60_000_000_000);
/// The longest such time for a unit that can be made old only together with all memory of its
/// target, in ns. No sentinel shows when it goes cold.
const TOGETHER_NS: u64 = 5_000_000_000;

/// What a look has found out about a unit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct News {
    /// Pages that were touched after a quiet time.
    pub(super) woken: u64,
    /// Whether much that was touched all the time is not touched any more.
    pub(super) calmed: bool,
    /// Whether the levels were set anew.
    pub(super) judged: bool,
    /// Whether much was touched at once that was not before. It may pass by.
    pub(super) risen: bool,
    /// Whether a page that was touched all the time is not touched any more, in a unit of which
    /// other pages may be.
    pub(super) missed: bool,
    /// Whether a plane is not what it was.
    pub(super) published: bool,
}

/// A unit.
#[derive(Debug, Clone)]
pub(super) struct Unit {
    pub(super) start: u64,
    /// Pages that the target has.
    pub(super) pages: PageBits,
    pub(super) present: PageBits,
    /// Pages touched since the unit was armed.
    pub(super) young: PageBits,
    /// Pages that cannot be made old.
    stuck: PageBits,
    planes: Planes,
    /// When it was its turn last, and the pages that were touched since then and made old again.
    turn: Clock,
    earlier: PageBits,
    /// When it was armed out of turn, if that was later.
    extra: Clock,
    /// The size of its leaves, as in [`UnitCheck`].
    leaf_shift: u8,
    /// How many turns it had.
    turns: u8,
    /// How often it was armed out of turn for something that had passed by when it was looked at.
    false_alarms: u8,
    /// Whether it is about to be armed because it is its turn.
    pub(super) is_turn: bool,
    /// Whether it was first armed when it was its turn.
    pub(super) in_turn: bool,
    /// When the unit was armed, and when it was looked at last.
    pub(super) since: Time,
    pub(super) looked: Time,
    /// By cell: the share of its pages that were touched within one sample, of [`FULL`].
    levels: [u8; CELLS],
    /// Whether a level is only a guess: a bound, or what one page tells. It is, until a first look
    /// comes in time.
    guessed: bool,
    /// By cell: since when it has looked like this, in [`TICK_NS`].
    steady: [u32; CELLS],
    /// A page that was armed alone, because it was expected to be touched at once; and when.
    sentinel: u16,
    sentinel_since: Time,
    /// How long to wait until it is armed again, in ns.
    pub(super) interval_ns: u64,
    /// Pages that woke up last.
    woken: u64,
    /// How often it was the same in a row.
    same: u8,
    /// Whether a look has ever answered.
    pub(super) known: bool,
    /// Whether it was ever armed, or found without a young page.
    pub(super) armed: bool,
    /// Whether it waits for a sentinel, because a neighbour has gone cold.
    pub(super) suspected: bool,
    /// Whether it waits to be armed out of turn.
    pub(super) urgent: bool,
    /// Whether it can be made old only together with all memory of the target.
    pub(super) together: bool,
}

/// The grain of the times kept per cell, in ns: 10 ms, so that 32 bits hold more than a year.
const TICK_NS: u64 = 10_000_000;

fn tick(at: Time) -> u32 {
    u32::try_from(at.0 / TICK_NS).unwrap_or(u32::MAX)
}

/// The share `part / whole` of at most 512 pages.
fn share(part: u32, whole: u32) -> f32 {
    let float = |n: u32| f32::from(u16::try_from(n).unwrap_or(u16::MAX));
    if whole == 0 { 0.0 } else { float(part) / float(whole) }
}

/// The number of pages of a set.
fn pages(bits: PageBits) -> u32 {
    u32::try_from(bits.count()).unwrap_or(u32::MAX)
}

/// The share of pages touched in one sample, if `touched` of `there` pages were touched in a span
/// `times` as long. Touches are assumed to come at random. Of a longer span in which all pages were
/// touched, half a page is assumed to have been missed.
fn per_sample(touched: u32, there: u32, times: f32) -> f32 {
    let share = share(touched, there);
    if times < LONGER {
        return share;
    }
    let missed = (1.0 - share).max(0.5 / count(there.max(1)));
    1.0 - libm::powf(missed, 1.0 / times)
}

#[expect(clippy::cast_precision_loss, reason = "a ratio of two times")]
fn ratio(a: u64, b: u64) -> f32 {
    a as f32 / b.max(1) as f32
}

#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "from 0 to 255")]
fn level(share: f32) -> u8 {
    libm::roundf(share.clamp(0.0, 1.0) * FULL) as u8
}

/// A change of a level that is no chance: a tenth of the scale, beyond three standard deviations of
/// the difference between two samples of this many pages.
fn change(old: u8, pages: u32) -> u8 {
    let share = f32::from(old) / FULL;
    let pages = f32::from(u16::try_from(pages.max(1)).unwrap_or(u16::MAX));
    CHANGE.saturating_add(level(CHANCE * libm::sqrtf(2.0 * share * (1.0 - share) / pages)))
}

impl Unit {
    /// A unit of which nothing is known.
    pub(super) fn new(start: u64, pages: PageBits, now: Time) -> Self {
        Self {
            start,
            pages,
            present: PageBits::default(),
            young: PageBits::default(),
            stuck: PageBits::default(),
            planes: Planes::default(),
            turn: Clock::default(),
            earlier: PageBits::default(),
            extra: Clock::default(),
            leaf_shift: 12,
            turns: 0,
            false_alarms: 0,
            is_turn: false,
            in_turn: true,
            since: now,
            looked: now,
            levels: [0; CELLS],
            guessed: false,
            steady: [tick(now); CELLS],
            sentinel: NO_PAGE,
            sentinel_since: now,
            interval_ns: INTERVAL_NS.0,
            woken: 0,
            same: 0,
            known: false,
            armed: false,
            suspected: false,
            urgent: false,
            together: false,
        }
    }

    /// Takes in that the unit, or a part of it, was made old at `now`. Returns how many pages the
    /// target will have to set the bit of again.
    pub(super) fn was_armed(&mut self, check: &UnitCheck, now: Time) -> u64 {
        if check.pages == self.pages {
            self.together = check.together;
        }
        if !check.answered {
            if check.together && !self.armed {
                // Others need not wait for it. Until its time comes nothing is known.
                self.present = check.present.and(self.pages);
                self.stuck = self.present;
                (self.since, self.looked, self.known, self.armed) = (now, now, true, true);
            }
            return 0;
        }
        let asked = check.pages.and(self.pages);
        let found = check.young.and(asked);
        self.present = self.present.minus(asked).or(check.present.and(asked));
        let was_stuck = self.stuck;
        self.stuck = self.stuck.minus(asked).or(check.stuck.and(asked));
        if !was_stuck.minus(self.stuck).is_empty() {
            // The planes left these pages out, which does not mean that they were idle.
            (self.planes, self.guessed) = (Planes::default(), true);
        }
        (self.known, self.leaf_shift) = (true, check.leaf_shift);
        if asked != self.pages {
            // A sentinel. It says nothing of the other pages.
            self.sentinel_since = now;
            if !check.stuck.is_empty() {
                self.sentinel = NO_PAGE;
            }
            self.earlier = self.earlier.or(self.young.and(asked));
            self.young = self.young.minus(asked).or(check.stuck.and(asked));
            return found.count();
        }
        let touched = self.young.or(found);
        for cell in 0..CELLS {
            if touched.cell(cell) != 0 && self.levels[cell] == 0 {
                self.steady[cell] = tick(now);
            }
        }
        let since = check.made_old.map_or(now, |at| at.min(now));
        self.sentinel = NO_PAGE;
        if core::mem::take(&mut self.is_turn) {
            (self.turn, self.extra) = (Clock::begin(since, SPANS), Clock::default());
            self.earlier = PageBits::default();
            self.turns = self.turns.wrapping_add(1);
            self.false_alarms = self.false_alarms.saturating_sub(1);
        } else {
            self.extra = Clock::begin(since, OUT_OF_TURN);
            let newly = found.minus(self.young).minus(self.earlier).minus(check.stuck);
            self.turn.expose(newly.count(), since.since(self.looked));
            self.earlier = self.earlier.or(touched.minus(check.stuck));
        }
        self.young = PageBits::default();
        (self.since, self.looked, self.armed, self.urgent) = (since, since, true, false);
        found.minus(check.stuck).count()
    }

    /// Takes in a look. `spans`: of the planes, in ns, the first one sample long.
    pub(super) fn was_looked_at(
        &mut self,
        check: &UnitCheck,
        now: Time,
        spans: &[u64; SPANS],
    ) -> News {
        let mut news = News::default();
        if !check.answered {
            return news;
        }
        self.present = check.present.and(self.pages);
        // Others may have cleared bits that an earlier look saw.
        let touched = self.young.or(check.young).and(self.present).minus(self.stuck);
        let newly = touched.minus(self.young);
        if !self.known && touched.is_empty() {
            // Nothing has to be made old: the clock starts at this look.
            (self.armed, self.since, self.turn) = (true, now, Clock::begin(now, SPANS));
        }
        (self.known, self.leaf_shift) = (true, check.leaf_shift);
        self.young = touched;
        if !self.armed {
            self.looked = now;
            return news;
        }
        // A page that is touched in half of the samples is missed by ten of them once in a thousand
        // times.
        if self.sentinel != NO_PAGE && now.since(self.sentinel_since) * 2 >= spans[1] {
            let is_missed = PageBits::page(self.sentinel).and(touched).is_empty();
            self.sentinel = NO_PAGE;
            // One page stands for a unit that was hot all over. Else all of it has to be seen.
            news.calmed = is_missed && self.is_mostly_hot();
            news.missed = is_missed && !news.calmed;
            if news.calmed {
                self.calm(now);
            }
        }
        let (elapsed, before) = (now.since(self.since), self.plane(0));
        let (was_open, window_was_open) = (self.is_first_open(), self.is_window_open());
        let is_newest = self.turn.since == self.since;
        let since_turn = self.earlier.or(touched).and(self.present);
        self.turn.expose(newly.minus(self.earlier).count(), now.since(self.looked));
        news.published |= self.planes.publish(&mut self.extra, now, spans, touched);
        news.published |= self.planes.count(&mut self.turn, now, spans, since_turn, is_newest);
        let first_ended = was_open && !self.is_first_open();
        if first_ended && (elapsed <= spans[0] * JUDGED || touched.is_empty()) {
            news.judged = true;
            news.calmed = self.judge(before, touched, now, ratio(elapsed, spans[0]));
            let is_first = self.turn.since == self.since && self.turns <= 1;
            let more = touched.minus(before).count();
            news.risen = !is_first && more >= RISEN.max(before.count());
        } else if !self.is_first_open() && !newly.is_empty() {
            news.woken = newly.count();
            let was_quiet = self.looked.since(self.since) * 4 >= spans[1] * 3;
            if was_quiet {
                let times = ratio(now.since(self.looked), spans[0]);
                self.wake(newly, now, times, ratio(spans[1], spans[0]));
            }
        }
        if window_was_open && !self.is_window_open() && elapsed <= spans[1] * 2 {
            self.take_window(touched, now, ratio(spans[0], spans[1]));
            if self.turn.since != self.since && touched.count() * 4 < self.woken {
                // What woke up has passed by already.
                self.false_alarms = (self.false_alarms + ALARM).min(MOST_ALARMS);
            }
        }
        self.looked = now;
        news
    }

    /// Whether no look has come at the end of the first sample since it was armed.
    const fn is_first_open(&self) -> bool {
        if self.turn.since.0 == self.since.0 {
            self.turn.is_first_open()
        } else {
            self.extra.is_first_open()
        }
    }

    /// Whether no look has come at the end of the window since it was armed.
    const fn is_window_open(&self) -> bool {
        if self.turn.since.0 == self.since.0 { self.turn.is_open(1) } else { self.extra.is_open(1) }
    }

    /// These pages were touched within a window, so in one of its samples at least; `sample` is the
    /// share of the window that a sample is. A target that was kept from running while the first
    /// look came is not idle.
    fn take_window(&mut self, touched: PageBits, now: Time, sample: f32) {
        let least_of_all = share(pages(touched), pages(self.present)) * sample;
        let mean = self.mean_level();
        let chance = libm::sqrtf(least_of_all * (1.0 - least_of_all) / count(pages(self.present)));
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
    }

    /// The mean of its cells' levels over its pages, as a share.
    fn mean_level(&self) -> f32 {
        let there = (0..CELLS).map(|cell| self.present.cell(cell).count_ones());
        let sum: u32 = there.zip(self.levels).map(|(n, level)| n * u32::from(level)).sum();
        count(sum) / FULL / count(pages(self.present).max(1))
    }

    /// Sets the levels from `plane`, which was touched in `times` samples. Returns whether much of
    /// what was touched before is not touched any more.
    fn judge(&mut self, before: PageBits, plane: PageBits, now: Time, times: f32) -> bool {
        let was_guessed = core::mem::take(&mut self.guessed);
        for cell in 0..CELLS {
            let there = self.present.cell(cell).count_ones();
            let touched = plane.cell(cell).count_ones();
            let new = level(per_sample(touched, there, times));
            let old = self.levels[cell];
            self.levels[cell] = if was_guessed || new.abs_diff(old) > change(old, there) {
                self.steady[cell] = if new == 0 { tick(self.since) } else { tick(now) };
                new
            } else {
                if old == 0 && new > 0 {
                    self.steady[cell] = tick(now);
                }
                // One look is one sample. The mean of several is surer.
                u8::midpoint(old, new)
            };
        }
        let (was, is) = (before.count(), plane.count());
        let differs = before.minus(plane).count() + plane.minus(before).count();
        if self.turn.since != self.since {
            // Only turns say how often it has to have its turn.
        } else if differs * 8 <= was + is + 64 {
            self.same = self.same.saturating_add(1);
            if self.same >= 2 {
                let most = if self.together { TOGETHER_NS } else { INTERVAL_NS.1 };
                self.interval_ns = (self.interval_ns * 2).min(most);
            }
        } else {
            (self.same, self.interval_ns) = (0, INTERVAL_NS.0);
        }
        was >= 16 && is * 2 < was
    }

    /// Pages of quiet cells were touched in the last `times` samples: at least in one of the
    /// `samples` of a window.
    fn wake(&mut self, newly: PageBits, now: Time, times: f32, samples: f32) {
        self.woken = newly.count();
        for cell in 0..CELLS {
            let new = newly.cell(cell).count_ones();
            // Where others were touched before, more pages are no news.
            if new == 0 || self.young.cell(cell) != newly.cell(cell) {
                continue;
            }
            if self.false_alarms > 0 {
                self.steady[cell] = tick(now);
                continue;
            }
            let there = self.present.cell(cell).count_ones();
            let rate = per_sample(new, there, times).max(share(new, there) / samples);
            let new = level(rate);
            self.guessed |= new > self.levels[cell];
            if self.levels[cell] == 0 {
                self.steady[cell] = tick(now);
            }
            self.levels[cell] = self.levels[cell].max(new);
        }
    }

    /// A page that was touched in every sample was not touched for a window. The unit is taken for
    /// cold until it is armed again, for which there may be no budget now.
    fn calm(&mut self, now: Time) {
        self.guessed = true;
        for (level, steady) in self.levels.iter_mut().zip(&mut self.steady) {
            if *level > 0 {
                (*level, *steady) = (0, tick(now));
            }
        }
    }

    /// Whether what wakes up here passes by before anybody can look, again and again. Such a unit
    /// is left alone until it is its turn: the turns tell how much of it is touched at a time.
    pub(super) const fn is_restless(&self) -> bool {
        self.false_alarms >= 2 * ALARM
    }

    /// A page that is touched in every sample as far as is known, to be armed alone; `nr` says
    /// which one of them.
    pub(super) fn choose_sentinel(&mut self, nr: u64) -> Option<PageBits> {
        if !self.can_have_sentinel() {
            return None;
        }
        let hot = self.hot_pages();
        self.sentinel = hot.nth(nr % hot.count().max(1))?;
        Some(PageBits::page(self.sentinel))
    }

    /// Whether a sentinel would tell whether it has gone cold, and there is none yet.
    pub(super) fn can_have_sentinel(&self) -> bool {
        !self.together
            && self.sentinel == NO_PAGE
            && !self.is_first_open()
            && self.levels.iter().any(|level| *level >= HOT)
            && !self.hot_pages().is_empty()
    }

    /// Pages that were touched at once, in cells where nearly every window would see them again.
    fn hot_pages(&self) -> PageBits {
        let mut cells = PageBits::default();
        for (nr, level) in self.levels.iter().enumerate() {
            let bits = if *level >= HOT { 0xffff } else { 0 };
            cells.0[nr / 4] |= bits << (nr % 4 * 16);
        }
        self.plane(0).and(self.young).and(cells)
    }

    /// Whether half of its pages or more were touched at once.
    fn is_mostly_hot(&self) -> bool {
        self.plane(0).and(self.young).count() * 2 >= self.present.count().max(1)
    }

    /// The share of a cell's pages that were touched within one sample.
    pub(super) fn rate(&self, cell: usize) -> f32 {
        f32::from(self.levels[cell]) / FULL
    }

    /// The shares of a cell's mapped pages that were touched within a window and within a second.
    pub(super) fn touched(&self, cell: usize) -> TouchedShare {
        let there = self.present.cell(cell);
        let within = |span| {
            let plane: PageBits = self.planes.get(span)?;
            Some(share((plane.cell(cell) & there).count_ones(), there.count_ones()))
        };
        TouchedShare { window: within(1), second: within(2), leaf_shift: self.leaf_shift }
    }

    /// Whether its rates were measured.
    pub(super) const fn is_sure(&self) -> bool {
        !self.guessed
    }

    /// Since when a cell has looked like this, in ns before `now`. A cell without accesses in a
    /// sample, of which some pages were touched since the arming, may be in use now.
    pub(super) fn steady_ns(&self, cell: usize, now: Time) -> u64 {
        if self.levels[cell] == 0 && self.young.cell(cell) != 0 {
            return 0;
        }
        u64::from(tick(now).saturating_sub(self.steady[cell])).saturating_mul(TICK_NS)
    }

    /// Whether there are pages of which nothing can be known.
    pub(super) fn has_stuck(&self) -> bool {
        !self.stuck.is_empty()
    }

    /// Whether nothing can be known of most pages of a cell.
    pub(super) fn is_blind(&self, cell: usize) -> bool {
        let there = self.present.cell(cell).count_ones();
        there > 0 && self.stuck.cell(cell).count_ones() * 2 > there
    }

    /// Pages of a plane that are still mapped; none if it was never published.
    pub(super) fn plane(&self, nr: usize) -> PageBits {
        self.planes.get(nr).unwrap_or_default().and(self.present)
    }

    /// What was touched within spans.
    pub(super) const fn planes(&self) -> &Planes {
        &self.planes
    }

    /// Whether its pages share one accessed bit.
    pub(super) const fn is_huge(&self) -> bool {
        self.leaf_shift > 12
    }

    /// Whether looks that were planned when it was armed at `since` are still to be made.
    pub(super) fn expects(&self, since: Time) -> bool {
        self.since == since || self.turn.since == since
    }

    /// Whether it may be its turn again. Now and then the longer spans get the time that they need,
    /// however much changes. `most_ns`: the longest time between two turns.
    ///
    /// What happens in the unit has no influence on this, or its turns were no fair sample.
    pub(super) fn has_waited(&self, now: Time, spans: &[u64; SPANS], most_ns: u64) -> bool {
        // What was seen for the first time may have been the start of a program.
        let longest = match self.turns % 16 {
            15 => spans[4],
            3 | 7 | 11 => spans[3],
            _ => 0,
        };
        let rest = self.interval_ns.min(most_ns).max(longest + longest / 32);
        now.since(self.turn.since) >= rest
    }

    /// What a snapshot tells.
    pub(super) fn info(&self) -> UnitInfo {
        UnitInfo {
            start: self.start,
            since: self.since,
            present: self.present,
            unresolved: self.stuck.and(self.present),
            touched: core::array::from_fn(|nr| self.planes.get(nr)),
            leaf_shift: self.leaf_shift,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::target::TargetId;
    use crate::unit::UNIT;

    const MS: u64 = 1_000_000;
    const SPANS_NS: [u64; SPANS] = [5 * MS, 100 * MS, 1000 * MS, 10_000 * MS, 60_000 * MS];

    /// A look at `at` ms that finds all pages mapped and these young.
    fn look(unit: &mut Unit, young: PageBits, at: u64) -> News {
        let check = UnitCheck {
            answered: true,
            present: PageBits::ALL,
            young,
            ..UnitCheck::new(TargetId(1), UNIT, PageBits::ALL)
        };
        unit.was_looked_at(&check, Time(at * MS), &SPANS_NS)
    }

    /// Made old at `at` ms, after these were young.
    fn arm(unit: &mut Unit, young: PageBits, stuck: PageBits, at: u64) -> u64 {
        let check = UnitCheck {
            answered: true,
            present: PageBits::ALL,
            young,
            stuck,
            ..UnitCheck::new(TargetId(1), UNIT, PageBits::ALL)
        };
        unit.was_armed(&check, Time(at * MS))
    }

    /// The same when it is its turn.
    fn arm_in_turn(unit: &mut Unit, young: PageBits, stuck: PageBits, at: u64) -> u64 {
        unit.is_turn = true;
        arm(unit, young, stuck, at)
    }

    fn cell(nr: u64) -> PageBits {
        let start = nr * (64 << 10);
        PageBits::of(0, crate::AddrRange::new(start, start + (64 << 10)))
    }

    fn unit() -> Unit {
        Unit::new(UNIT, PageBits::ALL, Time(0))
    }

    #[test]
    fn a_plane_is_published_when_its_span_is_over() {
        let mut unit = unit();
        assert_eq!(arm(&mut unit, PageBits::ALL, PageBits::default(), 1000), 512);
        assert!(!look(&mut unit, PageBits::default(), 1002).judged, "too early");
        assert!(look(&mut unit, cell(0), 1005).judged);
        assert_eq!((unit.rate(0), unit.rate(1)), (1.0, 0.0));
        look(&mut unit, cell(0).or(cell(3)), 1100);
        assert_eq!((unit.plane(0), unit.plane(1)), (cell(0), cell(0).or(cell(3))));
        // What was touched stays so, also if others clear its bit.
        look(&mut unit, PageBits::default(), 2000);
        assert_eq!(unit.plane(2), cell(0).or(cell(3)));
    }

    #[test]
    fn a_late_look_counts_with_its_real_time() {
        let mut unit = unit();
        arm(&mut unit, PageBits::ALL, PageBits::default(), 1000);
        let half = PageBits([0x0000_ffff_0000_ffff; 8]).and(PageBits([0x00ff_00ff_00ff_00ff; 8]));
        look(&mut unit, half, 1010);
        // Half of the pages in two samples: 29 % in one.
        let rate = unit.rate(0);
        assert!((rate - 0.29).abs() < 0.01, "{rate}");
    }

    #[test]
    fn a_unit_without_a_young_page_counts_as_untouched() {
        let mut unit = unit();
        look(&mut unit, PageBits::default(), 1000);
        assert!(unit.armed && unit.planes().counted(0).is_none());
        assert!(look(&mut unit, PageBits::default(), 1300).published);
        assert_eq!([0, 1, 2].map(|nr| unit.planes().counted(nr)), [Some(0), Some(0), None]);
        // What is touched much later is news, and no plane's.
        assert_eq!(look(&mut unit, PageBits::ALL, 4000).woken, 512);
        assert_eq!(unit.planes().counted(2), None);
    }

    #[test]
    fn what_is_touched_in_a_window_is_touched_in_one_of_its_samples() {
        let mut unit = unit();
        arm_in_turn(&mut unit, PageBits::ALL, PageBits::default(), 1000);
        look(&mut unit, PageBits::default(), 1005);
        look(&mut unit, cell(3), 1100);
        assert!(unit.rate(3) >= 0.04 && unit.rate(2) == 0.0, "{}", unit.rate(3));
        assert_eq!(unit.steady_ns(3, Time(1200 * MS)), 100 * MS);
    }

    #[test]
    fn all_pages_in_some_samples_are_not_all_in_one() {
        for (touched, times, low, high) in
            [(16, 1.0, 1.0, 1.0), (16, 4.0, 0.5, 0.7), (8, 2.0, 0.28, 0.3), (0, 3.0, 0.0, 0.0)]
        {
            let rate = per_sample(touched, 16, times);
            assert!((low..=high).contains(&rate), "{touched} in {times} samples: {rate}");
        }
    }

    #[test]
    fn something_that_passes_by_is_not_chased() {
        let mut unit = unit();
        arm_in_turn(&mut unit, PageBits::ALL, PageBits::default(), 1000);
        look(&mut unit, PageBits::default(), 1005);
        look(&mut unit, PageBits::default(), 1105);
        for nr in 1..=3 {
            assert_eq!(unit.is_restless(), nr == 3);
            let at = 1000 + nr * 500;
            assert_eq!(look(&mut unit, PageBits::ALL, at).woken, 512);
            arm(&mut unit, PageBits::ALL, PageBits::default(), at + 5);
            look(&mut unit, PageBits::default(), at + 10);
            look(&mut unit, PageBits::default(), at + 105);
        }
        // It was its turn once, and nothing was touched for 5 ms. A second saw it all.
        look(&mut unit, PageBits::default(), 2010);
        assert_eq!([0, 2].map(|nr| unit.planes().counted(nr)), [Some(0), Some(512)]);
    }

    #[test]
    fn the_age_of_a_cell_begins_at_its_last_touch_as_far_as_is_known() {
        let mut unit = unit();
        arm(&mut unit, PageBits::ALL, PageBits::default(), 1000);
        look(&mut unit, PageBits::default(), 1005);
        assert_eq!(unit.steady_ns(0, Time(4000 * MS)), 3000 * MS, "idle since it was made old");
        let news = look(&mut unit, cell(0), 4000);
        assert_eq!(news.woken, 16);
        // One touch: nobody knows when the next one was, until it is made old again.
        assert_eq!(unit.steady_ns(1, Time(9000 * MS)), 8000 * MS);
        arm(&mut unit, cell(0), PageBits::default(), 9000);
        look(&mut unit, PageBits::default(), 9005);
        assert_eq!(unit.steady_ns(0, Time(10_000 * MS)), 1000 * MS);
        assert_eq!(unit.steady_ns(1, Time(10_000 * MS)), 9000 * MS);
    }

    #[test]
    fn what_cannot_be_made_old_is_not_called_hot() {
        let mut unit = unit();
        arm(&mut unit, PageBits::ALL, cell(2), 1000);
        look(&mut unit, cell(2), 1005);
        assert!(unit.is_blind(2) && !unit.is_blind(3));
        assert!(unit.plane(0).is_empty());
    }

    #[test]
    fn a_sentinel_that_stays_old_shows_that_hot_memory_has_gone_cold() {
        for (touched, calmed) in [(true, false), (false, true)] {
            let mut unit = unit();
            arm(&mut unit, PageBits::ALL, PageBits::default(), 1000);
            look(&mut unit, PageBits::ALL, 1005);
            let page = unit.choose_sentinel(77).unwrap();
            assert_eq!(page, PageBits::page(77));
            assert_eq!(unit.choose_sentinel(78), None, "one at a time");
            let check = UnitCheck {
                answered: true,
                present: PageBits::ALL,
                young: page,
                ..UnitCheck::new(TargetId(1), UNIT, page)
            };
            unit.was_armed(&check, Time(1100 * MS));
            assert_eq!(unit.young.count(), 511);
            let young = if touched { PageBits::ALL } else { PageBits::ALL.minus(page) };
            assert_eq!(look(&mut unit, young, 1200).calmed, calmed);
        }
    }

    #[test]
    fn a_span_begins_when_the_pages_became_old() {
        let mut unit = unit();
        let check = UnitCheck {
            answered: true,
            present: PageBits::ALL,
            young: PageBits::ALL,
            made_old: Some(Time(1000 * MS)),
            ..UnitCheck::new(TargetId(1), UNIT, PageBits::ALL)
        };
        unit.was_armed(&check, Time(1005 * MS));
        let half = PageBits([0x0000_ffff_0000_ffff; 8]).and(PageBits([0x00ff_00ff_00ff_00ff; 8]));
        look(&mut unit, half, 1010);
        // Half of the pages in two samples: 29 % in one.
        assert!((unit.rate(0) - 0.29).abs() < 0.01, "{}", unit.rate(0));
    }

    #[test]
    fn what_waits_for_others_is_as_it_was() {
        let mut unit = unit();
        arm(&mut unit, PageBits::ALL, PageBits::default(), 1000);
        look(&mut unit, PageBits::ALL, 1005);
        let later = UnitCheck {
            together: true,
            present: PageBits::ALL,
            young: PageBits::ALL,
            ..UnitCheck::new(TargetId(1), UNIT, PageBits::ALL)
        };
        assert_eq!(unit.was_armed(&later, Time(2300 * MS)), 0);
        assert!(unit.together && !unit.has_stuck());
        assert_eq!((unit.since, unit.rate(0)), (Time(1000 * MS), 1.0));
        assert_eq!(unit.choose_sentinel(3), None, "one page cannot be made old alone");
        // It was never armed: nothing is known, and the first pass goes on without it.
        let mut unit = self::unit();
        unit.was_armed(&later, Time(2300 * MS));
        look(&mut unit, PageBits::ALL, 2305);
        assert!(unit.armed && unit.is_blind(0) && unit.has_stuck());
        // When its time has come, it is known.
        arm(&mut unit, PageBits::ALL, PageBits::default(), 3300);
        look(&mut unit, PageBits::default(), 3305);
        assert!(!unit.is_blind(0) && !unit.has_stuck() && unit.rate(0) == 0.0);
    }

    #[test]
    fn a_sentinel_has_half_a_window_to_be_touched() {
        let mut unit = unit();
        arm_in_turn(&mut unit, PageBits::ALL, PageBits::default(), 1000);
        look(&mut unit, PageBits::ALL, 1005);
        let page = unit.choose_sentinel(77).unwrap();
        let check = UnitCheck {
            answered: true,
            present: PageBits::ALL,
            young: page,
            ..UnitCheck::new(TargetId(1), UNIT, page)
        };
        unit.was_armed(&check, Time(1995 * MS));
        // Another look is due just now.
        let others = PageBits::ALL.minus(page);
        assert!(!look(&mut unit, others, 2000).calmed, "after a sample");
        assert!(unit.rate(0) > 0.9);
        assert!(look(&mut unit, others, 2095).calmed, "after a window");
        assert_eq!((unit.rate(0), unit.is_sure()), (0.0, false));
    }

    #[test]
    fn a_level_is_sure_if_a_look_came_in_time() {
        for (first, young, sure) in [
            (1005, cell(0), true),
            // The target, or the monitor, was kept from running.
            (1060, PageBits::ALL, false),
        ] {
            let mut unit = unit();
            arm_in_turn(&mut unit, PageBits::ALL, PageBits::default(), 1000);
            look(&mut unit, young, first);
            look(&mut unit, young, 1100);
            assert_eq!(unit.is_sure(), sure, "first look at {first}");
        }
        // All is touched in a window, and nothing was in its first sample.
        let mut unit = unit();
        arm_in_turn(&mut unit, PageBits::ALL, PageBits::default(), 1000);
        look(&mut unit, PageBits::default(), 1005);
        assert!(unit.is_sure());
        look(&mut unit, PageBits::ALL, 1100);
        assert!(!unit.is_sure());
    }

    #[test]
    fn no_answer_changes_nothing() {
        let mut unit = unit();
        arm(&mut unit, PageBits::ALL, PageBits::default(), 1000);
        look(&mut unit, cell(0), 1005);
        let before = alloc::format!("{unit:?}");
        let check = UnitCheck::new(TargetId(1), UNIT, PageBits::ALL);
        unit.was_looked_at(&check, Time(2000 * MS), &SPANS_NS);
        unit.was_armed(&check, Time(2000 * MS));
        assert_eq!(before, alloc::format!("{unit:?}"));
    }

    #[test]
    fn a_unit_takes_less_than_half_a_thousandth_of_its_memory() {
        assert!(size_of::<Unit>() as u64 * 2000 <= UNIT, "{} bytes", size_of::<Unit>());
    }
}
