//! Planes: the pages of a unit that were touched within spans after it was made old.
//!
//! A unit may be made old for two reasons, and two clocks say what its spans are counted from. When
//! it is its *turn*, the time has nothing to do with what happens in it. So what is touched then
//! may be added up to a working set. *Out of turn* it is made old because it has just changed, and
//! then it is touched more, or less, than usual: memory that something sweeps over would look hot.
//! That shows in the planes, which say what is known of the pages, and is not counted.
//!
//! The clock of the turn goes on when the unit is made old in between. What had been touched by
//! then is kept, so long spans are not cut short in just those units in which something happens.
//!
//! A look that comes late has seen what was touched within more than the span, and the look before
//! it less. So the number lies between, and if it is very late that is told with a doubt; see
//! [`Seen::within`]. (If late looks were left out, only idle units would be counted on a busy
//! machine: their looks say the same at any time. If a look that is a little late were taken as it
//! is, memory that is used evenly would look larger by as much.)

use crate::snapshot::SPANS;
use crate::time::Time;
use crate::unit::PageBits;

/// A span may be over this share of a sample earlier than it should, in percent: arming takes time,
/// and looks come when samples end.
pub(super) const EARLY: u64 = 20;
/// Looks after more than this share of a span are late, in percent.
const LATE: u64 = 150;
/// From this share of a span on, in percent, they say too little about it.
const TOO_LATE: u64 = 300;

/// A late first look that has seen up to this share of what is touched within the window tells how
/// much of it is touched within a sample, in percent. It may come after this share of the sample.
const TELLING: u32 = 60;
const LATEST: u64 = 500;

/// Whether a look that comes so long after the arming says what was touched within `span`.
pub(super) const fn is_over(elapsed_ns: u64, span: u64, spans: &[u64; SPANS]) -> bool {
    elapsed_ns.saturating_add(spans[0] * EARLY / 100) >= span
}

/// Numbers of pages between two looks are in parts of a page. There may be few pages in each unit,
/// and what is rounded down in all of them is missing in the sum.
const GRAIN: u64 = 256;

/// What a look has found touched since a clock began, and what the look before it had found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Seen {
    pub(super) now: Time,
    pub(super) pages: PageBits,
    pub(super) looked: Time,
    pub(super) before: PageBits,
}

/// What was touched within a span: the pages, their number, and between how many numbers the truth
/// lies. `either`: by how many the number may be wrong in the same way as all others, because all
/// looks of a batch are a little late. `from_zero`: nothing but a line from zero tells the number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Within {
    pages: PageBits,
    count: u16,
    apart: u16,
    either: u8,
    from_zero: bool,
}

impl Seen {
    /// A look of which nothing before is known.
    #[cfg(test)]
    const fn of_test(now: Time, pages: PageBits) -> Self {
        Self { now, pages, looked: Time(0), before: PageBits([0; 8]) }
    }

    /// What was touched within a span of this length, if the look was not too late to tell.
    ///
    /// In memory that is used in the same way all the time, ever fewer pages are touched for the
    /// first time as time goes on. So at a time between two looks no fewer were touched than the
    /// straight line between them says, and no more than the line from the beginning through the
    /// first look. The middle of the two is taken. For hot memory both are nearly all of the pages,
    /// and for something that passes by, at an even speed, they are equal.
    fn within(&self, since: Time, span: u64) -> Option<Within> {
        let (elapsed, looked) = (self.now.since(since), self.looked.since(since));
        let (most, least) = (self.pages.count(), self.before.and(self.pages).count());
        let (is_late, is_first) = (elapsed * 100 > span * LATE, looked == 0);
        let count = number(most);
        let seen = Within { pages: self.pages, count, apart: 0, either: 0, from_zero: false };
        // Of what was touched within one sample, nothing before the look is known.
        if elapsed <= span || !is_late && is_first || most == least {
            return Some(seen);
        }
        let (low, high) = self.between(since, span)?;
        let (count, either) = (nearest((low + high) / 2), (high - low).div_ceil(2 * GRAIN));
        let either = u8::try_from(either).unwrap_or(u8::MAX);
        if !is_late {
            return Some(Within { count: number(count), either, ..seen });
        }
        let pages = if count - least < most - count { self.before } else { self.pages };
        // Memory that has just begun to be used keeps to no line.
        let apart = number((high - low).div_ceil(GRAIN).max((most - least).div_ceil(4)));
        let (pages, count) = (pages.and(self.pages), number(count));
        // What a line from zero says of hot memory is too little everywhere.
        let either = if is_first { either } else { 0 };
        Some(Within { pages, count, apart, either, from_zero: is_first })
    }

