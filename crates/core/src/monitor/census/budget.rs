//! CPU time that census may use: its own, and what the target pays to set accessed bits again.
//!
//! The driver says what CPU time an answer took. Where its clock does not know that, the time
//! between question and answer stands for it. A busy machine makes that longer, so a late answer is
//! counted as at most a few times the usual.

use super::map::CHUNK;
use crate::time::Time;
use crate::unit::UNIT;

/// What the target pays for a page whose accessed bit has to be set again, in ns.
const TOUCH_NS: u64 = 500;
/// What may be spent at once for memory that is new, in ns per unit: 40 ms per GiB, which is what
/// it costs to see all of a GiB once where a tenth is hot (30 to 60 µs per unit to arm, 26 µs for
/// touched pages). It is paid back.
const ADVANCE_NS: u64 = 80_000;
/// What may be advanced at most, in ns of real time: of a terabyte, a first picture takes its time.
const ADVANCED_NS: u64 = 60_000_000_000;
/// What may be saved up, in ns of real time.
const SAVED_NS: u64 = 1_000_000_000;
/// What may be overdrawn for memory that has changed, in ns of real time.
const OVERDRAFT_NS: u64 = 2_000_000_000;
/// What may be lent at most for what is overdrawn beyond that, in ns of real time.
const LENT_NS: u64 = 10_000_000_000;
/// Who has overdrawn more than may be overdrawn has smaller shares, down to one part in this many.
const MOST_STRAIN: u64 = 4;
/// The grain of the strain, in parts of one.
const STRAIN_GRAIN: u64 = 256;
/// After about this time without any turn, in ns, a few units are armed all the same.
const STARVED_NS: u64 = 500_000_000;
/// One in this many parts of the budget is left for units that are starved.
const STARVED_PART: u64 = 4;
/// The same for clearings of all memory without which something in use cannot be seen.
const BLIND_PART: u64 = 2;
/// The longest time between two clearings of all memory of targets, in ns.
const LONGEST_REST_NS: u64 = 60_000_000_000;
/// Two of them are apart by this many times what one took, and by this time at most, in ns.
const APART: u64 = 6;
const MOST_APART_NS: u64 = 125_000_000;
/// An answer that took this many times the usual is counted as this many times the usual.
const MOST_TIMES: u64 = 4;
/// Shares of the budget for looks in turn and for sentinels, in percent.
const SHARES: (u64, u64) = (40, 20);
/// The same while hardly anything has changed for some time: what changes then is seen a little
/// later, and the target and the machine are left alone.
const CALM_SHARES: (u64, u64) = (10, 5);
/// The share for drawing regions, in percent; and while hardly anything has changed, when they only
/// become older.
const DRAWING_SHARES: (u64, u64) = (12, 3);
/// The share for looks at everything when the working set has moved, in percent.
const SWEEP_SHARE: u64 = 15;
/// The share for cross-sections, in percent.
const CROSS_SHARE: u64 = 20;
/// The share for looks in turn while units wait for their turn: there is memory that was never
/// armed, or too little is left to arm what was.
const WAITING_SHARE: u64 = 10;

/// The budget of one context.
#[derive(Debug)]
pub(super) struct Budget {
    /// The share of one CPU, in basis points.
    bp: u64,
    /// What may be spent, in ns. Below 0 it is overdrawn.
    left_ns: i64,
    /// Of what was earned: what the rest of the program may still use of it, in ns. It has three
    /// quarters. A program that costs more, on a slow machine, would else leave nothing to see
    /// memory by.
    for_others_ns: u64,
    /// Of what was earned: what units that are starved may use of it, in ns. They have a quarter.
    for_starved_ns: i64,
    /// When all memory of a target may be made old again; for units of which something is in use
    /// that cannot be seen until then; and for others, while nothing is left.
    next_clearing: Time,
    next_blind_clearing: Time,
    next_starved_clearing: Time,
    /// What was spent in advance and is to be paid back, in ns.
    debt_ns: u64,
    earned: Time,
    asked: Time,
    /// What one unit costs to arm and to look at, and a page to arm alone, in ns.
    arm_ns: u64,
    look_ns: u64,
    page_ns: u64,
    /// Whether there is memory that was never armed.
    is_first_pass: bool,
    /// Whether hardly anything has changed for some time.
    is_calm: bool,
    /// The CPU time of the thread up to which all was charged, in ns.
    charged_to: Option<u64>,
    /// Reserved for what is about to be armed, in ns.
    reserved_ns: u64,
    /// When units had their turn last.
    turn_at: Time,
    /// How much is to be saved up until the next ones have it: of a chunk's cost, in parts of 256.
    patience: u64,
    /// What the targets have paid since it was told last, in ns.
    target_ns: u64,
}

