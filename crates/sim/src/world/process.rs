//! One simulated process: its life, its memory, and what it touches.

use isotherm_core::{AddrRange, Time};

use super::chance::{exponential, unit};
use super::lane::Lane;
use super::memory::{Bit, Leaf, Memory};
use super::schedule::Schedule;
use crate::config::Config;
use crate::pattern::Plan;

/// A process of the fork tree.
#[derive(Debug, Clone)]
pub(super) struct Process {
    pub(super) number: u32,
    pub(super) parent: Option<u32>,
    pub(super) start: Time,
    pub(super) end: Time,
    pub(super) memory: Vec<Memory>,
    /// By phase, then by region.
    lanes: Vec<Vec<Vec<Lane>>>,
}

impl Process {
    /// Process `number`, which lives from `start` to `end`.
    pub(super) fn new(
        number: u32,
        life: (Time, Time),
        config: &Config,
        plans: &[Vec<Plan>],
        memory: Vec<Memory>,
        full_speed: f64,
    ) -> Self {
        let lanes = plans.iter().map(|plans| lanes(number, config, plans, full_speed));
        Self {
            number,
            parent: number.checked_sub(1).map(|n| n / 2),
            start: life.0,
            end: life.1,
            memory,
            lanes: lanes.collect(),
        }
    }

    /// Whether it exists at `now`.
    pub(super) fn is_alive(&self, now: Time) -> bool {
        self.start <= now && now < self.end
    }

    /// The lanes of a phase, of all regions.
    pub(super) fn lanes_of(&self, phase: usize) -> impl Iterator<Item = &Lane> {
        self.lanes[phase].iter().flatten()
    }

    /// The process's start, if the phase had begun before it; otherwise the begin of the phase.
    pub(super) fn begin_of(&self, slice_from: Time) -> Time {
        slice_from.max(self.start)
    }

    /// The region in which `addr` is mapped at `now`, with the leaf.
    pub(super) fn leaf(&self, addr: u64, now: Time) -> Option<(usize, Leaf)> {
        let after = self.memory.partition_point(|m| m.mapped(now).start <= addr);
        let region = after.checked_sub(1)?;
        Some((region, self.memory[region].leaf(addr, now)?))
    }

    /// The chance that a byte of `bytes` of `region` is touched in `[from, until)`.
    pub(super) fn chance(
        &self,
        schedule: &Schedule,
        region: usize,
        bytes: AddrRange,
        from: Time,
        until: Time,
    ) -> f64 {
        let (from, until) = (from.max(self.start), until.min(self.end));
        let mut touches = 0.0;
        for slice in schedule.slices(from, until) {
            let begin = self.begin_of(slice.from);
            for lane in &self.lanes[slice.phase][region] {
                let (from, until) = (from.max(begin), until.min(slice.until));
                let since = lane.counts_from(slice.from, begin);
                touches += lane.touches(bytes, since, from, until);
            }
        }
        -(-touches).exp_m1()
    }

    /// The accessed bit of a leaf at `now`. Whether the leaf was touched since the last look is
    /// drawn here, and remembered. Others clear the bits of this process's pages `cleared` times a
    /// second each.
    pub(super) fn look(
        &mut self,
        schedule: &Schedule,
        region: usize,
        leaf: &Leaf,
        now: Time,
        (seed, cleared): (u64, f64),
    ) -> Bit {
        let before = *self.memory[region].bit(leaf);
        let known = before.at().is_some_and(|at| at >= leaf.since);
        let bit = if known { before } else { self.first(region, leaf) };
        let bit = self.after_others(region, leaf, bit, now, (seed, cleared));
        let bit = match bit {
            Bit::Old(at) | Bit::Absent(at) if at < now => {
                let chance = self.chance(schedule, region, leaf.bytes, at, now);
                let keys =
                    [seed, u64::from(self.number), region as u64, leaf.bytes.start, at.0, now.0];
                if chance > 0.0 && unit(&keys) < chance {
                    Bit::Young(now)
                } else if matches!(bit, Bit::Old(_)) {
                    Bit::Old(now)
                } else {
                    Bit::Absent(now)
                }
            }
            other => other,
        };
        *self.memory[region].bit(leaf) = bit;
        bit
    }