    /// Between which numbers the truth lies, in parts of a page ([`GRAIN`]), if the look came after
    /// the end of the span and another one before. None if it was too late to tell.
    fn between(&self, since: Time, span: u64) -> Option<(u64, u64)> {
        let (elapsed, looked) = (self.now.since(since), self.looked.since(since));
        let (most, least) = (self.pages.count(), self.before.and(self.pages).count());
        if elapsed * 100 >= span * TOO_LATE || looked >= span {
            return None;
        }
        let later = u128::from(most - least) * u128::from(span - looked);
        let (least, most) = (least * GRAIN, most * GRAIN);
        let low =
            least + saturated(later * u128::from(GRAIN) / u128::from((elapsed - looked).max(1)));
        let high = match u128::from(least) * u128::from(span) {
            0 => most,
            first => most.min(saturated(first / u128::from(looked.max(1)))).max(low),
        };
        Some((low, high))
    }

    /// How many pages were touched by so long after `since`, if what comes between two looks comes
    /// at an even speed; none if the look was too late to tell.
    ///
    /// Of many units together that is right also where something passes by, each at once.
    pub(super) fn by(&self, since: Time, span: u64) -> Option<u16> {
        let (elapsed, looked) = (self.now.since(since), self.looked.since(since));
        let most = self.pages.count();
        let is_first = looked == 0 && elapsed * 100 <= span * LATE;
        if elapsed <= span || is_first || most == self.before.and(self.pages).count() {
            return Some(number(most));
        }
        self.between(since, span).map(|(low, _)| number(nearest(low)))
    }
}

/// The first look at what was made old: when it came, in parts of 64 of the span that it was for (0
/// if it tells nothing of that), and how many pages it saw.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct FirstLook {
    at: u16,
    seen: u16,
}

impl FirstLook {
    /// Of a look at what was made old at `since`. If it was too late to tell, none.
    pub(super) fn of(seen: &Seen, since: Time, span: u64) -> Self {
        let elapsed = seen.now.since(since);
        let is_known = seen.looked.since(since) == 0 && elapsed * 100 < span * LATEST;
        let at = if is_known { (elapsed * 64 + span / 2) / span.max(1) } else { 0 };
        Self { at: number(at), seen: number(seen.pages.count()) }
    }

    /// Whether it tells of the span although it was late, if so many pages were touched by a look
    /// that came much later: most of those came after it, so hardly any of them are hot.
    fn is_telling(self, later: u16) -> bool {
        u32::from(self.seen) * 100 <= u32::from(later) * TELLING
    }

    /// How many pages were touched by the end of the span, if so many were at a look that came much
    /// later. None if the first look came just then, or has seen all of them.
    ///
    /// Of memory that is used at random, `later * (1 - e^(-t / T))` pages are touched by `t`; of
    /// memory that is hot, all of them. The number is rounded up or down by chance, or what is
    /// little in each unit would never be corrected.
    pub(super) fn corrected(self, later: u16, since: Time) -> Option<u16> {
        if self.at == 0 || self.at == 64 || self.seen >= later {
            return None;
        }
        if u64::from(self.at) * 100 > 64 * TOO_LATE && !self.is_telling(later) {
            return None;
        }
        let (seen, later) = (f32::from(self.seen), f32::from(later));
        let part = 64.0 / f32::from(self.at);
        let in_time = later * (1.0 - libm::powf(1.0 - seen / later, part));
        #[expect(clippy::cast_possible_truncation, reason = "any bits will do")]
        let chance = f32::from((since.0 >> 10) as u8) / 256.0;
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "0..=512")]
        Some((in_time + chance) as u16)
    }
}

