//! What was known at one moment, as plain values.

use std::collections::BTreeMap;

use isotherm_agent::monitor::Durations;

/// So many cgroups are told of one by one: those with the most memory. The rest is one more, called
/// `(others)`.
pub const MOST_CGROUPS: usize = 1000;
/// The name of all other cgroups together.
pub(crate) const OTHERS: &str = "(others)";

/// What was known at one moment.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Reading {
    /// What runs.
    pub build: Build,
    /// The contexts, by name.
    pub contexts: Vec<ContextReading>,
    /// What cgroups use, by context and path.
    pub cgroups: Vec<CgroupReading>,
    /// What Isotherm itself uses.
    pub own: OwnReading,
    /// How many errors of each kind there were.
    pub errors: BTreeMap<&'static str, u64>,
    /// Policies that are kept from acting, and by what.
    pub held: BTreeMap<String, &'static str>,
    /// How the writing of fleet data goes; none if none is wanted.
    pub fleet: Option<FleetReading>,
}

/// How the writing of fleet data goes.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct FleetReading {
    /// Whether all of the last interval was written.
    pub is_up: bool,
    /// When an interval was last written as a whole, in seconds since 1970; none if none was.
    pub written_seconds: Option<f64>,
    /// Bytes of the parts that are kept.
    pub kept_bytes: u64,
    /// Rows written.
    pub rows: u64,
    /// Rows lost.
    pub lost_rows: u64,
    /// Intervals of which something was lost.
    pub failures: u64,
    /// How many of these an internal error ended.
    pub panics: u64,
}

/// What runs.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Build {
    /// Its version.
    pub version: String,
    /// The commit that it was built from.
    pub commit: String,
}

/// What Isotherm itself uses.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct OwnReading {
    /// CPU time since its start, in seconds.
    pub cpu_seconds: f64,
    /// Share of one CPU over the last seconds, from 0.
    pub cpu_ratio: f64,
    /// Resident memory, in bytes.
    pub memory_bytes: u64,
}

/// A context.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct ContextReading {
    /// Its name.
    pub name: String,
    /// Its operations set.
    pub backend: String,
    /// Whether it runs. One that has ended keeps its counts.
    pub is_up: bool,
    /// Targets now.
    pub targets: u64,
    /// Targets that the operations set has no place for now.
    pub waiting: u64,
    /// For how long the first of them was not watched.
    pub longest_wait_seconds: f64,
    /// Regions now.
    pub regions: u64,
    /// Bytes that were touched within a second, or by regions: accessed in the last window.
    pub working_set_bytes: u64,
    /// Estimated memory bandwidth, in bytes per second.
    pub bandwidth: u64,
    /// Windows so far.
    pub windows: u64,
    /// Windows of these that came late.
    pub late_windows: u64,
    /// Time within late windows in which nobody looked, in seconds.
    pub missing_seconds: f64,
    /// Looks at pages.
    pub samples: u64,
    /// How long samples took.
    pub durations: Durations,
    /// Accessed bits cleared.
    pub clears: u64,
    /// CPU time that the targets paid for being watched, in seconds; none if that is not known.
    pub target_seconds: Option<f64>,
    /// The share of one CPU that monitoring may take.
    pub budget_ratio: f64,
    /// When the last window ended, in seconds since 1970; none if there was none yet.
    pub last_snapshot_seconds: Option<f64>,
    /// Whether actions are blocked.
    pub is_blocked: bool,
    /// Its schemes.
    pub schemes: Vec<SchemeReading>,
}

/// A scheme of a context. All bytes are totals since the start, unless they say otherwise.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct SchemeReading {
    /// Its name.
    pub name: String,
    /// Its action.
    pub action: String,
    /// Whether the watermarks let it work.
    pub is_active: bool,
    /// Whether it only decides and counts.
    pub is_dry_run: bool,
    /// Regions that it was tried on.
    pub tried_bytes: u64,
    /// What the kernel was asked for.
    pub asked_bytes: u64,
    /// What a look afterwards showed to be done.
    pub done_bytes: u64,
    /// What of that was touched again soon.
    pub refaulted_bytes: u64,
    /// What the kernel refused.
    pub refused_bytes: u64,
    /// What DAMON calls applied.
    pub applied_bytes: u64,
    /// Windows in which the quota was used up.
    pub quota_exceeded: u64,
    /// What may be charged in the present quota window; none without a limit.
    pub quota_bytes: Option<u64>,
    /// What was charged in it.
    pub charged_bytes: u64,
    /// Time that acting took, in seconds.
    pub action_seconds: f64,
    /// Its goals.
    pub goals: Vec<GoalReading>,
}