impl Default for Budget {
    fn default() -> Self {
        Self {
            bp: 0,
            left_ns: 0,
            for_others_ns: 0,
            for_starved_ns: 0,
            next_clearing: Time::default(),
            next_blind_clearing: Time::default(),
            next_starved_clearing: Time::default(),
            debt_ns: 0,
            earned: Time::default(),
            asked: Time::default(),
            arm_ns: 40_000,
            look_ns: 1_500,
            page_ns: 20_000,
            is_first_pass: false,
            is_calm: false,
            charged_to: None,
            reserved_ns: 0,
            turn_at: Time::default(),
            patience: 256,
            target_ns: 0,
        }
    }
}

fn signed(ns: u64) -> i64 {
    i64::try_from(ns).unwrap_or(i64::MAX)
}

impl Budget {
    pub(super) fn begin(&mut self, bp: u32, now: Time) {
        (self.bp, self.earned) = (u64::from(bp), now);
    }

    /// The budget of a span of real time, in ns.
    const fn of(&self, ns: u64) -> u64 {
        ns.saturating_mul(self.bp) / 10_000
    }

    /// Time has passed. A quarter of what is earned pays back what was advanced, as soon as all
    /// memory was armed once. The rest of the program may have three quarters, and a quarter is
    /// left for units in any case.
    pub(super) fn earn(&mut self, bp: u32, now: Time) {
        self.bp = u64::from(bp);
        let earned = self.of(now.since(self.earned));
        if earned == 0 {
            return;
        }
        self.earned = now;
        let back = if self.is_first_pass { 0 } else { (earned / 4).min(self.debt_ns) };
        self.debt_ns -= back;
        let most = signed(self.of(SAVED_NS)).max(self.left_ns);
        self.left_ns = self.left_ns.saturating_add(signed(earned - back)).min(most);
        let most = self.of(SAVED_NS);
        let others = earned / STARVED_PART * (STARVED_PART - 1);
        self.for_others_ns = self.for_others_ns.saturating_add(others).min(most);
        let starved = self.for_starved_ns.saturating_add(signed(earned / STARVED_PART));
        self.for_starved_ns = starved.min(signed(most / STARVED_PART));
    }

    /// Whether there is memory that was never armed.
    pub(super) const fn set_first_pass(&mut self, is_first_pass: bool) {
        self.is_first_pass = is_first_pass;
    }

    /// Whether hardly anything has changed for some time.
    pub(super) const fn set_calm(&mut self, is_calm: bool) {
        self.is_calm = is_calm;
    }

    /// The shares for looks in turn and for sentinels, in percent.
    const fn shares(&self) -> (u64, u64) {
        if self.is_calm { CALM_SHARES } else { SHARES }
    }

    /// New memory, of so many bytes, is to be seen soon.
    pub(super) fn advance(&mut self, bytes: u64) {
        // What was overdrawn before is lent, too, or nothing would be left for it.
        self.lend(self.left_ns.min(0).unsigned_abs());
        self.lend((bytes / UNIT).saturating_mul(ADVANCE_NS));
    }

    /// Lends what is to be paid back.
    fn lend(&mut self, ns: u64) {
        let most = self.of(ADVANCED_NS).saturating_sub(self.debt_ns);
        let ns = ns.min(most);
        self.left_ns = self.left_ns.saturating_add(signed(ns));
        self.debt_ns = self.debt_ns.saturating_add(ns);
    }