/// The grain of the times between looks, in ns.
pub(super) const EXPOSED_NS: u64 = 10_000_000;

/// When the spans began, and which are still to be published: one bit for each.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Clock {
    pub(super) since: Time,
    open: u8,
    /// The sum over all pages that were found touched since, of the time between the look that
    /// found them and the one before, in [`EXPOSED_NS`].
    exposed: u32,
    /// Pages that were mapped since.
    came: u16,
}

impl Clock {
    /// The first `spans` spans begin now.
    pub(super) const fn begin(since: Time, spans: usize) -> Self {
        Self { since, open: (1 << spans) - 1, exposed: 0, came: 0 }
    }

    /// A look has found so many pages, the first one for `gap_ns`.
    pub(super) fn expose(&mut self, pages: u64, gap_ns: u64) {
        let exposed = pages * ((gap_ns + EXPOSED_NS / 2) / EXPOSED_NS).min(1 << 20);
        self.exposed = self.exposed.saturating_add(u32::try_from(exposed).unwrap_or(u32::MAX));
    }

    /// So many pages were mapped since the last look.
    pub(super) fn note_mapped(&mut self, pages: u64) {
        self.came = self.came.saturating_add(number(pages));
    }

    /// Whether the end of the first span was not seen yet.
    pub(super) const fn is_first_open(self) -> bool {
        self.is_open(0)
    }

    /// Whether the end of a span was not seen yet.
    pub(super) const fn is_open(self, nr: usize) -> bool {
        self.open >> nr & 1 == 1
    }

    /// Whether the end of a span that was not seen yet would be seen at `now`.
    pub(super) fn is_over(self, now: Time, spans: &[u64; SPANS]) -> bool {
        let elapsed = now.since(self.since);
        let mut all = spans.iter().enumerate();
        self.open != 0 && all.any(|(nr, span)| self.is_open(nr) && is_over(elapsed, *span, spans))
    }

    /// Closes the spans that are over, and calls `f` with the number of each and what was touched
    /// within it.
    fn close(&mut self, seen: &Seen, spans: &[u64; SPANS], mut f: impl FnMut(usize, Within)) {
        let elapsed = seen.now.since(self.since);
        for (nr, span) in spans.iter().enumerate() {
            if self.open >> nr & 1 == 1 && is_over(elapsed, *span, spans) {
                self.open &= !(1 << nr);
                if let Some(within) = seen.within(self.since, *span) {
                    f(nr, within);
                }
            }
        }
    }
}

/// The planes of a unit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Planes {
    bits: [PageBits; SPANS],
    /// One bit per plane: whether it was ever published; counted; counted twice.
    published: u8,
    counted: u8,
    twice: u8,
    /// Whether the number is what has been expected since the unit changed, and whether that was in
    /// the turn that still goes on.
    expected: u8,
    in_turn: u8,
    /// By plane: its number of pages when it was counted last, and by how many the count before
    /// differed.
    counts: [u16; SPANS],
    apart: [u16; SPANS],
    /// By plane: see [`Within::either`].
    either: [u8; SPANS],
    /// By plane: for how long its counted pages could lose their bits, see [`Clock`].
    exposed: [u32; SPANS],
    /// By plane: how many of its counted pages were mapped within the span. That they were touched
    /// then does not tell whether they are used.
    came: [u16; SPANS],
    /// How many more pages there may be within the shortest span, since what is counted there is
    /// what one page tells of all.
    guessed: u16,
    /// Whether the number of the shortest span comes from a first look that was late.
    is_late: bool,
    /// The first look of the last turn.
    first: FirstLook,
    /// What was counted of the shortest span when the last turn began. The number of this turn is
    /// known at the end of its window.
    before: Option<u16>,
}

/// What a look has told of the planes at the clock of the turn.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Recount {
    /// Whether a plane is not what it was.
    pub(super) is_new: bool,
    /// By how many pages the number of a span differs from what it was.
    pub(super) differs: [Option<i16>; SPANS],
}

