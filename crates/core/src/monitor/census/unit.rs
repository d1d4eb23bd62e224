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

mod levels;
mod outline;
mod quiet;
mod rates;
mod samples;
mod sentinel;
mod usual;
mod waits;
mod woken;

use self::levels::SETTLED;
pub(super) use self::outline::Outline;
use self::rates::Span;
pub(super) use self::rates::interval;
use self::samples::Samples;
use self::sentinel::NO_PAGE;
use self::usual::Usual;
pub(super) use self::woken::Woken;
use super::curve::{ALL, Course};
use super::planes::{Clock, Planes, Recount, Seen};
use crate::snapshot::{SPANS, TouchedShare, UnitInfo};
use crate::time::Time;
use crate::unit::{PageBits, UnitCheck};

/// Cells of a unit: 64 KiB each, the grain in which regions are drawn.
pub(super) const CELLS: usize = 32;
/// Pages that are touched at once, and were not before, from which on a unit is measured again.
const RISEN: u64 = 32;
/// Pages that are not touched any more, and were before, from which on a unit has gone cold.
const CALMED: u64 = 16;
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
    /// Whether it has to be measured again: a page that was touched all the time is not touched
    /// any more, and others may be; or the first look came too late to tell anything.
    pub(super) again: bool,
    /// Whether what woke up is touched all the time, as one page tells; `None`: none has told.
    pub(super) lasts: Option<bool>,
    /// Whether what woke up had passed by when the unit was armed for it; `None`: it was not.
    pub(super) alarm: Option<bool>,
    /// Whether a plane is not what it was.
    pub(super) published: bool,
    /// The points at which its course is not what it was, one bit each.
    pub(super) counted: u16,
    /// What its turn has counted.
    pub(super) recount: Recount,
    /// In how many ns it is to be looked at again, if something is waited for: cells, see
    /// `unit/waits.rs`, or its sentinel, see `unit/samples.rs`.
    pub(super) look_in: Option<u64>,
}

impl News {
    /// Takes in what its turn has counted.
    const fn take(&mut self, recount: Recount) {
        self.recount = recount;
        self.published |= recount.is_new;
    }
}

