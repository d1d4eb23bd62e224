//! Looks that find nothing new.
//!
//! Most looks are made in turn at units in which nothing has happened since the last one. To take
//! such a look in costs as much as any other: sums over all spans are taken out and added again, to
//! find that they are what they were. So it is found out first whether a look can change anything.
//!
//! Invariant: a look that counts as quiet would change nothing of its unit but the time of the last
//! look, and has no news.

use super::Unit;
use super::sentinel::NO_PAGE;
use crate::snapshot::SPANS;
use crate::time::Time;
use crate::unit::UnitCheck;

impl Unit {
    /// Whether a look at `now` has found what was known, at a time that tells nothing else: no span
    /// and no point of the course ends with it, and nobody waits for what it says. `spans` is as in
    /// [`Unit::was_looked_at`].
    pub(in super::super) fn is_as_before(
        &self,
        check: &UnitCheck,
        now: Time,
        spans: &[u64; SPANS],
    ) -> bool {
        let waits = self.sentinel != NO_PAGE || self.waiting != 0 || self.proven_bursts() != 0;
        if waits || !(self.known && self.armed && check.answered) {
            return false;
        }
        let is_over = self.turn.is_over(now, spans)
            || self.extra.is_over(now, spans)
            || self.in_turn && self.course.is_over(now.since(self.turn.since), spans);
        !is_over
            && check.leaf_shift == self.leaf_shift
            && check.present.and(*self.pages) == *self.present
            && check.stuck.is_empty()
            && self.young.or(check.young).and(*self.present).minus(*self.stuck) == self.young
    }

    /// Whether a look at `now` is the first one a second after the unit was made old.
    pub(in super::super) const fn settles(&self, now: Time, spans: &[u64; SPANS]) -> bool {
        self.armed && now.since(self.since) >= spans[2] && self.looked.since(self.since) < spans[2]
    }

    /// Takes in a look that has found the unit as it was before.
    pub(in super::super) const fn was_seen_again(&mut self, now: Time) {
        self.looked = now;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rng::Rng;
    use crate::target::TargetId;
    use crate::unit::{PageBits, UNIT};

    const MS: u64 = 1_000_000;
    const SPANS_NS: [u64; SPANS] = [5 * MS, 100 * MS, 1000 * MS, 10_000 * MS, 60_000 * MS];

    /// A set of pages that is empty, whole, or some cells.
    fn pages(rng: &mut Rng) -> PageBits {
        match rng.range(0, 6) {
            0 => PageBits::ALL,
            1 => PageBits([rng.range(0, 1 << 20), 0, 0xffff, 0, 0, 0, 0, 1]),
            _ => PageBits::default(),
        }
    }

    #[test]
    fn a_quiet_look_changes_nothing_but_its_time() {
        let (mut rng, mut nr_quiet, mut nr_other) = (Rng::seeded(7), 0, 0);
        for round in 0..400 {
            let mut unit = Unit::new(UNIT, PageBits::ALL, Time(0));
            let mut now = Time(1000 * MS);
            for _ in 0..60 {
                now = now + rng.range(1, if round % 2 == 0 { 300 } else { 9000 }) * MS;
                let present = if rng.range(0, 20) == 0 { pages(&mut rng) } else { PageBits::ALL };
                let asked = if rng.range(0, 4) == 0 { PageBits::page(7) } else { PageBits::ALL };
                let mut check = UnitCheck {
                    answered: rng.range(0, 20) > 0,
                    present,
                    young: pages(&mut rng).and(present),
                    ..UnitCheck::new(TargetId(1), UNIT, asked)
                };
                match rng.range(0, 9) {
                    0 => {
                        unit.is_turn = rng.range(0, 2) == 0 && asked == PageBits::ALL;
                        unit.was_armed(&check, now);
                        continue;
                    }
                    1 => {
                        unit.choose_sentinel(rng.range(0, 512));
                    }
                    _ => check.pages = PageBits::ALL,
                }
                let is_quiet = unit.is_as_before(&check, now, &SPANS_NS);
                let mut quiet = unit.clone();
                quiet.was_seen_again(now);
                let news = unit.was_looked_at(&check, now, &SPANS_NS, round % 3 == 0);
                if is_quiet {
                    nr_quiet += 1;
                    assert_eq!(news, super::super::News::default(), "round {round}");
                    let [shown, expected] = [&unit, &quiet].map(|unit| alloc::format!("{unit:?}"));
                    assert_eq!(shown, expected, "round {round}");
                } else {
                    nr_other += 1;
                }
            }
        }
        assert!(nr_quiet > 1000 && nr_other > 1000, "{nr_quiet} quiet, {nr_other} others");
    }
}
