//! Evidence before action: arm, confirm, act (DESIGN §5).
//!
//! A region that matches a scheme is *armed*: all of its pages are made old. Then the region waits
//! for the confirm time. A page that is still old after it was not touched during it. Every other
//! page is dropped from the quiet set.
//!
//! This alone is not enough where pages are touched at random. Of pages that are touched every ten
//! seconds on average, a third looks idle for ten seconds, and nearly all of those are touched
//! again soon. So the wait has two halves. Of the pages that were quiet in the first half, some are
//! touched in the second. Their share predicts how many of the remaining pages will be touched
//! within the refault window. While that prediction exceeds the permitted share of mistakes, the
//! granule waits on, half a confirm time at a time.
//!
//! *Others* clear accessed bits, too: kernel reclaim, the kernel's own DAMON, another monitor. If
//! they clear the bit of a touched page between two looks, the touch is lost and the page looks
//! idle. The same memory shows how often that happens. A page that was seen young and is old at the
//! next look, although nothing in this process made it old, was cleared by others. (A page that is
//! touched all the time shows nothing, because it is young again at once.) The same share of the
//! pages that were touched since the last look is hidden among the quiet pages, and counts as
//! mistakes. Where most bits do not last from one look to the next, nothing is known of any page,
//! and the wait begins anew.
//!
//! Invariants: a page leaves the quiet set for good when it is seen young, or when the monitor or
//! another scheme made it old after a touch. Pages that cannot be made old never enter the quiet
//! set. This module does no I/O.

use std::collections::BTreeMap;

use isotherm_core::{AddrRange, Time};

use crate::apply::evidence::look::Seen;
use crate::apply::evidence::monitored::Idle;
use crate::apply::pages::{Bits, GRANULE, granules};

/// Evidence that was not used for this many confirm times is too old and is dropped.
const STALE: u64 = 16;

/// What is known of a granule since it was armed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Armed {
    since: Time,
    /// The last look.
    at: Time,
    /// Pages that were asked about.
    asked: Bits,
    /// Pages untouched from `since` to `at`.
    quiet: Bits,
    /// Time between the look before the last one and `at`, in ns.
    interval: u64,
    /// Pages that were quiet at the look before the last one.
    were_quiet: u64,
    /// Pages that were seen young at `at` and that neither the monitor nor a scheme has made old
    /// since.
    woken: Bits,
    /// Estimated number of pages whose touches others have hidden, in thousandths of a page: before
    /// the last look, and before the look before it. Older estimates are not needed: two looks span
    /// the confirm time, so a page whose touch was hidden earlier has been idle for that long
    /// since.
    hidden: [u64; 2],
    /// Whether the waiting time counts already. It does not until the processors have dropped the
    /// TLB entries that hide accesses.
    begun: bool,
}

/// What to do with the first part of a range.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::apply) enum Next {
    /// Nothing is known of it: arm it.
    Arm(AddrRange),
    /// Look at it again.
    Look(AddrRange),
    /// Wait.
    Wait(AddrRange),
}

/// The rules.
#[derive(Debug, Clone, Copy)]
pub(in crate::apply) struct Rules {
    /// Confirm time, in ns.
    pub(in crate::apply) confirm_ns: u64,
    /// The refault window, in ns: acting on memory that is touched within it was a mistake.
    pub(in crate::apply) window_ns: u64,
    /// The largest share of mistakes that may be expected, in basis points.
    pub(in crate::apply) max_mistakes_bp: u64,
}

/// How often others clear accessed bits, learned from pages that were seen young and that neither
/// the monitor nor a scheme has made old since.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
struct Others {
    /// Pages that had woken up and were looked at again.
    watched: u64,
    /// Those of them that had become old.
    cleared: u64,
}

impl Others {
    /// The least number of cleared pages that counts as a sign of others: single pages are cleared
    /// on every machine.
    const LEAST: u64 = 16;
    /// The counts are halved when they reach this many pages, so that they follow what others do at
    /// present.
    const MOST: u64 = 1 << 16;

    const fn learn(&mut self, watched: u64, cleared: u64) {
        self.watched += watched;
        self.cleared += cleared;
        if self.watched >= Self::MOST {
            self.watched /= 2;
            self.cleared /= 2;
        }
    }

    /// The share of accessed bits that others clear between two looks, in thousandths.
    const fn permille(self) -> u64 {
        if self.cleared < Self::LEAST { 0 } else { self.cleared * 1000 / self.watched }
    }
}