/// A unit.
#[derive(Debug, Clone)]
pub(super) struct Unit {
    pub(super) start: u64,
    /// Pages that the target has.
    pub(super) pages: Usual,
    pub(super) present: Usual,
    /// Pages touched since the unit was armed.
    pub(super) young: PageBits,
    /// Pages that cannot be made old.
    stuck: Usual,
    planes: Planes,
    /// When it was its turn last, and the pages that were touched since then and made old again.
    turn: Clock,
    earlier: Usual,
    /// How soon its pages are touched after its turns.
    pub(super) course: Course,
    /// When it was armed out of turn, if that was later.
    extra: Clock,
    /// The size of its leaves, as in [`UnitCheck`].
    leaf_shift: u8,
    /// How many turns it had.
    turns: u8,
    /// How often it was armed out of turn for something that had passed by when it was looked at.
    false_alarms: u8,
    /// Whether it had no page when it was its turn, and none was seen since.
    bare: bool,
    /// Whether it is about to be armed because it is its turn.
    pub(super) is_turn: bool,
    /// Whether it had its last turn although nothing was left of the budget.
    pub(super) was_granted: bool,
    /// Whether it was first armed when it was its turn, or has had another one since.
    pub(super) in_turn: bool,
    /// When the unit was armed, and when it was looked at last.
    pub(super) since: Time,
    pub(super) looked: Time,
    /// By cell: the share of its pages that were touched within one sample, of [`FULL`].
    levels: [u8; CELLS],
    /// Whether a level is only a guess: a bound, or what one page tells. It is, until a first look
    /// comes in time.
    guessed: bool,
    /// Over how long a span they were measured.
    span: Span,
    /// By cell: since when it has looked like this, in [`TICK_NS`].
    steady: [u32; CELLS],
    /// A page that was armed alone, because it was expected to be touched at once; and when.
    sentinel: u16,
    sentinel_since: Time,
    /// What its sentinels have told of single samples.
    samples: Samples,
    /// Cells that have woken up, one bit each. Whether they are touched all the time is asked of
    /// a sentinel, as long as it is not 0.
    waking: u32,
    /// Cells of which a sample sees all or nothing, and those of them of which nothing was touched
    /// yet since the arming, one bit each.
    bursts: u32,
    waiting: u32,
    /// In how many armings in a row there were such cells, up to a number.
    nr_bursts: u8,
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
    /// Whether what was counted of it is past, so that its next turn is due at once.
    pub(super) is_stale: bool,
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

#[expect(clippy::cast_precision_loss, reason = "a ratio of two times")]
fn ratio(a: u64, b: u64) -> f32 {
    a as f32 / b.max(1) as f32
}

impl Unit {
    /// A unit of which nothing is known.
    pub(super) fn new(start: u64, pages: PageBits, now: Time) -> Self {
        Self {
            start,
            pages: Usual::new(pages),
            present: Usual::default(),
            young: PageBits::default(),
            stuck: Usual::default(),
            planes: Planes::default(),
            turn: Clock::default(),
            earlier: Usual::default(),
            course: Course::default(),
            extra: Clock::default(),
            leaf_shift: 12,
            turns: 0,
            false_alarms: 0,
            bare: false,
            is_turn: false,
            was_granted: false,
            in_turn: true,
            since: now,
            looked: now,
            levels: [0; CELLS],
            guessed: false,
            span: Span::default(),
            steady: [tick(now); CELLS],
            sentinel: NO_PAGE,
            sentinel_since: now,
            samples: Samples::default(),
            waking: 0,
            bursts: 0,
            waiting: 0,
            nr_bursts: 0,
            interval_ns: INTERVAL_NS.0,
            woken: 0,
            same: 0,
            known: false,
            armed: false,
            is_stale: false,
            suspected: false,
            urgent: false,
            together: false,
        }
    }

    /// Whether it could be made old by itself before, and by this answer only together with all
    /// memory of the target.
    pub(super) fn is_newly_shared(&self, check: &UnitCheck) -> bool {
        self.armed && !self.together && check.together && check.pages == *self.pages
    }

    /// Whether something of it is in use that cannot be seen until all memory of the target is made
    /// old.
    pub(super) fn needs_clearing(&self) -> bool {
        self.together && self.has_stuck()
    }

