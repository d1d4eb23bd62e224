//! What clients are shown of a policy: the types of the interface, from those of the runner.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Instant;

use isotherm_agent::groups::Group;
use isotherm_agent::run::{Seen, Standing, Summary};
use isotherm_control::types;
use isotherm_core::{Touched, TouchedBytes};

use super::hold;
use crate::state::Wanted;

/// What clients are shown of a policy.
#[derive(Debug, Default)]
pub(crate) struct Shown {
    pub(crate) state: types::State,
    pub(crate) file: Option<PathBuf>,
    /// Why it does not run as wanted.
    pub(crate) why: Option<String>,
    /// How many times in a row it failed.
    pub(crate) tries: u32,
    pub(crate) retry_at: Option<Instant>,
    /// How many commits it took.
    pub(crate) commits: u64,
    /// The values of what is tuned online.
    pub(crate) tuned: Option<String>,
    pub(crate) contexts: Vec<types::Context>,
    pub(crate) accounts: Vec<types::Account>,
    /// What the cgroups of each context use.
    pub(crate) cgroups: BTreeMap<String, Vec<types::Cgroup>>,
    /// How much memory each context watches, in bytes.
    pub(crate) watched: BTreeMap<String, u64>,
    /// Contexts that are kept from more targets than they watch, and why.
    pub(crate) denied: BTreeMap<String, String>,
    /// The budget that each context asks for, in basis points.
    pub(crate) asked: BTreeMap<String, u32>,
    /// Contexts that were paused or stopped one by one.
    pub(crate) of_contexts: BTreeMap<String, Wanted>,
    /// What keeps it from acting, and why; none if nothing does.
    pub(crate) held: Option<(&'static str, String)>,
    /// The text in force.
    pub(crate) text: String,
    /// Whether it was tried for the first time.
    pub(crate) tried: bool,
}

impl Shown {
    /// As the interface has it.
    pub(crate) fn policy(&self, name: &str) -> types::Policy {
        let left = self.retry_at.map(|at| at.saturating_duration_since(Instant::now()));
        types::Policy {
            name: name.to_owned(),
            state: self.state,
            file: self.file.as_ref().map(|path| path.display().to_string()),
            why: self.why.clone(),
            tries: u64::from(self.tries),
            retry_ms: left.map(|left| u64::try_from(left.as_millis()).unwrap_or(u64::MAX)),
            commits: self.commits,
            tuned: self.tuned.clone(),
            held: hold::shown(self.held.as_ref()),
            contexts: self.all_contexts(),
        }
    }

    /// Why the policy does not run although it should, for people; none: it does, or should not.
    pub(crate) fn lacking(&self, name: &str) -> Option<String> {
        let why = self.why.as_deref().unwrap_or("the reason is not known");
        match self.state {
            types::State::Paused | types::State::Stopped => None,
            types::State::Running => self.unseen(name),
            types::State::Starting => Some(format!("policy `{name}` is being started")),
            types::State::Waiting => Some(format!("policy `{name}` does not run: {why}")),
            types::State::Invalid => Some(why.to_owned()),
        }
    }

    /// What a policy that runs does not see, for people.
    fn unseen(&self, name: &str) -> Option<String> {
        if let Some((context, why)) = self.denied.first_key_value() {
            return Some(format!("policy `{name}`, context `{context}`: {why}"));
        }
        // Nothing is known before the first summary.
        let is_new = |c: &types::Context| !self.watched.contains_key(&c.name);
        (self.contexts.is_empty() || self.contexts.iter().any(is_new))
            .then(|| format!("policy `{name}`: no window is over yet"))
    }

    /// The contexts with the state of each, also those that are stopped.
    fn all_contexts(&self) -> Vec<types::Context> {
        let of = |name: &str| match self.of_contexts.get(name) {
            Some(Wanted::Paused) => types::State::Paused,
            Some(Wanted::Stopped) => types::State::Stopped,
            _ => self.state,
        };
        let mut all = self.contexts.clone();
        if matches!(self.state, types::State::Running | types::State::Paused) {
            let missing =
                self.of_contexts.keys().filter(|n| self.contexts.iter().all(|c| c.name != **n));
            all.extend(missing.map(|n| types::Context { name: n.clone(), ..Default::default() }));
        }
        for context in &mut all {
            context.state = Some(of(&context.name));
        }
        all
    }

    /// The context of this name; a new one if there is none.
    pub(super) fn context(&mut self, name: &str) -> &mut types::Context {
        let at = self.contexts.iter().position(|c| c.name == name).unwrap_or_else(|| {
            self.contexts.push(types::Context { name: name.to_owned(), ..Default::default() });
            self.contexts.len() - 1
        });
        &mut self.contexts[at]
    }

    /// Takes in what a context tells once per second.
    pub(super) fn note(&mut self, policy: &str, context: &str, summary: &Summary) {
        let shown = self.context(context);
        shown.targets = summary.nr_targets as u64;
        shown.waiting = summary.nr_waiting as u64;
        shown.longest_wait_ns = summary.longest_wait_ns;
        shown.regions = summary.nr_regions as u64;
        shown.working_set_bytes = summary.working_set;
        shown.sample_us = summary.sample_us;
        shown.aggr_us = summary.aggr_us;
        shown.budget_bp = u64::from(summary.effort.budget_bp);
        shown.cpu_ns = summary.cpu_ns;
        shown.blocked.clone_from(&summary.blocked);
        let watched = summary.idle.iter().map(|(_, bytes)| bytes).sum();
        self.watched.insert(context.to_owned(), watched);
        let nr_seen = summary.nr_targets.saturating_sub(summary.nr_denied);
        match &summary.denied {
            Some(why) if summary.nr_denied > nr_seen => {
                let all = summary.nr_targets.max(summary.nr_denied);
                let of = format!("{} of {all} processes", summary.nr_denied);
                self.denied.insert(context.to_owned(), format!("{of} are not watched\n{why}"));
            }
            _ => drop(self.denied.remove(context)),
        }
        let groups = summary.groups.iter();
        let groups = groups.map(|group| cgroup(policy, context, group, &summary.spans_us));
        self.cgroups.insert(context.to_owned(), groups.collect());
        self.accounts.retain(|account| account.context != context);
        self.accounts.extend(summary.schemes.iter().map(|standing| account(policy, standing)));
    }

