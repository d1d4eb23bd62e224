//! Makes readings of what a runner tells.
//!
//! The counts of a context that has ended stay, of the last 100: whoever starts policies under ever
//! new names must not make ever more of them. A context of the same name that starts later begins
//! at zero, which readers of counters take for a restart.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use isotherm_act::apply::ActEvent;
use isotherm_agent::groups::Group;
use isotherm_agent::run::{Event, GoalStanding, Message, Reason, Standing, Summary};
use isotherm_core::Time;
use isotherm_host::containers::{Names, place_of};
use isotherm_ops::targets::cgroup::unit_of;

use crate::reading::{
    Build, CgroupReading, ContextReading, FleetReading, GoalReading, MOST_CGROUPS, OwnReading,
    Reading, SchemeReading, SpanReading, TierReading,
};

/// Bounds of the idle times that are told, in seconds. What is idle for longer is in the last.
pub(crate) const AGES_S: [u64; 8] = [1, 10, 60, 300, 900, 3600, 14_400, 86_400];
/// Names of pods and containers are read again after this time, in ns.
const NAMES_EVERY_NS: u64 = 10_000_000_000;
/// So many contexts that have ended are told of.
const MOST_ENDED: usize = 100;
/// Errors are counted by these kinds.
const KINDS: [&str; 5] = ["action", "blocked", "context", "left_out", "lost_events"];

/// What a context has told.
#[derive(Debug, Default)]
struct Known {
    reading: ContextReading,
    ended_at: Option<Time>,
    groups: Vec<Group>,
    spans_us: Vec<u64>,
}

/// Takes in the messages of a runner, and makes readings.
#[derive(Debug)]
pub struct Gather {
    build: Build,
    contexts: BTreeMap<String, Known>,
    errors: BTreeMap<&'static str, u64>,
    /// `/` on a machine.
    root: PathBuf,
    names: Names,
    names_at: Option<Time>,
    /// Policies that are kept from acting, and by what.
    held: BTreeMap<String, &'static str>,
    fleet: Option<FleetReading>,
    /// CPU time and when it was asked for, some seconds ago.
    cpu: Option<(Time, Duration)>,
}

impl Gather {
    /// A gatherer that has been told nothing. `root` is where names of pods and containers are read
    /// below: `/` on a machine.
    #[must_use]
    pub fn new(build: Build, root: impl Into<PathBuf>) -> Self {
        let errors = KINDS.iter().map(|kind| (*kind, 0)).collect();
        Self {
            build,
            contexts: BTreeMap::new(),
            errors,
            root: root.into(),
            names: Names::default(),
            names_at: None,
            held: BTreeMap::new(),
            fleet: None,
            cpu: None,
        }
    }

    /// Notes what keeps a policy from acting; none: nothing does.
    pub fn hold(&mut self, policy: &str, by: Option<&'static str>) {
        match by {
            Some(by) => drop(self.held.insert(policy.to_owned(), by)),
            None => drop(self.held.remove(policy)),
        }
    }

    /// Notes how the writing of fleet data goes.
    pub fn fleet(&mut self, fleet: FleetReading) {
        self.fleet = Some(fleet);
    }

    /// Takes in a message of the context that readings call `name`. `unix` is the time since 1970
    /// at which the monotonic clock was at zero. Returns whether a reading would be another one.
    pub fn hear(&mut self, name: &str, told: &Message, unix: Duration) -> bool {
        let context = self.contexts.entry(name.to_owned()).or_default();
        name.clone_into(&mut context.reading.name);
        match &told.event {
            Event::Ready(ready) => {
                ready.ops.clone_into(&mut context.reading.backend);
                context.reading.is_up = true;
                context.ended_at = None;
            }
            Event::Summary(summary) => {
                context.summary(summary, unix);
                return true;
            }
            Event::LeftOut { .. } => self.count("left_out", 1),
            Event::Lost { events } => self.count("lost_events", *events),
            Event::Act(event) => self.acted(event),
            Event::Ended(ended) => {
                context.reading.is_up = false;
                context.ended_at = Some(told.at);
                context.groups.clear();
                (context.reading.targets, context.reading.regions) = (0, 0);
                (context.reading.waiting, context.reading.longest_wait_seconds) = (0, 0.0);
                if matches!(ended.reason, Reason::Failed { .. }) {
                    self.count("context", 1);
                }
                self.forget();
                return true;
            }
            _ => {}
        }
        false
    }

