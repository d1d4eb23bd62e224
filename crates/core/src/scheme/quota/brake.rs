//! The brake: a scheme slows down by itself when what it acted on is touched again too soon.
//!
//! Not in the kernel. Two parts work together.
//!
//! *Per window*: the cap begins at the most that a window did lately. When the refault rate of the
//! last seconds is above the limit it is cut by as much as that, to between a half and a sixteenth;
//! then it waits until what was done before can no longer count. With every window below the limit
//! it grows by a quarter, until it limits nothing.
//!
//! *Over the run* ([`Debt`]): a program whose phases last some seconds looks good in most windows,
//! and loses all that was taken when the phase ends. So from the first time on that the share of
//! the whole run is above the limit, what is *at risk* (done so short ago that it may still come
//! back) must be paid for in advance: if all of it came back, the share would still be within the
//! limit. What is above the limit at that first time could not be known and is forgiven, once.
//! Where nothing is left to pay with, a *probe* of a little memory is taken now and then, and after
//! each probe that came back the next one waits twice as long.
//!
//! ```text
//! at risk + refaulted - forgiven  <=  limit x done   (+ one probe at a time)
//! ```

use crate::math::mult_frac;
use crate::time::Time;

/// When to brake.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Brake {
    /// The largest tolerated share of acted-on memory that is touched again soon, in basis points.
    pub max_refault_bp: u32,
    /// How long what was done counts in that share, in ms: so long after the cap was cut it is not
    /// cut again, and so long it is at risk.
    pub settle_ms: u64,
    /// The least that a window may always do, in bytes; while nothing may be lost over the run any
    /// more, the size of a probe.
    pub floor: u64,
}

impl Default for Brake {
    /// 2 %, 10 s, 1 MiB.
    fn default() -> Self {
        Self { max_refault_bp: 200, settle_ms: 10_000, floor: 1 << 20 }
    }
}

/// What a scheme did and what of it came back, in bytes since some start.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Totals {
    /// Acted on.
    pub(crate) done: u64,
    /// Touched again within the refault window.
    pub(crate) refaulted: u64,
}

/// The state of a brake.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Braked {
    /// Bytes per window, while braking.
    pub(crate) cap: Option<u64>,
    /// The last measured rate, not used yet.
    pub(crate) refault_bp: Option<u64>,
    /// The last measured totals; `None`: nobody counts them, and only the rate brakes.
    pub(crate) totals: Option<Totals>,
    /// The most that a window did, forgotten by a sixteenth per window.
    peak: u64,
    /// When it was cut last.
    cut: Option<Time>,
    /// The cap by the rate.
    by_rate: Option<u64>,
    debt: Debt,
}

impl Braked {
    /// Nothing was measured yet.
    pub(crate) const NEW: Self = Self {
        cap: None,
        refault_bp: None,
        totals: None,
        peak: 0,
        cut: None,
        by_rate: None,
        debt: Debt::NEW,
    };

    /// A window that did `done` bytes is over.
    pub(crate) fn window_over(&mut self, brake: Option<Brake>, done: u64, least: u64, now: Time) {
        let Some(brake) = brake else {
            *self = Self::default();
            return;
        };
        self.peak = done.max(self.peak - self.peak / 16);
        self.rate_cap(brake, least.max(brake.floor), now);
        let by_debt = self.totals.and_then(|totals| {
            self.debt.take_in(brake, done, totals, now);
            self.debt.cap(brake, least, totals, now)
        });
        self.cap = [self.by_rate, by_debt].into_iter().flatten().min();
    }

    fn rate_cap(&mut self, brake: Brake, least: u64, now: Time) {
        let (rate, limit) = (self.refault_bp.take().unwrap_or(0), u64::from(brake.max_refault_bp));
        if rate > limit {
            let settled = self.cut.is_none_or(|at| now.since(at) / 1_000_000 >= brake.settle_ms);
            if settled {
                let cap = self.by_rate.unwrap_or(self.peak);
                let cut = mult_frac(cap, limit, rate).clamp(cap / 16, cap / 2);
                self.by_rate = Some(cut.max(least));
                self.cut = Some(now);
            }
            return;
        }
        self.by_rate = match self.by_rate {
            // Growing beyond what the scheme makes use of means that it is free again.
            Some(cap) if cap / 4 > self.peak.max(16 * least) => None,
            Some(cap) => Some(cap + (cap / 4).max(least)),
            None => None,
        };
    }
}

/// Parts of the settling time in which what is at risk is counted.
const PARTS: usize = 8;
/// A probe waits for at most two to this power of settling times: by default for 43 minutes.
const MAX_DOUBLINGS: u32 = 8;

