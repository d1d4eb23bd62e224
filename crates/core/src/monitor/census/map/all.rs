//! What concerns all targets, found out without a visit to each of thousands at every sample.
//!
//! Most targets of many sleep. The state of each is far from that of the next in memory, so a visit
//! costs a cache miss or more, though nothing is to be done there.
//!
//! Invariant: each target of which a cross-section goes on is in [`Crossing`].

use alloc::vec::Vec;

use super::{Cross, Map, of_target, place};
use crate::rng::Rng;
use crate::target::TargetId;
use crate::time::Time;
use crate::unit::UnitCheck;

/// Targets that are asked at most, before one sample, whether a cross-section is to begin. The
/// others follow before the next ones.
const MOST_ASKED: usize = 64;

/// What all targets together are like.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::monitor::census) struct Outlook {
    /// Whether there are units that were never armed, and may be.
    pub(in crate::monitor::census) has_unknown: bool,
    /// Whether hardly anything has changed for some time.
    pub(in crate::monitor::census) is_calm: bool,
}

impl Outlook {
    pub(in crate::monitor::census) fn of(maps: &[Map], now: Time) -> Self {
        let mut all = Self { has_unknown: false, is_calm: true };
        for map in maps {
            all.has_unknown |= map.has_unknown(now);
            all.is_calm &= map.is_calm(now);
        }
        all
    }
}

/// The targets of which a cross-section goes on.
#[derive(Debug, Default)]
pub(in crate::monitor::census) struct Crossing {
    /// Sorted. Also some whose cross-section is over or was given up since the last sample.
    ids: Vec<TargetId>,
    /// The target that is asked first whether one is to begin.
    from: usize,
}

impl Crossing {
    /// Pages all over a target, where turns leave a doubt.
    pub(in crate::monitor::census) fn choose(
        &mut self,
        maps: &mut [Map],
        units: &mut Vec<UnitCheck>,
        rng: &mut Rng,
        now: Time,
    ) {
        self.ids.retain(|id| of_target(maps, *id).is_some_and(|map| map.cross.len() > 0));
        let nr = maps.len().min(MOST_ASKED);
        for map in from(maps, self.from).take(nr) {
            if !map.cross.is_due(now) || map.has_unknown(now) || map.spared.all(now) {
                continue;
            }
            if map.cross.begin(&map.units, &map.spared, rng, now) > 0 {
                let at = self.ids.partition_point(|id| *id < map.id);
                self.ids.insert(at, map.id);
            }
        }
        self.from = (self.from + nr) % maps.len().max(1);
        self.each(maps, |map| {
            if map.cross.is_arming() {
                map.cross.choose(map.id, units);
            }
        });
    }

    /// Does something with each of their maps.
    pub(in crate::monitor::census) fn each(
        &self,
        maps: &mut [Map],
        mut what: impl FnMut(&mut Map),
    ) {
        for id in &self.ids {
            if let Some(map) = of_target(maps, *id) {
                what(map);
            }
        }
    }

    /// The sample at which one of them has to be looked at next, and whether pages of one are still
    /// to be made old.
    pub(in crate::monitor::census) fn next(&self, maps: &[Map]) -> (Option<u64>, bool) {
        let crosses = || self.ids.iter().filter_map(|id| Some(&maps[place(maps, *id)?].cross));
        (crosses().filter_map(Cross::next_look).min(), crosses().any(Cross::is_arming))
    }
}

/// All maps, the one with this number first.
pub(in crate::monitor::census) fn from(
    maps: &mut [Map],
    first: usize,
) -> impl Iterator<Item = &mut Map> {
    let (front, back) = maps.split_at_mut(first.min(maps.len()));
    back.iter_mut().chain(front)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::monitor::census::curve::{Pages, Turned};

    #[test]
    fn of_many_targets_all_are_asked_within_a_few_samples() {
        let (mut rng, now) = (Rng::seeded(1), Time(1_000_000_000));
        let mut maps: Vec<_> = (0..200).map(|id| Map::new(TargetId(id), &mut rng)).collect();
        let doubted = Turned::of(Pages { mean: 1.0, sigma: 1.0 });
        for map in &mut maps {
            map.cross.doubt([Some(doubted); 2], 512, true);
        }
        let mut crossing = Crossing::default();
        let mut left = Vec::new();
        for _ in 0..4 {
            crossing.choose(&mut maps, &mut Vec::new(), &mut rng, now);
            left.push(maps.iter().filter(|map| map.cross.is_due(now)).count());
        }
        assert_eq!(left, [200 - 64, 200 - 128, 200 - 192, 0]);
    }
}