    /// Whether there is something left beyond what is reserved and `more` ns.
    pub(super) fn allows(&self, more: u64) -> bool {
        self.left_ns > signed(self.reserved_ns.saturating_add(more))
    }

    /// Whether units may have their turn. What was never seen counts like what has changed, and
    /// what was seen before leaves something for changes.
    pub(super) fn allows_turn(&self) -> bool {
        if self.is_first_pass {
            self.allows_overdraft()
        } else {
            self.allows(self.of(SAVED_NS) / 2)
        }
    }

    /// Whether a whole chunk of units may have its turn now. To wake up for each single unit, as
    /// soon as there is enough for it, costs more than to arm it.
    pub(super) fn allows_chunk(&self) -> bool {
        let chunk = self.arm_ns.saturating_mul(CHUNK as u64).min(self.of(SAVED_NS) / 4);
        let chunk = chunk.saturating_mul(self.patience) / 256;
        self.allows_turn() && (self.is_first_pass || self.allows(self.of(SAVED_NS) / 2 + chunk))
    }

    /// Units have their turn. `chance`: a random number, which says how long to wait with the next
    /// ones. If all turns had the same length, something that comes back at even times would always
    /// be seen at the same point of its way.
    pub(super) fn note_turn(&mut self, now: Time, chance: u32) {
        (self.turn_at, self.patience) = (now, 256 + u64::from(chance % 256));
    }

    /// Whether no unit had its turn for so long that a few units may be armed whatever is left.
    /// Where the rest of the program uses up a small budget, memory is seen slowly, and not never.
    /// What such units cost, and what is touched of them, is a quarter of the budget at most.
    pub(super) fn is_starved(&self, now: Time) -> bool {
        let is_late = now.since(self.turn_at) >= STARVED_NS * self.patience / 384;
        is_late && self.for_starved_ns >= 0
    }

    /// A unit is about to be armed whatever is left.
    pub(super) fn grant(&mut self) {
        self.spend_as_starved(self.arm_ns);
    }

    fn spend_as_starved(&mut self, ns: u64) {
        let least = -signed(self.of(OVERDRAFT_NS) / STARVED_PART);
        self.for_starved_ns = self.for_starved_ns.saturating_sub(signed(ns)).max(least);
    }

    /// Whether all memory of a target may be made old for units that nothing else makes old: if
    /// something is left, and else so rarely that it takes a quarter of the budget. For units of
    /// which something is in use that cannot be seen until then (`is_blind`), it may take half.
    pub(super) fn allows_clearing(&self, now: Time, is_blind: bool) -> bool {
        let next = if is_blind { self.next_blind_clearing } else { self.next_starved_clearing };
        self.is_apart(now) && (self.allows_turn() || now >= next)
    }

    /// Whether it is so long ago that all memory of a target was made old that the first looks at
    /// it do not come late for another one.
    pub(super) fn is_apart(&self, now: Time) -> bool {
        now >= self.next_clearing
    }

    /// All memory of a target was made old, which took so long.
    pub(super) fn cleared(&mut self, took_ns: u64, now: Time) {
        let rest = |part: u64| {
            let rest_ns = took_ns.saturating_mul(10_000 * part) / self.bp.max(1);
            now + rest_ns.min(LONGEST_REST_NS)
        };
        self.next_starved_clearing = rest(STARVED_PART);
        self.next_blind_clearing = rest(BLIND_PART);
        self.next_clearing = now + took_ns.saturating_mul(APART).min(MOST_APART_NS);
    }

    /// Whether memory that has changed may be armed.
    pub(super) fn allows_overdraft(&self) -> bool {
        let overdraft = signed(self.of(OVERDRAFT_NS));
        self.left_ns.saturating_add(overdraft) > signed(self.reserved_ns)
    }

    /// A unit is about to be armed, and so many of its pages will be touched soon.
    pub(super) fn reserve(&mut self, pages: u64) {
        let ns = self.arm_ns + pages * TOUCH_NS;
        self.reserved_ns = self.reserved_ns.saturating_add(ns);
    }