/// The evidence about one target.
#[derive(Debug, Default)]
pub(in crate::apply) struct Evidence {
    granules: BTreeMap<u64, Armed>,
    others: Others,
    /// Pages that were touched while they were waited for, since this was asked last.
    refuted: u64,
}

impl Evidence {
    /// What to do with the first part of `range`. The part ends where the granules' states differ,
    /// and after `most` bytes at the latest.
    pub(in crate::apply) fn next(
        &self,
        range: AddrRange,
        most: u64,
        rules: Rules,
        now: Time,
    ) -> Next {
        let mut next: Option<Next> = None;
        for (start, part) in granules(range) {
            let state = self.state(start, part, rules, now);
            match &mut next {
                None => next = Some(state),
                Some(Next::Arm(r)) if matches!(state, Next::Arm(_)) => r.end = part.end,
                Some(Next::Look(r)) if matches!(state, Next::Look(_)) => r.end = part.end,
                Some(Next::Wait(r)) if matches!(state, Next::Wait(_)) => r.end = part.end,
                Some(_) => break,
            }
            if part.end - range.start >= most && !matches!(next, Some(Next::Wait(_))) {
                break;
            }
        }
        next.unwrap_or(Next::Wait(range))
    }

    fn state(&self, start: u64, part: AddrRange, rules: Rules, now: Time) -> Next {
        let Some(armed) = self.granules.get(&start) else { return Next::Arm(part) };
        if !armed.begun && !Bits::of(start, part).and(armed.asked).is_empty() {
            return Next::Wait(part);
        }
        let stale = now.since(armed.at) > rules.confirm_ns.saturating_mul(STALE);
        if stale || Bits::of(start, part).and(armed.asked).is_empty() {
            return Next::Arm(part);
        }
        // What is proven by looks at other parts of the granule need not wait for one more.
        let due = now.since(armed.at) >= rules.confirm_ns / 2;
        if due || armed.is_proven(rules, now) { Next::Look(part) } else { Next::Wait(part) }
    }

    /// The part of a granule that lies in `range` was made old at `now`; `seen` is what is seen of
    /// it after that.
    pub(in crate::apply) fn arm(&mut self, start: u64, range: AddrRange, seen: Seen, now: Time) {
        let asked = Bits::of(start, range);
        let (quiet, woken) = (seen.inside(start, range).minus(seen.young), Bits::default());
        let (interval, were_quiet, hidden, begun) = (0, 0, [0; 2], true);
        let (since, at) = (now, now);
        let fresh = Armed { since, at, asked, quiet, interval, were_quiet, woken, hidden, begun };
        match self.granules.get_mut(&start) {
            // Another part of the granule is armed already. The later time is safe for both parts.
            Some(armed) if armed.asked.and(asked).is_empty() => {
                let (asked, quiet) = (armed.asked.or(asked), armed.quiet.or(quiet));
                let (woken, hidden) = (armed.woken, armed.hidden);
                *armed = Armed { asked, quiet, woken, hidden, ..fresh };
            }
            _ => {
                self.granules.insert(start, fresh);
            }
        }
    }

    /// Takes over that pages of a granule are idle, as if it had been armed for this scheme then
    /// and been looked at when the monitor did. Returns `false` if these pages are armed already.
    pub(in crate::apply) fn adopt(&mut self, start: u64, range: AddrRange, idle: Idle) -> bool {
        let known = self.granules.get(&start);
        if known.is_some_and(|armed| !armed.asked.and(Bits::of(start, range)).is_empty()) {
            return false;
        }
        // For a part that is armed already, a later time is safe.
        let since = known.map_or(idle.since, |armed| armed.since.max(idle.since));
        let seen = Seen { present: idle.pages, ..Seen::default() };
        self.arm(start, range, seen, since);
        if let Some(armed) = self.granules.get_mut(&start) {
            armed.at = idle.looked.max(since);
        }
        true
    }

    /// Takes over what is known of a granule that is in use, unless it is waited for already. Its
    /// pages have to be seen idle twice from now on, because in memory in use it matters how fast
    /// pages wake up. All of the granule waits together: borders between regions move there, and
    /// the wait of a page must not begin anew with each move.
    pub(in crate::apply) fn adopt_granule(
        &mut self,
        start: u64,
        idle: Idle,
        rules: Rules,
        now: Time,
    ) {
        let waits = |armed: &Armed| {
            !armed.quiet.is_empty() && now.since(armed.at) <= rules.confirm_ns.saturating_mul(2)
        };
        if self.granules.get(&start).is_some_and(waits) {
            return;
        }
        self.granules.remove(&start);
        let seen = Seen { present: idle.pages, ..Seen::default() };
        self.arm(start, AddrRange::new(start, start + GRANULE), seen, idle.since);
        if let Some(armed) = self.granules.get_mut(&start) {
            armed.at = now;
        }
    }

