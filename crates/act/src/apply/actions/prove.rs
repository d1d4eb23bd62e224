//! Trials of benefit: whether a collapse scheme's huge pages pay for a target, see
//! [`benefit`](crate::benefit). Here a trial meets its process: facts are read, what does not pay
//! is split, and the verdict is told.
//!
//! Invariants: what a trial gives up is split before the next request is answered; without a view
//! of single pages, and while the actor is blocked, no trial goes on, so nothing beyond its sample
//! is collapsed. Absent: which counter tells of progress. A policy names a file.

use std::collections::{BTreeMap, BTreeSet};

use isotherm_core::{AddrRange, Time};
use isotherm_host::counter;
use isotherm_host::proc::Proc;
use isotherm_ops::set::PageView;
use isotherm_sys::clock::{now, process_cpu_ns_of, sleep_until};

use crate::apply::evidence::look::{ByTables, Look};
use crate::apply::pages::{Bits, GRANULE};
use crate::apply::target::TargetState;
use crate::apply::{ActEvent, Actor, Settings};
use crate::benefit::{Cost, Facts, Step, Trial, Verdict, walk_price_soon};

/// How many units are looked at per window and trial, for how long, in µs: arming them costs the
/// target up to 2 % of its time during a trial, and the monitor waits meanwhile.
const LOOKS: usize = 8;
const SPAN_US: u64 = 3_000;
/// How many trials go on per window; the others wait for their turn.
const TRIALS: usize = 4;

/// What is known of the worth of huge pages in one target.
#[derive(Debug, Default)]
pub(in crate::apply) struct Proving {
    /// By scheme.
    trials: BTreeMap<usize, Trial>,
    /// Every huge page that was made.
    made: BTreeSet<u64>,
}

impl Proving {
    /// A scheme under trial could collapse the granule at `start`. Returns whether it may now.
    pub(in crate::apply) fn may_collapse(
        &mut self,
        scheme: usize,
        pid: u32,
        start: u64,
        now: Time,
    ) -> bool {
        let trial = self.trials.entry(scheme);
        trial.or_insert_with(|| Trial::new(u64::from(pid) << 8 | scheme as u64)).offer(start, now)
    }

    /// A huge page was made, or pretended in a dry run.
    pub(in crate::apply) fn made(
        &mut self,
        scheme: usize,
        start: u64,
        cpu_ns: u64,
        now: Time,
        dry_run: bool,
    ) {
        if let Some(trial) = self.trials.get_mut(&scheme) {
            trial.made(start, cpu_ns, now);
        }
        if !dry_run {
            self.made.insert(start);
        }
    }
}

/// What splitting did, in bytes of huge pages.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Split {
    /// Small pages map these now, or nothing does any more.
    pub split_bytes: u64,
    /// These are still huge: the kernel did not split them.
    pub left_bytes: u64,
}

impl Actor {
    /// Whether huge pages are split again that schemes made, as soon as there are no schemes any
    /// more.
    pub const fn set_undo_huge(&mut self, undo_huge: bool) {
        self.undo_huge = undo_huge;
    }

    /// Splits all huge pages that schemes made in the targets. Memory keeps its content.
    pub fn split_made(&mut self) -> Split {
        let mut sum = Split::default();
        for state in self.targets.values_mut() {
            state.proving.trials.clear();
            let made = std::mem::take(&mut state.proving.made);
            let split = split(state, None, &made.into_iter().collect::<Vec<_>>());
            sum.split_bytes += split.split_bytes;
        }
        sum
    }

    /// Ends all trials, and splits what they collapsed without a decision.
    pub(in crate::apply) fn end_trials(&mut self) {
        for state in self.targets.values_mut() {
            for (_, mut trial) in std::mem::take(&mut state.proving.trials) {
                let made = trial.take_made();
                if !made.is_empty() {
                    split(state, None, &made);
                }
            }
        }
    }

    /// Goes on with the trials of all targets.
    pub(in crate::apply) fn prove(&mut self, view: &mut PageView<'_>) {
        if self.blocked.is_some() || !self.settings.iter().any(|settings| settings.prove) {
            return;
        }
        let now = now();
        let (mut told, mut left) = (Vec::new(), TRIALS);
        for state in self.targets.values_mut() {
            for (scheme, settings) in self.settings.iter().enumerate().filter(|(_, s)| s.prove) {
                let waits = state.proving.trials.get(&scheme);
                if !waits.is_some_and(|trial| trial.waits_for_facts(now)) || left == 0 {
                    continue;
                }
                left -= 1;
                match step(state, scheme, settings, view, now) {
                    Ok(Some((verdict, split))) => {
                        told.push((scheme, state.process.pid(), Ok((verdict, split))));
                    }
                    Ok(None) => {}
                    Err(why) => told.push((scheme, state.process.pid(), Err(why))),
                }
            }
        }
        for (scheme, pid, what) in told {
            match what {
                Ok((verdict, split)) => {
                    let scheme = self.name(scheme);
                    let (pays, text) = (verdict.pays, text(&verdict, split));
                    self.tell(ActEvent::Proved { at: now, scheme, pid, pays, text });
                }
                Err(why) => self.trouble(scheme, pid, &why),
            }
        }
    }
}

