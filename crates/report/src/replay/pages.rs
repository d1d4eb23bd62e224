//! What a record lets one know of the pages of a unit, and what schemes have taken of it.
//!
//! A census makes a unit old and looks after set spans which pages were touched. So a page that a
//! span shows was touched at some time between the span before and this one; until the unit is made
//! old again, nothing more is known of it. A page that no span shows stayed untouched. What was
//! touched after the longest span is found by later looks, or when the unit is made old again. A
//! record of format version 1 does not tell it: there, memory that wakes up late is not seen to.
//! One of version 2 does not tell which of the two it was: there, what a look finds may pass for
//! what was touched before, and memory that is gone over looks idle until the next news of it. Of a
//! unit that was made old several times within a second, the record has the last time only; what a
//! span shows then that is not over yet was touched before.
//!
//! Times are milliseconds since the record's start. State: 16 bytes per page.

use isotherm_core::unit::UNIT;
use isotherm_core::{PageBits, SPANS, Time, UnitInfo};

/// A page that a scheme had taken was touched.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Back {
    /// Which scheme had taken it.
    pub(super) scheme: usize,
    /// How long after that, in ms.
    pub(super) after_ms: u32,
    /// How likely it was touched after it was taken, not just before; then it would have stayed.
    pub(super) share: f64,
}

/// When evidence suffices; times in ms.
#[derive(Debug, Clone, Copy)]
pub(super) struct Rules {
    /// For how long a page has to be untouched.
    pub(super) confirm_ms: u32,
    /// Being touched within this time after the action is a mistake.
    pub(super) window_ms: u32,
}

/// When what a window tells of a unit was so, in ms.
#[derive(Debug, Clone, Copy)]
pub(super) struct Told {
    /// When the unit was made old.
    pub(super) since_ms: u32,
    /// When a look had seen nothing of what was found; 0 if that is not known.
    pub(super) after_ms: u32,
    /// The end of the window.
    pub(super) now_ms: u32,
}

/// The largest share of mistakes that evidence lets pass, as in the crate `act`.
const MAX_MISTAKES: f64 = 0.01;

/// What a scheme holds of a unit.
#[derive(Debug, Clone)]
struct Taken {
    pages: PageBits,
    at_ms: Box<[u32; 512]>,
    /// Nothing can be taken before, as far as is known.
    not_before_ms: u32,
    /// When pages that were quiet then were first asked about.
    watched_ms: Option<u32>,
    is_huge: bool,
}

impl Default for Taken {
    fn default() -> Self {
        let at_ms = Box::new([0; 512]);
        let pages = PageBits::default();
        Self { pages, at_ms, not_before_ms: 0, watched_ms: None, is_huge: false }
    }
}

/// One unit of 2 MiB.
#[derive(Debug, Clone)]
pub(super) struct Unit {
    present: PageBits,
    unresolved: PageBits,
    leaf_shift: u8,
    /// What the spans showed last.
    planes: [Option<PageBits>; SPANS],
    since: Time,
    since_ms: u32,
    /// Which spans were measured since then, and up to when.
    measured: [bool; SPANS],
    measured_ms: u32,
    /// Touched since the unit was made old.
    used: PageBits,
    /// Since when the other pages have been untouched.
    quiet_ms: Box<[u32; 512]>,
    /// When a page was touched last, and for how long it had not been.
    woke_ms: Box<[u32; 512]>,
    slept_ms: Box<[u32; 512]>,
    taken: Vec<Taken>,
}

fn ms_of(us: u64) -> u32 {
    u32::try_from(us / 1000).unwrap_or(u32::MAX)
}

/// The pages of a set, by their numbers.
fn each(pages: PageBits, mut f: impl FnMut(usize)) {
    for (first, mut word) in (0_usize..).step_by(64).zip(pages.0) {
        while word != 0 {
            f(first + word.trailing_zeros() as usize);
            word &= word - 1;
        }
    }
}

impl Unit {
    pub(super) fn new(schemes: usize) -> Self {
        let zeros = || Box::new([0; 512]);
        Self {
            present: PageBits::default(),
            unresolved: PageBits::default(),
            leaf_shift: 12,
            planes: [None; SPANS],
            since: Time::default(),
            since_ms: 0,
            measured: [false; SPANS],
            measured_ms: 0,
            used: PageBits::default(),
            quiet_ms: zeros(),
            woke_ms: zeros(),
            slept_ms: zeros(),
            taken: vec![Taken::default(); schemes],
        }
    }

