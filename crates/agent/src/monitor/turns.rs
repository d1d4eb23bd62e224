//! Who is watched while there are more targets than a set has places: turns.
//!
//! Large processes stay. Once in a while the smallest of those that were watched for long enough
//! make room, at most one place in [`SHARE`], and those come in that waited the longest. One that
//! has grown meanwhile is not among the smallest any more and stays, so the places follow the
//! sizes. Places that processes leave by ending are filled at once.
//!
//! Pure: times and sizes come from outside, and nothing is attached here.

use std::collections::BTreeMap;

use isotherm_core::{TargetId, Time};

/// At most one place in so many changes hands at a turn.
const SHARE: usize = 16;
/// The time between two turns, and the least time for which a target is watched, in ns. The longest
/// span of a working set is a minute.
const STINT_NS: u64 = 60_000_000_000;
/// Free places that are filled at a time outside of turns.
const FILL: usize = 64;

/// A target that is watched.
#[derive(Debug, Clone, Copy)]
pub(super) struct Place {
    pub(super) id: TargetId,
    pub(super) since: Time,
    /// Its resident memory, in any unit.
    pub(super) size: u64,
}

/// Who makes room, and who comes in, in order.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Turn {
    pub(super) leave: Vec<TargetId>,
    pub(super) enter: Vec<TargetId>,
}

/// The targets that wait for a place.
#[derive(Debug, Default)]
pub(super) struct Turns {
    /// Since when; of those that were watched before, when that ended.
    waiting: BTreeMap<TargetId, Time>,
    /// How many were taken when there was no more place.
    places: usize,
    turn_at: Time,
    /// Why there are no more places.
    why: String,
    /// How many waited when that was told last.
    told: usize,
}

impl Turns {
    /// This target has no place from now on.
    pub(super) fn wait(&mut self, id: TargetId, now: Time) {
        if self.waiting.is_empty() {
            self.turn_at = now.plus_us(STINT_NS / 1000);
        }
        self.waiting.entry(id).or_insert(now);
    }

    /// So many places are taken, and there are no more, for this reason.
    pub(super) fn is_full(&mut self, taken: usize, why: &str, hint: &str) {
        self.places = taken;
        let between = if hint.is_empty() { "" } else { "; " };
        self.why = format!("{why}{between}{hint}");
    }

    /// This target is watched now, or is none any more.
    pub(super) fn forget(&mut self, id: TargetId) {
        self.waiting.remove(&id);
    }

    /// Those that wait, and since when.
    pub(super) fn waiting(&self) -> impl ExactSizeIterator<Item = (TargetId, Time)> {
        self.waiting.iter().map(|(id, since)| (*id, *since))
    }

    /// Since when this target waits.
    pub(super) fn since(&self, id: TargetId) -> Option<Time> {
        self.waiting.get(&id).copied()
    }

    /// Whether [`Turns::next`] needs to know who is watched.
    pub(super) fn is_turn(&self, now: Time) -> bool {
        !self.waiting.is_empty() && now >= self.turn_at
    }

    /// What is to be done now. `taken`: how many places are; `watched`: all of them at a turn, and
    /// nothing between turns. At a turn more may enter than there is room for, in case there are
    /// more places than before: the first that is refused ends it.
    pub(super) fn next(&mut self, now: Time, taken: usize, mut watched: Vec<Place>) -> Turn {
        let free = self.places.saturating_sub(taken);
        if !self.is_turn(now) {
            return Turn { leave: Vec::new(), enter: self.longest(free.min(FILL)) };
        }
        self.turn_at = now.plus_us(STINT_NS / 1000);
        let share = (self.places / SHARE).max(1).min(self.waiting.len());
        watched.retain(|place| now.since(place.since) >= STINT_NS);
        watched.sort_by_key(|place| (place.size, place.since, place.id));
        let leave = watched.into_iter().take(share.saturating_sub(free));
        let leave: Vec<TargetId> = leave.map(|place| place.id).collect();
        let enter = self.longest(leave.len() + FILL);
        Turn { leave, enter }
    }

    /// Those that wait the longest; of equals those that became targets first, since many at once
    /// become targets in the order of their size.
    fn longest(&self, nr: usize) -> Vec<TargetId> {
        if nr == 0 {
            return Vec::new();
        }
        let mut all: Vec<_> = self.waiting.iter().map(|(id, since)| (*since, *id)).collect();
        all.sort_unstable();
        all.into_iter().take(nr).map(|(_, id)| id).collect()
    }