/// Goes on with one trial. Returns its verdict, and what was split, when it is over.
fn step(
    state: &mut TargetState,
    scheme: usize,
    settings: &Settings,
    view: &mut PageView<'_>,
    now: Time,
) -> Result<Option<(Verdict, Split)>, String> {
    let (id, pid) = (state.id, state.process.pid());
    let Some(mut trial) = state.proving.trials.remove(&scheme) else { return Ok(None) };
    if !trial.waits_for_facts(now) {
        state.proving.trials.insert(scheme, trial);
        return Ok(None);
    };
    let looks = match view {
        PageView::Tables(pages) => {
            let picks = trial.picks(LOOKS);
            looks(state, scheme, &mut ByTables(&mut **pages), &picks)
        }
        PageView::Marks(_) => Vec::new(),
    };
    // The end of a process is told of by its context.
    let Ok(cpu_ns) = process_cpu_ns_of(pid) else { return Ok(None) };
    let (work, trouble) = match settings.progress.as_deref().map(counter::read) {
        Some(Err(why)) => (None, Some(format!("its progress is not known: {why}"))),
        Some(Ok(work)) => (Some(work), None),
        None => (None, None),
    };
    let facts = Facts { now, cpu_ns, age_s: age_s(pid), work, looks: &looks };
    let step = trial.step(&facts);
    state.proving.trials.insert(scheme, trial);
    let (verdict, undo) = match step {
        Step::None => (None, Vec::new()),
        Step::Undo(undo) => (None, undo),
        Step::Over(verdict, undo) => (Some(verdict), undo),
    };
    let split = if settings.dry_run {
        undo.iter().for_each(|start| {
            state.pretended.remove(start);
        });
        Split::default()
    } else if let PageView::Tables(pages) = view {
        split(state, Some((&mut ByTables(&mut **pages), id)), &undo)
    } else {
        split(state, None, &undo)
    };
    match (verdict, trouble) {
        (None, Some(why)) => Err(why),
        (verdict, _) => Ok(verdict.map(|verdict| (verdict, split))),
    }
}

/// Makes these granules old, and looks at them after a short time. Empty while the price of a walk
/// is not known yet.
fn looks(
    state: &mut TargetState,
    scheme: usize,
    look: &mut dyn Look,
    picks: &BTreeSet<u64>,
) -> Vec<Cost> {
    let Some(price) = walk_price_soon() else { return Vec::new() };
    let mut armed = Vec::new();
    for &start in picks {
        let granule = AddrRange::new(start, start + GRANULE);
        let Some((_, seen)) = state.see(look, granule).pop_first() else { continue };
        if seen.huge {
            continue;
        }
        state.make_old(look, scheme, &[(start, seen)], &[granule], &mut || false);
        let since = now();
        // What is young already was touched just now, or cannot be made old.
        let Some((_, seen)) = state.see(look, granule).pop_first() else { continue };
        armed.push((granule, seen.present.minus(seen.young), since));
    }
    if armed.is_empty() {
        return Vec::new();
    }
    sleep_until(now().plus_us(SPAN_US));
    let cost = |(granule, old, since): (AddrRange, Bits, Time)| {
        let (_, seen) = state.see(look, granule).pop_first()?;
        (!seen.huge).then(|| Cost::of(old, seen.young, now().since(since), price))
    };
    armed.into_iter().filter_map(cost).collect()
}

/// Splits the huge pages at these addresses, and looks afterwards.
fn split(
    state: &mut TargetState,
    look: Option<(&mut dyn Look, isotherm_core::TargetId)>,
    starts: &[u64],
) -> Split {
    if starts.is_empty() {
        return Split::default();
    }
    let ranges: Vec<AddrRange> =
        starts.iter().map(|start| AddrRange::new(*start, start + GRANULE)).collect();
    state.process.split_huge(&ranges, &mut || false);
    let mut left = BTreeSet::new();
    if let Some((look, _)) = look {
        for range in &ranges {
            left.extend(state.see(look, *range).iter().filter(|(_, s)| s.huge).map(|(at, _)| *at));
        }
    }
    starts.iter().filter(|start| !left.contains(start)).for_each(|start| {
        state.proving.made.remove(start);
    });
    let left_bytes = left.len() as u64 * GRANULE;
    Split { split_bytes: starts.len() as u64 * GRANULE - left_bytes, left_bytes }
}

/// For how long a process has run, in s; 0 if it has ended.
#[expect(clippy::cast_precision_loss, reason = "seconds")]
fn age_s(pid: u32) -> f64 {
    let (proc, mut text) = (Proc::default(), Vec::new());
    let Some(now) = proc.uptime_cs(&mut text) else { return 0.0 };
    let Ok(stat) = proc.stat(pid, &mut text) else { return 0.0 };
    let per_s = rustix::param::clock_ticks_per_second().max(1) as f64;
    (now as f64 / 100.0 - stat.starttime as f64 / per_s).max(0.0)
}

/// A verdict for people.
fn text(verdict: &Verdict, split: Split) -> String {
    let by = if verdict.by_work { "by its counter of progress" } else { "by how it touches pages" };
    let gain = verdict.gain.map_or_else(
        || "nothing tells of the gain (`progress` would)".to_owned(),
        |gain| {
            let percent = |share: f64| 100.0 * share.clamp(-9.99, 9.99);
            let [low, mean, high] = [gain.low, gain.mean, gain.high].map(percent);
            format!("they save {mean:.1} % of its CPU time ({low:.1} to {high:.1} %, {by})")
        },
    );
    let units = verdict.units;
    let head = match (verdict.pays, verdict.too_dear) {
        (Some(true), _) => "huge pages pay",
        (_, true) => "huge pages would not earn what collapsing costs",
        (Some(false), _) => "huge pages do not pay",
        (None, _) => "whether huge pages pay is not known; a sample keeps them",
    };
    let mut text = format!("{head}: {gain}; {units} units of 2 MiB");
    let mib = |bytes: u64| bytes >> 20;
    if split.split_bytes > 0 {
        text += &format!("; {} MiB of the sample have small pages again", mib(split.split_bytes));
    }
    if split.left_bytes > 0 {
        text += &format!("; the kernel did not split {} MiB", mib(split.left_bytes));
    }
    text
}