    /// Takes in that the unit, or a part of it, was made old at `now`. Returns how many pages the
    /// target will have to set the bit of again.
    pub(super) fn was_armed(&mut self, check: &UnitCheck, now: Time) -> u64 {
        if check.pages == *self.pages {
            self.together = check.together;
        }
        if !check.answered {
            if check.together && !self.armed {
                // Others need not wait for it. Until its time comes nothing is known.
                self.present.set(check.present.and(*self.pages));
                self.stuck.set(*self.present);
                (self.since, self.looked, self.known, self.armed) = (now, now, true, true);
            }
            return 0;
        }
        let asked = check.pages.and(*self.pages);
        let found = check.young.and(asked);
        self.planes.take_new(found.and(check.present).minus(*self.present));
        self.present.set(self.present.minus(asked).or(check.present.and(asked)));
        let was_stuck = *self.stuck;
        self.stuck.set(self.stuck.minus(asked).or(check.stuck.and(asked)));
        if !was_stuck.minus(*self.stuck).is_empty() {
            // The planes left these pages out, which does not mean that they were idle. All spans
            // are measured anew.
            (self.planes, self.guessed, self.is_turn) = (Planes::default(), true, true);
        }
        (self.known, self.leaf_shift) = (true, check.leaf_shift);
        if asked != *self.pages {
            // A sentinel. It says nothing of the other pages.
            self.sentinel_since = now;
            self.samples.begin();
            if !check.stuck.is_empty() {
                (self.sentinel, self.waking) = (NO_PAGE, 0);
            }
            self.earlier.set(self.earlier.or(self.young.and(asked)));
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
        (self.sentinel, self.waking, self.waiting) = (NO_PAGE, 0, 0);
        if core::mem::take(&mut self.is_turn) {
            (self.turn, self.extra) = (Clock::begin(since, SPANS), Clock::default());
            self.planes.begin_turn();
            self.course.begin_turn();
            // However it was found, its second turn is one like any other.
            self.in_turn |= self.armed;
            self.earlier.set(PageBits::default());
            if core::mem::replace(&mut self.bare, self.present.is_empty()) {
                self.planes = Planes::default();
            }
            self.turns = self.turns.wrapping_add(1);
            self.false_alarms = self.false_alarms.saturating_sub(1);
        } else {
            self.extra = Clock::begin(since, OUT_OF_TURN);
            let newly = found.minus(self.young).minus(*self.earlier).minus(check.stuck);
            self.turn.expose(newly.count(), since.since(self.looked));
            self.earlier.set(self.earlier.or(touched.minus(check.stuck)));
        }
        self.young = PageBits::default();
        (self.since, self.looked, self.armed, self.urgent) = (since, since, true, false);
        self.is_stale = false;
        found.minus(check.stuck).count()
    }

    /// Takes in that one of its pages was made old for another purpose. For the unit that is a
    /// look: what was touched stays touched.
    pub(super) fn was_probed(&mut self, check: &UnitCheck) {
        if !check.answered {
            return;
        }
        let asked = if check.leaf_shift > 12 { *self.pages } else { check.pages };
        let found = check.young.and(asked).and(*self.present).minus(*self.stuck);
        self.young = self.young.or(found);
    }

    /// Takes in a look. `spans`: of the planes, in ns, the first one sample long. `passing`:
    /// whether what wakes up in this target mostly passes by.
    pub(super) fn was_looked_at(
        &mut self,
        check: &UnitCheck,
        now: Time,
        spans: &[u64; SPANS],
        passing: bool,
    ) -> News {
        let mut news = News::default();
        if !check.answered {
            return news;
        }
        let present = check.present.and(*self.pages);
        // Some are gone for a moment only, while the kernel makes a huge page of them.
        let mapped = present.minus(*self.present).and(check.young);
        let is_mostly_new = self.armed && self.turns <= 1 && mapped.count() * 2 > present.count();
        if is_mostly_new || self.bare && !present.is_empty() {
            news.counted = self.begin_anew();
        }
        news.published = self.planes.take_new(mapped);
        self.turn.note_mapped(mapped.count());
        self.present.set(present);
        self.lose(check.stuck.and(*self.pages));
        // Others may have cleared bits that an earlier look saw.
        let touched = self.young.or(check.young).and(*self.present).minus(*self.stuck);
        // What is mapped for the first time has not woken up.
        let newly = touched.minus(self.young).minus(mapped);
        if !self.known && touched.is_empty() {
            // Nothing has to be made old: the clock starts at this look. Looks find only idle units
            // so, and those would make the sample of what is armed in turn look idle.
            (self.in_turn, self.armed, self.bare) = (false, true, present.is_empty());
            (self.since, self.turn) = (now, Clock::begin(now, SPANS));
        }
        (self.known, self.leaf_shift) = (true, check.leaf_shift);
        let was_young = core::mem::replace(&mut self.young, touched);
        if !self.armed {
            self.looked = now;
            return news;
        }
        self.hear_sentinel(touched, now, spans, &mut news);
        let (elapsed, before) = (now.since(self.since), self.plane(0));
        let (was_open, window_was_open) = (self.is_first_open(), self.is_window_open());
        let is_newest = self.turn.since == self.since;
        let since_turn = self.earlier.or(touched).and(*self.present);
        self.turn.expose(newly.minus(*self.earlier).count(), now.since(self.looked));
        let seen = Seen { now, pages: touched, looked: self.looked, before: was_young };
        news.published |= self.planes.publish(&mut self.extra, &seen, spans);
        let seen = Seen { pages: since_turn, before: self.earlier.or(was_young), ..seen };
        news.take(self.planes.count(&mut self.turn, &seen, spans, is_newest));
        if self.in_turn {
            let size = self.size() - self.nr_stuck();
            let turn = (self.turn.since, self.planes.first_look());
            news.counted |= self.course.take(turn, &seen, size, spans);
        }
        let first_ended = was_open && !self.is_first_open();
        if first_ended && (elapsed <= spans[0] * JUDGED || touched.is_empty()) {
            news.judged = true;
            news.calmed = self.judge(before, touched, now, ratio(elapsed, spans[0]));
            if news.calmed && !passing {
                self.expect_less(touched);
            }
            let is_first = self.turn.since == self.since && self.turns <= 1;
            let more = touched.minus(before).count();
            news.risen = !is_first && more >= RISEN.max(before.count());
        } else if first_ended {
            news.again = self.guessed || self.touched_where_quiet(touched) >= RISEN;
        } else if !self.is_first_open() {
            self.show_newly(newly, now, spans, passing, &mut news);
            let idle = self.hear_waits(touched, elapsed, spans);
            // What passes by is mostly not there.
            if idle >= CALMED && !passing {
                news.calmed = true;
                self.expect_less(touched);
            }
        }
        if window_was_open && !self.is_window_open() && elapsed <= spans[1] * 2 {
            self.end_window(touched, now, spans, &mut news);
        }
        self.count_bursts();
        // Looks at twice the time each.
        if self.waiting != 0 && elapsed * 2 < spans[1] {
            news.look_in = Some(elapsed);
        }
        self.looked = now;
        news
    }

    /// These pages were touched since the last look, which was after the first sample.
    fn show_newly(
        &mut self,
        newly: PageBits,
        now: Time,
        spans: &[u64; SPANS],
        passing: bool,
        news: &mut News,
    ) {
        // What shows within a window after the arming may be hot and touched now and then.
        let (elapsed, looked) = (now.since(self.since), self.looked.since(self.since));
        let was_quiet = looked * 4 >= spans[1] * 3;
        if was_quiet || elapsed > spans[1] * 2 {
            news.woken = newly.count();
        }
        if was_quiet && !newly.is_empty() {
            let span = if passing || self.false_alarms > 0 { elapsed } else { spans[1] };
            self.wake(newly, now, ratio(span.max(spans[1]), spans[0]));
        }
    }

    /// The unit had no page when it was its turn, or few, and has more now: of them nothing is
    /// known. So its next turn is due at once. Returns at which points its course is not what it
    /// was.
    fn begin_anew(&mut self) -> u16 {
        (self.planes, self.bare) = (Planes::default(), false);
        (self.turn, self.extra) = (Clock::default(), Clock::default());
        (self.course, self.interval_ns, self.same) = (Course::default(), INTERVAL_NS.0, 0);
        if self.turns <= 1 {
            // What was never seen comes first. But only once: some memory comes and goes.
            (self.armed, self.turns) = (false, 0);
        }
        ALL
    }

    /// Whether its next turn comes before all that is known already: it was never armed, or not
    /// since all of the target has changed.
    pub(super) const fn is_unknown(&self) -> bool {
        !self.armed || self.is_stale
    }

    /// Whether pages have woken up since its last turn, which was before this time. The turns of
    /// what can only be made old together with all memory may be far away.
    pub(super) fn has_woken_since_turn(&self, before: Time) -> bool {
        self.woken > 0 && self.armed && !self.together && self.turn.since < before
    }

    /// The target uses its memory in another way since the last turns.
    pub(super) fn start_over(&mut self) {
        self.planes.uncount();
        (self.course, self.interval_ns, self.same) = (Course::default(), INTERVAL_NS.0, 0);
        (self.is_stale, self.woken) = (true, 0);
    }

    /// The window after the unit was armed is over. These pages were touched within it.
    fn end_window(&mut self, touched: PageBits, now: Time, spans: &[u64; SPANS], news: &mut News) {
        let begun = self.begun_within(touched);
        news.again |= self.take_window(touched, now, ratio(spans[0], spans[1]));
        news.again |= self.doubts_bursts();
        let woken = core::mem::take(&mut self.woken);
        if self.turn.since == self.since {
            // It woke up within its first window.
            if begun.count() >= RISEN {
                news.woken = begun.count();
                self.wake(begun, now, ratio(spans[1], spans[0]));
            }
            return;
        }
        if woken == 0 {
            return;
        }
        if touched.count() * 4 < woken {
            // What woke up has passed by already.
            news.alarm = Some(true);
            self.has_passed(spans);
        } else if self.is_lasting() {
            news.published |= self.expect_more(touched);
            // Whether it lasts, a sentinel tells.
            news.risen = true;
        }
    }

    /// Nothing is known of these pages any more, until they are made old again.
    fn lose(&mut self, pages: PageBits) {
        if pages.is_empty() {
            return;
        }
        self.stuck.set(self.stuck.or(pages));
        if !PageBits::page(self.sentinel).and(pages).is_empty() {
            (self.sentinel, self.waking) = (NO_PAGE, 0);
        }
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

    /// Whether it was armed once at most.
    pub(super) const fn is_new(&self) -> bool {
        self.turns <= 1 && self.extra.since.0 <= self.turn.since.0
    }

    /// What was touched when the unit was armed out of turn, or was touched all over in its turn,
    /// has passed by.
    fn has_passed(&mut self, spans: &[u64; SPANS]) {
        self.false_alarms = (self.false_alarms + ALARM).min(MOST_ALARMS);
        for span in 0..SETTLED {
            if let Some(pages) = self.course.within(span, spans) {
                self.planes.expect_no_more(span, pages);
            }
        }
    }

    /// Whether what wakes up here passes by before anybody can look, again and again. Such a unit
    /// is left alone until it is its turn: the turns tell how much of it is touched at a time.
    pub(super) const fn is_restless(&self) -> bool {
        self.false_alarms >= 2 * ALARM
    }

    /// The shares of a cell's mapped pages that were touched within a window and within a second.
    pub(super) fn touched(&self, cell: usize) -> TouchedShare {
        let there = self.present.minus(*self.stuck).cell(cell);
        let within = |span| {
            let plane: PageBits = self.planes.get(span)?;
            Some(share((plane.cell(cell) & there).count_ones(), there.count_ones()))
        };
        TouchedShare { window: within(1), second: within(2), leaf_shift: self.leaf_shift }
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
        self.planes.get(nr).unwrap_or_default().and(*self.present)
    }

    /// What was touched within spans.
    pub(super) const fn planes(&self) -> &Planes {
        &self.planes
    }

    /// The number of its pages that are mapped, as far as that is known.
    pub(super) fn size(&self) -> u64 {
        if self.known { self.present.and(*self.pages).count() } else { self.pages.count() }
    }

    /// Its pages that are mapped and can be made old.
    pub(super) fn clearable(&self) -> PageBits {
        self.present.and(*self.pages).minus(*self.stuck)
    }

    /// Whether its pages share one accessed bit.
    pub(super) const fn is_huge(&self) -> bool {
        self.leaf_shift > 12
    }

    /// How many of those cannot be made old now.
    pub(super) fn nr_stuck(&self) -> u64 {
        self.stuck.and(*self.present).and(*self.pages).count()
    }

    /// How many accessed bits these pages have.
    pub(super) fn leaves(&self, pages: PageBits) -> u64 {
        if self.is_huge() { u64::from(!pages.is_empty()) } else { pages.count() }
    }

    /// When it was its turn last.
    pub(super) const fn last_turn(&self) -> Time {
        self.turn.since
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
            present: *self.present,
            unresolved: self.stuck.and(*self.present),
            touched: core::array::from_fn(|nr| self.planes.get(nr)),
            found: None,
            found_after: Time(0),
            young: self.armed.then(|| self.young.and(*self.present).minus(*self.stuck)),
            leaf_shift: self.leaf_shift,
        }
    }
}

#[cfg(test)]
mod stuck;
#[cfg(test)]
mod tests;