    /// Forgets a context that has ended.
    pub(super) fn forget(&mut self, context: &str) {
        self.contexts.retain(|c| c.name != context);
        self.watched.remove(context);
        self.denied.remove(context);
        self.cgroups.remove(context);
        for account in self.accounts.iter_mut().filter(|a| a.context == context) {
            account.active = false;
        }
    }
}

fn account(policy: &str, standing: &Standing) -> types::Account {
    let a = &standing.account;
    types::Account {
        policy: policy.to_owned(),
        context: a.context.clone(),
        name: a.name.clone(),
        action: a.action.to_owned(),
        active: standing.active,
        dry_run: a.dry_run,
        blocked: a.blocked.clone(),
        windows: a.windows,
        tried_bytes: a.tried_bytes,
        asked_bytes: a.asked_bytes,
        done_bytes: a.done_bytes,
        refused_bytes: a.refused_bytes,
        refaulted_bytes: a.refaulted_bytes,
        pretended_bytes: a.pretended_bytes,
        confirmed_bytes: a.confirmed_bytes,
        refuted_bytes: a.refuted_bytes,
        quota_exceeds: a.quota_exceeds,
        action_ns: a.action_ns,
    }
}

/// How much was touched within each span (in µs), as the interface has it.
fn touched(of: Option<&Touched>, spans_us: &[u64]) -> Vec<types::Touched> {
    let spans = of.into_iter().flat_map(|of| of.spans.into_iter().zip(spans_us));
    let one = |(touched, span_us): (Option<TouchedBytes>, &u64)| {
        let TouchedBytes { bytes, lo, hi, measured } = touched?;
        let span_ns = span_us.saturating_mul(1000);
        Some(types::Touched { span_ns, bytes, lo, hi, measured_bytes: measured })
    };
    spans.filter_map(one).collect()
}

fn cgroup(policy: &str, context: &str, group: &Group, spans_us: &[u64]) -> types::Cgroup {
    let idle = group.idle.iter();
    types::Cgroup {
        policy: policy.to_owned(),
        context: context.to_owned(),
        cgroup: group.cgroup.clone(),
        processes: group.processes as u64,
        waiting: group.waiting as u64,
        hot_bytes: group.tiers.hot,
        warm_bytes: group.tiers.warm,
        cold_bytes: group.tiers.cold,
        unresolved_bytes: group.tiers.unresolved,
        working_set_bytes: group.working_set,
        touched: touched(group.touched.as_ref(), spans_us),
        idle: idle.map(|&(idle_ms, bytes)| types::Idle { idle_ms, bytes }).collect(),
        look_age_ns: group.look_age_ns,
        watched_ns: Some(group.watched_ns),
    }
}

/// A snapshot as the interface has it.
pub(crate) fn snapshot(policy: &str, seen: &Seen) -> types::Snapshot {
    let Seen { context, ops, snapshot, targets, attrs } = seen;
    let spans = snapshot.spans_us();
    let of_target = |info: &isotherm_core::TargetInfo| {
        let target = targets.iter().find(|target| target.id == info.id);
        types::Target {
            pid: target.map_or(0, |target| u64::from(target.pid)),
            name: target.map(|target| target.name.clone()).unwrap_or_default(),
            watched_bytes: info.regions.iter().map(|region| region.range.len()).sum(),
            touched: touched(info.touched.as_ref(), &spans),
            regions: info.regions.iter().map(region).collect(),
        }
    };
    let known: Vec<types::Target> = snapshot.targets.iter().map(of_target).collect();
    // Those of which no window has told anything yet.
    let new = targets.iter().filter(|t| snapshot.targets.iter().all(|info| info.id != t.id));
    let new = new.map(|target| types::Target {
        pid: u64::from(target.pid),
        name: target.name.clone(),
        watched_bytes: 0,
        touched: Vec::new(),
        regions: Vec::new(),
    });
    types::Snapshot {
        policy: policy.to_owned(),
        context: context.clone(),
        ops: (*ops).to_owned(),
        method: attrs.method.name().to_owned(),
        seq: snapshot.seq,
        sample_us: snapshot.sample_us,
        aggr_us: snapshot.aggr_us,
        start_ns: snapshot.start.as_ns(),
        end_ns: snapshot.end.as_ns(),
        max_nr_accesses: u64::from(snapshot.max_nr_accesses),
        working_set_bytes: snapshot.in_use(),
        targets: known.into_iter().chain(new).collect(),
    }
}

fn region(region: &isotherm_core::RegionInfo) -> types::Region {
    types::Region {
        start: region.range.start,
        end: region.range.end,
        nr_accesses: u64::from(region.nr_accesses),
        age: u64::from(region.age),
        lo: region.lo,
        hi: region.hi,
        resolved: region.resolved,
    }
}