    /// The accessed bit at `now` of all 512 small leaves of the 2 MiB at `addr`, as [`Self::look`]
    /// finds it leaf by leaf. `None` if they may differ: then they have to be looked at one by one.
    pub(super) fn look_at_all(
        &mut self,
        schedule: &Schedule,
        addr: u64,
        now: Time,
    ) -> Option<&mut Bit> {
        let after = self.memory.partition_point(|m| m.mapped(now).start <= addr);
        let region = after.checked_sub(1)?;
        let (before, leaves) = self.memory[region].bit_of_all(addr, now)?;
        let before = *before;
        let known = before.at().is_some_and(|at| at >= leaves.since);
        let bit = match if known { before } else { self.first(region, &leaves) } {
            // What cannot be touched in all of these bytes cannot be touched in any leaf.
            Bit::Old(at) | Bit::Absent(at)
                if at < now && self.chance(schedule, region, leaves.bytes, at, now) > 0.0 =>
            {
                return None;
            }
            Bit::Old(_) => Bit::Old(now),
            Bit::Absent(_) => Bit::Absent(now),
            other => other,
        };
        let (all, _) = self.memory[region].bit_of_all(addr, now)?;
        *all = bit;
        Some(all)
    }

    /// The bit as others have left it when they cleared it last before `now`. They do so at random
    /// times, so the time since then is distributed exponentially. Touches up to that time do not
    /// show any more.
    fn after_others(
        &self,
        region: usize,
        leaf: &Leaf,
        bit: Bit,
        now: Time,
        (seed, cleared): (u64, f64),
    ) -> Bit {
        let (Bit::Old(at) | Bit::Young(at)) = bit else { return bit };
        if cleared <= 0.0 || at >= now {
            return bit;
        }
        let keys = [seed, 7, u64::from(self.number), region as u64, leaf.bytes.start, at.0, now.0];
        let pages = f64::from(1_u32 << (leaf.shift - 12));
        let ago_ns = exponential(&keys) / (cleared * pages) * 1e9;
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "a time from 0 on; `as` saturates"
        )]
        let last = Time(now.0.saturating_sub(ago_ns as u64));
        match bit {
            _ if last > at => Bit::Old(last),
            Bit::Young(_) => Bit::Young(now),
            bit => bit,
        }
    }

    /// The bit of a leaf as it was when it was mapped, or inherited by a fork (which copies page
    /// tables with the accessed bits cleared).
    fn first(&self, region: usize, leaf: &Leaf) -> Bit {
        let at = leaf.since.max(self.start);
        if !self.memory[region].populate {
            Bit::Absent(at)
        } else if leaf.since <= self.start && self.parent.is_some() {
            Bit::Old(at)
        } else {
            Bit::Young(at)
        }
    }
}

/// The patterns that process `number` runs in one phase, by region. Patterns without a rate share
/// the rest of the full speed by their weights.
fn lanes(number: u32, config: &Config, plans: &[Plan], full_speed: f64) -> Vec<Vec<Lane>> {
    let threads = config.settings.threads;
    let ours = || plans.iter().filter(|p| p.process.is_none_or(|n| n == number));
    let rated: f64 = ours().filter_map(|p| p.rate).sum();
    let weights: f64 = ours().filter(|p| p.rate.is_none()).map(|p| f64::from(p.weight)).sum();
    let free = (full_speed * f64::from(threads) - rated).max(0.0) / weights.max(1.0);
    let mut lanes = vec![Vec::new(); config.regions.len()];
    for plan in ours() {
        let rate = plan.rate.unwrap_or(free * f64::from(plan.weight));
        if rate > 0.0 {
            lanes[plan.region].push(Lane::new(plan.clone(), rate, threads));
        }
    }
    lanes
}