    pub(super) const fn ask(&mut self, now: Time) {
        self.asked = now;
    }

    /// That many units were armed since the question, `nr_pages` of them only one page of it.
    /// Returns what that took, in ns.
    pub(super) fn armed(
        &mut self,
        (nr, nr_pages): (usize, usize),
        now: Time,
        cpu_ns: Option<(u64, u64)>,
    ) -> u64 {
        self.reserved_ns = 0;
        let took_ns = took(cpu_ns).unwrap_or_else(|| now.since(self.asked));
        let each_ns = if nr_pages * 2 > nr { &mut self.page_ns } else { &mut self.arm_ns };
        let ns = answer(took_ns, nr, each_ns);
        if self.is_first_pass {
            // On a slow machine new memory costs more than was advanced.
            let cost_ns = if cpu_ns.is_some() { took_ns } else { ns };
            self.lend(cost_ns.saturating_sub(nr as u64 * ADVANCE_NS));
        }
        self.charge(ns, cpu_ns);
        took_ns
    }

    /// That many units were looked at since the question.
    pub(super) fn looked(&mut self, nr: usize, now: Time, cpu_ns: Option<(u64, u64)>) {
        let took_ns = took(cpu_ns).unwrap_or_else(|| now.since(self.asked));
        let ns = answer(took_ns, nr, &mut self.look_ns);
        self.charge(ns, cpu_ns);
    }

    /// Charges an answer. Where CPU time is known, what the thread has used since the last answer
    /// counts, too: to draw regions and to write them. It counts up to three quarters of what is
    /// earned.
    fn charge(&mut self, answer_ns: u64, cpu_ns: Option<(u64, u64)>) {
        let ns = match cpu_ns {
            None => answer_ns,
            Some((before, after)) => {
                let last = self.charged_to.replace(after).unwrap_or(before);
                let others_ns = before.saturating_sub(last).min(self.for_others_ns);
                self.for_others_ns -= others_ns;
                after.saturating_sub(before).saturating_add(others_ns)
            }
        };
        self.spend(ns);
    }

    /// What is overdrawn beyond the limit is lent, up to a second limit. So it is paid back slowly,
    /// and units need not wait for all of it. Where everything changes all the time, the second
    /// limit is soon reached, and the budget is kept.
    fn spend(&mut self, ns: u64) {
        self.left_ns = self.left_ns.saturating_sub(signed(ns));
        let beyond = self.left_ns.saturating_add(signed(self.of(OVERDRAFT_NS))).min(0);
        let most = self.of(LENT_NS).saturating_sub(self.debt_ns);
        self.lend(beyond.unsigned_abs().min(most));
    }

    /// The target has set the accessed bit of so many pages again. `is_new`: of a unit that was
    /// armed for the first time. How much of new memory is hot cannot be known before, so that is
    /// lent, too. `was_granted`: of one that was armed whatever was left.
    pub(super) fn touched(&mut self, pages: u64, is_new: bool, was_granted: bool) {
        let ns = pages * TOUCH_NS;
        self.target_ns = self.target_ns.saturating_add(ns);
        if was_granted {
            self.spend_as_starved(ns);
        }
        if is_new {
            self.lend(ns);
        }
        self.spend(ns);
    }

    /// What the targets have paid since this was asked last, in ns.
    pub(super) const fn take_target_ns(&mut self) -> u64 {
        core::mem::replace(&mut self.target_ns, 0)
    }

    /// By how much all shares are smaller, in parts of [`STRAIN_GRAIN`]: one, and more the more is
    /// overdrawn. Each kind of work keeps below its share, but where everything changes all the
    /// time they may take more than the budget together with the rest of the program. What is owed
    /// would grow without an end. So it grows until the shares are small enough.
    fn strain(&self) -> u64 {
        let overdraft = self.of(OVERDRAFT_NS).max(1);
        let owed = self.left_ns.min(0).unsigned_abs().clamp(overdraft, MOST_STRAIN * overdraft);
        owed.saturating_mul(STRAIN_GRAIN) / overdraft
    }