    /// One line for all that wait, when there are some for the first time or twice as many as were
    /// told of.
    pub(super) fn news(&mut self) -> Option<String> {
        let nr = self.waiting.len();
        if nr == 0 || nr < self.told.saturating_mul(2) {
            return None;
        }
        self.told = nr;
        let turns = "the largest are watched all the time and the rest in turn";
        Some(format!("{nr} processes have no place now, {turns}: {}", self.why))
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    const S: u64 = 1_000_000_000;

    /// A machine with so many places, and processes of these sizes, the largest first.
    struct World {
        turns: Turns,
        places: usize,
        sizes: BTreeMap<TargetId, u64>,
        watched: BTreeMap<TargetId, Time>,
        now: Time,
    }

    impl World {
        fn new(places: usize, sizes: impl Iterator<Item = u64>) -> Self {
            let sizes = (0..).map(TargetId).zip(sizes).collect();
            let (turns, watched, now) = (Turns::default(), BTreeMap::new(), Time(S));
            let mut world = Self { turns, places, sizes, watched, now };
            for id in world.sizes.keys().copied().collect::<Vec<_>>() {
                let _ = world.enter(id);
            }
            world
        }

        /// Whether there was room.
        fn enter(&mut self, id: TargetId) -> bool {
            let is_room = self.watched.len() < self.places;
            if is_room {
                self.watched.insert(id, self.now);
                self.turns.forget(id);
            } else {
                self.turns.is_full(self.watched.len(), "full", "");
                self.turns.wait(id, self.now);
            }
            is_room
        }

        fn end(&mut self, id: TargetId) {
            self.sizes.remove(&id);
            self.watched.remove(&id);
            self.turns.forget(id);
        }

        /// A second later. How many places changed hands.
        fn second(&mut self) -> usize {
            self.now = Time(self.now.as_ns() + S);
            let size = |id: &TargetId| self.sizes[id];
            let place =
                |(id, since): (&TargetId, &Time)| Place { id: *id, since: *since, size: size(id) };
            let watched = match self.turns.is_turn(self.now) {
                true => self.watched.iter().map(place).collect(),
                false => Vec::new(),
            };
            let turn = self.turns.next(self.now, self.watched.len(), watched);
            for id in &turn.leave {
                assert!(self.watched.remove(id).is_some());
                self.turns.wait(*id, self.now);
            }
            let _all = turn.enter.iter().all(|id| self.enter(*id));
            assert!(self.watched.len() <= self.places);
            assert_eq!(self.watched.len() + self.turns.waiting().len(), self.sizes.len());
            turn.leave.len()
        }
    }

    #[test]
    fn every_process_has_its_turn_and_the_large_ones_stay() {
        let mut world = World::new(160, (0..400).map(|nr| 1000 - nr));
        let large: Vec<TargetId> = (0..140).map(TargetId).collect();
        let mut seen = BTreeSet::new();
        // 240 wait, and 10 come in per minute.
        for _ in 0..25 * 60 {
            assert!(world.second() <= 10, "one place in sixteen");
            seen.extend(world.watched.keys().copied());
            assert!(large.iter().all(|id| world.watched.contains_key(id)));
        }
        assert_eq!(seen.len(), 400, "nobody waits forever");
        let longest = world.turns.waiting().map(|(_, since)| world.now.since(since)).max().unwrap();
        assert!(longest <= 26 * 60 * S, "{longest}");
    }

    #[test]
    fn one_that_has_grown_stays() {
        let mut world = World::new(32, (0..64).map(|nr| 100 - nr));
        let last = TargetId(63);
        while !world.watched.contains_key(&last) {
            world.second();
        }
        world.sizes.insert(last, 1000);
        for _ in 0..3600 {
            world.second();
            assert!(world.watched.contains_key(&last));
        }
    }

    #[test]
    fn places_that_become_free_are_filled_at_once_and_nobody_leaves_for_nobody() {
        let mut world = World::new(32, (0..40).map(|_| 7));
        assert_eq!(world.turns.news().unwrap().split(' ').next(), Some("8"));
        assert_eq!(world.turns.news(), None, "once for all");
        (0..5).for_each(|nr| world.end(TargetId(nr)));
        assert_eq!((world.second(), world.turns.waiting().len()), (0, 3));
        (5..8).for_each(|nr| world.end(TargetId(nr)));
        world.second();
        assert_eq!(world.turns.waiting().len(), 0);
        assert_eq!((0..600).map(|_| world.second()).sum::<usize>(), 0);
    }

    #[test]
    fn places_are_filled_at_once_between_turns_too_and_more_places_are_found() {
        let mut world = World::new(160, (0..400).map(|nr| 1000 - nr));
        let _: usize = (0..70).map(|_| world.second()).sum();
        (0..5).for_each(|nr| world.end(TargetId(nr)));
        world.second();
        assert_eq!(world.watched.len(), 160, "a turn has been taken, and no place is lost by that");
        world.places = 200;
        let _: usize = (0..60).map(|_| world.second()).sum();
        assert_eq!(world.watched.len(), 200);
    }
}