impl Planes {
    /// A look out of turn has found these pages touched since `clock`. Returns whether that tells
    /// anything new.
    pub(super) fn publish(&mut self, clock: &mut Clock, seen: &Seen, spans: &[u64; SPANS]) -> bool {
        let mut measured = *clock;
        let open = clock.open;
        measured.close(seen, spans, |nr, Within { count, .. }| {
            if self.expected >> nr & 1 == 0 && self.came[nr] == 0 {
                return;
            }
            // What was only expected is measured now. What had just been mapped is so no more, but
            // something has just happened there, so what is touched is more than usual.
            let is_expected = self.expected >> nr & 1 == 1;
            (self.counts[nr], self.came[nr]) = (count, if is_expected { 0 } else { count });
            self.sure(nr);
            for longer in nr + 1..SPANS {
                if self.came[longer] > 0 && open >> longer & 1 == 0 {
                    (self.counted, self.came[longer]) = (self.counted & !(1 << longer), 0);
                }
            }
        });
        self.show(clock, seen, spans)
    }

    /// A look has found these pages touched since `clock`.
    fn show(&mut self, clock: &mut Clock, seen: &Seen, spans: &[u64; SPANS]) -> bool {
        let mut is_new = false;
        clock.close(seen, spans, |nr, Within { pages, apart, .. }| {
            if nr == 0 && apart > 0 {
                // What is touched within one sample is a rate, which has to be measured.
                return;
            }
            is_new |= self.published >> nr & 1 == 0 || self.bits[nr] != pages;
            self.published |= 1 << nr;
            self.bits[nr] = pages;
        });
        is_new
    }

    /// The same for the clock of the turn. The pages are counted, and published if no other clock
    /// has published something newer.
    pub(super) fn count(
        &mut self,
        clock: &mut Clock,
        seen: &Seen,
        spans: &[u64; SPANS],
        is_newest: bool,
    ) -> Recount {
        let mut both = *clock;
        let is_new = is_newest && self.show(&mut both, seen, spans);
        let mut told = Recount { is_new, ..Recount::default() };
        let (exposed, came) = (clock.exposed, clock.came);
        let since = clock.since;
        if clock.is_open(0) && is_over(seen.now.since(since), spans[0], spans) {
            self.first = FirstLook::of(seen, since, spans[0]);
        }
        clock.close(seen, spans, |nr, Within { count, apart, either, from_zero, .. }| {
            let bit = 1 << nr;
            if self.in_turn & bit != 0 {
                // The unit has changed within the span, so what was seen before is past.
                return;
            }
            self.expected &= !bit;
            let is_alike = self.counted & bit != 0 && from_zero == self.is_late(nr);
            let last = if is_alike { self.counts[nr] } else { count };
            told.differs[nr] = (is_alike && nr > 0).then(|| difference(count, last));
            if is_alike || apart > 0 {
                self.twice |= bit;
                self.apart[nr] = last.abs_diff(count).max(apart / 2);
            }
            self.counted |= bit;
            (self.counts[nr], self.exposed[nr], self.either[nr]) = (count, exposed, either);
            self.came[nr] = came.min(count);
            self.sure(nr);
            self.is_late = if nr == 0 { from_zero } else { self.is_late };
            if nr == 1 {
                self.come_in_time(count, since);
                let before = self.before.filter(|_| self.is_of_turn(0) && !self.is_late);
                told.differs[0] = before.map(|before| difference(self.counts[0], before));
            }
        });
        told
    }

    /// These pages were touched since the spans ended: they were not there at the last look, or
    /// have woken up. So no plane may say that they were idle. What is touched within one sample is
    /// not told by that. Returns whether a plane is not what it was.
    pub(super) fn take_new(&mut self, pages: PageBits) -> bool {
        let (published, mut is_new) = (self.published, false);
        let planes = self.bits.iter_mut().enumerate().skip(1);
        for (_, bits) in planes.filter(|(nr, _)| published >> nr & 1 == 1) {
            is_new |= !pages.minus(*bits).is_empty();
            *bits = bits.or(pages);
        }
        is_new
    }