    /// Forgets the contexts that ended first, if there are too many that have.
    fn forget(&mut self) {
        let ended = |(name, known): (&String, &Known)| Some((known.ended_at?, name.clone()));
        let mut ended: Vec<(Time, String)> = self.contexts.iter().filter_map(ended).collect();
        ended.sort_unstable();
        let too_many = ended.len().saturating_sub(MOST_ENDED);
        for (_, name) in ended.into_iter().take(too_many) {
            self.contexts.remove(&name);
        }
    }

    fn acted(&mut self, event: &ActEvent) {
        match event {
            ActEvent::Trouble { .. } => self.count("action", 1),
            ActEvent::Blocked { .. } => self.count("blocked", 1),
            ActEvent::Lost { events, .. } => self.count("lost_events", *events),
            ActEvent::Acted { .. } | ActEvent::Proved { .. } => {}
        }
    }

    fn count(&mut self, kind: &'static str, by: u64) {
        let count = self.errors.entry(kind).or_default();
        *count = count.saturating_add(by);
    }

    /// What is known now. `cpu` is the CPU time of this process, `memory_bytes` its memory.
    pub fn reading(&mut self, now: Time, cpu: Duration, memory_bytes: u64) -> Reading {
        let has_groups = self.contexts.values().any(|known| !known.groups.is_empty());
        if has_groups && self.names_at.is_none_or(|at| now.since(at) >= NAMES_EVERY_NS) {
            self.names_at = Some(now);
            self.names = Names::read(&self.root);
        }
        let own = OwnReading {
            cpu_seconds: cpu.as_secs_f64(),
            cpu_ratio: self.cpu_ratio(now, cpu),
            memory_bytes,
        };
        let cgroups = self.contexts.iter().flat_map(|(name, known)| {
            known.groups.iter().map(|group| self.cgroup(name, group, &known.spans_us))
        });
        let mut reading = Reading {
            build: self.build.clone(),
            cgroups: cgroups.collect(),
            contexts: self.contexts.values().map(|known| known.reading.clone()).collect(),
            own,
            errors: self.errors.clone(),
            held: self.held.clone(),
            fleet: self.fleet,
        };
        reading.bound(MOST_CGROUPS);
        reading
    }

    /// The share of one CPU over the last 10 seconds or so.
    fn cpu_ratio(&mut self, now: Time, cpu: Duration) -> f64 {
        let (at, before) = *self.cpu.get_or_insert((now, cpu));
        let wall = Duration::from_nanos(now.since(at));
        if wall >= Duration::from_secs(10) {
            self.cpu = Some((now, cpu));
        }
        if wall.is_zero() {
            return 0.0;
        }
        cpu.saturating_sub(before).as_secs_f64() / wall.as_secs_f64()
    }

    fn cgroup(&self, context: &str, group: &Group, spans_us: &[u64]) -> CgroupReading {
        let place = place_of(&group.cgroup).unwrap_or_default();
        let pod = place.pod.map(|uid| match self.names.of_pod(&uid) {
            Some(name) => name.to_string(),
            None => uid,
        });
        let container = place.container.map(|(_, id)| match self.names.of_container(&id) {
            Some(name) => name.to_owned(),
            None => id.chars().take(12).collect(),
        });
        let tiers = group.tiers;
        CgroupReading {
            context: context.to_owned(),
            cgroup: group.cgroup.clone(),
            unit: unit_of(&group.cgroup).unwrap_or_default().to_owned(),
            pod: pod.unwrap_or_default(),
            container: container.unwrap_or_default(),
            processes: group.processes as u64,
            waiting: group.waiting as u64,
            tiers: TierReading {
                hot: tiers.hot,
                warm: tiers.warm,
                cold: tiers.cold,
                unresolved: tiers.unresolved,
            },
            spans: spans(group, spans_us),
            idle: idle(&group.idle),
            age_seconds: seconds(group.age_ns),
            look_age_seconds: seconds(group.look_age_ns),
        }
    }
}

impl Known {
    fn summary(&mut self, summary: &Summary, unix: Duration) {
        let effort = &summary.effort;
        let since_1970 = |end: Time| (unix + Duration::from_nanos(end.as_ns())).as_secs_f64();
        self.reading = ContextReading {
            name: std::mem::take(&mut self.reading.name),
            backend: std::mem::take(&mut self.reading.backend),
            is_up: true,
            targets: summary.nr_targets as u64,
            waiting: summary.nr_waiting as u64,
            longest_wait_seconds: seconds(summary.longest_wait_ns),
            regions: summary.nr_regions as u64,
            working_set_bytes: summary.working_set,
            bandwidth: summary.bandwidth,
            windows: effort.late.windows,
            late_windows: effort.late.late,
            missing_seconds: seconds(effort.late.missing_ns),
            samples: effort.checks,
            durations: effort.durations,
            clears: effort.clears,
            target_seconds: effort.target_ns.map(seconds),
            budget_ratio: f64::from(effort.budget_bp) / 10_000.0,
            last_snapshot_seconds: effort.last_end.map(since_1970),
            is_blocked: summary.blocked.is_some(),
            schemes: summary.schemes.iter().map(scheme).collect(),
        };
        self.groups.clone_from(&summary.groups);
        self.spans_us = summary.spans_us.to_vec();
    }
}