    /// Records that the granule at `start` was armed in a way that leaves TLB entries in the
    /// processors, which hide accesses. Its waiting time begins with [`Evidence::begin`].
    pub(in crate::apply) fn hold(&mut self, start: u64) {
        if let Some(armed) = self.granules.get_mut(&start) {
            armed.begun = false;
        }
    }

    /// Records that all TLB entries from before `now` are gone, so that the waiting time of the
    /// held granules begins.
    pub(in crate::apply) fn begin(&mut self, now: Time) {
        for armed in self.granules.values_mut().filter(|armed| !armed.begun) {
            (armed.since, armed.at, armed.begun) = (now, now, true);
        }
    }

    /// The pages that are quiet so far, from the granule of `addr` on.
    pub(in crate::apply) fn quiet_from(&self, addr: u64) -> impl Iterator<Item = (u64, Bits)> {
        let granules = self.granules.range(addr / GRANULE * GRANULE..);
        granules.map(|(start, armed)| (*start, armed.quiet))
    }

    /// The pages of the granule at `start` that are quiet so far.
    pub(in crate::apply) fn quiet(&self, start: u64) -> Bits {
        self.granules.get(&start).map_or_else(Bits::default, |armed| armed.quiet)
    }

    /// Whether others clear so many accessed bits that nothing can be known of this memory.
    pub(in crate::apply) const fn is_blinded(&self) -> bool {
        self.others.permille() >= BLIND_PERMILLE
    }

    /// Whether nothing is armed.
    pub(in crate::apply) fn is_empty(&self) -> bool {
        self.granules.is_empty()
    }

    /// Pages that were touched while they were waited for, since this was asked last.
    pub(in crate::apply) const fn take_refuted(&mut self) -> u64 {
        std::mem::replace(&mut self.refuted, 0)
    }

    /// Takes in a look at a granule, and says which pages in `range` are proven idle; `None`: not
    /// known yet.
    ///
    /// If nobody asked for long, and most pages were touched in that time, the evidence is dropped
    /// and the granule is armed again at once. Otherwise the granule would look busy although it
    /// may be idle now.
    pub(in crate::apply) fn confirm(
        &mut self,
        start: u64,
        range: AddrRange,
        seen: Seen,
        rules: Rules,
        now: Time,
    ) -> Option<Bits> {
        let armed = self.granules.get_mut(&start).filter(|armed| armed.begun)?;
        if now.since(armed.at) >= rules.confirm_ns / 2 {
            let still_there = armed.woken.and(seen.present);
            self.others.learn(still_there.count(), still_there.minus(seen.young).count());
            let others = self.others.permille();
            armed.woken = armed.quiet.and(seen.young);
            let woke = armed.woken.count();
            if others >= BLIND_PERMILLE {
                armed.since = now;
            }
            armed.hidden = [woke * 1000 * others / (1000 - others).max(1), armed.hidden[0]];
            armed.were_quiet = armed.quiet.and(seen.present).count();
            armed.interval = now.since(armed.at);
            armed.at = now;
            self.refuted += woke;
            armed.quiet = armed.quiet.and(seen.present).minus(seen.young);
            let unattended = armed.interval > rules.confirm_ns;
            let others = armed.asked.and(seen.present).minus(armed.quiet);
            if unattended && others.count() > armed.quiet.count() {
                self.granules.remove(&start);
                return None;
            }
        }
        if !armed.is_proven(rules, now) {
            return None;
        }
        // The granule is looked at once more, so that pages touched since then are left out.
        Some(armed.quiet.and(seen.inside(start, range)).minus(seen.young))
    }

    /// The part of a granule in `range` was acted on, or is given up.
    pub(in crate::apply) fn forget(&mut self, range: AddrRange) {
        for (start, part) in granules(range) {
            if let Some(armed) = self.granules.get_mut(&start) {
                let pages = Bits::of(start, part);
                // Pages that are given up did not wake up.
                let given_up = armed.quiet.and(pages).count();
                armed.were_quiet = armed.were_quiet.saturating_sub(given_up);
                armed.asked = armed.asked.minus(pages);
                armed.quiet = armed.quiet.minus(pages);
                armed.woken = armed.woken.minus(pages);
                if armed.asked.is_empty() {
                    self.granules.remove(&start);
                }
            }
        }
    }