    /// The unit has changed, and so many pages are expected to be touched within a span from now
    /// on. That is counted until the unit's next turn, in place of what is known to be past.
    pub(super) fn expect(&mut self, nr: usize, pages: u64) {
        if self.counted >> nr & 1 == 1 {
            let pages = number(pages);
            self.apart[nr] = self.counts[nr].abs_diff(pages);
            (self.counts[nr], self.exposed[nr], self.came[nr]) = (pages, 0, 0);
            self.twice |= 1 << nr;
            self.expected |= 1 << nr;
            self.in_turn |= 1 << nr;
            self.sure(nr);
        }
    }

    /// The same for the shortest span, if only one page has told, and there may be `more` pages.
    pub(super) fn guess(&mut self, pages: u64, more: u64) {
        self.expect(0, pages);
        self.guessed = if self.is_expected(0) { number(more) } else { 0 };
    }

    /// So many pages were touched within the window that began at `since`. That tells what the
    /// first look would have counted, had it come at the end of its sample. Whether the unit is
    /// used as that takes it to be is not known, so what the look did see is within the doubt.
    fn come_in_time(&mut self, pages: u16, since: Time) {
        let Some(in_time) = self.first.corrected(pages, since) else { return };
        let is_telling = self.first.is_telling(pages);
        if !is_telling && !self.is_of_turn(0) || self.in_turn & 1 != 0 {
            return;
        }
        let more = self.first.seen.abs_diff(in_time);
        self.either[0] = u8::try_from(more).unwrap_or(u8::MAX);
        self.counts[0] = in_time;
        if is_telling {
            (self.counted, self.expected) = (self.counted | 1, self.expected & !1);
            self.sure(0);
        }
    }

    /// The first look of the last turn.
    pub(super) const fn first_look(&self) -> FirstLook {
        self.first
    }

    /// Whether the number of a span was counted, and nothing else has been expected since.
    const fn is_of_turn(&self, nr: usize) -> bool {
        self.counted >> nr & 1 == 1 && (self.expected | self.in_turn) >> nr & 1 == 0
    }

    /// More is known about what was counted of a span in this turn than one look tells.
    pub(super) fn correct(&mut self, nr: usize, pages: u64) {
        if self.is_of_turn(nr) {
            self.counts[nr] = number(pages);
            self.sure(nr);
        }
    }

    /// The number of a span is no guess any more.
    const fn sure(&mut self, nr: usize) {
        if nr == 0 {
            (self.guessed, self.is_late) = (0, false);
        }
    }

    /// What was expected to be touched from now on has passed by already: no more than so many
    /// pages, which its turns have shown.
    pub(super) fn expect_no_more(&mut self, nr: usize, pages: u64) {
        if self.expected >> nr & 1 == 1 && self.counts[nr] > number(pages) {
            self.counts[nr] = number(pages);
            self.expected &= !(1 << nr);
            self.sure(nr);
        }
    }

    /// Whether the number of a span is only what has been expected since the unit changed.
    pub(super) const fn is_expected(&self, nr: usize) -> bool {
        self.expected >> nr & 1 == 1
    }

    /// What was counted is past. What is known of the pages stays.
    pub(super) const fn uncount(&mut self) {
        (self.counted, self.twice, self.expected) = (0, 0, 0);
    }

    /// A turn begins, of which no look has come.
    pub(super) fn begin_turn(&mut self) {
        (self.in_turn, self.first) = (0, FirstLook { at: 0, seen: 0 });
        self.before = (self.counted & 1 != 0 && !self.is_late).then_some(self.counts[0]);
    }

    /// What was published for the spans before this one is past, and nothing newer is known.
    pub(super) const fn forget(&mut self, behind: usize) {
        self.published &= u8::MAX << behind;
    }

    /// A plane, if it was ever published.
    pub(super) fn get(&self, nr: usize) -> Option<PageBits> {
        let bits = self.bits.get(nr).filter(|_| self.published >> nr & 1 == 1);
        bits.copied()
    }

    /// Whether the number of a span is a line from zero to a first look that was late. It is right
    /// for what passes by, and half of what is hot.
    pub(super) const fn is_late(&self, nr: usize) -> bool {
        nr == 0 && self.is_late
    }