fn scheme(standing: &Standing) -> SchemeReading {
    let Standing { account: a, .. } = standing;
    SchemeReading {
        name: a.name.clone(),
        action: a.action.to_owned(),
        is_active: standing.active,
        is_dry_run: a.dry_run,
        tried_bytes: a.tried_bytes,
        asked_bytes: a.asked_bytes,
        done_bytes: a.done_bytes.saturating_sub(a.pretended_bytes),
        refaulted_bytes: a.refaulted_bytes,
        refused_bytes: a.refused_bytes,
        applied_bytes: a.applied_bytes,
        quota_exceeded: a.quota_exceeds,
        quota_bytes: standing.esz_bytes,
        charged_bytes: standing.charged_bytes,
        action_seconds: seconds(a.action_ns),
        goals: standing.goals.iter().filter(|goal| goal.target > 0).map(goal).collect(),
    }
}

fn goal(goal: &GoalStanding) -> GoalReading {
    GoalReading { metric: goal.metric.to_owned(), ratio: ratio(goal.current, goal.target) }
}

/// The spans of a second and more. Shorter ones depend on the sample interval.
fn spans(group: &Group, spans_us: &[u64]) -> Vec<SpanReading> {
    let Some(touched) = group.touched else { return Vec::new() };
    let spans = spans_us.iter().zip(touched.spans).filter(|(us, _)| **us >= 1_000_000);
    let reading = |(us, within): (&u64, Option<isotherm_core::TouchedBytes>)| {
        let within = within?;
        Some(SpanReading {
            seconds: us / 1_000_000,
            bytes: within.bytes,
            lo: within.lo,
            hi: within.hi,
            coverage: ratio(within.measured, touched.watched).min(1.0),
        })
    };
    let mut spans: Vec<SpanReading> = spans.filter_map(reading).collect();
    spans.dedup_by_key(|span| span.seconds);
    spans
}

/// Bytes idle for at most so many seconds, for each of [`AGES_S`].
fn idle(by_ms: &[(u64, u64)]) -> Vec<(u64, u64)> {
    let upto = |s: u64| {
        let within = by_ms.iter().filter(|(ms, _)| *ms <= s.saturating_mul(1000));
        (s, within.map(|(_, bytes)| bytes).fold(0, |sum: u64, bytes| sum.saturating_add(*bytes)))
    };
    AGES_S.iter().copied().chain([u64::MAX]).map(upto).collect()
}

#[expect(clippy::cast_precision_loss, reason = "metrics are floating point numbers")]
fn seconds(ns: u64) -> f64 {
    ns as f64 / 1e9
}

#[expect(clippy::cast_precision_loss, reason = "metrics are floating point numbers")]
fn ratio(part: u64, whole: u64) -> f64 {
    part as f64 / whole.max(1) as f64
}

#[cfg(test)]
mod tests {
    use isotherm_agent::run::Ended;

    use super::*;

    #[test]
    fn contexts_that_ended_long_ago_are_forgotten_and_those_that_run_are_not() {
        let mut gather = Gather::new(Build::default(), "/nonexistent");
        let mut tell = |name: &str, at: u64, event: Event| {
            let told = Message { context: name.to_owned(), at: Time(at), event };
            gather.hear(name, &told, Duration::ZERO);
        };
        let ended = || {
            Event::Ended(Ended {
                reason: Reason::Stopped,
                accounts: Vec::new(),
                child: None,
                late: None,
                missing: None,
            })
        };
        tell("runs", 1, Event::Lost { events: 1 });
        for nr in 0..300 {
            tell(&format!("{nr}"), 2 + nr, ended());
        }
        let names: Vec<String> = gather
            .reading(Time(9), Duration::ZERO, 0)
            .contexts
            .into_iter()
            .map(|c| c.name)
            .collect();
        assert_eq!(names.len(), MOST_ENDED + 1);
        assert!(["runs", "200", "299"].iter().all(|name| names.iter().any(|n| n == name)));
    }
}