    /// Takes in what a window that ended at `now_ms` told. Pages that come back are appended to
    /// `back`.
    pub(super) fn learn(
        &mut self,
        info: &UnitInfo,
        Told { since_ms, after_ms, now_ms }: Told,
        spans_us: [u64; SPANS],
        back: &mut Vec<Back>,
    ) {
        self.fit(info.present, info.unresolved, since_ms);
        self.leaf_shift = info.leaf_shift;
        let found = info.found.unwrap_or_default().and(self.present);
        let is_made_old = info.since != self.since;
        if is_made_old {
            let before = info.found_before().and(self.present).minus(self.used);
            let from_ms = self.measured_ms.max(after_ms).min(since_ms);
            self.touched(before, (from_ms, since_ms), back);
        }
        if is_made_old {
            let before = (self.since_ms.min(since_ms), since_ms);
            for ((span_us, touched), known) in spans_us.iter().zip(info.touched).zip(self.planes) {
                let is_over = since_ms.saturating_add(ms_of(*span_us)) <= now_ms;
                if let (Some(touched), Some(known)) = (touched, known)
                    && !is_over
                    && known != touched
                {
                    self.touched(touched.and(self.present).minus(self.used), before, back);
                }
            }
            self.made_old(info.since, since_ms);
        }
        self.planes = info.touched;
        for (nr, (touched, span_us)) in info.touched.iter().zip(spans_us).enumerate() {
            let end_ms = since_ms.saturating_add(ms_of(span_us));
            let Some(touched) = touched else { continue };
            // A span that is not over was measured after an earlier time.
            if self.measured[nr] || end_ms > now_ms {
                continue;
            }
            self.measured[nr] = true;
            let new = touched.and(self.present).minus(self.used);
            let between = (self.measured_ms.min(end_ms), end_ms);
            self.touched(new, between, back);
            self.measured_ms = self.measured_ms.max(end_ms);
        }
        let newly = match info.young {
            // A page that was made old alone is in what was found.
            Some(young) if !is_made_old => young.and(self.present).or(found),
            Some(young) => young.and(self.present),
            None if !is_made_old && info.found.is_some() => found,
            None => return,
        };
        let after_ms = if after_ms >= since_ms { after_ms } else { 0 };
        let from_ms = self.measured_ms.max(after_ms).min(now_ms);
        self.touched(newly.minus(self.used), (from_ms, now_ms), back);
        self.measured_ms = now_ms;
    }

    /// Takes in a region without page maps: all of it was touched in a window, or none of it.
    pub(super) fn learn_region(
        &mut self,
        pages: PageBits,
        is_touched: bool,
        (from_ms, to_ms): (u32, u32),
        back: &mut Vec<Back>,
    ) {
        self.fit(self.present.or(pages), PageBits::default(), from_ms);
        self.measured_ms = to_ms;
        if is_touched {
            self.touched(pages, (from_ms, to_ms), back);
            self.used = self.used.minus(pages);
            each(pages, |nr| self.quiet_ms[nr] = to_ms);
        }
    }

    /// Pages that are mapped from now on, and that are not any more.
    fn fit(&mut self, present: PageBits, unresolved: PageBits, since_ms: u32) {
        let (new, gone) = (present.minus(self.present), self.present.minus(present));
        each(new, |nr| {
            self.quiet_ms[nr] = since_ms;
            // Nothing is known of how it was used before.
            (self.woke_ms[nr], self.slept_ms[nr]) = (since_ms, 0);
        });
        self.used = self.used.minus(new);
        if !gone.is_empty() {
            self.taken.iter_mut().for_each(|taken| taken.pages = taken.pages.minus(gone));
        }
        (self.present, self.unresolved) = (present, unresolved);
        self.taken.iter_mut().for_each(|taken| taken.not_before_ms = 0);
    }

    fn made_old(&mut self, since: Time, since_ms: u32) {
        each(self.used, |nr| self.quiet_ms[nr] = since_ms);
        self.used = PageBits::default();
        (self.since, self.since_ms, self.measured_ms) = (since, since_ms, since_ms);
        self.measured = [false; SPANS];
    }

