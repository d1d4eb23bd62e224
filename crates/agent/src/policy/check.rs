//! Checks a policy against the machine, for errors that cannot be seen in the file alone.
//!
//! The machine is a trait, so that this can be tested without a real one. A policy that did not
//! come from a file is also checked for harmful values that the reader would have refused.

use std::collections::BTreeSet;
use std::fmt;

use isotherm_act::apply::{Reclaim, ReclaimFrom};
use isotherm_core::Scheme;
use isotherm_core::scheme::{Action, FilterKind, Metric, WatermarkMetric};
use isotherm_host::glob::is_glob;
use isotherm_ops::support::SetName;
use isotherm_ops::targets::Memory;

use super::{ContextPolicy, Engine, Policy, SchemePolicy, TargetSpec};

/// Why the machine cannot do something, and what to do about it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Lack {
    /// The cause.
    pub why: String,
    /// What to do; can be empty.
    pub hint: String,
}

/// The questions to a machine. Each is asked once for each policy, context or scheme that needs it.
pub trait Machine {
    /// Whether a process can be a target.
    ///
    /// # Errors
    ///
    /// If there is no such process, or it cannot be a target.
    fn process(&mut self, pid: u32) -> Result<(), Lack>;

    /// Whether there is a cgroup (v2) with this path.
    ///
    /// # Errors
    ///
    /// If there is none.
    fn cgroup(&mut self, path: &str) -> Result<(), Lack>;

    /// Whether there is this physical memory.
    ///
    /// # Errors
    ///
    /// If there is none.
    fn memory(&mut self, memory: &Memory) -> Result<(), Lack>;

    /// Whether there is a node of this number that has memory.
    ///
    /// # Errors
    ///
    /// If there is none.
    fn node(&mut self, node: u32) -> Result<(), Lack>;

    /// Whether a metric can be measured; `cgroups` are the paths that it names by number.
    ///
    /// # Errors
    ///
    /// If it cannot.
    fn metric(&mut self, metric: Metric, cgroups: &[String]) -> Result<(), Lack>;

    /// Whether an action can have any effect (pageout needs swap).
    ///
    /// # Errors
    ///
    /// If it cannot.
    fn action(&mut self, action: Action) -> Result<(), Lack>;
}

/// Something that a policy asks for and the machine does not have.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unmet {
    /// The context.
    pub context: String,
    /// The scheme; none: the context itself.
    pub scheme: Option<String>,
    /// What was asked for.
    pub what: String,
    /// Why it cannot be had.
    pub lack: Lack,
}

impl fmt::Display for Unmet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "context `{}`", self.context)?;
        if let Some(scheme) = &self.scheme {
            write!(f, ", scheme `{scheme}`")?;
        }
        write!(f, ": {}\n  why:   {}", self.what, self.lack.why)?;
        if self.lack.hint.is_empty() { Ok(()) } else { write!(f, "\n  hint:  {}", self.lack.hint) }
    }
}

impl std::error::Error for Unmet {}

/// Checks a policy against a machine.
///
/// # Errors
///
/// Everything that the policy asks for and the machine does not have.
pub fn check(policy: &Policy, machine: &mut dyn Machine) -> Result<(), Vec<Unmet>> {
    let mut check =
        Check { machine, context: "", scheme: None, in_kernel: false, unmet: Vec::new() };
    for context in &policy.contexts {
        check.context(context);
    }
    if check.unmet.is_empty() { Ok(()) } else { Err(check.unmet) }
}

struct Check<'a> {
    machine: &'a mut dyn Machine,
    context: &'a str,
    scheme: Option<&'a str>,
    /// Whether the schemes may run in the kernel, which does not need the targets to call
    /// `madvise`.
    in_kernel: bool,
    unmet: Vec<Unmet>,
}

impl<'a> Check<'a> {
    fn need(&mut self, answer: Result<(), Lack>, what: impl FnOnce() -> String) {
        if let Err(lack) = answer {
            let scheme = self.scheme.map(str::to_owned);
            self.unmet.push(Unmet { context: self.context.to_owned(), scheme, what: what(), lack });
        }
    }

    fn refuse(&mut self, what: &str, why: &str, hint: &str) {
        let lack = Lack { why: why.to_owned(), hint: hint.to_owned() };
        self.need(Err(lack), || what.to_owned());
    }

