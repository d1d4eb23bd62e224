//! One thread's accesses during an episode: a stretch of one phase without forks and mapping
//! changes.
//!
//! Patterns with a rate follow an absolute schedule: at every tick they make all accesses that are
//! due since the begin of the episode. So a late tick is made up for, and errors do not add up.
//! Patterns without a rate share the remaining time by their weights. They take turns instead of
//! being drawn at random, so their shares are those of masim, without its bursts.

use std::sync::mpsc::Sender;

use isotherm::raw::core::Time;
use isotherm::raw::sim::config::Mode;
use isotherm::raw::sim::pattern::{Batch, Plan, Source};
use isotherm::raw::sys::workload::{Arena, Sweep, Touch};
use isotherm::raw::sys::{clock, signals};

use super::slots::{Counts, Report};

/// Time between two ticks of the patterns with a rate.
const TICK_NS: u64 = 1_000_000;
/// Accesses between two looks at the clock.
const TURN: u32 = 2048;
/// How much of the schedule a thread makes up for after it was kept from running. It drops the
/// rest.
const MAX_BACKLOG_S: f64 = 0.05;

/// What the threads of an episode share.
#[derive(Debug)]
pub(super) struct Episode<'a> {
    /// The phase's patterns that this process runs.
    pub(super) plans: &'a [Plan],
    /// Memory by region.
    pub(super) arenas: &'a [&'a Arena],
    /// Begin and end.
    pub(super) from: Time,
    pub(super) until: Time,
    /// Begin of the phase.
    pub(super) phase: Time,
    /// Begin of slot 0, and length of a slot.
    pub(super) zero: Time,
    pub(super) slot_ns: u64,
    pub(super) threads: u32,
    pub(super) seed: u64,
}

/// One pattern in one thread.
struct Lane<'a> {
    plan: &'a Plan,
    source: Source,
    done: u64,
}

impl Lane<'_> {
    fn touch(&mut self, episode: &Episode<'_>, now: Time, n: u32) {
        let touch = match self.plan.mode {
            Mode::ReadOnly => Touch::Read,
            Mode::WriteOnly => Touch::Write,
            Mode::ReadWrite => Touch::ReadWrite,
        };
        let arena = episode.arenas[self.plan.region];
        match self.source.batch(self.plan, now.since(episode.phase), n) {
            Batch::Lines(lines) => arena.touch_lines(lines, touch),
            Batch::Sweep { start, touches, stride, first, n } => {
                arena.touch_sweep(Sweep { start, touches, stride, first, n }, touch);
            }
        }
        self.done += u64::from(n);
    }

    /// Accesses of this thread that are due at `now`.
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "counts far below 2^52; `as` saturates"
    )]
    fn owed(&mut self, rate: f64, seconds: f64) -> u32 {
        let due = (rate * seconds) as u64;
        let most = ((rate * MAX_BACKLOG_S) as u64).max(1);
        self.done = self.done.max(due.saturating_sub(most));
        u32::try_from(due - self.done.min(due)).unwrap_or(u32::MAX).min(8 * TURN)
    }
}

/// Runs thread `thread` of `episode`, reporting each slot as it ends.
pub(super) fn run(episode: &Episode<'_>, thread: u32, reports: &Sender<Report>) {
    let share = f64::from(thread) / f64::from(episode.threads);
    let seed = |plan: &Plan| {
        let salt = (u64::from(plan.id) << 32) | u64::from(thread);
        episode.seed.wrapping_add(salt.wrapping_mul(0x9e37_79b9_7f4a_7c15))
    };
    let lane = |plan| Lane { plan, source: Source::new(plan, seed(plan), share), done: 0 };
    let lanes = episode.plans.iter().map(lane);
    let (mut rated, mut free): (Vec<_>, Vec<_>) = lanes.partition(|l| l.plan.rate.is_some());
    free.retain(|l| l.plan.weight > 0);
    let mut slot = episode.from.since(episode.zero) / episode.slot_ns;
    loop {
        let now = clock::now();
        let stop = now >= episode.until || signals::stop_requested().is_some();
        let current = now.min(episode.until).since(episode.zero) / episode.slot_ns;
        if stop || current != slot {
            let counts = take_counts(rated.iter_mut().chain(&mut free));
            let thread = thread as usize;
            // The receiver is dropped only when the process gives up.
            reports.send(Report { thread, slot, counts, last: stop }).ok();
            slot = current;
        }
        if stop {
            return;
        }
        turn(episode, &mut rated, &mut free, now);
    }
}

fn turn(episode: &Episode<'_>, rated: &mut [Lane<'_>], free: &mut [Lane<'_>], now: Time) {
    #[expect(clippy::cast_precision_loss, reason = "nanoseconds of a run")]
    let seconds = now.since(episode.from) as f64 / 1e9;
    let mut busy = false;
    for lane in rated {
        let rate = lane.plan.rate.unwrap_or(0.0) / f64::from(episode.threads);
        let n = lane.owed(rate, seconds);
        if n > 0 {
            lane.touch(episode, now, n);
            busy |= n >= 8 * TURN;
        }
    }
    // The pattern that is furthest behind its share is next.
    let behind = |l: &&mut Lane<'_>| l.done / u64::from(l.plan.weight);
    if let Some(lane) = free.iter_mut().min_by_key(behind) {
        lane.touch(episode, now, TURN);
    } else if !busy {
        let tick = Time((now.as_ns() / TICK_NS + 1) * TICK_NS);
        clock::sleep_until(tick.min(episode.until));
    }
}

fn take_counts<'l, 'p: 'l>(lanes: impl Iterator<Item = &'l mut Lane<'p>>) -> Counts {
    let of_lane = |lane: &mut Lane<'_>| {
        let id = lane.plan.id;
        let counts = lane.source.take_counts();
        counts.into_iter().map(move |(cell, n)| (id, cell, u64::from(n)))
    };
    lanes.flat_map(of_lane).collect()
}