    /// The leaf of `len` bytes at `addr` was touched, and then made old by the monitor or for
    /// another scheme.
    pub(in crate::apply) fn touched(&mut self, addr: u64, len: u64) {
        let range = AddrRange::new(addr, addr + len);
        for (start, part) in granules(range) {
            if let Some(armed) = self.granules.get_mut(&start) {
                let pages = Bits::of(start, part);
                self.refuted += armed.quiet.and(pages).count();
                armed.quiet = armed.quiet.minus(pages);
                armed.woken = armed.woken.minus(pages);
            }
        }
    }

    /// Drops evidence that nobody asked about for long.
    pub(in crate::apply) fn sweep(&mut self, rules: Rules, now: Time) {
        let old = rules.confirm_ns.saturating_mul(STALE);
        self.granules.retain(|_, armed| now.since(armed.at) <= old);
    }
}

impl Armed {
    /// Whether the quiet pages have been idle for long enough, as far as the looks so far tell. One
    /// look at least has to tell how fast pages wake up.
    fn is_proven(&self, rules: Rules, now: Time) -> bool {
        self.interval > 0
            && now.since(self.since) >= rules.confirm_ns
            && self.mistakes_bp(rules) <= rules.max_mistakes_bp
    }

    /// The expected share of the quiet pages that will be touched within the refault window, in
    /// basis points. It assumes that the pages still quiet are touched at the rate of the pages
    /// that were quiet at the look before. The pages still quiet are the less used ones, so the
    /// true share is rather lower. Pages whose touch others have hidden count as mistakes already.
    fn mistakes_bp(&self, rules: Rules) -> u64 {
        let woke = self.were_quiet - self.quiet.count().min(self.were_quiet);
        let bp = woke.saturating_mul(10_000) / self.were_quiet.max(1);
        let hidden = self.hidden[0].saturating_add(self.hidden[1]);
        let hidden_bp = hidden.saturating_mul(10) / self.quiet.count().max(1);
        (bp.saturating_mul(rules.window_ns) / self.interval.max(1)).saturating_add(hidden_bp)
    }
}

/// From this share of cleared bits on, in thousandths, nothing can be known, because as many
/// touches are hidden as are seen.
const BLIND_PERMILLE: u64 = 500;

/// The largest piece that is armed or looked at at once.
pub(in crate::apply) const MOST: u64 = 256 * GRANULE;

#[cfg(test)]
mod tests {
    use super::*;

    const RULES: Rules =
        Rules { confirm_ns: 10_000_000_000, window_ns: 10_000_000_000, max_mistakes_bp: 100 };
    const S: u64 = 1_000_000_000;
    const WHOLE: AddrRange = AddrRange::new(0, GRANULE);

    fn seen(young: Bits) -> Seen {
        Seen { present: Bits::ALL, young, huge: false }
    }

    fn pages(from: u64, to: u64) -> Bits {
        Bits::of(0, AddrRange::new(from * 4096, to * 4096))
    }

    #[test]
    fn a_range_is_armed_looked_at_and_confirmed() {
        let mut evidence = Evidence::default();
        let at = |s: u64| Time(s * S);
        assert_eq!(evidence.next(WHOLE, MOST, RULES, at(100)), Next::Arm(WHOLE));
        // 512 pages, of which 12 cannot be made old.
        evidence.arm(0, WHOLE, seen(pages(500, 512)), at(100));
        assert_eq!(evidence.next(WHOLE, MOST, RULES, at(104)), Next::Wait(WHOLE));
        assert_eq!(evidence.next(WHOLE, MOST, RULES, at(105)), Next::Look(WHOLE));
        let first = evidence.confirm(0, WHOLE, seen(pages(0, 100)), RULES, at(105));
        assert_eq!(first, None, "half the time is not enough");
        let second = evidence.confirm(0, WHOLE, seen(pages(0, 101)), RULES, at(110));
        assert_eq!(second, Some(pages(101, 500)), "one of 400 woke up: 50 basis points");
        evidence.forget(WHOLE);
        assert_eq!(evidence.next(WHOLE, MOST, RULES, at(110)), Next::Arm(WHOLE));
    }