    /// Number of pages touched within a span when it was the unit's turn.
    pub(super) fn counted(&self, nr: usize) -> Option<u64> {
        let count = self.counts.get(nr).filter(|_| self.counted >> nr & 1 == 1);
        count.map(|count| u64::from(*count))
    }

    /// Of the pages that [`Planes::counted`] counts, the sum of the times between the look that
    /// found them and the one before, in [`EXPOSED_NS`].
    pub(super) fn exposed(&self, nr: usize) -> u64 {
        self.exposed.get(nr).map_or(0, |exposed| u64::from(*exposed))
    }

    /// How many of the pages that [`Planes::counted`] counts were mapped within the span.
    pub(super) fn came(&self, nr: usize) -> u64 {
        self.came.get(nr).map_or(0, |came| u64::from(*came))
    }

    /// How many more pages there may be than [`Planes::counted`] has of the shortest span, since
    /// only one page has told.
    pub(super) fn guessed(&self, nr: usize) -> u64 {
        if nr == 0 { u64::from(self.guessed) } else { 0 }
    }

    /// By how many pages the number of a span may be wrong, as those of all other units, since its
    /// looks were a little late; 0 if it is only expected.
    pub(super) fn either(&self, nr: usize) -> u64 {
        if self.is_expected(nr) { 0 } else { u64::from(self.either[nr]) }
    }

    /// By how many pages two turns differ, if there were two.
    pub(super) fn apart(&self, nr: usize) -> Option<u64> {
        let apart = self.apart.get(nr).filter(|_| self.twice >> nr & 1 == 1);
        apart.map(|apart| u64::from(*apart))
    }
}

/// By how many pages a number is larger.
const fn difference(pages: u16, than: u16) -> i16 {
    pages.wrapping_sub(than).cast_signed()
}

fn saturated(n: u128) -> u64 {
    u64::try_from(n).unwrap_or(u64::MAX)
}

/// The nearest number of pages, of parts of a page.
const fn nearest(parts: u64) -> u64 {
    (parts + GRAIN / 2) / GRAIN
}