/// What may still be lost over the run. Its time is that of the windows: between two of them
/// nothing is done.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
struct Debt {
    /// Refaulted bytes that do not count: above the limit when that was first seen, and what came
    /// back of what was at risk then. `None`: the run has always been within the limit.
    forgiven: Option<u64>,
    /// Until when more is forgiven.
    forgiving_until: Time,
    /// Bytes done in the last parts of the settling time; the one that goes on comes first.
    recent: [u64; PARTS],
    /// When the part that goes on began.
    part_from: Option<Time>,
    /// The last probe: when, and what had come back until then.
    probe: Option<(Time, u64)>,
    /// No probe before this.
    next_probe: Time,
    /// After the next probe that comes back, the wait is two to this power of settling times.
    doublings: u32,
}

impl Debt {
    const NEW: Self = Self {
        forgiven: None,
        forgiving_until: Time(0),
        recent: [0; PARTS],
        part_from: None,
        probe: None,
        next_probe: Time(0),
        doublings: 0,
    };

    /// Takes in what a window did, and what is known of the run now.
    fn take_in(&mut self, brake: Brake, done: u64, totals: Totals, now: Time) {
        self.age(brake, now);
        self.recent[0] = self.recent[0].saturating_add(done);
        let excess = totals.refaulted.saturating_sub(allowed(brake, totals));
        match &mut self.forgiven {
            // Less than a probe is never worth stopping for.
            None if excess > brake.floor => {
                self.forgiven = Some(excess);
                self.forgiving_until = now.plus_us(settle_us(brake));
            }
            Some(forgiven) if now < self.forgiving_until => *forgiven = excess.max(*forgiven),
            _ => {}
        }
    }

    /// What the next window may do; `None`: what it likes.
    fn cap(&mut self, brake: Brake, least: u64, totals: Totals, now: Time) -> Option<u64> {
        let forgiven = self.forgiven?;
        let at_risk = self.recent.iter().fold(0, |sum: u64, part| sum.saturating_add(*part));
        let may_lose = allowed(brake, totals).saturating_add(forgiven);
        let left = may_lose.saturating_sub(totals.refaulted).saturating_sub(at_risk);
        let probe = brake.floor.max(least);
        if left >= probe {
            if self.probe.take().is_some() {
                // Probes have earned as much as one of them can lose.
                self.doublings = self.doublings.saturating_sub(1);
            }
            return Some(left);
        }
        if at_risk > 0 || now < self.forgiving_until {
            return Some(0);
        }
        // The last probe has settled.
        if let Some((at, refaulted)) = self.probe.take() {
            let lost = totals.refaulted.saturating_sub(refaulted);
            if lost > mult_frac(probe, brake.max_refault_bp.into(), 10_000) {
                self.doublings = (self.doublings + 1).min(MAX_DOUBLINGS);
                self.next_probe = at.plus_us(settle_us(brake).saturating_mul(1 << self.doublings));
            }
        }
        if now < self.next_probe {
            return Some(0);
        }
        self.probe = Some((now, totals.refaulted));
        Some(probe)
    }

    /// Moves on to the part of the settling time that `now` is in.
    fn age(&mut self, brake: Brake, now: Time) {
        let part_ns = (brake.settle_ms.saturating_mul(1_000_000) / (PARTS as u64 - 1)).max(1);
        let from = *self.part_from.get_or_insert(now);
        let over = now.since(from) / part_ns;
        if over == 0 {
            return;
        }
        let over_parts = usize::try_from(over).unwrap_or(PARTS).min(PARTS);
        self.recent.rotate_right(over_parts % PARTS);
        self.recent[..over_parts].fill(0);
        self.part_from = Some(Time(from.as_ns().saturating_add(over.saturating_mul(part_ns))));
    }
}

/// What may come back of all that was done, in bytes.
fn allowed(brake: Brake, totals: Totals) -> u64 {
    mult_frac(totals.done, brake.max_refault_bp.into(), 10_000)
}

fn settle_us(brake: Brake) -> u64 {
    brake.settle_ms.saturating_mul(1000)
}

#[cfg(test)]
mod tests {
    use alloc::collections::VecDeque;

    use super::*;
    use crate::rng::Rng;

    const MIB: u64 = 1 << 20;
    const WINDOW_MS: u64 = 100;
    const BRAKE: Brake = Brake { max_refault_bp: 200, settle_ms: 10_000, floor: MIB };