    #[test]
    fn pages_among_others_in_use_have_to_be_seen_idle_twice() {
        let mut evidence = Evidence::default();
        let at = |s: u64| Time(s * S);
        let idle = |s, pages| Idle { since: at(s), looked: at(s), pages };
        // The monitor made the granule old long ago, and found pages in use.
        evidence.adopt_granule(0, idle(50, pages(100, 512)), RULES, at(100));
        assert_eq!(evidence.next(WHOLE, MOST, RULES, at(100)), Next::Wait(WHOLE));
        // A border has moved, so the granule is asked for again: its wait goes on.
        evidence.adopt_granule(0, idle(99, Bits::ALL), RULES, at(102));
        assert_eq!(evidence.next(WHOLE, MOST, RULES, at(105)), Next::Look(WHOLE));
        let part = AddrRange::new(0, 200 * 4096);
        let found = evidence.confirm(0, part, seen(pages(0, 101)), RULES, at(105));
        assert_eq!(found, Some(pages(101, 200)), "one woke up, so the others may go");
        evidence.forget(part);
        let rest = AddrRange::new(200 * 4096, GRANULE);
        assert_eq!(evidence.next(rest, MOST, RULES, at(105)), Next::Look(rest), "is proven, too");
        // What is left of it is waited for, unless nobody asks for that any more.
        evidence.adopt_granule(0, idle(104, pages(0, 50)), RULES, at(110));
        assert_eq!(evidence.quiet(0), pages(200, 512));
        evidence.adopt_granule(0, idle(104, pages(0, 50)), RULES, at(126));
        assert_eq!(evidence.quiet(0), pages(0, 50));
    }

    #[test]
    fn pages_among_others_that_wake_up_one_by_one_stay() {
        let mut evidence = Evidence::default();
        let idle = Idle { since: Time(0), looked: Time(0), pages: Bits::ALL };
        evidence.adopt_granule(0, idle, RULES, Time(20 * S));
        let found = evidence.confirm(0, WHOLE, seen(pages(0, 50)), RULES, Time(25 * S));
        assert_eq!(found, None, "a tenth of them in five seconds");
    }

    #[test]
    fn while_pages_keep_waking_up_nothing_goes() {
        let mut evidence = Evidence::default();
        evidence.arm(0, WHOLE, seen(Bits::default()), Time(0));
        // Ten more pages wake up in each half, so about 20 of 500 would come back within the
        // window.
        let mut awake = 10;
        for half in 1..6 {
            let idle = evidence.confirm(0, WHOLE, seen(pages(0, awake)), RULES, Time(half * 5 * S));
            assert_eq!(idle, None, "half {half}");
            awake += 10;
        }
        let idle = evidence.confirm(0, WHOLE, seen(pages(0, awake - 10)), RULES, Time(30 * S));
        assert_eq!(idle, Some(pages(awake - 10, 512)), "none woke up this time");
    }

    #[test]
    fn what_somebody_else_made_old_is_not_idle() {
        let mut evidence = Evidence::default();
        evidence.arm(0, WHOLE, seen(Bits::default()), Time(0));
        evidence.touched(3 * 4096, 4096);
        for (s, expected) in [(5, None), (10, Some(511))] {
            let idle = evidence.confirm(0, WHOLE, seen(Bits::default()), RULES, Time(s * S));
            assert_eq!(idle.map(Bits::count), expected, "after {s} s");
        }
    }

    /// Of 16 granules, five pages of each are touched between two looks, each page once; others
    /// clear `cleared` of `of` accessed bits before the look. Returns how many pages were called
    /// idle once two looks were there to learn from, how many of them had been touched within the
    /// confirm time, and whether nothing can be known.
    fn touched_but_idle(cleared: u64, of: u64) -> (u64, u64, bool) {
        let mut evidence = Evidence::default();
        let range_of = |nr: u64| AddrRange::new(nr * GRANULE, (nr + 1) * GRANULE);
        let touched = |half: u64| pages(half * 5, half * 5 + 5);
        let mut young = [pages(400, 512); 16];
        for (nr, young) in (0..).zip(young) {
            evidence.arm(nr * GRANULE, range_of(nr), seen(young), Time(0));
        }
        let (mut all_idle, mut wrong) = (0, 0);
        for half in 1..12 {
            for (nr, young) in (0..).zip(&mut young) {
                *young = young.or(touched(half));
                // Those behind are touched all the time.
                let lost = |page: &u64| {
                    let mixed =
                        (page + 1000 * nr + 100_000 * half).wrapping_mul(0x9E37_79B9_7F4A_7C15);
                    (mixed >> 40) % of < cleared
                };
                for page in (0..400).filter(lost) {
                    *young = young.minus(pages(page, page + 1));
                }
                let (range, now) = (range_of(nr), Time(half * 5 * S));
                let idle = evidence.confirm(range.start, range, seen(*young), RULES, now);
                if half > 3 {
                    let idle = idle.unwrap_or_default();
                    all_idle += idle.count();
                    wrong += idle.and(touched(half).or(touched(half - 1))).count();
                }
            }
        }
        (all_idle, wrong, evidence.is_blinded())
    }