fn number(pages: u64) -> u16 {
    u16::try_from(pages).unwrap_or(u16::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_first_look_sees_is_what_was_touched_by_the_end_of_its_sample() {
        let first = |at_us: u64, looked: u64, pages: u64| {
            let pages = PageBits::of(0, crate::addr::AddrRange::new(0, pages * 4096));
            let seen = Seen { looked: Time(looked), ..Seen::of_test(Time(at_us * 1000), pages) };
            FirstLook::of(&seen, Time(0), 5_000_000)
        };
        for (name, at_us, looked, seen, later, in_time) in [
            ("in time", 5000, 0, 100, 400, None),
            ("too late", 25_000, 0, 100, 400, None),
            ("late, and more than a half was not touched by then", 20_000, 0, 216, 500, Some(65)),
            ("the same, and much was", 20_000, 0, 316, 500, None),
            ("a little early, and few of many", 4375, 0, 36, 10_000, Some(41)),
            ("not the only one", 6250, 1, 100, 400, None),
            ("hot", 6250, 0, 400, 400, None),
            ("few of many, so at an even speed", 6250, 0, 10, 10_000, Some(8)),
            ("at random: 1 - e^(-1.25), and 1 - e^(-1)", 6250, 0, 357, 500, Some(316)),
            ("much later", 10_000, 0, 375, 500, Some(250)),
        ] {
            let got = first(at_us, looked, seen).corrected(later, Time(0));
            assert_eq!(got, in_time, "{name}");
        }
        // What is rounded comes out right on average.
        let nr = 4096_u64;
        let of = |at: u64| first(5500, 0, 5).corrected(60, Time(at << 10)).map_or(0, u64::from);
        let sum: u64 = (0..nr).map(of).sum();
        assert!((nr * 456 / 100..nr * 459 / 100).contains(&sum), "{}", sum * 1000 / nr);
    }

    #[test]
    fn the_first_look_of_one_turn_corrects_nothing_in_the_next() {
        let first = |pages: u64| PageBits::of(0, crate::addr::AddrRange::new(0, pages * 4096));
        let mut planes = Planes::default();
        let mut turn = |looks: &[(u64, u64)]| {
            planes.begin_turn();
            let (mut clock, mut looked, mut before) = (Clock::begin(Time(0), SPANS), 0, 0);
            for (at_ms, pages) in looks.iter().copied() {
                let (now, pages) = (Time(at_ms * MS), first(pages));
                let seen = Seen { now, pages, looked: Time(looked * MS), before: first(before) };
                planes.count(&mut clock, &seen, &SPANS_NS, true);
                (looked, before) = (at_ms, pages.count());
            }
            [0, 1].map(|nr| planes.counted(nr))
        };
        // Of 110 pages 101 after 6 ms, so 96 after 5.
        assert_eq!(turn(&[(6, 101), (100, 110)]), [Some(96), Some(110)]);
        // No look of this turn has told of a sample, so what is known of that stays.
        assert_eq!(turn(&[(40, 200), (100, 500)]), [Some(96), Some(500)]);
        assert_eq!(turn(&[(20, 400), (100, 500)]), [Some(96), Some(500)]);
        // A late one tells of it where most pages were not touched by then: 1 - 0.6^(1 / 4).
        assert_eq!(turn(&[(20, 200), (100, 500)]), [Some(59), Some(500)]);
    }

    const MS: u64 = 1_000_000;
    const SPANS_NS: [u64; SPANS] = [5 * MS, 100 * MS, 1000 * MS, 10_000 * MS, 60_000 * MS];

    #[test]
    fn a_late_look_tells_about_spans_and_not_about_a_sample() {
        for (name, pages, at, counted, shown) in [
            ("too early", PageBits::ALL, 1003, [None, None], [None, None]),
            ("in time", PageBits::ALL, 1005, [Some(512), None], [Some(512), None]),
            // Between 5 / 8 and all of them.
            ("late", PageBits::ALL, 1008, [Some(416), None], [None, None]),
            ("late, and saw nothing", PageBits::default(), 1030, [Some(0), None], [Some(0), None]),
            ("in time for the window", PageBits::ALL, 1100, [None, Some(512)], [None, Some(512)]),
        ] {
            let (mut planes, mut clock) = (Planes::default(), Clock::begin(Time(1000 * MS), SPANS));
            planes.count(&mut clock, &Seen::of_test(Time(at * MS), pages), &SPANS_NS, true);
            assert_eq!([0, 1].map(|nr| planes.counted(nr)), counted, "{name}");
            assert_eq!([0, 1].map(|nr| planes.get(nr).map(PageBits::count)), shown, "{name}");
            assert_eq!(clock.is_first_open(), at == 1003, "{name}");
        }
    }

    #[test]
    fn what_a_late_look_tells_lies_between_two_lines() {
        let first = |n: u64| PageBits::of(0, crate::addr::AddrRange::new(0, n * 4096));
        let ms = |ms: u64| Time(ms * MS);
        for (name, looked, before, now, pages, (count, apart, either, shown)) in [
            ("hot, all of it", 5, 512, 3000, 512, (512, 0, 0, 512)),
            ("hot, most of it", 5, 320, 195, 512, (464, 96, 0, 512)),
            ("gone over at an even speed", 20, 40, 200, 400, (200, 90, 0, 40)),
            ("it has just begun", 90, 0, 190, 512, (282, 461, 0, 512)),
            ("nothing came after the look before", 60, 7, 400, 7, (7, 0, 0, 7)),
            ("in time", 5, 100, 100, 200, (200, 0, 0, 200)),
            ("a little late, used by chance", 5, 100, 150, 200, (183, 0, 18, 200)),
            ("a little late, gone over at an even speed", 20, 40, 150, 300, (200, 0, 0, 300)),
            ("a little late, and nothing before is known", 0, 0, 150, 200, (200, 0, 0, 200)),
            // Of units with few pages, each would lose one, and a twentieth would be missing.
            ("a little late, few pages, the nearest number", 5, 13, 105, 18, (18, 0, 1, 18)),
            ("the nearest number is a smaller one", 50, 4, 140, 9, (7, 0, 1, 9)),
        ] {
            let (pages, before) = (first(pages), first(before));
            let seen = Seen { now: ms(now), pages, looked: ms(looked), before };
            let within = seen.within(Time(0), 100 * MS).unwrap();
            let got = (within.count, within.apart, within.either, within.pages.count());
            assert_eq!(got, (count, apart, either, shown), "{name}");
        }
        let seen = Seen { now: ms(300), pages: first(9), looked: ms(50), before: first(1) };
        assert_eq!(seen.within(Time(0), 100 * MS), None, "too late");
    }

    #[test]
    fn what_is_seen_out_of_turn_is_shown_and_not_counted() {
        let (mut planes, mut turn) = (Planes::default(), Clock::begin(Time(0), SPANS));
        let seen = |ms: u64, pages| Seen::of_test(Time(ms * MS), pages);
        assert!(planes.count(&mut turn, &seen(5, PageBits::page(1)), &SPANS_NS, true).is_new);
        let mut other = Clock::begin(Time(50 * MS), 3);
        assert!(planes.publish(&mut other, &seen(55, PageBits::ALL), &SPANS_NS));
        assert_eq!((planes.get(0), planes.counted(0)), (Some(PageBits::ALL), Some(1)));
        // The clock of the turn goes on, for the counts only.
        assert!(!planes.count(&mut turn, &seen(100, PageBits::ALL), &SPANS_NS, false).is_new);
        assert_eq!((planes.get(1), planes.counted(1)), (None, Some(512)));
    }

    #[test]
    fn what_is_expected_after_a_change_counts_until_it_is_measured() {
        let (mut planes, mut turn) = (Planes::default(), Clock::begin(Time(0), SPANS));
        let seen = |ms: u64, pages| Seen::of_test(Time(ms * MS), pages);
        planes.expect(0, 7);
        assert_eq!(planes.counted(0), None, "nothing was counted yet");
        planes.count(&mut turn, &seen(5, PageBits::ALL), &SPANS_NS, true);
        planes.expect(0, 0);
        assert_eq!((planes.counted(0), planes.apart(0)), (Some(0), Some(512)));
        let mut other = Clock::begin(Time(50 * MS), 3);
        planes.publish(&mut other, &seen(55, PageBits::page(1)), &SPANS_NS);
        assert_eq!(planes.counted(0), Some(1));
        let mut turn = Clock::begin(Time(1000 * MS), SPANS);
        planes.begin_turn();
        planes.count(&mut turn, &seen(1005, PageBits::page(1)), &SPANS_NS, true);
        planes.publish(&mut other, &seen(1155, PageBits::default()), &SPANS_NS);
        assert_eq!((planes.counted(0), planes.apart(0)), (Some(1), Some(0)));
    }

    #[test]
    fn a_turn_in_which_a_unit_changes_does_not_tell_what_is_touched_now() {
        let seen = |ms: u64| Seen::of_test(Time(ms * MS), PageBits::ALL);
        let (mut planes, mut turn) = (Planes::default(), Clock::begin(Time(0), SPANS));
        planes.count(&mut turn, &seen(100), &SPANS_NS, true);
        for (is_changed, counted) in [(true, Some(7)), (false, Some(512))] {
            let mut turn = Clock::begin(Time(2000 * MS), SPANS);
            planes.begin_turn();
            if is_changed {
                planes.expect(1, 7);
            }
            planes.count(&mut turn, &seen(2100), &SPANS_NS, true);
            assert_eq!(planes.counted(1), counted, "changed: {is_changed}");
        }
    }

    #[test]
    fn two_turns_tell_how_much_one_is_to_be_doubted() {
        let mut planes = Planes::default();
        for (at, page, apart) in [(0, PageBits::page(1), None), (1, PageBits::ALL, Some(511))] {
            let mut turn = Clock::begin(Time(at * 1000 * MS), SPANS);
            let seen = Seen::of_test(Time((at * 1000 + 5) * MS), page);
            planes.count(&mut turn, &seen, &SPANS_NS, true);
            assert_eq!(planes.apart(0), apart);
        }
    }
}