    /// How a program uses its memory: it leaves all of it alone for the length of a phase, then
    /// touches a share of it.
    #[derive(Debug, Clone, Copy)]
    struct Phases {
        /// Lengths of phases, in seconds: the least and the most.
        seconds: (u64, u64),
        /// Share that is touched at the end of a phase, in percent: the least and the most.
        touched: (u64, u64),
    }

    /// What became of a run.
    #[derive(Debug, Clone, Copy, Default)]
    struct Ran {
        totals: Totals,
        /// What came back of that which was done until the run was first seen above the limit.
        unavoidable: u64,
    }

    impl Ran {
        /// What came back beyond that, and the limit for it.
        fn avoidable(&self) -> (u64, u64) {
            (self.totals.refaulted - self.unavoidable, allowed(BRAKE, self.totals))
        }
    }

    /// Takes all of 1 GiB that is in memory, as fast as the brake lets it, for so many windows.
    fn run(phases: Phases, seed: u64, windows: u64, by_totals: bool) -> Ran {
        let mut rng = Rng::seeded(seed);
        let mut between = |(least, most): (u64, u64)| rng.range(least, most + 1);
        let (mut braked, mut ran) = (Braked::NEW, Ran::default());
        // What is out, by when it was taken, in windows.
        let (mut out, mut resident) = (VecDeque::<(u64, u64)>::new(), 1024 * MIB);
        let mut long_out = 0;
        let mut phase_end = between(phases.seconds) * 1000 / WINDOW_MS;
        let mut stopped_at = None;
        for nr in 0..windows {
            let now = Time(nr * WINDOW_MS * 1_000_000);
            let done = braked.cap.unwrap_or(u64::MAX).min(resident);
            ran.totals.done += done;
            resident -= done;
            out.push_back((nr, done));
            let settled = |at: u64| nr - at > BRAKE.settle_ms / WINDOW_MS;
            while let Some(&(_, bytes)) = out.front().filter(|(at, _)| settled(*at)) {
                long_out += bytes;
                out.pop_front();
            }
            if nr >= phase_end {
                phase_end = nr + between(phases.seconds) * 1000 / WINDOW_MS;
                let share = between(phases.touched);
                resident += long_out * share / 100;
                long_out -= long_out * share / 100;
                for (at, bytes) in &mut out {
                    let touched = *bytes * share / 100;
                    *bytes -= touched;
                    resident += touched;
                    ran.totals.refaulted += touched;
                    let is_late = stopped_at.is_some_and(|stopped| *at > stopped);
                    ran.unavoidable += if is_late { 0 } else { touched };
                }
            }
            let excess = ran.totals.refaulted.saturating_sub(allowed(BRAKE, ran.totals));
            if excess > BRAKE.floor {
                stopped_at = stopped_at.or(Some(nr));
            }
            braked.totals = by_totals.then_some(ran.totals);
            let rate = ran.totals.refaulted * 10_000 / ran.totals.done.max(1);
            braked.refault_bp = Some(rate);
            braked.window_over(Some(BRAKE), done, 4096, now);
        }
        ran
    }

    const PHASES: [Phases; 5] = [
        Phases { seconds: (1, 3), touched: (50, 100) },
        Phases { seconds: (5, 12), touched: (10, 100) },
        Phases { seconds: (15, 40), touched: (80, 100) },
        Phases { seconds: (100, 300), touched: (100, 100) },
        Phases { seconds: (1, 120), touched: (1, 100) },
    ];

    #[test]
    fn the_share_of_the_run_holds_whatever_the_phases() {
        for (nr, phases) in PHASES.into_iter().enumerate() {
            for seed in 0..20 {
                let windows = 3 * 3600 * 1000 / WINDOW_MS;
                let ran = run(phases, seed, windows, true);
                let (back, limit) = ran.avoidable();
                assert!(back <= limit + 16 * MIB, "phases {nr}, seed {seed}: {back} {ran:?}");
            }
        }
    }

    #[test]
    fn the_rate_of_the_last_seconds_alone_does_not_hold_it() {
        let broken = PHASES.into_iter().filter(|phases| {
            let (back, limit) = run(*phases, 1, 36_000, false).avoidable();
            back > 2 * limit + 16 * MIB
        });
        assert!(broken.count() >= 3, "then the debt would not be needed");
    }

    #[test]
    fn memory_that_stays_cold_is_not_held_back() {
        let cold = Phases { seconds: (5, 5), touched: (0, 1) };
        let ran = run(cold, 1, 600, true);
        assert!(ran.totals.done >= 1024 * MIB, "{ran:?}");
    }
}