    #[test]
    fn what_others_clear_is_not_taken_for_idle() {
        for (name, cleared, of, blind) in [
            ("nobody else", 0, 1, false),
            ("a few pages", 1, 100, false),
            ("two bits of five are lost", 2, 5, false),
            ("most bits are lost", 3, 5, true),
            ("four bits of five are lost", 4, 5, true),
        ] {
            let (idle, wrong, is_blind) = touched_but_idle(cleared, of);
            assert_eq!(is_blind, blind, "{name}");
            assert!(!blind || idle == 0, "{name}: {idle} pages called idle, {wrong} were touched");
            assert!(wrong * 100 <= idle, "{name}: {idle} pages called idle, {wrong} were touched");
        }
    }

    #[test]
    fn evidence_from_before_a_busy_time_is_dropped() {
        let nothing = Seen::default();
        for (name, armed, next_look, expected) in [
            ("asked all the time", seen(Bits::default()), 9, Next::Wait(WHOLE)),
            ("not asked for long", seen(Bits::default()), 30, Next::Arm(WHOLE)),
            ("paged out then, in use since", nothing, 30, Next::Arm(WHOLE)),
        ] {
            let mut evidence = Evidence::default();
            evidence.arm(0, WHOLE, armed, Time(0));
            let at = Time(next_look * S);
            assert_eq!(evidence.confirm(0, WHOLE, seen(Bits::ALL), RULES, at), None, "{name}");
            assert_eq!(evidence.next(WHOLE, MOST, RULES, at), expected, "{name}");
        }
    }

    #[test]
    fn what_is_held_begins_when_translations_are_gone() {
        let mut evidence = Evidence::default();
        evidence.arm(0, WHOLE, seen(Bits::default()), Time(0));
        evidence.hold(0);
        assert_eq!(evidence.next(WHOLE, MOST, RULES, Time(60 * S)), Next::Wait(WHOLE));
        assert_eq!(evidence.confirm(0, WHOLE, seen(Bits::default()), RULES, Time(60 * S)), None);
        evidence.begin(Time(100 * S));
        assert_eq!(evidence.next(WHOLE, MOST, RULES, Time(104 * S)), Next::Wait(WHOLE));
        for (s, young, expected) in [(105, pages(0, 2), None), (110, pages(2, 4), Some(508))] {
            let idle = evidence.confirm(0, WHOLE, seen(young), RULES, Time(s * S));
            assert_eq!(idle.map(Bits::count), expected, "after {s} s");
        }
        assert_eq!((evidence.take_refuted(), evidence.take_refuted()), (4, 0));
        assert_eq!(evidence.quiet_from(GRANULE).count(), 0);
        assert_eq!(evidence.quiet(0).count(), 508);
    }

    #[test]
    fn a_huge_page_is_idle_as_a_whole_or_not_at_all() {
        for (part, expected) in [(GRANULE, 512), (GRANULE - 4096, 0)] {
            let mut evidence = Evidence::default();
            let range = AddrRange::new(0, part);
            let huge = Seen { huge: true, ..seen(Bits::default()) };
            evidence.arm(0, range, huge, Time(0));
            evidence.confirm(0, range, huge, RULES, Time(5 * S));
            let idle = evidence.confirm(0, range, huge, RULES, Time(10 * S));
            assert_eq!(idle.map(Bits::count), Some(expected), "{part} bytes");
        }
    }

    #[test]
    fn parts_that_stand_differently_come_one_after_the_other() {
        let mut evidence = Evidence::default();
        evidence.arm(0, WHOLE, seen(Bits::default()), Time(0));
        let two = AddrRange::new(0, 2 * GRANULE);
        assert_eq!(evidence.next(two, MOST, RULES, Time(0)), Next::Wait(WHOLE));
        assert_eq!(evidence.next(two, MOST, RULES, Time(6 * S)), Next::Look(WHOLE));
        let late = Time(RULES.confirm_ns * (STALE + 1));
        assert_eq!(evidence.next(two, MOST, RULES, late), Next::Arm(two), "too old to be used");
    }
}