    /// These pages were touched between the two times.
    fn touched(&mut self, pages: PageBits, (from, to): (u32, u32), back: &mut Vec<Back>) {
        let at = from.midpoint(to);
        // Of what is touched within a while, as much again is within ten times as long. So the time
        // of a touch is spread over the logarithm of the time since the unit was made old.
        let since_ms = self.since_ms;
        let log = |ms: u32| f64::from(ms.saturating_sub(since_ms).max(1)).ln();
        let likely = |taken: u32| {
            let whole = log(to) - log(from);
            if whole > 0.0 { ((log(to) - log(taken)) / whole).clamp(0.0, 1.0) } else { 0.5 }
        };
        each(pages, |nr| {
            self.slept_ms[nr] = at.saturating_sub(self.quiet_ms[nr]);
            self.woke_ms[nr] = at;
        });
        self.used = self.used.or(pages);
        for (scheme, taken) in self.taken.iter_mut().enumerate() {
            each(taken.pages.and(pages), |nr| {
                let taken_ms = taken.at_ms[nr];
                back.push(if taken_ms <= from {
                    Back { scheme, after_ms: at - taken_ms, share: 1.0 }
                } else {
                    let after_ms = to.saturating_sub(taken_ms) / 2;
                    Back { scheme, after_ms, share: likely(taken_ms) }
                });
            });
            taken.pages = taken.pages.minus(pages);
        }
    }

    /// Pages that are mapped, in memory or taken away.
    pub(super) const fn present(&self) -> PageBits {
        self.present
    }

    /// Pages that a scheme has taken.
    pub(super) fn taken(&self, scheme: usize) -> PageBits {
        self.taken.get(scheme).map(|taken| taken.pages).unwrap_or_default()
    }

    /// Pages that can be acted on, whether they are idle or not.
    pub(super) fn reachable(&self, scheme: usize) -> PageBits {
        self.present.minus(self.unresolved).minus(self.taken(scheme))
    }

    /// Pages that were seen touched since the unit was last made old.
    pub(super) const fn young(&self) -> PageBits {
        self.used
    }

    pub(super) const fn is_huge(&self) -> bool {
        self.leaf_shift > 12
    }

    /// Pages that are proven idle by now. None, and the time to ask again is remembered, if too
    /// many of those that looked idle before were touched meanwhile. They are watched for half of
    /// the time at least, however long they have been idle.
    pub(super) fn idle(&mut self, scheme: usize, rules: Rules, now_ms: u32) -> PageBits {
        let pages = self.reachable(scheme).minus(self.used);
        let (confirm, half) = (rules.confirm_ms, (rules.confirm_ms / 2).max(1));
        let Some(taken) = self.taken.get_mut(scheme) else { return PageBits::default() };
        if pages.is_empty() {
            taken.watched_ms = None;
            return PageBits::default();
        }
        let watched_ms = *taken.watched_ms.get_or_insert(now_ms);
        if now_ms < taken.not_before_ms.max(watched_ms.saturating_add(half)) {
            return PageBits::default();
        }
        let (mut words, mut next, mut woke) = ([0_u64; 8], u32::MAX, 0_u32);
        // Before the first look nothing is known of what happened since the unit was made old.
        let known_ms = if self.measured_ms > self.since_ms { now_ms } else { self.since_ms };
        each(pages, |nr| {
            let due = self.quiet_ms[nr].saturating_add(confirm);
            if due <= known_ms {
                words[nr / 64] |= 1 << (nr % 64);
            } else {
                next = next.min(due);
            }
        });
        let idle = PageBits(words);
        each(self.present, |nr| {
            let lately = now_ms.saturating_sub(self.woke_ms[nr]) <= half;
            woke += u32::from(lately && self.slept_ms[nr] >= half);
        });
        let woke = f64::from(woke);
        let quiet = f64::from(u32::try_from(idle.count()).unwrap_or(u32::MAX));
        let expected =
            woke / (woke + quiet).max(1.0) * f64::from(rules.window_ms) / f64::from(half);
        let refused = expected > MAX_MISTAKES || (self.is_huge() && idle != pages);
        if let Some(taken) = self.taken.get_mut(scheme) {
            taken.not_before_ms = if refused { now_ms.saturating_add(half) } else { next };
        }
        if refused { PageBits::default() } else { idle }
    }

    /// A scheme takes these pages.
    pub(super) fn take(&mut self, scheme: usize, pages: PageBits, now_ms: u32) {
        if let Some(taken) = self.taken.get_mut(scheme) {
            taken.pages = taken.pages.or(pages);
            each(pages, |nr| taken.at_ms[nr] = now_ms);
            taken.not_before_ms = 0;
        }
    }

    /// A scheme brings back what others have taken of these pages.
    pub(super) fn give_back(&mut self, pages: PageBits) {
        self.taken.iter_mut().for_each(|taken| taken.pages = taken.pages.minus(pages));
    }