    /// A share of the budget of a span of real time, in ns.
    fn part(&self, ns: u64, percent: u64) -> u64 {
        self.of(ns).saturating_mul(percent * STRAIN_GRAIN) / (100 * self.strain())
    }

    /// How long to rest after work that may take a share of the budget, in ns.
    fn rest(&self, work_ns: u64, percent: u64) -> u64 {
        let whole = work_ns.saturating_mul(10_000 * 100) / (self.bp * percent).max(1);
        whole.saturating_mul(self.strain()) / STRAIN_GRAIN
    }

    /// How many units may be looked at in turn, per `window_ns`.
    pub(super) fn looks(&self, window_ns: u64) -> usize {
        // A look shows what wakes up. That something is touched no more, a turn shows at last.
        let is_short = self.is_first_pass || !self.allows_turn();
        let share = if is_short { WAITING_SHARE } else { self.shares().0 };
        let ns = self.part(window_ns, share);
        usize::try_from(ns / self.look_ns.max(1)).unwrap_or(usize::MAX).max(1)
    }

    /// How long to rest after regions were drawn, which took about `work_ns`, in ns.
    pub(super) fn rest_of_drawing(&self, work_ns: u64) -> u64 {
        self.rest(work_ns, if self.is_calm { DRAWING_SHARES.1 } else { DRAWING_SHARES.0 })
    }

    /// How long to rest after a cross-section of so many pages, in ns.
    pub(super) fn rest_of_cross(&self, nr: usize) -> u64 {
        self.rest(self.page_ns.saturating_mul(nr as u64), CROSS_SHARE)
    }

    /// How long to rest after so many units were looked at since the working set has moved, in ns.
    pub(super) fn rest_of_sweep(&self, nr: usize) -> u64 {
        self.rest(self.look_ns.saturating_mul(nr as u64), SWEEP_SHARE)
    }

    /// How many pages may be armed alone, per `window_ns`, and looked at afterwards. There is
    /// always one: if all that is hot went cold and nobody asked, only turns would tell, seconds
    /// later.
    pub(super) fn sentinels(&self, window_ns: u64) -> usize {
        let share = if self.left_ns < 0 { WAITING_SHARE } else { self.shares().1 };
        let each_ns = (self.page_ns + self.look_ns).max(1);
        let ns = self.part(window_ns, share);
        usize::try_from(ns / each_ns).unwrap_or(usize::MAX).max(1)
    }
}

/// What an answer took, in ns of CPU time.
fn took(cpu_ns: Option<(u64, u64)>) -> Option<u64> {
    cpu_ns.map(|(before, after)| after.saturating_sub(before))
}