/// A goal of a scheme.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct GoalReading {
    /// What is measured.
    pub metric: String,
    /// The value divided by the target: 1 is reached.
    pub ratio: f64,
}

/// What the targets of a context in one cgroup use. Memory that they share counts once.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct CgroupReading {
    /// The context.
    pub context: String,
    /// Its path from the root of its hierarchy.
    pub cgroup: String,
    /// The systemd unit; empty if there is none.
    pub unit: String,
    /// The pod, by `NAMESPACE/NAME` or uid; empty if there is none.
    pub pod: String,
    /// The container, by name or the first 12 digits of its id; empty if there is none.
    pub container: String,
    /// How many targets are in it that are watched.
    pub processes: u64,
    /// How many more are in it that have no place now.
    pub waiting: u64,
    /// Its memory.
    pub tiers: TierReading,
    /// The working set, by span.
    pub spans: Vec<SpanReading>,
    /// Bytes that were idle for at most so many seconds, in order of time, and each with all before
    /// it. Memory in use is not in it.
    pub idle: Vec<(u64, u64)>,
    /// How old the knowledge is who is in the cgroup, in seconds.
    pub age_seconds: f64,
    /// How long ago its target that waits the longest was looked at, in seconds.
    pub look_age_seconds: f64,
}

/// Memory by temperature, in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct TierReading {
    /// Touched within a second.
    pub hot: u64,
    /// Touched within a minute.
    pub warm: u64,
    /// Not touched for longer.
    pub cold: u64,
    /// Nothing is known of it.
    pub unresolved: u64,
}

/// The working set over a span.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct SpanReading {
    /// How long the span is, in seconds.
    pub seconds: u64,
    /// How much was touched, in bytes.
    pub bytes: u64,
    /// Lower and upper end of the 90 % interval, in bytes.
    pub lo: u64,
    /// The upper end.
    pub hi: u64,
    /// The share of the memory for which the span was measured.
    pub coverage: f64,
}

impl Reading {
    /// Whether the numbers mean something: every context that runs has finished a window.
    #[must_use]
    pub fn is_ready(&self) -> bool {
        let mut up = self.contexts.iter().filter(|c| c.is_up).peekable();
        up.peek().is_some() && up.all(|c| c.windows > 0 || c.targets == 0)
    }

    /// Leaves the cgroups with the most memory, and makes one of the rest of each context.
    pub(crate) fn bound(&mut self, most: usize) {
        if self.cgroups.len() <= most {
            return;
        }
        let size = |c: &CgroupReading| {
            let TierReading { hot, warm, cold, unresolved } = c.tiers;
            hot.saturating_add(warm).saturating_add(cold).saturating_add(unresolved)
        };
        self.cgroups.sort_by(|a, b| size(b).cmp(&size(a)).then_with(|| a.cgroup.cmp(&b.cgroup)));
        let mut rest: BTreeMap<String, CgroupReading> = BTreeMap::new();
        for small in self.cgroups.drain(most..) {
            let new = || CgroupReading {
                context: small.context.clone(),
                cgroup: OTHERS.to_owned(),
                ..CgroupReading::default()
            };
            rest.entry(small.context.clone()).or_insert_with(new).join(&small);
        }
        self.cgroups.extend(rest.into_values());
    }
}

impl CgroupReading {
    /// Adds another cgroup. Memory that both share counts twice.
    fn join(&mut self, other: &Self) {
        self.processes += other.processes;
        self.waiting += other.waiting;
        let (sum, add) = (&mut self.tiers, other.tiers);
        sum.hot = sum.hot.saturating_add(add.hot);
        sum.warm = sum.warm.saturating_add(add.warm);
        sum.cold = sum.cold.saturating_add(add.cold);
        sum.unresolved = sum.unresolved.saturating_add(add.unresolved);
        for (at, (seconds, bytes)) in other.idle.iter().enumerate() {
            match self.idle.get_mut(at) {
                Some((_, sum)) => *sum = sum.saturating_add(*bytes),
                None => self.idle.push((*seconds, *bytes)),
            }
        }
        // Their errors and coverage do not add up, so spans are left out.
        self.age_seconds = self.age_seconds.max(other.age_seconds);
        self.look_age_seconds = self.look_age_seconds.max(other.look_age_seconds);
    }
}