    /// Whether at least this many of the pages were touched within a second, so that a huge page
    /// pays; and that the scheme has made none of it yet. Then it has.
    pub(super) fn collapse(&mut self, scheme: usize, least: u64) -> bool {
        let known = self.present.minus(self.unresolved);
        let hot = self.planes[2].unwrap_or_default().and(known).count();
        let is_huge = self.is_huge();
        let Some(taken) = self.taken.get_mut(scheme) else { return false };
        let collapses = !is_huge && !taken.is_huge && hot >= least;
        taken.is_huge |= collapses;
        collapses
    }

    /// Bytes that huge pages of schemes add to what is mapped.
    pub(super) fn bloat(&self) -> u64 {
        let is_huge = self.taken.iter().any(|taken| taken.is_huge);
        if is_huge { UNIT - self.present.count() * 4096 } else { 0 }
    }
}

#[cfg(test)]
mod tests {
    use isotherm_core::AddrRange;

    use super::*;

    const SPANS_US: [u64; SPANS] = [5_000, 100_000, 1_000_000, 10_000_000, 60_000_000];
    const RULES: Rules = Rules { confirm_ms: 2_000, window_ms: 10_000 };

    fn pages(from: u64, to: u64) -> PageBits {
        PageBits::of(0, AddrRange::new(from * 4096, to * 4096))
    }

    fn at(since_ms: u32, now_ms: u32) -> Told {
        Told { since_ms, after_ms: 0, now_ms }
    }

    /// The unit as of `now_ms`, made old at `since_ms`; spans up to a second show `hot`, and one of
    /// ten seconds shows `seldom` as well.
    fn told(
        unit: &mut Unit,
        since_ms: u32,
        now_ms: u32,
        hot: PageBits,
        seldom: PageBits,
    ) -> Vec<Back> {
        let over = |ms: u32| now_ms >= since_ms + ms;
        let touched = [
            over(5).then_some(hot),
            over(100).then_some(hot),
            over(1_000).then_some(hot),
            over(10_000).then_some(hot.or(seldom)),
            None,
        ];
        let since = Time(u64::from(since_ms) * 1_000_000);
        let info = UnitInfo {
            since,
            present: PageBits::ALL,
            touched,
            leaf_shift: 12,
            ..UnitInfo::default()
        };
        let mut back = Vec::new();
        unit.learn(&info, Told { since_ms, after_ms: 0, now_ms }, SPANS_US, &mut back);
        back
    }

    #[test]
    fn pages_are_idle_from_when_they_were_made_old_and_never_while_they_are_young() {
        let mut unit = Unit::new(1);
        let none = PageBits::default();
        told(&mut unit, 100, 1_100, pages(0, 8), none);
        assert_eq!(unit.idle(0, RULES, 1_100), none, "watched from now on");
        assert_eq!(unit.idle(0, RULES, 2_099), none, "idle for less than 2 s");
        assert_eq!(unit.idle(0, RULES, 2_100), pages(8, 512));
        // Made old again: the idle ones have been so for longer.
        told(&mut unit, 3_000, 4_000, pages(0, 8), none);
        assert_eq!(unit.idle(0, RULES, 4_000), pages(8, 512));
        unit.take(0, pages(8, 512), 4_000);
        assert!(unit.idle(0, RULES, 9_000).is_empty(), "young until made old again");
    }

    #[test]
    fn what_comes_back_was_taken_before_it_was_touched_with_some_likelihood() {
        let none = PageBits::default();
        for (taken_ms, share, after_ms) in
            [(500, 1.0, 5_000), (1_000, 1.0, 4_500), (3_162, 0.5, 3_419)]
        {
            let mut unit = Unit::new(1);
            told(&mut unit, 0, 1_000, none, none);
            unit.take(0, pages(0, 4), taken_ms);
            let back = told(&mut unit, 0, 10_000, none, pages(3, 5));
            let [one] = back[..] else { panic!("{back:?}") };
            assert_eq!((one.scheme, one.after_ms), (0, after_ms), "taken at {taken_ms}");
            assert!((one.share - share).abs() < 0.001, "taken at {taken_ms}: {one:?}");
            assert_eq!(unit.taken(0), pages(0, 3));
        }
    }

    #[test]
    fn memory_that_wakes_up_is_waited_for() {
        let mut unit = Unit::new(1);
        let none = PageBits::default();
        told(&mut unit, 0, 1_000, none, none);
        assert_eq!(unit.idle(0, RULES, 1_500), none, "watched from now on");
        told(&mut unit, 3_000, 4_000, pages(0, 40), none);
        assert_eq!(unit.idle(0, RULES, 4_000), none, "40 of 512 woke within a second");
        assert_eq!(unit.idle(0, RULES, 5_100), pages(40, 512), "a second later none has");
    }