/// The time to be counted for an answer about `nr` units, from which the cost of one is learned.
fn answer(ns: u64, nr: usize, each_ns: &mut u64) -> u64 {
    let nr = nr.max(1) as u64;
    let counted = (ns / nr).min(each_ns.saturating_mul(MOST_TIMES));
    *each_ns = ((*each_ns * 7 + counted) / 8).max(100);
    counted * nr
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_advanced_is_paid_back_by_a_quarter_of_what_is_earned() {
        let mut budget = Budget::default();
        budget.begin(100, Time(0));
        assert!(!budget.allows(0));
        budget.advance(1 << 30);
        assert!(budget.allows(40_000_000) && !budget.allows(41_000_000));
        budget.asked = Time(0);
        budget.armed((512, 0), Time(512 * 80_000), None);
        assert!(!budget.allows(0) && budget.allows_overdraft());
        // A second earns 10 ms, a quarter of which pays back.
        budget.earn(100, Time(1_000_000_000));
        assert!(budget.allows(7_400_000) && !budget.allows(7_500_000));
        budget.earn(100, Time(10_000_000_000));
        assert!(!budget.allows(55_000_000), "what is saved up is bounded");
    }

    #[test]
    fn of_a_large_target_no_more_than_a_minute_is_advanced() {
        let mut budget = Budget::default();
        budget.begin(100, Time(0));
        for bytes in [1 << 40, 1 << 40] {
            budget.advance(bytes);
            assert!(budget.allows(599_000_000) && !budget.allows(600_000_000));
        }
    }

    #[test]
    fn what_is_overdrawn_is_paid_back_slowly_and_units_go_on() {
        let mut budget = Budget::default();
        budget.begin(100, Time(0));
        // 80 ms, while the overdraft is 20.
        budget.touched(160_000, false, false);
        assert_eq!((budget.left_ns, budget.debt_ns), (-20_000_000, 60_000_000));
        assert_eq!([budget.take_target_ns(), budget.take_target_ns()], [80_000_000, 0]);
        budget.earn(100, Time(4_000_000_000));
        assert_eq!((budget.left_ns, budget.debt_ns), (10_000_000, 50_000_000));
        budget.touched(1_000_000, false, false);
        assert_eq!(
            (budget.left_ns, budget.debt_ns),
            (-440_000_000, 100_000_000),
            "there is a limit"
        );
    }

    #[test]
    fn the_more_is_overdrawn_the_smaller_are_the_shares() {
        let mut budget = Budget::default();
        budget.begin(100, Time(0));
        let shares = |budget: &Budget| {
            (budget.looks(100_000_000), budget.rest_of_drawing(1_000_000), budget.rest_of_cross(32))
        };
        // 10 % of 1 ms for looks of 1.5 us; 12 % of a CPU's hundredth; 20 % of it for 640 us.
        let whole = (66, 833_333_333, 320_000_000);
        let owes = [(0, whole), (20, whole), (40, (33, 1_666_666_666, 640_000_000))];
        let least = (16, 3_333_333_332, 1_280_000_000);
        for (owed_ms, told) in owes.into_iter().chain([(80, least), (500, least)]) {
            budget.left_ns = -owed_ms * 1_000_000;
            assert_eq!(shares(&budget), told, "{owed_ms} ms are owed");
        }
    }

    #[test]
    fn one_late_answer_does_not_use_up_everything() {
        let mut budget = Budget::default();
        budget.begin(100, Time(0));
        budget.advance(1 << 30);
        budget.armed((1, 0), Time(1_000_000_000), None);
        assert!(budget.allows(20_000_000), "the caller had to wait for a CPU");
    }

    #[test]
    fn the_rest_of_the_program_has_three_quarters_of_the_budget_at_most() {
        let mut budget = Budget::default();
        budget.begin(100, Time(0));
        budget.looked(1, Time(0), Some((0, 0)));
        // In each second the program uses 20 ms for other things and 1 ms for a look.
        for second in 1..=10 {
            budget.earn(100, Time(second * 1_000_000_000));
            let at = second * 21_000_000;
            budget.looked(1, Time(0), Some((at - 1_000_000, at)));
        }
        // 10 ms were saved up. 7.5 went for other things and 1 for the look.
        assert!(budget.allows(1_400_000) && !budget.allows(1_600_000), "{budget:?}");
    }

    #[test]
    fn pages_that_are_armed_alone_do_not_tell_what_a_unit_costs() {
        let mut budget = Budget::default();
        budget.begin(100, Time(0));
        let arm_ns = budget.arm_ns;
        for _ in 0..50 {
            budget.armed((128, 128), Time(0), Some((0, 128 * 10_000)));
        }
        assert_eq!(budget.arm_ns, arm_ns);
        // 5.1 ms are 0.2 % of 2.6 s.
        let rest_ms = budget.rest_of_cross(512) / 1_000_000;
        assert!((2_500..2_700).contains(&rest_ms), "{rest_ms}");
    }

    #[test]
    fn where_nothing_is_left_units_have_a_quarter_of_the_budget() {
        let mut budget = Budget::default();
        budget.begin(100, Time(0));
        budget.left_ns = -1_000_000_000;
        let mut nr = 0;
        for now in (0..60_000).map(|ms| Time(ms * 1_000_000)) {
            budget.earn(100, now);
            if budget.is_starved(now) {
                // 40 us to arm each, 256 for what is touched.
                (0..8).for_each(|_| budget.grant());
                budget.touched(8 * 512, false, true);
                // What else is touched does not count for that.
                budget.touched(100_000, false, false);
                budget.note_turn(now, 0);
                nr += 1;
            }
        }
        // 150 ms. By the time alone it would be 180 times.
        assert!((60..=68).contains(&nr), "{nr}");
    }

    #[test]
    fn where_nothing_is_left_clearing_takes_a_quarter_of_the_budget_or_half() {
        let mut budget = Budget::default();
        budget.begin(100, Time(0));
        budget.left_ns = -10_000_000;
        assert!(budget.allows_clearing(Time(0), false), "the first time");
        budget.cleared(17_000_000, Time(0));
        let s = |ms: u64| Time(ms * 1_000_000);
        assert!(
            !budget.allows_clearing(s(6_799), false) && budget.allows_clearing(s(6_800), false)
        );
        assert!(!budget.allows_clearing(s(3_399), true) && budget.allows_clearing(s(3_400), true));
        budget.left_ns = 10_000_000;
        assert!(!budget.allows_clearing(s(101), false) && budget.allows_clearing(s(102), false));
    }

    #[test]
    fn new_memory_is_lent_what_it_costs() {
        let mut budget = Budget::default();
        budget.begin(100, Time(0));
        budget.left_ns = -15_000_000;
        budget.set_first_pass(true);
        budget.advance(8 * UNIT);
        assert!(budget.allows(0), "what was overdrawn is lent, too");
        // Arming is ten times as dear as expected, and all pages are hot.
        for _ in 0..8 {
            budget.armed((1, 0), Time(0), Some((0, 800_000)));
            budget.touched(512, true, false);
        }
        assert_eq!(budget.left_ns, 0, "{budget:?}");
        budget.touched(2000, false, false);
        assert!(!budget.allows(0), "what is known already is not: {budget:?}");
        budget.left_ns = i64::MIN;
        budget.advance(UNIT);
        assert!(!budget.allows(0), "a loan is bounded");
    }

    #[test]
    fn turns_leave_something_for_changes() {
        let mut budget = Budget::default();
        budget.begin(100, Time(0));
        budget.earn(100, Time(400_000_000));
        assert!(budget.allows(0) && !budget.allows_turn());
        budget.earn(100, Time(600_000_000));
        assert!(budget.allows_turn());
        budget.left_ns = 0;
        budget.set_first_pass(true);
        assert!(budget.allows_turn(), "what was never seen need not wait");
    }

    #[test]
    fn a_calm_target_is_looked_at_a_quarter_as_often() {
        let mut budget = Budget::default();
        budget.begin(100, Time(0));
        budget.earn(100, Time(1_000_000_000));
        let busy = (budget.looks(100_000_000), budget.sentinels(100_000_000));
        budget.set_calm(true);
        let calm = (budget.looks(100_000_000), budget.sentinels(100_000_000));
        assert_eq!((calm.0, calm.1), (busy.0 / 4, busy.1 / 4));
    }

    #[test]
    fn where_pages_are_dear_and_nothing_is_left_one_is_still_asked() {
        let mut budget = Budget::default();
        budget.begin(100, Time(0));
        budget.left_ns = -1;
        budget.arm_ns = 1_000_000;
        assert!(budget.sentinels(100_000_000) > 1, "what a unit costs does not count");
        budget.page_ns = 1_000_000;
        assert_eq!(budget.sentinels(100_000_000), 1);
    }

    #[test]
    fn units_have_their_turn_when_there_is_enough_for_a_chunk() {
        let mut budget = Budget::default();
        budget.begin(100, Time(0));
        // Half a second's budget is left for changes; a chunk takes 8 times 40 us.
        budget.earn(100, Time(510_000_000));
        assert!(budget.allows_turn() && !budget.allows_chunk());
        budget.earn(100, Time(540_000_000));
        assert!(budget.allows_chunk());
    }
}
