//! A phase under way: from the change of values on, until it has settled and was measured.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use crate::gauge::{Gauge, Phase, Source, memory};
use crate::policy::{OnlineTuning, Policy, confirm_us, min_age_us};
use crate::run::Refused;
use crate::tune::{Brake, Seen};

/// After a change, before anything counts; and how often a step is checked.
const SETTLE: Duration = Duration::from_secs(1);
/// How often memory is read, and how many times per phase at most.
const SAMPLE: Duration = Duration::from_millis(200);
const SAMPLES: u32 = 20;
/// A phase in which more of the memory than this came or went with processes tells nothing.
const DISTURBED: f64 = 0.1;

/// What became of a phase by now.
#[derive(Debug)]
pub(super) enum Turn {
    /// It is not over.
    Goes,
    /// It was measured.
    Done(Seen),
    /// It was stopped, since the program was far too slow.
    Broken(Seen),
    /// Processes came or went, so nothing can be told.
    Disturbed,
}

/// A phase under way.
#[derive(Debug)]
pub(super) struct Running {
    /// Whether it is that of a step.
    pub(super) is_step: bool,
    source: Source,
    time: Duration,
    pids: BTreeSet<u32>,
    /// Resident and in swap at the beginning.
    before: [f64; 2],
    gauge: Gauge,
    begun: Instant,
    settled_at: Option<Instant>,
    sampled: Instant,
    checked: Instant,
}

impl Running {
    /// Begins right before values are changed that take so long to settle.
    pub(super) fn begin(
        pids: &BTreeSet<u32>,
        settings: &OnlineTuning,
        settles: Duration,
        is_step: bool,
    ) -> Result<Self, Refused> {
        let now = Instant::now();
        Ok(Self {
            is_step,
            source: settings.source.clone(),
            time: Duration::from_micros(settings.phase_us),
            pids: pids.clone(),
            before: memory(pids),
            gauge: Gauge::begin(&settings.source, pids)?,
            begun: now,
            settled_at: (!settles.is_zero()).then(|| now + settles),
            sampled: now,
            checked: now,
        })
    }

    /// Goes on. With a phase of present values and a brake, it stops what is far too slow.
    pub(super) fn turn(
        &mut self,
        pids: &BTreeSet<u32>,
        brake: Option<(Phase, Brake)>,
    ) -> Result<Turn, Refused> {
        let now = Instant::now();
        if self.settled_at.is_some_and(|at| now >= at) {
            if self.is_disturbed(pids) {
                return Ok(Turn::Disturbed);
            }
            self.settled_at = None;
            self.gauge = Gauge::begin(&self.source, &self.pids)?;
            self.begun = now;
        }
        if now - self.sampled >= SAMPLE.max(self.time / SAMPLES) {
            self.sampled = now;
            self.gauge.sample(&self.pids)?;
        }
        if let Some((off, brake)) = brake
            && now - self.checked >= SETTLE
        {
            self.checked = now;
            let so_far = self.gauge.read(&self.pids)?;
            let passed = (now - self.begun).as_secs_f64() / self.time.as_secs_f64();
            if brake.stops(so_far.slowdown(&off, &self.source), passed) {
                return Ok(Turn::Broken(self.seen(so_far)));
            }
        }
        if self.settled_at.is_some() || now - self.begun < self.time {
            return Ok(Turn::Goes);
        }
        if self.is_disturbed(pids) {
            return Ok(Turn::Disturbed);
        }
        let phase = self.gauge.read(&self.pids)?;
        Ok(Turn::Done(self.seen(phase)))
    }

    fn seen(&self, phase: Phase) -> Seen {
        let out = share_out(memory(&self.pids));
        Seen { phase, out, gain: out - share_out(self.before) }
    }

    /// Whether much of the memory has come or gone with processes.
    fn is_disturbed(&self, pids: &BTreeSet<u32>) -> bool {
        let sum = |[resident, swapped]: [f64; 2]| resident + swapped;
        let new = pids.difference(&self.pids).copied().collect();
        let kept = pids.intersection(&self.pids).copied().collect();
        let (new, kept) = (sum(memory(&new)), sum(memory(&kept)));
        let went = self.pids.iter().any(|pid| !pids.contains(pid));
        new > DISTURBED * (new + kept) || (went && kept < (1.0 - DISTURBED) * sum(self.before))
    }
}

/// The share of memory that is in swap; 0 if there is none.
fn share_out([resident, swapped]: [f64; 2]) -> f64 {
    swapped / (resident + swapped).max(1.0)
}

/// How long it takes until memory is where the values of a policy have it: what is idle for long
/// enough is confirmed and leaves, and what is used more often than that has come back. What a
/// quota holds back is not waited for.
pub(super) fn settling(policy: &Policy) -> Duration {
    let of = policy.contexts.iter().flat_map(|context| {
        let schemes = context.schemes.iter();
        schemes.map(|s| Duration::from_micros(min_age_us(context, s).saturating_add(confirm_us(s))))
    });
    of.max().unwrap_or_default() + SETTLE
}
