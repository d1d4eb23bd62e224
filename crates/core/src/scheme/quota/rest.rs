//! Rests: a scheme whose destination has no room does nothing for a while. Not in the kernel.
//!
//! A migration to a node that is full fails page by page, and each failure costs as much as a
//! success. The first rest is short. While the node stays full, each rest is twice as long as the
//! one before, up to a limit. An application that moves memory and is not refused ends the series.
//!
//! Only a lack of room begins a rest ([`Applied::no_room`](crate::scheme::Applied::no_room)). Pages
//! that are pinned or mapped by others are refused as well, but the pages next to them may move.

use crate::scheme::Applied;
use crate::time::Time;

/// How long a scheme rests when its destination has no room.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Rest {
    /// The first rest, in ms.
    pub first_ms: u64,
    /// The longest, in ms.
    pub most_ms: u64,
}

/// The rests of a scheme.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Resting {
    until: Option<Time>,
    /// Length of the last rest of this series, in ms. 0: there was none.
    last_ms: u64,
    /// Number of rests so far.
    pub(crate) nr: u64,
}

impl Resting {
    /// Whether the scheme rests at `now`.
    pub(crate) fn rests(&self, now: Time) -> bool {
        self.until.is_some_and(|until| now < until)
    }

    /// Takes in the result of an application at `now`. A rest begins if less than half of the bytes
    /// asked for were moved and some were refused for lack of room.
    pub(crate) fn note(&mut self, rest: Option<Rest>, applied: &Applied, now: Time) {
        let Some(rest) = rest else { return };
        let is_full = applied.no_room > 0 && applied.applied < applied.asked.div_ceil(2);
        if is_full {
            let next = self.last_ms.saturating_mul(2).max(rest.first_ms).min(rest.most_ms);
            self.last_ms = next;
            self.until = Some(now.plus_us(next.saturating_mul(1000)));
            self.nr += 1;
        } else if applied.applied > 0 && !self.rests(now) {
            (self.until, self.last_ms) = (None, 0);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const REST: Rest = Rest { first_ms: 1000, most_ms: 16_000 };

    fn applied(asked: u64, done: u64, no_room: u64) -> Applied {
        Applied { covered: asked, asked, applied: done, no_room, ..Applied::default() }
    }

    #[test]
    fn rests_grow_while_there_is_no_room_and_begin_anew_after_a_success() {
        let (mut resting, mut now) = (Resting::default(), Time(0));
        for expected in [1, 2, 4, 8, 16, 16] {
            resting.note(Some(REST), &applied(100, 49, 51), now);
            let just_before = now.plus_us(expected * 1_000_000 - 1);
            assert!(resting.rests(now) && resting.rests(just_before), "{expected} s");
            now = now.plus_us(expected * 1_000_000);
            assert!(!resting.rests(now), "{expected} s");
        }
        assert_eq!(resting.nr, 6);
        resting.note(Some(REST), &applied(100, 100, 0), now);
        resting.note(Some(REST), &applied(100, 0, 100), now);
        assert!(resting.rests(now) && !resting.rests(now.plus_us(1_000_000)), "from the first");
    }

    #[test]
    fn only_a_lack_of_room_is_a_reason_to_rest() {
        for (name, rest, applied, rests) in [
            ("pinned pages", Some(REST), applied(100, 0, 0), false),
            ("half of it went", Some(REST), applied(100, 50, 50), false),
            ("less than half went", Some(REST), applied(100, 49, 1), true),
            ("nothing was asked", Some(REST), applied(0, 0, 0), false),
            ("no rests are asked for", None, applied(100, 0, 100), false),
        ] {
            let mut resting = Resting::default();
            resting.note(rest, &applied, Time(5));
            assert_eq!(resting.rests(Time(5)), rests, "{name}");
        }
    }
}