    fn context(&mut self, context: &'a ContextPolicy) {
        (self.context, self.scheme) = (&context.name, None);
        if context.targets.is_empty() {
            let hint = "targets = [{ pid = 4711 }], or a target on the command line";
            self.refuse("no target", "neither the policy nor the command line names one", hint);
        }
        if let Err(e) = context.attrs.validate() {
            self.refuse("impossible attributes", &e.to_string(), "");
        }
        for target in &context.targets {
            match target {
                TargetSpec::Pid(pid) => {
                    let answer = self.machine.process(*pid);
                    self.need(answer, || format!("target pid {pid}"));
                }
                // Cgroups that match may come later.
                TargetSpec::Cgroup(path) if is_glob(path) => {}
                TargetSpec::Cgroup(path) => {
                    let answer = self.machine.cgroup(path);
                    self.need(answer, || format!("target cgroup {path}"));
                }
                TargetSpec::Memory(memory) => {
                    let answer = self.machine.memory(memory);
                    self.need(answer, || format!("target paddr {memory}"));
                }
                // Such processes may start later, so there is nothing to check.
                TargetSpec::Name(_)
                | TargetSpec::Unit(_)
                | TargetSpec::Pod(_)
                | TargetSpec::Container(_)
                | TargetSpec::User(_)
                | TargetSpec::Rss(_)
                | TargetSpec::Command(_) => {}
            }
        }
        self.in_kernel =
            context.ops == Some(SetName::Kdamond) && context.engine != Engine::Isotherm;
        for scheme in &context.schemes {
            self.scheme = Some(&scheme.settings.name);
            self.scheme(scheme);
        }
    }

    fn scheme(&mut self, SchemePolicy { scheme, settings }: &SchemePolicy) {
        let answer = self.machine.action(scheme.action);
        self.need(answer, || format!("action `{}`", scheme.action.name()));
        let by_itself = matches!(scheme.action, Action::Hugepage | Action::Nohugepage);
        if by_itself && !settings.inject && !self.in_kernel {
            let what = format!("action `{}` without `inject`", scheme.action.name());
            let why = "only a process itself may ask for it, so it has to be stopped for a moment";
            self.refuse(&what, why, "allow that, or use `collapse`, which needs no stop");
        }
        for node in nodes(scheme) {
            let answer = self.machine.node(node);
            self.need(answer, || format!("node {node}"));
        }
        let filtered = scheme.filters.ops.iter().filter_map(|filter| match filter.kind {
            FilterKind::Memcg(number) => Some(number),
            _ => None,
        });
        for number in filtered.collect::<BTreeSet<_>>() {
            let path = usize::try_from(number).ok().and_then(|at| settings.cgroups.get(at));
            if let Some(path) = path {
                let answer = self.machine.cgroup(path);
                self.need(answer, || format!("filter memcg {path}"));
            }
        }
        if let Some(Reclaim { from: ReclaimFrom::Path(path), .. }) = &settings.memory_reclaim {
            let answer = self.machine.cgroup(path);
            self.need(answer, || format!("memory_reclaim {path}"));
        }
        for goal in &scheme.quota.goals {
            // Isotherm measures these itself on any machine.
            if !matches!(goal.metric, Metric::UserInput | Metric::RefaultBp) {
                let answer = self.machine.metric(goal.metric, &settings.cgroups);
                self.need(answer, || format!("metric `{}`", goal.metric.name()));
            }
        }
        if scheme.watermarks.metric == WatermarkMetric::FreeMemRate {
            let answer = self.machine.metric(Metric::FreeMemRate, &settings.cgroups);
            self.need(answer, || "watermark metric `free_mem_rate`".to_owned());
        }
    }
}

/// The nodes that a scheme moves memory to and from. The nodes of goals are checked with their
/// metrics.
fn nodes(scheme: &Scheme) -> BTreeSet<u32> {
    let weighted = scheme.dests.iter().filter(|dest| dest.weight > 0).map(|dest| dest.nid);
    let alone = if scheme.dests.is_empty() { scheme.target_nid } else { None };
    weighted.chain(alone).chain(scheme.source_nid).collect()
}
