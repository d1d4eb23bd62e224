//! The brake: a scheme slows down by itself when what it acted on is touched again too soon.
//!
//! Not in the kernel. Two parts work together.
//!
//! *Per window*: the brake caps the bytes of a window. The cap begins at the most that a window did
//! lately. When the refault rate of the last seconds is above the limit, the cap is cut by the
//! ratio of the two, to between a half and a sixteenth. It is not cut again until the memory acted
//! on before has left the refault rate. With every window below the limit the cap grows by a
//! quarter, until it limits nothing.
//!
//! *Over the run* ([`Debt`]): a program whose phases last some seconds has a low refault rate in
//! most windows. When a phase ends, all memory that was taken comes back. So once the refaulted
//! share of the whole run has been above the limit, memory *at risk* is bounded. Memory is at risk
//! while it was acted on so recently that a touch still counts as a refault. The scheme may act
//! only as long as the share would stay within the limit if all memory at risk came back. The
//! excess at the first time could not be foreseen, and is forgiven once. While the bound leaves
//! nothing, the scheme acts on a *probe* of a little memory now and then. After each probe that
//! came back, the next one waits twice as long.
//!
//! ```text
//! at risk + refaulted - forgiven  <=  limit x done   (+ one probe at a time)
//! ```

use crate::math::mult_frac;
use crate::time::Time;

/// The settings of a brake.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Brake {
    /// The largest tolerated share of acted-on memory that is touched again soon, in basis points.
    pub max_refault_bp: u32,
    /// How long memory counts in that share after it was acted on, in ms. Memory is at risk for
    /// this time, and the cap is not cut twice within it.
    pub settle_ms: u64,
    /// The least that the cap by the refault rate allows a window, in bytes. It is also the size of
    /// a probe.
    pub floor: u64,
}

impl Default for Brake {
    /// 2 %, 10 s, 1 MiB.
    fn default() -> Self {
        Self { max_refault_bp: 200, settle_ms: 10_000, floor: 1 << 20 }
    }
}

/// Bytes that a scheme acted on and bytes of these that came back, since some start.
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
    /// The last measured refault rate, in basis points, until the next window uses it.
    pub(crate) refault_bp: Option<u64>,
    /// The last measured totals. `None`: the totals are not measured, and the rate alone brakes.
    pub(crate) totals: Option<Totals>,
    /// The most bytes that a window did lately. It decays by a sixteenth per window.
    peak: u64,
    /// When the cap was cut last.
    cut: Option<Time>,
    /// The cap that follows from the refault rate.
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
            // A cap far above what the scheme uses limits nothing, so it is dropped.
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

/// What may still come back over the run. Times are those of windows, because the scheme is charged
/// window by window.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
struct Debt {
    /// Refaulted bytes that are forgiven: those above the limit when the run first exceeded it, and
    /// those of the memory at risk then that came back later. `None`: the run has always been
    /// within the limit.
    forgiven: Option<u64>,
    /// Until when `forgiven` may grow.
    forgiving_until: Time,
    /// Bytes done in each of the last parts of the settling time. The current part comes first.
    recent: [u64; PARTS],
    /// When the current part began.
    part_from: Option<Time>,
    /// The last probe: its time, and the refaulted bytes until then.
    probe: Option<(Time, u64)>,
    /// The earliest time of the next probe.
    next_probe: Time,
    /// The wait after a probe that came back is two to this power of settling times.
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

    /// Takes in the bytes that a window did and the totals of the run.
    fn take_in(&mut self, brake: Brake, done: u64, totals: Totals, now: Time) {
        self.age(brake, now);
        self.recent[0] = self.recent[0].saturating_add(done);
        let excess = totals.refaulted.saturating_sub(allowed(brake, totals));
        match &mut self.forgiven {
            // An excess of less than a probe does not stop the scheme.
            None if excess > brake.floor => {
                self.forgiven = Some(excess);
                self.forgiving_until = now.plus_us(settle_us(brake));
            }
            Some(forgiven) if now < self.forgiving_until => *forgiven = excess.max(*forgiven),
            _ => {}
        }
    }

    /// Bytes that the next window may do. `None`: no limit.
    fn cap(&mut self, brake: Brake, least: u64, totals: Totals, now: Time) -> Option<u64> {
        let forgiven = self.forgiven?;
        let at_risk = self.recent.iter().fold(0, |sum: u64, part| sum.saturating_add(*part));
        let may_lose = allowed(brake, totals).saturating_add(forgiven);
        let left = may_lose.saturating_sub(totals.refaulted).saturating_sub(at_risk);
        let probe = brake.floor.max(least);
        if left >= probe {
            if self.probe.take().is_some() {
                // The memory that stayed away since outweighs what one probe can lose.
                self.doublings = self.doublings.saturating_sub(1);
            }
            return Some(left);
        }
        if at_risk > 0 || now < self.forgiving_until {
            return Some(0);
        }
        // Nothing is at risk any more, so the result of the last probe is known.
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

    /// Begins a new part of the settling time if `now` is past the current one.
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

/// Bytes that may come back of all that was done.
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
        /// Bytes that came back of the memory acted on before the run was first above the limit.
        unavoidable: u64,
    }

    impl Ran {
        /// Bytes that came back beyond `unavoidable`, and the limit for them.
        fn avoidable(&self) -> (u64, u64) {
            (self.totals.refaulted - self.unavoidable, allowed(BRAKE, self.totals))
        }
    }

    /// Acts on all resident memory of 1 GiB, as fast as the brake allows, for `windows` windows.
    fn run(phases: Phases, seed: u64, windows: u64, by_totals: bool) -> Ran {
        let mut rng = Rng::seeded(seed);
        let mut between = |(least, most): (u64, u64)| rng.range(least, most + 1);
        let (mut braked, mut ran) = (Braked::NEW, Ran::default());
        // Bytes taken and not yet touched again, by the window that took them.
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
    #[cfg_attr(miri, ignore = "hours of simulated time")]
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
    #[cfg_attr(miri, ignore = "hours of simulated time")]
    fn the_rate_of_the_last_seconds_alone_does_not_hold_it() {
        let broken = PHASES.into_iter().filter(|phases| {
            let (back, limit) = run(*phases, 1, 36_000, false).avoidable();
            back > 2 * limit + 16 * MIB
        });
        assert!(broken.count() >= 3, "then the debt would not be needed");
    }

    #[test]
    #[cfg_attr(miri, ignore = "hours of simulated time")]
    fn memory_that_stays_cold_is_not_held_back() {
        let cold = Phases { seconds: (5, 5), touched: (0, 1) };
        let ran = run(cold, 1, 600, true);
        assert!(ran.totals.done >= 1024 * MIB, "{ran:?}");
    }
}