    #[test]
    fn what_is_found_when_a_unit_is_made_old_was_touched_since_its_last_look() {
        let mut unit = Unit::new(1);
        let none = PageBits::default();
        told(&mut unit, 0, 1_000, pages(0, 8), none);
        unit.take(0, pages(100, 104), 3_000);
        let found = Some(pages(0, 8).or(pages(100, 102)));
        let touched = [Some(none), None, None, None, None];
        let since = Time(9_000_000_000);
        let info =
            UnitInfo { since, present: PageBits::ALL, touched, found, ..UnitInfo::default() };
        let mut back = Vec::new();
        unit.learn(&info, at(9_000, 9_005), SPANS_US, &mut back);
        assert_eq!(back.len(), 2, "{back:?}");
        assert!(back.iter().all(|b| b.after_ms == 3_000 && b.share > 0.4), "{back:?}");
        assert_eq!(unit.taken(0), pages(102, 104));
        // A look finds another one touched, long after that.
        let info = UnitInfo { found: Some(pages(103, 104)), ..info };
        unit.learn(&info, at(9_000, 10_500), SPANS_US, &mut back);
        assert_eq!((back.len(), unit.taken(0)), (3, pages(102, 103)));
        // They are old now, and idle since then.
        assert!(unit.idle(0, RULES, 10_000).is_empty(), "watched from now on");
        assert!(unit.idle(0, RULES, 11_000).and(pages(100, 102)) == pages(100, 102));
    }

    /// What a look finds is told together with the arming before it, where that was no news.
    #[test]
    fn what_a_look_finds_after_an_arming_was_touched_after_it() {
        let (all, none) = (PageBits::ALL, PageBits::default());
        for (name, after_ms, young, share, at_ms, idle) in [
            ("a look found it, a second after the last one", 7_000, Some(all), 1.0, 7_500, none),
            ("before it was made old", 2_000, Some(none), 0.0, 2_500, all),
            ("a record that does not tell", 0, None, 0.0, 2_000, all),
        ] {
            let mut unit = Unit::new(1);
            told(&mut unit, 0, 1_000, none, none);
            unit.take(0, pages(0, 8), 5_000);
            let touched = [Some(none); 3];
            let touched = [touched[0], touched[1], touched[2], None, None];
            let since = Time(3_000_000_000);
            let found = Some(all);
            let info =
                UnitInfo { since, present: all, touched, found, young, ..UnitInfo::default() };
            let info = UnitInfo { found_after: Time(u64::from(after_ms) * 1_000_000), ..info };
            let told = Told { since_ms: 3_000, after_ms, now_ms: 8_000 };
            let mut back = Vec::new();
            unit.learn(&info, told, SPANS_US, &mut back);
            assert_eq!((back.len(), unit.woke_ms[0]), (8, at_ms), "{name}: {back:?}");
            assert!(share < 1.0 || back.iter().all(|b| b.after_ms == 2_500), "{name}: {back:?}");
            unit.idle(0, RULES, 8_000);
            assert_eq!(unit.idle(0, RULES, 9_000), idle, "{name}");
        }
    }

    #[test]
    fn pages_that_are_freed_do_not_come_back() {
        let mut unit = Unit::new(1);
        told(&mut unit, 0, 1_000, PageBits::default(), PageBits::default());
        unit.take(0, PageBits::ALL, 2_000);
        let info = UnitInfo { present: pages(0, 10), since: Time(0), ..UnitInfo::default() };
        unit.learn(&info, at(0, 3_000), SPANS_US, &mut Vec::new());
        assert_eq!((unit.taken(0), unit.present()), (pages(0, 10), pages(0, 10)));
    }

    #[test]
    fn a_huge_page_is_counted_once_and_adds_what_was_not_there() {
        let mut unit = Unit::new(2);
        let second = Some(pages(0, 300));
        let touched = [None, None, second, None, None];
        let info =
            UnitInfo { present: pages(0, 400), touched, leaf_shift: 12, ..UnitInfo::default() };
        unit.learn(&info, at(0, 1_000), SPANS_US, &mut Vec::new());
        assert!(!unit.collapse(0, 301) && unit.collapse(0, 300) && !unit.collapse(0, 300));
        assert_eq!(unit.bloat(), 112 * 4096);
    }
}
